"""SELECT list: the output columns of a SELECT, with stars and lists of quantiles and ranks spread out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tacit.query import limits
from tacit.query.aggregates import SQL_NAMES
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression
from tacit.query.resolve.scalars import Scope, function_name

__all__ = ["Item", "expand", "unique_names"]

_MOST_RANKS = 100


@dataclass(frozen=True)
class Item:
    """One output column.

    Args:
        name: what it is called.
        node: its syntax; None for columns that a star listed.
        expression: what a star's column stands for over the scope.
        alias: the name the query gave it, if it did.
    """

    name: str
    node: exp.Expr | None
    expression: Expression | None = None
    alias: str | None = None

    @property
    def syntax(self) -> exp.Expr:
        """The syntax of an item that is no column of a star."""
        if self.node is None:
            raise AssertionError("an item has syntax or an expression")
        return self.node


def expand(select: exp.Select, scope: Scope) -> list[Item]:
    """The columns of a SELECT list, in order."""
    items: list[Item] = []
    for node in select.expressions:
        items.extend(_expanded(node, scope))
        limits.check_size(len(items), limits.MAX_COLUMNS, "columns")
    if not items:
        raise Refusal("syntax", "SELECT needs at least one column.")
    names = unique_names([item.name for item in items])
    return [
        item if item.alias or item.name == name else Item(name, item.node, item.expression, item.alias)
        for item, name in zip(items, names, strict=True)
    ]


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names, a number added where one occurs again."""
    taken: set[str] = set()
    result: list[str] = []
    for name in names:
        fresh, count = name, 1
        while fresh.lower() in taken:
            count += 1
            fresh = f"{name}_{count}"
        taken.add(fresh.lower())
        result.append(fresh)
    return result


def _expanded(node: exp.Expr, scope: Scope) -> list[Item]:
    if isinstance(node, exp.Star):
        return _starred(node, scope.star(None))
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return _starred(node.this, scope.star(node.table))
    alias = node.alias if isinstance(node, exp.Alias) else None
    inner = node.this if isinstance(node, exp.Alias) else node
    if alias is not None and len(alias) > limits.MAX_IDENTIFIER:
        raise Refusal("too_long", f"A name has more than {limits.MAX_IDENTIFIER} characters; shorten it.")
    spread = _spread(inner)
    if spread is None:
        return [Item(alias or _name(inner), inner, None, alias)]
    base = alias or _name(inner)
    return [
        Item(f"{base}_{rank}", part, None, f"{base}_{rank}" if alias else None) for rank, part in enumerate(spread, 1)
    ]


def _starred(star: exp.Star, columns: list[tuple[str, Expression]]) -> list[Item]:
    """The columns of a star, without those that EXCLUDE names."""
    without = {part.name.lower() for part in star.args.get("except_") or []}
    missing = without - {name.lower() for name, _ in columns}
    if missing:
        raise Refusal("unknown_column", f"EXCLUDE names {min(missing)[:63]!r}, which is not among the columns of *.")
    return [Item(name, None, expression) for name, expression in columns if name.lower() not in without]


def _spread(node: exp.Expr) -> list[exp.Expr] | None:
    """TOP_K(x, k) as k columns, QUANTILE(x, [p, q]) as one column per fraction; None for anything else."""
    called = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(called, exp.Anonymous):
        return None
    how = SQL_NAMES.get(function_name(called))
    plain = [arg for arg in called.expressions if not isinstance(arg, exp.Kwarg)]
    rest = [arg for arg in called.expressions if isinstance(arg, exp.Kwarg)]
    if how is not None and how.parameter == "ranks":
        return [_again(node, "nth_most_common", [plain[0], rank, *rest]) for rank in _ranks(plain)]
    if how is not None and how.parameter == "parts":
        return [_again(node, "approx_quantile", [plain[0], part, *rest]) for part in _parts(plain)]
    listed = how is not None and how.parameter in ("fraction", "discrete") and len(plain) == 2
    if listed and isinstance(plain[1], exp.Array):
        if not plain[1].expressions:
            raise Refusal("quantile", "A list of quantiles needs at least one fraction.")
        return [_again(node, function_name(called), [plain[0], p, *rest]) for p in plain[1].expressions]
    return None


def _parts(plain: list[exp.Expr]) -> list[exp.Expr]:
    """The fractions 0, 1/n, … 1 of APPROX_QUANTILES(x, n)."""
    count = plain[1].name if len(plain) == 2 and isinstance(plain[1], exp.Literal) and not plain[1].is_string else ""
    if not (count.isascii() and count.isdigit() and len(count) <= 3 and 1 <= int(count) <= _MOST_RANKS):
        raise Refusal("arguments", f"APPROX_QUANTILES takes a value and a number of parts up to {_MOST_RANKS}.")
    return [exp.Literal.number(str(round(part / int(count), 12))) for part in range(int(count) + 1)]


def _ranks(plain: list[exp.Expr]) -> list[exp.Expr]:
    count = plain[1].name if len(plain) == 2 and isinstance(plain[1], exp.Literal) and not plain[1].is_string else ""
    if not (count.isascii() and count.isdigit() and len(count) <= 3 and 1 <= int(count) <= _MOST_RANKS):
        raise Refusal("arguments", f"TOP_K takes a value and a whole number between 1 and {_MOST_RANKS}, written out.")
    return [exp.Literal.number(rank) for rank in range(1, int(count) + 1)]


def _again(node: exp.Expr, name: str, args: list[exp.Expr]) -> exp.Expr:
    # Nodes know their parent; copies keep the analyst's tree unchanged.
    call = exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])
    return exp.Filter(this=call, expression=node.expression.copy()) if isinstance(node, exp.Filter) else call


def _name(node: exp.Expr) -> str:
    here = node
    while isinstance(here, (exp.Paren, exp.Filter, exp.WithinGroup, exp.Window, exp.Cast, exp.TryCast)):
        here = here.this
    if isinstance(here, exp.Column):
        return here.name or "column"
    if isinstance(here, exp.Anonymous):
        return function_name(here)
    return type(here).__name__.lower() if isinstance(here, (exp.Case, exp.Extract)) else "column"
