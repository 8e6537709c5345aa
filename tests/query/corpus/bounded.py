"""Databases for the corpus in which no bound bites: values within declared bounds, persons with at most two visits.

On such data the exact integers of an engine, taken without noise, are the answers of ordinary SQL.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from query.corpus.clinic import CATALOG, WARDS
from tacit.query.types import DECIMAL_DIGITS, Kind

__all__ = ["BOUNDED", "Rows", "arrow", "database"]

Rows = dict[str, list[dict[str, Any]]]

_FIRST_DAY = dt.date(2020, 1, 1)
_DAYS = 1826
_NOTES = ("abc", "ab", "a-b-c", "xyz", "Xa", "12", "0.75", "2021-03-04", "it's", "", "HIV", " ab ")
_KINDS = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
}


def _mix(number: int, salt: int) -> int:
    """A whole number that looks arbitrary and is the same in every run."""
    return int.from_bytes(hashlib.sha256(f"{number} {salt}".encode()).digest()[:8], "big")


def _choose(number: int, salt: int, values: Sequence[Any]) -> Any:
    return values[_mix(number, salt) % len(values)]


def _visit(number: int, patient: int | None, *, odd: bool, second: bool = False) -> dict[str, Any]:
    day = _FIRST_DAY + dt.timedelta(days=_mix(number, 1) % _DAYS)
    row = {
        "visit_id": 1000 + number,
        "patient_id": patient,
        "ward": _choose(number, 2, WARDS),
        "cost": Fraction(_mix(number, 3) % 500_001, 100),
        "nights": _mix(number, 4) % 61,
        "admitted": day,
        "seen": dt.datetime.combine(day, dt.time(_mix(number, 5) % 24 if day < dt.date(2024, 12, 30) else 0)),
        "score": _mix(number, 6) % 1601 / 64,
        "points": _mix(number, 7) % 11 - 5,
        "note": _choose(number, 8, (*_NOTES, None)),
        "doctor": f"dr {_mix(number, 9) % 7}",
        "urgent": _choose(number, 10, (True, False)),
    }
    if odd:
        row |= {"score": _choose(number, 11, (math.nan, math.inf, -math.inf, -0.0, 5e-324, None, 0.5, 25.0))}
        for salt, name in enumerate(("ward", "cost", "admitted", "seen", "points", "doctor", "urgent"), 12):
            row[name] = None if _mix(number, salt) % 4 == 0 else row[name]
    if second:
        # Two visits of one person without a date would leave their order open.
        row |= {"admitted": day}
    return row


def _patient(number: int, *, odd: bool) -> dict[str, Any]:
    row = {
        "id": number,
        "sex": _choose(number, 20, ("F", "M")),
        "birth": dt.date(1920, 1, 1) + dt.timedelta(days=_mix(number, 21) % 38_000),
        "city": _choose(number, 22, ("Bern", "Basel", "Chur", "Genf", None)),
        "weight": _mix(number, 23) % 1601 / 8,
        "active": _choose(number, 24, (True, False)),
    }
    if odd:
        row |= {"weight": _choose(number, 25, (math.nan, math.inf, None, -0.0, 200.0, 71.125))}
        row |= {name: None for salt, name in enumerate(("sex", "birth", "active"), 26) if _mix(number, salt) % 4 == 0}
    return row


def database(people: int, *, odd: bool) -> Rows:
    """Most persons have a row of their own and up to two visits; some have only the one or the other."""
    visits: list[dict[str, Any]] = []
    for person in range(1, people + 1):
        for turn in range(_mix(person, 30) % 3 if person % 5 else 2):
            visits.append(_visit(len(visits), person, odd=odd, second=bool(turn)))
    if odd:
        visits += [_visit(len(visits) + i, None, odd=True) for i in range(5)]
    prescriptions = [
        {
            "visit_id": visit["visit_id"] if not odd or i % 9 else None,
            "drug": _choose(visit["visit_id"] + i, 31, ("a", "b", "c", None)),
            "dose": math.inf if odd and _mix(i, 32) % 6 == 0 else _mix(visit["visit_id"], 33 + i % 2) % 801 / 8,
            "refills": None if odd and i % 4 == 0 else _mix(i, 35) % 13,
        }
        for i, visit in enumerate(visit for visit in visits for _ in range(_mix(visit["visit_id"], 36) % 3))
    ]
    levels = ("info", "warn", None)
    return {
        "patients": [_patient(n, odd=odd) for n in range(1, people + 1) if n % 11 or people == 1],
        "visits": visits,
        "prescriptions": prescriptions,
        "wards": [
            {"ward": ward, "floor": floor, "beds": 9 * floor + 4}
            for floor, ward in enumerate((*WARDS, None, "elsewhere"), 1)
        ],
        "staff": [
            {"staff_id": n, "ward": _choose(n, 40, WARDS), "salary": _mix(n, 41) % 20_001 * 10}
            for n in range(1, people + 1)
        ],
        "log": [
            {"level": _choose(n, 42, levels), "ms": None if n % 7 == 3 else _mix(n, 43) % 1001, "code": _mix(n, 44) % 4}
            for n in range(2 * people)
        ],
    }


#: By name: many persons, few of them with NULLs, non-finite numbers and rows without a unit, one, and none.
BOUNDED: dict[str, Rows] = {
    "many": database(120, odd=False),
    "odd": database(48, odd=True),
    "one": database(1, odd=False),
    "empty": database(0, odd=False),
}


def arrow(database: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """A database of the corpus as Arrow tables with the declared types."""
    made = {}
    for table in CATALOG.tables:
        arrays = [
            _array([row[column.name] for row in database[table.name]], column.type.kind, column.type.scale)
            for column in table.columns
        ]
        made[table.name] = pa.Table.from_arrays(arrays, names=[column.name for column in table.columns])
    return made


def _array(cells: list[Any], kind: Kind, scale: int) -> pa.Array:
    if kind is not Kind.DECIMAL:
        return pa.array(cells, type=_KINDS[kind])
    exact = [None if cell is None else Decimal(int(cell * 10**scale)).scaleb(-scale) for cell in cells]
    return pa.array(exact, type=pa.decimal128(DECIMAL_DIGITS, scale))
