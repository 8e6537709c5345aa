"""Files and frames of every kind give the same rows; values that do not fit are NULL and never an error."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.small_sources import COLUMNS, CSV, NARROW, ROWS, frame, measured
from tacit.core.errors import InputError
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import DOUBLE, INTEGER, TEXT, SqlType


@pytest.fixture
def expected() -> list[list[int]]:
    found = measured(DataSource("frame", None, frame()))
    assert found[0] == [2, 1, 1]
    assert found[1] == [125 + 10000, 0, 9999]
    return found


def test_parquet_and_patterns(tmp_path: Path, expected: list[list[int]]) -> None:
    pq.write_table(frame(), tmp_path / "t.parquet")
    assert measured(DataSource("parquet", f"{tmp_path}/t.parquet")) == expected
    pq.write_table(frame(ROWS[:2]), tmp_path / "part 1.parquet")
    pq.write_table(frame(ROWS[2:]).select([c.name for c in reversed(COLUMNS)]), tmp_path / "part'2.parquet")
    assert measured(DataSource("parquet", f"{tmp_path}/part*.parquet")) == expected


def test_duckdb_file(tmp_path: Path, expected: list[list[int]]) -> None:
    rows = frame()
    with duckdb.connect(str(tmp_path / "d.duckdb")) as made:
        made.register("rows", rows)
        made.execute('CREATE TABLE "my ""table" AS SELECT * FROM rows')
    assert measured(DataSource("duckdb", f'{tmp_path}/d.duckdb#my "table')) == expected


def test_frames(expected: list[list[int]]) -> None:
    assert measured(DataSource("frame", None, pl.from_arrow(frame()))) == expected
    assert measured(DataSource("frame", None, pl.from_arrow(frame()).lazy())) == expected
    assert measured(DataSource("frame", None, frame().combine_chunks().to_batches()[0])) == expected
    wide = frame().to_pandas(types_mapper=pd.ArrowDtype)
    assert measured(DataSource("frame", None, wide)) == expected


def test_csv(tmp_path: Path, expected: list[list[int]]) -> None:
    (tmp_path / "t.csv").write_text(CSV, encoding="utf-8")
    assert measured(DataSource("csv", f"{tmp_path}/t.csv")) == expected
    (tmp_path / "t.tsv").write_text(
        CSV.replace(",", "\t").replace("é\tx", "é,x").replace('"é,x"', "é,x"), encoding="utf-8"
    )
    assert measured(DataSource("csv", f"{tmp_path}/t.tsv")) == expected


def test_malformed_values_and_lines_of_csv(tmp_path: Path) -> None:
    bad = b"4,a,1e999,nan,2024-02-30,25:00,maybe,\n5,a,12.345,inf,0000-01-01,x,,\n\n6,a\n7,a,\xff,1,2,3,4,5\n8,a,1,0x1,2024-01-01,,1,2,3,4\n"
    (tmp_path / "t.csv").write_bytes(
        CSV.encode() + bad + b"9,a," + b"x" * 3_000_000 + b"\n10,b,1.00,0.25,2024-01-01,2024-01-01,1,\n"
    )
    found = measured(DataSource("csv", f"{tmp_path}/t.csv"))
    # 4, 5, 6 and 8 are rows of kind a; the line that is not UTF-8 and the one that is too long are left out.
    assert found[0] == [6, 2, 1]
    assert found[1] == [10125 + 1235 + 100, 100, 9999]


@pytest.mark.parametrize(("name", "kind", "column", "counts"), NARROW)
def test_physical_types_are_read_totally(name: str, kind: SqlType, column: pa.Array, counts: list[int]) -> None:
    catalog = Catalog((Table("t", (Column(name, kind),), population="p", unit="row"),), (Population("p"),))
    rows = pa.Table.from_arrays([column], names=[name])
    found = measured(DataSource("frame", None, rows), f"SELECT COUNT(*), COUNT({name}) FROM t", catalog)
    assert [cells[0] for cells in found] == counts


def test_declarations_that_do_not_fit_the_source_name_the_column() -> None:
    def declared(*columns: Column) -> Catalog:
        return Catalog((Table("t", columns, population="p", unit="row"),), (Population("p"),))

    rows = pa.table({"x": [1.5], "y": [[1]]})
    with pytest.raises(InputError, match=r"t\.missing"):
        DuckDBEngine(declared(Column("missing", INTEGER)), {"t": DataSource("frame", None, rows)})
    with pytest.raises(InputError, match=r"t\.x: cannot read a column of type DOUBLE as TEXT"):
        DuckDBEngine(declared(Column("x", TEXT)), {"t": DataSource("frame", None, rows)})
    with pytest.raises(InputError, match=r"t\.y"):
        DuckDBEngine(declared(Column("y", INTEGER)), {"t": DataSource("frame", None, rows)})
    with pytest.raises(InputError, match=r"sources\.t"):
        DuckDBEngine(declared(Column("x", DOUBLE)), {})
    with pytest.raises(InputError, match="there is no file"):
        DuckDBEngine(declared(Column("x", DOUBLE)), {"t": DataSource("parquet", "/nowhere/x.parquet")})
    with pytest.raises(InputError, match="frame"):
        DuckDBEngine(declared(Column("x", DOUBLE)), {"t": DataSource("frame", None, object())})
    with pytest.raises(InputError, match="kind"):
        DuckDBEngine(declared(Column("x", DOUBLE)), {"t": DataSource("excel", "x.xlsx")})


def test_csv_headers_are_checked(tmp_path: Path) -> None:
    catalog = Catalog((Table("t", (Column("x", DOUBLE),), population="p", unit="row"),), (Population("p"),))
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    (tmp_path / "c.dup.csv").write_text("x,X\n1,2\n")
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe\x00\n")
    for pattern, word in (("[ab].csv", "same header"), ("c*.csv", "each once"), ("d.csv", "UTF-8")):
        with pytest.raises(InputError, match=word):
            DuckDBEngine(catalog, {"t": DataSource("csv", f"{tmp_path}/{pattern}")})
