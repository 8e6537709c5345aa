"""A project whose tables and ledger are in PostgreSQL: from file to answer, two processes, one budget, one killed."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from support.postgres import address
from support.warm import WarmProcess
from tacit.cli.doctor import examine
from tacit.core.errors import BudgetError, EngineError, InputError
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator
from tacit.project.project_file import load
from tacit.releases.receipt import verify_receipt

PROJECT = """
[project]
name = "clinic"
engine = "{engine}"
ledger = "{ledger}"

[populations.patients]
epsilon = "4"

[tables.visits]
source = "hospital.visits"
population = "patients"
unit = "patient"
max_groups = 2
max_rows = 3
{more}

[tables.visits.columns]
ward = {{ categories = ["a", "b", "c"] }}
cost = {{ bounds = [0, 100] }}

[tables.wards]
source = "hospital.wards"
public = true
"""
COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
TABLES = """
CREATE SCHEMA hospital;
CREATE TABLE hospital.visits (patient bigint, ward text, cost numeric(8,2), note text);
INSERT INTO hospital.visits
SELECT i / 3, substr('abc', i % 3 + 1, 1), i % 101, 'note ' || i FROM generate_series(0, 899) AS s(i);
CREATE TABLE hospital.wards (ward text, floor int);
INSERT INTO hospital.wards VALUES ('a', 1), ('b', 2), ('c', 2);
CREATE VIEW hospital.seen AS SELECT * FROM hospital.visits;
"""
ASK = """
import sys, time
from tacit.curator.opening import open_curator
with open_curator(sys.argv[1]) as curator:
    if sys.argv[2] == "killed":
        curator._context.engine.measure = lambda work: (print("measuring", flush=True), time.sleep(60))
    for number in range(int(sys.argv[3])):
        answer = curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost < {50 + number}", epsilon="0.25")
        print(answer.charge.text, flush=True)
"""


_numbers = itertools.count(1)


class Clinic:
    """A database with the tables, a role that may only read them, and a folder for project files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, address()
        self.role = f"reader_{next(_numbers)}"
        self.run(TABLES)
        self.run(f"CREATE ROLE {self.role} LOGIN PASSWORD 'hush'")
        self.run(f"GRANT USAGE ON SCHEMA hospital TO {self.role}")
        self.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA hospital TO {self.role}")
        self.engine = self.place.replace("postgresql://postgres:", f"postgresql://{self.role}:hush")

    def run(self, sql: str) -> None:
        with psycopg.connect(self.place, autocommit=True) as connection:
            connection.execute(sql.encode())

    def project(self, name: str = "tacit.toml", *, engine: str | None = None, more: str = "", **changes: str) -> Path:
        text = PROJECT.format(engine=engine or self.engine, ledger=self.place, more=more)
        for old, new in changes.items():
            text = text.replace(old, new)
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


def spent(curator: Curator) -> Fraction:
    (amount,) = curator.budget().spent
    return amount.amount


def test_from_a_project_file_to_an_answer(clinic: Clinic, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), open_curator(clinic.project()) as curator:
        quote = curator.explain(COUNT, epsilon="1")
        assert '"hospital"."visits"' in (quote.explanation.engine_sql or "")
        answer = curator.sql(COUNT, epsilon="1")
        assert [row[0] for row in answer.finished.values] == ["a", "b", "c"]
        assert all(abs(float(row[1]) - 200) < 60 for row in answer.finished.values)  # type: ignore[arg-type]
        assert spent(curator) == 1
        assert verify_receipt(answer.receipt, curator.public_key).ok
        joined = curator.sql(
            f"SELECT s.ward, w.floor, s.n FROM ({COUNT}) s JOIN wards w ON w.ward = s.ward",
            epsilon="0.5",
        )
        assert [row[1] for row in joined.finished.values] == [1, 2, 2]
        shown = [
            answer.receipt.to_json(),
            str(quote.explanation),
            repr(curator),
            caplog.text,
            repr(load(clinic.project())),
        ]
    assert all("hush" not in text for text in shown)


def test_an_answer_stays_until_the_owner_says_that_data_changed(clinic: Clinic) -> None:
    with open_curator(clinic.project()) as curator:
        first = curator.sql(COUNT, epsilon="1")
        clinic.run("INSERT INTO hospital.visits SELECT i, 'a', 1, NULL FROM generate_series(1000, 3000) AS s(i)")
        again = curator.sql(COUNT, epsilon="1")
        assert again.finished.values == first.finished.values
        assert spent(curator) == 1
    with open_curator(clinic.project(more='version = "second"')) as curator:
        third = curator.sql(COUNT, epsilon="1")
        assert third.finished.values != first.finished.values
        assert spent(curator) == 2


def test_a_table_keeps_its_population_under_any_name(clinic: Clinic) -> None:
    open_curator(clinic.project()).close()
    staff = {"populations.patients": "populations.staff", 'population = "patients"': 'population = "staff"'}
    for source in ("hospital.visits", "hospital.seen"):
        with pytest.raises(InputError, match="patients"):
            open_curator(clinic.project("other.toml", **staff, **{"hospital.visits": source}))
    with pytest.raises(InputError, match="cannot be public"):
        open_curator(clinic.project("other.toml", **{"hospital.wards": "hospital.seen"}))


def test_engine_loss_in_the_middle_leaves_the_charge_and_the_next_query_works(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.engines.postgres.engine._PATIENCE", 2.0)
    slow = "SELECT COUNT(*) AS n FROM visits v JOIN wards w ON LENGTH(v.note) > w.floor - 1000 AND v.cost < 77"
    with open_curator(clinic.project()) as curator:
        measure = curator._context.engine.measure
        curator._context.engine.measure = lambda work: _cut(clinic, lambda: measure(work))  # type: ignore[method-assign]
        with pytest.raises(EngineError) as caught:
            curator.sql(slow, epsilon="1")
        assert "the operator's log has the reason" in str(caught.value)
        assert spent(curator) == 1
        curator._context.engine.measure = measure  # type: ignore[method-assign]
        assert curator.sql(COUNT, epsilon="1").finished.values
        assert spent(curator) == 2


def _cut(clinic: Clinic, measure: object) -> object:
    """Measure while every connection of the role is ended as soon as it is seen."""
    import threading

    begun, stop = threading.Event(), threading.Event()

    def cutting() -> None:
        with psycopg.connect(clinic.place, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (clinic.role,)
                )
                begun.set()

    other = threading.Thread(target=cutting)
    other.start()
    try:
        assert begun.wait(60)
        return measure()  # type: ignore[operator]
    finally:
        stop.set()
        other.join()


def ask(clinic: Clinic, how: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ASK, str(clinic.project()), how, str(count)]
    return WarmProcess(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.deep
def test_two_processes_one_database_one_budget_one_killed(clinic: Clinic) -> None:
    open_curator(clinic.project()).close()
    dying = ask(clinic, "killed", 1)
    assert dying.stdout is not None
    assert dying.stdout.readline().strip() == "measuring"
    living = ask(clinic, "alive", 15)
    os.kill(dying.pid, signal.SIGKILL)
    assert dying.wait(60) == -signal.SIGKILL
    out, _ = living.communicate(timeout=240)
    assert len(out.splitlines()) == 15
    with open_curator(clinic.project()) as curator:
        # 15 queries; the first is the one whose process was killed after it was charged, and is not charged again.
        assert spent(curator) == Fraction(15, 4)
        assert len(curator.history()) == 15
        curator.sql("SELECT COUNT(*) AS n FROM visits WHERE cost < 10", epsilon="0.25")
        with pytest.raises(BudgetError):
            curator.sql("SELECT COUNT(*) AS n FROM visits WHERE cost < 11", epsilon="0.25")
        assert curator.ledger.verify().ok
    dying.stdout.close()


# -- the doctor


def findings(project: Path) -> dict[str, tuple[bool, str, str]]:
    return {f.name: (f.ok, f.words, f.remedy) for f in examine(project)}


def test_doctor_on_a_healthy_project(clinic: Clinic) -> None:
    open_curator(clinic.project()).close()
    found = findings(clinic.project())
    assert all(ok for ok, _, _ in found.values()), found
    assert "PostgreSQL" in found["database"][1]
    assert clinic.role in found["role"][1]
    assert "hospital.visits: readable, 4 columns" in found["table visits"][1]
    assert "hush" not in json.dumps(found)


def test_doctor_says_what_to_grant(clinic: Clinic) -> None:
    project = clinic.project()
    clinic.run(f"REVOKE SELECT ON hospital.visits FROM {clinic.role}; GRANT INSERT ON hospital.wards TO {clinic.role}")
    found = findings(project)
    assert found["table visits"] == (
        False,
        f"hospital.visits: {clinic.role} may not read it",
        f'GRANT SELECT ON "hospital"."visits" TO {clinic.role};',
    )
    assert found["table wards rights"][0] is False
    assert found["table wards rights"][2].startswith("REVOKE INSERT")
    clinic.run(found["table visits"][2])
    clinic.run(found["table wards rights"][2])
    clinic.run(f"REVOKE USAGE ON SCHEMA hospital FROM {clinic.role}")
    assert findings(project)["table visits"][2] == f"GRANT USAGE ON SCHEMA hospital TO {clinic.role};"


def test_doctor_on_superusers_row_security_types_and_servers_that_are_gone(clinic: Clinic) -> None:
    found = findings(clinic.project("super.toml", engine=clinic.place))
    assert found["role"][0] is False
    assert "a superuser" in found["role"][1]
    clinic.run("ALTER TABLE hospital.visits ENABLE ROW LEVEL SECURITY")
    hidden = findings(clinic.project())["table visits row security"]
    assert hidden[0] is False
    clinic.run(hidden[2].partition("; or")[0])
    clinic.run("ALTER TABLE hospital.visits DROP COLUMN cost CASCADE")
    assert "is not a column" in findings(clinic.project())["project"][1]
    gone = findings(clinic.project("gone.toml", engine="postgresql://r:hush@127.0.0.1:1/none?connect_timeout=2"))
    assert gone["project"][0] is False
    assert "project.engine: cannot use the database at 127.0.0.1/none" in gone["project"][1]
    assert "hush" not in json.dumps(gone)


def test_words_for_files_and_words_for_tables(clinic: Clinic, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"limits\.spill: is for DuckDB"):
        open_curator(clinic.project(more="", **{"[tables.wards]": '[limits]\nspill = "x"\n\n[tables.wards]'}))
    text = clinic.project().read_text().replace(clinic.engine, "duckdb").replace("max_rows = 3", 'version = "1"')
    (tmp_path / "files.toml").write_text(text.replace("hospital.visits", "visits.csv"))
    with pytest.raises(InputError, match=r"tables\.visits\.version: is for tables of a database"):
        load(tmp_path / "files.toml")


FAMILY = """
CREATE TABLE hospital.stays (patient bigint, doctor bigint, ward text, cost numeric(8,2), note text)
  PARTITION BY LIST (ward);
CREATE TABLE hospital.stays_a PARTITION OF hospital.stays FOR VALUES IN ('a');
CREATE TABLE hospital.stays_b PARTITION OF hospital.stays FOR VALUES IN ('b', 'c');
INSERT INTO hospital.stays
SELECT i / 3, i % 7, substr('abc', i % 3 + 1, 1), i % 101, 'x' FROM generate_series(0, 899) AS s(i);
GRANT SELECT ON hospital.stays, hospital.stays_a, hospital.stays_b TO PUBLIC;
"""


def test_partitions_are_the_same_persons_as_their_table(clinic: Clinic) -> None:
    """Neither another population nor another unit can be had for a part of a table, nor for the whole after a part."""
    clinic.run(FAMILY)
    part = (clinic.project("part")).read_text().replace("hospital.visits", "hospital.stays_a")
    place = clinic.folder / "family.toml"

    def opened(text: str) -> None:
        place.write_text(text)
        open_curator(place).close()

    opened(part)
    for source in ("hospital.stays", "hospital.stays_b", "hospital.stays_a"):
        other = part.replace("hospital.stays_a", source)
        with pytest.raises(InputError, match=r"tables\.visits\.unit: persons are named in this source by 'patient'"):
            opened(other.replace('unit = "patient"', 'unit = "doctor"'))
        renamed = other.replace("[populations.patients]", "[populations.others]")
        with pytest.raises(InputError, match="belongs to the population 'patients'"):
            opened(renamed.replace('population = "patients"', 'population = "others"'))
        opened(other)
