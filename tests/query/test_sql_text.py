# ruff: noqa: E501 - a query is one line
"""No name, constant or expression becomes another part of a query than it was."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from fractions import Fraction
from typing import Any

import ibis
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from ibis import _
from sqlglot import exp

from query.corpus.clinic import CATALOG
from query.corpus.hostile_texts import HOSTILE_TEXTS
from tacit.core.errors import InputError
from tacit.curator.curator import TableInfo
from tacit.query.parsing.parse import parse
from tacit.query.parsing.sql_text import constant_text, name_text, query_text
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve

VISITS, PATIENTS, WARDS = (TableInfo(CATALOG.table(name)).to_ibis() for name in ("visits", "patients", "wards"))

#: An expression, and the query that it means.
PAIRS = [
    (VISITS.count(), "SELECT COUNT(*) AS c FROM visits"),
    (
        VISITS.filter(VISITS.cost > 100).group_by("ward").agg(n=_.count(), cost=_.cost.mean()),
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE cost > 100 GROUP BY ward",
    ),
    (
        VISITS.filter(VISITS.ward.isin(["surgery", "oncology"])).agg(n=_.patient_id.nunique()),
        "SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE ward IN ('surgery', 'oncology')",
    ),
    (VISITS.group_by("urgent").agg(m=_.nights.median()), "SELECT urgent, MEDIAN(nights) AS m FROM visits GROUP BY urgent"),
    (VISITS.agg(q=_.nights.quantile(0.9)), "SELECT QUANTILE_CONT(nights, 0.9) AS q FROM visits"),
    (sqlglot.select("ward", "COUNT(*) AS n").from_("visits").group_by("ward"), "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"),
    (sqlglot.parse_one("SELECT COUNT_IF(urgent) AS n FROM visits", read="snowflake"), "SELECT COUNT_IF(urgent) AS n FROM visits"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "sql"), PAIRS, ids=[sql for _, sql in PAIRS])
def test_an_expression_is_the_query_that_it_means(expression: Any, sql: str) -> None:
    found, wanted = (resolve(text, CATALOG).final for text in (query_text(expression), sql))
    assert (found.keys, found.aggregates, found.population) == (wanted.keys, wanted.aggregates, wanted.population)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (VISITS, "not_aggregated"),
        (VISITS.order_by("cost").limit(1), "not_aggregated"),
        (VISITS.group_by("patient_id").agg(n=_.count()), "unit_exposed"),
        (ibis.table({"a": "int64"}, name="nothing").count(), "unknown_table"),
        (VISITS.join(PATIENTS, VISITS.cost == PATIENTS.weight).agg(n=_.count()), "join"),
        (VISITS.agg(s=_.score.cov(_.cost, how="pop")), "bounds"),
    ],
)
def test_refusals_are_the_planner_s(expression: Any, reason: str) -> None:
    with pytest.raises(Refusal) as refusal:
        resolve(query_text(expression), CATALOG)
    assert refusal.value.reason == reason


@pytest.mark.parametrize("wrong", [None, 3, b"SELECT 1", ["SELECT 1"], ibis, _.cost, VISITS.schema()])
def test_anything_else_is_an_input_error(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be text, or an expression of Ibis or SQLGlot"):
        query_text(wrong)


def test_ibis_is_not_imported_for_others() -> None:
    program = "import sys, tacit.query.parsing.sql_text as t; t.query_text('SELECT 1'); sys.exit('ibis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


#: Characters that mean something in SQL, and others.
HOSTILE = st.text(st.sampled_from("'\"`\\;-/*+!(){}[]%$?#@:=,. \n\tab1é😀") | st.characters(codec="utf-8"), max_size=40)


def _usable(text: str) -> bool:
    """Text that a query may hold; the parser refuses the rest, wherever it stands."""
    control = any((ord(c) < 32 and c not in "\t\n\r") or 0x7F <= ord(c) < 0xA0 for c in text)
    return not control and not any(sign in text for sign in ("/*!", "/*+", "--+"))


def _one_constant(sql: str, value: str) -> None:
    tree = parse(sql).tree
    (found,) = [node for node in tree.find_all(exp.Literal) if node.is_string]
    assert found.this == value
    assert {node.name for node in tree.find_all(exp.Column)} == {"note"}
    assert [where.this.key for where in tree.find_all(exp.Where)] == ["eq"]


@given(value=HOSTILE)
@settings(max_examples=150, deadline=None)
def test_a_text_stays_one_constant(value: str) -> None:
    if not _usable(value):
        with pytest.raises((InputError, Refusal)):
            parse(f"SELECT COUNT(*) FROM visits WHERE note = {constant_text(value)}")
        return
    _one_constant(f"SELECT COUNT(*) FROM visits WHERE note = {constant_text(value)}", value)


@pytest.mark.parametrize("value", HOSTILE_TEXTS)
def test_a_text_of_an_expression_stays_one_constant(value: str) -> None:
    _one_constant(query_text(VISITS.select("note").filter(_.note == value).count()), value)
    _one_constant(query_text(exp.select("COUNT(*)").from_("visits").where(exp.column("note").eq(value))), value)


@given(name=HOSTILE)
@settings(max_examples=150, deadline=None)
def test_a_name_stays_one_name(name: str) -> None:
    if not name or not _usable(name):
        with pytest.raises((InputError, Refusal)):
            parse(f"SELECT {name_text(name)}, COUNT(*) FROM visits GROUP BY 1")
        return
    quoted = name_text(name)
    tree = parse(f"SELECT {quoted}, COUNT(*) AS {quoted} FROM {quoted} GROUP BY {quoted}").tree
    assert [node.name for node in tree.find_all(exp.Table)] == [name]
    assert {node.name for node in tree.find_all(exp.Column)} == {name}
    assert tree.args.get("where") is None
    assert tree.args.get("joins") in (None, [])


@given(
    number=st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
)
@settings(max_examples=60, deadline=None)
def test_a_number_stays_one_number(number: Any) -> None:
    text = constant_text(number)
    if len(text) > 60:
        return  # longer than any number that a query may hold
    (found,) = list(parse(f"SELECT 1 + ({text}) FROM visits").tree.find_all(exp.Literal))[1:]
    value = Fraction(("-" if isinstance(found.parent, exp.Neg) else "") + found.this)
    assert value == (Fraction(repr(number)) if isinstance(number, float) else Fraction(number))


@pytest.mark.parametrize("name", ["", "x" * 64, "a\x00b", 3])
def test_what_is_no_name(name: Any) -> None:
    with pytest.raises(InputError):
        name_text(name)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), b"x", "a\ud800", object()]
)
def test_what_is_no_constant(value: Any) -> None:
    with pytest.raises(InputError):
        constant_text(value)
