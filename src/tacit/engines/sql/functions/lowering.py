"""Type of a lowering: dialect, call and argument SQL to SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tacit.query.relational.expressions import Call, Literal

if TYPE_CHECKING:
    from tacit.engines.sql.dialect import Dialect

Args = list[str]
Lowering = Callable[["Dialect", Call, Args], str]


def plain(template: str) -> Lowering:
    """A lowering that only puts its arguments into a template with ``{0}``, ``{1}`` and so on."""
    return lambda d, node, args: template.format(*args)  # noqa: ARG005


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
