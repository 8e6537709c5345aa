"""Every function and cast of every database, one by one, against its meaning in Python, at the values where they differ."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Iterator, Sequence
from fractions import Fraction

import pytest

from engines.benches import BENCHES, Bench, Rows, open_bench
from engines.calls import (
    INEXACT,
    ONE,
    SLOW_PATTERNS,
    SLOW_TEXT,
    TEXT_CALLS,
    TYPES,
    any_doubles,
    build,
    few,
    narrow,
    same,
    time_calls,
)
from engines.edges import EDGES, ref, stored
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.sql.scalars import scalar_sql
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Case, Cast, Expression, InList, literal, text_of
from tacit.query.relational.functions import REGISTRY, call, cast, evaluate
from tacit.query.relational.functions.dates import DIFF_UNITS, TRUNC_UNITS
from tacit.query.relational.functions.registry import can_cast
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIMESTAMP,
    Domain,
    Kind,
    SqlType,
    Value,
    decimal,
)


@pytest.fixture(scope="module", params=list(BENCHES))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with open_bench(request.param) as made:
        yield made


def answers(bench: Bench, node: Expression, kinds: Sequence[SqlType], rows: Rows) -> list[object]:
    return [row[0] for row in bench.answers([scalar_sql(bench.dialect, node)], kinds, rows)]


def check(bench: Bench, node: Expression, kinds: list[SqlType], inexact: bool = False) -> None:
    rows = list(itertools.product(*(EDGES[kind] if len(kinds) == 1 else few(EDGES[kind]) for kind in kinds)))
    wrong = []
    for row, answer in zip(rows, answers(bench, node, kinds, rows), strict=True):
        want = stored(evaluate(node, row), node.type)
        if not same(answer, want, inexact):
            wrong.append((row, answer, want))
    assert not wrong, f"{text_of(node)}: {len(wrong)} of {len(rows)} differ, e.g. {wrong[:6]}"


def test_every_function_has_exactly_one_lowering(bench: Bench) -> None:
    assert set(bench.dialect.lowerings) == set(REGISTRY)


#: These take constants beside their column; see below.
WITH_CONSTANTS = {"substring", "left", "right", "lpad", "rpad", "split_part", "list_part", "replace"}


def calls(bench: Bench, columns: int) -> set[str]:
    """Check functions on columns of every type, and of columns that are presumed to be small; those there are."""
    found = set()
    for name, make, kinds in itertools.product(ONE, (ref, narrow), itertools.product(TYPES, repeat=columns)):
        node = None if columns > 1 and name in ("not", "is_true") else build(name, *map(make, range(columns), kinds))
        if node is not None:
            check(bench, node, list(kinds), name in INEXACT)
            found.add(name)
    return found


def test_calls_of_one_column(bench: Bench) -> None:
    assert len(calls(bench, 1)) > 20


@pytest.mark.deep
def test_calls_of_two_columns(bench: Bench) -> None:
    found = calls(bench, 2)
    assert len(found) > 20
    alone = {name for name in ONE if any(build(name, ref(0, kind)) is not None for kind in TYPES)}
    assert {*ONE} - found - alone <= WITH_CONSTANTS


@pytest.mark.parametrize("name", ["round", "trunc"])
@pytest.mark.parametrize("digits", [None, -3, -1, 0, 1, 2, 5, 9])
def test_rounding(bench: Bench, name: str, digits: int | None) -> None:
    extra = [] if digits is None else [literal(digits, INTEGER)]
    for make, kind in itertools.product((ref, narrow), [kind for kind in TYPES if kind.is_numeric]):
        node = call(name, make(0, kind), *extra)
        if name == "trunc" and kind == DOUBLE and digits is not None and digits > 0:
            # Of doubles, as ROUND does: the product with the power of ten, not the exact value of 0.7, is cut.
            values = EDGES[kind]
            places = 10.0**digits
            found = answers(bench, node, [kind], [(value,) for value in values])
            for value, got in zip(values, found, strict=True):
                product = None if value is None else value * places
                if product is not None and abs(product) < 2**52 and node.type == DOUBLE:
                    assert got == math.trunc(product) / places
            continue
        check(bench, node, [kind])


@pytest.mark.parametrize(("name", "constants"), TEXT_CALLS)
def test_text_with_constants(bench: Bench, name: str, constants: tuple[Value, ...]) -> None:
    extra = [literal(value, TEXT if isinstance(value, str) else INTEGER) for value in constants]
    check(bench, call(name, ref(0, TEXT), *extra), [TEXT])


@pytest.mark.parametrize("kind", [DATE, TIMESTAMP])
@pytest.mark.parametrize("unit", TRUNC_UNITS)
def test_date_trunc(bench: Bench, unit: str, kind: SqlType) -> None:
    node = build("date_trunc", literal(unit, TEXT), ref(0, kind))
    if node is not None:
        check(bench, node, [kind])
    assert node is not None or (kind == DATE and unit in ("hour", "minute", "second"))


def test_texts_joined_by_a_separator(bench: Bench) -> None:
    for separator in ("", "-", "日'"):
        check(bench, call("concat_ws", literal(separator, TEXT), ref(0, TEXT), ref(1, INTEGER)), [TEXT, INTEGER])


def test_regular_expressions_take_linear_time(bench: Bench) -> None:
    for pattern in SLOW_PATTERNS:
        node = call("regexp", ref(0, TEXT), literal(pattern, TEXT))
        assert answers(bench, node, [TEXT], [(SLOW_TEXT,)]) == [evaluate(node, (SLOW_TEXT,))]


def test_formats_and_buckets_of_times(bench: Bench) -> None:
    for node, kind in time_calls():
        check(bench, node, [kind])


@pytest.mark.parametrize("unit", DIFF_UNITS)
def test_date_diff(bench: Bench, unit: str) -> None:
    for kinds in itertools.product((DATE, TIMESTAMP), repeat=2):
        check(bench, call("date_diff", literal(unit, TEXT), ref(0, kinds[0]), ref(1, kinds[1])), list(kinds))


def test_make_date(bench: Bench) -> None:
    months = [None, -1, 0, 1, 2, 12, 13, 2**62]
    node = call("make_date", ref(0, INTEGER), ref(1, INTEGER), ref(2, INTEGER))
    rows = list(itertools.product([None, 0, 1, 1900, 2024, 9999, 10000, -5], months, [None, 0, 1, 29, 30, 31, 32, -1]))
    assert answers(bench, node, [INTEGER] * 3, rows) == [evaluate(node, row) for row in rows]


@pytest.mark.parametrize("name", ["add_days", "add_months", "add_seconds"])
def test_shifts_by_constants(bench: Bench, name: str) -> None:
    for kind, count in itertools.product((DATE, TIMESTAMP), (-(10**6), -13, -1, 0, 1, 11, 3650, 10**6)):
        check(bench, call(name, ref(0, kind), literal(count, INTEGER)), [kind])


def test_clamp(bench: Bench) -> None:
    for kind in (kind for kind in TYPES if kind.is_numeric):
        check(bench, call("clamp", ref(0, kind), literal(-1, INTEGER), literal(2, INTEGER)), [kind])
        check(
            bench,
            call("clamp", narrow(0, kind), literal(Fraction(-1, 2), decimal(1)), literal(7, INTEGER)),
            [kind],
        )


#: Ends between which sums and products fit, and some between which they may not.
CLAMPS: list[tuple[SqlType, Value, SqlType, Value]] = [
    (INTEGER, 3 * 10**9, INTEGER, 3 * 10**9),
    (INTEGER, 4 * 10**9, INTEGER, 4 * 10**9),
    (decimal(2), Fraction(2500), INTEGER, 60),
    (decimal(2), Fraction(10**6), decimal(9), Fraction(50)),
    (decimal(2), Fraction(99_999), decimal(9), Fraction(99)),
    (DOUBLE, 1e150, DOUBLE, 1e150),
    (DOUBLE, 1e155, DOUBLE, 1e155),
]


@pytest.mark.parametrize("ends", CLAMPS, ids=str)
def test_arithmetic_inside_clamps(bench: Bench, ends: tuple[SqlType, Value, SqlType, Value]) -> None:
    """Where CLAMP bounds all parts of a number, no overflow is looked for."""
    kinds = [ends[0], ends[2]]
    sides = []
    for slot, (kind, end) in enumerate([ends[:2], ends[2:]]):
        bound = literal(end, kind)
        sides.append(call("clamp", narrow(slot, kind), call("neg", bound), bound))
    nodes = [call(name, *sides) for name in ("add", "sub", "mul")]
    nodes += [call("mul", call("sub", sides[0], literal(end, kind)), sides[1]) for kind, end in [ends[:2]]]
    nodes += [cast(node, target) for node in (sides[0], nodes[0]) for target in (DOUBLE, decimal(4), decimal(9))]
    rows = list(itertools.product(*(few(EDGES[kind]) for kind in kinds)))
    found = bench.answers([scalar_sql(bench.dialect, node) for node in nodes], kinds, rows)
    for row, numbers in zip(rows, found, strict=True):
        for node, number in zip(nodes, numbers, strict=True):
            want = stored(evaluate(node, row), node.type)
            assert same(number, want, inexact=False), (text_of(node), row, number, want)


def test_every_cast(bench: Bench) -> None:
    tried = 0
    for source, target in itertools.product(TYPES, TYPES):
        if source != target and can_cast(source, target):
            check(bench, Cast(target, Domain(), ref(0, source)), [source])
            tried += 1
    assert tried > 40
    assert answers(bench, Cast(DATE, Domain(), literal(None, NULL)), [INTEGER], [(1,)]) == [None]


def test_case_and_in(bench: Bench) -> None:
    condition = call("gt", ref(0, INTEGER), literal(2, INTEGER))
    node = Case(
        TEXT, Domain(), ((condition, ref(1, TEXT)), (ref(2, BOOLEAN), literal("it's", TEXT))), literal(None, TEXT)
    )
    check(bench, node, [INTEGER, TEXT, BOOLEAN])
    for kind in TYPES:
        items = tuple(literal(value, kind) for value in EDGES[kind][:4])
        check(bench, InList(BOOLEAN, Domain(), ref(0, kind), items), [kind])
        check(bench, InList(BOOLEAN, Domain(), ref(0, kind), items[1:]), [kind])


def test_constants_come_back_as_they_are(bench: Bench) -> None:
    hostile: list[tuple[Value | None, SqlType]] = [("'; DROP TABLE t; --", TEXT), ("$$x$$", TEXT), ("a\\'b", TEXT)]
    for kind in TYPES:
        hostile += [(value, kind) for value in EDGES[kind]]
    (row,) = bench.answers(
        [scalar_sql(bench.dialect, literal(value, kind)) for value, kind in hostile], [INTEGER], [(1,)]
    )
    for (value, kind), got in zip(hostile, row, strict=True):
        assert same(got, stored(value, kind), inexact=False), (value, kind, got)


def test_nul_in_a_constant(bench: Bench) -> None:
    """Where texts cannot hold NUL, a query that writes one is refused."""
    node = literal("nul\0inside", TEXT)
    if bench.dialect is POSTGRES:
        with pytest.raises(Refusal, match="NUL"):
            scalar_sql(bench.dialect, node)
    else:
        assert answers(bench, node, [INTEGER], [(1,)]) == ["nul\0inside"]


def test_nesting_does_not_double_the_statement(bench: Bench) -> None:
    node: Expression = ref(0, DOUBLE)
    for _ in range(40):
        node = call("div", call("mul", node, ref(1, DOUBLE)), call("sqrt", node if _ < 1 else ref(1, DOUBLE)))
    assert len(scalar_sql(bench.dialect, node)) < 400_000
    assert answers(bench, node, [DOUBLE, DOUBLE], [(2.0, 4.0)]) == [evaluate(node, (2.0, 4.0))]


def test_no_negative_zero_comes_out(bench: Bench) -> None:
    zero = ref(0, DOUBLE)
    nodes = [
        call("neg", zero),
        call("mul", zero, literal(-1.0, DOUBLE)),
        call("mul", zero, zero),
        call("sub", zero, zero),
    ]
    nodes += [
        call("round", literal(-0.2, DOUBLE), literal(3, INTEGER)),
        call("mod", literal(-4.0, DOUBLE), literal(2.0, DOUBLE)),
    ]
    (row,) = bench.answers([scalar_sql(bench.dialect, node) for node in nodes], [DOUBLE], [(0.0,)])
    assert "-0.0" not in str(row), row


@pytest.mark.parametrize("name", ["upper", "lower"])
def test_case_of_every_character(bench: Bench, name: str) -> None:
    # Letters known for long: those added to Unicode since have no capitals yet in one table or the other.
    known = unicodedata.ucd_3_2_0
    characters = [chr(i) for i in range(1, 0x20000) if known.category(chr(i)) not in ("Cn", "Cs")]
    node = call(name, ref(0, TEXT))
    assert answers(bench, node, [TEXT], [(char,) for char in characters]) == [
        evaluate(node, (char,)) for char in characters
    ]


def test_kinds_are_all_tried() -> None:
    assert {kind.kind for kind in TYPES} == set(Kind) - {Kind.NULL}


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "mod", "power"])
def test_doubles_of_every_size(bench: Bench, name: str) -> None:
    node, pairs = call(name, ref(0, DOUBLE), ref(1, DOUBLE)), any_doubles(3000)
    wrong = [
        (pair, got, want)
        for pair, got in zip(pairs, answers(bench, node, [DOUBLE, DOUBLE], pairs), strict=True)
        if not same(got, want := evaluate(node, pair), name == "power")
    ]
    assert not wrong, f"{len(wrong)} differ, e.g. {wrong[:5]}"


@pytest.mark.parametrize("name", ["exp", "ln", "log2", "log10", "sqrt", "cbrt"])
def test_library_functions_at_the_ends(bench: Bench, name: str) -> None:
    ends = [709.782712893384, 709.7827128933841, -745.1332191019411, -745.1332191019412, -744.1, -744.0, -708.4, -746.0]
    rows = [(value,) for value in [*ends, *(2.0**k for k in range(-1074, 1024, 7)), 1.7976931348623157e308]]
    node = call(name, ref(0, DOUBLE))
    for row, got in zip(rows, answers(bench, node, [DOUBLE], rows), strict=True):
        assert same(got, evaluate(node, row), inexact=True), (row, got, evaluate(node, row))
