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
from tacit.assurance.fit_audit import audited_estimators
from tacit.learn import release as noising
from tacit.noise import entropy

#: Not Gaussian sums over all rows: a random linear term, coins of rows, and no release at all. Their densities, choices
#: and prices have tests of their own.
OTHERS = {"logistic regression by a tilted objective", "a search among models", "a scaler of bounds alone"}
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
