"""Random layers: the draws of a row do not depend on the rest of the batch; and rows that a network cannot take."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from learn.networks import Wrapped, stack, table, trainer, weights
from learn.replay import record
from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.learn.torch import PrivateTrainer
from tacit.learn.torch.exact_sums import STEPS
from tacit.learn.torch.examples import Examples
from tacit.noise import entropy

pytestmark = pytest.mark.torch


class Forward(nn.Module):
    """A linear layer before and after any function."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.last, self.function = nn.Linear(6, 8), nn.Linear(8, 3), function

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.function(self.first(features)))
        return result


def plain(layer: nn.Module) -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 8), layer, nn.Linear(8, 3))


def shaped(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> nn.Module:
    return Forward(lambda here: function(here.reshape(len(here), *shape)).reshape(len(here), 8))


def attention(here: torch.Tensor) -> torch.Tensor:
    parts = here.reshape(len(here), 1, 4, 2)
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    one = functional.scaled_dot_product_attention(parts, parts, parts, attn_mask=mask, dropout_p=0.5)
    other = functional.scaled_dot_product_attention(parts, parts, parts, dropout_p=0.3, is_causal=True)
    return (one + other).reshape(len(here), 8)


SAFE: dict[str, Callable[[], nn.Module]] = {
    "Dropout": lambda: plain(nn.Dropout(0.5)),
    "Dropout in a network": lambda: Wrapped(plain(nn.Dropout(0.5))),
    "Dropout in place": lambda: Wrapped(plain(nn.Dropout(0.5, inplace=True))),
    "Dropout, twice": lambda: nn.Sequential(plain(nn.Dropout(0.5)), nn.Dropout(0.5)),
    "Dropout of everything": lambda: plain(nn.Dropout(1.0)),
    "Dropout1d": lambda: shaped(nn.Dropout1d(0.5), 4, 2),
    "Dropout2d": lambda: shaped(nn.Dropout2d(0.5), 4, 2, 1),
    "Dropout3d": lambda: shaped(nn.Dropout3d(0.5), 4, 2, 1, 1),
    "AlphaDropout": lambda: plain(nn.AlphaDropout(0.5)),
    "FeatureAlphaDropout": lambda: shaped(nn.FeatureAlphaDropout(0.5), 4, 2),
    "RReLU": lambda: plain(nn.RReLU()),
    "functional dropout": lambda: Forward(lambda here: functional.dropout(here, 0.5)),
    "torch.dropout": lambda: Forward(lambda here: torch.dropout(here, 0.5, True)),
    "rand_like": lambda: Forward(lambda here: here * torch.rand_like(here)),
    "rand": lambda: Forward(lambda here: here * torch.rand(8)),
    "randn": lambda: Forward(lambda here: here + torch.randn(1, 8)),
    "randn_like": lambda: Forward(lambda here: here + torch.randn_like(here)),
    "bernoulli": lambda: Forward(lambda here: here * torch.bernoulli(torch.full_like(here, 0.5))),
    "randint": lambda: Forward(lambda here: here * torch.randint(0, 3, (8,))),
    "attention": lambda: Forward(attention),
    "encoder layer": lambda: Forward(_encoded()),
}


def _encoded() -> Callable[[torch.Tensor], torch.Tensor]:
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(2, 1, 4, dropout=0.5, batch_first=True)
    return lambda here: layer(here.reshape(len(here), 4, 2)).reshape(len(here), 8)


class ByRow:
    """Words that belong to rows: a request for one word per row gets the same ones, whichever rows are there."""

    def __init__(self, present: np.ndarray, rows: int) -> None:
        self._present, self._rows, self._rest = present, rows, SeededBits(3)

    def words(self, count: int) -> np.ndarray:
        made = self._rest.words(self._rows)
        return made[self._present] if count == len(self._present) else made[:count]

    def bits(self, count: int) -> int:
        return self._rest.bits(count)


def added(monkeypatch: pytest.MonkeyPatch, make: Callable[[], nn.Module], present: np.ndarray) -> np.ndarray:
    """The sum of one step in which all present rows are sampled."""
    X, y = table()
    learner = trainer(make(), n=12, batch_size=12, steps=1, micro_batch=8, epsilon=50)
    with monkeypatch.context() as patch:
        bits = ByRow(present, len(X))
        patch.setattr(entropy, "current", lambda: bits)
        patch.setattr("tacit.learn.release.release_gaussian", lambda raw, _: caught.append(raw) or raw * 0.0)
        caught: list[np.ndarray] = []
        learner.fit(X[present], y[present])
    return caught[0]


@pytest.mark.parametrize("name", SAFE)
def test_removing_a_row_leaves_what_the_others_drew(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    everyone = np.arange(48)
    whole = added(monkeypatch, SAFE[name], everyone)
    for row in (0, 7, 47):
        gap = whole - added(monkeypatch, SAFE[name], np.delete(everyone, row))
        assert 0 < sum(int(each) ** 2 for each in gap) <= STEPS**2


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.usefixtures("seeded")
def test_rows_draw_apart_and_steps_afresh(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One row many times: its gradients differ from place to place and from step to step, so masks are no constant."""
    if name == "Dropout of everything":
        return
    X, y = table()
    same = X[:1].repeat(16, 1), y[:1].repeat(16)
    learner = trainer(SAFE[name](), n=16, batch_size=16, steps=2, epsilon=50)
    seen = record(monkeypatch, lambda: learner.fit(*same))
    assert (seen.raw[0] != seen.raw[1]).any()
    alone = [
        record(monkeypatch, lambda: trainer(SAFE[name](), n=1, batch_size=1, steps=1, epsilon=50).fit(X[:1], y[:1]))
        for _ in range(4)
    ]
    assert len({each.raw[0].tobytes() for each in alone}) > 1
    assert (seen.raw[0] != 16 * alone[0].raw[0]).any()


@pytest.mark.usefixtures("seeded")
def test_masks_have_the_law_of_dropout() -> None:
    """Shares kept and means; 4000 coins of ½ lie within 0.05 of it but with probability below 1e-9."""
    from tacit.learn.torch.randomness import RowRandomness

    keys = torch.from_numpy(entropy.current().words(1).view(np.int64))[0]
    ones = torch.ones(1, 4000)
    with RowRandomness(keys):
        kept = functional.dropout(ones, 0.5)
        uniform = torch.rand(4000)
        normal = torch.randn(4000)
        coins = torch.bernoulli(torch.full((4000,), 0.25))
        whole = torch.randint(2, 5, (4000,))
        channels = functional.dropout1d(torch.ones(1, 400, 5), 0.5)
        alpha = functional.alpha_dropout(torch.randn(1, 4000), 0.3, training=True)
        untouched = functional.dropout(ones, 0.5, training=False)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert abs(float((kept > 0).float().mean()) - 0.5) < 0.05
    assert abs(float(uniform.mean()) - 0.5) < 0.05
    assert 0 <= float(uniform.min()) <= float(uniform.max()) < 1
    assert abs(float(normal.mean())) < 0.1
    assert abs(float(normal.std()) - 1) < 0.1
    assert abs(float(coins.mean()) - 0.25) < 0.05
    assert whole.unique().tolist() == [2, 3, 4]
    assert set(channels.sum(2).unique().tolist()) == {0.0, 10.0}
    assert abs(float(alpha.mean())) < 0.1
    assert abs(float(alpha.std()) - 1) < 0.1
    assert torch.equal(untouched, ones)


class Counting(nn.Module):
    """A layer that keeps count of its calls in a buffer, and so of the micro-batches."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return features


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return features * self.calls


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "multinomial": (lambda: Forward(lambda here: here * torch.multinomial(torch.ones(8), 1)), "multinomial"),
    "in place": (lambda: Forward(lambda here: here * torch.empty(8).bernoulli_(0.5)), "bernoulli_"),
    "uniform_": (lambda: Forward(lambda here: here * torch.empty(8).uniform_()), "uniform_"),
    "randperm": (lambda: Forward(lambda here: here[:, torch.randperm(8)]), "randperm"),
    "gumbel": (lambda: Forward(lambda here: functional.gumbel_softmax(here)), "exponential_"),
    "a generator": (lambda: Forward(lambda here: here * torch.rand(8, generator=torch.Generator())), "generator"),
    "Python's random": (lambda: Forward(lambda here: here * random.random()), "same rows"),
    "NumPy's random": (lambda: Forward(lambda here: here * float(np.random.random())), "same rows"),
    "a memory": (lambda: Wrapped(plain(Remembering())), "same rows"),
    "a counting buffer": (lambda: Wrapped(plain(Counting())), "buffer"),
    "weights that words shorten": (lambda: nn.Sequential(nn.Embedding(9, 4, max_norm=1.0), nn.Flatten()), "max_norm"),
    "bags of such words": (lambda: nn.EmbeddingBag(9, 3, max_norm=1.0), "max_norm"),
    "a recurrent layer": (lambda: nn.LSTM(6, 3, 2, dropout=0.5), "LSTM"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("seeded")
def test_what_cannot_be_tied_to_a_row_is_refused_before_any_row_is_read(name: str) -> None:
    make, words = REFUSED[name]
    X, y = table()
    with pytest.raises(InputError, match=words):
        trainer(make(), micro_batch=1).fit(X, y)
    with pytest.raises(InputError, match=words):
        trainer(make(), micro_batch=8).fit(X, y)


def sums(
    monkeypatch: pytest.MonkeyPatch, learner: PrivateTrainer, *data: Any, present: list[int] | None = None
) -> np.ndarray:
    """The first sum of a training, with places and keys of the rows that are there; a warning is an error."""
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("error")
        bits = ByRow(np.array(present or range(12)), 12)
        patch.setattr(entropy, "current", lambda: bits)
        patch.setattr("tacit.learn.release.release_gaussian", lambda raw, _: caught.append(raw) or raw * 0.0)
        caught: list[np.ndarray] = []
        learner.fit(*data)
    return caught[0]


@pytest.mark.parametrize("kind", ["stack", "any", "embedding", "binary"])
@pytest.mark.usefixtures("seeded")
def test_a_row_that_the_network_or_the_loss_cannot_take_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A class without an output, a word outside of the table: the others' sum is the same, and nothing is said."""
    X, y = table(rows=12)
    settings: dict[str, Any] = {"n": 12, "batch_size": 12, "steps": 1, "micro_batch": 8, "epsilon": 50}

    def model() -> nn.Module:
        if kind == "embedding":
            torch.manual_seed(5)
            return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(24, 3))
        if kind == "binary":
            torch.manual_seed(5)
            return Wrapped(nn.Sequential(nn.Linear(6, 1), nn.Sigmoid(), nn.Flatten(0)))
        return stack() if kind == "stack" else Wrapped(stack())

    loss = nn.BCELoss() if kind == "binary" else nn.CrossEntropyLoss()
    features = (X * 3).abs().long() if kind == "embedding" else X
    targets = (y > 0).float() if kind == "binary" else y
    bad_features, bad_targets = features.clone(), targets.clone()
    if kind == "embedding":
        bad_features[5, 2] = 9999
    else:
        bad_targets[5] = 7
    left = sums(monkeypatch, trainer(model(), loss=loss, **settings), bad_features, bad_targets)
    rest = [place for place in range(12) if place != 5]
    right = sums(monkeypatch, trainer(model(), loss=loss, **settings), features[rest], targets[rest], present=rest)
    assert (left == right).all()
    assert left.any()


class Ragged(torch.utils.data.Dataset[Any]):
    """A dataset with one row that raises, one of another shape, and one that is no tensor."""

    def __init__(self, bad: dict[int, Any]) -> None:
        self.features, self.targets = table(rows=12)
        self.bad = bad

    def __len__(self) -> int:
        return 12

    def __getitem__(self, place: int) -> Any:
        if place in self.bad:
            if self.bad[place] is None:
                raise ValueError("secret 424242")
            return self.bad[place]
        return self.features[place], self.targets[place]


@pytest.mark.parametrize("bad", [None, (torch.zeros(9), torch.tensor(1)), ("text", 1), (torch.zeros(6),), 7])
@pytest.mark.parametrize("place", [0, 5])
@pytest.mark.usefixtures("seeded")
def test_a_row_of_a_dataset_that_is_no_row_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, bad: Any, place: int
) -> None:
    settings: dict[str, Any] = {"n": 12, "batch_size": 12, "steps": 1, "micro_batch": 8, "epsilon": 50}
    left = sums(monkeypatch, trainer(stack(), **settings), Ragged({place: bad}))
    whole = Ragged({})
    rest = [each for each in range(12) if each != place]
    right = sums(monkeypatch, trainer(stack(), **settings), whole.features[rest], whole.targets[rest], present=rest)
    assert (left == right).all()


@pytest.mark.parametrize("kind", ["stack", "any"])
@pytest.mark.parametrize("make", [nn.CrossEntropyLoss, nn.NLLLoss], ids=lambda make: make.__name__)
def test_weights_of_classes_count(monkeypatch: pytest.MonkeyPatch, kind: str, make: Any) -> None:
    """In a batch of one the mean over weights cancels them; here each row's loss is multiplied with its class's."""
    X, y = table(rows=12)
    settings: dict[str, Any] = {"n": 12, "batch_size": 12, "steps": 1, "micro_batch": 8, "epsilon": 50, "clip": 20}

    def model() -> nn.Module:
        inside = stack() if make is nn.CrossEntropyLoss else nn.Sequential(*stack(), nn.LogSoftmax(dim=1))  # type: ignore[misc]
        return inside if kind == "stack" and make is nn.CrossEntropyLoss else Wrapped(inside)

    for chosen, factor in ((0, 5.0), (1, 0.0), (2, 2.0)):
        rows = y == chosen
        weight = torch.ones(3)
        weight[chosen] = factor
        plain, weighted, by_function = (
            sums(monkeypatch, trainer(model(), loss=loss, **settings), X[rows], y[rows])
            for loss in (
                make(),
                make(weight=weight),
                lambda output, target: (
                    functional.cross_entropy if make is nn.CrossEntropyLoss else functional.nll_loss
                )(output, target, weight=weight),  # noqa: B023
            )
        )
        assert np.linalg.norm(weighted - factor * plain) <= 1e-2 * max(np.linalg.norm(plain), 1) * max(factor, 1)
        assert np.linalg.norm(by_function - weighted) <= 1e-2 * max(np.linalg.norm(plain), 1) * max(factor, 1)


@pytest.mark.parametrize("kind", ["stack", "any"])
def test_other_options_of_losses(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    X, y = table(rows=12)
    settings: dict[str, Any] = {"n": 12, "batch_size": 12, "steps": 1, "micro_batch": 8, "epsilon": 50, "clip": 20}

    def total(loss: Any, targets: torch.Tensor = y) -> np.ndarray:
        return sums(
            monkeypatch, trainer(stack() if kind == "stack" else Wrapped(stack()), loss=loss, **settings), X, targets
        )

    plain = total(nn.CrossEntropyLoss())
    assert (total(nn.CrossEntropyLoss(ignore_index=1)) != plain).any()
    kept = y != 1
    without = sums(monkeypatch, trainer(stack() if kind == "stack" else Wrapped(stack()), **settings), X[kept], y[kept])
    assert np.linalg.norm(total(nn.CrossEntropyLoss(ignore_index=1)) - without) <= 1e-2 * np.linalg.norm(without)
    assert (total(nn.CrossEntropyLoss(label_smoothing=0.3)) != plain).any()
    for reduction in ("sum", "none"):
        assert np.linalg.norm(total(nn.CrossEntropyLoss(reduction=reduction)) - plain) <= 1e-2 * np.linalg.norm(plain)
    binary = functional.one_hot(y, 3).float()
    heavier = total(nn.BCEWithLogitsLoss(pos_weight=torch.full((3,), 4.0)), binary)
    assert (heavier != total(nn.BCEWithLogitsLoss(), binary)).any()
    shares = binary * 0.8 + 0.2 / 3
    weight = torch.tensor([1.0, 5.0, 2.0])
    assert (total(nn.CrossEntropyLoss(weight=weight), shares) != total(nn.CrossEntropyLoss(), shares)).any()


def test_masked_arrays_and_frames_are_refused_by_type() -> None:
    import pandas as pd

    X, y = table()
    for bad in ((np.ma.masked_array(X.numpy(), mask=False), y), (pd.DataFrame(X.numpy()),)):
        with pytest.raises(InputError, match="data"):
            trainer(stack()).fit(*bad)


def test_examples_of_nothing() -> None:
    assert Examples((torch.zeros(0, 3),)).made_up(4) is not None


@pytest.mark.usefixtures("seeded")
def test_no_rows_in_a_tensor_look_like_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is refused is refused with no rows as well; otherwise the refusal would tell."""
    make, words = REFUSED["multinomial"]
    X, y = table()
    with pytest.raises(InputError, match=words):
        trainer(make()).fit(X[:0], y[:0])
    before = weights(stack())
    learner = trainer(stack(), steps=1)
    learner.fit(X[:0], y[:0])
    assert not torch.equal(before, weights(learner.model)), "noise moves it"


class Clamping(nn.Module):
    """A layer that cuts its own weights whenever it is passed, and counts the passes, from the fifth one on."""

    def __init__(self, trained: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.inside, self.passes = nn.Linear(6, 3), 0
        self.register_buffer("seen", torch.zeros(1))
        self.inside.bias.requires_grad_(trained)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        if self.passes > 20:
            with torch.no_grad():
                self.inside.weight.clamp_(-0.01, 0.01)
                self.inside.bias.zero_()
                self.seen += 1
        result: torch.Tensor = self.inside(features)
        return result


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.usefixtures("seeded")
def test_a_pass_over_rows_changes_nothing_but_through_the_noise(trained: bool) -> None:
    """Otherwise parameters and buffers would tell whether, and how often, there was a sample to look at."""
    X, y = table()
    model = Clamping(trained)
    bias = model.inside.bias.detach().clone()
    learning = [each for each in model.parameters() if each.requires_grad]
    learner = trainer(model, optimizer=torch.optim.SGD(learning, lr=1e-9), steps=40)
    learner.fit(X, y)
    assert model.passes > 20
    assert float(model.inside.weight.detach().abs().max()) > 0.1
    assert torch.allclose(model.inside.bias, bias, atol=1e-3)
    assert float(model.seen) == 0


class CountingLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return functional.cross_entropy(output, target)


@pytest.mark.parametrize("kind", ["stack", "any"])
def test_a_loss_that_counts_is_refused(kind: str) -> None:
    X, y = table()
    with pytest.raises(InputError, match="buffer"):
        trainer(stack() if kind == "stack" else Wrapped(stack()), loss=CountingLoss()).fit(X, y)


@pytest.mark.parametrize("make", [nn.BCEWithLogitsLoss, nn.BCELoss])
@pytest.mark.parametrize("kind", ["stack", "any"])
def test_weights_of_places_in_a_batch_are_refused(make: Any, kind: str) -> None:
    """PyTorch's binary losses take weights of places, which rows do not have; weights of outputs are taken."""
    X, _ = table()
    inside = nn.Sequential(*stack(), nn.Sigmoid())  # type: ignore[misc]
    targets = torch.rand(48, 3)
    with pytest.raises(InputError, match="weight"):
        trainer(inside if kind == "stack" else Wrapped(inside), loss=make(weight=torch.rand(48, 1))).fit(X, targets)
    trainer(inside if kind == "stack" else Wrapped(inside), loss=make(weight=torch.rand(3))).fit(X, targets)
