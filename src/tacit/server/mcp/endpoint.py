"""Transports of the tools: standard streams for a project, and HTTP at ``/mcp`` of a server.

*Restarts.* An assistant can end its server process and start it again. The share of the conversation is an entry of the
ledger under the analyst and the name of the conversation, both from the command line, so that the next process finds
what was spent. The command line is not an argument of a tool: no text that a model writes changes it.

*HTTP.* Each request is a POST with a token; there are no sessions, so that there is no session id to steal, and any
worker process answers. The share of the conversation is that of the token, so that no text that a model writes, and no
configuration that it can edit, raises it. A page in a browser cannot ask: a request with another origin than the
server's is refused, and so is a request to a loopback server under another name (DNS rebinding). Size, time, format and
depth of bodies have the limits of the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from mcp import types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tacit.server.api.request import ALWAYS, ApiRequest, body_of, check_type, query_of, read_json
from tacit.server.api.worker_runtime import WorkerRuntime
from tacit.server.errors import Busy, RequestError
from tacit.server.mcp.tools import INSTRUCTIONS, TOOLS, AssistantTools, CuratorDoor, ServerDoor, ToolReply
from tacit.server.settings import Settings

#: Calls a tool with its arguments, given the context of the request.
ToolCall = Callable[[Any, str, Mapping[str, Any] | None], Awaitable[types.CallToolResult]]


def assistant_server(call: ToolCall) -> Server[Any]:
    """Create an MCP server whose tools are called by ``call``."""
    from tacit import __version__

    async def list_tools(_context: Any, _page: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(TOOLS.values()))

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await call(context, params.name, params.arguments)

    return Server(
        "tacit", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def result_of(reply: ToolReply) -> types.CallToolResult:
    """Return the reply of a tool as an MCP result."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=reply.text)],
        structured_content=reply.content,
        is_error=reply.failed,
    )


def serve_curator(door: CuratorDoor) -> None:
    """Serve the tools of a project on standard input and output, until the input ends."""
    tools = AssistantTools(door)

    async def call(_: Any, name: str, arguments: Mapping[str, Any] | None) -> types.CallToolResult:
        return result_of(await tools.call(name, arguments))

    asyncio.run(_serve(assistant_server(call)))


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


PATH: Final = "/mcp"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class AssistantEndpoint:
    """The tools over HTTP, as an ASGI application."""

    def __init__(self, runtime: WorkerRuntime) -> None:
        self._runtime = runtime
        self._manager = StreamableHTTPSessionManager(
            assistant_server(self._call), json_response=True, stateless=True, max_request_body_size=2**30
        )
        self.route = Route(PATH, self, methods=["POST"])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the MCP server for the life of the application."""
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
        door = ServerDoor(self._runtime, call.user, call.about)
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
    """Refuse a browser page of another origin, and a loopback request with another host name.

    Raises:
        RequestError: the Origin or the Host header names another server.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    own = None if settings.address is None else urlsplit(settings.address).netloc.lower()
    name = urlsplit(f"//{host}").hostname if host.isprintable() and not set(host) & set("/?#@\\") else None
    if settings.host in _LOOPBACK and not settings.behind_proxy and name not in _LOOPBACK and host != own:
        raise RequestError("host", 421, "this server is not known by that name; state its address with --address")
    origin = headers.get(b"origin")
    if origin is None:
        return
    page = urlsplit(origin.decode("latin-1").lower())
    here = {own, host} if own is not None or name in _LOOPBACK else {host}
    if page.scheme not in ("http", "https") or not page.netloc or page.netloc not in here:
        raise RequestError("origin", 403, "pages of other origins may not ask")
