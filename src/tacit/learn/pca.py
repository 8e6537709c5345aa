"""Principal components under differential privacy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count
from tacit.core.relations import Relation, as_relation
from tacit.learn.budget_allocation import FitPrice, Spent, check_gaussian_privacy, spend
from tacit.learn.estimator import PrivateEstimator
from tacit.learn.feature_map import Survey
from tacit.learn.integer_rows import FINE, Box
from tacit.learn.sklearn_compat import ClassNamePrefixFeaturesOutMixin, TransformerMixin, check_is_fitted
from tacit.learn.whitening import Whitening


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
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

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        data_norm: Number | None = None,
        n_components: int | None = None,
        n: int | None = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.n_components = n_components
        self.n = n
        self.relation = relation

    def fit(self, X: Any, y: Any = None) -> PCA:  # noqa: ARG002 - scikit-learn's signature
        """Find the components of the rows of ``X``, once; another fit costs the guarantee again."""
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
        """The coordinates of rows along the components; values are clipped to the bounds and measured from -1 to 1."""
        check_is_fitted(self, "components_")
        scaled = self._box.to_steps(self._read(X, reset=False)) / FINE
        return (scaled - self._center) @ self.components_.T

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Rows in the units of the data from coordinates along the components."""
        check_is_fitted(self, "components_")
        return self._box.from_unit(np.asarray(X, dtype=np.float64) @ self.components_ + self._center)


def _with_fixed_signs(components: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest entry of every component positive, so that signs mean nothing."""
    largest = components[np.arange(len(components)), np.abs(components).argmax(axis=1)]
    return components * np.where(largest < 0, -1.0, 1.0)[:, None]
