"""The command line: argument handling and printing only, one file per command group, loaded when it is called."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run ``tacit``."""
    from tacit.cli.app import app

    app()
