"""Per-unit totals from arrays: the same integers as ``engines/sql/unit_totals.py``.

DuckDB hands over one column per value that is added up: q(x), or NULL for rows that do not count. Here it is
y = q(x) - low + 1, which is 1 or more, and 0 for NULL. So Σ q(x) = Σ y + n·(low - 1), with n the number of positive y.

Everything is 64-bit integers. Whether they are wide enough is checked before they are trusted; where they are not,
:class:`TooWideError` sends the question back to SQL, which adds up in 128 bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.sql.unit_totals import TOTALS, counts_sql, quantised_sql
from tacit.query.planning.measures import Measure, MeasureKind

__all__ = ["WIDEST", "Pairs", "Read", "TooWideError", "UnitShare", "read_shares"]

#: Sums of sizes stay below this, with room for one more addition.
WIDEST = 2**62

Integers = NDArray[np.int64]


class TooWideError(Exception):
    """64 bits might not do."""


class Pairs(ABC):
    """Rows of some (unit, group) pairs.

    Args:
        read: the y of every row in a column.
        full: columns in which every row counts.
        lengths: how many rows each pair has.
    """

    def __init__(self, read: Callable[[str], Integers], full: Collection[str], lengths: Integers) -> None:
        self.lengths = lengths
        self.longest = int(lengths.max(initial=0))
        self._read, self._full = read, full
        self._known: dict[tuple[str, str], Integers] = {}

    @abstractmethod
    def sums(self, values: NDArray[Any]) -> Integers:
        """Sums per pair, from one value per row; right modulo 2^64."""

    def values(self, name: str) -> Integers:
        """Every row's y."""
        return self._once("values", name, lambda: self._read(name))

    def counts(self, name: str) -> Integers:
        """How many rows of each pair have a positive value."""
        if name in self._full:
            return self.lengths
        return self._once("counts", name, lambda: self.sums(self.values(name) > 0))

    def totals(self, name: str) -> Integers:
        """The sum of each pair."""
        return self._once("totals", name, lambda: self.sums(self.values(name)))

    def _once(self, what: str, name: str, make: Callable[[], Integers]) -> Integers:
        found = self._known.get((what, name))
        if found is None:
            found = self._known[what, name] = make()
        return found


@dataclass(frozen=True)
class UnitShare:
    """One measure, and the column it reads; None where every row counts and nothing else is asked."""

    measure: Measure
    column: str | None

    @property
    def largest(self) -> int:
        """How large a share can be."""
        return max(map(abs, self.measure.clamp))

    def check_sum(self, count: int) -> None:
        """Whether so many shares can be added up.

        Raises:
            TooWideError: when 64 bits might not do.
        """
        if self.largest * count >= WIDEST:
            raise TooWideError

    def of(self, pairs: Pairs) -> Integers:
        """The clamped integer of each pair.

        Raises:
            TooWideError: when a sum over one pair's rows might not fit.
        """
        measure = self.measure
        if measure.kind not in TOTALS:
            count = pairs.lengths if self.column is None else pairs.counts(self.column)
            value = (count > 0).astype(np.int64) if measure.kind is MeasureKind.UNITS else count
        else:
            value = self._total(pairs)
        low, high = measure.clamp
        # Most units have few rows, and what lies inside need not be copied.
        inside = not len(value) or (low <= int(value.min()) and int(value.max()) <= high)
        return value if inside else np.maximum(np.minimum(value, high), low)

    def _total(self, pairs: Pairs) -> Integers:
        if self.column is None:
            raise InternalError("a sum needs a column")
        measure, start = self.measure, self.measure.low - 1 - self.measure.centre
        largest = measure.high - measure.low + 1 + abs(start)
        square = measure.kind is MeasureKind.CENTRED_SQUARES
        if pairs.longest * max(largest**2 if square else largest, 2 * measure.rows + 1) >= WIDEST:
            raise TooWideError
        count = pairs.counts(self.column)
        if square:
            values = pairs.values(self.column)
            distance = np.where(values > 0, values + start, 0)
            total = pairs.sums(distance * distance)
        else:
            total = pairs.totals(self.column)
            total = total + count * start if start else total
        return total if measure.kind is MeasureKind.SUM else _scaled(total, count, measure.rows)


def _scaled(total: Integers, count: Integers, rows: int) -> Integers:
    """Totals over more than ``rows`` values brought down to ``rows`` of them; see ``partials``."""
    heavy = np.flatnonzero(count > rows)
    if not len(heavy):
        return total
    whole, n = np.abs(total[heavy]), count[heavy]
    scaled = whole // n * rows + (whole % n * (2 * rows) + n) // (2 * n)
    total = total.copy()
    total[heavy] = np.sign(total[heavy]) * scaled
    return total


@dataclass(frozen=True)
class Read:
    """What DuckDB hands over per row.

    Args:
        sql: of it.
        fill: stands for NULL, which is where a row does not count.
        largest: the largest it can be, counted from ``fill``.
    """

    sql: str
    fill: int
    largest: int


def read_shares(measures: Sequence[Measure], most_rows: int) -> tuple[dict[str, Read], tuple[UnitShare, ...]] | None:
    """The columns to read by name, and what to make of them; None where 64 bits cannot be enough."""
    columns: dict[str, Read] = {}
    values = {(m.argument, m.where): m for m in measures if m.kind in TOTALS}
    shares = []
    for measure in measures:
        summed = measure if measure.kind in TOTALS else values.get((measure.argument, measure.where))
        share = UnitShare(measure, _named(columns, _column(measure, summed)))
        widest = max(share.largest, 0 if summed is None else 2 * max(abs(summed.low), abs(summed.high)) + 1)
        # Squares are wide; whether they fit is seen when it is known how many rows one unit has.
        if widest * (1 if measure.kind is MeasureKind.CENTRED_SQUARES else most_rows) >= WIDEST:
            return None
        shares.append(share)
    return columns, tuple(shares)


def _column(measure: Measure, summed: Measure | None) -> Read | None:
    """What a measure reads of a row; the values of a sum over the same rows do for a count as well."""
    if summed is not None:
        return Read(quantised_sql(DUCKDB, summed), summed.low - 1, summed.high - summed.low + 1)
    condition = counts_sql(DUCKDB, measure)
    return None if condition is None else Read(f"(CASE WHEN {condition} THEN 1::TINYINT END)", 0, 1)


def _named(columns: dict[str, Read], column: Read | None) -> str | None:
    if column is None:
        return None
    for name, known in columns.items():
        if known == column:
            return name
    name = f"y{len(columns)}"
    columns[name] = column
    return name
