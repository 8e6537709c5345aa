"""Estimators of aggregates from released integers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.query.domains import Range
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.planning.quantile_tree import NoisyTree
from tacit.query.postprocess.cells import Cell, Draw, Exact
from tacit.query.postprocess.counts_and_sums import Direct
from tacit.query.postprocess.joint_mean import JointMean
from tacit.query.postprocess.mean_variance import MeanEstimate, Spread
from tacit.query.postprocess.mode import Common, CommonEvent
from tacit.query.postprocess.quantiles import LeafGrid, Rank, Ranks
from tacit.query.question import Aggregate, AggregateKind, FinalAggregation
from tacit.query.release import NoisyRelease

__all__ = ["released_rows"]

_SAMPLE = (AggregateKind.VAR_SAMP, AggregateKind.STDDEV_SAMP)
_ROOT = (AggregateKind.STDDEV_SAMP, AggregateKind.STDDEV_POP)
_ZERO = Fraction(0)


def released_rows(final: FinalAggregation, released: NoisyRelease) -> list[tuple[Cell, ...]]:
    """One row of cells per key: the key's values, then one estimate per aggregate."""
    columns = [_column(aggregate, final.measures, released) for aggregate in final.aggregates]
    return [
        (
            *(Exact(value, key.expression.type) for value, key in zip(values, final.keys, strict=True)),
            *(column(group) for column in columns),
        )
        for group, values in enumerate(released.keys)
    ]


def _column(aggregate: Aggregate, measures: tuple[Measure, ...], released: NoisyRelease) -> Callable[[int], Cell]:
    """What makes the cell of each group, for one aggregate."""
    last = measures[aggregate.measures[-1]]
    if aggregate.kind is AggregateKind.AVG:
        return _means(aggregate, last, released)
    if last.kind is MeasureKind.CENTRED_SQUARES:
        return _spreads(aggregate, last, released)
    if last.kind is MeasureKind.LEAVES:
        return partial(_rank, aggregate, _ranks(aggregate, last, released))
    if last.kind is MeasureKind.CATEGORIES:
        return partial(_common, aggregate, last, released)
    return _directs(aggregate, last, released)


def _steps(released: NoisyRelease, measure: int) -> list[Fraction]:
    """Released numbers in steps of their measurement."""
    unit = released.laws[measure].unit
    numbers = _array(released, measure).tolist()
    return [Fraction(number) for number in numbers] if unit == 1 else [int(number) * unit for number in numbers]


def _array(released: NoisyRelease, measure: int) -> NDArray[Any]:
    noisy = released.noisy[measure]
    if isinstance(noisy, NoisyTree):
        raise InternalError("a tree where numbers were planned")
    return noisy


def _possible(aggregate: Aggregate, measure: Measure) -> Range:
    """Where a count or sum lies whatever the noise: a sum of contributions that are not negative is not negative."""
    low, high = measure.clamp
    possible = Range(_ZERO if low >= 0 else None, _ZERO if high <= 0 else None)
    return possible if aggregate.bounds is None else possible.clamped(*aggregate.bounds)


def _directs(aggregate: Aggregate, measure: Measure, released: NoisyRelease) -> Callable[[int], Cell]:
    index, possible = aggregate.measures[0], _possible(aggregate, measure)
    noisy = _steps(released, index)
    return lambda group: Direct(noisy[group], Draw(index, group), measure.step, possible, aggregate.type)


def _means(aggregate: Aggregate, measure: Measure, released: NoisyRelease) -> Callable[[int], Cell]:
    count, total = aggregate.measures
    counts, sums = _steps(released, count), _steps(released, total)
    shared = (measure.step, aggregate.type, measure.centre, (measure.low, measure.high))
    half = max(measure.high - measure.centre, measure.centre - measure.low)
    scale, joint = released.laws[total].scale, _two_totals(released, count, total)

    def cell(group: int) -> Cell:
        parts = (counts[group], sums[group], Draw(count, group), Draw(total, group), *shared)
        return JointMean(*parts, half, scale) if joint else MeanEstimate(*parts)

    return cell


def _two_totals(released: NoisyRelease, count: int, total: int) -> bool:
    """Whether a count and a sum were released as two totals, with Laplace noise or none."""
    block = released.plan.priced.release_of(count).block
    return (
        total in block.measures and len(block.forms) == len((count, total)) and released.laws[total].kind != "gaussian"
    )


def _spreads(aggregate: Aggregate, measure: Measure, released: NoisyRelease) -> Callable[[int], Cell]:
    count, total, squares = aggregate.measures
    counts, sums, noisy_squares = (_steps(released, index) for index in aggregate.measures)
    most = Fraction((measure.high - measure.low) ** 2, 4)
    sample, root = aggregate.kind in _SAMPLE, aggregate.kind in _ROOT
    return lambda group: Spread(
        noisy_count=counts[group],
        noisy_sum=sums[group],
        count_draw=Draw(count, group),
        sum_draw=Draw(total, group),
        step=measure.step,
        type=aggregate.type,
        noisy_squares=noisy_squares[group],
        squares_draw=Draw(squares, group),
        most=most,
        sample=sample,
        root=root,
    )


def _ranks(aggregate: Aggregate, measure: Measure, released: NoisyRelease) -> Ranks:
    kind = {AggregateKind.MIN: "min", AggregateKind.MAX: "max"}.get(aggregate.kind, "quantile")
    grid = LeafGrid(measure.low, measure.high, measure.leaf, measure.step)
    tree = released.noisy[aggregate.measures[0]]
    if not isinstance(tree, NoisyTree):
        raise InternalError("numbers where a tree was planned")
    return Ranks(tree, grid, kind, Fraction(aggregate.parameter or 0))


def _rank(aggregate: Aggregate, ranks: Ranks, group: int) -> Cell:
    return Rank(ranks, aggregate.measures[0], group, aggregate.type)


def _common(aggregate: Aggregate, measure: Measure, released: NoisyRelease, group: int) -> Cell:
    index = aggregate.measures[0]
    noisy = _array(released, index)[group].astype(np.int64)
    rank = int(aggregate.parameter or 1)
    return Common(noisy, measure.categories, rank, CommonEvent(index, group), aggregate.type)
