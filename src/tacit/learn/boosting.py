"""Gradient-boosted trees under differential privacy: exact sums of residuals in the leaves of shallow trees.

A question asks of a row: is this feature below that bin? Each tree asks the same few questions of all rows. Features
and bins are drawn by chance, from noisy numbers of rows and from what earlier trees released, so that the structure of
a tree costs nothing and noise enters only in its leaves. A fit releases numbers of rows per bin once, then for each
tree the sums of residuals and the numbers of rows in its leaves. ``boosting.proof.md`` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from tacit.core.numbers import Number, check_count, float_nearest
from tacit.core.relations import Relation, as_relation
from tacit.learn import release
from tacit.learn.binned import (
    BinnedClassifier,
    BinnedEstimator,
    BinnedRegressor,
    BinnedRows,
    Floats,
    StandardTarget,
    bins_of,
)
from tacit.learn.budget_allocation import Spent, check_gaussian_privacy, spend
from tacit.learn.confidence import LEAST_EPSILON, scale_of
from tacit.learn.forest_plan import (
    FEATURE_BINS,
    STEP,
    FeatureChances,
    Forest,
    Histograms,
    best_values,
    noisy_histograms,
)
from tacit.learn.integer_rows import Box
from tacit.learn.leaf_sums import ROW, LeafScores
from tacit.learn.losses import GRID, WHOLE, Loss, Squared
from tacit.learn.progress import progress
from tacit.learn.sklearn_compat import check_is_fitted
from tacit.learn.trees import DecisionTree, TreeQuestion

#: Trees of a fit at ε = 1, and the fewest that other values of ε ask for.
_TREES: Final = 100
_FEWEST_TREES: Final = 40
#: ε from which noise costs less than questions that are drawn and not chosen.
_CALM: Final = 30
DRAWN_QUESTIONS: Final = (
    "at this epsilon trees lose more by questions that are drawn by chance than by noise (about .02 of log loss); "
    "compare an additive model"
)
#: Questions of a tree, by the ε from which so many pay.
_DEPTHS: Final = ((3, 4), (0, 3))
_DEEPEST: Final = 8
#: Residuals of a regression count up to this many standard deviations.
_REGRESSION_CLIP: Final = 2
#: No score is larger; sums over trees stay far below 2⁶³.
_LARGEST_SCORE: Final = 32.0


def _grow(
    plan: Forest, loss: Loss, table: BinnedRows, histograms: Histograms, spent: Spent, title: str
) -> list[DecisionTree]:
    """Trees one after the other, each on the residuals that those before it leave.

    Args:
        plan: of the releases.
        loss: of the model.
        table: bins and targets of the rows that count.
        histograms: noisy numbers of rows.
        spent: noise of the leaves, and of the confidence.
        title: for a progress bar.
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
        # Scores of rows are sums of whole steps, so that they are the same for every order of rows.
        whole = np.rint(np.clip(values, -_LARGEST_SCORE, _LARGEST_SCORE) * GRID)
        trees.append(DecisionTree(questions, whole / GRID))
        scored.add(trees[-1], whole.astype(np.int64))
    if not plan.confident:
        return trees
    scale = scale_of(scored.raw_slopes(), spent.of("confidence"))
    return [replace(tree, values=tree.values * scale) for tree in trees]


class _Boosted(BinnedEstimator):
    """Base of both kinds of boosted trees."""

    epsilon: Number
    delta: Number | None
    bounds: Any
    trees: int | None
    depth: int | None
    relation: Relation | str

    _box: Box

    def _forest(self, target: int, features: int, classes: int, clip: int, epsilon: Fraction) -> Forest:
        usual = max(round(_TREES * float_nearest(epsilon) ** 0.25), _FEWEST_TREES)
        deep = next(depth for least, depth in _DEPTHS if epsilon >= least)
        trees = check_count(usual if self.trees is None else self.trees, "trees", maximum=10**4)
        depth = check_count(deep if self.depth is None else self.depth, "depth", maximum=_DEEPEST)
        outputs, nominal = 1 if classes <= 2 else classes, self._nominal(features, FEATURE_BINS)
        confident = classes > 1 and epsilon >= LEAST_EPSILON
        return Forest(features + target, features, outputs, clip, trees, depth, nominal, classes, confident)

    def _cautions(self) -> tuple[str, ...]:
        """Caution that drawn questions, and not the noise, limit what trees learn; by ε alone."""
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

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        classes: Iterable[Any] | None = None,
        trees: int | None = None,
        depth: int | None = None,
        categories: Mapping[Any, Any] | None = None,
        class_weight: Mapping[Any, Number] | None = None,
        max_weight: Number | None = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.trees = trees
        self.depth = depth
        self.categories = categories
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.relation = relation

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedTreesClassifier:
        """Grow the trees, once; another fit costs the guarantee again."""
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

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        trees: int | None = None,
        depth: int | None = None,
        categories: Mapping[Any, Any] | None = None,
        max_weight: Number | None = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.trees = trees
        self.depth = depth
        self.categories = categories
        self.max_weight = max_weight
        self.relation = relation

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BoostedTreesRegressor:
        """Grow the trees, once; another fit costs the guarantee again."""
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
