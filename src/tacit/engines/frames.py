"""Frames in memory: of Python values, for tables that Tacit itself generates, and as Arrow tables.

Databases read the buffers of an Arrow table without checks. So each value is checked once, when a source is opened: a
text that is not UTF-8 and a timestamp outside the years 1 to 9999 become NULL, as in every other source.
"""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.query.types import BOOLEAN, DATE, DECIMAL_DIGITS, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, SqlType

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


_STORED = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


_KINDS = {
    bool: BOOLEAN,
    int: INTEGER,
    float: DOUBLE,
    str: TEXT,
    dt.date: DATE,
    dt.datetime: TIMESTAMP,
}


@dataclass(frozen=True)
class PlainFrame:
    """Table of Python values, with a name and a type for each column.

    Args:
        types: type by column name.
        rows: values in the order of ``types``, as canonical Python values; None for NULL.
    """

    types: dict[str, SqlType]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, types: dict[str, SqlType], rows: Sequence[Sequence[Any]]) -> PlainFrame:
        """Make a frame from a copy of the rows."""
        return cls(dict(types), tuple(map(tuple, rows)))

    @classmethod
    def inferred(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> PlainFrame:
        """Make a frame whose column types are those of the first values; a column without values is TEXT."""
        firsts = [next((row[i] for row in rows if row[i] is not None), "") for i in range(len(names))]
        return cls.of({name: _KINDS[type(first)] for name, first in zip(names, firsts, strict=True)}, rows)

    @property
    def digest(self) -> str:
        """SHA-256 digest of the types and the rows."""
        return hashlib.sha256(repr((list(self.types.items()), self.rows)).encode()).hexdigest()

    def stored_types(self) -> list[str]:
        """Return the DuckDB type of each column."""
        return [
            f"DECIMAL({DECIMAL_DIGITS},{kind.scale})"
            if kind.kind is Kind.DECIMAL
            else _STORED.get(kind.kind, "VARCHAR")
            for kind in self.types.values()
        ]

    def columns(self) -> list[list[Any]]:
        """Return the values of each column; decimals as texts, which every database reads exactly."""
        kinds = list(self.types.values())
        return [[_plain(row[i], kind) for row in self.rows] for i, kind in enumerate(kinds)]


def _plain(value: Any, kind: SqlType) -> Any:
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return str(Decimal(int(value * 10**kind.scale)).scaleb(-kind.scale))
    return value


def block_arrays(blocks: Iterable[Sequence[Sequence[Any]]], as_objects: Sequence[bool]) -> list[NDArray[Any]]:
    """Return the first columns of blocks of rows, one per flag: objects with None if true, else floats with NaN."""
    import numpy as np

    parts: list[list[NDArray[Any]]] = [[] for _ in as_objects]
    for block in blocks:
        for place, is_object in enumerate(as_objects):
            values = [row[place] for row in block]
            made = np.empty(len(values), dtype=object if is_object else np.float64)
            made[:] = values if is_object else [math.nan if value is None else value for value in values]
            parts[place].append(made)
    kinds = [np.dtype(object) if is_object else np.dtype(np.float64) for is_object in as_objects]
    return [np.concatenate(each) if each else np.empty(0, kind) for each, kind in zip(parts, kinds, strict=True)]


# Arrow tables with valid values only ---------------------------------------------------------------------------------


#: Start of the year 1 and end of the year 9999, in seconds since 1970.
_FIRST, _END = -62_135_596_800, 253_402_300_800
#: Largest absolute value of a timestamp in nanoseconds; beyond it, integers stand for infinity or NULL.
LAST_NANOSECOND = 2**63 - 2
_SIZES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def as_arrow(frame: Any, table: str, kinds: str = "an Arrow, pandas or Polars frame") -> pa.Table:
    """Return the rows of a frame as an Arrow table; ``table`` and ``kinds`` are for the error message."""
    pa = load_arrow()
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        frame = frame.collect()
    if hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    if type(frame).__module__.partition(".")[0] == "pandas":
        return _from_pandas(frame, table)
    raise InputError(table, f"must be {kinds}, not {type(frame).__name__}")


def arrow_arrays(table: pa.Table, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
    """Return the first columns, one per flag: objects with None for NULL if it is true, else floats with NaN."""
    import numpy as np

    found: list[NDArray[Any]] = []
    for column, is_object in zip(table.columns, as_objects, strict=False):
        if is_object:
            objects = np.empty(len(column), dtype=object)
            objects[:] = column.to_pylist()
            found.append(objects)
        else:
            # A column of NULLs only may have no type.
            found.append(column.cast("double").to_numpy())
    return found


def _from_pandas(frame: Any, table: str) -> pa.Table:
    """Convert a pandas frame; a column of Python objects must hold values of one type."""
    import pyarrow as pa

    for name, column in frame.items():
        kinds = {type(value) for value in column.dropna()} if column.dtype == object else set()
        if len(kinds) > 1:
            raise InputError(f"{table}.{name}", "holds values of several types; convert it to one with astype")
        if decimal.Decimal in kinds:
            # Otherwise the longest number would determine the precision of the column.
            raise InputError(
                f"{table}.{name}",
                "holds decimals without a type; convert it with astype(pd.ArrowDtype(pa.decimal128(18, 2)))",
            )
    try:
        rows = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Arrow's own message quotes a value.
        raise InputError(table, "a column of the pandas frame cannot be converted to Arrow") from None
    # A column of NULLs only becomes a text column.
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def sound_table(rows: pa.Table, names: Collection[str], table: str) -> pa.Table:
    """Return the columns in ``names`` (lower case), with NULL for values that :func:`sound` replaces.

    Raises:
        InputError: the buffers of a column are invalid for its type; the message names ``table``.
    """
    import pyarrow as pa

    wanted = [i for i, name in enumerate(rows.column_names) if name.lower() in names]
    columns = []
    for i in wanted:
        try:
            made = sound(rows.column(i))
            made.validate(full=True)
        except pa.ArrowException:
            raise InputError(f"{table}.{rows.column_names[i]}", "is damaged: its Arrow buffers do not fit") from None
        columns.append(made)
    if not wanted:
        return rows.select([])
    return pa.Table.from_arrays(columns, names=[rows.column_names[i] for i in wanted])


def sound(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with NULL for texts that are not UTF-8 and for timestamps outside the years 1 to 9999.

    Dictionaries are decoded, dates in milliseconds become days, and timestamps become microseconds, in UTC if they have
    a time zone.
    """
    import pyarrow as pa

    is_a, kind = pa.types, column.type
    if is_a.is_dictionary(kind):
        chunks = []
        for part in column.chunks:
            values = sound(pa.chunked_array([part.dictionary])).combine_chunks()
            chunks.append(pa.DictionaryArray.from_arrays(part.indices, values))
            chunks[-1].validate(full=True)
        return sound(pa.chunked_array([part.dictionary_decode() for part in chunks], type=kind.value_type))
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return pa.chunked_array([_sound_text(part) for part in column.chunks], type=kind)
    if is_a.is_timestamp(kind):
        return _sound_moments(column)
    return _sound_days(column) if is_a.is_date64(kind) else column


def _sound_text(part: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        part.validate(full=True)
    except pa.ArrowInvalid:
        view, large = pa.types.is_string_view(part.type), pa.types.is_large_string(part.type)
        raw_bytes = part.view(pa.binary_view() if view else pa.large_binary() if large else pa.binary())
        # Values that are not valid UTF-8 must at least lie within the buffers.
        raw_bytes.validate(full=True)
        cells = raw_bytes.to_pylist()
        return pa.array([_decoded(cell) for cell in cells], type=part.type)
    return part


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _sound_moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    size = _SIZES[column.type.unit]
    number = column.cast(pa.int64())
    if size < 10**9:
        number = _between(number, _FIRST * size, _END * size)
    else:
        number = _between(number, -LAST_NANOSECOND, LAST_NANOSECOND + 1)
    scaled = pc.multiply(number, 10**6 // size) if size <= 10**6 else _floored(number, 10**3)
    return scaled.cast(pa.timestamp("us", "UTC" if column.type.tz is not None else None))


def _sound_days(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    number = _between(column.cast(pa.int64()), _FIRST * 10**3, _END * 10**3)
    return _floored(number, 86_400_000).cast(pa.int32()).cast(pa.date32())


def _between(number: pa.ChunkedArray, low: int, end: int) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    inside = pc.and_(pc.greater_equal(number, low), pc.less(number, end))
    return pc.if_else(inside, number, pa.scalar(None, pa.int64()))


def _floored(number: pa.ChunkedArray, size: int) -> pa.ChunkedArray:
    """Divide integers, rounding down."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cut = pc.divide(number, size)
    below = pc.less(number, pc.multiply(cut, size))
    return pc.subtract(cut, pc.cast(below, pa.int64()))
