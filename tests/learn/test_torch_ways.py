"""Ways of training: views of a row, datasets, callbacks and half precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from learn.networks import stack, table, trainer, weights
from learn.replay import record
from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.learn.torch.exact_sums import STEPS
from tacit.learn.torch.examples import Examples, trained_parameters
from tacit.learn.torch.gradients import ExampleGradients, ForwardPass, Parameters
from tacit.learn.torch.randomness import RowRandomness
from tacit.noise import entropy

pytestmark = pytest.mark.torch


class RowBits(SeededBits):
    """A fresh source for every request: the k-th word of a request is always the same."""

    def __init__(self) -> None:
        super().__init__(7)


class Rows(Dataset[Any]):
    """Rows of which the fourth cannot be read."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, place: int) -> Any:
        if place == 3:
            raise OSError("unreadable")
        return tuple(each[place] for each in self.tensors)


def gradients(model: nn.Module, forward: ForwardPass, loss: Any = None) -> ExampleGradients:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    parameters = Parameters(model, list(trained_parameters(model, optimizer)))
    return ExampleGradients(parameters, loss or nn.CrossEntropyLoss(), 1.0, 8, forward)


def jitter(row: torch.Tensor) -> torch.Tensor:
    return row * (1 + 0.2 * torch.rand_like(row)) + torch.rand(1)


def images() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize("make", [stack, images])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_of_a_row_is_the_mean_over_its_views(make: Any, reduction: str) -> None:
    """Beside the same views computed one by one: each view is what the row's key draws."""
    X, y = table(rows=8)
    model, loss = make(), nn.CrossEntropyLoss(reduction=reduction)
    several = gradients(model, ForwardPass(jitter, 3), loss)
    several.prepare(Examples((X, y)), 8)
    keys = torch.arange(5, 13)
    total = several.summed(torch.arange(8), several.floats((X, y), keys), keys).double() / STEPS
    wanted = torch.zeros_like(total)
    for place in range(8):
        with RowRandomness(keys[place]):
            views = torch.stack([jitter(X[place]) for _ in range(3)])
        grads = [
            torch.cat([each.reshape(-1) for each in torch.autograd.grad(lost, list(model.parameters()))])
            for lost in (loss(model(view[None]), y[place : place + 1]) for view in views)
        ]
        mean = torch.stack(grads).mean(0)
        wanted += (mean / max(1.0, float(mean.norm()))).double()
    assert torch.allclose(total, wanted, atol=0.02)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("how", [{"augment": jitter, "views": 4}, {"precision": "bfloat16"}], ids=["views", "half"])
def test_replay_of_views_and_half_precision(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], relation: str
) -> None:
    X, y = table(rows=11)
    row = torch.full((1, X.shape[1]), 1e6)
    left = (torch.cat([X, row]), torch.cat([y, torch.tensor([2])]))
    right = (X, y) if relation == "add_remove" else (torch.cat([X, -row]), torch.cat([y, torch.tensor([0])]))
    runs = []
    frozen = None
    for data in (left, right):
        learner = trainer(stack(), n=12, batch_size=12, epsilon=50, relation=relation, steps=3, **how)
        with monkeypatch.context() as patch:
            patch.setattr(entropy, "current", RowBits)
            frozen = record(patch, lambda learner=learner, data=data: learner.fit(*data), frozen)
        runs.append((learner, frozen))
    (first, one), (second, two) = runs
    assert torch.equal(weights(first.model), weights(second.model))
    most = STEPS**2 * (1 if relation == "add_remove" else 4)
    moved = [sum(int(g) ** 2 for g in a - b) for a, b in zip(one.raw, two.raw, strict=True)]
    assert all(0 < gap <= most for gap in moved)


@pytest.mark.usefixtures("seeded")
def test_half_precision_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    sums = []
    for precision in (None, "bfloat16"):
        monkeypatch.setattr(entropy, "current", RowBits)
        learner = trainer(stack(), n=48, batch_size=48, steps=1, precision=precision)
        sums.append(record(monkeypatch, lambda learner=learner: learner.fit(X, y)).raw[0].astype(float))
    off = np.linalg.norm(sums[1] - sums[0]) / np.linalg.norm(sums[0])
    assert 1e-6 < off < 0.03, "another precision, and nearly the same gradient"


def test_rows_that_cannot_be_read_add_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the same tensors with a row of zeros that the loss cannot take at its place."""
    X, y = table()
    sums = []
    spoilt = y.clone()
    spoilt[3] = 99
    for data in ((Rows(X, y),), (X, spoilt)):
        with monkeypatch.context() as patch:
            patch.setattr(entropy, "current", RowBits)
            learner = trainer(stack(), n=48, batch_size=48, epsilon=50, micro_batch=8)
            sums.append(record(patch, lambda learner=learner, data=data: learner.fit(*data)).raw)
    assert all(np.array_equal(a, b) for a, b in zip(*sums, strict=True))
    assert any(raw.any() for raw in sums[0])


@pytest.mark.usefixtures("seeded")
def test_callbacks_see_what_is_released() -> None:
    """After every step, where they move a scheduler on and average the weights."""
    X, y = table()
    model, seen = stack(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    slower = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
    average = torch.optim.swa_utils.AveragedModel(model)
    learner = trainer(
        model, optimizer=optimizer, steps=6, epsilon=20,
        callbacks=[lambda _: slower.step(), lambda at: average.update_parameters(at.model),
                   lambda at: seen.append((at.taken, optimizer.param_groups[0]["lr"], weights(at.model).clone()))],
    )  # fmt: skip
    learner.fit(X, y)
    assert [taken for taken, *_ in seen] == [1, 2, 3, 4, 5, 6]
    assert [rate for _, rate, _ in seen] == pytest.approx([1.0, 0.1, 0.1, 0.01, 0.01, 0.001])
    assert torch.allclose(weights(average.module), sum(now for *_, now in seen) / 6, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"views": 3}, "needs augment"),
        ({"augment": 3}, "must be a function"),
        ({"precision": "float16"}, "bfloat16"),
        ({"callbacks": len}, "list of functions"),
    ],
)
def test_refused_ways(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trainer(stack(), **changes)
