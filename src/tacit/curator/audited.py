"""The SQL path in the standing self-audit: questions recorded on one table and replayed on its neighbours.

Every mechanism of a plan gives what it gave before; then values, intervals, charge and notes must be the same, and no
mechanism's input may have moved by more than its plan declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from tacit.audit.museum.piece import Verdict, judged
from tacit.audit.search import replay_neighbours
from tacit.audit.standing import Check
from tacit.curator.opening import open_curator

__all__ = ["sql_checks"]

#: Persons with several rows, one with far more than count, values at and beyond the bounds, missing ones.
_VISITS: Final = [
    *(
        {"person": i % 7, "ward": ("heart", "lung", "eye")[i % 3], "town": f"town {i % 4}", "cost": float(i % 50)}
        for i in range(40)
    ),
    *({"person": 99, "ward": "heart", "town": "a hamlet", "cost": 5000.0} for _ in range(30)),
    {"person": 8, "ward": None, "town": None, "cost": None},
]
_QUESTIONS: Final = {
    "one count": "SELECT COUNT(*) FROM data",
    "persons": "SELECT COUNT(DISTINCT person) FROM data WHERE cost > 10",
    "sums and means by public keys": "SELECT ward, COUNT(*), SUM(cost), AVG(cost) FROM data GROUP BY ward",
    "a median": "SELECT MEDIAN(cost) FROM data",
    "private keys": "SELECT town, COUNT(*) FROM data GROUP BY town",
    "a filter that divides by zero": "SELECT SUM(cost) FROM data WHERE 1 / (person - 99) > 0",
}


def sql_checks() -> Iterator[Check]:
    """One replay on many neighbours for each question."""
    for name, sql in _QUESTIONS.items():
        yield Check(f"SQL: {name}", "replay", partial(_replayed, sql))


def _replayed(sql: str) -> Verdict:
    return judged(replay_neighbours(_asking(sql), _VISITS, unit="person"))


def _asking(sql: str) -> Callable[[list[dict[str, Any]]], Any]:
    import pyarrow as pa

    types = {"person": pa.int64(), "ward": pa.string(), "town": pa.string(), "cost": pa.float64()}
    schema = pa.schema(list(types.items()))

    def ask(rows: list[dict[str, Any]]) -> Any:
        columns = {"ward": ["eye", "heart", "lung"], "cost": {"bounds": [0, 100], "step": "0.01"}}
        curator = open_curator(
            pa.Table.from_pylist(rows, schema=schema),
            unit="person",
            epsilon=10,
            delta="1e-5",
            accounting="approx",
            columns=columns,
            max_rows=3,
        )
        try:
            answer = curator.sql(sql, epsilon=1)
            finished = answer.finished
            return finished.values, finished.intervals(), answer.charge.text, answer.note, str(curator.budget())
        finally:
            curator.close()

    return ask
