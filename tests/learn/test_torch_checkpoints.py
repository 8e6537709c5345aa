"""Checkpoints: steps that were paid for are counted, whatever fails, is copied, goes back or comes together."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from learn.networks import stack, table, trainer, weights
from tacit.core.errors import BudgetError, InputError
from tacit.learn.torch import PrivateTrainer

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("seeded")]


def trained(steps: int) -> PrivateTrainer:
    return trainer(stack()).fit(*table(), steps=steps)


def half_way(state: dict[str, Any], how: str) -> dict[str, Any]:
    """A checkpoint whose loading fails after something of it was taken over."""
    state = copy.deepcopy(state)
    if how == "a parameter is missing":
        del state["model"]["2.bias"]
    elif how == "a parameter has another shape":
        state["model"]["2.bias"] = torch.zeros(99)
    elif how == "a parameter too many":
        state["model"]["9.bias"] = torch.zeros(3)
    elif how == "an optimizer of other groups":
        state["optimizer"]["param_groups"] = []
    elif how == "no optimizer":
        del state["optimizer"]
    elif how == "an optimizer that is none":
        state["optimizer"] = 7
    return state


FAILURES = [
    "a parameter is missing", "a parameter has another shape", "a parameter too many", "an optimizer of other groups",
    "no optimizer", "an optimizer that is none",
]  # fmt: skip


@pytest.mark.parametrize("how", FAILURES)
def test_a_checkpoint_that_fails_half_way_leaves_nothing_behind(how: str) -> None:
    """Otherwise parameters of three paid steps would stand in a trainer that knows of one."""
    here, state = trained(1), trained(3).state_dict()
    before, moments = weights(here.model).clone(), copy.deepcopy(here.optimizer.state_dict())
    with pytest.raises(InputError, match="state"):
        here.load_state_dict(half_way(state, how))
    assert torch.equal(weights(here.model), before)
    assert here.taken == 1
    after = here.optimizer.state_dict()
    assert after["param_groups"] == moments["param_groups"]
    for place, kept in moments["state"].items():
        assert torch.equal(after["state"][place]["momentum_buffer"], kept["momentum_buffer"])


class Interrupted(nn.Module):
    """Its last part cannot be loaded, once, by an interruption and not by an error."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside
        self.interrupt = False

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inside(features)
        return result

    def load_state_dict(self, state: Any, *args: Any, **kwargs: Any) -> Any:
        found = super().load_state_dict(state, *args, **kwargs)
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt
        return found


def test_an_interruption_leaves_nothing_behind() -> None:
    here, there = (trainer(Interrupted(stack())) for _ in range(2))
    there.fit(*table(), steps=3)
    before = weights(here.model).clone()
    here.model.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        here.load_state_dict(there.state_dict())
    assert torch.equal(weights(here.model), before)
    assert here.taken == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("plan"),
        lambda state: state.pop("runs"),
        lambda state: state.update(runs={}),
        lambda state: state.update(runs={"a": -1}),
        lambda state: state.update(runs={"a": "many"}),
        lambda state: state.update(runs=[3]),
        lambda state: state.update(format=99),
        lambda state: state.pop("model"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(spoil: Any) -> None:
    state = trained(2).state_dict()
    spoil(state)
    here = trained(1)
    before = weights(here.model).clone()
    with pytest.raises(InputError, match="state"):
        here.load_state_dict(state)
    assert here.taken == 1
    assert torch.equal(weights(here.model), before)


def test_two_runs_that_meet_twice_are_counted_once_each() -> None:
    """A took 1 step and then B's checkpoints of 1 and of 3 steps: that is 4, not the larger of 2 and 3."""
    a, b = trained(1), trained(1)
    early = copy.deepcopy(b.state_dict())
    late = copy.deepcopy(b.fit(*table(), steps=2).state_dict())
    a.load_state_dict(early)
    assert a.taken == 2
    a.load_state_dict(late)
    assert a.taken == 4
    a.load_state_dict(early)
    assert a.taken == 4


def test_a_checkpoint_resumed_twice_counts_both_continuations() -> None:
    start = trained(1).state_dict()
    left, right = trainer(stack()), trainer(stack())
    for each in (left, right):
        each.load_state_dict(copy.deepcopy(start))
        each.fit(*table(), steps=1)
        assert each.taken == 2
    left.load_state_dict(right.state_dict())
    assert left.taken == 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_goes_on_as_a_run_of_its_own(copied: Any) -> None:
    one = trained(1)
    two = copied(one)
    assert two.taken == 1
    one.fit(*table(), steps=1)
    two.fit(*table(), steps=2)
    one.load_state_dict(two.state_dict())
    assert one.taken == 4
    with pytest.raises(BudgetError):
        one.fit(*table(), steps=2)
