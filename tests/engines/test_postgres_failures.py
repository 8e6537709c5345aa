"""PostgreSQL fails with an id and nothing else, recovers by itself, and can change nothing, whatever the role may do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest

from engines.makers import load
from engines.stopping import interrupting
from support.postgres import address
from tacit.core.errors import EngineError, InputError
from tacit.engines.postgres import PostgresEngine
from tacit.engines.postgres.engine import PostgresSession
from tacit.engines.protocol import Engine, Limits, Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

CATALOG = Catalog(
    (
        Table(
            "t",
            (Column("id", INTEGER), Column("k", TEXT), Column("x", DOUBLE, bounds=(0.0, 1.0)), Column("n", INTEGER, bounds=(0, 2**50))),
            population="p",
            unit="id",
            max_groups=2,
        ),
        Table("u", (Column("a", INTEGER),), public=True),
    ),
    (Population("p"),),
)  # fmt: skip
ROWS = 3000
EASY = resolve("SELECT COUNT(*) FROM t", CATALOG).final
TWO = resolve("SELECT COUNT(*), COUNT(DISTINCT k) FROM t", CATALOG).final
#: A join of every row with every public row, grouped by text: minutes.
HARD = resolve("SELECT k, COUNT(*), COUNT(DISTINCT k) FROM t JOIN u ON a <> n GROUP BY k", CATALOG).final


class Site:
    """A database with the tables in a schema."""

    def __init__(self) -> None:
        numbers = pa.array(range(ROWS))
        texts = pa.array([f"a person's diagnosis {i}" for i in range(ROWS)])
        frames = {
            "t": pa.table({"id": numbers, "k": texts, "x": pa.array([0.5] * ROWS), "n": numbers}),
            "u": pa.table({"a": pa.array(range(20_000))}),
        }
        self.place = address()
        self.names = load(frames, self.place)

    def engine(self, limits: Limits | None = None) -> PostgresEngine:
        return PostgresEngine(CATALOG, self.names, self.place, limits)

    def run(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.place, autocommit=True) as connection:
            done = connection.execute(sql.encode())
            return done.fetchall() if done.description else []

    def cut(self, state: str) -> int:
        """End the engine's connections that are in some state; how many."""
        found = self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name = 'tacit' AND datname = current_database() AND state LIKE '{state}'"
        )
        return len(found)


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module")
def engine(site: Site) -> Iterator[PostgresEngine]:
    with site.engine() as made:
        yield made


def count(found: Measurements) -> list[int]:
    return list(found.raw[0].tolist())


def fails(made: Engine, work: MeasurementTask, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
        made.measure(work)
    error = caught.value
    assert error.opaque
    assert int(str(error), 16) >= 0
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "tacit.operator" in {record.name for record in caplog.records}
    assert str(error) in caplog.text
    assert count(made.measure(MeasurementTask(EASY, b"k"))) == [ROWS]


def test_time_limit(engine: PostgresEngine, caplog: pytest.LogCaptureFixture) -> None:
    fails(engine, MeasurementTask(HARD, b"k", timeout=0.3), caplog)


def test_time_limit_of_the_project(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with site.engine(Limits(seconds=0.4)) as made, caplog.at_level(logging.ERROR), pytest.raises(EngineError):
        made.measure(MeasurementTask(HARD, b"k"))


def test_connection_cut_in_the_middle(site: Site, engine: PostgresEngine, caplog: pytest.LogCaptureFixture) -> None:
    cut: list[int] = []

    def cutting() -> None:
        deadline = time.monotonic() + 60
        while not cut and time.monotonic() < deadline:
            cut.extend([1] * site.cut("active"))
            time.sleep(0.05)

    other = threading.Thread(target=cutting)
    other.start()
    try:
        fails(engine, MeasurementTask(HARD, b"k"), caplog)
    finally:
        other.join()
    assert cut


def test_connection_cut_while_nothing_runs(site: Site, engine: PostgresEngine) -> None:
    assert count(engine.measure(MeasurementTask(EASY, b"k"))) == [ROWS]
    assert site.cut("idle%") > 0
    assert count(engine.measure(MeasurementTask(EASY, b"k"))) == [ROWS]


def test_interrupt_from_another_thread(engine: PostgresEngine, caplog: pytest.LogCaptureFixture) -> None:
    with interrupting(engine), caplog.at_level(logging.ERROR), pytest.raises(EngineError):
        engine.measure(MeasurementTask(HARD, b"k"))
    assert count(engine.measure(MeasurementTask(EASY, b"k"))) == [ROWS]


def test_several_queries_at_once(engine: PostgresEngine) -> None:
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(count(engine.measure(MeasurementTask(EASY, b"k")))))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[ROWS]] * 12


def test_closed_engines_answer_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    made = site.engine()
    made.close()
    made.close()
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError):
        made.measure(MeasurementTask(EASY, b"k"))


def test_all_statements_of_a_query_see_one_moment(
    site: Site, engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = PostgresSession.rows

    def rows_then_insert(session: PostgresSession, sql: str, values: object = None) -> list[tuple[object, ...]]:
        found = rows(session, sql, values)  # type: ignore[arg-type]
        if "units" in sql:
            site.run(f"INSERT INTO {site.names['t']} VALUES (99999, 'late', 0.5, 1)")
        return found

    monkeypatch.setattr(PostgresSession, "rows", rows_then_insert)
    try:
        found = engine.measure(MeasurementTask(TWO, b"k"))
    finally:
        site.run(f"DELETE FROM {site.names['t']} WHERE id = 99999")
    assert [array.tolist() for array in found.raw] == [[ROWS], [ROWS]]


WRITES = [
    "INSERT INTO {t} VALUES (1, 'x', 0.1, 1)", "UPDATE {t} SET n = 0", "DELETE FROM {t}", "TRUNCATE {t}",
    "CREATE TABLE public.made (a int)", "CREATE VIEW public.seen AS SELECT * FROM {t}", "DROP TABLE {t}",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "SELECT nextval('public.counter')",
    "COPY {t} FROM PROGRAM 'echo 1'", "GRANT ALL ON {t} TO PUBLIC", "ALTER TABLE {t} ADD COLUMN z int",
    "SELECT * FROM {t} FOR UPDATE", "CREATE SCHEMA made",
]  # fmt: skip


@pytest.mark.parametrize("statement", WRITES)
def test_nothing_can_be_changed_even_by_a_role_that_may(site: Site, engine: PostgresEngine, statement: str) -> None:
    """The tests' role is a superuser; the transaction is what stops it."""
    site.run("CREATE SEQUENCE IF NOT EXISTS public.counter")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), engine._server.session(10.0) as session:
        session.rows(statement.format(t=site.names["t"]))
    assert site.run(f"SELECT count(*) FROM {site.names['t']}") == [(ROWS,)]


def test_a_query_leaves_nothing_behind(site: Site, engine: PostgresEngine) -> None:
    things = (
        "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_namespace)"
    )
    before = site.run(things)
    engine.measure(MeasurementTask(TWO, b"k"))
    assert site.run(things) == before


def test_settings_of_role_and_database_decide_nothing(site: Site) -> None:
    queries = [
        "SELECT k, COUNT(*), SUM(x) FROM t WHERE CAST(n AS TEXT) < '2' AND CAST('2024-02-03' AS DATE) IS NOT NULL GROUP BY k",
        "SELECT COUNT(*) FROM t WHERE CAST(CAST('2024-02-03 04:05:06.7' AS TIMESTAMP) AS TEXT) LIKE '2024-02-03 04:05:06.7%'",
        "SELECT COUNT(DISTINCT ROUND(x, 1)), SUM(x) FROM t",
    ]  # fmt: skip

    def ask() -> list[str]:
        found = []
        for workers in (0, 4):
            with site.engine(Limits(threads=workers)) as made:
                for sql in queries:
                    run = made.measure(MeasurementTask(resolve(sql, CATALOG).final, b"k"))
                    found.append(repr((run.keys, run.raw_units.tolist(), [a.tolist() for a in run.raw])))
        return found

    plain = ask()
    (database,) = site.run("SELECT current_database()")[0]
    for name, value in {
        "datestyle": "German, DMY", "timezone": "Asia/Kathmandu", "extra_float_digits": "-15", "search_path": "nowhere",
        "standard_conforming_strings": "off", "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0",
        "parallel_tuple_cost": "0", "enable_hashagg": "off", "default_transaction_isolation": "read committed",
        "bytea_output": "escape", "lc_messages": "C", "statement_timeout": "0", "transform_null_equals": "on",
    }.items():  # fmt: skip
        site.run(f"ALTER DATABASE {database} SET {name} = '{value}'")
    try:
        assert ask() == plain
        assert plain[: len(queries)] == plain[len(queries) :]
    finally:
        site.run(f"ALTER DATABASE {database} RESET ALL")


def test_rights_that_were_taken_away(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.run("CREATE ROLE lost LOGIN")
    schema = site.names["t"].split(".")[0]
    site.run(f"GRANT USAGE ON SCHEMA {schema} TO lost")
    site.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO lost")
    place = site.place.replace("postgresql://postgres:", "postgresql://lost:")
    with PostgresEngine(CATALOG, site.names, place) as made:
        assert count(made.measure(MeasurementTask(EASY, b"k"))) == [ROWS]
        site.run(f"REVOKE SELECT ON {site.names['t']} FROM lost")
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError):
            made.measure(MeasurementTask(EASY, b"k"))
        assert "permission denied" in caplog.text
        site.run(f"GRANT SELECT ON {site.names['t']} TO lost")
        assert count(made.measure(MeasurementTask(EASY, b"k"))) == [ROWS]


def test_a_view_that_reads_others_than_it_did_is_noticed(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.run(f"CREATE VIEW public.seen AS SELECT * FROM {site.names['t']}")
    site.run(f"CREATE TABLE public.twin AS SELECT * FROM {site.names['t']}")
    with PostgresEngine(CATALOG, {**site.names, "t": "public.seen"}, site.place) as made:
        assert count(made.measure(MeasurementTask(EASY, b"k"))) == [ROWS]
        site.run("CREATE OR REPLACE VIEW public.seen AS SELECT * FROM public.twin")
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError):
            made.measure(MeasurementTask(EASY, b"k"))
        assert "is not what it was" in caplog.text


def test_what_cannot_be_done_is_refused_before_data_is_read(site: Site, engine: PostgresEngine) -> None:
    running = "SELECT SUM(CLAMP(s, 0, 9)) FROM (SELECT id, SUM(x) OVER (PARTITION BY id ORDER BY n) AS s FROM t)"
    with pytest.raises(Refusal, match="CAST the value to DECIMAL"):
        engine.check(resolve(running, CATALOG).final)
    with pytest.raises(Refusal, match="too many steps"):
        engine.check(resolve("SELECT VARIANCE(n) FROM t", CATALOG).final)
    engine.check(EASY)


def test_explain_shows_statements_and_no_secret(engine: PostgresEngine) -> None:
    shown = engine.explain(HARD)
    assert len(shown) == 2
    assert all(text.startswith(("SELECT", "WITH")) for text in shown)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("postgresql://role:hush%zz@host/db", "is not an address"),
        ("postgresql://role:${NO_SUCH_PASSWORD}@host/db", "NO_SUCH_PASSWORD"),
        ("postgresql://role:hush@127.0.0.1:1/db?connect_timeout=2", "cannot use the database at 127.0.0.1/db"),
    ],
)
def test_places_that_cannot_be_reached(place: str, message: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(InputError, match=message) as caught:
        PostgresEngine(CATALOG, {"t": "t", "u": "u"}, place)
    assert "hush" not in f"{caught.value!r} {caught.value.__context__!r} {caplog.text}"


def test_passwords_are_shown_nowhere(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_TEST_PASSWORD", "hush hush")
    place = site.place.replace("postgresql://postgres:", "postgresql://postgres:${TACIT_TEST_PASSWORD}")
    with caplog.at_level(logging.DEBUG), PostgresEngine(CATALOG, site.names, place) as made:
        with pytest.raises(EngineError) as caught:
            made.measure(MeasurementTask(HARD, b"k", timeout=0.2))
        shown = [repr(made), repr(made._place), str(made._place), repr(caught.value), *made.explain(HARD), caplog.text]
        assert made._place.connection()["password"] == "hush hush"
    assert all("hush" not in text and "TACIT_TEST_PASSWORD" not in text for text in shown)
