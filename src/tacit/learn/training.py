"""The three ways to train a linear model, each from (ε, δ) to weights: releases, noise, account.

All start from integer rows (:mod:`tacit.learn.integer_rows`) and a public map of features
(:mod:`tacit.learn.feature_map`); they
differ in where the noise enters: into every gradient, onto the minimiser, or into the objective.
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
from tacit.core.numbers import exp_bounds, round_down, round_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn.budget_allocation import FitPrice, Phase, Spent, spend
from tacit.learn.feature_map import RowMap, Survey
from tacit.learn.gradient import Descent, GradientTable
from tacit.learn.integer_rows import UNIT, Integers
from tacit.learn.losses import Loss
from tacit.learn.objective_perturbation import ObjectiveRelease
from tacit.learn.output_perturbation import OutputRelease, laplace_sensitivity, moved_steps
from tacit.learn.smooth_losses import SmoothLoss
from tacit.learn.solver import Problem

__all__ = [
    "Data",
    "Privacy",
    "Surveying",
    "TrainingPlan",
    "plan_gradient",
    "plan_objective",
    "plan_output",
    "plan_pure_output",
    "steps_for",
]

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


Trained = tuple[NDArray[np.float64], RowMap]


@dataclass(frozen=True)
class TrainingPlan:
    """Plan of a training: everything public is decided, and no row was read.

    Attributes:
        price: what training promises and releases.
        train: from rows to the weights and the map of features they belong to.
        steps: how many times the rows are gone through.
    """

    price: FitPrice
    train: Callable[[Data], Trained]
    steps: int = 1


@dataclass(frozen=True)
class Privacy:
    """(ε, δ) of a fit, and which tables are neighbours."""

    epsilon: Fraction
    delta: Fraction
    relation: Relation


@dataclass(frozen=True)
class Surveying:
    """A survey of the rows, if it finds anything out, and a last phase with what is left of the privacy."""

    survey: Survey
    spent: Spent

    @classmethod
    def plan(cls, survey: Survey, columns: int, last: Phase, privacy: Privacy) -> Surveying:
        """For rows of ``columns`` features."""
        first = survey.phase(columns)
        phases = [last] if first is None else [first, replace(last, share=1 - first.share)]
        return cls(survey, spend(phases, epsilon=privacy.epsilon, delta=privacy.delta, relation=privacy.relation))

    def run(self, row_map: RowMap, values: NDArray[np.float64]) -> tuple[RowMap, float]:
        """The map of features, centred if that was asked for, and about how many rows there are."""
        sigma2 = self.spent.of("survey") if self.spent.phases[0].name == "survey" else None
        found = self.survey.run(row_map, values, sigma2)
        return replace(row_map, center=found.center), found.rows_estimate


def plan_gradient(
    columns: int,
    loss: Loss,
    outputs: int,
    *,
    clip: int,
    steps: int,
    rate: Fraction,
    survey: Survey,
    privacy: Privacy,
    title: str,
) -> TrainingPlan:
    """Noisy gradient descent, with a survey of the rows before it."""
    descending = Phase("gradient", (clip * UNIT) ** 2, (columns + 1) * outputs, Fraction(1), steps, rate)
    surveying = Surveying.plan(survey, columns, descending, privacy)

    def train(data: Data) -> Trained:
        row_map, rows_estimate = surveying.run(data.row_map, data.values)
        descent = Descent(loss, outputs, clip, steps, rate, surveying.spent.of("gradient"), rows_estimate)
        return descent.run(data.table(row_map), title=title), row_map

    return TrainingPlan(surveying.spent.price, train, steps)


def plan_output(
    columns: int, loss: SmoothLoss, *, regularization: Fraction | None, survey: Survey, privacy: Privacy
) -> TrainingPlan:
    """The minimiser with Gaussian noise, with a survey of the rows before it."""
    dimension = (columns + 1) * loss.outputs
    # With the rows declared there is nothing that the number of rows would be needed for.
    looking = replace(survey, rows=survey.rows if survey.centers else 1)
    phase = Phase("minimiser", moved_steps(dimension) ** 2, dimension, Fraction(1))
    surveying = Surveying.plan(looking, columns, phase, privacy)
    sigma2 = surveying.spent.of("minimiser")
    release = _output_release(loss, regularization, sqrt_bounds(sigma2)[1] / moved_steps(dimension))

    def train(data: Data) -> Trained:
        row_map, _ = surveying.run(data.row_map, data.values)
        return release.release_gaussian(_problem(data.table(row_map), release), sigma2), row_map

    price = surveying.spent.price
    return TrainingPlan(replace(price, releases=(*price.releases, _regularized(release.regularization))), train)


def plan_pure_output(
    columns: int, loss: SmoothLoss, *, regularization: Fraction | None, epsilon: Fraction, relation: Relation
) -> TrainingPlan:
    """The minimiser with Laplace noise, for ε alone."""
    dimension = (columns + 1) * loss.outputs
    l1 = laplace_sensitivity(dimension, relation)
    scale = l1 / epsilon
    release = _output_release(loss, regularization, sqrt_bounds(Fraction(2))[1] * scale / moved_steps(dimension))

    def train(data: Data) -> Trained:
        return release.release_laplace(_problem(data.table(data.row_map), release), scale), data.row_map

    event = DiscreteLaplaceEvent(scale, Fraction(l1), dimension=dimension, relation=relation)
    line = f"minimiser: {dimension} numbers, Laplace noise {float(scale / l1):.4g} × what one row moves"
    lines = (line, _regularized(release.regularization))
    return TrainingPlan(FitPrice(PureDP(epsilon, relation=relation), event, lines), train)


def plan_objective(
    columns: int, loss: SmoothLoss, *, regularization: Fraction | None, privacy: Privacy
) -> TrainingPlan:
    """The minimiser of a loss with a random linear term.

    A row that is replaced is one that goes and one that comes: what is (ε/2, δ/(1 + e^(ε/2)))-DP for the two of them is
    (ε, δ)-DP for both in a row.
    """
    epsilon, delta, relation, width = privacy.epsilon, privacy.delta, privacy.relation, columns + 1
    once = (epsilon, delta)
    if relation is not ADD_REMOVE:
        once = (epsilon / 2, round_down(delta / (1 + exp_bounds(epsilon / 2)[1])))
    default = loss.curvature / (exp_bounds(once[0] * _VOLUME)[0] - 1)
    release = ObjectiveRelease(loss, _regularization(regularization, default), *once, width)
    event: Event = release.event
    if relation is not ADD_REMOVE:
        event = ApproxEvent(epsilon, delta, "objective_perturbation", relation=relation)
    lines = (
        f"minimiser of an objective tilted by {width} numbers: noise {float(release.sigma):.4g} × a row's slope",
        f"what hides the solver: noise {release.last_noise.sigma:.4g} on every weight",
        _regularized(release.regularization),
    )
    price = FitPrice(ApproxDP(epsilon, delta, relation=relation), event, lines)
    return TrainingPlan(price, lambda data: (release.release(data.table(data.row_map)), data.row_map))


def _output_release(loss: SmoothLoss, regularization: Fraction | None, noise: Fraction) -> OutputRelease:
    return OutputRelease(loss, _regularization(regularization, noise * _lipschitz(loss) / _OUTPUT_NOISE))


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
