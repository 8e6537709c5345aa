"""Fan-out: bounds on the rows that a row can meet.

For an owned relation every number is about the rows of *one unit*; for a public one about all of its rows. They bound
work (:mod:`tacit.query.planning.work`) and never decide a value. What a table declares about its units
(``unit_rows``, unique
columns) is believed here; :class:`~tacit.query.relational.algebra.FirstRows` makes it true where rows are multiplied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    UnionAll,
    UnitAggregate,
    UnitWindow,
)
from tacit.query.relational.expressions import Call, Expression, Literal, Reference, references, shift

__all__ = ["Fan", "Matching", "Sizes", "equated", "matching"]

Slots = frozenset[int]


@dataclass(frozen=True, slots=True)
class Matching:
    """What a condition over two sides asks.

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
    """How a join or mark of two relations spreads.

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


class Sizes:
    """Bounds on the rows of relations, each computed once."""

    def __init__(self) -> None:
        # Relations are kept beside their numbers, so that an id is never used again.
        self._rows: dict[int, tuple[RelationNode, int]] = {}
        self._repeats: dict[tuple[int, Slots], tuple[RelationNode, int]] = {}

    def rows(self, node: RelationNode) -> int:
        """The most rows of a unit, or of a public relation."""
        known = self._rows.get(id(node))
        if known is None:
            known = self._rows[id(node)] = (node, self._count(node))
        return known[1]

    def _count(self, node: RelationNode) -> int:
        match node:
            case Scan():
                return node.rows
            case Constants():
                return len(node.rows)
            case FirstRows():
                return min(node.most, self.rows(node.source))
            case UnitAggregate():
                read = {ref.slot for key in node.keys for ref in references(key)}
                alone = read <= ({node.source.unit} if node.source.unit is not None else set())
                return 1 if alone else self.rows(node.source)
            case UnionAll():
                return sum(map(self.rows, node.parts))
            case Join():
                return self._joined(node)
            case FilterRows() | ProjectColumns() | ExistsColumn() | UnitWindow():
                return self.rows(node.source)
            case _:
                raise TypeError(type(node).__name__)

    def _joined(self, node: Join) -> int:
        left, right, fan = self.rows(node.left), self.rows(node.right), self.fan(node)
        match node.kind:
            case JoinKind.INNER:
                return fan.pairs
            case JoinKind.LEFT:
                return min(left * max(fan.right, 1), fan.pairs + left)
            case JoinKind.RIGHT:
                return min(right * max(fan.left, 1), fan.pairs + right)
            case JoinKind.FULL:
                return fan.pairs + left + right

    def fan(self, node: Join) -> Fan:
        """How a join spreads: rows that share what the equalities compare, or all rows where there is none."""
        found = matching(node.condition, len(node.left.fields))
        return self._fan(node.left, node.right, found)

    def mark_fan(self, node: ExistsColumn) -> Fan:
        """The same for a mark, which stops at the first match where equalities are all that ties the two sides."""
        width = len(node.source.fields)
        found = matching(node.condition, width)
        if not found.crosses and not found.reads_left:
            rows = self.rows(node.source)
            return Fan(1, 1, rows)
        return self._fan(node.source, node.other, found)

    def _fan(self, left: RelationNode, right: RelationNode, found: Matching) -> Fan:
        many, others = self.rows(left), self.rows(right)
        if not found.is_looked_up:
            return Fan(others, many, many * others)
        to_right = self.repeats(right, _slots(found.right))
        to_left = self.repeats(left, _slots(found.left))
        return Fan(to_right, to_left, min(many * to_right, others * to_left))

    def repeats(self, node: RelationNode, slots: Slots) -> int:
        """The most rows (of one unit) that agree in some columns, none of them NULL."""
        key = (id(node), slots)
        known = self._repeats.get(key)
        if known is None:
            known = self._repeats[key] = (node, min(self.rows(node), self._shared(node, slots)))
        return known[1]

    def _shared(self, node: RelationNode, slots: Slots) -> int:
        rows = self.rows(node)
        if not slots:
            return rows
        match node:
            case Scan():
                stated = [node.fields[slot].repeats for slot in slots]
                return min((count for count in stated if count is not None), default=rows)
            case Constants():
                return _most_alike(node, slots)
            case FilterRows() | FirstRows():
                return self.repeats(node.source, slots)
            case ExistsColumn() | UnitWindow():
                width = len(node.source.fields)
                return self.repeats(node.source, frozenset(slot for slot in slots if slot < width))
            case ProjectColumns():
                return self.repeats(node.source, _slots(node.expressions[slot] for slot in slots))
            case UnitAggregate():
                return self._of_groups(node, slots)
            case UnionAll():
                return sum(self.repeats(part, slots) for part in node.parts)
            case Join():
                return self._of_pairs(node, slots)
            case _:
                return rows

    def _of_groups(self, node: UnitAggregate, slots: Slots) -> int:
        # Inside a unit the unit itself tells no two groups apart.
        own = node.source.unit
        free = {i for i, key in enumerate(node.keys) if not (isinstance(key, Reference) and key.slot == own)}
        if free <= slots:
            return 1
        return self.repeats(node.source, _slots(node.keys[slot] for slot in slots if slot < len(node.keys)))

    def _of_pairs(self, node: Join, slots: Slots) -> int:
        width = len(node.left.fields)
        one = frozenset(slot for slot in slots if slot < width)
        other = frozenset(slot - width for slot in slots if width <= slot < width + len(node.right.fields))
        fan = self.fan(node)
        found = []
        if one:
            # Unmatched rows of the other side have NULL in these columns.
            found.append(self.repeats(node.left, one) * max(fan.right, 1))
        if other:
            found.append(self.repeats(node.right, other) * max(fan.left, 1))
        return min(found, default=self.rows(node))


def _slots(expressions: Iterable[Expression]) -> Slots:
    """The columns among some expressions."""
    return frozenset(part.slot for part in expressions if isinstance(part, Reference))


def _most_alike(node: Constants, slots: Slots) -> int:
    """How many rows of a list agree in some columns, none of them NULL."""
    listed = [tuple(_value(row[slot]) for slot in sorted(slots)) for row in node.rows]
    counts = Counter(row for row in listed if None not in row)
    return max(counts.values(), default=0)


def _value(cell: Literal) -> object:
    return cell.value
