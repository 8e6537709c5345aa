"""Published and independently computed numbers for selection, sparse vector and randomized response."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from tacit.core.guarantees import ZCDP
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse
from tacit.mechanisms.sparse_vector import SparseVector

SCORES = [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "monotone", "expected"),
    [
        # P(r) ∝ exp(εu/2), ε = Δ = 1
        (Exponential, False, [0.1863237232258476, 0.3071958857184984, 0.506480391055654]),
        # P(r) ∝ exp(εu)
        (Exponential, True, [0.09003057317038046, 0.2447284710547977, 0.6652409557748219]),
        # P(r) = p_r ∫₀¹ Π_{s≠r} (1 - t p_s) dt, p_s = exp((u_s - 2)/2)
        (PermuteAndFlip, False, [0.1467513605609829, 0.2660769698315784, 0.5871716696074387]),
    ],
)
def test_probabilities(kind: Any, monotone: bool, expected: list[float]) -> None:
    mechanism = kind(epsilon=1, sensitivity=1, monotone=monotone)
    assert mechanism.probabilities(SCORES) == pytest.approx(expected, rel=1e-15, abs=2e-16)
    for (low, high), value in zip(mechanism.probability_bounds(SCORES), expected, strict=True):
        assert 0 <= high - low < Fraction(1, 10**30)
        assert abs(float(low) - value) < 3e-16


def test_the_counterexample_to_bounded_range_of_permute_and_flip() -> None:
    """Scores [0, 0] against [1, -1] at ε = 2, Δ = 1: D₂ = ln Σ P²/Q = 1.376918739600336, above 2·ε²/8 = 1."""
    flip = PermuteAndFlip(epsilon=2, sensitivity=1)
    even, uneven = flip.probabilities([0, 0]), flip.probabilities([1, -1])
    assert even == [0.5, 0.5]
    assert uneven == pytest.approx([0.932332358382, 0.0676676416183], rel=1e-11)
    renyi = math.log(sum(p * p / q for p, q in zip(even, uneven, strict=True)))
    assert renyi == pytest.approx(1.376918739600336, rel=1e-14)
    assert flip.zcdp == ZCDP(2)
    assert renyi > 2 * float(Exponential(epsilon=2, sensitivity=1).zcdp.rho)
    assert renyi <= 2 * float(flip.zcdp.rho)


@pytest.mark.parametrize("scores", [[0], [0, 0], [3, 1], [0, 1, 2], [5, 5, 4, 0], [0, 0, 0, 7, 7]])
def test_permute_and_flip_by_walking_every_permutation(scores: list[int]) -> None:
    """The definition: candidates in random order, each taken with chance exp((u - max)/2)."""
    coins = [math.exp((score - max(scores)) / 2) for score in scores]
    chances = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for candidate in order:
            chances[candidate] += left * coins[candidate] / len(orders)
            left *= 1 - coins[candidate]
    assert PermuteAndFlip(epsilon=1, sensitivity=1).probabilities(scores) == pytest.approx(chances, rel=1e-12)


def test_the_accuracy_of_the_exponential_mechanism() -> None:
    """(2Δ/ε)(ln(|R|/|R_OPT|) + t) at |R| = 100, t = 3, ε = 1; e⁻³ to 30 digits for β."""
    beta = "0.0497870683678639429793424156500"
    bound = Exponential(epsilon=1, sensitivity=1).error(beta, candidates=100)
    assert bound == pytest.approx(15.21034037197618, rel=1e-6)
    assert bound >= 15.21034037197618


def test_the_accuracy_of_above_threshold() -> None:
    """α = 8(ln k + ln(2/β))/ε = 66.35239712081622 at k = 100, β = 0.05, ε = 1 is proven from |ρ| + |ν| < α."""
    dwork_roth = 8 * (math.log(100) + math.log(2 / 0.05))
    assert dwork_roth == pytest.approx(66.35239712081622, rel=1e-14)
    assert SparseVector(epsilon=1, sensitivity=1, threshold=0, epsilon_threshold="0.5").error("0.05", 100) <= dwork_roth


@pytest.mark.parametrize(
    ("gamma", "epsilon"),
    [
        # ln((1/2 + γ)/(1/2 - γ))
        ("0.25", 1.0986122886681096914),
        ("0.1", 0.40546510810816438198),
        ("0.4", 2.1972245773362193828),
        ("0.01", 0.040005334613699161434),
    ],
)
def test_the_price_of_a_noise_rate(gamma: str, epsilon: float) -> None:
    assert float(RandomizedResponse(gamma=gamma).epsilon) == pytest.approx(epsilon, rel=1e-15)


@pytest.mark.parametrize(
    ("epsilon", "k", "p", "q", "variance"),
    [
        # p = e^ε/(e^ε+k-1), q = 1/(e^ε+k-1), q(1-q)/(p-q)²
        ("1", 2, 0.731058578630004879, 0.268941421369995121, 0.920673594208),
        ("1", 10, 0.231969316684073936, 0.0853367425906584515, 3.63024869292),
        ("0.5", 4, 0.354661244392443393, 0.215112918535852202, 8.67010610202),
        ("3", 100, 0.168664788706820069, 0.00839732536659777708, 0.324181288561),
    ],
)
def test_k_ary_response(epsilon: str, k: int, p: float, q: float, variance: float) -> None:
    response = RandomizedResponse(epsilon=epsilon, categories=k)
    assert float(response.truth) == pytest.approx(p, rel=1e-15)
    assert float(response.lie) == pytest.approx(q, rel=1e-15)
    # Reports that never name category 1 put its share at or below 0, where the variance is q(1-q)/(p-q)²/n.
    found = response.estimate([0] * 50)
    one = found[1]
    assert isinstance(one, FrequencyEstimate)
    assert one.standard_error**2 * 50 == pytest.approx(variance, rel=1e-10)
    assert one.frequency == pytest.approx(-q / (p - q), rel=1e-12)


@pytest.mark.bench
def test_opendp_agrees_on_the_exponential_scale() -> None:
    """OpenDP's exponential-noise noisy max at scale 2Δ/ε reports the ε that permute-and-flip claims here."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    flip = PermuteAndFlip(epsilon=1, sensitivity=1)
    noisy = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=float(flip.scale))
    assert noisy.map(1) == pytest.approx(float(flip.epsilon))
