"""Spellings of other databases, turned into the ones that the resolver knows.

========================================== ================================================================
written                                    read as
========================================== ================================================================
`visit cost`                               "visit cost"
FROM `hospital.visits`                     FROM hospital.visits
FETCH FIRST 5 ROWS ONLY, FETCH NEXT …      LIMIT 5
DISTINCT ON (a, b) … ORDER BY c            QUALIFY ROW_NUMBER() OVER (PARTITION BY a, b ORDER BY c) = 1
APPROX_QUANTILES(x, 4)[OFFSET(1)]          APPROX_QUANTILE(x, 0.25)
LAG(x, n, d) OVER w                        CASE WHEN LAG(1, n) OVER w IS NULL THEN d ELSE LAG(x, n) OVER w END
SELECT DISTINCT k, MEDIAN(x) OVER          SELECT k, MEDIAN(x) … GROUP BY k
  (PARTITION BY k)
SELECT MEDIAN(x) OVER () … LIMIT 1         SELECT MEDIAN(x) …
SELECT UNNEST(x) AS y FROM t                SELECT y FROM t, UNNEST(x) AS y(y)
(SELECT k, c, x …) PIVOT                   (SELECT k, SUM(x) FILTER (WHERE c = 'a') AS a … GROUP BY k)
  (SUM(x) FOR c IN ('a'))
========================================== ================================================================

Nothing is allowed here: tokens and nodes written here are checked against the allow-list like those of the analyst.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from sqlglot import exp

from tacit.query.refusal import Refusal

#: Key in the ``meta`` of a SELECT whose ORDER BY picks the rows of DISTINCT ON and does not order the result.
DISTINCT_ON: Final = "distinct_on"

#: Most digits of the number of quantiles, and of a position among them.
_LONGEST_NUMBER: Final = 9


def split_paths(tree: exp.Expr, names: Set[str]) -> None:
    """Split the paths of tables among ``names``, which are single names between backticks, as in BigQuery."""
    named = {clause.alias for clause in tree.find_all(exp.CTE)}
    for node in tree.find_all(exp.Table):
        parts = node.name.split(".")
        if node.name in names - named and len(parts) in (2, 3) and all(parts) and not node.db:
            for key, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
                node.set(key, exp.to_identifier(part, quoted=True))


def respelled_tree(tree: exp.Expr) -> exp.Expr:
    """Respell the tree, such as FETCH FIRST as LIMIT and DISTINCT ON as numbered rows; see the table above."""
    stack = [tree]
    while stack:
        node = stack.pop()
        clause = node.args.get("limit")
        if isinstance(clause, exp.Fetch):
            node.set("limit", _as_limit(clause))
        distinct = node.args.get("distinct")
        if isinstance(node, exp.Select) and isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None:
            _number_rows(node, distinct)
        if isinstance(node, exp.Bracket):
            _take_quantile(node)
        if isinstance(node, exp.Select):
            _group_windows(node)
            _list_in_from(node)
        if isinstance(node, exp.Subquery) and node.args.get("pivots"):
            _turn(node, node.args["pivots"])
        if isinstance(node, exp.Window):
            _take_default(node)
        for value in node.args.values():
            children = value if isinstance(value, list) else (value,)
            stack.extend(child for child in children if isinstance(child, exp.Expr))
    return tree


def _as_limit(clause: exp.Fetch) -> exp.Limit:
    options = clause.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise Refusal("unsupported", "FETCH takes a number of rows: write FETCH FIRST 5 ROWS ONLY, or LIMIT 5.")
    return exp.Limit(expression=clause.args.get("count") or exp.Literal.number(1))


def _number_rows(select: exp.Select, distinct: exp.Distinct) -> None:
    """Keep the first row of each group of DISTINCT ON, in the order of ORDER BY."""
    on = distinct.args["on"]
    keys = on.expressions if isinstance(on, exp.Tuple) else [on.this if isinstance(on, exp.Paren) else on]
    order = select.args.get("order")
    terms = [_term(select, term) for term in order.expressions] if order is not None else []
    first = exp.Window(
        this=exp.Anonymous(this="row_number", expressions=[]),
        partition_by=[listed_part(select, key.copy()) for key in keys],
        order=exp.Order(expressions=terms) if terms else None,
        over="OVER",
    )
    condition: exp.Expr = exp.EQ(this=first, expression=exp.Literal.number(1))
    before = select.args.get("qualify")
    if before is not None:
        condition = exp.And(this=exp.Paren(this=before.this), expression=condition)
    select.set("qualify", exp.Qualify(this=condition))
    select.set("distinct", None)
    select.meta[DISTINCT_ON] = True


def _group_windows(select: exp.Select) -> None:
    """Replace windows over whole partitions, of which DISTINCT or LIMIT 1 keeps one row each, by GROUP BY.

    All rows of a partition have the same values of windows and keys. So DISTINCT leaves one row per partition where
    every key is listed, and nothing that differs within the partition.
    """
    items = select.expressions
    found = [node for item in items for node in item.find_all(exp.Window)]
    limit, keys = select.args.get("limit"), found[0].args.get("partition_by") or [] if found else []
    one = isinstance(limit, exp.Limit) and limit.expression.name == "1" and not keys
    if not found or any(item.find(exp.Query) for item in items) or not (one or select.args.get("distinct") is not None):
        return
    plain = all(
        (node.args.get("partition_by") or []) == keys
        and not any(node.args.get(name) for name in ("order", "spec", "alias"))
        and function_of(node.this) not in _ROW_BY_ROW
        for node in found
    )
    listed = [item.this if isinstance(item, exp.Alias) else item for item in items]
    others = [c for item in listed if item not in keys for c in item.find_all(exp.Column, exp.Star)]
    inside = {id(c) for node in found for c in node.find_all(exp.Column, exp.Star)}
    clauses = any(select.args.get(name) for name in ("group", "having", "qualify", "windows"))
    ordered = select.args.get("order") is not None and select.args["order"].find(exp.Window) is not None
    if (
        not plain or clauses or ordered or any(key not in listed for key in keys)
        or any(id(c) not in inside and c not in keys for c in others)
    ):  # fmt: skip
        return
    for node in found:
        node.replace(node.this)
    if keys:
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    select.set("distinct", None)
    if one:
        select.set("limit", None)


#: Windows whose value differs from row to row of a partition.
_ROW_BY_ROW: Final = frozenset(
    ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value",
     "last_value", "")
)  # fmt: skip


def function_of(node: exp.Expr) -> str:
    """Return the lower-case name of a call, also of one with FILTER or WITHIN GROUP; empty for any other node."""
    while isinstance(node, (exp.Filter, exp.WithinGroup)):
        node = node.this
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _list_in_from(select: exp.Select) -> None:
    """Move UNNEST from the SELECT list to FROM."""
    for item in select.expressions:
        called = item.this if isinstance(item, exp.Alias) else item
        if function_of(called) == "unnest" and len(called.expressions) == 1 and select.args.get("from_") is not None:
            name = exp.to_identifier(item.alias or "unnest")
            alias = exp.TableAlias(this=name, columns=[name.copy()])
            listed = exp.Unnest(expressions=[called.expressions[0].copy()], alias=alias)
            select.set("joins", [*(select.args.get("joins") or []), exp.Join(this=listed)])
            item.replace(exp.Column(this=name.copy(), table=name.copy()))


def _turn(node: exp.Subquery, pivots: list[exp.Expr]) -> None:
    """Replace PIVOT by aggregates with FILTER, grouped by all columns that PIVOT does not read."""
    pivot, rows = pivots[0], node.this
    field = (pivot.args.get("fields") or [None])[0]
    wanted = [(v.this if isinstance(v, exp.PivotAlias) else v) for v in field.expressions] if field is not None else []
    calls = [part.this if isinstance(part, exp.Alias) else part for part in pivot.expressions]
    names = [item.alias_or_name for item in rows.expressions] if isinstance(rows, exp.Select) else []
    columns = pivot.args.get("columns") or []
    if (
        len(pivots) != 1 or len(pivot.args.get("fields") or []) != 1 or pivot.args.get("unpivot") or not all(names)
        or not names or "*" in names or not isinstance(field, exp.In) or len(columns) != len(wanted) * len(calls)
        or any(function_of(called) == "" for called in calls)
    ):  # fmt: skip
        raise Refusal(
            "unsupported",
            "PIVOT groups by every column that it does not name, so list all: FROM (SELECT sex, ward, cost FROM "
            "visits) PIVOT (SUM(cost) FOR ward IN ('a', 'b')); or write SUM(cost) FILTER (WHERE ward = 'a').",
        )
    read = {c.name.lower() for part in (field.this, *calls) for c in part.find_all(exp.Column)}
    keys = [exp.column(exp.to_identifier(name)) for name in names if name.lower() not in read]
    made = [
        exp.Filter(
            this=called.copy(), expression=exp.Where(this=exp.EQ(this=field.this.copy(), expression=value.copy()))
        )
        for value in wanted
        for called in calls
    ]
    turned = exp.Select(
        expressions=[*keys, *(exp.Alias(this=f, alias=c.copy()) for f, c in zip(made, columns, strict=True))],
        from_=exp.From(this=exp.Subquery(this=rows.copy(), alias=exp.TableAlias(this=exp.to_identifier("unpivoted")))),
    )
    if keys:
        turned.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    node.set("this", turned)
    node.set("alias", pivot.args.get("alias") or node.args.get("alias"))
    node.set("pivots", None)


def _take_default(node: exp.Window) -> None:
    """Apply the third argument of LAG and LEAD where the row does not exist; a NULL of an existing row stays."""
    called = node.this
    if function_of(called) not in ("lag", "lead") or len(called.expressions) != 3:
        return
    value, offset, default = called.expressions
    over, there = node.copy(), node.copy()
    over.this.set("expressions", [value.copy(), offset.copy()])
    there.this.set("expressions", [exp.Literal.number(1), offset.copy()])
    missing = exp.Is(this=there, expression=exp.Null())
    node.replace(exp.Paren(this=exp.Case(ifs=[exp.If(this=missing, true=default.copy())], default=over)))


def _take_quantile(node: exp.Bracket) -> None:
    """Replace an item of APPROX_QUANTILES, counted from 0 by OFFSET and from 1 by ORDINAL, by one quantile.

    Raises:
        Refusal: neither word is there; a plain index counts from 0 in some systems and from 1 in others.
    """
    called, places = node.this, node.expressions
    if not isinstance(called, exp.Anonymous) or called.name.lower() != "approx_quantiles" or len(places) != 1:
        return
    place = places[0]
    if not isinstance(place, exp.Anonymous) or len(place.expressions) != 1:
        raise Refusal("arguments", "Write [OFFSET(1)], counted from 0, or [ORDINAL(2)], counted from 1.")
    start = {"offset": 0, "safe_offset": 0, "ordinal": 1, "safe_ordinal": 1}.get(place.name.lower(), -1)
    place = place.expressions[0]
    numbers = [part.name for part in (*called.expressions[1:], place) if isinstance(part, exp.Literal)]
    whole = all(n.isascii() and n.isdigit() and len(n) <= _LONGEST_NUMBER for n in numbers)
    if len(called.expressions) != 2 or len(numbers) != 2 or not whole:
        return
    parts, taken = int(numbers[0]), int(numbers[1]) - start
    if start >= 0 and parts and 0 <= taken <= parts:
        fraction = exp.Literal.number(str(round(taken / parts, 12)))
        node.replace(exp.Anonymous(this="approx_quantile", expressions=[called.expressions[0].copy(), fraction]))


def _term(select: exp.Select, term: exp.Expr) -> exp.Expr:
    again = term.copy()
    again.set("this", listed_part(select, again.this))
    return again


def listed_part(select: exp.Select, node: exp.Expr) -> exp.Expr:
    """Return the expression that a position of the SELECT list, or an alias in it, stands for."""
    items = select.expressions
    place = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if place.isascii() and place.isdigit() and len(place) < 5 and 1 <= int(place) <= len(items):
        item: exp.Expr = items[int(place) - 1]
        inner: exp.Expr = item.this if isinstance(item, exp.Alias) else item
        return inner.copy()
    if isinstance(node, exp.Column) and not node.table:
        for item in items:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                given: exp.Expr = item.this
                return given.copy()
    return node
