"""Neighbouring relations over rows and over histograms.

A database is a multiset of records from a universe. It can be written as its **rows** (a sequence, order without
meaning) or as its **histogram** (how many times each record occurs). The l1 distance of two histograms counts the
records to add or remove to get from one to the other, so

* ``ADD_REMOVE``: x ~ y when one record was added or removed: l1 distance 1;
* ``REPLACE_ONE``: x ~ y when one record was replaced by another: the same size, l1 distance 2.

A *record* is everything one unit of privacy contributes. When the unit is a person with many rows, a record is the
tuple of all that person's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import combinations_with_replacement

from tacit.core.errors import InputError

#: Rows, or a histogram that maps each record to its number of occurrences.
Database = Sequence[Hashable] | Mapping[Hashable, int]


class Relation(Enum):
    """Neighbouring relation: which pairs of databases differ in one unit of privacy."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"

    def __repr__(self) -> str:
        return self.name


ADD_REMOVE = Relation.ADD_REMOVE
REPLACE_ONE = Relation.REPLACE_ONE


def as_relation(value: Relation | str, parameter: str = "relation") -> Relation:
    """Return ``value`` as a :class:`Relation`; text such as ``"replace_one"`` is accepted."""
    try:
        return Relation(value)
    except ValueError:
        choices = " or ".join(repr(relation.value) for relation in Relation)
        raise InputError(parameter, f"must be {choices}, got {value!r}") from None


def as_histogram(database: Database) -> Counter[Hashable]:
    """Return the number of occurrences of each record; records that do not occur are left out."""
    if not isinstance(database, Mapping):
        return Counter(database)
    for record, count in database.items():
        if type(count) is not int or count < 0:
            raise InputError("database", f"the count of {record!r} must be a whole number >= 0, got {count!r}")
    return Counter({record: count for record, count in database.items() if count})


def l1_distance(left: Database, right: Database) -> int:
    """Return the number of records to add and remove to turn one database into the other."""
    mine, theirs = as_histogram(left), as_histogram(right)
    return sum(abs(mine[record] - theirs[record]) for record in mine.keys() | theirs.keys())


def distance(left: Database, right: Database, relation: Relation | str) -> int | None:
    """Return the smallest number of neighbouring steps between two databases; ``None`` if they are not connected.

    >>> distance("aab", "ab", ADD_REMOVE), distance("aab", "abb", REPLACE_ONE), distance("aab", "ab", REPLACE_ONE)
    (1, 1, None)
    """
    gap = l1_distance(left, right)
    if as_relation(relation) is ADD_REMOVE:
        return gap
    same_size = as_histogram(left).total() == as_histogram(right).total()
    return gap // 2 if same_size else None


def is_neighbour(left: Database, right: Database, relation: Relation | str) -> bool:
    """Return whether the two databases differ in exactly one unit of privacy."""
    return distance(left, right, relation) == 1


def databases(universe: Sequence[Hashable], size: int) -> Iterator[tuple[Hashable, ...]]:
    """Iterate over all databases of ``size`` records over ``universe``, as rows in the universe's order."""
    return combinations_with_replacement(universe, size)


def neighbouring_pairs(
    universe: Sequence[Hashable], size: int, relation: Relation | str
) -> Iterator[tuple[tuple[Hashable, ...], tuple[Hashable, ...]]]:
    """Iterate over all ordered pairs of neighbours whose first database has ``size`` records.

    Under ``ADD_REMOVE`` the second has one record less or one more; under ``REPLACE_ONE`` it has as many.
    """
    if len(set(universe)) != len(universe):
        raise InputError("universe", "must not list a record twice")
    place = {record: index for index, record in enumerate(universe)}
    for rows in databases(universe, size):
        for other in _neighbours(rows, universe, as_relation(relation)):
            yield rows, tuple(sorted(other, key=place.__getitem__))


def _neighbours(
    rows: tuple[Hashable, ...], universe: Sequence[Hashable], relation: Relation
) -> Iterator[tuple[Hashable, ...]]:
    for gone in dict.fromkeys(rows):
        at = rows.index(gone)
        rest = rows[:at] + rows[at + 1 :]
        if relation is ADD_REMOVE:
            yield rest
        else:
            yield from ((*rest, new) for new in universe if new != gone)
    if relation is ADD_REMOVE:
        yield from ((*rows, new) for new in universe)
