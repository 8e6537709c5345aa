"""The editor's words, and the places of refusals in the text."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from support.served import CATALOG, COUNT, Served
from tacit.core.errors import QueryError
from tacit.curator.curator import TableInfo
from tacit.query.catalog import Column, Table
from tacit.query.parsing.parse import is_bare_name
from tacit.query.refusal import Refusal
from tacit.query.resolve import is_accepted
from tacit.query.types import DATE, TEXT
from tacit.server.console.tables import editor_words, place_of, typed_constant, typed_name


def _refused(served: Served, sql: str) -> Refusal:
    with pytest.raises(QueryError) as found:
        served.curator.explain(sql, epsilon="1")
    assert isinstance(found.value, Refusal)
    return found.value


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT wrd, COUNT(*) FROM visits GROUP BY wrd", "wrd"),
        ("SELECT COUNT(*) -- wrd\nFROM visits WHERE 'wrd' = wrd", "wrd"),
        ("SELECT COUNT(*) FROM vists", "vists"),
        ("SELECT COUNT(*)\nFRO visits", "visits"),
        ('SELECT COUNT(*) FROM visits WHERE "Wrd" = 1', '"Wrd"'),
        ("SELECT SUM(nosuch(cost)) FROM visits", "nosuch"),
    ],
)
def test_a_refusal_is_shown_where_it_belongs(served: Served, sql: str, wrong: str) -> None:
    place = place_of(_refused(served, sql), sql)
    assert place is not None
    assert sql[slice(*place)] == wrong
    if "'wrd'" in sql:
        assert place[0] == len(sql) - 3, "neither the comment nor the text constant"


def test_a_refusal_about_the_whole_has_no_place(served: Served) -> None:
    refused = _refused(served, "SELECT * FROM visits")
    assert place_of(refused, "SELECT * FROM visits") is None
    assert place_of(Refusal("syntax", "x", at=(7, 1)), COUNT) is None
    assert place_of(Refusal("syntax", "x", at=(1, 10_000)), COUNT) is not None
    assert place_of(Refusal("unknown_column", "x", at="elsewhere"), COUNT) is None


def test_words_are_public_metadata_that_can_be_typed(served: Served) -> None:
    words = json.loads(editor_words(served.curator.tables()))
    assert list(words["tables"]) == ["visits", "staff", "wards"]
    ward = next(each for each in words["tables"]["visits"]["columns"] if each["name"] == "ward")
    assert ward == {"name": "ward", "type": "text", "keys": ["'a'", "'b'", "'c'"]}
    assert words["tables"]["wards"]["public"]
    assert {"COUNT", "AVG", "DATE_TRUNC"} <= set(words["functions"])
    for key in ward["keys"]:
        assert is_accepted(f"SELECT COUNT(*) FROM visits WHERE ward = {key}", CATALOG)


def test_the_words_of_a_person_are_of_tables_they_see(served: Served) -> None:
    seen = editor_words(served.service.tables(served.access("carol")))
    assert "staff" not in seen
    assert "salary" not in seen


def test_names_and_values_are_quoted_where_they_must_be() -> None:
    table = Table("t", (Column("order", TEXT, categories=("it's", "</script>")), Column("day", DATE)), public=True)
    words = json.loads(editor_words([TableInfo(table)]))
    first, second = words["tables"]["t"]["columns"]
    assert (first["name"], first["keys"]) == ('"order"', ["'it''s'", "'</script>'"])
    assert second["name"] == typed_name("day")
    assert is_bare_name("cost")
    assert not any(map(is_bare_name, ("", "a b", "1a", "größe", "select", 'a"b')))
    assert typed_constant(Fraction(5, 4)) == "1.25"
    assert typed_constant(Fraction(-1, 8)) == "-0.125"
    assert typed_constant(Fraction(1, 3)) == ""
    assert typed_constant("\x01") == ""
