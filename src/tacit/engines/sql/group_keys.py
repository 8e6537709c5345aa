"""Group keys in SQL: public ones as one number, private ones as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.scalars import scalar_sql
from tacit.query.question import FinalAggregation
from tacit.query.types import Kind, SqlType, Value

__all__ = ["Groups", "position_sql"]


def position_sql(d: Dialect, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
    """The number, from 0, of a value in a list; NULL for others.

    Costs one look-up per distinct text of a column, and none where a column is compared with a run of whole numbers.
    """
    if value.isidentifier() and _is_run(values, kind):
        first, last = d.constant(values[0], kind), d.constant(values[-1], kind)
        return f"(CASE WHEN {value} BETWEEN {first} AND {last} THEN {value} - {first} END)"
    return d.place_among(value, values, kind)


def _is_run(values: Sequence[Value | None], kind: SqlType) -> bool:
    """Whether they are whole numbers, each one more than the one before."""
    first = values[0] if values else None
    return (
        kind.kind is Kind.INTEGER
        and isinstance(first, int)
        and tuple(values) == tuple(range(first, first + len(values)))
    )


@dataclass(frozen=True)
class Groups:
    """The keys of a final aggregation.

    Args:
        final: the aggregation.
        placed: which of its keys the source gives as numbers of their values already.
    """

    final: FinalAggregation
    placed: frozenset[int] = frozenset()

    @property
    def is_public(self) -> bool:
        """Whether groups are numbered in advance."""
        return self.final.public_keys or not self.final.keys

    @property
    def count(self) -> int:
        """How many public groups there are."""
        return math.prod(len(key.values or ()) for key in self.final.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell groups apart."""
        return ("g",) if self.is_public else tuple(f"k{i}" for i in range(len(self.final.keys)))

    @property
    def types(self) -> tuple[SqlType, ...]:
        """The types of the keys."""
        return tuple(key.expression.type for key in self.final.keys)

    def expressions(self, d: Dialect) -> dict[str, str]:
        """Each group column over the source."""
        keys = [scalar_sql(d, key.expression) for key in self.final.keys]
        return {"g": self.code(d, keys)} if self.is_public else {f"k{i}": key for i, key in enumerate(keys)}

    def code(self, d: Dialect, keys: Sequence[str]) -> str:
        """The number of the group of some key values in product order; NULL outside the public list."""
        if not self.final.keys:
            return "0"
        terms, stride = [], self.count
        for index, (sql, key) in enumerate(zip(keys, self.final.keys, strict=True)):
            values = key.values or ()
            stride //= len(values)
            position = sql if index in self.placed else position_sql(d, sql, values, key.expression.type)
            terms.append(position if stride == 1 else f"{position} * {stride}")
        return f"({' + '.join(terms)})"

    def public_keys(self) -> tuple[tuple[Value | None, ...], ...]:
        """All public keys in product order."""
        return tuple(product(*(key.values or () for key in self.final.keys)))
