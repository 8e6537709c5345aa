"""Work: bound on the row operations that one unit can cause.

``WHERE patient = 17`` makes one person's rows decide whether anything that follows has rows at all. So whatever follows
must be bounded in what it makes of one unit's rows: a question whose bound exceeds
:data:`~tacit.query.limits.MAX_UNIT_WORK` is refused, and where a join multiplies a unit's rows, the unit enters it with
a public number of them (:class:`~tacit.query.relational.algebra.FirstRows`). ``work.proof.md`` has the rules and why
they hold.

=============== =======================================================================================================
node            row operations on account of one unit
=============== =======================================================================================================
public, any     all of them: one row may decide whether a database computes a public relation at all
Scan            its rows, once and once for each foreign key that is followed
Filter, Project its rows, times the cost of the expressions
FirstRows       its rows, times the depth of a sort and the price of a hash
Join            the pairs that are tried, times the cost of the condition, and the rows of both sides
Mark            likewise
UnionAll        its rows
UnitAggregate   its rows, for every call; sorted ones times the depth of a sort
UnitWindow      its rows, for every call, times the depth of a sort
final           its rows, for every measure; and the whole relation once more for every measure with a statement of its
                own (distinct values, leaves, categories)
=============== =======================================================================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tacit.core.errors import InternalError
from tacit.query import limits
from tacit.query.planning.expression_cost import cost, log2
from tacit.query.planning.fanout import Sizes
from tacit.query.planning.measures import MeasureKind
from tacit.query.question import FinalAggregation, Question
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    ProjectColumns,
    RelationNode,
    Scan,
    UnionAll,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    reference,
    sources,
)
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call
from tacit.query.rules.rewriting import with_sources
from tacit.query.types import INTEGER, TEXT

__all__ = ["bound_question", "bound_rows", "cuts", "unit_work"]

#: Rows of a stored public table that are read for one row operation: by columns, and without looking at them.
_READ: Final = 16
#: Rows of a public relation that are computed, or entered into a hash table, for one row operation.
_HASHED: Final = 4
#: Row operations for a keyed hash of a row.
_HASH: Final = 8
#: Whose work is counted, in a refusal, and up to which number it is told.
_OF_A_PERSON: Final = "One person's rows"
_OF_NOBODY: Final = "The public rows beside the released ones"
_COUNTED: Final = 10**12
#: Aggregates that collect a group's values and sort them.
_SORTED: Final = ("count_distinct", "quantile", "var_samp", "var_pop", "stddev_samp", "stddev_pop")
#: Measures for which an engine runs a statement of its own.
_SPREAD: Final = (MeasureKind.DISTINCT, MeasureKind.LEAVES, MeasureKind.CATEGORIES)


def bound_question(question: Question) -> Question:
    """The question with the rows of units cut where joins multiply them; refused where that is too much work.

    Raises:
        Refusal: with the number and the join.
    """
    final = replace(question.final, source=_Cutting(question.options.max_rows_joined).cut(question.final.source))
    counted = _Work()
    _check(counted, counted.final(final), _OF_A_PERSON, limits.MAX_UNIT_WORK)
    for relation in question.reads:
        public = _Work()
        _check(public, public.relation(relation), _OF_NOBODY, limits.MAX_PUBLIC_WORK)
    return replace(question, final=final)


def bound_rows(relation: RelationNode) -> RelationNode:
    """The same for an owned relation whose rows are read one by one."""
    bounded = _Cutting().cut(relation)
    counted = _Work()
    _check(counted, counted.relation(bounded), _OF_A_PERSON, limits.MAX_UNIT_WORK)
    return bounded


def unit_work(final: FinalAggregation) -> int:
    """The row operations that the rows of one unit can cause in a final aggregation, at most."""
    return _Work().final(final)


def cuts(node: RelationNode) -> tuple[tuple[str, int], ...]:
    """The tables whose units are cut before a join, and to how many rows; each pair once, in order."""
    found = dict.fromkeys(pair for part in sources(node) for pair in cuts(part))
    if isinstance(node, FirstRows):
        found[_named(node.source), node.most] = None
    return tuple(found)


class _Cutting:
    """Puts :class:`FirstRows` below what multiplies a unit's rows.

    Args:
        most: so many rows at most, if the question says so.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._sizes = Sizes()

    def cut(self, node: RelationNode) -> RelationNode:
        """The relation with every multiplied side cut."""
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
        shape = (side.fields, side.unit, side.population, side.max_groups, side.max_rows, side.weight + 1)
        rows = self._sizes.rows(side)
        most = rows if self._most is None else min(rows, self._most)
        read = tuple(reference(side, slot) for slot in range(len(side.fields)))
        shorter = tuple(part if part.slot == side.unit else _shortened(part) for part in read)
        return FirstRows(*shape, side if shorter == read else ProjectColumns(*shape, side, shorter), most)


def _shortened(part: Expression) -> Expression:
    """A text cut to a public length; anything else as it is."""
    return call("left", part, literal(limits.MAX_TEXT, INTEGER)) if part.type == TEXT else part


def _is_enforced(node: RelationNode) -> bool:
    """Whether the bound on a unit's rows holds whatever the tables hold, unique columns apart."""
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
    """Adds up row operations, and remembers the join that causes most of them."""

    def __init__(self) -> None:
        self._sizes = Sizes()
        self._known: dict[int, tuple[RelationNode, int]] = {}
        self.worst: tuple[int, RelationNode] | None = None

    def final(self, final: FinalAggregation) -> int:
        """Of a final aggregation, all statements together."""
        spread = sum(measure.kind in _SPREAD for measure in final.measures)
        rows = self._sizes.rows(final.source)
        keys = cost(key.expression for key in final.keys)
        per_row = sum(1 + cost((measure.argument, measure.where)) for measure in final.measures)
        return (1 + spread) * (self.relation(final.source) + rows * (1 + keys)) + rows * (
            per_row + spread * _sort(rows)
        )

    def relation(self, node: RelationNode) -> int:
        """Of a relation and all below it, shared parts each time they occur."""
        known = self._known.get(id(node))
        if known is None:
            own = self._own(node)
            if node.is_public and not isinstance(node, Join | ExistsColumn):
                # Computed once, not for each of a person's rows.
                own = 1 + own // _HASHED
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
                return rows(node.source) * (1 + cost([node.condition]))
            case ProjectColumns():
                return rows(node.source) * (1 + cost(node.expressions))
            case FirstRows():
                return rows(node.source) * (_HASH + len(node.fields) + _sort(rows(node.source)))
            case Join():
                tried = self._sizes.fan(node).pairs * (1 + cost([node.condition]))
                return tried + self._entered(node.left) + self._entered(node.right) + rows(node)
            case ExistsColumn():
                tried = self._sizes.mark_fan(node).pairs * (1 + cost([node.condition]))
                return tried + self._entered(node.source) + self._entered(node.other)
            case UnionAll():
                return rows(node)
            case UnitAggregate():
                calls = sum(_call(call, rows(node.source)) for call in node.calls)
                return rows(node.source) * (1 + cost(node.keys) + calls)
            case UnitWindow():
                read = [e for c in node.calls for e in (c.argument, *c.partition, *(k.expression for k in c.order))]
                return rows(node.source) * (1 + cost(read) + len(node.calls) * _sort(rows(node.source)))
            case _:
                raise TypeError(type(node).__name__)

    def _entered(self, side: RelationNode) -> int:
        """Of the rows of one side of a join: they are hashed, a public table's once for everybody."""
        return self._sizes.rows(side) // (_HASHED if side.is_public else 1)


def _sort(rows: int) -> int:
    """Row operations for each of some rows that are sorted; a comparison is a fourth of one."""
    return 2 + log2(rows) // 4


def _call(call: UnitCall, rows: int) -> int:
    return 1 + cost((call.argument, call.where)) + (_sort(rows) if call.function in _SORTED else 0)


def _check(counted: _Work, work: int, whose: str, most: int) -> None:
    if work <= most:
        return
    said = f"{whose} could cause {_about(work)} row operations here, and {most} is the most"
    if counted.worst is None:
        raise InternalError("there is work where there is no relation")
    share, node = counted.worst
    raise Refusal("work", f"{said}; {_about(share)} of them are in {_advice(node)}.")


def _advice(node: RelationNode) -> str:
    """What a node does, and what to write or to declare instead."""
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
    return f"what is computed for each row of {_named(node)}: ask less in one question"


def _about(number: int) -> str:
    """A number for people: all digits, unless there are many."""
    return str(number) if number < _COUNTED else f"more than {_COUNTED}"


def _named(node: RelationNode) -> str:
    """What a relation reads, for people."""
    names = list(dict.fromkeys(_tables(node, public=True)))
    return " and ".join(names if len(names) < 3 else [names[0], "others"]) if names else "constants"


def _tables(node: RelationNode, *, public: bool) -> list[str]:
    if isinstance(node, Scan):
        return [node.table] if public or not node.is_public else []
    if isinstance(node, Constants) and public:
        return ["VALUES"]
    return [name for part in sources(node) for name in _tables(part, public=public)]
