"""Arrow tables from canonical values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.core.extras import load_arrow
from tacit.query.types import DECIMAL_DIGITS, Kind, SqlType, Value

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_type(kind: SqlType) -> pa.DataType:
    """The Arrow type of a SQL type."""
    pa = load_arrow()

    match kind.kind:
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.INTEGER:
            return pa.int64()
        case Kind.DECIMAL:
            return pa.decimal128(DECIMAL_DIGITS, kind.scale)
        case Kind.DOUBLE:
            return pa.float64()
        case Kind.TEXT:
            return pa.string()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case _:
            return pa.null()


def plain(value: Value | None, kind: SqlType) -> Any:
    """A value as people and Arrow write it: decimals become :class:`decimal.Decimal`, exactly."""
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return Decimal(int(value * 10**kind.scale)).scaleb(-kind.scale)
    return value


def to_arrow(names: Sequence[str], kinds: Sequence[SqlType], rows: Sequence[Sequence[Value | None]]) -> pa.Table:
    """A table with one column per name."""
    pa = load_arrow()

    arrays = [pa.array([plain(row[i], kind) for row in rows], type=arrow_type(kind)) for i, kind in enumerate(kinds)]
    return pa.Table.from_arrays(arrays, names=list(names))
