"""Application of the server: the API and, below ``/console``, the console.

It is a Starlette application. One middleware enforces the limits on heads for both and formats every failure; work is
done in threads of the :class:`.WorkerRuntime`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.core.extras import load
from tacit.server.api.jobs import JobRunner
from tacit.server.api.request import (
    ApiRequest,
    ApiResponse,
    Route,
    body_of,
    check_scope,
    check_type,
    error_response,
    query_of,
)
from tacit.server.api.routes import ROUTES, described
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.console import console
from tacit.server.errors import Busy, RequestError, describe, page
from tacit.server.rate_limit import Buckets
from tacit.server.service import CuratorService
from tacit.server.settings import Settings
from tacit.server.timing import ResponseSteps

if TYPE_CHECKING:
    from tacit.server.identity.oidc import OpenIDProvider
    from tacit.server.mcp.endpoint import AssistantEndpoint

_HTML: Final = "text/html; charset=utf-8"
_NOTHING_HERE: Final = "there is nothing at this path"
_DRAIN_STEP: Final = 0.02
#: Seconds between two checks of a worker for queries to stop.
_LOOK: Final = 1.0


def create_app(
    service: CuratorService,
    settings: Settings | None = None,
    buckets: Buckets | None = None,
    providers: Mapping[str, OpenIDProvider] | None = None,
) -> App:
    """Create the application of a service, with its console; processes that serve together share their buckets.

    ``providers`` are the OpenID providers by which people may sign in.

    The caller may put an empty dictionary at ``scope["tacit.about"]``; the application fills it with the public facts
    about the request that may be logged and counted.
    """
    return App(WorkerRuntime(service, settings or service.settings, buckets), providers or {})


class App(Starlette):
    """The application. ``state.draining`` makes it refuse new work; :meth:`drain` waits for work under way."""

    def __init__(self, runtime: WorkerRuntime, providers: Mapping[str, OpenIDProvider]) -> None:
        self._runtime = runtime
        self._jobs = JobRunner(runtime)
        service = runtime.service
        self._assistants = _assistants(runtime) if runtime.settings.mcp else None
        super().__init__(
            routes=[
                *self._routes(),
                *([] if self._assistants is None else [self._assistants.route]),
                # Redirected here, since the router's redirect would contain the Host header of the request.
                StarletteRoute("/", _to_console),
                StarletteRoute("/console", _to_console),
                console(service, people=service.people, settings=runtime.settings, providers=providers),
            ],
            middleware=[Middleware(_Guard, runtime.settings)],
            exception_handlers={HTTPException: _unrouted},
            lifespan=_life,
        )
        self.router.redirect_slashes = False
        self.state.draining, self.state.runtime = False, runtime

    async def drain(self, seconds: float) -> bool:
        """Take no new work and wait for work under way; return whether all of it was finished in time."""
        self.state.draining = True
        await self._jobs.stop()
        end = self._runtime.steps.now() + seconds
        while (busy := self._runtime.under_way + self._jobs.under_way) and self._runtime.steps.now() < end:
            await asyncio.sleep(_DRAIN_STEP)
        return not busy

    def _routes(self) -> list[StarletteRoute]:
        """Return one route for each path, so that the refusal of a method lists all methods of the path."""
        paths: dict[str, dict[str, Route]] = {}
        for route in (*ROUTES, described(ROUTES)):
            paths.setdefault(route.path, {})[route.method] = route
        made = [StarletteRoute(path, self._endpoint(found), methods=[*found]) for path, found in paths.items()]
        for each in made:
            # Starlette adds HEAD to GET, but the OpenAPI document has no HEAD.
            each.methods = (each.methods or set()) - {"HEAD"}
        return made

    def _endpoint(self, methods: dict[str, Route]) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            route = methods[request.method]
            call = ApiRequest(
                self._runtime,
                request.scope["tacit.headers"],
                address=request.client.host if request.client else "",
                part=next(iter(request.path_params.values()), ""),
                about=request.scope["tacit.about"],
            )
            call.about["route"] = route.path
            call.query = query_of(request.scope, route.query)
            if route.body:
                check_type(call.headers)
                call.body = await body_of(request, self._runtime.settings.max_body, self._runtime.settings.body_seconds)
            if self.state.draining:
                raise Busy
            call.put_off = self._jobs.begin
            return await self._reply(route, call)

        return serve

    async def _reply(self, route: Route, call: ApiRequest) -> Response:
        if not route.asks:
            return await self._runtime.run(route.serve, call)
        # The caller is authenticated first, since analysts take turns at the threads for queries.
        await self._runtime.run(call.caller, route.rate)
        name = call.user.person.name
        call.timer = self._runtime.timer(name)
        try:
            return await self._runtime.asking.run_for(name, route.answer, call)
        finally:
            if call.held:
                await call.timer.hold()


class _Guard:
    """ASGI middleware: limits on heads, and one error format for failures of the API, another for those of pages."""

    def __init__(self, application: ASGIApp, settings: Settings) -> None:
        self._application = application
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        begun = False
        ticks: ResponseSteps = scope["app"].state.runtime.ticks
        arrived = ticks.now()

        async def watched(message: Message) -> None:
            nonlocal begun
            if not begun:
                await ticks.hold_first(arrived)
            begun = True
            await send(message)

        about: dict[str, Any] = scope.setdefault("tacit.about", {})
        path: str = scope["path"]
        pages = path in ("/", "/console") or path.startswith("/console/")
        try:
            scope["tacit.headers"] = check_scope(scope, self._settings)
            # The end of a pattern also matches before a newline.
            if path.endswith("\n") or (pages and not path.isprintable()):
                raise RequestError("path", 404, _NOTHING_HERE)
            if pages and scope["app"].state.draining:
                raise Busy
            if path.startswith("/console/"):
                about["route"] = "/console/…"
            await self._application(scope, receive, watched)
        except ClientDisconnect:
            return
        except Exception as problem:
            if begun:
                raise
            await (_failed_page(problem) if pages else error_response(problem, about))(scope, receive, watched)


def _assistants(runtime: WorkerRuntime) -> AssistantEndpoint:
    """Return the MCP endpoint; its dependency is optional, and most servers do not install it."""
    load("mcp", "mcp", "assistants")
    from tacit.server.mcp.endpoint import AssistantEndpoint

    return AssistantEndpoint(runtime)


def _failed_page(problem: Exception) -> Response:
    failure = describe(problem)
    return ApiResponse(failure.status, page(failure), _HTML, failure.headers)


async def _unrouted(request: Request, problem: Exception) -> Response:
    """Refuse a path or a method that the router does not know, in the format of all errors."""
    if isinstance(problem, HTTPException) and problem.status_code == 405:
        words, taken = "this path does not take that method", set((problem.headers or {})["Allow"].split(", "))
        if request.url.path.startswith("/console/"):
            words, taken = "pages are looked at, or sent a form", {"GET", "HEAD", "POST"}
        raise RequestError("method", 405, words, ((b"allow", ", ".join(sorted(taken)).encode()),))
    raise RequestError("path", 404, _NOTHING_HERE)


async def _to_console(_: Request) -> Response:
    return ApiResponse(307, b"", _HTML, ((b"location", b"/console/"),))


async def _stop_asked(app: App) -> None:
    """Stop the queries of this worker that operators have asked any worker to stop."""
    while True:
        await asyncio.sleep(_LOOK)
        app._runtime.running.stop_asked()


@asynccontextmanager
async def _life(app: App) -> AsyncIterator[None]:
    app._jobs.watch()
    watching = asyncio.get_running_loop().create_task(_stop_asked(app))
    async with nullcontext() if app._assistants is None else app._assistants.running():
        yield
        watching.cancel()
        # Running work is finished first, since it is charged already.
        await app.drain(app._runtime.settings.drain_seconds)
    await app._jobs.leave()
    app._runtime.close()
