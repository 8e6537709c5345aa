"""The command line: argument handling and printing only, one file per command group, loaded when it is called.

Modules:
* :mod:`.analysts` — ``tacit analysts``: register analysts, their roles and their shares of a budget
* :mod:`.answer_output` — Answers and budgets as text, CSV, JSON and Parquet
* :mod:`.app` — The ``tacit`` command and its subcommands, none of which loads its machinery before it is called
* :mod:`.attack` — ``tacit attack``: show on one's own table why removing names, publishing statistics or sampling
  is not enough
* :mod:`.audit` — ``tacit audit``: check the claims of Tacit, or of anything else that can be called
* :mod:`.budget` — ``tacit budget``: show what is spent, what is left, and how many more questions of a kind fit
* :mod:`.course` — ``tacit course``: chapters, the answer sheet, and the check of answers
* :mod:`.deliver` — ``tacit deliver``: run what was paid for and never answered, under its charge
* :mod:`.demo` — ``tacit demo``: the story of an example hospital
* :mod:`.doctor` — ``tacit doctor``: check a project, one line per check, with the remedy where one fails
* :mod:`.errors` — Exit codes and messages for errors
* :mod:`.init` — ``tacit init``: from data files, or tables of a PostgreSQL, to a commented project file
* :mod:`.init_edit` — ``tacit init --edit``: the project file in the browser, on this machine alone
* :mod:`.init_prompts` — Prompts of ``tacit init``: types, unit, categories, bounds
* :mod:`.ledger` — ``tacit ledger``: verify, read and operate the ledger
* :mod:`.mcp` — ``tacit mcp``: let an AI assistant ask, within a share of the budget
* :mod:`.open_project` — Opening of a project for one command, with the operator's log
* :mod:`.operator_options` — Options shared by operator commands
* :mod:`.plan` — ``tacit plan``: compute one of people, privacy, error and confidence from the other three
* :mod:`.profile` — ``tacit profile``: what a table holds that nobody has described
* :mod:`.query` — ``tacit query`` and ``tacit explain``: ask a question, or see its price first
* :mod:`.query_options` — Options shared by ``query``, ``explain`` and ``budget``
* :mod:`.receipt` — ``tacit receipt``: verify, show and export receipts and public keys
* :mod:`.release` — ``tacit release``: publish a planned set of statistics under one total
* :mod:`.repl` — Interactive prompt of ``tacit query``: multi-line questions, price shown before payment
* :mod:`.serve` — ``tacit serve``: run the HTTP API and the console
* :mod:`.synth` — ``tacit synth``: publish a synthetic table with its report and its receipt
* :mod:`.terminal` — Terminal output: colour and boxes for a terminal, plain text for a pipe, JSON for a program
* :mod:`.tokens` — ``tacit analysts`` subcommands for tokens and one-time links
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``tacit``; every failure becomes one line and an exit code, never a trace."""
    from tacit.cli.app import app
    from tacit.cli.errors import unexpected

    try:
        app()
    except Exception as problem:
        sys.exit(unexpected(problem))
