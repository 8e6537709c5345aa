"""Sign-in at a provider or by a one-time link, sessions, and the pages of owners about people, shares and tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from starlette.responses import Response

from tacit.core.errors import InputError
from tacit.core.numbers import exact_text
from tacit.server.console.amounts import amounts_text, gauges, symbol
from tacit.server.console.page_request import ENTRY, SESSION, PageProblem, PageRequest, from_here, problem_of
from tacit.server.errors import NotSignedIn, Unknown
from tacit.server.identity import Opened, Person, Role, TokenScope
from tacit.server.identity.credentials import LINK_WORDS

if TYPE_CHECKING:
    from tacit.server.identity.oidc import OpenIDProvider

_GONE: Final = (
    "page; the link was used, replaced by a newer one, has expired, or never existed. Ask its sender for a new one; "
    "the first owner's is printed when the server starts"
)
_HOST: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
_LONGEST: Final = 4_000


async def home(visit: PageRequest) -> Response:
    """Redirect to the first page of a signed-in user."""
    return visit.redirect("/console/ask" if visit.user.has(TokenScope.ASK) else "/console/history")


async def show_sign_in(visit: PageRequest) -> Response:
    if visit.access is not None:
        return visit.redirect("/console/")
    page = _page(visit.request.query_params.get("next", ""))
    more = f"?next={quote(page, safe='')}" if page else ""
    ways = [{"name": name, "address": f"/console/sign-in/{name}{more}"} for name in visit.shared.providers]
    words = f"to ask queries of {visit.service.curator.name}, and get answers that reveal no individual."
    return await _door(visit, "Sign in", words, ways=ways)


async def go(visit: PageRequest) -> Response:
    """Send the browser to a provider, with a new sign-in."""
    if not from_here(visit.request):
        # Another site may not begin a sign-in, since it would replace the one in progress here.
        return visit.redirect("/console/sign-in")
    provider, redirect = _provider(visit)

    def begin() -> tuple[str, str]:
        entry = visit.people.entries.begin(provider.name, _page(visit.request.query_params.get("next", "")))
        return entry.text, provider.address(entry, redirect)

    text, address = await visit.runtime.enter(visit.address, begin)
    response = visit.redirect(address)
    visit.set_cookie(response, ENTRY, text)
    return response


async def signed_in(visit: PageRequest) -> Response:
    """Handle the response of a provider, and open a session for the person it identifies."""
    provider, redirect = _provider(visit)
    answer = {name: text[:_LONGEST] for name, text in visit.request.query_params.multi_items()}
    known = visit.people.entries.has_state(visit.cookie(ENTRY), answer.get("state", ""))
    if not known or len(answer) != len(visit.request.query_params.multi_items()):
        visit.runtime.failed(visit.address)
        raise NotSignedIn("this sign-in was not begun in this browser, or too long ago; sign in once more")

    def finish() -> tuple[Opened, str]:
        taken = visit.people.entries.take(provider.name, visit.cookie(ENTRY))
        if taken is None:
            raise NotSignedIn("this sign-in was used already, or took too long; sign in once more")
        entry, page = taken
        opened = visit.people.enter(provider.identify(entry, answer, redirect))
        visit.people.sign_out(visit.cookie(SESSION))
        return opened, page

    opened, page = await visit.runtime.enter(visit.address, finish)
    # The provider's site redirected here, so browsers omit the new strict cookie until a page of this console loads.
    words = f"You are signed in as {opened.access.person.name}."
    response = await visit.page("onward.html", here=_page(page) or "/console/", words=words)
    visit.keep_session(response, opened)
    visit.set_cookie(response, ENTRY, "")
    return response


async def sign_out(visit: PageRequest) -> Response:
    """End the session everywhere, including copies of its cookie."""
    await visit.run(visit.people.sign_out, visit.cookie(SESSION))
    response = visit.redirect("/console/sign-in")
    visit.set_cookie(response, SESSION, "")
    return response


async def show_sessions(visit: PageRequest) -> Response:
    found = await visit.run(visit.people.sessions, visit.name)
    return await visit.page("sessions.html", sessions=found, own=visit.user.id)


async def end_session(visit: PageRequest) -> Response:
    """End one of the user's own sessions, or as an owner, one of any person."""
    name = visit.form.get("name", "") or visit.name
    if name != visit.name and not visit.user.has(TokenScope.ADMIN):
        raise Unknown("session")

    def work() -> None:
        session = visit.form.get("session", "")
        if session not in {each.id for each in visit.people.sessions(name)}:
            raise Unknown("session")
        visit.people.end_session(session, operator=visit.name)

    await visit.run(work)
    return visit.redirect("/console/sessions" if name == visit.name else person_address(name))


async def show_link(visit: PageRequest, *, name: str = "", problem: str = "") -> Response:
    """Show the page of a one-time link; only its button uses the link up, so that link previews do not."""
    secret, curator = visit.request.path_params["secret"], visit.service.curator.name
    status = 400 if problem else 200
    if await visit.run(visit.people.set_up_open, secret):
        words = f"This link makes you the owner of {curator}: you decide who may ask, and how much. It works once."
        fields = {"asks_name": True, "name": name, "problem": problem, "button": "Begin"}
        return await _door(visit, "Become the owner", words, status=status, **fields)
    person = await visit.run(visit.people.linked, secret)
    if person is None:
        visit.runtime.failed(visit.address)
        raise Unknown(_GONE)
    words = f"This link signs you in as {person.role} of {curator}. It works once, in this browser."
    return await _door(visit, f"Welcome, {person.name}", words, button="Sign in")


async def follow_link(visit: PageRequest) -> Response:
    secret, name = visit.request.path_params["secret"], visit.form.get("name", "")
    try:
        opened = await visit.run(visit.people.follow, secret) or await visit.run(visit.people.set_up, secret, name)
    except InputError as problem:
        return await show_link(visit, name=name, problem=str(problem))
    if opened is None:
        visit.runtime.failed(visit.address)
        raise Unknown(_GONE)
    await visit.run(visit.people.sign_out, visit.cookie(SESSION))
    response = visit.redirect("/console/")
    visit.keep_session(response, opened)
    return response


def public_address(visit: PageRequest) -> str:
    """Return the server's address as its operator configured it, or that of this machine; else empty.

    No other Host header is used: an attacker who controls it would receive the secret of a link, or a code.
    """
    settings = visit.shared.settings
    if settings.address is not None:
        return settings.address.rstrip("/")
    host = visit.request.headers.get("host", "")
    name = urlsplit(f"//{host}").hostname or "" if _HOST.fullmatch(host) else ""
    if name in {"localhost", "127.0.0.1", "::1", settings.host}:
        return f"{'https' if settings.tls_cert is not None else 'http'}://{host}"
    return ""


def _provider(visit: PageRequest) -> tuple[OpenIDProvider, str]:
    """Return the provider in the path, and its redirect address."""
    provider = visit.shared.providers.get(visit.request.path_params["provider"])
    if provider is None:
        raise Unknown("page")
    address = public_address(visit)
    if not address:
        raise NotSignedIn("the server does not know its public address; its operator states --address")
    return provider, f"{address}/console/signed-in/{provider.name}"


def _page(where: str) -> str:
    """Return the address to continue at, if it is a page of this console."""
    plain = where.startswith("/console/") and "//" not in where and "\\" not in where and where.isprintable()
    return where if plain and len(where) <= _LONGEST and not where.startswith("/console/sign") else ""


async def _door(visit: PageRequest, heading: str, words: str, *, status: int = 200, **more: Any) -> Response:
    usual = {"action": visit.request.url.path, "asks_name": False, "name": "", "problem": "", "button": "", "ways": []}
    return await visit.page("door.html", status, heading=heading, words=words, **(usual | more))


_MOST_DAYS: Final = 3650
_ROLES: Final = (
    (Role.ANALYST, "asks"),
    (Role.AUDITOR, "sees charges, never asks"),
    (Role.OWNER, "also decides about people"),
)


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
    return await _change(
        visit, lambda person: _link(visit, person, visit.people.link(person.name, operator=visit.name))
    )


async def issue(visit: PageRequest) -> Response:
    """Issue a token, and show it once."""
    days = visit.form.get("days", "")

    def work(person: Person) -> dict[str, str]:
        expires = None if not days else datetime.now(UTC) + timedelta(days=_days(days))
        label, share = visit.form.get("label", ""), visit.typed("share") or None
        issued = visit.people.issue(person.name, label=label, expires=expires, operator=visit.name, share=share)
        within = "" if share is None else f", for at most epsilon {issued.share} of each population in all"
        words = (
            f"It lets a program ask as {issued.name}{within}. It is shown this once and kept nowhere; only a hash is "
            "stored."
        )
        return {"label": "New token", "text": issued.text, "words": words}

    return await _change(visit, work)


async def withdraw(visit: PageRequest) -> Response:
    """End a token at once."""

    def work(person: Person) -> str:
        token = visit.form.get("token", "")
        if token not in {each.id for each in visit.people.tokens(person.name)}:
            raise Unknown("token")
        visit.people.withdraw(token, operator=visit.name)
        return "The token was withdrawn and works no longer."

    return await _change(visit, work)


async def quota(visit: PageRequest) -> Response:

    def work(person: Person) -> str:
        population = visit.form.get("population", "")
        if population not in _accounts(visit):
            raise Unknown("population")
        named = (key.removeprefix("cap.") for key in visit.form if key.startswith("cap."))
        caps = {currency: text for currency in named if (text := visit.typed(f"cap.{currency}"))}
        visit.service.curator.ledger.set_quota(population, caps or None, analyst=person.name, operator=visit.name)
        return "The share is set." if caps else "Their own limit was removed."

    return await _change(visit, work)


async def role(visit: PageRequest) -> Response:

    def work(person: Person) -> str:
        if not person.active:
            raise InputError("role", f"{person.name} was revoked; to admit them again, add them under People")
        wanted, sees = _role(visit), _chosen(visit)
        if person.name == visit.name and wanted != Role.OWNER:
            raise InputError("role", "an owner cannot step down by themselves; let another owner do it")
        changed = visit.people.add(person.name, wanted, populations=sees, operator=visit.name)
        return f"{changed.name} is {changed.role} from now on, and sees {_sees(changed)}."

    return await _change(visit, work)


async def revoke(visit: PageRequest) -> Response:

    def work(person: Person) -> str:
        if person.name == visit.name:
            raise InputError("name", "an owner cannot revoke themselves; let another owner do it")
        visit.people.revoke(person.name, operator=visit.name, reason=visit.form.get("reason", ""))
        return f"{person.name} was revoked: sessions and tokens have ended."

    return await _change(visit, work)


async def _change(visit: PageRequest, work: Callable[[Person], str | dict[str, str]]) -> Response:
    """Apply a change to a person, and show their page."""
    name = visit.form.get("name", "")
    try:
        told = await visit.run(lambda: work(_person_named(visit, name)))
    except InputError as raised:
        return await show_person(visit, name, problem=problem_of(raised))
    if isinstance(told, str):
        return await show_person(visit, name, done=told)
    return await show_person(visit, name, shown=told)


def _role(visit: PageRequest) -> Role:
    wanted = visit.form.get("role", "")
    if wanted not in list(Role):
        raise InputError("role", f"must be one of {', '.join(Role)}")
    return Role(wanted)


def _ticked(visit: PageRequest) -> list[str]:
    return [key.removeprefix("sees.") for key in visit.form if key.startswith("sees.")]


def _chosen(visit: PageRequest) -> list[str] | None:
    """Return the populations ticked for a person; None if "all" is ticked."""
    everything, names = visit.form.get("sees") == "all", _ticked(visit)
    if everything == bool(names):
        both = "all and single ones are ticked" if everything else "nothing is ticked"
        raise InputError("may see", f"{both}; tick all populations, or those that they may see")
    return None if everything else names


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
    people = await visit.run(
        lambda: [
            (each, person_address(each.name), _sees(each), _spent(visit, each), bool(visit.people.sessions(each.name)))
            for each in visit.people.everyone()
        ]
    )
    populations = await visit.run(_accounts, visit)
    # Only valid values are kept in the form.
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


def _spent(visit: PageRequest, person: Person) -> str:
    spent = []
    for name in _accounts(visit):
        own = visit.service.curator.ledger.budget(name, analyst=person.name).balances[1]
        amounts = {line.currency: Fraction(line.spent) for line in own.lines if line.currency != "delta"}
        if any(amounts.values()):
            spent.append(f"{amounts_text(amounts)} of {name}")
    return "; ".join(spent) or "–"


def _accounts(visit: PageRequest) -> list[str]:
    """Populations visible to the signed-in user."""
    return [budget.population for budget in visit.service.budget(visit.user)]


def _sees(person: Person) -> str:
    return "everything" if person.populations is None else ", ".join(sorted(person.populations)) or "nothing"


def person_address(name: str) -> str:
    return f"/console/people/one?name={quote(name, safe='')}"


async def show_person(
    visit: PageRequest,
    name: str | None = None,
    *,
    shown: dict[str, str] | None = None,
    problem: PageProblem | None = None,
    done: str = "",
) -> Response:
    """Show one person: shares, tokens, role."""
    said = visit.request.query_params.get("name", "") if name is None else name
    person = await visit.run(_person_named, visit, said)
    shares = await visit.run(_shares, visit, person)
    return await visit.page(
        "person.html",
        problem.status if problem else 200,
        who=person,
        sees=_sees(person),
        shares=shares,
        tokens=await visit.run(visit.people.tokens, person.name),
        sessions=await visit.run(visit.people.sessions, person.name),
        own=visit.user.id,
        roles=_ROLES,
        populations=[share["population"] for share in shares],
        shown=shown,
        problem=problem,
        done=done,
    )


def _shares(visit: PageRequest, person: Person) -> list[dict[str, Any]]:
    """Return the person's spent budget and limits, for each population."""
    shares = []
    for population in _accounts(visit):
        budget = visit.service.curator.budget(population=population, analyst=person.name)
        balance = budget.balances[1]
        # The budget with only this share.
        alone = replace(budget, balances=(replace(balance, owner="population"),))
        shares.append({
            "population": population,
            "limited": balance.limited,
            "gauges": [gauge for gauge in gauges(alone) if gauge.letter != symbol("delta")],
            "currencies": [
                (line.currency, symbol(line.currency), exact_text(line.cap) if balance.limited else "")
                for line in balance.lines
                if line.currency != "delta"
            ],
        })  # fmt: skip
    return shares


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= _MOST_DAYS:
        raise InputError("days", f"must be a whole number from 1 to {_MOST_DAYS}")
    return int(text)
