"""No unit moves a measurement further than its declared sensitivity: every query of two corpora, on pairs of neighbours.

The engine is run on a database and on the same database without one unit; the measured vectors, private keys included, must
differ by at most ``measure.sensitivity`` in l1, l2 and l∞. Nothing is sampled, so a failure is a defect.
"""

from __future__ import annotations

import pytest

from engines import clinic
from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE, without
from support.engine_comparison import check_close, corpus_frames, final_of, opened
from tacit.engines.protocol import MeasurementTask

SECRET = b"another secret"


@pytest.mark.deep
def test_corpus_of_accepted_queries() -> None:
    units = {"patients": 1, "staff": 3}
    base = opened(CATALOG, corpus_frames(DATABASE))
    gone = {p.name: opened(CATALOG, corpus_frames(without(p.name, units.get(p.name, 5)))) for p in CATALOG.populations}
    moved = refused = 0
    for sql in ACCEPTED:
        final = final_of(sql, CATALOG)
        work = MeasurementTask(final, SECRET)
        moved += check_close(final, base.measure(work), gone[final.population].measure(work), sql)
    for engine in (base, *gone.values()):
        engine.close()
    # A person with seven visits is gone; most queries notice.
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
        for sql in clinic.QUERIES:
            final = final_of(sql, clinic.CATALOG)
            if final.population == population:
                work = MeasurementTask(final, SECRET)
                check_close(final, one.measure(work), other.measure(work), sql)


def test_rows_as_units_do_not_depend_on_where_they_stand() -> None:
    data = clinic.random_rows(14, 3, 40)
    fewer = {**data, "events": data["events"][1:]}
    with opened(clinic.CATALOG, clinic.arrow(data)) as one, opened(clinic.CATALOG, clinic.arrow(fewer)) as other:
        for sql in clinic.QUERIES:
            final = final_of(sql, clinic.CATALOG)
            if final.population == "rows":
                work = MeasurementTask(final, SECRET)
                check_close(final, one.measure(work), other.measure(work), sql)
