"""Unit that a text states by ``privacy_unit_column``: the declared one, or a refusal."""

from __future__ import annotations

from sqlglot import exp

from tacit.query.canonical_unit import ROW
from tacit.query.catalog import Catalog
from tacit.query.refusal import Refusal


def check_stated_unit(stated: tuple[str, ...], tree: exp.Expr, catalog: Catalog) -> None:
    """Refuse a ``privacy_unit_column`` that is not the declared unit of a table that the text names."""
    units: list[str] = []
    for node in tree.find_all(exp.Table):
        table = catalog.table(node.name)
        if table is None or table.public or table.unit is None or table.unit == ROW:
            continue
        units.append(f"{table.name}.{table.unit}")
        called = (node.alias or node.name).lower()
        qualified = not stated[:-1] or stated[-2].lower() == called
        if stated[-1].lower() == table.unit.lower() and qualified:
            return
    known = f"declared are {', '.join(dict.fromkeys(units))}" if units else "the tables here declare no unit column"
    raise Refusal("option", f"privacy_unit_column names {'.'.join(stated)[:63]!r}, but the owner declares it: {known}.")
