"""Passwords and sessions: rules, lifetimes, guessing, and that nothing tells why a person was not let in."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.crowds import GOOD, Crowd, add, rows_of
from tacit.core.errors import InputError
from tacit.ledger import BusyError
from tacit.server.identity import Hashing, People, Role, TokenScope
from tacit.server.identity.passwords import Hasher, check_password

WRONG = "incorrect horse battery"


def with_alice(crowd: Crowd) -> People:
    add(crowd.people, "alice")
    crowd.people.set_password("alice", GOOD, operator="olga")
    return crowd.people


def test_in_and_out(crowd: Crowd) -> None:
    people = with_alice(crowd)
    assert people.signs_in("Alice")
    assert not people.signs_in("bob")
    first, second = people.sign_in("ALICE", GOOD), people.sign_in("alice", GOOD)
    assert first is not None
    assert second is not None
    assert first.text != second.text
    assert first.access.csrf != second.access.csrf
    other = crowd.again()
    assert other.session(first.text) == first.access
    assert first.access.person == people.person("alice")
    assert (first.access.kind, first.access.scopes) == ("session", {TokenScope.ASK})
    people.sign_out(first.text)
    assert other.session(first.text) is None
    assert other.session(second.text) == second.access
    people.add("alice", Role.OWNER, operator="olga")
    renamed = other.session(second.text)
    assert renamed is not None
    assert renamed.has(TokenScope.ADMIN)


def test_half_an_hour_without_a_visit(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    for _ in range(5):
        crowd.watch.wait(minutes=29)
        assert people.session(opened.text) is not None
    crowd.watch.wait(minutes=30)
    assert people.session(opened.text) is None


def test_twelve_hours_in_all(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    for _ in range(12 * 60 // 20 - 1):
        crowd.watch.wait(minutes=20)
        assert people.session(opened.text) is not None
    crowd.watch.wait(minutes=20)
    assert people.session(opened.text) is None
    assert len(rows_of(people)["sessions"]) == 1
    people.sign_in("alice", GOOD)
    assert len(rows_of(people)["sessions"]) == 1


def test_visits_are_written_down_once_a_minute_and_not_waited_for(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = with_alice(crowd)
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    crowd.watch.wait(seconds=59)

    def busy(*_: object) -> None:
        raise BusyError("a moment")

    before = rows_of(people)["sessions"]
    people.session(opened.text)
    assert rows_of(people)["sessions"] == before
    monkeypatch.setattr(type(people._context.tables), "write", busy)
    crowd.watch.wait(seconds=10)
    assert people.session(opened.text) is not None
    assert rows_of(people)["sessions"] == before


def test_another_password_ends_what_the_last_one_opened(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    crowd.again().set_password("alice", "another long password", operator="alice")
    assert people.session(opened.text) is None
    assert people.sign_in("alice", GOOD) is None
    assert people.sign_in("alice", "another long password") is not None


def test_who_is_revoked_is_out_and_needs_a_new_password(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    crowd.again().revoke("alice", operator="olga")
    assert people.session(opened.text) is None
    assert people.sign_in("alice", GOOD) is None
    add(people, "alice")
    assert people.session(opened.text) is None
    assert people.sign_in("alice", GOOD) is None
    assert not people.signs_in("alice")
    people.set_password("alice", GOOD, operator="olga")
    assert people.sign_in("alice", GOOD) is not None


def test_revoked_behind_the_tables_back(crowd: Crowd) -> None:
    people = with_alice(crowd)
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    crowd.ledger.revoke_analyst("alice")
    assert people.session(opened.text) is None
    assert people.sign_in("alice", GOOD) is None
    add(people, "alice")
    assert people.session(opened.text) is None
    assert people.sign_in("alice", GOOD) is None


# Passwords ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "password",
    [
        "", "short", "123456789", "x" * 257, "x" * 10**6, "aaaaaaaaaaaa", "ababababababab", "1234567890",
        "abcdefghijkl", "9876543210", "alice12345", "Alice!!!!!!", "alicealice", "  alice     ", "\uff41lice12345",
        "\ud800" * 12, None, 1234567890123, b"correct horse", "\ufb01" * 3,
    ],
    ids=lambda password: repr(password)[:14],
)  # fmt: skip
def test_what_would_be_guessed_first(password: Any) -> None:
    with pytest.raises(InputError, match="password: ") as caught:
        check_password(password, "alice")
    if isinstance(password, str) and password.strip() and len(password) < 100:
        assert password not in str(caught.value)


@pytest.mark.parametrize(
    "password",
    [GOOD, "tr0ub4dor&3!", "ночь тиха, путь", "a b c d e f", "\0" * 3 + "lamp tree!", "😀🐎🔋📎😀🐎🔋📎🙂🙃"],
)
def test_any_signs_will_do(password: str) -> None:
    check_password(password, "alice")


def test_one_password_on_every_keyboard(crowd: Crowd) -> None:
    add(crowd.people, "zoë")
    crowd.people.set_password("zoë", "cafe\u0301 \ufb01ve \uff21\uff22\uff23", operator="olga")
    assert crowd.people.sign_in("zoe\u0308", "caf\u00e9 five ABC") is not None
    assert crowd.people.sign_in("zoë", "cafe five ABC") is None
    assert crowd.people.sign_in("zoë", "caf\u00e9 five abc") is None


def test_a_bad_password_changes_nothing(crowd: Crowd) -> None:
    people = with_alice(crowd)
    with pytest.raises(InputError):
        people.set_password("alice", "short", operator="alice")
    assert people.sign_in("alice", GOOD) is not None


def test_strange_sign_ins(crowd: Crowd) -> None:
    people = with_alice(crowd)
    strange: list[Any] = ["", "\0", "\ud800", "x" * 10**6, None, 7, b"x", "alice\0", "' OR 1=1 --", "\u0430lice"]
    for name in strange:
        assert people.sign_in(name, GOOD) is None
    for number, password in enumerate([*strange, GOOD + " ", GOOD.upper(), [GOOD]]):
        assert people.sign_in("alice", password, origin=f"10.0.0.{number}") is None
        crowd.watch.wait(minutes=2)
    assert people.sign_in("alice", GOOD, origin="\ud800" * 300) is not None


def test_hashes_are_argon2id_with_the_costs_of_today(crowd: Crowd) -> None:
    people = with_alice(crowd)
    (kept,) = [row[3] for row in rows_of(people)["persons"] if row[0] == "alice"]
    assert kept.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    dearer = crowd.again(hashing=Hashing(time_cost=2, memory_cost=16, parallelism=1))
    opened = dearer.sign_in("alice", GOOD)
    assert opened is not None
    (kept,) = [row[3] for row in rows_of(people)["persons"] if row[0] == "alice"]
    assert kept.startswith("$argon2id$v=19$m=16,t=2,p=1$")
    assert people.session(opened.text) is not None
    assert people.sign_in("alice", GOOD) is not None
    assert Hashing() == Hashing(time_cost=3, memory_cost=65536, parallelism=4, at_once=2)


def test_a_damaged_hash_fits_nothing() -> None:
    hasher = Hasher(Hashing.cheap())
    for kept in ("", "x", "$argon2id$v=19$m=8,t=1,p=1$", hasher.hash(GOOD)[:-2]):
        assert not hasher.fits(GOOD, kept)


# Guessing -------------------------------------------------------------------------------------------------------------


def test_no_reason_is_told(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown, without a password, revoked, wrong, and made to wait: one hash of the same costs, and None."""
    import argon2

    people = with_alice(crowd)
    add(people, "bob", "carol")
    people.set_password("carol", GOOD, operator="olga")
    people.revoke("carol", operator="olga")
    work: list[tuple[int, int]] = []
    for name in ("hash", "verify"):
        real = getattr(argon2.PasswordHasher, name)

        def counted(self: Any, *given: Any, _real: Any = real, **more: Any) -> Any:
            work.append((self.time_cost, self.memory_cost))
            return _real(self, *given, **more)

        monkeypatch.setattr(argon2.PasswordHasher, name, counted)
    ways = [
        ("an unknown name", GOOD),
        ("bob", GOOD),
        ("carol", GOOD),
        ("alice", WRONG),
        ("", GOOD),
        ("alice", "\ud800"),
    ]
    for name, password in [*ways, *[("alice", WRONG)] * 8, ("alice", GOOD)]:
        work.clear()
        assert people.sign_in(name, password) is None
        assert work == [(1, 8)], name


def test_guessing_becomes_slow_and_is_forgotten(crowd: Crowd) -> None:
    people = with_alice(crowd)
    for _ in range(5):
        assert people.sign_in("alice", WRONG) is None
    assert people.sign_in("alice", GOOD) is None
    crowd.watch.wait(seconds=1)
    assert people.sign_in("alice", WRONG) is None
    crowd.watch.wait(seconds=1)
    assert people.sign_in("alice", GOOD) is None
    crowd.watch.wait(seconds=1)
    assert crowd.again().sign_in("alice", GOOD) is not None
    for _ in range(5):
        people.sign_in("alice", WRONG)
    assert people.sign_in("alice", GOOD) is None
    crowd.watch.wait(minutes=15, seconds=1)
    for _ in range(4):
        people.sign_in("alice", WRONG)
    assert people.sign_in("alice", GOOD) is not None


def test_what_was_right_is_not_held_against_a_user(crowd: Crowd) -> None:
    people = with_alice(crowd)
    for _ in range(4):
        assert people.sign_in("alice", WRONG) is None
    for _ in range(12):
        assert people.sign_in("alice", GOOD) is not None
    assert people.sign_in("alice", WRONG) is None
    assert people.sign_in("alice", GOOD) is not None


def test_guesses_per_day_are_few_and_a_wait_is_short(crowd: Crowd) -> None:
    """An attacker tries every second for ten minutes; the user who comes a minute later is let in."""
    people = with_alice(crowd)
    looked_at = 0
    fits = people._sessions._hasher.fits

    def counted(password: object, kept: str | None) -> bool:
        nonlocal looked_at
        looked_at += kept is not None
        return fits(password, kept)

    people._sessions._hasher.fits = counted  # type: ignore[method-assign]
    for _ in range(600):
        people.sign_in("alice", WRONG)
        crowd.watch.wait(seconds=1)
    assert looked_at <= 5 + 6 + 10
    crowd.watch.wait(minutes=1)
    assert people.sign_in("alice", GOOD) is not None


def test_a_stranger_does_not_keep_a_person_out_of_their_usual_place(crowd: Crowd) -> None:
    people = with_alice(crowd)
    assert people.sign_in("alice", GOOD, origin="10.0.0.1") is not None
    for number in range(100):
        people.sign_in("alice", WRONG, origin=f"203.0.113.{number}")
    assert people.sign_in("alice", GOOD, origin="10.0.0.2") is None
    assert people.sign_in("alice", GOOD, origin="10.0.0.1") is not None
    for _ in range(6):
        people.sign_in("alice", WRONG, origin="10.0.0.1")
    assert people.sign_in("alice", GOOD, origin="10.0.0.1") is None
    opened = people.accept(people.invite("alice", operator="olga"), "another long password")
    assert opened is not None
    assert people.sign_in("alice", "another long password", origin="10.0.0.2") is not None
    crowd.watch.wait(days=31)
    assert people.sign_in("alice", WRONG, origin="10.0.0.1") is None
    people.sign_in("alice", "another long password", origin="10.0.0.3")
    assert len(rows_of(people)["origins"]) == 1


def test_guesses_side_by_side_count_as_well(crowd: Crowd) -> None:
    people = with_alice(crowd)
    looked_at: list[object] = []
    fits = people._sessions._hasher.fits

    def counted(password: object, kept: str | None) -> bool:
        if kept is not None:
            looked_at.append(password)
        return fits(password, kept)

    people._sessions._hasher.fits = counted  # type: ignore[method-assign]
    start = threading.Barrier(8)

    def guess(number: int) -> object:
        start.wait()
        return [people.sign_in("alice", f"{WRONG} {number} {turn}") for turn in range(3)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(guess, range(8)))
    assert len(looked_at) == 5


def test_a_clock_that_is_set_back_locks_no_user_out(crowd: Crowd) -> None:
    people = with_alice(crowd)
    for _ in range(5):
        people.sign_in("alice", WRONG)
    crowd.watch.wait(days=-3650)
    assert people.sign_in("alice", GOOD) is not None


def test_names_that_do_not_exist_fill_no_table(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.identity.sessions._LANE_DIGITS", 1)
    for number in range(40):
        crowd.people.sign_in(f"person {number}", GOOD)
    assert len(rows_of(crowd.people)["tries"]) <= 16


def test_only_so_many_hashes_at_once(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    import argon2

    people = with_alice(crowd)
    most = now = 0
    lock = threading.Lock()
    verify = argon2.PasswordHasher.verify

    def watched(self: Any, kept: str, password: str) -> bool:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        try:
            return verify(self, kept, password)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(argon2.PasswordHasher, "verify", watched)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: people.sign_in("alice", GOOD), range(24)))
    assert 1 <= most <= 2


def test_a_client_that_waits_too_long_for_a_hash_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.identity.passwords._PATIENCE", 0.01)
    hasher = Hasher(Hashing(time_cost=1, memory_cost=8, parallelism=1, at_once=1))
    with hasher._working(), pytest.raises(BusyError):
        hasher.fits(GOOD, None)
    assert not hasher.fits(GOOD, None)


def test_no_lock_is_held_while_a_hash_is_made(lasting: Crowd) -> None:
    people = with_alice(lasting)
    other = lasting.again()
    fits = people._sessions._hasher.fits

    def meanwhile(password: object, kept: str | None) -> bool:
        other.add("bob", operator="olga")
        other.withdraw(other.issue("bob", expires=None, operator="olga").id, operator="olga")
        return fits(password, kept)

    people._sessions._hasher.fits = meanwhile  # type: ignore[method-assign]
    assert people.sign_in("alice", GOOD) is not None


def test_a_password_that_changes_while_a_user_signs_in(crowd: Crowd) -> None:
    people = with_alice(crowd)
    other = crowd.again()
    fits = people._sessions._hasher.fits

    def meanwhile(password: object, kept: str | None) -> bool:
        other.set_password("alice", "another long password", operator="alice")
        return fits(password, kept)

    people._sessions._hasher.fits = meanwhile  # type: ignore[method-assign]
    opened = people.sign_in("alice", GOOD)
    assert opened is not None
    assert people.session(opened.text) is None
