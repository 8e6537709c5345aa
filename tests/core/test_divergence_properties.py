"""Laws that divergences obey on all distributions, tried on random rational ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.divergences import (
    hockey_stick,
    kl_bound,
    kl_divergence,
    max_ratio,
    renyi_divergence,
    total_variation,
)

Law = list[Fraction]

weights = st.lists(st.integers(0, 12), min_size=3, max_size=5).filter(any)
ratios = st.fractions(Fraction(1, 3), 6, max_denominator=12)
deltas = st.fractions(0, Fraction(9, 10), max_denominator=20)


def law(values: list[int]) -> Law:
    return [Fraction(v, sum(values)) for v in values]


@st.composite
def pairs(draw: st.DrawFn, *, positive: bool = False) -> tuple[Law, Law]:
    size = draw(st.integers(2, 5))
    side = st.lists(st.integers(1 if positive else 0, 12), min_size=size, max_size=size).filter(any)
    return law(draw(side)), law(draw(side))


def events(size: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(size), n) for n in range(size + 1)))


@given(pairs(), ratios)
def test_hockey_stick_is_the_maximum_over_all_events(pair: tuple[Law, Law], ratio: Fraction) -> None:
    p, q = pair
    brute = max(sum((p[i] - ratio * q[i] for i in event), Fraction(0)) for event in events(len(p)))
    assert hockey_stick(p, q, ratio=ratio).value == brute


@given(pairs(), deltas)
def test_max_ratio_is_the_maximum_over_all_events(pair: tuple[Law, Law], delta: Fraction) -> None:
    p, q = pair
    sums = [(sum((p[i] for i in e), Fraction(0)), sum((q[i] for i in e), Fraction(0))) for e in events(len(p))]
    if any(b == 0 and a > delta for a, b in sums):
        assert max_ratio(p, q, delta=delta).value == float("inf")
    else:
        assert max_ratio(p, q, delta=delta).value == max((a - delta) / b for a, b in sums if b)


@given(pairs(), deltas)
def test_the_two_views_of_a_profile_agree(pair: tuple[Law, Law], delta: Fraction) -> None:
    p, q = pair
    ratio = max_ratio(p, q, delta=delta).value
    if isinstance(ratio, Fraction) and ratio > 0:
        assert hockey_stick(p, q, ratio=ratio).value <= delta
        assert hockey_stick(p, q, ratio=ratio * Fraction(99, 100)).value > delta


@given(pairs(positive=True))
def test_kl_lemma_holds_in_its_tight_form(pair: tuple[Law, Law]) -> None:
    p, q = pair
    ratio = max(Fraction(max_ratio(p, q).value), Fraction(max_ratio(q, p).value))
    tight, loose = kl_bound(ratio=ratio), kl_bound(ratio=ratio, tight=False)
    assert kl_divergence(p, q).low <= tight.high
    assert tight.low <= loose.high


@given(st.fractions(1, 30, max_denominator=50))
def test_kl_lemma_is_attained_by_randomized_response(ratio: Fraction) -> None:
    p = [ratio / (1 + ratio), 1 / (1 + ratio)]
    found, bound = kl_divergence(p, p[::-1]), kl_bound(ratio=ratio)
    assert abs(Fraction(found.high) - Fraction(bound.high)) < Fraction(1, 10**35)


@given(pairs(positive=True), st.lists(st.fractions(Fraction(1, 5), 9, max_denominator=5), min_size=2, max_size=2))
@settings(deadline=None)
def test_renyi_divergence_grows_with_the_order(pair: tuple[Law, Law], orders: list[Fraction]) -> None:
    low, high = sorted(orders)
    p, q = pair
    assert renyi_divergence(p, q, alpha=low).low <= renyi_divergence(p, q, alpha=high).high


@given(pairs(), ratios, st.lists(st.integers(0, 2), min_size=5, max_size=5))
def test_processing_data_never_separates_it_further(pair: tuple[Law, Law], ratio: Fraction, merge: list[int]) -> None:
    p, q = pair
    merged = [{t: sum((x[i] for i in range(len(x)) if merge[i] == t), Fraction(0)) for t in range(3)} for x in (p, q)]
    assert hockey_stick(merged[0], merged[1], ratio=ratio).value <= hockey_stick(p, q, ratio=ratio).value


@given(pairs(positive=True), st.integers(1, 10**6))
def test_enclosures_contain_the_exact_value(pair: tuple[Law, Law], grain: int) -> None:
    p, q = pair
    slack = Fraction(1, grain * 100)
    vague = [(max(x - slack, Fraction(0)), min(x + slack, Fraction(1))) for x in p]
    for found, at in (
        (total_variation(vague, q), total_variation(p, q)),
        (max_ratio(vague, q), max_ratio(p, q)),
        (kl_divergence(vague, q), kl_divergence(p, q)),
        (renyi_divergence(vague, q, alpha=3), renyi_divergence(p, q, alpha=3)),
        (renyi_divergence(vague, q, alpha="1/3"), renyi_divergence(p, q, alpha="1/3")),
        (hockey_stick(q, vague, ratio=2), hockey_stick(q, p, ratio=2)),
    ):
        assert found.low <= at.low
        assert at.high <= found.high
