"""Streamable HTTP behind the tokens of the server, at ``/mcp``.

Each request is a POST with a token of its own; there are no sessions, so that there is no session id to steal, and any
worker process answers. The conversation and its share are headers, which the person writes into the configuration of
the assistant. A page in a browser cannot ask: a request that states another origin than the server's own is refused,
and so is one to a loopback server under another name (DNS rebinding). Size, time, form and depth of bodies have the
limits of the API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from mcp import types
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tacit.curator.curator import Conversation
from tacit.server.api.request import ALWAYS, ApiRequest
from tacit.server.api.request_body import read_json
from tacit.server.api.request_limits import body_of, check_type, query_of
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Busy, RequestError
from tacit.server.mcp.doors import ServerDoor
from tacit.server.mcp.protocol import assistant_server, result_of
from tacit.server.mcp.tools import AssistantTools
from tacit.server.settings import Settings

PATH: Final = "/mcp"
#: Name of the conversation where none is stated.
DEFAULT_CONVERSATION: Final = "assistant"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class AssistantEndpoint:
    """The tools over HTTP."""

    def __init__(self, runtime: WorkerRuntime) -> None:
        self._runtime = runtime
        self._manager = StreamableHTTPSessionManager(
            assistant_server(self._call), json_response=True, stateless=True, max_request_body_size=2**30
        )
        self.route = Route(PATH, self, methods=["POST"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve; for the life of the application."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate a request, and pass it on with its body."""
        request, settings = Request(scope, receive), self._runtime.settings
        headers: dict[bytes, bytes] = scope["tacit.headers"]
        address = request.client.host if request.client else ""
        call = ApiRequest(self._runtime, headers, address=address, about=scope["tacit.about"])
        call.about["route"] = PATH
        if scope["app"].state.draining:
            raise Busy
        check_origin(headers, settings)
        query_of(scope, ())
        check_type(headers)
        body = await body_of(request, settings.max_body, settings.body_seconds)
        if not isinstance(read_json(body), dict):
            raise RequestError("body", 400, "the body must be one message of JSON-RPC")
        await self._runtime.run(call.caller, "reads")
        door = ServerDoor(self._runtime, call.user, _conversation(headers), call.about)
        scope["tacit.tools"] = AssistantTools(door)
        unread = [True]

        async def replay() -> Message:
            if unread:
                unread.clear()
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *ALWAYS]}
            await send(message)

        await self._manager.handle_request(scope, replay, guarded)

    @staticmethod
    async def _call(context: Any, name: str, arguments: Mapping[str, Any] | None) -> types.CallToolResult:
        tools: AssistantTools = context.request.scope["tacit.tools"]
        return result_of(await tools.call(name, arguments))


def check_origin(headers: dict[bytes, bytes], settings: Settings) -> None:
    """Refuse a page of another origin, and a name of this machine that is not its own.

    Raises:
        RequestError: the request comes from, or believes to go to, another place.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    own = None if settings.address is None else urlsplit(settings.address).netloc.lower()
    name = urlsplit(f"//{host}").hostname if host.isprintable() and not set(host) & set("/?#@\\") else None
    if settings.host in _LOOPBACK and not settings.behind_proxy and name not in _LOOPBACK and host != own:
        raise RequestError("host", 421, "this server is not known by that name; state its address with --address")
    origin = headers.get(b"origin")
    if origin is None:
        return
    said = urlsplit(origin.decode("latin-1").lower())
    here = {own, host} if own is not None or name in _LOOPBACK else {host}
    if said.scheme not in ("http", "https") or not said.netloc or said.netloc not in here:
        raise RequestError("origin", 403, "pages of other origins may not ask")


def _conversation(headers: dict[bytes, bytes]) -> Conversation | None:
    """The conversation that the headers state; None without a share."""
    share = headers.get(b"tacit-share")
    if share is None:
        return None
    name = headers.get(b"tacit-conversation", DEFAULT_CONVERSATION.encode()).decode("latin-1").strip()
    return Conversation.stated(name, share.decode("latin-1").strip())
