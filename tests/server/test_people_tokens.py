"""Tokens: shown once, kept as a digest, scoped, expiring, withdrawn; and everything else opens nothing."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.crowds import Crowd, add, rows_of, token
from tacit.core.errors import InputError
from tacit.ledger import BusyError, LedgerError
from tacit.server.identity import Role, TokenScope
from tacit.server.identity.credentials import Code


def test_a_token_is_its_person(crowd: Crowd) -> None:
    add(crowd.people, "alice", populations=["patients"])
    issued = crowd.people.issue("ALICE", label="notebook", expires=None, operator="olga")
    assert issued.text.startswith(f"tacit_{issued.id}_")
    for people in (crowd.people, crowd.again()):
        access = people.authenticate(issued.text)
        assert access is not None
        assert access.person == crowd.people.person("alice")
        assert (access.kind, access.id, access.csrf, access.scopes) == ("token", issued.id, "", {TokenScope.ASK})
        assert access.has(TokenScope.ASK)
        assert not access.has(TokenScope.ADMIN)


def test_the_secret_is_nowhere(crowd: Crowd, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    add(crowd.people, "alice")
    issued = crowd.people.issue("alice", expires=None, operator="olga")
    opened = crowd.people.follow(crowd.people.link("alice", operator="olga"))
    assert opened is not None
    welcome, set_up = crowd.people.link("alice", operator="olga"), crowd.people.set_up_link()
    assert set_up is not None
    access = crowd.people.authenticate(issued.text)
    texts = (issued.text, opened.text, welcome, set_up)
    secrets = [text.rsplit("_", 1)[1] for text in texts] + [opened.access.csrf]
    kept = repr([rows_of(crowd.people), crowd.ledger.analysts(), list(crowd.ledger.notes())])
    shown = repr([issued, opened, access, crowd.people.tokens(), opened.access, Code.read("tacit", issued.text)])
    assert "alice" in kept
    assert "alice" in shown
    for secret in secrets:
        for said in (kept, shown, caplog.text):
            assert secret not in said
        assert bytes.fromhex(secret).hex() not in kept if len(secret) == 64 else True


def test_scopes_are_some_of_the_persons(crowd: Crowd) -> None:
    people = crowd.people
    people.add("olga", Role.OWNER, operator="olga")
    narrow, wide = token(people, "olga", scopes=[TokenScope.ASK]), token(people, "olga")
    audit = token(people, "olga", scopes=["audit", "admin"])

    def scopes(text: str) -> frozenset[TokenScope]:
        access = people.authenticate(text)
        assert access is not None
        return access.scopes

    assert (scopes(narrow), scopes(wide)) == ({TokenScope.ASK}, frozenset(TokenScope))
    assert scopes(audit) == {TokenScope.AUDIT, TokenScope.ADMIN}
    people.add("olga", Role.ANALYST, operator="olga")
    assert (scopes(narrow), scopes(wide), scopes(audit)) == ({TokenScope.ASK}, {TokenScope.ASK}, frozenset())
    for wrong in (["audit"], [], ["king"], ["ask", "admin"]):
        with pytest.raises(InputError, match="scopes"):
            token(people, "olga", scopes=wrong)


def test_it_ends_by_itself(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    text = token(crowd.people, "alice", expires=crowd.watch() + timedelta(hours=1))
    crowd.watch.wait(minutes=59, seconds=59)
    assert crowd.people.authenticate(text) is not None
    crowd.watch.wait(seconds=1)
    assert crowd.people.authenticate(text) is None
    (info,) = crowd.people.tokens("alice")
    assert (info.alive, info.withdrawn) == (False, False)


def test_a_moment_has_a_time_zone(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    wrong: list[Any] = [datetime(2030, 1, 1), datetime.min, "tomorrow", 0]
    for expires in wrong:
        with pytest.raises(InputError, match="expires"):
            token(crowd.people, "alice", expires=expires)
    with pytest.raises(InputError, match="in the future"):
        token(crowd.people, "alice", expires=crowd.watch())
    assert crowd.people.tokens() == ()


def test_withdrawn_is_withdrawn_everywhere_and_in_the_chain(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    first, second = (crowd.people.issue("alice", expires=None, operator="olga") for _ in range(2))
    other = crowd.again()
    assert other.authenticate(first.text) is not None
    crowd.people.withdraw(first.id, operator="olga")
    for people in (crowd.people, other):
        assert people.authenticate(first.text) is None
        assert people.authenticate(second.text) is not None
    other.withdraw(first.id, operator="pete")
    noted = [fields for _, fields in crowd.ledger.notes("token withdrawn")]
    assert noted == [{"token": first.id, "analyst": "alice", "operator": "olga"}]
    assert [info.withdrawn for info in crowd.people.tokens()] == [True, False]
    for unknown in ("0" * 16, "", "\0", "x" * 10**6, "\ud800", first.text):
        with pytest.raises(InputError, match="token"):
            crowd.people.withdraw(unknown, operator="olga")


def test_a_withdrawal_that_was_interrupted_holds_and_can_be_finished(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(crowd.people, "alice")
    issued = crowd.people.issue("alice", expires=None, operator="olga")

    def busy(*_: object) -> None:
        raise BusyError("a moment")

    with monkeypatch.context() as patch:
        patch.setattr(crowd.ledger, "note", busy)
        with pytest.raises(BusyError):
            crowd.people.withdraw(issued.id, operator="olga")
        with pytest.raises(BusyError):
            crowd.people.issue("alice", expires=None, operator="olga")
    assert crowd.people.authenticate(issued.text) is None
    assert len(crowd.people.tokens()) == 1
    crowd.people.withdraw(issued.id, operator="olga")
    assert len(list(crowd.ledger.notes("token withdrawn"))) == 1


def test_who_is_revoked_has_no_tokens_also_when_admitted_again(crowd: Crowd) -> None:
    add(crowd.people, "alice", "bob")
    old, bobs = token(crowd.people, "alice"), token(crowd.people, "bob")
    other = crowd.again()
    crowd.people.revoke("alice", operator="olga")
    assert other.authenticate(old) is None
    add(crowd.people, "alice")
    assert crowd.people.authenticate(old) is None
    assert other.authenticate(bobs) is not None
    assert other.authenticate(token(crowd.people, "alice")) is not None
    assert [(info.withdrawn, info.alive) for info in other.tokens("alice")] == [(True, False), (False, True)]


def test_revoked_behind_the_tables_back(crowd: Crowd) -> None:
    """The ledger's own call, without the people; admitted again with them."""
    add(crowd.people, "alice")
    old = token(crowd.people, "alice")
    crowd.ledger.revoke_analyst("alice")
    assert crowd.people.authenticate(old) is None
    add(crowd.people, "alice")
    assert crowd.people.authenticate(old) is None


def test_a_token_that_is_issued_while_its_person_is_revoked(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    add(crowd.people, "alice")
    note = crowd.ledger.note

    def revoked_first(kind: str, fields: dict[str, Any]) -> Any:
        monkeypatch.undo()
        crowd.people.revoke("alice", operator="olga")
        return note(kind, fields)

    monkeypatch.setattr(crowd.ledger, "note", revoked_first)
    with pytest.raises(InputError, match="was revoked"):
        token(crowd.people, "alice")
    assert crowd.people.tokens() == ()

    add(crowd.people, "alice")
    write = crowd.people.tables.write

    def revoked_between(*_: object) -> Any:
        monkeypatch.undo()
        crowd.people.revoke("alice", operator="olga")
        add(crowd.people, "alice")
        return write()

    monkeypatch.setattr(type(crowd.people.tables), "write", revoked_between)
    text = token(crowd.people, "alice")
    assert crowd.people.authenticate(text) is None


def hostile(good: str) -> list[Any]:
    prefix, id_, secret = good.split("_")
    other = "session" if prefix == "tacit" else "tacit"
    flipped = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    wide = "".join(chr(ord(sign) - ord("0") + 0xFF10) if sign.isdigit() else sign for sign in good)
    return [
        "", "_", "__", "tacit", "tacit__", good[:-1], good + "0", good + "\n", " " + good, good.upper(), wide,
        f"{prefix}_{id_}_{flipped}", f"{prefix}_{'0' * 16}_{secret}", f"{prefix}_{secret}_{id_}",
        f"{other}_{id_}_{secret}", good.replace("_", "\0"), good + "\0", "\ud800" * 98,
        "tacit_" + "f" * 10**6, "é" * 10**6, "' OR 1=1 --",
        None, 0, good.encode(), [good], f"{prefix}_unknown_{'0' * 64}", "tacit_%s_%s", "\u202e" + good,
    ]  # fmt: skip


def test_strange_texts_open_nothing(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    opened = crowd.people.follow(crowd.people.link("alice", operator="olga"))
    assert opened is not None
    good = token(crowd.people, "alice")
    for text in [*hostile(good), opened.text]:
        assert crowd.people.authenticate(text) is None
    for text in [*hostile(opened.text), good]:
        assert crowd.people.session(text) is None
        crowd.people.sign_out(text)
        assert crowd.people.linked(text) is None
        assert crowd.people.follow(text) is None
        assert crowd.people.set_up(text, "eve") is None
        assert crowd.people.entries.take("house", text) is None
    assert crowd.people.authenticate(good) is not None
    assert crowd.people.session(opened.text) is not None


def test_every_way_to_fail_does_the_same_look_ups(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    people = crowd.people
    add(people, "alice", "bob")
    good = people.issue("alice", expires=None, operator="olga")
    gone = people.issue("alice", expires=None, operator="olga")
    late = token(people, "alice", expires=crowd.watch() + timedelta(seconds=1))
    bobs = token(people, "bob")
    people.withdraw(gone.id, operator="olga")
    people.revoke("bob", operator="olga")
    people.authenticate(good.text)
    crowd.watch.wait(seconds=1)
    done: list[str] = []
    tables, chain = people.tables, people.chain
    for owner, name in ((type(tables), "read"), (type(tables), "write"), (type(chain), "analyst"), (Code, "fits")):
        real = getattr(owner, name)

        def counted(*given: Any, _real: Any = real, _name: str = name) -> Any:
            done.append(_name)
            return _real(*given)

        monkeypatch.setattr(owner, name, counted)
    ways = [good.text, gone.text, late, bobs, good.text[:-1], "", f"tacit_{'0' * 16}_{'0' * 64}", "x" * 10**6]
    for text in ways:
        done.clear()
        assert (people.authenticate(text) is None) == (text != good.text)
        assert done == ["read", "fits", "analyst"], text[:30]


def test_the_day_of_the_last_use(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    add(crowd.people, "alice")
    text = token(crowd.people, "alice")
    assert crowd.people.tokens()[0].used is None
    for hours in (0, 1, 10, 1):
        crowd.watch.wait(hours=hours)
        crowd.people.authenticate(text)
    assert str(crowd.people.tokens()[0].used) == "2026-11-16"
    crowd.watch.wait(days=3)

    def busy(*_: object) -> None:
        raise BusyError("a moment")

    monkeypatch.setattr(type(crowd.people.tables), "write", busy)
    assert crowd.people.authenticate(text) is not None
    assert str(crowd.people.tokens()[0].used) == "2026-11-16"


def test_labels_fit_on_a_line(crowd: Crowd) -> None:
    add(crowd.people, "alice")
    wrong: list[Any] = ["x" * 101, "a\nb", "\0", "\ud800", "\x1b[2J", 7, "x" * 10**6]
    for label in wrong:
        with pytest.raises(InputError, match="label"):
            token(crowd.people, "alice", label=label)


def test_storage_that_fails_lets_no_user_in(lasting: Crowd) -> None:
    add(lasting.people, "alice")
    text = token(lasting.people, "alice")
    with lasting.people.tables.write() as run:
        run("DROP TABLE people_tokens", ())
    with pytest.raises(LedgerError) as caught:
        lasting.people.authenticate(text)
    assert text.rsplit("_", 1)[1] not in str(caught.value)
