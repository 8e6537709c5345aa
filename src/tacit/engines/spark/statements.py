"""Spark statements that bound units with one exchange.

Rows go to where their unit is counted before anything is collected, and from there on pairs (unit, group), the choice
of groups and the sums over a unit all find their rows in place. Only sums per group move again, one row per group and
task.

Where units have far more public groups than they keep, most rows are of no use and need not travel. Then the first
places of the units' orders are looked at in advance: a unit with enough groups in them keeps no group beyond the last
of these, and its rows beyond that are dropped before the exchange. That only leaves out what would be dropped
afterwards; the choice itself is made, exactly and in full, of what arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.engines.sql.dialect import column
from tacit.engines.sql.loss_cells import CellWriter
from tacit.engines.sql.relations import scanned
from tacit.engines.sql.scalars import scalar_sql
from tacit.engines.sql.statements import Named
from tacit.engines.sql.unit_totals import Partials
from tacit.query.relational.algebra import FilterRows, ProjectColumns, RelationNode, Scan
from tacit.query.types import INTEGER

__all__ = ["SparkWriter"]

#: Bytes of sources between which looking in advance pays: below, it costs more than it saves; above, there may be more
#: units than can be sent to every machine.
_LARGE, _TOO_LARGE = 20 * 2**20, 2**35
#: Units that are looked up in advance, at most; any of them may be left out.
_MOST_UNITS = 2_000_000
#: Places that fit a set of bits.
_WORD = 64


@dataclass(frozen=True)
class SparkWriter(CellWriter):
    """Writes statements that bound units with one exchange."""

    def _pairs(self, partials: Partials, read: frozenset[int]) -> str:
        """One row per unit and group that counts: ``u``, group columns and what is collected."""
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        collected += ", count(*) AS seen"
        carried = "".join(f", {name}" for name in (*partials.collected, "seen"))
        first = None if self.has_others else self._first_places()
        if first is not None:
            rows = self._pruned(partials.rows, read, first)
            return self.in_public_groups(f"SELECT u, g{collected} FROM ({rows} DISTRIBUTE BY u) GROUP BY u, g", "seen")
        keys = {f"k{i}": scalar_sql(self.d, key.expression) for i, key in enumerate(self.final.keys)}
        rows = self._select({"u": f"c{self.unit}", **keys, **partials.rows}, read, unit=True)
        names = ", ".join(["u", *keys])
        pairs = f"SELECT {names}{collected} FROM ({rows} DISTRIBUTE BY u) GROUP BY {names}"
        if not self.groups.is_public:
            return pairs
        coded = f"SELECT u, {self.groups.code(self.d, list(keys))} AS g{carried} FROM ({pairs})"
        return self.in_public_groups(coded, "seen") if keys and not self.has_others else coded

    def in_public_groups(self, coded: str, seen: str) -> str:
        """Rows of ``coded`` in public groups.

        A condition on groups alone is moved below the sums, and computed for every row. One that also looks at a
        count, which is never 0, stays where it stands.
        """
        return f"SELECT * FROM ({coded}) WHERE CASE WHEN {seen} > 0 THEN g END IS NOT NULL"

    def kept(self, columns: Mapping[str, str], read: frozenset[int]) -> Named:
        """Rows in the groups their unit keeps; where there is nothing to choose they are still brought together."""
        if self.must_choose:
            return super().kept(columns, read)
        return Named(f"WITH r AS ({self.rows(columns, read)} DISTRIBUTE BY u)", "r")

    def _counted(self, source: str, most: int) -> str:
        """Counts per place, of at most ``most`` values of a unit in a group; in one pass, so that rows move once."""
        names = ", ".join(self.groups.columns)
        per_place = f"SELECT u, {names}, x, count(*) AS n FROM {source} GROUP BY u, {names}, x"
        totals = f"SELECT *, sum(n) OVER (PARTITION BY u, {names}) AS total FROM ({per_place})"
        # Units with no more values than count need no choice, and stay as they are.
        one, copies = (
            f"CASE WHEN total > {most} THEN {then} ELSE {other} END" for then, other in (("1", "n"), ("n", "1"))
        )
        single = self.d.numbered_copies(f"u, {names}, x, total, {one} AS m", copies, f"({totals})")
        rank = self.chooser.rank(self.d, "values", "u", [("x", INTEGER), ("j", INTEGER)])
        order = f"CASE WHEN total > {most} THEN {rank} END, x, j"
        seated = f"SELECT *, row_number() OVER (PARTITION BY u, {names} ORDER BY {order}) AS seat2 FROM ({single})"
        counted = f"SELECT {names}, x AS place, CAST(sum(m) AS BIGINT) AS n FROM ({seated})"
        return f"{counted} WHERE total <= {most} OR seat2 <= {most} GROUP BY {names}, x"

    def _first_places(self) -> int | None:
        """Number of places to look at in advance; None where that would settle too few units."""
        if not self.groups.is_public or not self.must_choose or self.chooser.numbered:
            return None
        if not _is_cheap(self.final.source):
            return None
        if not _LARGE < sum(self.tables[name].size for name in scanned(self.final.source)) < _TOO_LARGE:
            return None
        bits = self.chooser.bits(self.groups.count)
        first = min(_WORD, 2 ** (bits - 1))
        taken_by_a_unit_in_all = first * self.groups.count // 2**bits
        return first if 2 * taken_by_a_unit_in_all >= 3 * self.final.max_groups else None

    def _pruned(self, columns: Mapping[str, str], read: frozenset[int], first: int) -> str:
        """Rows with unit, group and columns, without those that their unit certainly drops."""
        most = self.final.max_groups
        # Settling units needs no values. The number of a partition, of which nothing is taken, keeps Spark from
        # computing the place in the condition and then again.
        bare = f"SELECT u, CAST(p + (spark_partition_id() & 0) AS INT) AS p FROM ({self._placed({}, frozenset())})"
        sets = f"SELECT u, bit_or(shiftleft(CAST(1 AS BIGINT), p)) AS m FROM ({bare}) WHERE p < {first} GROUP BY u"
        known = (
            f"SELECT u, {_last_place('m', most)} AS t FROM ({sets}) WHERE bit_count(m) >= {most} LIMIT {_MOST_UNITS}"
        )
        # Values are computed last, for the rows that stay.
        raw = {column(slot): column(slot) for slot in sorted(read)}
        listed = ", ".join(["q.u AS u", "q.g AS g", *(f"{sql} AS {name}" for name, sql in columns.items())])
        return (
            f"SELECT /*+ BROADCAST(b) */ {listed} FROM ({self._placed(raw, read)}) AS q LEFT JOIN ({known}) AS b"
            " ON q.u = b.u WHERE b.t IS NULL OR q.p <= b.t"
        )

    def _placed(self, columns: Mapping[str, str], read: frozenset[int]) -> str:
        """All rows with unit, group, columns and the place ``p``; without a place outside the public list."""
        # These come along, since a condition would compute every group twice.
        rows = self.all_rows(columns, read)
        place = self.chooser.place("h", "g", self.groups.count)
        return f"SELECT *, {place} AS p FROM (SELECT *, {self.chooser.parameters(self.d, 'u')} AS h FROM ({rows}))"


def _is_cheap(node: RelationNode) -> bool:
    """Whether rows can be read twice for little: a table, filtered and projected."""
    if isinstance(node, (FilterRows, ProjectColumns)):
        return _is_cheap(node.source)
    return isinstance(node, Scan) and not node.path


def _last_place(bits: str, most: int) -> str:
    """The place of the ``most``-th bit that is set, or one beyond it: at the end of its octet of bits."""
    full = " ".join(
        f"WHEN bit_count({bits} & CAST({2 ** (8 * i) - 1} AS BIGINT)) >= {most} THEN {8 * i - 1}" for i in range(1, 8)
    )
    return f"CASE {full} ELSE 63 END"
