"""Release blocks: integer vectors of a query and their sensitivities.

A block is one vector: for each group a few integers, each a whole combination (a *form*) of the group's measurements.
Most blocks hold one measurement as it is. Where Laplace noise is added and units are added or removed, a count and
sums over the same values share a block, because their joint movement is smaller than the sum of their movements
(``price.proof.md``):

========= ============================================== ==================== ==================================
block     forms                                          l1 per group         read off
========= ============================================== ==================== ==================================
mean      A = hV + C, B = hV - C                         2h·rows              V = (A+B)/2h, C = (A-B)/2
variance  A = h²V + 2hC + S, M = 2(h²V - S),             4h²·rows + 4h + 2    V = (A+M+B)/4h², C = (A-B)/4h,
          B = h²V - 2hC + S                                                   S = (A-M+B)/4
========= ============================================== ==================== ==================================

V, C, S are the number of values, their centred sum and centred squares; h is the largest distance from the centre, in
steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.sensitivity import Sensitivity
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.planning.quantile_tree import Tree, best_tree
from tacit.query.question import FinalAggregation

__all__ = ["Block", "Readout", "blocks_of"]

#: Quantiles need more budget than counts for the same relative error; a count beside them must not starve.
MOST_FOR_A_TREE: Final = Fraction(4)
#: A joint variance block is worth its rounding slack up to this factor: three separate releases cost √3 more.
_WORTH_SQUARED: Final = 3

_CLAMP_WORD = {
    MeasureKind.UNITS: "counts once per group",
    MeasureKind.ROWS: "counts in a group with at most {high} rows",
    MeasureKind.VALUES: "counts in a group with at most {high} values",
    MeasureKind.DISTINCT: "adds at most {high} distinct values to a group",
    MeasureKind.SUM: "adds between {low} and {high} steps to a group",
    MeasureKind.CENTRED_SUM: "adds between {low} and {high} steps, counted from the centre, to a group",
    MeasureKind.CENTRED_SQUARES: "adds at most {high} squared steps to a group",
    MeasureKind.LEAVES: "adds at most {high} values to the leaves of a group",
    MeasureKind.CATEGORIES: "adds at most {high} values to the categories of a group",
}


@dataclass(frozen=True, slots=True)
class Readout:
    """How a measurement is read off a block: the sum of signs times forms, times ``unit``."""

    signs: tuple[int, ...]
    unit: Fraction = Fraction(1)

    @property
    def terms(self) -> int:
        """How many noises it holds."""
        return sum(1 for sign in self.signs if sign)


@dataclass(frozen=True, slots=True)
class Block:
    """One vector of integers that is released together.

    Args:
        name: for people.
        measures: indices of the measurements it holds.
        forms: each integer as whole multiples of those measurements; for a tree, the identity.
        readouts: one for each measurement.
        width: how many integers each form has per group: more than one for leaves and categories.
        sensitivity: of the vector over all groups.
        groups: the most groups that one unit is in.
        reason: why one unit moves it so far.
        coefficient: relative error at a budget of one; see :mod:`tacit.query.planning.budget_shares`. 0 if no data
        can change it.
        tree: the shape, for leaves.
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
    spread: bool = False

    @property
    def integers(self) -> int:
        """How many integers are released per group."""
        return len(self.forms) * (self.width if self.tree is None else self.tree.nodes)


def blocks_of(final: FinalAggregation, relation: Relation, *, concentrated: bool) -> tuple[Block, ...]:
    """The blocks of a query, every measurement in exactly one.

    Args:
        final: the aggregation.
        relation: which databases are neighbours.
        concentrated: whether the currency is zCDP, so that Gaussian noise will be added.
    """
    blocks: list[Block] = []
    taken: set[int] = set()
    if not concentrated and relation is ADD_REMOVE:
        for moments in _moments(final):
            if not taken & set(moments):
                joint = _joint(final, moments)
                blocks += joint
                taken |= {index for block in joint for index in block.measures}
    for index, measure in enumerate(final.measures):
        if index not in taken:
            blocks.append(_single(final, index, measure, relation, concentrated=concentrated))
    return tuple(sorted(blocks, key=lambda block: block.measures))


def _groups(final: FinalAggregation) -> int:
    return final.max_groups if final.group_count is None else min(final.max_groups, final.group_count)


def _moments(final: FinalAggregation) -> list[tuple[int, ...]]:
    """The (V, C) and (V, C, S) that averages and variances are made of, the longer first."""
    found = {
        a.measures
        for a in final.aggregates
        if len(a.measures) in (2, 3) and _are_moments(tuple(final.measures[i] for i in a.measures))
    }
    return sorted(found, key=lambda indices: (-len(indices), indices))


def _are_moments(parts: tuple[Measure, ...]) -> bool:
    """Whether they speak of the same values, with the clamps that the joint bound presumes."""
    kinds = (MeasureKind.VALUES, MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES)[: len(parts)]
    count, total = parts[0], parts[1]
    half = _half(total)
    same = all((p.argument, p.where, p.rows) == (total.argument, total.where, total.rows) for p in parts)
    grid = all(
        (p.step, p.low, p.high, p.centre) == (total.step, total.low, total.high, total.centre) for p in parts[1:]
    )
    clamps = [(0, total.rows), _centred_clamp(total), (0, total.rows * half**2)][: len(parts)]
    fits = tuple(p.kind for p in parts) == kinds and [p.clamp for p in parts] == clamps and half > 0
    return same and grid and fits and count.rows >= 1


def _half(measure: Measure) -> int:
    return max(measure.high - measure.centre, measure.centre - measure.low)


def _centred_clamp(measure: Measure) -> tuple[int, int]:
    return (
        min(0, measure.rows * (measure.low - measure.centre)),
        max(0, measure.rows * (measure.high - measure.centre)),
    )


def _joint(final: FinalAggregation, moments: tuple[int, ...]) -> list[Block]:
    total = final.measures[moments[1]]
    half, rows, groups = _half(total), total.rows, _groups(final)
    if len(moments) == 3:
        plain = 4 * half**2 * rows
        moved = plain + 4 * half + 2
        if moved**2 <= _WORTH_SQUARED * plain**2:
            return [_variance_block(final, moments, half, moved, groups)]
    # Squares whose rounding slack would outweigh the gain are released alone; the caller does that.
    moved = 2 * half * rows
    why = (
        f"a value d steps from the centre adds {half} + d to one total and {half} - d to the other, {2 * half} in all; "
        f"one unit adds at most {rows} values to a group and is in at most {_many(groups, 'group')}"
    )
    return [
        Block(
            name=_name(final, moments[:2]),
            measures=moments[:2],
            forms=((half, 1), (half, -1)),
            readouts=(Readout((1, 1), Fraction(1, 2 * half)), Readout((1, -1), Fraction(1, 2))),
            width=1,
            sensitivity=_spread(moved, groups),
            groups=groups,
            reason=why,
            coefficient=Fraction(7, 5),
        )
    ]


def _variance_block(final: FinalAggregation, moments: tuple[int, ...], half: int, moved: int, groups: int) -> Block:
    square = half**2
    why = (
        f"a value d steps from the centre adds ({half}+d)², 2({half}²-d²) and ({half}-d)² to three totals, "
        f"{4 * square} in all, and rounding a heavy contributor's totals at most {4 * half + 2} more; one unit adds "
        f"at most "
        f"{final.measures[moments[1]].rows} values to a group and is in at most {_many(groups, 'group')}"
    )
    return Block(
        name=_name(final, moments),
        measures=moments,
        forms=((square, 2 * half, 1), (2 * square, 0, -2), (square, -2 * half, 1)),
        readouts=(
            Readout((1, 1, 1), Fraction(1, 4 * square)),
            Readout((1, 0, -1), Fraction(1, 4 * half)),
            Readout((1, -1, 1), Fraction(1, 4)),
        ),
        width=1,
        sensitivity=_spread(moved, groups),
        groups=groups,
        reason=why,
        coefficient=Fraction(7, 4),
    )


def _spread(moved: int, groups: int) -> Sensitivity:
    """A unit that comes or goes moves each of ``groups`` groups by at most ``moved`` in l1, hence also in l2."""
    return Sensitivity(Fraction(groups * moved), Fraction(groups * moved**2), Fraction(moved), ADD_REMOVE)


def _single(final: FinalAggregation, index: int, measure: Measure, relation: Relation, *, concentrated: bool) -> Block:
    groups = _groups(final)
    moves = measure.sensitivity(max_groups=groups, relation=relation, groups=final.group_count)
    does = _CLAMP_WORD[measure.kind].format(low=measure.clamp[0], high=measure.clamp[1])
    why = f"one unit {does} and is in at most {_many(groups, 'group')}"
    if relation is not ADD_REMOVE:
        why += "; replacing it takes all of that away and adds as much elsewhere"
    tree, coefficient = None, Fraction(1)
    if measure.kind is MeasureKind.LEAVES:
        tree = best_tree(measure.width, gaussian=concentrated)
        levels = len(tree.levels)
        moves = Sensitivity(levels * moves.l1, levels * moves.l2_squared, moves.linf, relation)
        why += f", on each of {levels} levels of the tree" if levels > 1 else ""
        coefficient = MOST_FOR_A_TREE if measure.width > 1 else coefficient
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
        spread=measure.kind in (MeasureKind.LEAVES, MeasureKind.CATEGORIES),
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _name(final: FinalAggregation, measures: tuple[int, ...]) -> str:
    labels = [a.label for a in final.aggregates if set(measures) & set(a.measures)]
    kinds = ", ".join(final.measures[index].kind.value.replace("_", " ") for index in measures)
    return f"{kinds} for {', '.join(dict.fromkeys(labels))}" if labels else kinds
