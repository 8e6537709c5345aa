"""Answers to a workload: every query with its variance, consistent with one another, from the noisy integers alone.

Everything here is post-processing. The answers are unbiased least-squares estimates, so that a total equals the sum of
its parts; they may be negative or fractional.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.core.numbers import Number
from tacit.synth.workload import Factor
from tacit.synth.workload_plan import MarginalPlan, ProductPlan, WorkloadPlan

#: Largest number of queries listed in one table.
_MOST_LISTED: Final = 2_000_000
Values = Mapping[str, Sequence[Hashable]]


@dataclass(frozen=True)
class CountEstimate:
    """An estimated count with its standard deviation over the noise and its interval."""

    value: float
    stddev: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} (from {self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, eq=False)
class QueryTable:
    """Answers to the queries of one marginal or one product.

    Args:
        columns: name of the column of each axis.
        labels: for each axis the labels of its queries: a value, or for an interval its ends.
        values: answers, one axis for each entry of ``columns``.
        variances: variances of the answers, in the same shape.
        factor: ratio of an interval's half-width to the standard deviation.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]
    values: NDArray[np.float64]
    variances: NDArray[np.float64]
    factor: float

    def __len__(self) -> int:
        return self.values.size

    def rows(self) -> Iterator[tuple[tuple[Any, ...], CountEstimate]]:
        """Yield the labels and the estimate of each query."""
        flat = zip(itertools.product(*self.labels), self.values.ravel(), self.variances.ravel(), strict=True)
        for labels, value, variance in flat:
            yield labels, _estimate(float(value), float(variance), self.factor)

    def to_arrow(self) -> Any:
        """Return an Arrow table: labels (text for intervals), ``count``, ``stddev``, ``low`` and ``high``."""
        pa = load_arrow()

        if len(self) > _MOST_LISTED:
            raise InputError("workload", f"has more than {_MOST_LISTED:,} queries to list; ask for some with count(…)")
        places = np.indices(self.values.shape).reshape(len(self.columns), -1)
        made = {}
        for name, labels, place in zip(self.columns, self.labels, places, strict=True):
            plain = [_plain(label) for label in labels]
            made[name] = pa.array(plain).take(pa.array(place))
        values, wide = self.values.ravel(), self.factor * np.sqrt(self.variances.ravel())
        made["count"] = pa.array(values)
        made["stddev"] = pa.array(np.sqrt(self.variances.ravel()))
        made["low"], made["high"] = pa.array(values - wide), pa.array(values + wide)
        return pa.table(made)


class WorkloadEstimates:
    """Estimates of all queries of a workload.

    Args:
        plan: plan of the measurements.
        values: values of each column, in order.
        noisy: noisy integers of each measurement, in the order of the plan.
        confidence: confidence of the intervals.
    """

    def __init__(
        self, plan: WorkloadPlan, values: Values, noisy: Sequence[NDArray[np.int64]], confidence: Number = "0.95"
    ) -> None:
        self.plan = plan
        self.values = {name: tuple(listed) for name, listed in values.items()}
        self.confidence = confidence
        self._factor = plan.factor(confidence)
        solved = [m.solve(each) for m, each in zip(plan.measurements, noisy, strict=True)]
        self._parts: list[_Marginals | _Product] = []
        for part in plan.parts:
            mine, solved = solved[: len(part.measurements)], solved[len(part.measurements) :]
            self._parts.append(
                _Product(part, mine[0])
                if isinstance(part, ProductPlan)
                else _Marginals(part, part.residuals(dict(zip(part.measurements, mine, strict=True))))
            )

    def marginal(self, *columns: str) -> QueryTable:
        """Return counts for every combination of values of columns: a marginal of the workload or a margin of one."""
        names = tuple(sorted(columns))
        for part in self._parts:
            if isinstance(part, _Marginals) and part.covers(names):
                values, variance = part.marginal(names)
                labels = tuple(self.values[name] for name in names)
                return QueryTable(names, labels, values, np.full(values.shape, variance), self._factor)
        raise InputError("columns", f"{', '.join(columns)} is in no marginal of the workload")

    def tables(self) -> Iterator[QueryTable]:
        """Yield one table for each marginal and each product, in order."""
        for part in self._parts:
            if isinstance(part, _Marginals):
                for names in part.plan.part.sets:
                    yield self.marginal(*names)
            else:
                yield part.table(self.values, self._factor)

    def count(self, **conditions: Any) -> CountEstimate:
        """Estimate the number of rows that meet a conjunction of conditions on columns that the workload covers.

        Args:
            conditions: for each column a value, a list of values, or a tuple (low, high) for all values between.

        Raises:
            InputError: a column or value is unknown, or no part of the workload has these columns.
        """
        weights = {name: self._weights(name, condition) for name, condition in conditions.items()}
        answers = [part.count(weights) for part in self._parts]
        known = [answer for answer in answers if answer is not None]
        if not known:
            raise InputError("conditions", f"no part of the workload has {', '.join(conditions) or 'a total'}")
        value, variance = min(known, key=lambda answer: answer[1])
        return _estimate(value, variance, self._factor)

    def _weights(self, name: str, condition: Any) -> NDArray[np.float64]:
        if name not in self.values:
            raise InputError("conditions", f"{name!r} is no column of the workload; those are {', '.join(self.values)}")
        listed = self.values[name]
        if isinstance(condition, tuple):
            if len(condition) != 2:
                raise InputError("conditions", f"{name}: a range is a pair (low, high)")
            found = [value is not None and condition[0] <= value <= condition[1] for value in listed]
        else:
            wanted = condition if isinstance(condition, list) else [condition]
            unknown = [value for value in wanted if value not in listed]
            if unknown:
                raise InputError("conditions", f"{name} has no declared value {unknown[0]!r}")
            found = [value in wanted for value in listed]
        return np.array(found, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Marginals:
    """Estimated residuals of a part of marginals."""

    plan: MarginalPlan
    residuals: Mapping[tuple[str, ...], NDArray[np.float64]]

    def covers(self, names: tuple[str, ...]) -> bool:
        """Return whether a marginal of the workload, or a margin of one, has these columns."""
        return names in self._covered

    @cached_property
    def _covered(self) -> frozenset[tuple[str, ...]]:
        return frozenset(
            below
            for names in self.plan.part.sets
            for size in range(len(names) + 1)
            for below in itertools.combinations(names, size)
        )

    def marginal(self, names: tuple[str, ...]) -> tuple[NDArray[np.float64], float]:
        """Return the cells of a marginal and the variance of a cell."""
        sizes = self.plan.sizes
        values = np.zeros(tuple(sizes[name] for name in names))
        for below, residual in self.residuals.items():
            if set(below) <= set(names):
                shape = tuple(sizes[name] if name in below else 1 for name in names)
                spread = math.prod(sizes[name] for name in names if name not in below)
                values = values + residual.reshape(shape) / spread
        return values, self.plan.cell_variance(names)

    def count(self, weights: Mapping[str, NDArray[np.float64]]) -> tuple[float, float] | None:
        """Return value and variance of the query with these weights along each column; None if it is not covered."""
        names = tuple(sorted(weights))
        if not self.covers(names):
            return None
        value = variance = 0.0
        for below, residual in self.residuals.items():
            if not set(below) <= set(names):
                continue
            rest = math.prod(float(weights[name].mean()) for name in names if name not in below)
            part = residual
            for name in below:
                part = np.tensordot(weights[name], part, axes=([0], [0]))
            value += rest * float(part)
            spread = math.prod(float(((weights[name] - weights[name].mean()) ** 2).sum()) for name in below)
            variance += self.plan.variances[below] * rest**2 * spread
        return value, variance


@dataclass(frozen=True, eq=False)
class _Product:
    """Estimated counts of a product part, one axis for each factor that is not a total."""

    plan: ProductPlan
    counts: NDArray[np.float64]

    def table(self, values: Values, factor: float) -> QueryTable:
        """Return the answers to all combinations of queries."""
        if self.plan.count > _MOST_LISTED:
            raise InputError("workload", f"has more than {_MOST_LISTED:,} queries to list; ask for some with count(…)")
        answers, variances = self.counts, np.array(self.plan.measurement.sigma2)
        for axis, (each, _) in enumerate(self.plan.factors):
            answers = _answers_along(each, answers, axis)
            variances = np.multiply.outer(variances, self.plan.factor_variances[axis])
        columns = tuple(each.column for each, _ in self.plan.factors)
        labels = tuple(_labels(each, values) for each, _ in self.plan.factors)
        return QueryTable(columns, labels, answers, variances, factor)

    def count(self, weights: Mapping[str, NDArray[np.float64]]) -> tuple[float, float] | None:
        """Return value and variance of the query with these weights; a column without weights counts with weight 1."""
        if not set(weights) <= {each.column for each, _ in self.plan.factors}:
            return None
        value, variance = self.counts, self.plan.measurement.sigma2
        for each, strategy in self.plan.factors:
            along = weights.get(each.column, np.ones(self.plan.sizes[each.column]))
            value = np.tensordot(along, value, axes=([0], [0]))
            variance *= float(along @ strategy.covariance @ along)
        return float(value), variance


def _answers_along(factor: Factor, counts: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    if factor.kind == "each":
        return counts
    sums = counts.cumsum(axis=axis)
    if factor.kind == "prefixes":
        return np.asarray(sums)
    low, high = np.triu_indices(counts.shape[axis])
    before = np.concatenate([np.zeros_like(np.take(sums, [0], axis=axis)), sums], axis=axis)
    return np.asarray(np.take(before, high + 1, axis=axis) - np.take(before, low, axis=axis))


def _labels(factor: Factor, values: Values) -> tuple[Any, ...]:
    listed = tuple(values[factor.column])
    if factor.kind == "each":
        return listed
    if factor.kind == "prefixes":
        return tuple((listed[0], value) for value in listed)
    low, high = np.triu_indices(len(listed))
    return tuple((listed[i], listed[j]) for i, j in zip(low, high, strict=True))


def _estimate(value: float, variance: float, factor: float) -> CountEstimate:
    stddev = math.sqrt(max(variance, 0.0))
    return CountEstimate(value, stddev, value - factor * stddev, value + factor * stddev)


def _plain(label: Any) -> Any:
    return f"{label[0]} to {label[1]}" if isinstance(label, tuple) else label
