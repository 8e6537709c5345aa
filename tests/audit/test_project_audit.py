"""``tacit audit tacit.toml``: the rules of a project on made-up people, without its data and without its budget."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from support.command_line import run_command
from support.postgres import address
from tacit.audit.project_audit import brought_here, neighbours_of, project_checks, rehearsed
from tacit.audit.report import CheckOutcome, run_checks
from tacit.core.errors import InputError, QueryError
from tacit.curator.opening import open_project
from tacit.engines.duckdb import DuckDBEngine
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.engines.registry import open_engine
from tacit.project.project_file import Project, load
from tacit.project.source import Source

pytestmark = pytest.mark.usefixtures("seeded")

#: Units by a column, through a foreign key, and by row; budgets of three kinds; both relations; every type.
PROJECT = """
[populations.patients]
epsilon = "2"
delta = "1e-6"
accounting = "approx"

[populations.staff]
rho = "1/2"
accounting = "zcdp"
relation = "replace_one"

[tables.patients]
source = "patients.csv"
population = "patients"
unit = "id"
[tables.patients.columns]
id = { type = "integer", unique = true }
born = { type = "date" }
weight = { type = "double", bounds = [0, 200] }

[tables.visits]
source = "visits.csv"
population = "patients"
max_groups = 2
max_rows = 3
[tables.visits.columns]
patient = { type = "integer", references = "patients.id" }
ward = { type = "text", categories = ["eye", "heart"] }
diagnosis = { type = "text" }
cost = { type = "decimal", step = "0.01", bounds = [0, 100] }

[tables.shifts]
source = "shifts.csv"
population = "staff"
unit = "row"
[tables.shifts.columns]
hours = { type = "integer", bounds = [0, 12] }
night = { type = "boolean" }
began = { type = "timestamp" }

[tables.wards]
source = "wards.csv"
public = true
[tables.wards.columns]
ward = { type = "text" }
beds = { type = "integer" }
"""


POSTGRES = """
CREATE SCHEMA hospital;
CREATE TABLE hospital.visits (patient bigint, ward text, cost numeric(8,2));
CREATE TABLE hospital.wards (ward text, floor int);
INSERT INTO hospital.wards VALUES ('eye', 1), ('heart', 2);
"""
ON_POSTGRES = """
[project]
engine = "{engine}"

[populations.patients]
epsilon = "2"

[tables.visits]
source = "hospital.visits"
population = "patients"
unit = "patient"
max_groups = 2
[tables.visits.columns]
ward = {{ categories = ["eye", "heart"] }}
cost = {{ bounds = [0, 100] }}

[tables.wards]
source = "hospital.wards"
public = true
[tables.wards.columns]
floor = {{ categories = [1, 2] }}
"""


def listed(source: Source) -> list[dict[str, Any]]:
    """Rows of a table that was made up."""
    return [dict(zip(source.frame.types, row, strict=True)) for row in source.frame.rows]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, header in {"patients": "id,born,weight", "visits": "patient,ward,diagnosis,cost"}.items():
        (tmp_path / f"{name}.csv").write_text(header + "\n")
    (tmp_path / "shifts.csv").write_text("hours,night,began\n")
    (tmp_path / "wards.csv").write_text("ward,beds\neye,10\nheart,20\n")
    place = tmp_path / "tacit.toml"
    place.write_text(PROJECT)
    return place


def audited(project: Project, *queries: str, samples: int = 200) -> list[CheckOutcome]:
    return list(run_checks(project_checks(project, queries, samples=samples)[0]))


@pytest.mark.deep
def test_tables_of_postgresql_are_audited_on_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of protected tables only the types are read; public ones are fetched once, by the engine they are in."""
    place = address()
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(POSTGRES.encode())
    (tmp_path / "tacit.toml").write_text(ON_POSTGRES.format(engine=place))
    asked: list[str] = []
    stream = psycopg.Cursor.stream

    def heard(cursor: Any, sql: Any, *more: Any) -> Any:
        asked.append(str(sql))
        return stream(cursor, sql, *more)

    monkeypatch.setattr(psycopg.Cursor, "stream", heard)
    given = "SELECT w.floor, COUNT(*) FROM visits v JOIN wards w ON w.ward = v.ward GROUP BY w.floor"
    checks, _ = project_checks(load(tmp_path / "tacit.toml"), [given])
    chosen = [check for check in checks if check.name in (given, 'SELECT COUNT(*) FROM "visits"')]
    assert len(chosen) == 2
    for outcome in run_checks(chosen):
        assert outcome.passed, outcome.verdict.words
        assert any(report.moved for report in outcome.verdict.found)
    assert not [sql for sql in asked if '"hospital"."visits"' in sql and "to_regclass" not in sql]
    assert len([sql for sql in asked if '"hospital"."wards"' in sql and "to_regclass" not in sql]) == 1


def test_public_tables_that_are_too_large_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = address()
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(POSTGRES.encode())
    (tmp_path / "tacit.toml").write_text(ON_POSTGRES.format(engine=place))
    monkeypatch.setattr("tacit.audit.project_audit._MOST_PUBLIC", 1)
    with pytest.raises(InputError, match=r"tables\.wards: has more than 1 rows"):
        project_checks(load(tmp_path / "tacit.toml"))


def test_files_meant_for_spark_are_audited_on_duckdb(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Spark: the public table is a file, and nothing else is read."""
    monkeypatch.setattr("tacit.audit.project_audit.open_engine", None)
    project.write_text('[project]\nengine = "sc://localhost"\n\n[limits]\nmemory = "4GB"\n' + PROJECT)
    sql = "SELECT w.beds, COUNT(*) FROM visits v JOIN wards w ON w.ward = v.ward GROUP BY w.beds"
    checks, _ = project_checks(load(project), [sql])
    (outcome,) = run_checks([check for check in checks if check.name == sql])
    assert outcome.passed
    assert any(report.moved for report in outcome.verdict.found)


@pytest.mark.spark
def test_folders_that_only_spark_reads_are_fetched_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.spark import held

    spark = held().spark
    monkeypatch.setattr("tacit.audit.project_audit.open_engine", lambda _, *rest: open_engine(spark, *rest))
    (tmp_path / "wards").mkdir()
    for number, ward in enumerate(("eye", "heart")):
        pq.write_table(pa.table({"ward": [ward], "beds": [10 + number]}), tmp_path / "wards" / f"{number}.parquet")
    (tmp_path / "visits.csv").write_text("patient,cost\n")
    public = '\n[tables.wards]\nsource = "wards"\npublic = true\n'
    (tmp_path / "tacit.toml").write_text('[project]\nengine = "sc://localhost"\n' + SMALL + public)
    here = brought_here(load(tmp_path / "tacit.toml"))
    assert here.engine == "duckdb"
    assert listed(here.sources["wards"]) == [{"ward": "eye", "beds": 10}, {"ward": "heart", "beds": 11}]
    assert here.sources["visits"].kind == "csv"


def run(*words: str) -> Result:
    return run_command("audit", *words)


def test_three_queries_about_a_sound_project_pass(project: Path) -> None:
    """A replay, groups that are chosen privately, a lower bound; all others are deep."""
    checks, _ = project_checks(load(project), samples=200)
    chosen = [
        next(check for check in checks if check.tool == tool and word in check.name)
        for tool, word in (("replay", '"visits"'), ("replay", "diagnosis"), ("lower_bound", ""))
    ]
    for outcome in run_checks(chosen):
        assert outcome.passed, outcome.verdict.words


@pytest.mark.deep
def test_a_sound_project_passes_on_queries_about_every_table(project: Path) -> None:
    outcomes = audited(load(project))
    assert all(outcome.passed for outcome in outcomes), [o.verdict.words for o in outcomes if not o.passed]
    asked = " ".join(outcome.check.name for outcome in outcomes)
    for word in ("patients", "visits", "shifts", "ward", "diagnosis", "cost", "weight", "hours", "JOIN"):
        assert f'"{word}"' in asked or word == "JOIN"
    replays = {each.check.name: each.verdict.found for each in outcomes if each.check.tool == "replay"}
    still = [name for name, reports in replays.items() if not any(report.moved for report in reports)]
    # A replay in which no input moved has tested nothing; how many rows there are is public where one is replaced.
    assert still == ['SELECT COUNT(*) FROM "shifts"']
    assert {outcome.check.tool for outcome in outcomes} == {"replay", "lower_bound"}


def test_no_person_depends_on_one_who_left(project: Path) -> None:
    loaded = load(project)
    for population in loaded.populations:
        for pair in neighbours_of(loaded.catalog, population):
            first, second = (rehearsed(loaded, each).sources for each in (pair.first, pair.second))
            for name in ("patients", "visits", "shifts"):
                before = listed(first[name])
                after = listed(second[name])
                if population == "patients":
                    # Equal rows of one person may be several; NaN is written as text so that it equals itself.
                    assert not set(map(repr, after)) - set(map(repr, before))
                else:
                    assert len(before) == len(after)


def test_foreign_keys_hold_and_unique_columns_are(project: Path) -> None:
    loaded = load(project)
    sources = rehearsed(loaded, neighbours_of(loaded.catalog, "patients")[0].first).sources
    known = [row["id"] for row in listed(sources["patients"])]
    assert len(set(known)) == len(known)
    assert {row["patient"] for row in listed(sources["visits"])} <= set(known)


@pytest.mark.parametrize("tool", ["replay", "lower_bound"])
def test_an_engine_that_counts_people_too_often_is_caught(
    project: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = DuckDBEngine.measure

    def broken(engine: DuckDBEngine, work: MeasurementTask) -> Measurements:
        found = measure(engine, work)
        return Measurements(found.keys, found.raw_units * 40, tuple(np.asarray(raw) * 40 for raw in found.raw))

    monkeypatch.setattr(DuckDBEngine, "measure", broken)
    checks = [check for check in project_checks(load(project), samples=200)[0] if check.tool == tool]
    assert "patients" in checks[0].name
    assert not next(run_checks(checks[:1])).passed


def test_queries_that_are_given_are_audited_and_must_be_possible(project: Path) -> None:
    sql = "SELECT ward, SUM(cost) AS c FROM visits WHERE cost > 1 GROUP BY ward"
    checks, _ = project_checks(load(project), [sql])
    assert next(run_checks([check for check in checks if check.name == sql])).passed
    with pytest.raises(QueryError):
        project_checks(load(project), ["SELECT * FROM visits"])


def test_a_query_that_no_budget_pays_for_is_not_called_checked(project: Path) -> None:
    """Both neighbours are refused alike, which says nothing about the query."""
    dear = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 3) COUNT(*) FROM patients"
    checks, _ = project_checks(load(project), [dear], samples=1)
    (outcome,) = run_checks([check for check in checks if check.name == dear])
    assert not outcome.passed
    assert "nothing was checked" in outcome.verdict.words
    assert "BudgetError" in outcome.verdict.words


def test_a_query_that_states_its_own_price_keeps_it(project: Path) -> None:
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.25) COUNT(*) FROM patients"
    checks, _ = project_checks(load(project), [sql])
    assert next(run_checks([check for check in checks if check.name == sql])).passed


SMALL = """
[populations.patients]
epsilon = "2"

[tables.visits]
source = "visits.csv"
population = "patients"
unit = "patient"
columns = { patient = { type = "integer" }, cost = { type = "integer" } }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("patient,cost\n1,20\n")
    place = tmp_path / "tacit.toml"
    place.write_text(SMALL)
    with open_project(load(place)) as curator:
        curator.sql("SELECT COUNT(*) AS n FROM visits WHERE cost > 3", epsilon="0.5")
    return place


@pytest.mark.deep
def test_the_command_audits_the_history_and_touches_neither_data_nor_budget(small: Path) -> None:
    with open_project(load(small)) as curator:
        curator.charge(curator.explain("SELECT COUNT(*) FROM visits", epsilon="0.25").plan.guarantee, label="a model")
        before = str(curator.budget())
    data = small.parent / "visits.csv"
    kept = data.read_text()
    data.write_text("nothing of this is read\n")
    result = run(str(small), "--samples", "200", "--json")
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    names = [check["name"] for check in told["checks"]]
    assert "SELECT COUNT(*) AS n FROM visits WHERE cost > 3" in names
    assert "the ledger and every receipt in it" in names
    assert "1 entries of the history" in result.stderr
    data.write_text(kept)
    with open_project(load(small)) as curator:
        assert str(curator.budget()) == before


def test_a_ledger_that_was_changed_fails_the_audit(small: Path) -> None:
    with sqlite3.connect(small.parent / "tacit.ledger") as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE entries SET body = replace(body, 'cost > 3', 'cost > 4')")
    result = run(str(small), "--samples", "200")
    assert result.exit_code != 0
    assert "chain" in result.output or "chain" in result.stderr
