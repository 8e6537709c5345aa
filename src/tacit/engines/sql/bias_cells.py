"""Sums of a query and the table of what bounding leaves out of it, in one statement.

Both need the same pairs (unit, group), and collecting these from rows is nearly all the work. So the aggregates of
:class:`~tacit.query.planning.bias_query.LossStages` are collected beside those of the sums; windows over a
unit's pairs add up what it loses in all of them; and the first pair of each unit carries the number of its cell::

    rows     unit, keys or group, what measures and losses read
    pairs    a row per unit and group, with the groups that are not on the public list
    windows  the place of each pair in the unit's order, and sums over all pairs of the unit
    groups   sums of kept pairs by group and cell; pairs that are not first of their unit have NULL for a cell

A group comes back in several rows, one for each cell, and its sums are the sums of these; a cell's count is the
number of units in its rows. What is computed for the table is what the statement of
:func:`~tacit.query.planning.bias_query.bias_query` computes, expression by expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tacit.engines.sql.dialect import column
from tacit.engines.sql.group_choice import Groups
from tacit.engines.sql.relations import call_sql, finished, is_listed, slots_of
from tacit.engines.sql.scalars import condition_sql, scalar_sql
from tacit.engines.sql.statements import Statement, Writer
from tacit.engines.sql.unit_totals import Partials, fits_64_bits
from tacit.query.planning.bias import KEYS, BiasTable, lists_exactly, totals_steps
from tacit.query.planning.bias_query import LossStages, loss_stages
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.relational.expressions import Expression, references
from tacit.query.types import INTEGER

#: Numbers that are computed with in 64 bits.
_SMALL = 2**24


@dataclass(frozen=True)
class CellWriter(Writer):
    """Writes the statement of sums so that it counts the cells of the table as well, where it can."""

    def first(self) -> Statement:
        """The statement of all sums, and of the cells if a table is asked for."""
        table = self.bias
        if table is None or self.final.max_total is not None or not lists_exactly(self.final, table):
            return super().first()
        stages = loss_stages(self.final, table)
        if any(call.function == "count_distinct" or is_listed(call) for call in stages.calls):
            # More than one pass over a unit's rows.
            return super().first()
        measures = [self.final.measures[i] for i in self.summed]
        write = partial(self._sums_and_cells, measures, stages, table)
        return Statement(write, self.summed, is_spread=False, counts_cells=True)

    def _sums_and_cells(self, measures: list[Measure], stages: LossStages, table: BiasTable) -> str:
        """Group columns, ``units``, one total per measure, and ``cell``."""
        d = self.d
        partials = Partials(d, False, tuple(measures))
        totals = [f"{partials.total(measure)} AS v{i}" for i, measure in enumerate(measures)]
        carried = [*partials.collected]
        # Wide sums are NULL in the table where 64 bits do not do, and are made again.
        narrow = [m for m in measures if m.kind is MeasureKind.SUM and fits_64_bits(max(abs(m.low), abs(m.high)))]
        summed = {measure: partials.summed(measure) for measure in narrow if totals_steps(measure)}
        finals, more = [], {}
        for i, (call, measure) in enumerate(zip(stages.calls, stages.totals, strict=True)):
            if measure is not None and measure in summed:
                # The same sum as that of the query, which is 0 over no values.
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
        """Pairs with the results of the calls, called by their slots."""
        first = 1 + len(self.final.keys)
        named = [f"{sql} AS {column(first + i)}" for i, sql in enumerate(finals)]
        return f"SELECT {_list(self.pair_columns, carried, named)} FROM {self.d.derived(pairs)}"

    def _celled(self, pairs: str, carried: list[str], stages: LossStages, table: BiasTable) -> str:
        """Pairs that are kept or first of their unit: group columns, what is carried, and the cell of the first."""
        d = self.d
        kept = (*self.groups.columns, *carried)
        if not self.final.keys:
            # One group: a pair is a unit.
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
        """Of each pair its place in the unit's order, and the columns that the losses of its unit are computed from."""
        unit, listed = "OVER (PARTITION BY u)", KEYS in table.causes
        parts = [f"CASE WHEN g IS NOT NULL THEN s{i} END" if listed else f"s{i}" for i in range(len(stages.pair))]
        # No more than 2^40 rows, each with less than 2^8 parts: sums of 64 bits do.
        sums = [f"CAST(coalesce(sum({part}) {unit}, 0) AS BIGINT)" for part in parts]
        counts = [f"CAST(count(*) {unit} AS BIGINT)"]
        if listed:
            counts = [f"CAST(count(*) {unit} - count(g) {unit} AS BIGINT)", f"CAST(count(g) {unit} AS BIGINT)"]
        order = self.pair_order() if self.must_choose else "g"
        # Pairs outside the public list, which have no place, come after all others.
        order = f"{order} NULLS LAST" if self.groups.is_public else order
        seat = f"row_number() OVER (PARTITION BY u ORDER BY {order}) AS seat"
        numbered = [f"{sql} AS {column(i)}" for i, sql in enumerate([*sums, *counts])]
        return f"SELECT {_list(kept, [seat], numbered)} FROM {self.d.derived(pairs)}"

    def _is_kept(self) -> str:
        """Whether a pair adds to its group."""
        parts = ["g IS NOT NULL"] if self.groups.is_public else []
        parts += [f"seat <= {self.final.max_groups}"] if self.must_choose else []
        return f"({' AND '.join(parts)})"

    def _small(self, part: Expression) -> str:
        """An expression, quicker where the numbers that it reads are small, as they nearly always are.

        Numbers from 0 to 2^24 are multiplied by one another at most once and by constants below 2^12 at most once; of
        such products, below 2^60, three at most are added or subtracted.
        """
        exact, quick = scalar_sql(self.d, part), scalar_sql(self.d.unguarded, part)
        if quick == exact:
            return exact
        read = sorted(ref.slot for ref in set(references(part)) if ref.type == INTEGER)
        small = " AND ".join(f"{column(slot)} BETWEEN 0 AND {_SMALL}" for slot in read)
        return f"CASE WHEN {small} THEN {quick} ELSE {exact} END"

    def _cell(self, stages: LossStages, table: BiasTable) -> str:
        """The number of the cell."""
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
    """The number of units in each cell, and the rows of groups, of which one group may have several."""
    cells, width = [0] * table.cells, len(groups.columns)
    found: list[Sequence[Any]] = []
    for *row, cell in rows:
        if cell is not None:
            cells[int(cell)] += int(row[width])
        # A private group may have NULL for a key; outside the public list there is no group.
        if not groups.is_public or row[0] is not None:
            found.append(row)
    return cells, found
