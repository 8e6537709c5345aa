"""``tacit budget``: show what is spent, what is left, and how many more questions of a kind fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, check_registered, opened
from tacit.cli.query_options import request_of, with_question_options
from tacit.cli.terminal import JsonFlag, console, print_json, say
from tacit.core.errors import InputError
from tacit.core.numbers import with_noun
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tacit.accounting.filters import Line
    from tacit.ledger.operator_entries import Override
    from tacit.releases.accounts import Budget, Entry, EpsilonSpent

    _State = tuple[list[Budget], list[Entry], list[Override]]


@with_question_options
def budget(
    sql: Annotated[str | None, typer.Argument(help="A question, to count how many more like it fit.")] = None,
    project: ProjectOption = DEFAULT_PROJECT,
    population: Annotated[str | None, typer.Option(help="Which population's account; by default all.")] = None,
    options: Any = None,
    analyst: AnalystOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is spent and what is left of each population's budget.

    With a question and its price, also how many more such questions fit.

    tacit budget "SELECT COUNT(*) FROM visits" --epsilon 0.1
    """
    with reported("sql", as_json=as_json):
        price = request_of(options)
        if sql is None and price.is_priced:
            raise InputError("sql", "a price needs a question beside it")
        state = _read(project, population, analyst) if sql is None else None
        accounts, waiting, decided = state or _asked(project, population, analyst, sql, price.options)
    if as_json:
        from tacit.client.account_responses import BudgetResponse

        told = [BudgetResponse.of(account).plain() for account in accounts]
        positions = [entry.number for entry in waiting]
        print_json({"budgets": told, "overrides": [asdict(each) for each in decided], "undelivered": positions})
        return
    screen = console()
    for account in accounts:
        show_budget(screen, account)
    if waiting:
        say("Paid, not delivered (running, or their process ended):")
        lines = (f"{each.number} {each.text}: {' '.join(each.sql.split())}" for each in waiting)
        say(
            *(f"  {visible(line)}" for line in lines),
            "`tacit deliver --all` answers them under their charges.",
            whole=True,
        )
    say(*(f"Decided by an operator: {visible(str(each))}." for each in decided), style="yellow", whole=True)


def show_budget(screen: Console, account: Budget) -> None:
    """Print one account: a bar for each currency, the total and each share."""
    from rich.text import Text

    shares = [share for share in account.balances if share.limited or share is account.balances[0]]
    screen.print(Text.assemble((account.population, "bold"), f": at most {account.promise} for all answers together"))
    epsilons = dict(zip(map(id, account.balances), account.epsilons, strict=True))
    rows = ((share.owner if i else "total", share.lines, epsilons[id(share)]) for i, share in enumerate(shares))
    screen.print(budget_table(rows))
    if not account.durable:
        screen.print("Kept in memory: it ends with this process.")
    for sentence in account.cautions:
        screen.print(f"Caution: {sentence}", style="yellow", soft_wrap=True)
    if account.questions is not None:
        screen.print(f"{with_noun(account.questions, 'more such question fits', 'more such questions fit')}.")


def budget_table(rows: Iterable[tuple[str, Sequence[Line], EpsilonSpent | None]]) -> Table:
    """A bar for each owner and currency that has a cap; first for epsilon, where the account counts something else."""
    from rich.table import Table
    from rich.text import Text

    from tacit.core.numbers import format_up, round_down

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for owner, lines, epsilon in rows:
        if epsilon is not None:
            # As long as the share of the account: epsilon does not grow in proportion to charges.
            bar = _bar(float(lines[0].share))
            table.add_row(
                Text(owner),
                Text("epsilon"),
                Text(bar, style="green"),
                Text(str(epsilon)),
                Text(f"{epsilon.left} left", style="bold"),
            )
        for line in lines:
            if not line.cap:
                continue
            share = float(line.share)
            spent, cap, left = (format_up(round_down(n, 6)) for n in (line.cap - line.left, line.cap, line.left))
            table.add_row(
                Text(owner),
                Text(line.currency),
                Text(_bar(share), style="green" if share < 0.75 else "yellow" if share < 1 else "red"),
                Text(f"{spent} of {cap} spent"),
                Text(f"{left} left", style="bold"),
            )
    return table


def _asked(
    project: Path, population: str | None, analyst: str | None, sql: str | None, options: Mapping[str, Any]
) -> _State:
    """The accounts of an opened project; with a question, the one that it is charged to."""
    with opened(project, analyst=analyst) as curator:
        if sql is not None:
            quote = curator.explain(sql, **options)
            if quote.is_public:
                raise InputError("sql", "reads public tables alone and costs nothing: any number of such questions fit")
            accounts = [curator.budget(quote)]
        else:
            found = dict.fromkeys(each.table.population for each in curator.tables())
            names = [name for name in found if name is not None] if population is None else [population]
            accounts = [curator.budget(population=name) for name in names]
        shown = {"", *(account.population for account in accounts)}
        waiting = [entry for entry in curator.undelivered() if entry.population in shown]
        return accounts, waiting, [each for each in curator.ledger.overrides() if each.population in shown]


def _read(project: Path, population: str | None, analyst: str | None) -> _State | None:
    """The accounts as the ledger has them, in half the time: no data is opened. None where opening has more to say."""
    from tacit.cli.operator_options import find_ledger
    from tacit.ledger import Ledger
    from tacit.project.project_file import read_model
    from tacit.releases.accounts import OWNER, Budget, filter_of

    try:
        place, model = find_ledger(project), read_model(project)
    except InputError:
        return None
    stated = dict.fromkeys(table.population or "" for table in model.tables.values() if not table.public)
    if not place.is_file or not place.exists or not stated.keys() <= model.populations.keys():
        return None
    with Ledger.open(place.ledger, anchor=place.anchor, create=False) as ledger:
        names = list(stated) if population is None else [population]
        waiting = [each for each in ledger.history(project=model.project.name) if each.undelivered]
        if waiting or not {*names, *stated} <= {*ledger.accounts()}:
            return None
        for name in stated:
            ledger.ensure_account(name, filter_of(name, model.populations[name]))
        if analyst is not None:
            check_registered(ledger, analyst)
        found = [ledger.budget(name, analyst=analyst or OWNER, project=model.project.name) for name in names]
        decided = [each for each in ledger.overrides() if each.population in {"", *names}]
        return [Budget.of(each, durable=True) for each in found], [], decided


def _bar(share: float, width: int = 20) -> str:
    filled = min(max(round(width * share), 1 if share > 0 else 0), width)
    return "█" * filled + "░" * (width - filled)
