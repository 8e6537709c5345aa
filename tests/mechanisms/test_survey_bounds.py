"""Randomized response of the lecture: the plain mean of reports and its bias, and three bounds on the estimate."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import pytest

import tacit
from tacit.core.errors import InputError
from tacit.mechanisms.planning import polling_rule, survey_bounds, survey_size


def errors(n: int, ones: int, truth: Fraction) -> dict[Fraction, Fraction]:
    """The exact law of the estimate's error for n people of whom ``ones`` say yes truly."""
    lie, law = 1 - truth, {}
    for kept in range(ones + 1):
        for flipped in range(n - ones + 1):
            p = comb(ones, kept) * truth**kept * lie ** (ones - kept)
            p *= comb(n - ones, flipped) * lie**flipped * truth ** (n - ones - flipped)
            found = (Fraction(kept + flipped, n) - lie) / (truth - lie) - Fraction(ones, n)
            law[found] = law.get(found, Fraction(0)) + p
    return law


@pytest.mark.parametrize("ones", [0, 3, 6, 12])
def test_bias_and_bounds_against_the_exact_law(ones: int) -> None:
    n, gamma = 12, Fraction(1, 4)
    poll, bounds = tacit.RandomizedResponse(gamma=gamma), survey_bounds(gamma=gamma, people=n)
    law = errors(n, ones, poll.truth)
    assert sum(error * p for error, p in law.items()) == 0
    assert sum(error**2 * p for error, p in law.items()) == bounds.variance
    raw = sum((poll.lie + (poll.truth - poll.lie) * (error + Fraction(ones, n))) * p for error, p in law.items())
    assert raw - Fraction(ones, n) == poll.bias(Fraction(ones, n))
    for bound, beta in [
        (bounds.chebyshev(), Fraction(1, 4)),
        (bounds.hoeffding(), Fraction(1, 4)),
        (bounds.hoeffding("0.01"), Fraction(1, 100)),
        (bounds.textbook, 1 - bounds.textbook_confidence),
    ]:
        assert sum(p for error, p in law.items() if abs(error) > bound) <= beta


def test_the_estimate_shows_the_plain_share_and_its_bias(seeded: object) -> None:
    poll = tacit.RandomizedResponse(gamma="0.25")
    estimate = poll.estimate(poll.release_many([True] * 1000 + [False] * 9000))
    assert isinstance(estimate, tacit.mechanisms.randomized_response.FrequencyEstimate)
    assert estimate.reported == pytest.approx(0.3, abs=0.02)
    assert estimate.frequency == pytest.approx(0.1, abs=0.04)
    assert estimate.bias == pytest.approx(float(poll.bias("0.1")), abs=0.03)
    assert estimate.reported == pytest.approx(0.25 + 0.5 * estimate.frequency)


def test_the_rule_of_the_blackboard() -> None:
    assert survey_size(gamma="0.25", within="0.05") == polling_rule(within="0.05", gamma="0.25").people == 6400
    bounds = survey_bounds(gamma="0.25", people=6400)
    assert float(bounds.textbook) == pytest.approx(0.05)
    assert float(bounds.chebyshev()) == pytest.approx(math.sqrt((0.25 - 0.0625) / (4 * 0.0625 * 6400) * 4))
    assert bounds.chebyshev() < bounds.textbook / 2
    assert "6,400 people" in str(bounds)


def test_words() -> None:
    with pytest.raises(InputError, match="gamma"):
        survey_bounds(gamma="0.5", people=10)
    with pytest.raises(InputError, match="frequency"):
        tacit.RandomizedResponse(gamma="0.25").bias("1.5")
