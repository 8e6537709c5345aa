"""Equal charges in verification: one form of each entry is accepted, and a remembered price hides no damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.ledgers import asking
from tacit.accounting.filters import PureFilter
from tacit.ledger import Ledger, Reservation
from tacit.ledger.entries import canonical, effects_of, parse, step_of
from tacit.ledger.memory import MemoryAnchor, MemoryStore
from tacit.ledger.protocol import Step
from tacit.ledger.verify import verify

WORDS = st.text(st.sampled_from('ab ",:{}\\\n\t/é\x7f\x00\u2028'), max_size=6)
QUOTES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(WORDS | st.just("repeat"), inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def charges(draw: st.DrawFn) -> dict[str, Any]:
    words = {name: draw(WORDS) for name in ("analyst", "key", "plan", "population", "project", "repeat", "request")}
    return {
        "kind": "reserve",
        "amounts": draw(st.dictionaries(st.sampled_from(["epsilon", "delta"]), st.just("1/10"))),
        "event": {"kind": "PureEvent", "epsilon": "1/10", **draw(st.dictionaries(st.just("key"), WORDS))},
        "quote": draw(st.dictionaries(st.sampled_from(["repeat", "request", "x"]), QUOTES)),
        "sql": draw(WORDS),
        "time": draw(WORDS),
        **words,
    }


def agrees(text: str) -> bool:
    """Whether verification takes a text for an entry; then it must be that entry, in its one form."""
    try:
        body, effects = parse(text)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    assert body == json.loads(text)
    assert canonical(body) == text
    assert effects == effects_of(json.loads(text))
    return True


@given(body=charges())
def test_an_entry_is_read_as_it_was_written(body: dict[str, Any]) -> None:
    assert agrees(canonical(body))


#: A quote that holds what comes after a quote.
TRICK = {
    "kind": "reserve", "amounts": {}, "analyst": "", "event": {"key": "", "kind": "reserve"}, "key": "", "plan": "",
    "population": "", "project": "", "quote": {"a": {}, "repeat": "", "request": "", "sql": "", "time": ""},
    "repeat": "", "request": "", "sql": "", "time": "",
}  # fmt: skip


@given(body=charges(), at=st.integers(0, 400), gone=st.integers(0, 3), put=st.text('",:{}\\ abnu0\n', max_size=3))
@example(TRICK, 0, 0, "")
@example(TRICK, 58, 1, "")
def test_no_damaged_text_is_taken_for_another_entry(body: dict[str, Any], at: int, gone: int, put: str) -> None:
    text = canonical(body)
    agrees(text[:at] + put + text[at + gone :])


def test_ordinary_charges_and_outcomes_are_read() -> None:
    store = MemoryStore()
    ledger = Ledger.on(store, MemoryAnchor())
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    made = ledger.reserve(asking("0.1", analyst="ana", sql='SELECT "a\\b"\n\tFROM t', quote={"rows": [1, {"b": "2"}]}))
    assert isinstance(made, Reservation)
    ledger.commit(made, b"7")
    signed = ledger.reserve(asking("0.1"))
    assert isinstance(signed, Reservation)
    ledger.commit(signed, b"8", receipt=b"r", key="ed25519:" + "ab" * 32)
    assert [parse(entry.body)[0]["kind"] for entry in store.entries(after=2)] == ["reserve", "commit"] * 2
    assert all(agrees(entry.body) for entry in store.entries())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"quote":{}', '"quote":{ }'),
        ('"quote":{}', '"quote":{"b":1,"a":2}'),
        ('"quote":{}', '"quote":{"a":1.5}'),
        ('"quote":{}', '"quote":{},"quote":{}'),
        ('"kind":"reserve"', '"kind":"reserve","kind":"reserve"'),
        ('"sql":"SELECT', '"sql":"\\u0053ELECT'),
        ('"sql":"SELECT', '"sql":"\\/SELECT'),
        ('"sql":"SELECT', '"sql":"\x7fSELECT'),
        ('"epsilon":"1/10"}', '"epsilon":"1/10" }'),
    ],
)
def test_a_text_that_is_not_canonical_is_found_among_equal_charges(old: str, new: str) -> None:
    store = charged(3)
    entry = store.entry(4)
    assert entry is not None
    assert old in entry.body
    step = Step(entry.body.replace(old, new, 1), moves=step_of(json.loads(entry.body)).moves)
    store.append(step)
    assert any(words.startswith("entry 6 cannot be understood") for words in verify(store).problems)


def charged(count: int) -> MemoryStore:
    """A store with equal charges of one analyst."""
    store = MemoryStore()
    ledger = Ledger.on(store, MemoryAnchor())
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    for number in range(count):
        ledger.reserve(asking("0.1", analyst="ana", sql=f"SELECT {number}"))
    return store


def cheaper(body: dict[str, Any]) -> None:
    body["amounts"] = {"epsilon": "1/20"}


def dearer(body: dict[str, Any]) -> None:
    body["amounts"] = {"epsilon": "1/5"}


def another_event(body: dict[str, Any]) -> None:
    body["event"]["event"]["epsilon"] = "1/5"


def nothing_at_all(body: dict[str, Any]) -> None:
    body["amounts"] = {}


@pytest.mark.parametrize("lie", [cheaper, dearer, another_event, nothing_at_all])
def test_equal_events_with_other_amounts_are_found(lie: Callable[[dict[str, Any]], None]) -> None:
    """After the event, and the amounts, were read in true entries; and before and after they were."""
    store = charged(3)
    entry = store.entry(4)
    assert entry is not None
    body = json.loads(entry.body)
    lie(body)
    store.append(step_of(body))
    store.append(step_of(json.loads(entry.body)))
    store.append(step_of(body))
    found = verify(store).problems
    assert len(found) == 2
    assert found[0].startswith("entry 6 charges")
    assert found[1].startswith("entry 8 charges")


def test_a_charge_that_is_not_in_the_pocket_is_found_among_equal_ones() -> None:
    store = charged(3)
    entry = store.entry(4)
    assert entry is not None
    store.append(Step(entry.body))
    assert [words.split(": ")[0] for words in verify(store).problems] == [
        "epsilon of patients",
        "epsilon of patients for analyst ana",
    ]


def test_equal_charges_over_the_cap_are_found() -> None:
    store = charged(10)
    entry = store.entry(4)
    assert entry is not None
    step = step_of(json.loads(entry.body))
    for pocket, level in store._balances.items():
        store._balances[pocket] = level._replace(cap=None)
    store.append(step)
    assert "entry 13 exceeds the cap of epsilon of patients" in verify(store).problems


def test_an_equal_charge_after_a_revocation_is_found() -> None:
    store = charged(2)
    entry = store.entry(4)
    assert entry is not None
    ledger = Ledger.on(store, anchored(store))
    ledger.revoke_analyst("ana")
    store.append(step_of(json.loads(entry.body))._replace(bars=()))
    assert verify(store).problems == ("entry 6 was made although ana had been revoked",)


def test_an_equal_charge_of_another_account_has_another_price() -> None:
    """Terms are part of a price: what is known of one account says nothing about another."""
    store = charged(2)
    entry = store.entry(4)
    assert entry is not None
    body = {**json.loads(entry.body), "population": "staff"}
    store.append(step_of(body)._replace(moves=()))
    assert any(words.startswith("entry 5 cannot be understood") for words in verify(store).problems)


def anchored(store: MemoryStore) -> MemoryAnchor:
    """An anchor that knows a store."""
    anchor, first = MemoryAnchor(), store.entry(1)
    assert first is not None
    anchor.replace(json.loads(first.body)["ledger"], store.head())
    return anchor
