"""Shares of a price for the measurements of marginals, such that the variances of all of them are small together.

Residuals with Gaussian noise have shares in closed form, or by multiplicative weights where the largest variance is to
be small. Marginals with Laplace noise have shares by multiplicative steps. Both are functions of public sizes, and a
bad division costs accuracy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms.residual_basis import cell_count, residual_variance, subsets
from tacit.synth.count_measurement import divide
from tacit.synth.workload import MarginalPart

Columns = tuple[str, ...]
#: Distance from its lower bound at which the largest variance is good enough.
_CLOSE: Final = 0.005
_ITERATIONS: Final = 2_000
#: Steps towards the best shares of levels, and for the largest variance how often they are taken.
_LEVEL_STEPS: Final = 300
_MIXTURES: Final = 40
#: A level with less than this share of the largest is not measured, unless a marginal needs it.
_LEAST_SHARE: Final = 1e-3
#: Cells that the table of all columns together may have to be one of the levels.
_WHOLE: Final = 100_000


class _Variances:
    """Variances of marginals as sums over residuals: which residual enters which marginal, and how much."""

    def __init__(self, part: MarginalPart, residuals: Sequence[Columns], sizes: Mapping[str, int]) -> None:
        place = {names: index for index, names in enumerate(residuals)}
        entries = [
            [(place[below], residual_variance(below, names, sizes)) for below in subsets(names) if below in place]
            for names in part.sets
        ]
        self.rows = np.repeat(np.arange(len(entries)), [len(row) for row in entries])
        self.columns = np.array([index for row in entries for index, _ in row], dtype=np.int64)
        self.values = np.array([value for row in entries for _, value in row])
        self.cells = np.array([cell_count(names, sizes) for names in part.sets], dtype=np.float64)
        self.residuals = len(residuals)

    def needed(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """By which factor each residual enters a weighted sum of variances of marginals."""
        return np.bincount(self.columns, weights[self.rows] * self.values, minlength=self.residuals).astype(np.float64)

    def reached(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance of a cell of each marginal, for variances of residuals."""
        return np.bincount(self.rows, self.values * noise[self.columns], minlength=len(self.cells)).astype(np.float64)


def residual_claims(
    part: MarginalPart, residuals: Sequence[Columns], costs: NDArray[np.float64], sizes: Mapping[str, int]
) -> NDArray[np.float64]:
    """In which proportion residuals with Gaussian noise share the price."""
    variances = _Variances(part, residuals, sizes)

    def claims(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.sqrt(costs * variances.needed(weights)))

    def noise(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        asked = claims(weights)
        return np.asarray(np.where(asked > 0, costs / np.maximum(asked, 1e-300), 0.0) * asked.sum())

    if part.objective == "total":
        return claims(variances.cells)
    return claims(_worst_mixture(variances, noise, _ITERATIONS))


def _worst_mixture(
    variances: _Variances, noise: Callable[[NDArray[np.float64]], NDArray[np.float64]], steps: int
) -> NDArray[np.float64]:
    """Weights of marginals for which the least weighted sum of variances is about the least largest variance."""
    count = len(variances.cells)
    weights = np.full(count, 1.0 / count)
    for step in range(steps):
        reached = variances.reached(noise(weights))
        if reached.max() <= (1 + _CLOSE) * float(weights @ reached):
            break
        weights = weights * (reached / reached.max()) ** (1.0 if step < 100 else 0.5)
        weights = np.maximum(weights, 1e-12 * weights.max())
        weights = weights / weights.sum()
    return weights


class _Levels:
    """Marginals that may be measured with Laplace noise, and what each tells about every residual."""

    def __init__(self, levels: Sequence[Columns], residuals: Sequence[Columns], sizes: Mapping[str, int]) -> None:
        self.levels = list(levels)
        place = {names: index for index, names in enumerate(residuals)}
        told = [
            (place[below], at, 1 / cell_count([name for name in level if name not in below], sizes))
            for at, level in enumerate(self.levels)
            for below in subsets(level)
            if below in place
        ]
        self.residual = np.array([each[0] for each in told], dtype=np.int64)
        self.level = np.array([each[1] for each in told], dtype=np.int64)
        self.gain = np.array([each[2] for each in told])
        self.residuals = len(residuals)

    def noise(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Variance of each residual, for precisions that are the squares of shares."""
        seen = np.bincount(self.residual, self.gain * shares[self.level] ** 2, minlength=self.residuals)
        return np.asarray(1 / np.maximum(seen, 1e-300))

    def best(self, needed: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multiplicative steps: at the optimum every level that has a share gains as much from a little more of it."""
        for _ in range(_LEVEL_STEPS):
            pull = needed * self.noise(shares) ** 2
            gains = np.bincount(self.level, self.gain * pull[self.residual], minlength=len(self.levels)) * shares
            moved = shares * np.cbrt(gains)
            total = float(moved.sum())
            if not math.isfinite(total) or total <= 0:
                return shares
            moved = moved / total
            if np.abs(moved - shares).max() < 1e-7:
                return moved
            shares = moved
        return shares


def level_shares(part: MarginalPart, residuals: Sequence[Columns], sizes: Mapping[str, int]) -> dict[Columns, Fraction]:
    """Marginals to measure with Laplace noise and the share of the price of each; they add up to 1."""
    variances = _Variances(part, residuals, sizes)
    asked = list(dict.fromkeys(tuple(name for name in names if sizes[name] > 1) for names in part.sets))
    every = tuple(sorted({name for names in asked for name in names}))
    levels = list(dict.fromkeys([*asked, *residuals]))
    if every not in levels and cell_count(every, sizes) <= _WHOLE:
        levels.append(every)
    made = _Levels(levels, residuals, sizes)
    starts = [np.full(len(levels), 1 / len(levels)), np.zeros(len(levels))]
    starts[1][: len(asked)] = 1 / len(asked)
    if every in levels:
        alone = np.zeros(len(levels))
        alone[levels.index(every)] = 1.0
        starts.append(alone)

    def shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        needed = variances.needed(weights)
        found = [made.best(needed, start) for start in starts]
        return min(found, key=lambda each: float(needed @ made.noise(each)))

    weights = variances.cells
    if part.objective != "total":
        weights = _worst_mixture(variances, lambda each: made.noise(shares(each)), _MIXTURES)
    best = shares(weights)
    kept = [level for level, share in zip(levels, best, strict=True) if share >= _LEAST_SHARE * best.max()]
    told = {below for level in kept for below in map(frozenset, subsets(level))}
    kept += [names for names in asked if frozenset(names) not in told]
    place = {level: at for at, level in enumerate(levels)}
    places = [place[level] for level in kept]
    parts = divide(Fraction(1), np.maximum(best[places], _LEAST_SHARE * best.max()))
    return dict(zip(kept, parts, strict=True))
