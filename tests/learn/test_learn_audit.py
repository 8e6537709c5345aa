"""A canary audit of whole fits in one run: coins decide who is in, and guessing them from the model has a limit."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from tacit.learn import LogisticRegression
from tacit.learn import release as noising

CANARIES = 1200


def guesses_right(monkeypatch: pytest.MonkeyPatch, share_of_noise: Fraction, steps: int) -> tuple[int, float]:
    """Number of coins guessed right from the weights, and the μ that the fit was accounted for.

    Every canary has a column of its own and full weight there, so each weight is one canary's fact and noise; that is
    the best an adversary can arrange. Guess "in" where the weight lies beyond the middle of what the two cases give.
    """
    true = noising.release_gaussian

    def release(raw: np.ndarray, sigma2: Fraction) -> np.ndarray:
        return true(raw, sigma2 * share_of_noise)

    coins = np.random.default_rng(4).random(CANARIES) < 0.5
    X = np.eye(CANARIES)[coins]
    fitted = LogisticRegression(
        epsilon=8, delta="1e-5", data_norm=1, classes=[0, 1], n=CANARIES, standardize=False, steps=steps
    )
    with monkeypatch.context() as patch:
        patch.setattr(noising, "release_gaussian", release)
        fitted.fit(X, np.ones(len(X), dtype=int))
    event = fitted.event_.events[0]  # type: ignore[attr-defined]
    single = event if steps == 1 else event.event
    mu = math.sqrt(steps * single.l2_squared / single.sigma2)
    weights = fitted.coef_[0]
    middle = (np.median(weights[coins]) + np.median(weights[~coins])) / 2
    return int(((weights > middle) == coins).sum()), mu


def most_right(mu: float) -> float:
    """Under μ-GDP a fair coin is guessed right with at most Φ(μ/2); coins are independent here, so at most Binomial.

    Five standard deviations above its mean: false alarm below 3e-7.
    """
    p = NormalDist().cdf(mu / 2)
    return CANARIES * p + 5 * math.sqrt(CANARIES * p * (1 - p))


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.usefixtures("seeded")
def test_the_audit_passes(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    right, mu = guesses_right(monkeypatch, Fraction(1), steps)
    assert right <= most_right(mu)
    assert right > CANARIES * 0.6, "the adversary must be good, or the audit says nothing"


@pytest.mark.usefixtures("seeded")
def test_a_twin_with_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right, mu = guesses_right(monkeypatch, Fraction(1, 4), 1)
    assert right > most_right(mu)
