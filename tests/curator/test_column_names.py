"""Columns under names of several words, with dots and other letters: every door takes and shows them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ibis import _

from tacit.core.errors import InputError, QueryError
from tacit.core.names import is_column_name
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.relational import ownership
from tacit.query.relational.algebra import relation_text
from tacit.query.types import INTEGER
from tacit.server.console.tables import editor_words

PROJECT = """
[project]
name = "clinic"

[populations.people]
epsilon = "1000"

[tables.visits]
source = "visits.parquet"
population = "people"
unit = "Person No."
max_groups = 1
max_rows = 1

[tables.visits.columns]
"Person No." = { type = "integer", source = "pid", unique = true }
"visit cost" = { type = "integer", source = "Cost", bounds = [0, 100] }
"a.b" = { type = "text", source = "w", categories = ["x", "y"] }
"Größe (cm), gemessen" = { type = "integer", source = "h", bounds = [0, 250] }
"""


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Curator:
    folder = tmp_path_factory.mktemp("names")
    rows = pa.table(
        {
            "pid": list(range(400)),
            "Cost": [i % 100 for i in range(400)],
            "w": ["x" if i % 4 else "y" for i in range(400)],
            "h": [150 + i % 40 for i in range(400)],
        }
    )
    pq.write_table(rows, folder / "visits.parquet")
    (folder / "tacit.toml").write_text(PROJECT, encoding="utf-8")
    return open_curator(folder / "tacit.toml")


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "a.b", AVG("visit cost") AS m FROM visits WHERE "Größe (cm), gemessen" > 0 GROUP BY "a.b"',
        'SELECT v."A.B", AVG(v."Visit Cost") AS m FROM visits v WHERE v."GRÖßE (cm), gemessen" > 0 GROUP BY 1',
        "SELECT `a.b`, AVG(`visit cost`) AS m FROM `main.visits` GROUP BY `a.b`",
        'SELECT w AS "a.b", AVG("Cost") AS m FROM (SELECT "a.b" AS w, "visit cost" AS "Cost" FROM visits) GROUP BY w',
    ],
)
def test_sql_takes_them(curator: Curator, sql: str) -> None:
    answer = curator.sql(sql, epsilon="9")
    rows = answer.to_arrow()
    assert rows.column(0).to_pylist() == ["x", "y"]
    assert [abs(mean - 50) < 5 for mean in rows.column(1).to_pylist()] == [True, True]
    assert rows.column_names[0].lower() == "a.b"


def test_an_expression_takes_them(curator: Curator) -> None:
    visits = curator.tables()[0].to_ibis()
    grouped = visits.filter(visits["visit cost"] >= 0).group_by("a.b")
    rows = curator.sql(grouped.agg(n=_.count(), tall=_["Größe (cm), gemessen"].mean()), epsilon="9").to_arrow()
    assert rows.column_names[:3] == ["a.b", "n", "tall"]
    assert [abs(n - many) < 9 for n, many in zip(rows.column(1).to_pylist(), (300, 100), strict=True)] == [True, True]


def test_quotes_receipts_and_completions_show_them(curator: Curator) -> None:
    sql = 'SELECT "a.b", SUM("visit cost") AS "total cost" FROM visits GROUP BY "a.b"'
    assert "all 2 values of a.b" in str(curator.explain(sql, epsilon="9"))
    answer = curator.sql(sql, epsilon="9")
    assert "total cost" in answer.receipt.to_json()
    words = json.loads(editor_words(curator.tables()))
    named = [column["name"] for column in words["tables"]["visits"]["columns"]]
    assert named == ['"Person No."', '"visit cost"', '"a.b"', '"Größe (cm), gemessen"']


def test_a_name_without_quotes_is_understood(curator: Curator) -> None:
    with pytest.raises(
        QueryError,
        match=r'there are "Person No.", "visit cost", "a.b".* Try \(with quotes .*\): SELECT "visit cost"',
    ):
        curator.sql("SELECT visit cost, COUNT(*) FROM visits GROUP BY 1", epsilon="9")


@pytest.mark.parametrize("name", ["", " a", "a ", 'a"b', "a`b", "[a]", "a\\b", "a\nb", "a" * 64, "e\u0301"])
def test_other_names_are_refused(name: str) -> None:
    assert not is_column_name(name)
    with pytest.raises(InputError, match="a name of a column has at most 63 printed characters"):
        Column(name, INTEGER)


def test_names_with_signs_between_names_are_told_apart() -> None:
    """The text of a query, by which a repeat is known, holds lists of names."""

    def text(*names: str) -> str:
        table = Table("t", tuple(Column(name, INTEGER) for name in ("id", *names)), population="p", unit="id")
        return relation_text(ownership.scan(Catalog((table,), (Population("p"),)), table))

    assert len({text("a", "b"), text("a,b"), text("'a'", "b"), text("a,'b'"), text("'a','b'"), text("'a', 'b'")}) == 6


def test_a_column_of_lists_is_named_as_what_it_is() -> None:
    table = pa.table({"id": [1, 2], "tags": [["a"], []], "cost": [1, 2]})
    with (
        open_curator(table, unit="id", epsilon="4", table="t") as curator,
        pytest.raises(QueryError, match="The column 'tags' has a type that no query reads, such as a list"),
    ):
        curator.explain("SELECT COUNT(*) FROM t WHERE tags IS NULL", epsilon="1")
