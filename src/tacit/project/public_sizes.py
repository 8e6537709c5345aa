"""Numbers of rows and values of public tables, read once per version.

Only public tables are read, by the way in which the engine reads public relations, so the numbers are as public as the
tables. A plan may depend on them.

Declared categories or bounds of a column stay. Of any other column the range is read, and the values if there are at
most :data:`~tacit.query.types.MAX_VALUES`: they serve as public group keys, and as bounds of sums and averages.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tacit.core.errors import EngineError
from tacit.engines.protocol import Engine
from tacit.query.catalog import Catalog, Column, PublicSize, Table
from tacit.query.relational import ownership
from tacit.query.relational.algebra import JoinKind, RelationNode, UnitCall, reference
from tacit.query.relational.expressions import TRUE, literal
from tacit.query.relational.functions import call
from tacit.query.types import INTEGER, MAX_VALUES, Domain, Kind, Range, SqlType, Value, finite, ordinal, with_null_key

#: Number of columns that one statement counts.
_TOGETHER: Final = 16
#: Maximal number of characters of all values of one column.
_MOST_TEXT: Final = 500_000
#: Size of a table that cannot be read: too large for any join that multiplies by it.
_UNREADABLE: Final = PublicSize(10**12, {})
_COUNT: Final = UnitCall("count_rows", None, None, None, INTEGER)


class PublicSizes:
    """A catalog with the present sizes of its public tables; safe to use from several threads."""

    def __init__(self, catalog: Catalog, engine: Engine, version: Callable[[Iterable[str]], str]) -> None:
        #: The catalog without sizes.
        self.declared = catalog
        self._engine = engine
        self._version = version
        #: Public tables.
        self.tables = [table for table in catalog.tables if table.public]
        self._lock = threading.Lock()
        self._sizes: dict[str, tuple[str, PublicSize]] = {}
        self._measured = catalog
        self._state = 0

    def now(self) -> tuple[int, Catalog]:
        if not self.tables:
            return 0, self.declared
        with self._lock:
            changed = [self._renew(table) for table in self.tables]
            if any(changed):
                self._measured = self.declared.measured({name: size for name, (_, size) in self._sizes.items()})
                self._state += 1
            return self._state, self._measured

    def _renew(self, table: Table) -> bool:
        """Count a table unless its version is known; return whether the numbers changed."""
        name = table.name.lower()
        known = self._sizes.get(name)
        try:
            version = self._version([name])
            if known is not None and known[0] == version:
                return False
            size = self._count(table)
        except EngineError:
            # Queries about other tables still work.
            version, size = "", _UNREADABLE
        self._sizes[name] = version, size
        return known is None or known[1] != size

    def _count(self, table: Table) -> PublicSize:
        scan = ownership.scan(self.declared, table)
        rows, facts = 0, dict[str, _Facts]()
        for start in range(0, len(table.columns), _TOGETHER):
            columns = table.columns[start : start + _TOGETHER]
            (found,) = self._engine.rows(_counted(scan, start, columns), most=1)
            # The result of every statement begins with the number of rows.
            rows, numbers = _whole(found[0]), list(found[1:])
            for column in columns:
                # Three numbers of a column, and the two ends if its type is ordered.
                width = 5 if column.type.is_ordered else 3
                facts[column.name.lower()] = _Facts(*numbers[:width])
                del numbers[:width]
        values = self._values(table, scan, facts)
        repeats = {name: fact.repeats for name, fact in facts.items()}
        domains = {
            column.name.lower(): _domain(column, facts[column.name.lower()], rows, values.get(column.name.lower()))
            for column in table.columns
            if not _is_declared(column)
        }
        return PublicSize(rows, repeats, domains)

    def _values(self, table: Table, scan: RelationNode, facts: Mapping[str, _Facts]) -> Mapping[str, list[Value]]:
        """Return the values of columns that have few enough; columns of equal type are read together."""
        listed: dict[SqlType, list[int]] = defaultdict(list)
        for slot, column in enumerate(table.columns):
            few = facts[column.name.lower()].distinct <= MAX_VALUES
            if few and not _is_declared(column) and column.type.kind is not Kind.DOUBLE:
                listed[column.type].append(slot)
        found: dict[str, list[Value]] = {table.columns[slot].name.lower(): [] for s in listed.values() for slot in s}
        for slots in listed.values():
            for start in range(0, len(slots), _TOGETHER):
                some = slots[start : start + _TOGETHER]
                relation = ownership.stack(
                    [
                        ownership.compute(alike, [("slot", literal(slot, INTEGER)), ("value", reference(alike, 0))])
                        for slot in some
                        for alike in (_alike(scan, slot),)
                    ]
                )
                for place, value in self._engine.rows(relation, most=len(some) * MAX_VALUES):
                    if isinstance(place, int) and value is not None:
                        found[table.columns[place].name.lower()].append(value)
        return {name: values for name, values in found.items() if _can_be_keys(values)}


class _Facts:
    """One column of a table: most rows with one value, rows not NULL, distinct values, minimum and maximum."""

    def __init__(
        self, repeats: object, present: object, distinct: object, low: Value | None = None, high: Value | None = None
    ) -> None:
        # The maximum and the sum of no groups are NULL.
        self.repeats, self.present, self.distinct = _whole(repeats), _whole(present), _whole(distinct)
        self.low, self.high = low, high


def _whole(number: object) -> int:
    """Return a count; 0 for NULL, the maximum of no groups."""
    return number if isinstance(number, int) else 0


def _can_be_keys(values: Sequence[Value]) -> bool:
    """Return whether values can be written into statements and answers: not too long, and without NUL characters."""
    texts = [value for value in values if isinstance(value, str)]
    return sum(map(len, texts)) <= _MOST_TEXT and not any("\0" in text for text in texts)


def _is_declared(column: Column) -> bool:
    return column.categories is not None or column.bounds is not None


def _counted(scan: RelationNode, start: int, columns: Sequence[Column]) -> RelationNode:
    """Return a relation of one row: the number of rows, then for each column the numbers of :class:`_Facts`."""
    found = ownership.group(scan, [], [(_COUNT, Domain())])
    for slot, column in enumerate(columns, start):
        counted = _alike(scan, slot)
        calls = [
            UnitCall("max", reference(counted, 1), None, None, INTEGER),
            UnitCall("sum", reference(counted, 1), None, None, INTEGER),
            _COUNT,
        ]
        if column.type.is_ordered:
            value = reference(counted, 0)
            calls += [UnitCall(name, value, None, None, column.type) for name in ("min", "max")]
        facts = ownership.group(counted, [], [(made, Domain()) for made in calls])
        found = ownership.join(found, facts, JoinKind.INNER, TRUE)
    return found


def _alike(scan: RelationNode, slot: int) -> RelationNode:
    """Return the values of a column other than NULL, each with the number of its rows."""
    there = ownership.keep(scan, call("not", call("is_null", reference(scan, slot))))
    return ownership.group(there, [(None, reference(there, slot))], [(_COUNT, Domain())])


def _domain(column: Column, facts: _Facts, rows: int, values: list[Value] | None) -> Domain:
    """Return the domain of a column, as exact as the table itself."""
    nullable = facts.present < rows
    if values:
        known = finite(values, column.type, nullable=nullable)
        return with_null_key(known) if nullable else known
    step = column.type.step if column.step is None else column.step
    if facts.low is None or facts.high is None:
        # No row has a value, or the type is not ordered.
        return Domain(nullable=nullable, step=step)
    span = Range(ordinal(facts.low, column.type), ordinal(facts.high, column.type))
    return Domain(span, nullable, None, step, null_is_key=nullable)
