"""A unit replaced in a sampled sum: the pair against other pairs of vectors, other accountants, and its own event."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.compose import compose
from tacit.accounting.pld import translate as sampled
from tacit.accounting.pld.translate import ReplacedPair
from tacit.core.events import (
    DiscreteGaussianEvent,
    PoissonSampledEvent,
    SampledSumEvent,
    event_from_json,
    event_to_json,
)
from tacit.core.relations import REPLACE_ONE

UNIT = 1 << 20


def release(rate: str, noise: float, dimension: int = 50) -> SampledSumEvent:
    sigma2 = Fraction(math.ceil((noise * UNIT) ** 2))
    return SampledSumEvent(Fraction(rate), sigma2, Fraction(UNIT**2), dimension, relation=REPLACE_ONE)


def divergence(a: float, b: float, angle: float, rate: float, gamma: float) -> float:
    """E_γ of two mixtures in the plane, by a fine grid; vectors of lengths a and b at an angle."""
    x, y = np.meshgrid(np.linspace(-9, 9, 541), np.linspace(-9, 9, 541))
    first = np.exp(a * x - a * a / 2)
    second = np.exp(b * (math.cos(angle) * x + math.sin(angle) * y) - b * b / 2)
    gap = (1 - rate) * (1 - gamma) + rate * (first - gamma * second)
    step = (18 / 540) ** 2 / (2 * math.pi)
    return float((np.maximum(gap, 0) * np.exp(-(x * x + y * y) / 2)).sum() * step)


@pytest.mark.parametrize("gamma", [0.3, 0.9, 1.0, 1.2, 3.0])
@pytest.mark.parametrize("rate", [0.05, 0.6])
def test_opposite_vectors_are_the_worst(rate: float, gamma: float) -> None:
    """Others are well below it, so the grid can tell."""
    mu = 1.3
    worst = divergence(mu, mu, math.pi, rate, gamma)
    pair = ReplacedPair(mu, rate).sides(np.array([math.log(gamma)]))
    assert float(pair.p_above[0] - gamma * pair.q_above[0]) == pytest.approx(worst, abs=5e-5)
    others = [
        divergence(a, b, angle, rate, gamma)
        for a, b in ((mu, mu), (mu, 0.7), (0.4, mu), (mu, 0.0), (0.0, mu))
        for angle in (0.0, 1.0, 2.0, 2.8)
    ]
    assert max(others) <= worst + 5e-5
    nothing = max(1 - gamma, 0.0)
    assert min(others) - nothing < 0.9 * (worst - nothing)


def test_losses_and_places_fit_together() -> None:
    """Tails are those of the loss itself, and the pair read backwards is the pair."""
    mu, rate = 0.7, 0.02
    pair, losses = ReplacedPair(mu, rate), np.linspace(-3, 3, 41)
    sides = pair.sides(losses)
    x = np.linspace(-15, 15, 600_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    up, down = (1 - rate + rate * np.exp(sign * mu * x - mu * mu / 2) for sign in (1, -1))
    loss = np.log(up) - np.log(down)
    for at, level in enumerate(losses):
        assert float((density * up)[loss > level].sum()) == pytest.approx(float(sides.p_above[at]), abs=3e-5)
    assert np.allclose(sides.p_above, pair.sides(-losses).q_below)


@pytest.mark.bench
@pytest.mark.parametrize(("rate", "noise", "count", "delta"), [("0.05", 2.0, 100, 1e-5), ("0.5", 1.0, 2, 1e-4)])
def test_between_bounds_and_beside_another_accountant(rate: str, noise: float, count: int, delta: float) -> None:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as rival

    found = compose([(release(rate, noise), count)], delta=str(delta), method="pld")
    law = rival.from_gaussian_mechanism(
        noise, sampling_prob=float(rate), value_discretization_interval=1e-3,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    ).self_compose(count)  # fmt: skip
    theirs = law.get_epsilon_for_delta(delta)
    assert found.lower is not None
    assert 0 <= found.epsilon - found.lower < Fraction(1, 1000) * found.epsilon
    # Theirs rounds up on a coarser grid.
    assert float(found.lower) <= theirs <= float(found.epsilon) * 1.02


def test_it_lies_between_coming_or_going_and_twice_that() -> None:
    one = release("0.1", 3.0)
    moved = DiscreteGaussianEvent(one.sigma2, one.l2_squared, one.dimension)
    replaced, removed, thinned, unsampled = (
        compose([(event, 30)], delta="1e-5", method="pld").epsilon
        for event in (
            one,
            PoissonSampledEvent(one.rate, moved),
            PoissonSampledEvent(one.rate, one.unsampled, relation=REPLACE_ONE),
            one.unsampled,
        )
    )
    assert removed < replaced < thinned
    assert replaced < unsampled / 3
    for method in ("rdp", "zcdp"):
        assert compose([(one, 30)], delta="1e-5", method=method).epsilon >= replaced
    same = SampledSumEvent(one.rate, one.sigma2, one.l2_squared, one.dimension)
    assert compose([(same, 30)], delta="1e-5", method="pld").epsilon == removed
    assert event_from_json(event_to_json(one)) == one
    for rate, count in ((0, 0), (1, 30)):
        edge = SampledSumEvent(Fraction(rate), one.sigma2, one.l2_squared, one.dimension, relation=REPLACE_ONE)
        assert compose([(edge, 30)], delta="1e-5", method="pld").epsilon == (unsampled if count else 0)
    # Rates and noises that floats cannot hold cost what is proven, and no error.
    for rate in (1 - Fraction(1, 10**20), 1 - Fraction(1, 10**15)):
        near = SampledSumEvent(rate, one.sigma2, one.l2_squared, one.dimension, relation=REPLACE_ONE)
        assert 0.999 * unsampled < compose([(near, 30)], delta="1e-5", method="pld").epsilon < 1.1 * unsampled
    far = SampledSumEvent(Fraction(1, 10**300), one.l2_squared / 900, one.l2_squared, relation=REPLACE_ONE)
    assert compose([far], delta="1e-5", method="pld").method == "rdp"


@pytest.mark.parametrize("rate", [1 - 2.0**-52, 0.5, 1e-9])
def test_places_of_large_losses(rate: float) -> None:
    """The loss at the place that is found for a loss is that loss, on both sides of where sinh overflows."""
    losses, mu = np.array([60.0, 79.9, 80.1, 100.0, 200.0]), 12.0
    found: list[np.ndarray] = []
    pair = ReplacedPair(mu, rate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled, "normal_sides", lambda z: (found.append(z), (z, z))[1])
        pair.sides(losses)
    middle = found[0]
    small = (1 - rate) + rate * np.exp(-mu * middle - mu**2 / 2)
    again = np.log1p(rate * np.expm1(mu * middle - mu**2 / 2)) - np.log(small)
    np.testing.assert_allclose(again, losses, rtol=1e-12)
