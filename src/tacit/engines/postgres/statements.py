"""PostgreSQL statements that bound units by one sort.

Sorted by unit and by the place of their group in the unit's order, rows are collected, numbered and cut off as they
pass, without another sort or a hash table of all pairs (unit, group). Where the place costs a digest, it is computed
for pairs instead: rows are sorted by unit and group, and then a unit's few pairs among themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.statements import Statement, Writer, writer
from tacit.engines.sql.unit_totals import Partials
from tacit.query.question import FinalAggregation

__all__ = ["statements"]


def statements(final: FinalAggregation, tables: Mapping[str, StoredTable], secret: bytes) -> tuple[Statement, ...]:
    """Everything to run for one final aggregation."""
    made = writer(_Writer, POSTGRES, final, tables, secret)
    return (made.first(), *made.others())


@dataclass(frozen=True)
class _Writer(Writer):
    def _pairs(self, partials: Partials, read: frozenset[int]) -> str:
        """One row per unit and group that counts; sorted where a unit may have more groups than it keeps."""
        if not self.groups.is_public or not self.must_choose:
            return super()._pairs(partials, read)
        columns = "".join(f", {name}" for name in partials.rows)
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        rows, by = f"SELECT * FROM {self.d.fenced(self.all_rows(partials.rows, read))} WHERE g IS NOT NULL", "u, g"
        if self.chooser.whole:
            inner = f"SELECT *, {self.chooser.parameters(self.d, 'u')} AS h FROM {self.d.derived(rows)}"
            place = self.chooser.place("h", "g", self.groups.count)
            rows = f"SELECT u, CAST({place} AS SMALLINT) AS p, g{columns} FROM {self.d.fenced(inner)}"
            by = "u, p, g"
        return f"SELECT {by}{collected} FROM {self.d.fenced(f'{rows} ORDER BY {by}')} GROUP BY {by}"

    def chosen(self, pairs: str) -> str:
        """By the place that was computed for each row, if it was."""
        return self.first_of(pairs, "p") if self.groups.is_public and self.chooser.whole else super().chosen(pairs)
