"""Transformers under differential privacy: principal components and scalers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tacit.core.errors import InputError
from tacit.core.events import NoEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import Number, check_count, float_nearest
from tacit.core.relations import as_relation
from tacit.core.sensitivity import check_bounds
from tacit.learn.estimator import BoundedEstimator, PrivateEstimator
from tacit.learn.integer_rows import FINE, Box
from tacit.learn.moments import FeatureSums, PartialSums
from tacit.learn.release import FitPrice, Spent, check_gaussian_privacy, spend
from tacit.learn.whitening import Survey, Whitening


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BoundedEstimator):  # type: ignore[misc]
    """The directions in which rows differ most, from noisy second moments.

    Values are measured from -1 to 1 between their bounds. A noisy centre is taken off, rows that are much longer than
    most are cut (the fewer, the less noise there is), and the eigenvectors of the noisy covariance are the components.

    >>> PCA(epsilon=1, delta="1e-5", bounds=(0, 16), n_components=5).get_params()["n_components"]
    5

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the columns, one pair or one per column; or
        data_norm: a public bound on the norm of a row, instead.
        n_components: how many directions; all columns if left out.
        n: the number of rows, if public.
        relation: which tables are neighbours.

    Attributes:
        components_: one direction per line, of values measured from -1 to 1.
        mean_: the noisy mean, in the units of the data.
        explained_variance_ratio_: the share of each component.
        guarantee_, event_: what the fit promises and what it released.

    Privacy:
        (ε, δ)-DP under ``relation``: a survey (directions and lengths of rows), then one release of second moments,
        both with discrete Gaussian noise.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the survey and 2²⁸ to the second moments, rounding included.

    Error:
        directions whose share lies below the noise, about √columns·σ/rows, are noise.

    Assumes:
        bounds and n were not read off the data.

    References:
        Dwork, Talwar, Thakurta, Zhang (2014) for noisy second moments. Proof: ``moments.proof.md``.
    """

    data_norm: Number | None = None
    n_components: int | None = None
    n: int | None = None

    def fit(self, X: Any, y: Any = None) -> PCA:  # noqa: ARG002 - scikit-learn's signature
        """Find the components of the rows of ``X``; each call is charged the full cost."""
        values = self._read(X, reset=True)
        columns = values.shape[1]
        kept, box, whitening, spent = self._plan(columns)
        found = whitening.run(box.to_steps(values), spent)
        sizes, axes = np.linalg.eigh(found.matrix)
        order = np.argsort(sizes)[::-1][:kept]
        self.components_ = _with_fixed_signs(axes[:, order].T)
        positive = np.maximum(sizes, 0.0)
        self.explained_variance_ratio_ = positive[order] / max(float(positive.sum()), 1e-12)
        self._center, self._box = found.center, box
        self.mean_ = np.broadcast_to(box.from_unit(self._center), (columns,)).copy()
        self.n_components_ = kept
        self._n_features_out = kept
        self._keep(spent.price)
        return self

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        return self._plan(columns)[-1].price

    def _plan(self, columns: int) -> tuple[int, Box, Whitening, Spent]:
        kept = columns if self.n_components is None else check_count(self.n_components, "n_components")
        if kept > columns:
            raise InputError("n_components", f"must be at most {columns}, the number of columns")
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        box = self._box_of(columns)
        survey = Survey(columns, box.ball, None if self.n is None else check_count(self.n, "n"))
        whitening = Whitening(survey, final=True)
        spent = spend(whitening.phases(), epsilon=epsilon, delta=delta, relation=as_relation(self.relation))
        return kept, box, whitening, spent

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the coordinates of rows along the components, for values clipped and scaled from bounds to [-1, 1]."""
        check_is_fitted(self, "components_")
        scaled = self._box.to_steps(self._read(X, reset=False)) / FINE
        return (scaled - self._center) @ self.components_.T

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return rows in the units of the data, given coordinates along the components."""
        check_is_fitted(self, "components_")
        return self._box.from_unit(np.asarray(X, dtype=np.float64) @ self.components_ + self._center)


def _with_fixed_signs(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the components with signs flipped so that the largest entry of each is positive."""
    largest = components[np.arange(len(components)), np.abs(components).argmax(axis=1)]
    return components * np.where(largest < 0, -1.0, 1.0)[:, None]


class MinMaxScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Values between their declared bounds, mapped to a range; reads no data and costs nothing.

    >>> MinMaxScaler(bounds=(0, 10)).fit_transform([[5.0], [12.0]]).tolist()
    [[0.5], [1.0]]

    Args:
        bounds: public bounds of the columns, one pair or one per column.
        feature_range: what they are mapped to.

    Privacy:
        0-DP: the fit depends on the number of columns and on the declared bounds only.

    Sensitivity:
        zero.

    Error:
        none. NaN and infinities become the midpoint, values outside the bounds are clipped.

    Assumes:
        bounds were not read off the data.

    References:
        none needed.
    """

    bounds: Any = None
    feature_range: tuple[Number, Number] = (0, 1)

    def fit(self, X: Any, y: Any = None) -> MinMaxScaler:  # noqa: ARG002 - scikit-learn's signature
        """Store the number and names of columns; the values of the rows are ignored."""
        values = self._read(X, reset=True)
        self._keep(self.price(values.shape[1]))
        box = self._stated_box()
        low, high = check_bounds(self.feature_range, "feature_range")
        self._box, self._range = box, (float_nearest(low), float_nearest(high))
        self.data_min_ = np.broadcast_to(box.middle - box.half_width, (values.shape[1],)).copy()
        self.data_max_ = np.broadcast_to(box.middle + box.half_width, (values.shape[1],)).copy()
        return self

    def price(self, columns: int) -> FitPrice:
        """Return a cost of zero: the bounds are public, and no data is released."""
        self._box_of(columns)
        low, high = check_bounds(self.feature_range, "feature_range")
        if low == high:
            raise InputError("feature_range", "must leave room between its ends")
        return FitPrice(PureDP(0), NoEvent())

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the clipped values, mapped to ``feature_range``."""
        check_is_fitted(self, "guarantee_")
        low, high = self._range
        share = (self._box.to_steps(self._read(X, reset=False)) / FINE + 1) / 2
        return low + share * (high - low)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return the values in the units of the data."""
        check_is_fitted(self, "guarantee_")
        low, high = self._range
        return self._box.from_unit(2 * (np.asarray(X, dtype=np.float64) - low) / (high - low) - 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


class StandardScaler(OneToOneFeatureMixin, TransformerMixin, PartialSums):  # type: ignore[misc]
    """Values minus a noisy mean, over a noisy standard deviation; one billed release.

    >>> StandardScaler(epsilon="0.5", delta="1e-6", bounds=(0, 10)).get_params()["epsilon"]
    '0.5'

    Args:
        epsilon: of the guarantee.
        delta: likewise.
        bounds: public bounds of the columns, one pair or one per column.
        relation: which tables are neighbours.

    Attributes:
        mean_, var_, scale_: in the units of the data.
        guarantee_, event_: what the fit promises and what it released; after several calls of ``partial_fit`` their
            composition, and ``call_guarantee_`` for persons whose rows are in one call.

    Privacy:
        (ε, δ)-DP under ``relation``: one release of the number of rows, the sums and the sums of squares of columns.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴, rounding included.

    Error:
        a mean is off by about σ·√columns/rows half widths. NaN and infinities count as the midpoint, values outside
        the bounds are clipped. A standard deviation is never taken below a thousandth of a half width.

    Assumes:
        bounds were not read off the data.

    References:
        Dwork, McSherry, Nissim, Smith (2006). Proof: ``moments.proof.md``.
    """

    def fit(self, X: Any, y: Any = None) -> StandardScaler:  # noqa: ARG002 - scikit-learn's signature
        """Estimate means and variances; each call is charged the full cost."""
        return self._take(X, fresh=True)

    def partial_fit(self, X: Any, y: Any = None) -> StandardScaler:  # noqa: ARG002 - scikit-learn's signature
        """Add more rows; each call is charged the full cost of the estimator; see :meth:`GaussianNB.partial_fit`."""
        return self._take(X, fresh=False)

    def _take(self, X: Any, *, fresh: bool) -> StandardScaler:
        if fresh:
            self._forget()
        values = self._read(X, reset=not hasattr(self, "_paid"), learning=True)
        sums, spent = self._plan(values.shape[1])
        if not fresh:
            self._check_continued(sums, as_relation(self.relation))
        places = np.zeros(len(values), dtype=np.int64)
        noisy, sigma2 = self._added(sums, sums.release(values, places, spent.sigma2[0]), spent, fresh=fresh)
        _, means, variances = sums.estimates(noisy, sigma2)
        box = sums.box
        self.mean_ = np.broadcast_to(box.from_unit(means[0]), (values.shape[1],)).copy()
        self.var_ = variances[0] * box.half_width**2
        self.scale_ = np.sqrt(np.maximum(variances[0], 1e-6)) * box.half_width
        return self

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        return self._plan(columns)[1].price

    def _plan(self, columns: int) -> tuple[FeatureSums, Spent]:
        box = self._box_of(columns)
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        sums = FeatureSums(box, columns)
        return sums, spend([sums.phase()], epsilon=epsilon, delta=delta, relation=as_relation(self.relation))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the clipped values, minus the noisy mean, over the noisy standard deviation."""
        check_is_fitted(self, "mean_")
        clipped = self._box.from_unit(self._box.to_steps(self._read(X, reset=False)) / FINE)
        return cast("NDArray[np.float64]", (clipped - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return the values in the units of the data."""
        check_is_fitted(self, "mean_")
        return cast("NDArray[np.float64]", np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_)
