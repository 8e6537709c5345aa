"""Public tables beside an answer: read before anything is charged, free in every other join of the same release."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from support.bits import SeededBits
from tacit.core.errors import QueryError
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator

PROJECT = """
[project]
name = "clinic"

[populations.patients]
epsilon = "4"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient_id"

[tables.visits.columns]
ward = { type = "text", categories = ["cardiology", "oncology", "surgery"] }
cost = { type = "integer", bounds = [0, 500] }

[tables.wards]
source = "wards.csv"
public = true

[tables.wards.columns]
ward = { type = "text" }
beds = { type = "integer" }
"""
WARDS = ("cardiology", "oncology", "surgery")
COUNTS = "(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)"


@pytest.fixture
def clinic(tmp_path: Path, seeded: SeededBits) -> Curator:
    del seeded
    rows = range(900)
    visits = pa.table({"patient_id": list(rows), "ward": [WARDS[i % 3] for i in rows], "cost": [i % 500 for i in rows]})
    pq.write_table(visits, tmp_path / "visits.parquet")
    wards = pa.table({"ward": [*WARDS, "closed"], "beds": [10, 20, 30, None]})
    pa_csv.write_csv(wards, tmp_path / "wards.csv")
    (tmp_path / "tacit.toml").write_text(PROJECT)
    return open_curator(tmp_path / "tacit.toml")


def _spent(curator: Curator) -> list[Fraction]:
    return [amount.amount for amount in curator.budget().spent]


def test_joins_of_one_release_are_charged_once(clinic: Curator) -> None:
    plain = clinic.sql(f"SELECT * FROM {COUNTS} ORDER BY ward", epsilon="1").finished.values
    joined = clinic.sql(f"SELECT s.ward, s.n, w.beds FROM {COUNTS} s JOIN wards w ON w.ward = s.ward", epsilon="1")
    assert [row[:2] for row in joined.finished.values] == [*plain]
    assert [row[2] for row in joined.finished.values] == [10, 20, 30]
    every = clinic.sql(f"SELECT w.ward, s.n FROM wards w LEFT JOIN {COUNTS} s USING (ward)", epsilon="1")
    assert every.finished.values[-1] == ("closed", None)
    load = clinic.sql("SELECT ward, COUNT(*) / (SELECT SUM(beds) FROM wards) AS x FROM visits GROUP BY 1", epsilon="1")
    assert [row[1] for row in load.finished.values] == [n / 60 for _, n in plain]  # type: ignore[operator]
    assert _spent(clinic) == [1]


def test_a_public_value_below_the_aggregation_is_part_of_the_query(clinic: Curator) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE cost < (SELECT AVG(beds) FROM wards)"
    (found,) = clinic.sql(sql, epsilon="2").finished.values[0]
    assert abs(found - 40) < 20  # type: ignore[operator]
    clinic.sql(sql.replace("AVG", "MAX"), epsilon="1")
    assert _spent(clinic) == [3]


def test_too_many_public_rows_are_refused_before_anything_is_charged(
    clinic: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.releases.query.MAX_PUBLIC_ROWS", 3)
    with pytest.raises(QueryError, match="more than 3") as refusal:
        clinic.sql(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON w.ward = s.ward", epsilon="1")
    assert refusal.value.code == "query.too_large"
    assert _spent(clinic) == [0]


def test_after_a_join_that_turned_out_too_large_another_one_is_free(
    clinic: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.query.limits.MAX_PAIRS", 2)
    with pytest.raises(QueryError, match="asking again with another join is free"):
        clinic.sql(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON w.beds < s.n", epsilon="1")
    assert _spent(clinic) == [1]
    clinic.sql(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON w.ward = s.ward", epsilon="1")
    assert _spent(clinic) == [1]
