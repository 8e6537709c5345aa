"""The trainer: sampling, noise once per step, the account of the very steps taken, refusals, checkpoints, selection."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

from learn.networks import KINDS, Wrapped, network, stack, table, trainer, weights
from learn.replay import record
from support.bits import SeededBits
from tacit.accounting.compose import compose
from tacit.core.errors import BudgetError, InputError
from tacit.core.events import DiscreteGaussianEvent, PoissonSampledEvent, RepeatedEvent, event_from_json, event_to_json
from tacit.learn.gradient import sample_rows
from tacit.learn.torch import PrivateTrainer
from tacit.learn.torch.exact_sums import STEPS
from tacit.noise import entropy

pytestmark = pytest.mark.torch


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, place: int) -> Any:
        return tuple(each[place] for each in self.tensors)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", KINDS)
def test_replay_on_neighbours(monkeypatch: pytest.MonkeyPatch, kind: str, relation: str) -> None:
    """Outputs frozen, coins of common rows equal: no sum moves more than declared, and everything else is the same."""
    X, y = table()
    for value in (1e6, -1e6, float("nan"), float("inf")):
        row = torch.full((1, X.shape[1]), value)
        left = (torch.cat([X, row]), torch.cat([y, torch.tensor([2])]))
        other = torch.cat([X, -row]), torch.cat([y, torch.tensor([0])])
        right = (X, y) if relation == "add_remove" else other
        # Every row is in the sample and the row in question comes last, so common rows draw the same words.
        settings: dict[str, Any] = {"n": 12, "batch_size": 12, "micro_batch": 8, "relation": relation, "epsilon": 50}
        first, second = trainer(network(kind), **settings), trainer(network(kind), **settings)
        one = coupled(monkeypatch, first, left)
        two = coupled(monkeypatch, second, right, frozen=one)
        assert one.noise == two.noise
        assert first.event_ == second.event_
        assert torch.equal(weights(first.model), weights(second.model))
        declared = released(first)
        moved = [int(sum(int(g) ** 2 for g in (a - b))) for a, b in zip(one.raw, two.raw, strict=True)]
        assert len(moved) == 5
        assert all(gap <= declared.l2_squared for gap in moved)
        assert not math.isfinite(value) or any(moved), "the neighbour has to make some difference"
        assert math.isfinite(value) or not any(moved), "what is not a number counts as zero"


def coupled(monkeypatch: pytest.MonkeyPatch, learner: PrivateTrainer, data: Any, frozen: Any = None) -> Any:
    with monkeypatch.context() as patch:
        # The words for row i are the same in both runs, however many rows there are.
        patch.setattr(entropy, "current", RowBits)
        return record(patch, lambda: learner.fit(*data), frozen)


class RowBits(SeededBits):
    """A fresh source for every request: the k-th word of a request is always the same."""

    def __init__(self) -> None:
        super().__init__(7)


def released(learner: PrivateTrainer) -> DiscreteGaussianEvent:
    event = learner.event_
    while isinstance(event, RepeatedEvent | PoissonSampledEvent):
        event = event.event
    assert isinstance(event, DiscreteGaussianEvent)
    return event


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("micro_batch", [1, 3, 64, None])
@pytest.mark.usefixtures("seeded")
def test_noise_enters_once_per_step_whatever_the_micro_batch(
    monkeypatch: pytest.MonkeyPatch, kind: str, micro_batch: int | None
) -> None:
    X, y = table()
    learner = trainer(network(kind), micro_batch=micro_batch)
    seen = record(monkeypatch, lambda: learner.fit(X, y))
    assert len(seen.raw) == learner.steps == learner.taken == 5
    assert {noise for _, noise in seen.noise} == {learner.sigma2}
    assert {len(raw) for raw in seen.raw} == {len(weights(learner.model))}


@pytest.mark.usefixtures("seeded")
def test_the_step_is_the_noisy_sum_over_a_public_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divided by batch_size as declared, whatever the sample; so n and n - 1 rows are divided alike."""
    X, y = table()
    model = stack()
    before = weights(model)
    learner = trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    seen = record(monkeypatch, lambda: learner.fit(X[:30], y[:30], steps=1))
    step = seen.noisy[0] / STEPS / 12
    assert torch.allclose(before - weights(model), torch.tensor(step, dtype=torch.float32), atol=1e-6)
    assert learner.noise == pytest.approx(math.sqrt(learner.sigma2) / STEPS / 12)


@pytest.mark.usefixtures("seeded")
def test_epsilon_is_the_accountants_for_the_very_steps_taken() -> None:
    X, y = table()
    learner = trainer(stack())
    assert learner.guarantee_.epsilon == 0
    for steps in (1, 2, 2):
        learner.fit(X, y, steps=steps)
        noise = DiscreteGaussianEvent(learner.sigma2, Fraction(STEPS**2), dimension=73)
        sampled = PoissonSampledEvent(Fraction(1, 4), noise)
        assert learner.event_ == RepeatedEvent(sampled, learner.taken)
        assert event_from_json(event_to_json(learner.event_)) == learner.event_
        again = compose([(sampled, learner.taken)], delta="1e-3", method="pld")
        assert learner.guarantee_.epsilon == again.epsilon
        assert learner.guarantee_.delta == Fraction(1, 1000)
    assert learner.guarantee_ == learner.planned
    assert 1.98 < learner.planned.epsilon <= 2
    with pytest.raises(BudgetError, match="0 of 5 steps are left"):
        learner.fit(X, y)
    with pytest.raises(BudgetError, match="5 of 5 steps are left"):
        trainer(stack()).fit(X, y, steps=6)
    assert "5 of 5 sums of 73 numbers" in str(learner.privacy_report())


@pytest.mark.usefixtures("seeded")
def test_noise_is_of_the_size_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square of 400 coordinates per step; false alarms below 1e-6, and 0.8 and 1.25 times the scale are seen."""
    from scipy.stats import chi2

    X, y = table()
    learner = trainer(stack(width=60), steps=5)
    seen = record(monkeypatch, lambda: learner.fit(X, y))
    noise = np.concatenate([noisy - raw for noisy, raw in zip(seen.noisy, seen.raw, strict=True)])
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(noise))
    total = float((noise**2).sum()) / float(learner.sigma2)
    assert low < total < high
    assert not low < total * 0.8**2 < high
    assert not low < total * 1.25**2 < high


@pytest.mark.usefixtures("seeded")
def test_batch_sizes_are_binomial() -> None:
    """Kolmogorov's distance of 2,000 sizes from Binomial(200, 1/4); 0.044 is passed by chance once in a thousand."""
    learner = trainer(stack())
    sizes = np.array([np.count_nonzero(sample_rows(200, learner.rate)) for _ in range(2000)])
    grid = np.arange(201)
    found = (sizes[:, None] <= grid).mean(0)
    assert np.abs(found - binom.cdf(grid, 200, 0.25)).max() < 0.044
    for wrong in (0.23, 0.27):
        assert np.abs(found - binom.cdf(grid, 200, wrong)).max() > 0.044
    assert len(set(sizes.tolist())) > 10, "a fixed size is no sample"
    # Membership is independent from row to row: the variance of a size is that of independent coins.
    assert sizes.var() == pytest.approx(200 * 0.25 * 0.75, rel=0.15)


@pytest.mark.usefixtures("seeded")
def test_the_rate_is_declared_and_does_not_follow_the_rows() -> None:
    X, y = table()
    learner = trainer(stack())
    learner.fit(X[:5], y[:5], steps=1)
    learner.fit(X[:0], y[:0], steps=1)
    assert learner.rate == Fraction(1, 4)
    assert learner.taken == 2


@pytest.mark.usefixtures("seeded")
def test_tensors_arrays_and_datasets_are_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    outcomes = []
    for data in ((X, y), (X.numpy(), y.numpy()), (TensorDataset(X, y),), (Rows(X, y),)):
        monkeypatch.setattr(entropy, "current", RowBits)
        learner = trainer(stack(), epsilon=50)
        learner.fit(*data)
        outcomes.append(weights(learner.model))
    assert all(torch.equal(outcomes[0], each) for each in outcomes)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda X, y: (DataLoader(TensorDataset(X, y), batch_size=4),), "fit\\(loader.dataset"),
        (lambda X, y: (DataLoader(TensorDataset(X, y), batch_size=4, shuffle=True),), "not Poisson"),
        (lambda X, y: (RandomSampler(TensorDataset(X, y)),), "draws its own samples"),
        (lambda X, y: (Stream(),), "needs a dataset with len"),
        (lambda X, y: (X, y[:-1]), "numbers of rows differ"),
        (lambda X, y: (), "is missing"),
        (lambda X, y: (X, "labels"), "must be tensors"),
    ],
)
def test_refused_data(data: Any, words: str) -> None:
    learner = trainer(stack())
    with pytest.raises(InputError, match=words):
        learner.fit(*data(*table()))
    assert learner.taken == 0


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(7), nn.SyncBatchNorm(7), nn.LazyBatchNorm1d(), nn.InstanceNorm1d(7, track_running_stats=True)],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_layers_that_mix_examples_are_refused_with_a_remedy(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(6, 7), layer, nn.Linear(7, 3))
    with pytest.raises(InputError, match=r"layer 1 .*GroupNorm"):
        PrivateTrainer(
            model, nn.CrossEntropyLoss(), torch.optim.SGD(model[0].parameters(), lr=1), epsilon=1, delta="1e-5",
            n=10, batch_size=2, steps=1,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 2}, "one of the two"),
        ({"steps": None}, "one of the two"),
        ({"batch_size": 49}, "at most n"),
        ({"clip": "1e-9"}, "between 1e-6"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"loss": "squares"}, "must be a function"),
        ({"optimizer": torch.optim.LBFGS(stack().parameters())}, "LBFGS"),
        ({"optimizer": torch.optim.SGD(stack().parameters())}, "not trainable ones of the model"),
        ({"optimizer": "sgd"}, "torch.optim.Optimizer"),
    ],
)
def test_refused_settings(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        trainer(stack(), **changes)


def test_a_large_delta_is_a_warning_and_a_caution() -> None:
    with pytest.warns(UserWarning, match="publishes one row in 10"):
        learner = trainer(stack(), delta="0.1")
    assert "publishes one row in 10" in str(learner.privacy_report())


def test_what_has_a_mechanism_of_its_own_is_refused() -> None:
    # Named by its class's module, as Opacus's wrappers are: Tacit does not import Opacus.
    Wrapper = type("GradSampleModule", (nn.Sequential,), {"__module__": "opacus.grad_sample.grad_sample_module"})
    with pytest.raises(InputError, match="wrapped by Opacus"):
        trainer(Wrapper(*stack()))


@pytest.mark.usefixtures("seeded")
def test_parameters_left_out_of_the_optimizer_stay() -> None:
    X, y = table()
    model = stack()
    first = model[0].weight.detach().clone()  # type: ignore[index]
    learner = trainer(model, optimizer=torch.optim.Adam(model[2].parameters()))  # type: ignore[index]
    learner.fit(X, y)
    assert torch.equal(model[0].weight, first)  # type: ignore[index]
    assert released(learner).dimension == 24


def saved(learner: PrivateTrainer) -> dict[str, Any]:
    """Through a file and back, as safely as torch can."""
    file = io.BytesIO()
    torch.save(learner.state_dict(), file)
    file.seek(0)
    state: dict[str, Any] = torch.load(file, weights_only=True)
    return state


@pytest.mark.usefixtures("seeded")
def test_checkpoints_resume_with_their_account(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    monkeypatch.setattr(entropy, "current", RowBits)
    straight = trainer(stack()).fit(X, y)
    one = trainer(stack())
    one.fit(X, y, steps=2)
    state = saved(one)
    two = trainer(stack(width=7))
    two.load_state_dict(state)
    assert two.taken == 2
    assert two.guarantee_ == one.guarantee_
    two.fit(X, y)
    assert torch.equal(weights(two.model), weights(straight.model)), "momentum and all"
    with pytest.raises(BudgetError):
        two.fit(X, y)


@pytest.mark.usefixtures("seeded")
def test_steps_are_never_forgotten() -> None:
    X, y = table()
    one = trainer(stack())
    early = saved(one.fit(X, y, steps=1))
    late = saved(one.fit(X, y, steps=2))
    one.load_state_dict(early)
    assert one.taken == 3, "going back does not undo what was released"
    other = trainer(stack()).fit(X, y, steps=1)
    other.load_state_dict(late)
    assert other.taken == 4, "steps of two runs add up"
    full = trainer(stack()).fit(X, y, steps=3)
    with pytest.raises(BudgetError, match="exceed 5"):
        full.load_state_dict(late)
    for changes in ({"steps": 6}, {"epsilon": 3}, {"clip": 2}, {"delta": "1e-4"}):
        with pytest.raises(InputError, match="another plan"):
            trainer(stack(), **changes).load_state_dict(early)
    with pytest.raises(InputError, match="not a checkpoint"):
        trainer(stack()).load_state_dict({"model": {}})


@pytest.mark.usefixtures("seeded")
def test_it_learns_and_dropout_and_other_layers_work() -> None:
    X, y = table(rows=400, classes=2)
    model = Wrapped(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer(model, optimizer=optimizer, epsilon=20, n=400, batch_size=100, steps=40).fit(X, y)
    model.eval()
    assert float((model(X).argmax(1) == y).float().mean()) > 0.85


def test_learn_imports_without_torch_and_says_what_to_install() -> None:
    program = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "import tacit.learn\n"
        "try:\n    import tacit.learn.torch\nexcept ValueError as problem: print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert "tacit-dp[torch]" in done.stdout
