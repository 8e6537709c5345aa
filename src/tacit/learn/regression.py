"""Least squares under differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_nonnegative,
    exact_probability,
    float_nearest,
)
from tacit.core.relations import Relation, as_relation
from tacit.learn.budget_allocation import FitPrice, Spent, check_gaussian_privacy, spend
from tacit.learn.estimator import BoundedTarget
from tacit.learn.feature_map import Survey
from tacit.learn.gradient import rate_on_grid
from tacit.learn.integer_rows import FINE, Box, Integers
from tacit.learn.losses import GRID, Loss, Squared
from tacit.learn.partial_sums import PartialCalls
from tacit.learn.sklearn_compat import RegressorMixin, available_if, check_is_fitted
from tacit.learn.training import GradientFit, Preparing, Privacy, check_clip, steps_for
from tacit.learn.weights import Weighted
from tacit.learn.whitening import Covariance, Whitening

#: Default number of noisy gradients.
_STEPS: Final = 40
#: Bits that the integer factor of a target may have.
_TARGET_BITS: Final = 30


class LinearPredictor(RegressorMixin, Weighted, BoundedTarget, PartialCalls):  # type: ignore[misc]
    """Base of linear models of a number."""

    epsilon: Number
    delta: Number | None
    bounds: Any
    data_norm: Number | None
    n: int | None
    method: str
    steps: int | None
    clip: Number | None
    batch_rate: Number | None
    categories: Mapping[Any, Any] | None
    relation: Relation | str

    coef_: NDArray[np.float64]
    intercept_: float

    _box: Box
    _target_bounds: Box
    _moments: Covariance

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearPredictor:
        """Train on rows ``X`` with targets ``y``, once; another fit costs the guarantee again.

        ``sample_weight`` counts up to ``max_weight``.
        """
        return self._take(X, y, sample_weight, fresh=True)

    @available_if(lambda self: self._from_moments)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearPredictor:
        """Take in more rows, for the whole price of the estimator once more; only where moments alone are released.

        The line is that of all rows so far, from the moments of all calls; :meth:`GaussianNB.partial_fit` says what
        ``guarantee_`` and ``call_guarantee_`` mean then.
        """
        if self.n is not None:
            raise InputError("n", "must be left out in partial_fit: rows come in several calls")
        return self._take(X, y, sample_weight, fresh=False)

    def _take(self, X: Any, y: Any, sample_weight: Any, *, fresh: bool) -> LinearPredictor:
        self._check_method()
        if fresh:
            self._forget()
        continued = not fresh and self._is_continued()
        values = self._read(X, reset=not continued, learning=True)
        if continued:
            if len(self._moments.center) != values.shape[1] + 1:
                raise InputError("X", "must have as many columns as in the calls before; call fit to begin anew")
            self._check_same_terms(
                self._boxes(values.shape[1]), (self._box, self._target_bounds), as_relation(self.relation)
            )
        self._check_target(y)
        columns = values.shape[1]
        box, target_box = self._boxes(columns)
        joint = self._joint_steps(values, y, box, target_box)
        shares = self._shares(sample_weight, len(values))
        self._check_counted(shares is not None)
        preparing, gradients = self._plan(columns)
        return self._learn(joint, box, target_box, preparing, gradients, shares, fresh=not continued)

    def check_weighed(self) -> None:
        """See :meth:`Weighted.check_weighed`."""
        super().check_weighed()
        self._check_counted(True)

    def _check_counted(self, weighted: bool) -> None:
        if weighted and self.n is not None:
            raise InputError("n", "must be left out where rows have weights: it counts each row as one")

    def _learn(
        self,
        joint: Integers,
        box: Box,
        target_box: Box,
        preparing: Spent,
        gradients: GradientFit | None,
        shares: Integers | None,
        *,
        fresh: bool,
    ) -> LinearPredictor:
        """From rows in steps of their bounds to a line, the target last."""
        whitening = Whitening(Survey(joint.shape[1], False, self._rows()), final=gradients is None)
        found = whitening.run(joint, preparing, shares)
        if gradients is None:
            # The account before the moments: what is interrupted here was paid for.
            first = self._count_call(preparing.price, fresh=fresh)
            self._moments = found = found if first else self._moments.pooled(found)
            self.alpha_ = chosen_alpha(found) if self._auto else self._alpha()
            found_line = solve(found, self.alpha_)
        else:
            found_line = self._by_gradient(gradients, joint, found, preparing.of("gradient"), shares)
            self._keep(preparing.price)
        self._box, self._target_bounds = box, target_box
        self._keep_line(*found_line)
        return self

    def _by_gradient(
        self,
        fit: GradientFit,
        joint: Integers,
        found: Covariance,
        sigma2: Fraction,
        shares: Integers | None,
    ) -> tuple[NDArray[np.float64], float]:
        """Slopes and constant of a target measured from -1 to 1."""
        return by_gradient(fit, joint, found, sigma2, shares)

    def _keep_line(self, scaled: NDArray[np.float64], constant: float) -> None:
        """The model of raw values, of slopes and a constant for features and target between -1 and 1."""
        height, middle = float(self._target_bounds.half_width[0]), float(self._target_bounds.middle[0])
        self.coef_ = scaled / self._box.half_width * height
        self.intercept_ = float(middle + height * constant - np.sum(self.coef_ * self._box.middle))

    def _loss(self) -> Loss:
        return Squared()

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        self._check_method()
        columns = self._width(columns)
        self._target_box()
        self._check_weights()
        return self._plan(columns)[0].price

    def _check_method(self) -> None:
        if self.method not in ("auto", "statistics", "gradient"):
            raise InputError("method", f"must be 'auto', 'statistics' or 'gradient', got {self.method!r}")

    def _alpha(self) -> float:
        return 0.0

    @property
    def _auto(self) -> bool:
        """Whether a penalty is chosen from noisy moments."""
        return False

    @property
    def _from_moments(self) -> bool:
        """Whether second moments are all that a fit releases."""
        return self.method == "statistics" or self._auto

    def _rows(self) -> int | None:
        return None if self.n is None else check_count(self.n, "n")

    def _plan(self, columns: int) -> tuple[Spent, GradientFit | None]:
        """The releases of a fit: a survey and second moments, then perhaps noisy gradients."""
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        relation, survey = as_relation(self.relation), Survey(columns + 1, False, self._rows())
        alpha = self._alpha()
        if self._from_moments:
            phases = Whitening(survey, final=True).phases()
            return spend(phases, epsilon=epsilon, delta=delta, relation=relation), None
        rate = Fraction(1)
        if self.batch_rate is not None:
            rate = rate_on_grid(exact_probability(self.batch_rate, "batch_rate", one=True))
        steps = check_count(steps_for(self.steps, _STEPS, rate), "steps", maximum=10**6)
        clip = check_clip(self.clip)
        fit = GradientFit(self._loss(), columns, 1, clip, steps, rate, alpha, type(self).__name__, standardized=False)
        whole = Privacy(epsilon, delta, relation)
        return Preparing.plan(Whitening(survey), self._rows(), fit.phase, whole).spent, fit

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions for rows clipped to the bounds, themselves clipped to the bounds of the target."""
        check_is_fitted(self, "coef_")
        steps = self._box.to_steps(self._read(X, reset=False))
        scores = self._box.from_unit(steps / FINE) @ self.coef_ + self.intercept_
        low, high = self._target_bounds.low[0], self._target_bounds.high[0]
        return cast(
            "NDArray[np.float64]",
            np.clip(self._from_scores(scores), float_nearest(low), float_nearest(high)),
        )

    def _from_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores


class LinearRegression(LinearPredictor):
    """Ordinary least squares by noisy gradients on whitened rows, or from noisy second moments.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 5000).reshape(-1, 1)
    >>> model = LinearRegression(epsilon=1, delta="1e-6", bounds=(0, 1), target_bounds=(0, 3)).fit(X, 3 * X[:, 0])
    >>> bool(2 < model.coef_[0] < 4)
    True

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the features, one pair or one per column; or
        data_norm: a public bound on the norm of a row, instead.
        target_bounds: public bounds of the target.
        n: the number of rows, if public.
        method: ``"gradient"`` (which ``"auto"`` means) or ``"statistics"``.
        steps: how many noisy gradients; 40, or more with ``batch_rate``.
        clip: radius beyond which a row's gradient is cut, in typical lengths; chosen from noisy counts if left out.
        batch_rate: take gradients on secret Poisson samples of this rate.
        categories: by name or place of a column, its public categories, or a number of groups to hash them into.
        max_weight: the largest ``sample_weight`` that ``fit`` takes; larger ones count as this.
        relation: which tables are neighbours.

    Attributes:
        coef_, intercept_: of raw values.
        guarantee_, event_: what the fit promises and what it released.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model: a survey of features and target, one release of all their
        second moments, and for gradients ``steps`` sums of clipped gradients; all with discrete Gaussian noise.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the survey, 2²⁸ to the moments and 2²⁷ to a gradient, rounding
        included.

    Error:
        the noise in a gradient is σ in the units of the report. From second moments the joint covariance is brought to
        the nearest positive semidefinite one, and a ridge of the size of its noise keeps the solution stable.

    Assumes:
        bounds were not read off the data. The squared loss has unbounded slopes, so output and objective perturbation
        have no guarantee for it and are not offered.

    References:
        Vu, Slavković (2009) and Wang (2018) for sufficient statistics. Proofs: ``moments.proof.md``,
        ``gradient.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        data_norm: Number | None = None,
        target_bounds: Any = None,
        n: int | None = None,
        method: str = "auto",
        steps: int | None = None,
        clip: Number | None = None,
        batch_rate: Number | None = None,
        categories: Mapping[Any, Any] | None = None,
        max_weight: Number | None = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.n = n
        self.method = method
        self.steps = steps
        self.clip = clip
        self.batch_rate = batch_rate
        self.categories = categories
        self.max_weight = max_weight
        self.relation = relation


class Ridge(LinearPredictor):
    """Least squares with a penalty of ``alpha`` times the squares of the coefficients, by noisy gradients.

    >>> Ridge(epsilon=1, delta="1e-6", alpha=10, bounds=(0, 1), target_bounds=(0, 3)).get_params()["alpha"]
    10

    The arguments are those of :class:`LinearRegression`, and ``alpha``, which counts for features measured from -1 to 1
    between their bounds. With ``alpha="auto"`` the fit releases second moments alone, and the penalty is chosen from
    them, which costs nothing: the size of coefficients that makes the noisy moments likeliest, against the noise and
    the spread of the residuals. ``alpha_`` holds it.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model, by the same releases.

    Sensitivity:
        as for :class:`LinearRegression`.

    Error:
        as for :class:`LinearRegression`.

    Assumes:
        bounds were not read off the data.

    References:
        Wang (2018). Proof: ``moments.proof.md``.
    """

    n = None
    method = "gradient"
    steps = None
    clip = None
    batch_rate = None

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        data_norm: Number | None = None,
        target_bounds: Any = None,
        alpha: Number | str = 1,
        categories: Mapping[Any, Any] | None = None,
        max_weight: Number | None = None,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.categories = categories
        self.max_weight = max_weight
        self.relation = relation

    def _alpha(self) -> float:
        return 0.0 if self._auto else float_nearest(exact_nonnegative(self.alpha, "alpha"))

    @property
    def _auto(self) -> bool:
        if isinstance(self.alpha, str) and self.alpha != "auto":
            try:
                exact(self.alpha, "alpha")
            except InputError:
                raise InputError("alpha", "must be a number, or 'auto' to choose it from the noisy moments") from None
        return self.alpha == "auto"


def by_gradient(
    fit: GradientFit, joint: Integers, found: Covariance, sigma2: Fraction, shares: Integers | None
) -> tuple[NDArray[np.float64], float]:
    """Noisy gradient descent on whitened rows and standardised targets."""
    columns = joint.shape[1] - 1
    middle = round(float(found.center[-1]) * FINE)
    height = math.sqrt(float(found.variances[-1]))
    # A whole factor and a shift: the target in steps of 1/GRID of its standard deviation, by integers alone.
    shift = 20 + min(max(math.floor(math.log2(height)), -_TARGET_BITS + 20), 0) + _TARGET_BITS - 20
    factor = max(round(GRID / (height * FINE) * 2.0**shift), 1)
    targets = (joint[:, -1:] - middle) * factor >> shift
    counts = np.ones(len(joint), np.bool_)
    model = fit.on_whitened(joint[:, :-1], targets, counts, found.part(columns), sigma2, shares)
    unit = GRID * 2.0**shift / (factor * FINE)
    return model.slopes[:, 0] * unit, float(model.constants[0]) * unit + middle / FINE


def chosen_alpha(found: Covariance) -> float:
    """The penalty under which noisy moments are likeliest; post-processing in floats.

    In the directions of the covariance of the features, with coefficients of variance τ, the products with the target
    have the variance s²τ + s·v/n + q², where s is the variance of that direction, v that of the residuals and q the
    noise. The best τ of a grid gives the penalty v/τ.
    """
    joint = found.projected()
    sizes, axes = np.linalg.eigh(joint[:-1, :-1])
    products, rows, noise = axes.T @ joint[:-1, -1], max(found.rows_estimate, 1.0), found.noise
    kept = np.maximum(sizes, 0.0) + found.floor
    explained = float((products**2 * np.maximum(sizes, 0.0) / kept**2).sum())
    left = max(float(joint[-1, -1]) - explained, 0.01 * float(joint[-1, -1]), 1e-9)
    grid = left * 10.0 ** np.arange(-6, 6.25, 0.25)
    spread = np.maximum(sizes, 0.0) ** 2 * grid[:, None] + np.maximum(sizes, 0.0) * left / rows + noise**2 + 1e-30
    likely = -(np.log(spread) + products**2 / spread).sum(axis=1)
    return float(left / grid[int(likely.argmax())])


def solve(found: Covariance, alpha: float) -> tuple[NDArray[np.float64], float]:
    """Coefficients and constant, for features and target measured from -1 to 1; post-processing in floats.

    The covariance of features and target together is brought to the nearest positive semidefinite one, and a ridge of
    the size of its noise keeps what may be noise from blowing up the solution.
    """
    joint = found.projected()
    ridge = found.floor / found.margin + alpha / found.rows_estimate
    weights = np.linalg.solve(joint[:-1, :-1] + ridge * np.eye(len(joint) - 1), joint[:-1, -1])
    return cast("NDArray[np.float64]", weights), float(found.center[-1] - found.center[:-1] @ weights)
