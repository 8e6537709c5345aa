"""SELECT over cells that are released: everything is free and cannot look back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from tacit.query.aggregate_family import AggregateCall
from tacit.query.aggregates import unit_call
from tacit.query.planning.work import rows_inside
from tacit.query.query import (
    Derive,
    Extend,
    FinalAggregation,
    Keep,
    OutputColumn,
    Regroup,
    Slice,
    Sort,
    Step,
    Totals,
    Unique,
)
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, UnitCall
from tacit.query.relational.expressions import Expression, references
from tacit.query.resolve.aggregation import FinalBuilder
from tacit.query.resolve.public_order import column_keys, slice_of
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalars import Scalars, Scope
from tacit.query.types import UNKNOWN, Domain, SqlType

if TYPE_CHECKING:
    from tacit.query.resolve.subquery_values import PublicValues
from tacit.query.resolve.select import ReleasedBuilder, SelectClauses, refuse_sets


class ReleasedRows:
    """A released result while the clauses of a SELECT over it are resolved."""

    def __init__(self, released: ReleasedRelation, scope: Scope, values: PublicValues) -> None:
        self.released = released
        self.scope = scope
        self.values = values
        self._attached: dict[RelationNode | ReleasedRelation, int] = {}

    def hook(self, node: exp.Expr) -> Expression | None:
        """Values are one more column of the result; no other subqueries above the aggregation."""
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            raise Refusal(
                "subquery",
                "IN and EXISTS take no subquery on released results; join the public table, or filter before the "
                "aggregation.",
            )
        if not isinstance(node, exp.Subquery):
            return None
        value = self.values.value(node, self.scope)
        if value not in self._attached:
            self._attached[value] = len(self.released.columns)
            self.released = self.released.with_value(value)
        return self.released.reference(self._attached[value])


class ReleasedCells(ReleasedBuilder):
    """A SELECT over cells that are already released: everything is free and cannot look back."""

    def __init__(self, clauses: SelectClauses, rows: ReleasedRows) -> None:
        refuse_sets(clauses)
        super().__init__(clauses, len(clauses.keys))
        self.rows = rows
        self.calls: list[UnitCall] = []

    def aggregate(self, asked: AggregateCall) -> tuple[int, SqlType, Domain]:
        """An exact aggregate of noisy cells."""
        self._check_groups(asked.function, asked.where)
        made, domain = unit_call(asked, rows_inside(self.shape()))
        if made not in self.calls:
            self.calls.append(made)
        return self.calls.index(made), made.type, replace(domain, range=UNKNOWN)

    def _check_groups(self, function: str, where: Expression | None) -> None:
        """Refuse numbers and means of groups when which groups there are does not follow from people.

        Every value of a range is a group, whether or not anybody has it, and of private groups only large ones are
        released: COUNT(*) would be shown as exact and be wrong, and AVG would divide by it.
        """
        released, final = self.rows.released, self.rows.released.final
        kept = where is not None and released.is_noisy(where)
        if kept or function in _UNMOVED or _are_kept_by_numbers(released) or any(map(self._reads_noise, self._where())):
            return
        enumerated = final.public_keys and not all(_is_declared(key.expression) for key in final.keys)
        counts = function in ("count_rows", "count", "count_distinct")
        if counts and final.keys and not final.aggregates:
            names = ", ".join(key.name for key in final.keys)
            raise Refusal(
                "empty_groups",
                f"The released values of {names} are those that are listed or have enough people, not those that "
                f"people have; write COUNT(DISTINCT {names}), which is noisy and counts those.",
            )
        if enumerated or (counts and not final.public_keys):
            names = ", ".join(key.name for key in final.keys)
            instead = f"write COUNT(DISTINCT {names}), or " if counts else ""
            why = "every value of a range, also those nobody has" if enumerated else "only those with enough people"
            raise Refusal(
                "empty_groups",
                f"The released groups by {names} are {why}, so {function.removesuffix('_rows').upper()} over them is "
                f"wrong; {instead}keep groups whose count noise alone "
                "does not reach, such as HAVING COUNT(*) > 20.",
            )

    def _reads_noise(self, step: Step) -> bool:
        return isinstance(step, Keep) and self.rows.released.is_noisy(step.condition)

    def is_noisy(self, expression: Expression) -> bool:
        """Aggregates of cells count as noisy, keys and plain columns as the columns they read."""
        released, parts = self.rows.released, references(expression)
        if not self.clauses.grouped:
            return released.is_noisy(expression)
        keys = [released.is_noisy(key) for _, key in self.clauses.keys]
        return any(part.slot >= self.first or keys[part.slot] for part in parts)

    def _where(self) -> list[Step]:
        where = self.clauses.node.args.get("where")
        if where is None:
            return []
        return [Keep(Scalars(self.clauses.scope, "WHERE", self.clauses.hook).condition(where.this))]

    def _released(self, where: list[Step]) -> tuple[FinalAggregation, tuple[Step, ...], int]:
        released = self.rows.released
        if not self.clauses.grouped:
            return released.final, (*released.steps, *where), len(released.columns)
        regroup = Regroup(tuple(e for _, e in self.clauses.keys), tuple(self.calls))
        return released.final, (*released.steps, *where, regroup), self.first + len(self.calls)


#: Aggregates of cells that groups of nobody, which are noisy zeros, hardly change.
_UNMOVED: Final = frozenset({"sum", "max"})


def _is_declared(key: Expression) -> bool:
    """Whether the values of a key follow from declared categories, which the owner lists because people have them."""
    return all(part.values is not None for part in references(key))


def _are_kept_by_numbers(released: ReleasedRelation) -> bool:
    """Whether a condition on released numbers, or a LIMIT, decides which groups there are."""
    keys = len(released.final.keys)
    noisy = [False] * keys + [True] * len(released.final.aggregates)
    for step in released.steps:
        match step:
            case Keep() if len(noisy) and any(noisy[part.slot] for part in references(step.condition)):
                return True
            case Slice() if step.limit is not None:
                return True
            case Regroup():
                return True
            case Derive():
                noisy = [any(noisy[part.slot] for part in references(e)) for e in step.expressions]
            case Extend():
                noisy += [True] * len(step.calls)
            case Totals():
                noisy = [False] * (2 * keys) + noisy[keys:]
            case Keep() | Sort() | Unique():
                pass
            case _:
                # Rows of other relations come beside: which of them there are is not about groups alone.
                return True
    return False


def distinct_rows(
    node: exp.Query, builder: FinalBuilder, source: RelationNode, names: Sequence[str]
) -> ReleasedRelation:
    """SELECT DISTINCT of protected rows: a final aggregation by keys alone, whose columns ORDER BY names."""
    final = builder.build(source)
    columns = tuple(
        OutputColumn(name, key.expression.type, False, key.expression.domain)
        for name, key in zip(names, final.keys, strict=True)
    )
    released = ReleasedRelation(final, (), columns)
    return in_order(node, released)


def in_order(node: exp.Query, released: ReleasedRelation) -> ReleasedRelation:
    """A released result in the order, and within the limits, that a query around its columns states."""
    keys = column_keys(node, released.scope(""))
    steps: list[Step] = [Sort(tuple(keys))] if keys else []
    return replace(released, steps=(*released.steps, *steps, *slice_of(node)))
