"""Keys in another order are the same release: paid once, with columns and rows as they were asked for."""

from __future__ import annotations

import pytest

from query.corpus.clinic import CATALOG as CLINIC
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER, TEXT

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("b", "a")),
                Column("floor", INTEGER, bounds=(0, 2)),
            ),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
ROWS = [{"patient": i, "ward": "ab"[i % 2], "floor": i % 3} for i in range(60)]


PAIRS = [
    (
        "SELECT ward, nights, COUNT(*) FROM visits GROUP BY ward, nights",
        "SELECT nights, ward, COUNT(*) FROM visits GROUP BY nights, ward",
    ),
    (
        "SELECT doctor, ward, COUNT(*) AS n FROM visits GROUP BY 1, 2",
        "SELECT ward, doctor, COUNT(*) AS m FROM visits GROUP BY 1, 2 HAVING COUNT(*) > 3",
    ),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_order_of_keys_is_no_part_of_the_release(first: str, second: str) -> None:
    assert resolve(first, CLINIC).final == resolve(second, CLINIC).final


def test_another_order_of_keys_is_free_and_comes_in_its_own_order() -> None:
    curator = toy_curator(CATALOG, ToyEngine({"visits": ROWS}), {"epsilon": "10"})
    one = curator.sql("SELECT ward, floor, COUNT(*) AS n FROM visits GROUP BY ward, floor", epsilon="1")
    other = curator.sql("SELECT floor, ward, COUNT(*) AS n FROM visits GROUP BY floor, ward", epsilon="1")
    assert not one.charge.repeated
    assert other.charge.repeated
    assert [row[:2] for row in one.finished.values] == [(ward, floor) for ward in "ab" for floor in range(3)]
    assert [row[:2] for row in other.finished.values] == [(floor, ward) for floor in range(3) for ward in "ab"]
    found = {
        row[:2]: (row[2], ends[2]) for row, ends in zip(one.finished.values, one.finished.intervals(), strict=True)
    }
    for row, ends in zip(other.finished.values, other.finished.intervals(), strict=True):
        assert found[row[1], row[0]] == (row[2], ends[2])


def test_an_order_of_rows_that_is_stated_wins() -> None:
    curator = toy_curator(CATALOG, ToyEngine({"visits": ROWS}), {"epsilon": "10"})
    sql = "SELECT ward, floor, COUNT(*) AS n FROM visits GROUP BY {} ORDER BY floor DESC, ward"
    one, other = (curator.sql(sql.format(keys), epsilon="1") for keys in ("ward, floor", "floor, ward"))
    assert other.charge.repeated
    assert one.finished.values == other.finished.values
    assert [row[:2] for row in one.finished.values] == [(w, f) for f in (2, 1, 0) for w in "ab"]
