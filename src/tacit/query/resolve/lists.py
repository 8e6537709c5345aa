"""Lists: texts that a sign divides, as tests of membership and as rows.

A list is ``STRING_SPLIT(x, ',')``, or a column whose source holds lists: that is a text in which U+001F stands before
each value. A list is no value of its own: LIST_CONTAINS asks whether a text is among its values, and UNNEST has a row
for each of the first :data:`MOST` ones. These are rows of the person whose row the list is in, by a join with a public
series, so ownership and the bound on work are those of any join with public rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import Field, JoinKind, RelationNode, reference
from tacit.query.relational.expressions import Expression, Literal, literal, shift
from tacit.query.relational.functions import call, cast
from tacit.query.types import BOOLEAN, INTEGER, TEXT, union

#: The sign before each value of a stored list.
SEPARATOR: Final = "\x1f"
#: So many values of a list become rows.
MOST: Final = 64
_SPLITS: Final = ("string_split", "str_split", "split", "string_to_array")
#: Tests of membership, with the list first.
CONTAINS: Final = ("list_contains", "list_has", "array_contains", "array_has")
Resolve = Callable[[exp.Expr], Expression]


def contains(name: str, args: list[exp.Expr], resolve: Resolve) -> Expression:
    """LIST_CONTAINS(list, 'value').

    With the sign before and after the whole, a value stands between two signs where it is one of the list. No sign
    overlaps with itself, so every place where it is found divides values.
    """
    if len(args) != 2:
        raise Refusal("arguments", f"{name.upper()} takes a list and a value.")
    values, sign, stored = _list_of(name, args[0], resolve)
    wanted = resolve(args[1])
    if not isinstance(wanted, Literal) or wanted.value is None:
        raise Refusal("arguments", f"{name.upper()} asks for a value that is written out.")
    text = cast(wanted, TEXT)
    found = str(text.value) if isinstance(text, Literal) else ""
    if sign in found or (stored and not found):
        # No value of the list is such a text.
        return call("and", call("is_null", values), literal(None, BOOLEAN))
    around = literal(sign, TEXT)
    whole = call("join_text", values, around) if stored else call("join_text", around, values, around)
    return call("contains", whole, literal(f"{sign}{found}{sign}", TEXT))


def _list_of(name: str, node: exp.Expr, resolve: Resolve) -> tuple[Expression, str, bool]:
    """The text of a list, its sign, and whether it is a stored one, where the sign stands before each value."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in _SPLITS:
        found = resolve(node)
        if found.type != TEXT:
            raise Refusal("type", f"{name.upper()} takes a list, not {found.type}; STRING_SPLIT(x, ',') makes one.")
        return found, SEPARATOR, True
    value, sign = (resolve(part) for part in node.expressions) if len(node.expressions) == 2 else (None, None)
    text = sign.value if isinstance(sign, Literal) and isinstance(sign.value, str) else ""
    if value is None or value.type != TEXT or not text or any(text[:i] == text[-i:] for i in range(1, len(text))):
        raise Refusal("arguments", "STRING_SPLIT takes a text and a sign that divides it, written out, such as ','.")
    return value, text, False


def unnested(source: RelationNode, node: exp.Expr, resolve: Resolve) -> tuple[RelationNode, Expression]:
    """The rows of a source, once for each value of a list in them, and that value."""
    values, sign, stored = _list_of("UNNEST", node, resolve)
    places = [literal(place, INTEGER) for place in range(1, MOST + 1)]
    series = ownership.constants(
        [(place,) for place in places], (Field("place", INTEGER, union([place.domain for place in places], INTEGER)),)
    )
    text = call("substring", values, literal(2, INTEGER)) if stored else values
    gone = call(
        "sub", call("length", text), call("length", call("replace", text, literal(sign, TEXT), literal("", TEXT)))
    )
    number = call("add", call("int_div", gone, literal(len(sign), INTEGER)), literal(1, INTEGER))
    width = len(source.fields)
    within = call("le", shift(reference(series, 0), width), number)
    if stored:
        within = call("and", within, call("starts_with", values, literal(sign, TEXT)))
    joined = ownership.join_beside(source, series, JoinKind.INNER, within)
    return joined, call("list_part", text, literal(sign, TEXT), reference(joined, width))
