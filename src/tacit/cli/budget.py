"""``tacit budget``: show what is spent, what is left, and how many more questions of a kind fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, AnalystOption, ProjectOption, opened
from tacit.cli.query_options import request_of, with_question_options
from tacit.cli.terminal import JsonFlag, console, print_json, say
from tacit.core.errors import InputError
from tacit.core.numbers import with_noun
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tacit.accounting.filters import Line
    from tacit.curator.curator import Curator
    from tacit.releases.accounts import Budget, EpsilonSpent


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
        with opened(project, analyst=analyst) as curator:
            if sql is not None:
                quote = curator.explain(sql, **price.options)
                if quote.is_public:
                    raise InputError(
                        "sql", "reads public tables alone and costs nothing: any number of such questions fit"
                    )
                accounts = [curator.budget(quote)]
            else:
                accounts = [curator.budget(population=name) for name in _populations(curator, population)]
            shown = {"", *(account.population for account in accounts)}
            waiting = [entry for entry in curator.undelivered() if entry.population in shown]
            decided = [each for each in curator.ledger.overrides() if each.population in shown]
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


def _populations(curator: Curator, wanted: str | None) -> list[str]:
    if wanted is not None:
        return [wanted]
    names = (table.table.population for table in curator.tables())
    return list(dict.fromkeys(name for name in names if name is not None))


def _bar(share: float, width: int = 20) -> str:
    filled = min(max(round(width * share), 1 if share > 0 else 0), width)
    return "█" * filled + "░" * (width - filled)
