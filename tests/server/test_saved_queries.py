"""Saved queries: kept in every kind of database, and seen by those who may."""

from __future__ import annotations

import pytest

from support.crowds import Crowd
from tacit.core.errors import InputError
from tacit.server.identity import Person, Role

SQL = "SELECT COUNT(*) AS n FROM visits"
OPTIONS = {"pay": "epsilon", "amount": "0.5"}


def _people(crowd: Crowd) -> tuple[Person, Person, Person]:
    alice = crowd.people.add("alice", operator="test")
    bob = crowd.people.add("bob", populations=["patients"], operator="test")
    dan = crowd.people.add("dan", Role.ANALYST, populations=["staff"], operator="test")
    return alice, bob, dan


def test_a_query_is_kept_shared_and_deleted(crowd: Crowd) -> None:
    alice, bob, dan = _people(crowd)
    kept = crowd.people.queries
    before = crowd.ledger.head
    saved = kept.save(alice, "How many", SQL, OPTIONS, populations=["Patients"], shared=False)
    assert kept.find(saved.id, alice) == saved
    other = crowd.again().queries
    assert other.seen(alice) == (saved,), "another process sees it"
    assert other.seen(bob) == ()
    assert other.find(saved.id, bob) is None
    assert not other.share(saved.id, bob, ["patients"]), "it is not theirs"
    assert not other.delete(saved.id, bob)
    assert kept.share(saved.id, alice, ["patients"])
    assert [each.title for each in other.seen(bob)] == ["How many"]
    assert other.find(saved.id, bob) is not None
    assert other.seen(dan) == (), "it is about people whom they may not see"
    assert other.find(saved.id, dan) is None
    assert not other.delete(saved.id, bob), "seeing is not owning"
    assert kept.share(saved.id, alice, None)
    assert other.find(saved.id, bob) is None
    assert kept.delete(saved.id, alice)
    assert not kept.delete(saved.id, alice)
    assert crowd.ledger.head == before, "the ledger does not know of it"


def test_queries_survive_a_restart(lasting: Crowd) -> None:
    alice, bob, _ = _people(lasting)
    lasting.people.queries.save(alice, "one", SQL, OPTIONS, populations=["patients"], shared=True)
    lasting.restart()
    (found,) = lasting.people.queries.seen(bob)
    assert (found.title, found.sql, dict(found.options), found.shared) == ("one", SQL, OPTIONS, True)
    assert found.populations == {"patients"}


def test_what_cannot_be_kept_is_refused(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, _ = _people(crowd)
    kept = crowd.people.queries
    for title, sql in (("", SQL), ("x" * 121, SQL), ("a\nb", SQL), ("t", " "), ("t", "x" * 20_001), ("t", "a\0b")):
        with pytest.raises(InputError):
            kept.save(alice, title, sql, OPTIONS, populations=(), shared=False)
    monkeypatch.setattr("tacit.server.identity.stored_queries._MOST", 2)
    for title in ("one", "two"):
        kept.save(alice, title, SQL, OPTIONS, populations=(), shared=False)
    with pytest.raises(InputError, match="delete one first"):
        kept.save(alice, "three", SQL, OPTIONS, populations=(), shared=False)
    kept.save(bob, "one", SQL, OPTIONS, populations=(), shared=False)
    assert {each.title for each in kept.seen(alice)} == {"one", "two"}
