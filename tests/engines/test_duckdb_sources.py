"""Files and frames of every kind give the same rows; values that do not fit are NULL and never an error."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.core.errors import InputError
from tacit.engines import MeasurementTask
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, SqlType
from tacit.query.types import decimal as decimal_type

COLUMNS = (
    Column("id", INTEGER),
    Column("kind", TEXT, categories=("a", "b", "é,x")),
    Column("money", decimal_type(2), bounds=(0, 100)),
    Column("x", DOUBLE, bounds=(-1.0, 1.0)),
    Column("day", DATE, bounds=(dt.date(2024, 1, 1), dt.date(2024, 12, 31))),
    Column("at", TIMESTAMP),
    Column("ok", BOOLEAN),
)
CATALOG = Catalog((Table("t", COLUMNS, population="p", unit="id", max_groups=3, max_rows=9),), (Population("p"),))
ROWS = [
    (1, "a", "1.25", 0.5, dt.date(2024, 2, 29), dt.datetime(2024, 1, 1, 10), True),
    (1, "b", None, None, None, None, None),
    (2, "é,x", "99.99", -0.25, dt.date(2024, 7, 1), dt.datetime(1969, 12, 31, 23, 59, 59), False),
    (2**53 + 1, "a", "100.01", 1.0, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 12), True),
    (None, "a", "5.00", 0.1, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), True),
    (3, "zzz", "7.00", 0.1, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), True),
]
SQL = "SELECT kind, COUNT(*), SUM(money), SUM(x), COUNT(DISTINCT day), COUNT(*) FILTER (WHERE ok AND at > TIMESTAMP '2024-01-01 09:00:00'), COUNT(DISTINCT id) FROM t GROUP BY kind"


def frame(rows: list[tuple[object, ...]] = ROWS) -> pa.Table:
    types = [pa.int64(), pa.string(), pa.decimal128(18, 2), pa.float64(), pa.date32(), pa.timestamp("us"), pa.bool_()]
    cells = [
        [decimal.Decimal(v) if i == 2 and v is not None else v for v in column]
        for i, column in enumerate(zip(*rows, strict=True))
    ]
    return pa.Table.from_arrays(
        [pa.array(c, type=t) for c, t in zip(cells, types, strict=True)], names=[c.name for c in COLUMNS]
    )


def measured(source: DataSource, sql: str = SQL, catalog: Catalog = CATALOG) -> list[list[int]]:
    with DuckDBEngine(catalog, {"t": source}, Limits(threads=2)) as engine:
        return [array.tolist() for array in engine.measure(MeasurementTask(resolve(sql, catalog).final, b"k")).raw]


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


CSV = """id,kind,money,x,day,at,ok,unused
1,a,1.25,0.5,2024-02-29,2024-01-01 10:00:00,true,
1,b,,,,,,
2,"é,x", 99.99 ,-0.25,2024-07-01,1969-12-31 23:59:59,f,"quoted ""text"" and no new line"
9007199254740993,a,100.01,1e0,2024-01-01,2024-01-01T12:00,T
,a,5.00,0.1,2024-01-01,2024-01-01,true,
3,zzz,7.00,0.1,2024-01-01,2024-01-01,true,
not a number,a,5,0.1,2024-01-01,2024-01-01,true,
"""


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


NARROW = [
    ("x", DOUBLE, pa.array([math.nan, math.inf, -math.inf, None, -0.0, 0.5]), [6, 2]),
    ("x", DOUBLE, pa.array([math.nan, 0.5], type=pa.float32()), [2, 1]),
    ("x", DOUBLE, pa.array([2**63 - 1, 1]), [2, 2]),
    ("n", INTEGER, pa.array([2**64 - 1, 1], type=pa.uint64()), [2, 1]),
    ("n", INTEGER, pa.array([1.5, math.nan, 1e300]), [3, 1]),
    ("n", INTEGER, pa.array(["7", "x", None, " 7 ", "7.4", "99999999999999999999"]), [6, 3]),
    ("n", INTEGER, pa.array([decimal.Decimal("1.5"), decimal.Decimal("99999999999999999999.5")]), [2, 1]),
    ("d", decimal_type(2), pa.array([decimal.Decimal("1.005"), decimal.Decimal("12345678901234567.000")]), [2, 1]),
    ("d", decimal_type(9), pa.array([decimal.Decimal("999999999.999999999")]), [1, 1]),
    ("d", decimal_type(2), pa.array([1, 10**17]), [2, 1]),
    ("d", decimal_type(2), pa.array([0.125, math.inf]), [2, 1]),
    ("y", DATE, pa.array([0, -800_000, 3_000_000, 2**31 - 1], type=pa.int32()).cast(pa.date32()), [4, 1]),
    ("y", DATE, pa.array([dt.datetime(2024, 1, 1, 5), None], type=pa.timestamp("ms")), [2, 1]),
    ("z", TIMESTAMP, pa.array([0, 2**62, -(2**62)], type=pa.int64()).cast(pa.timestamp("us")), [3, 1]),
    ("z", TIMESTAMP, pa.array([0, 2**62], type=pa.int64()).cast(pa.timestamp("us", tz="UTC")), [2, 1]),
    ("z", TIMESTAMP, pa.array([0, 2**62], type=pa.int64()).cast(pa.timestamp("ns")), [2, 2]),
    ("z", TIMESTAMP, pa.array([0, -(2**31)], type=pa.int32()).cast(pa.date32()), [2, 1]),
    ("s", TEXT, pa.array(["a", None, ""]), [3, 2]),
    ("s", TEXT, pa.array([1, None, 2**53 + 1]), [3, 2]),
    ("s", TEXT, pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["u", "v"])), [3, 2]),
    ("b", BOOLEAN, pa.array([0, 5, None]), [3, 2]),
    ("b", BOOLEAN, pa.array(["yes", "maybe", "f"]), [3, 2]),
    ("b", BOOLEAN, pa.nulls(2), [2, 0]),
]  # fmt: skip


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
