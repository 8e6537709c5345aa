"""Old copies: whatever part of the database is put back, nothing that was taken away comes to life again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.crowds import Crowd, add, put_back, rows_of, token
from support.ledgers import bring_back, copy_files, sqlite_place
from tacit.ledger import LedgerError, RollbackError
from tacit.server.identity import People


def opens(people: People, text: str) -> bool:
    return people.authenticate(text) is not None


def test_tables_that_were_put_back_are_told_what_they_forgot(lasting: Crowd) -> None:
    people = lasting.people
    add(people, "alice", "bob", "carol", "dora")
    kept, gone, bobs = (
        token(people, "alice"),
        people.issue("alice", expires=None, operator="olga"),
        token(people, "bob"),
    )
    session, bobs_session, ended = (
        people.follow(people.link(name, operator="olga")) for name in ("carol", "bob", "carol")
    )
    assert session is not None
    assert bobs_session is not None
    assert ended is not None
    link, older = people.link("dora", operator="olga"), people.link("alice", operator="olga")
    old = rows_of(people)

    people.withdraw(gone.id, operator="olga")
    people.revoke("bob", operator="olga")
    add(people, "bob")
    bobs_new = token(people, "bob")
    people.end_session(ended.access.id, operator="olga")
    assert people.follow(link) is not None
    newer = people.link("alice", operator="olga")
    new = rows_of(people)

    put_back(people, {**old, "tokens": [*old["tokens"], *new["tokens"][-1:]]})
    assert opens(people, gone.text), "the test puts back what it should"
    lasting.restart()
    people = lasting.people
    assert opens(people, kept)
    assert not opens(people, gone.text)
    assert not opens(people, bobs)
    assert opens(people, bobs_new)
    assert people.session(bobs_session.text) is None
    assert people.session(ended.text) is None
    assert people.session(session.text) is not None
    assert people.linked(link) is None
    assert people.linked(older) is None
    assert people.linked(newer) is None, "lost with the tables"


def test_opening_again_changes_nothing(lasting: Crowd) -> None:
    add(lasting.people, "alice", "bob")
    text = token(lasting.people, "alice")
    opened = lasting.people.follow(lasting.people.link("alice", operator="olga"))
    assert opened is not None
    link = lasting.people.link("bob", operator="olga")
    before = {name: rows for name, rows in rows_of(lasting.people).items() if name != "seen"}
    for _ in range(2):
        lasting.restart()
        assert {name: rows for name, rows in rows_of(lasting.people).items() if name != "seen"} == before
    assert opens(lasting.people, text)
    assert lasting.people.session(opened.text) is not None
    assert lasting.people.linked(link) is not None


def test_words_in_the_details_do_not_hide_a_revocation(lasting: Crowd) -> None:
    add(lasting.people, "alice")
    lasting.ledger.add_analyst("alice", {"kind": "reserve", "note": {"kind": "commit"}})
    text = token(lasting.people, "alice")
    old = rows_of(lasting.people)
    lasting.people.revoke("alice", operator="olga", reason='"kind":"reserve"')
    add(lasting.people, "alice")
    put_back(lasting.people, old)
    lasting.restart()
    assert not opens(lasting.people, text)


def test_notes_that_others_wrote_break_nothing(lasting: Crowd) -> None:
    for kind in ("token withdrawn", "session ended", "session opened", "link made", "token issued"):
        for fields in ({}, {"token": None}, {"token": ["x"]}, {"analyst": "\ud800"}, {"analyst": {"a": 1}}):
            lasting.ledger.note(kind, fields)
    lasting.restart()
    assert lasting.people.everyone() == ()


def test_a_whole_copy_is_refused_and_when_adopted_all_people_are_let_in_anew(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    crowd = Crowd(place)
    add(crowd.people, "alice", "bob")
    text, gone = token(crowd.people, "alice"), crowd.people.issue("bob", expires=None, operator="olga")
    opened = crowd.people.follow(crowd.people.link("alice", operator="olga"))
    assert opened is not None
    link = crowd.people.link("bob", operator="olga")
    crowd.close()
    copy_files(place, tmp_path / "backup")
    ledger = place.open()
    with ledger, crowd.open_people(ledger) as people:
        people.withdraw(gone.id, operator="olga")
        people.revoke("alice", operator="olga")
    bring_back(place, tmp_path / "backup")
    with pytest.raises(RollbackError):
        place.open()
    place.adopt().close()
    crowd.restart()
    people = crowd.people
    assert people.person("alice") is not None
    assert not opens(people, text)
    assert not opens(people, gone.text)
    assert people.session(opened.text) is None
    assert people.linked(link) is None
    secret = people.set_up_link()
    assert secret is not None
    assert people.set_up(secret, "olga") is not None
    assert opens(people, token(people, "alice"))
    crowd.close()


def test_tables_of_another_history_are_emptied(lasting: Crowd) -> None:
    add(lasting.people, "alice")
    text = token(lasting.people, "alice")
    opened = lasting.people.follow(lasting.people.link("alice", operator="olga"))
    assert opened is not None
    for seen in ("seq = 1000000", f"seq = 1, hash = '{'0' * 64}'"):
        with lasting.people.tables.write() as run:
            run(f"UPDATE people_seen SET {seen}", ())
        lasting.restart()
        assert not opens(lasting.people, text)
        assert lasting.people.session(opened.text) is None
        text = token(lasting.people, "alice")
        assert opens(lasting.people, text)


def test_more_news_than_are_carried_out_at_once(lasting: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.identity.chain._AT_ONCE", 3)
    add(lasting.people, "alice")
    issued = [lasting.people.issue("alice", expires=None, operator="olga") for _ in range(7)]
    old = rows_of(lasting.people)
    for one in issued[:-1]:
        lasting.people.withdraw(one.id, operator="olga")
    put_back(lasting.people, old)
    lasting.restart()
    assert [opens(lasting.people, one.text) for one in issued] == [False] * 6 + [True]


def test_tables_that_are_newer_than_this_program(lasting: Crowd) -> None:
    with lasting.people.tables.write() as run:
        run("UPDATE people_version SET version = 99", ())
    with pytest.raises(LedgerError, match="reads version 1 alone"):
        lasting.again()


def test_no_other_user_of_the_machine_reads_the_hashes(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    before = os.umask(0o022)
    try:
        crowd = Crowd(place)
        add(crowd.people, "alice")
        files = [each for each in tmp_path.rglob("*") if each.is_file()]
        assert [each for each in files if each.name.endswith("-wal")]
        assert not [each for each in files if each.stat().st_mode & 0o077]
        crowd.close()
    finally:
        os.umask(before)


def test_the_ledger_is_whole_with_people_in_its_file(lasting: Crowd) -> None:
    add(lasting.people, "alice")
    token(lasting.people, "alice")
    assert lasting.ledger.verify().ok
    lasting.restart()
    assert lasting.ledger.verify().ok
