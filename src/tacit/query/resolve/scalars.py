"""Scalar expressions: from syntax to typed expressions, over the names of one scope.

A :class:`Scope` holds the columns visible from FROM and from enclosing queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from sqlglot import exp

from tacit.core.names import is_name
from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import Field, RelationNode, reference
from tacit.query.relational.expressions import (
    FALSE,
    NULL_LITERAL,
    TRUE,
    Change,
    Expression,
    Literal,
    Reference,
    literal,
    rewrite,
    shift,
)
from tacit.query.relational.functions import call, case, cast, in_list
from tacit.query.relational.functions.registry import all_of, cast_value
from tacit.query.relational.functions.regular_expressions import from_escaped, is_anchored
from tacit.query.resolve.sql_functions import (
    CONTAINS,
    PATHS,
    PICKS,
    RAW_AGGREGATES,
    WINDOW_ONLY,
    arrow,
    check_function,
    contains,
    keys_of_path,
    member,
    refuse_aggregate,
    scalar_call,
    without_cast,
)
from tacit.query.resolve.times import (
    INTERVAL_CALLS,
    UNIT_CALLS,
    at_zone,
    beside_interval,
    interval_call,
    part_at,
    shifted,
    signs_of_letters,
    times_added,
    unit_call,
)
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    MAX_SCALE,
    TEXT,
    TIMESTAMP,
    Kind,
    SqlType,
    as_value,
    decimal,
)

# -- constants and names of types in sql text

_TYPES: Final[dict[str, SqlType]] = {
    **dict.fromkeys(("BOOLEAN",), BOOLEAN),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT", "MEDIUMINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR"), TEXT),
    **dict.fromkeys(("DATE",), DATE),
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"), TIMESTAMP),
}
_PLAIN_NUMBER = re.compile(r"(\d+)(?:\.(\d*))?\Z|\.(\d+)\Z")
_SCIENTIFIC = re.compile(r"\d*\.?\d*[eE][+-]?\d{1,3}\Z")


def number(text: str) -> Literal:
    """Return a numeric constant: whole numbers are INTEGER, short decimals DECIMAL, all others DOUBLE."""
    plain = _PLAIN_NUMBER.match(text) if text.isascii() else None
    if plain is not None:
        digits = plain.group(2) or plain.group(3) or ""
        if "." not in text:
            whole = as_value(int(text), INTEGER)
            return literal(whole, INTEGER) if whole is not None else _double(text)
        value = as_value(Fraction(text if text[-1] != "." else text + "0"), decimal(min(len(digits), MAX_SCALE)))
        if value is not None and len(digits) <= MAX_SCALE and len(text) <= DECIMAL_DIGITS:
            return literal(value, decimal(len(digits)))
        return _double(text)
    if text.isascii() and _SCIENTIFIC.match(text):
        return _double(text)
    raise Refusal("literal", f"{text[:40]!r} is not a number that can be used here.")


def _double(text: str) -> Literal:
    try:
        value = as_value(float(text), DOUBLE)
    except ValueError:
        value = None
    if value is None:
        raise Refusal("literal", "A number is too large; use one below 1e308.")
    return literal(value, DOUBLE)


def type_named(node: exp.Expr) -> SqlType:
    """Return the type that a cast names."""
    kind = getattr(node, "this", None)
    name = str(getattr(kind, "name", kind))
    if name == "DECIMAL":
        return _decimal_type([part.name for part in node.expressions])
    if name not in _TYPES:
        raise Refusal(
            "type",
            f"The type {name[:40]} is not supported; use INTEGER, DECIMAL, DOUBLE, TEXT, BOOLEAN, DATE or TIMESTAMP.",
        )
    return _TYPES[name]


def _decimal_type(parameters: list[str]) -> SqlType:
    if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parameters):
        raise Refusal("type", "Write DECIMAL(precision, scale) with whole numbers.")
    sizes = [int(part) for part in parameters]
    precision, scale = [*sizes, 0][:2] if len(sizes) == 1 else (sizes or [DECIMAL_DIGITS, 3])[:2]
    if precision > DECIMAL_DIGITS or scale > min(MAX_SCALE, precision):
        raise Refusal("type", f"DECIMAL has at most {DECIMAL_DIGITS} digits, {MAX_SCALE} of them after the point.")
    return decimal(scale)


# -- scalar expressions

# -- names


@dataclass(frozen=True)
class ScopeSource:
    """One table of FROM under its alias: the names of its columns and their expressions, in order.

    Args:
        alias: the alias of the table.
        columns: pairs of a name and its expression.
        stored: for renamed columns, pairs of the lower-case name in the source and the name in queries.
        unread: names of columns of a type that no query reads.
    """

    alias: str
    columns: tuple[tuple[str, Expression], ...]
    stored: tuple[tuple[str, str], ...] = ()
    unread: tuple[str, ...] = ()

    def matches(self, wanted: str) -> list[Expression]:
        """Return the expressions that a lower-case name stands for; names in the source apply if no column has it."""
        found = [expression for column, expression in self.columns if column.lower() == wanted]
        called = [] if found else [name.lower() for name in (dict(self.stored).get(wanted),) if name is not None]
        return found or [expression for column, expression in self.columns if column.lower() in called]


@dataclass(frozen=True)
class Scope:
    """The sources of one SELECT.

    Args:
        sources: the tables, in the order of FROM.
        merged: columns merged by USING, by lower-case name; they take precedence over those of the sources.
    """

    sources: tuple[ScopeSource, ...] = ()
    merged: dict[str, Expression] = field(default_factory=dict)

    def find(self, name: str, table: str | None) -> Expression:
        """Return the column of this name; refuse a name that is unknown or ambiguous."""
        found = self.matches(name, table)
        if not found:
            where = f" in {table}" if table else ""
            if any(name.lower() == each.lower() for source in self.sources for each in source.unread):
                raise Refusal(
                    "unknown_column",
                    f"The column {name!r}{where} has a type that no query reads, such as a list or a struct; a list "
                    "that its owner declares as text is read by LIST_CONTAINS and UNNEST; "
                    f"{self._known(table)}",
                    at=name,
                )
            raise Refusal("unknown_column", f"There is no column {name!r}{where}; {self._known(table)}", at=name)
        if len(found) > 1:
            sentence = f"The column {name!r} occurs more than once; write it as table.column."
            raise Refusal("ambiguous_column", sentence, at=name)
        return found[0]

    def matches(self, name: str, table: str | None) -> list[Expression]:
        """Return the expressions that a name stands for."""
        wanted = name.lower()
        if table is None and wanted in self.merged:
            return [self.merged[wanted]]
        sources = [s for s in self.sources if table is None or s.alias.lower() == table.lower()]
        return [expression for source in sources for expression in source.matches(wanted)]

    def star(self, table: str | None) -> list[tuple[str, Expression]]:
        """Return the columns of ``*`` or ``table.*``; a column merged by USING once."""
        sources = [s for s in self.sources if table is None or s.alias.lower() == table.lower()]
        if not sources:
            raise Refusal(
                "unknown_table", f"There is no table {table!r} in FROM." if table else "There is no FROM to expand *."
            )
        listed: list[tuple[str, Expression]] = []
        seen: set[str] = set()
        for source in sources:
            for name, expression in source.columns:
                shared = table is None and name.lower() in self.merged
                if not shared or name.lower() not in seen:
                    listed.append((name, self.merged[name.lower()] if shared else expression))
                seen.add(name.lower())
        return listed

    def shifted(self, by: int) -> Scope:
        """Return the same names over columns that stand ``by`` slots further right."""
        return self._changed(lambda expression: shift(expression, by))

    def over(self, relation: RelationNode) -> Scope:
        """Return the same names over the columns of ``relation`` in the same slots, with their present domains."""
        return self.renewed(lambda slot: reference(relation, slot))

    def renewed(self, read: Callable[[int], Expression]) -> Scope:
        """Return the same names with every reference replaced by ``read(slot)``."""
        return self._changed(
            lambda expression: rewrite(expression, lambda p: read(p.slot) if isinstance(p, Reference) else None)
        )

    def _changed(self, change: Change) -> Scope:
        sources = tuple(replace(s, columns=tuple((n, change(e)) for n, e in s.columns)) for s in self.sources)
        return Scope(sources, {name: change(e) for name, e in self.merged.items()})

    def beside(self, other: Scope) -> Scope:
        """Return the sources of both scopes; refuse an alias that occurs twice."""
        aliases = [s.alias.lower() for s in (*self.sources, *other.sources) if s.alias]
        if len(set(aliases)) != len(aliases):
            raise Refusal("duplicate_name", "Two tables in FROM have one name; give one of them an alias.")
        return Scope((*self.sources, *other.sources), {**self.merged, **other.merged})

    def _known(self, table: str | None) -> str:
        names = [n for s in self.sources if table is None or s.alias.lower() == table.lower() for n, _ in s.columns]
        if not names:
            return "check the table name." if table else "there is no FROM."
        shown = ", ".join(dict.fromkeys(n if is_name(n) else f'"{n}"' for n in names[:20]))
        return f"there are {shown}{', …' if len(names) > 20 else ''}."


@dataclass(frozen=True)
class Correlated(Scope):
    """The names of a subquery, then those of the query around it."""

    outer: Scope = field(default_factory=Scope)

    def find(self, name: str, table: str | None) -> Expression:
        """Return the subquery's own column of that name, else the outer query's."""
        if self.matches(name, table) or not self.outer.matches(name, table):
            return Scope.find(self, name, table)
        return self.outer.find(name, table)


def from_relation(relation: RelationNode, alias: str, names: Sequence[str] | None = None) -> Scope:
    """Return a scope of the visible columns of a relation under an alias, renamed in order where names are given."""
    visible = [(column, slot) for slot, column in enumerate(relation.fields) if column.name is not None]
    called = renamed([column for column, _ in visible], names)
    columns = tuple((name, reference(relation, slot)) for name, (_, slot) in zip(called, visible, strict=True))
    return Scope((ScopeSource(alias, columns),))


def renamed(columns: Sequence[Field], names: Sequence[str] | None) -> list[str]:
    """Return the names of columns, the first of them replaced as in ``AS t(a, b)``."""
    own = [column.name or "" for column in columns]
    if names is None:
        return own
    if len(names) > len(own):
        raise Refusal("arguments", f"The alias names {len(names)} columns, but there are {len(own)}.")
    if len({name.lower() for name in names}) != len(names):
        raise Refusal("duplicate_name", "The alias names a column twice.")
    return [*names, *own[len(names) :]]


# -- expressions

#: Called first on every node: returns the expression, or None for the default resolution.
Hook = Callable[[exp.Expr], Expression | None]

_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge", exp.NullSafeEQ: "same",
    exp.Mul: "mul", exp.Div: "div", exp.IntDiv: "int_div", exp.Mod: "mod", exp.Pow: "power",
}  # fmt: skip
_VOLATILE: Final = ("volatile", "{shown} does not depend on the data alone; write the value as a constant.")
_NO_VALUE: Final = (
    "subquery",
    "A subquery cannot stand for a value in {clause}; join it in FROM, or compute the value in a subquery there.",
)
#: Code and sentence of the refusal of nodes that have a meaning elsewhere in a query.
_REFUSED: Final[dict[type[exp.Expr], tuple[str, str]]] = {
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentUser), _VOLATILE),
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Exists), _NO_VALUE),
    exp.Window: ("window", "A window cannot be used in {clause}; compute it in a subquery."),
    exp.Interval: ("type", "An interval can only be added to or subtracted from a date."),
}
#: Most characters of the analyst's text that a refusal shows.
_LONGEST_SHOWN: Final = 60


class Scalars:
    """Resolves expressions of one clause.

    Args:
        scope: the names in scope.
        clause: the name of the clause in messages, such as ``WHERE``.
        hook: called first on every node; it resolves aggregates, windows, keys and subqueries.
    """

    def __init__(self, scope: Scope, clause: str, hook: Hook | None = None) -> None:
        self.scope = scope
        self.clause = clause
        self.hook = hook

    def condition(self, node: exp.Expr) -> Expression:
        """Return a BOOLEAN expression."""
        found = self(node)
        if found.type != BOOLEAN and found.type.kind is not Kind.NULL:
            place = self.clause[0].upper() + self.clause[1:]
            raise Refusal("type", f"{place} needs a condition, not {found.type}; compare the value with something.")
        return found

    def __call__(self, node: exp.Expr) -> Expression:
        """Return the typed expression for a node.

        Raises:
            Refusal: for anything that is not on the allow-list here.
        """
        if self.hook is not None:
            found = self.hook(node)
            if found is not None:
                return found
        if type(node) in _OPERATORS:
            if (
                isinstance(node, exp.EQ)
                and isinstance(node.expression, exp.Anonymous)
                and node.expression.name == "ANY"
            ):
                return contains("any", [*node.expression.expressions, node.this], self)
            return self._operator(_OPERATORS[type(node)], node.this, node.expression)
        method = _METHODS.get(type(node))
        if method is not None:
            return method(self, node)
        reason, sentence = _REFUSED.get(type(node), ("unsupported", "{shown} cannot be used in {clause}."))
        text = " ".join(node.sql().split())
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
        raise Refusal(reason, sentence.format(shown=shown, clause=self.clause))

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise Refusal("unsupported", f"* cannot be used in {self.clause}.")
        return self.scope.find(node.name, node.table or None)

    def _literal(self, node: exp.Literal) -> Expression:
        return literal(str(node.this), TEXT) if node.is_string else number(str(node.this))

    def _chain(self, node: exp.Expr) -> Expression:
        return call(
            "and" if isinstance(node, exp.And) else "or", *(self(part) for part in conjuncts_of(node, type(node)))
        )

    def _is(self, node: exp.Is) -> Expression:
        value, what = self(node.this), node.expression
        if isinstance(what, exp.Null):
            return call("is_null", value)
        if isinstance(what, exp.Boolean):
            return call("is_true", value if what.this else call("not", value))
        raise Refusal("unsupported", "IS takes NULL, TRUE or FALSE; use = or IS NOT DISTINCT FROM.")

    def _between(self, node: exp.Between) -> Expression:
        ends = ((function, node.args[end]) for function, end in (("ge", "low"), ("le", "high")))
        inside = call("and", *(self._operator(function, node.this, end) for function, end in ends))
        return call("not", inside) if node.args.get("negate") else inside

    def _operator(self, function: str, left: exp.Expr, right: exp.Expr) -> Expression:
        if isinstance(left, exp.Interval) or isinstance(right, exp.Interval):
            return beside_interval(left, right, function, self)
        return call(function, self(left), self(right))

    def _in(self, node: exp.In) -> Expression:
        if node.args.get("query") is not None:
            raise Refusal("subquery", f"A subquery cannot be used in {self.clause}.")
        if isinstance(node.this, exp.Tuple):
            found = self._in_tuples(node.this, node.expressions)
        else:
            found = in_list(self(node.this), [self(item) for item in node.expressions])
        return call("not", found) if node.args.get("negate") else found

    def _in_tuples(self, values: exp.Tuple, listed: list[exp.Expr]) -> Expression:
        """Resolve ``(a, b) IN ((1, 2), (3, 4))``: equal, value by value, to one of the tuples."""
        wanted, equal = [self(value) for value in values.expressions], []
        for item in listed:
            if not isinstance(item, exp.Tuple) or len(item.expressions) != len(wanted):
                raise Refusal(
                    "arguments", f"IN after a list of {len(wanted)} values takes lists of as many in brackets."
                )
            pairs = [call("eq", value, self(part)) for value, part in zip(wanted, item.expressions, strict=True)]
            equal.append(all_of(pairs))
        return call("or", *equal) if len(equal) > 1 else equal[0]

    def _escaped(self, node: exp.Escape) -> Expression:
        """Resolve LIKE with ESCAPE: as LIKE without escaped characters, else as a regular expression for the whole."""
        pattern, sign = (self(part) for part in (getattr(node.this, "expression", node), node.expression))
        texts = [part.value for part in (pattern, sign) if isinstance(part, Literal) and isinstance(part.value, str)]
        if not isinstance(node.this, (exp.Like, exp.ILike)) or len(texts) < 2 or len(texts[1]) != 1:
            raise Refusal("pattern", "Write LIKE 'pattern' ESCAPE '!', with one sign, both written out.")
        if texts[1] not in texts[0]:
            return self._like(node.this)
        found = call(
            "regexp",
            self(node.this.this),
            literal(from_escaped(texts[0], texts[1], isinstance(node.this, exp.ILike)), TEXT),
        )
        return call("not", found) if node.this.args.get("negate") else found

    def _dated(self, node: exp.Expr) -> Expression:
        """Resolve CAST(x AS DATE FORMAT 'DD.MM.YYYY')."""
        name = "parse_date" if isinstance(node, exp.StrToDate) else "parse_timestamp"
        return scalar_call(name, [literal(signs_of_letters(str(node.args["format"].this)), TEXT), self(node.this)])

    def _like(self, node: exp.Expr) -> Expression:
        found = call("ilike" if isinstance(node, exp.ILike) else "like", self(node.this), self(node.expression))
        return call("not", found) if node.args.get("negate") else found

    def _fits(self, node: exp.Expr) -> Expression:
        """Resolve ``~`` and ``~*`` for anchored patterns; for others, engines differ on whether a part may match."""
        value, pattern = self(node.this), self(node.expression)
        text = pattern.value if isinstance(pattern, Literal) and isinstance(pattern.value, str) else None
        if text is None:
            raise Refusal("arguments", "The pattern of a regular expression is a text, written out.")
        if not is_anchored(text):
            raise Refusal(
                "pattern",
                "~ looks for a part of the text in PostgreSQL and for all of it in DuckDB: write REGEXP_MATCHES(x, "
                "pattern) for a part, or begin the pattern with ^ and end it with $.",
            )
        return scalar_call("regexp_matches", [value, pattern, literal("i" * isinstance(node, exp.RegexpILike), TEXT)])

    def _add(self, node: exp.Expr) -> Expression:
        sign = 1 if isinstance(node, exp.Add) else -1
        for other, by in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(by, exp.Interval) and (sign == 1 or by is node.expression):
                return shifted(other, by, sign, self)
        left, right = self(node.this), self(node.expression)
        timed = left.type.is_temporal or right.type.is_temporal
        found = times_added(left, right, sign) if timed else None
        return call("add" if sign == 1 else "sub", left, right) if found is None else found

    def _case(self, node: exp.Case) -> Expression:
        subject = self(node.this) if node.this is not None else None
        branches: list[tuple[Expression, Expression]] = []
        for arm in node.args.get("ifs") or []:
            when = self(arm.this)
            branches.append((call("eq", subject, when) if subject is not None else when, self(arm.args["true"])))
        default = node.args.get("default")
        return case(branches, self(default) if default is not None else NULL_LITERAL)

    def _cast(self, node: exp.Expr) -> Expression:
        value, kind = self(node.this), type_named(node.args["to"])
        written = isinstance(value, Literal) and value.type == TEXT and value.value is not None
        if written and kind != TEXT and isinstance(value, Literal) and cast_value(value.value, TEXT, kind) is None:
            raise Refusal("literal", f"A text constant cannot be read as {kind}; write it as its cast would print it.")
        return cast(value, kind)

    def _substring(self, node: exp.Substring) -> Expression:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return call("substring", *(self(part) for part in parts if part is not None))

    def _trim(self, node: exp.Trim) -> Expression:
        if node.args.get("expression") is not None:
            raise Refusal("arguments", "TRIM removes spaces only; use REPLACE for other characters.")
        side = str(node.args.get("position") or "BOTH").upper()
        return call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), self(node.this))

    def _function(self, node: exp.Anonymous) -> Expression:
        name = function_name(node)
        if name in SQL_NAMES or name in RAW_AGGREGATES:
            self._misplaced(name)
        if name in WINDOW_ONLY:
            raise Refusal("window", f"{name.upper()} needs OVER (PARTITION BY the unit …).")
        if any(isinstance(arg, (exp.Star, exp.Distinct, exp.Kwarg, exp.Alias)) for arg in node.expressions):
            raise Refusal("arguments", f"{name.upper()} takes plain arguments.")
        if name == "clamp" and any(is_auto(arg) for arg in node.expressions[1:]):
            raise Refusal(
                "bounds",
                "AUTO stands for both bounds, directly inside SUM, AVG, VARIANCE, STDDEV, MIN, MAX or a quantile: "
                "write AVG(CLAMP(x, AUTO)).",
            )
        if name in INTERVAL_CALLS:
            return interval_call(name, node.expressions, self)
        by_unit = unit_call(name, node.expressions, self) if name in UNIT_CALLS else None
        if by_unit is not None:
            return by_unit
        if name in ("date_part", "datepart") and len(node.expressions) == 2 and node.expressions[0].is_string:
            return part_at(node.expressions[0].name, node.expressions[1], self)
        if name in CONTAINS:
            return contains(name, node.expressions, self)
        if name in PATHS and node.expressions:
            return self._json(node)
        check_function(name)
        return scalar_call(name, [self(arg) for arg in node.expressions])

    def _json(self, node: exp.Anonymous) -> Expression:
        """Resolve JSON_EXTRACT_STRING(x, '$.key') and its synonyms."""
        text, *rest = node.expressions
        paths = [part.value if isinstance(part := self(each), Literal) else None for each in rest]
        keys = [key for path in paths for key in (keys_of_path(path) if isinstance(path, str) else [])]
        if len(paths) != 1 and function_name(node) != "json_extract_path_text":
            raise Refusal("arguments", f"{function_name(node).upper()} takes a text and a path such as '$.key'.")
        return member(self(without_cast(text)), keys)

    def _arrow(self, node: exp.JSONExtractScalar) -> Expression:
        text, keys = arrow(node)
        return member(self(text), keys)

    def _misplaced(self, name: str) -> None:
        if name in RAW_AGGREGATES and not (name in PICKS and self.clause == "an aggregate"):
            raise refuse_aggregate(name)
        reason = "nested_aggregate" if self.clause == "an aggregate" else "aggregate"
        raise Refusal(
            reason, f"{name.upper()} cannot be used in {self.clause}; aggregate in a subquery, or use HAVING."
        )

    def _aggregate(self, node: exp.Expr) -> Expression:
        inner = node.this
        self._misplaced(function_name(inner) if isinstance(inner, exp.Anonymous) else "count")
        raise AssertionError("refused above")


class Remembering(Scalars):
    """Resolves each node once, and refuses it once: for resolving the same parts of a tree again and again."""

    def __init__(self, scope: Scope, clause: str, hook: Hook | None = None) -> None:
        super().__init__(scope, clause, hook)
        #: By the node's id; the node is held, so that no other one gets its id.
        self.known: dict[int, tuple[exp.Expr, Expression | Refusal]] = {}

    def __call__(self, node: exp.Expr) -> Expression:
        """Return the typed expression for a node, from the cache if it was resolved before."""
        if id(node) not in self.known:
            found: Expression | Refusal
            try:
                found = super().__call__(node)
            except Refusal as refusal:
                found = refusal
            self.known[id(node)] = node, found
        found = self.known[id(node)][1]
        if isinstance(found, Refusal):
            raise found
        return found


_METHODS: Final[dict[type[exp.Expr], Callable[[Scalars, Any], Expression]]] = {
    exp.Column: Scalars._column, exp.Literal: Scalars._literal, exp.Null: lambda *_: NULL_LITERAL,
    exp.Boolean: lambda _, node: TRUE if node.this else FALSE, exp.Paren: lambda self, node: self(node.this),
    exp.Neg: lambda self, node: call("neg", self(node.this)), exp.Not: lambda self, node: call("not", self(node.this)),
    exp.NullSafeNEQ: lambda self, node: call("not", call("same", self(node.this), self(node.expression))),
    exp.And: Scalars._chain, exp.Or: Scalars._chain, exp.Is: Scalars._is, exp.Between: Scalars._between,
    exp.In: Scalars._in, exp.Like: Scalars._like, exp.ILike: Scalars._like, exp.Add: Scalars._add,
    exp.Sub: Scalars._add, exp.Escape: Scalars._escaped, exp.JSONExtractScalar: Scalars._arrow,
    exp.StrToDate: Scalars._dated, exp.StrToTime: Scalars._dated,
    exp.Case: Scalars._case, exp.Cast: Scalars._cast, exp.TryCast: Scalars._cast,
    exp.Extract: lambda self, node: part_at(node.this.name, node.expression, self), exp.Substring: Scalars._substring,
    exp.StrPosition: lambda self, node: call("strpos", self(node.this), self(node.args["substr"])),
    exp.DPipe: lambda self, node: call("join_text", self(node.this), self(node.expression)),
    exp.Trim: Scalars._trim, exp.Anonymous: Scalars._function,
    exp.Filter: Scalars._aggregate,
    exp.WithinGroup: Scalars._aggregate, exp.AtTimeZone: lambda self, node: at_zone(node, self),
    exp.RegexpLike: Scalars._fits, exp.RegexpILike: Scalars._fits,
}  # fmt: skip


def conjuncts_of(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Return the operands of a chain of AND (or OR) in order; parentheses around the same connective are opened."""
    parts: list[exp.Expr] = []
    stack = [node]
    while stack:
        here = stack.pop()
        if isinstance(here, kind):
            stack.extend((here.expression, here.this))
        elif isinstance(here, exp.Paren) and isinstance(here.this, kind):
            stack.append(here.this)
        else:
            parts.append(here)
    return parts


def function_name(node: exp.Anonymous) -> str:
    """Return the lower-case name of a called function."""
    this = node.this
    return (this if isinstance(this, str) else this.name).lower()


def is_auto(node: exp.Expr) -> bool:
    """Whether a node is the bare word AUTO."""
    return (
        isinstance(node, exp.Column)
        and not node.table
        and isinstance(node.this, exp.Identifier)
        and not node.this.args.get("quoted")
        and node.name.upper() == "AUTO"
    )


def auto_clamped(node: exp.Expr) -> exp.Expr | None:
    """Return the x of ``CLAMP(x, AUTO)``; None for any other node."""
    node = node.unnest()
    if not isinstance(node, exp.Anonymous) or function_name(node) != "clamp" or len(node.expressions) != 2:
        return None
    value, bounds = node.expressions
    return value if is_auto(bounds) else None


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate (without OVER)."""
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return True
    return isinstance(node, exp.Anonymous) and (function_name(node) in SQL_NAMES or is_pick(node))


def is_pick(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate that picks one row's value, which is exact inside a unit and never released."""
    return isinstance(node, exp.Anonymous) and function_name(node) in PICKS


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate (without OVER) occurs in a node, outside subqueries."""
    stack = [node]
    while stack:
        here = stack.pop()
        if is_aggregate(here):
            return True
        if isinstance(here, exp.Query):
            continue
        # The function of a window is not an aggregate of the SELECT, but its arguments may contain aggregates.
        window = here.this if isinstance(here, exp.Window) and is_aggregate(here.this) else None
        for value in here.args.values():
            for child in value if isinstance(value, list) else (value,):
                if child is window and window is not None:
                    stack.extend(part for part in _arguments(window))
                elif isinstance(child, exp.Expr):
                    stack.append(child)
    return False


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    inner = node
    while isinstance(inner, (exp.Filter, exp.WithinGroup)):
        inner = inner.this
    return [part for part in inner.args.get("expressions") or [] if isinstance(part, exp.Expr)]
