"""Windows over one unit's rows.

The order of a window is completed by all columns of the source, so that rows which still tie are equal and it does
not matter which comes first. Sums of doubles over a whole partition are computed as an aggregate and joined back; a
running one cannot be made independent of the database's own partitioning and is refused before any data is read.
"""

from __future__ import annotations

from tacit.engines.sql.aggregates import aggregate_sql, call_sql, finished, is_listed
from tacit.engines.sql.dialect import Dialect, column
from tacit.engines.sql.scalars import scalar_sql
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    RelationNode,
    SortKey,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    WindowCall,
    WindowFrame,
    sources,
)

__all__ = ["check_windows", "window_sql"]

_RANKS = ("rank", "dense_rank")
_PLACES = ("row_number", "lag", "lead")
_SO_FAR = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def check_windows(d: Dialect, node: RelationNode) -> None:
    """Refuse running sums of doubles, and running quantiles where the database has none, anywhere in a relation."""
    if isinstance(node, UnitWindow):
        for call in node.calls:
            _check(d, call)
    for part in sources(node):
        check_windows(d, part)


def _check(d: Dialect, call: WindowCall) -> None:
    if not _is_joined(d, call) or call.frame is WindowFrame.PARTITION:
        return
    if is_listed(_as_call(call)):
        raise Refusal(
            "window",
            "A running sum, average or variance needs exact numbers; CAST the value to DECIMAL or INTEGER first.",
        )
    raise Refusal("window", "This database has no running quantiles; leave ORDER BY out of the window.")


def window_sql(d: Dialect, node: UnitWindow, needed: frozenset[int], below: str) -> str:
    """The columns of the source, then one per window; ``below`` selects every column of the source."""
    width = len(node.source.fields)
    calls = {width + i: call for i, call in enumerate(node.calls) if width + i in needed}
    joined = {slot: call for slot, call in calls.items() if _is_joined(d, call)}
    beside = {slot: call for slot, call in calls.items() if slot not in joined}
    columns = [column(slot) for slot in sorted(needed) if slot < width]
    columns += [f"{_over(d, call, node)} AS w{slot}" for slot, call in beside.items()]
    partitions = {slot: [scalar_sql(d, part) for part in call.partition] for slot, call in joined.items()}
    columns += [f"{key} AS p{slot}_{i}" for slot, keys in partitions.items() for i, key in enumerate(keys)]
    rows = f"SELECT {', '.join(columns) or '1 AS nothing'} FROM source"
    outer = [f"l.{column(slot)} AS {column(slot)}" for slot in sorted(needed) if slot < width]
    outer += [f"{_finished(d, call, f'l.w{slot}')} AS {column(slot)}" for slot, call in beside.items()]
    outer += [f"j{slot}.x AS {column(slot)}" for slot in joined]
    once = d.materialized if joined else "AS"
    joins = "".join(_joined(d, slot, call, node) for slot, call in joined.items())
    return f"WITH source {once} ({below}) SELECT {', '.join(outer) or '1 AS nothing'} FROM ({rows}) AS l{joins}"


def _is_joined(d: Dialect, call: WindowCall) -> bool:
    if call.function in (*_RANKS, *_PLACES):
        return False
    return is_listed(_as_call(call)) or (call.function in ("quantile", "median") and not d.window_quantiles)


def _as_call(call: WindowCall) -> UnitCall:
    return UnitCall(call.function, call.argument, None, None, call.type)


def _joined(d: Dialect, slot: int, call: WindowCall, node: UnitWindow) -> str:
    """The aggregate of each partition, beside the rows of the partition."""
    count = len(call.partition)
    group = UnitAggregate((), None, None, 1, 1, 1, node.source, call.partition, (_as_call(call),))
    inner = aggregate_sql(d, group, frozenset(range(count + 1)), "SELECT * FROM source")
    keys = ", ".join(f"{column(i)} AS k{i}" for i in range(count))
    match = " AND ".join(f"l.p{slot}_{i} IS NOT DISTINCT FROM j{slot}.k{i}" for i in range(count)) or "TRUE"
    names = f"{keys}, " if keys else ""
    return f" JOIN (SELECT {names}{column(count)} AS x FROM {d.derived(inner)}) AS j{slot} ON {match}"


def _over(d: Dialect, call: WindowCall, node: UnitWindow) -> str:
    parts = ", ".join(scalar_sql(d, part) for part in call.partition)
    partition = f"PARTITION BY {parts} " if parts else ""
    given = [_term(d, key) for key in call.order]
    ties = [f"{column(slot)} NULLS LAST" for slot in _tie_breakers(node)]
    if call.function in _RANKS:
        # Ties are what a rank is about.
        return f"CAST({call.function}() OVER ({partition}{_ordered(given)}) AS BIGINT)"
    total = _ordered([*given, *ties])
    if call.function == "row_number":
        return f"CAST(row_number() OVER ({partition}{total}) AS BIGINT)"
    if call.function in _PLACES and call.argument is not None:
        return f"{call.function}({scalar_sql(d, call.argument)}, {call.offset}) OVER ({partition}{total})"
    if call.frame is WindowFrame.PARTITION:
        return call_sql(d, _as_call(call), f" OVER ({partition.strip()})")
    if call.frame is WindowFrame.PEERS:
        return call_sql(d, _as_call(call), f" OVER ({partition}{_ordered(given)} RANGE {_SO_FAR})")
    return call_sql(d, _as_call(call), f" OVER ({partition}{total} ROWS {_SO_FAR})")


def _finished(d: Dialect, call: WindowCall, value: str) -> str:
    return value if call.function in (*_RANKS, *_PLACES) else finished(d, _as_call(call), value, "")


def _tie_breakers(node: UnitWindow) -> list[int]:
    """Every column but the unit, which is the same within a partition."""
    return [slot for slot in range(len(node.source.fields)) if slot != node.source.unit]


def _term(d: Dialect, key: SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{scalar_sql(d, key.expression)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _ordered(terms: list[str]) -> str:
    return f"ORDER BY {', '.join(terms)}" if terms else ""
