"""Enclosures of expressions over cells contain every value that the arguments' enclosures allow."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.query.aggregates.counts_and_sums import Direct
from tacit.query.planning.noise import NoiseLaw
from tacit.query.postprocess.cells import Cell, CellConfidence, Draw, Exact
from tacit.query.postprocess.result import Intervals
from tacit.query.postprocess.rows import Derived, derive, pool
from tacit.query.relational.expressions import Expression, Reference, literal
from tacit.query.relational.functions import call, case, cast, evaluate, in_list
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, TEXT, UNKNOWN, Domain, ordinal

LAW = NoiseLaw("laplace", Fraction(3))
HALF = int(LAW.error(Fraction(1, 20)))


def reference(slot: int) -> Reference:
    return Reference(INTEGER, Domain(UNKNOWN, False, None, Fraction(1)), slot, f"c{slot}")


A, B, C = (reference(slot) for slot in range(3))


def number(value: int) -> Expression:
    return literal(value, INTEGER)


EXPRESSIONS: dict[str, Expression] = {
    "product": call("mul", A, B),
    "difference of products": call("sub", call("mul", A, A), call("mul", B, C)),
    "ratio": call("div", A, B),
    "ratio to a difference": call("div", A, call("sub", B, C)),
    "percent": call("round", call("div", call("mul", number(100), A), call("add", B, number(50))), number(1)),
    "root": call("sqrt", call("abs", A)),
    "logarithm": call("ln", A),
    "exponential": call("exp", call("div", A, number(10))),
    "whole quotient": call("int_div", A, B),
    "remainder": call("mod", A, B),
    "extremes": call("sub", call("greatest", A, B, C), call("least", A, B)),
    "clamp": call("clamp", A, number(-2), number(5)),
    "square": call("power", A, number(2)),
    "any power": call("power", A, number(5)),
    "choice": case([(call("gt", A, number(3)), call("mul", B, number(10)))], C),
    "certain choice": case([(call("gt", A, number(-1000)), B)], C),
    "membership": case([(in_list(A, [number(1), number(2)]), number(7))], B),
    "null if equal": case([(call("eq", A, B), literal(None, INTEGER))], A),
    "coalesce": call("coalesce", call("div", A, B), cast(C, DOUBLE)),
    "cast": cast(call("div", A, number(3)), INTEGER),
    "sign": call("sign", call("sub", A, B)),
}


def row(values: tuple[int, ...]) -> tuple[Cell, ...]:
    return tuple(Direct(Fraction(v), Draw(0, slot), Fraction(1), UNKNOWN, INTEGER) for slot, v in enumerate(values))


@pytest.mark.parametrize("name", EXPRESSIONS)
@settings(max_examples=60, deadline=None)
@given(values=st.tuples(*[st.integers(-30, 30)] * 3), moves=st.tuples(*[st.integers(-HALF, HALF)] * 3))
def test_the_truth_is_enclosed(name: str, values: tuple[int, ...], moves: tuple[int, ...]) -> None:
    """At one level the events allow every move up to the half-width; the truth after such a move lies inside."""
    node = EXPRESSIONS[name]
    cells = row(values)
    domain = Derived(node, cells).enclose(CellConfidence([LAW], Fraction(1, 20)))
    truth = evaluate(node, [value + move for value, move in zip(values, moves, strict=True)])
    if truth is None:
        assert domain.nullable
        return
    place, slack = ordinal(truth, node.type), Fraction(1, 10**9)
    low, high = domain.range.low, domain.range.high
    assert low is None or low <= place + slack * (1 + abs(place))
    assert high is None or place - slack * (1 + abs(place)) <= high
    assert domain.values is None or domain.range.ends is not None


@settings(max_examples=60, deadline=None)
@given(
    function=st.sampled_from(
        ["sum", "avg", "min", "max", "median", "quantile", "var_pop", "var_samp", "stddev_pop", "stddev_samp"]
    ),
    values=st.lists(st.integers(-30, 30), min_size=2, max_size=5),
    data=st.data(),
)
def test_aggregates_of_cells_are_enclosed(function: str, values: list[int], data: Any) -> None:
    cells = row(tuple(values))
    # Through a product, so that sums are not read as one sum of draws, whose noise is smaller than the box.
    squares = [derive(call("mul", reference(i), reference(i)), cells) for i in range(len(values))]
    moved = [v + data.draw(st.integers(-HALF, HALF)) for v in values]
    truth = pool(function, [Exact(m * m, INTEGER) for m in moved], 0.25, DOUBLE).value
    domain = pool(function, squares, 0.25, DOUBLE).enclose(CellConfidence([LAW], Fraction(1, 20)))
    assert domain.range.ends is not None
    low, high = (float(end) for end in domain.range.ends)
    assert low * (1 - 1e-9) - 1e-6 <= float(truth) <= high * (1 + 1e-9) + 1e-6  # type: ignore[arg-type]


@pytest.mark.parametrize("function", ["var_pop", "var_samp", "stddev_pop", "stddev_samp"])
def test_spreads_of_cells_reach_the_corners(function: str) -> None:
    """Equal cells whose truths lie at opposite ends, and unequal ones whose truths are equal."""
    for values, truths in (((10, 10), (10 - HALF, 10 + HALF)), ((10 - HALF, 10 + HALF), (10, 10))):
        domain = pool(function, row(values), None, DOUBLE).enclose(CellConfidence([LAW], Fraction(1, 20)))
        truth = pool(function, [Exact(value, INTEGER) for value in truths], None, DOUBLE).value
        assert domain.range.ends is not None
        assert float(domain.range.ends[0]) <= float(truth) <= float(domain.range.ends[1]) + 1e-9  # type: ignore[arg-type]


def test_a_ratio_of_counts_is_finite_although_the_divisor_may_be_zero() -> None:
    low, high = Intervals([LAW], "0.95").of(derive(call("div", A, B), row((100, 2, 0))))
    assert -1000 < low < high < 1000  # type: ignore[operator]


def test_what_no_rule_bounds_has_the_ends_of_its_type() -> None:
    low, high = Intervals([LAW], "0.95").of(derive(call("power", A, B), row((10, 3, 0))))
    assert low == -high < -1e300  # type: ignore[operator]


def test_sums_of_cells_are_one_event_and_single_cells_their_own() -> None:
    cells = row((1, 2, 3))
    total = derive(call("add", call("add", A, B), C), cells)
    assert len(total.events) == 1
    assert derive(call("sub", call("add", A, B), B), cells).events == cells[0].events
    nothing = derive(call("sub", A, A), cells)
    assert (nothing.value, nothing.events) == (0, frozenset())
    assert len(derive(call("div", call("add", A, B), C), cells).events) == 1
    assert len(derive(call("div", call("mul", A, B), C), cells).events) == 3
    assert derive(call("mul", number(3), A), cells).events == cells[0].events


def test_expressions_of_keys_stay_exact() -> None:
    key = Reference(TEXT, Domain(), 0, "ward")
    cell = derive(call("upper", key), (Exact("a", TEXT),))
    assert isinstance(cell, Exact)
    assert cell.value == "A"


def test_comparisons_are_decided_when_ranges_lie_apart() -> None:
    here = CellConfidence([LAW], Fraction(1, 20))
    cells = row((0, 1000, 5))
    assert Derived(call("lt", A, B), cells).enclose(here).values == (True,)
    assert Derived(call("ge", A, B), cells).enclose(here).values == (False,)
    assert Derived(call("lt", A, C), cells).enclose(here).values == (False, True)
    assert Derived(call("and", call("lt", A, B), call("lt", A, C)), cells).enclose(here).values == (False, True)
    assert Derived(call("lt", A, B), cells).type == BOOLEAN


def test_range_arithmetic_of_absent_values() -> None:
    """A sum over cells that may be NULL may leave any of them out."""
    cells = row((10, 0, 0))
    doubtful = derive(call("div", A, B), cells)
    domain = pool("sum", [doubtful, cells[0]], None, DOUBLE).enclose(CellConfidence([LAW], Fraction(1, 20)))
    assert domain.nullable
    assert domain.range.low is not None
    assert domain.range.low <= 0
