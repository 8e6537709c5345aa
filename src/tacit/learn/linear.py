"""Linear classifiers: logistic regression and support vectors, by noisy gradients, output or objective perturbation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability, float_nearest
from tacit.core.relations import as_relation
from tacit.learn.estimator import NOISE_RULES, ProbabilityClassifier, ScoringClassifier, Weighted
from tacit.learn.gradient import rate_on_grid
from tacit.learn.integer_rows import Integers
from tacit.learn.losses import (
    HuberHinge,
    Logistic,
    Loss,
    SmoothHinge,
    SmoothLogistic,
    SmoothLoss,
    SmoothSoftmax,
    Softmax,
)
from tacit.learn.release import FitPrice, check_privacy
from tacit.learn.training import (
    Data,
    GradientFit,
    Privacy,
    TrainingPlan,
    check_clip,
    plan_gradient,
    plan_objective,
    plan_output,
    steps_for,
)
from tacit.learn.whitening import Survey, Whitening

#: Default number of noisy gradients of a fit on all rows.
STEPS: Final = 40


class LinearClassifier(ScoringClassifier, Weighted):
    """Base class of linear classifiers; :class:`~tacit.learn.linear.LogisticRegression` documents the arguments."""

    #: Training methods of this model; "auto" means the first one if there is a δ.
    _METHODS: ClassVar[tuple[str, ...]] = ("gradient", "output", "objective")

    data_norm: Number | None = None
    n: int | None = None
    method: str = "auto"
    steps: int | None = None
    clip: Number | None = None
    batch_rate: Number | None = None
    standardize: bool = True
    regularization: Number | None = None
    categories: Mapping[Any, Any] | None = None
    class_weight: Mapping[Any, Number] | None = None

    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearClassifier:
        """Train on rows ``X`` with labels ``y``; each call is charged the full cost.

        Rows whose label is none of the classes are ignored silently. Values of ``sample_weight`` above ``max_weight``
        count as ``max_weight``.
        """
        method = self._chosen_method()
        values = self._read(X, reset=True)
        box = self._box_of(values.shape[1])
        places, privacy, chosen = self._read_classes(values, y, check_privacy(self.epsilon, self.delta))
        shares = self._row_shares(sample_weight, places, self.classes_)
        self._check_weighted(method, shares is not None)
        plan = self._plan(method, values.shape[1], len(self.classes_), privacy)
        kept = places >= 0
        targets = self._targets(places[kept])
        self._learn(plan, Data(values[kept], targets, box, None if shares is None else shares[kept]))
        if chosen is not None:
            self._add_discovery(chosen)
        return self

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        method = self._chosen_method()
        columns = self._width(columns)
        classes, privacy = self._declared_classes(), check_privacy(self.epsilon, self.delta)
        self._check_weights(classes)
        self._check_weighted(method, self._class_shares(classes) is not None)
        return self._plan(method, columns, len(classes), privacy).price

    def _check_weighted(self, method: str, weighted: bool) -> None:
        if not weighted:
            return
        if method != "gradient":
            raise InputError("method", "must be 'gradient' where rows or classes have weights")
        if self.n is not None:
            raise InputError("n", "must be left out where rows or classes have weights: it counts each row as one")

    def _targets(self, places: Integers) -> Integers:
        """Return the targets of the loss in one column: class indices."""
        return places[:, None]

    @abstractmethod
    def _loss(self, classes: int) -> Loss:
        """Return the loss of the gradient method."""

    def _chosen_method(self) -> str:
        if self.method == "auto":
            # Without a δ only output perturbation with Laplace noise is possible.
            return "output" if self.delta is None and "output" in self._METHODS else self._METHODS[0]
        if self.method not in self._METHODS:
            choices = ", ".join(repr(name) for name in ("auto", *self._METHODS))
            raise InputError("method", f"must be one of {choices} for {type(self).__name__}, got {self.method!r}")
        return self.method

    @abstractmethod
    def _smooth_loss(self, classes: int) -> SmoothLoss:
        """Return the loss for the methods that compute its minimiser (output and objective perturbation)."""

    def _plan(self, method: str, columns: int, classes: int, privacy: tuple[Fraction, Fraction | None]) -> TrainingPlan:
        """Return the plan of training by this method."""
        epsilon, delta = privacy
        relation = as_relation(self.relation)
        rows = None if self.n is None else check_count(self.n, "n")
        given = None if self.regularization is None else exact_positive(self.regularization, "regularization")
        if method == "output":
            loss = self._smooth_loss(classes)
            return plan_output(columns, loss, regularization=given, epsilon=epsilon, relation=relation)
        if delta is None:
            raise InputError("delta", f"must be given for method={method!r}; write for example delta='1e-6'")
        whole = Privacy(epsilon, delta, relation)
        if method == "gradient":
            whitening = Whitening(Survey(columns, self.data_norm is not None, rows)) if self.standardize else None
            rate = self._rate()
            fit = GradientFit(
                self._loss(classes),
                columns,
                1 if classes == 2 else classes,
                clip=check_clip(self.clip),
                steps=check_count(steps_for(self.steps, STEPS, rate), "steps", maximum=10**6),
                rate=rate,
                regularization=1.0 if given is None else float_nearest(given),
                title=type(self).__name__,
                whitened=whitening is not None,
            )
            return plan_gradient(fit, whitening=whitening, rows=rows, privacy=whole)
        return plan_objective(columns, self._smooth_loss(classes), regularization=given, rows=rows, privacy=whole)

    def _rate(self) -> Fraction:
        """Return the Poisson sampling rate, rounded to the grid of rates that can be sampled exactly."""
        if self.batch_rate is None:
            return Fraction(1)
        return rate_on_grid(exact_probability(self.batch_rate, "batch_rate", one=True))

    def _learn(self, plan: TrainingPlan, data: Data) -> None:
        """Train by the plan; set the model's attributes and its guarantee."""
        self._model, self._box = plan.train(data), data.box
        if self._model.rows is None:
            slopes = self._model.slopes / np.broadcast_to(data.box.half_width, len(self._model.slopes))[:, None]
            self.coef_ = slopes.T.copy()
            self.intercept_ = self._model.constants - np.broadcast_to(data.box.middle, len(slopes)) @ slopes
        else:
            self.coef_, self.intercept_ = self._model.slopes.T.copy(), self._model.constants.copy()
        self.n_iter_ = plan.steps
        self._keep(plan.price)

    def _cautions(self) -> tuple[str, ...]:
        """Return a caution if the slopes are mostly noise."""
        return (NOISE_RULES,) if self._model.hidden else ()

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "coef_")
        return self._model.logits(self._box, self._read(X, reset=False))


class LogisticRegression(ProbabilityClassifier, LinearClassifier):
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
        n: the number of rows, if that is public; otherwise a noisy count is paid for by ``"gradient"``, and
            ``"objective"`` does not shrink what noise explains.
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


class LinearSVC(LinearClassifier):
    """A linear support vector classifier with a smoothed hinge, one class against the rest for more than two.

    >>> model = LinearSVC(epsilon=1, delta="1e-5", bounds=(0, 16), classes=range(10))
    >>> model.get_params()["epsilon"]
    1

    Its arguments are those of :class:`~tacit.learn.linear.LogisticRegression`.

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
        """Return targets of ±1: one column for two classes, otherwise one per class."""
        count = len(self.classes_)
        if count == 2:
            return 2 * places[:, None] - 1
        return np.where(places[:, None] == np.arange(count), 1, -1)
