"""Claims of a composition beside its ε: lower ends that are attained, one release within its promise, either side.

Small mechanisms are enumerated: every outcome of every release, in floats that are good to a part in 10^12.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.accounting.compose import METHODS, compose
from tacit.core.errors import AccountingError
from tacit.core.events import (
    ApproxEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
)
from tacit.core.guarantees import GDP, ApproxDP, PureDP
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.top_k import TopK

Law = NDArray[np.float64]
#: The laws of one output on the two databases.
Laws = tuple[Law, Law]


def delta_of(laws: list[Laws], epsilon: float) -> float:
    """The larger δ(ε) of the two directions of independent outputs, by all their combinations."""
    p, q = np.ones(1), np.ones(1)
    for one, two in laws:
        p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, two).ravel()
    ratio = math.exp(epsilon)
    return max(math.fsum(np.maximum(a - ratio * b, 0.0)) for a, b in ((p, q), (q, p)))


def epsilon_of(laws: list[Laws], delta: float) -> float:
    """The smallest ε at ``delta``."""
    low, high = 0.0, 60.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if delta_of(laws, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def choice(epsilon: float, share: float) -> Laws:
    """Two candidates of an exponential mechanism: the log odds go from ``share``·ε to (``share`` - 1)·ε."""

    def law(log_odds: float) -> Law:
        return np.array([1 / (1 + math.exp(-log_odds)), 1 / (1 + math.exp(log_odds))])

    return law(share * epsilon), law((share - 1) * epsilon)


def sampled(laws: Laws, rate: float, *, first: bool = True) -> Laws:
    """The same release on a secret sample; the unit is in the ``first`` or in the second database."""
    p, q = laws
    return ((1 - rate) * q + rate * p, q) if first else (p, (1 - rate) * p + rate * q)


@pytest.mark.parametrize(("epsilon", "rate", "k", "delta"), [(1, 0.5, 2, 0.05), (1, 0.3, 3, 0.01), (2, 0.1, 4, 1e-3)])
def test_sampled_choices_attain_what_is_said_of_them(epsilon: float, rate: float, k: int, delta: float) -> None:
    event = PoissonSampledEvent(Fraction(rate), ExponentialEvent(Fraction(epsilon)))
    found = compose([(event, k)], delta=delta, method="pld")
    shares = np.linspace(0, 1, 7)
    reached = max(
        epsilon_of([sampled(choice(epsilon, share), rate, first=first) for share in mix], delta)
        for mix in product(shares, repeat=k)
        for first in (True, False)
        if list(mix) == sorted(mix)
    )
    assert found.lower is not None
    assert 0 < float(found.lower) <= reached * (1 + 1e-9) <= float(found.epsilon) * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "k", "delta"), [(1, 2, 0.05), (1, 5, 1e-3), (0.3, 6, 1e-4)])
def test_choices_attain_what_is_said_of_them(epsilon: float, k: int, delta: float) -> None:
    found = compose([(ExponentialEvent(Fraction(epsilon)), k)], delta=delta, method="best")
    reached = max(
        epsilon_of([choice(epsilon, share) for share in mix], delta)
        for mix in product(np.linspace(0, 1, 5), repeat=k)
        if list(mix) == sorted(mix)
    )
    assert found.lower is not None
    assert 0 < float(found.lower) <= reached * (1 + 1e-9) <= float(found.epsilon) * (1 + 1e-6)


def laplace(scale: float, shift: int) -> Laws:
    x = np.arange(-80, 81 + shift)
    p = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(x) / scale)
    q = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(x - shift) / scale)
    losses = np.round((np.abs(x - shift) - np.abs(x)) / scale, 9)
    _, at = np.unique(losses, return_inverse=True)
    return np.bincount(at, weights=p), np.bincount(at, weights=q)


KNOWN: dict[str, tuple[Event, Laws]] = {
    "discrete laplace": (DiscreteLaplaceEvent(Fraction(2), Fraction(3)), laplace(2, 3)),
    "discrete laplace by one": (DiscreteLaplaceEvent(Fraction(2), Fraction(1)), laplace(2, 1)),
    "response": (RandomizedResponseEvent(Fraction(3, 5)), (np.array([0.6, 0.4]), np.array([0.4, 0.6]))),
    "ternary response": (
        RandomizedResponseEvent(Fraction(1, 2), 3),
        (np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("k", "delta"), [(1, 0.1), (3, 0.05), (6, 1e-3)])
def test_a_lower_end_is_attained_by_the_event_itself(name: str, method: str, k: int, delta: float) -> None:
    """The events are those of one mechanism, so the true ε is known: ``optimal`` knows a larger one, of its pair."""
    event, laws = KNOWN[name]
    try:
        found = compose([(event, k)], delta=delta, method=method)
    except AccountingError:
        assert method not in ("basic", "pld", "best")
        return
    truth = epsilon_of([laws] * k, delta)
    assert float(found.epsilon) >= truth * (1 - 1e-9)
    assert found.lower is None or float(found.lower) <= truth * (1 + 1e-9)


@pytest.mark.parametrize("rate", [0.5, 0.1])
@pytest.mark.parametrize("name", ["discrete laplace", "discrete laplace by one", "response"])
@pytest.mark.parametrize(("k", "delta"), [(1, 0.1), (4, 0.01)])
def test_neighbours_that_change_sides(name: str, rate: float, k: int, delta: float) -> None:
    """Whichever side the unit is on in each release, ``changing`` covers it; ``fixed`` covers a side that stays."""
    event, laws = KNOWN[name]
    release = PoissonSampledEvent(Fraction(rate), event)
    fixed = compose([(release, k)], delta=delta, method="pld")
    changing = compose([(release, k)], delta=delta, method="pld", neighbours="changing")
    reached = [epsilon_of([sampled(laws, rate, first=side) for side in sides], delta) for sides in sided(k)]
    assert max(reached) <= float(changing.epsilon) * (1 + 1e-9)
    assert max(reached[0], reached[-1]) <= float(fixed.epsilon) * (1 + 1e-9)
    assert fixed.epsilon <= changing.epsilon * (1 + Fraction(1, 1000))
    for found, most in ((fixed, max(reached[0], reached[-1])), (changing, max(reached))):
        assert found.lower is not None
        assert float(found.lower) <= most * (1 + 1e-9)


def sided(k: int) -> list[list[bool]]:
    """Sides on which releases have the unit, by their number; their order makes no difference."""
    return [[True] * (k - n) + [False] * n for n in range(k + 1)]


def test_changing_sides_really_costs_more_than_any_fixed_one() -> None:
    """Randomized response of ε = 1 on half of the people, twice: 'fixed' does not cover an exchange after the first."""
    laws = (np.array([math.e, 1]) / (1 + math.e), np.array([1, math.e]) / (1 + math.e))
    delta = 0.12
    ends = [epsilon_of([sampled(laws, 0.5, first=side) for side in sides], delta) for sides in sided(2)]
    release = PoissonSampledEvent(Fraction(1, 2), PureEvent(Fraction(1)))
    fixed = compose([(release, 2)], delta=delta, method="pld")
    changing = compose([(release, 2)], delta=delta, method="pld", neighbours="changing")
    assert float(fixed.epsilon) < ends[1] <= float(changing.epsilon)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "event",
    [GaussianEvent(Fraction(3), Fraction(1)), PureEvent(Fraction(1, 5)), LaplaceEvent(Fraction(3), Fraction(1))],
    ids=lambda event: type(event).__name__,
)
def test_neighbours_make_no_difference_without_sampling(event: Event, method: str) -> None:
    if method in ("optimal", "simple") and isinstance(event, GaussianEvent):
        return  # stated for releases that have a small ε of their own
    one, other = (
        compose([(event, 30)], delta="1e-5", method=method, neighbours=which) for which in ("fixed", "changing")
    )
    assert one == other


ONCE: list[Any] = [
    Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1),
    Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1, dimension=1),
    Gaussian(epsilon="0.1", delta="1e-9", l2_squared=3, dimension=5),
    Gaussian(epsilon=8, delta="1e-5", l2_sensitivity=1, dimension=100),
    Laplace(epsilon=1, l1_sensitivity=3),
    Exponential(epsilon=2, sensitivity=1),
    NoisyMax(epsilon=2, sensitivity=1),
    TopK(epsilon=2, k=5, sensitivity=1),
    PartitionSelection(epsilon=1, delta="1e-6"),
    PureDP(1),
    ApproxDP(1, "1e-6"),
    GDP("0.3"),
    DiscreteGaussianEvent(Fraction(18), Fraction(1), 3),
]


@pytest.mark.parametrize("release", ONCE, ids=repr)
@pytest.mark.parametrize("method", METHODS)
def test_one_release_costs_no_more_than_it_states(release: Any, method: str) -> None:
    promise = getattr(release, "guarantee", release)
    if not isinstance(promise, PureDP | ApproxDP):
        return
    for delta in {max(promise.delta, Fraction(1, 10**6)), Fraction(1, 1000)}:
        try:
            found = compose([release], delta=delta, method=method)
        except AccountingError:
            assert method not in ("basic", "best")
            continue
        assert found.epsilon <= promise.epsilon
        assert found.delta == delta


@pytest.mark.parametrize("release", ONCE, ids=repr)
def test_several_releases_cost_no_more_than_the_sum_of_what_they_state(release: Any) -> None:
    promise = getattr(release, "guarantee", release)
    if not isinstance(promise, PureDP | ApproxDP):
        return
    delta = max(3 * promise.delta, Fraction(1, 10**6))
    assert compose([(release, 3)], delta=delta).epsilon <= 3 * promise.epsilon
    assert compose([release, PureDP(1)], delta=delta).epsilon <= 1 + promise.epsilon


def test_one_release_composed_is_within_its_promise() -> None:
    for release in ONCE:
        promise = getattr(release, "guarantee", release)
        if isinstance(promise, PureDP | ApproxDP):
            for delta in (promise.delta or Fraction(1, 10**6), Fraction(1, 1000)):
                assert compose([release], delta=delta).epsilon <= promise.epsilon


@pytest.mark.parametrize(
    "releases",
    [
        [(PureEvent(Fraction(1, 10**6)), 10**8)],
        [(PureEvent(Fraction(1, 10**6)), 10**12)],
        [(ApproxEvent(Fraction(1, 10**6), Fraction(1, 10**310)), 2 * 10**7)],
        [(LaplaceEvent(Fraction(10**7), Fraction(1)), 10**9)],
        [(GaussianEvent(Fraction(10**8), Fraction(1)), 10**11)],
        [PureEvent(Fraction(10**200))],
        [(PureEvent(Fraction(1, 10**300)), 10)],
        [(PureEvent(Fraction(1, 10**320)), 2), GaussianEvent(Fraction(10**300), Fraction(1))],
        [(LaplaceEvent(Fraction(10**310), Fraction(1)), 3)],
        [(DiscreteLaplaceEvent(Fraction(10**310), Fraction(10)), 3)],
        [(ExponentialEvent(Fraction(1, 10**305)), 3)],
        [(PoissonSampledEvent(Fraction(1, 10**300), GaussianEvent(Fraction(1), Fraction(1))), 3)],
        [(PoissonSampledEvent(Fraction(1, 2), PureEvent(Fraction(10**9))), 3)],
        [(RandomizedResponseEvent(Fraction(10**300, 10**300 + 1)), 3)],
        [(RandomizedResponseEvent(Fraction(10**300 + 1, 2 * 10**300 + 1)), 3)],
        [(GDP("1e-310"), 3), (GDP("1e150"), 2)],
        [(GDP("1e310"), 3)],
    ],
)
@pytest.mark.parametrize("delta", ["0.01", "1e-12", "1e-300"])
def test_best_answers_wherever_one_method_does(releases: Any, delta: str) -> None:
    best = compose(releases, delta=delta)
    for method in METHODS:
        try:
            other = compose(releases, delta=delta, method=method)
        except (AccountingError, ArithmeticError):
            continue
        assert best.epsilon <= other.epsilon
