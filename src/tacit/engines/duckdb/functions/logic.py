"""Conditions. SQL's three-valued logic is DuckDB's own; comparisons see finite numbers and one zero only."""

from __future__ import annotations

from tacit.engines.duckdb.functions.shape import Args, Lowering, plain
from tacit.query.expressions import Call

__all__ = ["LOWERINGS"]


def _joined(word: str) -> Lowering:
    def lower(node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
        return "(" + f" {word} ".join(args) + ")"

    return lower


def _first(node: Call, args: Args) -> str:  # noqa: ARG001
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
    # LIKE has no escape character.
    "like": plain("({0} LIKE {1})"),
    "ilike": plain("(lower({0}) LIKE lower({1}))"),
}
