"""One SELECT over its source: keys, aggregates, windows, HAVING, the SELECT list, ORDER BY and LIMIT.

GROUP BY is resolved once (:class:`SelectClauses`). Then the same clauses mean one of three things, each with a builder:

============= ====================================== ======================================
builder       source                                 result
============= ====================================== ======================================
UnitRows      rows below the final aggregation,      a relation; aggregates are exact, inside units
              public rows                            or over public data
FinalGroups   owned rows, grouped without the unit   the final aggregation, and steps on its cells
ReleasedCells cells of a released result             more steps of post-processing
============= ====================================== ======================================

Columns are laid out alike in all three: keys, then aggregates, then public values, then windows; without grouping,
source columns, then windows. Values and windows are :class:`Pending` until the number of columns before them is known.

Grouping sets are the lists of key terms that ROLLUP, CUBE and GROUPING SETS stand for:

======================== =========================================================
written                  sets
======================== =========================================================
``a, b``                 (a, b)
``ROLLUP (a, b)``        (a, b), (a), ()
``CUBE (a, b)``          (a, b), (a), (b), ()
``GROUPING SETS (x, y)`` the sets of x, then those of y
``x, y``                 every set of x together with every set of y
======================== =========================================================

``(a, b)`` inside ROLLUP and CUBE is one element. Equal sets are kept: their rows come twice, as in SQL.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from tacit.query import limits
from tacit.query.aggregates import NEVER_NULL, unit_call
from tacit.query.aggregates.family import AggregateCall
from tacit.query.parsing.parse import Options
from tacit.query.planning.work import rows_inside
from tacit.query.query import (
    Derive,
    Extend,
    FinalAggregation,
    Keep,
    OutputColumn,
    Regroup,
    Slice,
    Sort,
    Step,
    Totals,
    Unique,
)
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    RelationNode,
    Scan,
    SortKey,
    UnitCall,
    WindowCall,
    WindowFrame,
    reference,
)
from tacit.query.relational.expressions import (
    TRUE,
    Expression,
    Interval,
    Literal,
    Reference,
    literal,
    references,
    rewrite,
    walk,
)
from tacit.query.relational.functions import call
from tacit.query.resolve.aggregation import (
    FinalBuilder,
    named_windows,
    read_aggregate,
    read_pick,
    read_window,
    sort_key_of,
)
from tacit.query.resolve.public_rows import (
    ReleasedRelation,
    column_keys,
    distinct_order,
    in_place,
    is_cut,
    kept_public_rows,
    slice_of,
    value_step,
)
from tacit.query.resolve.scalars import Remembering, Scalars, Scope, function_name, has_aggregate, is_aggregate, is_pick
from tacit.query.resolve.sql_functions import refuse_aggregate
from tacit.query.resolve.tables import Item
from tacit.query.types import DOUBLE, INTEGER, UNKNOWN, Domain, SqlType, finite

if TYPE_CHECKING:
    from tacit.query.resolve.subqueries import Body, PublicValues


# -- grouping sets of a group by

TermSets = list[list[exp.Expr]]


def written_sets(group: exp.Group) -> TermSets:
    """Return the grouping sets of a GROUP BY, each as the terms in the text."""
    found: TermSets = [[]]
    for term in group.expressions:
        own = _sets(term)
        _check(len(found) * len(own))
        found = [[*one, *other] for one in found for other in own]
    return found


def _sets(term: exp.Expr) -> TermSets:
    match term:
        case exp.Rollup():
            return _rollup([_element(part) for part in term.expressions])
        case exp.Cube():
            return _cube([_element(part) for part in term.expressions])
        case exp.GroupingSets():
            listed = [one for part in term.expressions for one in _sets(part)]
            _check(len(listed))
            return listed
        case _:
            return [_element(term)]


def _rollup(elements: TermSets) -> TermSets:
    _check(len(elements) + 1)
    return [list(itertools.chain(*elements[:kept])) for kept in range(len(elements), -1, -1)]


def _cube(elements: TermSets) -> TermSets:
    _check(2 ** min(len(elements), 64))
    sizes = range(len(elements), -1, -1)
    return [list(itertools.chain(*each)) for size in sizes for each in itertools.combinations(elements, size)]


def _element(term: exp.Expr) -> list[exp.Expr]:
    """Return the keys of one element of a GROUP BY: a list in parentheses is one element."""
    return list(term.expressions) if isinstance(term, exp.Tuple) else [term]


def _check(count: int) -> None:
    limits.check_size(count, limits.MAX_SETS, "grouping sets")


# -- one select over its source

_INTERVALS = {"dp_interval_low": False, "dp_interval_high": True}
_GROUPING = ("grouping", "grouping_id")
#: Keys of one GROUPING, as in PostgreSQL.
_MOST_BITS = 31
Keys = list[tuple[str, Expression]]
#: Grouping sets, each as the indices of its keys.
Sets = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Pending(Expression):
    """Public value ``index``, or window ``index``, to be placed after all other columns; values precede windows."""

    is_window: bool
    index: int
    #: For messages only.
    name: str = field(compare=False)


class SelectClauses:
    """The clauses of one SELECT, with the keys of GROUP BY resolved over its source."""

    def __init__(self, node: exp.Select, items: list[Item], source: Body | ReleasedRows, *, grouped: bool) -> None:
        self.node = node
        self.items = items
        self.scope = source.scope
        self.hook = source.hook
        self.source = source
        self.grouped = grouped
        self.named = named_windows(node) if node.args.get("windows") else {}
        self.keys, self.sets = self._keys() if grouped else ([], None)

    def _keys(self) -> tuple[Keys, Sets | None]:
        """Resolve the keys and the grouping sets (indices of keys); the sets are None for the one set of all keys."""
        group = self.node.args.get("group")
        if group is None:
            return [], None
        if not group.expressions and not group.args.get("all"):
            raise Refusal("syntax", "GROUP BY needs at least one key.")
        plain: list[Item] = []
        if group.args.get("all"):
            plain = [item for item in self.items if item.node is None or not has_aggregate(item.node)]
        always = [(item.name, self._plain_item(item, "GROUP BY ALL")) for item in plain]
        written = written_sets(group)
        terms = {id(term): self._key(term) for one in written for term in one}
        listed = [*always, *terms.values()]
        limits.check_size(len(listed), limits.MAX_COLUMNS, "keys")
        seen: dict[Expression, str] = {}
        for name, expression in listed:
            seen.setdefault(expression, name)
        keys = [(name, expression) for expression, name in seen.items() if not isinstance(expression, Literal)]
        places = {expression: place for place, (_, expression) in enumerate(keys)}
        sets = [
            tuple(sorted({places[e] for _, e in (*always, *(terms[id(term)] for term in one)) if e in places}))
            for one in written
        ]
        return keys, None if sets == [tuple(range(len(keys)))] else tuple(sets)

    def key_reference(self, slot: int, name: str | None = None) -> Reference:
        """Return the column of a key, which is NULL where a grouping set leaves the key out."""
        known, key = self.keys[slot]
        domain = key.domain if self.sets is None else replace(key.domain, nullable=True)
        return Reference(key.type, domain, slot, known if name is None else name)

    @property
    def width(self) -> int:
        """Number of columns before the aggregates: the keys, and with grouping sets one GROUPING flag for each key."""
        return len(self.keys) * (1 if self.sets is None else 2)

    def _key(self, term: exp.Expr) -> tuple[str, Expression]:
        term = term.unnest()
        if isinstance(term, exp.Literal) and not term.is_string:
            item = self.at(term, "GROUP BY")
            return item.name, self._plain_item(item, "GROUP BY")
        if isinstance(term, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
            raise Refusal(
                "grouping_sets", "Grouping sets hold keys or lists of keys in parentheses; take one pair away."
            )
        if isinstance(term, exp.Column) and not term.table:
            named = self.alias(term.name)
            if named is not None and (not self.scope.matches(term.name, None) or self._hides(named)):
                return named.name, self._plain_item(named, "GROUP BY")
        name = next((i.name for i in self.items if i.node is not None and i.node == term), None)
        label = name or (term.name if isinstance(term, exp.Column) else "key")
        return label, Scalars(self.scope, "GROUP BY", self.hook)(term)

    def _hides(self, item: Item) -> bool:
        """Whether GROUP BY means this item although a column has its name: it reads others, and not all are keys."""
        if item.node is None or has_aggregate(item.node):
            return False
        read = {column.name.lower() for column in item.node.find_all(exp.Column)}
        grouped = {column.name.lower() for column in self.node.args["group"].find_all(exp.Column)}
        return (item.alias or "").lower() not in read and not read <= grouped

    def _plain_item(self, item: Item, clause: str) -> Expression:
        return item.expression or Scalars(self.scope, clause, self.hook)(item.syntax)

    def alias(self, name: str) -> Item | None:
        """Return the item with this alias, if there is one."""
        found = [item for item in self.items if item.alias is not None and item.alias.lower() == name.lower()]
        if len(found) > 1:
            raise Refusal("ambiguous_column", f"The name {name!r} is given to several columns.")
        return found[0] if found else None

    def at(self, term: exp.Literal, clause: str) -> Item:
        """Return the item at a position of the SELECT list."""
        text = term.name
        if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= len(self.items)):
            raise Refusal(
                "position", f"{clause} {text[:20]} is not the position of one of the {len(self.items)} columns."
            )
        return self.items[int(text) - 1]


# -- results


class ResultBuilder(ABC):
    """Resolves the clauses of one SELECT; each subclass gives them one of the three meanings.

    Args:
        clauses: the clauses of the SELECT.
        first: the slot of the first aggregate, if the SELECT is grouped.
    """

    def __init__(self, clauses: SelectClauses, first: int) -> None:
        self.clauses = clauses
        self.first = first
        self.windows: list[tuple[WindowCall, Domain]] = []
        self.values: list[RelationNode | ReleasedRelation] = []
        self._plain = Remembering(clauses.scope, "SELECT", self._plain_hook)
        self._opened: set[int] = set()

    @abstractmethod
    def aggregate(self, asked: AggregateCall) -> tuple[int, SqlType, Domain]:
        """Add an aggregate, equal ones once; return its index among the aggregates, its type and its domain."""

    @abstractmethod
    def shape(self) -> RelationNode:
        """Return the relation whose rows windows are computed over, for the presumed number of rows of a unit."""

    @abstractmethod
    def is_noisy(self, expression: Expression) -> bool:
        """Whether an expression over keys and aggregates, or over columns of the source, depends on noise."""

    def pick(self, node: exp.Expr, scalars: Scalars) -> AggregateCall:  # noqa: ARG002 - where it has a meaning
        """Return an aggregate that takes the value of one row: exact inside a unit, and refused elsewhere."""
        called = node.this if isinstance(node, exp.Filter) else node
        raise refuse_aggregate(function_name(called) if isinstance(called, exp.Anonymous) else "first")

    # -- expressions over keys, aggregates and windows

    def _scalars(self, clause: str) -> Scalars:
        return Scalars(self.clauses.scope, clause, self._hook)

    def _hook(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Anonymous) and function_name(node) in _INTERVALS:
            return self._interval(node)
        if not self.clauses.grouped:
            return self.clauses.hook(node)
        if is_aggregate(node):
            return self._aggregate(node)
        if isinstance(node, exp.Subquery):
            return self._value(node)
        if isinstance(node, exp.Anonymous) and function_name(node) in _GROUPING:
            return self._grouping(node)
        return self._key_reference(node)

    def _grouping(self, node: exp.Anonymous) -> Expression:
        """Resolve GROUPING(a, b): bit i, counted from the last key, is 1 where the row is a total over that key."""
        name, keys = function_name(node).upper(), self.clauses.keys
        found = [self._matching_key(argument) for argument in node.expressions]
        slots = [part.slot for part in found if isinstance(part, Reference)]
        if len(slots) < len(found) or (not found and name == "GROUPING"):
            listed = ", ".join(key for key, _ in keys) or "none"
            raise Refusal("grouping_sets", f"{name} takes keys of this GROUP BY; those are: {listed}.")
        slots = slots or list(range(len(keys)))
        limits.check_size(len(slots), _MOST_BITS, f"keys in {name}")
        if self.clauses.sets is None:
            return literal(0, INTEGER)
        bits = [
            Reference(INTEGER, finite((0, 1), INTEGER, nullable=False), len(keys) + slot, f"grouping {keys[slot][0]}")
            for slot in slots
        ]
        total: Expression = bits[0]
        for bit in bits[1:]:
            total = call("add", call("mul", total, literal(2, INTEGER)), bit)
        return total

    def _aggregate(self, node: exp.Expr) -> Expression:
        inner = Scalars(self.clauses.scope, "an aggregate", self.clauses.hook)
        picks = is_pick(node.this if isinstance(node, exp.Filter) else node)
        asked = self.pick(node, inner) if picks else read_aggregate(node, inner)
        index, kind, domain = self.aggregate(asked)
        return Reference(kind, domain, self.first + index, f"aggregate {index + 1}")

    def _value(self, node: exp.Subquery) -> Expression:
        """Resolve a subquery that stands for a public or released value, as a column after keys and aggregates."""
        value = self.clauses.source.values.value(node, self.clauses.scope)
        if value not in self.values:
            limits.check_size(len(self.values) + 1, limits.MAX_COLUMNS, "subqueries")
            self.values.append(value)
        column = value.columns[0] if isinstance(value, ReleasedRelation) else value.fields[0]
        domain = replace(column.domain, nullable=True)
        return Pending(column.type, domain, False, self.values.index(value), "subquery")

    def _key_reference(self, node: exp.Expr) -> Expression | None:
        """Return the key that a node equals as a whole; refuse a bare column that is no key; None for other nodes."""
        if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)):
            return None
        found = self._matching_key(node)
        if found is not None:
            return found
        if not isinstance(node, exp.Column):
            return None
        # A key comes first, then the name of an item, even where FROM has a column of that name: outside of an
        # aggregate the column itself could not be used.
        item = None if node.table else self.clauses.alias(node.name)
        if item is not None and id(item) not in self._opened:
            return self._item(item)
        self.clauses.scope.find(node.name, node.table or None)
        raise _not_aggregated(node.name)

    def _plain_hook(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Exists | exp.Window) or (
            isinstance(node, exp.In) and node.args.get("query") is not None
        ):
            raise Refusal("subquery", "A subquery cannot be a key.")
        return self.clauses.hook(node) if isinstance(node, exp.Subquery) else None

    def _matching_key(self, node: exp.Expr) -> Expression | None:
        if not self.clauses.keys:
            return None
        try:
            whole = self._plain(node)
        except Refusal:
            return None
        for slot, (_, key) in enumerate(self.clauses.keys):
            if whole == key:
                return self.clauses.key_reference(slot)
        return None

    def _window(self, node: exp.Window) -> Expression:
        source = self.shape()
        inner = Scalars(self.clauses.scope, "a window", self._window_hook)
        made = call, domain = read_window(node, inner, self.clauses.named, source)
        if made not in self.windows:
            limits.check_size(len(self.windows) + 1, limits.MAX_COLUMNS, "windows")
            self.windows.append(made)
        name = f"window {len(self.windows)}"
        return Pending(call.type, domain, True, self.windows.index(made), name)

    def _window_hook(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Window):
            raise Refusal("window", "A window cannot stand inside a window.")
        return self._hook(node)

    def _interval(self, node: exp.Anonymous) -> Expression:
        name, args = function_name(node).upper(), node.expressions
        if len(args) != 1 or not isinstance(args[0], exp.Column):
            raise Refusal("interval", f"{name} takes the name of a column of this result.")
        item = None if args[0].table else self.clauses.alias(args[0].name)
        value = self._item(item) if item is not None else self._scalars(name)(args[0])
        if not value.type.is_numeric or not self._carries_noise(value):
            raise Refusal("interval", f"{name} needs a number that was released with noise; {args[0].name!r} is none.")
        if isinstance(value, Interval):
            raise Refusal("interval", f"{name} of an interval has no meaning.")
        return Interval(DOUBLE, Domain(), value, _INTERVALS[function_name(node)])

    def _item(self, item: Item) -> Expression:
        if item.expression is not None:
            return self._star_item(item, item.expression)
        if id(item) in self._opened:
            raise Refusal("unknown_column", f"The name {item.name!r} refers to itself.")
        self._opened.add(id(item))
        try:
            return self._scalars("SELECT")(item.syntax)
        finally:
            self._opened.discard(id(item))

    def _star_item(self, item: Item, expression: Expression) -> Expression:
        if not self.clauses.grouped:
            return expression
        for slot, (_, key) in enumerate(self.clauses.keys):
            if key == expression:
                return self.clauses.key_reference(slot, item.name)
        raise _not_aggregated(item.name)

    def _carries_noise(self, expression: Expression) -> bool:
        pending = [part for part in walk(expression) if isinstance(part, Pending)]
        released = any(each.is_window or isinstance(self.values[each.index], ReleasedRelation) for each in pending)
        return released or self.is_noisy(expression)

    def _settled(self, expression: Expression, width: int) -> Expression:
        """Return the expression with its pending columns placed after ``width`` others: values, then windows."""

        def place(part: Expression) -> Expression | None:
            if not isinstance(part, Pending):
                return None
            before = len(self.values) if part.is_window else 0
            return Reference(part.type, part.domain, width + before + part.index, part.name)

        return rewrite(expression, place)

    def _settled_window(self, call: WindowCall, width: int) -> WindowCall:
        return call.changed(lambda part: self._settled(part, width))

    # -- clauses above the grouping

    def _having(self) -> Expression:
        having = self.clauses.node.args.get("having")
        if having is None:
            return TRUE
        found = self._scalars("HAVING").condition(having.this)
        if _has_window(found):
            raise Refusal("window", "A window cannot be used in HAVING; filter in an outer query.")
        return found

    def _qualify(self) -> Expression:
        """Resolve QUALIFY, a condition over rows with their windows; it may use aliases of the SELECT list."""
        qualify = self.clauses.node.args.get("qualify")
        return TRUE if qualify is None else Scalars(self.clauses.scope, "QUALIFY", self._named).condition(qualify.this)

    def _named(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Column) and not node.table and not self.clauses.scope.matches(node.name, None):
            item = self.clauses.alias(node.name)
            if item is not None:
                return self._item(item)
        return self._hook(node)

    def _outputs(self) -> list[tuple[str, Expression]]:
        return [(item.name, self._item(item)) for item in self.clauses.items]

    def _order(self) -> list[SortKey]:
        order = self.clauses.node.args.get("order")
        terms = order.expressions if order is not None else []
        limits.check_size(len(terms), limits.MAX_COLUMNS, "ORDER BY terms")
        if len(terms) == 1 and isinstance(terms[0].this, exp.Var):
            # ORDER BY ALL, the columns from left to right.
            return [sort_key_of(terms[0], self._item(item)) for item in self.clauses.items]
        return [sort_key_of(term, self._sort_term(term.this)) for term in terms]

    def _sort_term(self, term: exp.Expr) -> Expression:
        if isinstance(term, exp.Literal) and not term.is_string:
            return self._item(self.clauses.at(term, "ORDER BY"))
        if isinstance(term, exp.Var):
            raise Refusal("unsupported", "ORDER BY ALL stands alone; list the columns.")
        if isinstance(term, exp.Column) and not term.table:
            item = self.clauses.alias(term.name)
            if item is not None:
                return self._item(item)
        return self._scalars("ORDER BY")(term)


class ReleasedBuilder(ResultBuilder):
    """A SELECT whose rows are released: everything above its keys and aggregates is a step of post-processing."""

    def shape(self) -> RelationNode:
        """Return a relation without unit: released cells belong to no unit."""
        return ownership.constants([], ())

    @abstractmethod
    def _released(self, where: list[Step]) -> tuple[FinalAggregation, tuple[Step, ...], int]:
        """Return the final aggregation, the steps up to the grouping, and the number of columns after them."""

    def _where(self) -> list[Step]:
        return []

    def result(self) -> ReleasedRelation:
        """Return the SELECT as a released relation."""
        where = self._where()
        having, qualify, outputs, order = self._having(), self._qualify(), self._outputs(), self._order()
        final, before, width = self._released(where)
        steps: list[Step] = [value_step(final, value) for value in self.values]
        if having != TRUE:
            steps.append(Keep(self._settled(having, width)))
        if self.windows:
            steps.append(Extend(tuple(self._settled_window(item, width) for item, _ in self.windows)))
        if qualify != TRUE:
            steps.append(Keep(self._settled(qualify, width)))
        noisy = [self._carries_noise(e) for _, e in outputs]
        settled = [(name, self._settled(e, width)) for name, e in outputs]
        keys = tuple(key.changed(lambda part: self._settled(part, width)) for key in order)
        distinct = self.clauses.node.args.get("distinct") is not None
        if distinct and any(key.expression not in [e for _, e in settled] for key in keys):
            raise distinct_order()
        if keys:
            steps.append(Sort(keys))
        columns = tuple(
            OutputColumn(name, e.type, is_noisy, e.domain) for (name, e), is_noisy in zip(settled, noisy, strict=True)
        )
        steps.append(Derive(tuple(e for _, e in settled)))
        if distinct:
            steps.append(Unique())
        node = self.clauses.node
        cuts = slice_of(node) if node.args.get("limit") or node.args.get("offset") else []
        return ReleasedRelation(final, (*before, *steps, *cuts), columns)

    def _settled_window(self, call: WindowCall, width: int) -> WindowCall:
        if any(isinstance(part, Interval) for part in (call.argument, *call.partition)):
            raise Refusal("interval", "An interval cannot be used inside a window.")
        # Released rows have a public order, which breaks ties.
        frame = WindowFrame.RUNNING if call.frame is WindowFrame.PEERS else call.frame
        return replace(super()._settled_window(call, width), frame=frame)


class FinalGroups(ReleasedBuilder):
    """A SELECT of owned rows grouped without the unit: the final aggregation."""

    def __init__(self, clauses: SelectClauses, body: Body, options: Options) -> None:
        super().__init__(clauses, clauses.width)
        for name, expression in clauses.keys:
            if isinstance(expression, Reference) and body.relation.fields[expression.slot].identifies is not None:
                raise Refusal(
                    "unit_exposed",
                    f"The key {name!r} tells persons apart; group by it below the aggregation, on a side of the "
                    "join where it is never missing.",
                )
        self.body = body
        self.kept = None if isinstance(body.relation, Scan) else kept_public_rows(body.relation)
        if self.kept is not None:
            self.kept.check_keys(clauses.keys)
        self.builder = FinalBuilder(body.relation, clauses.keys, options)

    def aggregate(self, asked: AggregateCall) -> tuple[int, SqlType, Domain]:
        """Add a released column for the aggregate."""
        if self.kept is not None:
            self.kept.check_call(asked)
        index = self.builder.add(asked, self.body.relation)
        made = self.builder.aggregates[index]
        return index, made.type, Domain(nullable=made.kind not in NEVER_NULL)

    def is_noisy(self, expression: Expression) -> bool:
        """Whether the expression reads an aggregate: keys and GROUPING carry no noise."""
        return any(part.slot >= self.first for part in references(expression))

    def _released(self, where: list[Step]) -> tuple[FinalAggregation, tuple[Step, ...], int]:
        final, sets = self.builder.build(self.body.relation), self.clauses.sets
        listing = () if self.kept is None else self.kept.listing(final)
        if sets is not None:
            # Totals are the first step; groups that the public rows lack stay, with a noisy 0.
            totals = Totals(tuple(range(len(final.keys))), sets)
            return final, (totals, *where), self.first + len(final.aggregates)
        width = len(final.types) + sum(len(step.relation.fields) for step in listing)
        return final, (*listing, *where), width


def refuse_sets(clauses: SelectClauses) -> None:
    """Refuse grouping sets where rows belong to one person, or to none."""
    if clauses.sets is not None:
        raise Refusal(
            "grouping_sets",
            "ROLLUP, CUBE and GROUPING SETS stand in the SELECT that aggregates over persons; write a plain GROUP BY "
            "inside one person's rows, over public tables and over released results.",
        )


def _not_aggregated(name: str) -> Refusal:
    return Refusal("not_aggregated", f"The column {name!r} is neither a key of GROUP BY nor inside an aggregate.")


def _has_window(expression: Expression) -> bool:
    return any(isinstance(part, Pending) and part.is_window for part in walk(expression))


# -- select below the final aggregation


class UnitRows(ResultBuilder):
    """A SELECT below the final aggregation, as a relation: aggregates are exact, inside units or over public data."""

    def __init__(self, clauses: SelectClauses, body: Body) -> None:
        refuse_sets(clauses)
        # The unit is always a key, hidden where the query does not list it.
        super().__init__(clauses, len(ownership.complete_keys(body.relation, clauses.keys)))
        self.body = body
        self.calls: list[tuple[UnitCall, Domain]] = []

    def aggregate(self, asked: AggregateCall) -> tuple[int, SqlType, Domain]:
        """Add an exact aggregate."""
        made = unit_call(asked, rows_inside(self.body.relation))
        if made not in self.calls:
            limits.check_size(len(self.calls) + 1, limits.MAX_COLUMNS, "aggregates")
            self.calls.append(made)
        return self.calls.index(made), made[0].type, made[1]

    def shape(self) -> RelationNode:
        """Return the rows, grouped by the keys if the SELECT is grouped."""
        if not self.clauses.grouped:
            return self.body.relation
        return ownership.group(self.body.relation, list(self.clauses.keys), self.calls)

    def is_noisy(self, expression: Expression) -> bool:  # noqa: ARG002 - nothing below the aggregation is noisy
        """Return False: nothing below the final aggregation is noisy."""
        return False

    def _interval(self, node: exp.Anonymous) -> Expression:
        name = function_name(node).upper()
        raise Refusal("interval", f"{name} applies to released columns; this SELECT releases nothing.")

    def pick(self, node: exp.Expr, scalars: Scalars) -> AggregateCall:
        """Return MIN over a window that gives every row of the group the value of the one chosen row.

        Of tied rows, the one with the least value is chosen. Without an order (ANY_VALUE), the value is the least one
        that is not NULL.
        """
        where = scalars.condition(node.expression.this) if isinstance(node, exp.Filter) else None
        called = node.this if isinstance(node, exp.Filter) else node
        value, order = read_pick(called, scalars, where)
        if not order:
            return AggregateCall("min", value, where, None, None, None)
        keys = tuple(key for _, key in self.clauses.keys)
        made = WindowCall("first_value", value, None, keys, order, WindowFrame.PARTITION, value.type)
        domain = Domain(value.range, True, value.values, value.step, value.domain.growth)
        self.body.relation = ownership.window(self.body.relation, [(made, domain)])
        chosen = reference(self.body.relation, len(self.body.relation.fields) - 1)
        return AggregateCall("min", chosen, None, None, None, None)

    def relation(self, *, top: bool = False) -> RelationNode:
        """Return the SELECT as a relation, of public rows those that LIMIT keeps; at the top, positions come first."""
        placing = self.body.relation.is_public and is_cut(self.clauses.node, top=top)
        having, qualify, outputs = self._having(), self._qualify(), self._outputs()
        order = self._order() if placing else []
        result = self.shape()
        width = len(result.fields)
        for value in self.values:
            result = self.body.attach(result, value)
        result = ownership.keep(result, _over(result, self._settled(having, width)))
        if self.windows:
            windows = [(self._settled_window(item, width), domain) for item, domain in self.windows]
            result = ownership.window(result, windows)
        result = ownership.keep(result, _over(result, self._settled(qualify, width)))

        def settled(expression: Expression) -> Expression:
            return _over(result, self._settled(expression, width))

        keys = [replace(key, expression=settled(key.expression)) for key in order]
        listed = [(name, settled(e)) for name, e in outputs]
        node = self.clauses.node
        if node.args.get("distinct") is None:
            return in_place(node, result, keys, listed, top=top) if placing else ownership.compute(result, listed)
        rows = ownership.compute(result, listed)
        if not placing:
            return rows
        chosen = [e for _, e in listed]
        if any(key.expression not in chosen for key in keys):
            raise distinct_order()
        rows = ownership.group(rows, [(name, reference(rows, i)) for i, (name, _) in enumerate(listed)], [])
        shown = [(name, reference(rows, i)) for i, (name, _) in enumerate(listed)]
        keys = [replace(key, expression=shown[chosen.index(key.expression)][1]) for key in keys]
        return in_place(node, rows, keys, shown, top=top)


def _over(relation: RelationNode, expression: Expression) -> Expression:
    return rewrite(expression, lambda part: reference(relation, part.slot) if isinstance(part, Reference) else None)


# -- select over cells that are released


class ReleasedRows:
    """A released relation while the clauses of a SELECT over it are resolved."""

    def __init__(self, released: ReleasedRelation, scope: Scope, values: PublicValues) -> None:
        self.released = released
        self.scope = scope
        self.values = values
        self._attached: dict[RelationNode | ReleasedRelation, int] = {}

    def hook(self, node: exp.Expr) -> Expression | None:
        """Resolve a subquery that stands for a value as one more column of the relation; refuse other subqueries."""
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None):
            raise Refusal(
                "subquery",
                "IN and EXISTS take no subquery on released results; join the public table, or filter before the "
                "aggregation.",
            )
        if not isinstance(node, exp.Subquery):
            return None
        value = self.values.value(node, self.scope)
        if value not in self._attached:
            self._attached[value] = len(self.released.columns)
            self.released = self.released.with_value(value)
        return self.released.reference(self._attached[value])


class ReleasedCells(ReleasedBuilder):
    """A SELECT over cells that are already released: everything is free and cannot look back."""

    def __init__(self, clauses: SelectClauses, rows: ReleasedRows) -> None:
        refuse_sets(clauses)
        super().__init__(clauses, len(clauses.keys))
        self.rows = rows
        self.calls: list[UnitCall] = []

    def aggregate(self, asked: AggregateCall) -> tuple[int, SqlType, Domain]:
        """Add an exact aggregate of noisy cells."""
        self._check_groups(asked.function, asked.where)
        made, domain = unit_call(asked, rows_inside(self.shape()))
        if made not in self.calls:
            self.calls.append(made)
        return self.calls.index(made), made.type, replace(domain, range=UNKNOWN)

    def _check_groups(self, function: str, where: Expression | None) -> None:
        """Refuse counts and means over released groups when people do not decide which groups exist.

        Every value of a range is a group, whether or not anybody has it, and only the large ones of private groups are
        released: COUNT(*) over the groups would be shown as exact and be wrong, and AVG would divide by it.
        """
        released, final = self.rows.released, self.rows.released.final
        conditions = [step.condition for step in self._where() if isinstance(step, Keep)]
        conditions += [] if where is None else [where]
        if function in _UNMOVED or _are_kept_by_numbers(released) or any(map(released.is_noisy, conditions)):
            return
        # Declared categories are listed because people have them.
        read = [part for key in final.keys for part in references(key.expression)]
        enumerated = final.public_keys and any(part.values is None for part in read)
        counts = function in ("count_rows", "count", "count_distinct")
        if counts and final.keys and not final.aggregates:
            names = ", ".join(key.name for key in final.keys)
            raise Refusal(
                "empty_groups",
                f"The released values of {names} are those that are listed or have enough people, not those that "
                f"people have; write COUNT(DISTINCT {names}), which is noisy and counts those.",
            )
        if enumerated or (counts and not final.public_keys):
            names = ", ".join(key.name for key in final.keys)
            instead = f"write COUNT(DISTINCT {names}), or " if counts else ""
            why = "every value of a range, also those nobody has" if enumerated else "only those with enough people"
            raise Refusal(
                "empty_groups",
                f"The released groups by {names} are {why}, so {function.removesuffix('_rows').upper()} over them is "
                f"wrong; {instead}keep groups whose count noise alone "
                "does not reach, such as HAVING COUNT(*) > 20.",
            )

    def is_noisy(self, expression: Expression) -> bool:
        """Whether the expression reads an aggregate of cells, or keys and columns that are noisy themselves."""
        released, parts = self.rows.released, references(expression)
        if not self.clauses.grouped:
            return released.is_noisy(expression)
        keys = [released.is_noisy(key) for _, key in self.clauses.keys]
        return any(part.slot >= self.first or keys[part.slot] for part in parts)

    def _where(self) -> list[Step]:
        where = self.clauses.node.args.get("where")
        if where is None:
            return []
        return [Keep(Scalars(self.clauses.scope, "WHERE", self.clauses.hook).condition(where.this))]

    def _released(self, where: list[Step]) -> tuple[FinalAggregation, tuple[Step, ...], int]:
        released = self.rows.released
        if not self.clauses.grouped:
            return released.final, (*released.steps, *where), len(released.columns)
        regroup = Regroup(tuple(e for _, e in self.clauses.keys), tuple(self.calls))
        return released.final, (*released.steps, *where, regroup), self.first + len(self.calls)


#: Aggregates that groups without people, which are noisy zeros, hardly change.
_UNMOVED: Final = frozenset({"sum", "max"})


def _are_kept_by_numbers(released: ReleasedRelation) -> bool:
    """Whether a condition on released numbers, or a LIMIT, decides which groups there are."""
    keys = len(released.final.keys)
    noisy = [False] * keys + [True] * len(released.final.aggregates)
    for step in released.steps:
        match step:
            case Keep() if len(noisy) and any(noisy[part.slot] for part in references(step.condition)):
                return True
            case Slice() if step.limit is not None:
                return True
            case Regroup():
                return True
            case Derive():
                noisy = [any(noisy[part.slot] for part in references(e)) for e in step.expressions]
            case Extend():
                noisy += [True] * len(step.calls)
            case Totals():
                noisy = [False] * (2 * keys) + noisy[keys:]
            case Keep() | Sort() | Unique():
                pass
            case _:
                # The rows include those of other relations, so that they are not the groups alone.
                return True
    return False


def distinct_rows(
    node: exp.Query, builder: FinalBuilder, source: RelationNode, names: Sequence[str]
) -> ReleasedRelation:
    """Return SELECT DISTINCT of protected rows: a final aggregation by keys alone; ORDER BY names its columns."""
    final = builder.build(source)
    columns = tuple(
        OutputColumn(name, key.expression.type, False, key.expression.domain)
        for name, key in zip(names, final.keys, strict=True)
    )
    released = ReleasedRelation(final, (), columns)
    return in_order(node, released)


def in_order(node: exp.Query, released: ReleasedRelation) -> ReleasedRelation:
    """Return a released relation in the order, and within the limits, of the query around its columns."""
    keys = column_keys(node, released.scope(""))
    steps: list[Step] = [Sort(tuple(keys))] if keys else []
    return replace(released, steps=(*released.steps, *steps, *slice_of(node)))
