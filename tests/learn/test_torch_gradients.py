"""Per-example gradients of networks: bounded in integers, independent bit for bit, summed exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from learn.networks import KINDS, Wrapped, network, stack, table
from tacit.core.errors import InputError
from tacit.learn.torch.exact_sums import STEPS, LayerTap, inner_products, products_are_single
from tacit.learn.torch.examples import Examples, Layout
from tacit.learn.torch.gradients import ExampleGradients, Parameters, _rounding
from tacit.learn.torch.randomness import made_up_keys
from tacit.learn.torch.recorded_pass import settle
from tacit.noise import entropy

pytestmark = pytest.mark.torch


NASTY = (1e6, -1e6, 1e30, float("nan"), float("inf"), -float("inf"))


def gradients_of(model: nn.Module, clip: float, micro_batch: int, loss: Any = None) -> ExampleGradients:
    parameters = Parameters(model, [name for name, _ in model.named_parameters()])
    return ExampleGradients(parameters, loss or nn.CrossEntropyLoss(), clip, micro_batch)


def gradients(kind: str, clip: float = 0.3, micro_batch: int = 16, loss: Any = None) -> ExampleGradients:
    way = gradients_of(network(kind), clip, micro_batch, loss)
    way.prepare(Examples(table()), usual=48)
    return way


def each_alone(way: ExampleGradients, X: torch.Tensor, y: torch.Tensor) -> list[np.ndarray]:
    """Every row's integers, computed all together in one micro-batch."""
    keys = made_up_keys(len(X))
    return [way.summed(place, way.floats((X, y), keys), keys).numpy() for place in torch.arange(len(X)).split(1)]


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
        # A 2⁻⁹ part is left for rounding; the grid of inputs has 2⁸ steps per unit.
        assert np.linalg.norm(found - true) < 0.01 * STEPS


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


class Tied(nn.Module):
    """A table of words that is also the last layer, a parameter that is simply added."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.middle = nn.Embedding(7, 5), nn.Linear(5, 5)
        self.places, self.last = nn.Parameter(torch.randn(4, 5) / 3), nn.Linear(5, 7, bias=False)
        self.last.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        here = self.words(words) + self.places
        here = here + self.middle(here)
        result: torch.Tensor = self.last(here.mean(1))
        return result


class Block(nn.Module):
    """Words, attention, normalisation, two layers at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.attention = nn.Embedding(9, 8, padding_idx=0), nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.rise, self.fall, self.last = (
            nn.LayerNorm(8),
            nn.Linear(8, 16),
            nn.Linear(16, 8),
            nn.Linear(8, 3),
        )

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        here = self.words(words)
        here = here + self.attention(here, here, here, need_weights=False)[0]
        here = here + self.fall(torch.relu(self.rise(self.norm(here))))
        result: torch.Tensor = self.last(here.mean(1))
        return result


def convolutions() -> nn.Module:
    first = nn.Conv2d(2, 4, 3, stride=2, padding=1)
    second = nn.Conv2d(4, 6, (3, 1), dilation=(1, 2), padding=(1, 0), groups=2, bias=False)
    return nn.Sequential(first, nn.GroupNorm(2, 4), nn.ReLU(), second, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 3))


def sounds() -> nn.Module:
    line = nn.Conv1d(2, 3, 4, stride=2, padding=1)
    return nn.Sequential(line, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 3))


IMAGES, LINES = torch.linspace(-2, 3, 10 * 2 * 8 * 8).sin().reshape(10, 2, 8, 8), torch.randn(10, 2, 8)
WORDS = (torch.arange(40).reshape(10, 4) * 5) % 7
CLASSES = torch.arange(10) % 3
NETWORKS: dict[str, tuple[Any, torch.Tensor, set[str]]] = {
    "convolutions": (convolutions, IMAGES, {"0.weight", "3.weight", "6.weight"}),
    "lines": (sounds, LINES, {"0.weight", "3.weight"}),
    "tied": (Tied, WORDS, {"middle.weight"}),
    "block": (
        Block,
        WORDS,
        {f"{name}.weight" for name in ("words", "attention.out_proj", "rise", "fall", "last")}
        | {"attention.in_proj_weight"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("clip", [0.05, 50.0])
def test_every_kind_of_layer_against_autograd(name: str, clip: float) -> None:
    """Long gradients and short ones, row by row; which layers are tapped is what one would expect."""
    make, features, tapped = NETWORKS[name]
    torch.manual_seed(4)
    model = make()
    way = gradients_of(model, clip, 16)
    way.prepare(Examples((features, CLASSES)), usual=10)
    assert {tap.weight for tap in way._taps} == tapped
    for place, found in enumerate(each_alone(way, features, CLASSES)):
        model.zero_grad()
        nn.CrossEntropyLoss()(model(features[place : place + 1]), CLASSES[place : place + 1]).backward()
        true = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]).double().numpy()
        true *= min(1.0, clip / np.linalg.norm(true)) * (STEPS / clip)
        assert square(found) <= STEPS**2
        assert np.linalg.norm(found - true) < 0.02 * STEPS


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_the_same_whether_materialised_or_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of positions and whole products, for every layer that has several positions."""
    make, features, _ = NETWORKS[name]
    torch.manual_seed(4)
    model, sums = make(), []
    for materialised in (True, False):
        monkeypatch.setattr(LayerTap, "materialised", property(lambda tap, asked=materialised: asked and not tap.words))
        way = gradients_of(model, 0.05, 16)
        way.prepare(Examples((features, CLASSES)), usual=10)
        sums.append(each_alone(way, features, CLASSES))
    for one, other in zip(*sums, strict=True):
        assert square(one) <= STEPS**2
        assert square(other) <= STEPS**2
        assert 0 < np.linalg.norm(one - other) < 0.02 * STEPS


@pytest.mark.parametrize("value", [1e20, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["convolutions", "lines"])
def test_one_image_counts_for_one(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is no number, or too large, harms no other row, also where products are not materialised."""
    monkeypatch.setattr(LayerTap, "materialised", property(lambda _: False))
    make, features, _ = NETWORKS[name]
    way = gradients_of(make(), 0.05, 16)
    way.prepare(Examples((features, CLASSES)), usual=10)
    before = each_alone(way, features, CLASSES)
    changed = features.clone()
    changed[3].fill_(value)
    for place, (one, two) in enumerate(zip(before, each_alone(way, changed, CLASSES), strict=True)):
        assert square(two) <= STEPS**2
        assert place == 3 or (one == two).all()


@pytest.mark.parametrize("name", ["convolutions", "tied", "block"])
def test_integers_that_are_too_long_are_dropped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever floats aimed at: numbers that would be half as long again as allowed, in every kind of layer."""
    monkeypatch.setattr(LayerTap, "materialised", property(lambda _: False))
    make, features, _ = NETWORKS[name]
    torch.manual_seed(4)
    way = gradients_of(make(), 1e-3, 16)
    way.prepare(Examples((features, CLASSES)), usual=10)
    assert all(found.any() for found in each_alone(way, features, CLASSES))
    with monkeypatch.context() as patch:
        patch.setattr(way, "_aim", lambda *given: torch.full_like(given[-1], 1.5 * STEPS))
        assert not any(found.any() for found in each_alone(way, features, CLASSES))
    # Sums that would no longer be exact in a float64.
    monkeypatch.setattr("tacit.learn.torch.gradients._EXACT", 1.0)
    assert not any(found.any() for found in each_alone(way, features, CLASSES))


def test_positions_that_nearly_cancel_are_checked_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 allows for so much rounding of such a row that it would be dropped; by float64 it counts in full."""
    model = nn.Sequential(nn.Linear(65, 64, bias=False), nn.Flatten())
    features = torch.ones(2, 16, 65) + torch.arange(16.0)[None, :, None] / 4096
    signs = torch.tensor([1.0, -1.0]).repeat(8)
    targets = torch.stack([signs, signs.abs()])[:, :, None].expand(2, 16, 64).reshape(2, -1) / 4
    way = gradients_of(model, 1.0, 2, loss=lambda output, target: (output * target).sum())
    way.prepare(Examples((features, targets)), usual=2)
    assert [(tap.materialised, way._single(tap)) for tap in way._taps] == [(False, True)]
    kept = [found.any() for found in each_alone(way, features, targets)]
    seen: list[bool] = []
    checked = ExampleGradients._short

    def single_alone(self: ExampleGradients, *parts: Any, single: bool) -> torch.Tensor:
        seen.append(single)
        found: torch.Tensor = checked(self, *parts, single=single)
        return found if single else torch.zeros_like(found)

    monkeypatch.setattr(ExampleGradients, "_short", single_alone)
    assert kept == [True, True]
    assert [found.any() for found in each_alone(way, features, targets)] == [False, True]
    assert set(seen) == {True, False}


@pytest.mark.parametrize(("positions", "groups"), [(1, 1), (49, 1), (49, 512)])
def test_what_is_allowed_for_rounding_covers_all_sums(positions: int, groups: int) -> None:
    """Twice the roundings that the proof counts, those over positions and groups included."""
    tap = LayerTap("weight", None, (1,), positions, groups, 3, 2, 0, lambda into, back: (into, back))
    for kind in (torch.float32, torch.float64):
        counted = (positions + 3 + 2 + 3) * torch.finfo(kind).eps / 2 + groups * positions * 2.0**-53
        assert 2 * counted <= _rounding(tap, kind) < 2 * counted + 32 * (positions + 5) * torch.finfo(kind).eps


def test_shorter_products_than_float32_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a setting, by another device, or by what a product looks like."""
    cpu = torch.device("cpu")
    assert products_are_single(cpu)
    assert not products_are_single(torch.device("meta"))
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
        assert not products_are_single(cpu)
    short = lambda vectors: inner_products(vectors.bfloat16().float())  # noqa: E731 - as a shorter type would
    monkeypatch.setattr("tacit.learn.torch.exact_sums.inner_products", short)
    assert not products_are_single(cpu)


def test_many_small_returns_do_not_vanish() -> None:
    """A quarter of a step of the grid at each of 64 positions: rounded to the nearest, all of it would be 0."""
    model = nn.Sequential(nn.Linear(65, 64, bias=False), nn.Flatten())
    way = gradients_of(model, 1.0, 4, loss=lambda output, target: (output * target).sum())
    features, targets = torch.ones(1, 64, 65), torch.full((1, 64 * 64), 2.0**-18)
    way.prepare(Examples((features, targets)), usual=4)
    assert [tap.materialised for tap in way._taps] == [False]
    rows = (features.expand(4, -1, -1), targets.expand(4, -1))
    keys = [made_up_keys(4) + shift for shift in range(8)]
    found = torch.stack([way.summed(torch.tensor([0]), way.floats(rows, each), each) for each in keys])
    assert abs(found.double().mean() / (64 * 2.0**-18 * STEPS) - 1) < 0.05


def test_how_parameters_may_be_used() -> None:
    """Only parameters of one call and of no other use are tapped."""

    def tapped(model: nn.Module) -> set[str]:
        way = gradients_of(model, 1.0, 4)
        way.prepare(Examples(table()), usual=4)
        return {tap.weight for tap in way._taps}

    twice, tied = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    tied[2].weight = tied[0].weight
    assert tapped(stack()) == {"0.weight", "2.weight"}
    assert tapped(Wrapped(stack())) == set()
    assert tapped(nn.Sequential(twice, nn.ReLU(), twice, nn.Linear(6, 3))) == {"3.weight"}
    assert tapped(tied) == set()
    frozen = stack()
    frozen[0].weight.requires_grad_(False)  # type: ignore[index, union-attr, operator]
    parameters = Parameters(frozen, ["0.bias", "2.weight", "2.bias"])
    way = ExampleGradients(parameters, nn.CrossEntropyLoss(), 1.0, 4)
    way.prepare(Examples(table()), usual=4)
    assert [tap.parameters for tap in way._taps] == [("2.weight", "2.bias")]


def test_a_layer_that_cannot_be_differentiated_row_by_row() -> None:
    class Item(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return self.scale * features * features.sum().item()

    model = Item()
    way = gradients_of(model, 1.0, 4, loss=lambda output, _: output.sum())
    with pytest.raises(InputError, match="example by example"):
        way.prepare(Examples(table()), 4)
