"""An explanation as one page of HTML that needs nothing else."""

from powerctx_core.page.whole import page

__all__ = ["page"]
