"""Releases of a query: vectors of integers with their sensitivities and noise.

A *block* is one released vector: for each group a few integers, each an integer linear combination (a *form*) of the
group's measurements. Many blocks hold a single measurement. Under add/remove, a count shares a block with a count of
some of its rows, or with a sum over them, because their joint sensitivity is smaller than the sum of both
(``pricing.proof.md``). Blocks of means and variances are for Laplace noise alone:

========= ============================================== ==================== ==================================
block     forms                                          l1 per group         read off
========= ============================================== ==================== ==================================
mean      A = hV + C, B = hV - C                         2h·rows              V = (A+B)/2h, C = (A-B)/2
variance  A = h²V + 2hC + S, M = 2(h²V - S),             4h²·rows + 4h + 2    V = (A+M+B)/4h², C = (A-B)/4h,
          B = h²V - 2hC + S                                                   S = (A-M+B)/4
part      F, N - F                                       rows                 F, N = F + (N-F)
total     T, HN - T, for values from 0 to H              H·rows               T, N = (T + (HN-T))/H
total     A = hN + T, B = hN - T (Laplace)               2h·rows              N = (A+B)/2h, T = (A-B)/2
========= ============================================== ==================== ==================================

N is a number of rows, units or values, F the number of some of them, T a sum. V, C, S are the number of values, their
centred sum and centred squares; h is the largest distance from the centre (from 0 for T), in steps. A count of rows
joins the block of a mean if the mean's values may be NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tacit.core.events import ComposedEvent, Event, NoEvent
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.sensitivity import Sensitivity, bounded_total
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.residual_basis import Axes, LevelBasis, UnitMovement
from tacit.query.aggregates.ranks import RankChoice, Tree, best_tree, cells
from tacit.query.planning.bias import BiasTable
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.planning.noise import NOISES, LevelNoise, Noise, NoiseLaw, QueryMechanism, noise_of
from tacit.query.query import FinalAggregation

if TYPE_CHECKING:
    from tacit.query.query import FinalAggregation


#: Quantiles need more budget than counts for the same relative error; this caps it, so that counts keep a fair share.
MOST_FOR_A_TREE: Final = Fraction(4)
#: Quantiles that are drawn are nearly as exact as counts, but their intervals are read off a part of the budget.
FOR_DRAWN_QUANTILES: Final = Fraction(2)
_HALF: Final = Fraction(1, 2)
_SUMMED: Final = (MeasureKind.SUM,)
_COUNTED: Final = (MeasureKind.UNITS, MeasureKind.ROWS, MeasureKind.VALUES)
#: A joint variance block is worth its rounding slack up to this factor: three separate releases cost √3 more.
_WORTH_SQUARED: Final = 3


@dataclass(frozen=True, slots=True)
class Readout:
    """Rule that reads a measurement off a block: ``unit`` times the sum of the signed forms."""

    signs: tuple[int, ...]
    unit: Fraction = Fraction(1)

    @property
    def terms(self) -> int:
        """Number of noise terms in the measurement."""
        return len(self.signs) - self.signs.count(0)


@dataclass(frozen=True, slots=True)
class Block:
    """One vector of integers that is released together.

    Args:
        name: text for explanations.
        measures: indices of the measurements it holds.
        forms: integer coefficients of those measurements in each integer; for a tree, the identity.
        readouts: one for each measurement.
        width: number of integers per form and group: more than one for leaves and categories.
        sensitivity: of the vector over all groups.
        groups: the most groups that one unit is in.
        reason: why one unit moves the vector by that sensitivity.
        coefficient: relative error at a budget of one; see :mod:`tacit.query.planning.pricing`. 0 if no data
        can change it.
        tree: shape of the tree over leaves, or over the cells around the drawn quantiles.
        fractions: of the quantiles that are drawn before the block is counted; PLACES only.
        rows: the most values of one unit in a group; PLACES only.
        spread: whether a group has several integers of one measurement: leaves or categories.
    """

    name: str
    measures: tuple[int, ...]
    forms: tuple[tuple[int, ...], ...]
    readouts: tuple[Readout, ...]
    width: int
    sensitivity: Sensitivity
    groups: int
    reason: str
    coefficient: Fraction
    tree: Tree | None = None
    # Both follow from the query, and plans without quantiles keep their digests.
    fractions: tuple[Fraction, ...] = field(default=(), repr=False)
    rows: int = field(default=0, repr=False)
    spread: bool = False

    def is_mean(self, count: int, total: int) -> bool:
        """Whether a count and a centred sum are read off as the sum and the difference of two totals."""
        if count not in self.measures or total not in self.measures:
            return False
        plus, minus = [self.readouts[self.measures.index(index)].signs for index in (count, total)]
        return (plus[:2], minus[:2]) == ((1, 1), (1, -1)) and not any(plus[2:]) and not any(minus[2:])

    def movement(self, final: FinalAggregation) -> UnitMovement | None:
        """Return how far one unit moves the groups and sums of groups; None if only its effect on groups is bounded.

        Under replace-one, the bounds are those of the block's only measurement; under add/remove, one unit moves each
        group by any vector of l1 norm at most l∞ (``mechanisms/residual_basis.proof.md``).
        """
        relation, bounds = self.sensitivity.relation, (Fraction(0), self.sensitivity.linf)
        if self.tree is not None or not final.group_count:
            return None
        if relation is not ADD_REMOVE:
            low, high = final.measures[self.measures[0]].clamp
            bounds = Fraction(low), Fraction(high)
        moved = UnitMovement(self.groups, bounds, relation, self.spread)
        single = relation is ADD_REMOVE or (len(self.measures) == 1 and bounds[0] <= 0 <= bounds[1])
        return moved if single and moved.at(1, final.group_count) == self.sensitivity else None

    def at_level(self, moved: Sensitivity, merged: int, keys: str, scale: int) -> Block:
        """Return the block of sums over ``merged`` groups each, times ``scale``; one unit moves them by ``moved``."""
        many = f"; a cell here adds up {merged} groups" if merged > 1 else ""
        many += f"; all times {scale}, so that noise is on a fine grid" if scale > 1 else ""
        return replace(self, name=f"{self.name} by {keys}", sensitivity=moved.scaled(scale), reason=self.reason + many)

    @property
    def integers(self) -> int:
        return len(self.forms) * (self.width if self.tree is None else self.tree.nodes)


def blocks_of(
    final: FinalAggregation, relation: Relation, *, concentrated: bool, weights: Sequence[Fraction] | None = None
) -> tuple[Block, ...]:
    """Return the blocks of a query, with each measurement in exactly one block.

    Args:
        final: the aggregation.
        relation: which databases are neighbours.
        concentrated: whether the currency is zCDP, so that Gaussian noise will be added.
        weights: of the measurements; counts and sums of different weights are in separate blocks.
    """
    own = list(weights or [Fraction(1)] * len(final.measures))
    blocks: list[Block] = []
    taken: set[int] = set()
    if relation is ADD_REMOVE:
        for moments, rows in [] if concentrated else _moments(final, own):
            blocks.append(_joint(final, moments, rows))
            taken |= set(blocks[-1].measures)
        for pair in _pairs(final, taken, own, concentrated=concentrated):
            taken |= set(pair.measures)
            blocks.append(pair)
    for index, measure in enumerate(final.measures):
        if index not in taken:
            blocks.append(_single(final, index, measure, relation, concentrated=concentrated))
    return tuple(sorted(blocks, key=lambda block: block.measures))


def _groups(final: FinalAggregation) -> int:
    return final.max_groups if final.group_count is None else min(final.max_groups, final.group_count)


def _moments(final: FinalAggregation, weights: Sequence[Fraction]) -> list[tuple[tuple[int, ...], int | None]]:
    """Return the measurements (V, C) or (V, C, S) behind averages and variances, the longer ones first, each once.

    With each a count of rows that no other block holds and that counts all its values; None for none.
    """
    begun = {a.measures[:3] for a in final.aggregates if len(a.measures) > 1}
    moments = [indices for indices in begun if _are_moments([final.measures[i] for i in indices])]
    moments.sort(key=lambda indices: (-len(indices), indices))
    held: set[int] = set()
    kept = []
    for indices in moments:
        if not held & set(indices):
            kept.append(indices)
            held |= set(indices)
    in_any = {index for indices in moments for index in indices}
    # A count of rows joins only one mean: the first.
    first = [indices for indices in kept if len(indices) == 2][:1]
    found: list[tuple[tuple[int, ...], int | None]] = []
    for indices in kept:
        values, rows = final.measures[indices[0]], []
        if first in ([], [indices]) and values.kind is MeasureKind.VALUES:
            rows = [
                i
                for i, m in enumerate(final.measures)
                if i not in in_any and m.kind is MeasureKind.ROWS and m.clamp == values.clamp and _counts_all(m, values)
            ]
        alike = [i for i in rows if weights[i] == weights[indices[0]] == weights[indices[1]]]
        found.append((indices, alike[0] if alike else None))
    return found


def _are_moments(parts: Sequence[Measure]) -> bool:
    """Whether the measurements are about the same values and have the clamps that the joint bound assumes.

    The count may be one of rows instead of values: there are at least as many rows as values.
    """
    count, total, *squares = parts
    half, rows = total.reach, total.rows
    low, high = min(0, rows * (total.low - total.centre)), max(0, rows * (total.high - total.centre))
    fits = (
        total.kind is MeasureKind.CENTRED_SUM and total.clamp == (low, high) and count.clamp == (0, rows) and half > 0
    )
    for square in squares:
        own = (square.argument, square.where, square.rows, square.step, square.low, square.high, square.centre)
        same = own == (total.argument, total.where, rows, total.step, total.low, total.high, total.centre)
        fits = fits and same and square.kind is MeasureKind.CENTRED_SQUARES and square.clamp == (0, rows * half**2)
    return fits and count.rows >= 1 and _counts_all(count, total)


def _counts_all(count: Measure, part: Measure) -> bool:
    """Whether ``count`` counts at least the rows that ``part`` reads, up to the same number of rows."""
    if count.clamp != (0, part.rows) or count.where not in (None, part.where):
        return False
    if count.kind is MeasureKind.UNITS:
        return part.kind is MeasureKind.UNITS and count.argument in (None, part.argument)
    if count.kind is MeasureKind.VALUES:
        return part.kind is not MeasureKind.UNITS and count.argument == part.argument
    return count.kind is MeasureKind.ROWS and count.argument is None and part.kind is not MeasureKind.UNITS


def _pairs(final: FinalAggregation, taken: set[int], weights: Sequence[Fraction], *, concentrated: bool) -> list[Block]:
    """Return blocks of a count and a part or a sum of the counted rows, with each measurement in at most one block."""
    blocks: list[Block] = []
    left = [index for index in range(len(final.measures)) if index not in taken]
    with_total, with_part = partial(_total_block, final, concentrated=concentrated), partial(_part_block, final)
    for kinds, made in ((_SUMMED, with_total), (_COUNTED, with_part)):
        for part in [i for i in left if final.measures[i].kind in kinds]:
            counts = [i for i in left if i != part and weights[i] == weights[part]] if part in left else []
            pair = next((block for count in counts if (block := made(count, part)) is not None), None)
            if pair is not None:
                blocks.append(pair)
                left = [i for i in left if i not in pair.measures]
    return blocks


def _part_block(final: FinalAggregation, count: int, part: int) -> Block | None:
    """Return a block of N and F, a count of some of the rows that N counts; None if they do not fit."""
    whole, some = final.measures[count], final.measures[part]
    smaller = some.kind is MeasureKind.VALUES or (some.where is not None and whole.where is None)
    if whole.kind is MeasureKind.VALUES or some.clamp != whole.clamp or not smaller or not _counts_all(whole, some):
        return None
    rows = whole.clamp[1]
    why = f"the part and the rest are at most {rows} together"
    return _two(final, (count, part), ((0, 1), (1, -1)), (Readout((1, 1)), Readout((1, 0))), rows, why)


def _total_block(final: FinalAggregation, count: int, total: int, *, concentrated: bool) -> Block | None:
    """Return a block of N and T, a sum over the rows that N counts; None if they do not fit."""
    counted, summed = final.measures[count], final.measures[total]
    low, high, rows = summed.low, summed.high, summed.rows
    plain = (min(0, rows * low), max(0, rows * high))
    if summed.clamp != plain or max(-low, high) <= 0 or not _counts_all(counted, summed):
        return None
    if low < 0 < high:
        if concentrated:
            # Both totals may be large at once: nothing is gained in l2.
            return None
        half = max(-low, high)
        forms, readouts = ((half, 1), (half, -1)), (Readout((1, 1), Fraction(1, 2 * half)), Readout((1, -1), _HALF))
        why = f"a value of d steps adds {half} + d to one total and {half} - d to the other, {2 * half} in all"
        return _two(final, (count, total), forms, readouts, 2 * half * rows, why)
    sign, most = (1, high) if high > 0 else (-1, -low)
    readouts = (Readout((1, 1), Fraction(1, most)), Readout((sign, 0)))
    why = f"a value of d steps adds {'' if sign > 0 else '-'}d to one total and the rest of {most} to the other"
    return _two(final, (count, total), ((0, sign), (most, -sign)), readouts, most * rows, why)


def _two(
    final: FinalAggregation,
    measures: tuple[int, int],
    forms: tuple[tuple[int, ...], ...],
    readouts: tuple[Readout, ...],
    moved: int,
    why: str,
) -> Block:
    """Return a block of two measurements, in ascending order, whose forms are never negative."""
    if measures[0] > measures[1]:
        measures, readouts = (measures[1], measures[0]), (readouts[1], readouts[0])
        forms = tuple((form[1], form[0]) for form in forms)
    rows = final.measures[measures[0]].clamp[1] if final.measures[measures[0]].kind in _COUNTED else None
    rows = final.measures[measures[1]].clamp[1] if rows is None else rows
    why = f"{why}; one unit adds at most {rows} to a group and is in at most {many(_groups(final), 'group')}"
    return _joined(final, measures, forms, readouts, moved, why, Fraction(7, 5))


def _joined(
    final: FinalAggregation,
    measures: tuple[int, ...],
    forms: tuple[tuple[int, ...], ...],
    readouts: tuple[Readout, ...],
    moved: int,
    why: str,
    coefficient: Fraction,
    slack: int = 0,
) -> Block:
    """Return a block of several measurements; one unit moves each group by at most ``moved`` in l1, hence also in l2.

    ``moved`` is proportional to the unit's rows in the group, plus ``slack`` for rounding.
    """
    groups = _groups(final)
    l1, l2_squared = Fraction(groups * moved), Fraction(groups * moved**2)
    if final.max_total is not None:
        rows = max(final.measures[index].rows for index in measures)
        l1 = min(l1, final.max_total * Fraction(moved - slack, rows) + groups * slack)
        l2_squared = min(l2_squared, l1 * moved)
        why = _in_all(final, why)
    moves = Sensitivity(l1, l2_squared, Fraction(moved), ADD_REMOVE)
    return Block(_name(final, measures), measures, forms, readouts, 1, moves, groups, why, coefficient)


def _joint(final: FinalAggregation, moments: tuple[int, ...], rest: int | None) -> Block:
    """Return the block of a mean or a variance, with the count of rows ``rest`` in that of a mean."""
    total = final.measures[moments[1]]
    half, rows, groups = total.reach, total.rows, _groups(final)
    if len(moments) == 3:
        plain = 4 * half**2 * rows
        moved = plain + 4 * half + 2
        if moved**2 <= _WORTH_SQUARED * plain**2:
            return _variance_block(final, moments, half, moved, groups)
    # Squares whose rounding slack would outweigh the gain are released alone; the caller does that.
    moved = 2 * half * rows
    why = (
        f"a value d steps from the centre adds {half} + d to one total and {half} - d to the other, {2 * half} in all; "
        f"one unit adds at most {rows} values to a group and is in at most {many(groups, 'group')}"
    )
    forms: tuple[tuple[int, ...], ...] = ((half, 1), (half, -1))
    readouts: tuple[Readout, ...] = (Readout((1, 1), Fraction(1, 2 * half)), Readout((1, -1), _HALF))
    measures, coefficient = moments[:2], Fraction(7, 5)
    if rest is not None:
        # The rows without a value, times 2h: all three totals add up to 2h for each row.
        why += f"; a row without a value adds {2 * half} to a third total"
        measures, coefficient = (*measures, rest), Fraction(7, 4)
        forms = ((half, 1, 0), (half, -1, 0), (-2 * half, 0, 2 * half))
        readouts = (
            Readout((1, 1, 0), Fraction(1, 2 * half)),
            Readout((1, -1, 0), _HALF),
            Readout((1, 1, 1), Fraction(1, 2 * half)),
        )
    return _joined(final, measures, forms, readouts, moved, why, coefficient)


def _variance_block(final: FinalAggregation, moments: tuple[int, ...], half: int, moved: int, groups: int) -> Block:
    square = half**2
    why = (
        f"a value d steps from the centre adds ({half}+d)², 2({half}²-d²) and ({half}-d)² to three totals, "
        f"{4 * square} in all, and rounding a heavy contributor's totals at most {4 * half + 2} more; one unit adds "
        f"at most "
        f"{final.measures[moments[1]].rows} values to a group and is in at most {many(groups, 'group')}"
    )
    forms = ((square, 2 * half, 1), (2 * square, 0, -2), (square, -2 * half, 1))
    readouts = (
        Readout((1, 1, 1), Fraction(1, 4 * square)),
        Readout((1, 0, -1), Fraction(1, 4 * half)),
        Readout((1, -1, 1), Fraction(1, 4)),
    )
    return _joined(final, moments, forms, readouts, moved, why, Fraction(7, 4), slack=4 * half + 2)


def _single(final: FinalAggregation, index: int, measure: Measure, relation: Relation, *, concentrated: bool) -> Block:
    groups = _groups(final)
    moves = measure.sensitivity(max_groups=groups, relation=relation, groups=final.group_count)
    does = measure.kind.traits.sentence.format(low=measure.clamp[0], high=measure.clamp[1])
    why = f"one unit {does} and is in at most {many(groups, 'group')}"
    if final.max_total is not None and measure.per_row is not None:
        total = bounded_total(total=final.max_total * measure.per_row, bounds=measure.clamp, relation=relation)
        moves = Sensitivity(min(moves.l1, total.l1), min(moves.l2_squared, total.l2_squared), moves.linf, relation)
        why = _in_all(final, why)
    if relation is not ADD_REMOVE:
        why += "; replacing it takes all of that away and adds as much elsewhere"
    tree, coefficient = None, Fraction(1)
    fractions: tuple[Fraction, ...] = ()
    if measure.kind is MeasureKind.PLACES:
        fractions = tuple(sorted({a.parameter or Fraction(0) for a in final.aggregates if index in a.measures}))
    if measure.kind in (MeasureKind.LEAVES, MeasureKind.PLACES):
        leaves = cells(measure.width, len(fractions)) if fractions else measure.width
        tree = best_tree(leaves, gaussian=concentrated)
        levels = len(tree.levels)
        moves = Sensitivity(levels * moves.l1, levels * moves.l2_squared, moves.linf, relation)
        why += f", on each of {levels} levels of the tree" if levels > 1 else ""
        if measure.width > 1:
            coefficient = FOR_DRAWN_QUANTILES if fractions else MOST_FOR_A_TREE
    return Block(
        name=_name(final, (index,)),
        measures=(index,),
        forms=((1,),),
        readouts=(Readout((1,)),),
        width=measure.width,
        sensitivity=moves,
        groups=groups,
        reason=why,
        coefficient=coefficient if moves.l1 else Fraction(0),
        tree=tree,
        fractions=fractions,
        rows=measure.rows if fractions else 0,
        spread=measure.kind.traits.spread,
    )


def _in_all(final: FinalAggregation, why: str) -> str:
    return f"{why}; at most {many(final.max_total or 0, 'row')} of it count in all groups together"


def many(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s unless the count is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _name(final: FinalAggregation, measures: tuple[int, ...]) -> str:
    labels = [a.label for a in final.aggregates if set(measures) & set(a.measures)]
    kinds = ", ".join([final.measures[index].kind.value.replace("_", " ") for index in measures])
    return f"{kinds} for {', '.join(dict.fromkeys(labels))}" if labels else kinds


# -- noise of a block


#: See :class:`Priced`.
Asked = tuple[tuple[Fraction, ...], Fraction, str]
#: Largest denominator of the relative precisions of levels: rounding them costs accuracy but adds no bias.
_PRECISION: Final = 1 << 20
#: Positions of the keys of each grouping set.
Sets = tuple[Axes, ...]


@dataclass(frozen=True, slots=True)
class PlanBudget:
    """A budget to divide among releases.

    Args:
        currency: ``"epsilon"``, ``"rho"`` or ``"mu2"``.
        amount: the budget for all releases together, in that currency.
        delta: for the selection of private keys; 0 when keys are public.
    """

    currency: str
    amount: Fraction
    delta: Fraction = Fraction(0)

    @property
    def concentrated(self) -> bool:
        """Whether the currency composes squares (zCDP, GDP), so that Gaussian noise is available."""
        return self.currency != "epsilon"


@dataclass(frozen=True)
class Release:
    """A block and the noise it gets.

    Args:
        block: the released vector.
        mechanism: ``"laplace"``, ``"gaussian"``, or ``"constant"`` where no data can change the numbers.
        epsilon: of Laplace noise; 0 otherwise.
        rho: of discrete Gaussian noise; 0 otherwise.
        share: of the budget, including the share of :attr:`choice`.
        relation: which databases are neighbours.
        numbers: the largest number of integers in the release.
        choice: the draws of quantiles around which the block is then counted.
        levels: sums of groups that get noise instead of the groups (grouping sets); empty if the groups get noise.
        sizes: number of values of each key; empty without levels.
        scale: factor by which the integers of levels are multiplied.
        mu: of rounded Gaussian noise; 0 otherwise.
    """

    block: Block
    mechanism: str
    epsilon: Fraction
    rho: Fraction
    share: Fraction
    relation: Relation
    numbers: int
    # Both follow from the block, the share and the budget.
    choice: RankChoice | None = field(default=None, repr=False)
    mu: Fraction = field(default=Fraction(0), repr=False)
    # Plans without grouping sets keep their digests; those with levels name them in the text of all releases.
    levels: tuple[Level, ...] = field(default=(), repr=False)
    sizes: tuple[int, ...] = field(default=(), repr=False)
    scale: int = field(default=1, repr=False)

    @property
    def vectors(self) -> tuple[Release, ...]:
        """The releases of integers that get noise: those of the levels, or this release if it has none."""
        return tuple([level.release for level in self.levels]) or (self,)

    @cached_property
    def basis(self) -> LevelBasis:
        """Estimator of groups from levels; each level is weighted by the precision of its noise."""
        precisions = []
        for release in self.vectors:
            moved = release.block.sensitivity
            normal = (2 * release.rho + release.mu**2) / moved.l2_squared
            precisions.append(normal or (release.epsilon / moved.l1) ** 2 / 2)
        whole, least = sum(precisions), Fraction(1, _PRECISION)
        weights = tuple(max((each / whole).limit_denominator(_PRECISION), least) for each in precisions)
        return LevelBasis(self.sizes, tuple(level.axes for level in self.levels), weights)

    @property
    def is_constant(self) -> bool:
        """Whether no data can change the release."""
        return not (self.epsilon or self.rho or self.mu)

    @cached_property
    def noise(self) -> QueryMechanism:
        """Mechanism that adds the noise; it holds constants alone, which take a while to compute."""
        price = self.epsilon or self.rho or self.mu
        return self.law_type.mechanism(self.block.sensitivity, self.relation, self.numbers, price)

    @property
    def law_type(self) -> type[Noise]:
        return NOISES["rounded" if self.mu else self.mechanism]

    @cached_property
    def noise_law(self) -> Noise:
        """Law of the noise in each integer."""
        law, noise = self.law_type, self.noise
        return noise_of(law.name, noise.scale if isinstance(noise, Laplace) else noise.sigma2)

    @cached_property
    def event(self) -> Event:
        """Event of the noise; :attr:`choice` has a separate event."""
        return NoEvent(relation=self.relation) if self.is_constant else self.noise.event

    def law(self, measure: int) -> NoiseLaw:
        """Return the law of the noise in a measurement that is read off the block; of a tree, in each of its nodes."""
        if self.is_constant:
            return NoiseLaw("none", Fraction(0))
        readout = self.block.readouts[self.block.measures.index(measure)]
        if self.levels:
            return self._level_law(readout)
        noise, source = self.noise_law, self.block.measures[0]
        return NoiseLaw(noise.name, noise.scale, readout.terms, readout.unit, source, readout.signs)

    def set_law(self, measure: int, kept: Sequence[int], copies: int) -> NoiseLaw:
        """Return the law of the noise in a group by the ``kept`` keys alone: a sum of ``copies`` finest groups."""
        law = self.law(measure)
        if law.cells is not None:
            return law.summed(self.basis.set_noise(tuple(sorted(kept))), law.source or 0)
        return law if copies == 1 else law.added(copies, law.source or 0)

    def _level_law(self, readout: Readout) -> NoiseLaw:
        """Return the law of the noise in the estimate of a group, and its dependence on other groups' noise."""
        laws = [release.noise_law for release in self.vectors]
        cells = LevelNoise(self.basis, tuple((law.name, law.scale) for law in laws))
        return NoiseLaw(
            "mixed",
            Fraction(0),
            readout.terms,
            readout.unit / (self.basis.denominator * self.scale),
            self.block.measures[0],
            readout.signs,
            layers=cells.terms(self.basis.set_noise(tuple(range(len(self.sizes))))),
            cells=cells,
        )


@dataclass(frozen=True)
class Level:
    """Sums of groups that get noise: the groups by the keys at the positions ``axes``."""

    axes: Axes
    release: Release


@dataclass(frozen=True, slots=True)
class KeySelection:
    """Selection of private keys by the number of distinct units of each group.

    Args:
        rule: see :class:`~tacit.mechanisms.partition_selection.PartitionSelection`.
        epsilon: of the selection; 0 when its cost is in zCDP.
        rho: of the selection; 0 when its cost is an epsilon.
        delta: of the selection.
        groups: the most groups that one unit is in.
        share: of the budget.
        relation: which databases are neighbours.
    """

    rule: str
    epsilon: Fraction
    rho: Fraction
    delta: Fraction
    groups: int
    share: Fraction
    relation: Relation

    def mechanism(self) -> PartitionSelection:
        return key_selection(self.epsilon, self.rho, self.delta, self.groups, self.rule, self.relation)

    @property
    def event(self) -> Event:
        return self.mechanism().event

    @property
    def line(self) -> dict[str, Any]:
        """What a receipt says of the selection."""
        mechanism = self.mechanism()
        return {
            "name": "selection of keys",
            "mechanism": f"partition selection, {self.rule}",
            "l1_sensitivity": str(self.groups * (1 if self.relation is ADD_REMOVE else 2)),
            "threshold": "" if mechanism.threshold is None else str(mechanism.threshold),
            "event": mechanism.event,
        }


@dataclass(frozen=True)
class Priced:
    """All releases of a query within one budget.

    Args:
        budget: of these releases.
        releases: every release but the selection of keys.
        keys: the selection of private keys.
        first: the search for AUTO bounds, which runs before these releases on a separate budget.
        asked: the weights of the measurements and of the selection, and its rule: with them the releases are computed
            again once a search has found bounds or limits, so that this value decides the noise. None without a search.
        bias: the bias table, which runs last on a separate budget; None if the budget buys none.
        limits: the search for AUTO limits, which runs before everything else on a separate budget.
        sets: positions of the keys of each grouping set; empty for a plain GROUP BY.
    """

    budget: PlanBudget
    releases: tuple[Release, ...]
    keys: KeySelection | None
    first: Priced | None = None
    asked: Asked | None = None
    bias: LossPricing | None = field(default=None, repr=False)
    limits: Priced | None = field(default=None, repr=False)
    # Follows from the query; the releases contain its effect on the noise.
    sets: Sets = field(default=(), repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """Canonical text, for digests."""
        parts = [repr(self)] if self.bias is None else [repr(self), repr(self.bias)]
        parts += [f"levels {release.levels!r}" for release in self.releases if release.levels]
        return ", ".join(parts) + ("" if self.limits is None else f" limits {self.limits!r}")

    @property
    def amount(self) -> Fraction:
        """Total cost, including the searches and the bias table."""
        return sum((part.budget.amount for part in self.parts), Fraction(0))

    @cached_property
    def parts(self) -> tuple[Priced, ...]:
        """The releases with a budget each, in the order in which they run: searches, the query, the bias table."""
        last = () if self.bias is None else (self.bias.priced,)
        return (*self.searches, self, *last)

    @cached_property
    def searches(self) -> tuple[Priced, ...]:
        """The searches that run before the query, in order: for AUTO limits, then for AUTO bounds."""
        return tuple([search for search in (self.limits, self.first) if search is not None])

    def event(self, relation: Relation) -> ComposedEvent:
        """Compose the events of all releases."""
        events: list[Event] = []
        for part in self.parts:
            events += [] if part.keys is None else [part.keys.event]
            for release in part.releases:
                events += [] if release.choice is None else [release.choice.event]
                events += [each.event for each in release.vectors]
        return ComposedEvent(tuple(events), relation=relation)

    @cached_property
    def release_of(self) -> dict[int, Release]:
        """The release that holds each measurement."""
        return {measure: release for release in self.releases for measure in release.block.measures}

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """What a receipt says of each mechanism: searches for AUTO, group keys, numbers, the bias table.

        The event of a line is as exact as it is known; everything else is text.
        """
        found: list[dict[str, Any]] = []
        for part in self.parts:
            if part.keys is not None:
                found.append(part.keys.line)
            for release in part.releases:
                found += [] if release.choice is None else [release.choice.line]
                for each in release.vectors:
                    line = {"name": each.block.name, "mechanism": each.mechanism, "reason": each.block.reason}
                    if each.is_constant:
                        found.append({**line, "event": each.event})
                    else:
                        law, noise = each.law_type, each.noise
                        found.append({**line, "event": law.exact_event(noise, each.event), **law.text(noise)})
        return found

    @cached_property
    def laws(self) -> tuple[NoiseLaw, ...]:
        """Law of the noise in each measurement."""
        return tuple([self.release_of[measure].law(measure) for measure in sorted(self.release_of)])


@dataclass(frozen=True)
class LossPricing:
    """The bias table of an aggregation and its one release; see :mod:`tacit.query.planning.bias`."""

    table: BiasTable
    priced: Priced
    final: FinalAggregation = field(repr=False, compare=False)


@lru_cache(maxsize=256)
def key_selection(
    epsilon: Fraction, rho: Fraction, delta: Fraction, groups: int, rule: str, relation: Relation
) -> PartitionSelection:
    """Return the selection at (ε, δ), or at ρ and δ if ``rho`` is not 0."""
    if rho:
        return PartitionSelection.from_rho(rho=rho, delta=delta, max_groups=groups, rule=rule, relation=relation)
    return PartitionSelection(epsilon=epsilon, delta=delta, max_groups=groups, rule=rule, relation=relation)


class Weights(NamedTuple):
    """Relative weights of every measurement, the selection of keys and the searches for AUTO bounds and limits."""

    measures: list[Fraction]
    keys: Fraction
    bounds: Fraction
    limits: Fraction = Fraction(1)


class PricedPart(NamedTuple):
    """One aggregation of a query, the relative weights of its measurements, and the grouping sets asked of it."""

    final: FinalAggregation
    weights: Weights
    sets: Sets = ()
