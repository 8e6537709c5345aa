"""Sizes of public tables, counted once per version.

Only public tables are read, by the engine's own way of reading public relations, so the numbers are as public as the
tables. They are part of what a plan is a function of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tacit.core.errors import EngineError
from tacit.engines.protocol import Engine
from tacit.query.catalog import Catalog, PublicSize, Table
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, UnitCall, reference
from tacit.query.relational.functions import call
from tacit.query.types import INTEGER, Domain

__all__ = ["PublicSizes"]

#: Columns that one statement counts.
_TOGETHER: Final = 16
#: A table that cannot be read counts as too large for any join that multiplies by it.
_UNREADABLE: Final = PublicSize(10**12, {})
_COUNT: Final = UnitCall("count_rows", None, None, None, INTEGER)


class PublicSizes:
    """The catalog with the sizes of its public tables, as they are now; safe to use from several threads.

    Args:
        catalog: as declared.
        engine: reads public relations.
        version: names the state of some tables.
    """

    def __init__(self, catalog: Catalog, engine: Engine, version: Callable[[Iterable[str]], str]) -> None:
        self._declared = catalog
        self._engine = engine
        self._version = version
        self._tables = [table for table in catalog.tables if table.public]
        self._lock = threading.Lock()
        self._sizes: dict[str, tuple[str, PublicSize]] = {}
        self._measured = catalog
        self._state = 0

    def now(self) -> tuple[int, Catalog]:
        """A number that changes whenever a size does, and the catalog with all sizes."""
        if not self._tables:
            return 0, self._declared
        with self._lock:
            changed = [self._renew(table) for table in self._tables]
            if any(changed):
                self._measured = self._declared.measured({name: size for name, (_, size) in self._sizes.items()})
                self._state += 1
            return self._state, self._measured

    def _renew(self, table: Table) -> bool:
        """Count a table unless its state is known; whether the numbers are new."""
        name = table.name.lower()
        known = self._sizes.get(name)
        try:
            version = self._version([name])
            if known is not None and known[0] == version:
                return False
            size = self._count(table)
        except EngineError:
            # Questions about other tables are none the worse for it.
            version, size = "", _UNREADABLE
        self._sizes[name] = version, size
        return known is None or known[1] != size

    def _count(self, table: Table) -> PublicSize:
        found = [self._engine.rows(relation, most=1)[0] for relation in _statements(self._declared, table)]
        # Every statement begins with the number of rows.
        repeats = [_whole(number) for row in found for number in row[1:]]
        names = [column.name.lower() for column in table.columns]
        return PublicSize(_whole(found[0][0]), dict(zip(names, repeats, strict=True)))


def _whole(number: object) -> int:
    """A count; the largest of no groups is none."""
    return number if isinstance(number, int) else 0


def _statements(catalog: Catalog, table: Table) -> Iterator[RelationNode]:
    """Relations of one row: how many rows there are, then for some columns the most that share a value."""
    scan = ownership.scan(catalog, table)
    for start in range(0, len(table.columns), _TOGETHER):
        found = ownership.group(scan, [], [(_COUNT, Domain())])
        for slot in range(start, min(start + _TOGETHER, len(table.columns))):
            found = ownership.attach(found, _most_alike(scan, slot))
        yield found


def _most_alike(scan: RelationNode, slot: int) -> RelationNode:
    there = ownership.keep(scan, call("not", call("is_null", reference(scan, slot))))
    counted = ownership.group(there, [(None, reference(there, slot))], [(_COUNT, Domain())])
    largest = UnitCall("max", reference(counted, 1), None, None, INTEGER)
    return ownership.group(counted, [], [(largest, Domain())])
