"""One person's row, whatever it holds, changes no other row, no status, and is read alike by every reader and path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.makers import database, load
from engines.nasty import NASTY, Found, Nasty, asked, catalog, check_neighbours, compared, questions, reading, tables
from support.spark import spark_engine
from tacit.core.errors import InputError
from tacit.engines.arrow_frames import sound_table
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.duckdb.fast import table_cache
from tacit.engines.postgres import PostgresEngine
from tacit.query.types import SqlType


def sources(folder: Path, name: str, rows: pa.Table) -> dict[str, DataSource]:
    """One table in every form that holds it."""
    pq.write_table(rows, folder / f"{name}.parquet", row_group_size=4)
    pq.write_table(rows, folder / f"{name}-plain.parquet", use_dictionary=False, write_statistics=True, version="2.6")
    made = {
        "frame": DataSource("frame", None, rows),
        "parquet": DataSource("parquet", str(folder / f"{name}.parquet")),
        "plain parquet": DataSource("parquet", str(folder / f"{name}-plain.parquet")),
    }
    try:
        with duckdb.connect(str(folder / f"{name}.duckdb")) as connection:
            connection.register("rows", rows)
            connection.execute("CREATE TABLE t AS SELECT * FROM rows")
        made["duckdb"] = DataSource("duckdb", str(folder / f"{name}.duckdb#t"))
    except (duckdb.Error, UnicodeDecodeError):
        # DuckDB itself stores no such value.
        (folder / f"{name}.duckdb").unlink(missing_ok=True)
    return made


def writable(rows: pa.Table) -> bool:
    """Whether Arrow can write it to Parquet: seconds become milliseconds there, and may overflow."""
    try:
        pq.write_table(rows, pa.BufferOutputStream())
    except pa.ArrowException:
        return False
    return True


CASES = [(nasty, declared) for nasty in NASTY for declared in nasty.declared]
NAMES = [f"{nasty.name} as {declared}" for nasty, declared in CASES]


def written(nasty: Nasty) -> list[pa.Array]:
    """The values that a Parquet file can hold."""
    return [value for value in nasty.values if writable(tables(nasty, [value])[1])]


@contextmanager
def without_copies() -> Iterator[None]:
    """Files are read themselves, by every question; otherwise the second one makes a copy for all that follow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_cache, "_MOST_BYTES", -1)
        yield


def asked_of_files(engine: DuckDBEngine, declared: SqlType, texts: Sequence[str] = ()) -> Found:
    """Answers from a copy; those questions that show how values are read are answered alike by the source itself."""
    with without_copies():
        direct = asked(engine, declared, compared(reading(declared)))
    found = asked(engine, declared, texts)
    assert {sql: found[sql] for sql in direct} == direct, "a copy answers otherwise"
    return found


def alone_answers(engine: DuckDBEngine, declared: SqlType) -> Found:
    """Answers where there are no others."""
    return asked(engine, declared, [all_persons for all_persons, _ in questions(declared)])


@pytest.mark.parametrize(("nasty", "declared"), CASES, ids=NAMES)
def test_duckdb_reads_all_of_them(nasty: Nasty, declared: SqlType, tmp_path: Path) -> None:
    """Every value in a row of its own, in every form of a source, on every path."""
    values = written(nasty)
    alone, together = tables(nasty, values)
    with DuckDBEngine(catalog(declared), {"t": DataSource("frame", None, alone)}, Limits(threads=1)) as engine:
        wanted = alone_answers(engine, declared)
    made = sources(tmp_path, "t", together)
    with DuckDBEngine(catalog(declared), {"t": made.pop("frame")}, Limits(threads=1)) as engine:
        of_frame = asked(engine, declared)
    check_neighbours(wanted, of_frame, declared, len(values))
    for name, source in made.items():
        # A copy holds values as they were read: what is computed from them is asked of one.
        texts = [*of_frame] if name == "parquet" else compared(reading(declared))
        with DuckDBEngine(catalog(declared), {"t": source}, Limits(threads=1)) as engine:
            found = asked_of_files(engine, declared, texts)
        assert found == {sql: of_frame[sql] for sql in texts}, f"{name} is read otherwise"


ONE_BY_ONE = [case for case in CASES if case[1] == case[0].declared[0] and case[0].name in ("string", "timestamp[ms]", "double", "decimal128(38, 10)")]  # fmt: skip


@pytest.mark.parametrize(("nasty", "declared"), ONE_BY_ONE, ids=[nasty.name for nasty, _ in ONE_BY_ONE])
def test_one_row_of_one_person(nasty: Nasty, declared: SqlType, tmp_path: Path) -> None:
    """The same one value at a time, on neighbours, wherever the row stands."""
    alone, _ = tables(nasty, [])
    pq.write_table(alone, tmp_path / "alone.parquet", row_group_size=4)
    texts = [sql for pair in reading(declared) for sql in pair]
    with (
        without_copies(),
        DuckDBEngine(catalog(declared), {"t": DataSource("parquet", str(tmp_path / "alone.parquet"))}) as engine,
    ):
        wanted = alone_answers(engine, declared)
    for place, value in enumerate(written(nasty)[:12]):
        pq.write_table(tables(nasty, [value], place)[1], tmp_path / "t.parquet", row_group_size=4)
        with (
            without_copies(),
            DuckDBEngine(catalog(declared), {"t": DataSource("parquet", str(tmp_path / "t.parquet"))}) as engine,
        ):
            check_neighbours(wanted, asked(engine, declared, texts), declared, 1)


def postgres_rows(rows: pa.Table) -> pa.Table | None:
    """Rows of it that a PostgreSQL table can hold."""
    texts = pa.types.is_string(rows["x"].type)
    kept = sound_table(rows, {"id", "x"}, "t")
    if texts and any("\0" in cell for cell in kept["x"].to_pylist() if cell is not None):
        return None
    return (
        kept
        if kept.schema.field("x").type in (pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.date32())
        else None
    )


SERVED = [case for case in CASES if case[0].name in ("bool", "int64", "double", "string")]


@pytest.mark.parametrize(("nasty", "declared"), SERVED, ids=[f"{nasty.name} as {kind}" for nasty, kind in SERVED])
def test_postgresql_reads_as_duckdb_does(nasty: Nasty, declared: SqlType) -> None:
    kept = [value for value in nasty.values if postgres_rows(tables(nasty, [value])[1]) is not None]
    rows = postgres_rows(tables(nasty, kept)[1])
    assert rows is not None
    with (
        DuckDBEngine(catalog(declared), {"t": DataSource("frame", None, rows)}, Limits(threads=1)) as one,
        PostgresEngine(catalog(declared), load({"t": rows}), database(), Limits()) as two,
    ):
        texts = compared(questions(declared))
        assert asked(two, declared, texts) == asked(one, declared, texts)


#: Files of every type, and frames of some.
BY_SPARK = [(nasty, form) for nasty in NASTY for form in ("parquet", "frame") if form == "parquet" or nasty.name in ("bool", "int64", "double", "string", "timestamp[ms]")]  # fmt: skip
#: Types that hold all values of what they are declared as; Spark is asked everything of these, and of the others how
#: they are read, since one statement takes it a fifth of a second.
WHOLE = ("bool", "int64", "double", "decimal128(18, 2)", "date32", "timestamp[us]", "string")


@pytest.mark.spark
@pytest.mark.parametrize(("nasty", "form"), BY_SPARK, ids=[f"{nasty.name} in a {form}" for nasty, form in BY_SPARK])
def test_spark_reads_as_duckdb_does(nasty: Nasty, form: str, tmp_path: Path) -> None:
    """All values at once, each in a row of its own: whether one is read otherwise is seen in the groups."""
    declared = nasty.declared[0]
    rows = tables(nasty, written(nasty))[1]
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=5)
    source = DataSource("frame", None, rows) if form == "frame" else DataSource("parquet", str(tmp_path / "t.parquet"))
    whole = form == "parquet" and nasty.name in WHOLE
    texts = compared(questions(declared) if whole else reading(declared))
    with DuckDBEngine(catalog(declared), {"t": source}, Limits(threads=1)) as one:
        want = asked(one, declared, texts)
    if form == "parquet" and nasty.name.startswith("timestamp[ns"):
        # Spark knows no nanoseconds, and says so when the source is opened, whatever the rows hold.
        with pytest.raises(InputError, match="Spark cannot read"), spark_engine(catalog(declared), {"t": source}):
            pass
        return
    with spark_engine(catalog(declared), {"t": source}) as two:
        assert asked(two, declared, texts) == want


def undeclared() -> Iterator[tuple[str, pa.Array]]:
    """Columns that are not declared, of types that no engine need know."""
    yield "binary", pa.array([b"\xff"] * 12)
    yield "list", pa.array([[1, 2]] * 12)
    yield "struct", pa.array([{"a": 1}] * 12)
    yield "map", pa.array([[("a", 1)]] * 12, type=pa.map_(pa.string(), pa.int64()))
    yield "null", pa.nulls(12)
    yield "duration", pa.array([2**62] * 12, type=pa.duration("ns"))
    yield "time", pa.array([1] * 12, type=pa.time64("us"))
    yield "texts", pa.Array.from_buffers(pa.string(), 12, pa.array([b"\xff"] * 12).buffers())
    yield "moments", pa.array([2**62] * 12, type=pa.timestamp("ms"))


@pytest.mark.parametrize(("name", "column"), [*undeclared()], ids=[name for name, _ in undeclared()])
def test_a_column_that_is_not_declared_is_not_read(name: str, column: pa.Array, tmp_path: Path) -> None:
    nasty = NASTY[4]
    alone, _ = tables(nasty, [])
    declared = nasty.declared[0]
    with DuckDBEngine(catalog(declared), {"t": DataSource("frame", None, alone)}) as engine:
        wanted = asked(engine, declared)
    beside = alone.append_column(name, column)
    pq.write_table(beside, tmp_path / "t.parquet")
    for source in (DataSource("frame", None, beside), DataSource("parquet", str(tmp_path / "t.parquet"))):
        with DuckDBEngine(catalog(declared), {"t": source}) as engine:
            assert asked_of_files(engine, declared) == wanted
