"""Protocol of the tools, and standard streams: for a project, or as a bridge to a server.

*Restarts.* An assistant can end a process that it talks to and start it again. The share of the conversation is an
entry of the ledger under the analyst and the name of the conversation, both from the command line, so that the next
process finds what was spent. A command line is not an argument of a tool: no text that a model writes changes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from tacit.core.errors import InputError
from tacit.server.mcp.doors import CuratorDoor
from tacit.server.mcp.tools import INSTRUCTIONS, TOOLS, AssistantTools, ToolReply

#: Calls a tool with its arguments, given the context of the request.
ToolCall = Callable[[Any, str, Mapping[str, Any] | None], Awaitable[types.CallToolResult]]
_TOOLS = [
    types.Tool(
        name=kind.name,
        title=kind.title,
        description=kind.description,
        input_schema=dict(kind.schema),
        annotations=types.ToolAnnotations(
            title=kind.title,
            read_only_hint=not kind.charges,
            destructive_hint=kind.charges,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )
    for kind in TOOLS.values()
]


def assistant_server(call: ToolCall) -> Server[Any]:
    """A server of the protocol whose tools are called by ``call``."""
    from tacit import __version__

    async def list_tools(_context: Any, _page: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_TOOLS)

    async def call_tool(context: Any, said: types.CallToolRequestParams) -> types.CallToolResult:
        return await call(context, said.name, said.arguments)

    return Server(
        "tacit", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def result_of(reply: ToolReply) -> types.CallToolResult:
    """The reply of a tool, as the protocol has it."""
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


def serve_bridge(url: str, headers: Mapping[str, str]) -> None:
    """Pass the tools of a server's ``/mcp`` on to standard input and output, until the input ends.

    Raises:
        InputError: nothing of the kind answers there, or the token is not valid.
    """
    connected = False

    async def main() -> None:
        nonlocal connected
        import httpx2

        # The server decides when an answer leaves, so that the wait has no end here.
        waits = httpx2.Timeout(30.0, read=None)
        async with (
            httpx2.AsyncClient(headers=dict(headers), timeout=waits) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):

            async def call(_: Any, name: str, arguments: Mapping[str, Any] | None) -> types.CallToolResult:
                return await client.call_tool(name, dict(arguments or {}))

            await client.list_tools()
            connected = True
            await _serve(assistant_server(call))

    try:
        asyncio.run(main())
    except Exception:
        if connected:
            raise
        raise InputError(
            "place", "no server with `tacit serve --mcp` answers there, or it does not take the token in TACIT_TOKEN"
        ) from None


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
