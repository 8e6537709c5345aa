"""Measurements from result rows: every public group, or private groups in key order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.protocol import Measurements
from tacit.engines.sql.group_choice import Groups
from tacit.engines.sql.statements import SPREAD, Statement
from tacit.engines.sql.unit_totals import fits_64_bits
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.question import FinalAggregation
from tacit.query.types import Kind, SqlType, Value, sort_key

__all__ = ["read_measurements", "value_of"]

KeyTuple = tuple[Value | None, ...]


def read_measurements(final: FinalAggregation, answered: Sequence[tuple[Statement, list[Any]]]) -> Measurements:
    """What the statements found, in the form all engines return."""
    groups = Groups(final)
    width = len(groups.columns)
    keys, places = _keys(groups, [tuple(row[:width]) for row in answered[0][1]])
    units = np.zeros(len(keys), dtype=np.int64)
    arrays: dict[int, NDArray[Any]] = {}
    for statement, rows in answered:
        for index in statement.measures:
            arrays[index] = _empty(final.measures[index], len(keys))
        for row in rows:
            group, cells = places[tuple(row[:width])], row[width:]
            if statement.is_spread:
                arrays[statement.measures[0]][group, int(cells[0])] += int(cells[1])
                continue
            # Added, not set: keys that a database tells apart and Python does not are one group.
            units[group] += int(cells[0])
            for index, cell in zip(statement.measures, cells[1:], strict=True):
                arrays[index][group] += int(cell)
    raw = [_shaped(measure, arrays[index]) for index, measure in enumerate(final.measures)]
    return Measurements(keys, units, tuple(raw))


def _empty(measure: Measure, groups: int) -> NDArray[Any]:
    """Zeros: of 64 bits where no sum can leave them, else Python's integers."""
    if measure.kind in SPREAD:
        return np.zeros((groups, measure.width), dtype=np.int64)
    return np.zeros(groups, dtype=np.int64 if fits_64_bits(max(map(abs, measure.clamp))) else object)


def _shaped(measure: Measure, array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(len(array)) if measure.kind is MeasureKind.DISTINCT else array


def _keys(groups: Groups, found: list[tuple[Any, ...]]) -> tuple[tuple[KeyTuple, ...], dict[tuple[Any, ...], int]]:
    """All keys in order, and the place of each by its group columns as the database gave them."""
    if groups.is_public:
        keys = groups.public_keys()
        return keys, {(code,): code for code in range(len(keys))}
    decoded = [tuple(value_of(cell, kind) for cell, kind in zip(row, groups.types, strict=True)) for row in found]
    order = sorted(
        set(decoded),
        key=lambda row: tuple(sort_key(value, kind) for value, kind in zip(row, groups.types, strict=True)),
    )
    places = {key: place for place, key in enumerate(order)}
    return tuple(order), {row: places[key] for row, key in zip(found, decoded, strict=True)}


def value_of(cell: Any, kind: SqlType) -> Value | None:
    """A stored value as the canonical Python value of its type."""
    if cell is None:
        return None
    if kind.kind is Kind.DECIMAL:
        return Fraction(int(cell), 10**kind.scale)
    if isinstance(cell, (bool, int, float, str, dt.date)):
        return cell
    raise InternalError(f"a key of {kind} came back as {type(cell).__name__}")
