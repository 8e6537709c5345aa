"""Query: final aggregations and the steps on their released cells.

A resolved :class:`Query` is one :class:`FinalAggregation` over an owned relation and a pipeline of steps above it::

    owned relation ── keys, measures ──▶ released cells ── step ── step ── … ──▶ columns of the answer
       (engine)        (noise)              (post-processing: free, cannot look back)

A step may join or append the released rows of another query, so that one query releases several *parts*, each
an aggregation that is measured and charged once however often it is read.

The released relation has one column per key and then one per aggregate. Expressions in a step refer to the columns of
the step before by slot, with the same nodes as below the aggregation.

============ ==================================================================================================
step         effect on the released rows
============ ==================================================================================================
Totals       one row per group of each grouping set (ROLLUP, CUBE, GROUPING SETS); only as the first step
Derive       one column per expression (the SELECT list)
Keep         rows for which the condition is true (HAVING, or WHERE of an outer query)
Sort         order; without it rows come in key order
Slice        OFFSET and LIMIT
Unique       DISTINCT
Regroup      aggregation of released cells: a column per key, then one per call
Extend       windows over released cells: the columns before, then one per window
Match        a join with a public relation: the columns before, then those of the relation
Combine      a join with the released rows of another query: the columns before, then the other query's
Append       the rows before, then those of another query (UNION ALL)
============ ==================================================================================================
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from tacit.query.parsing.parse import Options
from tacit.query.planning.measures import ContributionLimits, Measure
from tacit.query.relational.algebra import (
    JoinKind,
    RelationNode,
    SortKey,
    UnitCall,
    WindowCall,
    call_text,
    relation_text,
    released_values,
    row_bounds,
    scanned,
    walk_relations,
    window_text,
)
from tacit.query.relational.expressions import Change, Expression, Holder, text_of
from tacit.query.types import INTEGER, Domain, SqlType, Value


@dataclass(frozen=True, slots=True)
class GroupKey(Holder):
    """One GROUP BY expression; ``values`` is the public list of its keys, None for private group selection."""

    name: str
    expression: Expression
    values: tuple[Value | None, ...] | None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One released column made of measurements.

    Args:
        kind: the statistic that it estimates.
        measures: indices into :attr:`FinalAggregation.measures`.
        parameter: the fraction of a quantile, or 1 for MOST_COMMON.
        type: the SQL type of the released value.
        bounds: interval of the true value, in ordinals, if known; an estimate may be clamped to it.
        label: text shown to people, such as ``avg(cost)``.
    """

    kind: str
    measures: tuple[int, ...]
    parameter: Fraction | None
    type: SqlType
    bounds: tuple[Fraction, Fraction] | None
    label: str = field(compare=False)


@dataclass(frozen=True)
class FinalAggregation:
    """The one step at which protected data becomes noisy numbers.

    Args:
        source: an owned relation.
        keys: the GROUP BY expressions; empty for one group of all units.
        measures: the distinct measurements, each taken and charged once.
        aggregates: the released columns after the keys.
        max_groups: the most groups one unit counts in (L0); 1 without keys.
        public_keys: whether every key is public and their product small enough to return whole.
        group_count: the number of public groups; 1 without keys; None for private keys.
        limits: origin of ``max_groups`` and of the measurements' ``max_rows``; None when made by hand. :attr:`text`
            says only whether they are AUTO, because the numbers decide the answer.
        max_total: the most rows of one unit that count in all groups together (``max_rows_total``); None where
            unbounded.
    """

    source: RelationNode
    keys: tuple[GroupKey, ...]
    measures: tuple[Measure, ...]
    aggregates: tuple[Aggregate, ...]
    max_groups: int
    public_keys: bool
    group_count: int | None
    limits: ContributionLimits | None = field(default=None, compare=False, repr=False)
    max_total: int | None = None

    @cached_property
    def population(self) -> str:
        """Name of the population whose budget is charged."""
        if self.source.population is None:
            raise ValueError("a final aggregation needs an owned source")
        return self.source.population

    @cached_property
    def seeks_bounds(self) -> bool:
        """Whether some clipping bounds are AUTO, already found or not; see :mod:`tacit.query.planning.auto_bounds`."""
        return any(measure.auto for measure in self.measures)

    @cached_property
    def seeks_limits(self) -> bool:
        """Whether some contribution bound is AUTO, already found or not."""
        return self.auto_total or self.auto_groups or self.auto_rows

    @cached_property
    def auto_total(self) -> bool:
        """Whether ``max_rows_total`` is or was found privately: the rows of a unit in all groups together."""
        return self.limits is not None and self.limits.total is not None and self.limits.total.is_auto

    @cached_property
    def auto_groups(self) -> bool:
        """Whether ``max_groups`` is or was found privately; see :mod:`tacit.query.planning.auto_limits`."""
        limits = self.limits
        if limits is None or not limits.groups.is_auto or self.auto_total:
            return False
        return self.group_count is None or (self.group_count > 1 and bool(self.measures))

    @cached_property
    def auto_rows(self) -> bool:
        """Whether ``max_rows`` is or was found privately."""
        sought = not self.auto_total or (self.limits is not None and self.limits.both)
        return sought and any(measure.auto_rows for measure in self.measures)

    @property
    def most_in_group(self) -> int:
        """Largest ``max_rows`` of the measurements: the rows of one unit that count in one group."""
        return max((measure.rows for measure in self.measures), default=1)

    def parts_by(self, kept: Sequence[int]) -> int:
        """Return how many groups one group by the public keys ``kept`` (indices) is the sum of."""
        return math.prod(len(key.values or ()) for index, key in enumerate(self.keys) if index not in kept)

    def growth(self, measures: Iterable[int]) -> int:
        """Return the largest power of an AUTO bound that these measurements (indices) grow with; 0 for none."""
        sought = [self.measures[index] for index in measures if self.measures[index].auto]
        return max((measure.kind.traits.power for measure in sought), default=0)

    @cached_property
    def types(self) -> tuple[SqlType, ...]:
        """SQL types of the released columns: keys, then aggregates."""
        return (*[key.expression.type for key in self.keys], *[aggregate.type for aggregate in self.aggregates])

    @cached_property
    def nodes(self) -> list[RelationNode]:
        """The source and all relations below it, in pre-order."""
        return walk_relations(self.source)

    @cached_property
    def row_units(self) -> bool:
        """Whether every row is its own unit, so that one unit has at most one row."""
        return self.source.row_units

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Names of the scanned tables, and of the tables on their paths to the unit, each once."""
        return tuple(scanned(self.source))

    @cached_property
    def text(self) -> str:
        """Canonical text."""
        keys = [f"{text_of(key.expression)}={key.values!r}" for key in self.keys]
        cells = [f"{a.kind}{a.measures}{a.parameter}:{a.type}:{a.bounds}" for a in self.aggregates]
        lines = [relation_text(self.source), *keys, *(m.text for m in self.measures), *cells]
        groups = f"{self.max_groups}{' auto' if self.auto_groups else ''}"
        total = "" if self.max_total is None else f" total {self.max_total}"
        total += " auto total" if self.auto_total else ""
        return "\n".join([*lines, f"{groups} {self.public_keys} {self.group_count}{total}"])


def final_over(final: FinalAggregation, source: RelationNode, change: Change) -> FinalAggregation:
    """Return the same aggregation over another source, its expressions rewritten by ``change``."""
    measures = tuple(
        replace(
            measure,
            argument=None if measure.argument is None else change(measure.argument),
            where=None if measure.where is None else change(measure.where),
        )
        for measure in final.measures
    )
    keys = tuple(key.changed(change) for key in final.keys)
    return replace(final, source=source, keys=keys, measures=measures)


class TotalOf(NamedTuple):
    """A cell that is the sum of groups: one group by some of the keys.

    Args:
        kept: indices of these keys.
        copies: the number of groups that it is the sum of.
    """

    kept: tuple[int, ...]
    copies: int


@dataclass(frozen=True, slots=True)
class Totals(Holder):
    """Grouping sets: the released cells are the finest groups, and every other group is the sum of its parts.

    The columns are the keys, NULL where a set leaves one out; then for each key 1 where it is left out and 0 elsewhere,
    as GROUPING returns; then the aggregates.

    Args:
        keys: for each key as written, its index among those of the aggregation.
        sets: for each grouping set, in order and as often as it is written, the indices of its keys in ``keys``.
    """

    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Derive(Holder):
    """One column per expression over the columns before."""

    expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Keep(Holder):
    """Rows for which ``condition`` is true."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class Sort(Holder):
    """Order by the keys; ties keep the order before."""

    keys: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Slice(Holder):
    """Skip ``offset`` rows and return at most ``limit``."""

    limit: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Unique(Holder):
    """Each distinct row once, where it first occurs."""


@dataclass(frozen=True, slots=True)
class Regroup(Holder):
    """Aggregation of released cells; without keys, one row."""

    keys: tuple[Expression, ...]
    calls: tuple[UnitCall, ...]


@dataclass(frozen=True, slots=True)
class Extend(Holder):
    """Windows over released rows: the columns before, then one per window."""

    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True)
class Match(Holder):
    """Join of the released rows with a public relation: the columns before, then the relation's.

    Args:
        relation: public throughout; its rows are read without touching protected data.
        kind: which unmatched rows stay, with the released rows as the left side.
        condition: the join condition, over the columns of both.
    """

    relation: RelationNode
    kind: JoinKind
    condition: Expression


@dataclass(frozen=True, slots=True)
class Combine(Holder):
    """Join of the released rows with those of another query: the columns before, then the other query's.

    Args:
        other: the query whose rows are joined.
        kind: which unmatched rows stay, with the rows before as the left side.
        condition: the join condition, over the columns of both.
    """

    other: Query
    kind: JoinKind
    condition: Expression


@dataclass(frozen=True, slots=True)
class Append(Holder):
    """UNION ALL of the released rows and those of another query, whose columns have the same types."""

    other: Query


Step = Totals | Derive | Keep | Sort | Slice | Unique | Regroup | Extend | Match | Combine | Append


def types_after(step: Step, types: tuple[SqlType, ...]) -> tuple[SqlType, ...]:
    """Return the types of the columns after a step, given those before it."""
    match step:
        case Totals():
            width = len(step.keys)
            return (*(types[key] for key in step.keys), *[INTEGER] * width, *types[width:])
        case Derive():
            return tuple([part.type for part in step.expressions])
        case Regroup():
            return (*(key.type for key in step.keys), *(call.type for call in step.calls))
        case Extend():
            return (*types, *(call.type for call in step.calls))
        case Match():
            return (*types, *(column.type for column in step.relation.fields))
        case Combine():
            return (*types, *(column.type for column in step.other.columns))
        case _:
            return types


def with_branches(query: Query) -> list[Query]:
    """Return a query, then the queries whose rows its steps read, in the order of the steps."""
    others = [step.other for step in query.steps if isinstance(step, Combine | Append)]
    return [query, *[each for other in others for each in with_branches(other)]]


def most_rows(query: Query) -> int | None:
    """Return an upper bound on the number of rows of a query, whatever is released; None where there is none."""
    most = query.final.group_count
    for step in query.steps:
        match step:
            case Totals() if most is not None:
                # Each group of a coarser set sums at least one finest group; the grand total exists even without any.
                most = sum(max(most, 1) for _ in step.sets)
            case Regroup() if not step.keys:
                most = 1
            case Slice() if step.limit is not None:
                most = step.limit if most is None else min(most, step.limit)
            case Match():
                most = _most_pairs(most, row_bounds(step.relation)[1], step.kind)
            case Combine():
                most = _most_pairs(most, most_rows(step.other), step.kind)
            case Append():
                other = most_rows(step.other)
                most = None if most is None or other is None else most + other
            case _:
                pass
    return most


def _most_pairs(mine: int | None, theirs: int | None, kind: JoinKind) -> int | None:
    if mine is None or theirs is None:
        return None
    left, right = kind in (JoinKind.LEFT, JoinKind.FULL), kind in (JoinKind.RIGHT, JoinKind.FULL)
    if left and right:
        return mine * theirs + mine + theirs
    return max(mine, 1 if right else 0) * max(theirs, 1 if left else 0)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the answer: its name, type, and whether its values carry noise."""

    name: str
    type: SqlType
    noisy: bool
    domain: Domain = field(compare=False, repr=False)


@dataclass(frozen=True)
class Query:
    """A resolved query: a pure value, equal for texts that ask the same of the same tables.

    Args:
        final: the aggregation.
        steps: post-processing of its cells, in order; the columns of the last step are the answer's.
        columns: the columns of the answer.
        options: the OPTIONS in the text.
        others: the aggregations of further parts, in order; see :func:`numbered`.
        part: for a query that a step reads, the index of its aggregation in :attr:`finals` of the whole query.
        values: single-value queries that rows below an aggregation are compared with, by key: their parts are
            released first, and the value is then a public number.
    """

    final: FinalAggregation
    steps: tuple[Step, ...]
    columns: tuple[OutputColumn, ...]
    options: Options
    others: tuple[FinalAggregation, ...] = ()
    part: int = 0
    values: tuple[tuple[str, Query], ...] = ()

    @property
    def parts_read(self) -> frozenset[int]:
        """Indices in :attr:`finals` of the aggregations whose released rows it reads."""
        return frozenset(each.part for each in with_branches(self))

    @cached_property
    def finals(self) -> tuple[FinalAggregation, ...]:
        """Aggregations of all parts, each once."""
        return (self.final, *self.others)

    @cached_property
    def totals(self) -> Totals | None:
        """The grouping sets; None for a plain GROUP BY."""
        first = self.steps[0] if self.steps else None
        return first if isinstance(first, Totals) else None

    @cached_property
    def has_totals(self) -> bool:
        """Whether there are grouping sets, in the query itself or in one whose rows or values it reads."""
        whole = [self, *[value for _, value in self.values]]
        return any(each.totals is not None for one in whole for each in with_branches(one))

    @cached_property
    def reads(self) -> tuple[RelationNode, ...]:
        """The public relations whose rows the steps need, in the order in which the steps read them."""
        found: list[RelationNode] = []
        for step in self.steps:
            if isinstance(step, Match):
                found.append(step.relation)
            elif isinstance(step, Combine | Append):
                found += step.other.reads
        return tuple(found)

    @cached_property
    def text(self) -> str:
        """Canonical text: names of output columns and everything that decides the answer; no ranges, no aliases."""
        steps = [_step_text(step) for step in self.steps]
        columns = [f"{c.name!r}:{c.type}" for c in self.columns]
        return "\n".join([self.final.text, *steps, ", ".join(columns), repr(self.options)])

    @property
    def digest(self) -> str:
        """SHA-256 of :attr:`text` in hexadecimal, by which a repeated query is recognised."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class PublicQuery:
    """A resolved query that reads public tables alone: its rows are exact, released without noise, and free.

    Args:
        relation: public throughout; its rows, sorted by its columns, are the answer.
        columns: the columns of the answer.
        placed: whether the first column is the position of each row, which decides the order and is not shown.
    """

    relation: RelationNode
    columns: tuple[OutputColumn, ...]
    placed: bool

    @cached_property
    def text(self) -> str:
        """Canonical text: names of output columns and everything that decides the answer."""
        columns = ", ".join(f"{c.name!r}:{c.type}" for c in self.columns)
        return "\n".join(["public", relation_text(self.relation), columns])

    @property
    def digest(self) -> str:
        """SHA-256 of :attr:`text` in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def numbered(query: Query) -> Query:
    """Return the query with the distinct aggregations of its parts listed, and their indices set in its steps."""
    if not query.values and len(with_branches(query)) == 1:
        return replace(query, others=(), part=0)
    known: dict[str, int] = {}
    finals: list[FinalAggregation] = []

    def number(each: Query) -> Query:
        if each.final.text not in known:
            known[each.final.text] = len(finals)
            finals.append(each.final)
        part = known[each.final.text]
        steps = tuple(
            replace(step, other=number(step.other)) if isinstance(step, Combine | Append) else step
            for step in each.steps
        )
        return replace(each, steps=steps, part=part)

    found = number(query)
    waiting, values = dict(query.values), dict[str, Query]()
    # The parts that release a value may read other values.
    for final in finals:
        for key in released_values(final.source):
            if key not in values:
                values[key] = number(waiting[key])
    return replace(found, others=tuple(finals[1:]), values=tuple(values.items()))


def _step_text(step: Step) -> str:
    match step:
        case Totals():
            return f"totals {step.keys} {step.sets}"
        case Derive():
            return "derive " + "; ".join(map(text_of, step.expressions))
        case Keep():
            return "keep " + text_of(step.condition)
        case Sort():
            terms = (f"{text_of(key.expression)} {key.descending} {key.nulls_first}" for key in step.keys)
            return f"sort {'; '.join(terms)}"
        case Slice():
            return f"slice {step.limit} {step.offset}"
        case Regroup():
            calls = map(call_text, step.calls)
            return "regroup " + "; ".join(map(text_of, step.keys)) + " | " + "; ".join(calls)
        case Extend():
            return "extend " + "; ".join(map(window_text, step.calls))
        case Match():
            return f"match {step.kind.value} {text_of(step.condition)} {relation_text(step.relation)}"
        case Combine():
            return f"combine {step.kind.value} {text_of(step.condition)} ({step.other.text})"
        case Append():
            return f"append ({step.other.text})"
        case _:
            return "unique"
