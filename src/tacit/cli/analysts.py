"""``tacit analysts``: register analysts, their roles, their shares of a budget and their tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import (
    DEFAULT_PROJECT,
    JsonFlag,
    OperatorOption,
    ProjectOption,
    columns,
    console,
    opened,
    opened_ledger,
    operator_name,
    print_json,
    reported,
    say,
    tell,
)
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.project.project_template import read_project

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.ledger import Ledger
    from tacit.server.identity import Issued, People, Person, TokenInfo


_Name = Annotated[str, typer.Argument(help="Name of the person.", show_default=False)]


def token(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    expires: Annotated[str, typer.Option(help="When it ends: 12h, 30d, a date such as 2030-01-31, or never.")] = "90d",
    scope: Annotated[
        list[str] | None, typer.Option(help="ask, audit or admin; by default all that the person may do.")
    ] = None,
    label: Annotated[str, typer.Option(help="Purpose of the token.")] = "",
    share: Annotated[
        str | None,
        typer.Option(
            help="Most epsilon that all queries with the token may cost, of each budget; such a token may only ask."
        ),
    ] = None,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a token for a person's programs. It is shown once.

    tacit analysts token alice --expires 30d --label notebook

    tacit analysts token alice --label assistant --share 0.5
    """
    from tacit.server.identity import TokenScope

    with reported("name", as_json=as_json), _people(project) as people:
        until = moment_of(expires)
        try:
            scopes = [TokenScope(word) for word in scope] if scope else None
        except ValueError:
            raise InputError("scope", f"must be one of {', '.join(TokenScope)}") from None
        who = operator_name(operator)
        issued = people.issue(name, label=label, scopes=scopes, expires=until, operator=who, share=share)
        if as_json:
            ends = None if issued.expires is None else issued.expires.isoformat(timespec="seconds")
            stated = {"token": issued.text, "id": issued.id, "name": issued.name, "label": issued.label}
            print_json({**stated, "scopes": sorted(issued.scopes), "expires": ends, "share": issued.share})
        else:
            _show_issued(issued)


def tokens(
    name: Annotated[str | None, typer.Argument(help="Name of the person; by default all.", show_default=False)] = None,
    project: ProjectOption = DEFAULT_PROJECT,
    as_json: JsonFlag = False,
) -> None:
    """List tokens: whose, what for, until when, and the day each was last used. The tokens themselves are not kept."""
    with reported("name", as_json=as_json), _people(project) as people:
        found = people.tokens(name)
        if as_json:
            print_json(
                {
                    "tokens": [
                        {
                            **asdict(one),
                            "scopes": sorted(one.scopes),
                            "issued": _iso(one.issued),
                            "expires": _iso(one.expires),
                        }
                        for one in found
                    ]
                }
            )
        elif found:
            _show_tokens(found)
        else:
            say("There are no tokens. tacit analysts token NAME makes one.")


def withdraw(
    token: Annotated[str, typer.Argument(help="Its id, as `tacit analysts tokens` shows it.", show_default=False)],
    project: ProjectOption = DEFAULT_PROJECT,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """End a token at once and for good."""
    with reported("token", as_json=as_json), _people(project) as people:
        people.withdraw(token, operator=operator_name(operator))
        words = f"The token {token} was withdrawn and works no longer."
        tell({"id": token, "withdrawn": True}, words, as_json=as_json)


def link(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a link by which a person signs in to the console, once, within three days."""
    with reported("name", as_json=as_json), _people(project) as people:
        path = f"/console/link/{people.link(name, operator=operator_name(operator))}"
        if as_json:
            print_json({"name": name, "path": path, "days": 3})
            return
        say("Put this behind the address of your server and give it to this person alone:")
        say(f"\n  {path}\n", whole=True)
        say("It works once, within three days. A new link ends it.")


def people_of(ledger: Ledger, project: Path) -> People:
    """The people of a project whose ledger is open."""
    from tacit.ledger.memory import MEMORY
    from tacit.project.project_file import load
    from tacit.server.identity import People

    loaded = load(project)
    return People.open(ledger, loaded.ledger or MEMORY)


def moment_of(text: str) -> datetime | None:
    said = text.strip().lower()
    if said == "never":
        return None
    if found := re.fullmatch(r"([0-9]{1,5})([hd])", said):
        return datetime.now(UTC) + timedelta(**{{"h": "hours", "d": "days"}[found[2]]: int(found[1])})
    try:
        moment = datetime.fromisoformat(said.upper())
    except ValueError:
        raise InputError("expires", f"must be like 12h, 30d, 2030-01-31 or never, got {text[:40]!r}") from None
    return moment if moment.tzinfo is not None else moment.astimezone()


def _show_issued(issued: Issued) -> None:
    """A new token, and what to do with it."""
    say(f"A token for {issued.name}. It is shown now and never again:")
    say(f"\n  {issued.text}\n", whole=True)
    ends = "does not end by itself" if issued.expires is None else f"ends on {issued.expires:%Y-%m-%d %H:%M %Z}"
    say(f"It may {_words(issued.scopes)} and {ends}.")
    if issued.share is not None:
        say(f"All its charges together are at most epsilon {issued.share}, of each population; that cannot be changed.")
    say("The server takes every holder of the token for this person: hand it over privately.")
    say("In Python: tacit.connect(address, token). Over HTTP: Authorization: Bearer <token>.")
    say(f"To end it: tacit analysts withdraw {issued.id}")


@contextmanager
def _people(project: Path) -> Iterator[People]:
    with opened_ledger(project) as ledger, people_of(ledger, project) as people:
        yield people


def _show_tokens(found: tuple[TokenInfo, ...]) -> None:
    rows = []
    for one in found:
        used = "never" if one.used is None else one.used.isoformat()
        share = "" if one.share is None else f"epsilon {one.share}"
        rows.append((one.id, one.name, one.label, _words(one.scopes), share, _state(one), used))
    console().print(columns(rows, ("id", "whose", "for", "may", "share", "state", "last used")))


def _state(one: TokenInfo) -> str:
    if one.withdrawn:
        return "withdrawn"
    if one.expires is None:
        return "does not end"
    return f"{'until' if one.alive else 'ended'} {one.expires:%Y-%m-%d}"


def _words(scopes: frozenset[Any]) -> str:
    return ", ".join(sorted(scopes))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


app = typer.Typer(no_args_is_help=True, help="Analysts, their roles and their shares of a budget.")
for command in (token, tokens, withdraw, link):
    app.command()(command)


class _Role(StrEnum):
    """Values of ``--role``: those of the server, without importing it."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"


_Population = Annotated[str | None, typer.Option(help="Population of the budget; may be left out where there is one.")]
_Epsilon = Annotated[
    str | None,
    typer.Option(help="Most epsilon they may spend; converted and rounded down where the account counts rho."),
]
_Delta = Annotated[str | None, typer.Option(help="Most delta they may spend.")]
_Rho = Annotated[str | None, typer.Option(help="Most rho they may spend, for zcdp accounts.")]
_Cap = Annotated[
    list[str] | None, typer.Option(help="Most they may spend in another currency of the account: 'mu squared=1'.")
]


@app.command()
def add(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    role: Annotated[
        _Role | None, typer.Option(help="analyst: asks; owner: also decides about people; auditor: looks, never asks.")
    ] = None,
    population: Annotated[
        list[str] | None,
        typer.Option(help="Population that they may see, and whose budget is shared; may be given several times."),
    ] = None,
    all_populations: Annotated[
        bool, typer.Option("--all-populations", help="Let them see every population again.")
    ] = False,
    epsilon: _Epsilon = None,
    delta: _Delta = None,
    rho: _Rho = None,
    cap: _Cap = None,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Register a person who may ask, within a share of the budget if one is stated.

    The whole budget still limits all people together. A person who is registered already keeps role and populations
    where none are stated.

    tacit analysts add alice --epsilon 1
    """
    with reported("name", as_json=as_json), opened(project) as curator:
        caps = _caps(epsilon, delta, rho, cap)
        who = operator_name(operator)
        if population and all_populations:
            raise InputError("population", "name some, or say --all-populations")
        named = [_population(curator, one) for one in population or []]
        if caps and len(named) > 1:
            raise InputError("population", "state the share of each with `tacit analysts grant`")
        whose = _population(curator, named[0] if named else None) if caps else None
        shares = None if whose is None else _shares(curator, project, whose, caps)
        with people_of(curator.ledger, project) as people:
            person = _register(people, name, role, named, who, widen=all_populations)
            if shares is not None and whose is not None:
                curator.ledger.set_quota(whose, shares, analyst=person.name, operator=who)
        _tell(curator, person.name, as_json)


@app.command()
def grant(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    population: _Population = None,
    epsilon: _Epsilon = None,
    delta: _Delta = None,
    rho: _Rho = None,
    cap: _Cap = None,
    unlimited: Annotated[
        bool, typer.Option("--unlimited", help="Remove their share: only the whole budget limits them.")
    ] = False,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Change the share of an analyst: what they may spend in all, earlier spending included.

    tacit analysts grant alice --epsilon 1.5
    """
    with reported("name", as_json=as_json), opened(project) as curator:
        caps = _caps(epsilon, delta, rho, cap)
        if bool(caps) == unlimited:
            raise InputError("epsilon", "say how much they may spend, or --unlimited")
        name = _known(curator.ledger, name)
        whose = _population(curator, population)
        shares = _shares(curator, project, whose, caps) if caps else None
        curator.ledger.set_quota(whose, shares, analyst=name, operator=operator_name(operator))
        _tell(curator, name, as_json)


@app.command()
def revoke(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    reason: Annotated[str, typer.Option(help="Reason, kept in the ledger.")] = "",
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Refuse an analyst from now on: their tokens, sessions and links end. Their charges stay.

    `tacit analysts add` admits them again; then they need new tokens and a new link.
    """
    with reported("name", as_json=as_json), opened(project) as curator:
        name = _known(curator.ledger, name)
        with people_of(curator.ledger, project) as people:
            people.revoke(name, operator=operator_name(operator), reason=reason)
        _tell(curator, name, as_json)


@app.command(name="list")
def list_(project: ProjectOption = DEFAULT_PROJECT, as_json: JsonFlag = False) -> None:
    """List everyone who was ever registered, what they spent and what they may spend."""
    with reported(as_json=as_json), opened(project) as curator:
        told = [_about(curator, analyst.name, whole=True) for analyst in curator.ledger.analysts()]
        if as_json:
            print_json({"analysts": told})
        elif told:
            _show(curator, [one["name"] for one in told])
        else:
            say("No person is registered. tacit analysts add NAME --epsilon 1")


def _register(people: People, name: str, role: _Role | None, named: list[str], operator: str, *, widen: bool) -> Person:
    """Register a person with the stated role and populations; what is not stated stays as it was."""
    from tacit.server.identity import Role

    known = people.person(name)
    before = Role.ANALYST if known is None else known.role
    populations = named or (None if known is None or widen else known.populations)
    return people.add(name, before if role is None else Role(role), populations=populations, operator=operator)


def _caps(epsilon: str | None, delta: str | None, rho: str | None, cap: list[str] | None) -> dict[str, str]:
    caps = {name: said for name, said in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if said is not None}
    for text in cap or []:
        name, equals, amount = text.rpartition("=")
        if not equals or not name.strip():
            raise InputError("cap", f"must be currency=amount, got {text!r}")
        caps[name.strip()] = amount.strip()
    return caps


def _shares(curator: Curator, project: Path, population: str, caps: dict[str, str]) -> Mapping[str, Number]:
    """Return caps in the currency of the account; an epsilon is converted, with the delta of the project file."""
    from tacit.ledger.entries import plain_name
    from tacit.project.project_file import ProjectModel, validate
    from tacit.releases.accounts import share_caps

    models = validate(ProjectModel, read_project(project)).populations
    spelled = plain_name(population, "population")
    model = next((each for name, each in models.items() if plain_name(name, "population") == spelled), None)
    whole = model.delta if model is not None and model.epsilon is not None else None
    return share_caps(curator.ledger.filter(population), caps, delta=whole)


def _population(curator: Curator, said: str | None) -> str:
    from tacit.ledger.entries import plain_name

    names = curator.ledger.accounts()
    if said is None and len(names) == 1:
        return names[0]
    if said is None or plain_name(said, "population") not in names:
        raise InputError("population", f"must be one of {', '.join(names)}")
    return said


def _known(ledger: Ledger, name: str) -> str:
    from tacit.ledger.entries import plain_name

    names = [analyst.name for analyst in ledger.analysts()]
    spelled = plain_name(name, "name")
    if spelled not in names:
        raise InputError("name", f"no person is registered as {name!r}; there are {', '.join(names) or 'none'}")
    return spelled


def _about(curator: Curator, name: str, *, whole: bool = False) -> dict[str, Any]:
    """Describe a person: share of each budget; role and populations only where they are unusual, or with ``whole``."""
    from tacit.client.account_responses import LineResponse
    from tacit.server.identity.chain import person_of

    analyst = next(one for one in curator.ledger.analysts() if one.name == name)
    person = person_of(analyst)
    shares = []
    for population in curator.ledger.accounts():
        share = curator.ledger.budget(population, analyst=name).balances[1]
        currencies = [LineResponse.from_domain(line).plain() for line in share.lines]
        shares.append({"population": population, "limited": share.limited, "currencies": currencies})
    told: dict[str, Any] = {"name": analyst.name, "active": analyst.active, "shares": shares}
    if whole or person.role.value != _Role.ANALYST.value:
        told["role"] = person.role.value
    if whole or person.populations is not None:
        told["populations"] = None if person.populations is None else sorted(person.populations)
    return told


def _tell(curator: Curator, name: str, as_json: bool) -> None:
    if as_json:
        print_json(_about(curator, name))
    else:
        _show(curator, [name])


def _show(curator: Curator, names: list[str]) -> None:
    from rich.text import Text

    from tacit.cli.query import budget_table
    from tacit.releases.accounts import Budget
    from tacit.server.identity.chain import person_of

    screen = console()
    for analyst in curator.ledger.analysts():
        if analyst.name not in names:
            continue
        state = (_may(person_of(analyst)), "green") if analyst.active else ("revoked", "red")
        screen.print(Text.assemble((analyst.name, "bold"), ": ", state))
        for population in curator.ledger.accounts():
            account = Budget.of(curator.ledger.budget(population, analyst=analyst.name), durable=True)
            share = account.balances[1]
            words = population if share.limited else f"{population} (no share of their own)"
            screen.print(budget_table([(words, share.lines, account.epsilons[1])]))


def _may(person: Person) -> str:
    words = {"owner": "owner, may ask and decide about people", "auditor": "auditor, may look and not ask"}
    some = "" if person.populations is None else f" about {', '.join(sorted(person.populations)) or 'no population'}"
    return words.get(person.role, "may ask") + some
