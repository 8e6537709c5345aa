"""Released skewness and kurtosis: measurements, expected errors and estimates."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tacit.query.aggregate_family import (
    AggregateCall,
    Bounds,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    no_bounds,
    noisy_steps,
)
from tacit.query.association_family import from_centre
from tacit.query.planning.measures import Measure, MeasureKind, count_measure, grid_step, sum_measure
from tacit.query.postprocess.shape import LEAST_VALUES, ShapeEstimate, shape_error
from tacit.query.question import Aggregate, AggregateKind
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions import call, cast
from tacit.query.types import DOUBLE, Kind

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers

__all__ = ["Shapes"]

#: Powers of whole numbers up to here are exact; others are doubles on a grid as many times finer than the largest.
_EXACT_POWERS: Final = 2**44
#: A power beyond would not be a double.
_LARGEST: Final = Fraction(2) ** 200


class Shapes(Family):
    """SKEWNESS and KURTOSIS: the number of values, and their centred sum, squares, cubes and fourth powers."""

    error_kind = "even"

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Three measurements as for a variance, and one for each higher power: ``postprocess/shape.proof.md``."""
        argument, shown = asked.value, asked.function.upper()
        if asked.auto:
            raise Refusal("bounds", f"{shown} takes stated bounds: write CLAMP(x, lo, hi).")
        if asked.per_group is not None or asked.per_row is not None:
            raise Refusal("contribution_bounds", f"{shown} takes CLAMP(x, lo, hi) instead of contribution bounds.")
        bounds = argument.range.ends
        if bounds is None:
            raise no_bounds(asked, argument, stated=True)
        step = grid_step(argument.step, argument.type, bounds)
        indices = [final.measure(count_measure(MeasureKind.VALUES, argument, asked.where, rows=final.rows))]
        for kind in (MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES):
            made = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
            indices.append(final.measure(made))
        powers = (3,) if asked.function == "skewness" else (3, 4)
        indices += [final.measure(_powers(argument, bounds, made, power)) for power in powers]
        return Aggregate(AggregateKind(asked.function), tuple(indices), None, DOUBLE, None, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """For a supposed number of evenly spread values."""
        if at.suppose is None or at.suppose < LEAST_VALUES[aggregate.kind.value]:
            return None
        each = at.beta / len(aggregate.measures)
        noises = [at.law(i).error(each) * at.final.measures[i].unit_of_value for i in aggregate.measures]
        return shape_error(aggregate.kind.value, at.suppose, noises, _reach(at.final.measures[aggregate.measures[1]]))

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:  # noqa: ARG002
        """Functions of the released sums."""
        measures = [released.plan.final.measures[index] for index in aggregate.measures]
        units = tuple(part.unit_of_value for part in measures)
        sums = [noisy_steps(released, index) for index in aggregate.measures]
        return lambda group: ShapeEstimate(
            form=aggregate.kind.value,
            sums=tuple(total[group] * unit for total, unit in zip(sums, units, strict=True)),
            draws=tuple(released.draw(index, group) for index in aggregate.measures),
            units=units,
            reach=_reach(measures[1]),
            type=aggregate.type,
        )


def _reach(measure: Measure) -> Fraction:
    return max(measure.high - measure.centre, measure.centre - measure.low) * measure.step


def _powers(argument: Expression, bounds: Bounds, beside: Measure, power: int) -> Measure:
    """Powers of the clamped value less its centre, added up."""
    distance, reach = from_centre(argument, bounds, beside), _reach(beside)
    most = reach**power
    if most > _LARGEST:
        raise Refusal("bounds", "Fourth powers of values with such bounds are too large; CLAMP the value.")
    exact = argument.type.kind is Kind.INTEGER and beside.step == 1 and most <= _EXACT_POWERS
    factor = distance if exact else cast(distance, DOUBLE)
    raised = factor
    for _ in range(power - 1):
        raised = call("mul", raised, factor)
    step = Fraction(1) if exact or not most else Fraction(2) ** _exponent(most / _EXACT_POWERS)
    # Whole steps on both sides, so that the centre is 0.
    end = max(-(-most // step), 1) * step
    return sum_measure(MeasureKind.CENTRED_SUM, raised, beside.where, bounds=(-end, end), step=step, rows=beside.rows)


def _exponent(value: Fraction) -> int:
    """Of a power of two that is not above ``value``, or not by much."""
    return value.numerator.bit_length() - value.denominator.bit_length()
