"""Intervals of whole columns are those of their cells, one by one; places are rounded as exact arithmetic says."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.query.aggregates.counts_and_sums import Direct
from tacit.query.aggregates.means_and_variances import JointMean, MeanEstimate
from tacit.query.planning.noise import NoiseLaw
from tacit.query.postprocess.cells import Cell, CellConfidence, Draw, Exact, type_range, value_at, value_of_ratio
from tacit.query.postprocess.result import Intervals
from tacit.query.types import DATE, DOUBLE, INTEGER, TIMESTAMP, Range, SqlType, decimal, ordinal

LAWS = (NoiseLaw("laplace", Fraction(7, 2)), NoiseLaw("gaussian", Fraction(40), 1, Fraction(1, 3)))
BETAS = st.sampled_from([Fraction(1, 20), Fraction(1, 3), Fraction(1, 10**9)])
UNITS = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 60), Fraction(5)])
STEPS = st.sampled_from([Fraction(1), Fraction(1, 100), Fraction(3, 8)])
KINDS = st.sampled_from([INTEGER, DOUBLE, decimal(2), DATE])
NUMBERS = st.integers(-60, 60) | st.integers(-(10**30), 10**30)
OPEN = st.sampled_from([None, Fraction(0), Fraction(-7, 3), Fraction(12)])


def each(cells: list[Any], level: CellConfidence) -> list[Any]:
    return [Cell.ends(cell, level) for cell in cells]


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=6), UNITS, STEPS, KINDS, OPEN, OPEN, BETAS)
def test_a_column_of_counts_or_sums(
    numbers: list[int], unit: Fraction, step: Fraction, kind: SqlType, low: Any, high: Any, beta: Fraction
) -> None:
    possible = Range(low, high if low is None or high is None or low <= high else None)
    level = CellConfidence(LAWS, beta)
    cells = [Direct(number * unit, Draw(i % 2, i), step, possible, kind) for i, number in enumerate(numbers)]
    if kind == DOUBLE:
        cells = [cell for cell in cells if abs(cell.noisy) < 10**20] or [Direct(unit, Draw(0, 0), step, possible, kind)]
    assert Direct.column_ends(cells, level) == each(cells, level)


def _mean(
    kind: type[MeanEstimate], count: Fraction, total: Fraction, step: Fraction, bounds: tuple[int, int]
) -> MeanEstimate:
    centre = sum(bounds) // 2
    half = max(bounds[1] - centre, centre - bounds[0])
    parts = (count, total, Draw(0, 3), Draw(1, 3), step, DOUBLE, centre, bounds)
    return JointMean(*parts, half, LAWS[0].scale) if kind is JointMean else MeanEstimate(*parts)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([MeanEstimate, JointMean]),
    st.lists(st.tuples(st.integers(-30, 3000), st.integers(-(10**6), 10**6)), min_size=1, max_size=6),
    UNITS,
    STEPS,
    st.sampled_from([(0, 100), (-3, 8), (5, 5), (-1000, 0)]),
    BETAS,
)
def test_a_column_of_means(
    kind: type[MeanEstimate],
    pairs: list[tuple[int, int]],
    unit: Fraction,
    step: Fraction,
    bounds: tuple[int, int],
    beta: Fraction,
) -> None:
    cells: list[Any] = [_mean(kind, count * unit, total * unit, step, bounds) for count, total in pairs]
    level = CellConfidence(LAWS, beta)
    assert kind.column_ends(cells, level) == each(cells, level)
    for cell in cells:
        place = cell._estimate()
        assert cell.value == (None if place is None else value_at(place, DOUBLE))


def test_a_column_of_different_cells_is_done_one_by_one() -> None:
    intervals = Intervals(LAWS, "0.9")
    direct = Direct(Fraction(5), Draw(0, 0), Fraction(1), Range(None, None), INTEGER)
    mixed: list[Cell] = [direct, Exact(3, INTEGER), Exact(None, INTEGER)]
    assert intervals.column(mixed) == [intervals.of(cell) for cell in mixed]
    assert intervals.column([]) == []
    assert intervals.column([direct]) == [intervals.of(direct)]


@settings(max_examples=300, deadline=None)
@given(
    st.fractions(-(10**6), 10**6, max_denominator=10**6) | st.integers(-(10**40), 10**40).map(Fraction),
    st.sampled_from([INTEGER, decimal(0), decimal(3), DATE, TIMESTAMP]),
)
def test_places_are_rounded_on_the_grid_of_the_type_and_stay_in_it(place: Fraction, kind: SqlType) -> None:
    low, high = type_range(kind).ends or (Fraction(0), Fraction(0))
    step = kind.step or Fraction(1)
    inside = min(max(place, low), high)
    wanted = {
        "down": math.floor(inside / step) * step,
        "up": math.ceil(inside / step) * step,
        "nearest": math.floor(inside / step + Fraction(1, 2)) * step,
    }
    for direction, expected in wanted.items():
        value = value_at(place, kind, direction)  # type: ignore[arg-type]
        assert value is not None
        assert ordinal(value, kind) == expected


@settings(max_examples=300, deadline=None)
@given(st.fractions() | st.fractions().map(lambda x: x * 10**400) | st.fractions().map(lambda x: x / 10**400))
def test_doubles_are_the_next_ones_on_each_side(place: Fraction) -> None:
    largest = sys.float_info.max
    down, near, up = (value_at(place, DOUBLE, way) for way in ("down", "nearest", "up"))
    assert isinstance(down, float)
    assert isinstance(up, float)
    assert near in (down, up)
    if abs(place) <= Fraction(largest):
        assert Fraction(down) <= place <= Fraction(up)
        assert up == down or up == math.nextafter(down, math.inf)
    else:
        assert down == near == up == (largest if place > 0 else -largest)


def test_an_end_that_is_open_is_the_last_value_of_the_type() -> None:
    assert value_at(None, INTEGER, "up") == 2**63 - 1
    largest = sys.float_info.max
    assert value_at(None, DOUBLE, "down") == -largest
    # Beyond the last double, though it rounds to it.
    assert value_at(Fraction(largest) + 1, DOUBLE, "up") == largest
    assert value_at(-Fraction(largest) - 1, DOUBLE, "down") == -largest
    assert value_of_ratio(7, 2, INTEGER) == 4
    assert value_of_ratio(-7, 2, INTEGER) == -3


def test_the_comparison_would_see_a_column_that_rounds_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [Direct(Fraction(1001, 4), Draw(0, 0), Fraction(1), Range(None, None), INTEGER)]
    expected = each(cells, CellConfidence(LAWS, Fraction(1, 20)))
    monkeypatch.setattr(
        "tacit.query.aggregates.counts_and_sums.value_of_ratio",
        lambda top, bottom, kind, way="nearest": value_of_ratio(top, bottom, kind),
    )
    assert Direct.column_ends(cells, CellConfidence(LAWS, Fraction(1, 20))) != expected
