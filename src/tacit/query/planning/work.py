"""Work: bounds on the row operations of a query, of one unit and of all rows.

After ``WHERE patient = 17`` one person's rows decide whether any later step has rows at all. So the number of rows that
later steps make from the rows of one unit must be bounded: a query whose bound exceeds
:data:`~tacit.query.limits.MAX_UNIT_WORK` is refused, and where a join multiplies a unit's rows, the unit enters it with
a public number of them (:class:`~tacit.query.relational.algebra.FirstRows`). ``work.proof.md`` has the rules and why
they hold.

=============== =======================================================================================================
node            row operations on account of one unit
=============== =======================================================================================================
public, any     all its rows: one row may decide whether a database computes a public relation at all
Scan            its rows, once and once for each foreign key that is followed
Filter, Project its rows, times the cost of the expressions
FirstRows       its rows, times the depth of a sort and the cost of a hash
Join            the pairs that are compared, times the cost of the condition, and the rows of both sides
Mark            as for Join
UnionAll        its rows
UnitAggregate   its rows, for every call; sorted ones times the depth of a sort
UnitWindow      its rows, for every call, times the depth of a sort
final           its rows, for every measure; and the whole relation once more for every measure with a statement of its
                own (distinct values, leaves, categories)
=============== =======================================================================================================

*Cost of an expression.* One row operation is the time an engine needs to take a row through one node with a few plain
operators on it: a hundred-millionth to a ten-millionth of a second. A plain operator is a sixteenth of it. Functions
of text cost in proportion to the length of their texts, assumed to be that of ordinary words and sentences, times the
copies of stored text that a value may hold (:attr:`~tacit.query.types.Domain.growth`); text search also costs in
proportion to its pattern.

*All rows.* From the same sum over all rows of the tables a server computes response times, and refuses a query whose
sum is too large (:func:`whole_work`): rows of protected tables as declared (``table_rows``), texts by their declared
length (``text_length``), and for a join the pairs that the rows of one unit allow for each row.

*Fan-out.* The number of rows that one row can be joined with: of an owned relation, among the rows of *one unit*; of a
public relation, among all its rows. These numbers bound work and never affect a value. They assume that a table's
declarations about its units (``unit_rows``, unique columns) hold; :class:`~tacit.query.relational.algebra.FirstRows`
enforces them where rows are multiplied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tacit.core.errors import InternalError
from tacit.query import limits
from tacit.query.aggregates import AGGREGATES
from tacit.query.catalog import TEXT_LENGTH
from tacit.query.query import FinalAggregation, Query
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    ReleasedTable,
    ReleasedValue,
    Scan,
    UnionAll,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    reference,
    scans,
    sources,
    with_sources,
)
from tacit.query.relational.expressions import (
    Call,
    Cast,
    Expression,
    Literal,
    Reference,
    children,
    literal,
    references,
    shift,
)
from tacit.query.relational.functions import call
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.types import INTEGER, TEXT, Kind


@dataclass(frozen=True, slots=True)
class Matching:
    """Parts of a join condition over two relations.

    Args:
        left: the left sides of equalities whose sides each read one relation; engines use them for lookup.
        right: their right sides, in slots of the right relation.
        beside: the parts that read only the right relation or no column, in its slots.
        crosses: whether another part reads both relations; it is tested on every pair that the equalities leave.
        reads_left: whether some part reads only the left relation.
    """

    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    beside: tuple[Expression, ...]
    crosses: bool
    reads_left: bool

    @property
    def is_looked_up(self) -> bool:
        """Whether there is an equality that engines can use for lookup."""
        return bool(self.left)


def matching(condition: Expression, width: int) -> Matching:
    """Split a condition over ``width`` left columns and the right columns into its parts."""
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
    """Return the sides of an equality of one left and one right expression; None for anything else."""
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
    """Fan-out of a join or mark of two relations.

    Args:
        right: the most rows of the right relation that one left row is compared with.
        left: the most rows of the left relation that one right row is compared with.
        pairs: the most pairs that are compared.
    """

    right: int
    left: int
    pairs: int

    @property
    def multiplies(self) -> bool:
        """Whether there can be more pairs than rows in each relation."""
        return self.left > 1 and self.right > 1


# -- cost of expressions


#: Plain operators per row operation.
_PLAIN: Final = 16
#: Cost of a cast to or from text, in plain operators.
_TEXT_CAST: Final = 16
#: Number of characters of a pattern that cost one plain operator.
_PATTERN: Final = 16


def cost(expressions: Iterable[Expression | None], length: int = 1) -> int:
    """Return the row operations for evaluating expressions on one row, beyond the one for the row itself.

    ``length`` is the length of texts as a multiple of the ordinary length.
    """
    return sum(_operators(part, length) for part in expressions if part is not None) // _PLAIN


def log2(count: int) -> int:
    """Return the depth of a sort of ``count`` rows."""
    return max(1, (count - 1).bit_length())


def _operators(expression: Expression, length: int) -> int:
    total, stack = 0, [expression]
    while stack:
        here = stack.pop()
        longer = length if any(part.type == TEXT for part in children(here)) else 1
        total += _own(here) * longer
        stack.extend(children(here))
    return total


def _own(node: Expression) -> int:
    growth = max((part.domain.growth for part in children(node)), default=1)
    match node:
        case Call():
            texts = [arg.value for arg in node.args if isinstance(arg, Literal) and isinstance(arg.value, str)]
            return REGISTRY[node.function].cost * growth * (1 + sum(map(len, texts)) // _PATTERN)
        case Cast() if Kind.TEXT in (node.type.kind, node.operand.type.kind):
            return _TEXT_CAST * growth
        case _:
            return 1


# -- fan-out


#: Above this number of rows of one unit, no range of counts is assumed; CLAMP or AUTO gives one.
LARGEST_PRESUMED: Final = 10**6
Slots = frozenset[int]


class Sizes:
    """Bounds on the rows of relations, each computed once."""

    def __init__(self) -> None:
        # Relations are kept with their numbers, so that no id is reused.
        self._rows: dict[int, tuple[RelationNode, int]] = {}
        self._repeats: dict[tuple[int, Slots], tuple[RelationNode, int]] = {}

    def rows(self, node: RelationNode) -> int:
        """Return the most rows of one unit in an owned relation, or the most rows of a public relation."""
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
        """Return the fan-out of a join: rows that agree in the compared columns, or all rows without an equality."""
        found = matching(node.condition, len(node.left.fields))
        return self._fan(node.left, node.right, found)

    def mark_fan(self, node: ExistsColumn) -> Fan:
        """Return the fan-out of a mark, which stops at the first match if equalities alone connect the two sides."""
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
        """Return the most rows (of one unit) that agree in the columns ``slots``, none of them NULL."""
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
        # Within a unit the unit column does not distinguish groups.
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


class WholeSizes:
    """Bounds on the rows of relations over all units together; fan-outs are those of one unit."""

    def __init__(self) -> None:
        self._of_unit = Sizes()
        self._rows: dict[int, tuple[RelationNode, int]] = {}

    def rows(self, node: RelationNode) -> int:
        known = self._rows.get(id(node))
        if known is None:
            known = self._rows[id(node)] = (node, self._count(node))
        return known[1]

    def _count(self, node: RelationNode) -> int:
        if node.is_public:
            return self._of_unit.rows(node)
        match node:
            case Scan():
                return node.table_rows
            case UnionAll():
                return sum(map(self.rows, node.parts))
            case Join():
                unmatched = 0 if node.kind is JoinKind.INNER else self.rows(node.left) + self.rows(node.right)
                return self.fan(node).pairs + unmatched
            case _:
                return self.rows(sources(node)[0])

    def fan(self, node: Join) -> Fan:
        """Return the pairs of a join: each owned row with the rows of one unit, or of the public relation."""
        return self._pairs(self._of_unit.fan(node), node.left, node.right)

    def mark_fan(self, node: ExistsColumn) -> Fan:
        """Return the pairs of a mark, as :meth:`fan` does for a join."""
        return self._pairs(self._of_unit.mark_fan(node), node.source, node.other)

    def _pairs(self, one: Fan, left: RelationNode, right: RelationNode) -> Fan:
        by_left, by_right = self.rows(left) * one.right, self.rows(right) * one.left
        if left.is_public or right.is_public:
            return replace(one, pairs=by_right if left.is_public else by_left)
        return replace(one, pairs=min(by_left, by_right))


def rows_inside(source: RelationNode) -> int | None:
    """Return the most rows of one unit that an aggregate or window within the unit is assumed to read; None if unknown.

    ``max_rows`` bounds what is released; it does not limit rows that are only counted within a unit.
    """
    if source.is_public:
        return None
    most = Sizes().rows(source)
    if isinstance(source.max_rows, int):
        most = max(most, source.max_rows)
    return most if most <= LARGEST_PRESUMED else None


def _slots(expressions: Iterable[Expression]) -> Slots:
    """Return the slots of the plain columns among some expressions."""
    return frozenset(part.slot for part in expressions if isinstance(part, Reference))


def _most_alike(node: Constants, slots: Slots) -> int:
    """Return the largest number of listed rows that agree in the columns ``slots``, none of them NULL."""
    if isinstance(node, ReleasedTable):
        return 1 if node.unique is not None and node.unique <= slots else len(node.rows)
    if isinstance(node, ReleasedValue):
        return 1
    listed = [tuple(_value(row[slot]) for slot in sorted(slots)) for row in node.rows]
    counts = Counter(row for row in listed if None not in row)
    return max(counts.values(), default=0)


def _value(cell: Literal) -> object:
    return cell.value


# -- work of a query


#: Rows of a stored public table that are read for one row operation: by columns, without processing them.
_READ: Final = 16
#: Rows of a public relation that are computed, or entered into a hash table, for one row operation.
_HASHED: Final = 4
#: Row operations for a keyed hash of a row.
_HASH: Final = 8
#: Subjects of a refusal for work, and the largest number that it states.
_OF_A_PERSON: Final = "One person's rows"
_OF_PUBLIC_ROWS: Final = "The public rows beside the released ones"
_OF_PUBLIC_TABLES: Final = "The public tables"
_COUNTED: Final = 10**12


def bound_query(query: Query) -> Query:
    """Return the query with each unit's rows limited where joins multiply them; refuse it if that is too much work.

    Raises:
        Refusal: with the number of row operations and the join.
    """
    cutting = _Cutting(query.options.max_rows_joined)
    finals = [replace(final, source=cutting.cut(final.source)) for final in query.finals]
    total = 0
    for final in finals:
        counted = _Work()
        total += counted.final(final)
        _check(counted, total, _OF_A_PERSON, limits.MAX_UNIT_WORK)
    for relation in query.reads:
        public = _Work()
        _check(public, public.relation(relation), _OF_PUBLIC_ROWS, limits.MAX_PUBLIC_WORK)
    return replace(query, final=finals[0], others=tuple(finals[1:]))


def check_public_work(relation: RelationNode) -> None:
    """Refuse a public relation, whose rows are an answer, that needs too many row operations.

    Raises:
        Refusal: with the number of row operations.
    """
    counted = _Work()
    _check(counted, counted.relation(relation), _OF_PUBLIC_TABLES, limits.MAX_PUBLIC_WORK)


def bound_rows(relation: RelationNode) -> RelationNode:
    """Limit or refuse an owned relation whose rows are read individually, as :func:`bound_query` does for a query."""
    bounded = _Cutting().cut(relation)
    counted = _Work()
    _check(counted, counted.relation(bounded), _OF_A_PERSON, limits.MAX_UNIT_WORK)
    return bounded


def unit_work(final: FinalAggregation) -> int:
    """Return a bound on the row operations that one unit's rows can cause in a final aggregation."""
    return _Work().final(final)


@dataclass(frozen=True, slots=True)
class WholeWork:
    """Row operations over all rows, those of the most expensive operator, and the name of that operator."""

    operations: int
    largest: int
    operator: str

    def __add__(self, other: WholeWork) -> WholeWork:
        largest = max(self, other, key=lambda each: each.largest)
        return WholeWork(self.operations + other.operations, largest.largest, largest.operator)


def whole_work(final: FinalAggregation) -> WholeWork:
    """Return the row operations of a final aggregation over all rows, from the declared sizes of tables and texts."""
    lengths = [scan.text_length for scan in scans(final.source) if not scan.is_public]
    counted = _Work(WholeSizes(), -(-max(lengths, default=1) // TEXT_LENGTH))
    total = counted.final(final)
    largest, node = counted.worst or (0, final.source)
    rest = total - sum(own for _, own in counted.own_work.values())
    if rest > largest:
        return WholeWork(total, rest, f"what is aggregated of {_named(final.source)}")
    return WholeWork(total, largest, _operator(node))


def _operator(node: RelationNode) -> str:
    """Return the description of a node."""
    match node:
        case Scan():
            return f"reading {node.table}"
        case Join() | ExistsColumn():
            left, right = sources(node)
            return f"the {'join' if isinstance(node, Join) else 'subquery'} of {_named(left)} with {_named(right)}"
        case FilterRows():
            return f"the conditions on rows of {_named(node)}"
        case UnitAggregate():
            return f"the groups of rows of {_named(node)}"
        case UnitWindow():
            return f"the windows over rows of {_named(node)}"
        case _:
            return f"the expressions on rows of {_named(node)}"


def cuts(node: RelationNode) -> tuple[tuple[str, int], ...]:
    """Return the tables whose rows per unit are limited before a join, and the limits; each pair once, in order."""
    found = dict.fromkeys(pair for part in sources(node) for pair in cuts(part))
    if isinstance(node, FirstRows):
        found[_named(node.source), node.most] = None
    return tuple(found)


class _Cutting:
    """Inserts :class:`FirstRows` below joins that multiply a unit's rows; with ``most`` rows if the query states it."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._sizes = Sizes()

    def cut(self, node: RelationNode) -> RelationNode:
        """Return the relation with every side of a multiplying join limited."""
        if node.is_public:
            return node
        node = with_sources(node, [self.cut(part) for part in sources(node)])
        if isinstance(node, Join) and self._sizes.fan(node).multiplies:
            return with_sources(node, [self._first(node.left), self._first(node.right)])
        if isinstance(node, ExistsColumn) and self._sizes.mark_fan(node).multiplies:
            return with_sources(node, [self._first(node.source), self._first(node.other)])
        return node

    def _first(self, side: RelationNode) -> RelationNode:
        if side.is_public or _is_enforced(side):
            return side
        rows = self._sizes.rows(side)
        return first_rows(side, rows if self._most is None else min(rows, self._most))


def first_rows(side: RelationNode, most: int) -> RelationNode:
    """Keep at most ``most`` rows of each unit of an owned relation, by a keyed hash, after shortening texts."""
    shape = (side.fields, side.unit, side.population, side.max_groups, side.max_rows, side.weight + 1)
    read = tuple(reference(side, slot) for slot in range(len(side.fields)))
    shorter = tuple(part if part.slot == side.unit else _shortened(part) for part in read)
    return FirstRows(*shape, side if shorter == read else ProjectColumns(*shape, side, shorter), most)


def _shortened(part: Expression) -> Expression:
    """Return a text cut to a public length; any other expression unchanged."""
    return call("left", part, literal(limits.MAX_TEXT, INTEGER)) if part.type == TEXT else part


def _is_enforced(node: RelationNode) -> bool:
    """Whether the bound on a unit's rows holds for any contents of the tables, provided unique columns are unique."""
    match node:
        case FirstRows():
            return True
        case Scan():
            return node.rows == 1
        case ExistsColumn():
            return _is_enforced(node.source)
        case UnitAggregate() if len(node.keys) == 1:
            return True
        case _:
            return all(part.is_public or _is_enforced(part) for part in sources(node))


class _Work:
    """Sum of the row operations of one unit or of all rows, and the node that causes most of them."""

    def __init__(self, sizes: Sizes | WholeSizes | None = None, length: int = 1) -> None:
        self._sizes = Sizes() if sizes is None else sizes
        self._length = length
        self._known: dict[int, tuple[RelationNode, int]] = {}
        self.own_work: dict[int, tuple[RelationNode, int]] = {}
        self.worst: tuple[int, RelationNode] | None = None

    def final(self, final: FinalAggregation) -> int:
        """Return the row operations of a final aggregation, over all its statements."""
        spread = sum(measure.kind.traits.own_statement for measure in final.measures)
        rows = self._sizes.rows(final.source)
        keys = self._cost(key.expression for key in final.keys)
        per_row = sum(1 + self._cost((measure.argument, measure.where)) for measure in final.measures)
        return (1 + spread) * (self.relation(final.source) + rows * (1 + keys)) + rows * (
            per_row + spread * _sort(rows)
        )

    def relation(self, node: RelationNode) -> int:
        """Return the row operations of a relation and all below it; shared parts count each time they occur."""
        known = self._known.get(id(node))
        if known is None:
            own = self._own(node)
            if node.is_public and not isinstance(node, Join | ExistsColumn):
                # Computed once, not for each of a person's rows.
                own = 1 + own // _HASHED
            self.own_work[id(node)] = (node, own)
            if self.worst is None or own > self.worst[0]:
                self.worst = (own, node)
            known = self._known[id(node)] = (node, own + sum(map(self.relation, sources(node))))
        return known[1]

    def _own(self, node: RelationNode) -> int:
        rows = self._sizes.rows
        match node:
            case Scan() if node.is_public:
                return 1 + node.rows // _READ
            case Scan():
                return node.rows * (1 + len(node.path))
            case Constants():
                return len(node.rows)
            case FilterRows():
                return rows(node.source) * (1 + self._cost([node.condition]))
            case ProjectColumns():
                return rows(node.source) * (1 + self._cost(node.expressions))
            case FirstRows():
                return rows(node.source) * (_HASH + len(node.fields) + _sort(rows(node.source)))
            case Join():
                tried = self._sizes.fan(node).pairs * (1 + self._cost([node.condition]))
                return tried + self._entered(node.left) + self._entered(node.right) + rows(node)
            case ExistsColumn():
                tried = self._sizes.mark_fan(node).pairs * (1 + self._cost([node.condition]))
                return tried + self._entered(node.source) + self._entered(node.other)
            case UnionAll():
                return rows(node)
            case UnitAggregate():
                calls = sum(self._call(call, rows(node.source)) for call in node.calls)
                return rows(node.source) * (1 + self._cost(node.keys) + calls)
            case UnitWindow():
                read = [e for c in node.calls for e in (c.argument, *c.partition, *(k.expression for k in c.order))]
                return rows(node.source) * (1 + self._cost(read) + len(node.calls) * _sort(rows(node.source)))
            case _:
                raise TypeError(type(node).__name__)

    def _cost(self, expressions: Iterable[Expression | None]) -> int:
        return cost(expressions, self._length)

    def _call(self, call: UnitCall, rows: int) -> int:
        return 1 + self._cost((call.argument, call.where)) + (_sort(rows) if AGGREGATES[call.function].sorts else 0)

    def _entered(self, side: RelationNode) -> int:
        """Return the row operations to hash one side of a join; a public table is hashed once for all units."""
        return self._sizes.rows(side) // (_HASHED if side.is_public else 1)


def _sort(rows: int) -> int:
    """Return the row operations per row of a sort of ``rows`` rows; a comparison is a fourth of one."""
    return 2 + log2(rows) // 4


def _check(counted: _Work, work: int, whose: str, most: int) -> None:
    if work <= most:
        return
    said = f"{whose} could cause {_about(work)} row operations here, and {most} is the most"
    if counted.worst is None:
        raise InternalError("there is work where there is no relation")
    share, node = counted.worst
    raise Refusal("work", f"{said}; {_about(share)} of them are in {_advice(node)}.")


def _advice(node: RelationNode) -> str:
    """Describe the work of a node, with advice on how to rewrite the query or which limit to declare."""
    owner = next(iter(_tables(node, public=False)), None)
    fewer = "" if owner is None else ", or let fewer rows of a person enter (OPTIONS(max_rows_joined = …))"
    if isinstance(node, Scan) and node.is_public:
        return f"reading the public table {node.table}: it is too large to be joined with protected rows"
    if isinstance(node, Join | ExistsColumn):
        left, right = sources(node)
        word = "join" if isinstance(node, Join) else "subquery"
        return (
            f"the {word} of {_named(left)} with {_named(right)}: tie the two sides by an equality of columns of which "
            f"one is declared unique, group one side first{fewer}"
        )
    return f"what is computed for each row of {_named(node)}: ask less in one query"


def _about(number: int) -> str:
    """Format a number with all digits, up to a largest number."""
    return str(number) if number < _COUNTED else f"more than {_COUNTED}"


def _named(node: RelationNode) -> str:
    """Return the names of the tables of a relation."""
    names = list(dict.fromkeys(_tables(node, public=True)))
    return " and ".join(names if len(names) < 3 else [names[0], "others"]) if names else "constants"


def _tables(node: RelationNode, *, public: bool) -> list[str]:
    if isinstance(node, Scan):
        return [node.table] if public or not node.is_public else []
    if isinstance(node, Constants) and public:
        return ["VALUES"]
    return [name for part in sources(node) for name in _tables(part, public=public)]
