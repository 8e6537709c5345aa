"""Targets of a SELECT's clauses: rows inside units, final groups, or released cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from tacit.query import limits
from tacit.query.parsing.query_options import Options
from tacit.query.question import AggregateKind, OutputColumn
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import JoinKind, RelationNode, UnitCall
from tacit.query.relational.expressions import TRUE, Expression, Reference, references
from tacit.query.resolve.aggregates import AggregateCall, unit_call
from tacit.query.resolve.final_builder import FinalBuilder
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalar_subqueries import PublicValues
from tacit.query.resolve.scalars import Scope
from tacit.query.resolve.subqueries import Body
from tacit.query.types import UNKNOWN, Domain, SqlType

__all__ = ["Backend", "Column", "FinalGroups", "ReleasedCells", "UnitRows"]

#: The type of a column, and what is known about its values.
Column = tuple[SqlType, Domain]


class Backend(Protocol):
    """What a SELECT works on."""

    scope: Scope

    def hook(self, node: exp.Expr) -> Expression | None:
        """Subqueries, where they are allowed."""

    def value(self, node: exp.Expr) -> RelationNode:
        """The public relation of a subquery that stands for a value beside keys and aggregates."""

    def set_keys(self, keys: list[tuple[str, Expression]]) -> int:
        """Take the keys; returns the slot of the first aggregate."""

    def aggregate(self, asked: AggregateCall) -> tuple[int, Column]:
        """Take an aggregate; returns its index among aggregates, and what it is."""

    def width(self) -> int:
        """Columns without grouping."""

    def shape(self) -> RelationNode:
        """A relation that says how many rows a unit presumably has, for windows."""

    def is_noisy(self, expression: Expression, grouped: bool, first: int) -> bool:
        """Whether an output depends on noise."""


class UnitRows:
    """Rows below the final aggregation: aggregates are exact, inside units or over public data."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.scope = body.scope
        self.hook = body.hook
        self.keys: list[tuple[str, Expression]] = []
        self.calls: list[tuple[UnitCall, Domain]] = []

    def value(self, node: exp.Expr) -> RelationNode:
        """A public value."""
        return self.body.values.relation(node, self.scope)

    def set_keys(self, keys: list[tuple[str, Expression]]) -> int:
        """The unit is always a key, hidden where the query does not list it."""
        self.keys = keys
        return len(ownership.complete_keys(self.body.relation, keys))

    def aggregate(self, asked: AggregateCall) -> tuple[int, Column]:
        """An exact aggregate; equal ones are one."""
        made = unit_call(asked, self.body.relation)
        if made not in self.calls:
            limits.check_size(len(self.calls) + 1, limits.MAX_COLUMNS, "aggregates")
            self.calls.append(made)
        return self.calls.index(made), (made[0].type, made[1])

    def width(self) -> int:
        """All columns of the source, hidden ones too."""
        return len(self.body.relation.fields)

    def shape(self) -> RelationNode:
        """The source itself."""
        return self.body.relation

    def is_noisy(self, expression: Expression, grouped: bool, first: int) -> bool:
        """Nothing below the aggregation is noisy."""
        del expression, grouped, first
        return False


class FinalGroups:
    """Owned rows grouped without the unit: the final aggregation."""

    def __init__(self, body: Body, options: Options) -> None:
        self.body = body
        self.options = options
        self.scope = body.scope
        self.hook = body.hook
        self.builder: FinalBuilder | None = None

    def value(self, node: exp.Expr) -> RelationNode:
        """A public value."""
        return self.body.values.relation(node, self.scope)

    def set_keys(self, keys: list[tuple[str, Expression]]) -> int:
        """Keys must be comparable exactly; whether they are public is decided here."""
        for name, expression in keys:
            if isinstance(expression, Reference) and self.body.relation.fields[expression.slot].identifies is not None:
                raise Refusal(
                    "unit_exposed",
                    f"The key {name!r} tells persons apart; group by it below the aggregation, on a side of the "
                    "join where it is never missing.",
                )
        self.builder = FinalBuilder(self.body.relation, keys, self.options)
        return len(keys)

    def aggregate(self, asked: AggregateCall) -> tuple[int, Column]:
        """A released column."""
        if self.builder is None:
            raise AssertionError("keys come first")
        index = self.builder.add(asked, self.body.relation)
        made = self.builder.aggregates[index]
        counted = made.kind in (AggregateKind.COUNT_ROWS, AggregateKind.COUNT_VALUES, AggregateKind.COUNT_UNITS)
        return index, (made.type, Domain(nullable=not counted))

    def width(self) -> int:
        """Without keys there is one group."""
        return 0

    def shape(self) -> RelationNode:
        """Windows over released cells have no person to count."""
        return ownership.constants([], ())

    def is_noisy(self, expression: Expression, grouped: bool, first: int) -> bool:
        """Everything but keys carries noise."""
        del grouped
        return any(part.slot >= first for part in references(expression))

    @staticmethod
    def released(builder: FinalBuilder, source: RelationNode, names: Sequence[str]) -> ReleasedRelation:
        """The bare result: keys, then aggregates."""
        final = builder.build(source)
        keys = [
            OutputColumn(name, key.expression.type, False, key.expression.domain)
            for name, key in zip(names, final.keys, strict=False)
        ]
        cells = [OutputColumn(a.label, a.type, True, Domain()) for a in final.aggregates]
        return ReleasedRelation(final, (), (*keys, *cells))


class ReleasedCells:
    """Cells that are already released: everything is free and cannot look back."""

    def __init__(self, source: ReleasedRelation, scope: Scope, values: PublicValues) -> None:
        self.source = source
        self.scope = scope
        self.values = values
        self.attached: dict[RelationNode, int] = {}
        self.keys: list[tuple[str, Expression]] = []
        self.calls: list[UnitCall] = []

    def hook(self, node: exp.Expr) -> Expression | None:
        """Public values are one more column of the source; no other subqueries above the aggregation."""
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            raise Refusal(
                "subquery",
                "IN and EXISTS take no subquery on released results; join the public table, or filter before the "
                "aggregation.",
            )
        if not isinstance(node, exp.Subquery):
            return None
        value = self.value(node)
        if value not in self.attached:
            self.attached[value] = len(self.source.columns)
            self.source = self.source.matched(value, JoinKind.LEFT, TRUE)
        return self.source.reference(self.attached[value])

    def value(self, node: exp.Expr) -> RelationNode:
        """A public value."""
        return self.values.relation(node, self.scope)

    def set_keys(self, keys: list[tuple[str, Expression]]) -> int:
        """Any expression of released cells may be a key."""
        self.keys = keys
        return len(keys)

    def aggregate(self, asked: AggregateCall) -> tuple[int, Column]:
        """An exact aggregate of noisy cells."""
        made, domain = unit_call(asked, self.shape())
        if made not in self.calls:
            self.calls.append(made)
        return self.calls.index(made), (made.type, replace(domain, range=UNKNOWN))

    def width(self) -> int:
        """The released columns."""
        return len(self.source.columns)

    def shape(self) -> RelationNode:
        """Released cells belong to nobody."""
        return ownership.constants([], ())

    def is_noisy(self, expression: Expression, grouped: bool, first: int) -> bool:
        """Aggregates and windows of cells count as noisy, keys and plain columns as what they read."""
        parts = references(expression)
        if not grouped:
            columns = self.source.columns
            return any(part.slot >= len(columns) or columns[part.slot].noisy for part in parts)
        keys = [self.source.is_noisy(key) for _, key in self.keys]
        return any(part.slot >= first or keys[part.slot] for part in parts)
