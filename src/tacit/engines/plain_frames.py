"""Frames of Python's own values, for tables that Tacit makes up itself: audits and attacks need no library for them."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.query.types import BOOLEAN, DATE, DECIMAL_DIGITS, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, SqlType

if TYPE_CHECKING:
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
    """Rows with a name and a type for each column.

    Args:
        types: by name of the column.
        rows: values in that order, as the types have them; None for NULL.
    """

    types: dict[str, SqlType]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, types: dict[str, SqlType], rows: Sequence[Sequence[Any]]) -> PlainFrame:
        """A frame of a copy of the rows."""
        return cls(dict(types), tuple(map(tuple, rows)))

    @classmethod
    def inferred(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> PlainFrame:
        """A frame whose types are those of its first values; a column without any holds texts."""
        firsts = [next((row[i] for row in rows if row[i] is not None), "") for i in range(len(names))]
        return cls.of({name: _KINDS[type(first)] for name, first in zip(names, firsts, strict=True)}, rows)

    @property
    def digest(self) -> str:
        """A digest of all of its content."""
        return hashlib.sha256(repr((list(self.types.items()), self.rows)).encode()).hexdigest()

    def stored_types(self) -> list[str]:
        """The type of each column in DuckDB."""
        return [
            f"DECIMAL({DECIMAL_DIGITS},{kind.scale})"
            if kind.kind is Kind.DECIMAL
            else _STORED.get(kind.kind, "VARCHAR")
            for kind in self.types.values()
        ]

    def columns(self) -> list[list[Any]]:
        """The values of each column; decimals as texts, which every database reads exactly."""
        kinds = list(self.types.values())
        return [[_plain(row[i], kind) for row in self.rows] for i, kind in enumerate(kinds)]


def _plain(value: Any, kind: SqlType) -> Any:
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return str(Decimal(int(value * 10**kind.scale)).scaleb(-kind.scale))
    return value


def block_arrays(blocks: Iterable[Sequence[Sequence[Any]]], as_objects: Sequence[bool]) -> list[NDArray[Any]]:
    """The first columns of rows in blocks, each as objects with None for NULL or as floats with NaN for it."""
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
