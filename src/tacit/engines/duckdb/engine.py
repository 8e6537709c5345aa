"""The DuckDB engine: one locked database, one cursor per query, exact integer measurements.

Statements have a second, faster form: DuckDB reads the rows, and :mod:`.totals` bounds them in memory. Both forms keep
the same rows and give the same integers; SQL is used for data that does not fit into memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from tacit.engines.duckdb.database import DuckDBSession, SourceStates, limited
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.segments import MOST_ROWS, ROW_BYTES, GroupPlan, RowSource
from tacit.engines.duckdb.sources import DuckDBTable
from tacit.engines.duckdb.totals import (
    COUNTED,
    ROW_COUNT,
    CountPlan,
    SharedRows,
    SpreadPlan,
    TotalsPlan,
    loss_plan,
    read_shares,
)
from tacit.engines.protocol import Limits, MeasurementTask, SourceLike
from tacit.engines.sql.bounding import quantised_sql
from tacit.engines.sql.engine import Answered, SqlEngine
from tacit.engines.sql.relations import (
    CountedUnits,
    StoredTable,
    has_row_units,
    relation_sql,
    slots_of,
    tables_of,
)
from tacit.engines.sql.statements import SPREAD, Statement, Writer
from tacit.query.catalog import Catalog
from tacit.query.planning.bias import BiasTable
from tacit.query.planning.measures import MeasureKind
from tacit.query.query import FinalAggregation
from tacit.query.relational.algebra import FilterRows, ProjectColumns, RelationNode, UnitAggregate, UnitCall
from tacit.query.types import INTEGER

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class DuckDBStatement(Statement):
    """A statement; ``rows`` is its faster in-memory form, None if there is none."""

    rows: TotalsPlan | SpreadPlan | CountPlan | None = None

    @property
    def tells_bias(self) -> bool:
        """Whether the in-memory form also counts the cells of the bias table."""
        return isinstance(self.rows, TotalsPlan) and self.rows.losses is not None


@dataclass(frozen=True)
class DuckDBWriter(Writer):
    """Writer of statements and their in-memory forms."""

    def statements(self) -> tuple[DuckDBStatement, ...]:
        """Return all statements of a query."""
        plain = super().statements()
        plans: Sequence[TotalsPlan | SpreadPlan | CountPlan | None]
        plans = [self._count_plan()] if len(plain) == 1 else [None] * len(plain)
        plans = plans if self.alone else self.row_plans()
        return tuple(
            DuckDBStatement(each.write, each.measures, each.is_spread, rows=plan)
            for each, plan in zip(plain, plans, strict=True)
        )

    def _count_plan(self) -> CountPlan | None:
        """Plan a statement over units with their row counts, made in memory.

        None if it reads anything else of the rows.
        """
        above, node = [], self.final.source
        while isinstance(node, (FilterRows, ProjectColumns)):
            above.append(node)
            node = node.source
        counts = (UnitCall("count_rows", None, None, None, INTEGER),)
        if not isinstance(node, UnitAggregate) or not node.row_units or node.calls != counts:
            return None
        (unit,) = slots_of(node.keys)
        known = {each.name: getattr(node, each.name) for each in fields(node)}
        held: RelationNode = CountedUnits(**known, scan=COUNTED, held={1: ROW_COUNT})
        for each in reversed(above):
            held = replace(each, source=held)
        below = relation_sql(self.d, node.source, frozenset({unit}), self.tables, self.chooser.secret)
        over = replace(self, final=replace(self.final, source=held))
        try:
            statement = next(iter(Writer.statements(over))).sql
        except KeyError:
            return None
        return CountPlan(self.chooser, f"SELECT c{unit} AS u FROM {self.d.derived(below)}", statement)

    def row_plans(self) -> list[TotalsPlan | SpreadPlan | None]:
        """Plan the in-memory forms of all statements, over rows that are read once; None for sums of wide values."""
        measures = self.final.measures
        summed = [measures[i] for i in self.summed]
        spread = [measure for measure in measures if measure.kind in SPREAD]
        found, losses = read_shares(summed), None
        columns, shares = found or ({}, ())
        if found is not None and self.bias is not None:
            losses = loss_plan(self.final, self.bias, columns, {share.measure: share.column for share in shares})
        reads = {name: made.sql for name, made in (*columns.items(), *(losses.columns if losses else {}).items())}
        for i, measure in enumerate(spread):
            reads[f"x{i}"] = self._value(measure)[0]
            if measure.kind is MeasureKind.DISTINCT_SUM:
                reads[f"d{i}"] = quantised_sql(self.d, measure)
        # Rows outside the public list are read with NULL for a group: a condition would compute the group twice.
        loose = self.reading_loosely(
            [*measures] if losses else summed, slots_of(e for m in spread for e in (m.argument, m.where))
        )
        read = slots_of(e for measure in measures for e in (measure.argument, measure.where))
        kinds = None if self.groups.is_public else self.groups.types
        groups = GroupPlan(self.chooser, kinds, self.groups.count if kinds is None else 0, self.final.max_groups)
        sums = found is not None and bool(shares or losses or kinds is not None)
        listed = kinds is None and losses is None
        source = RowSource(loose.all_rows(reads, read), groups, [*reads], listed=listed, times=sums + len(spread))
        total = self.final.max_total
        in_all = None if total is None else SharedRows(total, self.final.most_in_group)
        plans: list[TotalsPlan | SpreadPlan | None] = [
            None if found is None else TotalsPlan(source, columns, shares, losses, in_all)
        ]
        for i, measure in enumerate(spread):
            counted = self._value(measure)[1] if measure.kind.traits.unites else None
            plan = SpreadPlan(source, f"x{i}", counted, measure.width, measure.rows)
            if measure.kind is MeasureKind.DISTINCT_SUM:
                plan = replace(plan, summed=f"d{i}", centre=measure.centre, largest=measure.reach)
            plans.append(plan)
        return plans


class DuckDBEngine(SqlEngine):
    """Engine that measures files and frames with DuckDB.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: memory, threads, seconds, and the directory for spilled rows.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    dialect = DUCKDB
    writer = DuckDBWriter
    operation_seconds = 4e-8

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits | None = None) -> None:
        super().__init__(catalog, limits)
        self._sources = SourceStates(catalog, data, self._limits)
        # Rows that are bounded outside the database respect its memory limit as well.
        self._most_rows = min(MOST_ROWS, self._sources.latest.memory // ROW_BYTES)
        self._threads = self._limits.threads or os.cpu_count() or 1

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._sources.latest.connection

    @property
    def _tables(self) -> dict[str, DuckDBTable]:
        return self._sources.latest.tables

    def is_view(self, table: str) -> bool:
        """Whether a catalog table is a view in a DuckDB file, and so may show rows of any table in it."""
        return self._tables[table.lower()].row is None

    def close(self) -> None:
        """Interrupt running queries and close the database; may be called twice."""
        self.interrupt()
        self._sources.close()

    def _written(self, final: FinalAggregation, bias: BiasTable | None = None) -> tuple[Statement, ...]:
        # Rows of a view have no number; a statement that needs one cannot be written. Every other statement can, and is
        # written once it is known whether it reads files or their in-memory copies.
        if has_row_units(final.nodes) and any(self._tables[name].row is None for name in tables_of(final.source)):
            super()._written(final, bias)
        return ()

    def _shown(self, statement: DuckDBStatement) -> str:
        rows = statement.rows
        if rows is None:
            return statement.sql
        if isinstance(rows, CountPlan):
            return f"{rows.rows}\n-- The rows of each unit are counted in memory, as {COUNTED}; then:\n{rows.statement}"
        kept = f"keeps its first {rows.source.groups.most} groups" if rows.source.groups.must_choose else "is bounded"
        then = "its values are counted" if isinstance(rows, SpreadPlan) else "its shares are added up"
        shown = f"{rows.source.sql}\n-- Of these rows each unit {kept}, in memory or by SQL; then {then}."
        lost = "\n-- The same rows give the causes of bias of each unit, and so its cell in the bias table."
        return shown + lost if statement.tells_bias else shown

    def _answer(self, session: DuckDBSession, statement: DuckDBStatement) -> Answered:
        """Run a statement, in its in-memory form if possible."""
        if statement.rows is not None:
            found = statement.rows.measure(session, self._most_rows, self._threads)
            if found is not None:
                return Answered(statement, found.totals, found.cells)
        return super()._answer(session, statement)

    def check_bias(self, final: FinalAggregation, table: BiasTable) -> None:
        """Refuse nothing: no row is a unit, the query's windows were checked, and counts fit 64 bits."""

    @contextmanager
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> Iterator[tuple[DuckDBSession, Mapping[str, StoredTable]]]:
        names = tables_of(relation) if work is None else {name.lower() for name in work.final.tables}
        with (
            self._sources.reading() as opened,
            opened.session() as session,
            self._running.entered(session),
            limited(session, self._seconds(work)),
        ):
            # Copies are made only for measuring; there are few other reads.
            tables = opened.reading(() if work is None else sorted(names))
            for name in names:
                frame = tables[name].frame
                if frame is not None:
                    session.cursor.register(*frame)
            yield session, tables
