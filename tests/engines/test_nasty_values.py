"""One person's row, whatever it holds, changes no other row, no status, and is read alike by every reader and path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.makers import database, load
from engines.nasty import (
    NASTY,
    Found,
    Nasty,
    asked,
    catalog,
    cells,
    check_neighbours,
    compared,
    queries,
    reading,
    tables,
)
from support.engine_comparison import SECRET, final_of
from support.spark import spark_engine
from tacit.core.errors import InputError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.frames import sound_table
from tacit.engines.postgres import PostgresEngine
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import DATE, INTEGER, SqlType


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
#: Types that hold all values of what they are declared as: what is computed from a value that has been read is asked of
#: these alone.
WHOLE = ("bool", "int64", "double", "decimal128(18, 2)", "date32", "timestamp[us]", "string")
QUICK = [case for case in CASES if case[0].name in WHOLE and case[1] == case[0].declared[0]]
PARAMETERS = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.deep, id=f"{case[0].name} as {case[1]}")
    for case in CASES
]


def written(nasty: Nasty) -> list[pa.Array]:
    """The values that a Parquet file can hold."""
    return [value for value in nasty.values if writable(tables(nasty, [value])[1])]


@contextmanager
def without_copies() -> Iterator[None]:
    """Files are read themselves, by every query; otherwise the second one makes a copy for all that follow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.engines.duckdb.database._MOST_BYTES", -1)
        yield


def asked_of_files(engine: DuckDBEngine, declared: SqlType, texts: Sequence[str] = ()) -> Found:
    """Answers from a copy; those queries that show how values are read are answered alike by the source itself."""
    with without_copies():
        direct = asked(engine, declared, compared(reading(declared)))
    found = asked(engine, declared, texts)
    assert {sql: found[sql] for sql in direct} == direct, "a copy answers otherwise"
    return found


def alone_answers(engine: DuckDBEngine, declared: SqlType) -> Found:
    """Answers where there are no others."""
    return asked(engine, declared, [all_persons for all_persons, _ in queries(declared)])


READERS = ("parquet", "plain parquet", "duckdb")


def readers(nasty: Nasty, declared: SqlType) -> tuple[str, ...]:
    """Every reader of files for the first type that is declared, and one of them in turn for each other."""
    place = nasty.declared.index(declared)
    return READERS if place == 0 else (READERS[(place + NASTY.index(nasty)) % len(READERS)],)


@pytest.mark.parametrize(("nasty", "declared"), PARAMETERS)
def test_duckdb_reads_all_of_them(nasty: Nasty, declared: SqlType, tmp_path: Path) -> None:
    """Every value in a row of its own, by every reader, with and without a copy."""
    values = written(nasty)
    alone, together = tables(nasty, values)
    pairs = [*queries(declared)] if (nasty, declared) in QUICK else reading(declared)
    with DuckDBEngine(catalog(declared), {"t": DataSource("frame", None, alone)}, Limits(threads=1)) as engine:
        wanted = asked(engine, declared, [all_persons for all_persons, _ in pairs])
    made = sources(tmp_path, "t", together)
    with DuckDBEngine(catalog(declared), {"t": made["frame"]}, Limits(threads=1)) as engine:
        of_frame = asked(engine, declared, [sql for pair in pairs for sql in pair])
    check_neighbours(wanted, of_frame, declared, len(values))
    for name in readers(nasty, declared):
        if name in made:
            # A copy holds values as they were read: what is computed from them is asked of one.
            texts = [*of_frame] if name == "parquet" else compared(reading(declared))
            with DuckDBEngine(catalog(declared), {"t": made[name]}, Limits(threads=1)) as engine:
                found = asked_of_files(engine, declared, texts)
            assert found == {sql: of_frame[sql] for sql in texts}, f"{name} is read otherwise"


ONE_BY_ONE = [case for case in CASES if case[1] == case[0].declared[0] and case[0].name in ("string", "timestamp[ms]", "double", "decimal128(38, 10)")]  # fmt: skip


@pytest.mark.deep
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
    for place, value in enumerate(written(nasty)[:6]):
        pq.write_table(tables(nasty, [value], 2 * place)[1], tmp_path / "t.parquet", row_group_size=4)
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


@pytest.mark.deep
@pytest.mark.parametrize(("nasty", "declared"), SERVED, ids=[f"{nasty.name} as {kind}" for nasty, kind in SERVED])
def test_postgresql_reads_as_duckdb_does(nasty: Nasty, declared: SqlType) -> None:
    kept = [value for value in nasty.values if postgres_rows(tables(nasty, [value])[1]) is not None]
    rows = postgres_rows(tables(nasty, kept)[1])
    assert rows is not None
    with (
        DuckDBEngine(catalog(declared), {"t": DataSource("frame", None, rows)}, Limits(threads=1)) as one,
        PostgresEngine(catalog(declared), load({"t": rows}), database(), Limits()) as two,
    ):
        texts = compared(reading(declared))
        assert asked(two, declared, texts) == asked(one, declared, texts)


def side_by_side(kinds: Sequence[Nasty]) -> tuple[Catalog, pa.Table, list[str]]:
    """Columns of all kinds in one table, each of the first type that is declared for it, and what is asked of them.

    Every person has one row, and every value of a kind is in some row: whether one is read otherwise shows in groups.
    """
    most = max(len(nasty.values) for nasty in kinds)
    columns, stored, texts = [Column("id", INTEGER)], {"id": pa.array(range(most + 12))}, []
    for number, nasty in enumerate(kinds):
        (column,) = (column for column in catalog(nasty.declared[0]).tables[0].columns if column.name == "x")
        # Days beyond the bounds would be in no group.
        bounds = None if column.type == DATE else column.bounds
        columns.append(replace(column, name=f"x{number}", bounds=bounds))
        rows = tables(nasty, written(nasty))[1]["x"]
        others = tables(nasty, [])[0]["x"]
        filled = pa.concat_arrays([*rows.chunks, *(others.chunks * most)])
        stored[f"x{number}"] = filled.slice(0, most + 12)
        listed = [re.sub(r"\bx\b", f"x{number}", sql) for sql, _ in reading(nasty.declared[0])]
        texts += listed[1:] if number else listed
    table = Table("t", tuple(columns), population="p", unit="id", max_groups=2, max_rows=2)
    return Catalog((table,), (Population("p"),)), pa.table(stored), texts


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize("form", ["parquet", "frame"])
def test_spark_reads_as_duckdb_does(form: str, tmp_path: Path) -> None:
    """Files of every type, and frames of some."""
    some = ("bool", "int64", "double", "string", "timestamp[ms]")
    unread = ("timestamp[ns",)
    kinds = [
        nasty for nasty in NASTY if (form == "parquet" or nasty.name in some) and not nasty.name.startswith(unread)
    ]
    known, rows, texts = side_by_side(kinds)
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=5)
    source = DataSource("frame", None, rows) if form == "frame" else DataSource("parquet", str(tmp_path / "t.parquet"))
    with DuckDBEngine(known, {"t": source}, Limits(threads=1)) as one, spark_engine(known, {"t": source}) as two:
        for sql in texts:
            work = MeasurementTask(final_of(sql, known), SECRET)
            assert cells(two.measure(work)) == cells(one.measure(work)), sql


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize(
    "nasty", [nasty for nasty in NASTY if nasty.name.startswith("timestamp[ns")], ids=lambda nasty: nasty.name
)
def test_spark_knows_no_nanoseconds(nasty: Nasty, tmp_path: Path) -> None:
    """It says so when the source is opened, whatever the rows hold."""
    pq.write_table(tables(nasty, written(nasty))[1], tmp_path / "t.parquet")
    source = DataSource("parquet", str(tmp_path / "t.parquet"))
    with pytest.raises(InputError, match="Spark cannot read"), spark_engine(catalog(nasty.declared[0]), {"t": source}):
        pass


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


def test_columns_that_are_not_declared_are_not_read(tmp_path: Path) -> None:
    nasty = NASTY[4]
    alone, _ = tables(nasty, [])
    declared = nasty.declared[0]
    with DuckDBEngine(catalog(declared), {"t": DataSource("frame", None, alone)}) as engine:
        wanted = asked(engine, declared)
    beside = alone
    for name, column in undeclared():
        beside = beside.append_column(name, column)
    pq.write_table(beside, tmp_path / "t.parquet")
    for source in (DataSource("frame", None, beside), DataSource("parquet", str(tmp_path / "t.parquet"))):
        with DuckDBEngine(catalog(declared), {"t": source}) as engine:
            assert asked_of_files(engine, declared) == wanted
