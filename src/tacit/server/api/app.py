"""ASGI application of the API.

It is one callable without a framework in between: paths are looked up in a dictionary, work is done in a thread, and
every failure has one shape. What lies below ``/console`` is another application, which these limits hold for as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final

from tacit.server.api.errors import describe, page
from tacit.server.api.jobs import JobRunner
from tacit.server.api.openapi import described
from tacit.server.api.request import ApiRequest, ApiResponse, Route, failed
from tacit.server.api.request_limits import Gone, Receive, Scope, Send, body_of, check_scope, check_type, query_of
from tacit.server.api.routes import ROUTES
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Busy, RequestError
from tacit.server.service import CuratorService
from tacit.server.settings import Settings
from tacit.server.shared_token_buckets import Buckets

__all__ = ["App", "create_app"]

Console = Callable[[Scope, Receive, Send], Awaitable[None]]

_ALWAYS: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_HTML: Final = "text/html; charset=utf-8"
_LOOK: Final = ("GET", "HEAD")
_DRAIN_STEP: Final = 0.02


def create_app(office: CuratorService, settings: Settings | None = None, buckets: Buckets | None = None) -> App:
    """The application of an office, with its console.

    Whoever serves it may put an empty dictionary at ``scope["tacit.about"]``; it is filled with what may be logged and
    counted about the request: public things only.

    Args:
        office: what it does for people.
        settings: its limits; those of the office unless said.
        buckets: where it is counted how often somebody comes; its own unless it shares them with other processes.
    """
    chosen = settings or office.settings
    return App(WorkerRuntime(office, chosen, buckets), _console(office, chosen))


class App:
    """An ASGI application. ``state.draining`` makes it refuse new work; :meth:`drain` waits for what is under way."""

    def __init__(self, floor: WorkerRuntime, console: Console) -> None:
        self._floor = floor
        self._console = console
        self._jobs = JobRunner(floor)
        self._exact: dict[str, dict[str, Route]] = {}
        self._below: dict[str, dict[str, Route]] = {}
        for route in (*ROUTES, *described(ROUTES)):
            stem, brace, _ = route.path.partition("{")
            (self._below if brace else self._exact).setdefault(stem, {})[route.method] = route
        self.state = SimpleNamespace(draining=False, floor=floor, office=floor.office)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one life."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._life(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})

    async def drain(self, seconds: float) -> bool:
        """Take no new work and wait for what is under way; whether all of it was finished in time."""
        self.state.draining = True
        await self._jobs.stop()
        end = self._floor.slots.now() + seconds
        while (busy := self._floor.under_way + self._jobs.under_way) and self._floor.slots.now() < end:
            await asyncio.sleep(_DRAIN_STEP)
        return not busy

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path in ("/", "/console") or path.startswith("/console/"):
            await self._page(scope, receive, send)
            return
        client = scope.get("client")
        call = ApiRequest(self._floor, {}, address=client[0] if client else "")
        call.about = scope.get("tacit.about", call.about)
        try:
            call.headers = check_scope(scope, self._floor.settings)
            route, call.part = self._route(scope["method"], path)
            call.about["route"] = route.path
            reply = await self._reply(route, call, scope, receive)
        except Gone:
            return
        except Exception as problem:
            reply = failed(problem, call.about)
        try:
            await _send(send, reply)
        finally:
            if reply.after is not None:
                reply.after()

    def _route(self, method: str, path: str) -> tuple[Route, str]:
        found, part = self._exact.get(path), ""
        if found is None:
            stem = next((stem for stem in self._below if path.startswith(stem)), path)
            part = path[len(stem) :]
            found = self._below.get(stem) if part else None
            if found and "/" in part:
                found = {method: route for method, route in found.items() if route.slashes}
        if not found:
            raise RequestError("path", 404, "there is nothing at this path")
        route = found.get(method)
        if route is None:
            allow = ((b"allow", ", ".join(sorted(found)).encode()),)
            raise RequestError("method", 405, "this path does not take that method", allow)
        return route, part

    async def _reply(self, route: Route, call: ApiRequest, scope: Scope, receive: Receive) -> ApiResponse:
        call.query = query_of(scope, route.query)
        if route.takes:
            check_type(call.headers)
            settings = self._floor.settings
            call.body = await body_of(call.headers, receive, settings.max_body, settings.body_seconds)
        if self.state.draining:
            raise Busy
        call.put_off = self._jobs.begin
        if not route.asks:
            return await self._floor.quick.run(route.serve, call)
        # Who asks is found out first: people take turns at the threads for questions.
        refused = await self._floor.quick.run(route.admit, call)
        if refused is not None:
            return refused
        name = call.someone.person.name
        call.departure = self._floor.departure(name)
        reply = await self._floor.asking.run_for(name, route.reply, call)
        if call.held:
            await call.departure.hold()
        return reply

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the console serve something below these limits; if it fails itself, say so and no more."""
        begun, settings = False, self._floor.settings

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            headers = check_scope(scope, settings)
            if self.state.draining:
                raise Busy
            ahead = scope["path"] in ("/", "/console")
            allowed = _LOOK if ahead else (*_LOOK, "POST")
            if scope["method"] not in allowed:
                allow = ((b"allow", ", ".join(allowed).encode()),)
                raise RequestError("method", 405, "pages are looked at, or sent a form", allow)
            if ahead:
                # Not by the router, which would name the host that the request names.
                await _send(watched, ApiResponse(307, b"", _HTML, ((b"location", b"/console/"),)))
                return
            if not scope["path"].isprintable():
                raise RequestError("path", 404, "there is nothing at this path")
            body = b""
            if scope["method"] == "POST":
                body = await body_of(headers, receive, settings.max_form, settings.body_seconds)
            client = scope.get("client")
            scope["tacit.floor"] = self._floor
            scope["tacit.address"] = client[0] if client else ""
            if "tacit.about" in scope:
                scope["tacit.about"]["route"] = "/console/…"
            await self._console(scope, _replayed(body, receive), watched)
        except Gone:
            return
        except Exception as problem:
            failure = describe(problem)
            if not begun:
                await _send(send, ApiResponse(failure.status, page(failure), _HTML, failure.headers))

    async def _life(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._jobs.watch()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.drain(self._floor.settings.drain_seconds)
                await self._jobs.leave()
                self._floor.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What is received once a body has been read: the body, then what comes after it."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return waiting.pop() if waiting else await receive()

    return again


async def _send(send: Send, reply: ApiResponse) -> None:
    headers = [
        (b"content-type", reply.form.encode()),
        (b"content-length", str(len(reply.body)).encode()),
        (b"content-security-policy", reply.policy),
        *_ALWAYS,
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _console(office: CuratorService, settings: Settings) -> Console:
    """The console, made when somebody first looks at it: a server starts faster without pages and templates."""
    made: list[Console] = []

    def make() -> None:
        from starlette.applications import Starlette

        from tacit.server.console import console

        pages = Starlette(routes=[console(office, people=office.people, settings=settings)])
        pages.router.redirect_slashes = False
        made.append(pages)

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        if not made:
            await asyncio.to_thread(make)
        await made[0](scope, receive, send)

    return page
