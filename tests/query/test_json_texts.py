"""Members of JSON in texts: what Python's reader finds, or NULL where the rule says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.corpus.clinic import CATALOG
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Literal, literal
from tacit.query.resolve import resolve_any
from tacit.query.resolve.sql_functions import keys_of_path, member
from tacit.query.types import TEXT

KEYS = ("a", "b", "a b", "é")
TEXTS = st.text("ab:,{}[]\"\\ \n'é", max_size=6)
NUMBERS = st.integers(-(10**12), 10**12) | st.sampled_from([0.5, -2.25, 1e30])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
NESTED = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(KEYS), part, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), NESTED, max_size=4)
FORMS: list[dict[str, Any]] = [
    {}, {"separators": (",", ":")}, {"indent": 2}, {"separators": (" , ", " : ")}, {"ensure_ascii": False}
]  # fmt: skip


def read(text: str, *keys: str) -> str | None:
    found = member(literal(text, TEXT), list(keys))
    assert isinstance(found, Literal)
    assert found.value is None or isinstance(found.value, str)
    return found.value


def shown(value: object) -> str | None:
    """How a member is given where it is."""
    if value is None or isinstance(value, (dict, list)):
        return None
    return value if isinstance(value, str) else json.dumps(value)


@given(OBJECTS, st.sampled_from(KEYS[:3]), st.sampled_from(FORMS))
@settings(max_examples=300)
def test_a_member_is_what_a_reader_finds_or_null(made: dict[str, Any], key: str, form: dict[str, Any]) -> None:
    assert read(json.dumps(made, **form), key) in (shown(made.get(key)), None)


@given(st.dictionaries(st.sampled_from(KEYS[:3]), OBJECTS, max_size=3), st.sampled_from(FORMS))
@settings(max_examples=300)
def test_a_path_is_followed(made: dict[str, Any], form: dict[str, Any]) -> None:
    assert read(json.dumps(made, **form), "a", "b") in (shown(made.get("a", {}).get("b")), None)


@pytest.mark.parametrize("form", FORMS)
def test_ordinary_texts_are_read(form: dict[str, Any]) -> None:
    made = {
        "plan": "pro", "seats": 12, "price": -3.5, "paid": True, "off": None, "tags": ["x", "plan"],
        "more": {"os": "ios, 17", "deep": {"k": [1, 2]}}, "n": 1e-7, "name": 'a "b"', "last": "},:",
    }  # fmt: skip
    text = json.dumps(made, **form)
    found = {key: read(text, key) for key in made}
    assert found == {key: None if key == "name" else shown(value) for key, value in made.items()}
    assert read(text, "more", "os") == "ios, 17"
    assert read(text, "nothing") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("null", None), ("[1]", None), ('"a":1', None), ('{"a":1', None), ('{"a":1,', "1"),
        ("{'a':1}", None), ('{"b":"\\"a\\":2","a":1}', "1"), ('{"a":1,"a":2}', "1"), ('{"b":{"a":2},"a":1}', None),
        ('{"a":{"b":1}}', None),
        ('{"x\\"a":1}', None), ('{"a":"\\u0041"}', None), ('{"a":NaN}', None), ('{"a":01}', "01"), ('{"a": ""}', ""),
    ],
)  # fmt: skip
def test_odd_texts(text: str, value: str | None) -> None:
    assert read(text, "a") == value


def test_paths() -> None:
    assert keys_of_path("$.a.b") == ["a", "b"] == keys_of_path("a.b")
    assert keys_of_path('$."a b".c') == ["a b", "c"]
    assert keys_of_path("$.a[0]") == keys_of_path("$") == keys_of_path("$..a") == keys_of_path("$.*") == []


def test_spellings_are_one_query() -> None:
    base = resolve_any("SELECT COUNT(*) FROM visits WHERE json_extract_string(note, '$.a.b') = 'x'", CATALOG)
    for spelled in (
        "note -> 'a' ->> 'b' = 'x'",
        "note::JSON -> 'a' ->> 'b' = 'x'",
        "note ->> '$.a.b' = 'x'",
        "JSON_VALUE(note, '$.a.b') = 'x'",
        "JSON_EXTRACT_PATH_TEXT(note, 'a', 'b') = 'x'",
    ):
        assert resolve_any(f"SELECT COUNT(*) FROM visits WHERE {spelled}", CATALOG).digest == base.digest, spelled


@pytest.mark.parametrize(
    "condition", ["note ->> 0 = 'x'", "note -> 'a' = 'x'", "JSON_VALUE(note, '$.a[0]') = 'x'", "cost ->> 'a' = 'x'"]
)
def test_what_is_not_read_is_refused(condition: str) -> None:
    with pytest.raises(Refusal):
        resolve_any(f"SELECT COUNT(*) FROM visits WHERE {condition}", CATALOG)
