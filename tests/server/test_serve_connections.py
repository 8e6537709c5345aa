"""Below HTTP: places for connections, heads that are slow or long, clients that do not read, bytes that are no HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from tacit.core.errors import InputError
from tacit.server.serve.http_protocol import Connections, GuardedProtocol
from tacit.server.serve.processes import tls_context
from tacit.server.settings import Settings


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=80))
def test_there_are_never_more_than_allowed_and_every_place_is_given_back(steps: list[tuple[bool, int]]) -> None:
    places = Connections(8, 4)
    inside: list[str] = []
    for enters, number in steps:
        address = ("192.0.2.1", "192.0.2.2", "2001:db8::1")[number % 3]
        if enters:
            room = len(inside) < 8 and inside.count(address) < 4
            assert places.admit(address) is room
            inside += [address] * room
        elif address in inside:
            places.leave(address)
            inside.remove(address)
        assert len(places) == len(inside)
    for address in inside:
        places.leave(address)
    assert len(places) == 0


def test_a_network_is_one_address_and_a_proxy_has_no_limit() -> None:
    """Whoever has one address of IPv6 has 2⁶⁴ of them."""
    places = Connections(100, 2)
    assert [places.admit(f"2001:db8::{i}") for i in range(1, 4)] == [True, True, False]
    assert places.admit("2001:db8:0:1::1")
    assert all(Connections(100).admit("192.0.2.1") for _ in range(50))


# The protocol, on a real loop.

Application = Callable[[Any, Any, Any], Awaitable[None]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Say how long the body was."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    body = json.dumps({"path": scope["path"], "size": size}).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", str(len(body)).encode())],
        }
    )
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening(
    application: Application = echo, connections: Connections | None = None, **limits: Any
) -> AsyncIterator[tuple[int, Connections]]:
    places = Connections(100, 50) if connections is None else connections
    allowed = Settings(max_header_bytes=2000, max_path=100, max_body=1000)
    protocol = type("Quick", (GuardedProtocol,), {"head_seconds": 0.3, "write_seconds": 0.3, **limits})
    config = uvicorn.Config(application, http="httptools", ws="none", log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()

    def make() -> GuardedProtocol:
        found: GuardedProtocol = protocol(places, allowed, config=config, server_state=state, app_state={})
        return found

    server = await loop.create_server(make, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], places
    finally:
        server.close()
        for task in state.tasks:
            task.cancel()


async def spoken(port: int, *parts: bytes, pause: float = 0.0) -> bytes:
    """Bytes that come back for some bytes, until the other side ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


GET = b"GET /x HTTP/1.1\r\nhost: a\r\n"


def is_refused(raw: bytes) -> bool:
    head = raw.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\nserver:" not in head
    assert b"\r\ndate:" not in head
    return head.startswith(b"http/1.1 400") and b"connection: close" in head


def test_an_ordinary_request_passes_and_frees_its_place() -> None:
    async def run() -> None:
        async with listening() as (port, places):
            raw = await spoken(port, GET + b"connection: close\r\n\r\n")
            assert raw.endswith(b'{"path": "/x", "size": 0}')
            assert b"server:" not in raw.lower()
            while len(places):
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_head_that_does_not_end_is_cut_off() -> None:
    async def run() -> None:
        async with listening() as (port, _):
            for part in (b"x-a: " + b"y" * 5000, b"x-a: y\r\n" * 500, b"x" * 5000):
                raw = await spoken(port, GET + part)
                assert not raw or is_refused(raw)
            assert await spoken(port, b"GET /" + b"a" * 9000) == b""

    asyncio.run(run())


def test_a_slow_head_is_cut_off_and_an_idle_connection_closed() -> None:
    async def run() -> None:
        async with listening() as (port, places):
            assert await spoken(port, GET) == b""
            assert await spoken(port) == b""
            drip = (GET, *(b"x-%d: y\r\n" % i for i in range(40)))
            assert await spoken(port, *drip, pause=0.02) == b""
            first = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nab"
            raw = await spoken(port, first, GET, pause=0.05)
            assert raw.count(b"HTTP/1.1") == 1, "the second head was slow"
            while len(places):
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_slow_body_is_not_taken_for_a_slow_head() -> None:
    async def run() -> None:
        async with listening() as (port, _):
            head = b"POST /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 4\r\n\r\n"
            raw = await spoken(port, head, b"a", b"b", b"c", b"d", pause=0.15)
            assert b'"size": 4' in raw

    asyncio.run(run())


def test_what_follows_a_head_is_bounded_in_every_encoding() -> None:
    async def run() -> None:
        async with listening() as (port, _):
            head = b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
            trailers = b"1\r\na\r\n0\r\nx-t: " + b"y" * 20_000
            assert await spoken(port, head + trailers) == b"", "a request is under way, so no word can be said"
            chunks = b"1;" + b"e" * 20_000
            assert (await spoken(port, head + chunks))[:12] in (b"", b"HTTP/1.1 400")

    asyncio.run(run())


def test_many_small_requests_on_one_connection_are_not_one_long_one() -> None:
    async def run() -> None:
        async with listening() as (port, _):
            one = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 500\r\n\r\n" + b"z" * 500
            raw = await spoken(port, one * 40 + GET + b"connection: close\r\n\r\n")
            assert raw.count(b"HTTP/1.1 200") == 41

    asyncio.run(run())


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /x HTTP/1.1\r\nbad header\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"GET /x HTTP/9.9\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"GET /x\x00y HTTP/1.1\r\n\r\n",
        # What another server on the way could read in another way.
        b"GET /x\r\n\r\n",
        b"GET /x HTTP/2.0\r\nhost: a\r\n\r\n",
        b"GET /x HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /x HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST /x HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nab",
        b"GET /x HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n" + GET + b"\r\n",
    ],
)
def test_what_is_not_http_is_refused(raw: bytes) -> None:
    async def run() -> None:
        async with listening() as (port, _):
            assert is_refused(await spoken(port, raw))

    asyncio.run(run())


def test_an_older_client_is_served() -> None:
    async def run() -> None:
        async with listening() as (port, _):
            assert (await spoken(port, b"GET /x HTTP/1.0\r\n\r\n")).endswith(b'{"path": "/x", "size": 0}')

    asyncio.run(run())


def test_what_follows_a_body_is_no_part_of_the_head() -> None:
    """A trailer could show a token, or an address, that no proxy on the way has looked at."""
    seen: list[Any] = []

    async def noted(scope: Any, receive: Any, send: Any) -> None:
        await echo(scope, receive, send)
        seen.append([name for name, _ in scope["headers"]])

    async def run() -> None:
        async with listening(noted) as (port, _):
            head = b"POST /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            raw = await spoken(port, head + b"2\r\nab\r\n0\r\nauthorization: Bearer x\r\nx-forwarded-for: b\r\n\r\n")
            assert b'"size": 2' in raw

    asyncio.run(run())
    assert seen == [[b"host", b"connection", b"transfer-encoding"]]


@pytest.mark.parametrize("rest", [[b"z" * 20_000, b"z" * 20_000], [b"zz\r\n"]])
def test_a_request_gets_one_response(rest: list[bytes]) -> None:
    """A second one would be taken for that of the next client on the same way."""

    async def hasty(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 415, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> bytes:
        async with listening(hasty) as (port, _):
            length = b"content-length: 90000" if len(rest) > 1 else b"transfer-encoding: chunked"
            head = b"POST /x HTTP/1.1\r\nhost: a\r\n" + length + b"\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head)
            first = await reader.readuntil(b"\r\n\r\n")
            assert first.startswith(b"HTTP/1.1 415")
            found = b""
            try:
                for part in rest:
                    writer.write(part)
                    await writer.drain()
                found = await reader.read()
            except ConnectionError:
                pass
            writer.close()
            return found

    assert asyncio.run(run()) == b""


def test_a_client_that_does_not_read_is_disconnected() -> None:
    ended = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(10_000):
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                if (await asyncio.wait_for(receive_or_nothing(receive), 5)) == "http.disconnect":
                    return
        finally:
            ended.set()

    async def receive_or_nothing(receive: Any) -> str:
        done, pending = await asyncio.wait([asyncio.ensure_future(receive())], timeout=0)
        for task in pending:
            task.cancel()
        return next((task.result()["type"] for task in done), "")

    async def run() -> None:
        async with listening(endless) as (port, places):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(GET + b"\r\n")
            while not ended.is_set() or len(places):
                await asyncio.sleep(0.02)
            writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize(
    "address", ["tacit.example.org", "https://a b", "https://x/y", "javascript:alert(1)", "https://"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match="address"):
        Settings(address=address)


def test_a_key_of_tls_that_others_may_read_is_refused(tmp_path: Path) -> None:
    key, cert = tmp_path / "k.pem", tmp_path / "c.pem"
    key.write_text("x")
    cert.write_text("x")
    settings = Settings(tls_cert=str(cert), tls_key=str(key))
    for mode, words in ((0o644, "others may read"), (0o604, "others may read"), (0o620, "use or change")):
        key.chmod(mode)
        with pytest.raises(InputError, match=words):
            tls_context(settings)
    for mode in (0o600, 0o640, 0o400):
        key.chmod(mode)
        assert stat.S_IMODE(os.stat(key).st_mode) == mode
        with pytest.raises(InputError, match="cannot be used"):
            tls_context(settings)
