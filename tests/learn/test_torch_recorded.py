"""Recorded passes: the bits of torch.func for every kind of layer, changes of the program seen, neighbours replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from learn.networks import stack, table, trainer, weights
from learn.replay import record
from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.learn.torch import gradients as gradient_module
from tacit.learn.torch import trainer as trainer_module
from tacit.learn.torch.exact_sums import STEPS
from tacit.learn.torch.examples import Examples
from tacit.learn.torch.gradients import ExampleGradients, Parameters
from tacit.learn.torch.recorded_pass import RecordedPass
from tacit.learn.torch.torch_import import NEEDED, check_parts
from tacit.noise import entropy

pytestmark = pytest.mark.torch


class Attended(nn.Module):
    """Words, attention with dropout, a normalisation that is not tapped, and a product by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.attention = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.2)
        self.norm, self.last, self.scale = nn.LayerNorm(8), nn.Linear(8, 3), nn.Parameter(torch.ones(8))
        self.register_buffer("shift", torch.linspace(0, 1, 8))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        here = self.words(words)
        here = self.norm(here + self.attention(here, here, here, need_weights=False)[0]) + self.shift
        result: torch.Tensor = self.last((here * self.scale).mean(1))
        return result


def images() -> nn.Module:
    layers = [nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(144, 3))


IMAGES = torch.linspace(-2, 3, 10 * 2 * 8 * 8).sin().reshape(10, 2, 8, 8)
WORDS, CLASSES = (torch.arange(40).reshape(10, 4) * 5) % 7, torch.arange(10) % 3
NETWORKS: dict[str, tuple[Any, torch.Tensor]] = {
    "stack": (stack, table()[0][:10]),
    "images": (images, IMAGES),
    "attended": (Attended, WORDS),
}


def way_of(model: nn.Module, features: torch.Tensor, *, recorded: bool, loss: Any = None) -> ExampleGradients:
    way = ExampleGradients(
        Parameters(model, [name for name, _ in model.named_parameters()]), loss or nn.CrossEntropyLoss(), 0.3, 8
    )
    way.prepare(Examples((features, CLASSES)), usual=10, recorded=recorded)
    assert (way._recorded is not None) is recorded
    return way


def sums(monkeypatch: pytest.MonkeyPatch, way: ExampleGradients, data: tuple[torch.Tensor, ...]) -> np.ndarray:
    with monkeypatch.context() as patch:
        bits = SeededBits(5)
        patch.setattr(entropy, "current", lambda: bits)
        return way.raw_sum(Examples(data), np.arange(len(data[0])))


@pytest.mark.parametrize("name", NETWORKS)
def test_replays_have_the_bits_of_torch_func(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With weights that move on, random layers, and rows that raise."""
    make, features = NETWORKS[name]
    torch.manual_seed(3)
    model = make()
    ways = [way_of(model, features, recorded=recorded) for recorded in (False, True)]
    for step in range(2):
        plain, replayed = (sums(monkeypatch, way, (features, CLASSES)) for way in ways)
        assert plain.any()
        assert (plain == replayed).all()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.1 + step)
    wrong = CLASSES.clone()
    wrong[4] = 77
    plain, replayed = (sums(monkeypatch, way, (features, wrong)) for way in ways)
    assert (plain == replayed).all()
    assert (plain != sums(monkeypatch, ways[1], (features, CLASSES))).any()


def test_a_setting_that_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout that is set to another rate is recorded anew, up to a number of times; then torch.func runs."""
    torch.manual_seed(3)
    model = images()
    way = way_of(model, IMAGES, recorded=True)
    first = way._recorded
    for turn, rate in enumerate((0.5, 0.6, 0.7, 0.8)):
        model[3].p = rate  # type: ignore[index, union-attr, assignment]
        fresh = sums(monkeypatch, way_of(model, IMAGES, recorded=False), (IMAGES, CLASSES))
        assert (sums(monkeypatch, way, (IMAGES, CLASSES)) == fresh).all()
        assert way._recorded is not first
        assert (way._recorded is None) is (turn == 3)


class Weighed:
    """A loss with a setting of its own."""

    def __init__(self) -> None:
        self.factor = 1.0

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target) * self.factor * FACTOR


FACTOR = 1.0


def loss_of_a_global(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output, target) * FACTOR


def test_settings_around_the_layers_are_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes of a loss, a number of its module, class weights put in place, and one hook instead of another."""
    X, model, weighed, classes = table()[0][:10], stack(), Weighed(), nn.CrossEntropyLoss(weight=torch.ones(3))
    last: Any = model[2]  # type: ignore[index]
    hooks = [last.register_forward_hook(lambda _, __, out: out * 2)]

    def swap() -> None:
        hooks.pop().remove()
        hooks.append(last.register_forward_hook(lambda _, __, out: out * 3))

    changes: list[tuple[Any, Any]] = [
        (weighed, lambda: setattr(weighed, "factor", 0.01)),
        (weighed.__call__, lambda: setattr(weighed, "factor", 0.02)),
        (loss_of_a_global, lambda: monkeypatch.setitem(globals(), "FACTOR", 0.01)),
        (classes, lambda: setattr(classes, "weight", torch.tensor([0.01, 0.0, 0.02]))),
        (None, swap),
    ]
    for loss, change in changes:
        way = way_of(model, X, recorded=True, loss=loss)
        change()
        fresh = sums(monkeypatch, way_of(model, X, recorded=False, loss=loss), (X, CLASSES))
        assert (sums(monkeypatch, way, (X, CLASSES)) == fresh).all(), loss
        assert way._recorded is not None


@pytest.mark.parametrize("steps", [20, 120])
def test_rows_of_another_form_are_looked_at_anew(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """A second fit with longer rows learns from them; rows that the network cannot take are refused for nothing."""

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = stack()

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.inside(rows.mean(1))
            return result

    learner = trainer(Pooled(), steps=steps, epsilon=50)
    X, y = table()
    for length in (2, 3):
        rows = X[:, None, :].repeat(1, length, 1)
        kept = record(monkeypatch, lambda rows=rows: learner.fit(rows, y, steps=2))
        assert all(raw.any() for raw in kept.raw)
    with pytest.raises(InputError, match="cannot take rows"):
        learner.fit(X.double()[:, None, :], y, steps=1)
    assert learner.taken == 4


STRENGTH = {0: 1.0}


def test_a_change_that_no_layer_shows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that reads a global number: the next comparison of bits sees it, and recording ends."""

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output, target) * STRENGTH[0]

    X = table()[0][:10]
    way = way_of(stack(), X, recorded=True, loss=loss)
    monkeypatch.setattr("tacit.learn.torch.recorded_pass._BETWEEN", 2)
    monkeypatch.setitem(STRENGTH, 0, 1e-3)
    sums(monkeypatch, way, (X, CLASSES))
    assert way._recorded is not None, "not compared yet"
    found = sums(monkeypatch, way, (X, CLASSES))
    assert way._recorded is None
    assert (found == sums(monkeypatch, way_of(stack(), X, recorded=False, loss=loss), (X, CLASSES))).all()


def test_what_replays_otherwise_or_cannot_be_recorded_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    X = table()[0][:10]
    run = RecordedPass.run
    with monkeypatch.context() as patch:
        patch.setattr(RecordedPass, "run", lambda *given: [each + 2.0**-20 for each in run(*given)])
        way_of(stack(), X, recorded=False).prepare(Examples((X, CLASSES)), 10, recorded=True)
        spoiled = ExampleGradients(Parameters(stack(), ["0.weight"]), nn.CrossEntropyLoss(), 0.3, 8)
        spoiled.prepare(Examples((X, CLASSES)), usual=10, recorded=True)
        assert spoiled._recorded is None
    monkeypatch.setattr("tacit.learn.torch.recorded_pass.load", lambda _: (_ for _ in ()).throw(ImportError()))
    absent = ExampleGradients(Parameters(stack(), ["0.weight"]), nn.CrossEntropyLoss(), 0.3, 8)
    absent.prepare(Examples((X, CLASSES)), usual=10, recorded=True)
    assert absent._recorded is None
    assert absent.raw_sum(Examples((X, CLASSES)), np.arange(10)).any()


class RowBits(SeededBits):
    """A fresh source for every request: the k-th word of a request is always the same."""

    def __init__(self) -> None:
        super().__init__(7)


@pytest.mark.parametrize("name", NETWORKS)
def test_replay_on_neighbours(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Recorded passes, outputs frozen, coins of common rows equal: a row more moves sums by its bound at most."""
    monkeypatch.setattr(trainer_module, "_WORTH_RECORDING", 1)
    monkeypatch.setattr(entropy, "current", RowBits)
    make, features = NETWORKS[name]
    settings: dict[str, Any] = {
        "n": 10, "batch_size": 10, "micro_batch": 8, "epsilon": 50, "steps": 2, "clip": 0.05,
    }  # fmt: skip
    runs = []
    for rows in (10, 9):
        torch.manual_seed(3)
        learner = trainer(make(), **settings)
        data, frozen = (features[:rows], CLASSES[:rows]), runs[0][1] if runs else None
        runs.append((learner, record(monkeypatch, lambda learner=learner, data=data: learner.fit(*data), frozen)))
        assert learner._gradients is not None
        assert learner._gradients._recorded is not None
    (first, one), (second, two) = runs
    assert torch.equal(weights(first.model), weights(second.model))
    assert first.event_ == second.event_
    moved = [int(sum(int(g) ** 2 for g in (a - b))) for a, b in zip(one.raw, two.raw, strict=True)]
    assert 0 < max(moved) <= STEPS**2


@pytest.mark.parametrize("module", NEEDED)
def test_a_torch_without_a_needed_part_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Every part that is named, of this version: there, and asked for by its name where it is not."""
    check_parts()
    for name in NEEDED[module]:
        with monkeypatch.context() as patch:
            patch.delattr(f"{module}.{name}")
            with pytest.raises(InputError, match=rf"has no {module}\.{name}, .* pip install 'tacit-dp\[torch\]'"):
                check_parts()


def test_sums_of_many_batches_are_kept_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums move to int64 before floats could lose a unit."""
    X = table()[0][:10]
    way = way_of(stack(), X, recorded=False)
    whole = sums(monkeypatch, way, (X, CLASSES))
    monkeypatch.setattr(gradient_module, "_EXACT_ROWS", 8)
    assert (sums(monkeypatch, way, (X, CLASSES)) == whole).all()
