"""Laws of every composition: more releases cost more, more noise or δ less, order does not matter."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.calibrate import calibrate
from tacit.accounting.compose import compose
from tacit.accounting.composition_plan import Composed
from tacit.core.events import (
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
)

METHODS = ("basic", "advanced", "zcdp", "rdp", "pld")
#: Two certified answers may differ by the width of their brackets.
WIDTH = Fraction(1, 1000)

scales = st.fractions(min_value=Fraction(1, 2), max_value=Fraction(50), max_denominator=8)
deltas = st.sampled_from([Fraction("1e-12"), Fraction("1e-6"), Fraction("1e-3"), Fraction("0.1")])
pure_events: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda s: PureEvent(1 / s), scales),
    st.builds(lambda s: LaplaceEvent(s, Fraction(1)), scales),
    st.builds(lambda s, d: DiscreteLaplaceEvent(s, Fraction(d)), scales, st.integers(1, 4)),
    st.builds(
        lambda p: RandomizedResponseEvent(p, 3), st.fractions(Fraction(2, 5), Fraction(4, 5), max_denominator=20)
    ),
    st.builds(lambda s: ExponentialEvent(1 / s), scales),
)
events: st.SearchStrategy[Event] = st.one_of(
    pure_events,
    st.builds(lambda s: GaussianEvent(s, Fraction(1)), scales),
    st.builds(
        lambda q, s: PoissonSampledEvent(q, GaussianEvent(s, Fraction(1))),
        st.fractions(Fraction(1, 50), Fraction(9, 10), max_denominator=50),
        scales,
    ),
)


def not_above(small: Composed, large: Composed) -> bool:
    """Whether the true value behind ``small`` can be at most that behind ``large``."""
    floor = small.epsilon * (1 - WIDTH) if small.lower is None else min(small.lower, small.epsilon * (1 - WIDTH))
    return floor <= large.epsilon


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=12, deadline=None)
@given(event=events, k=st.integers(1, 200), delta=deltas)
def test_monotone_in_the_number_of_releases(method: str, event: Event, k: int, delta: Fraction) -> None:
    fewer = compose([(event, k)], delta=delta, method=method)
    more = compose([(event, 2 * k)], delta=delta, method=method)
    assert not_above(fewer, more)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=12, deadline=None)
@given(event=events, k=st.integers(1, 100), delta=deltas)
def test_monotone_in_delta(method: str, event: Event, k: int, delta: Fraction) -> None:
    assert not_above(
        compose([(event, k)], delta=delta, method=method), compose([(event, k)], delta=delta / 10, method=method)
    )


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=12, deadline=None)
@given(scale=scales, rate=st.sampled_from([Fraction(1), Fraction(1, 10)]), k=st.integers(1, 100), delta=deltas)
def test_monotone_in_noise(method: str, scale: Fraction, rate: Fraction, k: int, delta: Fraction) -> None:
    quiet, loud = (
        compose([(PoissonSampledEvent(rate, GaussianEvent(s, Fraction(1))), k)], delta=delta, method=method)
        for s in (2 * scale, scale)
    )
    assert not_above(quiet, loud)


@pytest.mark.deep
@settings(max_examples=15, deadline=None)
@given(plan=st.lists(st.tuples(events, st.integers(1, 20)), min_size=1, max_size=5), delta=deltas, data=st.data())
def test_order_does_not_matter(plan: list[tuple[Event, int]], delta: Fraction, data: st.DataObject) -> None:
    other = data.draw(st.permutations(plan))
    for method in METHODS:
        one, two = (compose(p, delta=delta, method=method) for p in (plan, other))
        assert float(one.epsilon) == pytest.approx(float(two.epsilon), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(plan=st.lists(st.tuples(pure_events, st.integers(1, 30)), min_size=1, max_size=4), delta=deltas)
def test_no_method_exceeds_the_sum_and_pld_is_tightest(plan: list[tuple[Event, int]], delta: Fraction) -> None:
    answers = {method: compose(plan, delta=delta, method=method) for method in METHODS}
    assert answers["advanced"].epsilon <= answers["basic"].epsilon
    assert answers["pld"].epsilon <= answers["basic"].epsilon
    assert answers["pld"].epsilon <= answers["rdp"].epsilon * (1 + WIDTH)
    assert compose(plan, delta=delta, method="best").epsilon <= min(a.epsilon for a in answers.values())
    lower = answers["pld"].lower
    assert lower is not None
    # A lower bound on the truth is below every valid answer.
    assert all(lower <= answer.epsilon for answer in answers.values())


@pytest.mark.deep
@settings(max_examples=12, deadline=None)
@given(one=st.lists(events, min_size=1, max_size=3), two=st.lists(events, min_size=1, max_size=3), delta=deltas)
def test_composing_together_is_no_worse_than_apart(one: list[Event], two: list[Event], delta: Fraction) -> None:
    together = compose(one + two, delta=delta)
    apart = [compose(part, delta=delta / 2).epsilon for part in (one, two)]
    # The grid of a longer composition is coarser than those of its parts.
    assert together.epsilon <= sum(apart) * (1 + 5 * WIDTH)


@pytest.mark.deep
@settings(max_examples=10, deadline=None)
@given(
    plan=st.lists(st.sampled_from(["laplace", "gaussian", "sampled"]), min_size=1, max_size=3),
    epsilon=st.fractions(Fraction(1, 20), Fraction(8), max_denominator=20),
    delta=deltas,
    method=st.sampled_from(["zcdp", "rdp", "pld", "best"]),
)
def test_calibrated_noise_meets_its_target(plan: list[str], epsilon: Fraction, delta: Fraction, method: str) -> None:
    def build(scale: Fraction) -> list[Event]:
        kinds: dict[str, Event] = {
            "laplace": LaplaceEvent(scale, Fraction(1)),
            "gaussian": GaussianEvent(scale, Fraction(1)),
            "sampled": PoissonSampledEvent(Fraction(1, 10), GaussianEvent(scale, Fraction(1))),
        }
        return [kinds[kind] for kind in plan]

    scale = calibrate(build, epsilon=epsilon, delta=delta, method=method)
    assert compose(build(scale), delta=delta, method=method).epsilon <= epsilon
