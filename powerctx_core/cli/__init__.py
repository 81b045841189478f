"""The ``powerctx`` program: one module for each group of commands, imported when one of them is run."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the program with the arguments of the process and exit: 0, 1 for a failed run, 2 for bad usage."""
    try:
        from powerctx_core.cli.program import program

        program.main(prog_name="powerctx")
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write('error: the command line needs click; install it with: pip install "powerctx-core[cli]"\n')
        sys.exit(1)
    except KeyboardInterrupt:  # before or after the program looks for it itself
        sys.exit(130)
