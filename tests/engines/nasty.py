"""Every value that a file can hold, one at a time: in one person's row, beside the ordinary rows of others.

A :class:`Nasty` is a stored type, ordinary values of it, values that have broken readers, and the types that its owner may
declare for it. :func:`tables` makes the database without such a person and one with them.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from support.engine_comparison import plain
from tacit.engines.protocol import Engine, Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.query import FinalAggregation
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, SqlType
from tacit.query.types import decimal as decimal_type

__all__ = ["NASTY", "PERSON", "Nasty", "catalog", "compared", "queries", "reading", "tables"]

#: Person whose row holds the value; others who hold one have larger numbers.
PERSON = 99
MONEY = decimal_type(2)
_LARGE = 2**63 - 1
_EXACT = decimal.Context(prec=80)


@dataclass(frozen=True)
class Nasty:
    """One kind of column.

    Args:
        name: for the test's name.
        kind: as it is stored.
        ordinary: values of the others.
        values: of the one person; one array each, of one value.
        declared: what its owner may call it.
    """

    name: str
    kind: pa.DataType
    ordinary: list[Any]
    values: tuple[pa.Array, ...]
    declared: tuple[SqlType, ...]


def _whole(kind: pa.DataType) -> Nasty:
    size = kind.bit_width
    low, high = (0, 2**size - 1) if "uint" in str(kind) else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    values = tuple(pa.array([value], type=kind) for value in (low, high, 0, high - 1, None))
    return Nasty(
        str(kind), kind, [1, 2, 3], values, (INTEGER, MONEY, DOUBLE, TEXT) if "64" in str(kind) else (INTEGER, TEXT)
    )


def _floats(kind: pa.DataType, form: str, *bits: int) -> Nasty:
    numbers = [pa.array([value], type=kind) for value in (float("nan"), float("inf"), float("-inf"), -0.0, None)]
    size = kind.bit_width // 8
    # Signalling and negative NaN, the smallest number, the largest.
    numbers += [pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(struct.pack(form, each))]) for each in bits]
    assert all(len(array) == 1 and size for array in numbers)
    return Nasty(str(kind), kind, [0.5, 1.5, 2.0], tuple(numbers), (DOUBLE, INTEGER, MONEY))


def _decimals(precision: int, scale: int, wide: bool = False) -> Nasty:
    kind = pa.decimal256(precision, scale) if wide else pa.decimal128(precision, scale)
    largest = decimal.Decimal(10**precision - 1).scaleb(-scale, _EXACT)
    smallest = decimal.Decimal(1).scaleb(-scale, _EXACT)
    values = tuple(pa.array([value], type=kind) for value in (largest, largest.copy_negate(), smallest, None))
    unit = min(1, precision - scale)
    ordinary = [decimal.Decimal(i).scaleb(-1 if unit == 0 else 0).quantize(smallest, context=_EXACT) for i in (1, 2, 3)]
    return Nasty(str(kind), kind, ordinary, values, (MONEY, INTEGER, DOUBLE))


def _moments(unit: str, zone: str | None) -> Nasty:
    kind = pa.timestamp(unit, zone)
    size = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    numbers = [
        _LARGE,
        -_LARGE - 1,
        -_LARGE,
        _LARGE - 1,
        _LARGE // 1000,
        _LARGE // 1000 + 1,
        -(_LARGE // 1000) - 2,
        -1,
        -1001,
        None,
    ]
    for second in (-62135596800, -62135596801, 253402300799, 253402300800):
        numbers += [second * size] if abs(second * size) <= _LARGE else []
    values = tuple(pa.array([number], type=pa.int64()).cast(kind) for number in numbers)
    return Nasty(str(kind), kind, [dt.datetime(2024, 1, day) for day in (1, 2, 3)], values, (TIMESTAMP, DATE))


def _bytes(kind: pa.DataType, *cells: bytes | None) -> tuple[pa.Array, ...]:
    """Texts of any bytes."""
    if kind == pa.string_view():
        return tuple(pa.array([cell], type=pa.binary_view()).view(kind) for cell in cells)
    bare = pa.large_binary() if kind == pa.large_string() else pa.binary()
    return tuple(pa.Array.from_buffers(kind, 1, pa.array([cell], type=bare).buffers()) for cell in cells)


_TEXTS: tuple[bytes | None, ...] = (
    b"\xff", b"\xfe", b"a\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x80", b"\0", b"a\0b", b"\0" * 20,
    b"", b" ", None, b"a" * 2**20, b"\xff" * 2**20, "e\u0301".encode(), "é".encode(), "\ufffd".encode(), "\ufeffa".encode(), "\u202ea".encode(),
    "😀".encode(), "ßŉİ".encode(), b"'", b'"', b"\\", b"%_", b"1e400", b"9" * 400, b"nan", b"-", b"2024-02-30", b"99999-01-01", b"infinity",
    b"${x}", b"\n", b"\r\n", b"true\0", "\u0661".encode(),
)  # fmt: skip


def _texts(kind: pa.DataType) -> Nasty:
    declared = (TEXT, INTEGER, DOUBLE, MONEY, DATE, TIMESTAMP, BOOLEAN) if kind == pa.string() else (TEXT, INTEGER)
    return Nasty(str(kind), kind, ["a", "b", "12"], _bytes(kind, *_TEXTS), declared)


def _dictionary() -> Nasty:
    kind = pa.dictionary(pa.int32(), pa.string())
    values = [
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), array) for array in _bytes(pa.string(), *_TEXTS[:20])
    ]
    return Nasty("dictionary", kind, ["a", "b", "12"], tuple(values), (TEXT, INTEGER))


NASTY = [
    Nasty("bool", pa.bool_(), [True, False, True], (pa.array([None], pa.bool_()), pa.array([False])), (BOOLEAN, INTEGER)),
    *map(_whole, (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    _floats(pa.float32(), "<I", 0x7F800001, 0xFFC00000, 1, 0x7F7FFFFF),
    _floats(pa.float64(), "<Q", 0x7FF0000000000001, 0xFFF8000000000000, 1, 0x7FEFFFFFFFFFFFFF, 0x43E0000000000000),
    _decimals(5, 2), _decimals(18, 2), _decimals(38, 0), _decimals(38, 10), _decimals(38, 38),
    Nasty("date32", pa.date32(), [dt.date(2024, 1, day) for day in (1, 2, 3)],
          tuple(pa.array([n], pa.int32()).cast(pa.date32()) for n in (2**31 - 1, -(2**31), -719163, -719162, 2932896, 2932897, -141427, -141432, -141438, None)),
          (DATE, TIMESTAMP, TEXT)),
    Nasty("date64", pa.date64(), [dt.date(2024, 1, day) for day in (1, 2, 3)],
          tuple(pa.array([n], pa.int64()).cast(pa.date64()) for n in (_LARGE, -_LARGE - 1, 86_400_000 * 2932897, -86_400_000 * 719163, 1)), (DATE, TIMESTAMP)),
    *(_moments(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *map(_texts, (pa.string(), pa.large_string(), pa.string_view())),
    _dictionary(),
]  # fmt: skip


def catalog(declared: SqlType) -> Catalog:
    """One table of persons with the column ``x``."""
    bounds = {DOUBLE: (-4.0, 4.0), INTEGER: (-4, 4), MONEY: (-4, 4)}
    days = {DATE: (dt.date(2024, 1, 1), dt.date(2024, 1, 31))}
    column = Column("x", declared, bounds={**bounds, **days}.get(declared))  # type: ignore[arg-type]
    table = Table("t", (Column("id", INTEGER), column), population="p", unit="id", max_groups=2, max_rows=2)
    return Catalog((table,), (Population("p"),))


def tables(nasty: Nasty, values: Sequence[pa.Array], place: int = 5) -> tuple[pa.Table, pa.Table]:
    """The others alone; and with one row for each value, every one of another person, from some place on."""
    cells = pa.array([nasty.ordinary[i % 3] for i in range(12)], type=nasty.kind)
    alone = pa.table({"id": pa.array(range(12), type=pa.int64()), "x": cells})
    rows = [pa.table({"id": pa.array([PERSON + i], type=pa.int64()), "x": value}) for i, value in enumerate(values)]
    return alone, pa.concat_tables([alone.slice(0, place), *rows, alone.slice(place)])


_COMMON = ["SELECT COUNT(*), COUNT(x), COUNT(*) FILTER (WHERE x IS NULL) FROM t{}"]
_KEYS = ["SELECT x, COUNT(*) FROM t{} GROUP BY x", "SELECT COUNT(DISTINCT x) FROM t{}"]
_OF: dict[SqlType, list[str]] = {
    TEXT: [
        *_KEYS,
        "SELECT COUNT(*) FILTER (WHERE x LIKE 'a%'), COUNT(*) FILTER (WHERE UPPER(x) = 'A'), COUNT(*) FILTER (WHERE LENGTH(x) > 1), COUNT(*) FILTER (WHERE x < 'b'),"
        " COUNT(*) FILTER (WHERE CAST(x AS INTEGER) IS NULL), COUNT(*) FILTER (WHERE CONCAT(x, 'b') > 'ab'), COUNT(*) FILTER (WHERE x IN ('a', 'b')),"
        " COUNT(*) FILTER (WHERE REPLACE(x, 'a', 'b') = 'b'), COUNT(*) FILTER (WHERE SPLIT_PART(x, '2', 1) = '1'), COUNT(*) FILTER (WHERE LPAD(x, 3, '0') = '00a') FROM t{}",
        "SELECT SUBSTRING(LOWER(x), 1, 2), COUNT(*) FROM t{} GROUP BY 1",
        "SELECT COUNT(*) FROM t{} WHERE x = 'a'",
        "SELECT COUNT(*) FROM t{} WHERE x >= 'a'",
        "SELECT COUNT(*) FROM (SELECT id, MAX(x) AS m, COUNT(DISTINCT x) AS n FROM t{} GROUP BY id) WHERE m > 'a' AND n = 1",
    ],
    INTEGER: [
        *_KEYS,
        "SELECT SUM(x), AVG(x), SUM(CLAMP(x + 1, 0, 9)), SUM(CLAMP(x * x, 0, 9)), SUM(CLAMP(x % 3, 0, 9)), SUM(CLAMP(ABS(x), 0, 9)), SUM(CLAMP(10 // x, 0, 9)), SUM(CLAMP(EXP(x), 0, 9)), COUNT(x + 1), COUNT(x * x), COUNT(-x), COUNT(ROUND(x, -1)) FROM t{}",
        "SELECT COUNT(*) FROM t{} WHERE x > 1",
    ],
    MONEY: [*_KEYS, "SELECT SUM(x), AVG(x), SUM(CLAMP(x * x, 0, 9)), SUM(CLAMP(ROUND(x, 1), 0, 9)), SUM(CLAMP(1 / x, 0, 9)), COUNT(x + x), COUNT(x * x) FROM t{} WHERE x <> 2"],
    DOUBLE: [
        "SELECT SUM(x), AVG(x), SUM(CLAMP(EXP(x), 0, 9)), SUM(CLAMP(LN(x), 0, 9)), SUM(CLAMP(FLOOR(x), -9, 9)), SUM(CLAMP(CAST(x AS INTEGER), -9, 9)), SUM(CLAMP(x * x, 0, 9)), SUM(CLAMP(1 / x, 0, 9)) FROM t{}",
        "SELECT MEDIAN(x), COUNT(*) FROM t{} WHERE x > 0.6",
        "SELECT CAST(FLOOR(x) AS INTEGER), COUNT(*) FROM t{} GROUP BY 1",
        "SELECT COUNT(*) FROM t{} WHERE x < 1e300",
    ],
    DATE: [
        *_KEYS,
        "SELECT YEAR(x), COUNT(*) FROM t{} GROUP BY 1",
        "SELECT COUNT(*) FILTER (WHERE x + INTERVAL 1 DAY > DATE '2024-01-02'), COUNT(*) FILTER (WHERE DATE_TRUNC('month', x) = DATE '2024-01-01'), COUNT(*) FILTER (WHERE DATE_DIFF('day', DATE '2024-01-01', x) > 0) FROM t{}",
    ],
    TIMESTAMP: [
        *_KEYS,
        "SELECT YEAR(x), COUNT(*) FROM t{} GROUP BY 1",
        "SELECT COUNT(*) FILTER (WHERE x + INTERVAL 1 DAY > TIMESTAMP '2024-01-02 00:00:00'), COUNT(*) FILTER (WHERE CAST(x AS DATE) = DATE '2024-01-01'), COUNT(*) FILTER (WHERE DATE_TRUNC('hour', x) = TIMESTAMP '2024-01-01 00:00:00') FROM t{}",
        "SELECT COUNT(*) FROM t{} WHERE x > TIMESTAMP '2024-01-01 12:00:00'",
    ],
    BOOLEAN: [*_KEYS[:1], "SELECT COUNT(*) FILTER (WHERE x), COUNT(*) FILTER (WHERE NOT x), COUNT(*) FILTER (WHERE x OR id > 3) FROM t{}"],
}  # fmt: skip


#: Of these, those that show how a value is read: as a key or in sums, and by a condition that a reader of files may
#: decide by itself. The others compute with a value that has been read, which is of the declared type by then.
_READING: dict[SqlType, list[str]] = {
    TEXT: [_OF[TEXT][0], _OF[TEXT][5]],
    INTEGER: _OF[INTEGER][2:],
    MONEY: [_OF[MONEY][0], _OF[MONEY][2]],
    DOUBLE: [_OF[DOUBLE][0], _OF[DOUBLE][3]],
    DATE: [_OF[DATE][0], _OF[DATE][3]],
    TIMESTAMP: [_OF[TIMESTAMP][0], *_OF[TIMESTAMP][3:]],
    BOOLEAN: _OF[BOOLEAN],
}


def reading(declared: SqlType) -> list[tuple[str, str]]:
    """Those of :func:`queries` that show how values are read."""
    chosen = {text.replace("{}", "") for text in [*_COMMON, *_READING[declared]]}
    return [pair for pair in queries(declared) if pair[0] in chosen]


def compared(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Queries to two engines about one table: about all people, and about the others where a reader may skip rows."""
    return [sql for pair in pairs for sql in pair[: 1 + (" WHERE x" in pair[0])]]


def queries(declared: SqlType) -> Iterator[tuple[str, str]]:
    """Pairs of queries: about all people, and about the others alone."""
    for text in [*_COMMON, *_OF[declared]]:
        others = text.replace("t{} WHERE", f"t WHERE id < {PERSON} AND").replace("t{}", f"t WHERE id < {PERSON}")
        yield text.replace("{}", ""), others


SECRET = b"an owner's secret"


Found = dict[str, tuple[dict[tuple[Any, ...], int], list[list[Any]]]]


def cells(found: Measurements) -> tuple[dict[tuple[Any, ...], int], list[list[Any]]]:
    keys, units, listed = plain(found)
    return dict(zip(keys, units, strict=True)), listed


@cache
def final_of(sql: str, declared: SqlType) -> FinalAggregation:
    return resolve(sql, catalog(declared)).final


def asked(engine: Engine, declared: SqlType, texts: Sequence[str] = ()) -> Found:
    """Measurements of every query, or of some."""
    listed = texts or [sql for pair in queries(declared) for sql in pair]
    return {sql: cells(engine.measure(MeasurementTask(final_of(sql, declared), SECRET))) for sql in listed}


def check_neighbours(alone: Found, together: Found, declared: SqlType, people: int) -> None:
    """The others' rows are what they were, and each further person moves one group at most, by one unit at most."""
    checked = 0
    for all_persons, others in queries(declared):
        if all_persons not in together:
            continue
        checked += 1
        assert together[others] == alone[all_persons], others
        before, after = alone[all_persons][0], together[all_persons][0]
        moved = {key: after.get(key, 0) - before.get(key, 0) for key in {*before, *after}}
        assert sum(map(abs, moved.values())) <= people, all_persons
    assert checked >= len(reading(declared))
