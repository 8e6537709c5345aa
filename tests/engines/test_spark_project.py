"""Spark behind the curator: from a project file, from a frame, and as the documentation says."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from support.bits import SeededBits
from support.spark import held
from support.spark_projects import project
from tacit.core.errors import InputError
from tacit.noise import entropy

pytestmark = [pytest.mark.spark, pytest.mark.deep]
PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
VISITS = pa.table({"patient": [1, 1, 2, 3, None], "ward": ["a", "b", "a", "c", "a"]})
SQL = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def test_a_query_on_spark_is_the_query_on_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same plan, charge, shape and order, and from the same bits the same answer; and one account for one file."""
    pq.write_table(VISITS, tmp_path / "visits.parquet")
    found = []
    for name, engine in (("duckdb", "duckdb"), ("spark", "sc://localhost:15002")):
        place = project(tmp_path, f"{name}.toml", engine=engine, ledger=f"{name}.ledger")
        with tacit.open(place, session=held().spark if name == "spark" else None) as curator:
            quote = curator.explain(SQL, epsilon="0.5")
            bits = SeededBits(7)
            monkeypatch.setattr(entropy, "current", lambda bits=bits: bits)
            answer = curator.sql(SQL, epsilon="0.5")
            monkeypatch.undo()
            found.append((answer.to_arrow(), answer.charge.text, str(quote.plan), str(curator.budget())))
    assert found[0] == found[1]
    assert found[0][0].num_rows == 2
    other = project(tmp_path, "other.toml", people="others", ledger="spark.ledger")
    with pytest.raises(InputError, match="patients"):
        tacit.open(other, session=held().spark)


def test_a_frame_of_spark_brings_its_session_and_is_recognised(tmp_path: Path) -> None:
    spark = held().spark
    pq.write_table(VISITS, tmp_path / "visits.parquet")
    frame = spark.read.parquet(str(tmp_path / "visits.parquet"))
    words = {"unit": "patient", "epsilon": "4", "columns": {"ward": ["a", "b"]}, "ledger": tmp_path / "tacit.ledger"}
    with tacit.open(frame, **words, table="visits") as curator:
        assert curator.sql(SQL, epsilon="1").to_arrow().num_rows == 2
        assert curator.sql(SQL, epsilon="1").charge.text.startswith("A repeated query")
    with pytest.raises(InputError, match="people"):
        tacit.open(project(tmp_path, "t.toml"), session=spark)
    made = spark.createDataFrame(VISITS)
    with tacit.open(made, unit="patient", epsilon="1", columns={"ward": ["a", "b"]}, table="visits") as curator:
        assert curator.sql(SQL, epsilon="1").to_arrow().num_rows == 2


def test_tables_of_a_catalog_have_one_account(tmp_path: Path) -> None:
    spark = held().spark
    spark.createDataFrame(VISITS).createOrReplaceTempView("clinic_visits")
    first = project(tmp_path, "first.toml", source="clinic_visits")
    with tacit.open(first, session=spark) as curator:
        assert curator.sql(SQL, epsilon="1").to_arrow().num_rows == 2
    second = project(tmp_path, "second.toml", source="`CLINIC_visits`", people="others")
    with pytest.raises(InputError, match="patients"):
        tacit.open(second, session=spark)
    spark.catalog.dropTempView("clinic_visits")


def test_the_page_leads_from_nothing_to_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tacit, "open", partial(tacit.open, session=held().spark))
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text().partition("\n## Spark\n")[2]
    blocks = re.findall(r"^```(python|toml)\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "toml", "python"]
    exec(blocks[0][1], {})
    (tmp_path / "clinic" / "tacit.toml").write_text(blocks[1][1])
    exec(blocks[2][1], {})
    shown = capsys.readouterr().out
    assert "cardio" in shown
    assert "onco" in shown
