"""Ways of training: views of a row, workers, schedulers, averages, callbacks, half precision, several processes."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
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


def test_workers_read_the_rows_that_were_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    outcomes = []
    for workers in (0, 2):
        with monkeypatch.context() as patch:
            patch.setattr(entropy, "current", RowBits)
            learner = trainer(stack(), epsilon=50, micro_batch=8)
            seen = record(patch, lambda learner=learner, workers=workers: learner.fit(Rows(X, y), workers=workers))
        outcomes.append(seen.raw)
    assert all(np.array_equal(a, b) for a, b in zip(*outcomes, strict=True))
    assert any(raw.any() for raw in outcomes[0])


@pytest.mark.usefixtures("seeded")
def test_schedulers_averages_and_callbacks_see_what_is_released() -> None:
    X, y = table()
    model, seen = stack(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    learner = trainer(
        model, optimizer=optimizer, steps=6, ema="0.5", epsilon=20,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1),
        callbacks=[lambda at: seen.append((at.taken, optimizer.param_groups[0]["lr"], weights(at.model).clone()))],
    )  # fmt: skip
    start = weights(model).clone()
    learner.fit(X, y)
    assert [taken for taken, *_ in seen] == [1, 2, 3, 4, 5, 6]
    assert [rate for _, rate, _ in seen] == pytest.approx([1.0, 0.1, 0.1, 0.01, 0.01, 0.001])
    average = start
    for step, (_, _, now) in enumerate(seen):
        decay = min(0.5, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * now
    assert torch.allclose(weights(learner.averaged), average, atol=1e-6)
    again = trainer(
        stack(), steps=6, ema="0.5", epsilon=20,
    )  # fmt: skip
    again.load_state_dict(learner.state_dict())
    assert torch.equal(weights(again.averaged), weights(learner.averaged))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"views": 3}, "needs augment"),
        ({"augment": 3}, "must be a function"),
        ({"precision": "float16"}, "bfloat16"),
        ({"scheduler": 3}, "step"),
        ({"callbacks": len}, "list of functions"),
        ({"ema": 1}, "ema"),
        ({"distributed": True}, "init_process_group"),
    ],
)
def test_refused_ways(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trainer(stack(), **changes)
    optimizer = torch.optim.SGD(stack().parameters(), lr=1.0)
    with pytest.raises(InputError, match="asks for a loss"):
        trainer(stack(), scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))


def member(rank: int, file: str, fails: bool, settings: dict[str, Any], answers: Any) -> None:
    """One of two processes: what it released, its sums before they were added up, its parameters at the end."""
    from datetime import timedelta

    from tacit.learn import release
    from tacit.learn.torch.trainer import ManyProcesses

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=2, timeout=timedelta(seconds=20)
    )
    X, y = table()
    mine = slice(0, 30) if rank == 0 else slice(30, 48)
    own: list[Any] = []
    released: list[Any] = []
    added, true = ManyProcesses.summed, release.release_gaussian
    ManyProcesses.summed = lambda self, raw: (own.append(raw.copy()), added(self, raw))[1]  # type: ignore[method-assign,assignment]
    release.release_gaussian = lambda raw, sigma2: (released.append(raw.copy()), true(raw, sigma2))[1]
    model = stack()
    if rank:
        nn.init.zeros_(model[0].weight)  # type: ignore[index]

    def stop(at: Any) -> None:
        if fails and rank and at.taken == 2:
            raise SystemExit

    learner = trainer(model, distributed=True, callbacks=[stop], **settings)
    problem = ""
    try:
        learner.fit(X[mine], y[mine])
    except BaseException as raised:
        problem = type(raised).__name__
    answers.put((rank, problem, own, released, weights(model).numpy(), learner.taken))


def together(folder: Path, fails: bool, settings: dict[str, Any]) -> list[Any]:
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    file = str(folder / "meeting")
    members = [context.Process(target=member, args=(rank, file, fails, settings, answers)) for rank in (0, 1)]
    for each in members:
        each.start()
    found = sorted((answers.get(timeout=120) for _ in members), key=lambda answer: answer[0])
    for each in members:
        each.join(30)
    return found


def test_two_processes_add_noise_once(tmp_path: Path) -> None:
    first, second = together(tmp_path, False, {"epsilon": 5, "steps": 4})
    assert first[1] == second[1] == ""
    assert len(first[3]) == 4, "the first process draws the noise"
    assert not second[3], "and the second none"
    for sums in zip(first[2], second[2], first[3], strict=True):
        assert np.array_equal(sums[0] + sums[1], sums[2])
    assert any(raw.any() for raw in first[2])
    assert any(raw.any() for raw in second[2])
    assert np.array_equal(first[4], second[4]), "the same parameters everywhere, though they began apart"
    assert first[5] == second[5] == 4


def test_a_process_that_ends_stops_the_others_before_the_next_release(tmp_path: Path) -> None:
    first, second = together(tmp_path, True, {"epsilon": 5, "steps": 4})
    assert second[1] == "SystemExit"
    assert first[1] not in ("", "SystemExit")
    assert len(first[3]) == 2
    assert first[5] == 2
