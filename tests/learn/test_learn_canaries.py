"""Canaries in every estimator: the best guess of whether a row was in, from all that a fit released, is limited.

The adversary knows all other rows, every released number, and what the canary would add to each release. The likelihood
ratio of the two worlds is then the best statistic there is, and its law is that of the noise which the event states.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from learn.replay import Recorder, record, released_events
from support.bits import SeededBits
from tacit.audit.self_audit import audited_estimators
from tacit.core.events import DiscreteLaplaceEvent, ExponentialEvent
from tacit.core.numbers import exp_bounds
from tacit.learn import release as noising
from tacit.learn.integer_rows import UNIT
from tacit.learn.minimiser import Problem, on_fine_grid
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.noise import entropy

#: Not Gaussian sums over all rows: a random linear term, a minimiser with Laplace noise, coins of rows, and no release
#: at all. Their games are below.
MINIMISER = "a support vector classifier by its minimiser"
OTHERS = {"logistic regression by a tilted objective", MINIMISER, "a search among models", "a scaler of bounds alone"}
NAMES = sorted(set(audited_estimators()) - OTHERS)
ROWS = [(((7 * i) % 11) / 5 - 1, ((3 * i) % 13) / 6 - 1, i % 2) for i in range(12)]
CANARY = (1.0, -1.0, 1)
RUNS = 10


def fit(monkeypatch: pytest.MonkeyPatch, name: str, rows: Any, seed: int, frozen: Recorder | None) -> tuple[Any, Any]:
    with monkeypatch.context() as patch:
        bits = SeededBits(seed)
        patch.setattr(entropy, "current", lambda: bits)
        model = audited_estimators()[name]()
        X, y = [list(row[:2]) for row in rows], [row[2] for row in rows]
        return record(monkeypatch, lambda: model.fit(X, y), frozen), model


def played(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[int, float, float, int]:
    """Right guesses, their expected number under the event, and the square of the noise seen, with its mean."""
    right, expected, seen, releases = 0, 0.0, 0.0, 0
    for run in range(RUNS):
        is_in = bool(np.random.default_rng(run).integers(2))
        tables = {True: [*ROWS, CANARY], False: ROWS}
        true, model = fit(monkeypatch, name, tables[is_in], 1000 + run, None)
        other, _ = fit(monkeypatch, name, tables[not is_in], 1000 + run, true)
        events = released_events(model.event_)
        assert len(events) == len(true.raw)
        ratio, square = 0.0, 0.0
        for event, mine, theirs, noisy in zip(events, true.raw, other.raw, true.noisy, strict=True):
            if isinstance(event, ExponentialEvent):
                continue  # Guesses are made from noisy numbers; choices are enumerated in `test_learn_boosting`.
            added = (mine - theirs if is_in else theirs - mine).ravel().astype(float)
            size, sigma = float(added @ added), math.sqrt(event.sigma2)
            assert size <= float(event.l2_squared) * (1 + 1e-12), "a row moves a release no further than is stated"
            if not size:
                continue
            beyond = float((noisy.ravel() - (mine if not is_in else theirs).ravel()) @ added) / sigma**2
            ratio, square = ratio + beyond, square + size / sigma**2
            seen += (float((noisy.ravel() - mine.ravel()) @ added) / (sigma * math.sqrt(size))) ** 2
            releases += 1
        right += (ratio > square / 2) == is_in
        expected += NormalDist().cdf(math.sqrt(square) / 2)
    return right, expected, seen, releases


def least_square(releases: int) -> float:
    """Squares of so many normal numbers add up to less with a chance below one in ten thousand (Wilson, Hilferty)."""
    part = 2 / (9 * releases)
    return float(releases * max(1 - part - 3.72 * math.sqrt(part), 0.0) ** 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_canary_is_hidden_as_far_as_the_event_says(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    right, expected, seen, releases = played(monkeypatch, name)
    assert releases >= RUNS
    assert right <= expected + 4 * math.sqrt(RUNS) / 2
    assert seen > least_square(releases), "the noise is that of the event"


def test_a_twin_with_a_tenth_of_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = noising.release_gaussian
    monkeypatch.setattr(noising, "release_gaussian", lambda raw, sigma2: true(raw, Fraction(math.ceil(sigma2 / 100))))
    for name in ("naive Bayes", "boosted trees for classes"):
        _, _, seen, releases = played(monkeypatch, name)
        assert seen < least_square(releases)


def tilted_losses(monkeypatch: pytest.MonkeyPatch, runs: int, shrunk: float = 1.0) -> list[float]:
    """Privacy loss of the minimiser of a tilted objective, canary in against canary out, by the density of weights.

    At a minimiser θ the tilt of a world is -∇F(θ) without it, and θ has the density of that tilt times the determinant
    of the Hessian. Both are taken from the problems that the product solved.
    """
    name, losses, solve = "logistic regression by a tilted objective", [], Problem.minimise
    for run in range(runs):
        problems: list[Problem] = []
        with monkeypatch.context() as patch:
            patch.setattr(Problem, "minimise", lambda problem, seen=problems: (seen.append(problem), solve(problem))[1])
            true, _ = fit(monkeypatch, name, [*ROWS, CANARY], 2000 + run, None)
            fit(monkeypatch, name, ROWS, 2000 + run, true)
        sigma = (
            shrunk * math.sqrt(true.noise[0][1]) * float(np.abs(problems[0].tilt).max() / np.abs(true.noisy[0]).max())
        )
        weights = on_fine_grid(solve(problems[0]))
        density = []
        for problem in problems:
            rows, targets = problem.table.rows, problem.table.targets
            gradient, logits = problem._gradient(rows, targets, weights)
            tilt = problem.tilt - gradient
            columns = [
                rows.T @ problem.loss.curve(logits, targets, rows @ along / UNIT) / UNIT
                for along in np.eye(len(weights))[:, :, None]
            ]
            bent = np.hstack(columns) + float(problem.regularization) * np.eye(len(weights))
            density.append(-float((tilt**2).sum()) / (2 * sigma**2) + float(np.linalg.slogdet(bent)[1]))
        losses.append(density[0] - density[1])
    return losses


def test_a_canary_in_a_tilted_objective_loses_no_more_than_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of (2, 1/1000) all but what the last noise takes; a tilt of a thirtieth of the size is caught."""
    losses = tilted_losses(monkeypatch, 10)
    assert max(map(abs, losses)) <= 2 * 0.95
    assert len({round(loss, 6) for loss in losses}) == 10, "and it does depend on what was drawn"
    true = noising.release_gaussian
    first = lambda raw, sigma2: true(raw, sigma2) / (30 if not raw.any() else 1)  # noqa: E731 - the tilt alone is drawn for zeros
    monkeypatch.setattr(noising, "release_gaussian", first)
    assert max(map(abs, tilted_losses(monkeypatch, 4, 1 / 30))) > 2 * 0.95


def noise_of_minimisers(monkeypatch: pytest.MonkeyPatch) -> float:
    """Mean absolute noise of minimisers over the scale that the event states; it is 1."""
    seen = []
    for run in range(RUNS):
        true, model = fit(monkeypatch, MINIMISER, [*ROWS, CANARY], 4000 + run, None)
        other, _ = fit(monkeypatch, MINIMISER, ROWS, 4000 + run, true)
        (mine,), (theirs,), event = true.raw, other.raw, model.event_
        assert isinstance(event, DiscreteLaplaceEvent)
        assert 0 < int(np.abs(mine - theirs).sum()) <= event.l1_sensitivity
        seen += (np.abs(true.noisy[0] - mine) / float(event.scale)).ravel().tolist()
    return float(np.mean(seen))


def test_a_canary_in_a_minimiser_is_hidden_by_laplace_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 exponential numbers have a mean outside 0.4 to 2 with a chance below one in ten thousand."""
    assert 0.4 < noise_of_minimisers(monkeypatch) < 2
    true = noising.release_laplace
    monkeypatch.setattr(noising, "release_laplace", lambda raw, scale: true(raw, scale / 10))
    assert noise_of_minimisers(monkeypatch) < 0.4, "a twin with a tenth of the noise is caught"


def test_a_canary_in_a_search_is_hidden_in_fits_and_in_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its coin lets it train or judge: sums move as events say, and the choice by e^ε at most."""
    name, trained, judged, choose = "a search among models", 0, 0, PermuteAndFlip.release
    for run in range(4):
        scores: list[Any] = []
        with monkeypatch.context() as patch:
            # Each row has coins of its own: common ones are equal, those of the canary take turns.
            drawn = np.arange(len(ROWS) + 1) % 4 == (0 if run % 2 else 1)
            patch.setattr("tacit.learn.search.sample_rows", lambda count, _, coins=drawn: coins[:count])
            patch.setattr(
                PermuteAndFlip,
                "release",
                lambda law, given, seen=scores: (seen.append((law, given)), choose(law, given))[1],
            )
            true, model = fit(monkeypatch, name, [*ROWS, CANARY], 3000 + run, None)
            other, _ = fit(monkeypatch, name, ROWS, 3000 + run, true)
        events = [one for part in model.event_.events[:-1] for one in released_events(part)]
        assert len(events) == len(true.raw) == len(other.raw)
        for event, mine, theirs in zip(events, true.raw, other.raw, strict=True):
            moved = sum(int(one) ** 2 for one in (mine - theirs).ravel())
            assert moved <= event.l2_squared
            trained += moved > 0
        (law, mine), (_, theirs) = scores
        assert all(0 <= one - another <= 1 for one, another in zip(mine, theirs, strict=True))
        judged += mine != theirs
        for (low, high), (least, most) in zip(
            law.probability_bounds(mine), law.probability_bounds(theirs), strict=True
        ):
            assert low <= most * exp_bounds(law.epsilon)[1]
            assert least <= high * exp_bounds(law.epsilon)[1]
    assert trained
    assert judged


def test_a_canary_leaves_nothing_in_a_scaler_of_bounds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a scaler of bounds alone"
    fitted = [fit(monkeypatch, name, rows, 7, None) for rows in ([*ROWS, CANARY], ROWS, [*ROWS, (1e9, -1e9, 0)])]
    assert all(not seen.raw for seen, _ in fitted)
    for _, model in fitted:
        assert (model.data_min_ == -1).all()
        assert (model.data_max_ == 1).all()
        assert model.transform([[0.5, -2.0]]).tolist() == [[0.75, 0.0]]
