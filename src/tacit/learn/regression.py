"""Least squares under differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_nonnegative, exact_probability, float_nearest
from tacit.core.relations import Relation, as_relation
from tacit.core.sensitivity import check_bounds
from tacit.learn.budget_allocation import FitPrice, Phase, Spent, check_gaussian_privacy, spend
from tacit.learn.estimator import PrivateEstimator
from tacit.learn.feature_map import RowMap, Survey
from tacit.learn.gradient import Descent, GradientTable, rate_on_grid
from tacit.learn.integer_rows import FINE, UNIT, Box, Integers, scale_rows
from tacit.learn.losses import GRID, WHOLE, Squared
from tacit.learn.moments import SecondMoments
from tacit.learn.sklearn_compat import RegressorMixin, check_is_fitted
from tacit.learn.training import Privacy, Surveying, steps_for
from tacit.learn.value_reading import as_elements, one_column, read_numbers

__all__ = ["LinearRegression", "Ridge"]

#: Default number of noisy gradients.
_STEPS: Final = 60
#: The constant column beside the features: as large as a feature a quarter of the way to its bound.
_CONSTANT: Final = FINE // 4
#: The step size of gradient descent; rows have norm one, so 2 is where it would cease to converge.
_STEP_SIZE: Final = 1.5
#: The noise that gradient descent may leave in a prediction, in units of half the target's range.
_NOISE: Final = 0.2


@dataclass(frozen=True)
class _Descending:
    """Plan of the noisy gradients."""

    surveying: Surveying
    clip: int
    steps: int
    rate: Fraction


def _spent(plan: Spent | _Descending) -> Spent:
    return plan if isinstance(plan, Spent) else plan.surveying.spent


class _LeastSquares(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Base of both regressions."""

    epsilon: Number
    delta: Number | None
    bounds: Any
    data_norm: Number | None
    target_bounds: Any
    n: int | None
    method: str
    steps: int | None
    clip: Number
    batch_rate: Number | None
    relation: Relation | str

    coef_: NDArray[np.float64]
    intercept_: float

    def fit(self, X: Any, y: Any) -> _LeastSquares:
        """Train on rows ``X`` with targets ``y``, once; another fit costs the guarantee again."""
        self._check_method()
        values = self._read(X, reset=True)
        if y is None:
            raise InputError("y", f"requires y to be passed, but the target y is None: {type(self).__name__}")
        columns = values.shape[1]
        box, target_box = self._boxes(columns)
        targets = read_numbers(one_column(as_elements(y)))
        self._same_length(values, targets)
        plan = self._plan(columns)
        steps = target_box.to_steps(targets[:, None])
        if isinstance(plan, Spent):
            scaled, constant = self._by_statistics(values, steps, box, plan)
        else:
            scaled, constant = self._by_gradient(values, steps, box, plan)
        self._keep(_spent(plan).price)
        height, middle = float(target_box.half_width[0]), float(target_box.middle[0])
        self.coef_ = scaled / box.half_width * height
        self.intercept_ = float(middle + height * constant - np.sum(self.coef_ * box.middle))
        self._box, self._target_bounds = box, target_box
        return self

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        self._check_method()
        self._boxes(columns)
        return _spent(self._plan(columns)).price

    def _check_method(self) -> None:
        if self.method not in ("auto", "statistics", "gradient"):
            raise InputError("method", f"must be 'auto', 'statistics' or 'gradient', got {self.method!r}")

    def _alpha(self) -> float:
        return 0.0

    def _boxes(self, columns: int) -> tuple[Box, Box]:
        """Where the features lie, and where the target."""
        box = Box.read(self.bounds, self.data_norm)
        if self.target_bounds is None:
            raise InputError("target_bounds", "must be given: the public bounds (lower, upper) of the target")
        low, high = check_bounds(self.target_bounds, "target_bounds")
        box.check_columns(columns)
        return box, Box((low,), (high,))

    def _plan(self, columns: int) -> Spent | _Descending:
        """The releases of a fit: second moments, or a noisy count and noisy gradients."""
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        relation = as_relation(self.relation)
        if self.method != "gradient":
            self._alpha()
            return spend([SecondMoments(columns + 2).phase()], epsilon=epsilon, delta=delta, relation=relation)
        rate = Fraction(1)
        if self.batch_rate is not None:
            rate = rate_on_grid(exact_probability(self.batch_rate, "batch_rate", one=True))
        steps = check_count(steps_for(self.steps, _STEPS, rate), "steps", maximum=10**6)
        clip = _clip_steps(self.clip)
        survey = Survey(False, None if self.n is None else check_count(self.n, "n"))
        phase = Phase("gradient", (clip * UNIT) ** 2, columns + 1, Fraction(1), steps, rate)
        return _Descending(Surveying.plan(survey, columns, phase, Privacy(epsilon, delta, relation)), clip, steps, rate)

    def _by_statistics(
        self, values: NDArray[np.float64], targets: Integers, box: Box, spent: Spent
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy second moments of features, constant and target; the rest is linear algebra."""
        moments = SecondMoments(values.shape[1] + 2)
        matrix = moments.release(joint_rows(box, values, targets), spent.sigma2[0])
        noise = math.sqrt(float_nearest(spent.sigma2[0])) / UNIT**2
        return _solve(matrix, noise, self._alpha())

    def _by_gradient(
        self, values: NDArray[np.float64], targets: Integers, box: Box, plan: _Descending
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy gradient descent on clipped residuals of the same weighted rows."""
        _, rows_estimate = plan.surveying.run(RowMap(box), values)
        rows = joint_rows(box, values, targets)
        # Features and constant are what the weights meet; the target is scaled as its row is.
        beside = (rows[:, -2:-1] * (GRID / UNIT)).astype(np.int64)
        table = GradientTable(np.delete(rows, -2, axis=1), beside, np.ones(len(rows), np.bool_))
        longest = _STEP_SIZE * plan.steps * plan.clip / WHOLE
        sigma2 = plan.surveying.spent.of("gradient")
        descent = Descent(Squared(), 1, plan.clip, plan.steps, plan.rate, sigma2, rows_estimate, _NOISE, longest)
        weights = descent.run(table, title=type(self).__name__)[:, 0]
        return weights[:-1], float(weights[-1]) * _CONSTANT / FINE

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions for rows clipped to the bounds, themselves clipped to the bounds of the target."""
        check_is_fitted(self, "coef_")
        steps = self._box.to_steps(self._read(X, reset=False))
        clipped = self._box.from_unit(steps / FINE)
        low, high = self._target_bounds.low[0], self._target_bounds.high[0]
        return cast(
            "NDArray[np.float64]",
            np.clip(clipped @ self.coef_ + self.intercept_, float_nearest(low), float_nearest(high)),
        )


class LinearRegression(_LeastSquares):
    """Ordinary least squares from noisy second moments, or by noisy gradients.

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
        n: the number of rows, if public; only gradients ask for it.
        method: ``"statistics"`` (which ``"auto"`` means) or ``"gradient"``.
        steps: how many noisy gradients; 60, or more with ``batch_rate``.
        clip: the largest residual that counts in full, in units of half the target's range; for gradients.
        batch_rate: take gradients on secret Poisson samples of this rate.
        relation: which tables are neighbours.

    Attributes:
        coef_, intercept_: of raw values.
        guarantee_, event_: what the fit promises and what it released.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model. Statistics: one release of all second moments with discrete
        Gaussian noise. Gradients: a noisy count, then noisy sums of clipped gradients.

    Sensitivity:
        a row adds a triangle of integers of norm at most 2²⁸, rounding included (2¹⁴·clip·2¹³ to a gradient).

    Error:
        the noise in a moment is σ in the units of the report; shrinking by that much keeps the solution stable.

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
        clip: Number = "0.5",
        batch_rate: Number | None = None,
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
        self.relation = relation


class Ridge(_LeastSquares):
    """Least squares with a penalty of ``alpha`` times the squares of the coefficients, from noisy second moments.

    >>> Ridge(epsilon=1, delta="1e-6", alpha=10, bounds=(0, 1), target_bounds=(0, 3)).get_params()["alpha"]
    10

    The arguments are those of :class:`LinearRegression`, without gradients, and ``alpha``, which counts for features
    measured from -1 to 1 between their bounds.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model: one release of all second moments.

    Sensitivity:
        a row adds a triangle of integers of norm at most 2²⁸, rounding included.

    Error:
        as for :class:`LinearRegression`.

    Assumes:
        bounds were not read off the data.

    References:
        Wang (2018). Proof: ``moments.proof.md``.
    """

    n = None
    method = "statistics"
    steps = None
    clip = "0.5"
    batch_rate = None

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number | None = None,
        bounds: Any = None,
        data_norm: Number | None = None,
        target_bounds: Any = None,
        alpha: Number = 1,
        relation: Relation | str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.alpha = alpha
        self.relation = relation

    def _alpha(self) -> float:
        return float_nearest(exact_nonnegative(self.alpha, "alpha"))


def joint_rows(box: Box, values: NDArray[np.float64], targets: Integers) -> NDArray[np.float64]:
    """Rows of features, target and constant together, each stretched or cut to the norm UNIT.

    Stretching a row as a whole weights it: the line that fits all rows without error fits the weighted ones as well,
    and no part of the norm that the noise is paid for is left unused.
    """
    steps = np.hstack([box.to_steps(values), targets, np.full_like(targets, _CONSTANT)])
    return scale_rows(steps, UNIT).astype(np.float64)


def _solve(matrix: NDArray[np.float64], noise: float, alpha: float) -> tuple[NDArray[np.float64], float]:
    """Coefficients and constant, for features and target measured from -1 to 1; post-processing in floats."""
    columns = len(matrix) - 2
    constant = _CONSTANT / FINE
    # The weights of all rows together, no less than what may be noise, and how many rows there are: each has norm one.
    weight = max(matrix[-1, -1], 3 * noise, 1e-6) / constant**2
    rows_estimate = max(float(np.trace(matrix)), 1.0)
    means = np.clip(matrix[-1, :-1] / constant / weight, -1.0, 1.0)
    cross = matrix[:columns, columns] / weight - means[:-1] * means[-1]
    covariance = matrix[:columns, :columns] / weight - np.outer(means[:-1], means[:-1])
    # Eigenvalues below the noise of the matrix are noise; the penalty keeps them from blowing up the solution.
    floor = noise * math.sqrt(columns) / weight
    sizes, axes = np.linalg.eigh((covariance + covariance.T) / 2)
    shrunk = np.maximum(sizes, 0.0) + floor + alpha / rows_estimate
    weights = axes @ ((axes.T @ cross) / shrunk)
    return weights, float(means[-1] - means[:-1] @ weights)


def _clip_steps(clip: Number) -> int:
    size = exact_probability(clip, "clip", one=True)
    return max(int(size * WHOLE), 1)
