"""Exact aggregates inside one unit's group: functions of the multiset of values, whatever the order and the threads.

Whole and decimal numbers are summed as integers. Doubles are collected, sorted, and added up from the smallest to the
largest, one after the other; a parallel sum would depend on how rows were dealt to threads. Variances take the mean
first and then the squared distances, in the same order.
"""

from __future__ import annotations

from tacit.engines.sql.casts import cast_sql
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.scalars import condition_sql, scalar_sql
from tacit.query.relational.algebra import UnitAggregate, UnitCall
from tacit.query.types import DOUBLE, Kind

__all__ = ["SPREADS", "aggregate_sql", "call_sql", "finished", "is_listed"]

#: Variances and deviations: how much less than n they divide by, and whether the root is taken.
SPREADS = {"var_pop": (0, False), "var_samp": (1, False), "stddev_pop": (0, True), "stddev_samp": (1, True)}


def is_listed(call: UnitCall) -> bool:
    """Whether the values must be collected and sorted first."""
    double = call.argument is not None and call.argument.type.kind is Kind.DOUBLE
    return call.function in SPREADS or (double and call.function in ("sum", "avg"))


def aggregate_sql(d: Dialect, node: UnitAggregate, needed: frozenset[int], below: str) -> str:
    """One row per distinct keys: the keys, then the calls. ``below`` selects what they read."""
    keys = [scalar_sql(d, key) for key in node.keys]
    wanted = [(len(keys) + i, call) for i, call in enumerate(node.calls) if len(keys) + i in needed]
    first = [f"{key} AS g{i}" for i, key in enumerate(keys)]
    first += [f"{call_sql(d, call)} AS a{slot}" for slot, call in wanted]
    means = [f"{d.list_mean(f'a{slot}')} AS m{slot}" for slot, call in wanted if call.function in SPREADS]
    third = [f"g{slot} AS {column(slot)}" for slot in sorted(needed) if slot < len(keys)]
    third += [f"{finished(d, call, f'a{slot}', f'm{slot}')} AS {column(slot)}" for slot, call in wanted]
    # Without keys there is one row, also where none of its columns is needed.
    grouped = f"SELECT {', '.join(first) or 'count(*) AS nothing'} FROM {d.derived(below)}"
    if keys:
        # By name: a constant key would be taken for the number of a column.
        grouped += f" GROUP BY {', '.join(f'g{i}' for i in range(len(keys)))}"
    if means:
        grouped = f"SELECT *, {', '.join(means)} FROM {d.derived(grouped)}"
    return f"SELECT {', '.join(third) or '1 AS nothing'} FROM {d.derived(grouped)}"


def call_sql(d: Dialect, call: UnitCall, over: str = "") -> str:
    """The aggregate that a call starts from; lists for those that need sorted values."""
    where = "" if call.where is None else f" FILTER (WHERE {condition_sql(d, call.where)})"
    if call.argument is None:
        return f"count(*){where}{over}"
    value, kind = scalar_sql(d, call.argument), call.argument.type
    if is_listed(call):
        number = cast_sql(d, value, kind, DOUBLE)
        conditions = [f"{number} IS NOT NULL", *([] if call.where is None else [condition_sql(d, call.where)])]
        return d.collected(number, " AND ".join(conditions))
    match call.function:
        case "count_distinct":
            return f"count(DISTINCT {value}){where}"
        case "count" | "bool_and" | "bool_or":
            return f"{call.function}({value}){where}{over}"
        case "sum":
            return f"{d.total(value)}{where}{over}"
        case "min" | "max":
            return f"{d.extreme(call.function, value, kind)}{where}{over}"
        case "avg":
            total = f"CAST({d.total(value)}{where}{over} AS {d.double})"
            return f"{total} / (CAST(count({value}){where}{over} AS {d.double}) * {10**kind.scale})"
        case _:
            fraction = 0.5 if call.parameter is None else float(call.parameter)  # type: ignore[arg-type]
            return d.quantile(cast_sql(d, value, kind, DOUBLE), fraction, where, over)


def finished(d: Dialect, call: UnitCall, value: str, mean: str) -> str:
    """The result of a call from the name of its aggregate, and for spreads from the name of the mean."""
    if is_listed(call):
        return d.finite(_of_list(d, call, value, mean))
    if call.function in ("count_rows", "count", "count_distinct"):
        return f"CAST({value} AS BIGINT)"
    if call.function == "sum":
        return _total(d, call, value)
    exact = call.type.kind is not Kind.DOUBLE or call.function not in ("avg", "quantile", "median")
    return value if exact else d.finite(value)


def _total(d: Dialect, call: UnitCall, total: str) -> str:
    if call.type.kind is Kind.INTEGER:
        return d.fit_integer(total)
    if call.type.kind is Kind.DECIMAL:
        return d.fit_decimal(total)
    scale = 0 if call.argument is None else call.argument.type.scale
    return d.finite(f"CAST({total} AS {d.double}) / {10**scale}")


def _of_list(d: Dialect, call: UnitCall, values: str, mean: str) -> str:
    size = d.list_size(values)
    if call.function in ("sum", "avg"):
        total = d.list_sum(values) if call.function == "sum" else d.list_mean(values)
        return f"CASE WHEN {size} > 0 THEN {total} END"
    less, root = SPREADS[call.function]
    squares = d.list_squares(values, mean, less)
    return f"CASE WHEN {size} > {less} THEN {f'sqrt({squares})' if root else squares} END"
