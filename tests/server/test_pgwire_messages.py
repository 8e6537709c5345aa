"""The message layer of the PostgreSQL protocol: a strict reader, values in both formats, hostile bytes."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.pg_served import PgServed, pg_serve
from support.wire_fuzz import BUDGET, PRICE, QUERIES, Fuzzer
from tacit.server.pgwire.protocol import (
    BINARY,
    BOOL,
    DATE_OID,
    FLOAT8,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TEXT_OID,
    TIMESTAMP_OID,
    BadValue,
    FrontendMessage,
    StartUp,
    WireFault,
    decode,
    encode,
    read_message,
    read_start_up,
)

MOST = 65_536


def framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def fed(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return reader


def read(data: bytes, most: int = MOST) -> FrontendMessage:
    async def run() -> FrontendMessage:
        return await read_message(fed(data), most, 1.0)

    return asyncio.run(run())


def started(data: bytes) -> StartUp:
    async def run() -> StartUp:
        return await read_start_up(fed(data))

    return asyncio.run(run())


def test_messages_are_read_however_they_are_cut() -> None:
    data = framed(b"Q", b"SELECT 1\0") + framed(b"P", b"s\0SELECT $1\0" + struct.pack("!HI", 1, 23))
    data += framed(b"B", b"\0s\0" + struct.pack("!HHHi", 1, 1, 1, 4) + b"\0\0\0\7" + struct.pack("!HH", 1, 1))
    data += framed(b"E", b"\0" + struct.pack("!i", 10))

    async def run() -> list[FrontendMessage]:
        reader = fed(*(bytes([byte]) for byte in data))
        return [await read_message(reader, MOST, 1.0) for _ in range(4)]

    assert asyncio.run(run()) == [
        ("Q", ("SELECT 1",)),
        ("P", ("s", "SELECT $1", (23,))),
        ("B", ("", "s", (1,), (b"\0\0\0\7",), (1,))),
        ("E", ("", 10)),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"Q" + struct.pack("!I", 2**31),
        b"Q" + struct.pack("!I", 2**32 - 1),
        b"Q" + struct.pack("!I", 3),
        b"Q" + struct.pack("!I", MOST + 1),
        b"~" + struct.pack("!I", 4),
        framed(b"Q", b"no end"),
        framed(b"Q", b"two\0ends\0"),
        framed(b"Q", b"\xff\0"),
        framed(b"S", b"more"),
        framed(b"D", b"X\0"),
        framed(b"P", b"\0SELECT 1\0" + struct.pack("!H", 60_000)),
        framed(b"B", b"\0\0" + struct.pack("!HH", 1, 2)),
        framed(b"B", b"\0\0" + struct.pack("!HHi", 0, 1, -7) + b"\0\0"),
        framed(b"B", b"\0\0" + struct.pack("!HHi", 0, 1, 2**31 - 1) + b"\0\0"),
        framed(b"F", b""),
    ],
)
def test_malformed_messages_are_faults_before_their_body_is_waited_for(data: bytes) -> None:
    with pytest.raises(WireFault):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!II", 7, 196608),
        struct.pack("!II", 2**31, 196608),
        struct.pack("!II", 10_001, 196608),
        struct.pack("!II", 8, 2 << 16),
        struct.pack("!II", 9, 80877103) + b"x",
        struct.pack("!II", 8, 80877102),
        struct.pack("!II", 14, 196608) + b"user\0a",
        struct.pack("!II", 23, 196608) + b"a\0b\0a\0c\0user\0\0\0",
    ],
)
def test_malformed_start_up_messages_are_faults(data: bytes) -> None:
    with pytest.raises(WireFault):
        started(data)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(b"QPBDECHSXpdcfFZ\x00"), st.binary(max_size=60)), max_size=5),
    st.binary(max_size=30),
)
def test_no_bytes_do_more_than_a_fault(parts: list[tuple[int, bytes]], rest: bytes) -> None:
    """A bounded fuzzer: whatever arrives, messages come out or a fault is raised."""

    async def run() -> None:
        reader = fed(*(framed(bytes([kind]), body) for kind, body in parts), rest)
        with suppress(WireFault, EOFError):
            while True:
                await read_message(reader, 1_000, 1.0)

    asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
def test_no_start_up_does_more_than_a_fault(data: bytes) -> None:
    with suppress(WireFault, EOFError):
        started(data)


VALUES: list[tuple[int, Any]] = [
    (BOOL, True),
    (BOOL, False),
    (INT4, -7),
    (INT8, 2**62),
    (FLOAT8, -0.125),
    (NUMERIC, Decimal("-1234567.89")),
    (NUMERIC, Decimal("0.0001")),
    (NUMERIC, Decimal("10000")),
    (NUMERIC, Decimal("0")),
    (TEXT_OID, "it's ü"),
    (DATE_OID, dt.date(1, 1, 1)),
    (DATE_OID, dt.date(9999, 12, 31)),
    (TIMESTAMP_OID, dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)),
]
LISTS: list[tuple[int, Any]] = [(1009, ["a", None, 'q"{,}\\', ""]), (1016, [1, 2, 3])]


@pytest.mark.parametrize("form", [TEXT, BINARY])
@pytest.mark.parametrize(("oid", "value"), VALUES, ids=repr)
def test_values_come_back_in_both_formats(oid: int, value: Any, form: int) -> None:
    assert decode(encode(value, oid, form), oid, form) == value
    assert encode(None, oid, form) is None
    assert decode(None, oid, form) is None


@pytest.mark.parametrize(("oid", "value"), LISTS, ids=repr)
def test_lists_come_back_as_text_and_are_refused_in_binary(oid: int, value: Any) -> None:
    assert decode(encode(value, oid, TEXT), oid, TEXT) == value
    with pytest.raises(BadValue, match="as text"):
        encode(value, oid, BINARY)
    with pytest.raises(BadValue, match="as text"):
        decode(b"\0" * 12, oid, BINARY)


@settings(max_examples=150, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**14), max_value=10**14, places=4))
def test_numbers_come_back_exactly(value: Decimal) -> None:
    assert decode(encode(value, NUMERIC, BINARY), NUMERIC, BINARY) == value


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([16, 20, 21, 23, 25, 700, 701, 1082, 1114, 1700, 1009, 1007, 999]),
    st.binary(max_size=40),
    st.sampled_from([0, 1]),
)
def test_no_parameter_does_more_than_be_refused(oid: int, raw: bytes, form: int) -> None:
    with suppress(BadValue):
        decode(raw, oid, form)


# -- the same against a server


@pytest.fixture(scope="module")
def pg() -> Iterator[PgServed]:
    with pg_serve(body_seconds=0.5) as made:
        yield made


def closed(connection: socket.socket) -> bytes:
    """All bytes until the server closes."""
    data = b""
    try:
        while piece := connection.recv(65_536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def sent(pg: PgServed, data: bytes) -> bytes:
    with pg.raw() as connection:
        connection.sendall(data)
        return closed(connection)


START = struct.pack("!II", 20, 196608) + b"user\0alice\0\0"


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"\xff" * 64, b"08P01"),
        (struct.pack("!II", 2**31, 196608), b"08P01"),
        (struct.pack("!II", 8, 2 << 16), b"0A000"),
        (struct.pack("!II", 8, 80877103) * 2, b"08P01"),
        (START + framed(b"Q", b"SELECT 1\0"), b"28000"),
        (START + framed(b"p", b"PLAIN\0" + struct.pack("!i", 3) + b"abc"), b"28000"),
        (START + framed(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 2**31 - 1)), b"28000"),
        (START + framed(b"p", b"secret\0"), b"28000"),
        (START + b"p" + struct.pack("!I", 60_000), b"54000"),
        (b"\x16\x03\x01\x00\x05hello", b"08P01"),
    ],
)
def test_bad_bytes_end_the_connection_with_a_reason(pg: PgServed, data: bytes, state: bytes) -> None:
    told = sent(pg, data)
    assert state in told
    assert b"FATAL" in told


def test_encryption_asked_for_twice_is_refused(pg: PgServed) -> None:
    with pg.raw() as connection:
        connection.sendall(struct.pack("!II", 8, 80877103))
        assert connection.recv(1) == b"N"
        connection.sendall(struct.pack("!II", 8, 80877103))
        assert b"asked for twice" in closed(connection)


def test_a_message_that_stops_in_its_midst_ends_and_others_are_unaffected(pg: PgServed) -> None:
    import psycopg

    with psycopg.connect(**pg.words()) as other, psycopg.connect(**pg.words()) as slow:
        with socket.socket(fileno=__import__("os").dup(slow.fileno())) as connection:
            connection.sendall(b"Q" + struct.pack("!I", 1000) + b"SELECT")
            connection.settimeout(20)
            assert b"too long to arrive" in closed(connection)
        assert other.execute("SELECT 1").fetchall() == [(1,)]


def test_clients_that_leave_in_start_up_leave_nothing_behind(pg: PgServed) -> None:
    for _ in range(20):
        with pg.raw() as connection:
            connection.sendall(START[:11])
    for _ in range(100):
        if not len(pg.places):
            break
        __import__("time").sleep(0.05)
    assert len(pg.places) == 0


def test_conversations_changed_at_random_end_well_and_are_never_charged_or_drawn_twice() -> None:
    """A bounded run of :mod:`support.wire_fuzz`; the second time every query is a repeat."""
    with pg_serve(budgets=BUDGET) as made:
        heard: set[bytes] = set()
        spent = []
        for _ in range(2):
            fuzzer = Fuzzer(made, seed=20261117)
            made.on_loop(fuzzer.run(sessions=150, connections=60), seconds=120)
            assert len(fuzzer.states) > 8, "the conversations have no variety"
            assert not heard or fuzzer.counts == heard
            heard = fuzzer.counts
            spent.append(made.served.spent())
        assert spent[0] == spent[1] >= len(QUERIES) * PRICE
        assert len(made.places) == 0
