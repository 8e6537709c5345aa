"""Neighbouring databases to try, and replays of many pairs of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from tacit.audit.replay import ReplayReport, replay
from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number
from tacit.core.relations import ADD_REMOVE, Relation, as_relation

#: The most units that are removed in turn.
_LEAVERS: Final = 4
#: Rows of a person with far too many, as a multiple of the rows of all other persons.
_HEAVY: Final = 3
_FAR: Final = 1000
_STRANGE_FLOATS: Final = (math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308, 5e-324)
_STRANGE_TEXTS: Final = ("", "only this person says this", "'; --")


@dataclass(frozen=True)
class Neighbours:
    """Two databases that differ in one unit, and a description of the difference.

    Args:
        how: description of the difference between the second and the first.
        first: a database.
        second: its neighbour, of the same type.
    """

    how: str
    first: Any
    second: Any


def propose_neighbours(
    database: Any, *, relation: Relation | str = ADD_REMOVE, unit: Hashable | None = None
) -> list[Neighbours]:
    """Return pairs of neighbours made from a database.

    Args:
        database: a list, tuple or numpy array with one record per unit: numbers, text, tuples, mappings, or the rows
            of a two-dimensional array.
        relation: the neighbouring relation.
        unit: the unit column (a key or an index in the row), if units have several rows.
    """
    rows, rebuild = _opened(database)
    people = [[row] for row in rows] if unit is None else _by_unit(rows, unit)
    leavers, strangers = _leavers(people), _strangers(people, unit)
    if as_relation(relation) is ADD_REMOVE:
        pairs = [(f"{name} leaves", people, people[:place] + people[place + 1 :]) for name, place in leavers]
        pairs += [("the only one leaves", people[:1], [])] if people else []
        pairs += [(f"{how} comes", people, [*people, rows]) for how, rows in strangers]
        pairs += [(f"{how} comes first", [], [rows]) for how, rows in strangers[:3]]
    else:
        pairs = [
            (f"{how} takes the place of {name}", people, [*people[:place], rows, *people[place + 1 :]])
            for name, place in leavers
            for how, rows in strangers
        ]
    unique: dict[str, Neighbours] = {}
    for how, first, second in pairs:
        if repr(first) == repr(second):
            continue
        try:
            unique.setdefault(how, Neighbours(how, rebuild(_flat(first)), rebuild(_flat(second))))
        except OverflowError:  # the type of an array cannot hold the record
            continue
    return list(unique.values())


People = list[list[Any]]


def _leavers(people: People) -> list[tuple[str, int]]:
    """Return the units to remove: the first, the last, and, if records are ordered, the smallest and the largest."""
    if not people:
        return []
    named = [("the first", 0), ("the last", len(people) - 1)]
    try:
        order = sorted(range(len(people)), key=lambda i: (len(people[i]), [_as_key(row) for row in people[i]]))
    except TypeError:
        order = list(range(len(people)))
    named += [("the smallest", order[0]), ("the largest", order[-1])]
    seen: dict[int, str] = {}
    for name, place in named:
        seen.setdefault(place, name)
    return [(name, place) for place, name in seen.items()][:_LEAVERS]


def _strangers(people: People, unit: Hashable | None) -> list[tuple[str, list[Any]]]:
    """Return records to add: copies of the extremes, outliers, values that are no numbers, far too many rows."""
    if not people:
        return []
    template, columns = people[0][0], _columns(_flat(people))
    made: list[tuple[str, list[Any]]] = [("a double of the first", list(people[0]))]
    for name, values in columns.items():
        if name == unit and unit is not None:
            continue
        where = "" if name is None else f" in {name!r}"
        made += [
            (f"a person with {value!r}{where}", [_with(template, name, value)]) for value in _strange(values, template)
        ]
    if unit is not None:
        new = _new_unit(people, unit)
        made = [(how, [_with(row, unit, new) for row in rows]) for how, rows in made]
        heavy = _flat(people) * _HEAVY
        made.append(("a person with far more rows than all others", [_with(row, unit, new) for row in heavy]))
    return made


def _strange(values: Sequence[Any], template: Any) -> list[Any]:
    """Return unusual values for a column, at and beyond its extremes."""
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)]
    if numbers:
        low, high = min(numbers), max(numbers)
        kind = float if any(isinstance(v, float) for v in values) else int
        far = [kind(low - _FAR * (abs(low) + 1)), kind(high + _FAR * (abs(high) + 1))]
        ordinary = [kind(low), kind(high), *far, kind(0)]
        return ordinary + (list(_STRANGE_FLOATS) if kind is float else [])
    texts = [v for v in values if isinstance(v, str)]
    return [min(texts), *_STRANGE_TEXTS] if texts else list(dict.fromkeys(map(_hashable, values)))[:3] or [template]


def _columns(rows: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the values of each column, by key or index; plain records are one nameless column."""
    first = rows[0]
    if isinstance(first, Mapping):
        return {key: [row[key] for row in rows if key in row] for key in first}
    if isinstance(first, tuple):
        return {i: [row[i] for row in rows if i < len(row)] for i in range(len(first))}
    return {None: list(rows)}


def _with(row: Any, column: Any, value: Any) -> Any:
    if isinstance(row, Mapping):
        return {**row, column: value}
    if isinstance(row, tuple) and column is not None:
        return (*row[:column], value, *row[column + 1 :])
    return value


def _by_unit(rows: Sequence[Any], unit: Hashable) -> People:
    people: dict[Any, list[Any]] = {}
    for row in rows:
        try:
            people.setdefault(row[unit], []).append(row)
        except (KeyError, IndexError, TypeError):
            raise InputError("unit", f"{unit!r} is not a column of every row") from None
    return list(people.values())


def _new_unit(people: People, unit: Any) -> Any:
    known = [rows[0][unit] for rows in people]
    if all(isinstance(name, int) for name in known):
        return max(known) + 1
    return "a new person"


def _opened(database: Any) -> tuple[list[Any], Callable[[Iterable[Any]], Any]]:
    """Return the records as a list, and a function that makes a database of the same type from records."""
    if isinstance(database, np.ndarray):
        if database.ndim not in (1, 2):
            raise InputError("database", f"must have one or two dimensions, not {database.ndim}")
        shape, kind = (-1, *database.shape[1:]), database.dtype
        rows = database.tolist()
        return [tuple(row) for row in rows] if len(shape) == 2 else rows, lambda made: np.array(
            list(made), dtype=kind
        ).reshape(shape)
    if isinstance(database, (list, tuple)):
        return list(database), type(database)
    raise InputError("database", f"must be a list, a tuple or a numpy array of records, not {type(database).__name__}")


def _flat(people: People) -> list[Any]:
    return list(chain.from_iterable(people))


def _as_key(row: Any) -> Any:
    return sorted(row.items(), key=repr) if isinstance(row, Mapping) else row


def _hashable(value: Any) -> Any:
    return value if isinstance(value, Hashable) else repr(value)


def replay_neighbours(
    function: Callable[[Any], Any],
    database: Any,
    *,
    relation: Relation | str = ADD_REMOVE,
    unit: Hashable | None = None,
    neighbours: Sequence[Neighbours] | None = None,
    claimed: Number | Guarantee | None = None,
    see: Callable[[Any], Any] | None = None,
) -> list[ReplayReport]:
    """Run :func:`~tacit.audit.replay.replay` on every pair of neighbours that is proposed for a database.

    Args:
        function: the code under test; takes a database.
        database: the database from which neighbours are made.
        relation: the neighbouring relation.
        unit: the unit column, if units have several rows.
        neighbours: pairs to try instead of the proposed ones.
        claimed: total cost that is claimed.
        see: returns the visible part of the function's result; left out, all of it.
    """
    pairs = list(neighbours) if neighbours is not None else propose_neighbours(database, relation=relation, unit=unit)
    return [replay(function, each.first, each.second, claimed=claimed, see=see, how=each.how) for each in pairs]
