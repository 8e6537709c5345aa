"""Rows and histograms: conversion, norms, distances, and errors where the two are mixed up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.core import databases
from tacit.core.errors import InputError
from tacit.lab import FiniteMechanism

U = databases.Universe(["flu", "cold", "none"])


def test_a_histogram_vector_is_no_longer_read_as_rows() -> None:
    """[2, 0, 1] and [1, 0, 1] are one person apart as histograms; as rows they were two apart."""
    left, right = (databases.histogram(counts, universe=U) for counts in ([2, 0, 1], [1, 0, 1]))
    assert tacit.l1_distance(left, right) == 1
    assert tacit.is_neighbour(left, right, "add_remove")
    with pytest.raises(InputError, match=r"rows or counts; write databases.rows"):
        tacit.l1_distance([2, 0, 1], [1, 0, 1])
    with pytest.raises(InputError, match="could be rows or counts"):
        tacit.is_neighbour(np.array([2, 0, 1]), np.array([1, 0, 1]), "add_remove")
    with pytest.raises(InputError, match="could be rows or counts"):
        databases.l1_norm([2, 0, 1])


def test_forms_are_not_mixed() -> None:
    x = databases.rows(["flu", "none"], universe=U)
    with pytest.raises(InputError, match=r"left.to_histogram\(\)"):
        tacit.l1_distance(x, x.to_histogram())
    with pytest.raises(InputError, match=r"left.to_rows\(\)"):
        tacit.l1_distance(x.to_histogram(), x)
    with pytest.raises(InputError, match="convert one"):
        tacit.l1_distance("ab", {"a": 1})
    assert x != x.to_histogram()
    with pytest.raises(InputError, match="another universe"):
        tacit.l1_distance(databases.rows("a", universe="ab"), databases.rows("a", universe="abc"))


def test_what_is_no_database_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="left: must be rows or a histogram, not int"):
        tacit.l1_distance(5, 6)
    with pytest.raises(InputError, match="write rows as tuples"):
        tacit.l1_norm([["a", 1]])


def test_constructors_hint_at_the_other() -> None:
    with pytest.raises(InputError, match=r"write histogram\(…\) instead of rows"):
        databases.rows([2, 0, 1], universe=U)
    with pytest.raises(InputError, match=r"write rows\(…\) instead of histogram"):
        databases.histogram(["flu", "flu"], universe=U)
    with pytest.raises(InputError, match="is a mapping"):
        databases.rows({"flu": 1}, universe=U)
    with pytest.raises(InputError, match=r"not in the universe$"):
        databases.rows(["measles"], universe=U)
    with pytest.raises(InputError, match="not in the universe"):
        databases.histogram({"measles": 1}, universe=U)
    with pytest.raises(InputError, match="whole numbers"):
        databases.histogram([1, -1, 0], universe=U)
    with pytest.raises(InputError, match="whole numbers"):
        databases.histogram([1, True, 0], universe=U)


def test_exactly_one_and_at_most_one() -> None:
    x = databases.rows("aab", universe="abc")
    y = databases.rows("abb", universe="abc")
    for relation in ("add_remove", "replace_one"):
        assert not tacit.is_neighbour(x, x, relation)
        assert not tacit.is_neighbour(x, x, relation, distance="exactly one")
        assert tacit.is_neighbour(x, x, relation, distance="at most one")
    assert tacit.is_neighbour(x, y, "replace_one", distance="at most one")
    assert not tacit.is_neighbour(x, y, "add_remove", distance="at most one")
    with pytest.raises(InputError, match="'exactly one' or 'at most one'"):
        tacit.is_neighbour(x, y, "add_remove", distance="one")


def test_universes() -> None:
    assert len(databases.Universe.bits(10)) == 1024
    assert databases.Universe.bits(1)[0] == 0
    both = databases.Universe.product(U, databases.Universe.bits(1))
    assert len(both) == 6
    assert both.place(("cold", 1)) == 3
    assert len(list(both.databases(3))) == both.count_databases(3) == 56
    with pytest.raises(InputError, match="twice"):
        databases.Universe("aa")
    with pytest.raises(InputError, match="at least one"):
        databases.Universe([])
    with pytest.raises(InputError, match="not in the universe"):
        U.place("measles")
    with pytest.raises(InputError, match="product of"):
        databases.Universe.product(range(2000), range(2000))
    with pytest.raises(InputError, match="whole number from 1 to"):
        databases.Universe.bits(40)


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_both_forms_say_the_same(left: list[str], right: list[str]) -> None:
    x, y = databases.rows(left, universe="abcd"), databases.rows(right, universe="abcd")
    assert x.to_histogram().to_rows() == x
    assert hash(x.to_histogram().to_rows()) == hash(x)
    assert x.l1_norm == x.to_histogram().l1_norm == databases.l1_norm(x) == len(left)
    vectors = zip(x.to_histogram().vector, y.to_histogram().vector, strict=True)
    assert (
        tacit.l1_distance(x, y)
        == tacit.l1_distance(x.to_histogram(), y.to_histogram())
        == sum(abs(a - b) for a, b in vectors)
    )


def test_a_finite_mechanism_takes_both_forms() -> None:
    """The forms are a sequence and a mapping, so that whatever reads databases reads them."""
    x = databases.rows("ab", universe="ab")
    table = [(x, {0: 1}), (databases.histogram([1, 0], universe="ab"), {0: "1/2", 1: "1/2"})]
    assert FiniteMechanism(table, relation="add_remove").delta(ratio=1).value == 0.5
