"""Additive models under differential privacy: one shape per feature, learned on exact histograms.

The score of a row is a constant plus one number for each feature, looked up at the bin in which the value lies. A fit
releases the numbers of rows per bin once, then rounds of weighted sums of residuals over bins.

*Strategy.* A row is in one bin of a feature. A sum over many bins that is released directly is as noisy as one bin;
added up from m noisy bins it is √m times as noisy. So a fit releases weighted sums over bins (the matrix mechanism),
with weights of norm one for each bin: where noise dominates, a few smooth sums take all of the weight; where there are
many rows, each bin has its own sum. Weights depend on noisy numbers of rows alone.

Shapes are pulled towards straight lines as far as the noise asks for, so that no bin stands out because of noise.
Everything that depends on rows is a sum of integers; ``additive.proof.md`` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit.core.charts import altair, offline
from tacit.core.errors import InputError
from tacit.core.numbers import check_count, float_nearest
from tacit.core.relations import as_relation
from tacit.learn import release
from tacit.learn.binned import (
    BINS,
    LEAST_EPSILON,
    BinnedClassifier,
    BinnedEstimator,
    BinnedRegressor,
    BinnedRows,
    Floats,
    StandardTarget,
    bins_of,
    confidence_phase,
    noisy_bin_counts,
    raw_bin_sums,
    raw_slopes,
    scale_of,
)
from tacit.learn.estimator import NOISE_RULES
from tacit.learn.integer_rows import UNIT, Box, Integers, shared
from tacit.learn.losses import GRID, WHOLE, Loss, Squared, clip_residuals
from tacit.learn.release import Phase, Spent, check_gaussian_privacy, progress, spend

#: Largest norm of the weights of a bin, in integer steps.
STRATEGY_UNIT: Final = 1 << 7
#: Number of sums of a feature; the first weights all bins equally.
SUMS: Final = BINS + 1
#: Prior standard deviations of a shape's first and second differences from bin to bin.
_SLOPE: Final = 0.25
_BEND: Final = 0.03
#: Prior precision added to every bin of a shape.
_FLAT: Final = 0.05
#: Prior standard deviation of the value of a category.
_CATEGORY: Final = 1.0
#: Least squared weight of a bin in the sum over all bins, for any number of features.
_OVERALL: Final = 0.08
#: Least number of rows of a bin when weights are computed, relative to an equal share of all rows.
_FEWEST: Final = 0.01
#: Ridge added to every variance, relative to the largest, so that no matrix is singular.
_REGULAR: Final = 1e-9


def prior_precision(*, nominal: bool) -> Floats:
    """Return the prior precision matrix of a shape: near a straight line, or independent values for categories."""
    if nominal:
        return np.eye(BINS) / _CATEGORY**2
    slope, bend = np.diff(np.eye(BINS), axis=0), np.diff(np.eye(BINS), 2, axis=0)
    return slope.T @ slope / _SLOPE**2 + bend.T @ bend / _BEND**2 + _FLAT * np.eye(BINS)


@dataclass(frozen=True, eq=False)
class ShapeStrategy:
    """Matrix mechanism of one feature: weights of its sums, and the estimate of slopes from the noisy sums.

    Attributes:
        whole: the weights as integers, by sum and bin; no bin has a norm of more than :data:`STRATEGY_UNIT`.
        overall: weight of every bin in the first sum, relative to :data:`STRATEGY_UNIT`.
        read: matrix from noisy sums of residuals to the slope of the loss in each bin, shrunk by the noise.
        bend: second derivative of the loss by pairs of bins, as estimated with ``read``.
        spread: covariance of the estimated slopes, from noise and sampling.
    """

    whole: Integers
    overall: float
    read: Floats
    bend: Floats
    spread: Floats

    @classmethod
    def overall_only(cls) -> ShapeStrategy:
        """Return the strategy that measures only the sum over all bins: the constant with the least noise, no shape."""
        whole = np.zeros((SUMS, BINS), dtype=np.int64)
        whole[0] = STRATEGY_UNIT
        nothing = np.zeros((BINS, BINS))
        return cls(whole, 1.0, np.zeros((BINS, SUMS)), nothing, nothing)

    def raw_sums(self, bins: Integers) -> Integers:
        """Return the exact integer weighted sums of exact sums per bin, one column per output."""
        return cast("Integers", self.whole @ bins)


@dataclass(frozen=True)
class Course:
    """Data-free model of a descent: the size of the shapes that noise alone produces.

    Steps are linear in the sums for a squared loss, and nearly so for others, so the average of the last half of the
    rounds is a weighted sum of all noises, with weights that follow from public numbers.

    Attributes:
        rounds: number of rounds.
        momentum: momentum of the steps.
        sigma: standard deviation of the noise of a sum in one round.
        noise: standard deviation of the averaged noise that the strategies were computed for.
    """

    rounds: int
    momentum: float
    sigma: float
    noise: float

    def size(self, strategy: ShapeStrategy, inverse: Floats, pull: Floats, shares: Floats) -> float:
        """Return the expected mean square of a shape due to noise and sampling alone, weighted by ``shares``.

        Args:
            strategy: strategy of the feature.
            inverse: inverse of the matrix that a step divides slopes by.
            pull: prior precision of the shape.
            shares: share of the rows in each bin.
        """
        root = np.linalg.cholesky(inverse)
        rates, axes = np.linalg.eigh(root.T @ (strategy.bend + pull) @ root)
        seen = axes.T @ root.T
        drawn = strategy.read @ strategy.read.T
        each, late = self._answers(rates), self.rounds // 2
        total = np.vstack([np.zeros_like(rates), np.cumsum(each, axis=0)])
        first = np.arange(self.rounds)
        averaged = (total[self.rounds - first] - total[np.maximum(late - first, 0)]) / (self.rounds - late)
        moved = (averaged.T @ averaged) * (self.sigma**2 * seen @ drawn @ seen.T)
        # The error from sampling is the same in all rounds.
        moved += np.outer(averaged.sum(axis=0), averaged.sum(axis=0)) * (
            seen @ (strategy.spread - self.noise**2 * drawn) @ seen.T
        )
        back = root @ axes
        centred = back - shares @ back
        return float(shares @ np.einsum("bi,ij,bj->b", centred, moved, centred))

    def _answers(self, rates: Floats) -> Floats:
        """Return the impulse response by round, for a unit push in the first round and each decay rate."""
        found = [np.ones_like(rates)]
        before = np.zeros_like(rates)
        for _ in range(self.rounds - 1):
            ahead = found[-1] + self.momentum * (found[-1] - before)
            before = found[-1]
            found.append((1 - rates) * ahead)
        return np.stack(found)


def believed_part(sizes: Floats, noises: Floats) -> Floats:
    """Return James-Stein shrinkage factors max(0, 1 - noise/size) of noisy estimates.

    Args:
        sizes: mean squares of the estimates.
        noises: mean squares expected of noise alone.
    """
    return cast("Floats", np.maximum(1 - noises / np.maximum(sizes, 1e-300), 0.0))


def strategy_of(
    counts: Floats, curvature: float, noise: float, precision: Floats, features: int, *, nominal: bool
) -> ShapeStrategy:
    """Return the strategy for one feature, computed from noisy numbers of rows per bin.

    Args:
        counts: noisy numbers of rows per bin of the feature, at least zero.
        curvature: largest second derivative of the loss.
        noise: standard deviation of the noise in the averaged sums, for weights of norm one.
        precision: prior precision of the shape.
        features: number of features; each of them measures the overall sum.
        nominal: whether bins are categories.
    """
    share = math.sqrt(_OVERALL + 0.5 / (features + 1))
    weights = np.eye(BINS) if nominal else _smooth_weights(counts, curvature, noise, precision)
    weights = np.vstack([np.full((1, BINS), share), math.sqrt(1 - share**2) * weights])
    # Converting NaN, or a float beyond 64 bits, to an integer is undefined, and its square may overflow to a small one.
    steps = np.clip(np.nan_to_num(weights * STRATEGY_UNIT, nan=0.0), -STRATEGY_UNIT, STRATEGY_UNIT)
    whole = np.trunc(steps).astype(np.int64)
    # The norm is checked on integers: that of rounded floats may be a little too large.
    whole = np.where((whole**2).sum(axis=0) <= STRATEGY_UNIT**2, whole, 0)
    used, steep = whole / STRATEGY_UNIT, curvature * counts
    seen = used * steep
    covariance = noise**2 * np.eye(SUMS) + seen @ used.T
    covariance += _REGULAR * max(float(np.diag(covariance).max()), 1e-9) * np.eye(SUMS)
    read = cast("Floats", np.linalg.solve(covariance, seen).T)
    return ShapeStrategy(whole, float(used[0].max()), read, read @ seen, read @ covariance @ read.T)


def _smooth_weights(counts: Floats, curvature: float, noise: float, precision: Floats) -> Floats:
    """Return weights of norm one for each bin: eigenvectors of the prior, scaled to equalise their expected errors."""
    share = counts / max(float(counts.sum()), 1e-9) if counts.any() else np.full(BINS, 1 / BINS)
    steep = curvature * max(float(counts.sum()), 1.0) * np.maximum(share, _FEWEST / BINS)
    centred = np.eye(BINS) - share
    prior = centred @ np.linalg.inv(precision) @ centred.T
    root = np.sqrt(steep)
    sizes, directions = np.linalg.eigh(root[:, None] * prior * root)
    parts = _levelled(np.maximum(sizes, 1e-12), float(steep.sum()) / noise**2 if noise > 0 else math.inf)
    weights = np.sqrt(parts)[:, None] * directions.T / root
    return cast("Floats", weights / np.maximum(np.linalg.norm(weights, axis=0), 1e-300))


def _levelled(sizes: Floats, amount: float) -> Floats:
    """Divide ``amount`` of precision among directions by water-filling, given their prior variances ``sizes``."""
    floors = np.sort(1 / sizes)
    if amount > floors[-1] * 1e6:
        return np.ones(len(sizes))
    filled = [(amount + floors[: count + 1].sum()) / (count + 1) for count in range(len(floors))]
    count = max(place for place, level in enumerate(filled) if level >= floors[place])
    return cast("Floats", np.maximum(filled[count] - 1 / sizes, 0.0))


#: Default number of released sums of residuals.
_ROUNDS: Final = 60
#: Part of the privacy for the numbers of rows per bin.
_COUNTS: Final = Fraction(1, 10)
#: Momentum of the rounds.
_MOMENTUM: Final = 0.8
#: Share of the features whose shapes are taken to overlap, before the trust in the constant is subtracted.
_TOGETHER: Final = 1.5
#: Prior standard deviation of a constant.
_CONSTANT: Final = 2.0
#: Inertia of a bin, relative to the noise of all rounds together.
_INERTIA: Final = 0.01
#: Shapes with mean squares below this multiple of those of noise alone are reported as hidden by noise.
_HIDDEN: Final = 2.0
#: Number of features up to which shapes have the usual prior.
_FEW: Final = 4
#: Factor of the rows' curvature in its comparison with the squared noise.
_CALM: Final = 0.1
#: Target for the standard deviation of a constant's noise, for a loss of curvature one.
_LEVEL_NOISE: Final = 0.07
#: Largest absolute value of a score, so that integer sums over features stay far below 2⁶³.
_LARGEST_SCORE: Final = 32.0
#: Clipping bound of a regression's residuals, in standard deviations of the target.
_REGRESSION_CLIP: Final = 2


@dataclass(frozen=True, eq=False)
class Shape:
    """Contribution of one feature to the score, bin by bin.

    Attributes:
        feature: name of the feature, or its index.
        edges: edges of the bins in the units of the data, one more than bins; for categories their numbers.
        values: contribution of each bin; one column per output.
        lower, upper: ends of an interval of about 95 % for each value, for noise and sampling together.
    """

    feature: str
    edges: Floats
    values: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class _Rounds:
    """Plan of the releases of an additive fit.

    Attributes:
        columns: number of histograms, that of a target included.
        features: number of columns with shapes.
        outputs: number of scores per row.
        clip: clipping bound on the norm of residuals, in steps of the loss.
        rounds: number of released sums of residuals.
        nominal: indices of features that are categories.
        confident: whether a last release rescales the scores.
        measured: whether scores are in standard deviations of a target, so that all shapes together have a size of at
            most one. Scores of classes have no unit, so this bound does not apply to them.
    """

    columns: int
    features: int
    outputs: int
    clip: int
    rounds: int
    nominal: tuple[int, ...] = ()
    confident: bool = False
    measured: bool = False

    def pull(self, noise: float, rows: float) -> float:
        """Return the factor of the prior precision for this number of features, relative to four features.

        The shapes share the variance of one target, so each of many shapes is expected to be smaller. The factor tends
        to 1 where the noise is small relative to the number of rows.
        """
        if not self.measured:
            return 1.0
        ruled = noise**2 / (noise**2 + _CALM * rows)
        return 1 + max(self.features / _FEW - 1, 0.0) * ruled

    def phases(self) -> list[Phase]:
        """Return the releases of the fit.

        A row is in one bin of each column, so it adds ``columns`` ones to the histograms, and its residual
        ``features`` times to the sums, where the weights of a bin have a norm of at most one unit.
        """
        counts = Phase("bins", UNIT**2, self.columns * BINS + 1, _COUNTS)
        width = self.features * SUMS * self.outputs
        square = (self.clip * STRATEGY_UNIT) ** 2 * self.features
        rounds = Phase("residuals", square, width, 1 - _COUNTS, self.rounds)
        return [counts, rounds, *([confidence_phase(self.clip)] if self.confident else [])]


@dataclass(frozen=True, eq=False)
class FittedShapes:
    """Shapes of a fit: a table of scores, constants, standard errors, and whether noise explains all of the scores."""

    table: Floats
    constants: Floats
    errors: Floats
    hidden: bool = False


def _descend(plan: _Rounds, loss: Loss, rows: BinnedRows, counts: Floats, sigma2: Fraction, title: str) -> FittedShapes:
    """Fit the shapes by accelerated gradient steps on noisy sums of residuals, with a prior for straight lines.

    Args:
        plan: plan of the releases.
        loss: loss of the model.
        rows: bins and targets of the rows that count.
        counts: noisy numbers of rows per feature and bin, at least zero.
        sigma2: variance of the noise in a sum, in squared integer steps.
        title: title of the progress bar.
    """
    sigma = math.sqrt(float_nearest(sigma2)) / (WHOLE * STRATEGY_UNIT)
    total = max(float(counts.sum(axis=1).mean()), 1.0)
    rounds = plan.rounds - _level_rounds(plan, sigma / (total * math.sqrt(loss.curvature)))
    noise = sigma / math.sqrt(rounds / 2)
    pull = plan.pull(noise, loss.curvature * total)
    pulled = [pull * prior_precision(nominal=place in plan.nominal) for place in range(plan.features)]
    strategies = [
        strategy_of(each, loss.curvature, noise, prior, plan.features, nominal=place in plan.nominal)
        for place, (each, prior) in enumerate(zip(counts, pulled, strict=True))
    ]
    level = _Level.of(loss.curvature * total, sigma / (strategies[0].overall * math.sqrt(plan.features)), rounds)
    # Shapes of several features fit the same residuals; in most tables about half of them overlap. Where numbers of
    # rows are uncertain, shapes are not centred well and all of them follow a constant.
    together = max(plan.features * (_TOGETHER - level.trust), 1.0)
    inertia = (_INERTIA * sigma * math.sqrt(rounds)) * np.eye(BINS)
    inverses = [
        np.linalg.inv(together * each.bend + prior + inertia) for each, prior in zip(strategies, pulled, strict=True)
    ]
    table = np.zeros((plan.features, BINS, plan.outputs))
    constants = np.zeros(plan.outputs)
    ahead, offset = table, constants
    tables, offsets = [], []
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    # Sums that a residual of one in every row would give: subtracted, because the constant of the model takes it up.
    expected = np.stack([each.whole @ share / STRATEGY_UNIT for each, share in zip(strategies, shares, strict=True)])
    for step in progress(range(rounds), title):
        raw = raw_sums(strategies, raw_residuals(plan, loss, rows, _on_grid(ahead), _on_grid(offset)))
        noisy = release.release_gaussian(raw, sigma2) / (WHOLE * STRATEGY_UNIT)
        slope = noisy[:, 0].mean(axis=0) / strategies[0].overall
        if plan.measured:
            noisy = noisy - expected[:, :, None] * slope
        found = np.stack(
            [
                each - inverse @ (strategy.read @ one + prior @ each)
                for each, inverse, one, strategy, prior in zip(ahead, inverses, noisy, strategies, pulled, strict=True)
            ]
        )
        # Centre the shapes: their means belong to the constant of the model.
        found = found - np.einsum("fb,fbk->fk", shares, found)[:, None, :]
        moved = level.moved(offset, slope)
        ahead, table = found + _MOMENTUM * (found - table), found
        offset, constants = moved + _MOMENTUM * (moved - constants), moved
        if step >= rounds // 2:
            tables.append(table)
            offsets.append(constants)
    middle = np.mean(tables, axis=0)
    apart = middle - np.mean(tables[: (len(tables) + 1) // 2], axis=0)
    # If the two halves are independent, half of their difference is as noisy as their average.
    halves = np.einsum("fb,fbk->f", shares, apart**2)
    course = Course(rounds, _MOMENTUM, sigma, noise)
    noises = plan.outputs * np.array(
        [course.size(*each) for each in zip(strategies, np.stack(inverses), pulled, shares, strict=True)]
    )
    sizes = np.einsum("fb,fbk->f", shares, middle**2)
    hidden = bool(sizes.sum() < _HIDDEN * np.maximum(noises, halves).sum())
    middle *= believed_part(sizes, np.maximum(noises, halves) if plan.measured else halves)[:, None, None]
    errors = np.stack([_errors(each, prior) for each, prior in zip(strategies, pulled, strict=True)])
    fitted = FittedShapes(middle, np.mean(offsets, axis=0), errors, hidden)
    if rounds == plan.rounds:
        return fitted
    return _settle_constants(plan, loss, rows, fitted, total, sigma2, plan.rounds - rounds)


def _level_rounds(plan: _Rounds, noise: float) -> int:
    """Return the number of last rounds for the constants alone: a tenth, up to a third where the noise is large."""
    if not plan.measured:
        return 0
    wanted = (noise / (_LEVEL_NOISE * math.sqrt(plan.features))) ** 2
    return min(max(plan.rounds // 10, 1, math.ceil(min(wanted, plan.rounds))), max(plan.rounds // 3, 1))


def _settle_constants(
    plan: _Rounds,
    loss: Loss,
    rows: BinnedRows,
    found: FittedShapes,
    total: float,
    sigma2: Fraction,
    rounds: int,
) -> FittedShapes:
    """Refit the constants of finished shapes, in rounds that measure only the sum over all bins.

    Shapes that were shrunk, or whose numbers of rows are noisy, have a mean other than zero, which this corrects.
    """
    sigma = math.sqrt(float_nearest(sigma2)) / (WHOLE * STRATEGY_UNIT * math.sqrt(plan.features))
    overall = [ShapeStrategy.overall_only()] * plan.features
    bend, constants, aims = loss.curvature * total, found.constants, []
    # Precision of the average of all rounds, to be compared with the prior precision of a constant.
    known = bend**2 / (bend + sigma**2 / rounds)
    for _ in range(rounds):
        raw = raw_sums(overall, raw_residuals(plan, loss, rows, _on_grid(found.table), _on_grid(constants)))
        noisy = release.release_gaussian(raw, sigma2) / (WHOLE * STRATEGY_UNIT)
        aims.append(constants - noisy[:, 0].mean(axis=0) / bend)
        constants = np.mean(aims, axis=0) * known / (known + 1 / _CONSTANT**2)
    return replace(found, constants=constants)


@dataclass(frozen=True)
class _Level:
    """Parameters of the constants' steps: second derivative of the loss, shrinkage of its slope, and inertia."""

    bend: float
    trust: float
    inertia: float

    @classmethod
    def of(cls, bend: float, sigma: float, rounds: int) -> _Level:
        noise2 = sigma**2 / (rounds / 2)
        return cls(bend, bend / (bend + noise2), sigma * math.sqrt(rounds) / 2)

    def moved(self, offset: Floats, slope: Floats) -> Floats:
        """Return the constants after one step."""
        pull = 1 / _CONSTANT**2
        return offset - (self.trust * slope + pull * offset) / (self.trust * (self.bend + self.inertia) + pull)


def raw_sums(strategies: Sequence[ShapeStrategy], residuals: Integers) -> Integers:
    """Return the exact weighted sums over bins before noise; a row adds at most clip·√features units in norm."""
    return np.stack([strategy.raw_sums(each) for strategy, each in zip(strategies, residuals, strict=True)])


def raw_residuals(plan: _Rounds, loss: Loss, rows: BinnedRows, scores: Integers, constants: Integers) -> Integers:
    """Return exact sums of residuals per feature and bin before noise; a row adds at most clip·√features in norm."""
    places, logits = rows.places, _raw_logits(rows.places, scores, constants)
    residuals = clip_residuals(loss.residuals(logits, rows.targets), np.full(len(places), plan.clip))
    residuals = shared(residuals, rows.shares)
    return raw_bin_sums(places[:, : plan.features], residuals)


def _raw_logits(places: Integers, scores: Integers, constants: Integers) -> Integers:
    """Return the scores of rows, in integer steps of 1/``GRID``, from the bins of their features."""
    logits = np.broadcast_to(constants, (len(places), len(constants))).copy()
    for feature in range(len(scores)):
        logits += scores[feature][places[:, feature]]
    return logits


def _made_confident(
    plan: _Rounds, loss: Loss, rows: BinnedRows, fitted: FittedShapes, sigma2: Fraction
) -> FittedShapes:
    """Return shapes and constants rescaled by the best factor according to noisy slopes of the loss."""
    scores, constants = _on_grid(fitted.table), _on_grid(fitted.constants)
    raw = raw_slopes(loss, plan.clip, _raw_logits(rows.places, scores, constants), rows)
    scale = scale_of(raw, sigma2)
    return FittedShapes(fitted.table * scale, fitted.constants * scale, fitted.errors * scale, fitted.hidden)


def _on_grid(scores: Floats) -> Integers:
    """Return public scores, clipped, in integer steps of 1/``GRID``."""
    return np.rint(np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE) * GRID).astype(np.int64)


def _errors(strategy: ShapeStrategy, precision: Floats) -> Floats:
    """Return the standard errors of a shape's values, for noise and sampling, by the local curvature."""
    inverse = np.linalg.inv(strategy.bend / 2 + precision)
    return cast("Floats", np.sqrt(np.maximum(np.diag(inverse @ strategy.spread @ inverse), 0.0)))


class _Additive(BinnedEstimator):
    """Base class of both additive models."""

    rounds: int = _ROUNDS

    _fitted: FittedShapes = field(init=False)

    def _rounds(self) -> int:
        return check_count(self.rounds, "rounds", minimum=2, maximum=10**4)

    def _cautions(self) -> tuple[str, ...]:
        """Return a caution if noise alone would make shapes about as large, from released numbers."""
        return (NOISE_RULES,) if self._fitted.hidden else ()

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self, "shapes_")
        places = bins_of(self._box.to_steps(self._read(X, reset=False)))
        columns = np.arange(places.shape[1])
        return cast("Floats", self._fitted.table[columns, places].sum(axis=1) + self._fitted.constants)

    def _keep_shapes(self, fitted: FittedShapes, box: Box, unit: float = 1.0) -> None:
        columns = len(fitted.table)
        names = [str(name) for name in getattr(self, "feature_names_in_", range(columns))]
        ends = np.linspace(-1, 1, BINS + 1)[:, None]
        edges = np.broadcast_to(box.middle, (columns,)) + ends * np.broadcast_to(box.half_width, (columns,))
        self._box, self._fitted = box, fitted
        self.intercept_, self.scores_ = fitted.constants * unit, fitted.table * unit
        self.shapes_ = []
        for place, name in enumerate(names):
            values, wide = fitted.table[place] * unit, 1.96 * fitted.errors[place][:, None] * unit
            self.shapes_.append(Shape(name, edges[:, place], values, values - wide, values + wide))

    def plot_shape(self, feature: int | str, output: int = 0) -> Any:
        """Return an Altair chart of one feature's shape with its interval."""
        check_is_fitted(self, "shapes_")
        names = [shape.feature for shape in self.shapes_]
        if isinstance(feature, str) and feature not in names:
            raise InputError("feature", f"must be one of {', '.join(names)}")
        shape = self.shapes_[names.index(feature) if isinstance(feature, str) else feature]
        middles = (shape.edges[:-1] + shape.edges[1:]) / 2
        rows = [
            {"value": float(x), "score": float(s), "low": float(a), "high": float(b)}
            for x, s, a, b in zip(
                middles, shape.values[:, output], shape.lower[:, output], shape.upper[:, output], strict=True
            )
        ]
        alt = altair()
        base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("value:Q", title=shape.feature))
        band = base.mark_area(opacity=0.3).encode(y=alt.Y("low:Q", title="score"), y2="high:Q")
        return offline(band + base.mark_line().encode(y="score:Q"))


class AdditiveClassifier(_Additive, BinnedClassifier):
    """A generalised additive model of classes: explainable boosting on exact histograms.

    >>> AdditiveClassifier(epsilon=1, delta="1e-5", bounds=(0, 1), classes=[0, 1]).get_params()["rounds"]
    60

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the features, one pair or one per column.
        classes: the public labels, or ``"discover"`` to have them chosen privately for a fifth of the privacy.
        rounds: how many sums of residuals are released.
        categories: by name or place of a column, its public categories (at most 63), or a number of groups to hash them
            into; such a column has one shape, whatever the number of categories.
        class_weight: public weights by class; a row counts as much as its class, beside the heaviest.
        max_weight: the largest ``sample_weight`` that ``fit`` takes; larger ones count as this.
        relation: which tables are neighbours.

    Attributes:
        shapes_: one :class:`Shape` per feature, with intervals; :meth:`plot_shape` shows it.
        scores_: values of all shapes, by feature, bin and output.
        intercept_: constants of the scores.
        guarantee_, event_: what the fit promises and what it released.

    Privacy:
        (ε, δ)-DP under ``relation``: numbers of rows per bin, then ``rounds`` weighted sums of residuals over bins, and
        from ε = 3 on slopes of the loss along a factor of all scores; all with discrete Gaussian noise.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the bins, and of norm 2²⁰·√columns (√2 times that for more than two
        classes) to the sums of residuals.

    Error:
        the standard error of a bin is in ``shapes_``; it holds for the noise and, by the local curvature, for sampling.

    Assumes:
        bounds and classes were not read off the data.

    References:
        Nori, Caruana, Bu, Shen, Kulkarni (2021) for private explainable boosting; Eilers, Marx (1996) for the penalty;
        Li, Miklau, Hay, McGregor, Rastogi (2015) for sums that suit what is asked. Proof: ``additive.proof.md``.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdditiveClassifier:
        """Learn the shapes; each call is charged the full cost."""
        begun = self._labelled(X, y, sample_weight, BINS)
        plan, rows, spent = begun.plan, begun.rows, begun.spent
        counts = noisy_bin_counts(rows.places, spent.of("bins"), rows.shares)
        fitted = _descend(plan, begun.loss, rows, counts, spent.of("residuals"), type(self).__name__)
        if plan.confident:
            fitted = _made_confident(plan, begun.loss, rows, fitted, spent.of("confidence"))
        self._keep_shapes(fitted, begun.box)
        self._keep_account(begun)
        return self

    def _plan(self, columns: int, classes: int, epsilon: Fraction, delta: Fraction) -> tuple[_Rounds, Spent]:
        outputs = 1 if classes == 2 else classes
        clip = WHOLE if classes == 2 else math.isqrt(2 * WHOLE * WHOLE)
        nominal = self._nominal(columns, BINS)
        plan = _Rounds(columns, columns, outputs, clip, self._rounds(), nominal, epsilon >= LEAST_EPSILON)
        return plan, spend(plan.phases(), epsilon=epsilon, delta=delta, relation=as_relation(self.relation))


class AdditiveRegressor(_Additive, BinnedRegressor):
    """A generalised additive model of a number: explainable boosting on exact histograms.

    >>> model = AdditiveRegressor(epsilon=1, delta="1e-5", bounds=(0, 1), target_bounds=(0, 3))
    >>> model.get_params()["target_bounds"]
    (0, 3)

    The arguments are those of :class:`AdditiveClassifier`, with ``target_bounds``, the public bounds of the target, in
    place of classes.

    Privacy:
        (ε, δ)-DP under ``relation``, by the same releases; the target has a histogram as well.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the bins, and of norm 2²¹·√columns to the sums of residuals.

    Error:
        as for :class:`AdditiveClassifier`. Residuals beyond two standard deviations of the target count as two.

    Assumes:
        bounds were not read off the data.

    References:
        as for :class:`AdditiveClassifier`. Proof: ``additive.proof.md``.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdditiveRegressor:
        """Learn the shapes; each call is charged the full cost."""
        box, target_box, steps = self._read_pairs(X, y)
        plan, spent = self._plan(steps.shape[1] - 1)
        shares, places = self._shares(sample_weight, len(steps)), bins_of(steps)
        counts = noisy_bin_counts(places, spent.of("bins"), shares, target=True)
        self._target = StandardTarget.from_counts(target_box, counts[-1])
        rows = BinnedRows(places, self._target.standardised(steps[:, -1:]), shares)
        fitted = _descend(plan, Squared(), rows, counts[:-1], spent.of("residuals"), type(self).__name__)
        self._keep_shapes(fitted, box, self._target.unit)
        self._keep(spent.price)
        return self

    def _plan(self, columns: int) -> tuple[_Rounds, Spent]:
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        nominal = self._nominal(columns, BINS)
        plan = _Rounds(columns + 1, columns, 1, _REGRESSION_CLIP * WHOLE, self._rounds(), nominal, measured=True)
        return plan, spend(plan.phases(), epsilon=epsilon, delta=delta, relation=as_relation(self.relation))
