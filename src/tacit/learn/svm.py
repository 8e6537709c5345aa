"""A linear support vector classifier under differential privacy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tacit.core.numbers import Number
from tacit.core.relations import Relation
from tacit.learn.linear import LinearClassifier
from tacit.learn.losses import HuberHinge, Loss
from tacit.learn.rows import Integers
from tacit.learn.smooth import SmoothHinge, SmoothLoss

__all__ = ["LinearSVC"]


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
        ``output.proof.md``, ``objective.proof.md``.
    """

    _METHODS = ("gradient", "output", "objective")

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        data_norm: Number | None = None,
        classes: Iterable[Any] | None = None,
        n: int | None = None,
        method: str = "auto",
        steps: int | None = None,
        clip: Number = "0.5",
        batch_rate: Number | None = None,
        center: bool = True,
        normalize: bool = True,
        regularization: Number | None = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.classes = classes
        self.n = n
        self.method = method
        self.steps = steps
        self.clip = clip
        self.batch_rate = batch_rate
        self.center = center
        self.normalize = normalize
        self.regularization = regularization
        self.relation = relation

    @property
    def _loss(self) -> Loss:
        return HuberHinge()

    @property
    def _smooth_loss(self) -> SmoothLoss:
        return SmoothHinge(1 if len(self.classes_) == 2 else len(self.classes_))

    def _targets(self, places: Integers) -> tuple[Integers, int]:
        """±1: one column for two classes, else one per class."""
        count = len(self.classes_)
        if count == 2:
            return 2 * places[:, None] - 1, 1
        return np.where(places[:, None] == np.arange(count), 1, -1), count
