"""Exact aggregates inside one unit's group: functions of the multiset of values, whatever the order and the threads.

Whole and decimal numbers are summed as integers. Doubles are collected, sorted, and added up from the smallest to the
largest, one after the other; a parallel sum would depend on how rows were dealt to threads. Variances take the mean
first and then the squared distances, in the same order.
"""

from __future__ import annotations

from tacit.engines.duckdb.casts import cast_sql
from tacit.engines.duckdb.scalars import scalar_sql
from tacit.engines.duckdb.spelling import column, constant, finite, fit_decimal, fit_integer
from tacit.query.algebra import UnitAggregate, UnitCall
from tacit.query.types import DOUBLE, Kind, SqlType

__all__ = ["SPREADS", "aggregate_sql", "call_sql", "is_listed", "plain_call"]

#: Variances and deviations: how much less than n they divide by, and whether the root is taken.
SPREADS = {"var_pop": (0, False), "var_samp": (1, False), "stddev_pop": (0, True), "stddev_samp": (1, True)}


def is_listed(call: UnitCall) -> bool:
    """Whether the values must be collected and sorted first."""
    double = call.argument is not None and call.argument.type.kind is Kind.DOUBLE
    return call.function in SPREADS or (double and call.function in ("sum", "avg"))


def aggregate_sql(node: UnitAggregate, needed: frozenset[int], below: str) -> str:
    """One row per distinct keys: the keys, then the calls. ``below`` selects what they read."""
    keys = [scalar_sql(key) for key in node.keys]
    wanted = [(len(keys) + i, call) for i, call in enumerate(node.calls) if len(keys) + i in needed]
    first = [f"{key} AS g{i}" for i, key in enumerate(keys)]
    first += [f"{call_sql(call)} AS a{slot}" for slot, call in wanted]
    second = [
        "*",
        *(f"list_sum(a{slot}) / len(a{slot}) AS m{slot}" for slot, call in wanted if call.function in SPREADS),
    ]
    third = [f"g{slot} AS {column(slot)}" for slot in sorted(needed) if slot < len(keys)]
    third += [f"{_finished(call, slot)} AS {column(slot)}" for slot, call in wanted]
    # Without keys there is one row, also where none of its columns is needed.
    grouped = f"SELECT {', '.join(first) or 'count(*) AS nothing'} FROM ({below})"
    if keys:
        grouped += f" GROUP BY {', '.join(keys)}"
    return f"SELECT {', '.join(third) or '1 AS nothing'} FROM (SELECT {', '.join(second)} FROM ({grouped}))"


def call_sql(call: UnitCall, over: str = "") -> str:
    """The DuckDB aggregate that a call starts from; lists for those that need sorted values."""
    where = "" if call.where is None else f" FILTER (WHERE {scalar_sql(call.where)})"
    if call.argument is None:
        return f"count(*){where}{over}"
    value, kind = scalar_sql(call.argument), call.argument.type
    if is_listed(call):
        number = cast_sql(value, kind, DOUBLE)
        conditions = [f"{number} IS NOT NULL", *([] if call.where is None else [scalar_sql(call.where)])]
        return f"list_sort(list({number}) FILTER (WHERE {' AND '.join(conditions)}))"
    match call.function:
        case "count_distinct":
            return f"count(DISTINCT {value}){where}"
        case "count" | "min" | "max" | "bool_and" | "bool_or":
            return f"{call.function}({value}){where}{over}"
        case "sum":
            return _total(f"sum({value}){where}{over}", kind, call.type)
        case "avg":
            total = f"CAST(sum({value}){where}{over} AS DOUBLE)"
            return f"{total} / (CAST(count({value}){where}{over} AS DOUBLE) * {10**kind.scale})"
        case _:
            fraction = 0.5 if call.parameter is None else float(call.parameter)  # type: ignore[arg-type]
            place = constant(fraction, DOUBLE)
            return finite(f"quantile_cont({cast_sql(value, kind, DOUBLE)}, {place}){where}{over}")


def plain_call(call: UnitCall, over: str) -> str:
    """A call that needs no list, over a window."""
    return _typed(call_sql(call, over), call)


def _total(total: str, kind: SqlType, result: SqlType) -> str:
    if result.kind is Kind.INTEGER:
        return fit_integer(total)
    if result.kind is Kind.DECIMAL:
        return fit_decimal(total)
    return f"CAST({total} AS DOUBLE) / {10**kind.scale}"


def _finished(call: UnitCall, slot: int) -> str:
    values = f"a{slot}"
    if not is_listed(call):
        return _typed(values, call)
    if call.function == "sum":
        return finite(f"CASE WHEN len({values}) > 0 THEN list_sum({values}) END")
    if call.function == "avg":
        return finite(f"CASE WHEN len({values}) > 0 THEN list_sum({values}) / len({values}) END")
    less, root = SPREADS[call.function]
    squares = f"list_sum(list_transform({values}, lambda e: (e - m{slot}) * (e - m{slot}))) / (len({values}) - {less})"
    spread = f"CASE WHEN len({values}) > {less} THEN {f'sqrt({squares})' if root else squares} END"
    return finite(spread)


def _typed(value: str, call: UnitCall) -> str:
    """Counts as BIGINT, averages finite; everything else already is what it should be."""
    if call.function in ("count_rows", "count", "count_distinct"):
        return f"CAST({value} AS BIGINT)"
    return finite(value) if call.type.kind is Kind.DOUBLE and call.function in ("sum", "avg") else value
