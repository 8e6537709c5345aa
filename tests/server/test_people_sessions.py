"""Sessions: what opens them, how long they last, and what ends them."""

from __future__ import annotations

import pytest

from support.crowds import Crowd, add, rows_of
from tacit.core.errors import AccessError, InputError
from tacit.ledger import BusyError
from tacit.server.identity import Identity, Opened, People, Role, TokenScope

ALICE = Identity("house", "https://id.example.org alice-1", "alice", Role.ANALYST, None)


def by_link(people: People, name: str = "alice") -> Opened:
    opened = people.follow(people.link(name, operator="olga"))
    assert opened is not None
    return opened


def with_alice(crowd: Crowd) -> People:
    add(crowd.people, "alice")
    return crowd.people


def test_in_and_out(crowd: Crowd) -> None:
    people = with_alice(crowd)
    first, second = by_link(people), by_link(people, "ALICE")
    assert first.text != second.text
    assert first.access.csrf != second.access.csrf
    other = crowd.again()
    assert other.session(first.text) == first.access
    assert first.access.person == people.person("alice")
    assert (first.access.kind, first.access.scopes) == ("session", {TokenScope.ASK})
    assert [each.id for each in other.sessions("Alice")] == [first.access.id, second.access.id]
    people.sign_out(first.text)
    assert other.session(first.text) is None
    assert other.session(second.text) == second.access
    people.add("alice", Role.OWNER, operator="olga")
    renamed = other.session(second.text)
    assert renamed is not None
    assert renamed.has(TokenScope.ADMIN)


def test_they_begin_and_end_in_the_chain(crowd: Crowd) -> None:
    people = with_alice(crowd)
    first, second, third = by_link(people), by_link(people), by_link(people)
    people.sign_out(first.text)
    people.end_session(second.access.id, operator="olga")
    for _ in range(2):
        people.sign_out(first.text)
        with pytest.raises(InputError, match="has ended already"):
            people.end_session(second.access.id, operator="olga")
    opened = [fields for _, fields in crowd.ledger.notes("session opened")]
    assert opened == [{"analyst": "alice", "session": each.access.id, "by": "link"} for each in (first, second, third)]
    ended = [fields for _, fields in crowd.ledger.notes("session ended")]
    assert [(each["session"], each["operator"]) for each in ended] == [
        (first.access.id, "alice"), (second.access.id, "olga"),
    ]  # fmt: skip
    assert people.session(third.text) is not None


@pytest.mark.parametrize(("idle", "longest", "provider"), [(30, 12 * 60, True), (7 * 1440, 30 * 1440, False)])
def test_how_long_one_lasts(crowd: Crowd, idle: int, longest: int, provider: bool) -> None:
    """In minutes; a provider lets its people in again by a click, a link takes an owner."""
    people = crowd.people
    if not provider:
        add(people, "alice")
    opened, left = (people.enter(ALICE) if provider else by_link(people) for _ in range(2))
    for _ in range(longest // (idle - 1)):
        crowd.watch.wait(minutes=idle - 1)
        assert people.session(opened.text) is not None
    assert people.session(left.text) is None
    assert [each.id for each in people.sessions("alice")] == [opened.access.id]
    crowd.watch.wait(minutes=idle - 1)
    assert people.session(opened.text) is None
    assert people.sessions("alice") == ()
    again = people.enter(ALICE) if provider else by_link(people)
    assert len(rows_of(people)["sessions"]) == 1
    crowd.watch.wait(minutes=idle)
    assert people.session(again.text) is None


def test_visits_are_written_down_once_a_minute_and_not_waited_for(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = with_alice(crowd)
    opened = by_link(people)
    crowd.watch.wait(seconds=59)

    def busy(*_: object) -> None:
        raise BusyError("a moment")

    before = rows_of(people)["sessions"]
    people.session(opened.text)
    assert rows_of(people)["sessions"] == before
    monkeypatch.setattr(type(people.tables), "write", busy)
    crowd.watch.wait(seconds=10)
    assert people.session(opened.text) is not None
    assert rows_of(people)["sessions"] == before


def test_who_is_revoked_is_out(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = by_link(people)
    crowd.again().revoke("alice", operator="olga")
    assert people.session(opened.text) is None
    add(people, "alice")
    assert people.session(opened.text) is None
    assert people.sessions("alice") == ()
    assert people.session(by_link(people).text) is not None


def test_revoked_behind_the_tables_back(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = by_link(people)
    crowd.ledger.revoke_analyst("alice", operator="olga")
    assert people.session(opened.text) is None
    add(people, "alice")
    assert people.session(opened.text) is None


def test_revoked_while_a_session_is_opened(crowd: Crowd) -> None:
    people, other = with_alice(crowd), crowd.again()
    link, born = people.link("alice", operator="olga"), type(people).born

    def meanwhile(*args: object, **fields: object) -> int:
        other.revoke("alice", operator="olga")
        return born(*args, **fields)  # type: ignore[arg-type]

    type(people).born = meanwhile  # type: ignore[assignment,method-assign]
    try:
        with pytest.raises(InputError, match="was revoked"):
            people.follow(link)
    finally:
        type(people).born = born  # type: ignore[method-assign]
    assert rows_of(people)["sessions"] == []


# People of a provider.


def named(**words: object) -> Identity:
    fields = {"provider": "house", "key": ALICE.key, "name": "alice", "role": Role.ANALYST, "populations": None}
    return Identity(**{**fields, **words})  # type: ignore[arg-type]


def test_role_and_populations_follow_the_provider_at_each_sign_in(crowd: Crowd) -> None:
    people = crowd.people
    first = people.enter(named())
    assert first.access.person.identity == ALICE.key
    assert people.enter(named(name="another name")).access.person.name == "alice", "who they are is issuer and subject"
    some = people.enter(named(role=Role.AUDITOR, populations=frozenset({"staff"})))
    assert (some.access.person.role, some.access.person.populations) == (Role.AUDITOR, frozenset({"staff"}))
    seen = people.session(first.text)
    assert seen is not None
    assert seen.scopes == {TokenScope.AUDIT}, "in sessions from before as well"
    changes = len(list(crowd.ledger.notes()))
    people.enter(named(role=Role.AUDITOR, populations=frozenset({"staff"})))
    assert len(list(crowd.ledger.notes())) == changes + 1, "no entry but that of the session"
    people.add("alice", Role.OWNER, operator="olga")
    assert people.enter(named()).access.person.role is Role.ANALYST


def test_who_is_in_no_group_any_more_loses_everything(crowd: Crowd) -> None:
    people = crowd.people
    opened = people.enter(named())
    token = people.issue("alice", expires=None, operator="olga").text
    with pytest.raises(AccessError, match="in no group that may enter"):
        people.enter(named(role=None))
    assert people.session(opened.text) is None
    assert people.authenticate(token) is None
    with pytest.raises(AccessError, match="was revoked"):
        people.enter(named())
    people.add("alice", operator="olga")
    assert people.enter(named()).access.person.identity == ALICE.key
    with pytest.raises(AccessError, match="in no group that may enter"):
        people.enter(named(role=None, key="https://id.example.org stranger"))
    assert [each.name for each in people.everyone()] == ["alice"]


def test_a_name_is_not_an_identity(crowd: Crowd) -> None:
    """Of two providers with the same subject, and of people registered here: nobody becomes another by a name."""
    people = crowd.people
    people.add("olga", Role.OWNER, operator="set-up")
    people.enter(named())
    for stranger in (
        named(provider="other", key="https://other.example.org alice-1"),
        named(provider="other", key="https://other.example.org alice-1", name="ALICE"),
        named(key="https://id.example.org alice-2"),
        named(key="https://id.example.org alice-2", name="olga"),
    ):
        with pytest.raises(AccessError, match="is that of another person here"):
            crowd.again().enter(stranger)
    assert [each.name for each in people.everyone()] == ["alice", "olga"]
    with pytest.raises(InputError, match="name"):
        people.enter(named(key="https://id.example.org alice-3", name="a\nb"))


def test_of_two_who_claim_a_name_at_once_one_has_it(crowd: Crowd) -> None:
    people, other, add_analyst = crowd.people, crowd.again(), crowd.ledger.add_analyst
    crowd.ledger.add_analyst = lambda *a, **w: (refused.append(claims()), add_analyst(*a, **w))  # type: ignore[func-returns-value]
    refused: list[bool] = []

    def claims() -> bool:
        with pytest.raises(AccessError, match="another person"):
            other.enter(named(key="https://id.example.org alice-2"))
        return True

    assert people.enter(named()).access.person.identity == ALICE.key
    assert refused == [True]


def test_a_sign_in_under_way_is_used_once_at_its_provider_and_in_time(crowd: Crowd) -> None:
    entries = crowd.people.entries
    first, second, late = (entries.begin("house", "/console/ask") for _ in range(3))
    assert len({each.derived(what) for each in (first, second) for what in ("state", "nonce", "pkce")}) == 6
    assert entries.has_state(first.text, first.derived("state"))
    for text, state in ((first.text, second.derived("state")), (first.text, ""), ("", first.derived("state"))):
        assert not entries.has_state(text, state)
    assert entries.take("other", first.text) is None
    assert crowd.again().entries.take("house", first.text) == (first, "/console/ask")
    assert entries.take("house", first.text) is None
    crowd.watch.wait(minutes=10)
    assert entries.take("house", late.text) is None


def test_sign_ins_under_way_are_a_bounded_number(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.identity.credentials._MOST_ENTRIES", 3)
    made = []
    for _ in range(5):
        made.append(crowd.people.entries.begin("house", ""))
        crowd.watch.wait(seconds=1)
    assert len(rows_of(crowd.people)["entries"]) == 3
    assert crowd.people.entries.take("house", made[0].text) is None
    assert crowd.people.entries.take("house", made[4].text) is not None
