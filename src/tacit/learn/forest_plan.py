"""Plans of boosted fits, noisy numbers of rows per bin, and draws of questions by chance from them.

A plan fixes the releases of a fit before a row is read. ``boosting.proof.md`` has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np

from tacit.core.numbers import float_nearest
from tacit.learn import release
from tacit.learn.binned import (
    BINS,
    BinnedRows,
    Floats,
    bell_counts,
    merged_counts,
    middle_and_spread,
    one_row,
    raw_bin_sums,
)
from tacit.learn.budget_allocation import Phase
from tacit.learn.confidence import confidence_phase
from tacit.learn.integer_rows import UNIT, Integers
from tacit.learn.leaf_sums import ROW
from tacit.learn.weights import shared
from tacit.noise import entropy
from tacit.noise.uniform import sample_below

#: Bins of a feature, of equal width between its bounds; noise in leaves does not grow with them.
FEATURE_BINS: Final = 256
#: Part of the privacy for the numbers of rows per bin.
_COUNTS: Final = Fraction(1, 20)
#: Spread of the fuller bins of a target, beside that of all, from which on it is taken.
_NARROWEST: Final = 0.45
#: Step of a tree towards its leaves' best values.
STEP: Final = 0.3
#: Size that the value of a leaf is expected to have.
_SIZE: Final = 0.5
#: Chance of a feature that earlier trees found useless, relative to the mean chance.
_LEAST_CHANCE: Final = 0.4
#: Resolution of draws by weight.
_DRAWS: Final = 1 << 30


@dataclass(frozen=True)
class Forest:
    """Plan of the releases of a boosted fit.

    Attributes:
        columns: histograms, that of a target included.
        features: columns that trees ask about.
        outputs: scores per row.
        clip: norm of residuals, in steps of the loss.
        trees: number of trees.
        depth: questions of a tree.
        nominal: places of features that are categories.
        classes: number of classes, of which the histograms of categories know; 1 for a regression.
        confident: whether the size of scores is set by a last release.
    """

    columns: int
    features: int
    outputs: int
    clip: int
    trees: int
    depth: int
    nominal: tuple[int, ...] = ()
    classes: int = 1
    confident: bool = False

    def phases(self) -> list[Phase]:
        """Cost: a row is in one bin of each column, and in one leaf of a tree, where it adds its residual and a row."""
        bins = (self.columns + len(self.nominal) * (self.classes - 1)) * FEATURE_BINS
        leaf = self.clip**2 + ROW**2
        return [
            Phase("bins", UNIT**2, bins, _COUNTS),
            Phase("leaves", leaf, (self.outputs + 1) << self.depth, 1 - _COUNTS, self.trees),
            *([confidence_phase(self.clip)] if self.confident else []),
        ]


@dataclass(frozen=True, eq=False)
class Histograms:
    """Noisy numbers of rows per bin, and for categories per class.

    Attributes:
        counts: by feature and bin, at least zero.
        rates: for a place of categories, the share of each class in each bin, pulled to the mean by the noise.
        noise: of a number of rows.
        target: numbers of rows in the fuller bins of a target, cleaned of noise; of the last column.
    """

    counts: Floats
    rates: dict[int, Floats]
    noise: float
    target: Floats

    def ranks(self, feature: int, nominal: tuple[int, ...]) -> Integers | None:
        """An order of categories for one question: by the rate of a class drawn by chance, or any order."""
        if feature not in nominal:
            return None
        rates = self.rates.get(feature)
        if rates is None:
            return _shuffled(FEATURE_BINS)
        drawn = draw(np.ones(rates.shape[1]))
        order = np.argsort(rates[:, drawn], kind="stable")
        ranks = np.empty(FEATURE_BINS, dtype=np.int64)
        ranks[order] = np.arange(FEATURE_BINS)
        return ranks

    def drawn_bin(self, feature: int, ranks: Integers | None) -> int:
        """A bin that divides the rows, by chance: likelier where there are rows on both sides, never an end."""
        return 1 + draw(self.weights(feature, ranks))

    def weights(self, feature: int, ranks: Integers | None) -> Floats:
        """Chances of the bins of a feature but the first, larger where there are rows on both sides."""
        counts = self.counts[feature]
        if ranks is not None:
            ordered = np.empty(FEATURE_BINS)
            ordered[ranks] = counts
            counts = ordered
        return cast("Floats", np.log1p((counts[1:] + counts[:-1]) / max(2 * self.noise, 4.0)) + 1e-9)


def _shuffled(count: int) -> Integers:
    """A uniformly random order."""
    order = np.arange(count, dtype=np.int64)
    for place in range(count - 1, 0, -1):
        other = sample_below(place + 1, entropy.current())
        order[place], order[other] = order[other], order[place]
    return order


def raw_histograms(plan: Forest, rows: BinnedRows) -> Integers:
    """Numbers of rows per column and bin before noise, for categories per class, exactly.

    A row adds ``one_row`` to one number of each column.
    """
    unit = one_row(plan.columns)
    ones = shared(np.full((len(rows.places), 1), unit, dtype=np.int64), rows.shares)
    by_class = plan.nominal if plan.classes > 1 else ()
    plain = [place for place in range(plan.columns) if place not in by_class]
    parts = [raw_bin_sums(rows.places[:, plain], ones, FEATURE_BINS).ravel()]
    if by_class:
        spread = np.where(rows.targets == np.arange(plan.classes), ones, 0)
        parts.append(raw_bin_sums(rows.places[:, by_class], spread, FEATURE_BINS).ravel())
    return np.concatenate(parts)


def noisy_histograms(plan: Forest, rows: BinnedRows, sigma2: Fraction) -> Histograms:
    """Numbers of rows per bin with noise, and rates of classes in the bins of categories."""
    unit = one_row(plan.columns)
    noise = math.sqrt(float_nearest(sigma2)) / unit
    noisy = release.release_gaussian(raw_histograms(plan, rows), sigma2) / unit
    by_class = plan.nominal if plan.classes > 1 else ()
    plain = [place for place in range(plan.columns) if place not in by_class]
    counts, rates = np.zeros((plan.columns, FEATURE_BINS)), {}
    counts[plain] = noisy[: len(plain) * FEATURE_BINS].reshape(-1, FEATURE_BINS)
    for place, each in zip(
        by_class, noisy[len(plain) * FEATURE_BINS :].reshape(-1, FEATURE_BINS, plan.classes), strict=True
    ):
        counts[place] = each.sum(axis=1)
        # As many rows of the mean as noise asks for.
        mean = np.maximum(each.sum(axis=0), 1.0) / max(float(np.maximum(each.sum(axis=0), 1.0).sum()), 1.0)
        pulled = np.maximum(each, 0.0) + (4 * noise + 10) * mean
        rates[place] = pulled / pulled.sum(axis=1, keepdims=True)
    # The target has fewer and fuller bins, which say more about its spread than about the noise.
    last, total = counts[-1, :BINS], max(float(counts.sum(axis=1).mean()), 1.0)
    target = merged_counts(last[None], noise, total, bell_counts(last, noise, total))[0]
    # Few rows far out would widen it; but where rows are few, the fuller bins may be one alone.
    fuller = np.where(target > 1.5 * float(np.median(target)), target, 0.0)
    if fuller.any() and middle_and_spread(fuller)[1] >= _NARROWEST * middle_and_spread(target)[1]:
        target = fuller
    return Histograms(np.maximum(counts, 0.0), rates, noise, target)


def best_values(sums: Floats, rows: Floats, curvature: float, sigma: float) -> Floats:
    """Leaf values of a Newton step, shrunk as far as noise and few rows ask for; never a quotient by a small number."""
    steep = curvature * rows
    return sums * steep * _SIZE**2 / (_SIZE**2 * steep**2 + sigma**2 + steep + 1e-9)


class FeatureChances:
    """Chances of the features to be asked about: larger where released leaves differed by more than their noise."""

    def __init__(self, features: int) -> None:
        self._gain = np.zeros(features)
        self._asked = np.zeros(features)

    def draw(self, depth: int) -> tuple[int, ...]:
        """Features of a tree, different ones as long as there are enough."""
        # A feature that was never asked about has the chance of a good one.
        mean = self._gain / np.maximum(self._asked, 1)
        best = max(float(mean.max()), 1e-12)
        weights = np.where(self._asked == 0, best, mean)
        weights = np.maximum(weights, _LEAST_CHANCE * float(weights.mean()))
        drawn: list[int] = []
        while len(drawn) < depth:
            left = weights.copy()
            if len(drawn) < len(weights):
                left[drawn] = 0.0
            drawn.append(draw(left))
        return tuple(drawn)

    def learn(self, features: tuple[int, ...], values: Floats, rows: Floats, curvature: float, sigma: float) -> None:
        """Take over what a tree has released: how far the leaves on both sides of a question are apart."""
        depth = len(features)
        shaped = values.reshape(*[2] * depth, -1)
        weights = rows.reshape(*[2] * depth, 1)
        for axis, feature in enumerate(features):
            apart = np.diff(shaped, axis=axis)
            held = np.minimum(*np.split(weights, 2, axis=axis))
            steep = curvature * held
            expected = (STEP * sigma * _SIZE**2 * steep / (_SIZE**2 * steep**2 + sigma**2 + steep + 1e-9)) ** 2
            self._gain[feature] += max(float((held * (apart**2 - 2 * expected)).sum()), 0.0)
            self._asked[feature] += 1


def draw(weights: Floats) -> int:
    """A place by chance, in proportion to its weight; weights are public."""
    whole = np.maximum(np.rint(weights / max(float(weights.sum()), 1e-300) * _DRAWS), 0).astype(np.int64)
    if not whole.any():
        return sample_below(len(whole), entropy.current())
    return int(np.searchsorted(np.cumsum(whole), sample_below(int(whole.sum()), entropy.current()), side="right"))
