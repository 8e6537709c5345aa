"""Clients that mean harm, or write SQL in uncommon ways: work and memory are bounded, and nothing inside is shown."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg import pq

from support.pg_served import PgServed, pg_serve
from support.served import BUDGETS
from tacit.query.refusal import Refusal
from tacit.server.pgwire import server as streams
from tacit.server.pgwire import session as sessions
from tacit.server.pgwire.protocol import NUMERIC, TEXT, BadValue, decode
from tacit.server.pgwire.statements import split_statements

BUDGET = {**BUDGETS, "patients": {"accounting": "approx", "epsilon": "1000", "delta": "1e-6"}}
TEXTS = 1009


@pytest.fixture(scope="module")
def pg() -> Iterator[PgServed]:
    with pg_serve(budgets=BUDGET) as made:
        yield made


@pytest.fixture
def ask(pg: PgServed) -> Iterator[psycopg.Connection]:
    with psycopg.connect(**pg.words(options="-c tacit.epsilon=0.5"), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT $1,$2", 2),
        ("SELECT COUNT(*) FROM visits WHERE ward IN ($1,$2,$3)", 3),
        ("SELECT $1::int,($2)", 2),
        ("SELECT $1+$2", 2),
        ("SELECT '$1,$2', $1", 1),
        ('SELECT "$1,$2", $1', 1),
        ("SELECT $$ $1,$2 $$", 0),
        ("SELECT $m$ $1,$2 $m$,$1", 1),
        ("SELECT 1 -- $1,$2", 0),
        ("SELECT /* $1,$2 */ $3", 3),
    ],
)
def test_parameters_are_found_whatever_stands_beside_them(text: str, count: int) -> None:
    (statement,) = split_statements(text)
    assert statement.parameters == count
    assert statement.text.replace(" ", "") == text.partition(" --")[0].replace(" ", "")


@pytest.mark.parametrize("text", ["SELECT E'\\'$1,$2", "SELECT /* /* */ $1,$2 */ 1", "SELECT $1a$x"])
def test_what_two_readers_read_differently_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        print(split_statements(text)[0].words)


def test_a_query_with_parameters_side_by_side(ask: psycopg.Connection) -> None:
    made = ask.pgconn.exec_params(
        b"SELECT ward, COUNT(*) AS n FROM visits WHERE ward IN ($1,$2) GROUP BY ward", [b"a", b"b"], [0, 0]
    )
    assert [made.get_value(row, 0) for row in range(made.ntuples)] == [b"a", b"b"]


@pytest.mark.parametrize("text", ["", " ", ";", "-- nothing"])
def test_an_empty_text_is_answered_as_such(ask: psycopg.Connection, text: str) -> None:
    assert ask.pgconn.exec_(text.encode()).status == pq.ExecStatus.EMPTY_QUERY
    assert ask.pgconn.exec_params(text.encode(), []).status == pq.ExecStatus.EMPTY_QUERY


@pytest.mark.parametrize("text", ["1e401", "1e-401", "1e-999999999", "1" * 401, "inf", "nan"])
def test_numbers_that_cannot_be_written_out_are_refused(text: str) -> None:
    with pytest.raises(BadValue):
        decode(text.encode(), NUMERIC, TEXT)
    assert decode(b"-1.5e2", NUMERIC, TEXT) == Decimal(-150)


def test_lists_are_read_strictly_and_in_time() -> None:
    def read(text: str) -> object:
        return decode(text.encode(), TEXTS, TEXT)

    assert read('{a, "b\\",}" ,NULL,"NULL", c d }') == ["a", 'b",}', None, "NULL", "c d"]
    assert (read("{}"), read("{ }")) == ([], [])
    for text in ('{"a', "{a,}", "{,}", '{a"b"}', '{"a"b}', "{a}{b}", "{{a}}", "a", '{"' + '\\"' * 30_000 + "}"):
        began = time.process_time()
        with pytest.raises(BadValue):
            read(text)
        assert time.process_time() - began < 0.5


def test_parameters_do_not_make_a_text_grow_without_end(ask: psycopg.Connection) -> None:
    for text in ("SELECT {} FROM pg_am", "SELECT COUNT(*) FROM visits WHERE ward IN ({})"):
        many = text.format(",".join(["$1"] * 1000)).encode()
        made = ask.pgconn.exec_params(many, [b"x" * 60_000], [25])
        assert (made.error_field(pq.DiagnosticField.SQLSTATE) or b"").startswith((b"54", b"0A"))


def test_tables_of_the_embedded_database_cannot_be_named(ask: psycopg.Connection) -> None:
    hidden = "SELECT * FROM {0}, (WITH {0} AS (SELECT 1 FROM pg_am) SELECT * FROM {0}) t"
    for name in ("duckdb_tables", "duckdb_settings", "sqlite_master", '"/etc/passwd"', "pgc.x_class"):
        for text in (hidden, "WITH {0} AS (SELECT * FROM {0}) SELECT * FROM {0}, pg_am", "SELECT * FROM {0}, pg_am"):
            with pytest.raises(psycopg.Error) as problem:
                ask.execute(text.format(name).encode())
            assert problem.value.sqlstate in ("42883", "42P01", "42601", "42703"), text
    inner = "WITH a AS (SELECT relname AS r FROM pg_class), b AS (SELECT a.r FROM a) SELECT count(b.r) > 3 FROM b"
    assert ask.execute(inner).fetchone() == (True,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tacit.epsilon", "1e-999999999"), ("tacit.epsilon", "nan"),
        ("tacit.intervals", "2"), ("client_encoding", "LATIN1"), ("datestyle", "German"),
        ("session_authorization", "bob"), ("is_superuser", "on"),
    ],
)  # fmt: skip
def test_settings_of_wrong_kinds_are_refused(ask: psycopg.Connection, name: str, value: str) -> None:
    before = ask.execute(f"SHOW {name}").fetchone()
    with pytest.raises(psycopg.Error) as problem:
        ask.execute(f"SET {name} = '{value}'".encode())
    assert problem.value.sqlstate == "22023"
    assert ask.execute(f"SHOW {name}").fetchone() == before


def test_settings_that_are_missing(ask: psycopg.Connection) -> None:
    assert ask.execute("SELECT current_setting('no.such', true)").fetchone() == (None,)
    with pytest.raises(psycopg.errors.UndefinedObject):
        ask.execute("SELECT current_setting('no.such')")


def test_what_a_connection_may_keep_is_bounded(pg: PgServed, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(**pg.words(), autocommit=True) as connection:
        monkeypatch.setattr(sessions, "MAX_PREPARED_WORDS", 10_000)
        made = [connection.pgconn.prepare(b"s%d" % i, b"SELECT " + b"1," * 1500 + b"1") for i in range(5)]
        states = [each.error_field(pq.DiagnosticField.SQLSTATE) for each in made]
        assert states == [None, None, None, b"54000", b"54000"]
        monkeypatch.setattr(sessions, "MAX_HELD", 300)
        connection.execute("BEGIN")
        before = pg.served.spent()
        first, second = b"SELECT attname, atttypid FROM pg_attribute", b"SELECT COUNT(*) FROM visits WHERE cost < 11"
        with socket.socket(fileno=os.dup(connection.fileno())) as raw:
            raw.setblocking(True)
            for name, sql in ((b"a\0", first), (b"b\0", second)):
                parts = ((b"P", name + sql + b"\0\0\0"), (b"B", name + name + bytes(6)), (b"E", name + b"\0\0\0\1"))
                raw.sendall(b"".join(kind + struct.pack("!I", len(body) + 4) + body for kind, body in parts))
            raw.sendall(b"S" + struct.pack("!I", 4))
            told = b""
            while not told.endswith(b"Z\0\0\0\5E"):
                told += raw.recv(65_536)
        assert b"too many rows" in told
        assert pg.served.spent() == before, "it is refused before it is charged"


def test_replies_wait_for_a_client_that_does_not_read(pg: PgServed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some small messages of a series have large replies; no more of them are made than the client takes."""
    monkeypatch.setattr(streams, "_WRITE_SECONDS", 1.0)
    text = b"SELECT attname, attname, attname, attname FROM pg_attribute"
    parse = b"P" + struct.pack("!I", len(text) + 8) + b"\0" + text + b"\0\0\0"
    again = b"B" + struct.pack("!I", 12) + b"\0\0" + b"\0" * 6 + b"E" + struct.pack("!I", 9) + b"\0" + b"\0" * 4
    held: list[int] = []
    whole = streams.WireStream.write

    def watched(self: streams.WireStream, data: bytes) -> None:
        whole(self, data)
        held.append(len(self._out))

    monkeypatch.setattr(streams.WireStream, "write", watched)
    with psycopg.connect(**pg.words(), autocommit=True) as other, psycopg.connect(**pg.words()) as slow:
        with socket.socket(fileno=os.dup(slow.fileno())) as connection:
            connection.sendall(parse + again * 2000)
            assert other.execute("SELECT 1").fetchone() == (1,)
            time.sleep(1.5)
        assert max(held) < 300_000
