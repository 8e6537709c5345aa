"""Released covariances, correlations and regressions: measurements, expected errors and estimates.

All are functions of noisy sums of two values, their squares and their products. With n pairs, in the units of the
values and relative to their public centres: a = Σu, b = Σv, p = Σuv, x = Σu², y = Σv². About any point (α, β),
Σ(u-α)(v-β) = p - αb - βa + αβn, and with A = a - αn, B = b - βn

    N = Σ(u-ū)(v-v̄) = (p - αb - βa + αβn) - AB/n,    X = Σ(u-ū)² = (x - 2αa + α²n) - A²/n,    Y likewise;

covariance N/n or N/(n-1), correlation N/√(XY), slope N/X, intercept v̄ - slope·ū.

*Intervals.* All draws are within their half-widths jointly (union bound). At every point of that box the identity
above holds for any fixed α and β, such as the noisy means; A and B are then as small as the noise, and N and X are
linear in the sums up to AB/n and A²/n. Interval arithmetic encloses the rest; a correlation is cut to [-1, 1].
``associations.proof.md`` has the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tacit.core.errors import InternalError
from tacit.core.numbers import sqrt_bounds
from tacit.query.aggregates.family import (
    AggregateCall,
    AggregateEntry,
    Bounds,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    SqlName,
    no_bounds,
    noisy_steps,
)
from tacit.query.planning.measures import (
    Measure,
    MeasureKind,
    count_measure,
    grid_step,
    sum_measure,
)
from tacit.query.postprocess.cells import Cell, CellConfidence, Draw, Event, MeasureBias, value_at
from tacit.query.query import Aggregate
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call, cast
from tacit.query.types import (
    DOUBLE,
    INTEGER,
    MAX_SCALE,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    as_value,
    decimal,
)

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers


_ZERO, _ONE = Fraction(0), Fraction(1)


class PairSums(NamedTuple):
    """Sums over n pairs, relative to the centres; squares that a statistic does not need are None."""

    n: Fraction
    a: Fraction
    b: Fraction
    p: Fraction
    x: Fraction | None = None
    y: Fraction | None = None


class _Spans(NamedTuple):
    """Enclosures of the count n, of N, X and Y, and of both means."""

    counts: tuple[Fraction, Fraction]
    n: Range
    x: Range
    y: Range
    mean_u: Range
    mean_v: Range


@dataclass(frozen=True, eq=False)
class SumsEstimate(Cell):
    """Cell of a function of several noisy sums.

    Args:
        form: the name of the aggregate.
        draws: of the sums, in their order.
        units: the value of one step of each sum.
        type: of the result.
    """

    form: str
    draws: tuple[Draw, ...]
    units: tuple[Fraction, ...]
    type: SqlType

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset(self.draws)

    def _widths(self, level: CellConfidence) -> list[Fraction]:
        """Half-widths of the sums, in the units of the values."""
        return [level.half_width(draw.measure) * unit for draw, unit in zip(self.draws, self.units, strict=True)]

    def _possible(self) -> Range:
        """Return the range of the truth for any bias."""
        return UNKNOWN

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        if all(biases[draw.measure].is_nothing for draw in self.draws):
            return known
        return Domain(self._possible(), known.nullable, None, None)


@dataclass(frozen=True, eq=False)
class Association(SumsEstimate):
    """Cell of a statistic of pairs.

    Args:
        sums: noisy, in the units of the values.
        centres: of u and of v.
        reach: the largest distances of u and v from their centres.
        bounds: public bounds of the truth; None if there are none.
    """

    sums: PairSums
    centres: tuple[Fraction, Fraction]
    reach: tuple[Fraction, Fraction]
    bounds: tuple[Fraction, Fraction] | None

    @property
    def _least(self) -> int:
        return 2 if self.form == "covar_samp" else 1

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The estimate; None if the noisy count is too small, or a divisor is not above 0."""
        n, a, b, p, x, y = self.sums
        if n < self._least:
            return None
        products = p - a * b / n
        squares = [_ZERO if square is None else square - mean**2 / n for square, mean in ((x, a), (y, b))]
        place = self._estimate(n, products, squares[0], squares[1])
        return None if place is None else value_at(self._cut(place), self.type)

    def _estimate(self, n: Fraction, products: Fraction, x: Fraction, y: Fraction) -> Fraction | None:
        match self.form:
            case "covar_pop":
                return products / n
            case "covar_samp":
                return products / (n - 1)
            case "regr_sxy":
                return products
            case "corr" | "regr_r2":
                if x <= 0 or y <= 0:
                    return None
                r = min(max(products / sqrt_bounds(x * y)[0], -_ONE), _ONE)
                return r if self.form == "corr" else r**2
            case _:
                if x <= 0:
                    return None
                slope = products / x
                if self.form == "regr_slope":
                    return slope
                return self.centres[1] + self.sums.b / n - slope * (self.centres[0] + self.sums.a / n)

    def _cut(self, place: Fraction) -> Fraction:
        return place if self.bounds is None else min(max(place, self.bounds[0]), self.bounds[1])

    def _enclose(self, level: CellConfidence) -> Domain:
        spans = self._spans(level)
        found = self._range(spans)
        if self.bounds is not None:
            found = found.clamped(*self.bounds)
        divides = self.form not in ("covar_pop", "covar_samp", "regr_sxy")
        maybe = spans.counts[0] <= self._least or (divides and not _positive(spans.x, spans.y))
        return Domain(found, maybe, None, None)

    def _possible(self) -> Range:
        return UNKNOWN if self.bounds is None else Range(*self.bounds)

    def _spans(self, level: CellConfidence) -> _Spans:
        n, a, b, p, x, y = self.sums
        widths = self._widths(level)
        wn, wa, wb, wp = widths[:4]
        # A count is an integer, so the ends may be rounded inwards.
        few = Fraction(max(math.ceil(n - wn), self._least))
        many = max(Fraction(math.floor(n + wn)), few)
        about = max(n, _ONE)
        u, v = (min(max(total / about, -far), far) for total, far in zip((a, b), self.reach, strict=True))
        left_u, left_v = abs(a - u * n) + wa + abs(u) * wn, abs(b - v * n) + wb + abs(v) * wn
        rest = left_u * left_v / few
        products = p - u * b - v * a + u * v * n
        around = wp + abs(u) * wb + abs(v) * wa + abs(u * v) * wn

        def squares(total: Fraction | None, mean: Fraction, linear: Fraction, place: int) -> Range:
            if total is None:
                return Range(_ONE, _ONE)
            middle = total - 2 * mean * linear + mean**2 * n
            wide = widths[place] + 2 * abs(mean) * (wa if place == 4 else wb) + mean**2 * wn
            left = left_u if place == 4 else left_v
            return Range(max(middle - wide - left**2 / few, _ZERO), max(middle + wide, _ZERO))

        return _Spans(
            (few, many),
            Range(products - around - rest, products + around + rest),
            squares(x, u, a, 4),
            squares(y, v, b, 5),
            _around(self.centres[0] + u, left_u / few),
            _around(self.centres[1] + v, left_v / few),
        )

    def _range(self, spans: _Spans) -> Range:
        few, many = spans.counts
        match self.form:
            case "covar_pop":
                return spans.n * Range(1 / many, 1 / few)
            case "covar_samp":
                return spans.n * Range(1 / (many - 1), 1 / (few - 1))
            case "regr_sxy":
                return spans.n
            case "corr":
                return _correlation(spans)
            case "regr_r2":
                r = _correlation(spans).magnitude()
                return r * r
            case "regr_slope":
                return _quotient(spans.n, spans.x)
            case _:
                return spans.mean_v - _quotient(spans.n, spans.x) * spans.mean_u


def _around(middle: Fraction, width: Fraction) -> Range:
    return Range(middle - width, middle + width)


def _positive(*spans: Range) -> bool:
    return all(span.low is not None and span.low > 0 for span in spans)


def _quotient(top: Range, bottom: Range) -> Range:
    """Enclose quotients by non-negative numbers; if the divisor may be 0, only the sign is known."""
    if _positive(bottom):
        return top.divided_by(bottom)
    low = _ZERO if top.low is not None and top.low >= 0 else None
    return Range(low, _ZERO if top.high is not None and top.high <= 0 else None)


def _correlation(spans: _Spans) -> Range:
    """Return N/√(XY), cut to [-1, 1], with the root rounded outwards."""
    if not _positive(spans.x, spans.y):
        return _quotient(spans.n, Range(_ZERO, _ONE)).clamped(-_ONE, _ONE) if spans.n.ends else Range(-_ONE, _ONE)
    product = spans.x * spans.y
    root = Range(sqrt_bounds(product.low or _ONE)[0], sqrt_bounds(product.high or _ONE)[1])
    return spans.n.divided_by(root).clamped(-_ONE, _ONE)


# -- expected error


def association_error(
    form: str, pairs: int, noises: Sequence[Fraction], reach: tuple[Fraction, Fraction], centre: Fraction
) -> Fraction | None:
    """Return the error of a statistic for a number of pairs, where the error of each sum is at most its noise.

    The error of covariances holds for any values. The others suppose values that are spread evenly over their bounds,
    about their centre; ``centre`` is that of u. None if no bound is known.
    """
    v, a, b, p = noises[:4]
    far_u, far_v = reach
    left = pairs - v
    if left < 1 or (form == "covar_samp" and left <= 1):
        return None
    rest = (a + far_u * v) * (b + far_v * v) / left
    if form in ("covar_pop", "covar_samp", "regr_sxy"):
        products = p + far_u * b + far_v * a + far_u * far_v * v + rest
        if form == "regr_sxy":
            return products
        return (products + far_u * far_v * v) / (left - (form == "covar_samp"))
    products, spread_u, spread_v = p + a * b / left, pairs * far_u**2 / 3, pairs * far_v**2 / 3
    least_u = spread_u - noises[4] - a**2 / left
    ratio = sqrt_bounds(spread_v / spread_u)[1] if spread_u else _ZERO
    if form in ("corr", "regr_r2"):
        most = Fraction(2 if form == "corr" else 1)
        least = least_u * (spread_v - noises[5] - b**2 / left)
        if least_u <= 0 or least <= 0:
            return most
        off = (sqrt_bounds(spread_u * spread_v)[1] + products) / sqrt_bounds(least)[0] - 1
        return min(most, off if form == "corr" else 2 * off)
    if least_u <= 0:
        return None
    slope = (sqrt_bounds(spread_u * spread_v)[1] + products) / least_u - (sqrt_bounds(spread_v / spread_u)[0])
    if form == "regr_slope":
        return slope
    return b / left + abs(centre) * slope + (ratio + slope) * a / left


class Covariances(Family):
    """Covariances and sums of products of two values; see ``associations.proof.md``."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Add the number of pairs, the sums of both values and of their product, and the squares of divisors."""
        if asked.second is None:
            raise InternalError(f"{asked.function} reads pairs")
        released = asked.function
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
            farthest *= made[0].reach * step
            widths.append(bounds[1] - bounds[0])
        same = asked.second == asked.value
        indices.append(final.measure(squares[0] if same else _products(factors, farthest, asked.where, final.rows)))
        indices += [final.measure(square) for square in squares[: _SQUARES.get(released, 0)]]
        known = {
            "corr": (-Fraction(1), Fraction(1)), "regr_r2": (_ZERO, Fraction(1)),
            "covar_pop": (-widths[0] * widths[1] / 4, widths[0] * widths[1] / 4),
            "covar_samp": (-widths[0] * widths[1] / 2, widths[0] * widths[1] / 2),
        }.get(released)  # fmt: skip
        return Aggregate(released, tuple(indices), None, DOUBLE, known, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return the error for a supposed number of pairs, and evenly spread values where the spread matters."""
        if at.suppose is None:
            return None
        measures = [at.final.measures[index] for index in aggregate.measures]
        each = at.beta / len(set(aggregate.measures))
        noises = [
            at.law(index).error(each) * measure.unit_of_value
            for index, measure in zip(aggregate.measures, measures, strict=True)
        ]
        return association_error(aggregate.kind, at.suppose, noises, _reach(measures), _centre(measures[1]))

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:  # noqa: ARG002
        """Return cells of functions of the released sums."""
        measures = [released.plan.final.measures[index] for index in aggregate.measures]
        units = tuple(part.unit_of_value for part in measures)
        sums = [noisy_steps(released, index) for index in aggregate.measures]
        return lambda group: Association(
            form=aggregate.kind,
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
    "regr_slope": 1, "regr_intercept": 1, "corr": 2, "regr_r2": 2,
}  # fmt: skip
#: Largest product of integers that is computed without a cast to DOUBLE.
_WHOLE_PRODUCTS: Final = 2**62


def _centre(measure: Measure) -> Fraction:
    return measure.centre * measure.step


def _reach(measures: Sequence[Measure]) -> tuple[Fraction, Fraction]:
    first, second = (measure.reach * measure.step for measure in measures[1:3])
    return first, second


def from_centre(side: Expression, bounds: Bounds, measure: Measure) -> Expression:
    """Return the expression of the clamped value minus its centre."""
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


def _association(function: str, family: Family, **others: str) -> AggregateEntry:
    names = {function: SqlName(function, 2, "pair")} | {n: SqlName(function, 2, side) for n, side in others.items()}
    return AggregateEntry(
        names, None, None, (function,), family, takes="number", pairs=True,
        refusal=f"{function.upper()} is released over people; inside one person's rows, or over released rows, ask for "
        "the sums that it is made of.",
    )  # fmt: skip


_COVARIANCES, _CORRELATIONS = Covariances(), Correlations()
ENTRIES: Final = {
    "covar_pop": _association("covar_pop", _COVARIANCES),
    "covar_samp": _association("covar_samp", _COVARIANCES),
    "regr_sxy": _association("regr_sxy", _COVARIANCES, regr_syy="first", regr_sxx="second"),
    "regr_slope": _association("regr_slope", _CORRELATIONS),
    "regr_intercept": _association("regr_intercept", _CORRELATIONS),
    "corr": _association("corr", _CORRELATIONS),
    "regr_r2": _association("regr_r2", _CORRELATIONS),
}
