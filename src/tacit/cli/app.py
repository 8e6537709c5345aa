"""The ``tacit`` command and its subcommands, none of which loads its machinery before it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli import analysts, course, ledger, receipt
from tacit.cli.attack import attack
from tacit.cli.audit import audit
from tacit.cli.demo import demo
from tacit.cli.doctor import doctor
from tacit.cli.init import init
from tacit.cli.plan import plan
from tacit.cli.profile import profile
from tacit.cli.query import budget, explain, query
from tacit.cli.release import deliver, measure, release
from tacit.cli.serve import mcp, serve
from tacit.cli.synth import synth

app = typer.Typer(
    name="tacit",
    help="A differentially private curator: exact noise, honest error bars, and an account of every person's privacy.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for command in (
    demo,
    init,
    query,
    explain,
    budget,
    deliver,
    release,
    measure,
    plan,
    profile,
    synth,
    mcp,
    audit,
    attack,
    doctor,
):
    app.command()(command)
# Containers and services are set up by their environment: each option of serve is read from there as well.
app.command(context_settings={"auto_envvar_prefix": "TACIT_SERVE"})(serve)
app.add_typer(analysts.app, name="analysts")
app.add_typer(course.app, name="course")
app.add_typer(ledger.app, name="ledger")
app.add_typer(receipt.app, name="receipt")


def _show_version(wanted: bool) -> None:
    if wanted:
        from tacit import __version__

        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Answer queries about a population without revealing individuals."""
