"""Rows of an answer from released integers, with an interval for every number at any confidence.

Released values decide the list of rows and their order.

*Released cells.* Measurements are numbered across all parts of a query, then across totals, so that each number stands
for one law of noise and draws of different parts are different events. A total adds up the released integers of its
groups, so that it is exactly the sum of the groups that are shown, is unbiased, and is free. Its noise is the sum of
the independent noises of these groups; or, where groups are estimated from noisy sums of groups, the remaining noise
of those sums. An average or a variance of a total is a quotient of such sums.

:class:`CellNumbers` are integers from which cells are estimated: those of the release itself, or totals over equally
many groups each. Each of them has separate *laws*, appended to those of the release, so that a
:class:`~tacit.query.postprocess.cells.Draw` names one noise. Totals and their groups share noise; where cells are
added up, totals are therefore written as sums of the draws of the release.

*Parts in turn.* A value, and a row of values, is a function of released cells alone, so that it is public once its
parts are released. It enters the relation of the part that reads it as constants. That part's keys, bounds, noise
and cost were fixed before; only the rows it reads depend on the values, as they would on numbers that the analyst
states after reading a first answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError, InternalError
from tacit.core.numbers import Number, exact_probability
from tacit.mechanisms.residual_basis import Axes
from tacit.query.aggregates import entry_of
from tacit.query.aggregates.ranks import NoisyTree
from tacit.query.planning.bias import bias_table
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan, with_values
from tacit.query.postprocess.bias import Bias, QueryBias, bounding_biases
from tacit.query.postprocess.cells import Cell, CellConfidence, Draw, Ends, Exact, MeasureBias, as_shown, exceeds
from tacit.query.postprocess.rows import (
    EndOf,
    PublicRows,
    Row,
    combined,
    derive,
    in_order,
    matched,
    partitions,
    pool,
    window_cells,
)
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
    Totals,
    types_after,
    with_branches,
)
from tacit.query.relational.algebra import UnitCall, released_values
from tacit.query.relational.expressions import TRUE, Expression, Reference, literal
from tacit.query.relational.functions import call, case
from tacit.query.release import KeyTuple, NoisyRelease, together
from tacit.query.types import BOOLEAN, INTEGER, Value, sort_key

# -- steps


Rows = list[Row]


def apply_step(step: Step, rows: Rows, ends: EndOf) -> Rows:
    """Return the rows after a step that reads no other rows; ``ends`` gives the ends of a cell's interval."""
    match step:
        case Derive():
            columns = [
                [row[node.slot] if isinstance(node, Reference) else derive(node, row, ends) for row in rows]
                for node in step.expressions
            ]
            return list(zip(*columns, strict=True))
        case Keep():
            return [row for row in rows if derive(step.condition, row, ends).value is True]
        case Sort():
            return [rows[index] for index in in_order(rows, step.keys, ends)]
        case Slice():
            return rows[step.offset :] if step.limit is None else rows[step.offset : step.offset + step.limit]
        case Regroup():
            return _regroup(step, rows, ends)
        case Extend():
            added = [window_cells(call, rows, ends) for call in step.calls]
            return [(*row, *(cells[index] for cells in added)) for index, row in enumerate(rows)]
        case _:
            first: dict[tuple[Value | None, ...], Row] = {}
            for row in rows:
                first.setdefault(tuple(cell.value for cell in row), row)
            return list(first.values())


def with_doubts(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with conditions on rows that are then pooled into one moved into the aggregates.

    The values stay the same; the intervals then allow for noise in the conditions that decide which rows are kept.
    """
    made: list[Step] = []
    for step in steps:
        if not isinstance(step, Regroup) or step.keys or not step.calls:
            made.append(step)
            continue
        first = next((i + 1 for i in reversed(range(len(made))) if not isinstance(made[i], (Keep, Derive, Sort))), 0)
        before, conditions = made[first:], list[Expression]()
        del made[first:]
        for part in before:
            if isinstance(part, Keep):
                conditions.append(part.condition)
            elif isinstance(part, Derive):
                width = len(part.expressions)
                made.append(Derive((*part.expressions, *conditions)))
                conditions = [Reference(BOOLEAN, each.domain, width + i, "kept") for i, each in enumerate(conditions)]
        made.append(replace(step, calls=tuple(_filtered(call, conditions) for call in step.calls)))
    return made


def _filtered(called: UnitCall, conditions: list[Expression]) -> UnitCall:
    parts = [*conditions, *([] if called.where is None else [called.where])]
    return replace(called, where=None if not parts else parts[0] if len(parts) == 1 else call("and", *parts))


def _regroup(step: Regroup, rows: Rows, ends: EndOf) -> Rows:
    if not step.keys:
        return [tuple(_call(call, rows, ends) for call in step.calls)]
    keys = [tuple(derive(key, row, ends) for key in step.keys) for row in rows]
    names = [tuple(cell.value for cell in cells) for cells in keys]
    groups = partitions(range(len(rows)), names)
    groups.sort(key=lambda part: [sort_key(cell.value, cell.type) for cell in keys[part[0]]])
    return [
        (*keys[part[0]], *(_call(call, [rows[index] for index in part], ends) for call in step.calls))
        for part in groups
    ]


def _call(called: UnitCall, rows: Sequence[Row], ends: EndOf) -> Cell:
    where, function = called.where, "count" if called.argument is None else called.function
    argument = TRUE if called.argument is None else called.argument
    if where is not None and any(derive(where, row, ends).events for row in rows):
        # The set of counted rows is uncertain too: noise in the condition is noise in the sum.
        counted = case([(where, argument)], literal(None, argument.type))
        return pool(function, [derive(counted, row, ends) for row in rows], called.parameter, called.type)
    kept = rows if where is None else [row for row in rows if derive(where, row, ends).value is True]
    if called.argument is None:
        return Exact(len(kept), called.type)
    return pool(called.function, [derive(called.argument, row, ends) for row in kept], called.parameter, called.type)


# -- answers


#: Largest confidence, so that quantiles of noise are cheap to compute; beyond, intervals have no practical meaning.
MOST_CONFIDENT = 1 - Fraction(1, 10**12)


class Intervals:
    """Confidence intervals of cells; the confidence holds per cell, not for all cells simultaneously.

    Args:
        laws: of the noise of each measurement.
        confidence: of each interval.
        biases: of each measurement, to widen intervals by the bias of bounding; None for noise alone.
    """

    def __init__(
        self, laws: Sequence[NoiseLaw], confidence: Number, biases: Sequence[MeasureBias] | None = None
    ) -> None:
        self.confidence = exact_probability(confidence, "confidence")
        if self.confidence > MOST_CONFIDENT:
            raise InputError("confidence", "must be at most 1 - 1e-12; noise has no bound that holds for certain")
        self._laws = tuple(laws)
        self._biases = biases
        self._levels: dict[int, CellConfidence] = {}

    def level(self, count: int) -> CellConfidence:
        """Return the level at which ``count`` events hold jointly with the confidence: probability β/count of each."""
        if count not in self._levels:
            self._levels[count] = CellConfidence(self._laws, (1 - self.confidence) / count, self._biases)
        return self._levels[count]

    def of(self, cell: Cell) -> Ends:
        """Return the low and high end, rounded outwards in the cell's type; the value itself if there is no noise.

        The interval contains the value. A type without an order (TEXT) has no interval.
        """
        if not cell.type.is_ordered:
            return None, None
        if not cell.events:
            return cell.value, cell.value
        return cell.ends(self.level(len(cell.events)))

    def column(self, cells: Sequence[Cell]) -> list[Ends]:
        """Return :meth:`of` for each cell of a column."""
        kinds = {type(cell) for cell in cells}
        kind = kinds.pop() if len(kinds) == 1 else Cell
        if kind.event_count is None or not cells[0].type.is_ordered or self._biases is not None:
            return [self.of(cell) for cell in cells]
        return kind.column_ends(cells, self.level(kind.event_count))


@dataclass(frozen=True)
class Finished:
    """The rows of an answer; of the data it holds released integers only.

    Args:
        columns: name, type and noisiness of each column.
        rows: rows of cells.
        laws: of the noise of each measurement.
        confidence: default confidence level of intervals.
        losses: bias of bounding; None if nothing can be left out or the budget bought no bias table.
        estimated: False if something can be left out and no share of the cost was spent on estimating it.
        totals: for each law of a total, which come last, the index of the measurement that it adds up.
    """

    columns: tuple[OutputColumn, ...]
    rows: tuple[Row, ...]
    laws: tuple[NoiseLaw, ...]
    confidence: Fraction
    losses: QueryBias | None = None
    estimated: bool = True
    totals: tuple[int, ...] = ()

    @property
    def bias(self) -> Bias | None:
        """Estimated bias of bounding; None if nothing can be left out or no share of the cost was spent on it."""
        return None if self.losses is None else self.losses.told

    @cached_property
    def values(self) -> tuple[tuple[Value | None, ...], ...]:
        return tuple(tuple(cell.value for cell in row) for row in self.rows)

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool | None = None
    ) -> tuple[tuple[Ends, ...], ...]:
        """Return the interval of each cell (of the first ``rows``), by default at the confidence of the query.

        With ``bias`` True the intervals include the estimated bound of the bias, if anything can be left out; with
        False they cover noise alone. By default they are as shown: with the bias if that makes them less than three
        times as wide, else with what is sure of it. An unbounded end is None: the largest double would look like a
        bound.
        """
        if bias is None:
            plain = self.intervals(confidence, rows=rows, bias=False)
            if self.losses is None:
                return plain
            wide = self.intervals(confidence, rows=rows, bias=True)
            return as_shown(plain, wide, self.sure(confidence, rows=rows), [column.type for column in self.columns])
        if confidence is None and (rows is None or rows >= len(self.rows)):
            return self._wide_intervals if bias else self._own_intervals
        return self._intervals(self.confidence if confidence is None else confidence, self.rows[:rows], bias=bias)

    def sure(self, confidence: Number | None = None, *, rows: int | None = None) -> tuple[tuple[Ends, ...], ...]:
        """Return intervals that include the losses which certainly move the answer."""
        biases = () if self.losses is None else self.losses.sure_biases
        if all(bias.is_nothing for bias in biases):
            return self.intervals(confidence, rows=rows, bias=False)
        return self._ends(self.confidence if confidence is None else confidence, self.rows[:rows], biases)

    @cached_property
    def _own_intervals(self) -> tuple[tuple[Ends, ...], ...]:
        return self._intervals(self.confidence, self.rows)

    @cached_property
    def _wide_intervals(self) -> tuple[tuple[Ends, ...], ...]:
        return self._intervals(self.confidence, self.rows, bias=True)

    def _intervals(
        self, confidence: Number, chosen: Sequence[Row], *, bias: bool = False
    ) -> tuple[tuple[Ends, ...], ...]:
        if bias and not self.estimated and self.losses is None:
            raise InputError("bias", "is not known: the query was asked with bias_share = 0")
        return self._ends(confidence, chosen, self.losses.biases if bias and self.losses is not None else None)

    def _ends(
        self, confidence: Number, chosen: Sequence[Row], biases: Sequence[MeasureBias] | None
    ) -> tuple[tuple[Ends, ...], ...]:
        at = Intervals(self.laws, confidence, None if biases is None else biases_of_totals(biases, self.totals))
        columns = [_without_ends([*at.column([row[i] for row in chosen])]) for i in range(len(self.columns))]
        return tuple(zip(*columns, strict=True)) if columns else ((),) * len(chosen)

    def marked(self, *, rows: int | None = None) -> tuple[tuple[bool, ...], ...]:
        """Return, for each cell (of the first ``rows``), whether its bias may exceed its interval.

        It may if a cause of bias is significant and the interval that includes the bias is three times as wide.
        """
        losses, chosen = self.losses, self.rows[:rows]
        if losses is None or not losses.is_seen:
            return ((False,) * len(self.columns),) * len(chosen)
        shown, wide = self.intervals(rows=rows), self._ends(self.confidence, chosen, losses.seen_biases)
        kinds = [column.type for column in self.columns]
        return tuple(
            tuple(
                known and exceeds(own, other, kind)
                for own, other, kind, known in zip(ends, others, kinds, self.has_interval, strict=True)
            )
            for ends, others in zip(shown, wide, strict=True)
        )

    @cached_property
    def has_interval(self) -> tuple[bool, ...]:
        """For each column whether it is noisy and ordered, and so has intervals."""
        return tuple(
            (column.type.is_numeric or column.type.is_temporal)
            and (any(row[i].events for row in self.rows) if self.rows else column.noisy)
            for i, column in enumerate(self.columns)
        )

    @cached_property
    def not_negative(self) -> tuple[bool, ...]:
        """For each column whether it has intervals and its truth is certainly at least 0: counts, and some sums."""
        return tuple(
            known and bool(self.rows) and all(_is_not_negative(row[i]) for row in self.rows)
            for i, known in enumerate(self.has_interval)
        )


def _is_not_negative(cell: Cell) -> bool:
    affine = cell.affine
    return affine is not None and affine.not_negative


def _without_ends(ends: list[Ends]) -> list[Ends]:
    """Return the intervals with None for each end beyond all doubles."""
    largest = sys.float_info.max
    if not any(isinstance(end, float) and abs(end) == largest for pair in ends for end in pair):
        return ends
    return [(None if low == -largest else low, None if high == largest else high) for low, high in ends]


def finish(query: Query, released: NoisyRelease, *, confidence: Number, public: Sequence[PublicRows] = ()) -> Finished:
    """Return the answer to a query from the release that was made for it.

    Args:
        query: the resolved query.
        released: keys and noisy integers, by :func:`tacit.query.release.release`.
        confidence: of intervals, and of DP_INTERVAL_LOW and DP_INTERVAL_HIGH in the text.
        public: the rows of the public relations that the query reads, in the order of :attr:`Query.reads`.

    Raises:
        Refusal: a join with public rows is too large; this depends on released cells and public rows alone.
    """
    level = confidence if isinstance(confidence, Fraction) else exact_probability(confidence, "confidence")
    parts, beside = ReleasedParts(released, query), iter(public)
    if len(public) != len(query.reads):
        raise InternalError("the rows of every public relation are needed")

    @cache
    def intervals() -> Intervals:
        return Intervals(parts.laws, level)

    def end(cell: Cell, high: bool) -> Value | None:
        return intervals().of(cell)[high]

    def rows_of(query: Query) -> Rows:
        rows, types = parts.rows[query.part, query.totals], query.final.types
        for step in with_doubts(query.steps):
            match step:
                case Match():
                    rows = matched(step, rows, types, next(beside))
                case Combine():
                    rows = combined(step, rows, types, rows_of(step.other))
                case Append():
                    rows = [*rows, *rows_of(step.other)]
                case Totals():
                    pass
                case _:
                    rows = apply_step(step, rows, end)
            types = types_after(step, types)
        return rows

    shown = tuple(map(tuple, rows_of(query)))
    losses = bounding_biases(released, level)
    told = losses if any(loss is not None for loss in losses.parts) else None
    estimated = all(
        loss is not None or bias_table(part.plan.final) is None
        for loss, part in zip(losses.parts, parts.parts, strict=True)
    )
    return Finished(query.columns, shown, parts.laws, level, told, estimated, parts.totals)


# -- released cells


class ReleasedParts:
    """Released cells of every part of a query."""

    def __init__(self, released: NoisyRelease, query: Query) -> None:
        self.parts = released.parts
        #: The laws of all noises; those of totals come last.
        self.laws: tuple[NoiseLaw, ...] = ()
        #: For each law of a total the number of the measurement that it adds up.
        self.totals: tuple[int, ...] = ()
        self._numbers: list[CellNumbers] = []
        for part in self.parts:
            numbers = released_numbers(part, first=len(self.laws))
            self._numbers.append(numbers)
            self.laws += numbers.laws
        #: The released rows of a query before its steps, except grouping sets, by its part and its grouping sets.
        self.rows: dict[tuple[int, Totals | None], list[Row]] = {}
        for each in with_branches(query):
            key = each.part, each.totals
            if key not in self.rows:
                self.rows[key] = self._of(*key)

    def _of(self, part: int, totals: Totals | None) -> list[Row]:
        final, finest = self.parts[part].plan.final, self._numbers[part]
        if totals is not None:
            return self._of_sets(final, finest, totals)
        kinds = final.types
        return [
            (*[Exact(value, kind) for value, kind in zip(key, kinds, strict=False)], *cells)
            for key, cells in estimates(final, finest)
        ]

    def _of_sets(self, final: FinalAggregation, finest: CellNumbers, totals: Totals) -> list[Row]:
        """Return the rows of all grouping sets, each group after its parts."""
        width = len(totals.keys)
        kinds = [final.types[key] for key in totals.keys]
        found: list[tuple[list[object], Row]] = []
        for number, places in enumerate(totals.sets):
            for key, cells in self._of_set(final, finest, totals, places):
                known = dict(zip(places, key, strict=True))
                values = [known.get(place) for place in range(width)]
                absent = [int(place not in known) for place in range(width)]
                order = [(gone, sort_key(v, kind)) for gone, v, kind in zip(absent, values, kinds, strict=True)]
                flags = [Exact(gone, INTEGER) for gone in absent]
                row = (*(Exact(v, kind) for v, kind in zip(values, kinds, strict=True)), *flags, *cells)
                found.append(([order, number], row))
        return [row for _, row in sorted(found, key=lambda each: each[0])]

    def _of_set(
        self, final: FinalAggregation, finest: CellNumbers, totals: Totals, places: Sequence[int]
    ) -> Iterator[tuple[KeyTuple, list[Cell]]]:
        """Yield the groups of one grouping set: released groups, or sums of them."""
        if len(places) == len(final.keys):
            for key, cells in estimates(final, finest):
                yield tuple(key[totals.keys[place]] for place in places), cells
            return
        # All totals over the same keys have the same noise, whatever the values of the remaining keys.
        kept = tuple(sorted(totals.keys[place] for place in places))
        for layer in totals_of(finest, summed_groups(finest.keys, totals, places), kept, first=len(self.laws)):
            self.laws += layer.laws
            self.totals += tuple(range(finest.first, finest.first + len(layer.laws)))
            yield from estimates(final, layer)


def estimates(final: FinalAggregation, numbers: CellNumbers) -> list[tuple[KeyTuple, list[Cell]]]:
    """Return the key of each group with one estimate per aggregate."""
    columns = [
        entry_of(aggregate.kind).released.column(aggregate, final.measures[aggregate.measures[-1]], numbers)
        for aggregate in final.aggregates
    ]
    return [(key, [column(group) for column in columns]) for group, key in enumerate(numbers.keys)]


@dataclass(frozen=True)
class CellNumbers:
    """Noisy integers of some groups, and the laws of their noise.

    Args:
        keys: one per group.
        noisy: one per measurement: an integer per group, a row per group, or a tree.
        laws: one per measurement, the same for all groups.
        plan: the plan of the release.
        first: index of the first of these laws among all laws of the answer.
        members: for each group the released groups that it adds up; empty for released groups themselves.
        finest: the released groups that totals add up; None for released groups themselves.
    """

    keys: tuple[KeyTuple, ...]
    noisy: tuple[NDArray[Any] | NoisyTree, ...]
    laws: tuple[NoiseLaw, ...]
    plan: Plan
    first: int = 0
    members: tuple[tuple[int, ...], ...] = ()
    finest: CellNumbers | None = None

    def draw(self, measure: int, group: int) -> Draw:
        """Return the draw of noise in one integer."""
        return Draw(self.first + measure, group)

    def parts(self, measure: int, group: int) -> tuple[Draw, ...]:
        """Return the draws of the released groups that a total adds up; empty for a released group."""
        if self.finest is None:
            return ()
        return tuple(self.finest.draw(measure, member) for member in self.members[group])


def released_numbers(released: NoisyRelease, *, first: int = 0) -> CellNumbers:
    """Return the integers of a release, with law indices from ``first`` on."""
    laws = tuple(law.added(1, first + (law.source or 0)) for law in released.laws) if first else released.laws
    noisy = tuple(part if isinstance(part, (np.ndarray, NoisyTree)) else part.estimates for part in released.noisy)
    return CellNumbers(released.keys, noisy, laws, released.plan, first)


def summed_groups(keys: Sequence[KeyTuple], totals: Totals, places: Sequence[int]) -> dict[KeyTuple, list[int]]:
    """Return the indices of the finest groups of each key of a grouping set; ``()`` is there even without groups."""
    found: dict[KeyTuple, list[int]] = {} if places else {(): []}
    for group, key in enumerate(keys):
        found.setdefault(tuple(key[totals.keys[place]] for place in places), []).append(group)
    return found


def totals_of(finest: CellNumbers, groups: dict[KeyTuple, list[int]], kept: Axes, *, first: int) -> list[CellNumbers]:
    """Sum released groups by the keys ``kept``; totals with equal noise together, law indices from ``first`` on."""
    alike: dict[int, list[KeyTuple]] = {}
    for key, parts in groups.items():
        alike.setdefault(len(parts), []).append(key)
    made: list[CellNumbers] = []
    for keys in alike.values():
        members = tuple(tuple(groups[key]) for key in keys)
        noisy = tuple(_added(part, members) for part in finest.noisy)
        laws = tuple(_total_law(law, members[0], kept, first - finest.first) for law in finest.laws)
        made.append(CellNumbers(tuple(keys), noisy, laws, finest.plan, first, members, finest))
        first += len(laws)
    return made


def _total_law(law: NoiseLaw, members: Sequence[int], kept: Axes, shift: int) -> NoiseLaw:
    """Return the law of the sum of some groups, as a number read off a separate source."""
    source = shift + (law.source or 0)
    if law.cells is None:
        return law.added(len(members), source)
    return law.summed(law.cells.basis.set_noise(kept), source) if members else law.added(0, source)


def _added(part: NDArray[Any] | NoisyTree, members: Sequence[tuple[int, ...]]) -> NDArray[Any]:
    if isinstance(part, NoisyTree):
        raise InternalError("quantiles of totals are not sums")
    # Python integers: sums over any number of groups cannot overflow.
    sums, wide = np.zeros((len(members), *part.shape[1:]), dtype=object), part.astype(object)
    for place, groups in enumerate(members):
        if groups:
            sums[place] = wide[list(groups)].sum(axis=0)
    return sums


def biases_of_totals(biases: Sequence[MeasureBias], totals: Sequence[int]) -> tuple[MeasureBias, ...]:
    """Return the biases of all laws of an answer: the bias of a total is at most that of all cells together."""
    whole = [MeasureBias(b.all_down, b.all_up, b.all_down, b.all_up, b.outside) for b in biases]
    return (*biases, *(whole[measure] for measure in totals))


# -- parts in turn


#: Placeholder confidence: the resolver refuses intervals in values.
_ANY: Final = Fraction(1, 2)


def in_turn(plan: Plan, make: Callable[[int, Plan], NoisyRelease]) -> NoisyRelease:
    """Return the release of a whole query, its parts in the order in which they read each other's values.

    Args:
        plan: of the query.
        make: makes or reads the release of a part, from its number and its plan with the values that it reads.
    """
    made: dict[int, NoisyRelease] = {}
    queries, parts = dict(plan.query.values), plan.parts
    waiting = {number: released_values(part.final.source) for number, part in enumerate(parts)}
    while waiting:
        ready = [n for n, keys in waiting.items() if all(queries[key].parts_read <= made.keys() for key in keys)]
        if not ready:
            raise InternalError("parts of a query wait for each other")
        number = ready[0]
        values = {key: _rows_of_value(queries[key], made) for key in waiting.pop(number)}
        made[number] = make(number, with_values(parts[number], values) if values else parts[number])
    return together(plan, [made[number] for number in range(len(parts))])


def _rows_of_value(query: Query, made: Mapping[int, NoisyRelease]) -> Sequence[Sequence[Value | None]]:
    """Return the rows of a query whose parts are released."""
    read = sorted(query.parts_read)
    first, *others = (made[number] for number in read)
    released = first
    if others:
        whole = replace(first.plan, others=tuple(other.plan for other in others))
        released = replace(first, plan=whole, others=tuple(others))
    return finish(_renumbered(query, read), released, confidence=_ANY).values


def _renumbered(query: Query, read: list[int]) -> Query:
    steps = tuple(
        replace(step, other=_renumbered(step.other, read)) if isinstance(step, Combine | Append) else step
        for step in query.steps
    )
    return replace(query, steps=steps, part=read.index(query.part))
