"""Roles, populations and names of people, all of it read from the chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.crowds import Crowd, add, token
from support.ledgers import asking
from tacit.core.errors import AccessError, InputError
from tacit.ledger import Ledger
from tacit.server.identity import People, Person, Role, TokenScope


def test_what_each_role_may_do(crowd: Crowd) -> None:
    people = crowd.people
    may = {role: people.add(f"the {role}", role, operator="olga").scopes for role in Role}
    assert may == {
        Role.OWNER: {TokenScope.ASK, TokenScope.AUDIT, TokenScope.ADMIN},
        Role.ANALYST: {TokenScope.ASK},
        Role.AUDITOR: {TokenScope.AUDIT},
    }
    assert [person.role for person in people.everyone()] == [Role.ANALYST, Role.AUDITOR, Role.OWNER]


def test_a_person_is_read_from_the_chain(crowd: Crowd) -> None:
    crowd.people.add("Alice", Role.AUDITOR, populations=["STAFF", "patients"], operator="olga")
    (analyst,) = crowd.ledger.analysts()
    assert analyst.name == "alice"
    assert analyst.details == {"role": "auditor", "populations": ["patients", "staff"]}
    expected = Person("alice", Role.AUDITOR, True, frozenset({"patients", "staff"}))
    assert crowd.people.person("alice") == crowd.again().person("ALICE") == expected
    assert crowd.ledger.verify().ok


def test_an_owner_sees_everything(crowd: Crowd) -> None:
    """An owner could give any person access to anything, so that a limit would only look like one."""
    with pytest.raises(InputError, match="an owner sees everything"):
        crowd.people.add("alice", Role.OWNER, populations=["patients"], operator="olga")
    assert crowd.people.person("alice") is None


def test_a_change_is_seen_at_once_everywhere(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    other = crowd.again()
    assert other.person("alice") == Person("alice", Role.ANALYST, True, None)
    crowd.people.add("alice", Role.AUDITOR, populations=[], operator="olga")
    assert other.person("alice") == Person("alice", Role.AUDITOR, True, frozenset())
    crowd.people.revoke("alice", operator="olga", reason="left")
    seen = other.person("alice")
    assert seen is not None
    assert not seen.active
    assert seen.scopes == frozenset()
    with pytest.raises(AccessError):
        crowd.ledger.reserve(asking(analyst="alice"))


def test_names_that_look_the_same_and_names_that_are(crowd: Crowd) -> None:
    add(crowd.people, "zoë")
    for same in ("ZOË", "zoe\u0308", "\uff5a\uff4f\u00eb", "  zoë "):
        assert crowd.people.person(same) is not None
    for other in ("zoe", "z\u043eë", "zoë\u200b", "zo ë"):
        assert crowd.people.person(other) is None


HOSTILE: list[Any] = [
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "a\nb",
    "x" * 201,
    "x" * 1_000_000,
    " " * 10**6 + "a",
    None,
    7,
    b"a",
]


def test_what_cannot_be_a_name(crowd: Crowd) -> None:
    people = crowd.people
    for name in HOSTILE:
        assert people.person(name) is None
        assert people.sessions(name) == ()
        for refused in (
            lambda name: people.add(name, operator="olga"),
            lambda name: people.revoke(name, operator="olga"),
            lambda name: people.issue(name, expires=None, operator="olga"),
            lambda name: people.link(name, operator="olga"),
        ):
            with pytest.raises(InputError):
                refused(name)
    assert people.everyone() == ()


def test_what_cannot_be_said_about_a_person(crowd: Crowd) -> None:
    for role in ("king", "", None, 1):
        with pytest.raises(InputError, match="role"):
            crowd.people.add("alice", role, operator="olga")  # type: ignore[arg-type]
    for populations in (["cats"], ["patients", "cats"], ["\0"], "patients"):
        with pytest.raises(InputError, match="populations"):
            crowd.people.add("alice", populations=populations, operator="olga")
    assert crowd.people.person("alice") is None


def test_details_that_others_wrote(crowd: Crowd) -> None:
    written: list[tuple[dict[str, Any], Role, frozenset[str] | None]] = [
        ({}, Role.ANALYST, None),
        ({"role": "king", "team": "x"}, Role.ANALYST, None),
        ({"role": ["owner"]}, Role.ANALYST, None),
        ({"role": "owner"}, Role.OWNER, None),
        ({"populations": "patients"}, Role.ANALYST, frozenset()),
        ({"populations": ["patients", 3]}, Role.ANALYST, frozenset({"patients"})),
        ({"populations": {"patients": True}}, Role.ANALYST, frozenset()),
    ]
    for details, role, populations in written:
        crowd.ledger.add_analyst("alice", details)
        assert crowd.people.person("alice") == Person("alice", role, True, populations)


def test_revoking_an_unknown_person(crowd: Crowd) -> None:
    with pytest.raises(InputError, match="no person is registered"):
        crowd.people.revoke("alice", operator="olga")
    add(crowd.people, "alice")
    crowd.people.revoke("alice", operator="olga")
    crowd.people.revoke("alice", operator="olga")
    for refused in (
        lambda: crowd.people.issue("alice", expires=None, operator="olga"),
        lambda: crowd.people.link("alice", operator="olga"),
    ):
        with pytest.raises(InputError, match="was revoked"):
            refused()


def test_the_place_must_be_the_ledgers(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.ledger") as one, Ledger.open(tmp_path / "b.ledger"):
        for elsewhere in (":memory:", str(tmp_path / "b.ledger")):
            with pytest.raises(InputError, match="is not where the ledger is kept"):
                People.open(one, elsewhere)
    with Ledger.open(":memory:") as memory, pytest.raises(InputError):
        People.open(memory, str(tmp_path / "a.ledger"))


def test_people_of_one_ledger_in_memory_are_shared_and_of_two_are_not() -> None:
    with Ledger.open(":memory:") as one, Ledger.open(":memory:") as two:
        first, second, third = (People.open(ledger, ":memory:") for ledger in (one, one, two))
        add(first, "alice")
        text = token(first, "alice")
        first.close()
        assert second.authenticate(text) is not None
        assert third.authenticate(text) is None
