"""Windows over one unit's rows.

The order of a window is completed by all columns of the source, so that rows which still tie are equal and it does
not matter which comes first. Sums of doubles over a whole partition are computed as an aggregate and joined back; a
running one cannot be made independent of DuckDB's own partitioning and is refused before any data is read.
"""

from __future__ import annotations

from tacit.engines.duckdb.aggregates import aggregate_sql, is_listed, plain_call
from tacit.engines.duckdb.scalars import scalar_sql
from tacit.engines.duckdb.spelling import column
from tacit.query.algebra import Field, SortKey, UnitAggregate, UnitCall, UnitWindow, WindowCall, WindowFrame
from tacit.query.refusal import Refusal

__all__ = ["check_window", "window_sql"]

_RANKS = ("rank", "dense_rank")
_PLACES = ("row_number", "lag", "lead")
_SO_FAR = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def check_window(call: WindowCall) -> None:
    """Refuse running sums of doubles."""
    if _is_joined(call) and call.frame is not WindowFrame.PARTITION:
        raise Refusal(
            "window",
            "A running sum, average or variance needs exact numbers; CAST the value to DECIMAL or INTEGER first.",
        )


def window_sql(node: UnitWindow, needed: frozenset[int], below: str) -> str:
    """The columns of the source, then one per window; ``below`` selects every column of the source."""
    width = len(node.source.fields)
    calls = {width + i: call for i, call in enumerate(node.calls) if width + i in needed}
    joined = {slot: call for slot, call in calls.items() if _is_joined(call)}
    columns = [column(slot) for slot in sorted(needed) if slot < width]
    columns += [f"{_over(call, node)} AS {column(slot)}" for slot, call in calls.items() if slot not in joined]
    partitions = {slot: [scalar_sql(part) for part in call.partition] for slot, call in joined.items()}
    columns += [f"{key} AS p{slot}_{i}" for slot, keys in partitions.items() for i, key in enumerate(keys)]
    rows = f"SELECT {', '.join(columns) or '1 AS nothing'} FROM source"
    if not joined:
        return f"WITH source AS ({below}) {rows}"
    outer = [f"l.{column(slot)}" if slot not in joined else f"w{slot}.x AS {column(slot)}" for slot in sorted(needed)]
    joins = "".join(_joined(slot, call, node) for slot, call in joined.items())
    return f"WITH source AS MATERIALIZED ({below}) SELECT {', '.join(outer)} FROM ({rows}) AS l{joins}"


def _is_joined(call: WindowCall) -> bool:
    return call.function not in (*_RANKS, *_PLACES) and is_listed(_as_call(call))


def _as_call(call: WindowCall) -> UnitCall:
    return UnitCall(call.function, call.argument, None, None, call.type)


def _joined(slot: int, call: WindowCall, node: UnitWindow) -> str:
    """The aggregate of each partition, beside the rows of the partition."""
    count = len(call.partition)
    group = UnitAggregate((), None, None, 1, 1, 1, node.source, call.partition, (_as_call(call),))
    inner = aggregate_sql(group, frozenset(range(count + 1)), "SELECT * FROM source")
    keys = ", ".join(f"{column(i)} AS k{i}" for i in range(count))
    match = " AND ".join(f"l.p{slot}_{i} IS NOT DISTINCT FROM w{slot}.k{i}" for i in range(count)) or "TRUE"
    names = f"{keys}, " if keys else ""
    return f" JOIN (SELECT {names}{column(count)} AS x FROM ({inner})) AS w{slot} ON {match}"


def _over(call: WindowCall, node: UnitWindow) -> str:
    parts = ", ".join(scalar_sql(part) for part in call.partition)
    partition = f"PARTITION BY {parts} " if parts else ""
    given = [_term(key) for key in call.order]
    ties = [column(slot) for slot, _ in _tie_breakers(node)]
    if call.function in _RANKS:
        # Ties are what a rank is about.
        return f"CAST({call.function}() OVER ({partition}{_ordered(given)}) AS BIGINT)"
    total = _ordered([*given, *ties])
    if call.function == "row_number":
        return f"CAST(row_number() OVER ({partition}{total}) AS BIGINT)"
    if call.function in _PLACES and call.argument is not None:
        return f"{call.function}({scalar_sql(call.argument)}, {call.offset}) OVER ({partition}{total})"
    if call.frame is WindowFrame.PARTITION:
        return plain_call(_as_call(call), f" OVER ({partition.strip()})")
    if call.frame is WindowFrame.PEERS:
        return plain_call(_as_call(call), f" OVER ({partition}{_ordered(given)} RANGE {_SO_FAR})")
    return plain_call(_as_call(call), f" OVER ({partition}{total} ROWS {_SO_FAR})")


def _tie_breakers(node: UnitWindow) -> list[tuple[int, Field]]:
    """Every column but the unit, which is the same within a partition."""
    return [(slot, field) for slot, field in enumerate(node.source.fields) if slot != node.source.unit]


def _term(key: SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{scalar_sql(key.expression)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _ordered(terms: list[str]) -> str:
    return f"ORDER BY {', '.join(terms)}" if terms else ""
