"""Functions of text: positions and lengths count code points, trimming removes spaces, case is mapped one to one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions.casts import can_cast
from tacit.query.relational.functions.registry import Args, Function, register
from tacit.query.relational.functions.signatures import a_text, arity, coerce, constant_int, constant_text, texts
from tacit.query.types import BOOLEAN, INTEGER, TEXT, Range, SqlType, Value

#: The longest text that padding may produce, and the farthest position a query may name.
MAX_LENGTH = 1000
#: The most copies of a text that REPEAT makes.
MAX_REPEAT = 64


def _each(convert: Callable[[str], str]) -> Callable[[str], str]:
    """Case mapping that keeps the length: characters whose other case is several characters stay as they are."""
    return lambda value: "".join(new if len(new := convert(char)) == 1 else char for char in value)


def _part(name: str, least: int, most: int) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, least, most)
        for index, arg in enumerate(args[1:]):
            constant_int(name, arg, 1 if name == "substring" and index == 0 else 0, MAX_LENGTH, "a position or length")
        return (a_text(name, args[0]), *args[1:]), TEXT

    return signature


def _pad(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 3)
        constant_int(name, args[1], 0, MAX_LENGTH, "the length")
        if not constant_text(name, args[2], "the filling"):
            raise Refusal("arguments", f"{name.upper()} needs a filling of at least one character.")
        return (a_text(name, args[0]), args[1], args[2]), TEXT

    return signature


def _split_signature(args: Args) -> tuple[Args, SqlType]:
    arity("split_part", args, 3)
    if not constant_text("split_part", args[1], "the separator"):
        raise Refusal("arguments", "SPLIT_PART needs a separator of at least one character.")
    constant_int("split_part", args[2], 1, MAX_LENGTH, "the position")
    return (a_text("split_part", args[0]), args[1], args[2]), TEXT


def _part_signature(args: Args) -> tuple[Args, SqlType]:
    arity("list_part", args, 3)
    constant_text("list_part", args[1], "the sign")
    ends = args[2].range.ends
    if args[2].type != INTEGER or ends is None or ends[0] < 1 or ends[1] > MAX_LENGTH:
        raise Refusal("arguments", "A place in a list is a whole number from 1 on.")
    return (a_text("list_part", args[0]), *args[1:]), TEXT


def _replace_signature(args: Args) -> tuple[Args, SqlType]:
    arity("replace", args, 3)
    if not constant_text("replace", args[1], "what to search"):
        raise Refusal("arguments", "REPLACE needs at least one character to search for.")
    constant_text("replace", args[2], "the replacement")
    return (a_text("replace", args[0]), args[1], args[2]), TEXT


def _concat_signature(args: Args) -> tuple[Args, SqlType]:
    arity("concat", args, 1, 64)
    for arg in args:
        if not can_cast(arg.type, TEXT):
            raise Refusal("type", f"|| and CONCAT need text, not {arg.type}; cast the value first.")
    return tuple(coerce(arg, TEXT) for arg in args), TEXT


def _separated_signature(args: Args) -> tuple[Args, SqlType]:
    arity("concat_ws", args, 2, 64)
    constant_text("concat_ws", args[0], "the separator")
    return (args[0], *_concat_signature(args[1:])[0]), TEXT


def _separated_growth(args: Args) -> int:
    return sum(arg.domain.growth for arg in args[1:]) + len(args) * len(_text_of(args[0])) // 64


def _repeat_signature(args: Args) -> tuple[Args, SqlType]:
    arity("repeat", args, 2)
    constant_int("repeat", args[1], 0, MAX_REPEAT, "the number of times")
    return (a_text("repeat", args[0]), args[1]), TEXT


def _repeat_growth(args: Args) -> int:
    count = args[1].value if isinstance(args[1], Literal) else 1
    return args[0].domain.growth * max(1, count if isinstance(count, int) else 1)


def _text_of(arg: Expression) -> str:
    return str(arg.value) if isinstance(arg, Literal) else ""


def _concat_growth(args: Args) -> int:
    return sum(arg.domain.growth for arg in args)


def replacement_growth(args: Args) -> int:
    """Growth of a text in which others are replaced by the third argument, a constant."""
    return args[0].domain.growth * max(1, len(_text_of(args[2])))


def _pad_growth(args: Args) -> int:
    return args[0].domain.growth + MAX_LENGTH // 64


def _substring(value: str, start: int, length: int | None = None) -> str:
    return value[start - 1 :] if length is None else value[start - 1 : start - 1 + length]


def _lpad(value: str, length: int, filling: str) -> str:
    missing = length - len(value)
    return value[:length] if missing <= 0 else (filling * missing)[:missing] + value


def _rpad(value: str, length: int, filling: str) -> str:
    missing = length - len(value)
    return value[:length] if missing <= 0 else value + (filling * missing)[:missing]


def _split(value: str, separator: str, index: int) -> str:
    parts = value.split(separator)
    return parts[index - 1] if index <= len(parts) else ""


def _lengths(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    return Range(Fraction(0), None)


def _separated(separator: str | None, *args: str | None) -> Value | None:
    return None if separator is None else separator.join(arg for arg in args if arg is not None)


def _joined(*args: str | None) -> Value | None:
    return "".join(arg for arg in args if arg is not None)


def register_all() -> None:
    """Enter the functions of this module."""
    simple: dict[str, tuple[str, Callable[[str], str]]] = {
        "upper": ("capital letters", _each(str.upper)),
        "lower": ("small letters", _each(str.lower)),
        "trim": ("without spaces at both ends", lambda s: s.strip(" ")),
        "ltrim": ("without spaces in front", lambda s: s.lstrip(" ")),
        "rtrim": ("without spaces behind", lambda s: s.rstrip(" ")),
    }
    for name, (summary, compute) in simple.items():
        # Letters beyond ASCII are mapped by a table.
        register(Function(name, summary, texts(name, 1, TEXT), compute, cost=32 if name in ("upper", "lower") else 4))
    for function in (
        Function("length", "code points", texts("length", 1, INTEGER), len, _lengths),
        Function(
            "strpos",
            "first place of y in x, 0 for none",
            texts("strpos", 2, INTEGER),
            lambda x, y: x.find(y) + 1,
            _lengths,
            cost=8,
        ),
        Function("contains", "whether y is in x", texts("contains", 2, BOOLEAN), lambda x, y: y in x, cost=8),
        Function("starts_with", "whether x begins with y", texts("starts_with", 2, BOOLEAN), str.startswith),
        Function("ends_with", "whether x ends with y", texts("ends_with", 2, BOOLEAN), str.endswith),
        Function("substring", "from a place ≥ 1, some length", _part("substring", 2, 3), _substring),
        Function("left", "first n", _part("left", 2, 2), lambda s, n: s[:n]),
        Function("right", "last n", _part("right", 2, 2), lambda s, n: s[-n:] if n else ""),
        Function("lpad", "padded or cut to n", _pad("lpad"), _lpad, growth=_pad_growth, cost=4),
        Function("rpad", "padded or cut to n", _pad("rpad"), _rpad, growth=_pad_growth, cost=4),
        Function("split_part", "n-th part", _split_signature, _split, cost=8),
        Function("list_part", "n-th value of a list, n ≥ 1 out of a public series", _part_signature, _split, cost=8),
        Function(
            "replace",
            "each y replaced by z",
            _replace_signature,
            lambda s, y, z: s.replace(y, z),
            growth=replacement_growth,
            cost=16,
        ),
        Function(
            "concat_ws",
            "joined by a separator, NULLs left out",
            _separated_signature,
            _separated,
            growth=_separated_growth,
            cost=4,
            strict=False,
            never_null=True,
        ),
        Function("repeat", "x so many times", _repeat_signature, lambda s, n: s * n, growth=_repeat_growth, cost=4),
        Function("join_text", "x || y; NULL if one is", _concat_signature, _joined, growth=_concat_growth, cost=4),
        Function(
            "concat",
            "joined, NULLs left out",
            _concat_signature,
            _joined,
            growth=_concat_growth,
            cost=4,
            strict=False,
            never_null=True,
        ),
    ):
        register(function)
