"""Extreme inputs: the accountant answers, in order, with finite numbers that make sense."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.compose import compose
from tacit.core.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PureEvent,
)

DELTAS = ["0.99", "0.1", "1e-6", "1.1e-18", "1e-300"]

EVENTS: dict[str, Event] = {
    "sigma 1e-3": GaussianEvent(Fraction("1e-3"), Fraction(1)),
    "sigma 1e6": GaussianEvent(Fraction(10**6), Fraction(1)),
    "scale 1e6": LaplaceEvent(Fraction(10**6), Fraction(1)),
    "scale 1": LaplaceEvent(Fraction(1), Fraction(1)),
    "tiny pure": PureEvent(Fraction("1e-9")),
    "large pure": PureEvent(Fraction(50)),
    "discrete laplace": DiscreteLaplaceEvent(Fraction(1000), Fraction(1000)),
    "narrow discrete gaussian": DiscreteGaussianEvent(Fraction(1, 4), Fraction(1)),
    "wide discrete gaussian": DiscreteGaussianEvent(Fraction(10**12), Fraction(1)),
    "sampled, sigma 0.1": PoissonSampledEvent(Fraction("0.001"), GaussianEvent(Fraction("0.1"), Fraction(1))),
    "sampled, sigma 1": PoissonSampledEvent(Fraction("0.01"), GaussianEvent(Fraction(1), Fraction(1))),
    "sampled, sigma 1e6": PoissonSampledEvent(Fraction("1e-6"), GaussianEvent(Fraction(10**6), Fraction(1))),
    "sampled laplace": PoissonSampledEvent(Fraction("0.1"), LaplaceEvent(Fraction(1), Fraction(1))),
    "sampled discrete laplace": PoissonSampledEvent(Fraction("0.1"), DiscreteLaplaceEvent(Fraction(5), Fraction(3))),
    "sampled discrete gaussian": PoissonSampledEvent(Fraction("0.1"), DiscreteGaussianEvent(Fraction(5), Fraction(1))),
}


@pytest.mark.parametrize(
    ("name", "k"),
    [
        pytest.param(name, k, marks=[pytest.mark.deep] if name.startswith("sampled") and k > 1 else [])
        for name in EVENTS
        for k in (1, 10**6)
    ],
)
def test_answers_are_ordered_in_delta(name: str, k: int) -> None:
    last = Fraction(0)
    for delta in DELTAS:
        found = compose([(EVENTS[name], k)], delta=delta, method="pld")
        assert found.epsilon >= 0
        assert found.lower is None or 0 <= found.lower <= found.epsilon
        # Smaller δ, larger ε; two certified answers may differ by the width of their brackets.
        floor = last if found.lower is None else min(last, found.epsilon * Fraction(1001, 1000))
        assert found.epsilon * Fraction(1001, 1000) >= floor
        last = found.lower or Fraction(0)


def test_a_small_delta_is_found_with_small_error() -> None:
    # δ = 1.1e-18 made another accountant jump from 0.056 to 3.8; Renyi is an independent upper bound here.
    event = PoissonSampledEvent(Fraction("0.001"), GaussianEvent(Fraction(20), Fraction(1)))
    small, smaller = (compose([(event, 1000)], delta=d, method="pld") for d in ("1.2e-18", "1.1e-18"))
    assert small.lower is not None
    assert smaller.lower is not None
    assert small.lower > small.epsilon * Fraction(999, 1000)
    assert small.epsilon < smaller.epsilon * Fraction(1001, 1000) < small.epsilon * Fraction(1005, 1000)
    assert smaller.epsilon < compose([(event, 1000)], delta="1.1e-18", method="rdp").epsilon


def test_many_different_releases() -> None:
    events = [LaplaceEvent(Fraction(50 + i), Fraction(1)) for i in range(150)]
    found = compose(events, delta="1e-6", method="pld")
    assert found.lower is not None
    assert found.lower > found.epsilon * Fraction(998, 1000)
    assert found.epsilon < compose(events, delta="1e-6", method="rdp").epsilon
