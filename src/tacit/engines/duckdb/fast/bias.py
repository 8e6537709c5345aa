"""Table of units by what bounding left out of them, from rows in memory: the integers of ``planning/bias.py``.

The rows that are fetched for the totals of a query tell all that the table needs: how many values a unit has in each
public group, their total, and which units have rows outside the public list. Where values may be outside their bounds,
one small column more says how far, as a place in :data:`~tacit.query.planning.bias.EXCESSES`.

Everything is 64-bit integers. Sizes are bounded by the number of rows that are held at once, and totals are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.columns import Integers, TooWideError
from tacit.engines.duckdb.fast.segments import UnitBlock, run_sums
from tacit.engines.duckdb.fast.totals import WIDEST, Read, UnitGroups, counted, named_column
from tacit.engines.sql.scalars import scalar_sql
from tacit.query.planning.bias import (
    CASTS,
    EXCESSES,
    GROUPS,
    KEYS,
    ROWS,
    BiasTable,
    CountedValues,
    Interval,
    counted_values,
    excess_limits,
    is_within,
    lists_exactly,
    total_limits,
    total_type,
)
from tacit.query.planning.measures import Measure
from tacit.query.types import Kind, SqlType, Value, ordinal

if TYPE_CHECKING:
    from tacit.query.query import FinalAggregation

#: Doubles up to this size hold whole numbers exactly.
_EXACT = 2**53
_AMOUNTS = np.array(EXCESSES, dtype=np.int64)


@dataclass(frozen=True)
class TotalLoss:
    """Limits of the total of some values.

    Args:
        fill: what y is counted from.
        largest: the largest size of a value.
        divisor: of the total, where SQL compares a DOUBLE that was divided by it; None for whole numbers.
        lows: ends of wider and wider intervals, as far as there are.
        highs: their other ends.
    """

    fill: int
    largest: int
    divisor: int | None
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def of(self, pairs: UnitGroups, column: str) -> Integers | None:
        """Distance of each total of a column from its limits, in quarters; None where all are inside.

        Raises:
            TooWideError: when numbers might not be exact, whatever the rows are.
        """
        heavy = pairs.widest(self.largest, WIDEST if self.divisor is None else _EXACT)
        place = self._place(pairs, column)
        if heavy is not None:
            place[heavy[0]] = self._place(heavy[1], column)
        return _AMOUNTS[place] if place.any() else None

    def _place(self, pairs: UnitGroups, column: str) -> Integers:
        total: NDArray[Any] = pairs.totals(column)
        total = total + pairs.counts(column) * self.fill if self.fill else total
        if self.divisor is not None:
            total = total.astype(np.float64) / self.divisor
        kind = total.dtype
        place = np.zeros(len(total), dtype=np.int64)
        if self.highs and len(total) and total.max() > self.highs[0]:
            place = np.searchsorted(np.array(self.highs, dtype=kind), total, side="left")
        if self.lows and len(total) and total.min() < self.lows[0]:
            place = np.maximum(place, np.searchsorted(-np.array(self.lows, dtype=kind), -total, side="left"))
        return place


@dataclass(frozen=True)
class ValueLoss:
    """Columns that tell the loss of some values.

    Args:
        values: which they are.
        count: the column in which they are positive; None where every row counts.
        cut: whether values beyond a number of them are lost.
        total: limits of their total, if it has any.
        excess: column of the excess; None where no value can be outside.
    """

    values: CountedValues
    count: str | None
    cut: bool
    total: TotalLoss | None
    excess: str | None

    def of(self, pairs: UnitGroups, parts: int) -> tuple[Integers, Integers | None]:
        """All values of each pair, and those that are cut, in parts of a row; None for none."""
        number = pairs.lengths if self.count is None else pairs.counts(self.count)
        cut = None
        if self.total is not None and self.count is not None:
            cut = self.total.of(pairs, self.count)
        elif self.cut and self.values.most is None and pairs.longest > self.values.measure.rows:
            cut = np.maximum(number - self.values.measure.rows, 0) * parts
        if self.values.once:
            number = (number > 0).astype(np.int64)
        return number * parts if parts > 1 else number, cut

    def excess_of(self, pairs: UnitGroups) -> Integers | None:
        """How far values of each pair are outside their bounds, in parts of a row; None where none is."""
        places = pairs.values(str(self.excess))
        if self.count is not None and places.any():
            # NULL and doubles that are not finite are outside as well, and are no values.
            places = np.where(pairs.values(self.count) > 0, places, 0)
        return pairs.sums(_AMOUNTS[places]) if places.any() else None


@dataclass(frozen=True)
class LossPlan:
    """Cells of the table of a query, from its rows.

    Args:
        table: the cells.
        most: how many groups a unit keeps.
        losses: one for each kind of value.
        columns: that are read for the table alone, by name.
    """

    table: BiasTable
    most: int
    losses: tuple[ValueLoss, ...]
    columns: Mapping[str, Read]

    @property
    def has_others(self) -> bool:
        """Whether the table tells units apart that have rows outside the public list."""
        return KEYS in self.table.causes

    def cells(self, pairs: UnitGroups, block: UnitBlock) -> Integers | None:
        """Number of units of a block in each cell; None where SQL has to count them.

        Args:
            pairs: of all groups that units have, also of those they do not keep.
            block: the units.
        """
        if block.outside is not None and not self.has_others:
            return None

        def per_unit(numbers: NDArray[Any]) -> Integers:
            return run_sums(numbers, block.breadths)

        found = []
        try:
            for loss in self.losses:
                number, cut = loss.of(pairs, self.table.parts)
                number, lost = per_unit(number), None if cut is None else per_unit(cut)
                if loss.values.most is not None and loss.cut:
                    lost = np.maximum(number - loss.values.most * self.table.parts, 0)
                own = None if loss.excess is None else loss.excess_of(pairs)
                found.append((number, lost, None if own is None else per_unit(own)))
        except TooWideError:
            return None
        return UnitLosses(self, block.breadths, found).cells(block.outside)


class UnitLosses:
    """Losses of some units.

    Args:
        plan: the table.
        groups: how many public groups each unit has.
        losses: for each kind of value all, those that are cut, and their excess, in parts of a row; None for none.
    """

    def __init__(
        self, plan: LossPlan, groups: Integers, losses: list[tuple[Integers, Integers | None, Integers | None]]
    ) -> None:
        self._plan, self._groups, self._losses = plan, groups, losses

    def cells(self, others: NDArray[np.bool_] | None) -> Integers:
        """Number of units in each cell."""
        plan, groups = self._plan, self._groups
        cell = np.zeros(len(groups), dtype=np.int64)
        for cause in plan.table.causes:
            cell <<= 1
            if cause == GROUPS:
                cell |= groups > plan.most
            elif cause == KEYS:
                if others is not None:
                    cell |= others
            else:
                for _, cut, excess in self._losses:
                    applies = cut if cause == ROWS else excess
                    if applies is not None:
                        cell |= applies > 0
        cell *= plan.table.buckets
        lost = self._lost()
        if lost is not None:
            where = np.flatnonzero(lost)
            powers = 2 ** np.arange(1, plan.table.buckets, dtype=np.int64)
            cell[where] += np.searchsorted(powers, lost[where], side="right")
        return np.bincount(cell, minlength=plan.table.cells)

    def _lost(self) -> Integers | None:
        """The loss of each unit in whole parts of a row, rounded down: of several kinds of values the largest."""
        largest: Integers | None = None
        for number, cut, excess in self._losses:
            lost = self._amount(number, cut, excess)
            if lost is not None:
                largest = lost if largest is None else np.maximum(largest, lost)
        if largest is None or GROUPS not in self._plan.table.causes:
            return largest
        return largest // np.maximum(self._groups, 1)

    def _amount(self, number: Integers, cut: Integers | None, excess: Integers | None) -> Integers | None:
        """Values that are cut and excess; where groups may be cut, what is lost of all choices, times the groups."""
        if GROUPS not in self._plan.table.causes:
            return excess if cut is None else cut if excess is None else cut + excess
        groups, most = self._groups, self._plan.most
        remaining = number if cut is None else number - cut
        missing = number * groups - remaining * np.minimum(groups, most)
        return missing if excess is None else missing + excess * groups


def loss_plan(
    final: FinalAggregation, table: BiasTable, columns: dict[str, Read], known: dict[Measure, str | None]
) -> LossPlan | None:
    """The cells of a table; None where SQL has to find them.

    Args:
        final: the query.
        table: its table.
        columns: that are read, by name; those that count values are added.
        known: which of them measures of the first statement read.
    """
    if not lists_exactly(final, table) or CASTS in table.causes:
        return None
    losses = []
    excesses: dict[str, Read] = {}
    for each in counted_values(final, table):
        measure = each.measure
        if measure.kind.traits.unites:
            return None
        count = known[measure] if measure in known else named_column(columns, counted(measure))
        total = _total(measure) if each.has_total else None
        if each.has_total and total is None:
            return None
        excess = named_column(excesses, _excess(measure), "e") if each.clipped else None
        cut = not each.once and ROWS in table.causes
        losses.append(ValueLoss(each, count, cut, total, excess))
    # Names of columns are in the order of the kinds of values, each once.
    if len(excesses) < sum(each.excess is not None for each in losses):
        return None
    return LossPlan(table, final.max_groups, tuple(losses), excesses)


def _total(measure: Measure) -> TotalLoss | None:
    if measure.argument is None:
        return None
    stored, kind = measure.argument.type, total_type(measure)
    # Values within their bounds, as whole numbers of steps, are read already.
    double = stored.kind is Kind.DOUBLE and max(abs(measure.low), abs(measure.high)) <= _EXACT // 4
    if not (double or (stored.kind is not Kind.DOUBLE and measure.step == stored.step)) or not is_within(measure):
        return None
    whole, scale = kind.kind is not Kind.DOUBLE, 10**stored.scale
    lows, highs = (
        tuple(_compared(end, kind, scale, whole=whole) for end in ends if end is not None)
        for ends in zip(*total_limits(measure, kind), strict=True)
    )
    if any(abs(end) >= WIDEST for end in (*lows, *highs)):
        return None
    largest = 2 * max(abs(measure.low), abs(measure.high)) + 1
    return TotalLoss(measure.low - 1, largest, None if whole else scale, lows, highs)


def _compared(end: Value, kind: SqlType, scale: int, *, whole: bool) -> float:
    """An end as the total is compared with it: in whole grains, or as a double."""
    return int(ordinal(end, kind) * scale) if whole else float(end)  # type: ignore[arg-type]


def _excess(measure: Measure) -> Read:
    """The place of a value's excess among those that are told apart; any place for rows that do not count."""
    if measure.argument is None:
        raise TooWideError
    arms = _excess_arms(tuple(excess_limits(measure)), measure.argument.type)
    found = DUCKDB.let(scalar_sql(DUCKDB, measure.argument), lambda value: arms.replace(_VALUE, value))
    return Read(found, 0, len(EXCESSES))


#: Stands for a value in SQL that is written once for many queries.
_VALUE = "\0value\0"


@lru_cache(256)
def _excess_arms(limits: tuple[Interval, ...], kind: SqlType) -> str:
    arms = []
    for number, (low, high) in enumerate(limits):
        parts = [] if low is None else [f"{_VALUE} >= {DUCKDB.constant(low, kind)}"]
        parts += [] if high is None else [f"{_VALUE} <= {DUCKDB.constant(high, kind)}"]
        arms.append(f"WHEN {' AND '.join(parts) or 'TRUE'} THEN {number}::TINYINT")
    return f"CASE {' '.join(arms)} ELSE {len(limits)}::TINYINT END"
