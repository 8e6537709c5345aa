"""Pages of owners: people, shares, tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from tacit.core.errors import InputError
from tacit.core.numbers import exact_text
from tacit.server.console.budget_bars import gauges
from tacit.server.console.error_pages import PageProblem, problem_of
from tacit.server.console.number_format import amounts_text, symbol
from tacit.server.console.page_request import PageRequest
from tacit.server.console.sign_in import public_address
from tacit.server.errors import Unknown
from tacit.server.identity import Person, Role, TokenInfo
from tacit.server.identity.sessions import LINK_WORDS

_MOST_DAYS: Final = 3650
_ROLES: Final = (
    (Role.ANALYST, "asks"),
    (Role.AUDITOR, "sees charges, never asks"),
    (Role.OWNER, "also decides about people"),
)


async def show_person(visit: PageRequest) -> Response:
    """One person: shares, tokens, role."""
    return await _person(visit, visit.request.query_params.get("name", ""))


async def add(visit: PageRequest) -> Response:
    """Register a person and make a one-time link, which is shown once."""
    name = visit.form.get("name", "")
    try:
        chosen, sees = _role(visit), _chosen(visit)
        known = await visit.run(visit.people.person, name)
        if known is not None and known.active:
            raise InputError("name", f"{known.name} is here already")
        person = await visit.run(visit.people.add, name, chosen, populations=sees, operator=visit.name)
        secret = await visit.run(visit.people.link, person.name, operator=visit.name)
    except InputError as raised:
        return await show_people(visit, problem=problem_of(raised))
    return await show_people(visit, shown=_link(visit, person, secret))


async def link(visit: PageRequest) -> Response:
    """Create a one-time link by which a person signs in."""

    def work(name: str) -> dict[str, str]:
        person = _person_named(visit, name)
        return _link(visit, person, visit.people.link(person.name, operator=visit.name))

    return await _change(visit, work)


async def issue(visit: PageRequest) -> Response:
    """A token, shown once."""
    days = visit.form.get("days", "")

    def work(name: str) -> dict[str, str]:
        expires = None if not days else datetime.now(UTC) + timedelta(days=_days(days))
        label, share = visit.form.get("label", ""), visit.form.get("share", "").strip() or None
        issued = visit.people.issue(name, label=label, expires=expires, operator=visit.name, share=share)
        within = "" if share is None else f", for at most epsilon {issued.share} of each population in all"
        words = (
            f"It lets a program ask as {issued.name}{within}. It is shown this once and kept nowhere; only a hash is "
            "stored."
        )
        return {"label": "New token", "text": issued.text, "words": words}

    return await _change(visit, work)


async def withdraw(visit: PageRequest) -> Response:
    """End a token at once."""

    def work(name: str) -> str:
        if visit.form.get("token", "") not in {token.id for token in visit.people.tokens(name)}:
            raise Unknown("token")
        visit.people.withdraw(visit.form["token"], operator=visit.name)
        return "The token was withdrawn and works no longer."

    return await _change(visit, work)


async def quota(visit: PageRequest) -> Response:
    """Limit a person's share of a budget."""

    def work(name: str) -> str:
        person, population = _person_named(visit, name), visit.form.get("population", "")
        if population not in _accounts(visit):
            raise Unknown("population")
        caps = {
            key.removeprefix("cap."): text.strip()
            for key, text in visit.form.items()
            if key.startswith("cap.") and text.strip()
        }
        visit.service.curator.ledger.set_quota(population, caps or None, analyst=person.name, operator=visit.name)
        return "The share is set." if caps else "Their own limit was removed."

    return await _change(visit, work)


async def role(visit: PageRequest) -> Response:
    """Change a person's role."""

    def work(name: str) -> str:
        person = _person_named(visit, name)
        if not person.active:
            raise InputError("role", f"{person.name} was revoked; to admit them again, add them under People")
        wanted, sees = _role(visit), _chosen(visit)
        if person.name == visit.name and wanted != Role.OWNER:
            raise InputError("role", "an owner cannot step down by themselves; let another owner do it")
        changed = visit.people.add(person.name, wanted, populations=sees, operator=visit.name)
        return f"{changed.name} is {changed.role} from now on, and sees {_sees(changed)}."

    return await _change(visit, work)


async def revoke(visit: PageRequest) -> Response:
    """Revoke a person's access."""

    def work(name: str) -> str:
        person = _person_named(visit, name)
        if person.name == visit.name:
            raise InputError("name", "an owner cannot revoke themselves; let another owner do it")
        visit.people.revoke(person.name, operator=visit.name, reason=visit.form.get("reason", ""))
        return f"{person.name} was revoked: sessions and tokens have ended."

    return await _change(visit, work)


def _role(visit: PageRequest) -> Role:
    wanted = visit.form.get("role", "")
    if wanted not in list(Role):
        raise InputError("role", f"must be one of {', '.join(Role)}")
    return Role(wanted)


def _ticked(visit: PageRequest) -> list[str]:
    return [key.removeprefix("sees.") for key in visit.form if key.startswith("sees.")]


def _chosen(visit: PageRequest) -> list[str] | None:
    """Populations ticked for a person; None for everything, which has to be ticked like all else."""
    everything, names = visit.form.get("sees") == "all", _ticked(visit)
    if everything == bool(names):
        both = "all and single ones are ticked" if everything else "nothing is ticked"
        raise InputError("may see", f"{both}; tick all populations, or those that they may see")
    return None if everything else names


async def _change(visit: PageRequest, work: Callable[[str], str | dict[str, str]]) -> Response:
    """Do something for a person, and show how they stand then."""
    name = visit.form.get("name", "")
    try:
        told = await visit.run(work, name)
    except InputError as raised:
        return await _person(visit, name, problem=problem_of(raised))
    if isinstance(told, str):
        return await _person(visit, name, done=told)
    return await _person(visit, name, shown=told)


def _person_named(visit: PageRequest, name: str) -> Person:
    try:
        person = visit.people.person(name)
    except InputError:
        person = None
    if person is None:
        raise Unknown("person")
    return person


def _link(visit: PageRequest, person: Person, secret: str) -> dict[str, str]:
    words = f"Pass it on to {person.name}. It works once, within {LINK_WORDS}, and is not shown again."
    known = public_address(visit)
    if not known:
        words = f"Put it behind the address of this server, and pass it on to {person.name}. {words.partition('. ')[2]}"
    return {"label": f"One-time link for {person.name}", "text": f"{known}/console/link/{secret}", "words": words}


async def show_people(
    visit: PageRequest, *, shown: dict[str, str] | None = None, problem: PageProblem | None = None
) -> Response:
    """Show all people, and a form to add one."""
    people = await visit.run(lambda: [_row(visit, person) for person in visit.people.everyone()])
    populations = await visit.run(_accounts, visit)
    # Typed values are kept in the form only where they were right.
    form = visit.form if problem else {}
    draft = {
        "name": form.get("name", ""),
        "role": form.get("role", ""),
        "all": form.get("sees") == "all",
        "sees": _ticked(visit) if problem else [],
    }
    return await visit.page(
        "people.html", problem.status if problem else 200, people=people, populations=populations, shown=shown,
        problem=problem, draft=draft, roles=_ROLES,
    )  # fmt: skip


def _row(visit: PageRequest, person: Person) -> dict[str, Any]:
    spent, ledger = [], visit.service.curator.ledger
    for name in _accounts(visit):
        own = ledger.budget(name, analyst=person.name).balances[1]
        amounts = {line.currency: Fraction(line.spent) for line in own.lines if line.currency != "delta"}
        if any(amounts.values()):
            spent.append(f"{amounts_text(amounts)} of {name}")
    return {
        "name": person.name,
        "address": f"/console/people/one?name={quote(person.name, safe='')}",
        "role": str(person.role),
        "sees": _sees(person),
        "spent": "; ".join(spent) or "–",
        "active": person.active,
        "state": "signed in" if visit.people.sessions(person.name) else "",
    }


def _accounts(visit: PageRequest) -> list[str]:
    """Populations visible to the signed-in user."""
    return [budget.population for budget in visit.service.budget(visit.user)]


def _sees(person: Person) -> str:
    return "everything" if person.populations is None else ", ".join(sorted(person.populations)) or "nothing"


async def _person(
    visit: PageRequest,
    name: str,
    *,
    shown: dict[str, str] | None = None,
    problem: PageProblem | None = None,
    done: str = "",
) -> Response:
    person, shares, tokens = await visit.run(_about, visit, name)
    sessions = await visit.run(visit.people.sessions, person.name)
    return await visit.page(
        "person.html",
        problem.status if problem else 200,
        who=person,
        sees=_sees(person),
        shares=shares,
        tokens=tokens,
        sessions=sessions,
        own=visit.user.id,
        roles=_ROLES,
        populations=[share["population"] for share in shares],
        shown=shown,
        problem=problem,
        done=done,
    )


def _about(visit: PageRequest, name: str) -> tuple[Person, list[dict[str, Any]], list[dict[str, Any]]]:
    person = _person_named(visit, name)
    shares = []
    for number, population in enumerate(_accounts(visit)):
        budget = visit.service.curator.budget(population=population, analyst=person.name)
        balance = budget.balances[1]
        # The budget with this share alone.
        alone = replace(budget, balances=(replace(balance, owner="population"),))
        own = [gauge for gauge in gauges(alone, analyst="") if gauge.letter != symbol("delta")]
        currencies = [
            {"name": each, "letter": symbol(each), "cap": exact_text(line.cap) if balance.limited else ""}
            for line in balance.lines
            if (each := line.currency) != "delta"
        ]
        told = {"population": population, "number": number, "limited": balance.limited}
        shares.append({**told, "gauges": own, "currencies": currencies})
    return person, shares, [_token(token) for token in visit.people.tokens(person.name)]


def _token(token: TokenInfo) -> dict[str, Any]:
    return {
        "id": token.id,
        "label": token.label,
        "scopes": ", ".join(sorted(token.scopes)) + ("" if token.share is None else f", within epsilon {token.share}"),
        "issued": token.issued.date().isoformat(),
        "expires": token.expires.date().isoformat() if token.expires else "never",
        "used": token.used.isoformat() if token.used else "–",
        "alive": token.alive,
        "state": "withdrawn" if token.withdrawn else "ended",
    }


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= _MOST_DAYS:
        raise InputError("days", f"must be a whole number from 1 to {_MOST_DAYS}")
    return int(text)
