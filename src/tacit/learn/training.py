"""Training of linear models by gradient, output or objective perturbation: releases, noise, accounting.

All start from integer rows (:mod:`tacit.learn.integer_rows`) and a public map of features
(:mod:`tacit.learn.whitening`); they add the noise to every gradient, to the minimiser, or to the objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, DiscreteLaplaceEvent, Event
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import (
    Number,
    exact_positive,
    exp_bounds,
    float_nearest,
    round_down,
    round_up,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn import release
from tacit.learn.gradient import MOMENTUM, Descent, GradientTable, shrunk
from tacit.learn.integer_rows import FINE, SHARES, UNIT, Box, Integers, beside_bias
from tacit.learn.losses import WHOLE, Loss, SmoothLoss
from tacit.learn.minimiser import ObjectiveRelease, OutputRelease, Problem, laplace_sensitivity, moved_steps
from tacit.learn.release import FitPrice, Phase, Spent, spend
from tacit.learn.whitening import LONGEST_ROW, AffineMap, Covariance, RowMap, Whitening, corner

#: Largest standard deviation, in a logit, of the noise of all steps together.
_DROWNED: Final = 2.0
#: Standard deviation, in a logit, of the noise that the additional penalty leaves.
_NOISE: Final = 4.0
#: Ratio of noise to rows from which on there is no momentum.
_NOISY: Final = 0.15
#: Ratio of noise to rows from which on the additional penalty has its full size.
_CALM: Final = 0.3
#: Clipping radius of gradients, in typical lengths of rows: its value at a noise-to-rows ratio of 1, its least and its
#: largest value, and minus its exponent in the ratio.
_REACH: Final = 0.08
_SHORTEST: Final = 0.05
_LONGEST: Final = 4.0
_GROWTH: Final = 0.4
#: Standard deviation of the noise in a weight with the default regularisation of output perturbation.
_OUTPUT_NOISE: Final = Fraction(1, 4)
#: Share of ε for the Jacobian term of objective perturbation, with the default regularisation.
_VOLUME: Final = Fraction(1, 8)
#: Range of the regularisation in which the errors of rounding and of the solver are proven to be small.
_SMALLEST_REGULARIZATION: Final = Fraction(1, 64)
_LARGEST_REGULARIZATION: Final = Fraction(1 << 20)


@dataclass(frozen=True)
class Data:
    """Training rows: raw values, integer targets, bounds of the values, and relative weights."""

    values: NDArray[np.float64]
    targets: Integers
    box: Box
    shares: Integers | None = None

    def table(self, rows: NDArray[np.float64]) -> GradientTable:
        """Return the input of a descent: mapped rows with these targets and weights."""
        return GradientTable(rows, self.targets, self.shares)


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear model of values scaled to [-1, 1]: slopes, one column per output, and constants.

    ``rows`` maps values to rows if the model is one of rows normalised to one length, which slopes of values cannot
    express. ``kept`` is the factor by which slopes were shrunk to correct for noise.
    """

    slopes: NDArray[np.float64]
    constants: NDArray[np.float64]
    rows: RowMap | None = None
    kept: float = 1.0

    @property
    def hidden(self) -> bool:
        """Whether more than half of the slopes' length is noise."""
        return self.kept < 0.5

    @classmethod
    def of_rows(cls, weights: NDArray[np.float64], row_map: RowMap, kept: float = 1.0) -> Linear:
        """Return the model with these weights of mapped rows."""
        constants = weights[-1] * (row_map.bias / UNIT)
        if row_map.normalize:
            return cls(weights[:-1], constants, row_map, kept)
        unit = beside_bias(row_map.bias) / UNIT * FINE / corner(row_map.box, len(weights) - 1)
        return cls(weights[:-1] * unit, constants, kept=kept)

    def logits(self, box: Box, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of rows of values, clipped to their bounds; one column per output."""
        rows = box.to_steps(values) / FINE if self.rows is None else self.rows(values)[:, :-1] / UNIT
        return rows @ self.slopes + self.constants


@dataclass(frozen=True)
class TrainingPlan:
    """Plan of a training, made of public numbers before any row is read.

    Attributes:
        price: guarantee and releases of the training.
        train: function from rows to a linear model.
        steps: number of passes over the rows.
    """

    price: FitPrice
    train: Callable[[Data], Linear]
    steps: int = 1


@dataclass(frozen=True)
class Privacy:
    """(ε, δ) of a fit, and its neighbouring relation."""

    epsilon: Fraction
    delta: Fraction
    relation: Relation


@dataclass(frozen=True)
class GradientFit:
    """Noisy gradient descent on whitened rows, or on rows scaled by their bounds.

    Attributes:
        loss: loss of the model.
        columns: number of columns of the values.
        outputs: number of outputs of the model.
        clip: clipping radius of a row's gradient, in typical lengths of rows (in lengths of a corner of the box, for
            rows that are not whitened); chosen from noisy counts if None.
        steps: number of noisy gradients.
        rate: rate of the Poisson sample of each gradient.
        regularization: factor of the penalty on squared weights.
        title: title of the progress bar.
        standardized: whether the penalty is on weights of standardised columns, or of values scaled to [-1, 1].
        whitened: whether rows are whitened first.
    """

    loss: Loss
    columns: int
    outputs: int
    clip: float | None
    steps: int
    rate: Fraction
    regularization: float
    title: str
    standardized: bool = True
    whitened: bool = True

    @property
    def cap(self) -> int:
        """Largest norm of a row's contribution to a gradient, in steps of the loss times UNIT."""
        return WHOLE if self.whitened else max(int(WHOLE * (self.clip or 0.5)), 1)

    @property
    def phase(self) -> Phase:
        """Releases of the gradients."""
        return Phase("gradient", (self.cap * UNIT) ** 2, self._dimension, Fraction(1), self.steps, self.rate)

    @property
    def _dimension(self) -> int:
        return (self.columns + 1) * self.outputs

    def noise(self, sigma2: Fraction) -> float:
        """Return the noise of the average gradient, where a residual of one times a row of norm UNIT counts 1."""
        return math.sqrt(float_nearest(sigma2) / self.steps) / (WHOLE * UNIT * float_nearest(self.rate))

    def on_whitened(
        self,
        steps: Integers,
        targets: Integers,
        found: Covariance,
        sigma2: Fraction,
        shares: Integers | None = None,
    ) -> Linear:
        """Train on rows whitened by their noisy covariance ``found``; return the model."""
        matrix, largest = found.whitener()
        noise, typical = self.noise(sigma2), math.sqrt(self.columns + 1)
        reach = self.clip or reach_for(noise * math.sqrt(self._dimension) / found.rows_estimate)
        affine = AffineMap.of(found.center, matrix, reach * typical)
        radius = UNIT / affine.constant
        penalty = np.zeros((self.columns + 1, self.columns + 1))
        scales = found.variances if self.standardized else np.ones(self.columns)
        penalty[:-1, :-1] = self.regularization * (matrix * scales) @ matrix.T / radius**2
        table = GradientTable(affine(steps), targets, shares)
        descent = self._descent(found.rows_estimate, largest / radius**2, typical / radius, penalty, sigma2)
        weights, kept = descent.run(table, title=self.title)
        return Linear(*affine.unmapped(weights), kept=kept)

    def on_bounded(self, data: Data, rows_estimate: float, sigma2: Fraction) -> Linear:
        """Train on rows scaled by their bounds; return the model."""
        row_map = RowMap(data.box, normalize=False)
        descent = self._descent(rows_estimate, 1.0, 1.0, np.zeros((self.columns + 1, self.columns + 1)), sigma2)
        weights, kept = descent.run(data.table(row_map(data.values)), title=self.title)
        return Linear.of_rows(weights, row_map, kept)

    def _descent(
        self, rows: float, square: float, length: float, penalty: NDArray[np.float64], sigma2: Fraction
    ) -> Descent:
        """Return the descent for ``rows`` rows of this typical length, with at most this mean square per direction."""
        noise = self.noise(sigma2)
        # The bound keeps steps from overshooting, and the noise of all steps together small in a logit.
        drowned = noise * self.steps * length / (_DROWNED if self.outputs == 1 else _DROWNED / math.sqrt(2))
        bound = max(self.loss.curvature * rows * square, drowned)
        ratio = noise * math.sqrt(self._dimension) / rows
        # In directions with little curvature weights would follow the noise; a penalty of its size prevents that.
        held = math.sqrt(2) * noise * length / _NOISE * min(ratio / _CALM, 1.0)
        penalty = penalty + held * np.eye(self.columns + 1)
        momentum = MOMENTUM * max(1 - ratio / _NOISY, 0.0)
        # The stronger the penalty, the fewer steps weights need to converge.
        settled = 0.5 - 0.4 * held / (held + bound)
        return Descent(
            self.loss, self.outputs, self.cap, self.steps, self.rate, sigma2, bound, penalty, momentum, settled
        )


def spend_gradient(fit: GradientFit, whitening: Whitening | None, rows: int | None, privacy: Privacy) -> Spent:
    """Return the noise of the gradients and of the releases before them: whitening, or a count of rows."""
    first = [] if whitening is None else whitening.phases()
    if whitening is None and rows is None:
        first = [Phase("count", UNIT**2, 1, Fraction(1, 50))]
    phases = [*first, replace(fit.phase, share=1 - sum((phase.share for phase in first), Fraction(0)))]
    return spend(phases, epsilon=privacy.epsilon, delta=privacy.delta, relation=privacy.relation)


def plan_gradient(fit: GradientFit, *, whitening: Whitening | None, rows: int | None, privacy: Privacy) -> TrainingPlan:
    """Plan gradient perturbation: noisy gradient descent, and the releases before it."""
    spent = spend_gradient(fit, whitening, rows, privacy)
    sigma2 = spent.of("gradient")

    def train(data: Data) -> Linear:
        if whitening is None:
            return fit.on_bounded(data, float(rows) if rows else _noisy_count(data, spent.of("count")), sigma2)
        steps = data.box.to_steps(data.values)
        found = whitening.run(steps, spent, data.shares)
        return fit.on_whitened(steps, data.targets, found, sigma2, data.shares)

    return TrainingPlan(spent.price, train, fit.steps)


def _noisy_count(data: Data, sigma2: Fraction) -> float:
    """Release and return a noisy number of rows, each counted by its relative weight."""
    raw = len(data.values) * UNIT if data.shares is None else int((data.shares * UNIT // SHARES).sum())
    noisy = release.release_gaussian(np.array([raw], dtype=np.int64), sigma2)
    return max(float(noisy[0]) / UNIT, math.sqrt(float_nearest(sigma2)) / UNIT, 1.0)


def check_clip(clip: Number | None) -> float | None:
    """Return the declared clipping radius as a float, None if there is none; refuse an invalid one."""
    if clip is None:
        return None
    size = exact_positive(clip, "clip")
    if size > LONGEST_ROW:
        raise InputError("clip", f"must be at most {LONGEST_ROW} typical lengths of a row, or left out to be chosen")
    return float_nearest(size)


def reach_for(ratio: float) -> float:
    """Return the clipping radius of gradients, in typical lengths of rows, for a ratio of noise to rows.

    With much noise nearly all gradients are clipped to one norm; with many rows hardly any gradient is clipped.
    """
    return float(min(max(_REACH * max(ratio, 1e-12) ** -_GROWTH, _SHORTEST), _LONGEST))


def plan_output(
    columns: int, loss: SmoothLoss, *, regularization: Fraction | None, epsilon: Fraction, relation: Relation
) -> TrainingPlan:
    """Plan output perturbation: the minimiser plus Laplace noise, ε-DP."""
    dimension = (columns + 1) * loss.outputs
    l1 = laplace_sensitivity(dimension, relation)
    scale = l1 / epsilon
    noise = sqrt_bounds(Fraction(2))[1] * scale / moved_steps(dimension)
    default = noise * sqrt_bounds(loss.lipschitz_squared)[1] / _OUTPUT_NOISE
    made = OutputRelease(loss, _regularization(regularization, default))

    def train(data: Data) -> Linear:
        row_map = RowMap(data.box)
        table = data.table(row_map(data.values))
        problem = Problem(loss, table, made.regularization, np.zeros((table.rows.shape[1], loss.outputs)))
        variance = 2 * float_nearest(scale * made.step) ** 2
        weights, kept = shrunk(made.release_laplace(problem, scale), variance)
        return Linear.of_rows(weights, row_map, kept)

    event = DiscreteLaplaceEvent(scale, Fraction(l1), dimension=dimension, relation=relation)
    line = f"minimiser: {dimension} numbers, Laplace noise {float(scale / l1):.4g} × what one row moves"
    lines = (line, _regularized(made.regularization))
    return TrainingPlan(FitPrice(PureDP(epsilon, relation=relation), event, lines), train)


def plan_objective(
    columns: int, loss: SmoothLoss, *, regularization: Fraction | None, rows: int | None, privacy: Privacy
) -> TrainingPlan:
    """Plan objective perturbation: the minimiser of a loss with a random linear term, shrunk if ``rows`` is known.

    Replacing a row is removing one and adding one: what is (ε/2, δ/(1 + e^(ε/2)))-DP under add-remove is (ε, δ)-DP
    under replace-one, by group privacy.
    """
    epsilon, delta, relation, width = privacy.epsilon, privacy.delta, privacy.relation, columns + 1
    once = (epsilon, delta)
    if relation is not ADD_REMOVE:
        once = (epsilon / 2, round_down(delta / (1 + exp_bounds(epsilon / 2)[1])))
    default = loss.curvature / (exp_bounds(once[0] * _VOLUME)[0] - 1)
    made = ObjectiveRelease(loss, _regularization(regularization, default), *once, width)
    event: Event = made.event
    if relation is not ADD_REMOVE:
        event = ApproxEvent(epsilon, delta, "objective_perturbation", relation=relation)
    lines = (
        f"minimiser of an objective tilted by {width} numbers: noise {float(made.sigma):.4g} × a row's slope",
        f"what hides the solver: noise {made.last_noise.sigma:.4g} on every weight",
        _regularized(made.regularization),
    )

    def train(data: Data) -> Linear:
        row_map = RowMap(data.box)
        weights, kept = made.release(data.table(row_map(data.values))), 1.0
        if rows is not None:
            # The linear term moves the minimiser by σ over the objective's second derivative, for rows of norm one
            # about curvature·rows/width in any direction. This is post-processing, so an approximation suffices.
            bend = float_nearest(made.regularization + loss.curvature * rows / width)
            weights, kept = shrunk(weights, (float_nearest(made.sigma) / bend) ** 2)
        return Linear.of_rows(weights, row_map, kept)

    return TrainingPlan(FitPrice(ApproxDP(epsilon, delta, relation=relation), event, lines), train)


def _regularization(given: Fraction | None, default: Fraction) -> Fraction:
    if given is not None:
        if not _SMALLEST_REGULARIZATION <= given <= _LARGEST_REGULARIZATION:
            raise InputError("regularization", "must lie between 1/64 and 2**20; it is of the sum over all rows")
        return given
    return min(max(round_up(default, 6), _SMALLEST_REGULARIZATION), _LARGEST_REGULARIZATION)


def _regularized(regularization: Fraction) -> str:
    return f"regularization {float(regularization):.4g} of the sum over all rows"


def steps_for(steps: int | None, default: int, rate: Fraction) -> int:
    """Return the number of noisy gradients: ``steps`` if given, otherwise default/rate, at most 2000."""
    return steps if steps is not None else min(math.ceil(default / rate), 2000)
