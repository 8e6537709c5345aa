"""Neighbouring databases: distances, and the enumeration that exhaustive tests stand on."""

from __future__ import annotations

from itertools import product

import pytest

from tacit.core.errors import InputError
from tacit.core.relations import (
    ADD_REMOVE,
    REPLACE_ONE,
    Relation,
    as_histogram,
    as_relation,
    databases,
    distance,
    is_neighbour,
    l1_distance,
    neighbouring_pairs,
)

RELATIONS = [ADD_REMOVE, REPLACE_ONE]


def test_rows_and_histograms_are_the_same_database() -> None:
    assert as_histogram("banana") == {"a": 3, "n": 2, "b": 1}
    assert as_histogram({"a": 3, "z": 0}) == {"a": 3}
    assert l1_distance("aab", {"a": 1, "b": 1}) == 1
    assert l1_distance("ab", "ba") == 0


@pytest.mark.parametrize("count", [-1, 1.0, True, "1"])
def test_a_histogram_holds_whole_numbers(count: object) -> None:
    with pytest.raises(InputError, match=r"^database: the count of 'a'"):
        as_histogram({"a": count})


def test_l1_distance_by_hand() -> None:
    assert l1_distance("aab", "abb") == 2
    assert l1_distance("", "abc") == 3
    assert l1_distance("aab", "aab") == 0


def test_distances_by_hand() -> None:
    assert distance("aab", "ab", ADD_REMOVE) == 1
    assert distance("aab", "abb", ADD_REMOVE) == 2
    assert distance("aab", "abb", REPLACE_ONE) == 1
    assert distance("aab", "ccc", "replace_one") == 3
    assert distance("aab", "ab", REPLACE_ONE) is None


def test_a_database_is_not_its_own_neighbour() -> None:
    assert not is_neighbour("ab", "ba", ADD_REMOVE)
    assert not is_neighbour("ab", "ba", REPLACE_ONE)


def test_every_database_of_a_size_once() -> None:
    assert list(databases("ab", 2)) == [("a", "a"), ("a", "b"), ("b", "b")]
    assert list(databases("ab", 0)) == [()]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_the_pairs_are_all_neighbours_and_each_comes_once(size: int, relation: Relation) -> None:
    everything = [rows for other in (size - 1, size, size + 1) if other >= 0 for rows in databases("abc", other)]
    expected = {pair for pair in product(databases("abc", size), everything) if is_neighbour(*pair, relation)}
    found = list(neighbouring_pairs("abc", size, relation))
    assert set(found) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_universe_lists_a_record_once(relation: Relation) -> None:
    with pytest.raises(InputError, match=r"^universe: "):
        list(neighbouring_pairs("aa", 1, relation))


def test_relations_by_name() -> None:
    assert as_relation("add_remove") is ADD_REMOVE
    assert as_relation(REPLACE_ONE) is REPLACE_ONE
    assert repr(ADD_REMOVE) == "ADD_REMOVE"
    with pytest.raises(InputError, match=r"^relation: must be 'add_remove' or 'replace_one', got 'swap'$"):
        as_relation("swap")
    with pytest.raises(InputError, match=r"^neighbours: "):
        as_relation("swap", "neighbours")
