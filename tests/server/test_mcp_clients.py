"""The package's own client, end to end: standard streams, streamable HTTP, restarts, other tokens, hostile requests."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import tacit
from support.serving import Server, fetch, make_clinic, make_tokens, resident, until
from tacit.ledger import Ledger
from tacit.server.identity import People

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def fresh(number: int) -> dict[str, Any]:
    return {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE cost < {number}", "epsilon": 0.25}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clinic(tmp_path_factory.mktemp("assistants") / "clinic", epsilon="100")


@pytest.fixture(scope="module")
def tokens(clinic: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_STATE", str(clinic.parent / "state"))
        return make_tokens(clinic, ["alice", "bob"])


def shared(clinic: Path, name: str) -> str:
    """A token of a person that may spend epsilon 1."""
    with tacit.open(clinic) as curator, People.open(curator.ledger, str(clinic.parent / "tacit.ledger")) as people:
        return people.issue(name, expires=None, operator="test", share="1").text


@pytest.fixture(scope="module")
def server(clinic: Path, tokens: dict[str, str]) -> Iterator[Server]:
    with Server(clinic, "--mcp", "--workers", "2", "--response-step", "0.02") as served:
        served.wait_for_workers(2)
        yield served


def streams(place: str, *words: str, state: Path | None = None) -> StdioServerParameters:
    env = {**os.environ, **({} if state is None else {"TACIT_STATE": str(state)})}
    return StdioServerParameters(command=sys.executable, args=["-m", "tacit.cli", "mcp", place, *words], env=env)


def talk(with_: StdioServerParameters, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(with_) as client:
            return await work(client)

    return asyncio.run(main())


def over_http(server: Server, work: Callable[[Client], Awaitable[Any]], mode: str = "auto", **headers: str) -> Any:
    async def main() -> Any:
        words = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            httpx2.AsyncClient(headers=words, timeout=60) as http,
            Client(streamable_http_client(f"{server.address}/mcp", http_client=http), mode=mode) as client,
        ):
            return await work(client)

    return asyncio.run(main())


def shown(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_standard_streams_for_a_project_and_a_process_that_is_started_again(clinic: Path) -> None:
    state = clinic.parent / "own"
    begin = streams(str(clinic), "--epsilon", "0.5", "--conversation", "restart", state=state)

    async def first(client: Client) -> Any:
        assert [tool.name for tool in (await client.list_tools()).tools][:3] == ["list_tables", "quote", "ask"]
        assert "visits" in (await client.call_tool("list_tables", {})).content[0].text
        assert not (await client.call_tool("quote", {"sql": COUNT, "epsilon": 0.25})).is_error
        told = [client.call_tool("ask", fresh(number)) for number in range(6)]
        return await asyncio.gather(*told)

    told = talk(begin, first)
    assert sorted(each.is_error for each in told) == [False, False, True, True, True, True]
    assert all(each.structured_content["stop"] for each in told if each.is_error)

    async def again(client: Client) -> Any:
        free = await client.call_tool("ask", fresh(next(n for n, each in enumerate(told) if not each.is_error)))
        return free, await client.call_tool("ask", fresh(99))

    # The assistant may start the command again as often as it likes.
    free, refused = talk(begin, again)
    assert (free.is_error, free.structured_content["charged_now"]) == (False, {})
    assert (refused.is_error, refused.structured_content["stop"]) == (True, True)
    with Ledger.open(clinic.parent / "tacit.ledger", anchor=clinic.parent / "tacit.anchor") as ledger:
        found = ledger.budget("patients", analyst="owner", conversation="restart").balances[-1]
        assert (found.owner, found.lines[0].left) == ("conversation owner/restart", 0)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_streamable_http_of_both_eras_and_reconnecting(server: Server, clinic: Path, mode: str) -> None:
    words = shown(shared(clinic, "alice"))

    async def work(client: Client) -> Any:
        assert len((await client.list_tools()).tools) == 6
        return await client.call_tool("ask", {"sql": f"{COUNT} -- {mode}", "epsilon": 0.6})

    told = over_http(server, work, mode, **words)
    assert not told.is_error
    assert told.structured_content["charged_now"] in ({"epsilon": "0.6"}, {})
    assert told.structured_content["rows"][0][1]["low"] < told.structured_content["rows"][0][1]["high"]

    async def more(client: Client) -> Any:
        return await asyncio.gather(*(client.call_tool("ask", {**fresh(n), "epsilon": 0.3}) for n in (500, 600, 700)))

    refused = [over_http(server, more, mode, **words) for _ in range(2)]
    left = over_http(server, lambda client: client.call_tool("budget", {}), mode, **words)
    spent = next(e for e in left.structured_content["left"] if "token" in e["of"])
    assert float(spent["spent"]) <= 1
    assert any(each.is_error for each in refused[0]) or mode == "auto"


def post(server: Server, body: Any, token: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    words = {"Accept": "application/json, text/event-stream", **headers}
    return fetch(f"{server.address}/mcp", token, raw, **words)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def test_tokens_origins_names_and_sessions(server: Server, tokens: dict[str, str]) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for token in ("", "tacit_0000000000000000_" + "0" * 64, tokens["alice"][:-1] + "x"):
        assert post(server, listing, token)[0] == 401
    status, headers, body = post(server, listing, tokens["alice"])
    assert (status, headers["cache-control"], headers["x-content-type-options"]) == (200, "no-store", "nosniff")
    assert "mcp-session-id" not in headers
    assert len(json.loads(body)["result"]["tools"]) == 6
    # A page in a browser, and a name that was made to point here.
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.port + 1}", "file://", "http://"):
        assert post(server, listing, tokens["alice"], Origin=origin)[0] == 403, origin
    assert post(server, listing, tokens["alice"], Origin=server.address)[0] == 200
    for name in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost@evil.example", ""):
        assert post(server, listing, tokens["alice"], Host=name)[0] in (400, 421), name
    assert post(server, listing, tokens["alice"], Host=f"localhost:{server.port}")[0] == 200
    # There are no sessions: an id of another's gives nothing, and the token alone says who asks.
    words = {"Mcp-Session-Id": "0123456789abcdef"}
    told = json.loads(post(server, call("budget"), tokens["bob"], **words)[2])["result"]["structuredContent"]
    assert {each["of"] for each in told["left"]} == {"population"}
    for method in ("GET", "DELETE", "PUT"):
        request = f"{method} /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens['alice']}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            raw.sendall(request.encode())
            assert b" 405 " in raw.recv(4096).partition(b"\r\n")[0]


def test_bodies_that_are_too_large_too_deep_or_no_message(server: Server, tokens: dict[str, str]) -> None:
    before = [resident(pid) for pid in server.workers()]
    good = json.dumps(call("budget")).encode()
    bad: list[bytes] = [
        b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"{}", b"[" + good + b"," + good + b"]",
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}', b'{"jsonrpc":"2.0","id":NaN,"method":"tools/list"}',
        b"[" * 30_000 + b"]" * 30_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}', b'{"jsonrpc":"2.0","id":1,"method":"admin/raise"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":"sql"}}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"tools/list"}',
    ]  # fmt: skip
    for body in bad:
        status, _, told = post(server, body, tokens["alice"])
        assert status == 400 or b'"error"' in told, body[:60]
        assert status < 500, body[:60]
    assert post(server, call("ask", sql="x" * 70_000, epsilon=0.1), tokens["alice"])[0] == 413
    assert post(server, call("budget"), tokens["alice"], Content_Encoding="gzip")[0] == 415
    told = json.loads(post(server, call("ask", **fresh(1)), tokens["alice"], Tacit_Share="100000")[2])["result"]
    assert "--share 1" in told["content"][0]["text"], "a share is the token's, whatever headers say"
    grown = max(resident(pid) for pid in server.workers()) - max(before)
    assert grown < 80_000_000


def test_slow_clients_hold_up_no_one(server: Server, tokens: dict[str, str]) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens['alice']}\r\n"
    slow = []
    for _ in range(40):
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{{".encode())
        slow.append(raw)
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: post(server, call("budget"), tokens["bob"])[0], range(8)))
    assert told == [200] * 8
    assert time.monotonic() - began < 10
    for raw in slow:
        raw.close()


def test_a_client_that_leaves_has_paid_and_finds_the_answer_later(server: Server, clinic: Path) -> None:
    token = shared(clinic, "alice")
    body = json.dumps(call("ask", **fresh(901))).encode()
    lines = ["POST /mcp HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    lines += ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)

    def spent() -> str:
        told = json.loads(post(server, call("budget"), token)[2])["result"]["structuredContent"]
        return next((each["spent"] for each in told["left"] if "token" in each["of"]), "")

    until(lambda: spent() == "0.25", "the query is charged")
    told = json.loads(post(server, call("ask", **fresh(901)), token)[2])["result"]
    assert (told["isError"], told["structuredContent"]["charged_now"]) == (False, {})
    assert spent() == "0.25"


def test_a_server_without_assistants_has_no_such_path(clinic: Path) -> None:
    from support.served import serve

    served = serve()
    status, _, body = served.raw("POST", "/mcp", body=b"{}", headers=[(b"content-type", b"application/json")])
    assert (status, json.loads(body)["error"]["code"]) == (404, "request.path")
    served.close()


def test_the_command_needs_a_share(clinic: Path) -> None:
    from support.command_line import run_command

    assert "--epsilon 1" in run_command("mcp", str(clinic)).output


def test_an_unknown_method_is_an_error_of_the_protocol(server: Server, tokens: dict[str, str]) -> None:
    async def work(client: Client) -> Any:
        with pytest.raises(MCPError):
            await client.get_prompt("raise the share")
        told = await client.call_tool("raise_share", {"epsilon": 100})
        return told.is_error

    assert over_http(server, work, **shown(tokens["alice"]))
