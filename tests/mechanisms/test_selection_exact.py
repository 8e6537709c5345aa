"""The exact output law of every selection mechanism on all neighbouring scores of a small box.

Laws are computed here from the definition of each mechanism, apart from the code under test. For noisy max the only
number in the law is q = e^(-1/scale), so a rational q makes it exact: with noise of scale t the claim e^ε reads
q^(-2Δ) in general and q^(-Δ) for monotone scores. That the code draws from this law is the business of
``tests/mechanisms/test_selection_frequencies.py`` and of the winner-and-margin test in ``tests/unit``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import pytest

from tacit.core.numbers import exp_bounds
from tacit.core.relations import ADD_REMOVE
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.top_k import TopK

Vector = tuple[int, ...]
Law = dict[object, Fraction]

#: Mass beyond this many steps is below 2^-58 and is left out; ratios are compared with a slack far above it.
REACH = 60
SLACK = 1 + Fraction(1, 2**30)


def neighbours(scores: Vector, *, monotone: bool) -> Iterator[Vector]:
    """Every vector that one unit of sensitivity 1 can make of ``scores``."""
    moves = [(0, 1), (-1, 0)] if monotone else [(-1, 0, 1)]
    for move in moves:
        for step in itertools.product(move, repeat=len(scores)):
            yield tuple(score + extra for score, extra in zip(scores, step, strict=True))


def worst_ratio(law: Callable[[Vector], Law], size: int, *, monotone: bool, top: int = 2) -> Fraction | float:
    """The largest P(o)/P'(o) over outputs o and neighbours with scores from 0 to ``top``."""
    worst: Fraction | float = Fraction(0)
    for scores in itertools.product(range(top + 1), repeat=size):
        mine = law(scores)
        for other in neighbours(scores, monotone=monotone):
            theirs = law(other)
            for output, chance in mine.items():
                if chance:
                    worst = max(worst, chance / theirs[output] if theirs.get(output) else math.inf)
    return worst


# --- noisy max


@cache
def laplace_pmf(q: Fraction, x: int) -> Fraction:
    return (1 - q) / (1 + q) * q ** abs(x)


@cache
def laplace_cdf(q: Fraction, x: int) -> Fraction:
    return q**-x / (1 + q) if x < 0 else 1 - q ** (x + 1) / (1 + q)


@cache
def geometric_pmf(q: Fraction, x: int) -> Fraction:
    return (1 - q) * q**x if x >= 0 else Fraction(0)


@cache
def geometric_cdf(q: Fraction, x: int) -> Fraction:
    return 1 - q ** (x + 1) if x >= 0 else Fraction(0)


def winner_law(q: Fraction, noise: str) -> Callable[[Vector], Law]:
    """P(i wins) = Σ_x P(η_i = x)·Π_j P(u_j + η_j + [j < i] <= u_i + x)."""
    pmf, cdf = (laplace_pmf, laplace_cdf) if noise == "laplace" else (geometric_pmf, geometric_cdf)

    @cache
    def centred(scores: Vector) -> Law:
        law: Law = {}
        for i, mine in enumerate(scores):
            law[i] = sum(
                (
                    pmf(q, x) * math.prod(cdf(q, mine + x - u - (j < i)) for j, u in enumerate(scores) if j != i)
                    for x in range(-REACH, REACH)
                ),
                Fraction(0),
            )
        return law

    return lambda scores: centred(tuple(score - min(scores) for score in scores))


def margin_law(q: Fraction, noise: str, margins: int = 6) -> Callable[[Vector], Law]:
    """P(i wins by g) = Σ_y P(m_i = y)·P(η_i = g + y - u_i), m_i the largest u_j + η_j + [j < i]."""
    pmf, cdf = (laplace_pmf, laplace_cdf) if noise == "laplace" else (geometric_pmf, geometric_cdf)

    @cache
    def centred(scores: Vector) -> Law:
        law: Law = {}
        for i, mine in enumerate(scores):
            below = [
                math.prod(cdf(q, y - u - (j < i)) for j, u in enumerate(scores) if j != i)
                for y in range(-REACH - 1, REACH)
            ]
            for g in range(margins):
                terms = ((below[n + 1] - below[n]) * pmf(q, g + y - mine) for n, y in enumerate(range(-REACH, REACH)))
                law[i, g] = sum(terms, Fraction(0))
        return law

    return lambda scores: centred(tuple(score - min(scores) for score in scores))


HALF = Fraction(1, 2)


def test_the_laws_add_up_to_one() -> None:
    for noise in ("laplace", "exponential"):
        total = sum(winner_law(HALF, noise)((0, 2, 1)).values())
        assert abs(total - 1) < Fraction(1, 2**50)
    margins = margin_law(HALF, "laplace", margins=50)((0, 1))
    winners = winner_law(HALF, "laplace")((0, 1))
    for i in range(2):
        assert abs(sum(p for (who, _), p in margins.items() if who == i) - winners[i]) < Fraction(1, 2**40)


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize(("size", "top"), [(2, 2), (3, 2), (4, 1)])
def test_noisy_max_is_private_ties_included(noise: str, size: int, top: int) -> None:
    law = winner_law(HALF, noise)
    assert worst_ratio(law, size, monotone=False, top=top) <= SLACK / HALF**2
    assert worst_ratio(law, size, monotone=True, top=top) <= SLACK / HALF


def test_half_the_noise_is_only_private_for_monotone_scores() -> None:
    """With scale Δ/ε the claim is 1/q; general scores exceed it, so the factor 2 is needed."""
    assert worst_ratio(winner_law(HALF, "laplace"), 3, monotone=False) > SLACK / HALF
    assert worst_ratio(winner_law(HALF, "exponential"), 3, monotone=False) > SLACK / HALF


@pytest.mark.parametrize(("size", "top"), [(2, 2), (3, 1)])
def test_the_margin_is_free_with_laplace_noise(size: int, top: int) -> None:
    law = margin_law(HALF, "laplace")
    assert worst_ratio(law, size, monotone=False, top=top) <= SLACK / HALF**2
    assert worst_ratio(law, size, monotone=True, top=top) <= SLACK / HALF


def test_one_sided_noise_breaks_the_proof_of_the_margin() -> None:
    """Given the others' noise, a margin can be possible for one data set and impossible for its neighbour.

    Two candidates, the other's noise fixed at 0. Scores (0, 0): the first wins by 0 with its own noise 0. Scores
    (1, -1): it then wins by 2 at least. With Laplace noise the same conditional law stays within q^-2.
    """

    def given_other(pmf: Callable[[Fraction, int], Fraction], scores: Vector, margin: int) -> Fraction:
        return pmf(HALF, margin + scores[1] - scores[0])

    assert given_other(geometric_pmf, (0, 0), 0) > 0
    assert given_other(geometric_pmf, (1, -1), 0) == 0
    assert given_other(laplace_pmf, (0, 0), 0) <= given_other(laplace_pmf, (1, -1), 0) / HALF**2


def test_the_winners_noisy_value_is_not_free() -> None:
    """P(i wins with noisy value v): shifting all noise by the scores' moves costs n times, so it must be caught."""

    def law(scores: Vector) -> Law:
        return {
            (i, v): laplace_pmf(HALF, v - mine)
            * math.prod(laplace_cdf(HALF, v - u - (j < i)) for j, u in enumerate(scores) if j != i)
            for i, mine in enumerate(scores)
            for v in range(-8, 4)
        }

    assert worst_ratio(law, 4, monotone=False, top=1) > SLACK / HALF**2


# --- exponential mechanism, permute-and-flip, top-k: enclosures of the law


def bounds_ratio(kind: type[Exponential] | type[PermuteAndFlip], size: int, *, monotone: bool, top: int) -> Fraction:
    mechanism = kind(epsilon=1, sensitivity=1, monotone=monotone, relation=ADD_REMOVE)
    law = cache(lambda scores: mechanism.probability_bounds(list(scores)))
    worst = Fraction(0)
    for scores in itertools.product(range(top + 1), repeat=size):
        for other in neighbours(scores, monotone=monotone):
            for (_, mine), (theirs, _) in zip(law(scores), law(other), strict=True):
                worst = max(worst, mine / theirs)
    return worst


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("size", "top"), [(2, 3), (3, 2), (4, 1)])
def test_selection_is_private(
    kind: type[Exponential] | type[PermuteAndFlip], monotone: bool, size: int, top: int
) -> None:
    worst = bounds_ratio(kind, size, monotone=monotone, top=top)
    assert worst <= exp_bounds(Fraction(1))[0] * SLACK
    assert worst > exp_bounds(Fraction(1, 2))[1]  # and the budget is used, not hoarded


def test_the_exponential_mechanism_has_bounded_range_and_permute_and_flip_does_not() -> None:
    """Over all outcomes of one pair, max log-ratio - min log-ratio <= ε."""

    def widest(kind: type[Exponential] | type[PermuteAndFlip]) -> float:
        mechanism = kind(epsilon=1, sensitivity=1)
        law = cache(lambda scores: mechanism.probabilities(list(scores)))
        found = 0.0
        for scores in itertools.product(range(3), repeat=3):
            for other in neighbours(scores, monotone=False):
                logs = [math.log(a / b) for a, b in zip(law(scores), law(other), strict=True)]
                found = max(found, max(logs) - min(logs))
        return found

    assert widest(Exponential) <= 1 + 1e-12
    assert widest(PermuteAndFlip) > 1.2


def peeling_law(epsilon: Fraction, k: int, scores: Vector) -> dict[Vector, float]:
    law: dict[Vector, float] = {}
    for order in itertools.permutations(range(len(scores)), k):
        chance, left = 1.0, list(range(len(scores)))
        for choice in order:
            weights = {i: math.exp(float(epsilon / k) * scores[i] / 2) for i in left}
            chance *= weights[choice] / sum(weights.values())
            left.remove(choice)
        law[order] = chance
    return law


@pytest.mark.parametrize("k", [1, 2, 3])
def test_peeling_at_epsilon_over_k_is_private(k: int) -> None:
    worst = 0.0
    for scores in itertools.product(range(3), repeat=3):
        mine = peeling_law(Fraction(1), k, scores)
        for other in neighbours(scores, monotone=False):
            theirs = peeling_law(Fraction(1), k, other)
            worst = max(worst, *(mine[order] / theirs[order] for order in mine))
    assert worst <= math.e * (1 + 1e-12)
    assert TopK(epsilon=1, k=k, sensitivity=1).scale == 2 * k


def test_a_hopeless_candidate_keeps_a_positive_weight() -> None:
    """Scores [0, -2000] at ε = 1: e^-1000 underflows in floats and must not here."""
    for kind in (Exponential, PermuteAndFlip):
        low, high = kind(epsilon=1, sensitivity=1).probability_bounds([0, -2000])[1]
        assert 0 < low <= high < Fraction(1, 10**430)
    odds = Exponential(epsilon=1, sensitivity=1).probability_bounds([0, -2000])
    ratio_low = odds[1][0] / odds[0][1]
    assert ratio_low <= exp_bounds(Fraction(-1000))[1]
    assert odds[1][1] / odds[0][0] >= exp_bounds(Fraction(-1000))[0]
