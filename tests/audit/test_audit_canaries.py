"""One-run audits: published vectors, no false alarm beyond the stated probability, and half the noise caught."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tacit.audit import audit_canaries, flip_inclusion_coins, guess_by_score
from tacit.core.errors import InputError
from tacit.noise.gaussian import DiscreteGaussian

pytestmark = pytest.mark.usefixtures("seeded")


def guessed(guesses: int, right: int, canaries: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Coins and guesses of which so many are right."""
    coins = np.ones(canaries or guesses, dtype=bool)
    made = np.zeros(len(coins), dtype=int)
    made[:right], made[right:guesses] = 1, -1
    return coins, made


@pytest.mark.parametrize(
    ("guesses", "right", "epsilon"),
    # the ε at which P[Binomial(r, e^ε/(1+e^ε)) >= v] = 0.05
    [(100, 80, 0.9583920453), (1000, 700, 0.7320108624), (1000, 550, 0.0942236925), (10000, 5200, 0.0469237228)],
)
def test_vectors(guesses: int, right: int, epsilon: float) -> None:
    found = audit_canaries(*guessed(guesses, right)).epsilon
    assert epsilon - 2e-4 <= found <= epsilon


def test_a_delta_weakens_what_is_refuted() -> None:
    exact = [audit_canaries(*guessed(500, 400, 1000), delta=delta).epsilon for delta in (0, "1e-9", "1e-5", "1e-3")]
    assert exact == sorted(exact, reverse=True)
    assert exact[0] - exact[1] < 1e-3
    assert exact[3] < exact[0]


def test_chance_refutes_nothing_and_certainty_a_lot() -> None:
    assert audit_canaries(*guessed(100, 50)).epsilon == 0
    assert audit_canaries(*guessed(100, 0)).epsilon == 0
    assert audit_canaries(*guessed(1000, 1000)).epsilon > 5
    assert audit_canaries(np.ones(4, bool), np.zeros(4)).epsilon == 0


def run(canaries: int, sigma: int) -> tuple[np.ndarray, np.ndarray]:
    """A model that adds each canary's own direction with noise: the scores are what an auditor would see of it.

    Each coordinate moves by 8 with noise of ``sigma`` in the same steps.
    """
    coins = flip_inclusion_coins(canaries)
    return coins, 8 * coins + DiscreteGaussian(sigma**2).sample_many(canaries)


def test_a_true_claim_survives_and_half_the_noise_does_not() -> None:
    """σ = Δ is 1-GDP: ε = 4.4 at δ = 10⁻⁵. A false alarm has probability at most 5 % in each of the 20 runs."""
    claimed = "4.4"
    alarms = 0
    for _ in range(20):
        coins, scores = run(1000, sigma=8)
        alarms += audit_canaries(coins, guess_by_score(scores, 100), delta="1e-5", claimed=claimed).violated
    assert alarms <= 4
    coins, scores = run(4000, sigma=4)
    found = audit_canaries(coins, guess_by_score(scores, 200), delta="1e-5", claimed="2.2")
    assert found.violated, found


def test_coins_are_fair_and_independent() -> None:
    """5 standard deviations: a false alarm has probability below 10⁻⁶."""
    coins = flip_inclusion_coins(10_000)
    assert abs(coins.mean() - 0.5) < 5 * 0.5 / 100
    assert abs((coins[1:] == coins[:-1]).mean() - 0.5) < 5 * 0.5 / 100


def test_guesses_go_to_both_ends() -> None:
    made = guess_by_score([0.1, 5.0, -3.0, 0.2, 4.0, -2.0], 4)
    assert made.tolist() == [0, 1, -1, 0, 1, -1]
    with pytest.raises(InputError, match="guesses"):
        guess_by_score([1.0, 2.0], 4)


def test_reports() -> None:
    found = audit_canaries(*guessed(100, 90), claimed=1)
    content = json.loads(found.to_json())
    assert content["violated"] is True
    assert content["right"] == 90
    assert str(found).startswith("REFUTED")
    assert not math.isnan(found.epsilon)
    with pytest.raises(InputError, match="guesses"):
        audit_canaries([True], [1, -1])
