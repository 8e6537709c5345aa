"""Values at which engines disagree, and how rows of canonical values are put into DuckDB's storage types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tacit.query.relational.expressions import Reference
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    Domain,
    Kind,
    SqlType,
    Value,
    decimal,
)

BIG = 2**63 - 1

EDGES: dict[SqlType, list[Value | None]] = {
    BOOLEAN: [None, True, False],
    INTEGER: [None, 0, 1, -1, 2, 3, 7, -7, 10, 15, 25, -25, 50, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, BIG, -BIG, -BIG - 1, 10**9, 12345],
    decimal(0): [None, *map(Fraction, (0, 1, -1, 7, -15, 10**18 - 1, 1 - 10**18))],
    decimal(2): [None, *(Fraction(n, 100) for n in (0, 1, -1, 49, 50, -50, 51, 149, 150, -150, 250, 12345, -99, 10**18 - 1, 1 - 10**18, 900719925474099350))],
    decimal(9): [None, *(Fraction(n, 10**9) for n in (0, 1, -1, 5 * 10**8, -15 * 10**8, 10**18 - 1, 1 - 10**18))],
    DOUBLE: [None, 0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 0.1, 0.7, 1.005, -1.005, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-9, 1e9, 2.0**52 + 0.5, 2.0**53, 9.2e18, -9.3e18, 2.0**63, -(2.0**63), 1e100, 1.7976931348623157e308, -1.7976931348623157e308, 123.456, 55.0, 1250.0, 710.0],
    TEXT: [None, "", " ", "a", "A", "ab", "abc", "a b ", "  pad", "trail   ", "ß", "İ", "ı", "ŉ", "É", "é", "日本語", "😀a", "e\u0301", "a,b,c", ",", "a%b_c", "100%", "it's", 'quo"te', "back\\slash", "new\nline", "tab\t", "1", "0", "true", "FALSE", " yes ", "-5", "+5", "1.5", "2.5", "-2.5", "1e3", "1.45e1", "5.", ".5", ".", "", "e5", "1e400", "1e-400", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999999999999999999", "0.005", "0.015", "-0.005", "1.0049999999999999999999999", "0x10", "1_000", "nan", "inf", "Infinity", "١٢", "2024-02-29", "2023-02-29", "2024-02-29 ", "0001-01-01", "0000-01-01", "9999-12-31", "10000-01-01", "2024-1-1", "2024-01-01 10:20", "2024-01-01 10:20:30", "2024-01-01T10:20:30.5", "2024-01-01 24:00:00", "2024-01-01 23:59:60", "2024-01-01 10:20:30.1234567", "x" * 300],
    DATE: [None, dt.date(1, 1, 1), dt.date(1, 1, 2), dt.date(4, 2, 29), dt.date(1900, 2, 28), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(2020, 12, 28), dt.date(2021, 1, 3), dt.date(2024, 1, 31), dt.date(2024, 2, 29), dt.date(2024, 12, 30), dt.date(9999, 12, 31), dt.date(9999, 11, 30)],
    TIMESTAMP: [None, dt.datetime(1, 1, 1), dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12, 34, 56, 789000), dt.datetime(2024, 3, 31, 1), dt.datetime(2021, 1, 3, 23, 59, 59), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
}  # fmt: skip


def stored(value: Value | None, kind: SqlType) -> Any:
    """A canonical value as DuckDB holds it."""
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return int(value * 10**kind.scale)
    return value


_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DECIMAL: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
}


def storage_table(kinds: Sequence[SqlType], rows: Sequence[Sequence[Value | None]]) -> pa.Table:
    """Rows as an Arrow table with the columns c0, c1, … in storage types."""
    arrays = [pa.array([stored(row[i], kind) for row in rows], type=_ARROW[kind.kind]) for i, kind in enumerate(kinds)]
    return pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(kinds))])


def ref(slot: int, kind: SqlType) -> Reference:
    """A column about whose values nothing is presumed."""
    return Reference(kind, Domain(), slot, f"c{slot}")
