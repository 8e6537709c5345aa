"""SQL statements that measure a query: rows, bounded per unit, summed per group.

One statement computes all measures that are sums (counts and totals); each DISTINCT, LEAVES, PLACES and CATEGORIES has
a separate statement. The groups a unit keeps are the same in all statements, because the choice depends only on the
unit's rows and the secret.

The statement of sums first aggregates each unit's rows in each group, by the key columns; then groups that are not on
the public list are dropped, each unit keeps at most ``max_groups`` groups, and its aggregates in these are summed per
group. So a group's number and its position in the unit's order are computed once per pair (unit, group), and only
pairs are sorted. A database that can do better on rows overrides :meth:`Writer.kept` and :meth:`Writer.sums`.

The sums of a query and its bias table are one statement (:class:`CellWriter`). Both need the same pairs (unit, group),
and collecting these from rows is nearly all the work. So the aggregates of
:class:`~tacit.query.planning.bias.LossStages` are collected together with those of the sums; windows over a unit's
pairs sum its bias over all of them; and the first pair of each unit carries the index of the unit's cell::

    rows     unit, keys or group, columns that the measures and the bias table read
    pairs    one row per unit and group, including groups that are not on the public list
    windows  the position of each pair in the unit's order, and sums over all pairs of the unit
    groups   sums of kept pairs by group and cell; the cell is NULL in pairs that are not the first of their unit

A group has several result rows, one for each cell, and its sums are the sums over these; a cell's count is the
number of units in its rows. The expressions for the bias table are those of the statement of
:func:`~tacit.query.planning.bias.bias_query`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.sql.bounding import (
    TOTALS,
    Chooser,
    Groups,
    Partials,
    category_sql,
    fits_64_bits,
    leaf_sql,
    position_sql,
    quantised_sql,
)
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.relations import (
    StoredTable,
    call_sql,
    finished,
    has_row_units,
    is_listed,
    relation_sql,
    slots_of,
)
from tacit.engines.sql.scalars import condition_sql, scalar_sql
from tacit.query.planning.bias import KEYS, BiasTable, LossStages, lists_exactly, loss_stages, totals_steps
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.query import FinalAggregation
from tacit.query.relational.algebra import FilterRows, Scan
from tacit.query.relational.expressions import Expression, Reference, references
from tacit.query.types import INTEGER, SqlType

#: Measures with a statement of their own.
SPREAD = tuple(kind for kind in MeasureKind if kind.traits.own_statement)


@dataclass(frozen=True)
class Statement:
    """SQL of one statement, and the measures that its columns hold.

    Rows are the group columns, then for sums ``units`` and one column per measure, and for a spread measure ``place``
    and ``n``. A statement that counts cells has ``cell`` as its last column: see :class:`CellWriter`.

    Args:
        write: writes the SQL; called only if it is needed, since a database may have another form of the statement.
        measures: indexes of the measures in the final aggregation.
        is_spread: whether it is the statement of a spread measure.
        counts_cells: whether it also counts the units in each cell of the bias table.
    """

    write: Callable[[], str]
    measures: tuple[int, ...]
    is_spread: bool
    counts_cells: bool = False

    @cached_property
    def sql(self) -> str:
        """The SQL to run.

        Raises:
            Refusal: it cannot be written.
        """
        return self.write()

    @property
    def tells_bias(self) -> bool:
        """Whether its rows also hold the cells of the bias table."""
        return self.counts_cells


class SpreadRows(NamedTuple):
    """Rows of the statement of places or categories, as arrays.

    Args:
        keys: group columns of each group that occurs.
        found: for each group an array of two columns: distinct places, ascending, and their counts.
    """

    keys: Sequence[tuple[Any, ...]]
    found: Sequence[NDArray[np.int64]]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]], width: int) -> SpreadRows:
        """Convert rows whose first ``width`` columns are the group columns."""
        known: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for row in rows:
            if row[width] is not None:
                known.setdefault(tuple(row[:width]), []).append((int(row[width]), int(row[width + 1])))
        return cls(list(known), [np.array(sorted(cells), dtype=np.int64) for cells in known.values()])


class KeyTotals(NamedTuple):
    """Columns of the statement of sums, one row per group, sorted by group key with NULL last.

    Args:
        keys: one column per key.
        numbers: number of units per group, then one total per measure.
    """

    keys: Sequence[Sequence[Any]]
    numbers: Sequence[NDArray[np.int64]]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        return list(zip(*self.keys, *(column.tolist() for column in self.numbers), strict=True))


@dataclass(frozen=True)
class Named:
    """WITH clauses, and the name of the last one."""

    text: str
    name: str


@dataclass(frozen=True)
class Writer:
    """Writer of the statements of one final aggregation.

    Args:
        d: the dialect.
        final: the aggregation.
        tables: the stored tables by lower-case name.
        chooser: decides which groups a unit keeps.
        groups: group keys of the aggregation.
        unit: slot of the unit.
        bias: the bias table that a statement may be able to count as well; None for no table.
        has_others: whether pairs (unit, group) include groups that are not on the public list.
    """

    d: Dialect
    final: FinalAggregation
    tables: Mapping[str, StoredTable]
    chooser: Chooser
    groups: Groups
    unit: int
    bias: BiasTable | None = None
    has_others: bool = False

    @classmethod
    def of(
        cls,
        d: Dialect,
        final: FinalAggregation,
        tables: Mapping[str, StoredTable],
        secret: bytes,
        bias: BiasTable | None = None,
    ) -> Self:
        """Make the writer of a final aggregation."""
        unit = final.source.unit
        if unit is None:
            raise InternalError("a final aggregation needs an owned source")
        chooser = Chooser(secret, final.source.fields[unit].type, has_row_units(final.nodes))
        return cls(d, final, tables, chooser, Groups(final), unit, bias)

    def statements(self) -> tuple[Statement, ...]:
        """Return all statements of a query."""
        return self.others() if self.tells_units else (self.first(), *self.others())

    @property
    def tells_units(self) -> bool:
        """Whether the counts of places also give each group's number of units, because every row is a unit."""
        kinds = [measure.kind for measure in self.final.measures]
        return self.alone and self.groups.is_public and all(kind in SPREAD and not kind.traits.unites for kind in kinds)

    @cached_property
    def alone(self) -> bool:
        """Whether every row is a separate unit, with one group and no choice to make."""
        return self.final.row_units and not self.has_others

    @property
    def must_choose(self) -> bool:
        """Whether a unit may have more groups than it keeps."""
        return not self.groups.is_public or self.groups.count > self.final.max_groups

    @cached_property
    def summed(self) -> tuple[int, ...]:
        """Indexes of the measures of the first statement."""
        return tuple([i for i, measure in enumerate(self.final.measures) if measure.kind not in SPREAD])

    def first(self) -> Statement:
        measures = [self.final.measures[i] for i in self.summed]
        return Statement(partial(self.sums, measures), self.summed, is_spread=False)

    def others(self) -> tuple[Statement, ...]:
        """Return one statement for each spread measure."""
        spread = [i for i, measure in enumerate(self.final.measures) if measure.kind in SPREAD]
        return tuple(Statement(partial(self.spread, self.final.measures[i]), (i,), is_spread=True) for i in spread)

    def sums(self, measures: list[Measure]) -> str:
        """Write the query for the group columns, ``units``, and one total per measure."""
        partials = self.partials(measures)
        totals = [f"{partials.total(measure)} AS v{i}" for i, measure in enumerate(measures)]
        read = slots_of(e for measure in measures for e in (measure.argument, measure.where))
        names, listed = ", ".join(self.groups.columns), ", ".join(["count(*) AS units", *totals])
        loose = self.reading_loosely(measures)
        if self.alone:
            return loose._of_rows(partials.rows, read, listed)
        pairs = loose._pairs(partials, read)
        if self.must_choose:
            pairs = self.chosen(pairs)
        last = self.d.derived(self.in_all(partials, pairs))
        return f"SELECT {names}, {listed} FROM {last} GROUP BY {names}"

    def in_all(self, partials: Partials, pairs: str) -> str:
        """Write the last level over pairs (unit, group), dividing ``max_rows_total`` among the groups of each unit."""
        names, total = ", ".join(self.groups.columns), self.final.max_total
        if total is None or partials.most is None:
            return partials.levels(names, pairs)
        rows, most = partials.rows_in_group, self.final.most_in_group
        capped = f"CASE WHEN {rows} > {most} THEN {most} ELSE {rows} END"
        order = self.pair_order() if self.must_choose else "g"
        pairs = f"SELECT *, {capped} AS a FROM {self.d.derived(pairs)}"
        whole = "CAST(sum(a) OVER (PARTITION BY u) AS BIGINT)"
        running = f"CAST(sum(a) OVER (PARTITION BY u ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS BIGINT)"
        pairs = f"SELECT *, {whole} AS ta, {running} AS sa FROM {self.d.derived(pairs)}"
        pairs = f"SELECT *, {self.chooser.offset(self.d, 'u', 'ta')} AS oa FROM {self.d.derived(pairs)}"
        ends = [self.d.divided(f"({total} * {end} + oa)", "ta", wide=False) for end in ("sa", "(sa - a)")]
        share = f"CASE WHEN ta <= {total} THEN a ELSE {ends[0]} - {ends[1]} END"
        listed = ", ".join([names, *partials.collected, f"{share} AS {partials.most}"])
        return partials.levels(f"{names}, {partials.most}", f"SELECT {listed} FROM {self.d.derived(pairs)}")

    def partials(self, measures: list[Measure]) -> Partials:
        """Return the columns shared by the sums of some measures."""
        if self.alone or self.final.max_total is None:
            return Partials(self.d, self.alone, tuple(measures))
        found = Partials(self.d, False, tuple(measures), most="b")
        _ = found.rows_in_group
        return found

    def _pairs(self, partials: Partials, read: frozenset[int]) -> str:
        """Write the query for one row per pair (unit, group): ``u``, group columns and collected aggregates."""
        keys = {f"k{i}": scalar_sql(self.d, key.expression) for i, key in enumerate(self.final.keys)}
        rows = self._select({"u": f"c{self.unit}", **keys, **partials.rows}, read, unit=True)
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        names = ", ".join(["u", *keys])
        pairs = f"SELECT {names}{collected} FROM {self.d.derived(rows)} GROUP BY {names}"
        if not self.groups.is_public:
            return pairs
        carried = "".join(f", {name}" for name in partials.collected)
        coded = f"SELECT u, {self.groups.code(self.d, list(keys))} AS g{carried} FROM {self.d.derived(pairs)}"
        return self.in_public_groups(coded, "") if keys and not self.has_others else coded

    def in_public_groups(self, coded: str, seen: str) -> str:  # noqa: ARG002 - some planners need it
        """Return rows of ``coded`` whose group ``g`` is on the public list.

        Its column ``seen``, a count, is never 0.
        """
        return f"SELECT * FROM {self.d.fenced(coded)} WHERE g IS NOT NULL"

    def reading_loosely(self, measures: list[Measure], others: frozenset[int] = frozenset()) -> Self:
        """Return a writer that reads stored doubles unchecked where only sums read them: q(x) drops non-finite ones.

        ``others`` are the slots that other expressions read.
        """
        used = slots_of(key.expression for key in self.final.keys) | {self.unit} | others
        used |= slots_of(measure.where for measure in measures)
        summed = {(m.argument, m.where) for m in measures if m.kind in TOTALS}
        used |= slots_of(m.argument for m in measures if (m.argument, m.where) not in summed)
        used |= slots_of(m.argument for m in measures if not isinstance(m.argument, Reference))
        below = self.final.source
        while isinstance(below, FilterRows):
            used |= slots_of([below.condition])
            below = below.source
        if not isinstance(below, Scan) or below.path:
            return self
        stored = self.tables[below.table.lower()]
        free = {name.lower() for slot, name in enumerate(below.columns) if slot not in used}
        columns = {name: stored.doubles.get(name, sql) if name in free else sql for name, sql in stored.columns.items()}
        return replace(self, tables={**self.tables, below.table.lower(): replace(stored, columns=columns)})

    def spread(self, measure: Measure) -> str:
        """Write the query for group columns, ``place`` (0 for distinct values, else leaf or category), and ``n``."""
        if measure.kind is MeasureKind.DISTINCT_SUM:
            return self._distinct_sum(measure)
        value, kind = self._value(measure)
        read = slots_of([measure.argument, measure.where])
        names = ", ".join(self.groups.columns)
        if self.alone:
            place, count = ("0", "count(DISTINCT x)") if measure.kind is MeasureKind.DISTINCT else ("x", "count(*)")
            source = self.d.derived(self.rows({"x": value}, read))
            by = names if place == "0" else f"{names}, x"
            where = "" if self.tells_units else " WHERE x IS NOT NULL"
            return f"SELECT {names}, {place} AS place, {count} AS n FROM {source}{where} GROUP BY {by}"
        rows = self.kept({"x": value}, read)
        source = self.d.derived(f"SELECT * FROM {rows.name} WHERE x IS NOT NULL")
        if measure.kind is MeasureKind.DISTINCT:
            return f"{rows.text} {self._distinct(source, kind, measure.rows)}"
        return f"{rows.text} {self._counted(source, measure.rows)}"

    def _value(self, measure: Measure) -> tuple[str, SqlType]:
        """Return SQL and type of the value that a spread measure reads in a row, NULL where the row does not count."""
        argument = measure.argument
        if argument is None:
            raise InternalError("a spread measure needs a value")
        if measure.kind in (MeasureKind.LEAVES, MeasureKind.PLACES):
            return leaf_sql(self.d, measure), INTEGER
        value = scalar_sql(self.d, argument)
        if measure.kind is MeasureKind.CATEGORIES:
            place = position_sql(self.d, value, measure.categories, argument.type)
            return category_sql(self.d, measure, place), INTEGER
        return category_sql(self.d, measure, value), argument.type

    def _of_rows(self, columns: Mapping[str, str], read: frozenset[int], listed: str) -> str:
        """Write the query for row units: group by the key columns, then drop groups that are not on the public list."""
        if not self.groups.is_public or not self.final.keys:
            names = ", ".join(self.groups.columns)
            return f"SELECT {names}, {listed} FROM {self.d.derived(self.rows(columns, read))} GROUP BY {names}"
        keys = {f"k{i}": scalar_sql(self.d, key.expression) for i, key in enumerate(self.final.keys)}
        rows = self._select({**keys, **columns}, read, unit=False)
        by = ", ".join(keys)
        grouped = f"SELECT {by}, {listed} FROM {self.d.derived(rows)} GROUP BY {by}"
        totals = ", ".join(["units", *(f"v{i}" for i in range(len(self.summed)))])
        coded = f"SELECT {self.groups.code(self.d, list(keys))} AS g, {totals} FROM {self.d.derived(grouped)}"
        return self.in_public_groups(coded, "units")

    def _select(self, columns: Mapping[str, str], read: frozenset[int], *, unit: bool) -> str:
        """Select named columns over all rows of the source; ``read`` are the slots they read, besides keys and unit."""
        slots = read | slots_of(key.expression for key in self.final.keys)
        wanted = slots | ({self.unit} if unit else set())
        below = relation_sql(self.d, self.final.source, wanted, self.tables, self.chooser.secret)
        listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        return f"SELECT {listed or '1 AS nothing'} FROM {self.d.derived(below)}"

    def rows(self, columns: Mapping[str, str], read: frozenset[int]) -> str:
        """Select the rows whose group is private or on the public list, with unit, group and further columns."""
        rows = self.all_rows(columns, read)
        if not self.groups.is_public or not self.final.keys:
            return rows
        return f"SELECT * FROM {self.d.fenced(rows)} WHERE g IS NOT NULL"

    def all_rows(self, columns: Mapping[str, str], read: frozenset[int]) -> str:
        """Select all rows, with NULL for a group that is not on the public list."""
        unit = {} if self.alone else {"u": f"c{self.unit}"}
        return self._select({**unit, **self.groups.expressions(self.d), **columns}, read, unit=not self.alone)

    def kept(self, columns: Mapping[str, str], read: frozenset[int]) -> Named:
        """Select the rows in the groups that their unit keeps."""
        rows = self.rows(columns, read)
        if self.must_choose:
            seat = f"dense_rank() OVER (PARTITION BY u ORDER BY {self.order()})"
            seated = f"SELECT *, {seat} AS seat FROM {self.d.derived(rows)}"
            rows = f"SELECT * FROM {self.d.derived(seated)} WHERE seat <= {self.final.max_groups}"
        return Named(f"WITH r AS ({rows})", "r")

    def order(self) -> str:
        """Return the ORDER BY terms by which a unit keeps its groups, over ``u`` and the group columns."""
        if self.groups.is_public:
            return self.chooser.place(self.chooser.parameters(self.d, "u"), "g", self.groups.count)
        names = self.groups.columns
        rank = self.chooser.rank(self.d, "groups", "u", list(zip(names, self.groups.types, strict=True)))
        return ", ".join([rank, *(f"{name} NULLS LAST" for name in names)])

    @property
    def pair_columns(self) -> tuple[str, ...]:
        """Names of the columns of a pair (unit, group), without the collected aggregates."""
        return ("u", *self.groups.columns)

    def pair_order(self) -> str:
        """Return the ORDER BY terms by which a unit keeps its groups, over the columns of pairs."""
        return self.order()

    def chosen(self, pairs: str) -> str:
        """Select at most ``max_groups`` pairs (unit, group) of each unit."""
        seat = f"row_number() OVER (PARTITION BY u ORDER BY {self.pair_order()})"
        seated = f"SELECT *, {seat} AS seat FROM {self.d.derived(pairs)}"
        return f"SELECT * FROM {self.d.derived(seated)} WHERE seat <= {self.final.max_groups}"

    def _distinct(self, source: str, kind: SqlType, most: int) -> str:
        names = ", ".join(self.groups.columns)
        values = self.d.derived(f"SELECT DISTINCT u, {names}, x FROM {source}")
        rank = self.chooser.rank(self.d, "values", "u", [("x", kind)])
        seat = f"row_number() OVER (PARTITION BY u, {names} ORDER BY {rank}, x)"
        kept = self.d.derived(f"SELECT *, {seat} AS seat2 FROM {values}")
        return f"SELECT {names}, 0 AS place, count(DISTINCT x) AS n FROM {kept} WHERE seat2 <= {most} GROUP BY {names}"

    def _distinct_sum(self, measure: Measure) -> str:
        """Write the query for the sum of q(x) over distinct values.

        Each unit keeps the same values as for their count.
        """
        value, kind = self._value(measure)
        read, names = slots_of([measure.argument, measure.where]), ", ".join(self.groups.columns)
        columns = {"x": value, "y": quantised_sql(self.d, measure)}
        if self.alone:
            source, rows = self.d.derived(self.rows(columns, read)), None
            values = f"SELECT DISTINCT {names}, x, y FROM {source} WHERE x IS NOT NULL"
        else:
            rows = self.kept(columns, read)
            source = self.d.derived(f"SELECT DISTINCT u, {names}, x, y FROM {rows.name} WHERE x IS NOT NULL")
            rank = self.chooser.rank(self.d, "values", "u", [("x", kind)])
            seat = f"row_number() OVER (PARTITION BY u, {names} ORDER BY {rank}, x)"
            kept = self.d.derived(f"SELECT *, {seat} AS seat2 FROM {source}")
            values = f"SELECT DISTINCT {names}, x, y FROM {kept} WHERE seat2 <= {measure.rows}"
        total = self.d.total(f"(y - ({measure.centre}))", measure.reach)
        summed = f"SELECT {names}, 0 AS place, {total} AS n FROM {self.d.derived(values)} GROUP BY {names}"
        return summed if rows is None else f"{rows.text} {summed}"

    def _counted(self, source: str, most: int) -> str:
        """Write the query for counts per place, of at most ``most`` values per unit and group."""
        names = ", ".join(self.groups.columns)
        per_place = f"SELECT u, {names}, x, count(*) AS n FROM {source} GROUP BY u, {names}, x"
        totals = f"SELECT *, sum(n) OVER (PARTITION BY u, {names}) AS total FROM {self.d.derived(per_place)}"
        rank = self.chooser.rank(self.d, "values", "u", [("x", INTEGER), ("j", INTEGER)])
        seat = f"row_number() OVER (PARTITION BY u, {names} ORDER BY {rank}, x, j)"
        single = self.d.numbered_copies(f"u, {names}, x", "n", self.d.derived(f"SELECT * FROM t WHERE total > {most}"))
        seated = self.d.derived(f"SELECT *, {seat} AS seat2 FROM {self.d.derived(single)}")
        many = f"SELECT {names}, x, 1 AS n FROM {seated} WHERE seat2 <= {most}"
        few = f"SELECT {names}, x, n FROM t WHERE total <= {most}"
        both = self.d.derived(f"WITH t {self.d.materialized} ({totals}) {few} UNION ALL {many}")
        return f"SELECT {names}, x AS place, CAST(sum(n) AS BIGINT) AS n FROM {both} GROUP BY {names}, x"


# Sums of a query and the table of its bias, in one statement ----------------------------------------------------------


#: Largest integer for which :meth:`CellWriter._small` computes in 64 bits without checks.
_SMALL = 2**24


@dataclass(frozen=True)
class CellWriter(Writer):
    """Writer whose statement of sums also counts the units per cell of the bias table, where it can."""

    def first(self) -> Statement:
        """Return the statement of all sums, and of the cells if a bias table is requested."""
        table = self.bias
        if table is None or self.final.max_total is not None or not lists_exactly(self.final, table):
            return super().first()
        stages = loss_stages(self.final, table)
        if any(call.function == "count_distinct" or is_listed(call) for call in stages.calls):
            # These need more than one pass over a unit's rows.
            return super().first()
        measures = [self.final.measures[i] for i in self.summed]
        write = partial(self._sums_and_cells, measures, stages, table)
        return Statement(write, self.summed, is_spread=False, counts_cells=True)

    def _sums_and_cells(self, measures: list[Measure], stages: LossStages, table: BiasTable) -> str:
        """Write the query for group columns, ``units``, one total per measure, and ``cell``."""
        d = self.d
        partials = Partials(d, False, tuple(measures))
        totals = [f"{partials.total(measure)} AS v{i}" for i, measure in enumerate(measures)]
        carried = [*partials.collected]
        # In the bias table a sum that exceeds 64 bits is NULL, so wide sums are computed separately.
        narrow = [m for m in measures if m.kind is MeasureKind.SUM and fits_64_bits(max(abs(m.low), abs(m.high)))]
        summed = {measure: partials.summed(measure) for measure in narrow if totals_steps(measure)}
        finals, more = [], {}
        for i, (call, measure) in enumerate(zip(stages.calls, stages.totals, strict=True)):
            if measure is not None and measure in summed:
                # The query's sum is 0 over no values; the bias table needs NULL.
                finals.append(f"CASE WHEN a{i - 1} > 0 THEN {summed[measure]} END")
                continue
            more[f"a{i}"] = call_sql(d, call)
            finals.append(finished(d, call, f"a{i}", ""))
        read_again = [call for i, call in enumerate(stages.calls) if f"a{i}" in more]
        lost = slots_of(e for call in read_again for e in (call.argument, call.where))
        read = lost | slots_of(e for measure in measures for e in (measure.argument, measure.where))
        rows = {**partials.rows, **{column(slot): column(slot) for slot in sorted(lost)}}
        wider = replace(partials, rows=rows, collected={**partials.collected, **more})
        loose = replace(self.reading_loosely(measures, lost), has_others=True)
        pairs = self._celled(self._named(loose._pairs(wider, read), carried, finals), carried, stages, table)
        names = ", ".join(self.groups.columns)
        last = d.derived(partials.levels(f"{names}, cell", pairs))
        listed = ", ".join([names, "count(*) AS units", *totals, "cell"])
        return f"SELECT {listed} FROM {last} GROUP BY {names}, cell"

    def _named(self, pairs: str, carried: list[str], finals: list[str]) -> str:
        """Select pairs with the results of the calls, in columns named by slot."""
        first = 1 + len(self.final.keys)
        named = [f"{sql} AS {column(first + i)}" for i, sql in enumerate(finals)]
        return f"SELECT {_list(self.pair_columns, carried, named)} FROM {self.d.derived(pairs)}"

    def _celled(self, pairs: str, carried: list[str], stages: LossStages, table: BiasTable) -> str:
        """Select pairs that are kept or first of their unit, with group and carried columns, and the cell if first."""
        d = self.d
        kept = (*self.groups.columns, *carried)
        if not self.final.keys:
            # There is one group, so each pair is one unit.
            losses = [f"{self._small(part)} AS {column(i)}" for i, part in enumerate(stages.pair)]
            found, is_first, where = f"SELECT {_list(kept, losses)} FROM {d.derived(pairs)}", "TRUE", ""
        else:
            losses = [f"{self._small(part)} AS s{i}" for i, part in enumerate(stages.pair)]
            pairs = f"SELECT {_list(self.pair_columns, carried, losses)} FROM {d.derived(pairs)}"
            found, is_first = self._windows(pairs, kept, stages, table), "seat = 1"
            kept = (*kept, "seat")
            where = f" WHERE {is_first} OR {self._is_kept()}"
        parts = [
            f"CASE WHEN {is_first} THEN {self._small(part)} END AS {column(i)}" for i, part in enumerate(stages.of_unit)
        ]
        found = f"SELECT {_list(kept, parts)} FROM {d.derived(found)}{where}"
        cell = f"CASE WHEN {is_first} THEN {self._cell(stages, table)} END AS cell"
        return f"SELECT {_list(kept, [cell])} FROM {d.fenced(found)}"

    def _windows(self, pairs: str, kept: Sequence[str], stages: LossStages, table: BiasTable) -> str:
        """Select for each pair its position in the unit's order, and the unit's sums that its bias is computed from."""
        unit, listed = "OVER (PARTITION BY u)", KEYS in table.causes
        parts = [f"CASE WHEN g IS NOT NULL THEN s{i} END" if listed else f"s{i}" for i in range(len(stages.pair))]
        # At most 2^40 rows, each with less than 2^8 parts: sums fit 64 bits.
        sums = [f"CAST(coalesce(sum({part}) {unit}, 0) AS BIGINT)" for part in parts]
        counts = [f"CAST(count(*) {unit} AS BIGINT)"]
        if listed:
            counts = [f"CAST(count(*) {unit} - count(g) {unit} AS BIGINT)", f"CAST(count(g) {unit} AS BIGINT)"]
        order = self.pair_order() if self.must_choose else "g"
        # Pairs whose group is not on the public list have position NULL and come last.
        order = f"{order} NULLS LAST" if self.groups.is_public else order
        seat = f"row_number() OVER (PARTITION BY u ORDER BY {order}) AS seat"
        numbered = [f"{sql} AS {column(i)}" for i, sql in enumerate([*sums, *counts])]
        return f"SELECT {_list(kept, [seat], numbered)} FROM {self.d.derived(pairs)}"

    def _is_kept(self) -> str:
        """Return the condition under which a pair contributes to its group."""
        parts = ["g IS NOT NULL"] if self.groups.is_public else []
        parts += [f"seat <= {self.final.max_groups}"] if self.must_choose else []
        return f"({' AND '.join(parts)})"

    def _small(self, part: Expression) -> str:
        """Write an expression with an unchecked, faster branch for small integers, which are nearly all.

        Numbers from 0 to 2^24 are multiplied by one another at most once and by constants below 2^12 at most once; of
        such products, below 2^60, three at most are added or subtracted.
        """
        exact, quick = scalar_sql(self.d, part), scalar_sql(self.d.unguarded(), part)
        if quick == exact:
            return exact
        read = sorted(ref.slot for ref in set(references(part)) if ref.type == INTEGER)
        small = " AND ".join(f"{column(slot)} BETWEEN 0 AND {_SMALL}" for slot in read)
        return f"CASE WHEN {small} THEN {quick} ELSE {exact} END"

    def _cell(self, stages: LossStages, table: BiasTable) -> str:
        """Write the index of the unit's cell."""
        *flags, bucket = stages.cell
        parts, weight = [self._small(bucket)], table.buckets
        for flag in reversed(flags):
            parts.append(f"CASE WHEN {condition_sql(self.d, flag)} THEN {weight} ELSE 0 END")
            weight *= 2
        return " + ".join(parts)


def _list(*columns: Sequence[str]) -> str:
    return ", ".join(name for part in columns for name in part)


def cells_and_rows(
    rows: Sequence[Sequence[Any]], table: BiasTable, groups: Groups
) -> tuple[list[int], list[Sequence[Any]]]:
    """Return the number of units in each cell, and the rows of groups; one group may have several rows."""
    cells, width = [0] * table.cells, len(groups.columns)
    found: list[Sequence[Any]] = []
    for *row, cell in rows:
        if cell is not None:
            cells[int(cell)] += int(row[width])
        # A private key may be NULL; a public group number of NULL means that the group is not on the public list.
        if not groups.is_public or row[0] is not None:
            found.append(row)
    return cells, found
