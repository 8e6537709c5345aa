"""Suggestions: the nearest query that is accepted, for a query that is refused.

A refused text is changed in a few ways, those that fit the reason of its refusal first, and each result is resolved as
if the analyst had sent it; the first that is accepted is shown. So a suggestion is accepted by construction, and like
the refusal itself it is a function of text and public metadata. Every change has a description of what is different or
left out; a change without a description keeps the meaning. Edits and tries are few, and a text that is too long or
cannot be read gets no suggestion.

A constant that a column of declared categories never equals (a misspelt filter) is refused before it is charged. The
check reads the query's text and declarations alone. It looks at ``column = 'text'``, ``<>`` and ``IN`` where the name
stands for one declared column, and the query itself gives that name to nothing else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from sqlglot import exp

from tacit.query.aggregates import SQL_NAMES
from tacit.query.catalog import ROW, Catalog, Column, Table
from tacit.query.parsing.parse import disallowed, read_tree, text_of_tree
from tacit.query.refusal import Proposal, Refusal
from tacit.query.resolve.scalars import function_name, has_aggregate, is_aggregate
from tacit.query.resolve.sql_functions import function_meanings

# -- constants that a column of declared categories never equals

#: Largest numbers of constants of one query, categories of one column, and characters of a text that are compared.
_MOST_CONSTANTS: Final = 50
_MOST_CATEGORIES: Final = 300
_LONGEST_CONSTANT: Final = 60
#: Similarity from which on a text is taken for a misspelt category.
_NEAR: Final = 0.7


def check_category_constants(tree: exp.Expr, catalog: Catalog) -> None:
    """Refuse a comparison of a categorical column with a text that is none of its categories.

    Raises:
        Refusal: names the nearest category.
    """
    for name, constant, near in misspelt_constants(tree, catalog):
        raise Refusal(
            "category",
            f"{constant.name[:40]!r} is none of the categories of {name!r}; the nearest is {near!r}.",
            at=constant.name,
        )


def misspelt_constants(tree: exp.Expr, catalog: Catalog) -> Iterator[tuple[str, exp.Literal, str]]:
    """Yield the column, the text it is compared with, which is no category, and the most similar category.

    A text that is similar to no category is accepted: rows may hold undeclared values, which a filter finds.
    """
    tables = [(node.alias_or_name, catalog.table(node.name)) for node in tree.find_all(exp.Table)]
    protected = [(alias.lower(), table) for alias, table in tables if table is not None and not table.public]
    renamed = {node.alias.lower() for node in tree.find_all(exp.Alias)}
    renamed |= {each.name.lower() for node in tree.find_all(exp.TableAlias) for each in node.args.get("columns") or []}
    for column, constant in islice(_comparisons(tree), _MOST_CONSTANTS):
        read = [table for alias, table in protected if column.table.lower() in ("", alias)]
        known = None if column.name.lower() in renamed else _declared(column.name, read)
        if known is None or known.categories is None or constant.name in known.categories:
            continue
        if len(known.categories) > _MOST_CATEGORIES or len(constant.name) > _LONGEST_CONSTANT:
            continue
        folded = {str(each).casefold(): str(each) for each in reversed(known.categories) if each is not None}
        near = difflib.get_close_matches(constant.name.casefold().strip(), folded, n=1, cutoff=_NEAR)
        if near:
            yield known.name, constant, folded[near[0]]


def _comparisons(tree: exp.Expr) -> Iterator[tuple[exp.Column, exp.Literal]]:
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.In):
        sides = [node.this, *node.expressions] if isinstance(node, exp.In) else [node.this, node.expression]
        columns = [side for side in sides if isinstance(side, exp.Column) and not isinstance(side.this, exp.Star)]
        constants = [side for side in sides if isinstance(side, exp.Literal) and side.is_string]
        if len(columns) == 1:
            yield from ((columns[0], constant) for constant in constants)


def _declared(name: str, tables: list[Table]) -> Column | None:
    """Return the one column of that name in the tables of the query, if they all declare the same texts for it."""
    found = [
        column for table in dict.fromkeys(tables) for column in table.columns if column.name.lower() == name.lower()
    ]
    lists = {column.categories for column in found}
    texts = all(isinstance(each, str | None) for column in found for each in column.categories or ())
    return found[0] if len(lists) == 1 and texts else None


# -- suggestions

#: Longest text that suggestions are sought for, in characters.
_LONGEST: Final = 2_000
#: Longest suggestion, in characters.
_SHOWN: Final = 400
#: Largest number of changed texts that are resolved.
_TRIES: Final = 12
#: A changed tree, and a text on what is different in it; empty where the meaning is the same.
Changed = tuple[str, exp.Expr]
Edit = Callable[[exp.Query, Catalog], Iterator[Changed]]


def nearest_query(sql: str, reason: str, catalog: Catalog, accepts: Callable[[str], bool]) -> Proposal | None:
    """Return an accepted query near ``sql``, or None."""
    if len(sql) > _LONGEST or reason in _UNREAD:
        return None
    seen = {" ".join(sql.split())}
    for change, text in _candidates(sql, reason, catalog):
        plain = " ".join(text.split())
        if plain in seen or len(text) > _SHOWN:
            continue
        if len(seen) > _TRIES:
            return None
        seen.add(plain)
        if accepts(text):
            return Proposal(text, change.replace(":", " "))
    return None


#: Reasons of refusals of texts that are empty or too large to change.
_UNREAD: Final = ("empty", "too_long", "too_deep", "too_large", "work")


def _candidates(sql: str, reason: str, catalog: Catalog) -> Iterator[tuple[str, str]]:
    yield from _texts(sql, reason)
    try:
        tree = read_tree(sql)
    except Refusal:
        return
    lost = "without its options" if _OPTIONS.search(sql) else ""
    for edit in _EDITS.get(reason, ()):
        try:
            for change, changed in edit(tree.copy(), catalog):
                # A tree holds no OPTIONS.
                yield ", ".join(filter(None, (lost, change))), text_of_tree(changed)
        except Exception:  # noqa: S112 - hostile text, changed by hand: a suggestion is a courtesy, a refusal stays one
            continue


# -- texts

_START: Final = re.compile(r"\b(SELECT|WITH)\b", re.IGNORECASE)
_OPTIONS: Final = re.compile(r"\bWITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\([^)]*\))?", re.IGNORECASE)


def _texts(sql: str, reason: str) -> Iterator[tuple[str, str]]:
    """Yield changes of the text itself, for refusals that come before there is a tree."""
    if reason == "several_statements":
        yield "the first statement alone", sql.split(";", 1)[0]
    elif reason == "option":
        yield "without its options", " ".join(_OPTIONS.sub(" ", sql).split())
    elif reason == "statement":
        begin = _START.search(sql)
        if begin is not None:
            yield "the SELECT alone", sql[begin.start() :].rstrip(" );")


# -- names


def _tables(tree: exp.Expr, catalog: Catalog) -> list[tuple[str, Table]]:
    """Return the tables of a text, by their names or aliases in it."""
    found = []
    for node in tree.find_all(exp.Table):
        table = catalog.table(node.name)
        if table is not None:
            found.append((node.alias or node.name, table))
    return found


def _close(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    return difflib.get_close_matches(name.lower(), [word.lower() for word in known], n=2, cutoff=cutoff)


def _instead_of(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a text such as ``with cost for costs``."""
    said = [f"{new} for {old}" for old, new in dict.fromkeys(pairs)]
    return f"with {' and '.join(said)}" if said else ""


def _one_row_each(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    """Yield the query with DISTINCT: one row per partition, where windows have one value in all of its rows."""
    if isinstance(tree, exp.Select) and tree.find(exp.Window) and not tree.args.get("distinct"):
        tree.set("distinct", exp.Distinct())
        yield "with one row for each partition", tree


def _known_table(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    renamed = []
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier):
            continue
        wrong = catalog.table(node.name) is None
        if node.db:
            renamed.append((f"{node.db}.{node.name}", node.name))
        node.set("db", None)
        node.set("catalog", None)
        close = _close(node.name, (table.name for table in catalog.tables)) if wrong else []
        if close:
            renamed.append((node.name, close[0]))
            node.set("this", exp.to_identifier(close[0]))
    yield _instead_of(renamed), tree


def _known_column(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    renamed = []
    tables = _tables(tree, catalog)
    known = {column.name.lower() for _, table in tables for column in table.columns}
    known |= {node.alias.lower() for node in tree.find_all(exp.Alias)}
    for node in tree.find_all(exp.Column):
        if not isinstance(node.this, exp.Identifier):
            continue
        if node.table and node.table.lower() not in {name.lower() for name, _ in tables}:
            renamed.append((f"{node.table}.{node.name}", node.name))
            node.set("table", None)
        node.set("db", None)
        close = [] if node.name.lower() in known else _close(node.name, known)
        if close:
            renamed.append((node.name, close[0]))
            node.set("this", exp.to_identifier(close[0]))
    yield _instead_of(renamed), tree


def _quoted_column(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    """Yield the query with a name of two words in quotes, where it was read as a column and its alias."""
    known = {column.name.lower(): column.name for _, table in _tables(tree, catalog) for column in table.columns}
    meant = [
        (node, name)
        for node in tree.find_all(exp.Alias)
        if isinstance(node.this, exp.Column) and (name := known.get(f"{node.this.name} {node.alias}".lower()))
    ]
    for node, name in meant:
        node.replace(exp.Column(this=exp.to_identifier(name, quoted=True), table=node.this.args.get("table")))
    if meant:
        yield "with quotes around a name of two words", tree
        yield from _counted(tree, catalog)


def _qualified(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    tables, renamed = _tables(tree, catalog), []
    for node in tree.find_all(exp.Column):
        owners = [name for name, table in tables if table.find(node.name) is not None]
        if not node.table and len(owners) > 1:
            renamed.append((node.name, f"{owners[0]}.{node.name}"))
            node.set("table", exp.to_identifier(owners[0]))
    yield _instead_of(renamed), tree


# -- clauses


def _without_unsupported(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    gone = []
    for node, name in disallowed(tree):
        if name:
            gone.append(f"the {name.strip('_')} of {type(node).__name__.upper()}")
            node.args.pop(name, None)
    if gone:
        yield f"without {' and '.join(dict.fromkeys(gone))}", tree


def _unordered_below(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    gone = set()
    for node in tree.find_all(exp.Query):
        if node is not tree:
            gone |= {name.upper() for name in ("order", "limit", "offset") if node.args.pop(name, None) is not None}
    # Without a LIMIT the order of inner rows has no effect.
    yield f"without {' and '.join(sorted(gone))} below" if gone - {"ORDER"} else "", tree


def _calling(name: str, *args: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[arg.copy() for arg in args])


def _auto_clamped(value: exp.Expr) -> exp.Anonymous:
    return _calling("CLAMP", value, exp.column("AUTO"))


def _counted(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    """Yield the number of rows instead of the rows."""
    if isinstance(tree, exp.Select) and not any(tree.args.get(name) for name in ("group", "distinct", "having")):
        plain = tree.copy()
        for name in ("order", "limit", "offset", "qualify"):
            plain.args.pop(name, None)
        plain.set("expressions", [_calling("COUNT", exp.Star())])
        yield "the number of rows instead of the rows", plain


def _over_persons(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    """Yield an aggregation over a result that has a row per person."""
    inner = tree.copy()
    for name in ("order", "limit", "offset"):
        inner.args.pop(name, None)
    named = [e for e in inner.expressions if isinstance(e, exp.Alias) and has_aggregate(e.this)]
    with_ = inner.args.pop("with_", None)
    if named:
        average = _calling("AVG", _auto_clamped(exp.column(named[0].alias)))
        yield f"the average of {named[0].alias} instead of each row", _around(inner, average, with_)
    yield "the number of rows instead of the rows", _around(inner, _calling("COUNT", exp.Star()), with_)


def _around(inner: exp.Query, item: exp.Expr, with_: exp.Expr | None) -> exp.Select:
    select = exp.select(item).from_(inner.copy().subquery("t", copy=False))
    select.set("with_", with_ and with_.copy())
    return select


def _grouped(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    """Yield the query with all items without an aggregate as keys."""
    if isinstance(tree, exp.Select) and any(has_aggregate(item) for item in tree.expressions):
        keys = [item.unalias().copy() for item in tree.expressions if not has_aggregate(item)]
        if keys and not any(isinstance(key, exp.Star) for key in keys):
            tree.set("group", exp.Group(expressions=keys))
            yield "in groups by all columns that are no aggregates", tree


def _partitioned(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    """Yield the query with its windows partitioned by the unit."""
    units = [table.unit for _, table in _tables(tree, catalog) if table.unit not in (None, ROW)]
    for node in tree.find_all(exp.Window):
        before = node.args.get("partition_by") or []
        if units and not any(isinstance(part, exp.Column) and part.name in units for part in before):
            node.set("partition_by", [exp.column(units[0]), *before])
    for distinct in tree.find_all(exp.Distinct):
        on = distinct.args.get("on")
        if on is not None and units:
            distinct.set("on", exp.Tuple(expressions=[exp.column(units[0]), *getattr(on, "expressions", [])]))
    yield "within the rows of each person", tree


def _joined_on_units(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    """Yield joins of protected tables on their units, and inner joins where rows of no person would stay."""
    for select in tree.find_all(exp.Select):
        start = select.args.get("from_")
        owned: list[tuple[str, Table]] = []
        if start is not None:
            owned += [(n, t) for n, t in _tables(start, catalog) if not t.public and t.unit not in (None, ROW)]
        for join in select.args.get("joins") or []:
            here = [(n, t) for n, t in _tables(join.this, catalog) if not t.public and t.unit not in (None, ROW)]
            if owned and here:
                sides = [exp.column(str(t.unit), table=n) for n, t in (owned[0], here[0])]
                equal = exp.EQ(this=sides[0], expression=sides[1])
                for name in ("kind", "method", "using"):
                    join.args.pop(name, None)
                on = join.args.get("on")
                join.set("on", equal if on is None else exp.And(this=on, expression=equal))
            elif not owned or not here:
                join.args.pop("side", None)
                join.args.pop("method", None)
            owned += here
    yield "joining rows of one person alone, or by inner joins", tree


# -- calls


def _bounded(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    """Yield the outermost SELECT with bounds of its aggregates that are found privately, or stated."""
    for part in tree.expressions if isinstance(tree, exp.Select) else []:
        for node in [node for node in part.find_all(exp.Anonymous) if is_aggregate(node) and node.expressions]:
            node.set("expressions", [arg for arg in node.expressions if not isinstance(arg, exp.Kwarg)])
            argument = node.expressions[0] if node.expressions else exp.Star()
            if function_name(node) in SQL_NAMES and not isinstance(argument, (exp.Star, exp.Distinct)):
                value = argument.expressions[0] if _is_clamp(argument) else argument
                argument.replace(_auto_clamped(value))
    yield "with bounds that are found privately", tree.copy()
    # Some aggregates take stated bounds alone.
    for node in [node for node in tree.find_all(exp.Anonymous) if _is_clamp(node) and len(node.expressions) == 2]:
        node.set("expressions", [node.expressions[0], exp.Literal.number(0), exp.Literal.number(100)])
    yield "with bounds of your own in place of 0 and 100", tree


def _is_clamp(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and function_name(node) == "clamp"


def _from_utc(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    """Yield times in UTC converted to the clock of the zone that is named."""
    alone = [node for node in tree.find_all(exp.AtTimeZone) if not isinstance(node.this, exp.AtTimeZone)]
    for node in alone:
        node.set("this", exp.AtTimeZone(this=node.this.copy(), zone=exp.Literal.string("UTC")))
    if alone:
        yield "for times that are in UTC", tree


def _known_function(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:  # noqa: ARG001
    known, renamed = [*function_meanings(), *SQL_NAMES], []
    for node in tree.find_all(exp.Anonymous):
        # Known functions of other databases are no spelling mistakes.
        foreign = function_name(node).upper() in exp.FUNCTION_BY_NAME
        close = [] if foreign or function_name(node) in known else _close(function_name(node), known, 0.8)
        if close:
            renamed.append((function_name(node).upper(), close[0].upper()))
            node.set("this", close[0].upper())
    yield _instead_of(renamed), tree


def _known_category(tree: exp.Query, catalog: Catalog) -> Iterator[Changed]:
    pairs = [(node, near) for _, node, near in misspelt_constants(tree, catalog)]
    said = _instead_of((node.name, near) for node, near in pairs)
    for node, near in pairs:
        node.replace(exp.Literal.string(near))
    yield said, tree


# -- parts left out


_EDITS: Final[dict[str, tuple[Edit, ...]]] = {
    "unknown_table": (_known_table,),
    "unknown_column": (_quoted_column, _known_column),
    "ambiguous_column": (_qualified,),
    "unsupported": (_from_utc, _without_unsupported),
    "sample": (_without_unsupported,),
    "limit_below": (_unordered_below,),
    "not_aggregated": (_grouped, _counted),
    "unit_exposed": (_over_persons,),
    "window": (_one_row_each, _partitioned, _without_unsupported),
    "join": (_joined_on_units,),
    "join_kind": (_joined_on_units,),
    "bounds": (_bounded,),
    "contribution_bounds": (_bounded,),
    "function": (_known_function,),
    "category": (_known_category,),
}
