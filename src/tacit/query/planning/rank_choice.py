"""Quantiles by the exponential mechanism over the steps of a value, and the cells around them that give intervals.

*Choice.* The places of a group are the steps (or leaves of several steps) of the bounded value, 0 … width - 1. For a
fraction p = a/b, with B(y) values below place y, A(y) at it and n in all, place y falls short by

    gap(y) = max(high·(b·B(y) - a·n), low·(a·n - b·(B(y) + A(y)))),

which is at most 0 at the quantile and above 0 elsewhere. A place is drawn with probability proportional to
exp(-rate·gap), exactly. Between two values that occur all places have one gap, so that a draw takes as long as there
are distinct values, however fine the steps are.

*Sides.* ``high`` and ``low`` are 1 at the median. Beyond the quantile 0.9 lies a tenth of the values, and often most of
the range: a draw is far likelier to get lost there than on the other side. So the shorter side counts 1.1 and the
longer one 0.9, which costs nothing in privacy and a fiftieth in accuracy where values are even.

*Cells.* Around the places drawn, the range is cut into :func:`cells` cells: the place itself, then 4, 16, 64, …
places on each side. They are a function of what was drawn, and noisy counts of them give an interval by the same tests
as the leaves of a tree (:class:`~tacit.query.planning.quantile_tree.NoisyTree`), whose leaves may be of any width.

Proof: ``rank_choice.proof.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.events import ExponentialEvent, RepeatedEvent
from tacit.core.numbers import log_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.noise.runs import select_run

#: Denominators of fractions from which gaps are Python's integers: 11 times 2¹⁸ times 2⁴⁰ rows still fit 64 bits.
_LONG: Final = 1 << 18
#: Weights of the two sides of a quantile are whole numbers of these parts; of the longer and of the shorter side.
_PARTS, _LONGER, _SHORTER = 10, 9, 11


@dataclass(frozen=True, slots=True)
class RankChoice:
    """The draws of quantiles of one measurement in all groups.

    Args:
        measure: which one.
        fractions: of the quantiles, ascending.
        epsilon: of one draw, if one unit adds ``rows`` values to the group (and takes away as many, where units are
            replaced).
        rows: the most values of one unit in a group.
        groups: the most groups that one unit is in.
        width: number of places.
        share: of the budget.
        relation: which databases are neighbours.
        name: for people.
    """

    measure: int
    fractions: tuple[Fraction, ...]
    epsilon: Fraction
    rows: int
    groups: int
    width: int
    share: Fraction
    relation: Relation
    name: str

    @property
    def draws(self) -> int:
        """The most draws that one unit has a part in."""
        return self.groups * len(self.fractions)

    @property
    def event(self) -> RepeatedEvent:
        """The draws, as accountants read them."""
        return RepeatedEvent(ExponentialEvent(self.epsilon, relation=self.relation), self.draws, relation=self.relation)

    @property
    def reason(self) -> str:
        """Reason for the sensitivity of the scores, in words."""
        ranks = ", ".join(map(str, self.fractions))
        replaced = "" if self.relation is ADD_REMOVE else "; replacing it takes as many away and adds as many"
        groups = f"{self.groups} group{'' if self.groups == 1 else 's'}"
        return (
            f"one unit adds at most {self.rows} values to a group, each of which moves the weighted ranks of places "
            f"against one another by at most twice the larger of p and 1-p, and is in at most {groups}; "
            f"p = {ranks}{replaced}"
        )

    def moved(self, fraction: Fraction) -> Fraction:
        """Half of the most by which one unit moves two gaps against one another, in values by rank."""
        return max(fraction, 1 - fraction) * self.rows * (1 if self.relation is ADD_REMOVE else 2)

    def scale(self, fraction: Fraction) -> Fraction:
        """Values by rank that are worth a factor e."""
        return 2 * self.moved(fraction) / self.epsilon

    def choose(self, raw: NDArray[Any]) -> NDArray[np.int64]:
        """The places drawn, groups × fractions; ``raw`` has one array of places and counts per group."""
        drawn = np.zeros((len(raw), len(self.fractions)), dtype=np.int64)
        for group, counted in enumerate(raw):
            for index, fraction in enumerate(self.fractions):
                drawn[group, index] = choose_place(counted, self.width, fraction, 1 / self.scale(fraction))
        return drawn


def sides(fraction: Fraction) -> tuple[int, int]:
    """Weights of places below a quantile and above it, in tenths; see the module.

    The side with fewer values weighs more where p differs from 1/2 by at least 1/20, as the proof asks.
    """
    if abs(2 * fraction - 1) * _PARTS < _SHORTER - _PARTS:
        return _PARTS, _PARTS
    return (_LONGER, _SHORTER) if 2 * fraction > 1 else (_SHORTER, _LONGER)


def part_that_draws(fractions: Sequence[Fraction]) -> Fraction:
    """Part of the epsilon of quantiles that draws them; the rest counts the cells that intervals are read off.

    Off the median a draw is likelier to get lost, and so needs more.
    """
    even = all(sides(fraction) == (_PARTS, _PARTS) for fraction in fractions)
    return Fraction(8, 9) if even else Fraction(14, 15)


def choose_place(counted: NDArray[np.int64], width: int, fraction: Fraction, rate: Fraction) -> int:
    """One place, by the exponential mechanism.

    Args:
        counted: the places that occur, ascending, and how many values each has: two columns.
        width: number of places.
        fraction: of the quantile.
        rate: by which a gap of one value by rank is less likely, as the exponent of e.
    """
    low, high = sides(fraction)
    places, counts = counted[:, 0], counted[:, 1]
    above, below = fraction.numerator, fraction.denominator
    upto = np.cumsum(counts)
    total = int(upto[-1]) if len(upto) else 0
    # Runs take turns: the places before a value, the value itself, …, the places after the last.
    edges = np.empty(2 * len(places) + 2, dtype=np.int64)
    edges[0], edges[1:-1:2], edges[2:-1:2], edges[-1] = 0, places, places + 1, width
    under = np.zeros(2 * len(places) + 1, dtype=np.int64)
    reached = under.copy()
    under[2::2], reached[2::2], reached[1::2] = upto, upto, upto
    under[1::2] = upto - counts
    if below >= _LONG:
        under, reached = under.astype(object), reached.astype(object)
    gaps = np.maximum(high * (below * under - above * total), low * (above * total - below * reached))
    run, offset = select_run(np.diff(edges), gaps, rate / (_PARTS * below))
    return int(edges[run]) + offset


def error_of_choice(choice: RankChoice, fraction: Fraction, beta: Fraction) -> Fraction:
    """Number of values, by rank, by which a place drawn may be off, but for probability ``beta``."""
    longest = choice.scale(fraction) * max(log_bounds(choice.width / beta)[1], Fraction(0))
    return longest * _PARTS / min(sides(fraction))


def _distances(width: int) -> list[int]:
    """Distances from a place drawn at which cells end: 0, 4, 4 + 16, …, as long as they are below ``width``."""
    found = [0]
    while found[-1] + 1 < width:
        found.append(4 * found[-1] + 4)
    return found[:-1] or [0]


def cells(width: int, fractions: int) -> int:
    """Number of cells around the places drawn of so many quantiles."""
    return min(2 * len(_distances(width)) * fractions + 1, width) if width > 1 else 1


def cuts_around(drawn: Sequence[int], width: int) -> list[int]:
    """The first place of every cell, and ``width``: :func:`cells` + 1 numbers, not descending."""
    count = cells(width, len(drawn))
    if count == width:
        return list(range(width + 1))
    distances = _distances(width)
    cuts = [min(max(cut, 0), width) for place in drawn for d in distances for cut in (place - d, place + d + 1)]
    return [0, *sorted(cuts), width]


def count_cells(counted: NDArray[np.int64], cuts: Sequence[int]) -> NDArray[np.int64]:
    """Number of values in each cell."""
    upto = np.concatenate(([0], np.cumsum(counted[:, 1])))
    counts: NDArray[np.int64] = np.diff(upto[np.searchsorted(counted[:, 0], cuts)])
    return counts
