"""Gaussian naive Bayes under differential privacy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.core.errors import InputError
from tacit.core.relations import as_relation
from tacit.learn.estimator import NOISE_RULES, ProbabilityClassifier
from tacit.learn.integer_rows import FINE
from tacit.learn.moments import FeatureSums, PartialSums
from tacit.learn.reading import check_classes
from tacit.learn.release import FitPrice, Spent, check_gaussian_privacy, check_privacy, spend


class GaussianNB(ProbabilityClassifier, PartialSums):
    """Naive Bayes with normal features, from one release of counts, sums and sums of squares per class.

    >>> GaussianNB(epsilon=1, delta="1e-5", bounds=(0, 16), classes=range(10)).get_params()["epsilon"]
    1

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the columns, one pair or one per column.
        classes: the public labels, or ``"discover"`` to have them chosen privately for a fifth of the privacy.
        relation: which tables are neighbours.

    Attributes:
        class_prior_, theta_, var_: shares of the classes, means and variances; the latter two of values measured from
            -1 to 1 between their bounds.
        guarantee_, event_: what the fit promises and what it released; after several calls of ``partial_fit`` their
            composition, and ``call_guarantee_`` for persons whose rows are in one call.

    Privacy:
        (ε, δ)-DP under ``relation``: one release with discrete Gaussian noise, in each call.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the sums of its class, rounding included, and nothing to others.

    Error:
        a class mean is off by about σ·√columns/rows half widths, and is pulled to the mean of all as far as it may be
        noise.

    Assumes:
        bounds and classes were not read off the data.

    References:
        Vaidya, Shafiq, Basu, Hong (2013). Proof: ``moments.proof.md``.
    """

    def fit(self, X: Any, y: Any) -> GaussianNB:
        """Estimate priors, means and variances of the classes; each call is charged the full cost."""
        return self._take(X, y, fresh=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> GaussianNB:
        """Add more rows; each call is charged the full cost of the estimator.

        The model is that of all rows so far. ``guarantee_`` is the composition of all calls, for a person with a row in
        each; ``call_guarantee_`` holds where each person's rows are in one call. ``price_of_calls`` states the cost.

        Args:
            X: rows of this call.
            y: labels of these rows.
            classes: public labels, required in the first call if the estimator does not list them.
        """
        known = self.classes_ if hasattr(self, "_paid") else None
        if known is None:
            known = self._declared_classes() if classes is None else check_classes(classes)
        declared = [each for each in (classes, self.classes) if each is not None and not isinstance(each, str)]
        if any(check_classes(each).tolist() != known.tolist() for each in declared):
            raise InputError("classes", "must stay as they are from call to call; call fit to begin anew")
        return self._take(X, y, known, fresh=False)

    def _take(self, X: Any, y: Any, known: NDArray[Any] | None = None, *, fresh: bool) -> GaussianNB:
        if fresh:
            self._forget()
        values = self._read(X, reset=not hasattr(self, "_paid"), learning=True)
        box = self._box_of(values.shape[1])
        if not fresh:
            self._check_continued(FeatureSums(box, values.shape[1]), as_relation(self.relation))
        places, privacy, chosen = self._read_classes(values, y, check_privacy(self.epsilon, self.delta), known)
        sums = FeatureSums(box, values.shape[1], len(self.classes_))
        spent = self._spent(sums, *check_gaussian_privacy(*privacy))
        noisy, sigma2 = self._added(sums, sums.release(values, places, spent.sigma2[0]), spent, fresh=fresh)
        if chosen is not None:
            self._add_discovery(chosen)
            # Later calls are composed with this one, including its selection of classes.
            self._paid, self.call_guarantee_ = (self.event_,), self.guarantee_
        counts, means, variances = sums.estimates(noisy, sigma2)
        shares = counts / counts.sum()
        overall = shares @ means
        noise = (sums.sum_noise(sigma2) / counts)[:, None] ** 2
        # James-Stein: shrink each class mean towards the overall mean by the noise in their distance.
        apart = means - overall
        believed = np.maximum(1 - noise / np.maximum((apart**2).mean(axis=1, keepdims=True), 1e-12), 0)
        self.theta_, self._hidden = overall + apart * believed, bool((believed < 0.5).all())
        pooled = shares @ variances
        trust = variances.mean(axis=1, keepdims=True) / (variances.mean(axis=1, keepdims=True) + np.sqrt(noise) + 1e-12)
        self.var_ = np.maximum(trust * variances + (1 - trust) * pooled, 0.01) + noise
        self.class_prior_ = shares
        return self

    def _cautions(self) -> tuple[str, ...]:
        """Return a caution if the class means are no further apart than noise alone would move them."""
        return (NOISE_RULES,) if self._hidden else ()

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        box = self._box_of(columns)
        sums = FeatureSums(box, columns, len(self._declared_classes()))
        return self._spent(sums, *check_gaussian_privacy(self.epsilon, self.delta)).price

    def _spent(self, sums: FeatureSums, epsilon: Fraction, delta: Fraction) -> Spent:
        return spend([sums.phase()], epsilon=epsilon, delta=delta, relation=as_relation(self.relation))

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "theta_")
        scaled = (self._box.to_steps(self._read(X, reset=False)) / FINE)[:, None, :]
        logs = -0.5 * ((scaled - self.theta_) ** 2 / self.var_ + np.log(self.var_)).sum(axis=2)
        return cast("NDArray[np.float64]", logs + np.log(self.class_prior_))
