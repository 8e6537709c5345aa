"""Relational algebra: nodes that an engine computes below the final aggregation, and rewriting of their trees.

Every relation is **public** (``unit`` is None) or **owned** (``unit`` is the slot of the column that names the person
each row belongs to; no row has NULL there). The rows of a unit are a function of that unit's own data and of public
data. The rules that keep this true are in :mod:`tacit.query.relational.ownership`; nodes are built there and by the
resolver, never by hand.

=============== =======================================================================================================
node            rows
=============== =======================================================================================================
Scan            a table; numbers that are not finite are NULL, rows without a unit are dropped, the unit is the last
                column unless it is a visible one
Constants       the rows of a VALUES list; public
ReleasedValue   one row with a value that another part of the query releases first; public once it is known
ReleasedTable   rows that another part of the query releases first, likewise
FilterRows      those for which the condition is true
ProjectColumns  one column per expression
Join            pairs for which the condition is true, and for LEFT, RIGHT, FULL the unmatched rows with NULLs. The
                unit of a FULL join is the last column, ``COALESCE(left unit, right unit)``
ExistsColumn    those of the source, and a last BOOLEAN column: whether some row of the other relation meets the
                condition
FirstRows       the first few of each unit, in the order of a keyed hash of the unit and the row
UnionAll        those of all sources
UnitAggregate   one per distinct keys; over owned data the keys include the unit, so every group is one person's
UnitWindow      those of the source, and one column per window; over owned data every partition is one person's
=============== =======================================================================================================

DISTINCT is a :class:`UnitAggregate` without aggregates. Conditions and expressions refer to columns by slot; those of
:class:`Join` and :class:`ExistsColumn` see the left columns followed by the right ones. Names serve for messages,
not for meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tacit.query.catalog import TABLE_ROWS, TEXT_LENGTH, UNIT_ROWS, ForeignKey
from tacit.query.contribution import ContributionNumber
from tacit.query.relational.expressions import (
    TRUE,
    Call,
    Change,
    Expression,
    Holder,
    Literal,
    Reference,
    optional_text,
    rewrite,
    text_of,
)
from tacit.query.types import Domain, SqlType, Value

# -- window functions over the rows of one unit


@dataclass(frozen=True, slots=True)
class SortKey(Holder):
    """One term of a window's ORDER BY; NULLs come last in either direction, unless stated otherwise."""

    expression: Expression
    descending: bool
    nulls_first: bool


class WindowFrame(Enum):
    """The rows of the partition that a window function reads, relative to the current row."""

    PARTITION = "whole partition"
    RUNNING = "rows from the first to the current"
    PEERS = "rows from the first to the current and those that sort equal to it"
    ROWS_AROUND = "rows from so many before to so many after the current"


@dataclass(frozen=True, slots=True)
class WindowCall(Holder):
    """A window function over one unit's rows.

    Args:
        function: a :class:`~.algebra.UnitCall` function, or ``row_number``, ``rank``, ``dense_rank``, ``lag``,
            ``lead``, ``first_value``, ``last_value``.
        argument: the expression that it reads; None for ``count_rows``, ``row_number``, ``rank``, ``dense_rank``.
        offset: distance in rows for ``lag`` and ``lead``.
        partition: expressions, among them the unit where the source is owned.
        order: the sort keys. An engine completes them with all columns of the source (except for ``rank``,
            ``dense_rank`` and PEERS frames, which treat ties alike), so that equal rows are the only ties left.
        frame: the rows that it reads.
        type: the SQL type of the result.
        around: both ends of a frame around the current row: the number of rows after it (before it, where negative);
            None for an unbounded end.
    """

    function: str
    argument: Expression | None
    offset: int | None
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: WindowFrame
    type: SqlType
    around: tuple[int | None, int | None] | None = None


def window_text(call: WindowCall) -> str:
    """Canonical text of a window."""
    order = ",".join(f"{text_of(k.expression)} {k.descending} {k.nulls_first}" for k in call.order)
    parts = ",".join(map(text_of, call.partition))
    frame = call.frame.value if call.around is None else f"{call.frame.value} {call.around[0]} {call.around[1]}"
    return f"{call.function}({optional_text(call.argument)}|{call.offset})[{parts}|{order}|{frame}]:{call.type}"


# -- relational algebra


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a relation.

    Args:
        name: its name; None for columns that queries cannot name.
        type: its SQL type.
        domain: public knowledge about its values.
        identifies: what a value identifies: ``"unit <population>"`` for the unit itself, ``"key <table>.<column>"``
            for a unique column of a protected table, and None for anything else. Two rows with equal values of equal
            kind belong to one unit; this is what allows a join of protected tables.
        origin: ``table.column`` where it was stored, for messages; None for computed columns.
        per_unit: whether all rows of a unit presumably share one value. Chooses contribution bounds; privacy does not
            depend on it.
        repeats: for columns of a scan, the most rows (of one unit, where the table is protected) that share a value; 1
            where the column is declared unique, None where nothing is known. Bounds work, never values.
    """

    name: str | None = field(compare=False)
    type: SqlType
    domain: Domain = field(compare=False, repr=False)
    identifies: str | None = None
    origin: str | None = field(default=None, compare=False)
    per_unit: bool = field(default=False, compare=False)
    repeats: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RelationNode:
    """Base class of the relational nodes.

    Args:
        fields: the columns.
        unit: the slot of the unit column; None for public relations.
        population: the population of the units; None for public relations.
        max_groups: how many groups a unit counts in where a query states no number, as declared for the tables
            below (the largest of them, AUTO among them); 1 where a unit has one row.
        max_rows: how many rows of a unit count per group, likewise.
        weight: the number of nodes in the tree, shared parts counted each time they occur.
    """

    fields: tuple[Field, ...]
    unit: int | None
    population: str | None
    max_groups: ContributionNumber
    max_rows: ContributionNumber
    weight: int = field(compare=False)

    @property
    def is_public(self) -> bool:
        """Whether no row belongs to a unit."""
        return self.unit is None

    @property
    def row_units(self) -> bool:
        """Whether every row is its own unit, so that one unit has at most one row."""
        return False


@dataclass(frozen=True, slots=True)
class Scan(RelationNode):
    """A table of the catalog.

    Args:
        table: its name.
        columns: the stored columns, in the order of the first fields.
        unit_source: the stored column that is the unit; ``"row"`` for a number per row (the last field); for a path,
            the column at its end, as the last field.
        path: foreign keys to follow, by inner joins on equality, from this table to the one that has the unit column.
            Each step's ``column`` belongs to the table that the previous step references.
        rows: the most rows of one unit, as declared; for a public table, its number of rows. Bounds work, never values.
        table_rows: the most rows of a protected table, as declared; decides the response time of a query alone.
        text_length: the most characters of its texts, likewise.
        max_groups_limit: ceiling of the owner on ``max_groups`` of a query; None for no ceiling.
        max_rows_limit: ceiling of the owner on ``max_rows``, likewise.
    """

    table: str
    columns: tuple[str, ...]
    unit_source: str | None
    path: tuple[ForeignKey, ...]
    rows: int = field(default=UNIT_ROWS, compare=False)
    max_groups_limit: int | None = field(default=None, compare=False)
    max_rows_limit: int | None = field(default=None, compare=False)
    table_rows: int = field(default=TABLE_ROWS, compare=False)
    text_length: int = field(default=TEXT_LENGTH, compare=False)

    @property
    def row_units(self) -> bool:
        return self.unit_source == "row" and self.unit is not None and self.unit >= len(self.columns)


@dataclass(frozen=True, slots=True)
class Constants(RelationNode):
    """The rows of a VALUES list."""

    rows: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True, slots=True)
class ReleasedValue(Constants):
    """One row with a value that another part of the query releases first; NULL until it is released.

    ``key`` names the query whose value it is (:attr:`tacit.query.query.Query.values`).
    """

    key: str


@dataclass(frozen=True, slots=True)
class ReleasedTable(ReleasedValue):
    """Rows that another part of the query releases first; until then, rows of NULL, as many as there may be.

    No two rows agree in all of the columns ``unique``; None where no such columns are known.
    """

    unique: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class OverSource(RelationNode):
    """Base class of relations with at most one row for each row of the source."""

    source: RelationNode

    @property
    def row_units(self) -> bool:
        return self.source.row_units


@dataclass(frozen=True, slots=True)
class FilterRows(OverSource):
    """The rows for which ``condition`` is true (not NULL, not false)."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class ProjectColumns(OverSource):
    """One column per expression over the source."""

    expressions: tuple[Expression, ...]


class JoinKind(Enum):
    """Which unmatched rows stay."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Join(RelationNode):
    """Pairs of rows for which ``condition`` is true.

    Columns are the left ones, then the right ones, then for FULL joins of owned relations the unit.

    ``keeps`` marks an INNER join that stands for an outer one, which keeps public rows of this side; these are not
    among the rows here (:mod:`tacit.query.resolve.public_rows`).
    """

    left: RelationNode
    right: RelationNode
    kind: JoinKind
    condition: Expression
    keeps: JoinKind | None = field(default=None, compare=False, repr=False)

    @property
    def row_units(self) -> bool:
        """Whether every row is its own unit: each is joined with at most one public row."""
        alone = self.left.row_units and self.unit == self.left.unit and self.right.is_public
        return alone and self.kind in (JoinKind.INNER, JoinKind.LEFT) and row_bounds(self.right)[1] in (0, 1)


@dataclass(frozen=True, slots=True)
class ExistsColumn(OverSource):
    """Each row of ``source`` once, and whether some row of ``other`` meets ``condition`` with it (never NULL)."""

    other: RelationNode
    condition: Expression


@dataclass(frozen=True, slots=True)
class FirstRows(OverSource):
    """At most ``most`` rows of each unit.

    The order is that of md5 over the key secret, the unit and all columns of the row, then of the columns themselves,
    so only equal rows tie. It reads the rows of one unit alone.
    """

    most: int


@dataclass(frozen=True, slots=True)
class UnionAll(RelationNode):
    """All rows of all parts, which have the same column types and the unit in the same slot."""

    parts: tuple[RelationNode, ...]


@dataclass(frozen=True, slots=True)
class UnitCall(Holder):
    """An exact aggregate inside one unit's group.

    Args:
        function: ``count_rows``, ``count`` (non-NULL), ``count_distinct``, ``sum``, ``avg``, ``min``, ``max``,
            ``quantile`` (continuous, as PERCENTILE_CONT), ``var_samp``, ``var_pop``, ``stddev_samp``, ``stddev_pop``,
            ``bool_and``, ``bool_or``.
        argument: the expression that it reads; None for ``count_rows``. NULL is ignored.
        where: the FILTER condition; rows for which it is not true are ignored.
        parameter: the fraction of ``quantile``.
        type: the SQL type of the result. A result that does not fit is NULL, as is the aggregate of no values (except
            counts: 0).

    The value must be a function of the *multiset* of the group's values: an engine must not let the order of rows, the
    number of threads or other units' rows change the last bit of a sum of DOUBLE values (sum them sorted, or as
    integers).
    """

    function: str
    argument: Expression | None
    where: Expression | None
    parameter: Value | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class UnitAggregate(RelationNode):
    """One row per distinct values of the keys: first a column per key, then one per call."""

    source: RelationNode
    keys: tuple[Expression, ...]
    calls: tuple[UnitCall, ...]

    @property
    def row_units(self) -> bool:
        """Whether every row is its own unit: grouped by the unit alone, each unit has one row."""
        only = self.keys[0] if len(self.keys) == 1 else None
        return self.unit is not None and isinstance(only, Reference) and only.slot == self.source.unit


@dataclass(frozen=True, slots=True)
class UnitWindow(OverSource):
    """The columns of the source, then one column per window."""

    calls: tuple[WindowCall, ...]


def sources(node: RelationNode) -> tuple[RelationNode, ...]:
    """Return the relations directly below a node."""
    match node:
        case Join():
            return (node.left, node.right)
        case ExistsColumn():
            return (node.source, node.other)
        case OverSource() | UnitAggregate():
            return (node.source,)
        case UnionAll():
            return node.parts
        case _:
            return ()


def row_bounds(node: RelationNode) -> tuple[int, int | None]:
    """Return the fewest and the most rows that a relation can have; None where the tables decide.

    Declarations are not relied on: a column that is declared unique bounds nothing.
    """
    match node:
        case ReleasedTable():
            return 0, len(node.rows)
        case Constants():
            return len(node.rows), len(node.rows)
        case UnitAggregate() if not node.keys:
            # An aggregate without keys has one row even over no rows.
            return 1, 1
        case ProjectColumns() | UnitWindow() | ExistsColumn():
            return row_bounds(node.source)
        case FilterRows():
            return 0, _fewer(row_bounds(node.source)[1], _most_placed(node))
        case FirstRows() | UnitAggregate():
            return 0, row_bounds(node.source)[1]
        case Join():
            return _joined(node)
        case UnionAll():
            parts = [row_bounds(part) for part in node.parts]
            mosts = [most for _, most in parts]
            known = [most for most in mosts if most is not None]
            return sum(fewest for fewest, _ in parts), sum(known) if len(known) == len(mosts) else None
        case _:
            return 0, None


def _fewer(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)


def _most_placed(node: FilterRows) -> int | None:
    """Return n for a filter ``row_number <= n`` over a window that numbers all rows; None for any other filter."""
    window, condition = node.source, node.condition
    if not (isinstance(window, UnitWindow) and isinstance(condition, Call) and condition.function == "le"):
        return None
    place, most = condition.args
    if not (isinstance(place, Reference) and isinstance(most, Literal) and isinstance(most.value, int)):
        return None
    first = len(window.source.fields)
    numbers = place.slot >= first and window.calls[place.slot - first].function == "row_number"
    return most.value if numbers and not window.calls[place.slot - first].partition else None


def _joined(node: Join) -> tuple[int, int | None]:
    (fewest, most), (least, other) = row_bounds(node.left), row_bounds(node.right)
    if most is None or other is None or node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        return 0, None
    if node.kind is JoinKind.LEFT:
        return fewest, most * max(other, 1)
    return fewest * least if node.condition == TRUE else 0, most * other


def reference(relation: RelationNode, slot: int) -> Reference:
    column = relation.fields[slot]
    return Reference(column.type, column.domain, slot, column.name or column.origin or "?")


def visible(relation: RelationNode) -> list[tuple[str, Reference]]:
    """Return the columns that queries can name, as pairs of a name and a reference."""
    return [(c.name, reference(relation, slot)) for slot, c in enumerate(relation.fields) if c.name is not None]


def relation_text(node: RelationNode) -> str:
    """Return the canonical text: equal relations have equal texts and different ones different texts."""
    below = [relation_text(part) for part in sources(node)]
    return f"{type(node).__name__}[{'; '.join(_own_text(node))}]({', '.join(below)})@{node.unit}"


def _told_apart(name: str) -> str:
    """Return a column's name for the canonical text: in quotes where it could contain the text's separators."""
    return name if name.isascii() and name.isidentifier() else repr(name)


def _own_text(node: RelationNode) -> list[str]:
    match node:
        case Scan():
            hops = [f"{_told_apart(hop.column)}->{hop.table}.{_told_apart(hop.references)}" for hop in node.path]
            return [node.table, ",".join(map(_told_apart, node.columns)), _told_apart(str(node.unit_source)), *hops]
        case ReleasedTable():
            return [node.key, f"{len(node.rows)} rows"]
        case ReleasedValue():
            return [node.key]
        case Constants():
            return [",".join(map(text_of, row)) for row in node.rows]
        case FilterRows() | ExistsColumn():
            return [text_of(node.condition)]
        case FirstRows():
            return [str(node.most)]
        case ProjectColumns():
            return [text_of(part) for part in node.expressions]
        case Join():
            return [node.kind.value, text_of(node.condition)]
        case UnitAggregate():
            return [text_of(key) for key in node.keys] + [call_text(call) for call in node.calls]
        case UnitWindow():
            return [window_text(call) for call in node.calls]
        case _:
            return []


def call_text(call: UnitCall) -> str:
    """Return the canonical text of an exact aggregate."""
    return f"{call.function}({optional_text(call.argument)}|{optional_text(call.where)}|{call.parameter!r}):{call.type}"


def walk_relations(node: RelationNode) -> list[RelationNode]:
    """Return a relation and all relations below it in pre-order, from left to right."""
    found, stack = [], [node]
    while stack:
        here = stack.pop()
        found.append(here)
        stack.extend(reversed(sources(here)))
    return found


def scans(node: RelationNode) -> list[Scan]:
    """Return the scans in a relation, each as often as it occurs."""
    return [part for part in walk_relations(node) if isinstance(part, Scan)]


def scanned(node: RelationNode) -> list[str]:
    """Return the names of the scanned tables, and of the tables on their paths to the unit, each once."""
    found: dict[str, None] = {}
    for scan in scans(node):
        found[scan.table] = None
        found |= dict.fromkeys([hop.table for hop in scan.path])
    return list(found)


def is_public_throughout(node: RelationNode) -> bool:
    """Whether neither the relation nor any relation below it belongs to a unit."""
    return not any(
        part.unit is not None
        or part.population is not None
        or (isinstance(part, Scan) and (part.unit_source is not None or part.path))
        for part in walk_relations(node)
    )


# -- rewriting


def released_values(node: RelationNode) -> tuple[str, ...]:
    """Return the keys of the released values that a relation reads, each once."""
    return tuple(dict.fromkeys(part.key for part in walk_relations(node) if isinstance(part, ReleasedValue)))


def bottom_up(node: RelationNode, change: Callable[[RelationNode], RelationNode]) -> RelationNode:
    """Return the tree with ``change`` applied to every node, sources first."""
    below = [bottom_up(part, change) for part in sources(node)]
    return change(with_sources(node, below) if below else node)


def with_sources(node: RelationNode, below: Sequence[RelationNode]) -> RelationNode:
    """Return the node over other sources; the node itself where they are the same."""
    if all(new is old for new, old in zip(below, sources(node), strict=True)):
        return node
    match node:
        case FilterRows() | FirstRows() | ProjectColumns() | UnitAggregate() | UnitWindow():
            return replace(node, source=below[0])
        case Join():
            return replace(node, left=below[0], right=below[1])
        case ExistsColumn():
            return replace(node, source=below[0], other=below[1])
        case UnionAll():
            return replace(node, parts=tuple(below))
        case _:
            return node


def moved(slots: Mapping[int, int]) -> Change:
    """Return a change of expressions that renumbers slots, old to new."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Reference):
            return None
        slot = slots[part.slot]
        return part if slot == part.slot else replace(part, slot=slot)

    return lambda expression: rewrite(expression, change)


def substituted(expressions: Sequence[Expression]) -> Change:
    """Return a change of expressions that replaces each column by the expression that computes it."""
    return lambda expression: rewrite(
        expression, lambda part: expressions[part.slot] if isinstance(part, Reference) else None
    )
