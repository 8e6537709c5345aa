"""From released integers to the rows of an answer, with an interval for every number at any confidence.

Which rows there are, and in which order, is decided by released values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tacit.core.errors import InputError, InternalError
from tacit.core.numbers import Number, exact_probability
from tacit.query.planning.left_out import loss_table
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.postprocess.bounding_loss import LeftOut, QuestionLosses, bounding_losses
from tacit.query.postprocess.cell_expressions import EndOf, Row, derive
from tacit.query.postprocess.cells import Cell, CellConfidence, Ends, Exact, MeasureBias
from tacit.query.postprocess.public_join import PublicRows, combined, matched
from tacit.query.postprocess.regroup import in_order, partitions, pool, window_cells
from tacit.query.postprocess.released_parts import ReleasedParts, biases_of_totals
from tacit.query.question import (
    Append,
    Combine,
    Derive,
    Extend,
    Keep,
    Match,
    OutputColumn,
    Question,
    Regroup,
    Slice,
    Sort,
    Step,
    Totals,
    types_after,
)
from tacit.query.relational.algebra import UnitCall
from tacit.query.relational.expressions import Expression, Reference, literal
from tacit.query.relational.functions import case
from tacit.query.release import NoisyRelease
from tacit.query.types import SqlType, Value, ordinal, sort_key

__all__ = ["Finished", "Intervals", "finish"]


# -- steps

Rows = list[Row]


def apply_step(step: Step, rows: Rows, ends: EndOf) -> Rows:
    """The rows after a step that reads no other rows; ``ends`` gives the ends of a cell's interval."""
    match step:
        case Derive():
            return list(zip(*(_derived(node, rows, ends) for node in step.expressions), strict=True))
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


def _derived(node: Expression, rows: Rows, ends: EndOf) -> list[Cell]:
    """One expression for every row."""
    if isinstance(node, Reference):
        return [row[node.slot] for row in rows]
    return [derive(node, row, ends) for row in rows]


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


def _call(call: UnitCall, rows: Sequence[Row], ends: EndOf) -> Cell:
    where, argument = call.where, call.argument
    if where is not None and argument is not None and any(derive(where, row, ends).events for row in rows):
        # Which rows count is in doubt too: noise that lifts a cell over the bar is noise in the sum.
        counted = case([(where, argument)], literal(None, argument.type))
        return pool(call.function, [derive(counted, row, ends) for row in rows], call.parameter, call.type)
    kept = rows if where is None else [row for row in rows if derive(where, row, ends).value is True]
    if call.argument is None:
        return Exact(len(kept), call.type)
    return pool(call.function, [derive(call.argument, row, ends) for row in kept], call.parameter, call.type)


# -- answers

#: Confidence is at most this, so that quantiles stay cheap; beyond, noise has no practical meaning.
MOST_CONFIDENT = 1 - Fraction(1, 10**12)


class Intervals:
    """The intervals of cells at one confidence; each cell has it on its own, not all of them together.

    Args:
        laws: of the noise of each measurement.
        confidence: of each interval.
        biases: of each measurement, to widen intervals by what bounding left out; None for noise alone.
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
        """The level at which ``count`` events all hold with the confidence: β/count each."""
        if count not in self._levels:
            self._levels[count] = CellConfidence(self._laws, (1 - self.confidence) / count, self._biases)
        return self._levels[count]

    def of(self, cell: Cell) -> Ends:
        """Low and high end, rounded outwards in the cell's own type; the value itself where there is no noise.

        The interval contains the value. Without an order (TEXT) there is none.
        """
        if not cell.type.is_ordered:
            return None, None
        if not cell.events:
            return cell.value, cell.value
        return cell.ends(self.level(len(cell.events)))

    def column(self, cells: Sequence[Cell]) -> list[Ends]:
        """As :meth:`of`, of a whole column."""
        kinds = {type(cell) for cell in cells}
        kind = kinds.pop() if len(kinds) == 1 else Cell
        if kind.event_count is None or not cells[0].type.is_ordered or self._biases is not None:
            return [self.of(cell) for cell in cells]
        return kind.column_ends(cells, self.level(kind.event_count))


@dataclass(frozen=True)
class Finished:
    """The rows of an answer; holds released integers and nothing else of the data.

    Args:
        columns: name, type and noisiness of each.
        rows: of cells.
        laws: of the noise of each measurement.
        confidence: of intervals, unless another is asked for.
        losses: what bounding left out; None where nothing can be, or it was not bought.
        estimated: False where something can be left out and no share of the price was spent on it.
        totals: for each law of a total, which come last, the number of the measurement that it adds up.
    """

    columns: tuple[OutputColumn, ...]
    rows: tuple[Row, ...]
    laws: tuple[NoiseLaw, ...]
    confidence: Fraction
    losses: QuestionLosses | None = None
    estimated: bool = True
    totals: tuple[int, ...] = ()

    @property
    def left_out(self) -> LeftOut | None:
        """Estimate of what bounding left out; None where nothing can be, or no share of the price was spent on it."""
        return None if self.losses is None else self.losses.told

    @cached_property
    def values(self) -> tuple[tuple[Value | None, ...], ...]:
        """The released values, row by row."""
        return tuple(tuple(cell.value for cell in row) for row in self.rows)

    def intervals(
        self, confidence: Number | None = None, *, rows: int | None = None, bias: bool = False
    ) -> tuple[tuple[Ends, ...], ...]:
        """For each cell (of the first ``rows``) its interval, at the confidence of the question or at another.

        ``bias`` widens them by the estimated bound of what bounding left out, where anything can be left out. An end
        that no number bounds is None: the largest double would look like a bound.
        """
        if confidence is None and rows is None:
            return self._wide_intervals if bias else self._own_intervals
        return self._intervals(self.confidence if confidence is None else confidence, self.rows[:rows], bias=bias)

    @cached_property
    def _own_intervals(self) -> tuple[tuple[Ends, ...], ...]:
        return self._intervals(self.confidence, self.rows)

    @cached_property
    def _wide_intervals(self) -> tuple[tuple[Ends, ...], ...]:
        return self._intervals(self.confidence, self.rows, bias=True)

    def _intervals(
        self, confidence: Number, chosen: Sequence[Row], *, bias: bool = False
    ) -> tuple[tuple[Ends, ...], ...]:
        if bias and not self.estimated:
            raise InputError("bias", "is not known: the question was asked with bias_share = 0")
        return self._ends(confidence, chosen, self.losses.biases if bias and self.losses is not None else None)

    def _ends(
        self, confidence: Number, chosen: Sequence[Row], biases: Sequence[MeasureBias] | None
    ) -> tuple[tuple[Ends, ...], ...]:
        at = Intervals(self.laws, confidence, None if biases is None else biases_of_totals(biases, self.totals))
        columns = [_without_ends([*at.column([row[i] for row in chosen])]) for i in range(len(self.columns))]
        return tuple(zip(*columns, strict=True)) if columns else ((),) * len(chosen)

    def marked(self, *, rows: int | None = None) -> tuple[tuple[bool, ...], ...]:
        """For each cell (of the first ``rows``) whether its bias may exceed its interval.

        That is so where a cause of loss is seen, and the interval that allows for it is more than twice as wide.
        """
        losses, chosen = self.losses, self.rows[:rows]
        if losses is None or not losses.is_seen:
            return ((False,) * len(self.columns),) * len(chosen)
        plain, wide = self.intervals(rows=rows), self._ends(self.confidence, chosen, losses.seen_biases)
        kinds = [column.type for column in self.columns]
        return tuple(
            tuple(
                known and _exceeds(own, other, kind)
                for own, other, kind, known in zip(ends, others, kinds, self.has_interval, strict=True)
            )
            for ends, others in zip(plain, wide, strict=True)
        )

    @cached_property
    def has_interval(self) -> tuple[bool, ...]:
        """Which columns carry noise and have an order, and so an interval."""
        return tuple(
            (column.type.is_numeric or column.type.is_temporal)
            and (any(row[i].events for row in self.rows) if self.rows else column.noisy)
            for i, column in enumerate(self.columns)
        )

    @cached_property
    def not_negative(self) -> tuple[bool, ...]:
        """Which columns with intervals are 0 or more for certain: counts, and sums of what is not negative."""
        return tuple(
            known and bool(self.rows) and all(_is_not_negative(row[i]) for row in self.rows)
            for i, known in enumerate(self.has_interval)
        )


def _is_not_negative(cell: Cell) -> bool:
    affine = cell.affine
    return affine is not None and affine.not_negative


def _exceeds(own: Ends, wide: Ends, kind: SqlType) -> bool:
    """Whether an interval is more than twice as wide as another; one without an end is, if the other has both."""
    if own[0] is None or own[1] is None:
        return False
    if wide[0] is None or wide[1] is None:
        return True
    (low, high), (lowest, highest) = ([ordinal(end, kind) for end in pair if end is not None] for pair in (own, wide))
    return highest - lowest > 2 * (high - low)


def _without_ends(ends: list[Ends]) -> list[Ends]:
    """The same intervals, with None for an end beyond all doubles."""
    largest = sys.float_info.max
    if not any(isinstance(end, float) and abs(end) == largest for pair in ends for end in pair):
        return ends
    return [(None if low == -largest else low, None if high == largest else high) for low, high in ends]


def finish(
    question: Question, released: NoisyRelease, *, confidence: Number, public: Sequence[PublicRows] = ()
) -> Finished:
    """The answer to a question, from what was released for it.

    Args:
        question: what was asked.
        released: keys and noisy integers, by :func:`tacit.query.release.release`.
        confidence: of intervals, and of DP_INTERVAL_LOW and DP_INTERVAL_HIGH in the text.
        public: the rows of the public relations it reads, in the order of :attr:`Question.reads`.

    Raises:
        Refusal: when a join with public rows is too large; says nothing but what released cells and public rows say.
    """
    parts = ReleasedParts(released, question)
    intervals = Intervals(parts.laws, confidence)
    if len(public) != len(question.reads):
        raise InternalError("the rows of every public relation are needed")
    rows = _Rows(parts, intervals, iter(public)).of(question)
    losses = bounding_losses(released, intervals.confidence)
    estimated = all(
        loss is not None or loss_table(part.plan.final) is None
        for loss, part in zip(losses.parts, parts.parts, strict=True)
    )
    shown = tuple(map(tuple, rows))
    told = losses if any(loss is not None for loss in losses.parts) else None
    return Finished(question.columns, shown, parts.laws, intervals.confidence, told, estimated, parts.totals)


class _Rows:
    """The rows of a question and of those that its steps read."""

    def __init__(self, parts: ReleasedParts, intervals: Intervals, public: Iterator[PublicRows]) -> None:
        self._parts = parts
        self._intervals = intervals
        self._public = public

    def of(self, question: Question) -> Rows:
        rows, types = self._parts.rows(question), question.final.types
        for step in question.steps:
            match step:
                case Match():
                    rows = matched(step, rows, types, next(self._public))
                case Combine():
                    rows = combined(step, rows, types, self.of(step.other))
                case Append():
                    rows = [*rows, *self.of(step.other)]
                case Totals():
                    pass
                case _:
                    rows = apply_step(step, rows, self._end)
            types = types_after(step, types)
        return rows

    def _end(self, cell: Cell, high: bool) -> Value | None:
        return self._intervals.of(cell)[high]
