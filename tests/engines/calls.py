"""Calls of every function on columns of every type."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction

from engines.edges import EDGES, ref
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Reference, literal
from tacit.query.relational.functions import REGISTRY, call
from tacit.query.types import DATE, TEXT, TIMESTAMP, Domain, Range, SqlType, Value

TYPES = list(EDGES)


#: Library functions may differ in the last digits between builds of a C library.
INEXACT = ("sqrt", "cbrt", "exp", "ln", "log2", "log10", "power")


def few(values: list[Value | None]) -> list[Value | None]:
    """Enough of the values to pair each with each."""
    return values if len(values) <= 40 else values[:30] + values[30::4]


def same(answer: object, want: object, inexact: bool) -> bool:
    if isinstance(answer, float) and isinstance(want, float):
        if math.copysign(1, answer) < 0 and answer == 0:
            return False
        return answer == want or (inexact and math.isclose(answer, want, rel_tol=1e-14))
    return type(answer) is type(want) and answer == want


def build(name: str, *args: Expression) -> Expression | None:
    try:
        return call(name, *args)
    except Refusal:
        return None


def narrow(slot: int, kind: SqlType) -> Reference:
    """A column presumed to be small, so that decimal results are chosen; the data does not keep to it."""
    return Reference(kind, Domain(Range(Fraction(-1000), Fraction(1000))), slot, "c")


ONE = [
    name
    for name in REGISTRY
    if name
    not in (
        "date_trunc", "date_diff", "make_date", "like", "ilike", "clamp", "round", "trunc", "strftime",
        "regexp", "regexp_extract", "regexp_replace", "concat_ws",
    )
]  # fmt: skip


TEXT_CALLS = [
    ("substring", (1,)), ("substring", (2, 3)), ("substring", (1000, 1)), ("substring", (1, 0)),
    ("left", (0,)), ("left", (2,)), ("right", (0,)), ("right", (2,)), ("right", (1000,)),
    ("lpad", (0, "x")), ("lpad", (4, "äß")), ("rpad", (4, "äß")), ("lpad", (2, "x")), ("rpad", (2, "x")),
    ("split_part", (",", 1)), ("split_part", (",", 9)), ("split_part", ("b", 2)), ("split_part", ("日", 2)),
    ("replace", ("a", "")), ("replace", ("aa", "b")), ("replace", ("日", "xx")),
    ("like", ("%",)), ("like", ("a%",)), ("like", ("_",)), ("like", ("%b_c%",)), ("like", ("",)), ("like", ("back\\slash",)),
    ("ilike", ("A%",)), ("ilike", ("É",)), ("ilike", ("%B",)), ("ilike", ("%A_%C%",)), ("ilike", ("_É%",)),
    ("regexp_replace", ("[^a-z]", "")), ("regexp_replace", ("[0-9]+", "<#>")),
    *(("regexp_extract", (pattern,)) for pattern in ("[0-9]+", "[a-z]", "\\s+", "[^,]+", "日", "[😀é]+", ".+")),
    *(("regexp", (pattern,)) for pattern in (
        "a", "^a", "b$", "^ab$", "a|b", "(ab|cd)+x?", "^[0-9]{4}-[0-9]{2}-[0-9]{2}", "\\d+\\.\\d*", "a.c", "", "x{2,}", "[^abc]",
        "(?i)abc", "[\\d]+$", "^[+-]?\\d", "(a|b)*b", "É", "[à-ü]", "\\.", "[]a]", "[a\\-z]", "^(?:a|bc){1,3}$", ".*", "^.{2}$",
        "日|😀", "^$", "\\s", "^\\S+$", "[$%'\"]", "\\\\", "e.$", "[^x]", "^(?:.|\\n)*e$",
    )),
    *(("like", (pattern,)) for pattern in (
        "%a%", "%a", "a%c", "%a%b%", "a%_%c", "_%_", "%_%", "%%", "_%c%", "%.%", "%\\%", "%[%", "%(a%", "%$%", "^%", "%*_",
        "%日%", "_日%", "é%", "%a_b%", "%'%", "%a%a%a%a%b", "% %", "%\n%", "a%%%c", "%-%1%", "{%}", "%|%", "%😀%", "_😀",
    )),
]  # fmt: skip


#: Functions of times with constants before or behind them.
FORMATS = (
    "%Y-%m-%d %H:%M:%S.%f",
    "%j %G-W%V-%u %w",
    "%A %a; %B %b 100%%",
    "%-d.%-m.%-H:%-M",
    "",
    "it's $x",
)


def time_calls() -> Iterator[tuple[Expression, SqlType]]:
    """STRFTIME of dates and timestamps."""
    for kind in (DATE, TIMESTAMP):
        for pattern in FORMATS:
            yield call("strftime", ref(0, kind), literal(pattern, TEXT)), kind


#: Patterns and a text over which a matcher that goes back takes longer than anyone can wait.
SLOW_PATTERNS = ("(a+)+$", "(a|aa)+$", "(a*)*(a*)*b", "(.*a){8}!x", "^(([a-z])+.)+[A-Z]([a-z])+$")
SLOW_TEXT = "a" * 20_000 + "!"


def any_doubles(count: int) -> list[tuple[float, float]]:
    """Pairs of every size, many of them such that their sum, product or quotient nearly overflows or vanishes."""
    pick = random.Random(8)
    found = []
    for _ in range(count):
        x = math.ldexp(pick.choice((-1, 1)) * (1 + pick.random()), pick.randrange(-1074, 1023))
        y = math.ldexp(pick.choice((-1, 1)) * (1 + pick.random()), pick.randrange(-1074, 1023))
        near = pick.choice((1.7976931348623157e308, 5e-324, 2.2250738585072014e-308))
        with_x = [near - x, near / x if abs(near / x) < 1e308 else y, x / near if abs(near) > 1 else y, x, -x]
        y = pick.choice([y, *(value for value in with_x if math.isfinite(value) and value != 0)])
        found.append((x or 1.0, y))
    return found
