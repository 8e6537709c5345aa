"""Functions of text: positions and lengths count code points, trimming removes spaces, case is mapped one to one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions.registry import (
    Args,
    Function,
    a_text,
    can_cast,
    coerce,
    register,
    takes,
    whole,
    written,
)
from tacit.query.types import BOOLEAN, INTEGER, TEXT, Range

#: Longest text that padding may produce, and farthest position that a query may state.
MAX_LENGTH = 1000
#: Most copies of a text that REPEAT makes.


def _each(convert: Callable[[str], str]) -> Callable[[str], str]:
    """Return a case mapping that keeps the length: a character whose other case is several characters is kept."""
    return lambda value: "".join(new if len(new := convert(char)) == 1 else char for char in value)


def _place(name: str, arg: Expression) -> Expression:
    ends = arg.range.ends
    if arg.type != INTEGER or ends is None or ends[0] < 1 or ends[1] > MAX_LENGTH:
        raise Refusal("arguments", f"{name}: a place in a list is a whole number from 1 on.")
    return arg


def _any_text(name: str, arg: Expression) -> Expression:
    if not can_cast(arg.type, TEXT):
        raise Refusal("type", f"{name} needs text, not {arg.type}; cast the value first.")
    return coerce(arg, TEXT)


def _text_of(arg: Expression) -> str:
    return str(arg.value) if isinstance(arg, Literal) else ""


def _separated_growth(args: Args) -> int:
    return _joined_growth(args[1:]) + len(args) * len(_text_of(args[0])) // 64


def _joined_growth(args: Args) -> int:
    return sum(arg.domain.growth for arg in args)


def replacement_growth(args: Args) -> int:
    """Return the growth of a text in which parts are replaced by the third argument, a constant."""
    return args[0].domain.growth * max(1, len(_text_of(args[2])))


def _pad_growth(args: Args) -> int:
    return args[0].domain.growth + MAX_LENGTH // 64


def _substring(value: str, start: int, length: int | None = None) -> str:
    return value[start - 1 :] if length is None else value[start - 1 : start - 1 + length]


def _filling(value: str, length: int, filling: str) -> str:
    missing = length - len(value)
    return (filling * missing)[:missing]


def _split(value: str, separator: str, index: int) -> str:
    parts = value.split(separator)
    return parts[index - 1] if index <= len(parts) else ""


def _lengths(args: Args) -> Range:  # noqa: ARG001 - one shape for all rules
    return Range(Fraction(0), None)


def _separated(separator: str | None, *args: str | None) -> str | None:
    return None if separator is None else separator.join(arg for arg in args if arg is not None)


def _joined(*args: str | None) -> str:
    return "".join(arg for arg in args if arg is not None)


_LENGTH = whole(0, MAX_LENGTH, "a position or length")
_one, _two = takes(a_text, result=TEXT), takes(a_text, a_text, result=BOOLEAN)
_part = takes(a_text, _LENGTH, result=TEXT)
_pad = takes(a_text, whole(0, MAX_LENGTH, "the length"), written("the filling", least=1), result=TEXT)
_join = takes(_any_text, result=TEXT)
# Letters beyond ASCII are mapped by a table.
register(
    Function("upper", "capital letters", 1, _one, _each(str.upper), cost=32, also="ucase"),
    Function("lower", "small letters", 1, _one, _each(str.lower), cost=32, also="lcase"),
    Function("trim", "without spaces at both ends", 1, _one, lambda s: s.strip(" "), cost=4, also="btrim"),
    Function("ltrim", "without spaces in front", 1, _one, lambda s: s.lstrip(" "), cost=4),
    Function("rtrim", "without spaces behind", 1, _one, lambda s: s.rstrip(" "), cost=4),
    Function(
        "length", "code points", 1, takes(a_text, result=INTEGER), len, _lengths,
        also="len char_length character_length",
    ),
    Function(
        "strpos", "first place of y in x, 0 for none", 2, takes(a_text, a_text, result=INTEGER),
        lambda x, y: x.find(y) + 1, _lengths, cost=8, also="instr",
    ),
    Function("contains", "whether y is in x", 2, _two, lambda x, y: y in x, cost=8),
    Function("starts_with", "whether x begins with y", 2, _two, str.startswith, also="prefix startswith"),
    Function("ends_with", "whether x ends with y", 2, _two, str.endswith, also="suffix endswith"),
    Function(
        "substring", "from a place ≥ 1, some length", (2, 3),
        takes(a_text, whole(1, MAX_LENGTH, "a position or length"), _LENGTH, result=TEXT), _substring, also="substr",
    ),
    Function("left", "first n", 2, _part, lambda s, n: s[:n]),
    Function("right", "last n", 2, _part, lambda s, n: s[-n:] if n else ""),
    Function(
        "lpad", "padded or cut to n", 3, _pad, lambda s, n, filling: _filling(s, n, filling) + s[:n],
        growth=_pad_growth, cost=4,
    ),
    Function(
        "rpad", "padded or cut to n", 3, _pad, lambda s, n, filling: s[:n] + _filling(s, n, filling),
        growth=_pad_growth, cost=4,
    ),
    Function(
        "split_part", "n-th part", 3,
        takes(a_text, written("the separator", least=1), whole(1, MAX_LENGTH, "the position"), result=TEXT), _split,
        cost=8,
    ),
    Function(
        "list_part", "n-th value of a list, n ≥ 1 out of a public series", 3,
        takes(a_text, written("the sign"), _place, result=TEXT), _split, cost=8, inner=True, sign="UNNEST",
    ),
    Function(
        "replace", "each y replaced by z", 3,
        takes(a_text, written("what to search", least=1), written("the replacement"), result=TEXT),
        lambda s, y, z: s.replace(y, z), growth=replacement_growth, cost=16,
    ),
    Function(
        "concat_ws", "joined by a separator, NULLs left out", (2, 64),
        takes(written("the separator"), _any_text, result=TEXT), _separated, growth=_separated_growth, cost=4,
        strict=False, never_null=True,
    ),
    Function(
        "join_text", "x || y; NULL if one is", (1, 64), _join, _joined, growth=_joined_growth, cost=4, inner=True,
        sign="||",
    ),
    Function(
        "concat", "joined, NULLs left out", (1, 64), _join, _joined, growth=_joined_growth, cost=4, strict=False,
        never_null=True,
    ),
)  # fmt: skip
