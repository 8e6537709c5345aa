"""Private k-means: Lloyd's algorithm with noisy sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit.core.numbers import Number, check_count, float_nearest
from tacit.core.relations import as_relation
from tacit.learn import release
from tacit.learn.estimator import BoundedEstimator
from tacit.learn.integer_rows import FINE, UNIT, Box, Integers, beside_bias, exact_product, join_bias, scale_rows
from tacit.learn.release import FitPrice, Phase, Spent, check_gaussian_privacy, progress, spend
from tacit.noise.gaussian import DiscreteGaussian

#: Constant appended to each row, in integer steps, so that counts are as precise as sums.
_COUNT: Final = UNIT // 2
#: Share of the privacy for the survey of mean and spread.
_SURVEY: Final = Fraction(1, 10)
#: Share of the privacy for the rounds with candidates, their number, and candidates per cluster.
_SEARCH: Final = Fraction(1, 3)
_SEARCHING: Final = 2
_CANDIDATES: Final = 4
_MERGING: Final = 30
#: Largest number of clusters: each centre has to exceed its noise, and is compared with every row.
_MOST_CLUSTERS: Final = 1000
#: Largest number of distances in memory at once.
_BLOCK: Final = 1 << 22
#: Largest squared length of a row in the survey, in integer steps.
_SQUARE: Final = UNIT // 2


class KMeans(ClusterMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BoundedEstimator):  # type: ignore[misc]
    """k clusters by a fixed number of noisy rounds of Lloyd's algorithm.

    Four times as many candidates start in random directions around a noisy mean, at the distance of the noisy spread.
    In every round each row is given to its nearest centre, and the sums and numbers of rows of all of them are released
    with noise. After two rounds the candidates are themselves clustered, by their noisy numbers of rows, which costs
    nothing; the rest of the rounds improves what that finds.

    >>> KMeans(epsilon=1, delta="1e-5", bounds=(0, 16), n_clusters=10).get_params()["n_clusters"]
    10

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the columns, one pair or one per column; or
        data_norm: a public bound on the norm of a row, instead.
        n_clusters: how many.
        steps: how many rounds, at least 3; 6.
        relation: which tables are neighbours.

    Attributes:
        cluster_centers_: in the units of the data.
        guarantee_, event_: what the fit promises and what it released. There is no ``labels_``: which cluster a row of
            the fit is in is a fact about that row, and a fitted model may be handed on. ``predict`` tells it to a
            caller who has the rows.

    Privacy:
        (ε, δ)-DP under ``relation`` for the centres: a survey, then ``steps`` releases with discrete Gaussian noise.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the sums of its cluster, rounding included, and nothing to others.

    Error:
        a centre of m rows is off by about σ/m in every coordinate.

    Assumes:
        bounds were not read off the data.

    References:
        Blum, Dwork, McSherry, Nissim (2005); Su et al. (2016). Proof: ``moments.proof.md``.
    """

    data_norm: Number | None = None
    n_clusters: int = 8
    steps: int = 6

    def fit(self, X: Any, y: Any = None) -> KMeans:  # noqa: ARG002 - scikit-learn's signature
        """Find the centres; each call is charged the full cost."""
        values = self._read(X, reset=True)
        columns = values.shape[1]
        box, clusters, rounds, spent = self._plan(columns)
        rows = self._rows(box, values)
        centers = _first_centers(rows, _CANDIDATES * clusters, spent.of("survey"))
        for step in progress(range(rounds), type(self).__name__):
            searching = step < _SEARCHING
            centers, counts = _next_centers(rows, centers, spent.of("candidates" if searching else "clusters"))
            if step == _SEARCHING - 1:
                centers = _merged(centers, counts, clusters)
        self._corner = _corner(box, columns)
        if not box.ball:
            # Noise may move centres out of the box of the declared bounds.
            end = beside_bias(_COUNT) // self._corner
            centers = np.clip(centers, -end, end)
        self._box, self._centers, self._hidden = box, centers, int((counts == 0).sum())
        self.cluster_centers_ = box.from_unit(centers / beside_bias(_COUNT) * self._corner)
        self.n_iter_ = rounds
        self._keep(spent.price)
        return self

    def _cautions(self) -> tuple[str, ...]:
        """Return a caution if some cluster's noisy number of rows is within its noise."""
        if not self._hidden:
            return ()
        clusters = len(self._centers)
        advice = "ask for fewer clusters, a larger epsilon or more rows"
        return (f"{self._hidden} of {clusters} clusters hold no more rows than noise alone would show; {advice}",)

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        return self._plan(columns)[-1].price

    def _plan(self, columns: int) -> tuple[Box, int, int, Spent]:
        box = self._box_of(columns)
        clusters = check_count(self.n_clusters, "n_clusters", maximum=_MOST_CLUSTERS)
        rounds = check_count(self.steps, "steps", minimum=_SEARCHING + 1, maximum=10**4)
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        phases = [
            Phase("survey", UNIT**2, columns + 2, _SURVEY),
            Phase("candidates", UNIT**2, _CANDIDATES * clusters * (columns + 1), _SEARCH, _SEARCHING),
            Phase("clusters", UNIT**2, clusters * (columns + 1), 1 - _SURVEY - _SEARCH, rounds - _SEARCHING),
        ]
        return box, clusters, rounds, spend(phases, epsilon=epsilon, delta=delta, relation=as_relation(self.relation))

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit, and return the cluster index of each row of ``X``; the returned indices are not private."""
        return self.fit(X, y).predict(X)

    def _rows(self, box: Box, values: Any) -> Any:
        """Return rows in integer steps, scaled to leave room for the constant; no row within the bounds is clipped."""
        corner = FINE * _corner(box, values.shape[1])
        return scale_rows(box.to_steps(values), beside_bias(_COUNT), smallest=corner).astype(np.float64)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the index of the nearest centre of each row."""
        check_is_fitted(self, "cluster_centers_")
        return nearest(self._rows(self._box, self._read(X, reset=False)), self._centers)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the distances of each row to all centres, for values scaled from their bounds to [-1, 1]."""
        check_is_fitted(self, "cluster_centers_")
        rows = self._rows(self._box, self._read(X, reset=False))
        apart = np.linalg.norm(rows[:, None, :] - self._centers[None], axis=2)
        return cast("NDArray[np.float64]", apart / beside_bias(_COUNT) * self._corner)

    @property
    def _n_features_out(self) -> int:
        return len(self._centers)


def nearest(rows: NDArray[np.float64], centers: NDArray[np.float64]) -> Integers:
    """Return the index of each row's nearest centre on the grid, by exact arithmetic; ties go to the first."""
    # Whole floats below 2¹⁵ each: squares and products stay far below 2⁵³, so this is exact.
    squares, found = (centers * centers).sum(axis=1), np.empty(len(rows), dtype=np.int64)
    for taken in _blocks(rows, centers):
        found[taken] = (squares - 2 * (rows[taken] @ centers.T)).argmin(axis=1)
    return found


def _blocks(rows: NDArray[np.float64], centers: NDArray[np.float64]) -> Iterator[slice]:
    """Return slices of rows, small enough that memory does not grow with rows times centres."""
    size = max(_BLOCK // len(centers), 1)
    return (slice(first, first + size) for first in range(0, len(rows), size))


def _corner(box: Box, columns: int) -> int:
    return 1 if box.ball else math.isqrt(max(columns - 1, 0)) + 1


def raw_survey(rows: NDArray[np.float64]) -> Integers:
    """Return exact sums of halved rows, of squared lengths and of the constant; a row adds at most UNIT in norm.

    Halved rows have a norm below UNIT/2, scaled squared lengths are at most UNIT/2, the constant is UNIT/2.
    """
    whole = rows.astype(np.int64)
    halves = np.sign(whole) * (np.abs(whole) // 2)
    squares = (whole * whole).sum(axis=1, keepdims=True) * _SQUARE // UNIT**2
    joined = np.hstack([halves, squares, np.full((len(whole), 1), _COUNT, dtype=np.int64)]).astype(np.float64)
    return exact_product(np.ones((len(joined), 1)), joined, UNIT).ravel()


def _first_centers(rows: NDArray[np.float64], clusters: int, sigma2: Fraction) -> NDArray[np.float64]:
    noisy = release.release_gaussian(raw_survey(rows), sigma2)
    sigma = math.sqrt(float_nearest(sigma2))
    count = max(float(noisy[-1]), sigma, float(_COUNT)) / _COUNT
    mean = 2 * noisy[:-2] / count
    spread = max(float(noisy[-2]) / _SQUARE * UNIT**2 / count - float(mean @ mean), 0.0)
    width = rows.shape[1]
    # The directions are random and independent of the rows.
    drawn = DiscreteGaussian(Fraction(1 << 40)).sample_many(clusters * width).reshape(clusters, width)
    lengths = np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1.0)
    return _on_grid(mean + drawn / lengths * math.sqrt(spread))


def raw_clusters(rows: NDArray[np.float64], centers: NDArray[np.float64]) -> Integers:
    """Return exact sums and numbers of rows, one line per cluster; a row adds at most UNIT in norm, to one line."""
    total = np.zeros((len(centers), rows.shape[1] + 1), dtype=np.int64)
    for taken in _blocks(rows, centers):
        members = (nearest(rows[taken], centers)[:, None] == np.arange(len(centers))).astype(np.float64)
        total += exact_product(members, join_bias(rows[taken].astype(np.int64), _COUNT).astype(np.float64), UNIT)
    return total


def _next_centers(
    rows: NDArray[np.float64], centers: NDArray[np.float64], sigma2: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres after one noisy round, and noisy numbers of rows, zero where they are within the noise."""
    noisy = release.release_gaussian(raw_clusters(rows, centers), sigma2)
    sigma = math.sqrt(float_nearest(sigma2))
    counts = noisy[:, -1:] / _COUNT
    # A cluster whose number of rows is within the noise keeps its centre.
    least = 3 * sigma / _COUNT
    moved = noisy[:, :-1] / np.maximum(counts, max(least, 1.0))
    believed = counts > least
    return _on_grid(np.where(believed, moved, centers)), np.where(believed, counts, 0.0)[:, 0]


def _merged(centers: NDArray[np.float64], counts: NDArray[np.float64], clusters: int) -> NDArray[np.float64]:
    """Cluster the candidates, weighted by their noisy numbers of rows: post-processing of released numbers.

    The first centre is the heaviest candidate, each next one the candidate whose weight times squared distance from
    the chosen centres is largest; weighted rounds of Lloyd's algorithm follow.
    """
    # Every candidate has a positive weight, so that there are always enough of them.
    weights = counts + 1e-6 * max(float(counts.max()), 1.0)
    chosen = centers[[int(weights.argmax())]]
    apart = ((centers - chosen[0]) ** 2).sum(axis=1)
    while len(chosen) < clusters:
        chosen = np.vstack([chosen, centers[[int((weights * apart).argmax())]]])
        apart = np.minimum(apart, ((centers - chosen[-1]) ** 2).sum(axis=1))
    for _ in range(_MERGING):
        members = (nearest(centers, chosen)[:, None] == np.arange(clusters)) * weights[:, None]
        total = members.sum(axis=0)[:, None]
        chosen = np.where(total > 0, members.T @ centers / np.maximum(total, 1e-300), chosen)
    return _on_grid(chosen)


def _on_grid(centers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return centres rounded to integer steps, none longer than the longest possible row."""
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    return cast("NDArray[np.float64]", np.rint(centers * np.minimum(1.0, UNIT / np.maximum(lengths, 1.0))))
