"""Proposed neighbours: really neighbours, of the same type, and strange enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.audit import propose_neighbours
from tacit.core.errors import InputError
from tacit.core.relations import is_neighbour


def texts(rows: Any) -> list[str]:
    """NaN equals itself here."""
    return [repr(row) for row in rows]


@given(st.lists(st.integers(-100, 100), max_size=6), st.sampled_from(["add_remove", "replace_one"]))
def test_every_pair_differs_in_one_unit(rows: list[int], relation: str) -> None:
    for pair in propose_neighbours(rows, relation=relation):
        assert is_neighbour(texts(pair.first), texts(pair.second), relation), pair


def test_floats_bring_what_breaks_them() -> None:
    strange = {repr(pair.second[-1]) for pair in propose_neighbours([0.5, 2.0]) if len(pair.second) == 3}
    assert {"nan", "inf", "-inf", "-0.0", "5e-324", "1e+308"} <= strange


def test_integers_stay_integers() -> None:
    assert all(type(value) is int for pair in propose_neighbours([1, 2]) for value in pair.second)


def test_a_table_may_be_or_become_empty() -> None:
    pairs = propose_neighbours([1, 2])
    assert any(not pair.second for pair in pairs)
    assert any(not pair.first for pair in pairs)
    assert propose_neighbours([]) == []


def test_arrays_keep_type_and_shape() -> None:
    for pair in propose_neighbours(np.array([[1.0, 2.0], [3.0, 4.0]])):
        assert pair.first.dtype == pair.second.dtype == np.float64
        assert pair.first.shape[1] == pair.second.shape[1] == 2
    small = propose_neighbours(np.array([1, 2], dtype=np.uint8))
    assert small
    assert all(pair.second.dtype == np.uint8 for pair in small)


def test_a_unit_leaves_with_all_its_rows_and_may_have_far_too_many() -> None:
    rows = [{"id": "a", "x": 1}, {"id": "b", "x": 2}, {"id": "a", "x": 3}]
    pairs = propose_neighbours(rows, unit="id")
    for pair in pairs:
        owners = [{row["id"] for row in side} for side in (pair.first, pair.second)]
        assert len(owners[0] ^ owners[1]) == 1, pair
    assert max(len(pair.second) for pair in pairs) == 4 * len(rows)
    assert [row["id"] for row in pairs[0].second] == ["b"]


def test_every_column_has_its_turn() -> None:
    pairs = propose_neighbours([("a", 0.5), ("b", 1.5)])
    assert any(pair.second[-1][0] == "" for pair in pairs if pair.second)
    assert any(math.isnan(pair.second[-1][1]) for pair in pairs if pair.second)


@pytest.mark.parametrize("database", [None, 3, "text", {"a": 1}, np.zeros((1, 1, 1))])
def test_other_things_are_refused_by_name(database: Any) -> None:
    with pytest.raises(InputError, match="database"):
        propose_neighbours(database)


def test_a_unit_column_must_be_there() -> None:
    with pytest.raises(InputError, match="unit"):
        propose_neighbours([{"x": 1}], unit="id")
