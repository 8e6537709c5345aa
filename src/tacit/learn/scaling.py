"""Scalers: from declared bounds for nothing, or from noisy means and variances at a price."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import NoEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import Number, float_nearest
from tacit.core.relations import Relation, as_relation
from tacit.core.sensitivity import check_bounds
from tacit.learn.budget_allocation import FitPrice, Spent, check_gaussian_privacy, spend
from tacit.learn.estimator import PrivateEstimator
from tacit.learn.integer_rows import FINE
from tacit.learn.moments import FeatureSums
from tacit.learn.partial_sums import PartialSums
from tacit.learn.sklearn_compat import OneToOneFeatureMixin, TransformerMixin, check_is_fitted


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

    def __init__(self, *, bounds: Any = None, feature_range: tuple[Number, Number] = (0, 1)) -> None:
        self.bounds = bounds
        self.feature_range = feature_range

    def fit(self, X: Any, y: Any = None) -> MinMaxScaler:  # noqa: ARG002 - scikit-learn's signature
        """Take note of the columns; the rows are not looked at."""
        values = self._read(X, reset=True)
        self._keep(self.price(values.shape[1]))
        box = self._stated_box()
        low, high = check_bounds(self.feature_range, "feature_range")
        self._box, self._range = box, (float_nearest(low), float_nearest(high))
        self.data_min_ = np.broadcast_to(box.middle - box.half_width, (values.shape[1],)).copy()
        self.data_max_ = np.broadcast_to(box.middle + box.half_width, (values.shape[1],)).copy()
        return self

    def price(self, columns: int) -> FitPrice:
        """Price of zero: bounds are public, and no data is released."""
        self._box_of(columns)
        low, high = check_bounds(self.feature_range, "feature_range")
        if low == high:
            raise InputError("feature_range", "must leave room between its ends")
        return FitPrice(PureDP(0), NoEvent())

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Clipped values, on the range."""
        check_is_fitted(self, "guarantee_")
        low, high = self._range
        share = (self._box.to_steps(self._read(X, reset=False)) / FINE + 1) / 2
        return low + share * (high - low)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Values in the units of the data."""
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

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.relation = relation

    def fit(self, X: Any, y: Any = None) -> StandardScaler:  # noqa: ARG002 - scikit-learn's signature
        """Estimate means and variances, once; another fit costs the guarantee again."""
        return self._take(X, fresh=True)

    def partial_fit(self, X: Any, y: Any = None) -> StandardScaler:  # noqa: ARG002 - scikit-learn's signature
        """Take in more rows, for the whole price of the estimator once more; see :meth:`GaussianNB.partial_fit`."""
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
        """Clipped values, standardised."""
        check_is_fitted(self, "mean_")
        clipped = self._box.from_unit(self._box.to_steps(self._read(X, reset=False)) / FINE)
        return cast("NDArray[np.float64]", (clipped - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Values in the units of the data."""
        check_is_fitted(self, "mean_")
        return cast("NDArray[np.float64]", np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_)
