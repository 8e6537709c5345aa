"""Per-unit totals in a group, measure by measure, clamped to integers."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.engines.sql.casts import EXACT_DOUBLES
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.quantising import clamped, counts_sql, quantised_sql
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.refusal import Refusal
from tacit.query.types import Kind

__all__ = ["MOST_ROWS", "TOTALS", "Partials", "check_width", "fits_64_bits"]

#: No table, and no join of tables, has more rows than this: 2^40 sums below 2^86 stay below 2^126 and fit 128 bits.
MOST_ROWS = 2**40
_WIDEST = 2**86
_BIGINT = 2**63
_NARROW = 2**31
#: Measures that add values up.
TOTALS = tuple(kind for kind in MeasureKind if kind.traits.adds_values)


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
        dialect: of the database.
        row_units: whether every row is its own unit, so that totals are sums over rows and the other levels stay empty.
        measures: all sums of the statement.
        rows: per row, SQL by name.
        collected: aggregates over a unit's rows in a group.
        centred: totals about their centres.
        shares: totals of heavy contributors brought down to as many rows as count.
    """

    dialect: Dialect
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
        return self._clamped_total(self._share(measure), measure)

    def _clamped_total(self, value: str, measure: Measure) -> str:
        low, high = measure.clamp
        return f"coalesce({self.dialect.total(clamped(self.dialect, value, low, high), max(abs(low), abs(high)))}, 0)"

    def levels(self, keep: str, pairs: str) -> str:
        """The last level over ``pairs``, which selects the collected columns; ``keep`` are columns carried along."""
        for columns in (self.centred, self.shares):
            if columns:
                pairs = f"SELECT {', '.join([keep, *self.collected, *_carried(self.centred, columns), *_listed(columns)])} FROM {self.dialect.derived(pairs)}"  # noqa: E501
        return pairs

    def _row_total(self, measure: Measure) -> str:
        low, high = measure.clamp
        if measure.kind not in TOTALS:
            if low == 0 and high >= 1:
                return self._count(measure)
            condition = counts_sql(self.dialect, measure)
            flag = "1" if condition is None else f"CASE WHEN {self._row(condition)} THEN 1 ELSE 0 END"
            return self._clamped_total(flag, measure)
        steps = self._row(quantised_sql(self.dialect, measure))
        ends = (measure.low - measure.centre, measure.high - measure.centre)
        square = measure.kind is MeasureKind.CENTRED_SQUARES
        if not square and low <= ends[0] and ends[1] <= high:
            total = self.dialect.total(steps, max(abs(measure.low), abs(measure.high)))
            total = _about(self.dialect, total, f"count({steps})", measure.centre)
            return f"coalesce({total}, 0)"
        value = _square(self.dialect, steps, measure) if square else f"{self.dialect.huge(steps)} - {measure.centre}"
        return self._clamped_total(value, measure)

    def _share(self, measure: Measure) -> str:
        """One unit's integer in one group, before the clamp."""
        if measure.kind not in TOTALS:
            count = self._collect(self._count(measure))
            return f"CASE WHEN {count} > 0 THEN 1 ELSE 0 END" if measure.kind is MeasureKind.UNITS else count
        steps = self._row(quantised_sql(self.dialect, measure))
        largest = max(abs(measure.low), abs(measure.high))
        total = self._collect(_whole(self.dialect, self.dialect.total(steps, largest), largest))
        if measure.kind is MeasureKind.SUM:
            return total
        count = self._collect(f"count({steps})")
        if measure.kind is MeasureKind.CENTRED_SQUARES:
            largest = max(abs(measure.low - measure.centre), abs(measure.high - measure.centre)) ** 2
            squares = self.dialect.total(_square(self.dialect, steps, measure), largest)
            centred = self._collect(_whole(self.dialect, squares, largest))
        else:
            largest += abs(measure.centre)
            centred = _named(self.centred, _about(self.dialect, total, count, measure.centre), "z")
        return _named(self.shares, _scaled(self.dialect, centred, count, measure.rows, largest), "s")

    def _count(self, measure: Measure) -> str:
        """How many rows count; the values of a sum over the same rows are counted instead where there is one."""
        condition = counts_sql(self.dialect, measure)
        if condition is None:
            return "count(*)"
        for other in self.measures:
            if other.kind in TOTALS and (other.argument, other.where) == (measure.argument, measure.where):
                return f"count({self._row(quantised_sql(self.dialect, other))})"
        return f"count(*) FILTER (WHERE {self._row(condition)})"

    def _row(self, sql: str) -> str:
        return _named(self.rows, sql, "x")

    def _collect(self, sql: str) -> str:
        return _named(self.collected, sql, "y")


def fits_64_bits(largest: int) -> bool:
    """Whether a sum over any number of rows, each at most that large, fits a signed 64-bit integer."""
    return largest * MOST_ROWS < _BIGINT


def _whole(d: Dialect, total: str, largest: int) -> str:
    """A total over any number of rows, 0 over none; as BIGINT where it always fits."""
    return f"CAST(coalesce({total}, 0) AS {_type(d, largest)})"


def _about(d: Dialect, total: str, count: str, centre: int) -> str:
    """Σ (q - centre) from Σ q and their number."""
    if centre == 0:
        return total
    return f"{total} - {count} * CAST({centre} AS {_type(d, abs(centre))})"


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


def _square(d: Dialect, steps: str, measure: Measure) -> str:
    largest = max(abs(measure.low - measure.centre), abs(measure.high - measure.centre), abs(measure.centre))
    distance = f"(CAST({steps} AS {'BIGINT' if largest < _NARROW // 2 else d.wide}) - {measure.centre})"
    return f"{distance} * {distance}"


def _scaled(d: Dialect, total: str, count: str, rows: int, largest: int) -> str:
    """A total over ``count`` values brought down to ``rows`` of them: times rows/count, ties away from zero.

    |S|·r/n = (|S| div n)·r + (|S| mod n)·r/n, whose parts stay small.
    """
    size, n = d.huge(f"abs({total})"), d.huge(count)
    rest = d.divided(f"({size} % {n} * {2 * rows} + {n})", f"(2 * {n})", wide=True)
    scaled = f"CAST({d.divided(size, n, wide=True)} * {rows} + {rest} AS {_type(d, largest)})"
    return f"CASE WHEN {count} <= {rows} THEN {total} WHEN {total} < 0 THEN -{scaled} ELSE {scaled} END"


def _type(d: Dialect, largest: int) -> str:
    """For totals over any number of rows, each at most that large."""
    return "BIGINT" if fits_64_bits(largest) else d.wide
