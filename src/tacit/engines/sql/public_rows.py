"""Rows of public relations for steps above the final aggregation.

Nothing protected may come this way, so the relation is checked node by node, and every table it reads once more against
what the catalog says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.read_measurements import value_of
from tacit.engines.sql.relations import StoredTable, relation_sql, scanned
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, is_public_throughout
from tacit.query.types import Value

__all__ = ["check_public", "public_rows", "rows_sql"]


def check_public(relation: RelationNode, public: Collection[str]) -> None:
    """Stop at anything protected; ``public`` holds the lower-case names of the public tables."""
    if not is_public_throughout(relation) or not scanned(relation) <= set(public):
        raise InternalError("rows of protected tables are never read out")


def rows_sql(d: Dialect, relation: RelationNode, most: int, tables: Mapping[str, StoredTable]) -> str:
    """All rows, sorted by their columns, NULL last; one more than ``most`` if there are more."""
    slots = range(len(relation.fields))
    inner = relation_sql(d, relation, frozenset(slots), tables)
    order = f" ORDER BY {', '.join(f'{column(slot)} NULLS LAST' for slot in slots)}" if slots else ""
    return f"SELECT * FROM {d.derived(inner)}{order} LIMIT {most + 1}"


def public_rows(
    found: Sequence[Sequence[Any]], relation: RelationNode, most: int
) -> tuple[tuple[Value | None, ...], ...]:
    """What the statement found, as canonical values.

    Raises:
        Refusal: when there are more than ``most``.
    """
    if len(found) > most:
        raise Refusal(
            "too_large",
            f"The public table beside the released rows has more than {most} rows; filter or group it in a subquery.",
        )
    kinds = [part.type for part in relation.fields]
    return tuple(tuple(value_of(cell, kind) for cell, kind in zip(row, kinds, strict=False)) for row in found)
