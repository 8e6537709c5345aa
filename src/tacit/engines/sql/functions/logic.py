"""Conditions. SQL's three-valued logic is the database's own; comparisons see finite numbers and one zero only."""

from __future__ import annotations

from tacit.engines.sql.functions.lowering import Lowering, joined, plain

LOWERINGS: dict[str, Lowering] = {
    "eq": plain("({0} = {1})"),
    "ne": plain("({0} <> {1})"),
    "lt": plain("({0} < {1})"),
    "le": plain("({0} <= {1})"),
    "gt": plain("({0} > {1})"),
    "ge": plain("({0} >= {1})"),
    "same": plain("({0} IS NOT DISTINCT FROM {1})"),
    "and": joined("({0})", " AND "),
    "or": joined("({0})", " OR "),
    "not": plain("(NOT {0})"),
    "is_null": plain("({0} IS NULL)"),
    "is_true": plain("({0} IS TRUE)"),
    "coalesce": joined("coalesce({0})", ", "),
}
