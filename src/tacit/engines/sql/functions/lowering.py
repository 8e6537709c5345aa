"""Lowerings: from dialect, call and SQL of the arguments to SQL; those that need no more than a template."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from tacit.query.relational.expressions import Call, Literal
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.relational.functions.regular_expressions import written

if TYPE_CHECKING:
    from tacit.engines.sql.dialect import Dialect

Args = list[str]
Lowering = Callable[["Dialect", Call, Args], str]


def plain(template: str) -> Lowering:
    """A lowering that only puts its arguments into a template with ``{0}``, ``{1}`` and so on."""
    return lambda d, node, args: template.format(*args)  # noqa: ARG005


def joined(template: str, separator: str) -> Lowering:
    """A lowering that puts all of its arguments, with a separator between them, into a template."""
    return lambda d, node, args: template.format(separator.join(args))  # noqa: ARG005


def patterned(template: str) -> Lowering:
    """A lowering with a regular expression as its second argument, for libraries that name a letter by its number."""
    return lambda d, node, args: template.format(args[0], _pattern(d, node), *args[2:])


def _pattern(d: Dialect, node: Call) -> str:
    return d.text(written(text_argument(node, 1), lambda point: f"\\x{{{point:x}}}"))


@cache
def letter_table(name: str) -> tuple[str, str]:
    """The letters beyond ASCII that ``upper`` or ``lower`` changes, and what they become."""
    compute = REGISTRY[name].evaluate
    changed = {char: new for char in map(chr, range(128, sys.maxunicode + 1)) if (new := compute(char)) != char}
    return "".join(changed), "".join(map(str, changed.values()))


def whole_argument(node: Call, index: int) -> int:
    """An argument that the registry makes sure is a whole-number constant; 0 where it is left out."""
    if index >= len(node.args):
        return 0
    arg = node.args[index]
    if not isinstance(arg, Literal) or not isinstance(arg.value, int):
        raise TypeError(f"argument {index} of {node.function} is not a constant number")
    return int(arg.value)


def text_argument(node: Call, index: int) -> str:
    """An argument that the registry makes sure is a text constant."""
    arg = node.args[index]
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise TypeError(f"argument {index} of {node.function} is not a constant text")
    return arg.value


def word_argument(node: Call, index: int) -> str:
    """The same in small letters."""
    return text_argument(node, index).lower()


# Conditions: SQL's three-valued logic is the database's own -----------------------------------------------------------


CONDITIONS: dict[str, Lowering] = {
    "eq": plain("({0} = {1})"),
    "ne": plain("({0} <> {1})"),
    "lt": plain("({0} < {1})"),
    "le": plain("({0} <= {1})"),
    "gt": plain("({0} > {1})"),
    "ge": plain("({0} >= {1})"),
    "same": plain("({0} IS NOT DISTINCT FROM {1})"),
    "and": joined("({0})", " AND "),
    "or": joined("({0})", " OR "),
    "not": plain("(NOT {0})"),
    "is_null": plain("({0} IS NULL)"),
    "is_true": plain("({0} IS TRUE)"),
    "coalesce": joined("coalesce({0})", ", "),
}
