"""Gradient perturbation: per-example clipping, sampling, noise once, and the account of the very steps taken."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from learn.replay import record, released_events
from support.bits import SeededBits
from tacit.accounting.compose import compose
from tacit.core.events import (
    DiscreteGaussianEvent,
    PoissonSampledEvent,
    RepeatedEvent,
    SampledSumEvent,
    event_from_json,
    event_to_json,
)
from tacit.core.relations import REPLACE_ONE
from tacit.learn import LogisticRegression
from tacit.learn.gradient import Descent, GradientTable, sample_rows, to_grid
from tacit.learn.integer_rows import UNIT, Box, square_norms
from tacit.learn.losses import Logistic, Loss, Softmax
from tacit.learn.release import Phase, spend
from tacit.learn.whitening import AffineMap
from tacit.noise import entropy


def table(rows: int = 60, columns: int = 5, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(11)
    X = made.normal(size=(rows, columns))
    y = (X[:, 0] + 0.5 * made.normal(size=rows) > 0).astype(int) + (classes > 2) * (X[:, 1] > 0.5)
    return X, y


def model(**changes: object) -> LogisticRegression:
    settings: dict[str, object] = {"epsilon": 1, "delta": "1e-3", "bounds": (-3, 3), "classes": [0, 1, 2]}
    return LogisticRegression(**(settings | changes))  # type: ignore[arg-type]


def descent_of(loss: Loss, outputs: int, clip: int, width: int) -> Descent:
    return Descent(loss, outputs, clip, 1, Fraction(1), Fraction(1), 60.0, np.zeros((width, width)))


def mapped(values: np.ndarray) -> np.ndarray:
    """Rows of a map whose matrix leaves some of them longer than UNIT."""
    made = np.random.default_rng(8)
    columns = values.shape[1]
    affine = AffineMap.of(made.uniform(-0.2, 0.2, columns), made.normal(size=(columns, columns)), 1.5)
    return affine(Box.read((-3, 3), None).to_steps(values))


NASTY = (1e6, -1e6, np.nan, np.inf, -np.inf)


def neighbours(relation: str) -> list[tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]]:
    """A table with a nasty last row, and the table without it or with another one instead."""
    X, y = table()
    pairs = []
    for value in NASTY:
        worst = np.vstack([X, np.full((1, X.shape[1]), value)])
        labels = np.append(y, 2)
        if relation == "add_remove":
            pairs.append(((worst, labels), (X, y)))
        else:
            other = np.vstack([X, -worst[-1:]])
            pairs.append(((worst, labels), (other, np.append(y, 0))))
    return pairs


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.usefixtures("seeded")
def test_replay_on_neighbours(monkeypatch: pytest.MonkeyPatch, relation: str) -> None:
    """With all outputs frozen, a neighbour makes the same calls, and no input moves more than was declared."""
    for left, right in neighbours(relation):
        first, second = model(relation=relation), model(relation=relation)
        one = record(monkeypatch, lambda first=first, left=left: first.fit(*left))
        two = record(monkeypatch, lambda second=second, right=right: second.fit(*right), frozen=one)
        assert one.noise == two.noise
        assert first.event_ == second.event_
        assert (first.coef_ == second.coef_).all()
        declared = released_events(first.event_)
        assert len(declared) == len(one.raw) == len(two.raw)
        moved = 0
        for event, before, after in zip(declared, one.raw, two.raw, strict=True):
            gap = (before - after).ravel()
            assert gap.size == event.dimension
            assert int(gap @ gap) <= event.l2_squared
            moved += int(gap @ gap) > 0
        assert moved, "the neighbour has to make some difference, or nothing was tested"


@pytest.mark.usefixtures("seeded")
def test_a_twin_that_forgets_to_clip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the test: rows whose lengths are not measured break the bound above."""
    X, y = table()
    rows = mapped(np.append(X, np.full((1, X.shape[1]), 1e6), axis=0))
    assert int(square_norms(rows.astype(np.int64)).max()) > UNIT**2
    descent = descent_of(Softmax(), 3, 1 << 10, 6)
    targets = np.append(y, 2)[:, None]

    def moved() -> int:
        whole = descent.raw_sum(GradientTable(rows, targets), np.zeros((6, 3)))
        without = descent.raw_sum(GradientTable(rows[:-1], targets[:-1]), np.zeros((6, 3)))
        gap = (whole - without).ravel().astype(object)
        return int(gap @ gap)

    assert moved() <= ((1 << 10) * UNIT) ** 2
    monkeypatch.setattr("tacit.learn.gradient.lengths", lambda rows: np.full(len(rows), UNIT))
    assert moved() > ((1 << 10) * UNIT) ** 2


@pytest.mark.parametrize("value", NASTY)
def test_one_row_counts_for_one_row(value: float) -> None:
    """A row scaled by a million, NaN or infinite: its contribution stays within the clip, others' stay bit for bit."""
    X, y = table()
    made = np.random.default_rng(3)
    weights = to_grid(made.normal(size=(X.shape[1] + 1, 3)) * 5)
    descent = descent_of(Softmax(), 3, 4096, 6)

    def contributions(values: np.ndarray) -> list[np.ndarray]:
        rows = mapped(values)
        return [
            descent.raw_sum(GradientTable(rows[i : i + 1], y[i : i + 1, None]), weights) for i in range(len(values))
        ]

    before = contributions(X)
    changed = X.copy()
    changed[7] = value if not math.isfinite(value) else X[7] * value
    after = contributions(changed)
    for i, (one, two) in enumerate(zip(before, after, strict=True)):
        assert i == 7 or (one == two).all()
        assert int(square_norms(two.reshape(1, -1))[0]) <= (4096 * UNIT) ** 2
    rows = mapped(changed)
    together = descent.raw_sum(GradientTable(rows, y[:, None]), weights)
    assert (together == sum(after)).all()


def test_sums_are_free_of_order_and_blocks() -> None:
    X, y = table(rows=70_000, columns=3, classes=2)
    rows = mapped(X)
    descent = descent_of(Logistic(), 1, 4096, 4)
    weights = to_grid(np.full((4, 1), 0.731))
    forward = descent.raw_sum(GradientTable(rows, y[:, None]), weights)
    order = np.random.default_rng(1).permutation(len(X))
    assert (forward == descent.raw_sum(GradientTable(rows[order], y[order, None]), weights)).all()


@pytest.mark.usefixtures("seeded")
def test_noise_enters_once_per_release_and_epsilon_is_the_accountants(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    for changes in (
        {},
        {"n": 60},
        {"standardize": False},
        {"standardize": False, "n": 60},
        {"steps": 7},
        {"batch_rate": "0.25", "steps": 9},
    ):
        learner = model(**changes)
        seen = record(monkeypatch, lambda learner=learner: learner.fit(X, y))
        declared = released_events(learner.event_)
        assert [noise for _, noise in seen.noise] == [event.sigma2 for event in declared]
        before = 2 if changes.get("standardize", True) else 0 if "n" in changes else 1
        assert len(seen.noise) == before + learner.n_iter_
        total = compose(learner.event_, delta="1e-3", method="pld")
        assert total.epsilon == learner.guarantee_.epsilon <= 1
        assert total.epsilon >= Fraction(99, 100), "noise is being wasted"
        assert learner.guarantee_.delta == Fraction(1, 1000)
        assert event_from_json(event_to_json(learner.event_)) == learner.event_


def test_a_replaced_row_keeps_the_amplification_of_sampling() -> None:
    """The curve of a sampled sum whose unit is replaced; without it the doubled row would need far more noise."""
    phase = Phase("gradient", 1 << 40, 10, Fraction(1), 20, Fraction(1, 20))
    delta = Fraction(1, 10**5)
    spent = spend([phase], epsilon=Fraction(1), delta=delta, relation=REPLACE_ONE)
    assert spent.guarantee.epsilon <= 1
    assert spent.guarantee.delta == delta
    assert spent.guarantee.relation is REPLACE_ONE

    def epsilon(sigma2: Fraction) -> Fraction:
        one = SampledSumEvent(phase.rate, sigma2, Fraction(1 << 40), 10, relation=REPLACE_ONE)
        return compose(RepeatedEvent(one, 20, relation=REPLACE_ONE), delta=delta, method="pld").epsilon

    assert epsilon(spent.sigma2[0]) <= 1
    assert epsilon(spent.sigma2[0] * 9 / 10) > 1, "noise is wasted"
    doubled = DiscreteGaussianEvent(spent.sigma2[0] * 4, Fraction(4 << 40), dimension=10, relation=REPLACE_ONE)
    sampled = PoissonSampledEvent(phase.rate, doubled, relation=REPLACE_ONE)
    again = RepeatedEvent(sampled, 20, relation=REPLACE_ONE)
    assert compose(again, delta=delta, method="pld").epsilon > 1


@pytest.mark.usefixtures("seeded")
def test_recorded_noise_has_the_variance_that_was_accounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """z² of all drawn noise is chi-square: 0.9 and 1.1 times the true variance are rejected, at 5 standard deviations.

    The mean of k = 6,019 squares has standard deviation √(2/k) = 0.0182, so 5 of them are 0.091; false alarm 6e-7.
    """
    X, y = table()
    learner = model(steps=1000)
    seen = record(monkeypatch, lambda: learner.fit(X, y))
    squares = [
        ((out - raw) ** 2).ravel() / float(noise)
        for raw, out, (_, noise) in zip(seen.raw, seen.noisy, seen.noise, strict=True)
    ]
    mean = float(np.concatenate(squares).mean())
    slack = 5 * math.sqrt(2 / sum(part.size for part in squares))
    assert abs(mean - 1) < slack
    assert abs(mean * 1.1 - 1) > slack
    assert abs(mean * 0.9 - 1) > slack


def test_batches_are_binomial_and_independent(seeded: SeededBits) -> None:
    """Sizes of 4,000 batches of 200 rows at rate 1/8 against Binomial(200, 1/8), and pairs of rows against 1/64.

    Mean and variance within 5 standard errors (false alarm below 1e-5 in all); 0.8 and 1.25 of the true rate are
    rejected.
    """
    rate, rows, batches = Fraction(1, 8), 200, 4000
    drawn = np.array([sample_rows(rows, rate) for _ in range(batches)])
    sizes = drawn.sum(axis=1)
    q = float(rate)
    spread = math.sqrt(rows * q * (1 - q))

    def close(claimed: float) -> bool:
        return abs(sizes.mean() - rows * claimed) < 5 * spread / math.sqrt(batches)

    assert close(q)
    assert not close(0.8 * q)
    assert not close(1.25 * q)
    assert abs(sizes.var() / spread**2 - 1) < 5 * math.sqrt(2 / batches)
    together = (drawn[:, 0::2] & drawn[:, 1::2]).mean()
    pairs = drawn.size / 2
    assert abs(together - q * q) < 5 * math.sqrt(q * q * (1 - q * q) / pairs)
    successive = (drawn[1:] & drawn[:-1]).mean()
    assert abs(successive - q * q) < 5 * math.sqrt(q * q * (1 - q * q) / drawn[1:].size) * 1.5


def test_sampling_is_exact_at_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of exactly the rate is out, the one below is in."""

    class Words(SeededBits):
        def words(self, count: int) -> np.ndarray:
            return np.array([(1 << 61) - 1, 1 << 61, 0, (1 << 64) - 1], dtype=np.uint64)[:count]

    monkeypatch.setattr(entropy, "current", lambda: Words(0))
    assert sample_rows(4, Fraction(1, 8)).tolist() == [True, False, True, False]
    assert sample_rows(4, Fraction(1)).all()


def test_unknown_labels_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They reach no release: what goes into each is what the other rows alone would give."""
    X, y = table()
    some = np.arange(60) % 2 == 0
    settings = {"epsilon": 5, "delta": "1e-5", "bounds": (-4, 4), "classes": [0, 1, 2], "steps": 2, "n": 60}

    def raw(rows: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        seen: list[np.ndarray] = []
        monkeypatch.setattr(
            "tacit.learn.release.release_gaussian", lambda raw, _: (seen.append(raw), raw.astype(float))[1]
        )
        LogisticRegression(**settings).fit(rows, labels)
        return seen

    mixed, alone = raw(X, np.where(some, y, 9)), raw(X[some], y[some])
    assert len(mixed) == 4
    assert all((one == other).all() for one, other in zip(mixed, alone, strict=True))
