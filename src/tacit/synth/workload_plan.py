"""Plans of workloads: which integers get how much noise, and the variance of every answer, before data is read.

*Marginals* are measured in the residual basis. For a set of columns A the residual is the part of the marginal on A
that no smaller marginal determines; residuals of different sets are orthogonal, and a marginal is the sum of the
residuals of its subsets, each spread evenly over the columns it lacks. It is measured by n·I - J along every axis. With
price ρ_A a residual gets a variance v_A ∝ p_A/ρ_A, where p_A = Π (n-1)/n, so that

* the sum of variances Σ c_A v_A is least for ρ_A ∝ √(p_A c_A), which no Gaussian mechanism on any strategy can beat;
* the largest variance is least for the c_A of the worst mixture of marginals, found by multiplicative weights. Every
  mixture also gives a lower bound, so the iteration knows how far it is from the optimum.

*Products* are measured once, by the product of a near-optimal strategy for each factor (:mod:`tacit.synth.strategy`).

The parts of a workload share the price in proportion to the roots of their total variances, which makes the sum least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, float_down
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.noise_interval import interval_factor
from tacit.mechanisms.residual_basis import cell_count, residual_variance, subsets
from tacit.synth.count_measurement import CountMeasurement, divide
from tacit.synth.strategy import CentredStrategy, IntegerStrategy, strategy_for
from tacit.synth.workload import Factor, MarginalPart, ProductPart, Workload

__all__ = ["MOST_INTEGERS", "MarginalPlan", "PartPlan", "ProductPlan", "WorkloadPlan", "plan_workload"]

#: Noisy integers of one workload, which a ledger keeps.
MOST_INTEGERS: Final = 2_000_000
#: Distance from its lower bound at which the largest variance is good enough.
_CLOSE: Final = 0.005
_ITERATIONS: Final = 2_000
Columns = tuple[str, ...]


@dataclass(frozen=True)
class MarginalPlan:
    """Residuals of marginals, with the variance of every cell.

    Args:
        part: the marginals.
        sizes: of the columns.
        measurements: one for each residual, by its columns.
    """

    part: MarginalPart
    sizes: Mapping[str, int]
    measurements: Mapping[Columns, CountMeasurement]

    @cached_property
    def variances(self) -> dict[Columns, float]:
        """σ_A² of each residual, in counts: a centred cell has σ_A²·p_A."""
        return {
            names: m.sigma2 / math.prod(self.sizes[name] for name in names) ** 2
            for names, m in self.measurements.items()
        }

    def cell_variance(self, names: Columns) -> float:
        """Variance of each cell of a marginal."""
        return sum(
            self.variances[below] * residual_variance(below, names, self.sizes)
            for below in subsets(names)
            if below in self.variances
        )

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all queries."""
        return sum(self.cell_variance(names) * cell_count(names, self.sizes) for names in self.part.sets)

    @property
    def largest_variance(self) -> float:
        """The largest variance of a query."""
        return max(self.cell_variance(names) for names in self.part.sets)

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.part.count(self.sizes)


@dataclass(frozen=True)
class ProductPlan:
    """One measurement of a product of strategies.

    Args:
        part: the factors.
        sizes: of the columns.
        measurement: of the factors that are not totals.
    """

    part: ProductPart
    sizes: Mapping[str, int]
    measurement: CountMeasurement

    @property
    def measurements(self) -> Mapping[Columns, CountMeasurement]:
        """The one measurement, by its columns."""
        return {self.measurement.columns: self.measurement}

    @cached_property
    def factors(self) -> tuple[tuple[Factor, IntegerStrategy], ...]:
        """The factors that are measured, each with its strategy."""
        measured = [factor for factor in self.part.factors if factor.kind != "total"]
        return tuple(zip(measured, self.measurement.strategies, strict=True))

    @cached_property
    def factor_variances(self) -> tuple[NDArray[np.float64], ...]:
        """For each factor the variances of its queries, for noise of variance 1."""
        return tuple(query_variances(factor, strategy.covariance) for factor, strategy in self.factors)

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all queries."""
        return self.measurement.sigma2 * math.prod(float(part.sum()) for part in self.factor_variances)

    @property
    def largest_variance(self) -> float:
        """The largest variance of a query."""
        return self.measurement.sigma2 * math.prod(float(part.max()) for part in self.factor_variances)

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.part.count(self.sizes)


PartPlan = MarginalPlan | ProductPlan


@dataclass(frozen=True)
class WorkloadPlan:
    """Measurements of a workload and the errors of its answers; a function of public sizes and the price.

    Args:
        workload: the queries.
        parts: a plan for each part.
        rho: zCDP price of all measurements together.
    """

    workload: Workload
    parts: tuple[PartPlan, ...]
    rho: Fraction

    @property
    def measurements(self) -> tuple[CountMeasurement, ...]:
        """All measurements, in order."""
        return tuple(m for part in self.parts for m in part.measurements.values())

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(part.count for part in self.parts)

    @cached_property
    def root_mean_square_error(self) -> float:
        """Root of the mean variance of all queries."""
        return math.sqrt(sum(part.total_variance for part in self.parts) / self.count)

    @cached_property
    def largest_error(self) -> float:
        """The largest standard deviation of a query."""
        return math.sqrt(max(part.largest_variance for part in self.parts))

    def factor(self, confidence: Number) -> float:
        """Half-width of an interval over the standard deviation."""
        return interval_factor(confidence, min(float_down(m.mechanism.sigma2) for m in self.measurements))


def plan_workload(
    workload: Workload,
    sizes: Mapping[str, int],
    *,
    rho: Fraction,
    rows: int = 1,
    relation: Relation = ADD_REMOVE,
) -> WorkloadPlan:
    """The plan of a workload at a price; reads no data.

    Args:
        workload: the queries.
        sizes: number of values of each column.
        rho: zCDP price of everything.
        rows: the most rows of one unit that count.
        relation: which databases are neighbours.

    Raises:
        InputError: a column is unknown, or there are too many cells.
    """
    unknown = [name for name in workload.columns if name not in sizes]
    if unknown:
        raise InputError("workload", f"names {unknown[0]!r}, which is no column here; those are {', '.join(sizes)}")
    integers = sum(_integers(part, sizes) for part in workload.parts)
    if integers > MOST_INTEGERS:
        raise InputError(
            "workload",
            f"needs {integers:,} noisy numbers, and {MOST_INTEGERS:,} is the most; leave columns out, or give them "
            "fewer values",
        )
    one = Fraction(1)
    parts = [_plan_part(part, sizes, one, rows, relation) for part in workload.parts]
    shares = divide(rho, [math.sqrt(part.total_variance) for part in parts])
    planned = tuple(_at_price(part, share) for part, share in zip(parts, shares, strict=True))
    return WorkloadPlan(workload, planned, rho)


def _at_price(plan: PartPlan, rho: Fraction) -> PartPlan:
    """A plan that was made for ρ = 1, at another price."""

    def priced(m: CountMeasurement) -> CountMeasurement:
        return CountMeasurement(m.columns, m.strategies, m.rho * rho, m.rows, m.relation)

    if isinstance(plan, ProductPlan):
        return ProductPlan(plan.part, plan.sizes, priced(plan.measurement))
    return MarginalPlan(plan.part, plan.sizes, {names: priced(m) for names, m in plan.measurements.items()})


def _plan_part(
    part: MarginalPart | ProductPart, sizes: Mapping[str, int], rho: Fraction, rows: int, relation: Relation
) -> PartPlan:
    if isinstance(part, ProductPart):
        factors = [factor for factor in part.factors if factor.kind != "total"]
        dense = max(1, sum(factor.kind != "each" for factor in factors))
        strategies = tuple(
            strategy_for(f, math.prod(sizes[name] for name in f.columns), factors=dense) for f in factors
        )
        columns = tuple(name for factor in factors for name in factor.columns)
        return ProductPlan(part, sizes, CountMeasurement(columns, strategies, rho, rows, relation))
    residuals = _residuals(part, sizes)
    measured = [
        CountMeasurement(names, tuple(CentredStrategy(sizes[name]) for name in names), Fraction(1), rows, relation)
        for names in residuals
    ]
    costs = [m.l2_squared / (m.scale * cell_count(m.columns, sizes)) ** 2 for m in measured]
    claims = _claims(part, residuals, np.array(costs, dtype=np.float64), sizes)
    shares = divide(rho, claims)
    return MarginalPlan(
        part,
        sizes,
        {
            m.columns: CountMeasurement(m.columns, m.strategies, share, rows, relation)
            for m, share in zip(measured, shares, strict=True)
        },
    )


def _residuals(part: MarginalPart, sizes: Mapping[str, int]) -> list[Columns]:
    """Subsets of the marginals whose residual is not 0: no column in them has a single value."""
    found = {below for names in part.sets for below in subsets(names)}
    kept = [names for names in found if all(sizes[name] > 1 for name in names)]
    return sorted(kept, key=lambda names: (len(names), names))


def _claims(
    part: MarginalPart, residuals: Sequence[Columns], costs: NDArray[np.float64], sizes: Mapping[str, int]
) -> NDArray[np.float64]:
    """In which proportion the residuals share the price."""
    place = {names: index for index, names in enumerate(residuals)}
    entries = [
        [(place[below], residual_variance(below, names, sizes)) for below in subsets(names) if below in place]
        for names in part.sets
    ]
    rows = np.repeat(np.arange(len(entries)), [len(row) for row in entries])
    columns = np.array([index for row in entries for index, _ in row], dtype=np.int64)
    values = np.array([value for row in entries for _, value in row])

    def claims(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        needed = np.bincount(columns, weights[rows] * values, minlength=len(residuals))
        return np.sqrt(costs * needed)

    if part.objective == "total":
        return claims(np.array([cell_count(names, sizes) for names in part.sets], dtype=np.float64))
    weights = np.full(len(entries), 1.0 / len(entries))
    for step in range(_ITERATIONS):
        asked = claims(weights)
        noise = np.where(asked > 0, costs / np.maximum(asked, 1e-300), 0.0) * asked.sum()
        reached = np.bincount(rows, values * noise[columns], minlength=len(entries))
        if reached.max() <= (1 + _CLOSE) * float(weights @ reached):
            break
        weights = weights * (reached / reached.max()) ** (1.0 if step < 100 else 0.5)
        weights = np.maximum(weights, 1e-12 * weights.max())
        weights = weights / weights.sum()
    return claims(weights)


def _integers(part: MarginalPart | ProductPart, sizes: Mapping[str, int]) -> int:
    if isinstance(part, MarginalPart):
        # Every marginal alone, before subsets are listed: a marginal of many columns has too many of both.
        largest = max(cell_count(names, sizes) for names in part.sets)
        if largest > MOST_INTEGERS:
            return largest
        return sum(cell_count(names, sizes) for names in _residuals(part, sizes))
    return math.prod(sizes[name] for f in part.factors if f.kind != "total" for name in f.columns)


def query_variances(factor: Factor, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variances of the queries of a factor, for counts with a covariance."""
    if factor.kind == "each":
        return covariance.diagonal().copy()
    if factor.kind == "matrix":
        rows = factor.matrix(len(covariance))
        return np.asarray(np.einsum("ij,ij->i", rows @ covariance, rows))
    sums = covariance.cumsum(axis=0).cumsum(axis=1)
    ends = sums.diagonal()
    if factor.kind == "prefixes":
        return ends.copy()
    low, high = np.triu_indices(len(covariance))
    before = np.where(low > 0, low - 1, 0)
    begins = low > 0
    return np.asarray(ends[high] - np.where(begins, 2 * sums[before, high] - ends[before], 0.0))
