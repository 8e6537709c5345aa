"""Linkage and samples: exact by enumeration on small tables, and reduced to guessing by noise."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest

from support.bits import SeededBits
from tacit.audit.attacks import Linkage, compare, exposure, link, link_by_steps
from tacit.core.errors import InputError
from tacit.mechanisms.laplace import Laplace

#: Four people are alone with age and sex, two share.
PEOPLE = [(40, "f"), (41, "f"), (41, "m"), (50, "m"), (50, "m"), (60, "f")]


def test_linkage_finds_exactly_those_who_are_alone() -> None:
    step = link(PEOPLE, PEOPLE, range(6), ("age", "sex"))
    assert (step.linked.hits, step.linked.tries, step.misled) == (4, 6, 0)
    assert step.sizes == ((1, 4), (2, 2))
    assert (step.k, step.share(1, 1), step.share(2)) == (1, 4 / 6, 2 / 6)


def test_knowing_more_never_finds_fewer() -> None:
    steps = link_by_steps(("age", "sex"), PEOPLE, PEOPLE, range(6))
    assert [str(step.linked) for step in steps] == ["2 of 6 (33%)", "4 of 6 (67%)"]


def test_a_row_of_another_person_misleads() -> None:
    """The list has a person whose own row was not released; a stranger's row looks like theirs."""
    step = link([(40, "f"), (41, "f")], [(40, "f"), (60, "f")], [-1, -1])
    assert (step.linked.hits, step.misled) == (0, 1)


def test_every_table_of_three_people_by_brute_force() -> None:
    """A person is found if and only if no other row has their values: all 27 tables over three values."""
    for rows in itertools.product(range(3), repeat=3):
        released = [(value,) for value in rows]
        alone = sum(rows.count(value) == 1 for value in rows)
        step = link(released, released, range(3))
        assert step.linked.hits == alone
        assert dict(step.sizes) == Counter(rows.count(value) for value in rows)


def test_guessing_from_counts_succeeds_unprotected_and_fails_at_small_epsilon(seeded: SeededBits) -> None:
    """600 people, alone each, with one of three secrets. Unprotected always right. At epsilon 0.05 guesses are right
    with probability at most 0.356, so that 250 or more of 600 have probability below 0.002; at 20 nearly all are."""
    people = tuple(((i,), i % 3) for i in range(600))

    def through(epsilon: str):  # type: ignore[no-untyped-def]
        noise = Laplace(epsilon=epsilon, l1_sensitivity=1)
        return lambda known: noise.release([int(known[0] % 3 == value) for value in range(3)])

    found = compare(
        Linkage(people, 3),
        lambda known: [float(known[0] % 3 == value) for value in range(3)],
        {epsilon: through(epsilon) for epsilon in ("0.05", "20")},
    )
    assert found.unprotected.share == 1
    low, high = (rate for _, rate in found.protected)
    assert 150 < low.hits < 250
    assert high.share > 0.99
    assert found.limits[0] == pytest.approx(0.3559, abs=1e-3)


def test_samples_expose_as_many_as_the_formula_says(seeded: SeededBits) -> None:
    """Expected k·u/n and the chance of finding at least one, against enumeration of all samples; then by drawing."""
    found = exposure(PEOPLE, [1, 3], samples=400)
    for one in found:
        assert one.alone == 4
        samples = list(itertools.combinations([True, True, True, False, False, True], one.rows))
        assert one.expected == Fraction(sum(map(sum, samples)), len(samples))
        assert one.at_least_one == Fraction(sum(map(any, samples)), len(samples))
        # Five standard deviations of the mean of 400 samples, each with a variance of at most 1: false alarm < 1e-6.
        assert abs(one.measured - float(one.expected)) < 0.25


@pytest.mark.parametrize("sizes", [[0], [7]])
def test_sample_sizes_must_fit(sizes: list[int]) -> None:
    with pytest.raises(InputError, match="from 1 to the number of people"):
        exposure(PEOPLE, sizes)
