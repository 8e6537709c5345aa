"""Private training of networks: sampling, clipping, noise, accounting, stopping and checkpoints."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from tacit.accounting.compose import compose
from tacit.core.errors import BudgetError, InputError
from tacit.core.events import Event, NoEvent, RepeatedEvent, event_to_json
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    float_down,
    format_up,
)
from tacit.core.relations import Relation, as_relation
from tacit.learn import release
from tacit.learn.estimator import PrivacyReport, delta_caution
from tacit.learn.gradient import rate_on_grid, sample_rows
from tacit.learn.release import Phase, check_privacy, phase_event, progress, spend
from tacit.learn.torch.exact_sums import GradientGrid
from tacit.learn.torch.examples import Examples, check_model, trained_parameters
from tacit.learn.torch.gradients import ExampleGradients, ForwardPass, Parameters
from tacit.noise import entropy


@dataclass(frozen=True)
class StepCount:
    """Numbers of steps of a run and of the runs whose checkpoints it loaded.

    A step belongs to the run in which it was taken, and the number of a run's steps only grows. So the larger of two
    counts of one run includes all its steps, and the sum over runs counts every step once.
    """

    own: str
    runs: Mapping[str, int]

    @classmethod
    def begin(cls) -> StepCount:
        """Return the count of a new run without steps."""
        own = f"{entropy.current().bits(128):032x}"
        return cls(own, {own: 0})

    @property
    def total(self) -> int:
        """Total number of steps of all runs."""
        return sum(self.runs.values())

    def plus_one(self) -> StepCount:
        """Return the count with one more step of this run."""
        return replace(self, runs={**self.runs, self.own: self.runs[self.own] + 1})

    def apart(self) -> StepCount:
        """Return a copy whose further steps are counted as a new run."""
        begun = StepCount.begin()
        return StepCount(begun.own, {**self.runs, **begun.runs})

    def with_those_of(self, state: Mapping[str, Any]) -> StepCount:
        """Return the union with the steps of a checkpoint; refuse a damaged checkpoint."""
        found = state.get("runs")
        if not isinstance(found, dict) or not found or not all(isinstance(run, str) for run in found):
            raise InputError("state", "is a checkpoint that does not say which steps it holds")
        try:
            others = {run: check_count(steps, "state", minimum=0) for run, steps in found.items()}
        except InputError:
            raise InputError("state", "is a checkpoint whose numbers of steps are damaged") from None
        return replace(
            self, runs={run: max(self.runs.get(run, 0), others.get(run, 0)) for run in {**self.runs, **others}}
        )


#: Smallest and largest clip, with which gradients in float32 neither vanish nor overflow on the grid.
_CLIPS: Final = (Fraction(1, 10**6), Fraction(10**6))
_FORMAT: Final = 1
#: Least number of steps for which the operations of a pass are recorded, which takes about a second.
_WORTH_RECORDING: Final = 100


class PrivateTrainer:
    """Private training of a network by noisy gradients (DP-SGD), with the privacy spent so far.

    Each step draws a secret Poisson sample of the rows, sums their clipped gradients, adds noise once, divides by a
    public number, and passes the result to the optimizer. The noise is calibrated so that all planned steps together
    are (ε, δ)-DP; further steps are refused.

    Args:
        model: any network whose layers keep examples apart; BatchNorm is refused.
        loss: of the model's output and the targets, such as ``torch.nn.CrossEntropyLoss()``; called with one example.
        optimizer: over the model's parameters, such as ``torch.optim.SGD`` or ``Adam``.
        epsilon: of the guarantee, for the whole training.
        delta: likewise.
        n: roughly how many rows there are, as far as that is public. With ``batch_size`` it fixes the rate of sampling,
            which stays what it is however many rows there really are.
        batch_size: how many rows a sample holds on average, for ``n`` rows; also what sums are divided by.
        epochs: how often each row is seen on average; or
        steps: how many noisy gradients are taken, instead.
        clip: the largest norm of a row's gradient.
        micro_batch: how many rows are held in memory at once; by default as suits the network. It changes nothing
            about the guarantee or the noise.
        relation: which tables are neighbours.
        augment: from the features of one row to another view of it, random by ``torch.rand`` and the like; the gradient
            of a row is the average over ``views`` views, before it is clipped. It costs no privacy.
        views: how many, with ``augment``.
        precision: ``"bfloat16"`` for forward and backward passes in that type where PyTorch's autocast allows it.
        callbacks: functions of the trainer, called after every step, such as one that moves a scheduler of the learning
            rate on. What they see is released: parameters, never a row or its loss.

    Attributes:
        steps: of the whole plan; ``taken`` have been taken.
        guarantee_: of the steps taken so far, for a number of steps that was chosen without looking at the outcome.
        planned: of all steps, which also holds for a caller who stops sooner because of an outcome.
        event_: what was released so far; :meth:`privacy_report` puts it in words.

    Privacy:
        (ε, δ)-DP under ``relation`` for the parameters after every step together, where

        * a step releases Σ g_i + noise on a Poisson sample of the rows, g_i the integer gradient of row i;
        * the noise is discrete Gaussian, exact, drawn once per step on the CPU, whatever the micro-batches or device;
        * ε is that of the privacy loss distribution of these very steps (``event_``);
        * one row is one person.

    Sensitivity:
        a row moves a sum by at most ``clip``, in integer steps of a public grid and with rounding included; checked for
        every row after rounding.
        Twice that for replace-one. A gradient that is NaN, infinite, or too large for its norm to be a float, counts as
        zero.

    Error:
        each coordinate of a step's mean gradient has noise of standard deviation ``noise``.

    Assumes:
        that the device computes the same thing twice; that, where a row's place in a micro-batch was seen not to matter
        on made-up rows, it never does (elsewhere places are drawn, and nothing of the kind is assumed); that the loss
        and the model keep no memory of rows; that n, batch_size and all other settings were not read off the data;
        that runs which go on from one checkpoint are brought together, or added up by hand.

    References:
        Abadi et al. (2016) for the algorithm; Zhu, Dong, Wang (2022) for the account of Poisson samples; De et al.
        (2022) for views. Proof: ``gradients.proof.md``.
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[..., Any],
        optimizer: Any,
        *,
        epsilon: Number,
        delta: Number,
        n: int,
        batch_size: int,
        epochs: Number | None = None,
        steps: int | None = None,
        clip: Number = 1,
        micro_batch: int | None = None,
        relation: Relation | str = "add_remove",
        augment: Callable[..., Any] | None = None,
        views: int = 1,
        precision: str | None = None,
        callbacks: Sequence[Callable[[PrivateTrainer], object]] = (),
    ) -> None:
        check_model(model, optimizer)
        if not callable(loss):
            raise InputError("loss", "must be a function of the output and the targets, such as CrossEntropyLoss()")
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.epsilon, _ = check_privacy(epsilon, None)
        self.delta = exact_probability(delta, "delta")
        for caution in delta_caution(self.delta):
            warnings.warn(caution, UserWarning, stacklevel=2)
        self.relation = as_relation(relation)
        self.n, self.batch_size = check_count(n, "n"), check_count(batch_size, "batch_size")
        if self.batch_size > self.n:
            raise InputError("batch_size", "must be at most n, the number of rows")
        #: Share of the rows in a step, on average.
        self.rate = rate_on_grid(Fraction(self.batch_size, self.n))
        self.steps = _steps(epochs, steps, self.rate)
        self.clip = exact_positive(clip, "clip")
        if not _CLIPS[0] <= self.clip <= _CLIPS[1]:
            raise InputError("clip", "must lie between 1e-6 and 1e6; rescale the loss instead")
        self._parameters = Parameters(model, list(trained_parameters(model, optimizer)))
        self._grid = GradientGrid.of(self._parameters.dimension)
        self._micro_batch = None if micro_batch is None else check_count(micro_batch, "micro_batch", maximum=1 << 20)
        self._gradients: ExampleGradients | None = None
        self._modes: tuple[Any, ...] = ()
        self._pass = ForwardPass.checked(augment, views, precision)
        if callable(callbacks) or not all(callable(each) for each in callbacks):
            raise InputError("callbacks", "must be a list of functions of the trainer")
        self._callbacks = tuple(callbacks)
        self._spent = spend([self._phase(self.steps)], epsilon=self.epsilon, delta=self.delta, relation=self.relation)
        self._steps = StepCount.begin()
        self._guarantees: dict[int, ApproxDP] = {}

    def _phase(self, count: int) -> Phase:
        """Return the plan of the releases of ``count`` steps."""
        return Phase("gradient", self._grid.steps**2, self._parameters.dimension, Fraction(1), count, self.rate)

    def fit(self, *data: Any, steps: int | None = None) -> PrivateTrainer:
        """Take all remaining steps, or ``steps`` of them.

        Args:
            data: features and targets as tensors (or arrays) with one row per example, or one dataset with ``len()``
                and an index.
            steps: number of steps; by default all remaining steps.

        Raises:
            BudgetError: no step is left, or fewer than ``steps``.

            A row on which the network or the loss raises, such as a class without an output or a word outside of the
            table, and a row of a dataset that cannot be read, count as zero; an error would reveal that row. Try the
            loss on some rows that are not private before a long training.
        """
        examples = Examples(data)
        left = self.steps - self.taken
        wanted = left if steps is None else check_count(steps, "steps")
        if not left or wanted > left:
            raise BudgetError(
                f"{left} of {self.steps} steps are left; plan more steps, or a larger epsilon, from the start"
            )
        gradients = self._looked_at(examples)
        for _ in progress(range(wanted), "train"):
            self._step(gradients, examples)
        return self

    def _looked_at(self, examples: Examples) -> ExampleGradients:
        """Return the gradient computation, prepared on made-up rows, anew if the rows' form or a mode changed."""
        modes = (examples.form, *(layer.training for layer in self.model.modules()))
        if self._gradients is not None and modes == self._modes:
            return self._gradients
        found = ExampleGradients(self._parameters, self.loss, float_down(self.clip), self._micro_batch, self._pass)
        found.prepare(examples, self.batch_size, recorded=self.steps - self.taken >= _WORTH_RECORDING)
        # Without rows their form may be unknown, so the preparation is repeated next time.
        self._gradients, self._modes = found if len(examples) else None, modes
        return found

    def _step(self, gradients: ExampleGradients, examples: Examples) -> None:
        chosen = np.flatnonzero(sample_rows(len(examples), self.rate))
        raw = gradients.raw_sum(examples, chosen)
        # Counted before it is released: a step that fails from here on is spent.
        self._steps = self._steps.plus_one()
        # The only release of numbers computed from rows.
        self._parameters.give(release.release_gaussian(raw, self.sigma2), self._per_step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for callback in self._callbacks:
            callback(self)

    @property
    def sigma2(self) -> Fraction:
        """σ² of the noise in a sum, in squared steps of the grid."""
        return self._spent.of("gradient")

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise in a sum, in units of the clip."""
        return math.sqrt(self.sigma2) / self._grid.steps

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in each coordinate of a step's mean gradient."""
        return math.sqrt(self.sigma2) * self._per_step

    @cached_property
    def _per_step(self) -> float:
        """Size of one grid step in the mean gradient, a public number."""
        return float(self.clip / (self._grid.steps * self.batch_size))

    @property
    def event_(self) -> Event:
        """Event of the steps taken so far."""
        return self._event(self.taken)

    @property
    def guarantee_(self) -> ApproxDP:
        """Guarantee of the steps taken so far."""
        if self.taken == self.steps:
            return self.planned
        if self.taken not in self._guarantees:
            self._guarantees[self.taken] = compose([self.event_], delta=self.delta, method="pld")
        return self._guarantees[self.taken]

    @property
    def planned(self) -> ApproxDP:
        """Guarantee of all planned steps together; its ε is at most ``epsilon``."""
        return self._spent.guarantee

    def privacy_report(self) -> PrivacyReport:
        """Return the report so far: guarantee, releases, public declarations and assumptions."""
        noise = f"σ = {self.noise_multiplier:.4g} clips"
        released = f"gradient: {self.taken} of {self.steps} sums of {self._parameters.dimension} numbers, {noise}"
        if self.rate < 1:
            released += f", each on a fresh secret sample of {format_up(self.rate)} of the rows"
        public = (
            f"n = {self.n}, batch_size = {self.batch_size}, steps = {self.steps}, clip = {format_up(self.clip)}",
            "the network, the optimizer and their settings",
        )
        assumes = (
            "each person has one row",
            "what is declared public was not read off the data",
            f"the number of steps was not chosen by looking; if it was, what is planned counts, {self.planned!r}",
            "only the parameters are published, not the time a step takes, nor the loss on training rows",
            "what was trained from copies or checkpoints of this run elsewhere is added to it",
        )
        cautions = delta_caution(self.delta)
        return PrivacyReport("PrivateTrainer", self.guarantee_, self.event_, (released,), public, assumes, cautions)

    def state_dict(self) -> dict[str, Any]:
        """Return a checkpoint: parameters, state of the optimizer, plan, and the steps charged."""
        return {
            "format": _FORMAT,
            "runs": dict(self._steps.runs),
            "plan": self._plan(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Any) -> None:
        """Continue from a checkpoint, and charge its steps; if the model or the optimizer refuses it, change nothing.

        Charged steps are never refunded: the steps of all runs in the checkpoint and in this trainer are added up, each
        once. Loading an earlier checkpoint does not undo later releases.

        Raises:
            InputError: the checkpoint is damaged, has a different plan, or does not fit the model or the optimizer.
            BudgetError: the steps of both together exceed the plan.
        """
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise InputError("state", f"is not a checkpoint of a PrivateTrainer of format {_FORMAT}")
        if not {"plan", "model", "optimizer"} <= set(state):
            raise InputError("state", "is a checkpoint that lacks its plan, its model or its optimizer")
        if state["plan"] != self._plan():
            raise InputError("state", "belongs to another plan; make the trainer with the settings of the checkpoint")
        steps = self._steps.with_those_of(state)
        if steps.total > self.steps:
            both = f"{self.taken} steps taken here and those of the checkpoint"
            raise BudgetError(f"{both} are {steps.total}, which exceed {self.steps}")
        before, taken = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict())), self._steps
        # Charged first, and refunded only after everything is undone: whatever cannot be undone stays charged.
        self._steps = steps
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except BaseException as problem:
            self.model.load_state_dict(before[0])
            self.optimizer.load_state_dict(before[1])
            self._steps = taken
            if not isinstance(problem, Exception):
                raise
            raise InputError("state", f"does not fit this model or this optimizer: {problem}") from problem

    @property
    def taken(self) -> int:
        """Number of steps taken, here and in all runs whose checkpoints were loaded."""
        return self._steps.total

    def __getstate__(self) -> dict[str, Any]:
        # The gradient computation is prepared anew.
        return self.__dict__ | {"_gradients": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The further steps of a copy and of its original are counted as different runs.
        self.__dict__.update(state)
        self._steps = self._steps.apart()

    def _event(self, count: int) -> Event:
        if not count:
            return NoEvent(relation=self.relation)
        one = phase_event(self._phase(1), self.sigma2, self.relation)
        return RepeatedEvent(one, count, relation=self.relation)

    def _plan(self) -> str:
        """Return all settings that the privacy accounting depends on, as text."""
        event = event_to_json(self._event(self.steps))
        return f"{event} clip {self.clip} batch {self.batch_size} delta {self.delta}"

    def __repr__(self) -> str:
        return f"<PrivateTrainer {type(self.model).__name__}: {self.taken} of {self.steps} steps, {self.planned!r}>"


def _steps(epochs: Number | None, steps: int | None, rate: Fraction) -> int:
    if steps is not None and epochs is None:
        return check_count(steps, "steps")
    if epochs is not None and steps is None:
        return check_count(math.ceil(exact_positive(epochs, "epochs") / rate), "epochs")
    raise InputError("epochs", "must be given, or steps instead; one of the two and not both")
