"""A made-up hospital: patients, their visits, and a public list of wards; the same every time, by arithmetic alone."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["PROJECT", "Hospital", "Patient", "Visit", "Ward", "make_hospital"]

PATIENTS: Final = 12_000
_YEAR = 2025
_DISTRICTS = ("harbour", "hill", "market", "mill", "park", "station")

#: What the owner says about the three tables.
PROJECT: Final = """\
[project]
name = "hospital"
ledger = "tacit.ledger"
anchor = "tacit.anchor"

[populations.patients]
epsilon = "3"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient_id"
max_groups = 2
max_rows = 4

[tables.visits.columns]
ward   = { categories = ["cardiology", "emergency", "maternity",
                         "oncology", "orthopaedics", "paediatrics"] }
nights = { bounds = [0, 14] }
cost   = { bounds = [0, 6000] }

[tables.patients]
source = "patients.parquet"
population = "patients"
unit = "patient_id"

[tables.patients.columns]
patient_id = { unique = true }
age        = { bounds = [0, 100] }
sex        = { categories = ["f", "m"] }
district   = { categories = ["harbour", "hill", "market", "mill", "park", "station"] }

[tables.wards]
source = "wards.parquet"
public = true
"""


@dataclass(frozen=True)
class Ward:
    """A ward, publicly known; ``cost`` and ``stay`` only make the visits."""

    name: str
    building: str
    beds: int
    cost: int
    stay: int


_WARDS = (
    Ward("cardiology", "north", 48, 1450, 6),
    Ward("emergency", "south", 30, 420, 2),
    Ward("maternity", "south", 26, 980, 4),
    Ward("oncology", "north", 40, 2300, 7),
    Ward("orthopaedics", "north", 52, 1250, 5),
    Ward("paediatrics", "south", 34, 610, 3),
)


@dataclass(frozen=True)
class Patient:
    """One of the persons to protect."""

    patient_id: int
    age: int
    sex: str
    district: str


@dataclass(frozen=True)
class Visit:
    """One stay of one patient."""

    visit_id: int
    patient_id: int
    ward: str
    admitted: dt.date
    nights: int
    cost: int


@dataclass(frozen=True)
class Hospital:
    """All three tables."""

    patients: tuple[Patient, ...]
    visits: tuple[Visit, ...]
    wards: tuple[Ward, ...]

    def write(self, folder: Path) -> Path:
        """Write the tables and a project file; returns the latter."""
        _write(folder / "patients.parquet", [vars(patient) for patient in self.patients])
        _write(folder / "visits.parquet", [vars(visit) for visit in self.visits])
        _write(folder / "wards.parquet", [{"ward": w.name, "building": w.building, "beds": w.beds} for w in self.wards])
        project = folder / "tacit.toml"
        project.write_text(PROJECT, encoding="utf-8")
        return project


class _Dice:
    """Numbers that look thrown and are not: each is a scrambled count of an index and of how many were drawn."""

    def __init__(self, index: int) -> None:
        self._state = (index * 0x9E3779B97F4A7C15 + 0x1D8E4E27C47D124F) % 2**64

    def below(self, bound: int) -> int:
        """A number from 0 to one less than ``bound``."""
        self._state = (self._state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (self._state ^ self._state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        return (mixed ^ mixed >> 31) % bound

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred."""
        return self.below(100) < percent

    def small(self, most: int) -> int:
        """From 1 to ``most``, small numbers more often."""
        return 1 + min(self.below(most), self.below(most), self.below(most))


def make_hospital() -> Hospital:
    """The hospital."""
    patients: list[Patient] = []
    visits: list[Visit] = []
    for number in range(PATIENTS):
        dice = _Dice(number)
        patient = Patient(
            patient_id=10_000 + number,
            age=min(dice.below(60) + dice.below(42), 97),
            sex="f" if dice.chance(52) else "m",
            district=_DISTRICTS[min(dice.below(6), dice.below(6))],
        )
        patients.append(patient)
        own = _ward_of(patient, dice)
        for _ in range(dice.small(5)):
            ward = "emergency" if dice.chance(30) else own
            visits.append(_visit(len(visits), patient, ward, dice))
    return Hospital(tuple(patients), tuple(visits), _WARDS)


def _visit(number: int, patient: Patient, name: str, dice: _Dice) -> Visit:
    ward = next(ward for ward in _WARDS if ward.name == name)
    # More are ill in winter: a third of summer's visits are thrown again.
    day = dice.below(365)
    if dice.chance(35) and 120 < day < 270:
        day = dice.below(365)
    admitted = dt.date(_YEAR, 1, 1) + dt.timedelta(days=day)
    nights = min(dice.below(ward.stay) + dice.below(ward.stay + 1), 14) if dice.chance(85) else 0
    cost = ward.cost // 2 + dice.below(ward.cost) + nights * (140 + dice.below(160))
    return Visit(number, patient.patient_id, ward.name, admitted, nights, cost)


def _ward_of(patient: Patient, dice: _Dice) -> str:
    if patient.age < 16:
        return "paediatrics"
    if patient.sex == "f" and 19 <= patient.age <= 43 and dice.chance(45):
        return "maternity"
    throw = dice.below(100) + patient.age // 2
    return "orthopaedics" if throw < 62 else "cardiology" if throw < 104 else "oncology"


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path)
