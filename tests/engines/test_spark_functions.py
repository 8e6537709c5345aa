"""Every function and cast on Spark, against its meaning in Python, at the values where engines differ.

The same cases as in ``test_every_function.py``, many in one query: Spark prepares longer than it computes.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

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
from engines.edges import EDGES, ref, storage_table, stored
from support.spark import held
from tacit.engines.spark.dialect import SPARK
from tacit.engines.sql.scalars import scalar_sql
from tacit.query.relational.expressions import Case, Cast, Expression, InList, literal
from tacit.query.relational.functions import REGISTRY, call, evaluate
from tacit.query.relational.functions.dates import DIFF_UNITS, TRUNC_UNITS
from tacit.query.relational.functions.registry import can_cast
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIMESTAMP, Domain, SqlType, Value, decimal

pytestmark = [pytest.mark.spark, pytest.mark.deep]
#: Number of expressions in one query.
AT_ONCE = 40
Rows = Sequence[Sequence[Value | None]]


def answers(sql: Sequence[str], kinds: Sequence[SqlType], rows: Rows, *, generated: bool = False) -> list[Any]:
    """The expressions for every row, in order."""
    spark = held(generated=generated).spark
    table = storage_table(kinds, rows).append_column("n", pa.array(range(len(rows)), type=pa.int64()))
    moments = [f"c{i}" for i, kind in enumerate(kinds) if kind == TIMESTAMP]
    for name in moments:
        # Sent as numbers: Spark takes timestamps of Arrow for moments in a zone.
        numbers = table.column(name).cast(pa.int64())
        table = table.set_column(table.column_names.index(name), name, numbers)
    spark.createDataFrame(table).createOrReplaceTempView("tacit_raw_edges")
    read = ", ".join(SPARK.moment_of(name) + f" AS {name}" if name in moments else name for name in table.column_names)
    listed = ", ".join(f"{text} AS x{i}" for i, text in enumerate(sql))
    return [tuple(row)[1:] for row in spark.sql(f"SELECT n, {listed} FROM (SELECT {read} FROM tacit_raw_edges) ORDER BY n").collect()]  # fmt: skip


def check(nodes: Iterable[tuple[Expression, Sequence[SqlType], bool]], *, generated: bool = False) -> int:
    """Compare nodes over the edges of their columns; how many different ones there were."""
    by_kinds: dict[tuple[SqlType, ...], dict[str, tuple[Expression, bool]]] = {}
    for node, kinds, inexact in nodes:
        by_kinds.setdefault(tuple(kinds), {})[scalar_sql(SPARK, node)] = (node, inexact)
    wrong = []
    for kinds, items in by_kinds.items():
        rows = list(itertools.product(*(EDGES[kind] if len(kinds) == 1 else few(EDGES[kind]) for kind in kinds)))
        listed = list(items.items())
        for part in (listed[at : at + AT_ONCE] for at in range(0, len(listed), AT_ONCE)):
            found = answers([sql for sql, _ in part], kinds, rows, generated=generated)
            for place, (_, (node, inexact)) in enumerate(part):
                for row, cells in zip(rows, found, strict=True):
                    want = stored(evaluate(node, row), node.type)
                    if not same(cells[place], want, inexact):
                        wrong.append((getattr(node, "function", "cast"), row, cells[place], want))
    assert not wrong, f"{len(wrong)} differ, e.g. {wrong[:6]}"
    return sum(map(len, by_kinds.values()))


def calls(shapes: Iterable[tuple[SqlType, ...]]) -> Iterable[tuple[Expression, Sequence[SqlType], bool]]:
    for name, kinds, make in itertools.product(ONE, shapes, (ref, narrow)):
        if len(kinds) == 2 and name in ("not", "is_true"):
            continue
        node = build(name, *(make(i, kind) for i, kind in enumerate(kinds)))
        if node is not None:
            yield node, kinds, name in INEXACT


def test_every_function_has_exactly_one_lowering() -> None:
    assert set(SPARK.lowerings) == set(REGISTRY)


@pytest.mark.parametrize("generated", [False, True])
def test_calls_of_one_column_and_casts(generated: bool) -> None:
    """With generated code and without: they are two implementations of everything."""
    casts = [
        (Cast(target, Domain(), ref(0, source)), (source,), False)
        for source, target in itertools.product(TYPES, TYPES)
        if source != target and can_cast(source, target)
    ]
    assert check([*calls((kind,) for kind in TYPES), *casts], generated=generated) > 150


def test_calls_of_two_columns() -> None:
    assert check(calls(itertools.product(TYPES, TYPES))) > 500


def with_constants() -> Iterable[tuple[Expression, Sequence[SqlType], bool]]:
    for name, constants in TEXT_CALLS:
        extra = [literal(value, TEXT if isinstance(value, str) else INTEGER) for value in constants]
        yield call(name, ref(0, TEXT), *extra), [TEXT], False
    for unit, kind in itertools.product(TRUNC_UNITS, (DATE, TIMESTAMP)):
        node = build("date_trunc", literal(unit, TEXT), ref(0, kind))
        if node is not None:
            yield node, [kind], False
    for name, kind, count in itertools.product(
        ("add_days", "add_months", "add_seconds"), (DATE, TIMESTAMP), (-(10**6), -13, -1, 0, 1, 11, 3650, 10**6)
    ):
        yield call(name, ref(0, kind), literal(count, INTEGER)), [kind], False
    for node, kind in time_calls():
        yield node, [kind], False
    joined = call("concat_ws", literal("日'", TEXT), ref(0, TEXT), ref(1, INTEGER))
    yield joined, [TEXT, INTEGER], False
    for kind in (kind for kind in TYPES if kind.is_numeric):
        yield call("clamp", ref(0, kind), literal(-1, INTEGER), literal(2, INTEGER)), [kind], False
        bounds = literal(Fraction(-1, 2), decimal(1)), literal(7, INTEGER)
        yield call("clamp", narrow(0, kind), *bounds), [kind], False
        for name, digits, make in itertools.product(("round", "trunc"), (-3, -1, 0, 1, 2, 5, 9), (ref, narrow)):
            # TRUNC of doubles cuts their product with a power of ten, as ROUND does; see below.
            if name == "round" or kind != DOUBLE or digits <= 0:
                yield call(name, make(0, kind), literal(digits, INTEGER)), [kind], False
    for kind in TYPES:
        items = tuple(literal(value, kind) for value in EDGES[kind][:4])
        yield InList(BOOLEAN, Domain(), ref(0, kind), items), [kind], False
        yield InList(BOOLEAN, Domain(), ref(0, kind), items[1:]), [kind], False


def test_constant_arguments() -> None:
    assert check(with_constants()) > 150


def test_regular_expressions_take_linear_time() -> None:
    nodes = [call("regexp", ref(0, TEXT), literal(pattern, TEXT)) for pattern in SLOW_PATTERNS]
    found = answers([scalar_sql(SPARK, node) for node in nodes], [TEXT], [(SLOW_TEXT,)])
    assert list(found[0]) == [evaluate(node, (SLOW_TEXT,)) for node in nodes]


def test_differences_of_dates_and_case() -> None:
    pairs = itertools.product(DIFF_UNITS, itertools.product((DATE, TIMESTAMP), repeat=2))
    nodes = [(call("date_diff", literal(unit, TEXT), *(ref(i, k) for i, k in enumerate(kinds))), kinds, False) for unit, kinds in pairs]  # fmt: skip
    condition = call("gt", ref(0, INTEGER), literal(2, INTEGER))
    branches = ((condition, ref(1, TEXT)), (ref(2, BOOLEAN), literal("it's", TEXT)))
    check([*nodes, (Case(TEXT, Domain(), branches, literal(None, TEXT)), (INTEGER, TEXT, BOOLEAN), False)])


def test_truncated_doubles() -> None:
    for digits in (1, 2, 5):
        node, places = call("trunc", ref(0, DOUBLE), literal(digits, INTEGER)), 10.0**digits
        rows = [(value,) for value in EDGES[DOUBLE]]
        for (value,), (got,) in zip(rows, answers([scalar_sql(SPARK, node)], [DOUBLE], rows), strict=True):
            product = None if value is None else float(value) * places
            if product is not None and abs(product) < 2**52 and node.type == DOUBLE:
                assert got == int(product) / places


def test_make_date() -> None:
    node = call("make_date", ref(0, INTEGER), ref(1, INTEGER), ref(2, INTEGER))
    months = [None, -1, 0, 1, 2, 12, 13, 2**62]
    rows = list(itertools.product([None, 0, 1, 1900, 2024, 9999, 10000, -5], months, [None, 0, 1, 29, 30, 31, 32, -1]))
    found = answers([scalar_sql(SPARK, node)], [INTEGER] * 3, rows)
    assert [cell for (cell,) in found] == [evaluate(node, row) for row in rows]


def test_constants_come_back_as_they_are() -> None:
    """Among them what would name a setting of Spark or of the system, if it were not escaped."""
    hostile: list[tuple[Value | None, SqlType]] = [
        (text, TEXT)
        for text in ("'; DROP TABLE t; --", "$$x$$", "a\\'b", "nul\0inside", "${spark.master}", "${env:PATH}", "\\u0041", "%s {0}")
    ]  # fmt: skip
    for kind in TYPES:
        hostile += [(value, kind) for value in EDGES[kind]]
    (row,) = answers([scalar_sql(SPARK, literal(value, kind)) for value, kind in hostile], [INTEGER], [(1,)])
    for (value, kind), got in zip(hostile, row, strict=True):
        assert same(got, stored(value, kind), inexact=False), (value, kind, got)
    assert answers([scalar_sql(SPARK, Cast(DATE, Domain(), literal(None, NULL)))], [INTEGER], [(1,)]) == [(None,)]


def test_nesting_does_not_double_the_statement() -> None:
    node: Expression = ref(0, DOUBLE)
    for _ in range(40):
        node = call("div", call("mul", node, ref(1, DOUBLE)), call("sqrt", node if _ < 1 else ref(1, DOUBLE)))
    sql = scalar_sql(SPARK, node)
    assert len(sql) < 400_000
    assert answers([sql], [DOUBLE, DOUBLE], [(2.0, 4.0)]) == [(evaluate(node, (2.0, 4.0)),)]


@pytest.mark.parametrize("name", ["upper", "lower"])
def test_case_of_every_character(name: str) -> None:
    """All of them, for Spark is told the table: Java's own maps sigma by where it stands, and ß to two letters."""
    characters = [chr(i) for i in range(1, 0x1F000) if unicodedata.category(chr(i)) != "Cs"]
    texts = ["".join(characters[at : at + 500]) for at in range(0, len(characters), 500)] + ["ΑΣ", "straße", "ΌΣΟΣ ΣΑΣ"]
    node = call(name, ref(0, TEXT))
    found = answers([scalar_sql(SPARK, node)], [TEXT], [(text,) for text in texts])
    assert [cell for (cell,) in found] == [evaluate(node, (text,)) for text in texts]


def test_doubles_of_every_size() -> None:
    names, pairs = ("add", "sub", "mul", "div", "mod", "power"), any_doubles(1000)
    nodes = [call(name, ref(0, DOUBLE), ref(1, DOUBLE)) for name in names]
    found = answers([scalar_sql(SPARK, node) for node in nodes], [DOUBLE, DOUBLE], pairs)
    for pair, cells in zip(pairs, found, strict=True):
        for name, node, got in zip(names, nodes, cells, strict=True):
            assert same(got, evaluate(node, pair), name == "power"), (name, pair, got)


def test_logarithms_of_powers_are_whole() -> None:
    """Spark's LOG2 is a quotient of logarithms, and 29.000000000000004 for 2^29."""
    rows = [(2.0**k,) for k in range(-1074, 1024)]
    found = answers([scalar_sql(SPARK, call("log2", ref(0, DOUBLE)))], [DOUBLE], rows)
    assert [cell for (cell,) in found] == [float(k) for k in range(-1074, 1024)]


def test_a_pattern_that_nearly_fits_many_times_is_answered() -> None:
    """Tried again from every place, each of these takes longer than any caller waits."""
    patterns = ("%a%a%a%a%ab", "%a_%a_%a_%a_%ac%", "%a_a%a_a%b_a%", "_%a%a%a%a%b")
    nodes = [call("like", ref(0, TEXT), literal(pattern, TEXT)) for pattern in patterns]
    written = [scalar_sql(SPARK, node) for node in nodes]
    for generated in (False, True):
        assert answers(written, (TEXT,), [("a" * 3000,)], generated=generated) == [(False,) * len(patterns)]
