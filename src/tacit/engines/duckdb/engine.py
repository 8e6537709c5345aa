"""The DuckDB engine: one locked database, one cursor per question, exact integers back.

Where a unit may have more public groups than it may keep, a bit set per unit says which places of its permutation are
taken; the place of the last group it may keep is its limit, and rows beyond the limit are left out before anything is
added up. That groups by far fewer keys than (unit, group) pairs and sorts nothing.

Statements have a second, faster form: DuckDB reads the rows, and :mod:`.fast` bounds them in memory.
Both keep the same rows and give the same integers; SQL is for what does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from tacit.engines.duckdb.database import DuckDBSession, SourceStates, TimeoutWatcher
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.array_losses import loss_plan
from tacit.engines.duckdb.fast.array_spreads import SpreadPlan
from tacit.engines.duckdb.fast.array_totals import read_shares
from tacit.engines.duckdb.fast.bitset_bounding import kept_clauses
from tacit.engines.duckdb.fast.copied_rows import each_row_once
from tacit.engines.duckdb.fast.fetched_rows import FEW, MOST_ROWS, ROW_BYTES, RowPlan
from tacit.engines.duckdb.fast.grouped_rows import GroupPlan
from tacit.engines.duckdb.fast.private_totals import PrivatePlan
from tacit.engines.duckdb.sources import MOST_PLACES, DuckDBTable
from tacit.engines.protocol import Limits, MeasurementTask, SourceLike
from tacit.engines.sql.dialect import column
from tacit.engines.sql.engine import Answered, SqlEngine
from tacit.engines.sql.group_choice import Groups
from tacit.engines.sql.relations import (
    StoredTable,
    has_cut,
    has_row_units,
    has_union,
    reads_again,
    relation_sql,
    slots_of,
    tables_of,
)
from tacit.engines.sql.statements import Named, Statement, Writer
from tacit.engines.sql.unit_totals import quantised_sql
from tacit.query.catalog import Catalog
from tacit.query.planning.left_out import LossTable
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import FilterRows, FirstRows, Join, ProjectColumns, RelationNode, Scan
from tacit.query.relational.expressions import Reference

if TYPE_CHECKING:
    import duckdb

#: Bytes of sources beyond which more planning is worth less reading.
_LARGE = 20 * 2**20


@dataclass(frozen=True)
class DuckDBStatement(Statement):
    """A statement; ``rows`` is the faster form of the same, if there is one."""

    rows: RowPlan | PrivatePlan | SpreadPlan | None = None

    @property
    def tells_left_out(self) -> bool:
        """Whether the rows of the faster form tell the table of what bounding leaves out as well."""
        return isinstance(self.rows, RowPlan | PrivatePlan) and self.rows.losses is not None


@dataclass(frozen=True)
class DuckDBWriter(Writer):
    """Writes statements, and their faster forms."""

    def statements(self) -> tuple[DuckDBStatement, ...]:
        """All statements of a question."""
        first = self.first()
        rows = self.row_plan()
        return (
            DuckDBStatement(first.write, first.measures, first.is_spread, rows=rows),
            *(
                DuckDBStatement(
                    other.write,
                    other.measures,
                    other.is_spread,
                    rows=self.spread_plan(self.final.measures[other.measures[0]]),
                )
                for other in self.others()
            ),
        )

    def sums(self, measures: list[Measure]) -> str:
        """Group columns, ``units``, and one total per measure; rows beyond a unit's limit are never collected."""
        if self.alone:
            return super().sums(measures)
        partials = self.partials(measures)
        totals = [f"{partials.total(measure)} AS v{i}" for i, measure in enumerate(measures)]
        read = slots_of(e for measure in measures for e in (measure.argument, measure.where))
        names, listed = ", ".join(self.groups.columns), ", ".join(["count(*) AS units", *totals])
        loose = self.reading_loosely(measures)
        # Private groups are chosen among pairs, below.
        rows = loose._kept_rows(partials.rows, read)
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        pairs = f"SELECT u, {names}{collected} FROM {rows.name} GROUP BY u, {names}"
        if not self.groups.is_public:
            pairs = self.chosen(pairs)
        return f"{rows.text} SELECT {names}, {listed} FROM ({self.in_all(partials, pairs)}) GROUP BY {names}"

    @property
    def _group_plan(self) -> GroupPlan:
        kinds = None if self.groups.is_public else self.groups.types
        return GroupPlan(self.chooser, kinds, self.groups.count if kinds is None else 0, self.final.max_groups)

    def spread_plan(self, measure: Measure) -> SpreadPlan | None:
        """The rows of :meth:`spread` one by one; None where every row is a unit."""
        if self.alone:
            return None
        value, kind = self._value(measure)
        is_sum = measure.kind is MeasureKind.DISTINCT_SUM
        read = slots_of([measure.argument, measure.where])
        loose = self._reading_places(read) if self.groups.is_public else self
        rows = loose.all_rows({"x": value, **({"y": quantised_sql(self.d, measure)} if is_sum else {})}, read)
        if not self.must_choose:
            # Where no group is chosen, rows without a value tell nothing.
            rows = f"SELECT * FROM ({rows}) WHERE x IS NOT NULL"
        if is_sum:
            bounds = measure.centre, measure.reach
            return SpreadPlan(rows, self._group_plan, kind, measure.width, measure.rows, *bounds)
        counted = None if measure.kind is not MeasureKind.DISTINCT else kind
        return SpreadPlan(rows, self._group_plan, counted, measure.width, measure.rows)

    def row_plan(self) -> RowPlan | PrivatePlan | None:
        """The rows of :meth:`sums` one by one, where memory can take over; None for wide sums and units of one row."""
        copied = each_row_once(self.final) if not self.alone and _is_joined(self.final.source) else None
        if copied is None:
            return self._own_rows()
        each = replace(self, final=copied.final, groups=Groups(copied.final), unit=copied.unit)
        found = each._own_rows()
        if found is None:
            return self._own_rows()
        sizes = (relation_sql(self.d, public, frozenset(), self.tables) for public in copied.publics)
        counted = " * ".join(f"(SELECT count(*) FROM ({public}))" for public in sizes)
        return replace(found, copies_sql=f"SELECT {counted}")

    def _own_rows(self) -> RowPlan | PrivatePlan | None:
        measures = [self.final.measures[i] for i in self.summed]
        found = None if self.alone else read_shares(measures)
        if found is None:
            return None
        columns, shares = found
        losses = None
        if self.left_out is not None:
            known = {share.measure: share.column for share in shares}
            losses = loss_plan(self.final, self.left_out, columns, known)
            measures = [*self.final.measures]
        read = slots_of(e for measure in measures for e in (measure.argument, measure.where))
        # Rows outside the public list come along with NULL for a group: a condition would compute the group twice.
        loose = self.reading_loosely(measures)
        loose = loose._reading_places(read) if self.groups.is_public else loose
        more = {} if losses is None else losses.columns
        rows = loose.all_rows({name: made.sql for name, made in (*columns.items(), *more.items())}, read)
        if not self.groups.is_public:
            return PrivatePlan(rows, self._group_plan, columns, shares, losses, in_all=self._in_all)
        bounds = (self.groups.count, self.final.max_groups)
        # DuckDB may wait for ever where a LIMIT stands over a cross join of unions, or over a join of one subquery with
        # itself, which it computes once; such sources are read without one, as large ones are. So are those in which
        # rows of units are cut, where it is not known that they are few.
        source, most_rows = self.final.source, self._most_rows()
        many = has_cut(source) and (most_rows is None or most_rows > FEW)
        large = self._is_large() or has_union(source) or reads_again(source) or many
        return RowPlan(
            rows,
            self.chooser,
            *bounds,
            columns,
            shares,
            large=large,
            most_rows=most_rows,
            losses=losses,
            in_all=self._in_all,
        )

    @property
    def _in_all(self) -> tuple[int, int] | None:
        return None if self.final.max_total is None else (self.final.max_total, self.final.most_in_group)

    def _reading_places(self, read: frozenset[int]) -> Self:
        """The same with numbers of keys instead of keys, where the table has them and nothing else reads the keys."""
        used, node = set(read) | {self.unit}, self.final.source
        while isinstance(node, FilterRows):
            used |= slots_of([node.condition])
            node = node.source
        # A number computed from small ones is small as well, and has to fit.
        if not isinstance(node, Scan) or node.path or self.groups.count > MOST_PLACES:
            return self
        stored = self.tables[node.table.lower()]
        if not isinstance(stored, DuckDBTable):
            return self
        columns, placed = dict(stored.columns), set()
        for index, key in enumerate(self.final.keys):
            others = slots_of(other.expression for other in self.final.keys if other is not key)
            if not isinstance(key.expression, Reference) or key.expression.slot in used | others:
                continue
            name = node.columns[key.expression.slot].lower()
            if name in stored.places and stored.listed[name] == key.values:
                columns[name] = stored.places[name]
                placed.add(index)
        tables = {**self.tables, node.table.lower(): replace(stored, columns=columns)}
        return replace(self, tables=tables, groups=replace(self.groups, placed=frozenset(placed)))

    def kept(self, columns: Mapping[str, str], read: frozenset[int]) -> Named:
        """Rows in the groups their unit keeps."""
        return self._kept_rows(columns, read) if self.groups.is_public else self._kept_private(self.rows(columns, read))

    def _kept_rows(self, columns: Mapping[str, str], read: frozenset[int]) -> Named:
        """The same for public groups; of private ones, all."""
        if not self.groups.is_public or not self.must_choose:
            return Named(f"WITH r AS ({self.rows(columns, read)})", "r")
        # Columns are computed last, for the rows that are kept.
        raw = {column(slot): column(slot) for slot in sorted(read)}
        count = self.groups.count
        place = self.chooser.place("h", "g", count)
        named = ", ".join(["u", "CAST(g AS SMALLINT) AS g", *raw, f"CAST({place} AS SMALLINT) AS p"])
        parameters = self.chooser.parameters(self.d, "u")
        placed = f"SELECT {named} FROM (SELECT *, {parameters} AS h FROM ({self.rows(raw, read)}))"
        finished = ", ".join(["u", "g", *(f"{sql} AS {name}" for name, sql in columns.items())])
        clauses = kept_clauses(
            count, self.chooser.bits(count), self.final.max_groups, ["g", *raw], large=self._is_large()
        )
        parts = {"p AS MATERIALIZED": placed, **clauses, "r AS NOT MATERIALIZED": f"SELECT {finished} FROM kept"}
        return Named("WITH " + ", ".join(f"{name} ({sql})" for name, sql in parts.items()), "r")

    def _most_rows(self) -> int | None:
        """Largest number of rows of the source, where that is known: no more than the one table that it reads."""
        node: RelationNode = self.final.source
        while isinstance(node, FilterRows | FirstRows | ProjectColumns):
            node = node.source
        return self.tables[node.table.lower()].rows if isinstance(node, Scan) and not node.path else None

    def _is_large(self) -> bool:
        return sum(self.tables[name].size for name in tables_of(self.final.source)) > _LARGE

    def _kept_private(self, rows: str) -> Named:
        names = self.groups.columns
        chosen = self.chosen(f"SELECT DISTINCT u, {', '.join(names)} FROM q")
        match = " AND ".join(["q.u = j.u", *(f"q.{name} IS NOT DISTINCT FROM j.{name}" for name in names)])
        kept = f"SELECT q.* FROM q JOIN ({chosen}) AS j ON {match}"
        return Named(f"WITH q AS MATERIALIZED ({rows}), r AS ({kept})", "r")


def _is_joined(node: RelationNode) -> bool:
    """Whether a join stands below the conditions on all rows."""
    while isinstance(node, FilterRows):
        node = node.source
    return isinstance(node, Join)


class DuckDBEngine(SqlEngine):
    """Measures files and frames with DuckDB.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: memory, threads, seconds, and whether to spill to disk.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    dialect = DUCKDB
    writer = DuckDBWriter
    operation_seconds = 4e-8

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits | None = None) -> None:
        super().__init__(catalog, limits)
        self._sources = SourceStates(catalog, data, self._limits)
        # Rows that are bounded outside the database keep to its limit as well.
        self._most_rows = min(MOST_ROWS, self._sources.latest.memory // ROW_BYTES)
        self._threads = self._limits.threads or os.cpu_count() or 1
        self._watch = TimeoutWatcher()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._sources.latest.connection

    @property
    def _tables(self) -> dict[str, DuckDBTable]:
        return self._sources.latest.tables

    def is_view(self, table: str) -> bool:
        """Whether a table of the catalog is a view of a DuckDB file, and so may have rows of any table in it."""
        return self._tables[table.lower()].row is None

    def close(self) -> None:
        """Interrupt what runs and close the database; may be called twice."""
        self.interrupt()
        self._sources.close()

    def _written(self, final: FinalAggregation, left_out: LossTable | None = None) -> tuple[Statement, ...]:
        # Rows of a view have no number; a statement that needs one cannot be written. Every other statement can, and is
        # written when it is known whether it reads files or their copies.
        if has_row_units(final.source) and any(self._tables[name].row is None for name in tables_of(final.source)):
            super()._written(final, left_out)
        return ()

    def _named_tables(self) -> Mapping[str, StoredTable]:
        # Without sizes, by which the engine chooses between forms of a statement: they tell how much data there is.
        return {name: replace(stored, size=0, rows=None) for name, stored in super()._named_tables().items()}

    def _shown(self, statement: DuckDBStatement) -> str:
        rows = statement.rows
        if rows is None:
            return statement.sql
        kept = f"keeps its first {rows.kept_groups} groups" if rows.kept_groups is not None else "is bounded"
        then = "its values are counted" if isinstance(rows, SpreadPlan) else "its shares are added up"
        shown = f"{rows.sql}\n-- Of these rows each unit {kept}, in memory or by SQL; then {then}."
        lost = "\n-- The same rows tell what was left out of each unit, and so its cell in the table of that."
        return shown + lost if statement.tells_left_out else shown

    def _answer(self, session: DuckDBSession, statement: DuckDBStatement) -> Answered:
        """The rows of a statement, by its faster form if that can."""
        if statement.rows is not None:
            found = statement.rows.measure(session, self._most_rows, self._threads)
            if found is not None:
                return Answered(statement, found.totals, found.cells)
        return super()._answer(session, statement)

    def check_left_out(self, final: FinalAggregation, table: LossTable) -> None:
        """Nothing is refused: no row is a unit, the windows of the question were checked, and counts are narrow."""

    @contextmanager
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> Iterator[tuple[DuckDBSession, Mapping[str, StoredTable]]]:
        names = tables_of(relation)
        progress = None if work is None else work.progress
        with (
            self._sources.reading() as opened,
            # Copies are for measuring alone; other readers are few.
            opened.residents.reading(names if work is not None else ()) as tables,
            opened.session(watched=progress is not None) as session,
            self._running.entered(session),
            self._watch.over(session, self._seconds(work), progress),
        ):
            for name in names:
                frame = tables[name].frame
                if frame is not None:
                    session.cursor.register(*frame)
            yield session, tables
