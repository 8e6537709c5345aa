"""Rows of cells that were released: groups of every part of a question, and totals of them for grouping sets.

Measurements are numbered through all parts, and then those of totals, so that each number stands for one law of noise
and draws of different parts are different events.

A total adds up the released integers of its parts, so that it is exactly the sum of the parts that are shown, is
unbiased, and costs nothing. Its noise is the sum of as many independent noises; or, where groups are estimated from
noisy sums of groups, what is left of the noises of those. An average or a variance of a total is the quotient of such
sums.

:class:`CellNumbers` are integers from which cells are estimated: those of the release itself, or totals that are each
the sum of equally many groups. Every one of them has *laws* of its own, appended to those of the release, so that a
:class:`~tacit.query.postprocess.cells.Draw` names one noise. Totals and their parts share noise; where cells are added
up, totals are therefore written as sums of the draws of the release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.mechanisms.residual_basis import Axes, LevelBasis
from tacit.query.aggregates import entry_of
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.planning.plan import Plan
from tacit.query.planning.quantile_tree import NoisyTree
from tacit.query.planning.set_totals import total_key
from tacit.query.postprocess.cell_expressions import Row
from tacit.query.postprocess.cells import Cell, Draw, Exact, MeasureBias
from tacit.query.question import FinalAggregation, Question, Totals, with_branches
from tacit.query.relational.functions import evaluate
from tacit.query.release import KeyTuple, NoisyRelease
from tacit.query.types import INTEGER, sort_key

__all__ = ["CellNumbers", "ReleasedParts", "biases_of_totals"]


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
        for each in with_branches(question):
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
        # Totals over all values of the other keys have the same noise, whichever they are.
        plain = totals.where is None and not totals.derived
        kept = tuple(sorted(totals.keys[place] for place in places)) if plain else None
        for layer in totals_of(finest, summed_groups(finest.keys, totals, places), kept, first=len(self.laws)):
            self.laws += layer.laws
            self.totals += tuple(range(finest.first, finest.first + len(layer.laws)))
            yield from estimates(final, layer)


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


@dataclass(frozen=True)
class CellNumbers:
    """Noisy integers of some groups, and the laws of their noise.

    Args:
        keys: one per group.
        noisy: one per measurement: an integer per group, a row per group, or a tree.
        laws: one per measurement, the same for all groups.
        plan: by which they were released.
        first: index of the first of these laws among all of the answer.
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
        """The noise of one integer."""
        return Draw(self.first + measure, group)

    def parts(self, measure: int, group: int) -> tuple[Draw, ...]:
        """The noises of the release that it is the sum of; empty for a released group."""
        if self.finest is None:
            return ()
        return tuple(self.finest.draw(measure, member) for member in self.members[group])


def released_numbers(released: NoisyRelease, *, first: int = 0) -> CellNumbers:
    """The integers of a release, with laws from ``first`` on."""
    laws = tuple(law.added(1, first + (law.source or 0)) for law in released.laws) if first else released.laws
    noisy = tuple(part if isinstance(part, (np.ndarray, NoisyTree)) else part.estimates for part in released.noisy)
    return CellNumbers(released.keys, noisy, laws, released.plan, first)


def summed_groups(keys: Sequence[KeyTuple], totals: Totals, places: Sequence[int]) -> dict[KeyTuple, list[int]]:
    """For each key of one grouping set, the places of its parts; the one without keys is always there."""
    found: dict[KeyTuple, list[int]] = {} if places else {(): []}
    for group, key in enumerate(keys):
        if totals.where is None or evaluate(totals.where, key) is True:
            found.setdefault(total_key(totals, places, key), []).append(group)
    return found


def totals_of(
    finest: CellNumbers, groups: dict[KeyTuple, list[int]], kept: Axes | None, *, first: int
) -> list[CellNumbers]:
    """Sums over released groups; totals with equal noise together, each with laws from ``first`` on.

    ``kept`` are the keys by which all groups are summed up; None where a total may be of any groups.
    """
    bases = list(dict.fromkeys(law.cells.basis for law in finest.laws if law.cells is not None))
    alike: dict[tuple[object, ...], list[KeyTuple]] = {}
    for key, parts in groups.items():
        alike.setdefault((len(parts), *(_tally(basis, parts, kept) for basis in bases)), []).append(key)
    made: list[CellNumbers] = []
    for keys in alike.values():
        members = tuple(tuple(groups[key]) for key in keys)
        noisy = tuple(_added(part, members) for part in finest.noisy)
        laws = tuple(_total_law(law, members[0], kept, first - finest.first) for law in finest.laws)
        made.append(CellNumbers(tuple(keys), noisy, laws, finest.plan, first, members, finest))
        first += len(laws)
    return made


def _total_law(law: NoiseLaw, members: Sequence[int], kept: Axes | None, shift: int) -> NoiseLaw:
    """The noise of the sum of some groups, as one that is read off a source of its own."""
    source = shift + (law.source or 0)
    if law.cells is None:
        return law.added(len(members), source)
    return law.summed(_tally(law.cells.basis, members, kept), source) if members else law.added(0, source)


def _tally(basis: LevelBasis, members: Sequence[int], kept: Axes | None) -> tuple[tuple[int, int, int], ...]:
    if kept is not None:
        return basis.set_noise(kept)
    weights = np.zeros(math.prod(basis.sizes), dtype=np.int64)
    weights[list(members)] = 1
    return basis.tally(weights.reshape(basis.sizes))


def _added(part: NDArray[Any] | NoisyTree, members: Sequence[tuple[int, ...]]) -> NDArray[Any]:
    if isinstance(part, NoisyTree):
        raise InternalError("quantiles of totals are not sums")
    # Python's own integers: no number of groups makes them too large.
    sums, wide = np.zeros((len(members), *part.shape[1:]), dtype=object), part.astype(object)
    for place, groups in enumerate(members):
        if groups:
            sums[place] = wide[list(groups)].sum(axis=0)
    return sums


def biases_of_totals(biases: Sequence[MeasureBias], totals: Sequence[int]) -> tuple[MeasureBias, ...]:
    """Biases for all laws of an answer: a total lacks at most what all cells lack together."""
    whole = [MeasureBias(b.all_down, b.all_up, b.all_down, b.all_up, b.outside) for b in biases]
    return (*biases, *(whole[measure] for measure in totals))
