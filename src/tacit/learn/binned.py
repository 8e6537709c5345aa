"""Binned features: what additive models and boosted trees share, from bins of values to scores of classes.

A value lies in one bin of equal width between its bounds, and a category in one of its own. Everything that depends on
rows is a sum of integers over bins or over groups of bins; ``additive.proof.md`` has the argument.

*Confidence.* Noise, shrinking and few rounds leave scores that are too cautious. How much, one number tells: the factor
a at which the loss of scores a·z is least. The loss is convex in a, so its slope at a few public factors, released
once, shows where it is zero. Which class is the likeliest stays. ``confidence.proof.md`` has the bound.
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

#: Bins of a feature of an additive model, of equal width between its bounds.
BINS: Final = 64
#: Of k differences of numbers of rows those beyond √(2·ln(this·k)) times their noise are believed.
_SURE: Final = 4
#: Widths of bells, as parts of all bins.
_WIDTHS: Final = np.geomspace(1 / 128, 1.0, 15)


def bins_of(steps: Integers, bins: int = BINS) -> Integers:
    """The bin of each value given in steps between its bounds: 0 to bins - 1, by integers."""
    return cast("Integers", np.minimum((steps + FINE) * bins // (2 * FINE), bins - 1))


def raw_bin_sums(places: Integers, added: Integers, bins: int = BINS) -> Integers:
    """For every column and bin the sum of what its rows add, exactly; shape (columns, bins, outputs)."""
    total = np.zeros((places.shape[1], bins, added.shape[1]), dtype=np.int64)
    for column in range(places.shape[1]):
        np.add.at(total[column], places[:, column], added)
    return total


def one_row(columns: int) -> int:
    """A row in a bin, in steps: its square times the columns is at most UNIT²."""
    return math.isqrt(UNIT * UNIT // columns)


@dataclass(frozen=True)
class CountedRow:
    """A row in the numbers of rows, in steps; its norm is at most UNIT.

    Attributes:
        unit: what it adds to one bin of each feature.
        times: as many units to the number of all rows.
        target: as many units to a bin of the last column.
    """

    unit: int
    times: int
    target: int

    @classmethod
    def of(cls, columns: int, *, target: bool) -> CountedRow:
        """A row of so many columns, of which the last may be a target.

        All scores are measured in units that the target's histogram tells, so it counts like all features together.
        """
        times, heavy = max(math.isqrt(columns // 3), 1), math.isqrt(columns) if target else 1
        return cls(math.isqrt(UNIT * UNIT // (columns - 1 + heavy * heavy + times * times)), times, heavy)


def raw_bin_counts(places: Integers, shares: Integers | None = None, *, target: bool = False) -> Integers:
    """Numbers of rows per column and bin and, last, of all rows, in steps before noise, exactly."""
    row = CountedRow.of(places.shape[1], target=target)
    raw = raw_bin_sums(places, shared(np.full((len(places), 1), row.unit, dtype=np.int64), shares))
    total = raw[-1].sum()
    raw[-1] *= row.target
    return np.append(raw.ravel(), row.times * total)


def noisy_bin_counts(
    places: Integers, sigma2: Fraction, shares: Integers | None = None, *, target: bool = False
) -> Floats:
    """Noisy numbers of rows per column and bin, none below zero; a row with a weight is a share of one.

    Args:
        places: bins of the rows.
        sigma2: of the noise, in steps.
        shares: of rows with weights.
        target: whether the last column is a target, which is then counted with less noise.
    """
    columns = places.shape[1]
    row = CountedRow.of(columns, target=target)
    noisy = release.release_gaussian(raw_bin_counts(places, shares, target=target), sigma2) / row.unit
    noise = math.sqrt(float_nearest(sigma2)) / row.unit
    # One standard deviation less: rows that do not exist do more harm than rows that are missed.
    total = max((float(noisy[-1]) - noise) / row.times, 1.0)
    tables = noisy[:-1].reshape(columns, BINS)
    if not target:
        return merged_counts(tables, noise, total)
    last, less = tables[-1:] / row.target, noise / row.target
    features = merged_counts(tables[:-1], noise, total)
    return np.vstack([features, merged_counts(last, less, total, bell_counts(last[0], less, total))])


def bell_counts(noisy: Floats, noise: float, total: float) -> Floats:
    """Numbers of rows per bin of a bell: the average of all, each as likely as noise makes it.

    Noise that hides each bin by itself does not hide where most rows are. With a bell of any place and width before
    data is seen, this is the mean of the numbers of rows after it.

    Args:
        noisy: numbers of rows by bin of one column.
        noise: of each.
        total: number of all rows.
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
    """Numbers of rows from noisy ones: neighbouring bins that differ by no more than noise are alike.

    Differences of halves, quarters and so on of a column (Haar's wavelets) are kept as far as noise hardly makes them,
    the less the more there are; all columns have the same number of rows. Noisy numbers cut at zero would add up to
    rows that do not exist.

    Args:
        noisy: numbers of rows by column and bin.
        noise: of each.
        total: number of all rows.
        guess: numbers of rows that these are compared with; the same everywhere if left out.
    """
    columns, bins = noisy.shape
    means, kept = noisy - guess, []
    while means.shape[1] > 1:
        left, right = means[:, ::2], means[:, 1::2]
        # Of means of w bins the noise is noise/√w; half of a difference of two has that over √2.
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
    """Rows that count: bins of their features, targets, and shares of those with weights."""

    places: Integers
    targets: Integers
    shares: Integers | None = None


@dataclass(frozen=True, eq=False)
class Labelled:
    """Beginning of a fit of classes: bounds, plan of releases, noise, loss, rows, and the event of found classes."""

    box: Box
    plan: Any
    spent: Spent
    loss: Loss
    rows: BinnedRows
    chosen: ApproxEvent | None


class BinnedEstimator(Weighted):
    """Features in bins; a column of categories has a bin for each of them, and one for other values."""

    categories: Mapping[Any, Any] | None = None
    _one_hot = False

    _box: Box = field(init=False)

    def _nominal(self, columns: int, bins: int) -> tuple[int, ...]:
        """Places of columns of categories; every category needs a bin of its own."""
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
    """Classes from scores: one score per row for two classes, one per class otherwise."""

    class_weight: Mapping[Any, Number] | None = None

    @abstractmethod
    def _plan(self, columns: int, classes: int, epsilon: Fraction, delta: Fraction) -> tuple[Any, Spent]:
        """Releases of a fit, and their noise."""

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        columns = self._width(columns)
        declared = self._declared_classes()
        self._check_weights(declared)
        return self._plan(columns, len(declared), *check_gaussian_privacy(self.epsilon, self.delta))[1].price

    def _labelled(self, X: Any, y: Any, sample_weight: Any, bins: int) -> Labelled:
        """Rows that count, in bins, with the plan of a fit to them."""
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
        """Guarantee of the fit, with what the classes cost."""
        self._keep(begun.spent.price)
        if begun.chosen is not None:
            self._add_discovery(begun.chosen)


@dataclass(frozen=True)
class StandardTarget:
    """A target in whole steps of 1/GRID of its standard deviation, by public numbers.

    Attributes:
        box: bounds of the target.
        shift: middle of the target, in steps of its bounds.
        factor: a whole factor, followed by a shift of 30 bits.
    """

    box: Box
    shift: int
    factor: int

    @classmethod
    def from_counts(cls, box: Box, counts: Floats) -> StandardTarget:
        """The standardisation that numbers of rows per bin of the target ask for, cleaned of noise."""
        middle, spread = middle_and_spread(counts)
        return cls(box, round(middle * FINE), max(round(GRID / (spread * FINE) * 2**30), 1))

    def standardised(self, steps: Integers) -> Integers:
        """Targets in steps of their bounds, standardised by integers alone."""
        return cast("Integers", (steps - self.shift) * self.factor >> 30)

    @property
    def unit(self) -> float:
        """One standard deviation, in the units of the data."""
        return float(GRID * 2.0**30 / (self.factor * FINE) * float(self.box.half_width[0]))

    def in_units(self, scores: Floats) -> Floats:
        """Scores in the units of the data, clipped to the bounds of the target."""
        start = float(self.box.middle[0]) + self.shift / FINE * float(self.box.half_width[0])
        return np.clip(start + scores * self.unit, float(self.box.low[0]), float(self.box.high[0]))


class BinnedRegressor(BoundedTarget, BinnedEstimator):
    """Numbers from scores in standard deviations of the target."""

    _target: StandardTarget = field(init=False)

    @abstractmethod
    def _plan(self, columns: int) -> tuple[Any, Spent]:
        """Releases of a fit, and their noise."""

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        columns = self._width(columns)
        self._target_box()
        self._check_weights()
        return self._plan(columns)[1].price

    @abstractmethod
    def _scores(self, X: Any) -> Floats:
        """Scores of rows; one column per output."""

    def predict(self, X: Any) -> Floats:
        """Predictions for rows clipped to the bounds, themselves clipped to the bounds of the target."""
        check_is_fitted(self, "guarantee_")
        return self._target.in_units(self._scores(X)[:, 0])

    def _read_pairs(self, X: Any, y: Any) -> tuple[Box, Box, Any]:
        """Bounds of features and target, and both in steps of them, the target last."""
        values = self._read(X, reset=True)
        self._check_target(y)
        box, target_box = self._boxes(values.shape[1])
        return box, target_box, self._joint_steps(values, y, box, target_box)


def middle_and_spread(counts: Floats) -> tuple[float, float]:
    """Mean and standard deviation of a target between -1 and 1, from noisy numbers of rows per bin."""
    bins = len(counts)
    middles = (np.arange(bins) + 0.5) * 2 / bins - 1
    shares = counts / float(counts.sum()) if counts.any() else np.full(bins, 1 / bins)
    mean = float(shares @ middles)
    return mean, max(math.sqrt(max(float(shares @ (middles - mean) ** 2), 0.0)), 0.02)


#: Factors at which slopes are released, in eighths.
FACTORS: Final = (4, 6, 8, 11, 16, 23, 32)
_EIGHTHS: Final = 3
#: Scores count up to this far.
_REACH: Final = 4
#: Steps beyond which scores are cut first: no square leaves 62 bits, whatever the numbers of trees and features.
_FARTHEST: Final = 1 << 24
#: Part of the privacy, beside that of all other releases.
_SHARE: Final = Fraction(1, 12)
#: Below this ε all of the privacy goes to the scores themselves.
LEAST_EPSILON: Final = 3
#: Slopes of fewer times their noise say nothing.
_CERTAIN: Final = 2
#: Size that the logarithm of the factor is expected to have.
_SIZE: Final = 0.5


def confidence_phase(clip: int) -> Phase:
    """Cost of the slopes: a row adds at most clip times the reach to each."""
    return Phase("confidence", len(FACTORS) * (clip * _REACH) ** 2, len(FACTORS), _SHARE)


def raw_slopes(loss: Loss, clip: int, logits: Integers, rows: BinnedRows) -> Integers:
    """Slopes of the loss at each factor before noise, exactly; a row adds at most clip·reach to each.

    Args:
        loss: of the model.
        clip: norm of residuals.
        logits: scores of the rows, in steps of the loss.
        rows: targets and shares.
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
    """The factor at which the noisy slope is zero, pulled to one as far as noise asks for."""
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
    """Trust in a factor: its expected size beside the noise that steepness makes of it.

    Not at all where the slope at a factor of one may be noise.
    """
    # Over three intervals: slopes of neighbours that noise brought out of order are one number.
    low, high = max(at - 1, 0), min(at + 2, len(slopes) - 1)
    steep = (slopes[high] - slopes[low]) / (places[high] - places[low])
    usual = _SIZE**2 / (_SIZE**2 + (noise / max(float(steep), 1e-9)) ** 2)
    beyond = float(slopes[FACTORS.index(8)]) / (_CERTAIN * noise)
    return usual * max(1 - 1 / max(beyond**2, 1e-12), 0.0)


def _rising(values: Floats) -> Floats:
    """The nearest sequence that never falls: averages of neighbours that are out of order."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (one, few), (other, more) = blocks[-2:]
            blocks[-2:] = [((one * few + other * more) / (few + more), few + more)]
    return np.repeat([value for value, _ in blocks], [count for _, count in blocks])
