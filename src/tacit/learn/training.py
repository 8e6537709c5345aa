"""The three ways to train a linear model, each from (ε, δ) to weights: what is released, with what noise, the account.

All start from integer rows (:mod:`tacit.learn.integer_rows`) and a public map of features
(:mod:`tacit.learn.feature_map`); they
differ in where the noise enters: into every gradient, onto the minimiser, or into the objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, DiscreteLaplaceEvent, Event
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import exp_bounds, format_up, round_down, round_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn.budget_allocation import Phase, Spent, spend
from tacit.learn.feature_map import RowMap, Survey
from tacit.learn.gradient import Descent, GradientTable
from tacit.learn.integer_rows import UNIT, Integers
from tacit.learn.losses import Loss
from tacit.learn.objective_perturbation import ObjectiveRelease
from tacit.learn.output_perturbation import OutputRelease, laplace_sensitivity, moved_steps
from tacit.learn.smooth_losses import SmoothLoss
from tacit.learn.solver import Problem

__all__ = ["Data", "Trained", "described", "steps_for", "train_gradient", "train_objective", "train_output"]

#: The standard deviation of the noise in a weight that the default regularisation of the minimiser aims at.
_OUTPUT_NOISE: Final = Fraction(1, 4)
#: Of ε, what the default regularisation lets the change of volume of objective perturbation cost.
_VOLUME: Final = Fraction(1, 8)
#: Where rounding and the solver are proven to be small beside the rest.
_SMALLEST_REGULARIZATION: Final = Fraction(1, 64)
_LARGEST_REGULARIZATION: Final = Fraction(1 << 20)


@dataclass(frozen=True)
class Data:
    """Training data of a model: raw values, targets as integers, which rows count, and the map of features."""

    values: NDArray[np.float64]
    targets: Integers
    counts: NDArray[np.bool_]
    row_map: RowMap

    def table(self, row_map: RowMap) -> GradientTable:
        """The rows as the model sees them."""
        return GradientTable(row_map(self.values), self.targets, self.counts)

    @property
    def width(self) -> int:
        """Number of weights of an output: one per column, and one for the constant."""
        return int(self.values.shape[1]) + 1


@dataclass(frozen=True)
class Trained:
    """Weights, the map of features they belong to, and what was paid."""

    weights: NDArray[np.float64]
    row_map: RowMap
    guarantee: ApproxDP | PureDP
    event: Event
    releases: tuple[str, ...]
    steps: int = 1


def train_gradient(
    data: Data,
    loss: Loss,
    outputs: int,
    *,
    clip: int,
    steps: int,
    rate: Fraction,
    survey: Survey,
    epsilon: Fraction,
    delta: Fraction,
    relation: Relation,
    title: str,
) -> Trained:
    """Noisy gradient descent, with a survey of the rows before it."""
    descending = Phase("gradient", (clip * UNIT) ** 2, data.width * outputs, Fraction(1), steps, rate)
    spent = spend(_after(survey, data, descending), epsilon=epsilon, delta=delta, relation=relation)
    row_map, rows_estimate = _surveyed(survey, data, spent)
    descent = Descent(loss, outputs, clip, steps, rate, spent.of("gradient"), rows_estimate)
    weights = descent.run(data.table(row_map), title=title)
    return Trained(weights, row_map, spent.guarantee, spent.event, described(spent), steps)


def train_output(
    data: Data,
    loss: SmoothLoss,
    *,
    regularization: Fraction | None,
    survey: Survey,
    epsilon: Fraction,
    delta: Fraction | None,
    relation: Relation,
) -> Trained:
    """The minimiser with noise; Gaussian noise with a δ, else Laplace noise and pure ε."""
    dimension = data.width * loss.outputs
    if delta is None:
        return _train_pure_output(data, loss, regularization, epsilon, relation)
    # With the rows declared there is nothing that the number of rows would be needed for.
    looking = replace(survey, rows=survey.rows if survey.centers else 1)
    phase = Phase("minimiser", moved_steps(dimension) ** 2, dimension, Fraction(1))
    spent = spend(_after(looking, data, phase), epsilon=epsilon, delta=delta, relation=relation)
    noise = sqrt_bounds(spent.of("minimiser"))[1] / moved_steps(dimension)
    release = OutputRelease(loss, _regularization(regularization, noise * _lipschitz(loss) / _OUTPUT_NOISE))
    row_map, _ = _surveyed(looking, data, spent)
    problem = _problem(data.table(row_map), release)
    weights = release.release_gaussian(problem, spent.of("minimiser"))
    lines = (*described(spent), _regularized(release.regularization))
    return Trained(weights, row_map, spent.guarantee, spent.event, lines)


def _train_pure_output(
    data: Data, loss: SmoothLoss, regularization: Fraction | None, epsilon: Fraction, relation: Relation
) -> Trained:
    dimension = data.width * loss.outputs
    l1 = laplace_sensitivity(dimension, relation)
    scale = l1 / epsilon
    noise = sqrt_bounds(Fraction(2))[1] * scale / moved_steps(dimension)
    release = OutputRelease(loss, _regularization(regularization, noise * _lipschitz(loss) / _OUTPUT_NOISE))
    weights = release.release_laplace(_problem(data.table(data.row_map), release), scale)
    event = DiscreteLaplaceEvent(scale, Fraction(l1), dimension=dimension, relation=relation)
    line = f"minimiser: {dimension} numbers, Laplace noise {float(scale / l1):.4g} × what one row moves"
    return Trained(
        weights,
        data.row_map,
        PureDP(epsilon, relation=relation),
        event,
        (line, _regularized(release.regularization)),
    )


def train_objective(
    data: Data,
    loss: SmoothLoss,
    *,
    regularization: Fraction | None,
    epsilon: Fraction,
    delta: Fraction,
    relation: Relation,
) -> Trained:
    """The minimiser of a loss with a random linear term.

    A row that is replaced is one that goes and one that comes: what is (ε/2, δ/(1 + e^(ε/2)))-DP for the two of them is
    (ε, δ)-DP for both in a row.
    """
    once = (epsilon, delta)
    if relation is not ADD_REMOVE:
        once = (epsilon / 2, round_down(delta / (1 + exp_bounds(epsilon / 2)[1])))
    default = loss.curvature / (exp_bounds(once[0] * _VOLUME)[0] - 1)
    release = ObjectiveRelease(loss, _regularization(regularization, default), *once, data.width)
    weights = release.release(data.table(data.row_map))
    event: Event = release.event
    if relation is not ADD_REMOVE:
        event = ApproxEvent(epsilon, delta, "objective_perturbation", relation=relation)
    lines = (
        f"minimiser of an objective tilted by {data.width} numbers: noise {float(release.sigma):.4g} × a row's slope",
        f"what hides the solver: noise {release.last_noise.sigma:.4g} on every weight",
        _regularized(release.regularization),
    )
    return Trained(weights, data.row_map, ApproxDP(epsilon, delta, relation=relation), event, lines)


def described(spent: Spent) -> tuple[str, ...]:
    """The releases of a fit with Gaussian noise, one line each."""
    lines = []
    for phase, sigma2 in zip(spent.phases, spent.sigma2, strict=True):
        noise = float(sqrt_bounds(sigma2 / phase.l2_squared)[1])
        times = f"{phase.count} × " if phase.count > 1 else ""
        sample = f", each on a secret sample of rate {format_up(phase.rate)}" if phase.rate < 1 else ""
        lines.append(f"{times}{phase.name}: {phase.dimension} numbers, noise {noise:.4g} × what one row adds{sample}")
    return tuple(lines)


def _after(survey: Survey, data: Data, last: Phase) -> list[Phase]:
    """The survey, if it finds anything out, and the last phase with what is left."""
    first = survey.phase(data.values.shape[1])
    return [last] if first is None else [first, replace(last, share=1 - first.share)]


def _surveyed(survey: Survey, data: Data, spent: Spent) -> tuple[RowMap, float]:
    sigma2 = spent.of("survey") if spent.phases[0].name == "survey" else None
    found = survey.run(data.row_map, data.values, sigma2)
    return replace(data.row_map, center=found.center), found.rows_estimate


def _problem(table: GradientTable, release: OutputRelease) -> Problem:
    return Problem(release.loss, table, release.regularization, np.zeros((table.rows.shape[1], release.loss.outputs)))


def _lipschitz(loss: SmoothLoss) -> Fraction:
    return sqrt_bounds(loss.lipschitz_squared)[1]


def _regularization(given: Fraction | None, default: Fraction) -> Fraction:
    if given is not None:
        if not _SMALLEST_REGULARIZATION <= given <= _LARGEST_REGULARIZATION:
            raise InputError("regularization", "must lie between 1/64 and 2**20; it is of the sum over all rows")
        return given
    return min(max(round_up(default, 6), _SMALLEST_REGULARIZATION), _LARGEST_REGULARIZATION)


def _regularized(regularization: Fraction) -> str:
    return f"regularization {float(regularization):.4g} of the sum over all rows"


def steps_for(steps: int | None, default: int, rate: Fraction) -> int:
    """The number of noisy gradients: as asked, or the default on all rows and accordingly more on samples."""
    return steps if steps is not None else min(math.ceil(default / rate), 2000)
