"""How values become integers: clamp, then q(x) = floor(x / step + 1/2), exactly.

Whole numbers, decimals and times are integers already and are divided as integers. A DOUBLE is divided by the step
and rounded by ``floor(y + 1/2)``, whose one wrong answer below 2^51 (y = 1/2 - 2^-54) is taken back. For a step that
is a power of two the division is exact and so is q; for a decimal step it is the quotient of doubles that is rounded,
which is the same on every engine with IEEE arithmetic and may differ from the exact quotient by one step where that
lies within an ulp of a tie.
"""

from __future__ import annotations

from fractions import Fraction

from tacit.core.errors import InternalError
from tacit.engines.duckdb.casts import huge
from tacit.engines.duckdb.functions.times import days, microseconds
from tacit.engines.duckdb.scalars import scalar_sql
from tacit.engines.duckdb.spelling import let
from tacit.query.measures import Measure
from tacit.query.types import DATE, Kind

__all__ = ["category_sql", "clamped", "counts_sql", "leaf_sql", "quantised_sql", "whole_type"]

#: The double just below one half: added to one half it rounds up to 1.
_BELOW_HALF = "0.49999999999999994"
_EXACT_HALVES = 2**51
_INTEGER = 2**31 - 1
_BIGINT = 2**63 - 1


def whole_type(largest: int) -> str:
    """The narrowest type for whole numbers up to a size; narrow columns are summed faster."""
    return "INTEGER" if largest <= _INTEGER else "BIGINT" if largest <= _BIGINT else "HUGEINT"


def clamped(value: str, low: int, high: int, within: tuple[int, int] | None = None) -> str:
    """``value`` moved into [low, high]; left alone where it is ``within`` them anyway. NULL stays NULL."""
    if within is not None and low <= within[0] and within[1] <= high:
        return value
    # What lies inside comes first: where all of a batch does, the rest is skipped.
    beyond = "WHEN {v} < {low} THEN {low} WHEN {v} > {high} THEN {high}"
    inside = "CASE WHEN {v} BETWEEN {low} AND {high} THEN {v} " + beyond + " END"
    return let(value, lambda v: inside.format(v=v, low=low, high=high))


def counts_sql(measure: Measure) -> str | None:
    """The condition under which a row counts; None when every row does."""
    parts = [] if measure.where is None else [scalar_sql(measure.where)]
    if measure.argument is not None:
        parts.append(f"{scalar_sql(measure.argument)} IS NOT NULL")
    return f"({' AND '.join(parts)})" if parts else None


def quantised_sql(measure: Measure) -> str:
    """q(x) within [low, high] for rows that count, NULL for others; a DOUBLE that is not finite does not count."""
    argument = measure.argument
    if argument is None:
        raise InternalError("only values can be quantised")
    value, kind = scalar_sql(argument), argument.type
    if kind.kind is Kind.DOUBLE:
        steps = _double_steps(value, measure)
    elif kind.kind is Kind.BOOLEAN:
        steps = _whole_steps(f"CAST({value} AS BIGINT)", Fraction(1), measure)
    elif kind.is_temporal:
        steps = _whole_steps(days(value) if kind == DATE else microseconds(value), Fraction(1), measure)
    elif kind.is_numeric:
        steps = _whole_steps(value, Fraction(1, 10**kind.scale), measure)
    else:
        raise InternalError(f"{kind} has no steps")
    return steps if measure.where is None else f"(CASE WHEN {scalar_sql(measure.where)} THEN {steps} END)"


def leaf_sql(measure: Measure) -> str:
    """The number of the leaf a value falls into, NULL for rows that do not count."""
    return f"CAST(({quantised_sql(measure)} - ({measure.low})) // {measure.leaf} AS INTEGER)"


def category_sql(measure: Measure, positions: str) -> str:
    """The number of the category, NULL for undeclared values and rows that do not count."""
    return positions if measure.where is None else f"(CASE WHEN {scalar_sql(measure.where)} THEN {positions} END)"


def _whole_steps(value: str, grain: Fraction, measure: Measure) -> str:
    """Integers worth ``grain`` each, in steps of ``measure.step``."""
    ratio = measure.step / grain
    kind = whole_type(max(abs(measure.low), abs(measure.high)))
    if ratio == 1:
        return f"CAST({clamped(value, measure.low, measure.high)} AS {kind})"
    # floor(v / (p/q) + 1/2) = floor((2qv + p) / 2p); counted from ``low`` on nothing is negative, so // is a floor.
    p, q = ratio.numerator, ratio.denominator
    start = (2 * p * measure.low - p) // (2 * q)
    near = clamped(value, start, -(-(2 * p * measure.high + p) // (2 * q)))
    number = f"({huge(near, 2 * q)} + {p - 2 * p * (measure.low - 1)}) // {2 * p} + {measure.low - 1}"
    return f"CAST({clamped(number, measure.low, measure.high)} AS {kind})"


def _double_steps(value: str, measure: Measure) -> str:
    largest = max(abs(measure.low), abs(measure.high))
    step = measure.step
    ends = f"CAST({measure.low} AS DOUBLE)", f"CAST({measure.high} AS DOUBLE)"
    if step.numerator == 1 and _is_power_of_two(step.denominator):
        moved = f"{value} * CAST({step.denominator} AS DOUBLE)"
    else:
        moved = f"{value} / CAST('{float(step)!r}' AS DOUBLE)"

    def inside(v: str) -> str:
        # What lies inside comes first: where all of a batch does, the rest is skipped. Infinities which scaling made of
        # large values are clamped; a finite value never gives NaN.
        parts = [
            f"{v} BETWEEN {ends[0]} AND {ends[1]} THEN {v}",
            f"NOT isfinite({value}) THEN NULL",
            f"{v} < {ends[0]} THEN {ends[0]}",
            f"{v} > {ends[1]} THEN {ends[1]}",
        ]
        return f"CASE {' '.join(f'WHEN {part}' for part in parts)} END"

    y = let(moved, inside)
    kind = whole_type(largest)
    if largest > _EXACT_HALVES:
        return (
            f"CAST({let(y, lambda v: f'floor({v}) + CASE WHEN {v} - floor({v}) >= 0.5 THEN 1 ELSE 0 END')} AS {kind})"
        )
    if measure.low >= 0:
        # Adding the double below one half is right for every y from 0 on.
        return f"CAST(floor({y} + {_BELOW_HALF}::DOUBLE) AS {kind})"
    return f"CAST({let(y, lambda v: f'floor({v} + 0.5::DOUBLE) - CAST({v} = {_BELOW_HALF}::DOUBLE AS INTEGER)')} AS {kind})"  # noqa: E501


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
