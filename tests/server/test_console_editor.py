"""The editor's words."""

from __future__ import annotations

import json
from fractions import Fraction

from support.served import CATALOG, Served
from tacit.curator.curator import TableInfo
from tacit.query.catalog import Column, Table
from tacit.query.parsing.parse import is_bare_name
from tacit.query.resolve import is_accepted
from tacit.query.types import DATE, TEXT
from tacit.server.console.tables import editor_words, typed_constant, typed_name


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
