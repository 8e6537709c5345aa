"""A released result inside a query: what further SELECTs may do with it is post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.query import limits
from tacit.query.question import FinalAggregation, Match, OutputColumn, Step
from tacit.query.relational.algebra import Field, JoinKind, RelationNode, is_public_throughout
from tacit.query.relational.expressions import Expression, Reference, references
from tacit.query.resolve.scalars import Scope, ScopeSource, renamed
from tacit.query.types import Domain

__all__ = ["ReleasedRelation"]


@dataclass(frozen=True)
class ReleasedRelation:
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
        return Scope((ScopeSource(alias, tuple((name, self.reference(i)) for i, name in enumerate(called))),))

    def renamed(self, names: Sequence[str]) -> ReleasedRelation:
        """The same columns under other names."""
        columns = tuple(replace(column, name=name) for column, name in zip(self.columns, names, strict=True))
        return replace(self, columns=columns)

    def matched(self, public: RelationNode, kind: JoinKind, condition: Expression) -> ReleasedRelation:
        """Beside the rows of a public relation, whose columns come last; ``kind`` with this result on the left."""
        if not is_public_throughout(public):
            raise AssertionError("released cells meet public rows only")
        mine, theirs = kind in (JoinKind.RIGHT, JoinKind.FULL), kind in (JoinKind.LEFT, JoinKind.FULL)
        columns = (
            *(replace(column, domain=_maybe_missing(column.domain, mine)) for column in self.columns),
            *(OutputColumn(c.name or "", c.type, False, _maybe_missing(c.domain, theirs)) for c in public.fields),
        )
        limits.check_size(len(columns), 4 * limits.MAX_COLUMNS, "columns")
        return ReleasedRelation(self.final, (*self.steps, Match(public, kind, condition)), columns)

    def is_noisy(self, expression: Expression) -> bool:
        """Whether a value depends on noise."""
        return any(self.columns[part.slot].noisy for part in references(expression))


def _maybe_missing(domain: Domain, outer: bool) -> Domain:
    return replace(domain, nullable=True) if outer else domain
