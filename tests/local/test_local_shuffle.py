"""Shuffling: the bound against the true divergence, enumerated in rationals for small n, and published formulas."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import pytest

from tacit.core.errors import InputError
from tacit.local import HadamardResponse, ResponseProtocol, amplified, shuffled_delta


@cache
def shuffled_law(protocol: ResponseProtocol, values: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The exact law of how often each category is named, which is all that shuffling leaves."""
    law: dict[tuple[int, ...], Fraction] = {(0,) * protocol.k: Fraction(1)}
    for value in values:
        following: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for seen, chance in law.items():
            for named in range(protocol.k):
                told = protocol.truth if named == value else protocol.noise
                following[(*seen[:named], seen[named] + 1, *seen[named + 1 :])] += chance * told
        law = dict(following)
    return law


def true_delta(protocol: ResponseProtocol, others: tuple[int, ...], odds: Fraction) -> Fraction:
    first, second = (shuffled_law(protocol, (value, *others)) for value in (0, 1))
    return max(
        sum((max(one[seen] - odds * other[seen], Fraction(0)) for seen in one), Fraction(0))
        for one, other in ((first, second), (second, first))
    )


@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 2), (2, 8), (3, 4), (4, 3)])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
def test_the_bound_is_above_every_true_divergence(k: int, n: int, epsilon: str) -> None:
    """All contents of the other people's values; both bounds, the general one and that of randomized response."""
    protocol = ResponseProtocol(categories=k, epsilon=epsilon)
    for step in range(4):
        at = protocol.epsilon * step / 4 or Fraction(1, 100)
        odds = Fraction(math.exp(float(at))).limit_denominator(10**12)
        worst = max(
            float(true_delta(protocol, others, odds)) for others in combinations_with_replacement(range(k), n - 1)
        )
        special, general = (shuffled_delta(each, n=n, epsilon=at) for each in (protocol, protocol.epsilon))
        assert worst <= special + 1e-9
        assert worst <= general + 1e-9
        assert special <= general + 1e-9


def test_the_bound_is_close_for_two_categories() -> None:
    """Within a third of the truth for twelve people, at the content that tells most."""
    protocol = ResponseProtocol(categories=2, epsilon="1")
    odds = Fraction(math.exp(0.25)).limit_denominator(10**12)
    worst = max(float(true_delta(protocol, others, odds)) for others in combinations_with_replacement(range(2), 11))
    assert worst <= shuffled_delta(protocol, n=12, epsilon="0.25") <= 4 / 3 * worst


def exact_clone_delta(own: Fraction, other: Fraction, clone: Fraction, n: int, odds: Fraction) -> Fraction:
    """The divergence of the pair of clone counts, term by term."""
    total = Fraction(0)
    for c in range(n):
        chance = math.comb(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c)
        fair = [Fraction(math.comb(c, i), 2**c) if 0 <= i <= c else Fraction(0) for i in range(-1, c + 2)]
        for i in range(c + 2):
            first = own * fair[i] + other * fair[i + 1]
            second = other * fair[i] + own * fair[i + 1]
            total += chance * max(first - odds * second, Fraction(0))
    return total


@pytest.mark.parametrize(("k", "n", "at"), [(2, 30, "0.3"), (5, 60, "0.7"), (3, 1, "0.2"), (2, 2, "0.9")])
def test_the_sum_of_tails_is_the_divergence(k: int, n: int, at: str) -> None:
    protocol = ResponseProtocol(categories=k, epsilon="1")
    odds = Fraction(math.exp(float(at)))
    exact = exact_clone_delta(protocol.truth, protocol.noise, 2 * protocol.noise, n, odds)
    found = shuffled_delta(protocol, n=n, epsilon=at)
    assert float(exact) <= found <= float(exact) * (1 + 1e-8) + 1e-12


def test_more_people_hide_better_and_few_people_not_at_all() -> None:
    found = [float(amplified("1", n=n, delta="1e-6").epsilon) for n in (1, 100, 2_000, 200_000)]
    assert found == sorted(found, reverse=True)
    assert 0.9999 < found[0] <= 1.0
    # About 1/√n from there on.
    assert found[3] == pytest.approx(found[2] / 10, rel=0.2)
    assert float(shuffled_delta("1", n=10_000, epsilon=amplified("1", n=10_000, delta="1e-6").epsilon)) <= 1e-6


def test_the_bound_of_the_published_formula_is_improved() -> None:
    """The closed formula of Feldman, McMillan and Talwar (2021, theorem 3.1) is above the number found."""
    local, n, delta = 1.0, 100_000, 1e-6
    odds = math.exp(local)
    formula = math.log1p((odds - 1) / (odds + 1) * (8 * math.sqrt(odds * math.log(4 / delta) / n) + 8 * odds / n))
    assert float(amplified("1", n=n, delta="1e-6").epsilon) < 0.35 * formula


def test_protocols_have_the_general_bound() -> None:
    protocol = HadamardResponse(categories=50, epsilon="1")
    assert amplified(protocol, n=1000, delta="1e-6") == amplified("1", n=1000, delta="1e-6")


@pytest.mark.parametrize("words", [{"n": 0, "delta": "1e-6"}, {"n": 10, "delta": "1e-13"}, {"n": 10, "delta": "0"}])
def test_refused_parameters(words: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        amplified("1", **words)
