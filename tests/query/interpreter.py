"""The meaning of the relational algebra, slowly and in Python: what engines and ownership are tested against.

A database maps table names to lists of rows, each a mapping from column name to the canonical Python value (None for
NULL).
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from tacit.query.relational.algebra import (
    Constants,
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    SortKey,
    UnionAll,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    WindowCall,
    WindowFrame,
)
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions import evaluate
from tacit.query.types import Kind, SqlType, Value, as_value, sort_key

__all__ = ["Database", "rows_of"]

Database = Mapping[str, Sequence[Mapping[str, Any]]]
Row = tuple[Value | None, ...]


def rows_of(node: RelationNode, database: Database) -> list[Row]:
    """The rows of a relation over a database, in no order that means anything."""
    match node:
        case Scan():
            return _scan(node, database)
        case Constants():
            return [tuple(cell.value for cell in row) for row in node.rows]
        case FilterRows():
            return [row for row in rows_of(node.source, database) if evaluate(node.condition, row) is True]
        case FirstRows():
            return _first_rows(node, rows_of(node.source, database))
        case ProjectColumns():
            return [tuple(evaluate(e, row) for e in node.expressions) for row in rows_of(node.source, database)]
        case Join():
            return _join(node, database)
        case ExistsColumn():
            other = rows_of(node.other, database)
            return [
                (*row, any(evaluate(node.condition, row + more) is True for more in other))
                for row in rows_of(node.source, database)
            ]
        case UnionAll():
            return [row for part in node.parts for row in rows_of(part, database)]
        case UnitAggregate():
            return _aggregate(node, database)
        case UnitWindow():
            rows = rows_of(node.source, database)
            columns = [_window(call, rows) for call in node.calls]
            return [(*row, *(column[i] for column in columns)) for i, row in enumerate(rows)]
        case _:
            raise TypeError(type(node).__name__)


def _scan(node: Scan, database: Database) -> list[Row]:
    rows: list[Row] = []
    for number, stored in enumerate(database.get(node.table, ())):
        row = tuple(
            as_value(stored[name], column.type) for name, column in zip(node.columns, node.fields, strict=False)
        )
        if node.unit is None or node.unit < len(node.columns):
            rows.append(row)
        elif node.unit_source == "row":
            # A row's number must not depend on the rows before it, or removing one would rename the others.
            rows.append((*row, stored.get("#row", number)))
        else:
            rows.extend((*row, unit) for unit in _units(node, stored, database))
    return rows if node.unit is None else [row for row in rows if row[node.unit] is not None]


def _units(node: Scan, stored: Mapping[str, Any], database: Database) -> list[Any]:
    here = [stored]
    for hop in node.path:
        here = [
            parent
            for child in here
            for parent in database.get(hop.table, ())
            if child[hop.column] is not None and parent[hop.references] == child[hop.column]
        ]
    return [parent[node.unit_source or ""] for parent in here]


def _first_rows(node: FirstRows, rows: list[Row]) -> list[Row]:
    """Some rows of each unit; which ones is an engine's matter, as long as it looks at that unit alone."""
    kept: list[Row] = []
    seats: dict[object, int] = {}
    for row in sorted(rows, key=repr):
        unit = row[node.unit or 0]
        seats[unit] = seats.get(unit, 0) + 1
        if seats[unit] <= node.most:
            kept.append(row)
    return kept


def _join(node: Join, database: Database) -> list[Row]:
    left, right = rows_of(node.left, database), rows_of(node.right, database)
    rows: list[Row] = []
    met: set[int] = set()
    for row in left:
        matches = [i for i, other in enumerate(right) if evaluate(node.condition, row + other) is True]
        met.update(matches)
        rows.extend(row + right[i] for i in matches)
        if not matches and node.kind in (JoinKind.LEFT, JoinKind.FULL):
            rows.append(row + (None,) * len(node.right.fields))
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        rows.extend((None,) * len(node.left.fields) + other for i, other in enumerate(right) if i not in met)
    if len(node.fields) > len(node.left.fields) + len(node.right.fields):
        assert node.left.unit is not None
        assert node.right.unit is not None
        first, second = node.left.unit, len(node.left.fields) + node.right.unit
        rows = [(*row, row[first] if row[first] is not None else row[second]) for row in rows]
    return rows


def _aggregate(node: UnitAggregate, database: Database) -> list[Row]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows_of(node.source, database):
        groups[tuple(evaluate(key, row) for key in node.keys)].append(row)
    if not node.keys and not groups:
        groups[()] = []
    return [(*key, *(_call(call, rows) for call in node.calls)) for key, rows in groups.items()]


def _call(call: UnitCall, rows: Sequence[Row]) -> Value | None:
    kept = [row for row in rows if call.where is None or evaluate(call.where, row) is True]
    if call.argument is None:
        return len(kept)
    values = [value for row in kept if (value := evaluate(call.argument, row)) is not None]
    return _summary(call.function, values, call.parameter, call.argument, call.type)


def _summary(function: str, values: list[Any], parameter: Any, argument: Expression, kind: SqlType) -> Value | None:
    if function == "count":
        return len(values)
    if function == "count_distinct":
        return len(set(values))
    if not values:
        return None
    if function in ("min", "max"):
        ordered = sorted(values, key=lambda value: sort_key(value, argument.type))
        return ordered[0] if function == "min" else ordered[-1]
    if function in ("bool_and", "bool_or"):
        return all(values) if function == "bool_and" else any(values)
    exact = [Fraction(value) for value in values]
    return _number(_STATISTICS[function](exact, parameter), kind)


def _number(value: Fraction | float | None, kind: SqlType) -> Value | None:
    if value is None:
        return None
    return as_value(int(value) if kind.kind is Kind.INTEGER else value, kind)


def _quantile(values: list[Fraction], fraction: Any) -> Fraction:
    ordered = sorted(values)
    place = Fraction(fraction) * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _variance(values: list[Fraction], sample: bool) -> Fraction | None:
    if sample and len(values) < 2:
        return None
    return statistics.variance(values) if sample else statistics.pvariance(values)


def _root(value: Fraction | None) -> float | None:
    return None if value is None else float(value) ** 0.5


_STATISTICS: dict[str, Callable[[list[Fraction], Any], Fraction | float | None]] = {
    "sum": lambda values, _: sum(values, Fraction(0)),
    "avg": lambda values, _: sum(values, Fraction(0)) / len(values),
    "quantile": _quantile,
    "var_samp": lambda values, _: _variance(values, True),
    "var_pop": lambda values, _: _variance(values, False),
    "stddev_samp": lambda values, _: _root(_variance(values, True)),
    "stddev_pop": lambda values, _: _root(_variance(values, False)),
}


def _window(call: WindowCall, rows: list[Row]) -> list[Value | None]:
    parts: dict[Row, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        parts[tuple(evaluate(key, row) for key in call.partition)].append(index)
    result: list[Value | None] = [None] * len(rows)
    for indices in parts.values():
        ordered = sorted(
            indices, key=cmp_to_key(lambda a, b: _compare(call.order, rows[a], rows[b]) or _settle(rows[a], rows[b]))
        )
        for place, index in enumerate(ordered):
            result[index] = _at(call, [rows[i] for i in ordered], place)
    return result


def _at(call: WindowCall, rows: list[Row], place: int) -> Value | None:
    here = rows[place]
    if call.function == "row_number":
        return place + 1
    if call.function in ("rank", "dense_rank"):
        before = [row for row in rows[:place] if _compare(call.order, row, here)]
        return 1 + (len(before) if call.function == "rank" else len({_ties(call.order, row) for row in before}))
    if call.function in ("lag", "lead"):
        assert call.argument is not None
        wanted = place + (call.offset or 0) * (-1 if call.function == "lag" else 1)
        return evaluate(call.argument, rows[wanted]) if 0 <= wanted < len(rows) else None
    if call.function in ("first_value", "last_value"):
        assert call.argument is not None
        seen = rows[: place + 1] if call.frame is WindowFrame.RUNNING else rows
        return evaluate(call.argument, seen[0 if call.function == "first_value" else -1])
    frame = rows
    if call.frame is WindowFrame.RUNNING:
        frame = rows[: place + 1]
    elif call.frame is WindowFrame.PEERS:
        frame = [row for i, row in enumerate(rows) if i <= place or not _compare(call.order, row, here)]
    return _call(UnitCall(call.function, call.argument, None, None, call.type), frame)


def _ties(order: Sequence[SortKey], row: Row) -> Row:
    return tuple(evaluate(key.expression, row) for key in order)


def _compare(order: Sequence[SortKey], left: Row, right: Row) -> int:
    for key in order:
        a, b = (evaluate(key.expression, row) for row in (left, right))
        if a == b:
            continue
        if a is None or b is None:
            return -1 if (a is None) == key.nulls_first else 1
        smaller = sort_key(a, key.expression.type) < sort_key(b, key.expression.type)
        return -1 if smaller != key.descending else 1
    return 0


def _settle(left: Row, right: Row) -> int:
    a, b = repr(left), repr(right)
    return (a > b) - (a < b)
