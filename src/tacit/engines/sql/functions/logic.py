"""Conditions. SQL's three-valued logic is the database's own; comparisons see finite numbers and one zero only."""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.lowering import Args, Lowering, plain
from tacit.query.relational.expressions import Call


def _joined(word: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
        return "(" + f" {word} ".join(args) + ")"

    return lower


def _first(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return f"coalesce({', '.join(args)})"


LOWERINGS: dict[str, Lowering] = {
    "eq": plain("({0} = {1})"),
    "ne": plain("({0} <> {1})"),
    "lt": plain("({0} < {1})"),
    "le": plain("({0} <= {1})"),
    "gt": plain("({0} > {1})"),
    "ge": plain("({0} >= {1})"),
    "same": plain("({0} IS NOT DISTINCT FROM {1})"),
    "and": _joined("AND"),
    "or": _joined("OR"),
    "not": plain("(NOT {0})"),
    "is_null": plain("({0} IS NULL)"),
    "is_true": plain("({0} IS TRUE)"),
    "coalesce": _first,
}
