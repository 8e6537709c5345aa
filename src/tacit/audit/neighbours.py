"""Neighbouring databases to try: one person removed, added or replaced by an extreme one.

A flaw shows on some pairs and not on others, and mostly on the unexpected ones: an empty table, a value far
outside the bounds, NaN, an infinity, a person with more rows than all others together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE, Relation, as_relation

#: Only so many of the units there are leave in turn.
_LEAVERS: Final = 4
#: Rows of a person with far too many, as a multiple of all others' rows.
_HEAVY: Final = 3
_FAR: Final = 1000
_STRANGE_FLOATS: Final = (math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308, 5e-324)
_STRANGE_TEXTS: Final = ("", "only this person says this", "'; --")


@dataclass(frozen=True)
class Neighbours:
    """Two databases that differ in one unit, and in words how.

    Args:
        how: what sets the second apart from the first.
        first: a database.
        second: its neighbour, of the same type.
    """

    how: str
    first: Any
    second: Any


def propose_neighbours(
    database: Any, *, relation: Relation | str = ADD_REMOVE, unit: Hashable | None = None
) -> list[Neighbours]:
    """Pairs of neighbours made from a database.

    Args:
        database: a list, tuple or numpy array with one record per unit: numbers, text, tuples, mappings, or the rows
            of a two-dimensional array.
        relation: what neighbours are.
        unit: the column (a key or a place in the row) that says whose a row is, if units have several rows.
    """
    rows, rebuild = _opened(database)
    people = [[row] for row in rows] if unit is None else _by_unit(rows, unit)
    pairs = _removals(people) + _arrivals(people, unit)
    if as_relation(relation) is not ADD_REMOVE:
        pairs = _replacements(people, unit)
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
Proposal = tuple[str, People, People]


def _removals(people: People) -> list[Proposal]:
    found: list[Proposal] = []
    for name, place in _leavers(people):
        found.append((f"{name} leaves", people, people[:place] + people[place + 1 :]))
    if people:
        found.append(("the only one leaves", people[:1], []))
    return found


def _arrivals(people: People, unit: Hashable | None) -> list[Proposal]:
    found: list[Proposal] = [(f"{how} comes", people, [*people, rows]) for how, rows in _strangers(people, unit)]
    found += [(f"{how} comes first", [], [rows]) for how, rows in _strangers(people, unit)[:3]]
    return found


def _replacements(people: People, unit: Hashable | None) -> list[Proposal]:
    return [
        (f"{how} takes the place of {name}", people, [*people[:place], rows, *people[place + 1 :]])
        for name, place in _leavers(people)
        for how, rows in _strangers(people, unit)
    ]


def _leavers(people: People) -> list[tuple[str, int]]:
    """The first, the last, and those with the smallest and the largest records, where records can be ordered."""
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
    """Records that may come: copies of the ends, values far out, values that are no numbers, far too many rows."""
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
    """Values that this column could hold, at and beyond its ends."""
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
    """The values of each column, by key or place; of plain records, one nameless column."""
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
    """The records as a list, and how to make such a database of others."""
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
    return list(_chained(people))


def _chained(people: People) -> Iterator[Any]:
    for rows in people:
        yield from rows


def _as_key(row: Any) -> Any:
    return sorted(row.items(), key=repr) if isinstance(row, Mapping) else row


def _hashable(value: Any) -> Any:
    return value if isinstance(value, Hashable) else repr(value)
