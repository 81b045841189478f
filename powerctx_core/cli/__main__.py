"""``python -m powerctx_core.cli`` is ``powerctx``."""

from powerctx_core.cli import main

main()
