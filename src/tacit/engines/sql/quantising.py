"""Quantisation: clamp, then q(x) = floor(x / step + 1/2), exactly.

Whole numbers, decimals and times are integers already and are divided as integers. A DOUBLE is divided by the step
and rounded by ``floor(y + 1/2)``, whose one wrong answer below 2^51 (y = 1/2 - 2^-54) is taken back. For a step that
is a power of two the division is exact and so is q; for a decimal step it is the quotient of doubles that is rounded,
which is the same on every engine with IEEE arithmetic and may differ from the exact quotient by one step where that
lies within an ulp of a tie.
"""

from __future__ import annotations

from fractions import Fraction

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.scalars import condition_sql, scalar_sql
from tacit.query.planning.measures import Measure
from tacit.query.types import DATE, Kind

__all__ = [
    "category_sql",
    "clamped",
    "counts_sql",
    "double_steps",
    "is_power_of_two",
    "leaf_sql",
    "quantised_sql",
    "rounded_steps",
]

#: The double just below one half: added to one half it rounds up to 1.
_BELOW_HALF = 0.49999999999999994
_EXACT_HALVES = 2**51
_HALF_BIGINT = 2**62


def clamped(d: Dialect, value: str, low: int, high: int) -> str:
    """``value`` moved into [low, high]. NULL stays NULL."""
    # What lies inside comes first: where all of a batch does, the rest is skipped.
    beyond = "WHEN {v} < {low} THEN {low} WHEN {v} > {high} THEN {high}"
    inside = "CASE WHEN {v} BETWEEN {low} AND {high} THEN {v} " + beyond + " END"
    return d.let(value, lambda v: inside.format(v=v, low=low, high=high))


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
        steps = _whole_steps(d, value, Fraction(1, 10**kind.scale), measure)
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


def _whole_steps(d: Dialect, value: str, grain: Fraction, measure: Measure) -> str:
    """Integers worth ``grain`` each, in steps of ``measure.step``."""
    ratio = measure.step / grain
    kind = d.whole_type(max(abs(measure.low), abs(measure.high)))
    if ratio == 1:
        return f"CAST({clamped(d, value, measure.low, measure.high)} AS {kind})"
    # floor(v / (p/q) + 1/2) = floor((2qv + p) / 2p); counted from ``low`` on nothing is negative, so division is a
    # floor.
    p, q = ratio.numerator, ratio.denominator
    start = (2 * p * measure.low - p) // (2 * q)
    near = clamped(d, value, start, -(-(2 * p * measure.high + p) // (2 * q)))
    moved = f"({d.huge(near, 2 * q)} + {p - 2 * p * (measure.low - 1)})"
    number = f"{d.divided(moved, str(2 * p), wide=True)} + {measure.low - 1}"
    return f"CAST({clamped(d, number, measure.low, measure.high)} AS {kind})"


def double_steps(d: Dialect, value: str, measure: Measure) -> str:
    """Steps of a double, where products and quotients of doubles may be infinite and nothing fails."""
    ends = d.number(float(measure.low)), d.number(float(measure.high))
    step = measure.step
    if step.numerator == 1 and is_power_of_two(step.denominator):
        moved = f"{value} * {d.number(float(step.denominator))}"
    else:
        moved = f"{value} / {d.number(float(step))}"

    def inside(v: str) -> str:
        # What lies inside comes first: where all of a batch does, the rest is skipped. Infinities which scaling made of
        # large values are clamped; a finite value never gives NaN.
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
