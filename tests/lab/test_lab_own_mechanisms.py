"""Tacit's own mechanisms in the laboratory: on every pair of neighbours of a small universe, the exact privacy loss is
never above the guarantee they declare, and equals it where the mechanism is tight.

Noise of scale t has a law that is a rational function of q = e^(-1/t), and a guarantee e^ε = q^(-εt), where εt is the
sensitivity (or twice it). Both sides are therefore compared exactly at rational values of q, whatever ε is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import pytest

from tacit.core.divergences import Distribution
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import exp_bounds
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.lab import FiniteMechanism
from tacit.mechanisms.counts import Histogram
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse

F = Fraction
Law = dict[Hashable, Fraction]
HAIR = F(1, 10**25)


def guaranteed(q: Fraction, epsilon: Fraction, scale: Fraction) -> Fraction:
    """e^ε = q^(-ε·scale) for q = e^(-1/scale)."""
    exponent = epsilon * scale
    assert exponent.denominator == 1
    return q**-exponent.numerator


def folded_laplace(q: Fraction, centre: int, low: int, high: int) -> Law:
    """Discrete Laplace noise around ``centre``, all that falls outside put on the nearer end."""
    law: Law = {x: (1 - q) / (1 + q) * q ** abs(x - centre) for x in range(low, high + 1)}
    law[low] = q ** (centre - low) / (1 + q)
    law[high] = q ** (high - centre) / (1 + q)
    return law


# Randomized response


@pytest.mark.parametrize("categories", [2, 3, 5])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_randomized_response(categories: int, epsilon: str) -> None:
    mechanism = RandomizedResponse(epsilon=epsilon, categories=categories)
    options = range(categories)
    table = {t: {o: mechanism.truth if o == t else mechanism.lie for o in options} for t in options}
    found = FiniteMechanism.local(table)
    assert found.is_private(epsilon=mechanism.guarantee.epsilon)
    assert not found.is_private(epsilon=mechanism.guarantee.epsilon - F(1, 10**12))


def test_randomized_response_by_gamma_is_exactly_ln_3() -> None:
    mechanism = RandomizedResponse(gamma="0.25")
    found = FiniteMechanism.local(
        {t: {o: mechanism.truth if o == t else mechanism.lie for o in (0, 1)} for t in (0, 1)}
    )
    assert found.ratio().value == 3
    assert 0 <= mechanism.guarantee.epsilon - F(found.epsilon().high) < F(1, 10**15)


# Laplace noise on counts, sums and histograms


@pytest.mark.parametrize("q", [F(1, 2), F(9, 10)])
@pytest.mark.parametrize(
    ("relation", "universe", "sensitivity"),
    [(ADD_REMOVE, (0, 1), 1), (REPLACE_ONE, (0, 1), 1), (REPLACE_ONE, (0, 3), 3)],
)
def test_laplace_on_a_sum(q: Fraction, relation: Relation, universe: tuple[int, ...], sensitivity: int) -> None:
    mechanism = Laplace(epsilon="0.7", l1_sensitivity=sensitivity, relation=relation)
    found = FiniteMechanism.over_universe(
        lambda rows: folded_laplace(q, sum(rows), -2, 3 * sensitivity + 2),
        universe=universe,
        sizes=range(4) if relation is ADD_REMOVE else 3,
        relation=relation,
    )
    assert found.ratio().value == guaranteed(q, mechanism.guarantee.epsilon, mechanism.scale)


def test_laplace_profile_is_that_of_the_formula() -> None:
    # Shift 1: P - e^x Q is positive on one side of the centre only; at q = e^-ε: δ(x) = (1 - e^x q)·1/(1 + q).
    q = F(1, 2)
    found = FiniteMechanism.over_universe(
        lambda d: folded_laplace(q, d[1], -1, 3), universe=(0, 1), sizes=range(3), form="histogram"
    )
    for ratio in (F(1), F(5, 4), F(7, 4), F(2)):
        assert found.delta(ratio=ratio).value == (1 - ratio * q) / (1 + q)


def test_too_little_noise_is_caught() -> None:
    # The mechanism's scale is for ε; noise of half that scale has q² instead of q and must not pass.
    mechanism, q = Laplace(epsilon="0.7", l1_sensitivity=1), F(1, 2)
    found = FiniteMechanism.over_universe(
        lambda d: folded_laplace(q * q, d[1], -1, 3), universe=(0, 1), sizes=range(3), form="histogram"
    )
    assert not found.is_private(ratio=guaranteed(q, mechanism.epsilon, mechanism.scale))


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_histogram_of_two_bins(relation: Relation) -> None:
    mechanism, q = Histogram(epsilon="0.3", bins=["a", "b"], relation=relation), F(2, 3)
    assert isinstance(mechanism.noise, Laplace)

    def law(counts: Mapping[Hashable, int]) -> Law:
        a, b = (folded_laplace(q, counts[bin_], -1, 3) for bin_ in ("a", "b"))
        return {(x, y): a[x] * b[y] for x, y in product(a, b)}

    found = FiniteMechanism.over_universe(
        law, universe="ab", sizes=range(3) if relation is ADD_REMOVE else 2, relation=relation, form="histogram"
    )
    declared = guaranteed(q, mechanism.noise.guarantee.epsilon, mechanism.noise.scale)
    assert found.ratio().value == declared == q ** -(1 if relation is ADD_REMOVE else 2)


# Selection

Scores = Callable[[Mapping[Hashable, int]], list[int]]


def counts(histogram: Mapping[Hashable, int]) -> list[int]:
    """Monotone: adding a record raises one score."""
    return [histogram["a"], histogram["b"], 0]


def lead(histogram: Mapping[Hashable, int]) -> list[int]:
    """Not monotone: a record moves two scores in opposite directions."""
    return [histogram["a"] - histogram["b"], histogram["b"] - histogram["a"]]


def selection(law: Callable[[list[int]], Distribution], scores: Scores, most: int = 4) -> FiniteMechanism:
    return FiniteMechanism.over_universe(
        lambda histogram: law(scores(histogram)), universe="ab", sizes=range(most + 1), form="histogram"
    )


@pytest.mark.parametrize(("scores", "monotone"), [(counts, True), (counts, False), (lead, False)])
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_own_laws_of_selection_stay_within_the_guarantee(
    kind: Any, scores: Scores, monotone: bool, epsilon: str
) -> None:
    mechanism = kind(epsilon=epsilon, sensitivity=1, monotone=monotone)
    found = selection(mechanism.probability_bounds, scores)
    assert found.is_private(epsilon=mechanism.guarantee.epsilon + HAIR)
    for alpha in (2, 8):
        assert found.renyi(alpha).high <= alpha * mechanism.zcdp.rho + HAIR


def exponential_law(q: Fraction, scores: list[int]) -> Law:
    weights = [q**-score for score in scores]
    return {i: F(weight) / sum(weights) for i, weight in enumerate(weights)}


def permute_and_flip_law(q: Fraction, scores: list[int]) -> Law:
    """By its definition: walk every permutation, flip every coin."""
    coins = [q ** (max(scores) - score) for score in scores]
    law: Law = dict.fromkeys(range(len(scores)), F(0))
    for order in permutations(range(len(scores))):
        still = F(1, math.factorial(len(scores)))
        for candidate in order:
            law[candidate] += still * coins[candidate]
            still *= 1 - coins[candidate]
    return law


@pytest.mark.parametrize(("scores", "monotone"), [(counts, True), (lead, False)])
def test_permute_and_flip_is_tight(scores: Scores, monotone: bool) -> None:
    mechanism, q = PermuteAndFlip(epsilon="0.5", sensitivity=1, monotone=monotone), F(1, 3)
    found = selection(lambda values: permute_and_flip_law(q, values), scores)
    declared = guaranteed(q, mechanism.epsilon, mechanism.scale)
    assert found.is_private(ratio=declared)
    if not monotone:
        assert found.ratio().value == declared


@pytest.mark.parametrize(("scores", "monotone"), [(counts, True), (lead, False)])
def test_exponential_mechanism_nears_its_guarantee(scores: Scores, monotone: bool) -> None:
    mechanism, q = Exponential(epsilon="0.5", sensitivity=1, monotone=monotone), F(1, 3)
    found = selection(lambda values: exponential_law(q, values), scores, most=7)
    declared = guaranteed(q, mechanism.epsilon, mechanism.scale)
    assert found.is_private(ratio=declared)
    if not monotone:
        assert found.ratio().value > declared * F(99, 100)


def test_permute_and_flip_with_the_monotone_scale_is_caught() -> None:
    mechanism, q = PermuteAndFlip(epsilon="0.5", sensitivity=1, monotone=True), F(1, 3)
    found = selection(lambda values: permute_and_flip_law(q, values), lead)
    assert not found.is_private(ratio=guaranteed(q, mechanism.epsilon, mechanism.scale))


WINDOW = 90


def noise_law(noise: str, q: Fraction) -> tuple[Callable[[int], Fraction], Callable[[int], Fraction]]:
    """Mass at x, and mass at x or below."""
    if noise == "exponential":
        return (lambda x: (1 - q) * q**x if x >= 0 else F(0)), (lambda x: 1 - q ** (x + 1) if x >= 0 else F(0))
    return (
        lambda x: (1 - q) / (1 + q) * q ** abs(x),
        lambda x: q**-x / (1 + q) if x <= 0 else 1 - q ** (x + 1) / (1 + q),
    )


def noisy_max_law(noise: str, q: Fraction, scores: list[int]) -> Distribution:
    """Ties go to the lower index; noise beyond the window is left undecided, in the upper ends."""
    mass, below = noise_law(noise, q)
    law: dict[Hashable, tuple[Fraction, Fraction]] = {}
    undecided = 2 * q**WINDOW
    for i, score in enumerate(scores):
        chance = F(0)
        for x in range(-WINDOW, WINDOW):
            others = [below(x + score - rival - (j < i)) for j, rival in enumerate(scores) if j != i]
            chance += mass(x) * math.prod(others, start=F(1))
        law[i] = (chance, chance + undecided)
    return law


@pytest.mark.parametrize(("scores", "monotone"), [(counts, True), (lead, False)])
@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_noisy_max(noise: Any, scores: Scores, monotone: bool) -> None:
    mechanism, q = NoisyMax(epsilon="0.5", sensitivity=1, noise=noise, monotone=monotone), F(1, 3)
    found = selection(lambda values: noisy_max_law(noise, q, values), scores, most=3)
    declared = guaranteed(q, mechanism.epsilon, mechanism.scale)
    assert found.delta(ratio=declared).high < HAIR
    assert found.delta(ratio=declared * F(3, 5)).low > F(1, 1000)


def margin_law(q: Fraction, scores: list[int]) -> Distribution:
    """Winner and margin of two candidates; margins from 6 on are one output."""
    mass, _ = noise_law("laplace", q)
    law: dict[Hashable, Fraction] = {}
    for winner, loser in ((0, 1), (1, 0)):
        ahead = scores[winner] - scores[loser] - (loser < winner)
        for margin in range(6):
            law[winner, margin] = sum((mass(y) * mass(y + margin - ahead) for y in range(-WINDOW, WINDOW)), F(0))
    rest = 1 - sum(law.values())
    share = sum(
        (mass(y) * noise_law("laplace", q)[1](-(y + 6 - (scores[0] - scores[1]))) for y in range(-WINDOW, WINDOW)), F(0)
    )
    hair = 4 * q**WINDOW
    bounds: dict[Hashable, tuple[Fraction, Fraction]] = {o: (p, p + hair) for o, p in law.items()}
    bounds[0, "6 or more"] = (share, share + hair)
    bounds[1, "6 or more"] = (max(rest - share - 20 * hair, F(0)), rest - share + hair)
    return bounds


def test_the_margin_of_noisy_max_is_free() -> None:
    mechanism, q = NoisyMax(epsilon="0.5", sensitivity=1, gap=True), F(1, 3)
    found = selection(lambda values: margin_law(q, values), lead, most=3)
    declared = guaranteed(q, mechanism.epsilon, mechanism.scale)
    assert found.delta(ratio=declared).high < HAIR
    assert found.delta(ratio=declared * F(3, 5)).low > F(1, 1000)


# Gaussian noise


def gaussian_law(sigma2: Fraction, centre: int, reach: int) -> Distribution:
    weights = {x: exp_bounds(-F(x * x) / (2 * sigma2)) for x in range(-reach, reach + 1)}
    # Σ_{x > n} e^{-x²/2σ²} is below its first term over 1 - e^{-n/σ²}.
    tail = exp_bounds(-F(reach * reach) / (2 * sigma2))[1] / (1 - exp_bounds(-F(reach) / sigma2)[1])
    low = sum((a for a, _ in weights.values()), F(0))
    high = sum((b for _, b in weights.values()), F(0)) + 2 * tail
    law: dict[Hashable, tuple[Fraction, Fraction]] = {x + centre: (a / high, b / low) for x, (a, b) in weights.items()}
    # What lies beyond the window is given away, differently on each database: δ can only look larger.
    law[f"beyond {centre}"] = (F(0), 2 * tail / low)
    return law


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("0.5", "1e-4")])
def test_discrete_gaussian_on_a_count(epsilon: str, delta: str) -> None:
    mechanism = Gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=1)
    assert mechanism.guarantee == ApproxDP(epsilon, delta)
    reach = 12 * math.ceil(mechanism.sigma)
    found = FiniteMechanism({n: gaussian_law(mechanism.sigma2, n, reach) for n in (0, 1)}, pairs=[(0, 1)])
    exact = found.delta(epsilon=epsilon)
    assert exact.high <= F(delta)
    assert exact.low > F(delta) * F(9, 10)
