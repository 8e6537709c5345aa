"""Private training of networks: sampling, clipping, noise, accounting and stopping."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import compose
from tacit.core.errors import BudgetError, InputError
from tacit.core.events import ApproxEvent, ComposedEvent, Event, NoEvent, RepeatedEvent, event_to_json
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability, float_down, format_up
from tacit.core.relations import Relation, as_relation
from tacit.learn import release
from tacit.learn.budget_allocation import Phase, check_privacy, half_delta, spend
from tacit.learn.estimator import PrivacyReport
from tacit.learn.gradient import rate_on_grid, sample_rows
from tacit.learn.progress import progress
from tacit.learn.torch.checkpoints import StepCount, load_together
from tacit.learn.torch.examples import Examples
from tacit.learn.torch.gradients import STEPS, ExampleGradients
from tacit.learn.torch.parameters import Parameters
from tacit.learn.torch.unsupported_layers import check_model, trained_parameters

__all__ = ["PrivateTrainer"]

#: Where gradients in float32 neither vanish nor overflow when they are put on the grid.
_CLIPS: Final = (Fraction(1, 10**6), Fraction(10**6))
_FORMAT: Final = 2


class PrivateTrainer:
    """Trains a network with noisy gradients, and knows at every moment what that has cost.

    Each step draws a secret sample of the rows, sums their clipped gradients, adds noise once, divides by a public
    number, and lets the optimizer do with the result what it likes. The noise is such that all steps together cost
    (ε, δ); there is no further step after that.

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
        Twice that for replace-one. A gradient that is NaN, infinite, or too large for its norm to be a float, counts
        as zero.

    Error:
        each coordinate of a step's mean gradient has noise of standard deviation at most ``noise``.

    Assumes:
        that the device computes the same thing twice; that, where a row's place in a micro-batch was seen not to matter
        on made-up rows, it never does (elsewhere places are drawn, and nothing of the kind is assumed); that the loss
        and the model keep no memory of rows; that n, batch_size and all other settings were not read off the data;
        that runs which go on from one checkpoint are brought together, or added up by hand.

    References:
        Abadi et al. (2016) for the algorithm; Zhu, Dong, Wang (2022) for the account of Poisson samples. Proof:
        ``gradients.proof.md``.
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
    ) -> None:
        check_model(model, optimizer)
        if not callable(loss):
            raise InputError("loss", "must be a function of the output and the targets, such as CrossEntropyLoss()")
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.epsilon, _ = check_privacy(epsilon, None)
        self.delta = exact_probability(delta, "delta")
        self.relation = as_relation(relation)
        self.n, self.batch_size = check_count(n, "n"), check_count(batch_size, "batch_size")
        if self.batch_size > self.n:
            raise InputError("batch_size", "must be at most n, the number of rows")
        self.rate = rate_on_grid(Fraction(self.batch_size, self.n))
        self.steps = _steps(epochs, steps, self.rate)
        self.clip = exact_positive(clip, "clip")
        if not _CLIPS[0] <= self.clip <= _CLIPS[1]:
            raise InputError("clip", "must lie between 1e-6 and 1e6; rescale the loss instead")
        self._parameters = Parameters(model, list(trained_parameters(model, optimizer)))
        self._micro_batch = None if micro_batch is None else check_count(micro_batch, "micro_batch", maximum=1 << 20)
        self._gradients: ExampleGradients | None = None
        self._modes: tuple[bool, ...] = ()
        phase = Phase("gradient", STEPS**2, self._parameters.dimension, Fraction(1), self.steps, self.rate)
        self._spent = spend([phase], epsilon=self.epsilon, delta=self.delta, relation=self.relation)
        self._single = _single(self._spent.once or self._spent.event)
        self._steps = StepCount.begin()
        self._guarantees: dict[int, ApproxDP] = {}

    def fit(self, *data: Any, steps: int | None = None) -> PrivateTrainer:
        """Take all steps that are left, or this many of them.

        Args:
            data: features and targets as tensors (or arrays) with one row per example, or one dataset with ``len()``
                and an index.
            steps: how many steps; by default all that are left.

        Raises:
            BudgetError: no step is left, or fewer than asked for.

        A row that the network or the loss cannot take, such as a class without an output or a word outside of the
        table, and a row of a dataset that cannot be read, count for nothing; an error would tell of that row. Try the
        loss on some rows of your own before a long training.
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
        """The way to gradients that suits the network, found on made-up rows; again if layers are in another mode."""
        modes = tuple(layer.training for layer in self.model.modules())
        if self._gradients is not None and modes == self._modes:
            return self._gradients
        found = ExampleGradients(self._parameters, self.loss, float_down(self.clip), self._micro_batch)
        found.prepare(examples, self.batch_size)
        # Without rows there was nothing to look at: next time, then.
        self._gradients, self._modes = found if len(examples) else None, modes
        return found

    def _step(self, gradients: ExampleGradients, examples: Examples) -> None:
        chosen = np.flatnonzero(self._sample(len(examples)))
        raw = gradients.raw_sum(examples, chosen)
        # Counted before it is released: a step that fails from here on is spent.
        self._steps = self._steps.plus_one()
        noisy = release.release_gaussian(raw, self.sigma2)
        self._parameters.give(noisy * self._per_step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _sample(self, rows: int) -> NDArray[np.bool_]:
        """Draw the rows of a step: each independently with probability exactly ``rate``."""
        return sample_rows(rows, self.rate)

    @property
    def sigma2(self) -> Fraction:
        """σ² of the noise in a sum, in steps of the grid."""
        return self._spent.of("gradient")

    @property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise in a sum, in units of the clip."""
        return math.sqrt(self.sigma2) / STEPS

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in each coordinate of a step's mean gradient."""
        return math.sqrt(self.sigma2) * self._per_step

    @property
    def _per_step(self) -> float:
        """Worth of a step of the grid in the mean gradient: a public number."""
        return float(self.clip / (STEPS * self.batch_size))

    @property
    def event_(self) -> Event:
        """Event of the steps taken so far."""
        if self._spent.once is None or not self.taken:
            return self._event(self.taken)
        found = self.guarantee_
        return ApproxEvent(found.epsilon, found.delta, "row_replaced_in_two_steps", relation=self.relation)

    @property
    def guarantee_(self) -> ApproxDP:
        """Guarantee of the steps taken so far."""
        if self.taken == self.steps:
            return self.planned
        if self.taken not in self._guarantees:
            self._guarantees[self.taken] = self._composed(self.taken)
        return self._guarantees[self.taken]

    def _composed(self, count: int) -> ApproxDP:
        if self._spent.once is None or not count:
            return compose([self._event(count)], delta=self.delta, method="pld")
        # One row that goes and one that comes; fewer steps have a smaller ε, so that the share of δ is large enough.
        once = compose([self._event(count)], delta=half_delta(self.epsilon, self.delta), method="pld")
        return ApproxDP(2 * once.epsilon, self.delta, relation=self.relation)

    @property
    def planned(self) -> ApproxDP:
        """Guarantee of all steps together; at most the ε asked for."""
        return self._spent.guarantee

    def privacy_report(self) -> PrivacyReport:
        """Guarantee of the training and how it was made up; printed, a short text."""
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
        return PrivacyReport("PrivateTrainer", self.guarantee_, self.event_, (released,), public, assumes)

    def state_dict(self) -> dict[str, Any]:
        """State needed to go on elsewhere: parameters, optimizer, and which steps have been paid for."""
        return {
            "format": _FORMAT,
            "runs": self._steps.to_dict(),
            "plan": self._plan(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: Any) -> None:
        """Go on from a checkpoint, its steps included in the account; all of it, or nothing.

        Steps are never forgotten: those of every run that a checkpoint or this trainer knows of are added up, each
        once. Going back to an earlier checkpoint does not undo what was released later.

        Raises:
            InputError: the checkpoint is damaged, of another plan, or does not fit the model or the optimizer.
            BudgetError: together they are more steps than planned.
        """
        if not isinstance(state, dict) or state.get("format") not in (1, _FORMAT):
            raise InputError("state", "is not a checkpoint of a PrivateTrainer")
        if not {"plan", "model", "optimizer"} <= set(state):
            raise InputError("state", "is a checkpoint that lacks its plan, its model or its optimizer")
        if state["plan"] != self._plan():
            raise InputError("state", "belongs to another plan; make the trainer with the settings of the checkpoint")
        steps = self._steps.with_those_of(state)
        if steps.total > self.steps:
            both = f"{self.taken} steps taken here and those of the checkpoint"
            raise BudgetError(f"{both} are {steps.total}, which exceed {self.steps}")
        # Counted first, and taken back only once everything else is: what cannot be undone has been paid for.
        before, self._steps = self._steps, steps
        load_together(
            self.model, self.optimizer, state["model"], state["optimizer"], undone=lambda: self._count_again(before)
        )

    def _count_again(self, steps: StepCount) -> None:
        self._steps = steps

    @property
    def taken(self) -> int:
        """Number of steps taken, here and in all runs that this one goes on from."""
        return self._steps.total

    def __getstate__(self) -> dict[str, Any]:
        # The way to compute gradients is found out again.
        return self.__dict__ | {"_gradients": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy and its original go on apart, so that each has steps which the other does not know of.
        self.__dict__.update(state)
        self._steps = self._steps.apart()

    def _event(self, count: int) -> Event:
        if not count:
            return NoEvent(relation=self.relation)
        return RepeatedEvent(self._single, count, relation=self._single.relation)

    def _plan(self) -> str:
        """Everything the account depends on, as text."""
        return f"{event_to_json(self._event(self.steps))} clip {self.clip} batch {self.batch_size} delta {self.delta}"

    def __repr__(self) -> str:
        return f"<PrivateTrainer {type(self.model).__name__}: {self.taken} of {self.steps} steps, {self.planned!r}>"


def _single(event: Event) -> Event:
    """One step of a plan that was paid for as a whole."""
    while isinstance(event, ComposedEvent | RepeatedEvent):
        event = event.event if isinstance(event, RepeatedEvent) else event.events[0]
    return event


def _steps(epochs: Number | None, steps: int | None, rate: Fraction) -> int:
    if steps is not None and epochs is None:
        return check_count(steps, "steps")
    if epochs is not None and steps is None:
        return check_count(math.ceil(exact_positive(epochs, "epochs") / rate), "epochs")
    raise InputError("epochs", "must be given, or steps instead; one of the two and not both")
