"""Additive models: integers per row, shapes that are found, intervals that hold, and convergence."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.core.errors import InputError
from tacit.learn import AdditiveClassifier, AdditiveRegressor, additive
from tacit.learn.additive import (
    STRATEGY_UNIT,
    Course,
    ShapeStrategy,
    _Rounds,
    believed_part,
    prior_precision,
    raw_residuals,
    raw_sums,
    strategy_of,
)
from tacit.learn.binned import (
    BINS,
    BinnedRows,
    bell_counts,
    bins_of,
    confidence_phase,
    merged_counts,
    raw_bin_counts,
    raw_slopes,
    scale_of,
)
from tacit.learn.estimator import NOISE_RULES
from tacit.learn.integer_rows import FINE, UNIT
from tacit.learn.losses import GRID, WHOLE, Logistic, Softmax

STEPS = arrays(np.int64, (4, 3), elements=st.integers(-FINE, FINE))


@given(STEPS)
def test_every_value_has_one_bin(steps: np.ndarray) -> None:
    places = bins_of(steps)
    assert ((places >= 0) & (places < 64)).all()
    assert (bins_of(np.array([[-FINE], [FINE - 1], [FINE]])).ravel() == [0, 63, 63]).all()


@settings(deadline=None)
@given(STEPS, st.integers(0, 2), arrays(np.int64, (3, 64, 3), elements=st.integers(-40_000, 40_000)))
def test_a_row_adds_no_more_than_declared(steps: np.ndarray, label: int, scores: np.ndarray) -> None:
    places = bins_of(steps)
    plan = _Rounds(3, 3, 3, 11_585, 4)
    counts, residuals = plan.phases()
    ones = raw_bin_counts(places[:1])
    assert counts.l2_squared * 0.99 < int((ones.astype(object) ** 2).sum()) <= counts.l2_squared <= UNIT**2
    assert len(ones) == counts.dimension
    for columns in (3, 30):
        aimed = raw_bin_counts(np.tile(places[:1], 10)[:, :columns], target=True)
        assert counts.l2_squared * 0.98 < int((aimed.astype(object) ** 2).sum()) <= counts.l2_squared
    targets = np.full((4, 1), label)
    shares = np.array([1024, 1, 700, 1024])
    strategies = [_strategy(noise, nominal=place == 2) for place, noise in enumerate((1e-3, 30.0, 1.0))]
    parts = [
        raw_sums(
            strategies,
            raw_residuals(
                plan, Softmax(), BinnedRows(places[i : i + 1], targets[i : i + 1], shares[i : i + 1]), scores,
                np.zeros(3, dtype=np.int64),
            ),
        )
        for i in range(4)
    ]  # fmt: skip
    rows = BinnedRows(places, targets, shares)
    whole = raw_sums(strategies, raw_residuals(plan, Softmax(), rows, scores, np.zeros(3, dtype=np.int64)))
    assert (whole == sum(parts)).all()
    assert whole.size == residuals.dimension
    for part in parts:
        assert int((part.astype(object) ** 2).sum()) <= residuals.l2_squared


@cache
def _strategy(noise: float, *, nominal: bool = False) -> ShapeStrategy:
    counts = np.linspace(0, 200, BINS)
    return strategy_of(counts, 0.25, noise, prior_precision(nominal=nominal), 3, nominal=nominal)


@settings(deadline=None, max_examples=30)
@given(
    arrays(np.float64, BINS, elements=st.floats(0, 1e9, width=32)),
    st.floats(1e-6, 1e9),
    st.integers(1, 300),
    st.booleans(),
)
def test_no_bin_has_more_weight_than_one_unit_and_none_is_wasted(
    counts: np.ndarray, noise: float, features: int, nominal: bool
) -> None:
    found = strategy_of(counts, 0.25, noise, prior_precision(nominal=nominal), features, nominal=nominal)
    squares = (found.whole.astype(object) ** 2).sum(axis=0)
    assert max(squares) <= STRATEGY_UNIT**2
    assert np.isfinite(found.read).all()
    assert np.isfinite(found.bend).all()


def test_noise_asks_for_few_sums_and_rows_for_each_bin() -> None:
    quiet, loud = _strategy(1e-3).whole[1:], _strategy(3e3).whole[1:]
    assert np.linalg.matrix_rank(quiet) > 60
    strength = np.linalg.svd(loud / STRATEGY_UNIT, compute_uv=False) ** 2
    assert strength[0] > 0.8 * strength.sum(), "one direction, about that of a straight line, has nearly all weight"
    assert np.abs(quiet).sum(axis=0).min() > 0.8 * STRATEGY_UNIT
    assert np.linalg.norm(loud, axis=0).min() > 0.8 * STRATEGY_UNIT, "no bin's weight is left unused"


def test_a_strategy_that_is_too_long_is_caught_by_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the test: floats that promise too much are set to zero, and nothing else relies on them."""
    monkeypatch.setattr(additive, "_smooth_weights", lambda *_: 1.5 * np.eye(BINS))
    assert not _strategy(2.0).whole.any()


def test_bins_that_noise_tells_apart_are_merged_and_others_are_not() -> None:
    made = np.random.default_rng(5)
    truth = np.concatenate([np.full(32, 10.0), np.full(31, 0.0), [900.0]])
    noisy = truth + made.normal(size=(3, 64)) * 30
    found = merged_counts(noisy, 30.0, float(truth.sum()))
    assert np.allclose(found.sum(axis=1), truth.sum())
    assert np.abs(found - truth).mean() < np.abs(np.maximum(noisy, 0) - truth).mean() / 2
    assert (found[:, -1] > 500).all()
    assert np.allclose(merged_counts(np.array([truth]), 1e-6, float(truth.sum())), truth, atol=1e-3)


def test_a_bound_that_forgets_the_features_is_exceeded() -> None:
    """The test of the test: one residual in each of three features is longer than one residual."""
    plan = _Rounds(3, 3, 1, WHOLE, 4)
    part = raw_residuals(
        plan, Logistic(), BinnedRows(np.zeros((1, 3), np.int64), np.ones((1, 1), np.int64)),
        np.full((3, 64, 1), -40_000),
        np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    assert int((part**2).sum()) > WHOLE**2


def ring(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = np.random.default_rng(2)
    X = made.uniform(-2, 2, size=(rows, 3))
    scores = 1.5 * X[:, 0] ** 2 - 2 + np.sin(2 * X[:, 1])
    return X, scores, (made.random(rows) < 1 / (1 + np.exp(-scores))).astype(int)


@pytest.mark.usefixtures("seeded")
def test_shapes_are_found_and_follow_epsilon() -> None:
    X, scores, y = ring(8000)
    best = ((scores[6000:] > 0) == y[6000:]).mean()
    found = []
    for epsilon in ("0.1", 1, 100):
        model = AdditiveClassifier(epsilon=epsilon, delta="1e-5", bounds=(-2, 2), classes=[0, 1])
        found.append(model.fit(X[:6000], y[:6000]).score(X[6000:], y[6000:]))
        assert np.allclose(model.predict_proba(X[:5]).sum(axis=1), 1)
    assert found[0] < found[1] + 0.01
    assert found[1] > best - 0.05
    assert found[2] > best - 0.02
    square, wave, nothing = model.shapes_
    middles = (square.edges[:-1] + square.edges[1:]) / 2
    truth = 1.5 * middles**2
    off = square.values[:, 0] - truth
    assert np.abs(off - off.mean()).mean() < 0.3
    assert np.abs(nothing.values).max() < 0.5 < np.abs(wave.values).max()
    inside = (square.lower[:, 0] <= truth + off.mean()) & (truth + off.mean() <= square.upper[:, 0])
    assert inside.mean() > 0.7


@pytest.mark.usefixtures("seeded")
def test_regression_bends_where_a_line_cannot() -> None:
    made = np.random.default_rng(3)
    X = made.uniform(0, 1, size=(5000, 3))
    y = 10 * (X[:, 0] - 0.5) ** 2 + np.sin(6 * X[:, 1]) + 0.3 * made.normal(size=5000)
    possible = 1 - 0.09 / y.var()
    for epsilon, slack in ((3, 0.1), (100, 0.02)):
        model = AdditiveRegressor(epsilon=epsilon, delta="1e-5", bounds=(0, 1), target_bounds=(-2, 5))
        assert model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) > possible - slack


@pytest.mark.usefixtures("seeded")
def test_a_chart_of_a_shape() -> None:
    pytest.importorskip("altair")
    X, _, y = ring(300)
    model = AdditiveClassifier(epsilon=1, delta="1e-3", bounds=(-2, 2), classes=[0, 1], rounds=2).fit(X, y)
    assert "layer" in model.plot_shape(0).to_dict()
    with pytest.raises(InputError, match="feature"):
        model.plot_shape("height")


def test_no_row_adds_more_to_slopes_than_the_phase_states_and_parts_add_up() -> None:
    made = np.random.default_rng(8)
    for loss, clip, outputs in ((Logistic(), WHOLE, 1), (Softmax(), math.isqrt(2 * WHOLE * WHOLE), 4)):
        logits = made.integers(-40 * GRID, 40 * GRID, size=(60, outputs))
        # As many trees, or features, as anyone might ask for: squares of such scores would leave 64 bits.
        logits[:2, 0] = 1 << 33
        targets = made.integers(0, max(outputs, 2), size=(60, 1))
        targets[:2] = [[0], [1]]
        shares = made.integers(0, 1025, size=60)
        rows = BinnedRows(np.zeros((60, 0), np.int64), targets, shares)
        parts = [
            raw_slopes(loss, clip, logits[i : i + 1], BinnedRows(rows.places, targets[i : i + 1], None))
            for i in range(60)
        ]
        most = confidence_phase(clip).l2_squared
        assert all(sum(int(slope) ** 2 for slope in part) <= most for part in parts)
        assert max(int((part**2).sum()) for part in parts) > most / 4, "the bound is not idle"
        weighted = [
            raw_slopes(loss, clip, logits[i : i + 1], BinnedRows(rows.places, targets[i : i + 1], shares[i : i + 1]))
            for i in range(60)
        ]
        assert (np.abs(weighted) <= np.abs(parts)).all()
        assert (raw_slopes(loss, clip, logits, rows) == np.sum(weighted, axis=0)).all()


@pytest.mark.usefixtures("seeded")
def test_scores_that_are_too_cautious_are_stretched_and_noise_is_not_believed() -> None:
    made = np.random.default_rng(9)
    logits = made.integers(-3 * GRID, 3 * GRID, size=(4000, 1))
    targets = (made.random((4000, 1)) < 1 / (1 + np.exp(-2.0 * logits / GRID))).astype(np.int64)
    raw = raw_slopes(Logistic(), WHOLE, logits, BinnedRows(logits, targets))
    assert 1.8 < scale_of(raw, Fraction(WHOLE**2)) < 2.2
    assert 0.9 < scale_of(raw, Fraction(WHOLE**2 * 10**8)) < 1.1


@pytest.mark.usefixtures("seeded")
def test_a_factor_beyond_the_last_is_found_where_noise_brings_slopes_out_of_order() -> None:
    slopes = np.array([-2000, -1250, -830, -480, -210, -60, -62], dtype=np.int64) * WHOLE
    assert scale_of(slopes, Fraction((5 * WHOLE) ** 2)) > 2


@pytest.mark.usefixtures("seeded")
def test_many_features_do_not_carry_the_constant_away() -> None:
    """With noisy numbers of rows shapes are not centred well; all of them used to follow a constant, and it ran off."""
    made = np.random.default_rng(6)
    X = made.normal(size=(2400, 25))
    y = 50 * (X[:, :8] @ np.linspace(0.5, 1.5, 8)) + made.normal(size=2400) * 80
    found = []
    for _ in range(3):
        model = AdditiveRegressor(epsilon=1, delta="1e-5", bounds=(-5, 5), target_bounds=(-1200, 1200)).fit(X, y)
        found.append(abs(float(model.predict(X).mean() - y.mean())) / y.std())
    assert np.median(found) < 0.6


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300, 1e19, 1.5])
def test_weights_are_bounded_whatever_the_floats_were(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    """A float that no integer holds becomes -2^63, whose square is 0 in 64 bits."""
    wrong = np.eye(BINS)
    wrong[3, 5] = value
    monkeypatch.setattr("tacit.learn.additive._smooth_weights", lambda *_: wrong)
    found = strategy_of(np.full(BINS, 10.0), 0.25, 1.0, prior_precision(nominal=False), 4, nominal=False)
    exact = [[int(each) ** 2 for each in row] for row in found.whole]
    assert all(sum(column) <= STRATEGY_UNIT**2 for column in zip(*exact, strict=True))
    assert np.isfinite(found.read).all()


def test_a_target_that_hides_in_its_bins_is_found_by_its_place_and_width() -> None:
    drawn = np.random.default_rng(5)
    truth = 2000 * np.exp(-0.5 * ((np.arange(BINS) - 20) / 3) ** 2) / (3 * math.sqrt(2 * math.pi))
    noisy = truth + drawn.normal(size=BINS) * 100
    found = bell_counts(noisy, 100.0, 2000.0)
    mean = found @ np.arange(BINS) / found.sum()
    assert abs(mean - 20) < 2
    assert 2 < math.sqrt(found @ (np.arange(BINS) - mean) ** 2 / found.sum()) < 5
    odd = np.zeros(BINS)
    odd[[3, 50]] = 1000.0
    assert np.allclose(merged_counts(odd[None], 1e-3, 2000.0, bell_counts(odd, 1e-3, 2000.0)), odd, atol=0.1)


def test_the_size_of_a_shape_of_noise_is_that_of_a_descent_without_rows() -> None:
    """A simulated descent on noise alone has the stated size; half or twice the noise is told apart."""
    drawn, rounds, momentum, sigma = np.random.default_rng(3), 20, 0.8, 50.0
    counts = np.linspace(1, 40, BINS)
    pull, noise = prior_precision(nominal=False), sigma / math.sqrt(rounds / 2)
    strategy = strategy_of(counts, 1.0, noise, pull, 3, nominal=False)
    inverse, shares = np.linalg.inv(2 * strategy.bend + pull), counts / counts.sum()
    stated = Course(rounds, momentum, sigma, noise).size(strategy, inverse, pull, shares)
    found = []
    for _ in range(150):
        table = ahead = np.zeros(BINS)
        seen, sampled = [], drawn.normal(size=BINS) * np.sqrt(counts)
        for step in range(rounds):
            sums = strategy.whole @ sampled / STRATEGY_UNIT + drawn.normal(size=len(strategy.whole)) * sigma
            moved = ahead - inverse @ (strategy.bend @ ahead + strategy.read @ sums + pull @ ahead)
            ahead, table = moved + momentum * (moved - table), moved
            if step >= rounds // 2:
                seen.append(table)
        middle = np.mean(seen, axis=0)
        found.append(shares @ (middle - shares @ middle) ** 2)
    assert 0.7 < np.mean(found) / stated < 1.4
    assert believed_part(np.array([4.0, 1.0, 0.0]), np.array([1.0, 2.0, 1.0])).tolist() == [0.75, 0.0, 0.0]


def test_all_weight_of_the_last_rounds_is_in_one_sum() -> None:
    whole = ShapeStrategy.overall_only().whole
    assert (whole[0] == STRATEGY_UNIT).all()
    assert not whole[1:].any()


@pytest.mark.usefixtures("seeded")
def test_noise_is_not_believed_and_the_report_says_so() -> None:
    drawn = np.random.default_rng(8)
    X, y = drawn.normal(size=(2000, 12)), drawn.normal(size=2000)
    settings = {"delta": "1e-5", "bounds": (-4, 4), "target_bounds": (-10, 10), "rounds": 30}
    lost = AdditiveRegressor(epsilon="0.1", **settings).fit(X, y)
    assert lost.score(X, y) > -0.3
    assert lost.privacy_report().cautions == (NOISE_RULES,)
    assert NOISE_RULES in str(lost.privacy_report())
    found = AdditiveRegressor(epsilon=3, **settings).fit(X, y + X[:, 0])
    assert found.score(X, y + X[:, 0]) > 0.3
    assert found.privacy_report().cautions == ()
