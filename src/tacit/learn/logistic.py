"""Logistic regression under differential privacy."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.learn.linear import LinearClassifier
from tacit.learn.losses import Logistic, Loss, Softmax
from tacit.learn.smooth_losses import SmoothLogistic, SmoothLoss, SmoothSoftmax


class LogisticRegression(LinearClassifier):
    """Logistic regression, binary or multinomial, with the guarantee in its constructor.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(epsilon=5, delta="1e-4", bounds=[(4, 8), (2, 5), (1, 7), (0, 3)], classes=[0, 1, 2])
    >>> model.fit(X, y).guarantee_.epsilon <= 5
    True

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise; ``method="output"`` alone needs none, and spends none.
        bounds: public bounds of the features: one pair, a list with one per column, or pairs by column name; or
        data_norm: a public bound on the norm of a row, instead.
        classes: the public labels, or ``"discover"`` to have them chosen privately for a fifth of the privacy.
        n: the number of rows, if that is public; otherwise a noisy count is paid for.
        method: ``"gradient"`` puts noise into every gradient, ``"output"`` onto the minimiser, ``"objective"`` (for two
            classes) into the objective; ``"auto"`` is the first, or the second where there is no ``delta``.
        steps: how many noisy gradients; 40, or more with ``batch_rate``.
        clip: radius beyond which a row's gradient is cut, in typical lengths; chosen from noisy counts if left out.
        batch_rate: take gradients on secret Poisson samples of this rate instead of on all rows.
        standardize: whether rows are centred and whitened first, by noisy sums and second moments that the fit pays
            for; for gradients alone.
        regularization: Λ of ½Λ‖w‖² beside the *sum* of the losses, with w of standardised columns; 1 for gradients, as
            in scikit-learn, and by default as the noise asks for with the other methods.
        categories: by name or place of a column, its public categories (a list, which becomes one column each), or the
            number of groups into which its values are hashed; bounds are those of the other columns.
        class_weight: public weights by class; a row counts as much as its class, beside the heaviest.
        max_weight: the largest ``sample_weight`` that ``fit`` takes; larger ones count as this.
        relation: which tables are neighbours.

    Attributes:
        coef_, intercept_: of raw values, clipped to their bounds; for ``"output"`` and ``"objective"`` of rows that are
            brought to one length.
        classes_: the labels, sorted.
        guarantee_, event_: what the fit promises and what it released; :meth:`privacy_report` puts it in words.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model (ε-DP by ``"output"``), where

        * gradient: a survey (directions and lengths of the rows), second moments, then ``steps`` sums of clipped
          gradients, each with discrete Gaussian noise, on all rows or on fresh Poisson samples, accounted by the
          privacy loss distribution;
        * output: the minimiser on a grid, with discrete Laplace noise;
        * objective: the minimiser of a randomly tilted objective, and a last noise that hides solver and grid;
        * one row is one person.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the survey, 2²⁸ to the moments and 2²⁷ to a gradient, rounding
        included; it moves the minimiser by at most L/Λ, to which the solver's certified gap and rounding are added.
        Twice that for replace-one.

    Error:
        test error is what it is; ``tacit.learn.rows_needed`` plans, and ``docs/learning.md`` has measurements.

    Assumes:
        bounds, classes and n were not read off the data.

    References:
        Bassily, Smith, Thakurta (2014) for noisy gradients; Abadi et al. (2016) for clipping; Chaudhuri, Monteleoni,
        Sarwate (2011) for output and objective perturbation; Kifer, Smith, Thakurta (2012) and Iyengar et al. (2019)
        for the latter as it is done here. Proofs: ``gradient.proof.md``,
        ``output_perturbation.proof.md``, ``objective_perturbation.proof.md``.
    """

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Softmax()

    def _smooth_loss(self, classes: int) -> SmoothLoss:
        return SmoothLogistic(1) if classes == 2 else SmoothSoftmax(classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of ``classes_``."""
        logits = self._logits(X)
        if logits.shape[1] == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return cast("NDArray[np.float64]", weights / weights.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The logarithm of :meth:`predict_proba`."""
        return cast("NDArray[np.float64]", np.log(self.predict_proba(X)))
