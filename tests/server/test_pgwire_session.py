"""PostgreSQL clients and charges: one execution, one charge, and no way back from it; and who gets in."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq

from support.pg_served import PgServed, pg_serve
from support.served import COUNT, rows
from support.serving import certificate
from support.timers import TestedSteps
from support.toy_engine import ToyEngine
from tacit.query.parsing.parse import _tokens
from tacit.server.pgwire.protocol import TEXT_OID
from tacit.server.pgwire.session import ClientQueries, readable
from tacit.server.pgwire.statements import StatementKind, split_statements

HALF = "-c tacit.epsilon=0.5"


class Gate(ToyEngine):
    """Measures when it is let."""

    def __init__(self) -> None:
        super().__init__(rows())
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()

    def measure(self, work: Any) -> Any:
        self.waiting.set()
        assert self.open.wait(30)
        return super().measure(work)


@pytest.fixture
def pg() -> Iterator[PgServed]:
    with pg_serve(engine=Gate()) as made:
        yield made


def connect(pg: PgServed, name: str = "alice", **more: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(**pg.words(name, **{"options": HALF, **more}), autocommit=True)


class Raw:
    """Messages of one's own, on a connection that a driver has opened."""

    def __init__(self, pg: PgServed, **more: Any) -> None:
        self.driver = connect(pg, **more)
        self.socket = socket.socket(fileno=os.dup(self.driver.fileno()))
        self.socket.setblocking(True)
        self.socket.settimeout(30)
        self.buffer = b""

    def send(self, *messages: tuple[bytes, bytes]) -> None:
        self.socket.sendall(b"".join(kind + struct.pack("!I", len(body) + 4) + body for kind, body in messages))

    def until_ready(self) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        while not found or found[-1][0] != b"Z":
            while len(self.buffer) < 5 or len(self.buffer) < 1 + int.from_bytes(self.buffer[1:5], "big"):
                piece = self.socket.recv(65_536)
                assert piece
                self.buffer += piece
            end = 1 + int.from_bytes(self.buffer[1:5], "big")
            found.append((self.buffer[:1], self.buffer[5:end]))
            self.buffer = self.buffer[end:]
        return found

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.driver.close()


def parse(sql: str, name: bytes = b"") -> tuple[bytes, bytes]:
    return b"P", name + b"\0" + sql.encode() + b"\0\0\0"


def bind(portal: bytes = b"", name: bytes = b"") -> tuple[bytes, bytes]:
    return b"B", portal + b"\0" + name + b"\0\0\0\0\0\0\0"


def execute(portal: bytes = b"", limit: int = 0) -> tuple[bytes, bytes]:
    return b"E", portal + b"\0" + struct.pack("!i", limit)


SYNC = (b"S", b"")


def state(messages: list[tuple[bytes, bytes]]) -> str:
    body = next(body for kind, body in messages if kind == b"E")
    return next(part[1:] for part in body.split(b"\0") if part[:1] == b"C").decode()


# -- charges


def test_preparing_and_describing_are_free_and_execution_charges_once(pg: PgServed) -> None:
    with Raw(pg) as raw:
        describe = ((b"D", b"Sq\0"), (b"D", b"P\0"))
        raw.send(parse(COUNT, b"q"), describe[0], bind(b"", b"q"), describe[1], SYNC)
        found = raw.until_ready()
        assert b"".join(kind for kind, _ in found) == b"1tT2TZ"
        assert [body[:2] for kind, body in found if kind == b"T"] == [b"\0\2", b"\0\2"]
        assert (pg.served.spent(), pg.served.engine.measured) == (0, 0)
        raw.send(bind(b"", b"q"), execute(), SYNC)
        first = [body for kind, body in raw.until_ready() if kind == b"D"]
        assert (len(first), pg.served.spent()) == (3, Fraction(1, 2))
        raw.send(bind(b"", b"q"), execute(), SYNC)
        assert [body for kind, body in raw.until_ready() if kind == b"D"] == first
        assert (pg.served.spent(), pg.served.engine.measured) == (Fraction(1, 2), 1)


def test_a_portal_fetched_in_pieces_is_one_draw_and_is_never_run_again(pg: PgServed) -> None:
    with Raw(pg) as raw:
        raw.send(parse(COUNT), bind(b"p"), execute(b"p", 2), execute(b"p", 2), execute(b"p"), execute(b"p", 5), SYNC)
        kinds = b"".join(kind for kind, _ in raw.until_ready())
        assert kinds == b"12NDDsDCCCZ"
        assert pg.served.engine.measured == 1
        assert pg.served.spent() == Fraction(1, 2)
        # The end of the series was the end of its transaction, and of the portal.
        raw.send(execute(b"p"), SYNC)
        assert state(raw.until_ready()) == "34000"


def test_portals_end_with_their_transaction(pg: PgServed) -> None:
    with Raw(pg) as raw:
        raw.send((b"Q", b"BEGIN\0"))
        raw.until_ready()
        raw.send(parse(COUNT), bind(b"p"), execute(b"p", 1), SYNC)
        raw.until_ready()
        raw.send(execute(b"p", 1), SYNC)
        assert b"".join(kind for kind, _ in raw.until_ready()) == b"DsZ"
        raw.send((b"Q", b"COMMIT\0"))
        raw.until_ready()
        raw.send(execute(b"p"), SYNC)
        assert state(raw.until_ready()) == "34000"


def test_transactions_and_savepoints_give_nothing_back_and_draw_nothing_anew(pg: PgServed) -> None:
    with connect(pg) as connection:
        connection.execute("BEGIN")
        first = connection.execute(COUNT).fetchall()
        connection.execute("ROLLBACK")
        assert pg.served.spent() == Fraction(1, 2)
        connection.execute("BEGIN; SAVEPOINT a")
        assert connection.execute(COUNT).fetchall() == first
        other = connection.execute("SELECT COUNT(*) AS n FROM visits").fetchall()
        connection.execute("ROLLBACK TO SAVEPOINT a")
        assert connection.execute("SELECT COUNT(*) AS n FROM visits").fetchall() == other
        connection.execute("RELEASE a; ABORT")
        assert pg.served.spent() == 1
        assert pg.served.engine.measured == 2


def test_a_cancelled_query_stays_charged_and_its_answer_is_kept(pg: PgServed) -> None:
    gate = pg.served.engine
    gate.open.clear()
    with connect(pg) as connection:
        stopper = threading.Thread(target=lambda: (gate.waiting.wait(20), connection.cancel_safe()))
        stopper.start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="its charge stays"):
            connection.execute(COUNT)
        stopper.join()
        assert pg.served.spent() == Fraction(1, 2)
        gate.open.set()
        notices: list[str] = []
        connection.add_notice_handler(lambda told: notices.append(str(told.message_primary)))
        assert len(connection.execute(COUNT).fetchall()) == 3
        assert [words.partition(";")[0] for words in notices] == ["A repeated query: charged nothing"]
        assert (pg.served.spent(), gate.measured) == (Fraction(1, 2), 1)


def test_a_wrong_key_cancels_nothing(pg: PgServed) -> None:
    gate = pg.served.engine
    gate.open.clear()
    with connect(pg) as connection:
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(connection.execute(COUNT).fetchall()))
        asking.start()
        assert gate.waiting.wait(20)
        for key in (bytes(8), os.urandom(8), os.urandom(36)):
            with pg.raw() as other:
                other.sendall(struct.pack("!II", 8 + len(key), 80877102) + key)
                assert other.recv(100) == b""
        gate.open.set()
        asking.join()
        assert len(answers[0]) == 3


def test_a_dropped_connection_is_charged_and_the_answer_is_kept(pg: PgServed) -> None:
    gate = pg.served.engine
    gate.open.clear()
    raw = Raw(pg)
    raw.send((b"Q", COUNT.encode() + b"\0"))
    assert gate.waiting.wait(20)
    raw.socket.shutdown(socket.SHUT_RDWR)
    raw.__exit__()
    gate.open.set()
    with connect(pg, "bob") as connection:
        assert len(connection.execute(COUNT).fetchall()) == 3
    assert (pg.served.spent(), gate.measured) == (Fraction(1, 2), 1)


def test_an_exhausted_budget_is_a_refusal_and_quotes_stay_free(pg: PgServed) -> None:
    with connect(pg, options="-c tacit.epsilon=9.9") as connection:
        connection.execute(COUNT)
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute("SELECT COUNT(*) AS n FROM visits")
        plan = "\n".join(row[0] for row in connection.execute("EXPLAIN SELECT COUNT(*) AS n FROM visits"))
        assert "0 more such queries fit" in plan
        same = connection.execute("EXPLAIN (COSTS off, FORMAT text) SELECT COUNT(*) AS n FROM visits")
        assert "\n".join(row[0] for row in same) == plan
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="as text alone"):
            connection.execute("EXPLAIN (FORMAT JSON) SELECT COUNT(*) AS n FROM visits")
        # Statements of the engine are for owners.
        assert "Engine" not in plan
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="would ask the query"):
            connection.execute("EXPLAIN ANALYZE SELECT COUNT(*) AS n FROM visits")
        assert pg.served.spent() == Fraction("9.9")


def test_the_notice_says_the_charge_the_meaning_of_intervals_and_the_rest(pg: PgServed) -> None:
    with connect(pg) as connection:
        told: list[tuple[Any, ...]] = []
        connection.add_notice_handler(lambda e: told.append((e.message_primary, e.message_detail, e.message_hint)))
        connection.execute("SET tacit.bias_share = 0")  # Whether noise makes a bias look large changes the notice.
        connection.execute(COUNT)
        words = "epsilon 9.5 of 10 left. The meaning of the intervals: SHOW tacit.note."
        assert told == [(f"Charged epsilon 0.5 to patients; {words}", None, None)]
        lines = [row[0] for row in connection.execute("SHOW tacit.note")]
        assert max(map(len, lines)) <= 100
        assert "95% intervals over the noise" in " ".join(lines)
        assert "9.5 left" in " ".join(lines)
        connection.execute("SET client_min_messages = warning")
        connection.execute(COUNT)
        assert len(told) == 1


def test_a_reader_at_a_terminal_sees_intervals_and_a_driver_does_not(pg: PgServed) -> None:
    for client, names in (("psql", ["ward", "n", "n_low", "n_high"]), ("superset", ["ward", "n"])):
        with connect(pg, application_name=client) as connection:
            found = connection.execute(COUNT)
            assert [column.name for column in found.description or ()] == names
            connection.execute("SET tacit.intervals = off")
            assert len(connection.execute(COUNT).description or ()) == 2
    assert pg.served.spent() == Fraction(1, 2)


def test_doubles_have_the_digits_of_their_interval(pg: PgServed) -> None:
    with connect(pg) as connection:
        connection.execute("SET tacit.intervals = on")
        found = connection.execute("SELECT ward, AVG(cost) AS c FROM visits GROUP BY ward").fetchall()
    exact = pg.served.curator.sql("SELECT ward, AVG(cost) AS c FROM visits GROUP BY ward", epsilon="0.5")
    for (_, value, low, high), cells, ends in zip(
        found, exact.finished.values, exact.finished.intervals(), strict=True
    ):
        inner = ends[1]
        assert low <= inner[0] <= inner[1] <= high
        assert high - low <= 1.02 * (inner[1] - inner[0])
        assert abs(value - cells[1]) <= 0.01 * (high - low)
        assert len(repr(value).strip("-0").replace(".", "")) <= 8


@given(st.floats(-1e16, 1e16), st.floats(0, 1e9), st.floats(0, 1e9))
def test_rounded_ends_contain_what_the_ends_contained(value: float, below: float, above: float) -> None:
    low, high = value - below, value + above
    shown, least, most = readable(value, low, high)
    assert least <= low <= high <= most
    assert least <= shown <= most
    assert readable(value, None, None) == [value, None, None]


def test_a_query_of_which_no_group_is_left_says_so(pg: PgServed) -> None:
    with connect(pg, options="-c tacit.epsilon=0.01") as connection:
        told: list[Any] = []
        connection.add_notice_handler(lambda e: told.append((e.severity_nonlocalized, e.sqlstate, e.message_primary)))
        connection.execute("SET client_min_messages = warning")
        assert connection.execute("SELECT street, COUNT(*) AS n FROM visits GROUP BY street").fetchall() == []
        ((severity, state, words),) = told
        assert (severity, state) == ("WARNING", "02000")
        assert "No row is left" in words
        assert "higher cost" in str(connection.execute("SHOW tacit.note").fetchall())


# -- statements


def test_settings_are_those_of_a_query_and_end_with_rollback(pg: PgServed) -> None:
    with connect(pg, options="") as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="state what the query may cost"):
            connection.execute(COUNT)
        for wrong in (
            "SET tacit.epsilon = 'much'",
            "SET tacit.epsilom = 1",
            "SET client_encoding = latin1",
            "SET no_such = 1",
        ):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                connection.execute(wrong)
        connection.execute("BEGIN; SET tacit.epsilon TO 0.25; ROLLBACK")
        assert connection.execute("SHOW tacit.epsilon").fetchone() == ("",)
        connection.execute("BEGIN; SET LOCAL tacit.epsilon = '0.25'; SAVEPOINT s; ROLLBACK TO s")
        connection.execute(COUNT)
        connection.execute("COMMIT")
        assert connection.execute("SHOW tacit.epsilon").fetchone() == ("",)
        connection.execute("SET tacit.within = 'n=50'; SET tacit.confidence = 0.9; SET tacit.intervals = on")
        found = connection.execute(COUNT)
        assert [column.name for column in found.description or ()] == ["ward", "n", "n_low", "n_high"]
        row = found.fetchone()
        assert row is not None
        assert row[2] <= row[1] <= row[3]
        connection.execute("RESET ALL")
        assert ("tacit.intervals", "off") in [row[:2] for row in connection.execute("SHOW ALL")]


def test_a_failed_transaction_refuses_until_its_end(pg: PgServed) -> None:
    with connect(pg) as connection:
        connection.execute("BEGIN")
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT COUNT(*) FROM nowhere")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute(COUNT)
        connection.execute("COMMIT")
        assert pg.served.spent() == 0
        assert connection.info.transaction_status == pq.TransactionStatus.IDLE


def test_several_statements_stop_at_the_first_that_fails(pg: PgServed) -> None:
    with connect(pg) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute(f"{COUNT}; SELECT COUNT(*) FROM nowhere; SELECT COUNT(*) AS n FROM visits")
        assert pg.served.spent() == Fraction(1, 2)
        for refused in (
            "DELETE FROM visits",
            "CREATE TABLE t (a int)",
            "COPY visits TO STDOUT",
            "COPY visits FROM STDIN",
            "COPY (SELECT COUNT(*) FROM visits) TO STDOUT",
            "BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT COUNT(*) FROM visits",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(refused)  # type: ignore[call-overload]


def test_schemas_of_tables_are_taken_off_and_queries_stay_as_written(pg: PgServed) -> None:
    with connect(pg) as connection:
        plain = connection.execute(COUNT).fetchall()
        for text in (
            "SELECT ward, COUNT(*) AS n FROM public.visits GROUP BY ward",
            'SELECT "public"."visits"."ward", COUNT(*) AS n FROM "public"."visits" GROUP BY 1',
            "SELECT v.ward, COUNT(*) AS n FROM hospital.public.visits v GROUP BY v.ward",
        ):
            assert connection.execute(text).fetchall() == plain
        assert pg.served.spent() == Fraction(1, 2)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_a_text_parameter_is_one_constant_whatever_it_holds(value: str) -> None:
    (statement,) = split_statements("SELECT COUNT(*) FROM visits WHERE ward = $1 AND street <> '$1' -- $1")
    assert (statement.kind, statement.parameters) == (StatementKind.QUERY, 1)
    text = statement.bound([value], [TEXT_OID])
    strings = [token.text for token in _tokens(text) if token.token_type.name == "STRING"]
    assert strings == [value, "$1"]


@pytest.mark.parametrize("value", ["a' OR '1'='1", "'; DROP TABLE visits; --", "$1", "/*", "\\", "E'\\''"])
def test_hostile_parameters_are_values(pg: PgServed, value: str) -> None:
    with connect(pg) as connection:
        answer = connection.execute("SELECT COUNT(*) AS n FROM visits WHERE street = %s", (value,)).fetchone()
        assert answer is not None
        assert abs(answer[0]) < 200


# -- people


def refused(pg: PgServed, **more: Any) -> str:
    with pytest.raises(psycopg.OperationalError) as found:
        connect(pg, **more)
    return str(found.value).rpartition("FATAL:")[2].strip()


def test_wrong_unknown_and_revoked_are_not_told_apart(pg: PgServed) -> None:
    pg.served.people.revoke("bob", operator="olga")
    told = {
        refused(pg, password="wrong"),
        refused(pg, user="no-person"),
        refused(pg, user="bob", password=pg.served.tokens["bob"]),
        refused(pg, user="bob"),
    }
    assert told == {"password authentication failed"}
    assert "there is no such database" in refused(pg, dbname="elsewhere")


def test_a_token_or_a_person_that_ends_ends_its_connections(pg: PgServed) -> None:
    with connect(pg) as first, connect(pg, "bob") as second:
        assert first.execute("SELECT 1").fetchone() == (1,)
        pg.served.people.withdraw(pg.served.people.tokens("alice")[0].id, operator="olga")
        pg.served.people.revoke("bob", operator="olga")
        for connection in (first, second):
            with pytest.raises(psycopg.errors.InvalidAuthorizationSpecification):
                connection.execute(COUNT)
            assert connection.closed
    assert pg.served.spent() == 0


def test_tables_of_other_populations_do_not_exist(pg: PgServed) -> None:
    with connect(pg, "dan") as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute(COUNT)
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 2200 AND relkind = 'r' ORDER BY 1"
        ).fetchall()
        assert names == [("staff",), ("wards",)]
        assert connection.execute("SELECT DISTINCT population FROM tacit.budget").fetchall() == [("employees",)]
        assert connection.execute("SELECT count(*) FROM pg_constraint WHERE contype = 'f'").fetchone() == (0,)
    with connect(pg, "audrey") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(COUNT)


def test_tls_channel_binding_and_version(tmp_path: Path) -> None:
    with certificate(tmp_path) as (cert, key):
        words = {"tls_cert": str(cert), "tls_key": str(key)}
        with pg_serve(**words) as pg:
            safe = {"sslmode": "verify-full", "sslrootcert": str(cert), "host": "localhost", "hostaddr": "127.0.0.1"}
            assert "TLS alone" in refused(pg, sslmode="disable")
            for more in (
                {"channel_binding": "require"},
                {"channel_binding": "disable", "max_protocol_version": "3.2"},
            ):
                with connect(pg, **{**safe, **more}) as connection:
                    assert connection.execute("SELECT 1").fetchone() == (1,)
                    assert connection.pgconn.ssl_in_use
            assert refused(pg, **safe, password="wrong" * 4) == "password authentication failed"
            # The end of a token ends its connections.
            with connect(pg, **safe) as connection:
                pg.served.people.withdraw(pg.served.tokens["alice"].split("_")[1], operator="olga")
                with pytest.raises(psycopg.errors.InvalidAuthorizationSpecification):
                    connection.execute(COUNT)


def test_tokens_pass_whatever_others_guess_at_the_same_address() -> None:
    with pg_serve(failures_per_minute=3) as pg:
        for _ in range(6):
            assert refused(pg, password="wrong guess") == "password authentication failed"
        with connect(pg) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_rates_and_a_server_that_stops_are_told(tmp_path: Path) -> None:
    with pg_serve(asks_per_minute=1) as pg, connect(pg) as connection:
        connection.execute(COUNT)
        with pytest.raises(psycopg.errors.InsufficientResources, match="wait"):
            connection.execute("SELECT COUNT(*) AS n FROM visits")
        assert pg.served.spent() == Fraction(1, 2)
        pg.on_loop(pg.server.stop(5))
        time.sleep(0.05)
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("SELECT 1")
    assert {state for _, state in pg.notes} == {"00000", "53000"}


@pytest.mark.parametrize("sql", ["SET application_name = 'x'", "SHOW server_version", "SELECT count(*) FROM pg_class"])
def test_what_reads_no_data_leaves_at_ticks(pg: PgServed, sql: str) -> None:
    """Else the catalogue, whose queries may take as long as one likes, would show when engines are busy."""
    ticks = pg.served.app.state.runtime.ticks = TestedSteps(0.01)
    with connect(pg) as connection:
        before = ticks.held
        connection.execute(sql)
        assert ticks.held > before


def test_a_long_query_of_the_catalogue_ends_at_a_doubled_tick(pg: PgServed, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = pg.served.app.state.runtime.ticks = TestedSteps(0.01)

    def slow(self: ClientQueries, *args: object) -> object:
        ticks.clock.now += 0.015
        return looked_up(self, *args)

    looked_up: Any = ClientQueries._looked_up
    monkeypatch.setattr(ClientQueries, "_looked_up", slow)
    with connect(pg) as connection:
        connection.execute("SELECT 1")
        began = ticks.clock.now
        connection.execute("SELECT count(*) FROM pg_class")
    assert round((ticks.clock.now - began) / 0.01, 6).is_integer()
