"""Sign-in at a provider or by a one-time link, sign-out, and sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from starlette.responses import Response

from tacit.core.errors import InputError
from tacit.server.console.csrf import from_here
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import NotSignedIn, Unknown
from tacit.server.identity import Opened, TokenScope

if TYPE_CHECKING:
    from tacit.server.identity.oidc import OpenIDProvider

_GONE: Final = "page; the link was used, has expired, or never existed. Ask its sender for a new one"
_HOST: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
_LONGEST: Final = 4_000


async def home(visit: PageRequest) -> Response:
    """Redirect to the first page of a signed-in user."""
    return visit.redirect("/console/ask" if visit.user.has(TokenScope.ASK) else "/console/history")


async def show_sign_in(visit: PageRequest) -> Response:
    """Show the ways to sign in."""
    if visit.access is not None:
        return visit.redirect("/console/")
    page = _page(visit.request.query_params.get("next", ""))
    more = f"?next={quote(page, safe='')}" if page else ""
    ways = [{"name": name, "address": f"/console/sign-in/{name}{more}"} for name in visit.shared.providers]
    words = f"to ask questions of {visit.service.curator.name}, and get answers that reveal no individual."
    return await _door(visit, "Sign in", words, ways=ways)


async def go(visit: PageRequest) -> Response:
    """Send the browser to a provider, with a sign-in of its own."""
    if not from_here(visit.request):
        # Another site may not begin one: what it began would replace the one under way here.
        return visit.redirect("/console/sign-in")
    provider, redirect = _provider(visit)

    def begin() -> tuple[str, str]:
        entry = visit.people.entries.begin(provider.name, _page(visit.request.query_params.get("next", "")))
        return entry.text, provider.address(entry, redirect)

    text, address = await visit.runtime.enter(visit.address, begin)
    response = visit.redirect(address)
    visit.keep_entry(response, text)
    return response


async def signed_in(visit: PageRequest) -> Response:
    """Take the response of a provider, and open a session for whom it identifies."""
    provider, redirect = _provider(visit)
    answer = {name: text[:_LONGEST] for name, text in visit.request.query_params.multi_items()}
    known = visit.people.entries.has_state(visit.entry_text, answer.get("state", ""))
    if not known or len(answer) != len(visit.request.query_params.multi_items()):
        visit.runtime.failed(visit.address)
        raise NotSignedIn("this sign-in was not begun in this browser, or too long ago; sign in once more")

    def finish() -> tuple[Opened, str]:
        taken = visit.people.entries.take(provider.name, visit.entry_text)
        if taken is None:
            raise NotSignedIn("this sign-in was used already, or took too long; sign in once more")
        entry, page = taken
        opened = visit.people.enter(provider.identify(entry, answer, redirect))
        if visit.session_text:
            visit.people.sign_out(visit.session_text)
        return opened, page

    opened, page = await visit.runtime.enter(visit.address, finish)
    # The provider's site led here, so browsers keep the new cookie back until a page of this console asks.
    words = f"You are signed in as {opened.access.person.name}."
    response = await visit.page("onward.html", here=_page(page) or "/console/", words=words)
    visit.keep_session(response, opened)
    visit.keep_entry(response, "")
    return response


async def sign_out(visit: PageRequest) -> Response:
    """End the session, here and everywhere it may have been copied to."""
    await visit.run(visit.people.sign_out, visit.session_text)
    return visit.signed_out("/console/sign-in")


async def show_sessions(visit: PageRequest) -> Response:
    """The user's sessions."""
    found = await visit.run(visit.people.sessions, visit.name)
    return await visit.page("sessions.html", sessions=found, own=visit.user.id)


async def end_session(visit: PageRequest) -> Response:
    """End one of the user's own sessions, or those of another as an owner."""
    name = visit.form.get("name", "") or visit.name
    if name != visit.name and not visit.user.has(TokenScope.ADMIN):
        raise Unknown("session")

    def work() -> None:
        if visit.form.get("session", "") not in {each.id for each in visit.people.sessions(name)}:
            raise Unknown("session")
        visit.people.end_session(visit.form["session"], operator=visit.name)

    await visit.run(work)
    own = name == visit.name
    return visit.redirect("/console/sessions" if own else f"/console/people/one?name={quote(name, safe='')}")


async def show_link(visit: PageRequest, *, name: str = "", problem: str = "") -> Response:
    """The page of a one-time link; it is used up by a button alone, so that previews of it leave it as it is."""
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
    """Sign in by a one-time link."""
    secret, name = visit.request.path_params["secret"], visit.form.get("name", "")
    try:
        opened = await visit.run(visit.people.follow, secret) or await visit.run(visit.people.set_up, secret, name)
    except InputError as problem:
        return await show_link(visit, name=name, problem=str(problem))
    if opened is None:
        visit.runtime.failed(visit.address)
        raise Unknown(_GONE)
    if visit.session_text:
        await visit.run(visit.people.sign_out, visit.session_text)
    response = visit.redirect("/console/")
    visit.keep_session(response, opened)
    return response


def public_address(visit: PageRequest) -> str:
    """Address of the server: as its operator stated, or this machine; empty where only the request says so.

    An attacker who controls a request's Host header would otherwise receive the secret of a link, or a code.
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
    """The provider in the path, and the redirect address that is its alone."""
    provider = visit.shared.providers.get(visit.request.path_params["provider"])
    if provider is None:
        raise Unknown("page")
    address = public_address(visit)
    if not address:
        raise NotSignedIn("the server does not know its public address; its operator states --address")
    return provider, f"{address}/console/signed-in/{provider.name}"


def _page(where: str) -> str:
    """Address to go on to, if that is a page of this console and nothing else."""
    plain = where.startswith("/console/") and "//" not in where and "\\" not in where and where.isprintable()
    return where if plain and len(where) <= _LONGEST and not where.startswith("/console/sign") else ""


async def _door(visit: PageRequest, heading: str, words: str, *, status: int = 200, **more: Any) -> Response:
    usual = {"action": visit.request.url.path, "asks_name": False, "name": "", "problem": "", "button": "", "ways": []}
    return await visit.page("door.html", status, heading=heading, words=words, **(usual | more))
