"""Order of joins that FROM lists with commas, and the equalities of WHERE that connect them.

``FROM a, b, c WHERE a.x = c.x AND b.y = c.y`` says nothing about an order, and in the order of the text a and b would
meet in all pairs. Tables are taken one after the other instead, each time the first one that some equality of WHERE
connects with those before it; one that nothing connects waits until there is no other. That equality is then the
condition of the join. WHERE is applied afterwards as it stands, so that the rows are the same in every order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import TRUE, Expression, references
from tacit.query.relational.functions import call
from tacit.query.resolve.scalars import Scalars, Scope, ScopeSource, conjuncts_of

__all__ = ["comma_runs", "connecting", "in_written_order", "is_comma"]


def is_comma(join: exp.Join) -> bool:
    """Whether a join is a comma, or CROSS JOIN: a pair of tables without a condition of its own."""
    stated = ("on", "using", "method", "side")
    return not any(join.args.get(name) for name in stated) and str(join.args.get("kind") or "CROSS").upper() == "CROSS"


def comma_runs(joins: Sequence[exp.Join]) -> Iterator[list[exp.Join]]:
    """The joins in order, those that stand next to one another without conditions together."""
    run: list[exp.Join] = []
    for join in joins:
        if is_comma(join):
            run.append(join)
            continue
        if run:
            yield run
            run = []
        yield [join]
    if run:
        yield run


def connecting(both: Scope, select: exp.Select, width: int) -> Expression:
    """The equalities of WHERE that read columns on both sides of slot ``width``; TRUE where there are none."""
    where = select.args.get("where")
    if where is None:
        return TRUE
    found: list[Expression] = []
    for part in _equalities(where.this):
        try:
            condition = Scalars(both, "WHERE").condition(part)
        except Refusal:
            continue
        slots = [reference.slot for reference in references(condition)]
        if any(slot < width for slot in slots) and any(slot >= width for slot in slots) and condition not in found:
            found.append(condition)
    if not found:
        return TRUE
    return found[0] if len(found) == 1 else call("and", *found)


def _equalities(node: exp.Expr) -> list[exp.Expr]:
    """Equalities that hold wherever a condition is true: its conjuncts, and those that all parts of an OR share."""
    found: list[exp.Expr] = []
    for part in conjuncts_of(node, exp.And):
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.EQ):
            found.append(inner)
        elif isinstance(inner, exp.Or):
            branches = [_equalities(branch) for branch in conjuncts_of(inner, exp.Or)]
            found.extend(one for one in branches[0] if all(one in others for others in branches[1:]))
    return found


def in_written_order(scope: Scope, aliases: Sequence[Sequence[ScopeSource]]) -> Scope:
    """The names with sources in the order of FROM, so that ``*`` lists columns as they are written."""
    wanted = [source.alias.lower() for group in aliases for source in group]
    places = {alias: place for place, alias in enumerate(wanted)}
    ordered = sorted(scope.sources, key=lambda source: places.get(source.alias.lower(), len(places)))
    return Scope(tuple(ordered), scope.merged)
