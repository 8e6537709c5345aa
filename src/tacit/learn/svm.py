"""A linear support vector classifier under differential privacy."""

from __future__ import annotations

import numpy as np

from tacit.learn.integer_rows import Integers
from tacit.learn.linear import LinearClassifier
from tacit.learn.losses import HuberHinge, Loss
from tacit.learn.smooth_losses import SmoothHinge, SmoothLoss


class LinearSVC(LinearClassifier):
    """A linear support vector classifier with a smoothed hinge, one class against the rest for more than two.

    >>> model = LinearSVC(epsilon=1, delta="1e-5", bounds=(0, 16), classes=range(10))
    >>> model.get_params()["epsilon"]
    1

    Its arguments are those of :class:`~tacit.learn.logistic.LogisticRegression`.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model, by the same releases as logistic regression.

    Sensitivity:
        as there; the rounded hinge has slopes of at most 1, and second derivatives of at most 1. With k > 2 classes a
        row's k slopes are clipped together, so classes cost nothing extra.

    Error:
        as there.

    Assumes:
        bounds, classes and n were not read off the data.

    References:
        Chaudhuri, Monteleoni, Sarwate (2011) for the smoothed hinge. Proofs: ``gradient.proof.md``,
        ``output_perturbation.proof.md``, ``objective_perturbation.proof.md``.
    """

    def _loss(self, classes: int) -> Loss:  # noqa: ARG002 - one hinge for any number of classes
        return HuberHinge()

    def _smooth_loss(self, classes: int) -> SmoothLoss:
        return SmoothHinge(1 if classes == 2 else classes)

    def _targets(self, places: Integers) -> Integers:
        """±1: one column for two classes, else one per class."""
        count = len(self.classes_)
        if count == 2:
            return 2 * places[:, None] - 1
        return np.where(places[:, None] == np.arange(count), 1, -1)
