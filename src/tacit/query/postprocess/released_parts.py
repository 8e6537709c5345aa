"""Rows of cells that were released: groups of every part of a question, and totals of them for grouping sets.

Measurements are numbered through all parts, and then those of totals, so that each number stands for one law of noise
and draws of different parts are different events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tacit.query.aggregates import entry_of
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.postprocess.cell_expressions import Row
from tacit.query.postprocess.cells import Cell, Exact
from tacit.query.postprocess.totals import CellNumbers, released_numbers, summed_groups, totals_of
from tacit.query.question import FinalAggregation, Question, Totals, branches
from tacit.query.release import KeyTuple, NoisyRelease
from tacit.query.types import INTEGER, sort_key

__all__ = ["ReleasedParts", "released_rows"]


class ReleasedParts:
    """Released cells of every part of a question.

    Args:
        released: all parts.
        question: whose rows are wanted, with those that its steps read.
    """

    def __init__(self, released: NoisyRelease, question: Question) -> None:
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
        self._rows: dict[tuple[int, Totals | None], list[Row]] = {}
        for each in _with_branches(question):
            key = each.part, each.totals
            if key not in self._rows:
                self._rows[key] = self._of(*key)

    def rows(self, question: Question) -> list[Row]:
        """The released rows of a question, before its steps other than grouping sets."""
        return list(self._rows[question.part, question.totals])

    def _of(self, part: int, totals: Totals | None) -> list[Row]:
        final, finest = self.parts[part].plan.final, self._numbers[part]
        return _rows(final, finest) if totals is None else self._of_sets(final, finest, totals)

    def _of_sets(self, final: FinalAggregation, finest: CellNumbers, totals: Totals) -> list[Row]:
        """The rows of all grouping sets, each group after its parts."""
        width = len(totals.keys)
        kinds = [totals.type_of(place, final.types) for place in range(width)]
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
        """The groups of one set: those released, or sums of those that a condition keeps."""
        if len(places) == len(final.keys) and totals.where is None and not totals.derived:
            for key, cells in estimates(final, finest):
                yield tuple(key[totals.keys[place]] for place in places), cells
            return
        for layer in totals_of(finest, summed_groups(finest.keys, totals, places), first=len(self.laws)):
            self.laws += layer.laws
            self.totals += tuple(range(finest.first, finest.first + len(layer.laws)))
            yield from estimates(final, layer)


def released_rows(released: NoisyRelease) -> list[Row]:
    """One row of cells per key: the key's values, then one estimate per aggregate."""
    return _rows(released.plan.final, released_numbers(released))


def _rows(final: FinalAggregation, numbers: CellNumbers) -> list[Row]:
    return [
        (*(Exact(value, key.expression.type) for value, key in zip(values, final.keys, strict=True)), *cells)
        for values, cells in estimates(final, numbers)
    ]


def estimates(final: FinalAggregation, numbers: CellNumbers) -> Iterator[tuple[KeyTuple, list[Cell]]]:
    """The key of each group, and one estimate per aggregate."""
    columns = [
        entry_of(aggregate.kind).released.column(aggregate, final.measures[aggregate.measures[-1]], numbers)
        for aggregate in final.aggregates
    ]
    for group, key in enumerate(numbers.keys):
        yield key, [column(group) for column in columns]


def _with_branches(question: Question) -> Iterable[Question]:
    yield question
    for other in branches(question.steps):
        yield from _with_branches(other)
