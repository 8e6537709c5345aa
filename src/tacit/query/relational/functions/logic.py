"""Conditions in three-valued logic: AND, OR, NOT, comparisons, IS NULL, COALESCE, LIKE."""

from __future__ import annotations

import re
from collections.abc import Callable

from tacit.query.refusal import Refusal
from tacit.query.relational.functions.registry import Args, Function, register
from tacit.query.relational.functions.signatures import a_text, arity, booleans, coerce_all, compared, constant_text
from tacit.query.types import BOOLEAN, Range, SqlType, Value, hull

#: Runs of % in one LIKE pattern, and its characters: matching takes time in proportion to both and to the text.
MAX_WILDCARDS = 6
MAX_PATTERN = 200


def _comparison(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        return coerce_all(compared(args), f"The comparison {name}")[0], BOOLEAN

    return signature


def _connective(name: str, most: int = 10_000) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1, most)
        return booleans(name, args), BOOLEAN

    return signature


def _null_signature(args: Args) -> tuple[Args, SqlType]:
    arity("is null", args, 1)
    return args, BOOLEAN


def _coalesce_signature(args: Args) -> tuple[Args, SqlType]:
    arity("coalesce", args, 1, 64)
    return coerce_all(args, "COALESCE")


def _like_signature(args: Args) -> tuple[Args, SqlType]:
    arity("like", args, 2)
    pattern = constant_text("like", args[1], "the pattern")
    if len(re.findall("%+", pattern)) > MAX_WILDCARDS:
        raise Refusal("pattern", f"A LIKE pattern may hold at most {MAX_WILDCARDS} groups of %; shorten it.")
    if len(pattern) > MAX_PATTERN:
        raise Refusal("pattern", f"A LIKE pattern may have at most {MAX_PATTERN} characters; use = or CONTAINS.")
    return (a_text("like", args[0]), args[1]), BOOLEAN


def _and(*args: bool | None) -> bool | None:
    return False if False in args else None if None in args else True


def _or(*args: bool | None) -> bool | None:
    return True if True in args else None if None in args else False


def _first(*args: Value | None) -> Value | None:
    return next((arg for arg in args if arg is not None), None)


def _like(value: str, pattern: str) -> bool:
    """Each text between two % is looked for from where the one before it was found, so nothing is tried twice."""
    first, *others = re.split("%+", pattern)
    if not others:
        return len(value) == len(first) and _fits(value, first, 0)
    *middle, last = others
    end = len(value) - len(last)
    place = len(first)
    if place > end or not _fits(value, first, 0) or not _fits(value, last, end):
        return False
    for part in middle:
        while place + len(part) <= end and not _fits(value, part, place):
            place += 1
        place += len(part)
    return place <= end


def _fits(value: str, part: str, place: int) -> bool:
    """Whether a text without %, in which _ is any character, stands at some place."""
    if "_" not in part:
        return value.startswith(part, place)
    return len(value) - place >= len(part) and all(
        want in ("_", have) for want, have in zip(part, value[place:], strict=False)
    )


def _ilike(value: str, pattern: str) -> bool:
    return _like(value.lower(), pattern.lower())


def _coalesce_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    return hull(arg.range for arg in args if arg.values != (None,))


def register_all() -> None:
    """Enter the functions of this module."""
    comparisons: dict[str, tuple[str, Callable[..., bool]]] = {
        "eq": ("=", lambda x, y: x == y),
        "ne": ("<>", lambda x, y: x != y),
        "lt": ("<", lambda x, y: x < y),
        "le": ("<=", lambda x, y: x <= y),
        "gt": (">", lambda x, y: x > y),
        "ge": (">=", lambda x, y: x >= y),
    }
    for name, (symbol, test) in comparisons.items():
        register(Function(name, f"x {symbol} y", _comparison(symbol), test))
    for function in (
        Function(
            "same",
            "x IS NOT DISTINCT FROM y",
            _comparison("IS DISTINCT"),
            lambda x, y: x == y,
            strict=False,
            never_null=True,
        ),
        Function("and", "all true", _connective("and"), _and, strict=False),
        Function("or", "any true", _connective("or"), _or, strict=False),
        Function("not", "the opposite", _connective("not", 1), lambda x: not x),
        Function("is_null", "x IS NULL", _null_signature, lambda x: x is None, strict=False, never_null=True),
        Function("is_true", "x IS TRUE", _connective("is true", 1), lambda x: x is True, strict=False, never_null=True),
        Function("coalesce", "first that is not NULL", _coalesce_signature, _first, _coalesce_range, strict=False),
        Function("like", "x LIKE pattern", _like_signature, _like, cost=16),
        Function("ilike", "x ILIKE pattern", _like_signature, _ilike, cost=64),
    ):
        register(function)
