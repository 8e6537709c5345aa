"""Interval arithmetic, finite images and nullability against the Python meaning of every function."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal, Reference, literal
from tacit.query.relational.functions import REGISTRY, call, case, cast, evaluate, in_list
from tacit.query.resolve.aggregation import EnumerationBudget, public_values
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    Domain,
    Kind,
    Range,
    SqlType,
    as_value,
    decimal,
    finite,
    from_ordinal,
    ordinal,
)

_DAY = dt.date(2020, 2, 27)


def _column(slot: int, name: str, kind: SqlType, domain: Domain) -> Reference:
    return Reference(kind, domain, slot, name)


def _between(low: int, high: int, *, nullable: bool = True, step: Fraction | None = Fraction(1)) -> Domain:
    return Domain(Range(Fraction(low), Fraction(high)), nullable, None, step)


_COLUMNS = [
    _column(0, "small", INTEGER, _between(-3, 5)),
    _column(1, "sure", INTEGER, _between(0, 1000, nullable=False)),
    _column(2, "price", decimal(2), _between(0, 50, step=Fraction(1, 100))),
    _column(3, "ratio", DOUBLE, _between(-2, 7, step=None)),
    _column(4, "free", INTEGER, Domain(step=Fraction(1))),
    _column(5, "word", TEXT, finite(("a", "bb", " Cc ", "12", None), TEXT, nullable=True)),
    _column(6, "flag", BOOLEAN, finite((False, True), BOOLEAN, nullable=True)),
    _column(7, "day", DATE, Domain(Range(ordinal(_DAY, DATE), ordinal(_DAY, DATE) + 800), True, None, Fraction(1))),
    _column(8, "time", TIMESTAMP, Domain(Range(Fraction(0), Fraction(10**14)), True, None, Fraction(1))),
    _column(9, "wild", DOUBLE, Domain()),
]


def _cell(column: Reference) -> st.SearchStrategy[Any]:
    if column.values is not None:
        return st.sampled_from([*column.values, None])
    ends = column.range.ends
    null = st.none() if column.nullable else st.nothing()
    if column.type == DOUBLE:
        limits = (-1e308, 1e308) if ends is None else (float(ends[0]), float(ends[1]))
        return st.one_of(st.floats(*limits), null)
    if ends is None:
        return st.one_of(st.integers(-(2**63), 2**63 - 1), null)
    step = column.step or Fraction(1)
    places = st.integers(math.ceil(ends[0] / step), math.floor(ends[1] / step))
    return st.one_of(places.map(lambda i: from_ordinal(i * step, column.type)), null)


_ROWS = st.tuples(*map(_cell, _COLUMNS))
_LITERALS = st.one_of(
    st.integers(-20, 20).map(lambda i: literal(i, INTEGER)),
    st.integers(-999, 999).map(lambda i: literal(Fraction(i, 100), decimal(2))),
    st.sampled_from(["a", "x", "", "day", "month"]).map(lambda s: literal(s, TEXT)),
    st.just(literal(None, INTEGER)),
    st.booleans().map(lambda b: literal(b, BOOLEAN)),
)
_LEAVES = st.one_of(st.sampled_from(_COLUMNS), _LITERALS)
_NAMES = sorted(REGISTRY)
_ARITY = {"clamp": 3, "make_date": 3, "date_diff": 3, "replace": 3, "split_part": 3, "lpad": 3, "rpad": 3}


@st.composite
def _trees(draw: st.DrawFn, depth: int = 3) -> Expression:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(_LEAVES)
    kind = draw(st.integers(0, 12))
    below = _trees(depth - 1)
    try:
        if kind == 0:
            return cast(
                draw(below), draw(st.sampled_from([INTEGER, decimal(2), DOUBLE, TEXT, DATE, TIMESTAMP, BOOLEAN]))
            )
        if kind == 1:
            when = call("is_null", draw(below)) if draw(st.booleans()) else call("lt", draw(below), draw(below))
            return case([(when, draw(below))], draw(below))
        if kind == 2:
            return in_list(draw(below), draw(st.lists(_LITERALS, min_size=1, max_size=3)))
        name = draw(st.sampled_from(_NAMES))
        count = _ARITY.get(name) or draw(st.integers(1, 2))
        args = [draw(below) for _ in range(count)]
        if name in ("date_trunc", "date_diff"):
            args[0] = literal(draw(st.sampled_from(["year", "quarter", "month", "day"])), TEXT)
        return call(name, *args)
    except Refusal:
        return draw(_LEAVES)


def _check(tree: Expression, row: tuple[Any, ...]) -> None:
    value = evaluate(tree, row)
    assert value is None or as_value(value, tree.type) == value, "a value of the wrong type"
    if value is None:
        assert tree.nullable
        return
    assert not (isinstance(value, float) and (math.isnan(value) or math.isinf(value)))
    if tree.values is not None:
        assert value in tree.values
    if tree.type.is_ordered:
        _check_range(tree, ordinal(value, tree.type))
    # The step of a text is that of the numbers it is written from: it has no place of its own.
    if tree.step is not None and tree.type.is_ordered and tree.type.kind is not Kind.DOUBLE:
        assert (ordinal(value, tree.type) / tree.step).denominator == 1


def _check_range(tree: Expression, place: Fraction) -> None:
    low, high = tree.range.low, tree.range.high
    # Rounding of doubles may step outside by a few ulps of the largest intermediate value.
    slack = Fraction(1, 10**6) * (1 + abs(place)) if tree.type.kind is Kind.DOUBLE else Fraction(0)
    assert low is None or low - slack <= place
    assert high is None or place <= high + slack


@settings(max_examples=500, derandomize=True, deadline=None)
@given(tree=_trees(), row=_ROWS)
def test_what_is_presumed_of_an_expression_holds_for_every_declared_row(tree: Expression, row: tuple[Any, ...]) -> None:
    _check(tree, row)


@settings(max_examples=120, derandomize=True, deadline=None)
@given(tree=_trees(2), rows=st.lists(_ROWS, min_size=1, max_size=5))
def test_public_values_miss_no_key(tree: Expression, rows: list[tuple[Any, ...]]) -> None:
    assume(not isinstance(tree, Literal) and tree.type.kind is not Kind.DOUBLE)
    found = public_values(tree, EnumerationBudget())
    if found is not None:
        for row in rows:
            value = evaluate(tree, row)
            assert value is None or value in found


def _samples(column: Reference) -> list[Any]:
    """A few values of a column: its ends, some between, and NULL where it may be."""
    if column.values is not None:
        return [*column.values, None]
    ends = column.range.ends
    if ends is None:
        found: list[Any] = [2**63 - 1, -(2**63), 5, None] if column.type == INTEGER else [1e308, -1e-300, 0.5, None]
        return found
    step = column.step or Fraction(1, 8)
    first, last = math.ceil(ends[0] / step), math.floor(ends[1] / step)
    places = sorted({first, first + 1, (first + last) // 2, max(first, min(last, 0)), last - 1, last})
    values = [from_ordinal(place * step, column.type) for place in places]
    return [*values, None] if column.nullable else values


_ARGUMENTS: list[Expression] = [
    *_COLUMNS,
    literal(-7, INTEGER),
    literal(3, INTEGER),
    literal(Fraction(-5, 2), decimal(1)),
    literal("a", TEXT),
    literal("month", TEXT),
]


@pytest.mark.parametrize("name", _NAMES)
def test_what_is_presumed_of_every_function_of_columns_and_constants(name: str) -> None:
    samples = [_samples(column) for column in _COLUMNS]
    rows = [tuple(values[(i * (k + 1) + k) % len(values)] for k, values in enumerate(samples)) for i in range(12)]
    choices = itertools.chain.from_iterable(itertools.product(_ARGUMENTS, repeat=count) for count in (1, 2, 3))
    resolved = 0
    for args in itertools.islice(choices, 0, 2_000):
        try:
            tree = call(name, *args)
        except Refusal:
            continue
        resolved += 1
        for row in rows:
            _check(tree, row)
    assert resolved or name in (
        "clamp",
        "substring",
        "lpad",
        "rpad",
        "split_part",
        "date_diff",
        "replace",
        "left",
        "right",
        "regexp",
        "regexp_extract",
        "regexp_replace",
        "concat_ws",
    )


def test_the_check_would_see_a_wrong_range() -> None:
    wrong = Reference(INTEGER, _between(0, 1), 0, "x")
    with pytest.raises(AssertionError):
        _check(wrong, (2,))


@pytest.mark.parametrize("name", _NAMES)
def test_every_function_says_what_it_does(name: str) -> None:
    function = REGISTRY[name]
    assert function.name == name
    assert 0 < len(function.summary) < 60


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("div", (1.0, 0.0), None),
        ("int_div", (7, 0), None),
        ("int_div", (-7, 2), -3),
        ("mod", (-7, 3), -1),
        ("mod", (7, -3), 1),
        ("mod", (5, 0), None),
        ("add", (2**63 - 1, 1), None),
        ("mul", (2**62, 4), None),
        ("neg", (-(2**63),), None),
        ("abs", (-(2**63),), None),
        ("sqrt", (-1.0,), None),
        ("ln", (0.0,), None),
        ("exp", (1000.0,), None),
        ("power", (0.0, -1.0), None),
        ("floor", (-2.5,), -3),
        ("ceil", (-2.5,), -2),
        ("round", (-2.5,), -3),
        ("round", (2.5,), 3),
        ("trunc", (-2.9,), -2),
        ("floor", (1e300,), None),
        ("mul", (1e308, 10.0), None),
    ],
)
def test_partial_functions_are_made_total(name: str, args: tuple[Any, ...], expected: Any) -> None:
    kinds = {int: INTEGER, float: DOUBLE}
    found = call(name, *(literal(arg, kinds[type(arg)]) for arg in args))
    assert isinstance(found, Literal)
    assert found.value == expected


@given(a=st.fractions(-99, 99), b=st.fractions(-99, 99), c=st.fractions(-99, 99), d=st.fractions(-99, 99))
@settings(max_examples=60, derandomize=True)
def test_intervals_hold_sums_products_and_quotients(a: Fraction, b: Fraction, c: Fraction, d: Fraction) -> None:
    x, y = Range(min(a, b), max(a, b)), Range(min(c, d), max(c, d))
    for left in (a, b, (a + b) / 2):
        for right in (c, d, (c + d) / 2):
            assert left + right in x + y
            assert left - right in x - y
            assert left * right in x * y
            assert abs(left) in x.magnitude()
            assert min(max(left, c), max(c, d)) in x.clamped(c, max(c, d))
            if right != 0:
                assert left / right in x.divided_by(y)
