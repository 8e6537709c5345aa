"""A small catalog with every kind of table, hostile rows for it, and queries that use all of the algebra."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, SqlType, Value, as_value, decimal

MONEY = decimal(2)
WARDS = ("cardio", "onco", "surgery", "ward d", "é'\"")

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("visit_id", INTEGER, unique=True),
                Column("patient_id", INTEGER),
                Column("ward", TEXT, categories=WARDS),
                Column("cost", MONEY, bounds=(Fraction(0), Fraction(5000))),
                Column("score", DOUBLE, bounds=(-10.0, 10.0)),
                Column("weight", DOUBLE, bounds=(0.0, 200.0), step=Fraction(1, 10)),
                Column("admitted", DATE, bounds=(dt.date(2023, 11, 1), dt.date(2024, 3, 31))),
                Column("seen", TIMESTAMP),
                Column("urgent", BOOLEAN),
                Column("note", TEXT),
                Column("level", INTEGER, bounds=(0, 9)),
                Column("big", INTEGER, bounds=(-(2**63), 2**63 - 1)),
            ),
            population="patients",
            unit="patient_id",
            max_groups=2,
            max_rows=3,
        ),
        Table(
            "patients",
            (Column("id", INTEGER, unique=True), Column("age", INTEGER, bounds=(0, 120)), Column("sex", TEXT, categories=("f", "m", None))),
            population="patients",
            unit="id",
        ),
        Table(
            "bills",
            (Column("visit", INTEGER), Column("amount", DOUBLE, bounds=(0.0, 1000.0))),
            population="patients",
            foreign_keys=(ForeignKey("visit", "visits", "visit_id"),),
            max_groups=2,
            max_rows=4,
        ),
        Table("wards", (Column("ward", TEXT), Column("floor", INTEGER, bounds=(0, 5)), Column("rate", DOUBLE, bounds=(0.0, 3.0))), public=True),
        Table(
            "events",
            (Column("kind", TEXT, categories=("a", "b", "c", None)), Column("x", DOUBLE, bounds=(-5.0, 5.0)), Column("n", INTEGER, bounds=(0, 99)), Column("free", TEXT)),
            population="rows",
            unit="row",
            max_rows=2,
        ),
        Table(
            "members",
            (Column("name", TEXT), Column("team", TEXT, categories=tuple(f"t{i:02d}" for i in range(90))), Column("points", INTEGER, bounds=(0, 1000))),
            population="members",
            unit="name",
            max_groups=3,
            max_rows=2,
        ),
    ),
    (Population("patients"), Population("rows"), Population("members")),
)  # fmt: skip

QUERIES = [
    "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*), SUM(cost), AVG(cost) FROM visits",
    "SELECT ward, COUNT(*), SUM(cost), AVG(cost), COUNT(DISTINCT patient_id) FROM visits GROUP BY ward",
    "SELECT ward, urgent, COUNT(*), SUM(score) FROM visits GROUP BY ward, urgent",
    "SELECT ward, VARIANCE(score), STDDEV(cost) FROM visits GROUP BY ward",
    "SELECT AVG(weight), SUM(weight), COUNT(weight) FROM visits WHERE weight > 0.05",
    "SELECT SUM(big), AVG(big) FROM visits",
    "SELECT note, COUNT(*), SUM(level) FROM visits GROUP BY note",
    "SELECT note, level, COUNT(DISTINCT ward) FROM visits GROUP BY note, level",
    "SELECT COUNT(DISTINCT note) FROM visits",
    "SELECT ward, COUNT(DISTINCT level), COUNT(DISTINCT cost), COUNT(DISTINCT admitted) FROM visits GROUP BY ward",
    "SELECT ward, MEDIAN(cost), MIN(score), MAX(score) FROM visits GROUP BY ward",
    "SELECT QUANTILE(weight, 0.25), MEDIAN(admitted) FROM visits",
    "SELECT note, MEDIAN(score) FROM visits GROUP BY note",
    "SELECT MODE(ward) FROM visits",
    "SELECT urgent, MODE(level) FROM visits GROUP BY urgent",
    "SELECT DATE_TRUNC('month', admitted), COUNT(*) FROM visits GROUP BY 1",
    "SELECT level // 3, SUM(cost) FROM visits GROUP BY 1",
    "SELECT CASE WHEN level < 3 THEN 'low' WHEN level < 6 THEN 'mid' END, COUNT(*) FROM visits GROUP BY 1",
    "SELECT SUM(CLAMP(cost / level, 0, 100)), COUNT(*) FILTER (WHERE urgent), SUM(cost) FILTER (WHERE NOT urgent) FROM visits",
    "SELECT SUM(CLAMP(CAST(note AS INTEGER), 0, 10)) FROM visits WHERE note LIKE '%1%' OR note IS NULL OR LENGTH(note) > 2",
    "SELECT SUM(CLAMP(LN(score) + SQRT(score) * EXP(score), -5, 5)), SUM(CLAMP(1 / score, -9, 9)) FROM visits",
    "SELECT SUM(CLAMP(big * big + level, -9, 9)), SUM(CLAMP(big % level, -9, 9)), SUM(CLAMP(big // level, -9, 9)) FROM visits",
    "SELECT v.ward, w.floor, COUNT(*), SUM(v.cost * w.rate) FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY v.ward, w.floor",
    "SELECT COUNT(*), SUM(w.floor) FROM visits v LEFT JOIN wards w ON v.ward = w.ward AND w.floor > 1",
    "SELECT p.sex, COUNT(*), AVG(v.cost) FROM visits v JOIN patients p ON v.patient_id = p.id GROUP BY p.sex",
    "SELECT p.sex, COUNT(*), SUM(v.level) FROM patients p LEFT JOIN visits v ON v.patient_id = p.id GROUP BY p.sex",
    "SELECT COUNT(*), SUM(v.level), SUM(p.age) FROM visits v FULL JOIN patients p ON v.patient_id = p.id AND v.level > 4",
    "SELECT COUNT(*), COUNT(p.age) FROM patients p RIGHT JOIN visits v ON v.patient_id = p.id",
    "SELECT v.ward, SUM(b.amount), COUNT(*) FROM bills b JOIN visits v ON b.visit = v.visit_id GROUP BY v.ward",
    "SELECT SUM(amount), COUNT(DISTINCT ROUND(amount, 1)) FROM bills",
    "SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE floor > 1)",
    "SELECT COUNT(*) FROM visits WHERE ward NOT IN (SELECT ward FROM wards WHERE floor < 4)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM wards w WHERE w.ward = v.ward AND w.floor > 1) OR urgent",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM patients p WHERE p.id = v.patient_id AND p.age > 40)",
    "SELECT COUNT(*) FROM patients p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.id)",
    "SELECT ward, COUNT(*) FROM (SELECT patient_id, ward FROM visits UNION ALL SELECT patient_id, ward FROM visits WHERE urgent) GROUP BY ward",
    "SELECT AVG(total), COUNT(*) FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY patient_id)",
    "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) WHERE n < 50 GROUP BY n",
    "SELECT SUM(CLAMP(s, -50, 50)), SUM(CLAMP(a, -9, 9)), SUM(CLAMP(sd, 0, 99)), SUM(CLAMP(q, -9, 9)) FROM "
    "(SELECT patient_id, SUM(score) AS s, AVG(score) AS a, STDDEV(score) AS sd, MEDIAN(score) AS q FROM visits GROUP BY patient_id)",
    "SELECT ward, COUNT(*), SUM(m) FROM (SELECT patient_id, ward, MAX(level) AS m, MIN(note) AS t, COUNT(DISTINCT note) AS d FROM visits GROUP BY patient_id, ward) WHERE d > 0 GROUP BY ward",
    "SELECT COUNT(*), SUM(CLAMP(v, 0, 9)) FROM (SELECT DISTINCT patient_id, ward, level AS v FROM visits)",
    "SELECT SUM(CLAMP(r, 0, 9)), SUM(CLAMP(k, 0, 9)), SUM(CLAMP(d, 0, 9)) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) AS r,"
    " RANK() OVER (PARTITION BY patient_id ORDER BY level DESC) AS k, DENSE_RANK() OVER (PARTITION BY patient_id ORDER BY level) AS d FROM visits)",
    "SELECT SUM(CLAMP(DATE_DIFF('day', b, admitted), 0, 50)) FROM (SELECT patient_id, admitted, LAG(admitted) OVER (PARTITION BY patient_id ORDER BY admitted, visit_id) AS b FROM visits)",
    "SELECT SUM(CLAMP(t, 0, 900)), SUM(CLAMP(w, -90, 90)), SUM(CLAMP(a, 0, 9)) FROM (SELECT patient_id, SUM(cost) OVER (PARTITION BY patient_id ORDER BY admitted ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t,"
    " SUM(score) OVER (PARTITION BY patient_id) AS w, AVG(level) OVER (PARTITION BY patient_id) AS a FROM visits)",
    "SELECT SUM(CLAMP(t, 0, 90)), SUM(CLAMP(n, 0, 9)) FROM (SELECT patient_id, SUM(level) OVER (PARTITION BY patient_id ORDER BY admitted) AS t, COUNT(*) OVER (PARTITION BY patient_id ORDER BY level DESC, ward) AS n FROM visits)",
    "SELECT UPPER(ward), COUNT(*) FROM visits GROUP BY 1",
    "SELECT ward, COUNT(*) FROM visits WHERE note = 'x' GROUP BY ward",
    "SELECT COUNT(*) FROM events",
    "SELECT kind, COUNT(*), SUM(x), AVG(x), VARIANCE(x) FROM events GROUP BY kind",
    "SELECT kind, COUNT(*) FILTER (WHERE x > 0), SUM(n) FILTER (WHERE x > 0), COUNT(x) FROM events GROUP BY kind",
    "SELECT free, COUNT(*), SUM(n) FROM events GROUP BY free",
    "SELECT kind, COUNT(DISTINCT n), MEDIAN(x), MODE(kind) FROM events GROUP BY kind",
    "SELECT w.floor, COUNT(*), SUM(e.x) FROM events e JOIN wards w ON w.floor >= e.n % 3 GROUP BY w.floor",
    "SELECT kind, n % 4, COUNT(*) FROM events GROUP BY 1, 2",
    "SELECT team, COUNT(*), SUM(points), AVG(points), COUNT(DISTINCT name) FROM members GROUP BY team",
    "SELECT team, MEDIAN(points), COUNT(DISTINCT points) FROM members GROUP BY team",
    "SELECT COUNT(*) FROM members WHERE name < 'n5'",
]  # fmt: skip

_NOTES = (None, "", "x", "1", "12", " 7 ", "7.5", "abc", "1e1", "é", "nan", "9" * 30)
_ODD = (None, math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308, 5e-324, 0.5, 2.5e-5, -9.99, 3.25, 9.75, 10.0, 11.0)


def random_rows(seed: int, people: int, rows: int) -> dict[str, list[tuple[Any, ...]]]:
    """Raw rows for every table, some of them impossible: no unit, not finite, outside bounds, huge contributors."""
    pick = random.Random(seed)
    ids = [None, *(pick.choice([i, 2**53 + i, -i, 2**62 + i]) for i in range(1, people + 1))]
    heavy = pick.choice(ids)
    visits = [
        (
            visit, heavy if pick.random() < 0.3 else pick.choice(ids), pick.choice((*WARDS, None, "unlisted")),
            pick.choice((None, Decimal("0.00"), Decimal("12.34"), Decimal("5000.01"), Decimal("-3.00"), Decimal("999.99"), Decimal("4999.99"))),
            pick.choice(_ODD), pick.choice((None, 0.05, 0.15, 0.1, 71.25, 250.0, -3.0, math.nan, 0.049999999999999996)),
            pick.choice((None, dt.date(2023, 11, 30), dt.date(2024, 2, 29), dt.date(2024, 1, 1), dt.date(2030, 1, 1), dt.date(1, 1, 1))),
            pick.choice((None, dt.datetime(2024, 1, 1, 12), dt.datetime(1969, 12, 31, 23, 59, 59, 999999))),
            pick.choice((None, True, False)), pick.choice(_NOTES), pick.choice((None, 0, 1, 3, 4, 5, 8, 9, 12, -1)),
            pick.choice((None, 2**63 - 1, -(2**63), 2**53 + 1, 7, -1)),
        )
        for visit in range(rows)
    ]  # fmt: skip
    patients = [
        (i, pick.choice((None, 5, 41, 77, 130)), pick.choice((None, "f", "m", "x")))
        for i in dict.fromkeys(ids)
        if pick.random() < 0.8
    ]
    bills = [(pick.choice((None, *range(rows + 2))), pick.choice((*_ODD, 999.0, 12.5))) for _ in range(rows)]
    wards = [("cardio", 1, 1.5), ("onco", 2, 0.5), ("surgery", 2, math.nan), ("cardio", 3, 1.0), (None, 4, None)]
    events = [
        (
            pick.choice((None, "a", "b", "c", "d")),
            pick.choice(_ODD),
            pick.choice((None, 1, 2, 50, 1000)),
            pick.choice(_NOTES),
        )
        for _ in range(rows)
    ]
    members = [
        (
            f"n{pick.randrange(max(1, people))}é" if pick.random() < 0.95 else None,
            f"t{pick.randrange(92):02d}",
            pick.choice((None, 1, 5, 999, 5000)),
        )
        for _ in range(2 * rows)
    ]
    return {
        "visits": visits,
        "patients": patients,
        "bills": bills,
        "wards": wards,
        "events": events,
        "members": members,
    }


def without(data: Mapping[str, list[tuple[Any, ...]]], table: str, unit: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The data without one unit of the population of a table."""
    gone = {row[0] for row in data["visits"] if row[1] == unit}
    drop = {
        "visits": {
            "visits": lambda row: row[1] == unit,
            "patients": lambda row: row[0] == unit,
            "bills": lambda row: row[0] in gone,
        },
        "members": {"members": lambda row: row[0] == unit},
    }[table]
    return {name: [row for row in rows if name not in drop or not drop[name](row)] for name, rows in data.items()}


def canonical(
    data: Mapping[str, list[tuple[Any, ...]]],
) -> dict[str, tuple[tuple[str, ...], list[tuple[Value | None, ...]]]]:
    """Meaning of the rows: values that the declared types cannot hold are NULL."""
    found = {}
    for table in CATALOG.tables:
        kinds = [column.type for column in table.columns]
        rows = [tuple(_value(cell, kind) for cell, kind in zip(row, kinds, strict=True)) for row in data[table.name]]
        found[table.name] = (tuple(column.name for column in table.columns), rows)
    return found


def _value(cell: Any, kind: SqlType) -> Value | None:
    return as_value(Fraction(cell) if isinstance(cell, Decimal) else cell, kind)


def arrow(data: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, pa.Table]:
    """The raw rows as Arrow tables."""
    kinds = {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int64(),
        Kind.DECIMAL: pa.decimal128(18, 2),
        Kind.DOUBLE: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }
    made = {}
    for table in CATALOG.tables:
        columns = [
            pa.array([row[i] for row in data[table.name]], type=kinds[c.type.kind]) for i, c in enumerate(table.columns)
        ]
        made[table.name] = pa.Table.from_arrays(columns, names=[c.name for c in table.columns])
    return made
