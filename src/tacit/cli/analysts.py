"""``tacit analysts``: who may ask, and how much of a budget each of them may spend. Nobody is ever deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.operators import OperatorOption, operator_name
from tacit.cli.printing import JsonFlag, console, print_json
from tacit.cli.project import DEFAULT_PROJECT, ProjectOption, opened
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.ledger import Ledger

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Who may ask, and how much of a budget each of them may spend.")

_Name = Annotated[str, typer.Argument(help="Of the analyst.", show_default=False)]
_Population = Annotated[str | None, typer.Option(help="Whose budget; may be left out where there is one.")]
_Epsilon = Annotated[str | None, typer.Option(help="The most epsilon they may spend.")]
_Delta = Annotated[str | None, typer.Option(help="The most delta.")]
_Rho = Annotated[str | None, typer.Option(help="The most rho, for zcdp accounts.")]
_Cap = Annotated[list[str] | None, typer.Option(help="The most of any currency of the account: 'mu squared=1'.")]


@app.command()
def add(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    population: _Population = None,
    epsilon: _Epsilon = None,
    delta: _Delta = None,
    rho: _Rho = None,
    cap: _Cap = None,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Let somebody ask, within a share of the budget if one is stated.

    The whole budget still limits everybody together.

    tacit analysts add alice --epsilon 1
    """
    with reported("name", as_json=as_json), opened(project) as curator:
        caps = _caps(epsilon, delta, rho, cap)
        who = operator_name(operator)
        whose = _population(curator, population) if caps or population else None
        curator.ledger.add_analyst(name, operator=who)
        name = _known(curator.ledger, name)
        if whose is not None and caps:
            curator.ledger.set_quota(whose, caps, analyst=name, operator=who)
        _tell(curator, name, as_json)


@app.command()
def grant(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    population: _Population = None,
    epsilon: _Epsilon = None,
    delta: _Delta = None,
    rho: _Rho = None,
    cap: _Cap = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="No share of their own any more.")] = False,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Change what an analyst may spend in all, counting what they have spent already.

    tacit analysts grant alice --epsilon 1.5
    """
    with reported("name", as_json=as_json), opened(project) as curator:
        caps = _caps(epsilon, delta, rho, cap)
        if bool(caps) == unlimited:
            raise InputError("epsilon", "say how much they may spend, or --unlimited")
        name = _known(curator.ledger, name)
        whose = _population(curator, population)
        curator.ledger.set_quota(whose, caps or None, analyst=name, operator=operator_name(operator))
        _tell(curator, name, as_json)


@app.command()
def revoke(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    reason: Annotated[str, typer.Option(help="Why; it is written down.")] = "",
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Refuse an analyst from now on. What they spent stays spent; `add` admits them again."""
    with reported("name", as_json=as_json), opened(project) as curator:
        name = _known(curator.ledger, name)
        curator.ledger.revoke_analyst(name, operator=operator_name(operator), reason=reason)
        _tell(curator, name, as_json)


@app.command(name="list")
def list_(project: ProjectOption = DEFAULT_PROJECT, as_json: JsonFlag = False) -> None:
    """List everyone who was ever registered, what they spent and what they may spend."""
    with reported(as_json=as_json), opened(project) as curator:
        told = [_about(curator, analyst.name) for analyst in curator.ledger.analysts()]
        if as_json:
            print_json({"analysts": told})
        elif told:
            _show(curator, [one["name"] for one in told])
        else:
            console().print("Nobody is registered. tacit analysts add NAME --epsilon 1", markup=False)


def _caps(epsilon: str | None, delta: str | None, rho: str | None, cap: list[str] | None) -> dict[str, str]:
    caps = {name: said for name, said in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if said is not None}
    for text in cap or []:
        name, equals, amount = text.rpartition("=")
        if not equals or not name.strip():
            raise InputError("cap", f"must be currency=amount, got {text!r}")
        caps[name.strip()] = amount.strip()
    return caps


def _population(curator: Curator, said: str | None) -> str:
    from tacit.ledger.entries import plain_name

    names = curator.ledger.accounts()
    if said is None and len(names) == 1:
        return names[0]
    if said is None or plain_name(said, "population") not in names:
        raise InputError("population", f"must be one of {', '.join(names)}")
    return said


def _known(ledger: Ledger, name: str) -> str:
    """The name as the ledger spells it."""
    from tacit.ledger.entries import plain_name

    names = [analyst.name for analyst in ledger.analysts()]
    spelled = plain_name(name, "name")
    if spelled not in names:
        raise InputError("name", f"nobody is registered as {name!r}; there are {', '.join(names) or 'none'}")
    return spelled


def _about(curator: Curator, name: str) -> dict[str, Any]:
    from tacit.cli.answers import lines_json

    analyst = next(one for one in curator.ledger.analysts() if one.name == name)
    shares = []
    for population in curator.ledger.accounts():
        share = curator.ledger.budget(population, analyst=name).balances[1]
        shares.append({"population": population, "limited": share.limited, "currencies": lines_json(share.lines)})
    return {"name": analyst.name, "active": analyst.active, "shares": shares}


def _tell(curator: Curator, name: str, as_json: bool) -> None:
    if as_json:
        print_json(_about(curator, name))
    else:
        _show(curator, [name])


def _show(curator: Curator, names: list[str]) -> None:
    from rich.text import Text

    from tacit.cli.budget import budget_table

    screen = console()
    for analyst in curator.ledger.analysts():
        if analyst.name not in names:
            continue
        state = ("may ask", "green") if analyst.active else ("revoked", "red")
        screen.print(Text.assemble((analyst.name, "bold"), ": ", state))
        for population in curator.ledger.accounts():
            share = curator.ledger.budget(population, analyst=analyst.name).balances[1]
            words = population if share.limited else f"{population} (no share of their own)"
            screen.print(budget_table([(words, share.lines)]))
