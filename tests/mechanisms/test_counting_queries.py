"""Counting queries: overlapping queries, odd records, and the error of all answers at once."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.mechanisms.counts import CountingQueries
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace

AGES = [17, 34, 65, 70, 18]
QUERIES = [lambda age: age >= 18, lambda age: age >= 65, lambda age: age % 2 == 0]


def test_every_query_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Laplace, "release", lambda self, value: value)
    noisy = CountingQueries(epsilon=1, k=3).release(AGES, QUERIES)
    assert dict(noisy) == {0: 4, 1: 2, 2: 3}


def test_a_record_on_which_a_query_fails_is_not_counted_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Laplace, "release", lambda self, value: value)
    noisy = CountingQueries(epsilon=1, k=3).release([*AGES, None, "old", math.nan], QUERIES)
    assert noisy.counts == (4, 2, 3)


def test_counts_made_elsewhere(seeded: SeededBits) -> None:
    noisy = CountingQueries(epsilon=200, k=2).release_counts([5, 7])
    assert noisy.counts == (5, 7)  # e⁻¹⁰⁰ is never seen


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_noise_grows_with_the_number_of_queries(relation: Relation) -> None:
    queries = CountingQueries(epsilon="0.5", k=10, relation=relation)
    assert isinstance(queries.noise, Laplace)
    assert queries.noise.scale == 20
    assert queries.guarantee == PureDP("0.5", relation=relation)
    assert queries.sensitivity.l1 == 10
    assert queries.sensitivity.l2_squared == 10


def test_the_error_is_the_exact_simultaneous_one() -> None:
    for epsilon, k, beta in ((1.0, 10, 0.05), (0.5, 3, 0.01)):
        q = math.exp(-epsilon / k)

        def all_within(w: int, q: float = q, k: int = k) -> float:
            return (1 - 2 * q ** (w + 1) / (1 + q)) ** k

        w = CountingQueries(epsilon=epsilon, k=k).error(beta)
        assert all_within(w) >= 1 - beta > all_within(w - 1)


def test_gaussian_noise_takes_over_when_there_are_many_queries() -> None:
    few, many = (CountingQueries(epsilon=1, k=k, delta="1e-6") for k in (2, 100))
    assert isinstance(few.noise, Laplace)
    assert isinstance(many.noise, Gaussian)
    assert many.noise.l2_squared == 100
    assert many.guarantee == ApproxDP(1, "1e-6")
    assert many.error("0.05") < CountingQueries(epsilon=1, k=100).error("0.05") / 3


def test_gaussian_release_returns_all_answers(seeded: SeededBits) -> None:
    queries = CountingQueries(epsilon=1, k=100, delta="1e-6")
    noisy = queries.release_counts([1000] * 100)
    assert len(noisy) == 100
    assert all(abs(count - 1000) <= queries.error("1e-9") for count in noisy.values())
    assert len(set(noisy.values())) > 50


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_for_error_finds_the_smallest_epsilon(relation: Relation) -> None:
    found = CountingQueries.for_error(within=40, beta="0.05", k=5, relation=relation)
    assert isinstance(found.guarantee, PureDP)
    assert found.error("0.05") <= 40
    assert found.relation is relation
    slightly_less = found.guarantee.epsilon * (1 - Fraction(1, 10**6))
    assert CountingQueries(epsilon=slightly_less, k=5).error("0.05") > 40


def test_input_errors_name_the_argument() -> None:
    with pytest.raises(InputError, match=r"^k: "):
        CountingQueries(epsilon=1, k=0)
    with pytest.raises(InputError, match=r"^epsilon: "):
        CountingQueries(epsilon=0, k=1)
    with pytest.raises(InputError, match=r"^predicates: must be k = 3"):
        CountingQueries(epsilon=1, k=3).release(AGES, QUERIES[:2])
    with pytest.raises(InputError, match=r"^records: "):
        CountingQueries(epsilon=1, k=3).release("text", QUERIES)
    with pytest.raises(InputError, match=r"^counts: "):
        CountingQueries(epsilon=1, k=3).release_counts([1, 2])


def test_the_repr() -> None:
    assert repr(CountingQueries(epsilon="0.5", k=3)) == "CountingQueries(k=3, PureDP(0.5))"
