"""Plans of workloads: which integers get how much noise, and the variance of every answer, before data is read.

*Marginals* are measured in the residual basis. For a set of columns A the residual is the part of the marginal on A
that no smaller marginal determines; residuals of different sets are orthogonal, and a marginal is the sum of the
residuals of its subsets, each spread evenly over the columns it lacks. A residual is measured by n·I - J along every
axis. With cost ρ_A a residual gets a variance v_A ∝ p_A/ρ_A, where p_A = Π (n-1)/n, so that the sum
of variances Σ c_A v_A is least for ρ_A ∝ √(p_A c_A), which no Gaussian mechanism on any strategy can beat.

With Laplace noise, calibrated to l1 sensitivity, residuals are expensive: one row changes all cells of a residual. So
marginals themselves are measured (levels): all of the workload, the largest of them, or the one on all columns,
whichever gives the smallest sum of variances. Estimates of a residual from several marginals are averaged, weighted by
precision.

*Products* are measured once, by the product of a near-optimal strategy for each factor (:mod:`tacit.synth.strategy`).

The parts of a workload share the cost in proportion to the roots of their total variances (cube roots for Laplace
noise), which makes the sum least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, float_down
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.residual_basis import cell_count, residual_variance, subsets
from tacit.synth.count_measurement import DISCRETE_GAUSSIAN, CountMeasurement, CountNoise, divide
from tacit.synth.strategy import LARGEST_FACTOR, CentredStrategy, IdentityStrategy, IntegerStrategy, strategy_for
from tacit.synth.workload import Factor, MarginalPart, ProductPart, Workload

Columns = tuple[str, ...]
#: Largest number of cells with which the marginal on all columns is considered as a level.
_WHOLE: Final = 100_000


#: Largest number of noisy integers of one workload, which a ledger stores.
MOST_INTEGERS: Final = 2_500_000
#: Bound on the optimisation of strategies of one workload: about 12 s for each of the largest, also for a mere quote.
_MOST_OPTIMISED: Final = 4 * LARGEST_FACTOR**3


@dataclass(frozen=True)
class MarginalPlan:
    """Residuals of marginals, with the variance of every cell.

    Args:
        part: the marginals.
        sizes: number of values of each column.
        measurements: measurement of each residual, by its columns.
    """

    part: MarginalPart
    sizes: Mapping[str, int]
    measurements: Mapping[Columns, CountMeasurement]

    @cached_property
    def variances(self) -> dict[Columns, float]:
        """σ_A² of each residual, in squared counts: a centred cell has variance σ_A²·p_A."""
        return {
            names: m.sigma2 / math.prod(self.sizes[name] for name in names) ** 2
            for names, m in self.measurements.items()
        }

    def residuals(self, solved: Mapping[Columns, NDArray[np.float64]]) -> Mapping[Columns, NDArray[np.float64]]:
        """Return estimates of the residuals from the least-squares solution of each measurement."""
        return solved

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
        return max(self.cell_variance(names) for names in self.part.sets)

    @property
    def count(self) -> int:
        return self.part.count(self.sizes)


@dataclass(frozen=True)
class LevelPlan(MarginalPlan):
    """Plan that measures marginals themselves (levels); residuals are computed from their sums."""

    @cached_property
    def _precisions(self) -> dict[Columns, dict[Columns, float]]:
        """Precision (1/variance of the summed cell) about each residual from every level that contains its columns."""
        found: dict[Columns, dict[Columns, float]] = {names: {} for names in _residuals(self.part, self.sizes)}
        known = {frozenset(names): names for names in found}
        # By levels, which have few subsets: there may be as many residuals as levels, and tens of thousands of both.
        for level, m in self.measurements.items():
            for below in subsets(level):
                names = known.get(frozenset(below))
                if names is not None:
                    others = cell_count([n for n in level if n not in names], self.sizes)
                    found[names][level] = 1 / (m.sigma2 * others)
        return found

    @cached_property
    def variances(self) -> dict[Columns, float]:
        """σ_A² of each residual, as for measured residuals: a centred cell has variance σ_A²·p_A."""
        return {names: 1 / math.fsum(told.values()) for names, told in self._precisions.items()}

    def residuals(self, solved: Mapping[Columns, NDArray[np.float64]]) -> Mapping[Columns, NDArray[np.float64]]:
        """Return the residuals: levels summed onto their columns, averaged by precision, then centred."""
        made = {}
        for names, told in self._precisions.items():
            total, whole = np.zeros(tuple(self.sizes[name] for name in names)), math.fsum(told.values())
            for level, precision in told.items():
                others = tuple(axis for axis, name in enumerate(level) if name not in names)
                total = total + precision / whole * solved[level].sum(axis=others)
            for axis in range(total.ndim):
                total = total - total.mean(axis=axis, keepdims=True)
            made[names] = total
        return made


@dataclass(frozen=True)
class ProductPlan:
    """Plan that measures a product of factors once, by the product of their strategies.

    Args:
        part: the factors.
        sizes: number of values of each column.
        measurement: measurement of the factors that are not totals.
    """

    part: ProductPart
    sizes: Mapping[str, int]
    measurement: CountMeasurement

    @property
    def measurements(self) -> Mapping[Columns, CountMeasurement]:
        """Mapping with the single measurement, by its columns."""
        return {self.measurement.columns: self.measurement}

    @cached_property
    def factors(self) -> tuple[tuple[Factor, IntegerStrategy], ...]:
        """Factors that are not totals, each with its strategy."""
        measured = [factor for factor in self.part.factors if factor.kind != "total"]
        return tuple(zip(measured, self.measurement.strategies, strict=True))

    @cached_property
    def factor_variances(self) -> tuple[NDArray[np.float64], ...]:
        """Variances of the queries of each factor, for noise of variance 1."""
        return tuple(query_variances(factor, strategy.covariance) for factor, strategy in self.factors)

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all queries."""
        return self.measurement.sigma2 * math.prod(float(part.sum()) for part in self.factor_variances)

    @property
    def largest_variance(self) -> float:
        return self.measurement.sigma2 * math.prod(float(part.max()) for part in self.factor_variances)

    @property
    def count(self) -> int:
        return self.part.count(self.sizes)


PartPlan = MarginalPlan | ProductPlan


@dataclass(frozen=True)
class WorkloadPlan:
    """Measurements of a workload and the errors of its answers; a function of public sizes and the cost.

    Args:
        workload: the queries.
        parts: plan of each part of the workload.
        price: cost of all measurements together, in the currency of the noise (ρ, μ² or ε).
        noise: the kind of noise.
    """

    workload: Workload
    parts: tuple[PartPlan, ...]
    price: Fraction
    noise: CountNoise = DISCRETE_GAUSSIAN

    @property
    def measurements(self) -> tuple[CountMeasurement, ...]:
        return tuple(m for part in self.parts for m in part.measurements.values())

    @property
    def count(self) -> int:
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
        """Return the ratio of an interval's half-width to the standard deviation."""
        return self.noise.factor(confidence, min(float_down(m.variance) for m in self.measurements))


def plan_workload(
    workload: Workload,
    sizes: Mapping[str, int],
    *,
    price: Fraction,
    rows: int = 1,
    relation: Relation = ADD_REMOVE,
    noise: CountNoise = DISCRETE_GAUSSIAN,
) -> WorkloadPlan:
    """Plan the measurements of a workload at a cost; reads no data.

    Args:
        workload: the queries.
        sizes: number of values of each column.
        price: cost of all measurements together, in the currency of the noise (ρ, μ² or ε).
        rows: the most rows of one unit that count.
        relation: neighbouring relation of databases.
        noise: the kind of noise.

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
    work = _optimisation(workload, sizes)
    if work > _MOST_OPTIMISED:
        raise InputError(
            "workload",
            f"has strategies to optimise that take as long as {-(-work // LARGEST_FACTOR**3):,} of {LARGEST_FACTOR:,} "
            f"values, and {_MOST_OPTIMISED // LARGEST_FACTOR**3} is the most; ask in several workloads",
        )
    parts = [_plan_part(part, sizes, rows, relation, noise) for part in workload.parts]
    shares = divide(price, [part.total_variance ** (1 / (noise.power + 1)) for part in parts])
    planned = tuple(_at_price(part, share) for part, share in zip(parts, shares, strict=True))
    return WorkloadPlan(workload, planned, price, noise)


def _optimisation(workload: Workload, sizes: Mapping[str, int]) -> int:
    """Estimate the work of optimising the strategies of all factors: Σ (number of values)³."""
    factors = {f for part in workload.parts if isinstance(part, ProductPart) for f in part.factors}
    optimised = [f for f in factors if f.kind not in ("each", "total")]
    return sum(min(sizes[f.column], LARGEST_FACTOR) ** 3 for f in optimised)


def _at_price(plan: PartPlan, price: Fraction) -> PartPlan:
    """Return a plan made for a cost of 1, scaled to ``price``."""

    def priced(m: CountMeasurement) -> CountMeasurement:
        return replace(m, price=m.price * price)

    if isinstance(plan, ProductPlan):
        return replace(plan, measurement=priced(plan.measurement))
    return replace(plan, measurements={names: priced(m) for names, m in plan.measurements.items()})


def _plan_part(
    part: MarginalPart | ProductPart, sizes: Mapping[str, int], rows: int, relation: Relation, noise: CountNoise
) -> PartPlan:
    one = Fraction(1)
    if isinstance(part, ProductPart):
        factors = [factor for factor in part.factors if factor.kind != "total"]
        dense = max(1, sum(factor.kind != "each" for factor in factors))
        strategies = tuple(strategy_for(f, sizes[f.column], factors=dense, norm=noise.norm) for f in factors)
        columns = tuple(factor.column for factor in factors)
        return ProductPlan(part, sizes, CountMeasurement(columns, strategies, one, rows, relation, noise))
    if noise.norm == 1:
        plans = [_level_plan(part, sizes, levels, rows, relation, noise) for levels in _levels(part, sizes)]
        return min(plans, key=lambda plan: plan.total_variance)
    measured = {
        names: CountMeasurement(
            names, tuple(CentredStrategy(sizes[name]) for name in names), one, rows, relation, noise
        )
        for names in _residuals(part, sizes)
    }
    # Coefficient of the variance of each residual in the sum of the variances of all queries.
    needed = dict.fromkeys(measured, 0.0)
    for names in part.sets:
        for below in subsets(names):
            if below in needed:
                needed[below] += cell_count(names, sizes) * residual_variance(below, names, sizes)
    claims = [
        math.sqrt(needed[names] * m.l2_squared) / (m.scale * cell_count(names, sizes)) for names, m in measured.items()
    ]
    shares = divide(one, claims)
    return MarginalPlan(
        part, sizes, {m.columns: replace(m, price=share) for m, share in zip(measured.values(), shares, strict=True)}
    )


def _levels(part: MarginalPart, sizes: Mapping[str, int]) -> list[list[Columns]]:
    """Return the sets of marginals that may be measured with Laplace noise; each determines all of the workload."""
    asked = list(dict.fromkeys(tuple(name for name in names if sizes[name] > 1) for names in part.sets))
    largest = [names for names in asked if not any(set(names) < set(other) for other in asked)]
    every = tuple(sorted({name for names in asked for name in names}))
    return [asked, largest, *([[every]] if cell_count(every, sizes) <= _WHOLE else [])]


def _level_plan(
    part: MarginalPart,
    sizes: Mapping[str, int],
    levels: Sequence[Columns],
    rows: int,
    relation: Relation,
    noise: CountNoise,
) -> LevelPlan:
    # The sum of the variances of the cells of separate marginals is least for shares ∝ ∛(number of cells).
    shares = divide(Fraction(1), [cell_count(names, sizes) ** (1 / 3) for names in levels])
    made = {
        names: CountMeasurement(
            names, tuple(IdentityStrategy(sizes[name]) for name in names), share, rows, relation, noise
        )
        for names, share in zip(levels, shares, strict=True)
    }
    return LevelPlan(part, sizes, made)


def _residuals(part: MarginalPart, sizes: Mapping[str, int]) -> list[Columns]:
    """Return the subsets of the marginals' columns with a nonzero residual: those without single-valued columns."""
    found = {below for names in part.sets for below in subsets(names)}
    kept = [names for names in found if all(sizes[name] > 1 for name in names)]
    return sorted(kept, key=lambda names: (len(names), names))


def _integers(part: MarginalPart | ProductPart, sizes: Mapping[str, int]) -> int:
    if isinstance(part, MarginalPart):
        # Check each marginal's size before its subsets are listed: many columns have too many cells and subsets.
        largest = max(cell_count(names, sizes) for names in part.sets)
        if largest > MOST_INTEGERS:
            return largest
        return sum(cell_count(names, sizes) for names in _residuals(part, sizes))
    return math.prod(sizes[factor.column] for factor in part.factors if factor.kind != "total")


def query_variances(factor: Factor, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variances of the queries of a factor, for counts with this covariance matrix."""
    if factor.kind == "each":
        return covariance.diagonal().copy()
    sums = covariance.cumsum(axis=0).cumsum(axis=1)
    ends = sums.diagonal()
    if factor.kind == "prefixes":
        return ends.copy()
    low, high = np.triu_indices(len(covariance))
    before = np.where(low > 0, low - 1, 0)
    begins = low > 0
    return np.asarray(ends[high] - np.where(begins, 2 * sums[before, high] - ends[before], 0.0))
