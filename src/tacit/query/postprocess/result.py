"""From released integers to the rows of an answer, with an interval for every number at any confidence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tacit.core.errors import InputError, InternalError
from tacit.core.numbers import Number, exact_probability
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.postprocess.apply_steps import Rows, apply_step
from tacit.query.postprocess.cell_expressions import Row
from tacit.query.postprocess.cells import Cell, CellConfidence, Ends
from tacit.query.postprocess.estimators import released_rows
from tacit.query.postprocess.public_join import PublicRows, matched
from tacit.query.question import Match, OutputColumn, Question, types_after
from tacit.query.release import NoisyRelease
from tacit.query.types import Value

__all__ = ["MOST_CONFIDENT", "Finished", "Intervals", "finish"]

#: Confidence is at most this, so that quantiles stay cheap; beyond, noise has no practical meaning.
MOST_CONFIDENT = 1 - Fraction(1, 10**12)


class Intervals:
    """The intervals of cells at one confidence; each cell has it on its own, not all of them together."""

    def __init__(self, laws: Sequence[NoiseLaw], confidence: Number) -> None:
        self.confidence = exact_probability(confidence, "confidence")
        if self.confidence > MOST_CONFIDENT:
            raise InputError("confidence", "must be at most 1 - 1e-12; noise has no bound that holds for certain")
        self._laws = tuple(laws)
        self._levels: dict[int, CellConfidence] = {}

    def level(self, count: int) -> CellConfidence:
        """The level at which ``count`` events all hold with the confidence: β/count each."""
        if count not in self._levels:
            self._levels[count] = CellConfidence(self._laws, (1 - self.confidence) / count)
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
        if kind.event_count is None or not cells[0].type.is_ordered:
            return [self.of(cell) for cell in cells]
        return kind.column_ends(cells, self.level(kind.event_count))


@dataclass(frozen=True)
class Finished:
    """The rows of an answer; holds released integers and nothing else of the data."""

    columns: tuple[OutputColumn, ...]
    rows: tuple[Row, ...]
    laws: tuple[NoiseLaw, ...]
    confidence: Fraction

    @cached_property
    def values(self) -> tuple[tuple[Value | None, ...], ...]:
        """The released values, row by row."""
        return tuple(tuple(cell.value for cell in row) for row in self.rows)

    def intervals(self, confidence: Number | None = None, *, rows: int | None = None) -> tuple[tuple[Ends, ...], ...]:
        """For each cell (of the first ``rows``) its interval, at the confidence of the question or at another.

        An end that no number bounds is None: the largest double would look like a bound.
        """
        if confidence is None and rows is None:
            return self._own_intervals
        return self._intervals(self.confidence if confidence is None else confidence, self.rows[:rows])

    @cached_property
    def _own_intervals(self) -> tuple[tuple[Ends, ...], ...]:
        return self._intervals(self.confidence, self.rows)

    def _intervals(self, confidence: Number, chosen: Sequence[Row]) -> tuple[tuple[Ends, ...], ...]:
        at = Intervals(self.laws, confidence)
        columns = [_without_ends([*at.column([row[i] for row in chosen])]) for i in range(len(self.columns))]
        return tuple(zip(*columns, strict=True)) if columns else ((),) * len(chosen)

    @cached_property
    def has_interval(self) -> tuple[bool, ...]:
        """Which columns carry noise and have an order, and so an interval."""
        return tuple(
            (column.type.is_numeric or column.type.is_temporal)
            and (any(row[i].events for row in self.rows) if self.rows else column.noisy)
            for i, column in enumerate(self.columns)
        )


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
    intervals = Intervals(released.laws, confidence)
    rows: Rows = list(released_rows(question.final, released))

    def ends(cell: Cell, high: bool) -> Value | None:
        return intervals.of(cell)[high]

    if len(public) != len(question.reads):
        raise InternalError("the rows of every public relation are needed")
    types, fetched = question.final.types, iter(public)
    for step in question.steps:
        rows = matched(step, rows, types, next(fetched)) if isinstance(step, Match) else apply_step(step, rows, ends)
        types = types_after(step, types)
    return Finished(question.columns, tuple(tuple(row) for row in rows), tuple(released.laws), intervals.confidence)
