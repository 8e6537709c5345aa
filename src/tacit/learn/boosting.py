"""Gradient-boosted trees under differential privacy: exact sums of residuals in the leaves of shallow trees.

A question is a split: is the bin of this feature at least that bin? All nodes of a tree at one depth share the same
split (an oblivious tree). Features and bins are drawn at random, with probabilities computed from noisy numbers of rows
and from the released leaves of earlier trees, so that the structure of a tree is free and noise enters only in its
leaves. A plan fixes the releases before a row is read: numbers of
rows per bin once, then for each tree the sums of residuals and the numbers of rows in its leaves. The proof is in
``boosting.proof.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

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
    bell_counts,
    bins_of,
    confidence_phase,
    merged_counts,
    middle_and_spread,
    one_row,
    raw_bin_sums,
    raw_slopes,
    scale_of,
)
from tacit.learn.integer_rows import UNIT, Box, Integers, shared
from tacit.learn.losses import GRID, WHOLE, Loss, Squared, clip_residuals
from tacit.learn.release import Phase, Spent, check_gaussian_privacy, progress, spend
from tacit.noise import entropy
from tacit.noise.uniform import sample_below


@dataclass(frozen=True, eq=False)
class TreeQuestion:
    """Split of all rows: is the bin of a feature (for categories its rank) at least ``first``?"""

    feature: int
    first: int
    ranks: Integers | None = None

    def asked(self, bins: Integers) -> Integers:
        """Return the ranks of bins in the order that the question uses."""
        return bins if self.ranks is None else self.ranks[bins]


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """Oblivious decision tree: all nodes at one depth ask the same question.

    Attributes:
        questions: one per depth, from the root on.
        values: values of the leaves, indexed by the binary number of the answers; one column per output.
    """

    questions: tuple[TreeQuestion, ...]
    values: Floats

    def leaves(self, places: Integers) -> Integers:
        return leaves_of(places, self.questions)

    def contrasts(self, features: int) -> Floats:
        """Return, by feature, the mean squared difference of leaves across its questions, summed over depths."""
        found = np.zeros(features)
        for depth, question in enumerate(self.questions):
            sides = self.values.reshape(1 << depth, 2, -1)
            found[question.feature] += ((sides[:, 1] - sides[:, 0]) ** 2).mean()
        return found


def leaves_of(places: Integers, questions: tuple[TreeQuestion, ...]) -> Integers:
    """Return the index of each row's leaf: the binary number of its answers, in integer arithmetic."""
    leaves = np.zeros(len(places), dtype=np.int64)
    for each in questions:
        leaves = 2 * leaves + (each.asked(places[:, each.feature]) >= each.first)
    return leaves


#: Weight of a row in the number of rows of a leaf, in the integer steps of residuals.
ROW: Final = WHOLE // 4


def raw_leaf_sums(leaves: Integers, residuals: Integers, count: int, shares: Integers | None = None) -> Integers:
    """Return for each leaf the exact sums of residuals and, in the last column, :data:`ROW` times its number of rows.

    Args:
        leaves: index of each row's leaf.
        residuals: residual of each row in integer steps, one column per output.
        count: number of leaves.
        shares: relative weight of each row, if rows are weighted.
    """
    added = shared(np.hstack([residuals, np.full((len(residuals), 1), ROW, dtype=np.int64)]), shares)
    total = np.zeros((count, added.shape[1]), dtype=np.int64)
    np.add.at(total, leaves, added)
    return total


class LeafScores:
    """Scores of all rows, updated with each tree."""

    def __init__(self, loss: Loss, clip: int, outputs: int, rows: BinnedRows) -> None:
        self._loss, self._clip, self._rows = loss, clip, rows
        self._logits = np.zeros((len(rows.places), outputs), dtype=np.int64)

    def raw_sums(self, questions: tuple[TreeQuestion, ...]) -> Integers:
        """Return the exact sums of residuals and rows in the leaves of a tree with these questions."""
        clip = np.full(len(self._logits), self._clip)
        residuals = clip_residuals(self._loss.residuals(self._logits, self._rows.targets), clip)
        return raw_leaf_sums(leaves_of(self._rows.places, questions), residuals, 1 << len(questions), self._rows.shares)

    def add(self, tree: DecisionTree, values: Integers) -> None:
        """Add a tree to the scores, given its leaf values in integer steps of 1/``GRID``."""
        self._logits += values[tree.leaves(self._rows.places)]

    def raw_slopes(self) -> Integers:
        """Return the slopes of the loss along a common factor of the scores."""
        return raw_slopes(self._loss, self._clip, self._logits, self._rows)


#: Bins of a feature, of equal width between its bounds; noise in leaves does not grow with them.
FEATURE_BINS: Final = 256
#: Part of the privacy for the numbers of rows per bin.
_COUNTS: Final = Fraction(1, 20)
#: Least spread of a target's fuller bins, relative to that of all bins, with which the fuller bins alone are used.
_NARROWEST: Final = 0.45
#: Learning rate of a tree.
STEP: Final = 0.3
#: Prior standard deviation of the value of a leaf.
_SIZE: Final = 0.5
#: Least weight of a feature in the draw, relative to the mean weight.
_LEAST_CHANCE: Final = 0.4
#: Number of integer steps that the weights of a draw are rounded to.
_DRAWS: Final = 1 << 30


@dataclass(frozen=True)
class Forest:
    """Plan of the releases of a boosted fit.

    Attributes:
        columns: number of histograms, that of a target included.
        features: number of columns that trees can split on.
        outputs: number of scores per row.
        clip: clipping bound on the norm of residuals, in steps of the loss.
        trees: number of trees.
        depth: number of questions of a tree.
        nominal: indices of features that are categories.
        classes: number of classes by which the histograms of categories are divided; 1 for a regression.
        confident: whether a last release rescales the scores.
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
        """Return the releases: a row is in one bin of each column, and in one leaf of each tree."""
        bins = (self.columns + len(self.nominal) * (self.classes - 1)) * FEATURE_BINS
        leaf = self.clip**2 + ROW**2
        return [
            Phase("bins", UNIT**2, bins, _COUNTS),
            Phase("leaves", leaf, (self.outputs + 1) << self.depth, 1 - _COUNTS, self.trees),
            *([confidence_phase(self.clip)] if self.confident else []),
        ]


@dataclass(frozen=True, eq=False)
class Histograms:
    """Noisy numbers of rows per bin, for categories also per class.

    Attributes:
        counts: noisy number of rows by column and bin, at least zero.
        rates: by index of a categorical feature, the share of each class in each bin, shrunk towards the mean.
        noise: standard deviation of the noise of a number of rows.
        target: denoised numbers of rows in the fuller bins of the last column, the target of a regression.
    """

    counts: Floats
    rates: dict[int, Floats]
    noise: float
    target: Floats

    def ranks(self, feature: int, nominal: tuple[int, ...]) -> Integers | None:
        """Return ranks of a feature's categories, by the rate of a random class or at random; None for numbers."""
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
        """Draw the first bin of a split's upper side: never bin 0, likelier where there are rows on both sides."""
        return 1 + draw(self.weights(feature, ranks))

    def weights(self, feature: int, ranks: Integers | None) -> Floats:
        """Return unnormalised probabilities of the bins but the first, larger where adjacent bins hold more rows."""
        counts = self.counts[feature]
        if ranks is not None:
            ordered = np.empty(FEATURE_BINS)
            ordered[ranks] = counts
            counts = ordered
        return cast("Floats", np.log1p((counts[1:] + counts[:-1]) / max(2 * self.noise, 4.0)) + 1e-9)


def _shuffled(count: int) -> Integers:
    """Return a uniformly random permutation of 0, …, count - 1."""
    order = np.arange(count, dtype=np.int64)
    for place in range(count - 1, 0, -1):
        other = sample_below(place + 1, entropy.current())
        order[place], order[other] = order[other], order[place]
    return order


def raw_histograms(plan: Forest, rows: BinnedRows) -> Integers:
    """Return exact numbers of rows per column and bin before noise, for categories also per class.

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
    """Release noisy numbers of rows per bin; compute from them the rates of classes by category."""
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
        # Shrink towards the mean by adding pseudo-rows, more of them where there is more noise.
        mean = np.maximum(each.sum(axis=0), 1.0) / max(float(np.maximum(each.sum(axis=0), 1.0).sum()), 1.0)
        pulled = np.maximum(each, 0.0) + (4 * noise + 10) * mean
        rates[place] = pulled / pulled.sum(axis=1, keepdims=True)
    # The target has fewer and fuller bins, so that its spread can be estimated despite the noise.
    last, total = counts[-1, :BINS], max(float(counts.sum(axis=1).mean()), 1.0)
    target = merged_counts(last[None], noise, total, bell_counts(last, noise, total))[0]
    # A few outlying rows would widen the spread; but with few rows only one bin may count as fuller.
    fuller = np.where(target > 1.5 * float(np.median(target)), target, 0.0)
    if fuller.any() and middle_and_spread(fuller)[1] >= _NARROWEST * middle_and_spread(target)[1]:
        target = fuller
    return Histograms(np.maximum(counts, 0.0), rates, noise, target)


def best_values(sums: Floats, rows: Floats, curvature: float, sigma: float) -> Floats:
    """Return leaf values of a Newton step, shrunk for noise and sampling; the denominator is never near zero."""
    steep = curvature * rows
    return sums * steep * _SIZE**2 / (_SIZE**2 * steep**2 + sigma**2 + steep + 1e-9)


class FeatureChances:
    """Probabilities of the features in a tree's questions: larger where released leaves differed beyond their noise."""

    def __init__(self, features: int) -> None:
        self._gain = np.zeros(features)
        self._asked = np.zeros(features)

    def draw(self, depth: int) -> tuple[int, ...]:
        """Draw the features of a tree, without replacement as long as there are enough."""
        # A feature that no tree has used has the weight of the best one.
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
        """Update the gains with the released leaves of a tree: squared differences across each question, less noise."""
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
    """Draw an index with probability proportional to its public weight."""
    whole = np.maximum(np.rint(weights / max(float(weights.sum()), 1e-300) * _DRAWS), 0).astype(np.int64)
    if not whole.any():
        return sample_below(len(whole), entropy.current())
    return int(np.searchsorted(np.cumsum(whole), sample_below(int(whole.sum()), entropy.current()), side="right"))


#: Trees of a fit at ε = 1, and the fewest that other values of ε ask for.
_TREES: Final = 100
_FEWEST_TREES: Final = 40
#: ε from which random questions, rather than noise, limit the accuracy.
_CALM: Final = 30
DRAWN_QUESTIONS: Final = (
    "at this epsilon trees lose more by splits that are drawn at random than by noise (about .02 of log loss); "
    "compare an additive model"
)
#: Default depth of a tree, as pairs (least ε, depth).
_DEPTHS: Final = ((3, 4), (0, 3))
_DEEPEST: Final = 8
#: Clipping bound of a regression's residuals, in standard deviations of the target.
_REGRESSION_CLIP: Final = 2
#: Largest absolute value of a leaf, so that integer sums over trees stay far below 2⁶³.
_LARGEST_SCORE: Final = 32.0


def _grow(
    plan: Forest, loss: Loss, table: BinnedRows, histograms: Histograms, spent: Spent, title: str
) -> list[DecisionTree]:
    """Grow the trees in turn, each on the residuals of the trees before it.

    Args:
        plan: plan of the releases.
        loss: loss of the model.
        table: bins and targets of the rows that count.
        histograms: noisy numbers of rows.
        spent: noise variances of the leaves and of the last rescaling.
        title: title of the progress bar.
    """
    scored, chances = LeafScores(loss, plan.clip, plan.outputs, table), FeatureChances(plan.features)
    sigma2 = spent.of("leaves")
    sigma = math.sqrt(float_nearest(sigma2)) / WHOLE
    trees: list[DecisionTree] = []
    for _ in progress(range(plan.trees), title):
        features = chances.draw(plan.depth)
        ranks = [histograms.ranks(feature, plan.nominal) for feature in features]
        questions = tuple(
            TreeQuestion(each, histograms.drawn_bin(each, rank), rank)
            for each, rank in zip(features, ranks, strict=True)
        )
        noisy = release.release_gaussian(scored.raw_sums(questions), sigma2) / WHOLE
        rows = np.maximum(noisy[:, -1:] * (WHOLE / ROW), 0.0)
        values = -STEP * best_values(noisy[:, :-1], rows, loss.curvature, sigma)
        chances.learn(features, values, rows, loss.curvature, sigma)
        # Leaf values are rounded to integer steps, so that scores are exact sums, the same for every order of rows.
        whole = np.rint(np.clip(values, -_LARGEST_SCORE, _LARGEST_SCORE) * GRID)
        trees.append(DecisionTree(questions, whole / GRID))
        scored.add(trees[-1], whole.astype(np.int64))
    if not plan.confident:
        return trees
    scale = scale_of(scored.raw_slopes(), spent.of("confidence"))
    return [replace(tree, values=tree.values * scale) for tree in trees]


class _Boosted(BinnedEstimator):
    """Base class of both boosted models."""

    trees: int | None = None
    depth: int | None = None

    def _forest(self, target: int, features: int, classes: int, clip: int, epsilon: Fraction) -> Forest:
        usual = max(round(_TREES * float_nearest(epsilon) ** 0.25), _FEWEST_TREES)
        deep = next(depth for least, depth in _DEPTHS if epsilon >= least)
        trees = check_count(usual if self.trees is None else self.trees, "trees", maximum=10**4)
        depth = check_count(deep if self.depth is None else self.depth, "depth", maximum=_DEEPEST)
        outputs, nominal = 1 if classes <= 2 else classes, self._nominal(features, FEATURE_BINS)
        confident = classes > 1 and epsilon >= LEAST_EPSILON
        return Forest(features + target, features, outputs, clip, trees, depth, nominal, classes, confident)

    def _cautions(self) -> tuple[str, ...]:
        """Return a caution, by ε alone, if random questions rather than noise limit the accuracy."""
        return (DRAWN_QUESTIONS,) if self.guarantee_.epsilon >= _CALM else ()

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self, "trees_")
        places = bins_of(self._box.to_steps(self._read(X, reset=False)), FEATURE_BINS)
        return cast("Floats", sum(tree.values[tree.leaves(places)] for tree in self.trees_))

    def _keep_trees(self, trees: list[DecisionTree], box: Box) -> None:
        self._box, self.trees_ = box, trees
        used = sum((tree.contrasts(self.n_features_in_) for tree in trees), np.zeros(self.n_features_in_))
        self.feature_importances_ = used / max(float(used.sum()), 1e-300)


class BoostedTreesClassifier(_Boosted, BinnedClassifier):
    """Gradient-boosted trees for classes.

    >>> model = BoostedTreesClassifier(epsilon=1, delta="1e-5", bounds=(0, 1), classes=[0, 1])
    >>> model.price(columns=5).releases[1]
    '100 × leaves: 16 numbers, noise 38.28 × what one row adds'

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the features, one pair or one per column.
        classes: the public labels, or ``"discover"`` to have them chosen privately for a fifth of the privacy.
        trees: how many; by default 100 at ε = 1, fewer below and more above.
        depth: questions of a tree, and so features that interact in it; by default 3, or 4 from ε = 3.
        categories: by name or place of a column, its public categories (at most 255), or a number of groups to hash
            them into; questions then ask for sets of them.
        class_weight: public weights by class; a row counts as much as its class, beside the heaviest.
        max_weight: the largest ``sample_weight`` that ``fit`` takes; larger ones count as this.
        relation: which tables are neighbours.

    Attributes:
        trees_: each a :class:`DecisionTree`.
        feature_importances_: how far leaves on both sides of a feature's questions differ; from released numbers.
        guarantee_, event_: what the fit promises and what it released.

    Privacy:
        (ε, δ)-DP under ``relation``: numbers of rows per bin, then for each tree sums of residuals and numbers of rows
        per leaf, and from ε = 3 on slopes of the loss along a factor of all scores; all with discrete Gaussian noise.
        Features and bins of trees are drawn from released numbers.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the bins, and of norm 2¹³·√(1 + 1/16) (√(2 + 1/16) for more than two
        classes) to the leaves of a tree.

    Error:
        no bound is proven; leaves are shrunk by the noise that they have.

    Assumes:
        bounds and classes were not read off the data.

    References:
        Maddock, Cormode, Wang, Maple, Jha (2022) for trees of random structure under differential privacy. Proof:
        ``boosting.proof.md``.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedTreesClassifier:
        """Grow the trees; each call is charged the full cost."""
        begun = self._labelled(X, y, sample_weight, FEATURE_BINS)
        histograms = noisy_histograms(begun.plan, begun.rows, begun.spent.of("bins"))
        trees = _grow(begun.plan, begun.loss, begun.rows, histograms, begun.spent, type(self).__name__)
        self._keep_trees(trees, begun.box)
        self._keep_account(begun)
        return self

    def _plan(self, columns: int, classes: int, epsilon: Fraction, delta: Fraction) -> tuple[Forest, Spent]:
        clip = WHOLE if classes == 2 else math.isqrt(2 * WHOLE * WHOLE)
        plan = self._forest(0, columns, classes, clip, epsilon)
        return plan, spend(plan.phases(), epsilon=epsilon, delta=delta, relation=as_relation(self.relation))


class BoostedTreesRegressor(_Boosted, BinnedRegressor):
    """Gradient-boosted trees for a number.

    >>> model = BoostedTreesRegressor(epsilon=1, delta="1e-5", bounds=(0, 1), target_bounds=(0, 3))
    >>> model.get_params()["target_bounds"]
    (0, 3)

    The arguments are those of :class:`BoostedTreesClassifier`, with ``target_bounds``, the public bounds of the target,
    in place of classes.

    Privacy:
        (ε, δ)-DP under ``relation``, by the same releases; the target has a histogram as well.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the bins, and of norm 2¹³·√(4 + 1/16) to the leaves of a tree;
        it moves the scores of questions, those of one node, by at most 2¹⁴ + 1, twice that where rows are exchanged.

    Error:
        as for :class:`BoostedTreesClassifier`. Residuals beyond two standard deviations of the target count as two.

    Assumes:
        bounds were not read off the data.

    References:
        as for :class:`BoostedTreesClassifier`. Proof: ``boosting.proof.md``.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedTreesRegressor:
        """Grow the trees; each call is charged the full cost."""
        box, target_box, steps = self._read_pairs(X, y)
        plan, spent = self._plan(steps.shape[1] - 1)
        shares = self._shares(sample_weight, len(steps))
        places = np.hstack([bins_of(steps[:, :-1], FEATURE_BINS), bins_of(steps[:, -1:])])
        histograms = noisy_histograms(plan, BinnedRows(places, steps[:, -1:], shares), spent.of("bins"))
        self._target = StandardTarget.from_counts(target_box, histograms.target)
        rows = BinnedRows(places, self._target.standardised(steps[:, -1:]), shares)
        self._keep_trees(_grow(plan, Squared(), rows, histograms, spent, type(self).__name__), box)
        self._keep(spent.price)
        return self

    def _plan(self, columns: int) -> tuple[Forest, Spent]:
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        plan = self._forest(1, columns, 1, _REGRESSION_CLIP * WHOLE, epsilon)
        return plan, spend(plan.phases(), epsilon=epsilon, delta=delta, relation=as_relation(self.relation))
