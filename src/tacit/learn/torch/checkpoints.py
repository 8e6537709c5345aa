"""Checkpoints: atomic loading, and steps counted by run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.noise import entropy


@dataclass(frozen=True)
class StepCount:
    """The steps of a run, and of the runs that it knows of because it went on from their checkpoints.

    A step belongs to the run in which it was taken, and a run's steps only grow. So the larger of two counts of one
    run holds all its steps, and the sum over runs holds every step once.
    """

    own: str
    runs: Mapping[str, int]

    @classmethod
    def begin(cls) -> StepCount:
        """A run without steps."""
        own = f"{entropy.current().bits(128):032x}"
        return cls(own, {own: 0})

    @property
    def total(self) -> int:
        """Number of steps of all runs."""
        return sum(self.runs.values())

    def plus_one(self) -> StepCount:
        """Count one more step of this run."""
        return replace(self, runs={**self.runs, self.own: self.runs[self.own] + 1})

    def apart(self) -> StepCount:
        """Copy of the steps, with a run of its own for those to come."""
        begun = StepCount.begin()
        return StepCount(begun.own, {**self.runs, **begun.runs})

    def with_those_of(self, state: Mapping[str, Any]) -> StepCount:
        """With the steps of a checkpoint."""
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

    def to_dict(self) -> dict[str, int]:
        """Return the state for a checkpoint."""
        return dict(self.runs)


def load_together(model: Any, optimizer: Any, parameters: Any, moments: Any, *, undone: Callable[[], None]) -> None:
    """Load parameters and the optimizer's state; if one of them fails, restore both and raise."""
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    try:
        model.load_state_dict(parameters)
        optimizer.load_state_dict(moments)
    except BaseException as problem:
        model.load_state_dict(before[0])
        optimizer.load_state_dict(before[1])
        undone()
        if not isinstance(problem, Exception):
            raise
        raise InputError("state", f"does not fit this model or this optimizer: {problem}") from problem
