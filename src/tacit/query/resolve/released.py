"""A released result inside a query: what further SELECTs may do with it is post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.query.algebra import Field
from tacit.query.expressions import Expression, Reference, references
from tacit.query.final import FinalAggregation, OutputColumn, Step
from tacit.query.resolve.scope import Scope, Source, renamed

__all__ = ["Released"]


@dataclass(frozen=True)
class Released:
    """The final aggregation, the steps so far, and the columns they leave."""

    final: FinalAggregation
    steps: tuple[Step, ...]
    columns: tuple[OutputColumn, ...]

    def reference(self, slot: int) -> Reference:
        """The expression that reads a column."""
        column = self.columns[slot]
        return Reference(column.type, column.domain, slot, column.name)

    def scope(self, alias: str, names: Sequence[str] | None = None) -> Scope:
        """The columns under an alias."""
        fields = [Field(column.name, column.type, column.domain) for column in self.columns]
        called = renamed(fields, names)
        return Scope((Source(alias, tuple((name, self.reference(i)) for i, name in enumerate(called))),))

    def renamed(self, names: Sequence[str]) -> Released:
        """The same columns under other names."""
        columns = tuple(replace(column, name=name) for column, name in zip(self.columns, names, strict=True))
        return replace(self, columns=columns)

    def is_noisy(self, expression: Expression) -> bool:
        """Whether a value depends on noise."""
        return any(self.columns[part.slot].noisy for part in references(expression))
