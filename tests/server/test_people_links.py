"""Links that work once: the first owner, and invitations."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.crowds import GOOD, Crowd, add
from tacit.core.errors import InputError
from tacit.server.identity import Role, TokenScope


def test_the_first_owner(crowd: Crowd) -> None:
    people = crowd.people
    secret = people.set_up_secret()
    assert secret is not None
    assert people.set_up_open(secret)
    opened = people.set_up(secret, "Olga", GOOD)
    assert opened is not None
    assert (opened.access.person.name, opened.access.person.role) == ("olga", Role.OWNER)
    assert opened.access.has(TokenScope.ADMIN)
    other = crowd.again()
    assert other.session(opened.text) == opened.access
    assert other.sign_in("olga", GOOD) is not None
    assert other.set_up_secret() is None
    assert not people.set_up_open(secret)
    assert people.set_up(secret, "eve", GOOD) is None
    assert people.person("eve") is None


def test_a_set_up_ends_after_an_hour_and_with_the_next_start(crowd: Crowd) -> None:
    first = crowd.people.set_up_secret()
    second = crowd.again().set_up_secret()
    assert first is not None
    assert second is not None
    assert crowd.people.set_up(first, "eve", GOOD) is None
    crowd.watch.wait(minutes=59)
    assert crowd.people.set_up_open(second)
    crowd.watch.wait(minutes=1)
    assert not crowd.people.set_up_open(second)
    assert crowd.people.set_up(second, "eve", GOOD) is None
    assert crowd.people.everyone() == ()


def test_what_was_mistyped_can_be_typed_again(crowd: Crowd) -> None:
    secret = crowd.people.set_up_secret()
    assert secret is not None
    add(crowd.people, "carol")
    crowd.people.revoke("carol", operator="olga")
    for name, password, wrong in (
        ("", GOOD, "name"), ("a\nb", GOOD, "name"), ("carol", GOOD, "name"), ("olga", "short", "password"),
        ("olga", "olga123456", "password"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=wrong):
            crowd.people.set_up(secret, name, password)
    assert crowd.people.set_up(secret, "olga", GOOD) is not None


def test_an_owner_without_a_password_is_no_owner_yet(crowd: Crowd) -> None:
    people = crowd.people
    people.add("olga", Role.OWNER, operator="the command line")
    add(people, "alice")
    people.set_password("alice", GOOD, operator="olga")
    secret = people.set_up_secret()
    assert secret is not None
    people.set_password("olga", GOOD, operator="the command line")
    assert people.set_up_secret() is None
    assert people.set_up(secret, "eve", GOOD) is None
    people.revoke("olga", operator="the command line")
    assert people.set_up_secret() is not None


def test_of_two_who_set_up_at_once_one_wins(crowd: Crowd) -> None:
    secret = crowd.people.set_up_secret()
    assert secret is not None
    views = [crowd.people, *(crowd.again() for _ in range(3))]
    start = threading.Barrier(len(views))

    def race(number: int) -> bool:
        start.wait()
        return views[number].set_up(secret, f"owner {number}", GOOD) is not None

    with ThreadPoolExecutor(len(views)) as pool:
        won = list(pool.map(race, range(len(views))))
    assert sum(won) == 1
    assert [person.name for person in crowd.people.everyone()] == [f"owner {won.index(True)}"]


def test_an_invitation(crowd: Crowd) -> None:
    people = crowd.people
    add(people, "alice")
    secret = people.invite("Alice", operator="olga")
    assert people.invited(secret) == people.person("alice")
    with pytest.raises(InputError, match="password"):
        people.accept(secret, "alice12345")
    opened = crowd.again().accept(secret, GOOD)
    assert opened is not None
    assert opened.access.person == people.person("alice")
    assert people.session(opened.text) == opened.access
    assert people.invited(secret) is None
    assert people.accept(secret, "another long password") is None
    assert people.sign_in("alice", GOOD) is not None
    noted = [(head.seq, fields["operator"]) for head, fields in crowd.ledger.notes("invited")]
    assert [operator for _, operator in noted] == ["olga"]


def test_what_ends_an_invitation(crowd: Crowd) -> None:
    people = crowd.people
    add(people, "alice", "bob")
    first, bobs = people.invite("alice", operator="olga"), people.invite("bob", operator="olga")
    second = people.invite("alice", operator="olga")
    assert people.accept(first, GOOD) is None
    people.set_password("alice", GOOD, operator="olga")
    assert people.accept(second, GOOD) is None
    third = people.invite("alice", operator="olga")
    people.revoke("alice", operator="olga")
    assert people.accept(third, GOOD) is None
    add(people, "alice")
    assert people.accept(third, GOOD) is None
    assert people.invited(bobs) is not None
    crowd.watch.wait(days=3)
    assert people.invited(bobs) is None
    assert people.accept(bobs, GOOD) is None


def test_an_invitation_is_taken_once(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    secret = crowd.people.invite("alice", operator="olga")
    views = [crowd.people, *(crowd.again() for _ in range(3))]
    start = threading.Barrier(len(views))

    def race(number: int) -> str | None:
        start.wait()
        opened = views[number].accept(secret, f"{GOOD} {number}")
        return None if opened is None else opened.text

    with ThreadPoolExecutor(len(views)) as pool:
        texts = list(pool.map(race, range(len(views))))
    (won,) = [number for number, text in enumerate(texts) if text is not None]
    for number in range(len(views)):
        crowd.watch.wait(minutes=16)
        assert (crowd.people.sign_in("alice", f"{GOOD} {number}") is not None) == (number == won)


def test_an_invitation_that_another_person_takes_at_the_last_moment(crowd: Crowd) -> None:
    people, other = crowd.people, crowd.again()
    add(people, "alice")
    secret = people.invite("alice", operator="olga")
    find, looks = people._links.find, 0

    def meanwhile(kind: str, text: object) -> str | None:
        nonlocal looks
        looks += 1
        found = find(kind, text)
        if looks == 2:
            assert other.accept(secret, GOOD) is not None
        return found

    people._links.find = meanwhile  # type: ignore[method-assign]
    assert people.accept(secret, "another long password") is None
    assert looks == 2
    assert people.sign_in("alice", GOOD) is not None


def test_revoked_while_accepting(crowd: Crowd) -> None:
    """The password chosen meanwhile lets them in neither now nor when they are admitted again."""
    people = crowd.people
    add(people, "alice")
    secret = people.invite("alice", operator="olga")
    other = crowd.again()
    hashed = people._sessions.hashed

    def meanwhile(password: str, name: str) -> str:
        other.revoke("alice", operator="olga")
        return hashed(password, name)

    people._sessions.hashed = meanwhile  # type: ignore[method-assign]
    assert people.accept(secret, GOOD) is None
    add(people, "alice")
    assert people.sign_in("alice", GOOD) is None


def test_one_kind_of_link_is_not_the_other(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    welcome, secret = crowd.people.invite("alice", operator="olga"), crowd.people.set_up_secret()
    assert secret is not None
    assert crowd.people.set_up(welcome, "alice", GOOD) is None
    assert crowd.people.accept(secret, GOOD) is None
    assert crowd.people.set_up(welcome.replace("welcome", "setup"), "alice", GOOD) is None
    assert crowd.people.accept(welcome, GOOD) is not None
    assert crowd.people.set_up(secret, "olga", GOOD) is not None
