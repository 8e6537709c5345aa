"""The catalog of the corpus: a clinic with patients, visits, prescriptions, public wards, staff and a log."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from tacit.query.catalog import Catalog, Column, ForeignKey, Population, PublicSize, Table
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, decimal

__all__ = ["CATALOG", "WARDS"]

WARDS = ("cardiology", "oncology", "surgery")

PATIENTS = Table(
    "patients",
    (
        Column("id", INTEGER, nullable=False, unique=True),
        Column("sex", TEXT, categories=("F", "M")),
        Column("birth", DATE, bounds=(dt.date(1920, 1, 1), dt.date(2025, 12, 31))),
        Column("city", TEXT),
        Column("weight", DOUBLE, bounds=(0.0, 200.0)),
        Column("active", BOOLEAN),
    ),
    population="patients",
    unit="id",
)
VISITS = Table(
    "visits",
    (
        Column("visit_id", INTEGER, nullable=False, unique=True),
        Column("patient_id", INTEGER),
        Column("ward", TEXT, categories=WARDS),
        Column("cost", decimal(2), bounds=(Fraction(0), Fraction(5000)), step=Fraction(1, 100)),
        Column("nights", INTEGER, bounds=(0, 60), nullable=False),
        Column("admitted", DATE, bounds=(dt.date(2020, 1, 1), dt.date(2024, 12, 31))),
        Column("seen", TIMESTAMP, bounds=(dt.datetime(2020, 1, 1), dt.datetime(2024, 12, 31))),
        Column("score", DOUBLE),
        Column("points", INTEGER),
        Column("note", TEXT),
        Column("doctor", TEXT),
        Column("urgent", BOOLEAN),
    ),
    population="patients",
    unit="patient_id",
    max_groups=8,
    max_rows=20,
)
PRESCRIPTIONS = Table(
    "prescriptions",
    (
        Column("visit_id", INTEGER),
        Column("drug", TEXT),
        Column("dose", DOUBLE, bounds=(0.0, 100.0)),
        Column("refills", INTEGER, bounds=(0, 12)),
    ),
    population="patients",
    foreign_keys=(ForeignKey("visit_id", "visits", "visit_id"),),
    max_groups=10,
    max_rows=50,
)
WARD_TABLE = Table(
    "wards",
    (
        Column("ward", TEXT),
        Column("floor", INTEGER, bounds=(0, 9)),
        Column("beds", INTEGER, bounds=(0, 100)),
    ),
    public=True,
    # As the engine would count it; only bounds on work depend on it.
    size=PublicSize(5, {"ward": 1, "floor": 1, "beds": 1}),
)
STAFF = Table(
    "staff",
    (
        Column("staff_id", INTEGER),
        Column("ward", TEXT, categories=WARDS),
        Column("salary", INTEGER, bounds=(0, 200_000)),
    ),
    population="staff",
    unit="staff_id",
)
LOG = Table(
    "log",
    (
        Column("level", TEXT, categories=("info", "warn", None)),
        Column("ms", INTEGER, bounds=(0, 1000)),
        Column("code", INTEGER),
    ),
    population="events",
    unit="row",
)

CATALOG = Catalog(
    (PATIENTS, VISITS, PRESCRIPTIONS, WARD_TABLE, STAFF, LOG),
    (Population("patients"), Population("staff"), Population("events")),
)
