"""Edits of a TOML text: exactly the value asked for, and every other letter stays."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import InputError
from tacit.project.project_editing import edit_toml, toml_value

FILE = '''# Mine.
[project]
name = "a # not a comment"   # aside

[tables.v]   # the visits
source = "v.csv"
note = """
[tables.v.columns]
unit = "no"
"""
unit = "?"                   # whose

[tables.v.columns]
ward = { type = "text", categories = ["a", "b"] }  # by hand
"odd name".type = "text"
[tables.v.columns.cost]
# inside
bounds = [
  0,   # least
  10,
]

[other]
x = 1
'''


def test_a_value_is_changed_and_all_else_stays() -> None:
    text = edit_toml(FILE, {("tables", "v", "unit"): "patient"})
    assert text == FILE.replace('unit = "?"                   #', 'unit = "patient"             #')


def test_parts_of_inline_tables_sections_and_new_places() -> None:
    places = {
        ("tables", "v", "columns", "ward", "categories"): ["a", "c"],
        ("tables", "v", "columns", "cost", "bounds"): [0, 5],
        ("tables", "v", "max_rows"): 3,
        ("tables", "v", "columns", "new"): {"type": "date"},
        ("populations", "people", "epsilon"): "4",
        ("tables", "v", "columns", "odd name", "type"): "integer",
        ("project", "name"): None,
        ("other",): None,
    }
    text = edit_toml(FILE, places)
    found = tomllib.loads(text)
    assert found["tables"]["v"]["columns"] == {
        "ward": {"type": "text", "categories": ["a", "c"]},
        "odd name": {"type": "integer"},
        "cost": {"bounds": [0, 5]},
        "new": {"type": "date"},
    }
    assert found["tables"]["v"]["max_rows"] == 3
    assert found["populations"] == {"people": {"epsilon": "4"}}
    assert "other" not in found
    for comment in ("# Mine.", "# the visits", "# whose", "# by hand", "# inside", 'unit = "no"'):
        assert comment in text


@pytest.mark.parametrize("text", ["[[a]]\nx = 1\n", "a = 1\na = 2\n", "a = [1\n"])
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot be edited here"):
        edit_toml(text, {("a", "x"): 2})


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
VALUES = st.one_of(st.booleans(), st.integers(-(10**9), 10**9), WORDS, st.lists(WORDS, max_size=3))
KEYS = st.sampled_from(["unit", "source", "note", "fresh", "a b", "columns"])


@settings(deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4), KEYS, VALUES)
def test_the_text_holds_what_was_asked_for(before: dict[str, Any], key: str, value: Any) -> None:
    lines = "".join(
        f"{toml_value(name)} = {toml_value(said)}  # {n}\n" for n, (name, said) in enumerate(before.items())
    )
    text = edit_toml(f"# head\n[tables.v]\n{lines}[z]\ny = 1\n", {("tables", "v", key): value})
    assert tomllib.loads(text) == {"tables": {"v": {**before, key: value}}, "z": {"y": 1}}
    assert all(f"# {n}" in text for n in range(len(before)))
