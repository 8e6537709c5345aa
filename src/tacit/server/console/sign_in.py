"""Sign-in, sign-out, set-up, invitation and password pages."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tacit.core.errors import InputError
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import Unknown
from tacit.server.identity import Opened, TokenScope

_WRONG = "Name and password do not belong together, or there were too many tries. Wait a moment and try again."
_NOT_YOURS = "That is not your password, or there were too many tries. Wait a moment and try again."
_GONE = "page; the link was used, has expired, or never existed. Ask its sender for a new one"


async def home(visit: PageRequest) -> Response:
    """Redirect to the first page of a signed-in user."""
    return visit.redirect("/console/ask" if visit.user.has(TokenScope.ASK) else "/console/history")


async def show_sign_in(visit: PageRequest) -> Response:
    """Show the form for name and password."""
    if visit.access is not None:
        return visit.redirect("/console/")
    return await _sign_in(visit, _next(visit.request.query_params.get("next", "")))


async def sign_in(visit: PageRequest) -> Response:
    """Sign a user in; wrong, unknown, revoked and too often look the same."""
    name, password, where = (visit.form.get(key, "") for key in ("name", "password", "next"))
    opened = await visit.runtime.enter(visit.address, name, visit.people.sign_in, name, password, origin=visit.address)
    if opened is None:
        return await _sign_in(visit, _next(where), name=name, problem=_WRONG, status=401)
    if visit.session_text:
        await visit.run(visit.people.sign_out, visit.session_text)
    return visit.signed_in(opened, _next(where) or "/console/")


async def sign_out(visit: PageRequest) -> Response:
    """End the session, here and everywhere it may have been copied to."""
    await visit.run(visit.people.sign_out, visit.session_text)
    return visit.signed_out("/console/sign-in")


async def change_password(visit: PageRequest) -> Response:
    """Change the password of a user who knows the present one; sessions elsewhere end."""
    old, new = visit.form.get("old", ""), visit.form.get("password", "")
    try:
        _check_twice(visit)
        if new == old:
            raise InputError("password", "is the one you have; choose another")
        # Before the old one is looked at: what is wrong with the new one is no failed try.
        visit.people.check_password(visit.name, new)
    except InputError as problem:
        return await show_password(visit, problem=str(problem), status=400)
    work = visit.people.change_password
    opened = await visit.runtime.enter(visit.address, visit.name, work, visit.name, old, new, origin=visit.address)
    if opened is None:
        return await show_password(visit, problem=_NOT_YOURS, status=401)
    return visit.signed_in(opened, "/console/password?changed=1")


async def show_set_up(visit: PageRequest) -> Response:
    """The form for the first owner."""
    await _check_set_up(visit)
    return await _set_up(visit)


async def set_up(visit: PageRequest) -> Response:
    """Make the first owner."""
    await _check_set_up(visit)
    name, password = visit.form.get("name", ""), visit.form.get("password", "")
    try:
        _check_twice(visit)
        opened = await visit.run(visit.people.set_up, visit.request.path_params["secret"], name, password)
    except InputError as problem:
        return await _set_up(visit, name=name, problem=str(problem))
    return await _entered(visit, opened)


async def accept(visit: PageRequest) -> Response:
    """Set the password chosen by an invited person."""
    try:
        _check_twice(visit)
        secret, password = visit.request.path_params["secret"], visit.form.get("password", "")
        opened = await visit.run(visit.people.accept, secret, password)
    except InputError as problem:
        return await show_welcome(visit, problem=str(problem))
    return await _entered(visit, opened)


async def _entered(visit: PageRequest, opened: Opened | None) -> Response:
    if opened is None:
        visit.runtime.failed(visit.address)
        raise Unknown(_GONE)
    if visit.session_text:
        await visit.run(visit.people.sign_out, visit.session_text)
    return visit.signed_in(opened, "/console/")


async def _check_set_up(visit: PageRequest) -> None:
    if not await visit.run(visit.people.set_up_open, visit.request.path_params["secret"]):
        visit.runtime.failed(visit.address)
        raise Unknown(_GONE)


def _check_twice(visit: PageRequest) -> None:
    if visit.form.get("password", "") != visit.form.get("again", ""):
        raise InputError("password", "the two are not the same; type it once more")


def _next(where: str) -> str:
    """Address to go on to, if that is a page of this console and nothing else."""
    plain = where.startswith("/console/") and "//" not in where and "\\" not in where and where.isprintable()
    return where if plain and not where.startswith("/console/sign-") else ""


async def _door(
    visit: PageRequest, heading: str, words: str, button: str, *, status: int = 200, **more: Any
) -> Response:
    """A page with one form, for a name, a password or both; by default for a fresh password alone."""
    usual = {"action": visit.request.url.path, "asks_name": False, "fresh": True, "next": "", "name": "", "problem": ""}
    return await visit.page("door.html", status, heading=heading, words=words, button=button, **(usual | more))


async def _sign_in(visit: PageRequest, where: str, *, name: str = "", problem: str = "", status: int = 200) -> Response:
    words = f"to ask questions of {visit.service.curator.name}, and get answers that reveal no individual."
    fields = {"asks_name": True, "fresh": False, "next": where, "name": name, "problem": problem}
    return await _door(visit, "Sign in", words, "Sign in", status=status, **fields)


async def show_password(visit: PageRequest, *, problem: str = "", status: int = 200) -> Response:
    """The form for another password."""
    changed = not problem and visit.request.query_params.get("changed") == "1"
    words = "Choose another one. Wherever else you are signed in, you are signed out; tokens of your programs stay."
    done = "It is changed. This is the only place where you are signed in now." if changed else ""
    fields = {"asks_old": True, "name": visit.name, "problem": problem, "done": done}
    return await _door(visit, "Your password", words, "Change it", status=status, **fields)


async def _set_up(visit: PageRequest, *, name: str = "", problem: str = "") -> Response:
    owned = f"This link makes you the owner of {visit.service.curator.name}: you decide who may ask, and how much."
    fields = {"asks_name": True, "name": name, "problem": problem}
    return await _door(
        visit, "Become the owner", f"{owned} It works once.", "Begin", status=400 if problem else 200, **fields
    )


async def show_welcome(visit: PageRequest, *, problem: str = "") -> Response:
    """Show the form of an invitation."""
    person = await visit.run(visit.people.invited, visit.request.path_params["secret"])
    if person is None:
        visit.runtime.failed(visit.address)
        raise Unknown(_GONE)
    words = f"Choose a password, and you are in: {person.role} of {visit.service.curator.name}."
    status, fields = 400 if problem else 200, {"name": person.name, "problem": problem}
    return await _door(visit, f"Welcome, {person.name}", words, "Set the password and sign in", status=status, **fields)
