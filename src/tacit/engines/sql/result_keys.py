"""Keys of the groups that a statement returned: as canonical values, in order, and where each stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from operator import lt
from typing import Any

from tacit.core.errors import InternalError
from tacit.engines.sql.group_choice import Groups
from tacit.query.types import Kind, SqlType, Value, sort_key

KeyTuple = tuple[Value | None, ...]


def keys_in_order(
    groups: Groups, found: list[tuple[Any, ...]]
) -> tuple[tuple[KeyTuple, ...], dict[tuple[Any, ...], int]]:
    """All private keys in order, and the place of each by its group columns as the database gave them."""
    kinds = groups.types
    if _sort_by_themselves(found, kinds):
        rows = sorted(set(found))
        places = {row: place for place, row in enumerate(rows)}
        exact = all(kind.kind is not Kind.DECIMAL for kind in kinds)
        return tuple(rows if exact else (tuple(map(value_of, row, kinds)) for row in rows)), places
    decoded = [tuple(map(value_of, row, kinds)) for row in found]
    order = sorted(set(decoded), key=lambda row: tuple(map(sort_key, row, kinds)))
    places = {key: place for place, key in enumerate(order)}
    return tuple(order), {row: places[key] for row, key in zip(found, decoded, strict=True)}


def listed_keys(
    columns: Sequence[Sequence[Any]], kinds: Sequence[SqlType], *, alone: bool
) -> tuple[tuple[KeyTuple, ...] | None, dict[tuple[Any, ...], int]]:
    """The same of groups in order, with few objects; None where Python sees another order, and no places if ``alone``.

    There may be as many keys as rows, and what they cost is then most of a question.
    """
    bodies = [list(each) for each in columns]
    for body, kind in zip(bodies, kinds, strict=True):
        if not set(map(type, body)) <= {_STORED.get(kind.kind), type(None)}:
            return None, {}
    stored = list(zip(*bodies, strict=True)) if len(bodies) > 1 or not alone else []
    ordered: list[Any] = stored if len(bodies) > 1 else bodies[0]
    if len(bodies) == 1 and ordered and ordered[-1] is None:
        ordered = ordered[:-1]
    try:
        if not all(map(lt, ordered, islice(ordered, 1, None))):
            return None, {}
    except TypeError:
        # Some NULL stands beside another value of its key.
        return None, {}
    if stored and all(kind.kind is not Kind.DECIMAL for kind in kinds):
        keys = stored
    else:
        values = (
            [value_of(cell, kind) for cell in body] if kind.kind is Kind.DECIMAL else body
            for body, kind in zip(bodies, kinds, strict=True)
        )
        keys = list(zip(*values, strict=True))
    return tuple(keys), {row: place for place, row in enumerate(stored)}


#: The types of stored values that sort as what they stand for; decimals come without their point.
_STORED = {
    Kind.INTEGER: int,
    Kind.DECIMAL: int,
    Kind.TEXT: str,
    Kind.BOOLEAN: bool,
    Kind.DATE: dt.date,
    Kind.TIMESTAMP: dt.datetime,
}


def _sort_by_themselves(found: list[tuple[Any, ...]], kinds: Sequence[SqlType]) -> bool:
    """Whether keys as a database gave them sort as their values do; there may be many, so all are looked at at once."""
    columns = zip(*found, strict=True)
    return bool(found) and all(
        set(map(type, column)) == {_STORED.get(kind.kind)} for column, kind in zip(columns, kinds, strict=True)
    )


def value_of(cell: Any, kind: SqlType) -> Value | None:
    """A stored value as the canonical Python value of its type."""
    if cell is None:
        return None
    if kind.kind is Kind.DECIMAL:
        whole, rest = divmod(int(cell), 10**kind.scale)
        # Reducing a fraction takes longer than anything else that is done to a key.
        return Fraction(int(cell), 10**kind.scale) if rest else Fraction(whole)
    if isinstance(cell, (bool, int, float, str, dt.date)):
        return cell
    raise InternalError(f"a key of {kind} came back as {type(cell).__name__}")
