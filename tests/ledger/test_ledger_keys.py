"""Which key signs: the chain says so, a key is replaced once, and nothing gets in with one that was replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.ledgers import Place, asking, clinic, reserved
from tacit.core.errors import InputError
from tacit.ledger import ConflictError, Ledger, LedgerError, Outcome, ReplacedKeyError, Succession
from tacit.ledger.entries import step_of
from tacit.ledger.signing_keys import succession_text
from tacit.releases.keys import Keys, make_keys

OLD, NEW, THIRD = make_keys(), make_keys(), make_keys()


def handed_over(ledger: Ledger, old: Keys, new: Keys, **changes: Any) -> Succession:
    """Replace a key as an operator does who has both; ``changes`` is what a forger does otherwise."""
    text = succession_text(ledger.id, old.public_key, new.public_key)
    words = {
        "previous": old.public_key, "signature": old.sign(text), "accepted": new.sign(text), "operator": "olga",
        "reason": "it is a year old", **changes,
    }  # fmt: skip
    return ledger.keys.replace(new.public_key, **words)


def signed_clinic(place: Place) -> Ledger:
    return clinic(place, public_key=OLD.public_key, key_check=OLD.groups_check)


def test_a_key_follows_another_and_outcomes_say_which_was_in_force(place: Place) -> None:
    asked: list[tuple[int, str]] = []

    def check(outcome: Outcome) -> None:
        asked.append((outcome.reservation.seq, outcome.key))

    with signed_clinic(place) as ledger, place.open() as other:
        first, second, third = (reserved(ledger, asking(sql=str(number))) for number in range(3))
        ledger.commit(first, b"1", receipt=b"r", key=OLD.public_key)
        done = handed_over(ledger, OLD, NEW)
        assert (done.previous, done.public_key, done.operator) == (OLD.public_key, NEW.public_key, "olga")
        assert ledger.public_key == other.public_key == NEW.public_key
        assert ledger.keys.first == OLD.public_key
        assert ledger.keys.check == OLD.groups_check
        # A curator that had not heard of it signs anew; nothing was written.
        head = other.head
        with pytest.raises(ReplacedKeyError, match=f"replaced at entry {done.seq}"):
            other.commit(second, b"2", receipt=b"r", key=OLD.public_key)
        assert other.head == head
        other.commit(second, b"2", receipt=b"r", key=NEW.public_key)
        handed_over(other, NEW, THIRD)
        ledger.commit(third, b"3", receipt=b"r", key=THIRD.public_key)
        assert ledger.successions() == other.successions()
        kept = [ledger.outcome(each.seq) for each in (first, second, third)]
        told = [each.key for each in kept if each is not None]
        assert told == [OLD.public_key, NEW.public_key, THIRD.public_key]
        report = ledger.verify(check_outcome=check)
        assert report.ok, report.problems
        assert asked == list(zip([first.seq, second.seq, third.seq], told, strict=True))
    with place.open() as again:
        assert again.public_key == THIRD.public_key


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"signature": "00" * 64}, "signature of both"),
        ({"signature": "no hex"}, "signature of both"),
        ({"accepted": ""}, "signature of both"),
        ({"accepted": "00" * 64}, "signature of both"),
        ({"key_check": "other"}, "stay as they are"),
        ({"reason": " "}, "reason"),
        ({"operator": ""}, "operator"),
    ],
)
def test_a_handover_that_is_not_signed_by_both_is_refused(changes: dict[str, str], words: str) -> None:
    with Ledger.open(":memory:", public_key=OLD.public_key) as ledger:
        with pytest.raises(InputError, match=words):
            handed_over(ledger, OLD, NEW, **changes)
        assert ledger.head.seq == 1


def test_a_key_is_used_once_and_replaced_once(place: Place) -> None:
    with signed_clinic(place) as ledger:
        handed_over(ledger, OLD, NEW)
        for old, new in ((OLD, THIRD), (THIRD, make_keys())):
            with pytest.raises(ConflictError, match="replaced by another process"):
                handed_over(ledger, old, new)
        with pytest.raises(InputError, match="used in this ledger before"):
            handed_over(ledger, NEW, OLD)
        # The signatures of another ledger's keys say nothing about this one.
        text = succession_text("0" * 32, NEW.public_key, THIRD.public_key)
        with pytest.raises(InputError, match="signature"):
            handed_over(ledger, NEW, THIRD, signature=NEW.sign(text), accepted=THIRD.sign(text))
        assert len(ledger.successions()) == 1
        assert ledger.verify().ok


def test_of_operators_at_once_one_replaces_the_key(place: Place) -> None:
    signed_clinic(place).close()

    def rotate(new: Keys) -> bool:
        with place.open() as ledger:
            try:
                handed_over(ledger, OLD, new)
            except ConflictError:
                return False
            return True

    several = [make_keys() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(rotate, several))
    assert won.count(True) == 1
    with place.open() as ledger:
        assert ledger.public_key == several[won.index(True)].public_key
        assert ledger.verify().ok


def test_a_lost_key_is_replaced_by_an_operators_word_which_stays(place: Place) -> None:
    with signed_clinic(place) as ledger:
        done = handed_over(ledger, OLD, NEW, signature="", reason="the disk is gone", key_check=NEW.groups_check)
        assert (ledger.public_key, ledger.keys.check) == (NEW.public_key, NEW.groups_check)
        handed_over(ledger, NEW, THIRD)
        assert (ledger.public_key, ledger.keys.check) == (THIRD.public_key, NEW.groups_check)
        assert ledger.successions()[0] == done
        assert (done.signature, done.reason) == ("", "the disk is gone")
        assert ledger.verify().ok


FORGED: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (lambda body: {**body, "signature": "00" * 64}, "signature of the old one does not hold"),
    (lambda body: {**body, "accepted": body["signature"]}, "signature of the new one does not hold"),
    (lambda body: {**body, "key_check": "other"}, "changes the other secrets"),
    (lambda body: {**body, "previous": THIRD.public_key}, "and the one in force is"),
    (lambda body: {**body, "public_key": OLD.public_key}, "brings back a key"),
]


@pytest.mark.parametrize(("forge", "words"), FORGED)
def test_a_forged_succession_in_the_chain_is_found(
    place: Place, forge: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    """A writer of the database can append an entry; they cannot sign it."""
    with signed_clinic(place) as ledger:
        text = succession_text(ledger.id, OLD.public_key, NEW.public_key)
        body = {
            "kind": "key", "previous": OLD.public_key, "public_key": NEW.public_key, "signature": OLD.sign(text),
            "accepted": NEW.sign(text), "operator": "o", "reason": "r", "time": "",
        }  # fmt: skip
        ledger.journal.store.append(step_of(forge(body)))
        report = ledger.verify()
        assert words in "; ".join(report.problems)


def test_an_outcome_with_a_key_that_was_not_in_force_is_found(place: Place) -> None:
    with signed_clinic(place) as ledger:
        held = reserved(ledger, asking())
        ledger.commit(held, b"1", receipt=b"r", key=THIRD.public_key)
        report = ledger.verify()
    assert f"was signed with the key {THIRD.public_key}" in report.problems[0]


def test_an_index_that_points_elsewhere_stops_the_ledger(place: Place) -> None:
    with signed_clinic(place) as ledger:
        handed_over(ledger, OLD, NEW)
    place.tamper("UPDATE names SET seq = 2 WHERE space = 'successor'")
    with place.open() as ledger:
        with pytest.raises(LedgerError, match="entry 2 does not replace the key"):
            _ = ledger.public_key
        with pytest.raises(LedgerError, match="stopped"):
            _ = ledger.head


def test_the_entry_tells_the_whole_story(place: Place) -> None:
    with signed_clinic(place) as ledger:
        done = handed_over(ledger, OLD, NEW)
        entry = ledger.journal.store.entry(done.seq)
        assert entry is not None
        body = json.loads(entry.body)
    assert set(body) == {"kind", "previous", "public_key", "signature", "accepted", "operator", "reason", "time"}
    assert OLD.signing.hex() not in entry.body
    assert NEW.signing.hex() not in entry.body
