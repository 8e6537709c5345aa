"""Small tables in every form of a source, and what engines measure of them."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa

from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP
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


SQL = (
    "SELECT kind, COUNT(*), SUM(money), SUM(x), COUNT(DISTINCT day), "
    "COUNT(*) FILTER (WHERE ok AND at > TIMESTAMP '2024-01-01 09:00:00'), COUNT(DISTINCT id) FROM t GROUP BY kind"
)


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


CSV = """id,kind,money,x,day,at,ok,unused
1,a,1.25,0.5,2024-02-29,2024-01-01 10:00:00,true,
1,b,,,,,,
2,"é,x", 99.99 ,-0.25,2024-07-01,1969-12-31 23:59:59,f,"quoted ""text"" and no new line"
9007199254740993,a,100.01,1e0,2024-01-01,2024-01-01T12:00,T
,a,5.00,0.1,2024-01-01,2024-01-01,true,
3,zzz,7.00,0.1,2024-01-01,2024-01-01,true,
not a number,a,5,0.1,2024-01-01,2024-01-01,true,
"""


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
