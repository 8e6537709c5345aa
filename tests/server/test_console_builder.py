"""The query builder and the curve of prices: texts that are accepted, whatever is chosen or typed."""

from __future__ import annotations

import asyncio
import itertools
import json
import unicodedata
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.served import CATALOG, COUNT, Served, serve
from tacit.core.errors import InputError
from tacit.curator.curator import TableInfo
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.parsing.parse import read_tree
from tacit.query.resolve import is_accepted
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, decimal
from tacit.server.console.ask_page import AskForm, curve_of
from tacit.server.console.tables import build, view_builder

TABLES = [TableInfo(table) for table in CATALOG.tables]
ODD = Catalog(
    (
        Table(
            "order",
            (
                Column("group", INTEGER),
                Column("select", TEXT, categories=("it's", '"', "--", "x")),
                Column("from", decimal(2), bounds=(0, 100)),
                Column("where", DOUBLE, bounds=(0.0, 1.0)),
                Column("free", DOUBLE),
                Column("yes", BOOLEAN),
                Column("day", DATE),
                Column("moment", TIMESTAMP),
                Column("note", TEXT),
            ),
            population="people",
            unit="group",
        ),
    ),
    (Population("people"),),
)
ODD_TABLES = [TableInfo(table) for table in ODD.tables]


def _choices(tables: list[TableInfo]) -> Iterator[str]:
    """Queries in which every entry of every list occurs."""
    for info in tables:
        view = view_builder({"table": info.name}, tables)
        assert view is not None
        groups = ["", *(value for value, *_ in view["groups"][0])]
        measures = ["", *(value for value, *_ in view["measures"][0])]
        for group, measure in itertools.zip_longest(groups, measures, fillvalue=""):
            yield build({"table": info.name, "group0": group, "measure0": measure}, tables)


@pytest.mark.parametrize("catalog", [CATALOG, ODD], ids=["hospital", "odd"])
def test_every_choice_of_the_lists_is_a_query_that_is_accepted(catalog: Catalog) -> None:
    found = list(_choices([TableInfo(table) for table in catalog.tables]))
    assert len(found) > 10
    refused = [sql for sql in found if not is_accepted(sql, catalog)]
    assert refused == []


def test_the_text_is_as_an_analyst_would_write_it() -> None:
    chosen = {
        "table": "visits",
        "measure0": "people",
        "measure1": "average:cost",
        "group0": "day:month",
        "group1": "ward",
        "where0": "ward",
        "is0": "is not",
        "value0": "b",
        "where2": "cost",
        "is2": "at least",
        "value2": "1,000.50",
        "where3": "street",
        "is3": "is missing",
    }
    assert build(chosen, TABLES) == (
        "SELECT DATE_TRUNC('month', day) AS month, ward, COUNT(DISTINCT patient) AS people, AVG(cost) AS avg_cost\n"
        "FROM visits\n"
        "WHERE ward <> 'b' AND cost >= 1000.50 AND street IS NULL\n"
        "GROUP BY 1, 2\n"
        "ORDER BY 1, 2"
    )
    assert build({"table": "staff", "group0": "salary:1000"}, TABLES) == (
        "SELECT FLOOR(salary / 1000) * 1000 AS salary_from, COUNT(*) AS n\nFROM staff\nGROUP BY 1\nORDER BY 1"
    )


@settings(derandomize=True, deadline=None, max_examples=80)
@given(st.text(max_size=30))
def test_nothing_typed_becomes_sql(text: str) -> None:
    chosen = {"table": "order", "where0": "note", "is0": "is", "value0": text}
    try:
        sql = build(chosen, ODD_TABLES)
    except InputError:
        assert any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text), "only what no query may hold"
        return
    if not text:
        assert "WHERE" not in sql
        return
    tree = read_tree(sql)
    (condition,) = [tree.args["where"].this]
    assert condition.key == "eq"
    assert condition.expression.is_string
    assert condition.expression.this == text


@pytest.mark.parametrize(
    ("column", "text", "example"),
    [("from", "1; DROP", "12.5"), ("day", "yesterday", "2025-03-31"), ("yes", "perhaps", "true or false"),
     ("from", "1e999", "12.5"), ("moment", "x", "2025-03-31")],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_with_one_that_fits(column: str, text: str, example: str) -> None:
    with pytest.raises(InputError, match=f"{column}: is compared with values such as {example}"):
        build({"table": "order", "where0": column, "is0": "is", "value0": text}, ODD_TABLES)


@pytest.mark.parametrize(
    "wrong", [{"table": "x"}, {"group0": "patient"}, {"group0": "ward:month"}, {"measure0": "sum:patient"},
              {"measure0": "drop:cost"}, {"where0": "ward", "is0": "like", "value0": "a"}],
)  # fmt: skip
def test_what_is_not_in_a_list_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError, match="from the list"):
        build({"table": "visits", **wrong}, TABLES)


def test_a_filter_of_another_table_is_dropped_and_a_person_is_no_column() -> None:
    assert "WHERE" not in build({"table": "staff", "where0": "ward", "is0": "is", "value0": "a"}, TABLES)
    assert "WHERE" not in build({"table": "visits", "where0": "patient", "is0": "is", "value0": "1"}, TABLES)
    view = view_builder({"table": "visits", "where0": "ward", "is0": "is", "value0": "b"}, TABLES)
    assert view is not None
    assert "patient" not in [name for name, *_ in view["filters"][0]["columns"]]
    assert [name for name, _, chosen in view["filters"][0]["choices"] if chosen] == ["b"]
    assert len(view["filters"]) == 2, "one more can be chosen"
    assert view_builder({}, []) is None


def test_dates_and_moments_are_written_as_such() -> None:
    for column, text, written in (
        ("day", "2025-03-31", "DATE '2025-03-31'"),
        ("moment", "2025-03-31T12:30", "TIMESTAMP '2025-03-31 12:30:00'"),
        ("yes", "True", "TRUE"),
        ("select", "it's", "'it''s'"),
    ):
        sql = build({"table": "order", "where0": column, "is0": "is", "value0": text}, ODD_TABLES)
        assert sql.endswith(f"= {written}")
        assert is_accepted(sql, ODD), sql


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = serve()
    yield found
    found.close()


def _curve(served: Served, form: AskForm) -> Any:
    async def quote(access: Any, ask: Any) -> Any:
        return served.service.quote(access, ask)

    async def run(work: Any, *args: Any) -> Any:
        return work(*args)

    visit: Any = SimpleNamespace(
        user=served.access(), service=served.service, run=run, runtime=SimpleNamespace(quote=quote)
    )
    return asyncio.run(curve_of(visit, form))


def test_a_curve_has_the_errors_of_quotes(served: Served) -> None:
    found = _curve(served, AskForm(sql=COUNT, amount="0.5"))
    assert found.pay == "epsilon"
    amounts = [step.amount for step in found.steps]
    assert amounts == ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
    assert found.chosen == amounts.index("0.5")
    for step in found.steps:
        quote = served.curator.explain(COUNT, epsilon=step.amount)
        assert step.errors == f"{quote.explanation.errors[0].label} ± {quote.explanation.errors[0].bound}"
    picture = ElementTree.fromstring(found.picture)
    dots = [each for each in picture.iter() if each.attrib.get("class") == "dot s0"]
    assert len(dots) == len(amounts)
    assert sorted(float(each.attrib["cy"]) for each in dots) == [float(each.attrib["cy"]) for each in dots]
    now = next(each for each in picture.iter() if each.attrib.get("class") == "now")
    assert float(now.attrib["cx"]) == pytest.approx(float(dots[found.chosen].attrib["cx"]), abs=0.2)
    between = _curve(served, AskForm(sql=COUNT, amount="0.3"))
    assert between.steps[between.chosen].amount == "0.3", "the typed price is a step of its own"
    assert len(between.steps) == len(found.steps) + 1
    assert json.loads(found.data)[0] == ["0.01", f"ε 0.01: {found.steps[0].errors}"]
    assert served.spent() == 0


def test_a_curve_for_an_accuracy_is_in_prices(served: Served) -> None:
    found = _curve(served, AskForm(sql=COUNT, pay="within", amount="30"))
    assert found.pay == "epsilon"
    assert float(found.steps[found.chosen].amount) < 1


@pytest.mark.parametrize(
    "form",
    [
        AskForm(sql="SELECT * FROM visits", amount="1"),
        AskForm(sql="SELECT * FROM wards", amount="1"),
        AskForm(sql="SELECT AVG(cost) AS m FROM visits", amount="1"),
        AskForm(sql=COUNT, amount="x"),
    ],
    ids=["refused", "public", "unknown beforehand", "no price"],
)
def test_where_no_error_is_known_there_is_no_curve(served: Served, form: AskForm) -> None:
    assert _curve(served, form) is None
