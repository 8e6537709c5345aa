"""Strategies: sensitivity by brute force, exact encoding, decoding, replay on neighbours, the account, refusals."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from learn.networks import stack, table, trainer, weights
from learn.replay import record
from support.bits import SeededBits
from tacit.accounting.compose import compose
from tacit.core.errors import BudgetError, InputError
from tacit.core.events import DiscreteGaussianEvent
from tacit.learn.torch import BandedToeplitz, BufferedToeplitz
from tacit.learn.torch import correlated as correlating
from tacit.learn.torch.correlated import CorrelatedRelease
from tacit.learn.torch.gradient_grid import STEPS
from tacit.learn.torch.toeplitz import NoiseStrategy, moved_squared
from tacit.noise import entropy

pytestmark = pytest.mark.torch

STRATEGIES = [BandedToeplitz(1), BandedToeplitz(5), BufferedToeplitz(1), BufferedToeplitz(3)]


def matrix(strategy: NoiseStrategy, steps: int, period: int) -> NDArray[np.float64]:
    column = np.array([float(each) for each in strategy.made_for(steps, period).coefficients(steps)])
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize(("steps", "period"), [(12, 12), (12, 4), (13, 5), (9, 1)])
def test_sensitivity_is_that_of_the_worst_turn_and_signs(strategy: NoiseStrategy, steps: int, period: int) -> None:
    """By brute force over turns; scalars of both signs, where a matrix with negative entries would be worse."""
    whole = matrix(strategy, steps, period)
    assert (whole >= 0).all()
    worst = 0.0
    for turn in range(period):
        columns = whole[:, turn::period]
        for signs in range(2 ** min(columns.shape[1], 4)):
            sizes = np.array([1.0 if signs >> min(i, 3) & 1 else -1.0 for i in range(columns.shape[1])])
            worst = max(worst, float(((columns @ sizes) ** 2).sum()))
    stated = float(moved_squared(strategy.made_for(steps, period).coefficients(steps), period))
    assert stated == pytest.approx(worst, rel=1e-12)
    bound = strategy.l2_sensitivity(steps, period, 10, STEPS)
    assert math.sqrt(stated) * STEPS <= bound < math.sqrt(stated) * STEPS * 1.0001 + 1


def test_errors_fall_with_bands_and_buffers() -> None:
    """Independent noise has error √(T/2) in one pass; the best matrix of 200 steps has 2.5, by published tables."""
    errors = [strategy.error(200, 200) for strategy in (BandedToeplitz(1), BandedToeplitz(4), BandedToeplitz(32))]
    assert errors[0] == pytest.approx(math.sqrt(201 / 2))
    assert errors[0] > 1.8 * errors[1] > 2.5 * errors[2]
    buffered = [BufferedToeplitz(k).error(200, 200) for k in (1, 2, 3)]
    assert 2.5 < buffered[2] <= buffered[1] <= buffered[0] < errors[2]
    # Over four passes too, where one row counts four times.
    assert BufferedToeplitz(3).error(200, 50) < BandedToeplitz(1).error(200, 50) / 3


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_encoding_is_the_product_and_decoding_its_inverse(
    monkeypatch: pytest.MonkeyPatch, strategy: NoiseStrategy
) -> None:
    steps, made = 40, np.random.default_rng(3)
    sums = made.integers(-(1 << 40), 1 << 40, size=(steps, 6))
    stream = CorrelatedRelease(strategy.made_for(steps, 10), Fraction(16))
    encoded: list[NDArray[np.int64]] = []

    def without_noise(raw: NDArray[np.int64], _: Fraction) -> NDArray[np.float64]:
        encoded.append(raw.copy())
        return raw.astype(np.float64)

    monkeypatch.setattr(correlating.release, "release_gaussian", without_noise)
    decoded = np.array([stream.release(each, step) for step, each in enumerate(sums)])
    exact = strategy.made_for(steps, 10).coefficients(steps)
    for t in range(steps):
        wanted = [sum(exact[t - s] * int(sums[s, j]) for s in range(t + 1)) for j in range(6)]
        off = [abs(float(want - int(got))) for want, got in zip(wanted, encoded[t], strict=True)]
        assert max(off) <= float(strategy.made_for(steps, 10).roundings()) + 1e-6
    assert np.abs(decoded - sums).max() <= 64


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("strategy", [BandedToeplitz(4), BufferedToeplitz(2)], ids=repr)
def test_replay_on_neighbours(monkeypatch: pytest.MonkeyPatch, strategy: NoiseStrategy, relation: str) -> None:
    """All encoded sums together move by at most what is declared, and by much of it when a row pulls its hardest."""
    X, y = table(rows=11)
    for value in (1e6, float("nan")):
        row = torch.full((1, X.shape[1]), value)
        left = (torch.cat([X, row]), torch.cat([y, torch.tensor([2])]))
        right = (X, y) if relation == "add_remove" else (torch.cat([X, -row]), torch.cat([y, torch.tensor([0])]))
        settings: dict[str, Any] = {
            "n": 12, "batch_size": 4, "steps": 9, "relation": relation, "epsilon": 50, "strategy": strategy,
        }  # fmt: skip
        first, second = trainer(stack(), **settings), trainer(stack(), **settings)
        one = coupled(monkeypatch, first, left)
        two = coupled(monkeypatch, second, right, frozen=one)
        assert torch.equal(weights(first.model), weights(second.model)), "decoding sees released numbers alone"
        event = first.event_
        assert isinstance(event, DiscreteGaussianEvent)
        assert {noise for _, noise in one.noise} == {event.sigma2}
        moved = sum(sum(int(g) ** 2 for g in a - b) for a, b in zip(one.raw, two.raw, strict=True))
        assert moved <= event.l2_squared
        assert moved > (0.05 * event.l2_squared if math.isfinite(value) else -1)
        assert math.isfinite(value) or moved == 0


def coupled(monkeypatch: pytest.MonkeyPatch, learner: Any, data: Any, frozen: Any = None) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(entropy, "current", RowBits)
        return record(patch, lambda: learner.fit(*data), frozen)


class RowBits(SeededBits):
    """A fresh source for every request: the k-th word of a request is always the same."""

    def __init__(self) -> None:
        super().__init__(7)


@pytest.mark.usefixtures("seeded")
def test_the_account_is_of_one_vector_and_of_its_beginning() -> None:
    X, y = table()
    learner = trainer(stack(), strategy=BandedToeplitz(3), steps=8)
    learner.fit(X, y, steps=3)
    whole = learner.strategy.l2_sensitivity(8, 4, 73, STEPS)
    part = learner.strategy.l2_sensitivity(8, 4, 73, STEPS, 3)
    assert part < whole
    assert learner.event_ == DiscreteGaussianEvent(learner.sigma2, Fraction(part**2), 3 * 73)
    assert learner.guarantee_.epsilon == compose([learner.event_], delta="1e-3", method="pld").epsilon
    assert learner.guarantee_.epsilon < learner.planned.epsilon <= 2
    learner.fit(X, y)
    assert learner.event_ == DiscreteGaussianEvent(learner.sigma2, Fraction(whole**2), 8 * 73)
    assert learner.planned.epsilon > Fraction(199, 100)
    assert "correlated by BandedToeplitz(bands=3), each row in one of 4 turns" in str(learner.privacy_report())


@pytest.mark.usefixtures("seeded")
def test_each_row_counts_once_in_a_pass() -> None:
    learner = trainer(stack(), strategy=BufferedToeplitz(), steps=8)
    chosen = [learner._participation.of(step, 48).tolist() for step in range(8)]
    assert sorted(row for each in chosen[:4] for row in each) == list(range(48))
    assert chosen[:4] == chosen[4:]
    assert len({len(each) for each in chosen}) > 1, "turns are drawn row by row, not dealt out"


@pytest.mark.usefixtures("seeded")
def test_a_run_half_way_is_not_saved_copied_or_given_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    learner = trainer(stack(), strategy=BandedToeplitz(3))
    assert learner.state_dict()["plan"] != trainer(stack(), strategy=BandedToeplitz(2)).state_dict()["plan"]
    learner.fit(X, y, steps=2)
    assert learner._correlated is not None
    for attempt in (learner.state_dict, lambda: copy.deepcopy(learner)):
        with pytest.raises(InputError, match="half way"):
            attempt()
    with pytest.raises(InputError, match="same objects"):
        learner.fit(X.clone(), y)
    assert learner.taken == 2

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(correlating.release, "release_gaussian", broken)
        with pytest.raises(KeyboardInterrupt):
            learner.fit(X, y, steps=1)
    assert learner.taken == 3
    with pytest.raises(BudgetError, match="broken off"):
        learner.fit(X, y)


@pytest.mark.usefixtures("seeded")
def test_a_step_that_was_counted_and_not_encoded_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a row of the next pass would follow its last turn one step sooner than was priced."""
    X, y = table()
    learner = trainer(stack(), strategy=BandedToeplitz(3))

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(learner._processes), "released", broken)
        with pytest.raises(KeyboardInterrupt):
            learner.fit(X, y, steps=1)
    for _ in range(2):
        with pytest.raises(BudgetError, match="broken off"):
            learner.fit(X, y, steps=1)


@pytest.mark.usefixtures("seeded")
def test_a_finished_run_is_copied_without_rows_and_sums() -> None:
    X, y = table()
    learner = trainer(stack(), strategy=BandedToeplitz(3), ema="0.9").fit(X, y)
    text = pickle.dumps(learner)
    assert X.numpy().tobytes()[:200] not in text
    again = pickle.loads(text)
    assert again.guarantee_ == learner.guarantee_
    assert again._data is None
    assert not again._correlated._encoder._past
    with pytest.raises(BudgetError, match="0 of 5"):
        again.fit(X, y)


def test_refused_strategies() -> None:
    for wrong in ("banded", 3):
        with pytest.raises(InputError, match="BandedToeplitz"):
            trainer(stack(), strategy=wrong)
    for made in (lambda: BandedToeplitz(0), lambda: BufferedToeplitz(9)):
        with pytest.raises(InputError):
            made()
