"""Linear regressions under differential privacy: least squares, ridge and Poisson.

All train by noisy gradients on whitened rows and differ only in the residual of a row. A Poisson regression (counts
whose mean has a linear logarithm) looks its residuals up in a public table of integers. ``gradient.proof.md`` covers
all of them: clipping bounds the contribution of a row for any loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.validation import check_is_fitted

from tacit.core.errors import InputError
from tacit.core.numbers import (
    Number,
    check_count,
    exact_nonnegative,
    exact_probability,
    float_nearest,
)
from tacit.core.relations import as_relation
from tacit.learn.estimator import NOISE_RULES, BoundedTarget, Weighted
from tacit.learn.gradient import rate_on_grid
from tacit.learn.integer_rows import FINE, Box, Integers
from tacit.learn.losses import GRID, Loss, PoissonDeviance, Squared
from tacit.learn.release import FitPrice, Spent, check_gaussian_privacy
from tacit.learn.training import GradientFit, Privacy, check_clip, spend_gradient, steps_for
from tacit.learn.whitening import Covariance, Survey, Whitening

#: Default number of noisy gradients.
_STEPS: Final = 40
#: Number of bits of the integer factor that scales a target.
_TARGET_BITS: Final = 30


class LinearPredictor(Weighted, BoundedTarget):
    """Base class of linear regressions."""

    data_norm: Number | None = None
    categories: Mapping[Any, Any] | None = None
    #: Parameters that only some subclasses have.
    n = cast("int | None", None)
    steps = cast("int | None", None)
    clip = cast("Number | None", None)
    batch_rate = cast("Number | None", None)

    coef_: NDArray[np.float64] = field(init=False)
    intercept_: float = field(init=False)
    _box: Box = field(init=False)
    _hidden: bool = field(init=False)
    _target_bounds: Box = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearPredictor:
        """Train on rows ``X`` with targets ``y``; each call is charged the full cost.

        Values of ``sample_weight`` above ``max_weight`` count as ``max_weight``.
        """
        values = self._read(X, reset=True)
        self._check_target(y)
        columns = values.shape[1]
        box, target_box = self._boxes(columns)
        joint = self._joint_steps(values, y, box, target_box)
        shares = self._shares(sample_weight, len(values))
        self._check_counted(shares is not None)
        spent, gradients = self._plan(columns)
        found = Whitening(Survey(columns + 1, False, self._rows())).run(joint, spent, shares)
        line = self._by_gradient(gradients, joint, found, spent.of("gradient"), shares)
        self._box, self._target_bounds = box, target_box
        self._keep_line(*line)
        self._keep(spent.price)
        return self

    def _check_counted(self, weighted: bool) -> None:
        if weighted and self.n is not None:
            raise InputError("n", "must be left out where rows have weights: it counts each row as one")

    def _by_gradient(
        self,
        fit: GradientFit,
        joint: Integers,
        found: Covariance,
        sigma2: Fraction,
        shares: Integers | None,
    ) -> tuple[NDArray[np.float64], float]:
        """Return slopes and constant for features and target scaled from their bounds to [-1, 1]."""
        columns = joint.shape[1] - 1
        middle = round(float(found.center[-1]) * FINE)
        height = math.sqrt(float(found.variances[-1]))
        # An integer factor and a shift turn the target into steps of 1/GRID of its standard deviation.
        shift = 20 + min(max(math.floor(math.log2(height)), -_TARGET_BITS + 20), 0) + _TARGET_BITS - 20
        factor = max(round(GRID / (height * FINE) * 2.0**shift), 1)
        targets = (joint[:, -1:] - middle) * factor >> shift
        model = fit.on_whitened(joint[:, :-1], targets, found.part(columns), sigma2, shares)
        self._hidden = model.hidden
        unit = GRID * 2.0**shift / (factor * FINE)
        return model.slopes[:, 0] * unit, float(model.constants[0]) * unit + middle / FINE

    def _cautions(self) -> tuple[str, ...]:
        """Return a caution if the slopes are mostly noise."""
        return (NOISE_RULES,) if self._hidden else ()

    def _keep_line(self, scaled: NDArray[np.float64], constant: float) -> None:
        """Set ``coef_`` and ``intercept_`` in the units of the data, from a model of values scaled to [-1, 1]."""
        height, middle = float(self._target_bounds.half_width[0]), float(self._target_bounds.middle[0])
        self.coef_ = scaled / self._box.half_width * height
        self.intercept_ = float(middle + height * constant - np.sum(self.coef_ * self._box.middle))

    def _loss(self) -> Loss:
        return Squared()

    def price(self, columns: int) -> FitPrice:
        """See :meth:`PrivateEstimator.price`."""
        columns = self._width(columns)
        self._target_box()
        self._check_weights()
        return self._plan(columns)[0].price

    def _rows(self) -> int | None:
        return None if self.n is None else check_count(self.n, "n")

    def _plan(self, columns: int) -> tuple[Spent, GradientFit]:
        """Return the noise of all releases (survey, second moments, gradients) and the plan of the gradients."""
        epsilon, delta = check_gaussian_privacy(self.epsilon, self.delta)
        relation, survey = as_relation(self.relation), Survey(columns + 1, False, self._rows())
        rate = Fraction(1)
        if self.batch_rate is not None:
            rate = rate_on_grid(exact_probability(self.batch_rate, "batch_rate", one=True))
        steps = check_count(steps_for(self.steps, _STEPS, rate), "steps", maximum=10**6)
        alpha = float_nearest(exact_nonnegative(getattr(self, "alpha", 0), "alpha"))
        fit = GradientFit(
            self._loss(), columns, 1, check_clip(self.clip), steps, rate, alpha, type(self).__name__, standardized=False
        )
        whole = Privacy(epsilon, delta, relation)
        return spend_gradient(fit, Whitening(survey), self._rows(), whole), fit

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return predictions, clipped to the bounds of the target, for rows clipped to their bounds."""
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
    """Ordinary least squares by noisy gradients on whitened rows.

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
        second moments, and ``steps`` sums of clipped gradients; all with discrete Gaussian noise.

    Sensitivity:
        a row adds integers of norm at most 2¹⁴ to the survey, 2²⁸ to the moments and 2²⁷ to a gradient, rounding
        included.

    Error:
        the noise in a gradient is σ in the units of the report.

    Assumes:
        bounds were not read off the data. The squared loss has unbounded slopes, so output and objective perturbation
        have no guarantee for it and are not offered.

    References:
        Abadi et al. (2016) for noisy gradients. Proofs: ``moments.proof.md``, ``gradient.proof.md``.
    """

    n: int | None = None
    steps: int | None = None
    clip: Number | None = None
    batch_rate: Number | None = None


class Ridge(LinearPredictor):
    """Least squares with a penalty of ``alpha`` times the squares of the coefficients, by noisy gradients.

    >>> Ridge(epsilon=1, delta="1e-6", alpha=10, bounds=(0, 1), target_bounds=(0, 3)).get_params()["alpha"]
    10

    The arguments are those of :class:`LinearRegression`, and ``alpha``, which counts for features measured from -1 to 1
    between their bounds.

    Privacy:
        (ε, δ)-DP under ``relation`` for the fitted model, by the same releases.

    Sensitivity:
        as for :class:`LinearRegression`.

    Error:
        as for :class:`LinearRegression`.

    Assumes:
        bounds were not read off the data.

    References:
        as for :class:`LinearRegression`.
    """

    alpha: Number = 1


#: Least mean of a target, in steps of its bounds: a 512th of half the range.
_LEAST_MEAN: Final = FINE >> 9
#: Number of fractional bits of the factor that divides a target by its mean.
_FACTOR_BITS: Final = 20
#: Largest distance of the bounds from zero, in half ranges; beyond it a logarithmic model is pointless.
_FARTHEST: Final = 1 << 30


class PoissonRegressor(LinearPredictor):
    """A model of counts: the logarithm of the mean is linear.

    >>> model = PoissonRegressor(epsilon=1, delta="1e-6", bounds=(0, 1), target_bounds=(0, 20))
    >>> model.price(columns=3).guarantee.epsilon <= 1
    True

    Args:
        epsilon: of the guarantee, for everything that a fit releases.
        delta: likewise.
        bounds: public bounds of the features, one pair, one per column, or pairs by column name; or
        data_norm: a public bound on the norm of a row, instead.
        target_bounds: public bounds of the counts, from 0 on.
        alpha: penalty of squares of coefficients beside the sum of losses, for features from -1 to 1.
        steps: how many noisy gradients; 40 by default.
        categories: by name or place of a column, its public categories, or a number of groups to hash them into.
        max_weight: the largest ``sample_weight`` that ``fit`` takes; larger ones count as this.
        relation: which tables are neighbours.

    Attributes:
        coef_, intercept_: of raw values; the mean is the exponential of their sum.
        guarantee_, event_: what the fit promises and what it released.

    Privacy:
        (ε, δ)-DP under ``relation``: a survey of features and target, their second moments, and ``steps`` sums of
        clipped gradients; all with discrete Gaussian noise.

    Sensitivity:
        as for :class:`~tacit.learn.regression.LinearRegression`: clipping bounds what a row adds.

    Error:
        means beyond 148 times that of the table are taken as that. Rows far from their mean are clipped.

    Assumes:
        bounds were not read off the data.

    References:
        McCullagh, Nelder (1989). Proof: ``gradient.proof.md``.
    """

    alpha: Number = 0
    steps: int | None = None

    def _target_box(self) -> Box:
        box = super()._target_box()
        if box.low[0] < 0:
            raise InputError("target_bounds", "must not go below zero: the model is one of counts")
        if (box.low[0] + box.high[0]) > (box.high[0] - box.low[0]) * (_FARTHEST // FINE):
            raise InputError("target_bounds", "lie far from zero beside their width; use LinearRegression")
        return box

    def _loss(self) -> Loss:
        return PoissonDeviance()

    def _by_gradient(
        self,
        fit: GradientFit,
        joint: Integers,
        found: Covariance,
        sigma2: Fraction,
        shares: Integers | None,
    ) -> tuple[NDArray[np.float64], float]:
        columns, box = joint.shape[1] - 1, self._target_box()
        # Steps from zero to the midpoint of the bounds; added to the steps from the midpoint, they give the target.
        start = math.floor((box.low[0] + box.high[0]) / (box.high[0] - box.low[0]) * FINE)
        mean = max(round(float(found.center[-1]) * FINE) + start, _LEAST_MEAN)
        factor = max((GRID << _FACTOR_BITS) // mean, 1)
        targets = (joint[:, -1:] + start) * factor >> _FACTOR_BITS
        model = fit.on_whitened(joint[:, :-1], targets, found.part(columns), sigma2, shares)
        self._hidden = model.hidden
        self._mean = (GRID << _FACTOR_BITS) / factor / FINE * float(box.half_width[0])
        return model.slopes[:, 0], float(model.constants[0])

    def _keep_line(self, scaled: NDArray[np.float64], constant: float) -> None:
        self.coef_ = scaled / self._box.half_width
        self.intercept_ = float(constant + math.log(self._mean) - np.sum(self.coef_ * self._box.middle))

    def _from_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return cast("NDArray[np.float64]", np.exp(np.clip(scores, -300.0, 300.0)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the deviance explained (D²), as in scikit-learn: 1 is best, 0 is that of a constant."""
        predicted = np.maximum(self.predict(X), 1e-9 * float(self._target_bounds.high[0]))
        return float(d2_tweedie_score(y, predicted, power=1, sample_weight=sample_weight))
