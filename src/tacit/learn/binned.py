"""Binned features, the common base of additive models and boosted trees: histograms, targets, rescaled scores.

Numbers are divided into bins of equal width between their bounds; each category has one bin. Everything that depends on
rows is a sum of integers over bins or over groups of bins; ``additive.proof.md`` has the proof.

*Confidence.* Noise, shrinkage and few rounds make scores too small. The correction is one number: the factor a at which
the loss of scores a·z is least. The loss is convex in a, so its slopes at a few public factors, released once, locate
its minimum. The likeliest class of a row does not change. ``confidence.proof.md`` has the bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent
from tacit.core.numbers import Number, float_nearest
from tacit.learn import release
from tacit.learn.estimator import BoundedTarget, ProbabilityClassifier, ScoringClassifier, Weighted
from tacit.learn.integer_rows import FINE, UNIT, Box, Integers, scale_rows, shared
from tacit.learn.losses import GRID, WHOLE, Logistic, Loss, Softmax, clip_residuals
from tacit.learn.release import FitPrice, Phase, Spent, check_gaussian_privacy, check_privacy

Floats = NDArray[np.float64]

#: Number of bins of a feature of an additive model, of equal width between its bounds.
BINS: Final = 64
#: Of k wavelet coefficients those beyond √(2·ln(this·k)) times their noise are kept.
_SURE: Final = 4
#: Widths of candidate bell curves, relative to the number of bins.
_WIDTHS: Final = np.geomspace(1 / 128, 1.0, 15)


def bins_of(steps: Integers, bins: int = BINS) -> Integers:
    """Return the bin index, 0 to bins - 1, of each value given in integer steps, by integer arithmetic."""
    return cast("Integers", np.minimum((steps + FINE) * bins // (2 * FINE), bins - 1))


def raw_bin_sums(places: Integers, added: Integers, bins: int = BINS) -> Integers:
    """Return the exact sum of ``added`` over the rows in every bin; shape (columns, bins, outputs)."""
    total = np.zeros((places.shape[1], bins, added.shape[1]), dtype=np.int64)
    for column in range(places.shape[1]):
        np.add.at(total[column], places[:, column], added)
    return total


def one_row(columns: int) -> int:
    """Return the integer that a row adds to its bin of each column: its square times the columns is at most UNIT²."""
    return math.isqrt(UNIT * UNIT // columns)


@dataclass(frozen=True)
class CountedRow:
    """Contribution of one row to the numbers of rows, in integer steps; its norm is at most UNIT.

    Attributes:
        unit: integer that the row adds to one bin of each feature.
        times: factor of ``unit`` in the total number of rows.
        target: factor of ``unit`` in one bin of the last column.
    """

    unit: int
    times: int
    target: int

    @classmethod
    def of(cls, columns: int, *, target: bool) -> CountedRow:
        """Return the contribution of a row of ``columns`` columns, of which the last may be a target.

        The target's histogram determines the unit of all scores, so it has as much weight as all features together.
        """
        times, heavy = max(math.isqrt(columns // 3), 1), math.isqrt(columns) if target else 1
        return cls(math.isqrt(UNIT * UNIT // (columns - 1 + heavy * heavy + times * times)), times, heavy)


def raw_bin_counts(places: Integers, shares: Integers | None = None, *, target: bool = False) -> Integers:
    """Return exact numbers of rows by column and bin and, last, in total, in integer steps before noise."""
    row = CountedRow.of(places.shape[1], target=target)
    raw = raw_bin_sums(places, shared(np.full((len(places), 1), row.unit, dtype=np.int64), shares))
    total = raw[-1].sum()
    raw[-1] *= row.target
    return np.append(raw.ravel(), row.times * total)


def noisy_bin_counts(
    places: Integers, sigma2: Fraction, shares: Integers | None = None, *, target: bool = False
) -> Floats:
    """Release noisy numbers of rows by column and bin, none below zero; a weighted row counts by its share.

    Args:
        places: bin indices of the rows, by row and column.
        sigma2: variance of the noise, in squared integer steps.
        shares: relative weights of the rows, if they are weighted.
        target: whether the last column is a target, which is then counted with less noise.
    """
    columns = places.shape[1]
    row = CountedRow.of(columns, target=target)
    noisy = release.release_gaussian(raw_bin_counts(places, shares, target=target), sigma2) / row.unit
    noise = math.sqrt(float_nearest(sigma2)) / row.unit
    # One standard deviation less: overestimating the number of rows does more harm than underestimating it.
    total = max((float(noisy[-1]) - noise) / row.times, 1.0)
    tables = noisy[:-1].reshape(columns, BINS)
    if not target:
        return merged_counts(tables, noise, total)
    last, less = tables[-1:] / row.target, noise / row.target
    features = merged_counts(tables[:-1], noise, total)
    return np.vstack([features, merged_counts(last, less, total, bell_counts(last[0], less, total))])


def bell_counts(noisy: Floats, noise: float, total: float) -> Floats:
    """Return the posterior mean of the numbers of rows per bin, for a bell curve of unknown position and width.

    Noise that hides each bin individually does not hide where most rows are. The prior is uniform over positions and
    widths.

    Args:
        noisy: noisy numbers of rows by bin of one column.
        noise: standard deviation of the noise of each number.
        total: total number of rows.
    """
    ends = np.arange(len(noisy) + 1.0)
    middles, widths = np.meshgrid((ends[:-1] + ends[1:]) / 2, _WIDTHS * len(noisy), indexing="ij")
    below = 1 / (1 + np.exp(np.clip(-1.702 * (ends - middles.ravel()[:, None]) / widths.ravel()[:, None], -50, 50)))
    bells = np.diff(below, axis=1)
    bells *= total / np.maximum(bells.sum(axis=1, keepdims=True), 1e-9)
    likely = (bells @ noisy - (bells**2).sum(axis=1) / 2) / max(noise, 1e-9) ** 2
    weights = np.exp(likely - likely.max())
    return cast("Floats", weights @ bells / weights.sum())


def merged_counts(noisy: Floats, noise: float, total: float, guess: Floats | float = 0.0) -> Floats:
    """Denoise numbers of rows by thresholding of Haar wavelets: bins that differ by no more than noise become equal.

    Coefficients (differences of halves, quarters and so on of a column) are shrunk beyond a threshold that grows with
    their number. All columns are scaled to the same total: noisy numbers clipped at zero would add up to too many rows.

    Args:
        noisy: noisy numbers of rows by column and bin.
        noise: standard deviation of the noise of each number.
        total: total number of rows.
        guess: numbers of rows that are subtracted before thresholding; uniform if left out.
    """
    columns, bins = noisy.shape
    means, kept = noisy - guess, []
    while means.shape[1] > 1:
        left, right = means[:, ::2], means[:, 1::2]
        # The mean of w bins has noise/√w; half of the difference of two means has 1/√2 of that.
        apart = (left - right) / 2
        limit = noise / math.sqrt(2 * bins / means.shape[1]) * math.sqrt(2 * math.log(_SURE * left.shape[1]))
        kept.append(apart * np.maximum(apart**2 - limit**2, 0.0) / np.maximum(apart**2, 1e-300))
        means = (left + right) / 2
    found = np.full((columns, 1), (total - float(np.sum(guess))) / bins)
    for apart in reversed(kept):
        found = np.stack([found + apart, found - apart], axis=2).reshape(columns, -1)
    found = np.maximum(found + guess, 0.0)
    return cast("Floats", found * total / np.maximum(found.sum(axis=1, keepdims=True), 1e-9))


@dataclass(frozen=True, eq=False)
class BinnedRows:
    """Training rows: bin indices of their features, targets, and relative weights, if any."""

    places: Integers
    targets: Integers
    shares: Integers | None = None


@dataclass(frozen=True, eq=False)
class Labelled:
    """Prepared fit of a classifier: bounds, plan and noise of releases, loss, rows, event of discovering classes."""

    box: Box
    plan: Any
    spent: Spent
    loss: Loss
    rows: BinnedRows
    chosen: ApproxEvent | None


class BinnedEstimator(Weighted):
    """Base class of models of binned features; a categorical column has a bin per category, and one for "other"."""

    categories: Mapping[Any, Any] | None = None
    _one_hot = False

    _box: Box = field(init=False)

    def _nominal(self, columns: int, bins: int) -> tuple[int, ...]:
        """Return the indices of categorical columns; refuse more categories than bins."""
        if self.categories is None:
            return ()
        encoding = self._encoding(columns)
        for place, declared in encoding.declared:
            if declared.size >= bins:
                raise InputError(
                    "categories",
                    f"of column {place} are {declared.size}; at most {bins - 1} have a bin: hash them into fewer",
                )
        return encoding.nominal


class BinnedClassifier(ScoringClassifier, ProbabilityClassifier, BinnedEstimator):
    """Base class of binned classifiers: one score per row for two classes, one per class otherwise."""

    class_weight: Mapping[Any, Number] | None = None

    @abstractmethod
    def _plan(self, columns: int, classes: int, epsilon: Fraction, delta: Fraction) -> tuple[Any, Spent]:
        """Return the plan of the releases of a fit, and their noise."""

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        columns = self._width(columns)
        declared = self._declared_classes()
        self._check_weights(declared)
        return self._plan(columns, len(declared), *check_gaussian_privacy(self.epsilon, self.delta))[1].price

    def _labelled(self, X: Any, y: Any, sample_weight: Any, bins: int) -> Labelled:
        """Read the rows, drop those without a class, and return them in bins with the plan of a fit."""
        values = self._read(X, reset=True)
        box = self._box_of(values.shape[1])
        places, privacy, chosen = self._read_classes(values, y, check_privacy(self.epsilon, self.delta))
        plan, spent = self._plan(values.shape[1], len(self.classes_), *check_gaussian_privacy(*privacy))
        loss: Loss = Logistic() if len(self.classes_) == 2 else Softmax()
        kept = places >= 0
        shares = self._row_shares(sample_weight, places, self.classes_)
        counted = BinnedRows(
            bins_of(box.to_steps(values), bins)[kept], places[kept][:, None], None if shares is None else shares[kept]
        )
        return Labelled(box, plan, spent, loss, counted, chosen)

    def _keep_account(self, begun: Labelled) -> None:
        """Set the guarantee of the fit, including the cost of discovering classes."""
        self._keep(begun.spent.price)
        if begun.chosen is not None:
            self._add_discovery(begun.chosen)


@dataclass(frozen=True)
class StandardTarget:
    """Public map from a target to integer steps of 1/GRID of its standard deviation.

    Attributes:
        box: bounds of the target.
        shift: estimated mean of the target, in integer steps of its bounds.
        factor: integer factor, to be divided by 2³⁰.
    """

    box: Box
    shift: int
    factor: int

    @classmethod
    def from_counts(cls, box: Box, counts: Floats) -> StandardTarget:
        """Return the standardisation by mean and standard deviation of denoised numbers of rows per bin."""
        middle, spread = middle_and_spread(counts)
        return cls(box, round(middle * FINE), max(round(GRID / (spread * FINE) * 2**30), 1))

    def standardised(self, steps: Integers) -> Integers:
        """Standardise targets, given in integer steps of their bounds, by integer arithmetic."""
        return cast("Integers", (steps - self.shift) * self.factor >> 30)

    @property
    def unit(self) -> float:
        """Standard deviation of the target, in the units of the data."""
        return float(GRID * 2.0**30 / (self.factor * FINE) * float(self.box.half_width[0]))

    def in_units(self, scores: Floats) -> Floats:
        """Return scores converted to the units of the data, clipped to the bounds of the target."""
        start = float(self.box.middle[0]) + self.shift / FINE * float(self.box.half_width[0])
        return np.clip(start + scores * self.unit, float(self.box.low[0]), float(self.box.high[0]))


class BinnedRegressor(BoundedTarget, BinnedEstimator):
    """Base class of binned regressions, whose scores are in standard deviations of the target."""

    _target: StandardTarget = field(init=False)

    @abstractmethod
    def _plan(self, columns: int) -> tuple[Any, Spent]:
        """Return the plan of the releases of a fit, and their noise."""

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        columns = self._width(columns)
        self._target_box()
        self._check_weights()
        return self._plan(columns)[1].price

    @abstractmethod
    def _scores(self, X: Any) -> Floats:
        """Return the scores of rows; one column per output."""

    def predict(self, X: Any) -> Floats:
        """Return predictions, clipped to the bounds of the target, for rows clipped to their bounds."""
        check_is_fitted(self, "guarantee_")
        return self._target.in_units(self._scores(X)[:, 0])

    def _read_pairs(self, X: Any, y: Any) -> tuple[Box, Box, Any]:
        """Return the bounds of features and of target, and both as integer steps within them, the target last."""
        values = self._read(X, reset=True)
        self._check_target(y)
        box, target_box = self._boxes(values.shape[1])
        return box, target_box, self._joint_steps(values, y, box, target_box)


def middle_and_spread(counts: Floats) -> tuple[float, float]:
    """Return mean and standard deviation (at least 0.02) of a target scaled to [-1, 1], from counts per bin."""
    bins = len(counts)
    middles = (np.arange(bins) + 0.5) * 2 / bins - 1
    shares = counts / float(counts.sum()) if counts.any() else np.full(bins, 1 / bins)
    mean = float(shares @ middles)
    return mean, max(math.sqrt(max(float(shares @ (middles - mean) ** 2), 0.0)), 0.02)


#: Factors at which slopes are released, in eighths.
FACTORS: Final = (4, 6, 8, 11, 16, 23, 32)
_EIGHTHS: Final = 3
#: Clipping bound on the norm of scores in the slopes.
_REACH: Final = 4
#: Clipping bound of a score in integer steps, so that squares fit 62 bits for any number of trees and features.
_FARTHEST: Final = 1 << 24
#: Share of the privacy, relative to that of the remaining releases.
_SHARE: Final = Fraction(1, 12)
#: Least ε with which slopes are released; below it all of the privacy goes to the scores.
LEAST_EPSILON: Final = 3
#: Slopes below this multiple of their noise are taken as noise.
_CERTAIN: Final = 2
#: Prior standard deviation of the logarithm of the factor.
_SIZE: Final = 0.5


def confidence_phase(clip: int) -> Phase:
    """Return the release of the slopes; a row adds at most ``clip`` times the clipping bound of scores to each."""
    return Phase("confidence", len(FACTORS) * (clip * _REACH) ** 2, len(FACTORS), _SHARE)


def raw_slopes(loss: Loss, clip: int, logits: Integers, rows: BinnedRows) -> Integers:
    """Return the exact slope of the loss at each factor before noise; a row adds at most clip·_REACH to each.

    Args:
        loss: loss of the model.
        clip: clipping bound on the norm of residuals, in steps of the loss.
        logits: scores of the rows, in steps of 1/GRID.
        rows: targets and relative weights.
    """
    logits = np.clip(logits, -_FARTHEST, _FARTHEST)
    near, allowed = scale_rows(logits, _REACH * GRID, smallest=_REACH * GRID), np.full(len(logits), clip)
    total = np.zeros(len(FACTORS), dtype=np.int64)
    for place, factor in enumerate(FACTORS):
        residuals = clip_residuals(loss.residuals(logits * factor >> _EIGHTHS, rows.targets), allowed)
        product = (residuals * near).sum(axis=1, keepdims=True)
        total[place] = shared(np.sign(product) * (np.abs(product) // GRID), rows.shares).sum()
    return total


def scale_of(raw: Integers, sigma2: Fraction) -> float:
    """Release the slopes; return the factor at which the noisy slope is zero, shrunk towards one for noise."""
    noisy = release.release_gaussian(raw, sigma2) / WHOLE
    noise = math.sqrt(float_nearest(sigma2)) / WHOLE
    slopes, places = _rising(noisy), np.log(np.array(FACTORS) / 8)
    last = int(np.searchsorted(slopes > 0, True))
    if last == 0:
        return float(np.exp(places[0] * _trust(slopes, places, 0, noise)))
    if last == len(slopes):
        return float(np.exp(places[-1] * _trust(slopes, places, len(slopes) - 2, noise)))
    low, high = slopes[last - 1], slopes[last]
    zero = places[last - 1] + (places[last] - places[last - 1]) * -low / max(high - low, 1e-12)
    return float(np.exp(zero * _trust(slopes, places, last - 1, noise)))


def _trust(slopes: Floats, places: Floats, at: int, noise: float) -> float:
    """Return the shrinkage of the factor's logarithm: its prior variance over prior plus noise variance.

    It is zero where the slope at a factor of one may be noise.
    """
    # The steepness is taken over three intervals: neighbouring slopes that noise put out of order were averaged.
    low, high = max(at - 1, 0), min(at + 2, len(slopes) - 1)
    steep = (slopes[high] - slopes[low]) / (places[high] - places[low])
    usual = _SIZE**2 / (_SIZE**2 + (noise / max(float(steep), 1e-9)) ** 2)
    beyond = float(slopes[FACTORS.index(8)]) / (_CERTAIN * noise)
    return usual * max(1 - 1 / max(beyond**2, 1e-12), 0.0)


def _rising(values: Floats) -> Floats:
    """Return the isotonic regression: the nearest increasing sequence, by averaging neighbours out of order."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, few), (other, more) = blocks[-2:]
            blocks[-2:] = [((one * few + other * more) / (few + more), few + more)]
    return np.repeat([value for value, _ in blocks], [count for _, count in blocks])
