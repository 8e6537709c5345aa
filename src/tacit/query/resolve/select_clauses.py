"""One SELECT over its source: keys, aggregates, windows, HAVING, the SELECT list, ORDER BY and LIMIT.

The same clauses mean three things, depending on what they work on:

============ ====================================== ======================================
backend      source                                 becomes
============ ====================================== ======================================
InUnits      rows below the final aggregation       exact aggregates inside units
OverPersons  owned rows, grouped without the unit   the final aggregation
OverReleased cells of a released result             steps of post-processing
============ ====================================== ======================================

Columns are laid out alike in all three: keys, then aggregates, then windows; without grouping, source columns, then
windows.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tacit.query import limits
from tacit.query.question import (
    Derive,
    Extend,
    Keep,
    Match,
    OutputColumn,
    Regroup,
    Slice,
    Sort,
    Step,
    Unique,
)
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    JoinKind,
    RelationNode,
    SortKey,
    WindowCall,
    WindowFrame,
    moved_window,
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
)
from tacit.query.relational.functions.signatures import constant_int
from tacit.query.resolve.aggregates import read_aggregate
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalars import Remembering, Scalars, Scope, function_name, has_aggregate, is_aggregate
from tacit.query.resolve.select_list import Item
from tacit.query.resolve.select_targets import Backend, Column, FinalGroups, ReleasedCells, UnitRows
from tacit.query.resolve.windows import named_windows, read_window, sort_key_of
from tacit.query.types import DOUBLE, Domain

__all__ = ["Grouping"]

_INTERVALS = {"dp_interval_low": False, "dp_interval_high": True}
#: Until all columns are known, windows have the slots -1, -2, … and public values this one and those below it.
_VALUES = -(10**6)


class Grouping:
    """Resolves the clauses of one SELECT over a backend."""

    def __init__(self, node: exp.Select, items: list[Item], backend: Backend, *, grouped: bool) -> None:
        self.node = node
        self.items = items
        self.backend = backend
        self.grouped = grouped
        self.named = named_windows(node)
        self.windows: list[tuple[WindowCall, Domain]] = []
        self.values: list[RelationNode] = []
        self.aggregates: dict[int, Column] = {}
        self.plain = Remembering(backend.scope, "SELECT", self._plain_hook)
        self.opened: set[int] = set()
        self.keys = self._keys() if grouped else []
        self.first = backend.set_keys(self.keys) if grouped else backend.width()

    def has_unit_key(self) -> bool:
        """Whether every group lies inside one unit."""
        if not isinstance(self.backend, UnitRows):
            return False
        return any(ownership.identifies_unit(self.backend.body.relation, e) for _, e in self.keys)

    def _keys(self) -> list[tuple[str, Expression]]:
        group = self.node.args.get("group")
        if group is None:
            return []
        if not group.expressions and not group.args.get("all"):
            raise Refusal("syntax", "GROUP BY needs at least one key.")
        listed: list[tuple[str, Expression]] = []
        if group.args.get("all"):
            plain = [item for item in self.items if item.node is None or not has_aggregate(item.node)]
            listed.extend((item.name, self._plain_item(item, "GROUP BY ALL")) for item in plain)
        listed.extend(self._key(term) for term in group.expressions)
        limits.check_size(len(listed), limits.MAX_COLUMNS, "keys")
        seen: dict[Expression, str] = {}
        for name, expression in listed:
            seen.setdefault(expression, name)
        return [(name, expression) for expression, name in seen.items() if not isinstance(expression, Literal)]

    def _key(self, term: exp.Expr) -> tuple[str, Expression]:
        while isinstance(term, exp.Paren):
            term = term.this
        if isinstance(term, exp.Literal) and not term.is_string:
            item = self._at(term, "GROUP BY")
            return item.name, self._plain_item(item, "GROUP BY")
        if isinstance(term, exp.Tuple):
            raise Refusal("grouping_sets", "List the keys of GROUP BY without parentheses around several of them.")
        if isinstance(term, exp.Column) and not term.table and not self.backend.scope.matches(term.name, None):
            named = self._alias(term.name)
            if named is not None:
                return named.name, self._plain_item(named, "GROUP BY")
        name = next((i.name for i in self.items if i.node is not None and i.node == term), None)
        label = name or (term.name if isinstance(term, exp.Column) else "key")
        return label, Scalars(self.backend.scope, "GROUP BY", self.backend.hook)(term)

    def _plain_item(self, item: Item, clause: str) -> Expression:
        if item.expression is not None:
            return item.expression
        if item.node is None:
            raise AssertionError("an item has syntax or an expression")
        return Scalars(self.backend.scope, clause, self.backend.hook)(item.node)

    def _alias(self, name: str) -> Item | None:
        found = [item for item in self.items if item.alias is not None and item.alias.lower() == name.lower()]
        if len(found) > 1:
            raise Refusal("ambiguous_column", f"The name {name!r} is given to several columns.")
        return found[0] if found else None

    def _at(self, term: exp.Literal, clause: str) -> Item:
        text = term.name
        if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= len(self.items)):
            raise Refusal(
                "position", f"{clause} {text[:20]} is not the position of one of the {len(self.items)} columns."
            )
        return self.items[int(text) - 1]

    # -- expressions over keys, aggregates and windows

    def _scalars(self, clause: str) -> Scalars:
        return Scalars(self.backend.scope, clause, self._hook)

    def _hook(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Anonymous) and function_name(node) in _INTERVALS:
            return self._interval(node)
        if not self.grouped:
            return self.backend.hook(node)
        if is_aggregate(node):
            return self._aggregate(node)
        if isinstance(node, exp.Subquery):
            return self._value(node)
        return self._key_reference(node)

    def _aggregate(self, node: exp.Expr) -> Expression:
        inner = Scalars(self.backend.scope, "an aggregate", self.backend.hook)
        index, column = self.backend.aggregate(read_aggregate(node, inner))
        self.aggregates[index] = column
        return Reference(column[0], column[1], self.first + index, f"aggregate {index + 1}")

    def _value(self, node: exp.Subquery) -> Expression:
        """A public value beside keys and aggregates."""
        value = self.backend.value(node)
        if value not in self.values:
            limits.check_size(len(self.values) + 1, limits.MAX_COLUMNS, "subqueries")
            self.values.append(value)
        column = value.fields[0]
        domain = replace(column.domain, nullable=True)
        return Reference(column.type, domain, _VALUES - self.values.index(value), "subquery")

    def _key_reference(self, node: exp.Expr) -> Expression | None:
        """A node that is a key as a whole; a bare column that is none is refused, the rest goes on to its parts."""
        if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)):
            return None
        found = self._matching_key(node)
        if found is not None:
            return found
        if not isinstance(node, exp.Column):
            return None
        if not node.table and not self.backend.scope.matches(node.name, None):
            item = self._alias(node.name)
            if item is not None:
                return self._item(item)
        self.backend.scope.find(node.name, node.table or None)
        raise Refusal(
            "not_aggregated", f"The column {node.name!r} is neither a key of GROUP BY nor inside an aggregate."
        )

    def _plain_hook(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Exists | exp.Window) or (
            isinstance(node, exp.In) and node.args.get("query") is not None
        ):
            raise Refusal("subquery", "A subquery cannot be a key.")
        return self.backend.hook(node) if isinstance(node, exp.Subquery) else None

    def _matching_key(self, node: exp.Expr) -> Expression | None:
        if not self.keys:
            return None
        try:
            whole = self.plain(node)
        except Refusal:
            return None
        for slot, (name, key) in enumerate(self.keys):
            if whole == key:
                return Reference(key.type, key.domain, slot, name)
        return None

    def _window(self, node: exp.Window) -> Expression:
        if isinstance(self.backend, FinalGroups | ReleasedCells) or not self.grouped:
            source = self.backend.shape()
        else:
            source = self._grouped_relation()
        inner = Scalars(self.backend.scope, "a window", self._window_hook)
        made = read_window(node, inner, self.named, source)
        if made not in self.windows:
            limits.check_size(len(self.windows) + 1, limits.MAX_COLUMNS, "windows")
            self.windows.append(made)
        return Reference(made[0].type, made[1], -1 - self.windows.index(made), f"window {len(self.windows)}")

    def _window_hook(self, node: exp.Expr) -> Expression | None:
        if isinstance(node, exp.Window):
            raise Refusal("window", "A window cannot stand inside a window.")
        return self._hook(node)

    def _interval(self, node: exp.Anonymous) -> Expression:
        name = function_name(node).upper()
        if isinstance(self.backend, UnitRows):
            raise Refusal("interval", f"{name} applies to released columns; this SELECT releases nothing.")
        args = node.expressions
        if len(args) != 1 or not isinstance(args[0], exp.Column):
            raise Refusal("interval", f"{name} takes the name of a column of this result.")
        item = None if args[0].table else self._alias(args[0].name)
        value = self._item(item) if item is not None else self._scalars(name)(args[0])
        if not value.type.is_numeric or not self._is_noisy(value):
            raise Refusal("interval", f"{name} needs a number that was released with noise; {args[0].name!r} is none.")
        if isinstance(value, Interval):
            raise Refusal("interval", f"{name} of an interval has no meaning.")
        return Interval(DOUBLE, Domain(), value, function_name(node) == "dp_interval_high")

    def _item(self, item: Item) -> Expression:
        if item.expression is not None:
            return self._star_item(item, item.expression)
        if item.node is None:
            raise AssertionError("an item has syntax or an expression")
        if id(item) in self.opened:
            raise Refusal("unknown_column", f"The name {item.name!r} refers to itself.")
        self.opened.add(id(item))
        try:
            return self._scalars("SELECT")(item.node)
        finally:
            self.opened.discard(id(item))

    def _star_item(self, item: Item, expression: Expression) -> Expression:
        if not self.grouped:
            return expression
        for slot, (_, key) in enumerate(self.keys):
            if key == expression:
                return Reference(key.type, key.domain, slot, item.name)
        raise Refusal(
            "not_aggregated", f"The column {item.name!r} is neither a key of GROUP BY nor inside an aggregate."
        )

    def _is_noisy(self, expression: Expression) -> bool:
        if any(_is_window(part) for part in references(expression)):
            return True
        certain = rewrite(expression, lambda part: literal(None, part.type) if _is_value(part) else None)
        return self.backend.is_noisy(certain, self.grouped, self.first)

    def _settled(self, expression: Expression, width: int) -> Expression:
        """Values and then windows stand behind all other columns, whose number is known when everything is resolved."""

        def move(part: Expression) -> Expression | None:
            if not isinstance(part, Reference) or part.slot >= 0:
                return None
            place = _VALUES - part.slot if _is_value(part) else len(self.values) - 1 - part.slot
            return replace(part, slot=width + place)

        return rewrite(expression, move)

    # -- results

    def _having(self) -> Expression:
        having = self.node.args.get("having")
        if having is None:
            return TRUE
        found = self._scalars("HAVING").condition(having.this)
        if any(_is_window(part) for part in references(found)):
            raise Refusal("window", "A window cannot be used in HAVING; filter in an outer query.")
        return found

    def _outputs(self) -> list[tuple[str, Expression]]:
        return [(item.name, self._item(item)) for item in self.items]

    def _order(self) -> list[SortKey]:
        order = self.node.args.get("order")
        terms = order.expressions if order is not None else []
        limits.check_size(len(terms), limits.MAX_COLUMNS, "ORDER BY terms")
        return [sort_key_of(term, self._sort_term(term.this)) for term in terms]

    def _sort_term(self, term: exp.Expr) -> Expression:
        if isinstance(term, exp.Literal) and not term.is_string:
            return self._item(self._at(term, "ORDER BY"))
        if isinstance(term, exp.Var):
            raise Refusal("unsupported", "ORDER BY ALL is not supported; list the columns.")
        if isinstance(term, exp.Column) and not term.table:
            item = self._alias(term.name)
            if item is not None:
                return self._item(item)
        return self._scalars("ORDER BY")(term)

    def _grouped_relation(self) -> RelationNode:
        backend = self.backend
        if not isinstance(backend, UnitRows):
            raise AssertionError("only rows below the aggregation are a relation")
        keys: list[tuple[str | None, Expression]] = list(self.keys)
        return ownership.group(backend.body.relation, keys, backend.calls)

    def relation(self) -> RelationNode:
        """The SELECT as a relation (backend InUnits)."""
        backend = self.backend
        if not isinstance(backend, UnitRows):
            raise AssertionError("only rows below the aggregation are a relation")
        having = self._having()
        outputs = self._outputs()
        result = self._grouped_relation() if self.grouped else backend.body.relation
        width = len(result.fields)
        for value in self.values:
            result = ownership.attach(result, value)
        result = ownership.keep(result, self._over(result, self._settled(having, width)))
        if self.windows:
            settled = [(self._moved_window(item, width), domain) for item, domain in self.windows]
            result = ownership.window(result, settled)
        return ownership.compute(result, [(name, self._over(result, self._settled(e, width))) for name, e in outputs])

    def _moved_window(self, call: WindowCall, width: int) -> WindowCall:
        return moved_window(call, lambda part: self._settled(part, width))

    def _over(self, relation: RelationNode, expression: Expression) -> Expression:
        return rewrite(expression, lambda part: reference(relation, part.slot) if isinstance(part, Reference) else None)

    def result(self) -> ReleasedRelation:
        """The SELECT as a released result (backends OverPersons and OverReleased)."""
        steps: list[Step] = []
        backend = self.backend
        if isinstance(backend, ReleasedCells):
            where = self.node.args.get("where")
            if where is not None:
                steps.append(Keep(Scalars(backend.scope, "WHERE", backend.hook).condition(where.this)))
        having, outputs, order = self._having(), self._outputs(), self._order()
        if isinstance(backend, ReleasedCells):
            final, before = backend.source.final, backend.source.steps
            if self.grouped:
                steps.append(Regroup(tuple(e for _, e in self.keys), tuple(backend.calls)))
            width = self.first + len(backend.calls) if self.grouped else backend.width()
        else:
            if not isinstance(backend, FinalGroups) or backend.builder is None:
                raise AssertionError("a result is released")
            final, before = backend.builder.build(backend.body.relation), ()
            width = self.first + len(final.aggregates)
        steps.extend(Match(value, JoinKind.LEFT, TRUE) for value in self.values)
        if having != TRUE:
            steps.append(Keep(self._settled(having, width)))
        if self.windows:
            steps.append(Extend(tuple(self._settled_window(item, width) for item, _ in self.windows)))
        noisy = [self._is_noisy(e) for _, e in outputs]
        settled = [(name, self._settled(e, width)) for name, e in outputs]
        keys = tuple(replace(key, expression=self._settled(key.expression, width)) for key in order)
        distinct = self.node.args.get("distinct") is not None
        if distinct and any(key.expression not in [e for _, e in settled] for key in keys):
            raise Refusal("distinct", "With SELECT DISTINCT, ORDER BY takes columns of the SELECT list.")
        if keys:
            steps.append(Sort(keys))
        columns = tuple(
            OutputColumn(name, e.type, is_noisy, e.domain) for (name, e), is_noisy in zip(settled, noisy, strict=True)
        )
        steps.append(Derive(tuple(e for _, e in settled)))
        if distinct:
            steps.append(Unique())
        steps.extend(_slice(self.node))
        return ReleasedRelation(final, (*before, *steps), columns)

    def _settled_window(self, call: WindowCall, width: int) -> WindowCall:
        if any(isinstance(part, Interval) for part in (call.argument, *call.partition)):
            raise Refusal("interval", "An interval cannot be used inside a window.")
        # Released rows have a public order of their own, which settles ties.
        frame = WindowFrame.RUNNING if call.frame is WindowFrame.PEERS else call.frame
        return replace(self._moved_window(call, width), frame=frame)

    @staticmethod
    def ordered(node: exp.Select, released: ReleasedRelation) -> ReleasedRelation:
        """ORDER BY and LIMIT of SELECT DISTINCT over protected rows, which name its columns."""
        order = node.args.get("order")
        keys: list[SortKey] = []
        scope = released.scope("")
        for term in order.expressions if order is not None else []:
            if isinstance(term.this, exp.Literal) and not term.this.is_string:
                place = constant_int(
                    "order by", Scalars(scope, "ORDER BY")(term.this), 1, len(released.columns), "the position"
                )
                keys.append(sort_key_of(term, released.reference(place - 1)))
            else:
                keys.append(sort_key_of(term, Scalars(scope, "ORDER BY")(term.this)))
        steps: list[Step] = [Sort(tuple(keys))] if keys else []
        return replace(released, steps=(*released.steps, *steps, *_slice(node)))


def _is_value(part: Expression) -> bool:
    return isinstance(part, Reference) and part.slot <= _VALUES


def _is_window(part: Expression) -> bool:
    return isinstance(part, Reference) and _VALUES < part.slot < 0


def _slice(node: exp.Select) -> list[Step]:
    numbers: dict[str, int] = {}
    for name in ("limit", "offset"):
        clause = node.args.get(name)
        if clause is None or (isinstance(clause.expression, exp.Var) and clause.expression.name.upper() == "ALL"):
            continue
        value = Scalars(Scope(), name.upper())(clause.expression)
        numbers[name] = constant_int(name, value, 0, 10**9, "it")
    return [Slice(numbers.get("limit"), numbers.get("offset", 0))] if numbers else []
