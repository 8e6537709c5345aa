"""The command line: argument handling and printing only, one file per command group, loaded when it is called.

Modules:
* :mod:`.analysts` — ``tacit analysts``: register analysts, their roles, their shares of a budget and their tokens
* :mod:`.app` — The ``tacit`` command and its subcommands, none of which loads its machinery before it is called
* :mod:`.attack` — ``tacit attack``: show on one's own table why removing names, publishing statistics or sampling
  is not enough
* :mod:`.audit` — ``tacit audit``: check the claims of Tacit, or of anything else that can be called
* :mod:`.course` — ``tacit course``: chapters, the answer sheet, and the check of answers
* :mod:`.demo` — ``tacit demo``: the story of an example hospital
* :mod:`.doctor` — ``tacit doctor``: check a project, one line per check, with the remedy where one fails
* :mod:`.init` — ``tacit init``: from data files, or tables of a PostgreSQL, to a commented project file; or in the
  browser
* :mod:`.ledger` — ``tacit ledger``: verify, read and operate the ledger
* :mod:`.open_project` — Opening of a project, or of its ledger, for one command, with the operator's log
* :mod:`.plan` — ``tacit plan``: compute one of people, privacy, error and confidence from the other three
* :mod:`.profile` — ``tacit profile``: what a table holds that nobody has described
* :mod:`.query` — ``tacit query``, ``tacit explain``, ``tacit budget``: ask, see the price first, see what is left; and
  the prompt
* :mod:`.receipt` — ``tacit receipt``: verify, show and export receipts and public keys
* :mod:`.release` — ``tacit release``: publish a planned set of statistics under one total; ``tacit deliver``
* :mod:`.serve` — ``tacit serve``: run the HTTP API and the console; ``tacit mcp``
* :mod:`.synth` — ``tacit synth``: publish a synthetic table with its report and its receipt
* :mod:`.terminal` — Terminal output: colour and boxes for a terminal, plain text for a pipe, JSON for a program;
  errors and exit codes
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``tacit``; every failure becomes one line and an exit code, never a trace."""
    from tacit.cli.app import app
    from tacit.cli.terminal import unexpected

    try:
        app()
    except Exception as problem:
        sys.exit(unexpected(problem))
