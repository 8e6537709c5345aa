"""The protected unit is a term of the account: it cannot move once it is fixed, and what may change leaves a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.core.errors import EngineError, InputError
from tacit.curator.opening import fix_units, open_ledger
from tacit.ledger import Ledger
from tacit.project.project_file import load

VISITS = "".join(f"{i},{i % 3},{'ab'[i % 2]},{i}\n" for i in range(60))


def write(folder: Path, **words: Any) -> Path:
    """A project over one CSV; every word replaces a line of it."""
    lines = {
        "unit": 'unit = "patient"', "limits": "max_rows = 2", "bounds": "bounds = [0, 90]", "categories": '["a", "b"]',
        "population": "patients", "doctor": "integer", "patient": "integer", "more": "", "source": "visits.csv",
    } | words  # fmt: skip
    csv = folder / "visits.csv"
    if not csv.exists():
        csv.write_text("patient,doctor,ward,cost\n" + VISITS)
    (folder / "tacit.toml").write_text(
        f"""
[project]
name = "clinic"
anchor = "anchor/tacit.anchor"
[populations.patients]
epsilon = "4"
[populations.others]
epsilon = "4"
[tables.visits]
source = "{lines["source"]}"
population = "{lines["population"]}"
{lines["unit"]}
{lines["limits"]}
[tables.visits.columns]
patient = {{ type = "{lines["patient"]}" }}
doctor = {{ type = "{lines["doctor"]}" }}
ward = {{ type = "text", categories = {lines["categories"]} }}
cost = {{ type = "integer", {lines["bounds"]} }}
{lines["more"]}
"""
    )
    return folder / "tacit.toml"


def ask(project: Path) -> None:
    with tacit.open(project) as curator:
        curator.sql("SELECT COUNT(*) FROM visits", epsilon="0.1")


def entries(folder: Path) -> int:
    with Ledger.open(folder / "tacit.ledger", anchor=folder / "anchor" / "tacit.anchor") as ledger:
        return ledger.head.seq


def report(folder: Path) -> Any:
    return Ledger.examine(folder / "tacit.ledger", anchor=folder / "anchor" / "tacit.anchor")


ANOTHER = [
    ({"unit": 'unit = "row"'}, r"populations\.patients: its account protects an id of type INTEGER, .* name every row"),
    ({"unit": 'unit = "doctor"'}, r"tables\.visits\.unit: persons are named in this source by 'patient'"),
    ({"patient": "text"}, r"populations\.patients: .* now name an id of type TEXT"),
    ({"patient": "decimal"}, r"populations\.patients: .* now name an id of type DECIMAL\(18,2\)"),
]


@pytest.mark.parametrize(("words", "refused"), ANOTHER)
def test_a_unit_that_moves_is_refused_and_leaves_nothing_behind(tmp_path: Path, words: Any, refused: str) -> None:
    ask(write(tmp_path))
    before = entries(tmp_path)
    with pytest.raises(InputError, match=refused):
        ask(write(tmp_path, **words))
    assert entries(tmp_path) == before
    ask(write(tmp_path))
    assert report(tmp_path).ok
    assert report(tmp_path).changes == ()


def test_two_tables_over_one_source_have_one_unit(tmp_path: Path) -> None:
    second = """
[tables.again]
source = "visits.csv"
population = "patients"
unit = "{}"
[tables.again.columns]
patient = {{ type = "integer" }}
doctor = {{ type = "integer" }}
"""
    with pytest.raises(InputError, match=r"tables\.again\.unit: reads the same rows as visits.*'patient'.*'doctor'"):
        tacit.open(write(tmp_path, more=second.format("doctor")))
    tacit.open(write(tmp_path, more=second.format("patient"))).close()


def test_a_copy_a_link_and_another_name_of_the_source_have_the_unit_too(tmp_path: Path) -> None:
    ask(write(tmp_path))
    for name in ("copy.csv", "link.csv"):
        if name == "copy.csv":
            (tmp_path / name).write_bytes((tmp_path / "visits.csv").read_bytes())
        else:
            (tmp_path / name).symlink_to(tmp_path / "visits.csv")
        with pytest.raises(InputError, match="persons are named in this source by 'patient'"):
            ask(write(tmp_path, source=name, unit='unit = "doctor"'))
        ask(write(tmp_path, source=name))


def test_a_rewritten_file_keeps_its_unit(tmp_path: Path) -> None:
    ask(write(tmp_path))
    (tmp_path / "visits.csv").write_text("patient,doctor,ward,cost\n1,2,a,3\n")
    with pytest.raises(InputError, match="persons are named in this source by 'patient'"):
        ask(write(tmp_path, unit='unit = "doctor"'))
    ask(write(tmp_path))


def test_the_way_along_a_key_is_part_of_the_unit(tmp_path: Path) -> None:
    """Reached by a key that is itself the person, it is the same unit; by another, it is another."""
    (tmp_path / "people.csv").write_text("id,chief\n" + "".join(f"{i},{i % 5}\n" for i in range(60)))
    people = """
[tables.people]
source = "people.csv"
population = "patients"
unit = "{}"
[tables.people.columns]
id = {{ type = "integer", unique = true }}
chief = {{ type = "integer" }}
"""
    ask(write(tmp_path))
    keyed = {"unit": "", "patient": 'integer", references = "people.id'}
    with pytest.raises(InputError, match=r"tables\.visits\.unit: .* by 'patient' .*and not by 'patient > id > chief'"):
        ask(write(tmp_path, more=people.format("chief"), **keyed))
    ask(write(tmp_path, more=people.format("id"), **keyed))


def test_what_may_change_leaves_a_trace(tmp_path: Path) -> None:
    ask(write(tmp_path))
    ask(write(tmp_path))
    assert report(tmp_path).changes == ()
    before = entries(tmp_path)
    ask(
        write(
            tmp_path,
            limits="max_rows = 20\nmax_groups = 2\nmax_rows_limit = 30",
            bounds="bounds = [0, 900]",
            categories='["a", "b", "c"]',
        )
    )
    assert entries(tmp_path) == before + 3, "what changed, and a charge with its outcome"
    changes = "\n".join(report(tmp_path).changes)
    for words in (
        "visits: max_rows was 2, is 20",
        "visits: max_groups was auto, is 2",
        "visits: max_rows_limit was not stated, is 30",
        "visits: cost.bounds was 0 to 90, is 0 to 900",
        "visits: ward.categories was 'a', 'b', is 'a', 'b', 'c'",
    ):
        assert words in changes
    ask(write(tmp_path, bounds="nullable = true"))
    found = report(tmp_path)
    assert found.ok
    assert any("cost.bounds was 0 to 900, is not stated" in change for change in found.changes)


def test_an_operator_fixes_it_anew_visibly(tmp_path: Path) -> None:
    project = write(tmp_path)
    ask(project)
    running = tacit.open(project)
    write(tmp_path, unit='unit = "doctor"')
    fix_units(load(project), "patients", reason="doctors are protected now", operator="olga")
    with pytest.raises(EngineError):
        running.sql("SELECT COUNT(*) FROM visits", epsilon="0.2")
    running.close()
    ask(project)
    found = report(tmp_path)
    assert found.ok, found.problems
    assert len(found.changes) == 3, found.changes
    assert "the unit of patients was fixed anew by olga: doctors are protected now" in found.changes[0]
    assert "persons of patients are named in visits by doctor, patient before" in found.changes[1]
    assert "visits: unit was patient, is doctor" in found.changes[2]
    # What was spent stays spent.
    with tacit.open(project) as curator:
        assert curator.budget(population="patients").spent[0].amount * 10 == 2
    with pytest.raises(InputError, match="named in this source by 'doctor'"):
        ask(write(tmp_path))
    write(tmp_path, unit='unit = "row"')
    fix_units(load(project), "patients", reason="rows", operator="olga")
    ask(project)
    assert any("was an id of type INTEGER and is every row" in change for change in report(tmp_path).changes)
    with pytest.raises(InputError, match="population"):
        fix_units(load(project), "unknown", reason="rows", operator="olga")


def bodies(folder: Path) -> list[Any]:
    opened = open_ledger(str(folder / "tacit.ledger"), anchor=str(folder / "anchor" / "tacit.anchor"))
    with opened.ledger as ledger:
        return [body for _, body in ledger.journal.bodies()]


def test_two_tables_of_a_duckdb_file_have_columns_of_their_own(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "b.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT 1::BIGINT AS patient, 2::BIGINT AS doctor, 'a' AS ward, 1::BIGINT AS cost"
        )
        connection.execute("CREATE TABLE people AS SELECT 1::BIGINT AS id")
    more = """
[tables.people]
source = "b.duckdb#people"
population = "patients"
unit = "id"
[tables.people.columns]
id = { type = "integer" }
"""
    ask(write(tmp_path, source="b.duckdb#visits", more=more))
    with pytest.raises(InputError, match="named in this source by 'patient'"):
        ask(write(tmp_path, source="b.duckdb#visits", unit='unit = "doctor"'))


def test_one_file_of_many_has_the_unit_of_all(tmp_path: Path) -> None:
    table = pa.table({"patient": [1], "doctor": [2], "ward": ["a"], "cost": [1]})
    for name in ("one.parquet", "two.parquet"):
        pq.write_table(table.append_column("n", pa.array([len(name) + ord(name[0])])), tmp_path / name)
    ask(write(tmp_path, source="*.parquet"))
    with pytest.raises(InputError, match="named in this source by 'patient'"):
        ask(write(tmp_path, source="two.parquet", unit='unit = "doctor"'))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_gets_other_columns_while_it_is_open_is_not_read(tmp_path: Path, kind: str) -> None:
    """Columns that were exchanged would make the doctor a patient; ids that became doubles would merge."""
    source = tmp_path / f"visits.{kind}"
    columns = {"patient": [1, 2], "doctor": [3, 4], "ward": ["a", "b"], "cost": [1, 2]}
    if kind == "parquet":
        pq.write_table(pa.table(columns), source)
    with tacit.open(write(tmp_path, source=source.name)) as curator:
        curator.sql("SELECT COUNT(*) FROM visits", epsilon="0.1")
        if kind == "csv":
            source.write_text("doctor,patient,ward,cost\n1,2,a,3\n")
        else:
            pq.write_table(pa.table({**columns, "patient": [1.0, 2.0]}), source)
        with pytest.raises(EngineError):
            curator.sql("SELECT COUNT(*) FROM visits", epsilon="0.1")
        # The same columns with other rows are another version.
        if kind == "csv":
            source.write_text("patient,doctor,ward,cost\n1,2,a,3\n")
        else:
            pq.write_table(pa.table({**columns, "patient": [1, 3]}), source)
        assert not curator.sql("SELECT COUNT(*) FROM visits", epsilon="0.1").charge.repeated


def test_a_public_view_beside_protected_tables_is_refused(tmp_path: Path) -> None:
    """A public table may lie in a file with protected ones; a view may have their rows."""
    import duckdb

    with duckdb.connect(str(tmp_path / "b.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT 1::BIGINT AS patient, 2::BIGINT AS doctor, 'a' AS ward, 1::BIGINT AS cost"
        )
        connection.execute("CREATE VIEW open AS SELECT * FROM visits; CREATE TABLE wards AS SELECT 'a' AS ward")
    more = '[tables.{0}]\nsource = "b.duckdb#{0}"\npublic = true\n[tables.{0}.columns]\nward = {{ type = "text" }}'
    ask(write(tmp_path, source="b.duckdb#visits", more=more.format("wards")))
    with pytest.raises(
        InputError, match=r"tables\.open\.public: this source holds persons of the population 'patients'"
    ):
        ask(write(tmp_path, source="b.duckdb#visits", more=more.format("open")))


def test_another_name_does_not_hide_what_is_declared(tmp_path: Path) -> None:
    project = write(tmp_path)
    ask(project)
    renamed = project.read_text().replace("[tables.visits", "[tables.again").replace("max_rows = 2", "max_rows = 200")
    project.write_text(renamed)
    with tacit.open(project) as curator:
        curator.sql("SELECT COUNT(*) FROM again", epsilon="0.1")
    (change,) = report(tmp_path).changes
    assert "again of clinic was declared after charges: unit patient, max_groups auto, max_rows 200" in change


def test_a_fit_stops_too_where_the_unit_was_fixed_anew(tmp_path: Path) -> None:
    from tacit.learn import LogisticRegression

    project = write(tmp_path)
    with tacit.open(project) as curator:
        write(tmp_path, unit='unit = "doctor"')
        fix_units(load(project), "patients", reason="doctors", operator="olga")
        before = entries(tmp_path)
        with pytest.raises(EngineError):
            curator.fit(LogisticRegression(epsilon=1), "SELECT cost, ward FROM visits")
    assert entries(tmp_path) == before


def test_an_operator_cannot_reach_into_another_population(tmp_path: Path) -> None:
    ask(write(tmp_path))
    before = entries(tmp_path)
    project = write(tmp_path, population="others", unit='unit = "doctor"')
    with pytest.raises(InputError, match="this source belongs to the population 'patients'"):
        fix_units(load(project), "others", reason="x", operator="olga")
    second = """
[tables.again]
source = "visits.csv"
population = "patients"
unit = "doctor"
[tables.again.columns]
doctor = { type = "integer" }
"""
    with pytest.raises(InputError, match="reads the same rows as visits"):
        fix_units(load(write(tmp_path, more=second)), "patients", reason="x", operator="olga")
    assert entries(tmp_path) == before
    assert report(tmp_path).ok


def test_letters_of_names_decide_nothing(tmp_path: Path) -> None:
    ask(write(tmp_path))
    before = entries(tmp_path)
    with tacit.open(write(tmp_path, unit='unit = "PATIENT"')):
        pass
    assert entries(tmp_path) == before


def test_a_source_that_is_not_recognised_leaves_a_trace(tmp_path: Path) -> None:
    """A copy with other ends of lines is the same source; one with a further row is another, and that is told."""
    ask(write(tmp_path))
    (tmp_path / "visits.csv").write_text("patient,doctor,ward,cost\n1,2,a,3\n")
    ask(write(tmp_path))
    assert report(tmp_path).changes == (), "a new version of the same source is no news"
    copy = b"patient,doctor,ward,cost\r\n1,2,a,3\r\n"
    (tmp_path / "copy.csv").write_bytes(copy)
    with pytest.raises(InputError, match="named in this source by 'patient'"):
        ask(write(tmp_path, source="copy.csv", unit='unit = "doctor"'))
    (tmp_path / "copy.csv").write_bytes(copy + b"2,2,a,3\r\n")
    ask(write(tmp_path, source="copy.csv", unit='unit = "doctor"'))
    found = report(tmp_path)
    assert found.ok
    assert any(
        "visits, a source not seen before, names persons of patients by doctor" in each for each in found.changes
    )
    assert any("visits: unit was patient, is doctor" in each for each in found.changes)
