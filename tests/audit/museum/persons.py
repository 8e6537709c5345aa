"""Exhibits: identity bugs, where one person counts as several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from audit.museum.exhibit import Piece
from tacit.audit.replay import ReplayReport
from tacit.audit.search import replay_neighbours
from tacit.core.errors import InputError
from tacit.mechanisms.laplace import Laplace

#: Rows of two tables: visits name a person by a number, letters by a text with leading zeros.
_ROWS = [
    *({"person": i, "table": "visits", "id": i} for i in range(1, 6)),
    *({"person": i, "table": "letters", "id": f"{i:02d}"} for i in range(1, 8)),
]
#: One person with far more rows than any other.
_VISITS = [*({"person": i, "doctor": i % 2} for i in range(6)), *({"person": 9, "doctor": 1} for _ in range(40))]


def persons_by_text(rows: Sequence[dict[str, Any]]) -> int:
    """Count the persons of both tables, for ε = 1: a person counts once, if 7 and "07" are one."""
    return Laplace(epsilon=1, l1_sensitivity=1).release(len({str(row["id"]) for row in rows}))


def persons_by_number(rows: Sequence[dict[str, Any]]) -> int:
    """Corrected: one canonical form of a person in both tables."""
    return Laplace(epsilon=1, l1_sensitivity=1).release(len({int(row["id"]) for row in rows}))


def unit_that_moved(rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """One account for ε = 2, opened for persons; after half of it the unit in the project file is edited."""
    counts = []
    for unit in ("person", "row"):
        units = {row[unit] if unit == "person" else place for place, row in enumerate(rows)}
        counts.append(Laplace(epsilon=1, l1_sensitivity=1).release(len(units)))
    return counts[0], counts[1]


def unit_that_is_a_term(rows: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """Corrected: the unit is a term of the account, and another one is refused."""
    fixed = "person"
    counts: list[int] = []
    for unit in ("person", "row"):
        if unit != fixed:
            return counts[0], str(InputError("unit", f"the account protects {fixed}, not {unit}"))
        counts.append(Laplace(epsilon=1, l1_sensitivity=1).release(len({row[unit] for row in rows})))
    raise AssertionError("the second unit is another one")


def _replayed(function: Callable[[Any], Any], database: Sequence[Any]) -> Callable[[], Sequence[ReplayReport]]:
    return lambda: replay_neighbours(function, list(database), unit="person")


PIECES = (
    Piece(
        name="one-person-two-names",
        title="one person, two spellings of an id",
        story="Two tables of one population named persons by a number and by a text. In a query that stacked both, "
        "7 and '07' were two persons with a share each. Every bound held for what was taken for a person.",
        seen_in="this project: mantissas of decimals, texts beside numbers, rows beside ids, ids read as doubles",
        tool="replay",
        flawed=_replayed(persons_by_text, _ROWS),
        mended=_replayed(persons_by_number, _ROWS),
    ),
    Piece(
        name="unit-that-moved",
        title="the unit edited after half of the budget",
        story="The budget was kept with care, and what one person is stood in a file that any user could edit. Edited "
        "from a column to the row, a patient's 402 rows were 402 persons, under the account that protected one.",
        seen_in="this project: the unit was no term of the account",
        tool="replay",
        flawed=_replayed(unit_that_moved, _VISITS),
        mended=_replayed(unit_that_is_a_term, _VISITS),
    ),
)
