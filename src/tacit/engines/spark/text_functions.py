"""Text functions of Spark: code points and the order of UTF-8 bytes.

Java maps the case of some letters to several letters, and of sigma by where it stands. The registry maps letter by
letter, so texts that are not ASCII alone go through its own table.
"""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Sequence
from functools import cache

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.lowering import Args, Lowering, plain, text_argument
from tacit.query.relational.expressions import Call, Literal
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.relational.functions.regular_expressions import automaton, written

__all__ = ["TEXTS"]


@cache
def _table(name: str) -> tuple[str, str]:
    """The letters beyond ASCII that ``upper`` or ``lower`` changes, and what they become."""
    compute = REGISTRY[name].evaluate
    changed = {char: new for char in map(chr, range(128, sys.maxunicode + 1)) if (new := compute(char)) != char}
    return "".join(changed), "".join(map(str, changed.values()))


def _mapped(d: Dialect, name: str, value: str) -> str:
    letters, others = _table(name)

    def by_letter(v: str) -> str:
        # ASCII letters first: their own mapping is the same everywhere.
        ascii_first = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        old, new = ascii_first if name == "upper" else reversed(ascii_first)
        table = f"translate({v}, {d.text(old + letters)}, {d.text(new + others)})"
        return f"CASE WHEN octet_length({v}) = length({v}) THEN {name}({v}) ELSE {table} END"

    return d.let(value, by_letter)


def _case(name: str) -> Lowering:
    return lambda d, node, args: _mapped(d, name, args[0])  # noqa: ARG005


def _pattern(pattern: str) -> str:
    """A LIKE pattern as a regular expression of Java that looks for each part once, from where the last one was found.

    Spark's own turns % into ``.*``, which goes back and tries again: with several of them for hours, over a text of
    a thousand letters. A group that is atomic never goes back, and need not: the first place is the best one.
    """
    first, *others = (_quoted(part) for part in re.split("%+", pattern))
    if not others:
        return f"(?s)\\A{first}\\z"
    *middle, last = others
    return f"(?s)\\A{first}{''.join(f'(?>.*?{part})' for part in middle if part)}.*{last}\\z"


def _quoted(part: str) -> str:
    signs = {"_": "."} | {char: f"\\{char}" for char in string.punctuation if char != "_"}
    return "".join(signs.get(char, char) for char in part)


def _like(d: Dialect, node: Call, args: Args) -> str:
    return f"({args[0]} RLIKE {d.text(_pattern(_constant(node)))})"


def _ilike(d: Dialect, node: Call, args: Args) -> str:
    small = REGISTRY["lower"].evaluate(_constant(node))
    return f"({_mapped(d, 'lower', args[0])} RLIKE {d.text(_pattern(str(small)))})"


def _constant(node: Call) -> str:
    pattern = node.args[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise InternalError("the pattern of LIKE is a constant")
    return pattern.value


def _regexp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    """The automaton, one step per character: Java goes back and forth, for hours on some texts."""
    found = automaton(text_argument(node, 1))
    table = f"`array`({', '.join(str(state) for row in found.steps for state in row)})"
    kind = _class_of("ascii(c)", found.starts, 0)
    step = f"CASE WHEN c = '' THEN s ELSE element_at({table}, s * {len(found.starts)} + {kind} + 1) END"
    fits = f"s IN ({', '.join(map(str, sorted(found.accepts) or [-1]))})"
    return f"aggregate(split({args[0]}, ''), CAST(0 AS INT), (s, c) -> {step}, s -> {fits})"


def _class_of(code: str, starts: Sequence[int], first: int) -> str:
    """The class of a code point, by halving."""
    if len(starts) == 1:
        return str(first)
    half = len(starts) // 2
    below, above = _class_of(code, starts[:half], first), _class_of(code, starts[half:], first + half)
    return f"CASE WHEN {code} < {starts[half]} THEN {below} ELSE {above} END"


def _run(template: str) -> Lowering:
    """Of one set of characters, or a run of them: nothing to go back for."""

    def lower(d: Dialect, node: Call, args: Args) -> str:
        pattern = d.text(written(text_argument(node, 1), lambda point: f"\\x{{{point:x}}}"))
        return template.format(args[0], pattern, *args[2:])

    return lower


def _counting(name: str) -> Lowering:
    """A function whose other arguments are small whole numbers and texts; Spark wants 32 bits."""

    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
        rest = [
            arg if part.type.kind.value == "text" else f"CAST({arg} AS INT)"
            for arg, part in zip(args[1:], node.args[1:], strict=True)
        ]
        return f"{name}({', '.join([args[0], *rest])})"

    return lower


def _all(template: str, separator: str) -> Lowering:
    return lambda d, node, args: template.format(separator.join(args))  # noqa: ARG005


TEXTS: dict[str, Lowering] = {
    "upper": _case("upper"),
    "lower": _case("lower"),
    "trim": plain("btrim({0}, ' ')"),
    "ltrim": plain("ltrim(' ', {0})"),
    "rtrim": plain("rtrim(' ', {0})"),
    "length": plain("CAST(length({0}) AS BIGINT)"),
    "strpos": plain("CAST(locate({1}, {0}) AS BIGINT)"),
    "contains": plain("contains({0}, {1})"),
    "starts_with": plain("startswith({0}, {1})"),
    "ends_with": plain("endswith({0}, {1})"),
    **{name: _counting(name) for name in ("substring", "left", "right", "lpad", "rpad", "split_part")},
    "replace": plain("replace({0}, {1}, {2})"),
    "concat_ws": _all("concat_ws({0})", ", "),
    "repeat": _counting("repeat"),
    "regexp": _regexp,
    "regexp_extract": _run("regexp_extract({0}, {1}, 0)"),
    "regexp_replace": _run("regexp_replace({0}, {1}, {2})"),
    "join_text": _all("({0})", " || "),
    "concat": _all("concat_ws('', {0})", ", "),
    "like": _like,
    "ilike": _ilike,
}
