"""Do the mechanisms draw from the law they claim? Chi-square tests on seeded bits.

Each test draws N = 5,000 times and compares with the exact law at level 1e-6 (its false-alarm probability, were the
seed random). Its power is shown in the same test: laws whose epsilon is 0.8 and 1.25 times the true one are rejected.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import pytest

from support.bits import SeededBits
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK

N = 5_000
LEVEL = 1e-6
SCORES = [0, 2, 4, 1]

Law = Mapping[Hashable, float]


def p_value(counts: Counter[Any], law: Law) -> float:
    """Pearson's chi-square, cells with fewer than 8 expected draws taken together."""
    from scipy.stats import chi2

    total = counts.total()
    assert set(counts) <= set(law)
    rare = [output for output, chance in law.items() if chance * total < 8]
    cells = [(counts[output], law[output] * total) for output in law if output not in rare]
    if sum(law[output] for output in rare) * total >= 8:
        cells.append((sum(counts[output] for output in rare), sum(law[output] for output in rare) * total))
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    return float(chi2.sf(statistic, len(cells) - 1))


def check(draw: Callable[[], Hashable], law: Callable[[float], Law]) -> None:
    """``law(1)`` fits what is drawn; the law of 0.8 or 1.25 times the epsilon does not."""
    counts = Counter(draw() for _ in range(N))
    assert p_value(counts, law(1.0)) > LEVEL
    for factor in (0.8, 1.25):
        assert p_value(counts, law(factor)) < LEVEL


# --- exponential mechanism and permute-and-flip


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_selection(kind: Any, monotone: bool, seeded: SeededBits) -> None:
    mechanism = kind(epsilon="0.75", sensitivity=1, monotone=monotone)

    def law(factor: float) -> Law:
        assumed = kind(epsilon=0.75 * factor, sensitivity=1, monotone=monotone)
        return dict(enumerate(assumed.probabilities(SCORES)))

    check(lambda: mechanism.release(SCORES), law)


def test_floats_follow_the_same_law(seeded: SeededBits) -> None:
    mechanism = Exponential(epsilon="0.75", sensitivity="0.1")

    def law(factor: float) -> Law:
        return dict(enumerate(Exponential(epsilon=0.75 * factor, sensitivity=1).probabilities(SCORES)))

    check(lambda: mechanism.release([score / 10 for score in SCORES]), law)


# --- noisy max, from the definition


def laplace(scale: float) -> tuple[Callable[[int], float], Callable[[int], float]]:
    q = math.exp(-1 / scale)
    return (
        lambda x: (1 - q) / (1 + q) * q ** abs(x),
        lambda x: q**-x / (1 + q) if x < 0 else 1 - q ** (x + 1) / (1 + q),
    )


def geometric(scale: float) -> tuple[Callable[[int], float], Callable[[int], float]]:
    q = math.exp(-1 / scale)
    return lambda x: (1 - q) * q**x if x >= 0 else 0.0, lambda x: 1 - q ** (x + 1) if x >= 0 else 0.0


def winner_law(scores: list[int], noise: str, scale: float) -> dict[Hashable, float]:
    pmf, cdf = laplace(scale) if noise == "laplace" else geometric(scale)
    reach = math.ceil(40 * scale)
    return {
        i: sum(
            pmf(x) * math.prod(cdf(mine + x - u - (j < i)) for j, u in enumerate(scores) if j != i)
            for x in range(-reach, reach)
        )
        for i, mine in enumerate(scores)
    }


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("monotone", [False, True])
def test_noisy_max(noise: Any, monotone: bool, seeded: SeededBits) -> None:
    scores = [0, 1, 3, 1] if monotone else SCORES
    mechanism = NoisyMax(epsilon=1, sensitivity=1, noise=noise, monotone=monotone)
    scale = 1.0 if monotone else 2.0
    check(lambda: mechanism.release(scores), lambda factor: winner_law(scores, noise, scale / factor))


def test_the_margin(seeded: SeededBits) -> None:
    """Winner and margin together; margins of 12 and more in one cell."""
    scores, limit = [1, 0, 1], 12
    mechanism = NoisyMax(epsilon=1, sensitivity=1, gap=True)

    def draw() -> Hashable:
        winner = mechanism.release(scores)
        return winner.candidate, min(winner.margin, limit)

    def law(factor: float) -> Law:
        pmf, cdf = laplace(2 / factor)
        found: dict[Hashable, float] = {}
        for i, mine in enumerate(scores):
            below = {
                y: math.prod(cdf(y - u - (j < i)) for j, u in enumerate(scores) if j != i) for y in range(-121, 120)
            }
            for g in range(limit):
                found[i, g] = sum((below[y] - below[y - 1]) * pmf(g + y - mine) for y in range(-120, 120))
        wins = winner_law(scores, "laplace", 2 / factor)
        for i in range(len(scores)):
            found[i, limit] = wins[i] - sum(found[i, g] for g in range(limit))
        return found

    check(draw, law)


# --- top-k, sparse vector, randomized response


def test_top_k(seeded: SeededBits) -> None:
    mechanism = TopK(epsilon=3, k=2, sensitivity=1)

    def law(factor: float) -> Law:
        weights = [math.exp(3 * factor / 4 * score) for score in SCORES]
        return {
            (i, j): weights[i] / sum(weights) * weights[j] / (sum(weights) - weights[i])
            for i in range(4)
            for j in range(4)
            if i != j
        }

    check(lambda: tuple(mechanism.release(SCORES)), law)


def test_sparse_vector(seeded: SeededBits) -> None:
    """Whole transcripts of four queries with two positives, at ε = 4."""
    stream = [0, 3, -2, 1]

    def draw() -> Hashable:
        made = SparseVector(epsilon=4, sensitivity=1, threshold=0, positives=2)
        return tuple(made.release(stream))

    model = SparseVector(epsilon=4, sensitivity=1, threshold=0, positives=2)

    def law(factor: float) -> Law:
        threshold_pmf, _ = laplace(float(model._threshold_scale) / factor)
        _, query_cdf = laplace(float(model._query_scale) / factor)
        found: dict[Hashable, float] = {}
        for rho in range(-80, 80):
            paths: dict[tuple[bool, ...], float] = {(): threshold_pmf(rho)}
            for value in stream:
                above = 1 - query_cdf(rho - value - 1)
                paths = {
                    (*path, *answer): chance * odds
                    for path, chance in paths.items()
                    for answer, odds in ([((), 1.0)] if sum(path) == 2 else [((True,), above), ((False,), 1 - above)])
                }
            for path, chance in paths.items():
                found[path] = found.get(path, 0.0) + chance
        return found

    check(draw, law)


@pytest.mark.parametrize("k", [2, 4])
def test_randomized_response(k: int, seeded: SeededBits) -> None:
    response = RandomizedResponse(epsilon=1, categories=k)

    def law(factor: float) -> Law:
        odds = math.exp(factor)
        return {place: (odds if place == 1 else 1) / (odds + k - 1) for place in range(k)}

    check(lambda: response.release(1), law)
    counts = Counter(response.release_many([1] * 5 * N))
    assert p_value(counts, law(1.0)) > LEVEL
    for factor in (0.8, 1.25):
        assert p_value(counts, law(factor)) < LEVEL
