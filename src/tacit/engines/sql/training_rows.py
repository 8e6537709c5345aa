"""Protected rows for a model trained in this process.

At most one row of a unit is read: the first by md5 of the secret, the unit and the row itself, a rule that looks at
that unit's rows alone. Whole units are then what rows are to whoever learns from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.group_choice import Chooser
from tacit.engines.sql.relations import StoredTable, has_row_units, relation_sql
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import Kind, SqlType

__all__ = ["examples_sql"]


def examples_sql(
    d: Dialect,
    relation: RelationNode,
    numbers: Sequence[int],
    label: int | None,
    secret: bytes,
    tables: Mapping[str, StoredTable],
) -> str:
    """The statement: one row of each unit, the numbers as doubles, and the label as it is."""
    unit = relation.unit
    assert unit is not None  # noqa: S101 - the rows of public tables are not asked for here
    read = [*numbers, *([] if label is None else [label])]
    inner = relation_sql(d, relation, frozenset([*read, unit]), tables, secret)
    if not relation.row_units:
        kinds = [part.type for part in relation.fields]
        chooser = Chooser(secret, kinds[unit], has_row_units(relation))
        order = chooser.digest(d, "rows", column(unit), [(column(slot), kinds[slot]) for slot in read])
        # Rows that still tie differ in doubles only, which are told apart by themselves.
        ties = ", ".join(f"{column(slot)} NULLS LAST" for slot in read)
        first = f"row_number() OVER (PARTITION BY {column(unit)} ORDER BY {order}, {ties})"
        inner = f"SELECT * FROM {d.derived(f'SELECT *, {first} AS place FROM {d.derived(inner)}')} WHERE place = 1"
    shown = [_double(d, column(slot), relation.fields[slot].type) for slot in numbers]
    shown += [] if label is None else [column(label)]
    return f"SELECT {', '.join(f'{sql} AS e{place}' for place, sql in enumerate(shown))} FROM {d.derived(inner)}"


def _double(d: Dialect, value: str, kind: SqlType) -> str:
    return f"CAST({d.flag(value) if kind.kind is Kind.BOOLEAN else value} AS {d.double})"
