"""Released relation: rows that are released, while the queries above them are resolved.

It is a final aggregation and steps on its cells. Joined with public rows, or with the rows of another released
relation, it stays one; so does a list of several under one another. All parts of it are about one population, whose
account pays for them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.query import limits
from tacit.query.parsing.parse import Options
from tacit.query.query import (
    Append,
    Combine,
    Derive,
    Extend,
    FinalAggregation,
    Keep,
    Match,
    OutputColumn,
    Query,
    Regroup,
    Slice,
    Sort,
    Step,
    Unique,
    most_rows,
)
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    Field,
    JoinKind,
    RelationNode,
    ReleasedTable,
    ReleasedValue,
    is_public_throughout,
)
from tacit.query.relational.expressions import TRUE, Expression, Interval, Reference, literal, references, walk
from tacit.query.relational.functions import cast
from tacit.query.resolve.scalars import Scope, ScopeSource, renamed
from tacit.query.types import Domain, common_type, union


@dataclass(frozen=True)
class ReleasedRelation:
    """The final aggregation, the steps so far, and the columns they leave."""

    final: FinalAggregation
    steps: tuple[Step, ...]
    columns: tuple[OutputColumn, ...]

    @property
    def query(self) -> Query:
        """The relation as a query of its own."""
        return Query(self.final, self.steps, self.columns, Options())

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
        return self._beside(_columns(public), kind, Match(public, kind, condition))

    def combined(self, other: ReleasedRelation, kind: JoinKind, condition: Expression) -> ReleasedRelation:
        """Beside the rows of another released relation, whose columns come last.

        Raises:
            Refusal: the two are about different persons.
        """
        _check_population(self.final, other.final)
        return self._beside(other.columns, kind, Combine(other.query, kind, condition))

    @classmethod
    def public(cls, final: FinalAggregation, relation: RelationNode) -> ReleasedRelation:
        """The rows of a public relation beside what an aggregation releases; reads none of its numbers.

        Cells that are aggregated without keys and calls are one row without columns, whatever was released.
        """
        row = cls(final, (Regroup((), ()),), ())
        return row.matched(relation, JoinKind.INNER, TRUE) if relation.fields else row

    def with_value(self, value: RelationNode | ReleasedRelation) -> ReleasedRelation:
        """Every row with the value of a relation of one column and at most one row, NULL where it has none."""
        columns = value.columns if isinstance(value, ReleasedRelation) else _columns(value)
        return self._beside(columns, JoinKind.LEFT, value_step(self.final, value))

    def _beside(self, theirs: Sequence[OutputColumn], kind: JoinKind, step: Step) -> ReleasedRelation:
        left, right = kind in (JoinKind.RIGHT, JoinKind.FULL), kind in (JoinKind.LEFT, JoinKind.FULL)
        columns = (
            *(replace(column, domain=_maybe_missing(column.domain, left)) for column in self.columns),
            *(replace(column, domain=_maybe_missing(column.domain, right)) for column in theirs),
        )
        limits.check_size(len(columns), 4 * limits.MAX_COLUMNS, "columns")
        return self._after(step, columns)

    def _after(self, step: Step, columns: tuple[OutputColumn, ...]) -> ReleasedRelation:
        found = ReleasedRelation(self.final, (*self.steps, step), columns)
        limits.check_size(_weight(found.steps), limits.MAX_RELATIONS, "relational operators")
        return found

    def is_noisy(self, expression: Expression) -> bool:
        """Whether a value depends on noise."""
        return any(self.columns[part.slot].noisy for part in references(expression))

    @property
    def is_single(self) -> bool:
        """Whether there is at most one row, whatever is released."""
        most = most_rows(self.query)
        return most is not None and most <= 1

    def value_below(self, rows: RelationNode) -> ReleasedValue:
        """The one value of this relation for rows below another aggregation; known when its parts are released.

        Raises:
            Refusal: the value is about other persons, or depends on more than released cells.
        """
        self._check_below(rows)
        (column,) = self.columns
        field = Field(column.name, column.type, Domain(nullable=True))
        nothing = ((literal(None, column.type),),)
        return ReleasedValue((field,), None, None, 1, 1, 1, nothing, self.query.digest)

    def rows_below(self, rows: RelationNode) -> ReleasedTable:
        """These rows beside rows below another aggregation; known when their parts are released.

        Raises:
            Refusal: they are about other persons, depend on more than released cells, or may be too many.
        """
        self._check_below(rows)
        most = most_rows(self.query)
        if most is None:
            raise Refusal(
                "several_aggregations",
                "How many rows an aggregated result has must follow from the text before rows of persons are joined "
                "with it: group it by declared categories, bounded numbers or a column that is equal to one of a "
                "joined public table, or end it with LIMIT.",
            )
        limits.check_size(most, limits.MAX_ROWS_BELOW, "released rows that rows of persons are joined with")
        fields = tuple(
            Field(c.name, c.type, Domain(nullable=True) if c.noisy else replace(c.domain, nullable=True))
            for c in self.columns
        )
        nothing = (tuple(literal(None, column.type) for column in self.columns),) * most
        return ReleasedTable(fields, None, None, 1, 1, 1, nothing, self.query.digest, self._unique())

    def _check_below(self, rows: RelationNode) -> None:
        if rows.population != self.final.population:
            raise population_refusal(str(rows.population), self.final.population)
        if self.query.reads or _has_interval(self.steps):
            raise Refusal(
                "subquery",
                "What rows of persons are compared or joined with is made of released numbers alone: leave public "
                "tables and DP_INTERVAL_LOW or DP_INTERVAL_HIGH out of its subquery, and join public tables to the "
                "rows of persons instead.",
            )

    def _unique(self) -> frozenset[int] | None:
        """Columns that no two rows share: those of all group keys, as long as steps keep the groups apart."""
        places: list[int | None] = [*range(len(self.final.keys)), *[None] * len(self.final.aggregates)]
        for step in self.steps:
            match step:
                case Derive():
                    places = [places[e.slot] if isinstance(e, Reference) else None for e in step.expressions]
                case Extend():
                    places += [None] * len(step.calls)
                case Keep() | Sort() | Slice() | Unique():
                    pass
                case _:
                    return None
        found = {key: slot for slot, key in enumerate(places) if key is not None}
        return frozenset(found.values()) if len(found) == len(self.final.keys) else None

    @staticmethod
    def stacked(parts: Sequence[ReleasedRelation], *, distinct: bool) -> ReleasedRelation:
        """UNION of released relations: columns side by side in one type, under the names of the first."""
        if len({len(part.columns) for part in parts}) != 1:
            raise Refusal("union", "The parts of UNION ALL have different numbers of columns.")
        kinds = [column.type for column in parts[0].columns]
        for part in parts[1:]:
            for i, column in enumerate(part.columns):
                joint = common_type(kinds[i], column.type)
                if joint is None:
                    raise Refusal("union", f"UNION ALL stacks {kinds[i]} and {column.type}; cast one of them.")
                kinds[i] = joint
        aligned = []
        for part in parts:
            expressions = tuple(cast(part.reference(i), kind) for i, kind in enumerate(kinds))
            columns = tuple(
                replace(column, type=kind, domain=e.domain)
                for column, kind, e in zip(part.columns, kinds, expressions, strict=True)
            )
            aligned.append(part._after(Derive(expressions), columns))
        found = aligned[0]
        for other in aligned[1:]:
            _check_population(found.final, other.final)
            columns = tuple(
                replace(mine, noisy=mine.noisy or theirs.noisy, domain=union((mine.domain, theirs.domain), mine.type))
                for mine, theirs in zip(found.columns, other.columns, strict=True)
            )
            found = found._after(Append(other.query), columns)
        return found._after(Unique(), found.columns) if distinct else found


def value_step(final: FinalAggregation, value: RelationNode | ReleasedRelation) -> Step:
    """The step that puts a value of one column and at most one row beside the cells of an aggregation.

    Raises:
        Refusal: the value is about other persons.
    """
    if isinstance(value, ReleasedRelation):
        _check_population(final, value.final)
        return Combine(value.query, JoinKind.LEFT, TRUE)
    return Match(value, JoinKind.LEFT, TRUE)


def _check_population(one: FinalAggregation, other: FinalAggregation) -> None:
    if one.population != other.population:
        raise population_refusal(one.population, other.population)


def population_refusal(one: str, other: str) -> Refusal:
    """Refusal of parts that are about different persons."""
    return Refusal(
        "population",
        f"One part is about {one} and another about {other}, which have an account each; ask two queries and put "
        "their answers together.",
    )


def _has_interval(steps: Sequence[Step]) -> bool:
    """Whether a step reads an end of an interval, which depends on the confidence asked for."""
    for step in steps:
        if any(isinstance(part, Interval) for read in step.held() for part in walk(read)):
            return True
        if isinstance(step, Combine | Append) and _has_interval(step.other.steps):
            return True
    return False


def _columns(public: RelationNode) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(c.name or "", c.type, False, c.domain) for c in public.fields)


def _weight(steps: Sequence[Step]) -> int:
    """Number of steps, those of the relations that they read included."""
    return sum(1 + _weight(step.other.steps) if isinstance(step, Combine | Append) else 1 for step in steps)


def _maybe_missing(domain: Domain, outer: bool) -> Domain:
    return replace(domain, nullable=True) if outer else domain
