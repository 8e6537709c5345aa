"""Every closed-form sensitivity equals the maximum over all neighbours of a small universe."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import pytest

from tacit.core import sensitivity
from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation, is_neighbour
from tacit.core.sensitivity import Sensitivity, measure_sensitivity

RELATIONS = [ADD_REMOVE, REPLACE_ONE]


def total(rows: tuple[int, ...]) -> int:
    return sum(rows)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_count_moves_by_one(relation: Relation) -> None:
    measured = measure_sensitivity(lambda rows: sum(row == "yes" for row in rows), ["yes", "no"], range(4), relation)
    assert measured.sensitivity == sensitivity.count(relation=relation) == Sensitivity(1, 1, 1, relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bounds", [(0, 1), (-3, 2), (2, 5), (-7, -4), (4, 4)])
def test_a_bounded_sum(bounds: tuple[int, int], relation: Relation) -> None:
    universe = range(bounds[0], bounds[1] + 1)
    expected = sensitivity.bounded_sum(bounds=bounds, relation=relation)
    if len(universe) == 1 and relation is REPLACE_ONE:
        assert expected.l1 == 0
    else:
        assert measure_sensitivity(total, universe, range(1, 4), relation).sensitivity == expected


def test_a_sum_by_hand() -> None:
    assert sensitivity.bounded_sum(bounds=("-0.5", 2), relation="add_remove").l1 == 2
    assert sensitivity.bounded_sum(bounds=("-0.5", 2), relation="replace_one").l1 == Fraction(5, 2)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bounds", [(0, 1), (-3, 2), (2, 5)])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_mean_over_a_public_number(bounds: tuple[int, int], n: int, relation: Relation) -> None:
    measured = measure_sensitivity(
        lambda rows: Fraction(total(rows), n), range(bounds[0], bounds[1] + 1), n, relation
    ).sensitivity
    assert measured == sensitivity.bounded_mean(bounds=bounds, n=n, relation=relation)


def test_the_mean_of_bits_moves_by_one_over_n() -> None:
    assert sensitivity.bounded_mean(bounds=(0, 1), n=8) == Sensitivity("1/8", "1/64", "1/8", REPLACE_ONE)


def test_the_mean_over_the_true_size_moves_more_when_people_come_and_go() -> None:
    """The docstring's warning: between one person and two the true mean of bits moves by a half."""

    def mean(rows: tuple[int, ...]) -> Fraction:
        return Fraction(total(rows), len(rows))

    assert measure_sensitivity(mean, [0, 1], range(2, 6), ADD_REMOVE).sensitivity.l1 == Fraction(1, 2)
    claimed = sensitivity.bounded_mean(bounds=(0, 1), n=5, relation=ADD_REMOVE)
    assert not measure_sensitivity(mean, [0, 1], range(2, 6), ADD_REMOVE).sensitivity.is_within(claimed)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bins", [1, 2, 3])
@pytest.mark.parametrize("others", [0, 1])
def test_a_histogram(bins: int, others: int, relation: Relation) -> None:
    universe = range(bins + others)  # a record beyond the bins is in none of them
    if len(universe) == 1 and relation is REPLACE_ONE:
        return  # one possible record: no person can be replaced by another
    measured = measure_sensitivity(lambda rows: [rows.count(b) for b in range(bins)], universe, range(1, 4), relation)
    assert measured.sensitivity == sensitivity.histogram(bins=bins, relation=relation)


def test_a_histogram_by_hand() -> None:
    assert sensitivity.histogram() == Sensitivity(1, 1, 1)
    assert sensitivity.histogram(relation="replace_one") == Sensitivity(2, 2, 1, REPLACE_ONE)
    assert sensitivity.histogram(bins=1, relation="replace_one") == Sensitivity(1, 1, 1, REPLACE_ONE)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_counting_queries(k: int, relation: Relation) -> None:
    universe = list(product([0, 1], repeat=k))  # a record says which of the k predicates it satisfies
    measured = measure_sensitivity(lambda rows: [sum(row[i] for row in rows) for i in range(k)], universe, 2, relation)
    assert (
        measured.sensitivity == sensitivity.counting_queries(k=k, relation=relation) == Sensitivity(k, k, 1, relation)
    )


def contributors(groups: int, max_groups: int, bounds: tuple[int, int]) -> list[tuple[int | None, ...]]:
    """Every record of a person in at most ``max_groups`` of ``groups`` with values at the ends of the bounds."""
    records: list[tuple[int | None, ...]] = []
    for size in range(max_groups + 1):
        for present in combinations(range(groups), size):
            for values in product(sorted(set(bounds)), repeat=size):
                record: list[int | None] = [None] * groups
                for group, value in zip(present, values, strict=True):
                    record[group] = value
                records.append(tuple(record))
    return records


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bounds", [(0, 1), (1, 1), (-2, 3), (-3, -1), (2, 5), (-1, 1)])
@pytest.mark.parametrize(("groups", "max_groups"), [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (3, 3), (2, 5)])
def test_contributions(groups: int, max_groups: int, bounds: tuple[int, int], relation: Relation) -> None:
    universe = contributors(groups, min(max_groups, groups), bounds)
    measured = measure_sensitivity(
        lambda rows: [sum(row[g] or 0 for row in rows) for g in range(groups)], universe, 1, relation
    ).sensitivity
    assert measured == sensitivity.contributions(bounds=bounds, max_groups=max_groups, groups=groups, relation=relation)
    assert measured.is_within(sensitivity.contributions(bounds=bounds, max_groups=max_groups, relation=relation))


def test_contributions_without_a_number_of_groups_are_those_of_many_groups() -> None:
    # m = 3, b = 4, r = 5: l1 = 2mb, l2² = max(2m·b², m·r²)
    assert sensitivity.contributions(bounds=(-1, 4), max_groups=3, relation=REPLACE_ONE) == Sensitivity(
        24, 96, 5, REPLACE_ONE
    )
    # m = 2, b = 3, r = 6: two people in the same groups are farther apart than two in different ones
    assert sensitivity.contributions(bounds=(-3, 3), max_groups=2, relation=REPLACE_ONE) == Sensitivity(
        12, 72, 6, REPLACE_ONE
    )


def test_l2_is_exact_where_it_can_be_and_rounded_up_where_not() -> None:
    assert Sensitivity(3, "9/4", 1).l2 == Fraction(3, 2)
    root = Sensitivity(2, 2, 1).l2
    assert root**2 > 2
    assert root == Fraction("1.41421356237309505")  # √2 = 1.414213562373095048…


def test_scaling() -> None:
    assert Sensitivity(2, 4, 1).scaled("-1/2") == Sensitivity(1, 1, "1/2")


def test_within_compares_every_norm_and_the_relation() -> None:
    declared = Sensitivity(2, 2, 1)
    assert Sensitivity(2, 2, 1).is_within(declared)
    assert not Sensitivity(3, 2, 1).is_within(declared)
    assert not Sensitivity(2, 3, 1).is_within(declared)
    assert not Sensitivity(2, 2, 2).is_within(declared)
    assert not Sensitivity(2, 2, 1, REPLACE_ONE).is_within(declared)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_worst_pair_is_a_neighbouring_pair_that_attains_the_maximum(relation: Relation) -> None:
    measured = measure_sensitivity(total, [0, 1, 7], 3, relation)
    left, right = measured.worst
    assert is_neighbour(left, right, relation)
    assert abs(total(left) - total(right)) == measured.sensitivity.l1 == 7


def test_a_statistic_that_anyone_can_blow_up_is_seen() -> None:
    product_of_all = measure_sensitivity(lambda rows: 10 ** len(rows), ["a"], range(4), ADD_REMOVE)
    assert product_of_all.sensitivity.l1 == 10**4 - 10**3


def test_input_errors_name_the_argument() -> None:
    with pytest.raises(InputError, match=r"^bounds: the lower bound 2 exceeds"):
        sensitivity.bounded_sum(bounds=(2, 1))
    with pytest.raises(InputError, match=r"^bounds: must be a pair"):
        sensitivity.bounded_sum(bounds=7)
    with pytest.raises(InputError, match=r"^n: "):
        sensitivity.bounded_mean(bounds=(0, 1), n=0)
    with pytest.raises(InputError, match=r"^k: "):
        sensitivity.counting_queries(k=0)
    with pytest.raises(InputError, match=r"^max_groups: "):
        sensitivity.contributions(bounds=(0, 1), max_groups=0)
    with pytest.raises(InputError, match=r"^groups: "):
        sensitivity.contributions(bounds=(0, 1), max_groups=1, groups=0)
    with pytest.raises(InputError, match=r"^relation: "):
        sensitivity.count(relation="near")
    with pytest.raises(InputError, match=r"^f: must return whole numbers"):
        measure_sensitivity(lambda rows: 0.5, [0], 1, ADD_REMOVE)
    with pytest.raises(InputError, match=r"^f: must return vectors of one length"):
        measure_sensitivity(lambda rows: [0] * len(rows), [0], 1, ADD_REMOVE)
    with pytest.raises(InputError, match=r"^universe: has no two"):
        measure_sensitivity(total, [0], 1, REPLACE_ONE)
