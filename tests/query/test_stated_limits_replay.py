"""Queries that state ``max_groups`` and ``max_rows``, raised far and lowered, recorded and replayed on a neighbour.

The owner's numbers play no part in the guarantee: whatever public numbers a query states, the engine bounds a person
by them and the noise is scaled to them. A heavy person shows both: her share is larger than under the declared
numbers, and never larger than the stated ones allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from query.corpus import hostile
from query.corpus.clinic import CATALOG
from support.bits import SeededBits
from support.sql_replay import Steady, bench, findings, reports
from tacit.core.errors import QueryError
from tacit.core.relations import REPLACE_ONE
from tacit.engines.protocol import MeasurementTask
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Population
from tacit.query.query import FinalAggregation
from tacit.query.resolve import resolve

REPLACING = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))
ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())
NUMBERS = ((1, 1), (2, 40), (9, 21), (40, 300), (999_999_999, 999_999_999))
BODIES = (
    "{} doctor, COUNT(*), SUM(nights) FROM visits GROUP BY doctor",
    "{} ward, COUNT(DISTINCT doctor), AVG(cost), COUNT(DISTINCT patient_id) FROM visits GROUP BY ward",
    "{} EXTRACT(MONTH FROM admitted) AS m, VARIANCE(nights), COUNT(*) FROM visits GROUP BY 1",
    "{} urgent, MEDIAN(nights), MODE(ward) FROM visits GROUP BY urgent",
    "{} SUM(CLAMP(points, AUTO)), COUNT(score) FROM visits",
    "{} drug, COUNT(*) FROM visits v JOIN prescriptions p ON v.visit_id = p.visit_id GROUP BY drug",
    "{} n, COUNT(*) FROM (SELECT patient_id, ward, COUNT(*) AS n FROM visits GROUP BY patient_id, ward) GROUP BY n",
)


@pytest.fixture(scope="module", autouse=True)
def bits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        source = SeededBits(20261117)
        patch.setattr(entropy, "current", lambda: source)
        yield


def stating(groups: int, rows: int) -> str:
    words = f"max_groups_contributed = {groups}, max_rows_contributed = {rows}"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({words})"


QUERIES = tuple(body.format(stating(*numbers)) for numbers in NUMBERS for body in BODIES)
#: Rows in all groups together, alone and beside the two other numbers.
IN_ALL = tuple(
    f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_total = {most}{more})" for most in (1, 5, 60)
    for more in ("", ", max_rows_contributed = 3", ", max_groups_contributed = 2")
)  # fmt: skip
ADDED_UP = (
    "{} doctor, COUNT(*), SUM(nights) FROM visits GROUP BY doctor",
    "{} ward, COUNT(DISTINCT patient_id), AVG(cost) FROM visits GROUP BY ward",
    "{} EXTRACT(MONTH FROM admitted) AS m, VARIANCE(nights), COUNT(*) FROM visits GROUP BY 1",
    "{} ward, SUM(CLAMP(points, AUTO)), COUNT(score) FROM visits GROUP BY ward",
    "{} visit_id % 13 AS d, COUNT(*), COUNT(*) FILTER (WHERE nights > 1) FROM visits GROUP BY 1",
)
SHARED = tuple(body.format(words) for words in IN_ALL for body in ADDED_UP)


def test_a_heavy_person_goes() -> None:
    made = reports(ALL_PEOPLE, hostile.ordinary(), QUERIES)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(QUERIES) * 3 // 4


def test_a_heavy_person_is_replaced() -> None:
    other = hostile.joined(hostile.ordinary(), hostile.newcomer())
    assert findings(reports(ALL_PEOPLE, other, QUERIES[::2], REPLACING)) == {}


def test_rows_in_all_groups_together() -> None:
    made = reports(ALL_PEOPLE, hostile.ordinary(), SHARED)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(SHARED) * 3 // 4
    other = hostile.joined(hostile.ordinary(), hostile.newcomer())
    assert findings(reports(ALL_PEOPLE, other, SHARED[::2], REPLACING)) == {}


class NotShared(Steady):
    """Leaves every group as many rows as a unit may have in all."""

    def changed(self, work: MeasurementTask) -> MeasurementTask:
        return super().changed(replace(work, final=replace(work.final, max_total=None)))


def test_an_engine_that_shares_nothing_out_is_caught() -> None:
    sql = f"{IN_ALL[3]} EXTRACT(MONTH FROM admitted) AS m, COUNT(*) FROM visits GROUP BY 1"
    assert findings(reports(ALL_PEOPLE, hostile.ordinary(), [sql])) == {}
    assert list(findings(reports(ALL_PEOPLE, hostile.ordinary(), [sql], engine=NotShared))) == [sql]


def share(final: FinalAggregation) -> tuple[int, int]:
    """Groups and rows of the heavy person, who is the only one, that count."""
    heavy = bench(hostile.joined(hostile.empty(), hostile.heavy()))
    found = heavy.engine.measure(MeasurementTask(final, b"secret"))
    counts = [int(number) for number in found.raw[0].ravel()]
    return sum(number > 0 for number in counts), max(counts)


def test_the_numbers_are_reached_and_bind() -> None:
    body = "{} visit_id % 13 AS d, COUNT(*) FROM visits GROUP BY 1"
    total = "{} COUNT(*) FROM visits"
    (groups, _), (_, rows) = (share(resolve(sql.format("SELECT"), CATALOG).final) for sql in (body, total))
    assert (groups, rows) == (8, 20), "as declared"
    for most in (2, 12):
        assert share(resolve(body.format(stating(most, 20)), CATALOG).final)[0] == most
    for most in (5, 25):
        assert share(resolve(total.format(stating(8, most)), CATALOG).final)[1] == most


class TwiceStated(Steady):
    """Bounds a person by twice the numbers that are stated."""

    def changed(self, work: MeasurementTask) -> MeasurementTask:
        wide = tuple(replace(m, rows=2 * m.rows, clamp=(2 * m.clamp[0], 2 * m.clamp[1])) for m in work.final.measures)
        final = replace(work.final, measures=wide, max_groups=2 * work.final.max_groups)
        return super().changed(replace(work, final=final))


def test_an_engine_that_takes_more_than_stated_is_caught() -> None:
    sql = f"{stating(2, 3)} COUNT(*) FROM visits"
    assert findings(reports(ALL_PEOPLE, hostile.ordinary(), [sql])) == {}
    assert list(findings(reports(ALL_PEOPLE, hostile.ordinary(), [sql], engine=TwiceStated))) == [sql]


def test_a_ceiling_refuses_for_free_and_alike_on_both_databases() -> None:
    tables = tuple(replace(t, max_rows_limit=30) if t.name == "visits" else t for t in CATALOG.tables)
    catalog = Catalog(tables, CATALOG.populations)
    seen = []
    for database in (ALL_PEOPLE, hostile.empty()):
        asked = bench(database, catalog)
        with pytest.raises(QueryError) as refusal:
            asked.ask(f"{stating(8, 31)} COUNT(*) FROM visits", "pure", 0)
        seen.append(str(refusal.value))
        assert asked.curators["pure"].history(population="patients") == ()
    assert seen[0] == seen[1]
    assert "max_rows = 31 is more than the 30 rows of one person that the owner of visits allows" in seen[0]
