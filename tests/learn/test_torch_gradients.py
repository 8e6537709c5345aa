"""Per-example gradients of networks: bounded in integers, independent bit for bit, summed exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from learn.networks import KINDS, Wrapped, network, stack, table
from tacit.core.errors import InputError
from tacit.learn.torch.batch_position_check import settle
from tacit.learn.torch.examples import Examples
from tacit.learn.torch.gradients import STEPS, PerExample
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.linear_stack_gradients import Stack, is_stack
from tacit.learn.torch.parameters import Parameters
from tacit.learn.torch.randomness import made_up_keys
from tacit.noise import entropy

pytestmark = pytest.mark.torch


NASTY = (1e6, -1e6, 1e30, float("nan"), float("inf"), -float("inf"))


def gradients(kind: str, clip: float = 0.3, micro_batch: int = 16, loss: Any = None) -> PerExample | Stack:
    model = network(kind)
    parameters = Parameters(model, [name for name, _ in model.named_parameters()])
    way = (Stack if kind == "stack" else PerExample)(parameters, loss or nn.CrossEntropyLoss(), clip, micro_batch)
    way.prepare(Examples(table()), usual=48)
    return way


def each_alone(way: PerExample | Stack, X: torch.Tensor, y: torch.Tensor) -> list[np.ndarray]:
    """Every row's integers, computed all together in one micro-batch."""
    if isinstance(way, Stack):
        layers = way.integers((X, y), made_up_keys(len(X)))
        cut = [(layer.in_features, pair) for layer, pair in zip(way._linear(), layers, strict=True)]
        return [
            np.concatenate(
                [
                    part.reshape(-1).numpy()
                    for wide, (inputs, returns) in cut
                    for outer in [torch.outer(returns[row], inputs[row])]
                    for part in (outer[:, :wide], outer[:, wide:])
                ]
            ).astype(np.int64)
            for row in range(len(X))
        ]
    return list(way.integers((X, y), made_up_keys(len(X))).numpy().astype(np.int64))


def square(vector: np.ndarray) -> int:
    whole = [int(value) for value in vector]
    return sum(value * value for value in whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", NASTY)
def test_one_example_counts_for_one(kind: str, value: float) -> None:
    """A row scaled by a million, NaN or infinite stays within the clip, and leaves others as they were, bit for bit."""
    X, y = table()
    way = gradients(kind)
    before = each_alone(way, X, y)
    assert max(map(square, before)) > STEPS**2 * 0.98, "some are clipped, or the bound was not tested"
    changed = X.clone()
    changed[7] = X[7] * value if np.isfinite(value) else torch.full_like(X[7], value)
    after = each_alone(way, changed, y)
    for place, (one, two) in enumerate(zip(before, after, strict=True)):
        assert place == 7 or (one == two).all()
        assert square(two) <= STEPS**2
    if not np.isfinite(value):
        assert not after[7].any(), "what is not a number counts as zero"


@pytest.mark.parametrize("kind", KINDS)
def test_integers_are_the_clipped_gradients(kind: str) -> None:
    """Against plain autograd, example by example."""
    X, y = table()
    clip = 0.3
    way = gradients(kind, clip)
    model = network(kind)
    for place, found in enumerate(each_alone(way, X, y)):
        model.zero_grad()
        nn.CrossEntropyLoss()(model(X[place : place + 1]), y[place : place + 1]).backward()
        true = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]).double().numpy()
        true *= min(1.0, clip / np.linalg.norm(true)) * (STEPS / clip)
        # A 2⁻⁹ part is left for rounding; the grid of inputs has 2¹² steps per unit.
        assert np.linalg.norm(found - true) < 0.004 * STEPS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro_batch", [1, 5, 16, 48])
def test_a_row_more_moves_the_sum_by_its_own_gradient(
    monkeypatch: pytest.MonkeyPatch, kind: str, micro_batch: int
) -> None:
    """Exactly, whatever the order of the rows: with places coupled, all other rows add the same bits."""
    X, y = table()
    way = gradients(kind, micro_batch=micro_batch)
    places = np.random.default_rng(4).integers(0, 2**64, size=len(X), dtype=np.uint64)
    everyone = np.arange(len(X))

    def added(rows: np.ndarray) -> np.ndarray:
        monkeypatch.setattr(entropy, "current", lambda: Given(places[rows]))
        return way.raw_sum(Examples((X, y)), rows)

    whole = added(everyone)
    assert (whole == added(np.random.default_rng(2).permutation(len(X)))).all()
    for row in (0, 7, 47):
        gap = whole - added(np.delete(everyone, row))
        assert (gap == added(np.array([row]))).all()
        assert 0 < square(gap) <= STEPS**2


class Given:
    """A bit source for places alone."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def words(self, count: int) -> np.ndarray:
        assert count == len(self._words)
        return self._words.copy()


def test_layouts_hold_every_row_once_and_places_stay() -> None:
    chosen = np.arange(100, 140)
    for tight in (True, False):
        seen = [row for rows, _ in Layout(8, tight).batches(chosen) for row in rows.tolist()]
        assert sorted(seen) == chosen.tolist()
        for rows, places in Layout(8, tight).batches(chosen):
            assert len(set(places.tolist())) == len(rows) <= 8
    assert list(Layout(8, tight=False).batches(chosen[:0])) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_is_a_sum_of_zeros(kind: str) -> None:
    X, y = table()
    way = gradients(kind)
    assert not way.raw_sum(Examples((X, y)), np.array([], dtype=np.intp)).any()
    assert not way.raw_sum(Examples((X[:0], y[:0])), np.array([], dtype=np.intp)).any()


def test_other_losses_are_taken_row_by_row() -> None:
    """A loss that looks at its whole batch sees one row at a time, in both ways."""

    def mixing(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - output.mean(0)).square().sum() + nn.functional.mse_loss(output[:, 0], target.float())

    X, y = table()
    sums = [gradients(kind, loss=mixing).raw_sum(Examples((X, y)), np.arange(len(X))) for kind in KINDS]
    assert np.linalg.norm(sums[0] - sums[1]) < 0.01 * STEPS * np.sqrt(len(X))
    for entropies in (
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.CrossEntropyLoss(label_smoothing=0.2),
        nn.CrossEntropyLoss(reduction="none"),
        nn.CrossEntropyLoss(ignore_index=1),
    ):
        sums = [gradients(kind, loss=entropies).raw_sum(Examples((X, y)), np.arange(len(X))) for kind in KINDS]
        assert np.linalg.norm(sums[0] - sums[1]) < 0.01 * STEPS * np.sqrt(len(X))


def test_rows_are_packed_tightly_only_where_places_do_not_matter() -> None:
    examples, model = Examples(table()), stack()

    def honest(rows: tuple[torch.Tensor, ...], _: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (rows[0] * 2,)

    def by_place(rows: tuple[torch.Tensor, ...], _: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # As a library would that rounds differently in the tail of a batch.
        off = torch.zeros(len(rows[0]), 1)
        off[-1] = 2.0**-20
        return (rows[0] + off,)

    assert settle(honest, (model,), examples, 32, 100) == Layout(32, tight=True)
    assert settle(by_place, (model,), examples, 32, 100) == Layout(25, tight=False)


def test_what_a_stack_is() -> None:
    def asked(model: nn.Module, names: list[str] | None = None) -> bool:
        return is_stack(model, names or [name for name, _ in model.named_parameters()])

    twice = nn.Linear(6, 6)
    assert asked(stack())
    assert asked(nn.Sequential(nn.Flatten(), nn.Linear(6, 3, bias=False)))
    assert not asked(Wrapped(stack()))
    assert not asked(nn.Sequential(twice, twice))
    assert not asked(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)))
    assert not asked(nn.Sequential(nn.Linear(6, 6), nn.Softmax(dim=0)))
    assert not asked(nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)))
    assert not asked(nn.Sequential(nn.Flatten(0), nn.Linear(6, 6)))
    assert not asked(stack(), ["0.weight"])
    tied = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    tied[2].weight = tied[0].weight
    assert not asked(tied)
    hooked = stack()
    hooked[0].register_forward_hook(lambda *_: None)  # type: ignore[operator, index]
    assert not asked(hooked)
    hooked = stack()
    hooked.register_forward_hook(lambda *_: None)
    assert not asked(hooked)


def test_layers_with_and_without_bias_agree() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 3))
    parameters = Parameters(model, [name for name, _ in model.named_parameters()])
    X, y = table()
    sums = [
        way(parameters, nn.CrossEntropyLoss(), 0.3, 16).raw_sum(Examples((X, y)), np.arange(len(X)))
        for way in (Stack, PerExample)
    ]
    assert np.linalg.norm(sums[0] - sums[1]) < 0.01 * STEPS * np.sqrt(len(X))


def test_tied_weights_and_layers_in_place() -> None:
    """Not stacks, but networks like any other."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    parameters = Parameters(model, [name for name, _ in model.named_parameters()])
    way = PerExample(parameters, nn.CrossEntropyLoss(), 0.3, 8)
    found = way.raw_sum(Examples(table()), np.array([3]))
    assert len(found) == 36 + 6 + 6
    assert 0 < square(found) <= STEPS**2


def test_a_layer_that_cannot_be_differentiated_row_by_row() -> None:
    class Item(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return self.scale * features * features.sum().item()

    model = Item()
    way = PerExample(Parameters(model, ["scale"]), lambda output, _: output.sum(), 1.0, 4)
    with pytest.raises(InputError, match="example by example"):
        way.prepare(Examples(table()), 4)


def test_convolutions_and_groups() -> None:
    """A small image network, in both sizes of micro-batch, gives the same integers."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    parameters = Parameters(model, [name for name, _ in model.named_parameters()])
    images, y = torch.randn(10, 1, 6, 6), torch.arange(10) % 3
    examples = Examples((images, y))
    ways = [PerExample(parameters, nn.CrossEntropyLoss(), 0.5, size) for size in (4, 8)]
    for way in ways:
        way.prepare(examples, usual=8)
    alone = [square(way.raw_sum(examples, np.array([place]))) for way in ways for place in range(10)]
    assert 0 < max(alone) <= STEPS**2
