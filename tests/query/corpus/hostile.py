"""Neighbouring databases for the corpus, as hostile as their types allow: what one unit can do to an answer.

The common part is the small nasty database of ``data.py``. The heavy person has many visits with extreme values in
every column; the newcomer has one visit, outside every bound.
"""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from typing import Any

from query.corpus.data import DATABASE

__all__ = ["HEAVY", "Rows", "empty", "heavy", "joined", "newcomer", "ordinary", "without_patient"]

Rows = dict[str, list[dict[str, Any]]]

HEAVY = 77
_NEWCOMER = 88
_VISITS = 130
_DOUBLES = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, None, 2.5)
_INTEGERS = (0, 1, -1, 60, 61, 2**63 - 1, -(2**63), 2**53 + 1)
_DATES = (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 1, 1), dt.date(2024, 2, 29), None, dt.date(2022, 7, 4))
_TEXTS = ("", "a", "ab", "a" * 2000, "12", "1e308", "nan", "2024-02-29", "it's", "\u00e9\U0001f600", None)


def _extreme_visit(number: int, patient: int) -> dict[str, Any]:
    day = _DATES[number % 6]
    return {
        "visit_id": 10_000 + number,
        "patient_id": patient,
        "ward": ("cardiology", "oncology", "surgery", None, "elsewhere", "")[number % 6],
        "cost": (None, Fraction(10**15), Fraction(-(10**15)), Fraction(5000), Fraction(1, 100))[number % 5],
        "nights": _INTEGERS[number % 8],
        "admitted": day,
        "seen": None if day is None else dt.datetime.combine(day, dt.time(number % 24)),
        "score": _DOUBLES[number % 9],
        "points": _INTEGERS[(number + 3) % 8],
        "note": _TEXTS[number % 11],
        "doctor": f"dr {number}",
        "urgent": (True, False, None)[number % 3],
    }


def _person(patient: int, visits: int) -> Rows:
    """All rows of one patient: a row of their own, visits, and prescriptions for each visit."""
    made = [_extreme_visit(number + patient * 100, patient) for number in range(visits)]
    return {
        "patients": [
            {"id": patient, "sex": "X", "birth": dt.date(1, 1, 1), "city": "Bern", "weight": math.inf, "active": None}
        ],
        "visits": made,
        "prescriptions": [
            {"visit_id": visit["visit_id"], "drug": f"drug {i % 30}", "dose": _DOUBLES[i % 9], "refills": 2**63 - 1}
            for i, visit in enumerate(visit for visit in made for _ in range(2))
        ],
    }


def joined(*parts: Rows) -> Rows:
    """Several databases as one."""
    return {name: [row for part in parts for row in part.get(name, [])] for name in DATABASE}


def ordinary() -> Rows:
    """The nasty database without its heavy persons."""
    return {name: list(rows) for name, rows in DATABASE.items()}


def heavy() -> Rows:
    """A person with far more rows and groups than count."""
    return _person(HEAVY, _VISITS)


def newcomer() -> Rows:
    """A person with one visit."""
    return _person(_NEWCOMER, 1)


def empty() -> Rows:
    """Public rows alone."""
    return {name: list(rows) if name == "wards" else [] for name, rows in DATABASE.items()}


def without_patient(database: Rows, patient: int) -> Rows:
    """All but one person's rows."""
    gone = {row["visit_id"] for row in database["visits"] if row["patient_id"] == patient}
    return database | {
        "patients": [row for row in database["patients"] if row["id"] != patient],
        "visits": [row for row in database["visits"] if row["patient_id"] != patient],
        "prescriptions": [row for row in database["prescriptions"] if row["visit_id"] not in gone],
    }
