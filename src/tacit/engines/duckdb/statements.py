"""The statements that measure: rows, bounded per unit, added up per group.

One statement takes all measures that are sums (counts and totals); each DISTINCT, LEAVES and CATEGORIES has one of
its own. The groups a unit keeps are the same in all of them, because the choice depends on the unit's rows and the
secret alone.

Where a unit may have more public groups than it may keep, a bit set per unit says which places of its permutation are
taken; the place of the last group it may keep is its limit, and rows beyond the limit are left out before anything is
added up. That groups by far fewer keys than (unit, group) pairs and sorts nothing.

Sums over public groups have a second, faster form: DuckDB reads the rows, and :mod:`folding` bounds them in memory.
Both keep the same rows and give the same integers; SQL is for what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tacit.core.errors import InternalError
from tacit.engines.duckdb.bitsets import kept_clauses
from tacit.engines.duckdb.choosing import Chooser
from tacit.engines.duckdb.fetching import MOST_ROWS, RowPlan
from tacit.engines.duckdb.groups import Groups, position_sql
from tacit.engines.duckdb.partials import TOTALS, Partials
from tacit.engines.duckdb.quantising import category_sql, leaf_sql
from tacit.engines.duckdb.relations import has_row_units, relation_sql, scanned, slots_of
from tacit.engines.duckdb.scalars import scalar_sql
from tacit.engines.duckdb.shares import read_shares
from tacit.engines.duckdb.sources import StoredTable
from tacit.engines.duckdb.spelling import column
from tacit.query.algebra import Filter, Scan
from tacit.query.expressions import Expression, Reference
from tacit.query.final import FinalAggregation
from tacit.query.measures import Measure, MeasureKind
from tacit.query.types import INTEGER, SqlType

__all__ = ["SPREAD", "Statement", "statements"]

#: Measures with a statement of their own.
SPREAD = (MeasureKind.DISTINCT, MeasureKind.LEAVES, MeasureKind.CATEGORIES)
#: Bytes of sources beyond which more planning is worth less reading.
_LARGE = 20 * 2**20


@dataclass(frozen=True)
class Statement:
    """SQL, and which measures its columns are.

    Rows are the group columns, then for sums ``units`` and one column per measure, and for a spread measure ``place``
    and ``n``. ``rows`` is the faster form of the same, if there is one.
    """

    sql: str
    measures: tuple[int, ...]
    is_spread: bool
    rows: RowPlan | None = None


def statements(final: FinalAggregation, tables: Mapping[str, StoredTable], secret: bytes) -> tuple[Statement, ...]:
    """Everything to run for one final aggregation."""
    writer = _writer(final, tables, secret)
    sums = tuple(i for i, measure in enumerate(final.measures) if measure.kind not in SPREAD)
    spread = [i for i, measure in enumerate(final.measures) if measure.kind in SPREAD]
    summed = [final.measures[i] for i in sums]
    first = Statement(writer.sums(summed), sums, is_spread=False, rows=writer.row_plan(summed))
    return (first, *(Statement(writer.spread(final.measures[i]), (i,), is_spread=True) for i in spread))


def _writer(final: FinalAggregation, tables: Mapping[str, StoredTable], secret: bytes) -> _Writer:
    unit = final.source.unit
    if unit is None:
        raise InternalError("a final aggregation needs an owned source")
    chooser = Chooser(secret, final.source.fields[unit].type, has_row_units(final.source))
    return _Writer(final, tables, chooser, Groups(final), unit)


@dataclass(frozen=True)
class _Writer:
    final: FinalAggregation
    tables: Mapping[str, StoredTable]
    chooser: Chooser
    groups: Groups
    unit: int

    @property
    def alone(self) -> bool:
        """Whether every row is a unit of its own: one row, one group, nothing to choose."""
        return self.final.source.row_units

    def sums(self, measures: list[Measure]) -> str:
        """Group columns, ``units``, and one total per measure."""
        partials = Partials(self.alone, tuple(measures))
        totals = [f"{partials.total(measure)} AS v{i}" for i, measure in enumerate(measures)]
        read = slots_of(e for measure in measures for e in (measure.argument, measure.where))
        names, listed = ", ".join(self.groups.columns), ", ".join(["count(*) AS units", *totals])
        writer = self._reading_loosely(measures)
        if self.alone:
            return writer._alone(partials.rows, read, listed)
        rows = writer._kept(partials.rows, read, pairs=False)
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        pairs = f"SELECT u, {names}{collected} FROM {rows.name} GROUP BY u, {names}"
        if not self.groups.is_public:
            pairs = self._chosen(pairs)
        return f"{rows.text} SELECT {names}, {listed} FROM ({partials.levels(names, pairs)}) GROUP BY {names}"

    def row_plan(self, measures: list[Measure]) -> RowPlan | None:
        """The rows of :meth:`sums` one by one, where memory can take over; None for private groups and wide sums."""
        found = None if self.alone or not self.groups.is_public else read_shares(measures, MOST_ROWS)
        if found is None:
            return None
        columns, shares = found
        read = slots_of(e for measure in measures for e in (measure.argument, measure.where))
        # Rows outside the public list come along with NULL for a group: a condition would compute the group twice.
        rows = self._reading_loosely(measures)._all_rows({name: made.sql for name, made in columns.items()}, read)
        return RowPlan(rows, self.chooser, self.groups.count, self.final.max_groups, columns, shares)

    def _reading_loosely(self, measures: list[Measure]) -> _Writer:
        """The same for sums alone, of doubles as they are stored: :func:`quantised_sql` drops what is not finite."""
        used = slots_of(key.expression for key in self.final.keys) | {self.unit}
        used |= slots_of(measure.where for measure in measures)
        summed = {(m.argument, m.where) for m in measures if m.kind in TOTALS}
        used |= slots_of(m.argument for m in measures if (m.argument, m.where) not in summed)
        used |= slots_of(m.argument for m in measures if not isinstance(m.argument, Reference))
        below = self.final.source
        while isinstance(below, Filter):
            used |= slots_of([below.condition])
            below = below.source
        if not isinstance(below, Scan) or below.path:
            return self
        stored = self.tables[below.table.lower()]
        free = {name.lower() for slot, name in enumerate(below.columns) if slot not in used}
        columns = {name: stored.doubles.get(name, sql) if name in free else sql for name, sql in stored.columns.items()}
        return replace(self, tables={**self.tables, below.table.lower(): replace(stored, columns=columns)})

    def spread(self, measure: Measure) -> str:
        """Group columns, ``place`` (0 for DISTINCT, else the leaf or category), and ``n``."""
        value, kind = self._value(measure)
        read = slots_of([measure.argument, measure.where])
        names = ", ".join(self.groups.columns)
        if self.alone:
            place, count = ("0", "count(DISTINCT x)") if measure.kind is MeasureKind.DISTINCT else ("x", "count(*)")
            source = self._rows({"x": value}, read)
            by = names if place == "0" else f"{names}, x"
            return f"SELECT {names}, {place} AS place, {count} AS n FROM ({source}) WHERE x IS NOT NULL GROUP BY {by}"
        rows = self._kept({"x": value}, read, pairs=True)
        source = f"(SELECT * FROM {rows.name} WHERE x IS NOT NULL)"
        if measure.kind is MeasureKind.DISTINCT:
            return f"{rows.text} {self._distinct(source, kind, measure.rows)}"
        return f"{rows.text} {self._counted(source, measure.rows)}"

    def _value(self, measure: Measure) -> tuple[str, SqlType]:
        """What a spread measure looks at in a row, NULL where the row does not count."""
        argument = measure.argument
        if argument is None:
            raise InternalError("a spread measure needs a value")
        if measure.kind is MeasureKind.LEAVES:
            return leaf_sql(measure), INTEGER
        value = scalar_sql(argument)
        if measure.kind is MeasureKind.CATEGORIES:
            return category_sql(measure, position_sql(value, measure.categories, argument.type)), INTEGER
        return category_sql(measure, value), argument.type

    def _alone(self, columns: Mapping[str, str], read: frozenset[int], listed: str) -> str:
        """Row units are grouped by the keys as they are, and groups outside the public list dropped afterwards."""
        if not self.groups.is_public or not self.final.keys:
            names = ", ".join(self.groups.columns)
            return f"SELECT {names}, {listed} FROM ({self._rows(columns, read)}) GROUP BY {names}"
        keys = {f"k{i}": scalar_sql(key.expression) for i, key in enumerate(self.final.keys)}
        below = self._below(read, (key.expression for key in self.final.keys), unit=False)
        rows = ", ".join(f"{sql} AS {name}" for name, sql in {**keys, **columns}.items())
        grouped = f"SELECT {', '.join(keys)}, {listed} FROM (SELECT {rows} FROM ({below})) GROUP BY {', '.join(keys)}"
        coded = f"SELECT {self.groups.code(list(keys))} AS g, * EXCLUDE ({', '.join(keys)}) FROM ({grouped})"
        return f"SELECT * FROM ({coded}) WHERE g IS NOT NULL"

    def _below(self, read: frozenset[int], keys: Iterable[Expression], *, unit: bool) -> str:
        slots = read | slots_of(keys) | (frozenset((self.unit,)) if unit else frozenset())
        return relation_sql(self.final.source, slots, self.tables)

    def _rows(self, columns: Mapping[str, str], read: frozenset[int]) -> str:
        """Rows in a group that counts, with unit, group and columns."""
        rows = self._all_rows(columns, read)
        return f"SELECT * FROM ({rows}) WHERE g IS NOT NULL" if self.groups.is_public and self.final.keys else rows

    def _all_rows(self, columns: Mapping[str, str], read: frozenset[int]) -> str:
        """The same with rows whose group is not on the public list; for them it is NULL."""
        unit = {} if self.alone else {"u": f"c{self.unit}"}
        listed = {**unit, **self.groups.expressions(), **columns}
        below = self._below(read, (key.expression for key in self.final.keys), unit=not self.alone)
        return f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in listed.items())} FROM ({below})"

    def _kept(self, columns: Mapping[str, str], read: frozenset[int], *, pairs: bool) -> _Named:
        """Rows in the groups their unit keeps; private ones are chosen here with ``pairs``, else by the caller."""
        most = self.final.max_groups
        if not self.groups.is_public:
            rows = self._rows(columns, read)
            return self._kept_private(rows) if pairs else _Named(f"WITH r AS ({rows})", "r")
        if self.groups.count <= most:
            return _Named(f"WITH r AS ({self._rows(columns, read)})", "r")
        # Columns are computed last, for the rows that are kept.
        raw = {column(slot): column(slot) for slot in sorted(read)}
        count = self.groups.count
        place = self.chooser.place("h", "g", count)
        named = ", ".join(["u", "CAST(g AS SMALLINT) AS g", *raw, f"CAST({place} AS SMALLINT) AS p"])
        placed = f"SELECT {named} FROM (SELECT *, {self.chooser.parameters('u')} AS h FROM ({self._rows(raw, read)}))"
        finished = ", ".join(["u", "g", *(f"{sql} AS {name}" for name, sql in columns.items())])
        parts = {
            "p AS MATERIALIZED": placed,
            **kept_clauses(count, self.chooser.bits(count), most, ["g", *raw], large=self._is_large()),
            "r AS NOT MATERIALIZED": f"SELECT {finished} FROM kept",
        }
        return _Named("WITH " + ", ".join(f"{name} ({sql})" for name, sql in parts.items()), "r")

    def _is_large(self) -> bool:
        return sum(self.tables[name].size for name in scanned(self.final.source)) > _LARGE

    def _kept_private(self, rows: str) -> _Named:
        names = self.groups.columns
        chosen = self._chosen(f"SELECT DISTINCT u, {', '.join(names)} FROM q")
        match = " AND ".join(["q.u = j.u", *(f"q.{name} IS NOT DISTINCT FROM j.{name}" for name in names)])
        kept = f"SELECT q.* FROM q JOIN ({chosen}) AS j ON {match}"
        return _Named(f"WITH q AS MATERIALIZED ({rows}), r AS ({kept})", "r")

    def _chosen(self, pairs: str) -> str:
        """At most ``max_groups`` of each unit's pairs (unit, private group)."""
        names = self.groups.columns
        digest = self.chooser.digest("groups", "u", list(zip(names, self.groups.types, strict=True)))
        order = f"row_number() OVER (PARTITION BY u ORDER BY {digest}, {', '.join(names)})"
        return f"SELECT * FROM ({pairs}) QUALIFY {order} <= {self.final.max_groups}"

    def _distinct(self, source: str, kind: SqlType, most: int) -> str:
        names = ", ".join(self.groups.columns)
        values = f"SELECT DISTINCT u, {names}, x FROM {source}"
        order = f"row_number() OVER (PARTITION BY u, {names} ORDER BY {self.chooser.digest('values', 'u', [('x', kind)])}, x)"  # noqa: E501
        kept = f"SELECT * FROM ({values}) QUALIFY {order} <= {most}"
        return f"SELECT {names}, 0 AS place, count(DISTINCT x) AS n FROM ({kept}) GROUP BY {names}"

    def _counted(self, source: str, most: int) -> str:
        """Counts per place, of at most ``most`` values of a unit in a group; units with no more need no choice."""
        names = ", ".join(self.groups.columns)
        per_place = f"SELECT u, {names}, x, count(*) AS n FROM {source} GROUP BY u, {names}, x"
        totals = f"SELECT *, sum(n) OVER (PARTITION BY u, {names}) AS total FROM ({per_place})"
        digest = self.chooser.digest("values", "u", [("x", INTEGER), ("j", INTEGER)])
        order = f"row_number() OVER (PARTITION BY u, {names} ORDER BY {digest}, x, j)"
        single = f"SELECT u, {names}, x, unnest(range(1, n + 1)) AS j FROM t WHERE total > {most}"
        many = f"SELECT {names}, x, 1 AS n FROM ({single}) QUALIFY {order} <= {most}"
        few = f"SELECT {names}, x, n FROM t WHERE total <= {most}"
        both = f"{few} UNION ALL {many}"
        return (
            f"SELECT {names}, x AS place, CAST(sum(n) AS BIGINT) AS n FROM "
            f"(WITH t AS MATERIALIZED ({totals}) {both}) GROUP BY {names}, x"
        )


@dataclass(frozen=True)
class _Named:
    """WITH clauses, and the name of the last of them."""

    text: str
    name: str
