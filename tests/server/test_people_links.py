"""Links that work once: the first owner, and everyone where there is no provider."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.crowds import Crowd, add
from tacit.core.errors import InputError
from tacit.server.identity import Role, TokenScope


def test_the_first_owner(crowd: Crowd) -> None:
    people = crowd.people
    secret = people.set_up_link()
    assert secret is not None
    assert people.set_up_open(secret)
    opened = people.set_up(secret, "Olga")
    assert opened is not None
    assert (opened.access.person.name, opened.access.person.role) == ("olga", Role.OWNER)
    assert opened.access.has(TokenScope.ADMIN)
    other = crowd.again()
    assert other.session(opened.text) == opened.access
    assert other.set_up_link() is None
    assert not people.set_up_open(secret)
    assert people.set_up(secret, "eve") is None
    assert people.person("eve") is None


def test_a_set_up_ends_after_an_hour_and_with_the_next_start(crowd: Crowd) -> None:
    first, second = crowd.people.set_up_link(), crowd.again().set_up_link()
    assert first is not None
    assert second is not None
    assert crowd.people.set_up(first, "eve") is None
    crowd.watch.wait(minutes=59)
    assert crowd.people.set_up_open(second)
    crowd.watch.wait(minutes=1)
    assert not crowd.people.set_up_open(second)
    assert crowd.people.set_up(second, "eve") is None
    assert crowd.people.everyone() == ()


def test_what_was_mistyped_can_be_typed_again(crowd: Crowd) -> None:
    secret = crowd.people.set_up_link()
    assert secret is not None
    add(crowd.people, "carol")
    crowd.people.revoke("carol", operator="olga")
    for name in ("", "a\nb", "carol"):
        with pytest.raises(InputError, match="name"):
            crowd.people.set_up(secret, name)
    assert crowd.people.set_up(secret, "olga") is not None


def test_there_is_a_set_up_as_long_as_there_is_no_owner(crowd: Crowd) -> None:
    people = crowd.people
    add(people, "alice")
    secret = people.set_up_link()
    assert secret is not None
    people.add("olga", Role.OWNER, operator="the command line")
    assert people.set_up_link() is None
    assert people.set_up(secret, "eve") is None
    people.revoke("olga", operator="the command line")
    assert people.set_up_link() is not None


def test_of_two_who_set_up_at_once_one_wins(crowd: Crowd) -> None:
    secret = crowd.people.set_up_link()
    assert secret is not None
    views = [crowd.people, *(crowd.again() for _ in range(3))]
    start = threading.Barrier(len(views))

    def race(number: int) -> bool:
        start.wait()
        return views[number].set_up(secret, f"owner {number}") is not None

    with ThreadPoolExecutor(len(views)) as pool:
        won = list(pool.map(race, range(len(views))))
    assert sum(won) == 1
    assert [person.name for person in crowd.people.everyone()] == [f"owner {won.index(True)}"]


def test_a_link(crowd: Crowd) -> None:
    people = crowd.people
    add(people, "alice")
    secret = people.link("Alice", operator="olga")
    assert people.linked(secret) == people.person("alice")
    opened = crowd.again().follow(secret)
    assert opened is not None
    assert opened.access.person == people.person("alice")
    assert people.session(opened.text) == opened.access
    assert people.linked(secret) is None
    assert people.follow(secret) is None
    assert [fields["operator"] for _, fields in crowd.ledger.notes("link made")] == ["olga"]


def test_what_ends_a_link(crowd: Crowd) -> None:
    people = crowd.people
    add(people, "alice", "bob")
    first, bobs = people.link("alice", operator="olga"), people.link("bob", operator="olga")
    second = people.link("alice", operator="olga")
    assert people.follow(first) is None
    people.revoke("alice", operator="olga")
    assert people.follow(second) is None
    add(people, "alice")
    assert people.follow(second) is None
    assert people.linked(bobs) is not None
    crowd.watch.wait(days=3)
    assert people.linked(bobs) is None
    assert people.follow(bobs) is None


def test_a_link_is_taken_once(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    secret = crowd.people.link("alice", operator="olga")
    views = [crowd.people, *(crowd.again() for _ in range(3))]
    start = threading.Barrier(len(views))

    def race(number: int) -> bool:
        start.wait()
        return views[number].follow(secret) is not None

    with ThreadPoolExecutor(len(views)) as pool:
        assert sum(pool.map(race, range(len(views)))) == 1
    assert len(crowd.people.sessions("alice")) == 1


def test_a_link_that_another_person_takes_at_the_last_moment(crowd: Crowd) -> None:
    people, other = crowd.people, crowd.again()
    add(people, "alice")
    secret = people.link("alice", operator="olga")
    find, looks = people._find_link, 0

    def meanwhile(kind: str, text: object) -> str | None:
        nonlocal looks
        looks += 1
        found = find(kind, text)
        if looks == 2:
            assert other.follow(secret) is not None
        return found

    people._find_link = meanwhile  # type: ignore[method-assign]
    assert people.follow(secret) is None
    assert looks == 2


def test_one_kind_of_link_is_not_the_other(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    link, secret = crowd.people.link("alice", operator="olga"), crowd.people.set_up_link()
    assert secret is not None
    assert crowd.people.set_up(link, "alice") is None
    assert crowd.people.follow(secret) is None
    assert crowd.people.set_up(link.replace("link", "setup"), "alice") is None
    assert crowd.people.follow(link) is not None
    assert crowd.people.set_up(secret, "olga") is not None
