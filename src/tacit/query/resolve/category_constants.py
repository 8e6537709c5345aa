"""Constants that a column of declared categories never equals: a misspelt filter is refused before it is charged.

The check reads the query's text and declarations alone. It looks at ``column = 'text'``, ``<>`` and ``IN`` where the
name stands for one declared column, and for nothing that the query itself names so.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice
from typing import Final

from sqlglot import exp

from tacit.query.catalog import Catalog, Column, Table
from tacit.query.refusal import Refusal

#: Constants of one query, categories of one column, and characters of a text, that are compared.
_MOST_CONSTANTS: Final = 50
_MOST_CATEGORIES: Final = 300
_LONGEST: Final = 60
#: Likeness from which on a text is taken for a misspelt category.
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
    """Name of a column, a text that it is compared with and that is no category, and the category spelt most alike.

    A text that is like none is let through: rows may hold values beyond the declared ones, and a filter finds them.
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
        if len(known.categories) > _MOST_CATEGORIES or len(constant.name) > _LONGEST:
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
    """The column of that name of all tables of the query, if they declare one list of texts for it."""
    found = [
        column for table in dict.fromkeys(tables) for column in table.columns if column.name.lower() == name.lower()
    ]
    lists = {column.categories for column in found}
    texts = all(isinstance(each, str | None) for column in found for each in column.categories or ())
    return found[0] if len(lists) == 1 and texts else None
