"""The command line: argument handling and printing only, one file per command group, loaded when it is called.

Modules:
* :mod:`.analysts` — ``tacit analysts``: register analysts, their roles, their shares of a budget and their tokens
* :mod:`.audit` — ``tacit audit``: check the claims of Tacit, or those of a project; ``tacit attack``: why
* :mod:`.common` — What all commands share: options, opening of a project or of its ledger, printing, errors and exit
  codes
* :mod:`.course` — ``tacit course``: chapters, the answer sheet, and the check of answers
* :mod:`.demo` — ``tacit demo``: the story of an example hospital
* :mod:`.doctor` — ``tacit doctor``: check a project, one line per check, with the remedy where one fails
* :mod:`.init` — ``tacit init``: from data files, or tables of a PostgreSQL, to a commented project file; or in the
  browser
* :mod:`.ledger` — ``tacit ledger``: verify, read and operate the ledger
* :mod:`.query` — ``tacit query``, ``explain``, ``budget`` and ``plan``: ask, see the cost first, see what is left
* :mod:`.receipt` — ``tacit receipt``: verify, show and export receipts and public keys
* :mod:`.release` — ``tacit release``, ``synth`` and ``profile``: publish planned statistics, a synthetic table, what a
  table holds
* :mod:`.serve` — ``tacit serve``: run the HTTP API and the console; ``tacit mcp``
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, Final

import typer

__all__ = ["command_line", "main", "script"]

#: The module of each command, in the order of the help; a group of commands is the ``app`` of its module.
_MODULES: Final = {
    "demo": "demo",
    "init": "init",
    "query": "query",
    "explain": "query",
    "budget": "query",
    "deliver": "release",
    "release": "release",
    "measure": "release",
    "plan": "query",
    "profile": "release",
    "synth": "release",
    "mcp": "serve",
    "audit": "audit",
    "attack": "audit",
    "doctor": "doctor",
    "serve": "serve",
    "analysts": "analysts",
    "course": "course",
    "ledger": "ledger",
    "receipt": "receipt",
}


def command_line(*names: str) -> typer.Typer:
    """The ``tacit`` command with some of its subcommands, by default all: one alone is ready in half the time."""
    app = typer.Typer(
        name="tacit",
        help="A differentially private curator: exact noise, honest error bars, and an account of every person's "
        "privacy.",
        no_args_is_help=True,
        add_completion=False,
        # Plain: boxes and markdown take twice the time of everything else in a page of help.
        rich_markup_mode=None,
        context_settings={"max_content_width": 120},
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in names or _MODULES:
        module: Any = import_module(f"tacit.cli.{_MODULES[name]}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
            continue
        # Containers and services are set up by their environment: each option of serve is read from there as well.
        settings = {"auto_envvar_prefix": "TACIT_SERVE"} if name == "serve" else None
        app.command(context_settings=settings)(getattr(module, name))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from tacit import __version__

        typer.echo(f"tacit {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Answer queries about a population without revealing individuals."""


def main() -> None:
    """Run ``tacit``; every failure becomes one line and an exit code, never a trace."""
    from tacit.cli.common import unexpected

    try:
        command_line(*(word for word in sys.argv[1:2] if word in _MODULES))()
    except Exception as problem:
        sys.exit(unexpected(problem))


def script() -> None:
    """Run ``tacit`` as a process of its own, which ends with the command.

    A command that asks loads seven hundred modules. Searching them for garbage meanwhile, and taking them apart at the
    end, would be a fifth of its processor time; when it returns, it has closed its files and its ledger.
    """
    if _MODULES.get("".join(sys.argv[1:2])) != "query":
        return main()
    gc.set_threshold(100_000)
    code: str | int | None = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else code is not None)
    # Whoever read the output has gone: the interpreter says so.
    sys.exit(code)
