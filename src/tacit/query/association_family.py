"""Released covariances, correlations and regressions: measurements, expected errors and estimates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tacit.core.errors import InternalError
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
from tacit.query.planning.measures import Measure, MeasureKind, count_measure, grid_step, sum_measure
from tacit.query.postprocess.association import Association, PairSums, association_error
from tacit.query.question import Aggregate, AggregateKind
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call, cast
from tacit.query.types import DOUBLE, INTEGER, MAX_SCALE, Kind, as_value, decimal

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers

__all__ = ["Correlations", "Covariances", "from_centre"]

_ZERO: Final = Fraction(0)


class Covariances(Family):
    """Covariances and sums of products of two values: ``postprocess/association.proof.md``."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """The number of pairs, the sums of both values, of their product, and the squares that are divided by."""
        if asked.second is None:
            raise InternalError(f"{asked.function} reads pairs")
        released = AggregateKind(asked.function)
        indices = [final.measure(count_measure(MeasureKind.VALUES, asked.value, asked.where, rows=final.rows))]
        factors, squares, farthest, widths = [], [], Fraction(1), []
        for side in (asked.second, asked.value):
            bounds = side.range.ends
            if bounds is None:
                raise no_bounds(asked, side, stated=True)
            step = grid_step(side.step, side.type, bounds)
            made = [
                sum_measure(kind, side, asked.where, bounds=bounds, step=step, rows=final.rows)
                for kind in (MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES)
            ]
            indices.append(final.measure(made[0]))
            squares.append(made[1])
            factors.append(from_centre(side, bounds, made[0]))
            farthest *= max(made[0].high - made[0].centre, made[0].centre - made[0].low) * step
            widths.append(bounds[1] - bounds[0])
        same = asked.second == asked.value
        indices.append(final.measure(squares[0] if same else _products(factors, farthest, asked.where, final.rows)))
        indices += [final.measure(square) for square in squares[: _SQUARES.get(released, 0)]]
        known = {
            AggregateKind.CORR: (-Fraction(1), Fraction(1)), AggregateKind.REGR_R2: (_ZERO, Fraction(1)),
            AggregateKind.COVAR_POP: (-widths[0] * widths[1] / 4, widths[0] * widths[1] / 4),
            AggregateKind.COVAR_SAMP: (-widths[0] * widths[1] / 2, widths[0] * widths[1] / 2),
        }.get(released)  # fmt: skip
        return Aggregate(released, tuple(indices), None, DOUBLE, known, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """For a supposed number of pairs, and evenly spread values where the spread matters."""
        if at.suppose is None:
            return None
        measures = [at.final.measures[index] for index in aggregate.measures]
        each = at.beta / len(set(aggregate.measures))
        noises = [
            at.law(index).error(each) * measure.unit_of_value
            for index, measure in zip(aggregate.measures, measures, strict=True)
        ]
        return association_error(aggregate.kind.value, at.suppose, noises, _reach(measures), _centre(measures[1]))

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:  # noqa: ARG002
        """Functions of the released sums."""
        measures = [released.plan.final.measures[index] for index in aggregate.measures]
        units = tuple(part.unit_of_value for part in measures)
        sums = [noisy_steps(released, index) for index in aggregate.measures]
        return lambda group: Association(
            form=aggregate.kind.value,
            sums=PairSums(*(total[group] * unit for total, unit in zip(sums, units, strict=True))),
            draws=tuple(released.draw(index, group) for index in aggregate.measures),
            units=units,
            centres=(_centre(measures[1]), _centre(measures[2])),
            reach=_reach(measures),
            bounds=aggregate.bounds,
            type=aggregate.type,
        )


class Correlations(Covariances):
    """Correlations and regressions, which divide by the spread of values."""

    error_kind = "even"


_SQUARES: Final = {
    AggregateKind.REGR_SLOPE: 1, AggregateKind.REGR_INTERCEPT: 1, AggregateKind.CORR: 2, AggregateKind.REGR_R2: 2,
}  # fmt: skip
#: Products of whole numbers up to here cannot overflow.
_WHOLE_PRODUCTS: Final = 2**62


def _centre(measure: Measure) -> Fraction:
    return measure.centre * measure.step


def _reach(measures: Sequence[Measure]) -> tuple[Fraction, Fraction]:
    first, second = (max(m.high - m.centre, m.centre - m.low) * m.step for m in measures[1:3])
    return first, second


def from_centre(side: Expression, bounds: Bounds, measure: Measure) -> Expression:
    """The clamped value less its centre."""
    ends = [_constant_of(end, side) for end in bounds]
    return call("sub", call("clamp", side, *ends), _constant_of(_centre(measure), side))


def _constant_of(place: Fraction, beside: Expression) -> Expression:
    scale = 0
    while scale < MAX_SCALE and (place * 10**scale).denominator != 1:
        scale += 1
    exact = as_value(place, decimal(scale) if scale else INTEGER) if beside.type.kind is not Kind.DOUBLE else None
    if exact is None and place.denominator == 1:
        exact = as_value(int(place), INTEGER)
    if exact is None:
        return literal(float(place), DOUBLE)
    return literal(exact, INTEGER if isinstance(exact, int) else decimal(scale))


def _products(factors: list[Expression], farthest: Fraction, where: Expression | None, rows: int) -> Measure:
    if farthest > _WHOLE_PRODUCTS:
        factors = [cast(factor, DOUBLE) for factor in factors]
    product = call("mul", *factors)
    step = grid_step(product.step, product.type, (-farthest, farthest))
    # Whole steps on both sides, so that the centre is 0.
    most = -(-farthest // step) * step
    return sum_measure(MeasureKind.CENTRED_SUM, product, where, bounds=(-most, most), step=step, rows=rows)
