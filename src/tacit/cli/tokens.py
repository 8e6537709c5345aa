"""``tacit analysts`` subcommands for tokens and one-time links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.errors import reported
from tacit.cli.open_project import DEFAULT_PROJECT, ProjectOption
from tacit.cli.operator_options import OperatorOption, opened_ledger, operator_name
from tacit.cli.terminal import JsonFlag, console, print_json, say, tell
from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.ledger import Ledger
    from tacit.server.identity import Issued, People, TokenInfo, TokenScope

_Name = Annotated[str, typer.Argument(help="Name of the person.", show_default=False)]
ShareOption = Annotated[
    str | None,
    typer.Option(
        help="Most epsilon that all questions with the token may cost, of each budget; such a token may only ask."
    ),
]
ExpiresOption = Annotated[
    str, typer.Option("--expires", help="When it ends: 12h, 30d, a date such as 2030-01-31, or never.")
]


def token(
    name: _Name,
    project: ProjectOption = DEFAULT_PROJECT,
    expires: ExpiresOption = "90d",
    scope: Annotated[
        list[str] | None, typer.Option(help="ask, audit or admin; by default all that the person may do.")
    ] = None,
    label: Annotated[str, typer.Option(help="Purpose of the token.")] = "",
    share: ShareOption = None,
    operator: OperatorOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a token for a person's programs. It is shown once.

    tacit analysts token alice --expires 30d --label notebook

    tacit analysts token alice --label assistant --share 0.5
    """
    with reported("name", as_json=as_json), _people(project) as people:
        until = moment_of(expires)
        scopes = _scopes(scope)
        who = operator_name(operator)
        issued = people.issue(name, label=label, scopes=scopes, expires=until, operator=who, share=share)
        if as_json:
            print_json(issued_json(issued))
        else:
            show_issued(issued)


def tokens(
    name: Annotated[str | None, typer.Argument(help="Name of the person; by default all.", show_default=False)] = None,
    project: ProjectOption = DEFAULT_PROJECT,
    as_json: JsonFlag = False,
) -> None:
    """List tokens: whose, what for, until when, and the day each was last used. The tokens themselves are not kept."""
    with reported("name", as_json=as_json), _people(project) as people:
        found = people.tokens(name)
        if as_json:
            print_json({"tokens": [_info_json(one) for one in found]})
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
    """Expiry in the words of ``--expires``."""
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


def issued_json(issued: Issued) -> dict[str, Any]:
    """A new token, with its text."""
    from tacit.client.people_responses import NewTokenResponse

    return NewTokenResponse.from_domain(issued, token=issued.text).plain()


def show_issued(issued: Issued) -> None:
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


def _scopes(said: list[str] | None) -> list[TokenScope] | None:
    from tacit.server.identity import TokenScope

    try:
        return [TokenScope(word) for word in said] if said else None
    except ValueError:
        raise InputError("scope", f"must be one of {', '.join(TokenScope)}") from None


def _info_json(one: TokenInfo) -> dict[str, Any]:
    moments = {"issued": _iso(one.issued), "expires": _iso(one.expires)}
    return {**asdict(one), "scopes": sorted(one.scopes), **moments}


def _show_tokens(found: tuple[TokenInfo, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("id", "whose", "for", "may", "share", "state", "last used"):
        table.add_column(column)
    for one in found:
        used = "never" if one.used is None else one.used.isoformat()
        share = "" if one.share is None else f"epsilon {one.share}"
        cells = (one.id, one.name, one.label, _words(one.scopes), share, _state(one), used)
        table.add_row(*map(Text, cells))
    console().print(table)


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
