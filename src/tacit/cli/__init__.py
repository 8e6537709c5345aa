"""The command line: argument handling and printing only, one file per command group, loaded when it is called."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``tacit``; whatever goes wrong is said in a line, with an exit code, and never as a trace."""
    from tacit.cli.app import app
    from tacit.cli.errors import unexpected

    try:
        app()
    except Exception as problem:
        sys.exit(unexpected(problem))
