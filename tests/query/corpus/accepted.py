"""Accepted queries: one per line of ``accepted.sql`` and of files by subject, and generated ones that combine clauses."""

from __future__ import annotations

import itertools
from pathlib import Path

__all__ = ["ACCEPTED", "GENERATED", "WRITTEN"]

#: Files of queries that are written by hand.
_FILES = ("accepted.sql", "inside_a_person.sql", "functions.sql")
WRITTEN: tuple[str, ...] = tuple(
    line
    for file in _FILES
    for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    if line.strip()
)

_AGGREGATES = (
    "COUNT(*)",
    "COUNT(DISTINCT patient_id)",
    "SUM(cost), AVG(cost)",
    "AVG(nights), STDDEV(nights)",
    "MEDIAN(cost)",
    "SUM(CLAMP(score, 0, 10)) FILTER (WHERE urgent)",
    "MODE(ward)",
    "MIN(admitted)",
)
_SOURCES = (
    "visits",
    "(SELECT * FROM visits WHERE nights > 1) AS s",
    "visits JOIN wards USING (ward)",
    "visits JOIN patients ON id = patient_id",
)
_KEYS = ("", "ward", "urgent", "doctor", "nights // 20", "date_trunc('year', admitted)")
_FILTERS = ("", "cost > 100", "note LIKE 'a%' OR note IS NULL")


def _query(aggregate: str, source: str, key: str, condition: str) -> str:
    where = f" WHERE {condition}" if condition else ""
    if not key:
        return f"SELECT {aggregate} FROM {source}{where}"
    return f"SELECT {key} AS k, {aggregate} FROM {source}{where} GROUP BY k"


#: Every combination of aggregates, sources, keys and filters, thinned to every third.
GENERATED: tuple[str, ...] = tuple(
    _query(*parts) for parts in itertools.product(_AGGREGATES, _SOURCES, _KEYS, _FILTERS)
)[::3]

ACCEPTED: tuple[str, ...] = WRITTEN + GENERATED
