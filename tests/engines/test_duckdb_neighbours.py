"""No unit moves a measurement further than its declared sensitivity: every question of two corpora, on pairs of neighbours.

The engine is run on a database and on the same database without one unit; the measured vectors, private keys included, must
differ by at most ``measure.sensitivity`` in l1, l2 and l∞. Nothing is sampled, so a failure is a defect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from engines import clinic
from sql.corpus.accepted import ACCEPTED
from sql.corpus.clinic import CATALOG
from sql.corpus.data import DATABASE, without
from tacit.engines import Measurements, MeasurementTask
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.query.catalog import Catalog
from tacit.query.question import FinalAggregation
from tacit.query.resolve import resolve
from tacit.query.types import DECIMAL_DIGITS, Kind

SECRET = b"another secret"


def opened(catalog: Catalog, frames: Mapping[str, pa.Table]) -> DuckDBEngine:
    return DuckDBEngine(
        catalog, {name: DataSource("frame", None, frame) for name, frame in frames.items()}, Limits(threads=2)
    )


def vectors(found: Measurements) -> list[dict[tuple[object, ...], list[int]]]:
    return [
        {
            key: [cells] if isinstance(cells, int) else list(cells)
            for key, cells in zip(found.keys, array.tolist(), strict=True)
        }
        for array in found.raw
    ]


def check_close(final: FinalAggregation, one: Measurements, other: Measurements, where: str) -> bool:
    """Compare two runs; whether anything moved at all."""
    if final.public_keys or not final.keys:
        assert one.keys == other.keys, where
    moved = False
    for measure, a, b in zip(final.measures, vectors(one), vectors(other), strict=True):
        zeros = [0] * measure.width
        gaps = [
            abs(x - y) for key in a.keys() | b.keys() for x, y in zip(a.get(key, zeros), b.get(key, zeros), strict=True)
        ]
        bound = measure.sensitivity(max_groups=final.max_groups)
        assert sum(gaps) <= bound.l1, (where, measure.text)
        assert sum(gap * gap for gap in gaps) <= bound.l2_squared, (where, measure.text)
        assert max(gaps, default=0) <= bound.linf, (where, measure.text)
        moved = moved or any(gaps)
    units = [dict(zip(run.keys, run.raw_units.tolist(), strict=True)) for run in (one, other)]
    changes = [abs(units[0].get(key, 0) - units[1].get(key, 0)) for key in units[0].keys() | units[1].keys()]
    assert sum(changes) <= final.max_groups, where
    assert max(changes, default=0) <= 1, where
    return moved


def corpus_frames(database: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    kinds = {Kind.BOOLEAN: pa.bool_(), Kind.INTEGER: pa.int64(), Kind.DOUBLE: pa.float64(), Kind.TEXT: pa.string(), Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us")}  # fmt: skip
    made = {}
    for table in CATALOG.tables:
        columns = []
        for column in table.columns:
            cells = [row[column.name] for row in database[table.name]]
            if column.type.kind is Kind.DECIMAL:
                import decimal

                cells = [
                    None
                    if c is None
                    else decimal.Decimal(int(Fraction(c) * 10**column.type.scale)).scaleb(-column.type.scale)
                    for c in cells
                ]
                columns.append(pa.array(cells, type=pa.decimal128(DECIMAL_DIGITS, column.type.scale)))
            else:
                columns.append(pa.array(cells, type=kinds[column.type.kind]))
        made[table.name] = pa.Table.from_arrays(columns, names=[c.name for c in table.columns])
    return made


def test_corpus_of_accepted_questions() -> None:
    units = {"patients": 1, "staff": 3}
    base = opened(CATALOG, corpus_frames(DATABASE))
    gone = {p.name: opened(CATALOG, corpus_frames(without(p.name, units.get(p.name, 5)))) for p in CATALOG.populations}
    moved = refused = 0
    for sql in ACCEPTED:
        final = resolve(sql, CATALOG).final
        work = MeasurementTask(final, SECRET)
        moved += check_close(final, base.measure(work), gone[final.population].measure(work), sql)
    for engine in (base, *gone.values()):
        engine.close()
    # A person with seven visits is gone; most questions notice.
    assert moved > len(ACCEPTED) // 2
    assert refused == 0


@pytest.mark.parametrize(
    ("table", "seed", "people", "rows"), [("visits", 11, 8, 70), ("members", 12, 5, 80), ("visits", 13, 1, 30)]
)
def test_hostile_rows(table: str, seed: int, people: int, rows: int) -> None:
    data = clinic.random_rows(seed, people, rows)
    column = 1 if table == "visits" else 0
    owners = [row[column] for row in data[table] if row[column] is not None]
    heavy = max(set(owners), key=owners.count)
    population = "patients" if table == "visits" else "members"
    with (
        opened(clinic.CATALOG, clinic.arrow(data)) as one,
        opened(clinic.CATALOG, clinic.arrow(clinic.without(data, table, heavy))) as other,
    ):
        for sql in clinic.QUESTIONS:
            final = resolve(sql, clinic.CATALOG).final
            if final.population == population:
                work = MeasurementTask(final, SECRET)
                check_close(final, one.measure(work), other.measure(work), sql)


def test_rows_as_units_do_not_depend_on_where_they_stand() -> None:
    data = clinic.random_rows(14, 3, 40)
    fewer = {**data, "events": data["events"][1:]}
    with opened(clinic.CATALOG, clinic.arrow(data)) as one, opened(clinic.CATALOG, clinic.arrow(fewer)) as other:
        for sql in clinic.QUESTIONS:
            final = resolve(sql, clinic.CATALOG).final
            if final.population == "rows":
                work = MeasurementTask(final, SECRET)
                check_close(final, one.measure(work), other.measure(work), sql)
