"""Sums over rows of whole numbers, as SQL: what a model adds up, computed where the rows are.

Each layer of :class:`~tacit.core.row_sums.WholeSums` is a subquery whose columns are computed once. Ranges are known
before, so that no expression can overflow, divide by zero or look beyond a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.row_sums import MOST, Whole, WholeSums
from tacit.engines.sql.dialect import Dialect
from tacit.query.types import INTEGER, Kind, SqlType

#: Sums of one statement: databases have limits of columns, and planners take their time.
_SUMS: Final = 128
#: Values closer to the middle of their bounds than this part of half their width are the middle, by rounding.
_NOTHING: Final = 2.0**-30


def sum_statements(d: Dialect, wanted: WholeSums, rows: str, kinds: Sequence[SqlType]) -> Iterator[tuple[int, str]]:
    """The first sum and the text of each statement; it returns the group, then sums.

    Args:
        d: the dialect.
        wanted: what is added up.
        rows: a query of one row of each unit: raw values e0, e1, ….
        kinds: their types.
    """
    inner = rows
    for number, layer in enumerate(wanted.layers):
        write = _Writing(d, "e" if not number else f"w{number - 1}_", kinds)
        inner = _layer(write, layer, f"w{number}_", inner)
    write = _Writing(d, f"w{len(wanted.layers) - 1}_", kinds)
    for first in range(0, len(wanted.sums), _SUMS):
        groups = [write.sql(each) for each in wanted.groupings] or ["CAST(0 AS BIGINT)"]
        taken = wanted.sums[first : first + _SUMS]
        added = ", ".join(d.total(f"s{place}", number.largest) for place, number in enumerate(taken))
        each = [f"{sql} AS g{place}" for place, sql in enumerate(groups)]
        each += [f"{write.sql(number)} AS s{place}" for place, number in enumerate(taken)]
        parts = f"SELECT {', '.join(each)} FROM {d.fenced(inner)}"
        yield first, _grouped(d, parts, added, len(groups))


def _grouped(d: Dialect, parts: str, added: str, groupings: int) -> str:
    """Sums per group g; of several groupings g is the group times their number, plus the place of the grouping."""
    if groupings == 1:
        return f"SELECT g0, {added} FROM {d.fenced(parts)} WHERE g0 >= 0 GROUP BY g0"
    names = [f"g{place}" for place in range(groupings)]
    # One pass over the rows makes all groupings; of each line one name alone is grouped by.
    which = " ".join(f"WHEN GROUPING({name}) = 0 THEN {name} * {groupings} + {at}" for at, name in enumerate(names))
    sets = ", ".join(f"({name})" for name in names)
    return f"SELECT CASE {which} END AS g, {added} FROM {d.fenced(parts)} GROUP BY GROUPING SETS ({sets})"


def add_up(wanted: WholeSums, found: Sequence[tuple[int, Sequence[Sequence[Any]]]]) -> NDArray[np.int64]:
    """Results of the statements as an array, one line per grouping and group.

    Beyond ±2⁶² a total is cut, as in this process.
    """
    groupings = max(len(wanted.groupings), 1)
    total = np.zeros((groupings, wanted.groups, len(wanted.sums)), dtype=np.int64)
    for first, rows in found:
        for row in rows:
            group, grouping = divmod(int(row[0]), groupings)
            if group < 0:
                continue
            for place, cell in enumerate(row[1:], first):
                total[grouping, group, place] = max(-MOST, min(MOST, int(cell)))
    return total.reshape(groupings * wanted.groups, len(wanted.sums))


def _layer(write: _Writing, layer: tuple[Whole, ...], prefix: str, inner: str) -> str:
    d = write.d
    read = sorted({place for number in layer for place in _raw_places(number)})
    if read:
        # Distances from the middle are computed once.
        apart = ", ".join(f"e{place} - {d.number(middle)} AS t{place}" for place, middle in read)
        inner = f"SELECT *, {apart} FROM {d.fenced(inner)}"
    columns = ", ".join(f"{write.sql(number)} AS {prefix}{place}" for place, number in enumerate(layer))
    return f"SELECT {columns} FROM {d.fenced(inner)}"


def _raw_places(number: Whole) -> Iterator[tuple[int, float]]:
    if number.kind == "quantised":
        yield number.value[0], number.value[1]
    for part in number.parts:
        yield from _raw_places(part)


class _Writing:
    """Whole numbers as SQL, over columns of the layer below."""

    def __init__(self, d: Dialect, prefix: str, kinds: Sequence[SqlType]) -> None:
        self.d = d
        self._prefix = prefix
        self._kinds = kinds

    def sql(self, number: Whole) -> str:
        """The number, of type BIGINT."""
        d = self.d
        if number.kind == "constant":
            return _constant(d, number.low)
        if number.kind == "column":
            return f"{self._prefix}{number.value}"
        if number.kind == "quantised":
            return self._quantised(*number.value)
        if number.kind == "label":
            return self._label_place(*number.value)
        parts = [self.sql(part) for part in number.parts]
        match number.kind:
            case "+" | "-" | "*":
                return f"({parts[0]} {number.kind} {parts[1]})"
            case "over":
                return f"({d.divided(parts[0], parts[1], wide=False)})"
            case "floored":
                return self._floored(parts[0], number.value)
            case "greatest" | "least":
                return f"{number.kind}({', '.join(parts)})"
            case "root":
                return self._root(parts[0])
            case "where":
                return f"CASE WHEN {parts[0]} >= {parts[1]} THEN {parts[2]} ELSE {parts[3]} END"
            case "looked up":
                return d.looked_up(number.value, parts[0])
        raise InternalError(f"no SQL for {number.kind}")

    def _quantised(self, place: int, _middle: float, half_width: float, fine: int) -> str:
        d, apart = self.d, f"t{place}"
        ends = _constant(d, fine), _constant(d, -fine)
        near = d.double_to_integer(f"{apart} / {d.number(half_width)} * {d.number(float(fine))}")
        return (
            f"CASE WHEN e{place} IS NULL OR NOT {d.is_finite(f'e{place}')} THEN {_constant(d, 0)}"
            f" WHEN {apart} >= {d.number(half_width)} THEN {ends[0]}"
            f" WHEN {apart} <= {d.number(-half_width)} THEN {ends[1]}"
            # A quotient that underflows is an error in some databases.
            f" WHEN abs({apart}) <= {d.number(half_width * _NOTHING)} THEN {_constant(d, 0)} ELSE {near} END"
        )

    def _label_place(self, column: int, classes: tuple[Any, ...]) -> str:
        kind, cases = self._kinds[column], []
        for place, label in enumerate(classes):
            spelled = _spelled(label, kind)
            if spelled is not None:
                written = self.d.number(spelled) if kind.kind is Kind.DOUBLE else self.d.constant(spelled, kind)
                cases.append(f"WHEN e{column} = {written} THEN {_constant(self.d, place)}")
        return f"CASE {' '.join(cases)} ELSE {_constant(self.d, -1)} END" if cases else _constant(self.d, -1)

    def _floored(self, value: str, by: int) -> str:
        d, divisor = self.d, _constant(self.d, by)
        up = d.divided(f"({_constant(d, by - 1)} - {value})", divisor, wide=False)
        return f"CASE WHEN {value} >= 0 THEN {d.divided(value, divisor, wide=False)} ELSE -({up}) END"

    def _root(self, value: str) -> str:
        """The float root is off by at most one either way; comparing squares of whole numbers decides."""
        root = f"CAST(floor(sqrt(CAST({value} AS {self.d.double}))) AS BIGINT)"
        cases = "".join(
            f" WHEN {root} >= {-more} AND ({root} + {more}) * ({root} + {more}) >= {value} THEN {root} + {more}"
            for more in (-1, 0, 1)
        )
        return f"CASE{cases} ELSE {root} + 2 END"


def _constant(d: Dialect, value: int) -> str:
    return d.constant(value, INTEGER)


def _spelled(label: Any, kind: SqlType) -> Any:
    """A class as a value of the type of the label; None where no label of that type is equal to it."""
    if kind.kind is Kind.TEXT:
        return label if isinstance(label, str) else None
    if kind.kind is Kind.DOUBLE:
        return _exact_double(label)
    if isinstance(label, bool):
        return label if kind.kind is Kind.BOOLEAN else int(label)
    if not isinstance(label, int | float) or label != int(label):
        return None
    if kind.kind is Kind.BOOLEAN:
        return bool(label) if label in (0, 1) else None
    return int(label) if abs(label) < 2**63 else None


def _exact_double(label: Any) -> float | None:
    """A number as the double that is equal to it, if there is one."""
    if not isinstance(label, int | float):
        return None
    try:
        double = float(label)
    except OverflowError:
        return None
    return double if math.isfinite(double) and double == label else None
