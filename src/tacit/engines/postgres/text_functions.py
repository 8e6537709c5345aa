"""Text functions of PostgreSQL under the collation "C".

The bytes are UTF-8 (other servers are refused), whose order is that of code points. Letters are mapped by a table of
ours, because the database's own mapping is ASCII's under "C" and the operating system's elsewhere.
"""

from __future__ import annotations

import sys
from functools import cache

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.lowering import Args, Lowering, plain, text_argument
from tacit.query.relational.expressions import Call
from tacit.query.relational.functions.regular_expressions import written

__all__ = ["COLLATION", "TEXTS", "literal"]

COLLATION = 'COLLATE "C"'


def literal(value: str) -> str:
    """A text constant; ``standard_conforming_strings`` is on.

    It says its type: functions of any type, as LAG is, refuse a constant of unknown type.
    """
    doubled = value.replace("'", "''")
    return f"(CAST('{doubled}' AS TEXT) {COLLATION})"


@cache
def _letters(name: str) -> tuple[str, str]:
    """Characters that change, and what they change to: those for which it is one character."""
    convert = str.upper if name == "upper" else str.lower
    pairs = [
        (char, convert(char))
        for char in map(chr, range(128, sys.maxunicode + 1))
        if len(convert(char)) == 1 and convert(char) != char
    ]
    return "".join(char for char, _ in pairs), "".join(new for _, new in pairs)


def _mapped(name: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
        return cased(d, name, args[0])

    return lower


def cased(d: Dialect, name: str, value: str) -> str:
    """A text in capital (``upper``) or small (``lower``) letters; texts of ASCII alone go the short way."""
    old, new = map(literal, _letters(name))

    def body(v: str) -> str:
        return (
            f"CASE WHEN octet_length({v}) = length({v}) THEN {name}({v}) ELSE translate({name}({v}), {old}, {new}) END"
        )

    return d.let(value, body)


def _like(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    # No escape character.
    return f"({args[0]} LIKE {args[1]} ESCAPE '')"


def _ilike(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return f"({cased(d, 'lower', args[0])} LIKE {cased(d, 'lower', args[1])} ESCAPE '')"


def _all(template: str, separator: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
        return template.format(separator.join(args))

    return lower


def _pattern(node: Call) -> str:
    return literal(written(text_argument(node, 1), _point, first=1))


def _point(number: int) -> str:
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _regexp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    # No part of the text is asked for, so one pass of the automaton decides.
    return f"({args[0]} ~ {_pattern(node)})"


def _run(template: str) -> Lowering:
    return lambda d, node, args: d.let(args[0], lambda v: template.format(v, _pattern(node), *args[2:]))


def _substring(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return f"substr({', '.join([args[0], *(f'CAST({arg} AS INTEGER)' for arg in args[1:])])})"


TEXTS: dict[str, Lowering] = {
    "upper": _mapped("upper"),
    "lower": _mapped("lower"),
    "trim": plain("btrim({0}, ' ')"),
    "ltrim": plain("ltrim({0}, ' ')"),
    "rtrim": plain("rtrim({0}, ' ')"),
    "length": plain("CAST(length({0}) AS BIGINT)"),
    "strpos": plain("CAST(strpos({0}, {1}) AS BIGINT)"),
    "contains": plain("(strpos({0}, {1}) > 0)"),
    "starts_with": plain("starts_with({0}, {1})"),
    "ends_with": plain("(right({0}, length({1})) = {1})"),
    "substring": _substring,
    "left": plain("left({0}, CAST({1} AS INTEGER))"),
    "right": plain("right({0}, CAST({1} AS INTEGER))"),
    "lpad": plain("lpad({0}, CAST({1} AS INTEGER), {2})"),
    "rpad": plain("rpad({0}, CAST({1} AS INTEGER), {2})"),
    "split_part": plain("split_part({0}, {1}, CAST({2} AS INTEGER))"),
    "replace": plain("replace({0}, {1}, {2})"),
    "concat_ws": _all("concat_ws({0})", ", "),
    "repeat": plain("repeat({0}, CAST({1} AS INTEGER))"),
    "regexp": _regexp,
    "regexp_extract": _run("coalesce(substring({0} FROM {1}), CASE WHEN {0} IS NOT NULL THEN '' END)"),
    "regexp_replace": _run("regexp_replace({0}, {1}, {2}, 'g')"),
    "join_text": _all("({0})", " || "),
    "concat": _all("concat({0})", ", "),
    "like": _like,
    "ilike": _ilike,
}
