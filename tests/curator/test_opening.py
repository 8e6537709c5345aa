"""``tacit.open`` on files and frames, through DuckDB: answers near the truth, and nothing taken from contents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError, QueryError
from tacit.curator.opening import open_curator
from tacit.project.project_file import load

WARDS = ["cardiology", "oncology", "surgery"]
PLAIN = {"unit": "patient_id", "epsilon": "4"}
KNOWN: dict[str, Any] = {"ward": WARDS, "cost": (0, 500)}
SQL = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM {} GROUP BY ward"
TABLE = pa.table(
    {
        "patient_id": pa.array(range(900), type=pa.int32()),
        "ward": pa.array([WARDS[i % 3] for i in range(900)]).dictionary_encode(),
        "cost": pa.array([float(i % 500) for i in range(900)]),
        "note": pa.array([[1, 2]] * 900),
    }
)
PROJECT = """
[project]
name = "clinic"

[populations.patients]
epsilon = "4"
delta = "1e-6"
accounting = "zcdp"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient_id"
max_groups = 2

[tables.visits.columns]
ward = { type = "text", categories = ["cardiology", "oncology", "surgery"] }
cost = { bounds = [0, 500] }

[tables.patients]
source = "patients.csv"
population = "patients"
unit = "id"

[tables.patients.columns]
id   = { type = "integer", unique = true }
born = { type = "date", bounds = [1900-01-01, 2024-12-31] }

[tables.wards]
source = "wards.csv"
public = true

[tables.wards.columns]
ward = { type = "text" }
beds = { type = "integer" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "visits.parquet")
    pa_csv.write_csv(
        TABLE.drop_columns(["note"]).set_column(1, "ward", TABLE["ward"].cast(pa.string())), tmp_path / "visits.csv"
    )
    (tmp_path / "patients.csv").write_text("id,born\n" + "".join(f"{i},{1930 + i % 80}-05-01\n" for i in range(900)))
    (tmp_path / "wards.csv").write_text("ward,beds\ncardiology,10\noncology,20\nsurgery,30\n")
    (tmp_path / "tacit.toml").write_text(PROJECT)
    return tmp_path


def check(curator: Any, name: str) -> None:
    answer = curator.sql(SQL.format(name), epsilon="3")
    table = answer.to_arrow()
    assert table["ward"].to_pylist() == WARDS
    assert all(abs(n - 300) < 50 for n in table["n"].to_pylist())
    assert all(abs(m - 225) < 60 for m in table["m"].to_pylist())
    assert all(
        low <= 300 <= high
        for low, high in zip(*(answer.intervals("0.9999")[f"n_{e}"].to_pylist() for e in ("low", "high")), strict=True)
    )


@pytest.mark.parametrize("form", ["parquet", "glob", "csv", "arrow", "pandas", "polars", "duckdb"])
def test_files_and_frames(form: str, folder: Path, seeded: SeededBits) -> None:
    columns: dict[str, Any] = {**KNOWN, "cost": {"type": "double", "bounds": [0, 500]}}
    source: Any = {
        "parquet": folder / "visits.parquet",
        "glob": str(folder / "vis*.parquet"),
        "csv": str(folder / "visits.csv"),
        "arrow": TABLE,
        "polars": pl.from_arrow(TABLE),
        "duckdb": f"{folder / 'visits.duckdb'}#visits",
        "pandas": TABLE.drop_columns(["note"]).to_pandas(),
    }[form]
    if form in ("csv", "duckdb"):
        columns |= {"patient_id": "integer", "ward": {"type": "text", "categories": WARDS}}
    if form == "duckdb":
        with duckdb.connect(folder / "visits.duckdb") as connection:
            connection.execute(f"CREATE TABLE visits AS FROM '{folder / 'visits.parquet'}'")
    name = {"glob": "vis", "parquet": "visits", "csv": "visits", "duckdb": "visits"}.get(form, "data")
    assert isinstance(TABLE.to_pandas(), pd.DataFrame)
    with open_curator(source, unit="patient_id", epsilon="4", columns=columns) as curator:
        check(curator, name)
        shown = str(curator.explain(SQL.format(name), epsilon=1))
        assert f'FROM "{name}"' in shown
        assert "read_" not in shown  # where the data lies is not shown


def test_a_project_file(folder: Path, seeded: SeededBits) -> None:
    with open_curator(folder / "tacit.toml") as curator:
        assert repr(curator) == "<Curator clinic: visits, patients, wards>"
        answer = curator.sql(SQL.format("visits"), epsilon="0.5")
        assert len(answer) == 3
        joined = curator.sql(
            "SELECT w.beds > 15 AS large, COUNT(*) AS n FROM visits v JOIN patients p ON v.patient_id = p.id "
            "JOIN wards w ON v.ward = w.ward WHERE p.born > DATE '1950-01-01' GROUP BY 1",
            epsilon="0.3",
        )
        assert [row[0] for row in joined.finished.values] == [False, True]
        assert curator.budget().population == "patients"
        assert len(curator.history()) == 2


def test_bounds_and_categories_are_never_read_from_data(folder: Path) -> None:
    """The schema is public, contents are not: without a declaration bounds are searched and keys cost a delta."""
    with open_curator(folder / "visits.parquet", unit="patient_id", epsilon="4") as curator:
        quote = curator.explain("SELECT SUM(cost) AS s FROM visits", epsilon="1")
        assert "AUTO for sum(cost)" in str(quote.explanation.bounds)
        with pytest.raises(QueryError, match="delta"):
            curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="1")
        (table,) = curator.tables()
        assert all(column.bounds is None and column.categories is None for column in table.table.columns)
        # A type Tacit does not read is left out.
        assert [column.name for column in table.table.columns] == ["patient_id", "ward", "cost"]


def test_a_changed_file_is_a_new_version(folder: Path) -> None:
    pure = {"unit": "patient_id", "epsilon": "4", "columns": KNOWN}
    with open_curator(folder / "visits.parquet", **pure) as curator:
        before = curator._context.version(["visits"])
        assert curator._context.version(["visits"]) == before
        pq.write_table(TABLE.slice(0, 500), folder / "visits.parquet")
        assert curator._context.version(["visits"]) != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": "4"}, "unit: say which column"),
        ({"unit": "patient_id"}, "epsilon: state the budget"),
        ({"unit": "unknown", "epsilon": "4"}, "visits: the unit 'unknown'"),
        ({"unit": "patient_id", "epsilon": "0"}, "populations.people.epsilon: must be greater than 0"),
        ({**PLAIN, "columns": {"price": (0, 1)}}, "columns.price: is not a column"),
        ({**PLAIN, "columns": {"cost": (1, 0)}}, "columns.cost: the lower bound"),
        ({**PLAIN, "columns": {"cost": ("a", "b")}}, "columns.cost.bounds: must be a number"),
        ({**PLAIN, "columns": {"ward": (1, 2)}}, "columns.ward: bounds make no sense|1 is not"),
        ({**PLAIN, "columns": {"cost": {"bound": [0, 1]}}}, "columns.cost.bound: is an unknown setting"),
        ({**PLAIN, "columns": {"cost": 7}}, "columns.cost: must be"),
        ({**PLAIN, "max_rows": 0}, "max_rows: must be a whole number from 1"),
        ({**PLAIN, "max_rows_limit": 0}, "max_rows_limit: .*greater than or equal to 1"),
        (
            {**PLAIN, "max_groups": 3, "max_groups_limit": 2},
            "max_groups_limit: .*at least max_groups, which is 3; got 2",
        ),
        ({**PLAIN, "accounting": "zcdp"}, "needs delta, epsilon or rho"),
        ({**PLAIN, "accounting": "money"}, "accounting"),
    ],
)
def test_mistakes_are_named(folder: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_curator(folder / "visits.parquet", **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('source = "visits.parquet"', 'source = "gone.parquet"'), "tables.visits.source: there is no file"),
        (('source = "visits.parquet"', 'source = "wards.xlsx"'), "must end in one of"),
        (
            ('population = "patients"\nunit = "patient_id"', 'population = "staff"\nunit = "patient_id"'),
            r"tables.visits.population: there is no \[populations.staff\]",
        ),
        (('unit = "patient_id"', 'unit = "patient"'), "visits: the unit 'patient'"),
        (("max_groups = 2", "max_group = 2"), "tables.visits.max_group: is an unknown setting"),
        (("max_groups = 2", 'max_groups = "2"'), "tables.visits.max_groups"),
        (("max_groups = 2", "max_groups = 2\nmax_groups_limit = 1"), "visits.max_groups_limit: .*at least max_groups"),
        (("max_groups = 2", "max_groups = 2\nmax_rows_limit = true"), "tables.visits.max_rows_limit"),
        (("bounds = [0, 500]", "bounds = [0]"), "tables.visits.columns.cost.bounds"),
        (
            ('type = "text", categories', 'type = "words", categories'),
            "tables.visits.columns.ward.type: must be one of",
        ),
        (('beds = { type = "integer" }', "beds = {}"), "tables.wards.columns.beds: needs a type"),
        (
            ('id   = { type = "integer", unique = true }', 'id   = { type = "integer", references = "x" }'),
            "references: must be 'table.column'",
        ),
        (('delta = "1e-6"', ""), "populations.patients: accounting = 'zcdp' needs"),
        (("[project]", "[[project]]"), "project"),
        (("[project]", "[project"), "is not TOML"),
        (('name = "clinic"', 'engine = "oracle://x"'), "project.engine"),
    ],
)
def test_mistakes_in_a_project_file_name_table_and_column(folder: Path, change: tuple[str, str], message: str) -> None:
    old, new = change
    assert old in PROJECT
    (folder / "tacit.toml").write_text(PROJECT.replace(old, new))
    with pytest.raises(InputError, match=message):
        open_curator(folder / "tacit.toml")


def test_a_project_file_stands_alone(folder: Path) -> None:
    with pytest.raises(InputError, match="epsilon: belongs in the project file"):
        open_curator(folder / "tacit.toml", epsilon="1")
    with pytest.raises(InputError, match="cannot read"):
        open_curator(folder / "missing.toml")
    with pytest.raises(InputError, match="source: must be a path or"):
        open_curator(object(), unit="x", epsilon="1")
    (folder / "bad.parquet").write_text("hello")
    with pytest.raises(InputError, match="is not a Parquet file"):
        open_curator(folder / "bad.parquet", unit="x", epsilon="1")


def test_the_catalog_of_a_project_holds_the_owners_words(folder: Path) -> None:
    project = load(folder / "tacit.toml")
    visits = project.catalog.table("visits")
    assert visits is not None
    assert (visits.max_groups, visits.max_rows, visits.unit) == (2, "auto", "patient_id")
    assert visits.find("ward").categories == tuple(WARDS)  # type: ignore[union-attr]
    assert visits.find("cost").bounds == (0.0, 500.0)  # type: ignore[union-attr]
    assert project.sources["visits"].path == str(folder / "visits.parquet")


def test_ceilings_of_the_project_file_and_of_open_refuse_for_free(folder: Path) -> None:
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    text = (
        (folder / "tacit.toml")
        .read_text()
        .replace("max_groups = 2", "max_groups = 2\nmax_groups_limit = 3\nmax_rows_limit = 5")
    )
    (folder / "limited.toml").write_text(text)
    opened = open_curator(folder / "limited.toml")
    columns = {"ward": WARDS}
    plain = {
        "unit": "patient_id",
        "epsilon": "4",
        "columns": columns,
        "max_groups": 2,
        "max_groups_limit": 3,
        "max_rows_limit": 5,
    }
    for curator in (opened, open_curator(folder / "visits.parquet", **plain)):  # type: ignore[arg-type]
        with curator:
            for asked, words in (
                ({"max_rows": 6}, "max_rows = 6 is more than the 5 rows"),
                ({"max_groups": 4}, "max_groups = 4 is more than the 3 groups"),
            ):
                with pytest.raises(QueryError, match=f"{words} of one person that the owner of visits allows"):
                    curator.sql(sql, epsilon="0.5", **asked)  # type: ignore[arg-type]
            assert curator.history() == ()
            answer = curator.sql(sql, epsilon="0.5", max_rows=5, max_groups=1)
            assert (answer.plan.final.max_groups, answer.plan.final.measures[0].rows) == (1, 5)
            (table,) = (info.table for info in curator.tables() if info.name == "visits")
            assert (table.max_groups_limit, table.max_rows_limit) == (3, 5)


def test_a_folder_may_be_called_anything(tmp_path: Path) -> None:
    place = tmp_path / "data [2025]"
    place.mkdir()
    pq.write_table(pa.table({"id": list(range(40))}), place / "people*.parquet")
    with open_curator(place / "people*.parquet", unit="id", epsilon="100", table="people") as curator:
        [answer] = curator.sql("SELECT COUNT(*) AS n FROM people", epsilon="50").to_arrow()["n"].to_pylist()
    assert 30 < answer < 50


def test_columns_that_no_query_can_name_are_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "first name": ["a", "b"], "x-y": [1, 2]}), tmp_path / "people.parquet")
    with open_curator(tmp_path / "people.parquet", unit="id", epsilon="1") as curator:
        assert [column.name for column in curator.tables()[0].table.columns] == ["id"]
