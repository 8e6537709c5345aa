"""Per-unit totals in a group: values quantised, summed measure by measure, and clamped to integers.

Quantisation is clamp, then q(x) = floor(x / step + 1/2), exactly. Whole numbers, decimals and times are integers
already and are divided as integers. A DOUBLE is divided by the step and rounded by ``floor(y + 1/2)``, whose one wrong
answer below 2^51 (y = 1/2 - 2^-54) is taken back. For a step that is a power of two the division is exact and so is q;
for a decimal step it is the quotient of doubles that is rounded, which is the same on every engine with IEEE
arithmetic and may differ from the exact quotient by one step where that lies within an ulp of a tie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.scalars import EXACT_DOUBLES, ProvenRange, condition_sql, lies_within, proven_range, scalar_sql
from tacit.query.contribution import MOST_TOTAL
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.refusal import Refusal
from tacit.query.types import DATE, Kind

#: The double just below one half: added to one half it rounds up to 1.
_BELOW_HALF = 0.49999999999999994
_EXACT_HALVES = 2**51
_HALF_BIGINT = 2**62


def clamped(d: Dialect, value: str, low: int, high: int) -> str:
    """``value`` moved into [low, high]. NULL stays NULL."""
    # Values inside the bounds come first: where all of a batch are inside, the rest is skipped.
    return d.let(
        value,
        lambda v: (
            f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {v}"
            f" WHEN {v} < {low} THEN {low} WHEN {v} > {high} THEN {high} END"
        ),
    )


def counts_sql(d: Dialect, measure: Measure) -> str | None:
    """The condition under which a row counts; None when every row does."""
    parts = [] if measure.where is None else [condition_sql(d, measure.where)]
    if measure.argument is not None:
        parts.append(f"{scalar_sql(d, measure.argument)} IS NOT NULL")
    return f"({' AND '.join(parts)})" if parts else None


def quantised_sql(d: Dialect, measure: Measure) -> str:
    """q(x) within [low, high] for rows that count, NULL for others; a DOUBLE that is not finite does not count."""
    argument = measure.argument
    if argument is None:
        raise InternalError("only values can be quantised")
    value, kind = scalar_sql(d, argument), argument.type
    if kind.kind is Kind.DOUBLE:
        steps = d.double_steps(value, measure)
    elif kind.kind is Kind.BOOLEAN:
        steps = _whole_steps(d, d.flag(value), Fraction(1), measure)
    elif kind.is_temporal:
        steps = _whole_steps(d, d.days(value) if kind == DATE else d.microseconds(value), Fraction(1), measure)
    elif kind.is_numeric:
        steps = _whole_steps(d, value, Fraction(1, 10**kind.scale), measure, proven_range(argument))
    else:
        raise InternalError(f"{kind} has no steps")
    return steps if measure.where is None else f"(CASE WHEN {condition_sql(d, measure.where)} THEN {steps} END)"


def leaf_sql(d: Dialect, measure: Measure) -> str:
    """The number of the leaf a value falls into, NULL for rows that do not count."""
    steps, wide = quantised_sql(d, measure), max(abs(measure.low), abs(measure.high)) >= _HALF_BIGINT
    from_low = f"(CAST({steps} AS {d.wide if wide else 'BIGINT'}) - ({measure.low}))"
    return f"CAST({d.divided(from_low, str(measure.leaf), wide=wide)} AS INTEGER)"


def category_sql(d: Dialect, measure: Measure, positions: str) -> str:
    """The number of the category, NULL for undeclared values and rows that do not count."""
    return positions if measure.where is None else f"(CASE WHEN {condition_sql(d, measure.where)} THEN {positions} END)"


def _whole_steps(d: Dialect, value: str, grain: Fraction, measure: Measure, known: ProvenRange | None = None) -> str:
    """Integers worth ``grain`` each, in steps of ``measure.step``; ``known`` is their range, where it is known."""
    ratio = measure.step / grain
    kind = d.whole_type(max(abs(measure.low), abs(measure.high)))
    if ratio == 1:
        inside = lies_within(known, measure.low, measure.high)
        return f"CAST({value if inside else clamped(d, value, measure.low, measure.high)} AS {kind})"
    # floor(v / (p/q) + 1/2) = floor((2qv + p) / 2p); counted from ``low`` on nothing is negative, so division is a
    # floor.
    p, q = ratio.numerator, ratio.denominator
    start, end = (2 * p * measure.low - p) // (2 * q), -(-(2 * p * measure.high + p) // (2 * q))
    if q == 1:
        # The first and the last value whose quotients are ``low`` and ``high``: nothing is left to clamp after.
        start, end = -((p - 2 * p * measure.low) // 2), (2 * p * measure.high + p - 1) // 2
    near, offset = clamped(d, value, start, end), p - 2 * p * (measure.low - 1)
    # 64 bits do for most.
    wide = 2 * q * max(abs(start), abs(end)) + abs(offset) >= _BIGINT
    moved = f"({d.huge(near, 2 * q) if wide else f'CAST({near} AS BIGINT) * {2 * q}'} + {offset})"
    number = f"{d.divided(moved, str(2 * p), wide=wide)} + {measure.low - 1}"
    return f"CAST({number if q == 1 else clamped(d, number, measure.low, measure.high)} AS {kind})"


def double_steps(d: Dialect, value: str, measure: Measure) -> str:
    """Steps of a double, where products and quotients of doubles may be infinite and nothing fails."""
    ends = d.number(float(measure.low)), d.number(float(measure.high))
    step = measure.step
    known = None if measure.argument is None else proven_range(measure.argument)
    if step.numerator == 1 and is_power_of_two(step.denominator):
        factor = float(step.denominator)
        moved, far = f"{value} * {d.number(factor)}", known and (known[0] * factor, known[1] * factor)
    else:
        unit = float(step)
        moved, far = f"{value} / {d.number(unit)}", known and (known[0] / unit, known[1] / unit)
    if lies_within(far, float(measure.low), float(measure.high)):
        return rounded_steps(d, moved, measure)

    def inside(v: str) -> str:
        # Values inside the bounds come first: where all of a batch are inside, the rest is skipped. Infinities which
        # scaling made of large values are clamped; a finite value never gives NaN.
        parts = [
            f"{v} BETWEEN {ends[0]} AND {ends[1]} THEN {v}",
            f"NOT {d.is_finite(value)} THEN NULL",
            f"{v} < {ends[0]} THEN {ends[0]}",
            f"{v} > {ends[1]} THEN {ends[1]}",
        ]
        return f"CASE {' '.join(f'WHEN {part}' for part in parts)} END"

    return rounded_steps(d, d.let(moved, inside), measure)


def rounded_steps(d: Dialect, y: str, measure: Measure) -> str:
    """floor(y + 1/2) for a double within [low, high], as a whole number."""
    largest = max(abs(measure.low), abs(measure.high))
    kind = d.whole_type(largest)
    half, below = d.number(0.5), d.number(_BELOW_HALF)
    if largest > _EXACT_HALVES:
        up = d.let(y, lambda v: f"floor({v}) + CASE WHEN {v} - floor({v}) >= {half} THEN 1 ELSE 0 END")
        return f"CAST({up} AS {kind})"
    if measure.low >= 0:
        # Adding the double below one half is right for every y from 0 on.
        return f"CAST(floor({y} + {below}) AS {kind})"

    def nearest(v: str) -> str:
        wrong = d.flag(f"{v} = {below}", "INTEGER")
        return f"floor({v} + {half}) - {wrong}"

    return f"CAST({d.let(y, nearest)} AS {kind})"


def is_power_of_two(number: int) -> bool:
    """Of a positive whole number."""
    return number & (number - 1) == 0


#: No table, and no join of tables, has more rows than this: 2^40 sums below 2^86 stay below 2^126 and fit 128 bits.
MOST_ROWS = 2**40
_WIDEST = 2**86
_BIGINT = 2**63
_NARROW = 2**31
#: Measures that add values up.
TOTALS = tuple(kind for kind in MeasureKind if kind.traits.adds_values)


def check_width(measure: Measure) -> None:
    """Refuse sums that 128 bits might not hold, and doubles on a grid finer than theirs."""
    largest = max(measure.reach, abs(measure.centre))
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
        most: column with the most rows of the unit that count in the group, where they are bounded in all groups
            together; None where every measurement has one number for all.
    """

    dialect: Dialect
    row_units: bool
    measures: tuple[Measure, ...]
    rows: dict[str, str] = field(default_factory=dict)
    collected: dict[str, str] = field(default_factory=dict)
    centred: dict[str, str] = field(default_factory=dict)
    shares: dict[str, str] = field(default_factory=dict)
    most: str | None = None

    def total(self, measure: Measure) -> str:
        """The sum over units, as SQL over rows (row units) or over the last level."""
        if self.row_units:
            return self._row_total(measure)
        share = self._share(measure)
        return self._clamped_total(share if self.most is None else self._within(share, measure), measure)

    def _within(self, share: str, measure: Measure) -> str:
        """A share, of as many rows as count in the group; what is centred was brought down to these."""
        if measure.kind in (MeasureKind.ROWS, MeasureKind.VALUES):
            return f"least({share}, {self.most})"
        if measure.kind is not MeasureKind.SUM or self.most is None:
            return share
        limits = min(0, measure.low), max(0, measure.high)
        wide = max(-limits[0], limits[1]) * MOST_TOTAL >= _BIGINT
        low, high = (self.dialect.huge(self.most, end) if wide else f"{self.most} * ({end})" for end in limits)
        return f"least(greatest({share}, {low}), {high})"

    @property
    def rows_in_group(self) -> str:
        """The name of the number of rows of a unit in a group."""
        return self._collect("count(*)")

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
        total = self.summed(measure)
        if measure.kind is MeasureKind.SUM:
            return total
        count = self._collect(f"count({steps})")
        if measure.kind is MeasureKind.CENTRED_SQUARES:
            largest = measure.reach**2
            squares = self.dialect.total(_square(self.dialect, steps, measure), largest)
            centred = self._collect(_whole(self.dialect, squares, largest))
        else:
            largest += abs(measure.centre)
            centred = _named(self.centred, _about(self.dialect, total, count, measure.centre), "z")
        return _named(self.shares, _scaled(self.dialect, centred, count, self.most or str(measure.rows), largest), "s")

    def summed(self, measure: Measure) -> str:
        """The name of the sum of the steps of a unit in a group; 0 over no values."""
        steps = self._row(quantised_sql(self.dialect, measure))
        largest = max(abs(measure.low), abs(measure.high))
        return self._collect(_whole(self.dialect, self.dialect.total(steps, largest), largest))

    def _count(self, measure: Measure) -> str:
        """Count the rows that count; the values of a sum over the same rows are counted instead where there is one."""
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
    largest = max(measure.reach, abs(measure.centre))
    distance = f"(CAST({steps} AS {'BIGINT' if largest < _NARROW // 2 else d.wide}) - {measure.centre})"
    return f"{distance} * {distance}"


def _scaled(d: Dialect, total: str, count: str, rows: str, largest: int) -> str:
    """A total over ``count`` values brought down to ``rows`` of them: times rows/count, ties away from zero.

    |S|·r/n = (|S| div n)·r + (|S| mod n)·r/n, whose parts stay small.
    """
    size, n = d.huge(f"abs({total})"), d.huge(count)
    rest = d.divided(f"({size} % {n} * {rows} * 2 + {n})", f"(2 * {n})", wide=True)
    scaled = f"CAST({d.divided(size, n, wide=True)} * {rows} + {rest} AS {_type(d, largest)})"
    return f"CASE WHEN {count} <= {rows} THEN {total} WHEN {total} < 0 THEN -{scaled} ELSE {scaled} END"


def _type(d: Dialect, largest: int) -> str:
    """For totals over any number of rows, each at most that large."""
    return "BIGINT" if fits_64_bits(largest) else d.wide
