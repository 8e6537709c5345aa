"""A small, nasty database for the corpus: NULLs, extremes, values outside declared bounds, heavy and empty persons."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

__all__ = ["DATABASE", "without"]

_NOTES = ("abc", "a-b", None, "12", "HIV", "it's", "", "2021-03-04")
_SCORES = (0.5, -3.25, math.nan, math.inf, None, 1e308, -0.0, 5e-324)
_WARDS = ("cardiology", "oncology", "surgery", None, "elsewhere")


def _visit(number: int, patient: int | None) -> dict[str, Any]:
    day = dt.date(2019, 11, 20) + dt.timedelta(days=37 * number % 2000)
    return {
        "visit_id": number,
        "patient_id": patient,
        "ward": _WARDS[number * 3 % 5],
        "cost": None if number % 7 == 3 else Fraction(number * 7919 % 700000, 100),
        "nights": number * 5 % 70,
        "admitted": None if number % 11 == 5 else day,
        "seen": dt.datetime.combine(day, dt.time(number % 24, number % 60)),
        "score": _SCORES[number % 8],
        "points": None if number % 6 == 1 else (number - 20) * 3,
        "note": _NOTES[number % 8],
        "doctor": f"dr {number % 4}",
        "urgent": (True, False, None)[number % 3],
    }


def _patient(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "sex": ("F", "M", None, "X")[number % 4],
        "birth": dt.date(1930 + 7 * number % 90, 1 + number % 12, 1 + number % 28),
        "city": ("Bern", "Basel", None)[number % 3],
        "weight": (70.5, 250.0, math.nan, None, 12.25)[number % 5],
        "active": (True, False, None)[number % 3],
    }


_OWNERS = [1, 1, 1, 1, 2, 3, 3, None, 4, 5, 5, 5, 1, 1, 6, 2, 2, 99]
_VISITS = [_visit(number, owner) for number, owner in enumerate(_OWNERS)]

DATABASE: dict[str, list[dict[str, Any]]] = {
    "patients": [_patient(number) for number in (1, 2, 3, 4, 5, 7)],
    "visits": _VISITS,
    "prescriptions": [
        {
            "visit_id": visit,
            "drug": ("a", "b", None)[visit % 3],
            "dose": (3.5, 120.0, math.inf)[visit % 3],
            "refills": 2,
        }
        for visit in (0, 0, 1, 4, 4, 7, 8, 9, 10, 14)
    ],
    "wards": [
        {"ward": ward, "floor": floor, "beds": 10 * floor}
        for floor, ward in enumerate(("cardiology", "oncology", "surgery", None, "surgery"))
    ],
    "staff": [{"staff_id": n, "ward": _WARDS[n % 5], "salary": 30_000 * n} for n in range(1, 8)],
    "log": [{"#row": n, "level": ("info", "warn", None, "x")[n % 4], "ms": 90 * n, "code": n % 3} for n in range(12)],
}


def without(population: str, unit: object) -> Mapping[str, list[dict[str, Any]]]:
    """The database without one unit: its rows in every table that knows it, and what hangs on those rows."""
    tables = {name: list(rows) for name, rows in DATABASE.items()}
    if population == "patients":
        gone = {row["visit_id"] for row in tables["visits"] if row["patient_id"] == unit}
        tables["patients"] = [row for row in tables["patients"] if row["id"] != unit]
        tables["visits"] = [row for row in tables["visits"] if row["patient_id"] != unit]
        tables["prescriptions"] = [row for row in tables["prescriptions"] if row["visit_id"] not in gone]
    elif population == "staff":
        tables["staff"] = [row for row in tables["staff"] if row["staff_id"] != unit]
    else:
        tables["log"] = [row for row in tables["log"] if row["#row"] != unit]
    return tables
