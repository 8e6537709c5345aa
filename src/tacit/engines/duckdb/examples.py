"""Rows of protected tables for a model that is trained in this process; nothing else may have them.

At most one row of a unit is read: the first by md5 of the secret, the unit and the row itself, a rule that looks at
that unit's rows alone. Whole units are then what rows are to whoever learns from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.choosing import Chooser
from tacit.engines.duckdb.relations import has_row_units, relation_sql
from tacit.engines.duckdb.sources import StoredTable
from tacit.engines.duckdb.spelling import column
from tacit.query.algebra import Relation
from tacit.query.types import Kind, SqlType

if TYPE_CHECKING:
    import duckdb

__all__ = ["examples_sql", "read_examples"]


def read_examples(
    cursor: duckdb.DuckDBPyConnection,
    relation: Relation,
    numbers: Sequence[int],
    label: int | None,
    secret: bytes,
    tables: Mapping[str, StoredTable],
) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """The numbers as float64 with NaN for NULL, one line per unit, and the labels as they are with None for NULL."""
    found = cursor.sql(examples_sql(relation, numbers, label, secret, tables)).to_arrow_table()
    raw = np.empty((found.num_rows, len(numbers)))
    for place in range(len(numbers)):
        raw[:, place] = found.column(place).to_numpy()
    if label is None:
        return raw, None
    labels = np.empty(found.num_rows, dtype=object)
    labels[:] = found.column(len(numbers)).to_pylist()
    return raw, labels


def examples_sql(
    relation: Relation, numbers: Sequence[int], label: int | None, secret: bytes, tables: Mapping[str, StoredTable]
) -> str:
    """The statement: one row of each unit, the numbers as doubles."""
    unit = relation.unit
    assert unit is not None  # noqa: S101 - the rows of public tables are not asked for here
    read = [*numbers, *([] if label is None else [label])]
    inner = relation_sql(relation, frozenset([*read, unit]), tables)
    if not relation.row_units:
        kinds = [part.type for part in relation.fields]
        chooser = Chooser(secret, kinds[unit], has_row_units(relation))
        order = chooser.digest("rows", column(unit), [(column(slot), kinds[slot]) for slot in read])
        first = f"row_number() OVER (PARTITION BY {column(unit)} ORDER BY {order})"
        inner = f"SELECT * FROM (SELECT *, {first} AS place FROM ({inner})) WHERE place = 1"
    shown = [_double(column(slot), relation.fields[slot].type) for slot in numbers]
    shown += [] if label is None else [column(label)]
    return f"SELECT {', '.join(f'{sql} AS e{place}' for place, sql in enumerate(shown))} FROM ({inner})"


def _double(value: str, kind: SqlType) -> str:
    return f"CAST(CAST({value} AS TINYINT) AS DOUBLE)" if kind.kind is Kind.BOOLEAN else f"CAST({value} AS DOUBLE)"
