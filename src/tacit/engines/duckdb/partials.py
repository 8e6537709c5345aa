"""A unit's share in a group, measure by measure: what to collect from its rows, and the clamped integer made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.engines.duckdb.casts import EXACT_DOUBLES
from tacit.engines.duckdb.quantising import clamped, counts_sql, quantised_sql
from tacit.query.measures import Measure, MeasureKind
from tacit.query.refusal import Refusal
from tacit.query.types import Kind

__all__ = ["MOST_ROWS", "TOTALS", "Partials", "check_width", "fits_64_bits"]

#: No table, and no join of tables, has more rows than this: 2^40 sums below 2^86 stay below 2^126 and fit a HUGEINT.
MOST_ROWS = 2**40
_WIDEST = 2**86
_BIGINT = 2**63
_NARROW = 2**31
_CENTRED = (MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES)
#: Measures that add values up.
TOTALS = (MeasureKind.SUM, *_CENTRED)


def check_width(measure: Measure) -> None:
    """Refuse sums that 128 bits might not hold, and doubles on a grid finer than theirs."""
    largest = max(abs(measure.low - measure.centre), abs(measure.high - measure.centre), abs(measure.centre))
    square = measure.kind is MeasureKind.CENTRED_SQUARES
    wide = max(largest**2 if square else largest, *map(abs, measure.clamp)) >= _WIDEST
    double = measure.argument is not None and measure.argument.type.kind is Kind.DOUBLE
    if wide or (double and largest > EXACT_DOUBLES):
        raise Refusal(
            "bounds",
            "The bounds of a summed value are too many steps apart for exact sums; declare a coarser step or CLAMP it.",
        )


@dataclass
class Partials:
    """Columns shared by the sums of one statement, level by level; each level reads the one before.

    Args:
        row_units: whether every row is its own unit, so that totals are sums over rows and the other levels stay empty.
        measures: all sums of the statement.
        rows: per row, SQL by name.
        collected: aggregates over a unit's rows in a group.
        centred: totals about their centres.
        shares: totals of heavy contributors brought down to as many rows as count.
    """

    row_units: bool
    measures: tuple[Measure, ...]
    rows: dict[str, str] = field(default_factory=dict)
    collected: dict[str, str] = field(default_factory=dict)
    centred: dict[str, str] = field(default_factory=dict)
    shares: dict[str, str] = field(default_factory=dict)

    def total(self, measure: Measure) -> str:
        """The sum over units, as SQL over rows (row units) or over the last level."""
        if self.row_units:
            return self._row_total(measure)
        return f"coalesce(sum({clamped(self._share(measure), *measure.clamp)}), 0)"

    def levels(self, keep: str, pairs: str) -> str:
        """The last level over ``pairs``, which selects the collected columns; ``keep`` are columns carried along."""
        for columns in (self.centred, self.shares):
            if columns:
                pairs = f"SELECT {', '.join([keep, *self.collected, *_carried(self.centred, columns), *_listed(columns)])} FROM ({pairs})"  # noqa: E501
        return pairs

    def _row_total(self, measure: Measure) -> str:
        low, high = measure.clamp
        if measure.kind not in TOTALS:
            if low == 0 and high >= 1:
                return self._count(measure)
            condition = counts_sql(measure)
            flag = "1" if condition is None else f"CASE WHEN {self._row(condition)} THEN 1 ELSE 0 END"
            return f"coalesce(sum({clamped(flag, low, high)}), 0)"
        steps = self._row(quantised_sql(measure))
        ends = (measure.low - measure.centre, measure.high - measure.centre)
        square = measure.kind is MeasureKind.CENTRED_SQUARES
        if not square and low <= ends[0] and ends[1] <= high:
            total = _about(f"sum({steps})", f"count({steps})", measure.centre)
            return f"coalesce({total}, 0)"
        value = _square(steps, measure) if square else f"CAST({steps} AS HUGEINT) - {measure.centre}"
        return f"coalesce(sum({clamped(value, low, high)}), 0)"

    def _share(self, measure: Measure) -> str:
        """One unit's integer in one group, before the clamp."""
        if measure.kind not in TOTALS:
            count = self._collect(self._count(measure))
            return f"CASE WHEN {count} > 0 THEN 1 ELSE 0 END" if measure.kind is MeasureKind.UNITS else count
        steps = self._row(quantised_sql(measure))
        total = self._collect(_whole(f"sum({steps})", max(abs(measure.low), abs(measure.high))))
        if measure.kind is MeasureKind.SUM:
            return total
        count = self._collect(f"count({steps})")
        if measure.kind is MeasureKind.CENTRED_SQUARES:
            largest = max(abs(measure.low - measure.centre), abs(measure.high - measure.centre)) ** 2
            centred = self._collect(_whole(f"sum({_square(steps, measure)})", largest))
        else:
            centred = _named(self.centred, _about(total, count, measure.centre), "z")
        return _named(self.shares, _scaled(centred, count, measure.rows), "s")

    def _count(self, measure: Measure) -> str:
        """How many rows count; the values of a sum over the same rows are counted instead where there is one."""
        condition = counts_sql(measure)
        if condition is None:
            return "count(*)"
        for other in self.measures:
            if other.kind in TOTALS and (other.argument, other.where) == (measure.argument, measure.where):
                return f"count({self._row(quantised_sql(other))})"
        return f"count(*) FILTER (WHERE {self._row(condition)})"

    def _row(self, sql: str) -> str:
        return _named(self.rows, sql, "x")

    def _collect(self, sql: str) -> str:
        return _named(self.collected, sql, "y")


def fits_64_bits(largest: int) -> bool:
    """Whether a sum over any number of rows, each at most that large, fits a signed 64-bit integer."""
    return largest * MOST_ROWS < _BIGINT


def _whole(total: str, largest: int) -> str:
    """A total over any number of rows, 0 over none; as BIGINT where it always fits."""
    return f"CAST(coalesce({total}, 0) AS {'BIGINT' if fits_64_bits(largest) else 'HUGEINT'})"


def _about(total: str, count: str, centre: int) -> str:
    """Σ (q - centre) from Σ q and their number."""
    if centre == 0:
        return total
    return f"{total} - {count} * CAST({centre} AS {'BIGINT' if fits_64_bits(abs(centre)) else 'HUGEINT'})"


def _listed(columns: dict[str, str]) -> list[str]:
    return [f"{sql} AS {name}" for name, sql in columns.items()]


def _carried(before: dict[str, str], columns: dict[str, str]) -> list[str]:
    return [] if columns is before else list(before)


def _named(columns: dict[str, str], sql: str, letter: str) -> str:
    """The name of a column, new or known."""
    for name, known in columns.items():
        if known == sql:
            return name
    name = f"{letter}{len(columns)}"
    columns[name] = sql
    return name


def _square(steps: str, measure: Measure) -> str:
    largest = max(abs(measure.low - measure.centre), abs(measure.high - measure.centre), abs(measure.centre))
    distance = f"(CAST({steps} AS {'BIGINT' if largest < _NARROW // 2 else 'HUGEINT'}) - {measure.centre})"
    return f"{distance} * {distance}"


def _scaled(total: str, count: str, rows: int) -> str:
    """A total over ``count`` values brought down to ``rows`` of them: times rows/count, ties away from zero.

    |S|·r/n = (|S| div n)·r + (|S| mod n)·r/n, whose parts stay small.
    """
    size, n = f"CAST(abs({total}) AS HUGEINT)", f"CAST({count} AS HUGEINT)"
    scaled = f"({size} // {n} * {rows} + ({size} % {n} * {2 * rows} + {n}) // (2 * {n}))"
    return f"CASE WHEN {count} <= {rows} THEN {total} WHEN {total} < 0 THEN -{scaled} ELSE {scaled} END"
