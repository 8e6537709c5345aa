"""Sensitivities of random statistics over random universes stay inside the closed forms."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core import sensitivity
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.core.sensitivity import measure_sensitivity

relations = st.sampled_from([ADD_REMOVE, REPLACE_ONE])
values = st.lists(st.fractions(-20, 20, max_denominator=12), min_size=2, max_size=4, unique=True)


@given(values, relations)
@settings(max_examples=60, deadline=None)
def test_the_sum_of_any_universe_attains_the_formula_of_its_own_bounds(
    universe: list[Fraction], relation: Relation
) -> None:
    bounds = min(universe), max(universe)
    measured = measure_sensitivity(lambda rows: sum(rows, Fraction(0)), universe, 2, relation).sensitivity
    assert measured == sensitivity.bounded_sum(bounds=bounds, relation=relation)


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=2, max_size=5, unique=True), relations)
@settings(max_examples=60, deadline=None)
def test_any_three_counting_queries_stay_within_the_formula(
    universe: list[tuple[int, ...]], relation: Relation
) -> None:
    measured = measure_sensitivity(
        lambda rows: [sum(c) for c in zip((0, 0, 0), *rows, strict=True)], universe, 1, relation
    )
    assert measured.sensitivity.is_within(sensitivity.counting_queries(k=3, relation=relation))


@st.composite
def contribution_cases(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], int, int, tuple[int, int]]:
    low = draw(st.integers(-4, 4))
    high = draw(st.integers(low, 5))
    groups = draw(st.integers(1, 4))
    most = draw(st.integers(1, 4))
    record = st.lists(st.integers(0, groups - 1), max_size=min(most, groups), unique=True).flatmap(
        lambda present: st.tuples(*[st.integers(low, high) if g in present else st.just(0) for g in range(groups)])
    )
    return draw(st.lists(record, min_size=2, max_size=5, unique=True)), groups, most, (low, high)


@given(contribution_cases(), relations)
@settings(max_examples=80, deadline=None)
def test_any_bounded_people_stay_within_the_contribution_formula(
    case: tuple[list[tuple[int, ...]], int, int, tuple[int, int]], relation: Relation
) -> None:
    universe, groups, most, bounds = case
    measured = measure_sensitivity(
        lambda rows: [sum(row[g] for row in rows) for g in range(groups)],
        universe,
        1,
        relation,
    )
    declared = sensitivity.contributions(bounds=bounds, max_groups=most, groups=groups, relation=relation)
    assert measured.sensitivity.is_within(declared)


@given(values, relations, st.fractions(-5, 5, max_denominator=7))
@settings(max_examples=40, deadline=None)
def test_scaling_a_statistic_scales_its_sensitivity(
    universe: list[Fraction], relation: Relation, factor: Fraction
) -> None:
    plain = measure_sensitivity(lambda rows: sum(rows, Fraction(0)), universe, 1, relation).sensitivity
    scaled = measure_sensitivity(lambda rows: factor * sum(rows, Fraction(0)), universe, 1, relation).sensitivity
    assert scaled == plain.scaled(factor)


@given(st.fractions(0, 10**6, max_denominator=10**6))
def test_l2_is_never_below_the_root_and_close_to_it(square: Fraction) -> None:
    root = sensitivity.Sensitivity(square, square, square).l2
    assert square <= root**2 <= square * (1 + Fraction(1, 10**16))
