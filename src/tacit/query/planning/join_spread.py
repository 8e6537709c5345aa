"""Spread of a join: the equalities by which its rows are looked up, and how many rows meet each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tacit.query.relational.expressions import Call, Expression, references, shift


@dataclass(frozen=True, slots=True)
class Matching:
    """Parts of a condition over two sides.

    Args:
        left: the left sides of equalities of which each side reads one relation, which engines look up.
        right: their right sides, in slots of the right relation.
        beside: the parts that read the right side alone, in its slots, or nothing.
        crosses: whether anything else reads both sides; it is tried on every pair that the equalities leave.
        reads_left: whether some part reads the left side alone.
    """

    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    beside: tuple[Expression, ...]
    crosses: bool
    reads_left: bool

    @property
    def is_looked_up(self) -> bool:
        """Whether there is an equality to look rows up by."""
        return bool(self.left)


def matching(condition: Expression, width: int) -> Matching:
    """The parts of a condition over ``width`` left columns and some right ones."""
    pairs: list[tuple[Expression, Expression]] = []
    beside: list[Expression] = []
    crosses = reads_left = False
    for part in _conjuncts(condition):
        sides = _sides(part, width)
        if sides == {"left"}:
            reads_left = True
        elif sides == {"left", "right"}:
            pair = equated(part, width)
            if pair is None:
                crosses = True
            else:
                pairs.append(pair)
        else:
            beside.append(shift(part, -width))
    left, right = tuple(one for one, _ in pairs), tuple(other for _, other in pairs)
    return Matching(left, right, tuple(beside), crosses, reads_left)


def _conjuncts(condition: Expression) -> Iterable[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        for arg in condition.args:
            yield from _conjuncts(arg)
    else:
        yield condition


def _sides(part: Expression, width: int) -> set[str]:
    return {"left" if ref.slot < width else "right" for ref in references(part)}


def equated(part: Expression, width: int) -> tuple[Expression, Expression] | None:
    """The sides of an equality, one over the left relation and the other over the right one; None for anything else."""
    # IS NOT DISTINCT FROM is not looked up by every database.
    if not isinstance(part, Call) or part.function != "eq":
        return None
    one, other = part.args
    sides = _sides(one, width), _sides(other, width)
    if sides == ({"left"}, {"right"}):
        return one, shift(other, -width)
    return (other, shift(one, -width)) if sides == ({"right"}, {"left"}) else None


@dataclass(frozen=True, slots=True)
class Fan:
    """Spread of a join or mark of two relations.

    Args:
        right: the most rows of the right side that one left row is tried with.
        left: the most rows of the left side that one right row is tried with.
        pairs: the most pairs that are tried.
    """

    right: int
    left: int
    pairs: int

    @property
    def multiplies(self) -> bool:
        """Whether there can be more pairs than rows on both sides."""
        return self.left > 1 and self.right > 1
