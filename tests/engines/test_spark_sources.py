"""Files, folders, tables and frames of every kind give the same rows; values that do not fit are NULL, never an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.small_sources import CATALOG, COLUMNS, CSV, NARROW, ROWS, SQL, frame, measured
from support.spark import held, spark_engine
from tacit.core.errors import InputError
from tacit.engines.duckdb import DataSource
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def on_spark(source: DataSource, sql: str = SQL, catalog: Catalog = CATALOG) -> list[list[int]]:
    with spark_engine(catalog, {"t": source}) as engine:
        return [array.tolist() for array in engine.measure(MeasurementTask(resolve(sql, catalog).final, b"k")).raw]


@pytest.fixture(scope="module")
def expected() -> list[list[int]]:
    return measured(DataSource("frame", None, frame()))


def test_parquet_files_folders_and_patterns(tmp_path: Path, expected: list[list[int]]) -> None:
    pq.write_table(frame(), tmp_path / "t.parquet")
    assert on_spark(DataSource("parquet", f"{tmp_path}/t.parquet")) == expected
    odd = tmp_path / "a [b] {c}*"
    odd.mkdir()
    pq.write_table(frame(ROWS[:2]), odd / "part 1.parquet")
    pq.write_table(frame(ROWS[2:]).select([c.name for c in reversed(COLUMNS)]), odd / "part'2.parquet")
    assert on_spark(DataSource("parquet", str(odd))) == expected
    (odd / "_SUCCESS").touch()
    assert on_spark(DataSource("parquet", str(odd))) == expected
    pq.write_table(frame(ROWS[:2]), tmp_path / "part 1.parquet")
    pq.write_table(frame(ROWS[2:]), tmp_path / "part 2.parquet")
    assert on_spark(DataSource("parquet", f"{tmp_path}/part*.parquet")) == expected
    (odd / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="no others"):
        on_spark(DataSource("parquet", str(odd)))


def test_partitioned_folders(tmp_path: Path, expected: list[list[int]]) -> None:
    rows = frame()
    for kind in ("a", "b", "é,x", "zzz"):
        part = tmp_path / f"kind={kind}"
        part.mkdir()
        chosen = rows.filter(pa.compute.equal(rows["kind"], kind))
        pq.write_table(chosen.drop_columns(["kind"]), part / "x.parquet")
    assert on_spark(DataSource("parquet", str(tmp_path))) == expected


def test_csv(tmp_path: Path, expected: list[list[int]]) -> None:
    (tmp_path / "t.csv").write_text(CSV, encoding="utf-8")
    assert on_spark(DataSource("csv", f"{tmp_path}/t.csv")) == expected
    bad = b"4,a,1e999,nan,2024-02-30,25:00,maybe,\n5,a,12.345,inf,0000-01-01,x,,\n\n6,a\n7,a,\xff,1,2,3,4,5\n8,a,1,0x1,2024-01-01,,1,2,3,4\n"
    (tmp_path / "t.csv").write_bytes(CSV.encode() + bad)
    source = DataSource("csv", f"{tmp_path}/t.csv")
    assert on_spark(source) == measured(source)


def test_frames_of_python_and_of_spark(expected: list[list[int]]) -> None:
    assert on_spark(DataSource("frame", None, pl.from_arrow(frame()))) == expected
    assert on_spark(DataSource("frame", None, frame().to_pandas(types_mapper=pd.ArrowDtype))) == expected
    spark = held().spark
    moments = frame().set_column(5, "at", frame()["at"].cast(pa.int64()))
    shown = "id, kind, money, x, day, CAST(timestamp_micros(at) AS TIMESTAMP_NTZ) AS at, ok"
    made = spark.createDataFrame(moments).selectExpr(*shown.split(", ", 5)[:5], "CAST(timestamp_micros(at) AS TIMESTAMP_NTZ) AS at", "ok")  # fmt: skip
    assert on_spark(DataSource("frame", None, made)) == expected


def test_tables_of_a_catalog(expected: list[list[int]]) -> None:
    spark = held().spark
    with spark_engine(CATALOG, {"t": frame()}) as engine:
        listed = ", ".join(f"{sql} AS `{name}`" for name, sql in engine._tables["t"].columns.items() if name != "money")
        spark.sql(f"SELECT {listed}, money FROM {engine._views[0]}").createOrReplaceTempView("my_table")
        assert on_spark(DataSource("table", "my_table")) == expected
        assert on_spark(DataSource("table", "`My_Table`")) == expected
    spark.catalog.dropTempView("my_table")
    with pytest.raises(InputError, match="cannot read the source"):
        on_spark(DataSource("table", "nowhere.at_all"))


def test_physical_types_are_read_totally() -> None:
    """A column of each, filled up with NULL."""
    most = max(len(column) for _, _, column, _ in NARROW)
    columns = tuple(Column(f"x{i}", kind) for i, (_, kind, _, _) in enumerate(NARROW))
    rows = pa.table({
        f"x{i}": pa.chunked_array([column, pa.nulls(most - len(column), column.type)])
        for i, (_, _, column, _) in enumerate(NARROW)
    })  # fmt: skip
    catalog = Catalog((Table("t", columns, population="p", unit="row"),), (Population("p"),))
    sql = f"SELECT {', '.join(f'COUNT({column.name})' for column in columns)} FROM t"
    found = on_spark(DataSource("frame", None, rows), sql, catalog)
    assert [cells[0] for cells in found] == [counts[1] for *_, counts in NARROW]


def test_texts_are_compared_byte_by_byte_whatever_their_column_says() -> None:
    catalog = Catalog((Table("t", (Column("s", TEXT),), population="p", unit="row"),), (Population("p"),))
    texts = "SELECT s COLLATE UTF8_LCASE AS s FROM VALUES ('a'), ('A'), ('a '), ('\u00e9'), ('e\u0301') AS t(s)"
    sql = "SELECT s, COUNT(*) FROM t GROUP BY s"
    with spark_engine(catalog, {"t": DataSource("frame", None, held().spark.sql(texts))}) as engine:
        found = engine.measure(MeasurementTask(resolve(sql, catalog).final, b"k"))
    assert found.keys == (("A",), ("a",), ("a ",), ("e\u0301",), ("\u00e9",))
    assert found.raw[0].tolist() == [1] * 5


def test_rows_are_numbered_or_refused(tmp_path: Path) -> None:
    """A join with public rows needs to know which rows were one; a frame of Spark cannot say so."""
    catalog = Catalog(
        (
            Table("t", (Column("x", INTEGER, bounds=(0, 9)),), population="p", unit="row", max_rows=1),
            Table("u", (Column("a", INTEGER),), public=True),
        ),
        (Population("p"),),
    )
    final = resolve("SELECT COUNT(*), SUM(x) FROM t JOIN u ON a >= x", catalog).final
    public = DataSource("frame", None, pa.table({"a": [0, 5, 9]}))
    for part in (1, 2):
        pq.write_table(pa.table({"x": [part, 7, 7]}), tmp_path / f"{part}.parquet")
    with spark_engine(catalog, {"t": DataSource("parquet", f"{tmp_path}/*.parquet"), "u": public}) as engine:
        found = engine.measure(MeasurementTask(final, b"k"))
        # Six rows, all with a match, some with two: each is one unit, with all of its value.

        assert [array.tolist() for array in found.raw] == [[6], [2 * 1 + 2 * 2 + 4 * 7]]
    rows = held().spark.sql("SELECT 1 AS x")
    with spark_engine(catalog, {"t": DataSource("frame", None, rows), "u": public}) as engine:
        with pytest.raises(Refusal, match="have no address"):
            engine.check(final)
        alone = resolve("SELECT COUNT(*), SUM(x) FROM t", catalog).final
        assert [array.tolist() for array in engine.measure(MeasurementTask(alone, b"k")).raw] == [[1], [1]]


def test_declarations_that_do_not_fit_the_source_name_the_column() -> None:
    rows = pa.table({"x": [1.5], "y": [[1]]})

    def opened(column: Column, source: Any) -> None:
        catalog = Catalog((Table("t", (column,), population="p", unit="row"),), (Population("p"),))
        with spark_engine(catalog, {} if source is None else {"t": source}):
            pass

    with pytest.raises(InputError, match=r"t\.missing"):
        opened(Column("missing", INTEGER), rows)
    with pytest.raises(InputError, match=r"t\.x: cannot read a column of type double as TEXT"):
        opened(Column("x", TEXT), rows)
    with pytest.raises(InputError, match=r"t\.y"):
        opened(Column("y", INTEGER), rows)
    with pytest.raises(InputError, match=r"sources\.t"):
        opened(Column("x", DOUBLE), None)
    with pytest.raises(InputError, match="there is no file"):
        opened(Column("x", DOUBLE), DataSource("parquet", "/nowhere/x.parquet"))
    with pytest.raises(InputError, match="frame"):
        opened(Column("x", DOUBLE), DataSource("frame", None, object()))
    with pytest.raises(InputError, match="kind"):
        opened(Column("x", DOUBLE), DataSource("excel", "x.xlsx"))
