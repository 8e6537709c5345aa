"""Poisson regression under differential privacy: counts whose mean has a linear logarithm.

It trains by noisy gradients on whitened rows, as least squares does; only the residual of a row differs, and it comes
from a public table of integers. ``gradient.proof.md`` covers it: clipping bounds what a row adds, whatever the loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_nonnegative, float_nearest
from tacit.core.relations import Relation
from tacit.learn.integer_rows import FINE, Box, Integers
from tacit.learn.losses import GRID, Loss, PoissonDeviance
from tacit.learn.regression import LinearPredictor
from tacit.learn.sklearn_compat import d2_tweedie_score
from tacit.learn.training import GradientFit
from tacit.learn.whitening import Covariance

#: The mean of a target is taken as at least this part of half its range, in steps of the bounds.
_LEAST_MEAN: Final = FINE >> 9
#: Bits of the factor that measures a target by its mean.
_FACTOR_BITS: Final = 20
#: Where bounds lie farther from zero than this many half ranges, a logarithm has nothing to do.
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

    n = None
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
        alpha: Number = 0,
        steps: int | None = None,
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
        self.steps = steps
        self.categories = categories
        self.max_weight = max_weight
        self.relation = relation

    def _alpha(self) -> float:
        return float_nearest(exact_nonnegative(self.alpha, "alpha"))

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
        # Steps from zero to the midpoint: with the steps from there, the target itself.
        start = math.floor((box.low[0] + box.high[0]) / (box.high[0] - box.low[0]) * FINE)
        mean = max(round(float(found.center[-1]) * FINE) + start, _LEAST_MEAN)
        factor = max((GRID << _FACTOR_BITS) // mean, 1)
        targets = (joint[:, -1:] + start) * factor >> _FACTOR_BITS
        counts = np.ones(len(joint), np.bool_)
        model = fit.on_whitened(joint[:, :-1], targets, counts, found.part(columns), sigma2, shares)
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
        """Share of the deviance that is explained, as in scikit-learn; 1 is best, 0 is a constant."""
        predicted = np.maximum(self.predict(X), 1e-9 * float(self._target_bounds.high[0]))
        return float(d2_tweedie_score(y, predicted, power=1, sample_weight=sample_weight))
