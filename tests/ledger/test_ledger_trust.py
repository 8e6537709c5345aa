"""Old copies, other copies, lost anchors and changed rows: each is found out and named."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from support.ledgers import NOON, Place, answered, asking, bring_back, clinic, copy_files, reserved, spent, sqlite_place
from tacit.accounting.filters import PureFilter
from tacit.core.errors import BudgetError, InputError
from tacit.ledger import Ledger, LedgerError, Outcome, RollbackError
from tacit.ledger.anchor import AnchorFile, AnchorFolder, find_anchor, state_folder
from tacit.ledger.entries import canonical
from tacit.ledger.memory import MemoryAnchor, MemoryStore
from tacit.ledger.protocol import BalanceKey, BalanceState, Head, Name, Step, link
from tacit.ledger.verify import verify


@pytest.fixture
def sqlite(folder: Path) -> Place:
    """Where files can be copied and put back."""
    return sqlite_place(folder)


def test_an_old_copy_is_refused_and_both_sides_are_named(sqlite: Place, folder: Path) -> None:
    ledger = clinic(sqlite)
    reserved(ledger, asking("0.4"))
    old, ident = ledger.head, ledger.id
    ledger.close()
    copy_files(sqlite, folder / "backup")
    with sqlite.open() as ledger:
        reserved(ledger, asking("0.6"))
        new = ledger.head
    bring_back(sqlite, folder / "backup")
    with pytest.raises(RollbackError) as caught:
        sqlite.open()
    words = str(caught.value)
    assert f"at entry {old.seq} ({old.hash[:16]}" in words
    assert f"at entry {new.seq} ({new.hash[:16]}" in words
    assert ident in words
    assert "tacit ledger adopt" in words
    assert caught.value.code == "internal.rollback"


def test_an_override_is_a_permanent_entry_and_works_once(sqlite: Place, folder: Path) -> None:
    clinic(sqlite).close()
    copy_files(sqlite, folder / "backup")
    with sqlite.open() as ledger:
        reserved(ledger, asking("0.6"))
        lost = ledger.head
    bring_back(sqlite, folder / "backup")
    with sqlite.adopt(reason="the disk died", operator="owner") as ledger:
        entry = ledger.journal.store.entry(ledger.head.seq)
        assert entry is not None
        for words in (
            '"kind":"adopted"',
            '"reason":"the disk died"',
            '"operator":"owner"',
            lost.hash,
            f'"seq":{lost.seq}',
        ):
            assert words in entry.body
        assert ledger.verify().ok
    sqlite.open().close()
    with pytest.raises(InputError, match="reason"):
        sqlite.adopt(reason="")


def test_what_the_anchor_proves_to_be_lost_is_charged(place: Place) -> None:
    """The lost entries may have spent all that was left; it cannot be known, so it is."""
    with clinic(place) as ledger:
        reserved(ledger, asking("0.25"))
        missing = Head(ledger.head.seq + 3, "ab" * 32)
        ident = ledger.id
    AnchorFile(place.anchor).replace(ident, missing)
    with pytest.raises(RollbackError):
        place.open()
    with place.adopt(reason="the disk died", operator="olga") as ledger:
        assert spent(ledger) == 1
        with pytest.raises(BudgetError):
            ledger.reserve(asking("0.001"))
        # An operator who wants to go on says so, for good.
        ledger.change_caps("patients", PureFilter(epsilon=2), reason="a new year", operator="olga")
        reserved(ledger, asking("0.5"))
        told = ledger.overrides()
        assert [each.kind for each in told] == ["lost", "adopted", "caps"]
        assert "epsilon 0.75" in told[0].words
        assert f"entry {missing.seq}" in told[1].words
        assert "from pure, epsilon 1" in told[2].words
        assert all(each.operator == "olga" and each.reason for each in told)
        report = ledger.verify()
        assert (report.ok, report.overrides) == (True, told)
    with place.open() as ledger:
        assert ledger.overrides() == told


def test_an_old_copy_at_another_place_is_charged_for_what_it_misses(
    sqlite: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The anchors remember a ledger by its identity, too: a restore into a new folder is no new budget."""
    monkeypatch.setenv("TACIT_STATE", str(folder / "anchors"))
    with Ledger.open(sqlite.where) as ledger:
        ledger.ensure_account("patients", PureFilter(epsilon=1))
    copy_files(sqlite, folder / "elsewhere")
    with Ledger.open(sqlite.where) as ledger:
        reserved(ledger, asking("0.6"))
        lost = ledger.head
    copy = folder / "elsewhere" / Path(sqlite.where).name
    with pytest.raises(RollbackError):
        Ledger.open(copy)
    with Ledger.adopt(copy, reason="another machine", operator="olga") as ledger:
        assert spent(ledger) == 1
        assert [each.kind for each in ledger.overrides()] == ["lost", "adopted"]
        assert f"entry {lost.seq}" in ledger.overrides()[1].words


def test_an_adoption_that_dies_leaves_the_proof(sqlite: Place, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with clinic(sqlite) as ledger:
        reserved(ledger, asking("0.25"))
    for deleted in (False, True):
        copy_files(sqlite, folder / f"backup {deleted}")
        with sqlite.open() as ledger:
            ledger.note("something", {})
        if deleted:
            for file in Path(sqlite.where).parent.iterdir():
                file.unlink()
        else:
            bring_back(sqlite, folder / f"backup {deleted}")
        with monkeypatch.context() as patch:
            patch.setattr("tacit.ledger.anchor.AnchorFile.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                sqlite.adopt()
        with pytest.raises(RollbackError):
            sqlite.open()
        with sqlite.adopt() as ledger:
            ledger.ensure_account("patients", PureFilter(epsilon=1))
            assert spent(ledger) == 1
            assert ledger.verify().ok


def test_another_history_of_the_same_length_is_refused(sqlite: Place, folder: Path) -> None:
    clinic(sqlite).close()
    copy_files(sqlite, folder / "fork")
    with sqlite.open() as ledger:
        reserved(ledger, asking("0.9"))
    bring_back(sqlite, folder / "fork")
    sqlite.adopt().close()
    copy_files(sqlite, folder / "second")
    bring_back(sqlite, folder / "fork")
    with pytest.raises(RollbackError, match="an old or another copy"):
        sqlite.open()


def test_a_missing_anchor_is_refused(place: Place) -> None:
    with clinic(place) as ledger:
        reserved(ledger, asking())
    place.anchor.unlink()
    with pytest.raises(RollbackError, match="no anchor remembers it"):
        place.open()
    with place.adopt() as ledger:
        assert spent(ledger) == Fraction(1, 10)
    with place.open() as ledger:
        assert spent(ledger) == Fraction(1, 10)


def test_a_damaged_anchor_is_refused(place: Place) -> None:
    clinic(place).close()
    place.anchor.write_bytes(b"\0" * 1024)
    with pytest.raises(LedgerError, match=r"anchor .* is damaged"):
        place.open()
    place.adopt().close()
    place.open().close()


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("torn", [b"\xff" * 40, b"0" * 28 + b" 9"])
def test_one_torn_slot_is_survived(place: Place, slot: int, torn: bytes) -> None:
    with clinic(place) as ledger:
        reserved(ledger, asking())
    content = bytearray(place.anchor.read_bytes())
    content[slot * 512 + 19 : slot * 512 + 19 + len(torn)] = torn
    place.anchor.write_bytes(content)
    with place.open() as ledger:
        reserved(ledger, asking())
        assert spent(ledger) == Fraction(1, 5)


def test_a_deleted_ledger_is_missed(sqlite: Place, folder: Path) -> None:
    with clinic(sqlite) as ledger:
        reserved(ledger, asking())
    for file in Path(sqlite.where).parent.iterdir():
        file.unlink()
    with pytest.raises(RollbackError, match="it was deleted or emptied"):
        sqlite.open()
    with sqlite.adopt() as ledger:
        assert ledger.accounts() == ()
        entry = ledger.journal.store.entry(2)
        assert entry is not None
        assert '"kind":"adopted"' in entry.body
        # What the lost ledger had charged is not known, so all of it is.
        for _ in range(2):
            ledger.ensure_account("patients", PureFilter(epsilon=1))
        assert spent(ledger) == 1
        assert ledger.verify().ok
        assert [each.kind for each in ledger.overrides()] == ["adopted", "lost"]


def test_there_must_be_something_to_adopt(place: Place) -> None:
    with pytest.raises(LedgerError, match="nothing to adopt"):
        place.adopt()


def test_the_state_folder_follows_a_ledger_that_moves_and_misses_one_that_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_STATE", str(folder / "state"))
    here, there = folder / "a" / "x.ledger", folder / "b" / "x.ledger"
    with Ledger.open(here) as ledger:
        first = ledger.id
    copied = here.read_bytes()
    with Ledger.open(here) as ledger:
        ledger.note("more", {})
    os.rename(here.parent, there.parent)
    with Ledger.open(there) as ledger:
        assert ledger.id == first
    with pytest.raises(RollbackError, match="deleted or emptied"):
        Ledger.open(here)
    with Ledger.open(folder / "c" / "y.ledger") as ledger:
        ledger.note("fresh", {})
    there.write_bytes((folder / "c" / "y.ledger").read_bytes())
    with pytest.raises(RollbackError, match="it was replaced"):
        Ledger.open(there)
    (folder / "d").mkdir()
    (folder / "d" / "x.ledger").write_bytes(copied)
    with pytest.raises(RollbackError, match="an old or another copy"):
        Ledger.open(folder / "d" / "x.ledger")
    assert state_folder() == folder / "state"
    monkeypatch.delenv("TACIT_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "xdg"))
    assert state_folder() == folder / "xdg" / "tacit"
    assert isinstance(find_anchor(None, "x"), AnchorFolder)


def test_links_to_a_ledger_are_the_ledger_and_hard_links_are_refused(sqlite: Place, folder: Path) -> None:
    with clinic(sqlite) as ledger:
        reserved(ledger, asking())
    (folder / "alias").symlink_to(sqlite.where)
    with Ledger.open(folder / "alias", anchor=sqlite.anchor) as ledger:
        assert spent(ledger) == Fraction(1, 10)
        assert ledger.place == sqlite.where
    os.link(sqlite.where, folder / "second")
    with pytest.raises(LedgerError, match="second name"):
        sqlite.open()


def test_a_crash_while_a_ledger_is_made_is_no_missing_anchor(place: Place) -> None:
    AnchorFile(place.anchor).begin("0" * 32)
    with clinic(place) as ledger:
        assert ledger.id == "0" * 32


def test_threads_that_open_a_new_ledger_at_once_get_one(place: Place) -> None:
    found: list[str] = []

    def run() -> None:
        with place.open() as ledger:
            found.append(ledger.id)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_ledger_that_another_process_begins_meanwhile_is_not_missing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, begun = AnchorFile.read, []

    def overtaken(anchor: AnchorFile) -> object:
        # The store was seen to be empty, and the anchor not yet.
        if not begun:
            begun.append(True)
            clinic(place).close()
        return read(anchor)

    monkeypatch.setattr(AnchorFile, "read", overtaken)
    with place.open() as ledger:
        assert ledger.accounts() == ("patients",)
    assert begun


def test_an_anchor_that_is_swapped_in_use_stops_the_ledger(place: Place) -> None:
    with clinic(place) as ledger:
        AnchorFile(place.anchor).replace("f" * 32, Head(1, "0" * 64))
        with pytest.raises(LedgerError, match="replaced while it was in use"):
            ledger.reserve(asking())
        with pytest.raises(LedgerError, match="the ledger is stopped"):
            ledger.reserve(asking())


def test_the_anchor_knows_of_a_charge_before_anyone_runs_under_it(folder: Path) -> None:
    """Also of a charge that another process made and died before it told the anchor."""
    store, anchor = MemoryStore(), AnchorFile(folder / "anchor")
    ledger = Ledger.on(store, anchor)
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    elsewhere = MemoryAnchor()
    elsewhere.replace(ledger.id, ledger.head)
    with Ledger.on(store, elsewhere) as dying:
        lost = reserved(dying, asking(repeat_key="r"))
    mark = anchor.read()
    assert mark is not None
    assert mark.head.seq < lost.seq
    assert reserved(ledger, asking(repeat_key="r")).resumed
    mark = anchor.read()
    assert mark is not None
    assert mark.head.seq >= lost.seq


def test_receipts_prove_an_old_copy(place: Place) -> None:
    with clinic(place) as ledger:
        held = reserved(ledger, asking())
        ledger.check_receipt(held.seq, held.hash, ledger=ledger.id)
        with pytest.raises(RollbackError, match=f"ends at entry {held.seq}: it is an old copy"):
            ledger.check_receipt(held.seq + 1, held.hash)
        with pytest.raises(RollbackError, match="another history"):
            ledger.check_receipt(held.seq, "0" * 64)
        with pytest.raises(RollbackError, match="is of ledger x"):
            ledger.check_receipt(held.seq, held.hash, ledger="x")
        with pytest.raises(RollbackError):
            ledger.check_receipt(0, held.hash)
        reserved(ledger, asking())


def test_clock_jumps_change_nothing(place: Place) -> None:
    times = iter(NOON + timedelta(days=365 * step) for step in (0, 0, 0, 10, -10, 0, -2000, 3000, 0, 0))
    with clinic(place, epsilon="0.4", clock=lambda: next(times)) as ledger:
        ids = [answered(ledger, asking("0.1")).reservation.seq for _ in range(4)]
        assert ids == sorted(set(ids))
        assert spent(ledger) == Fraction(4, 10)
    later = datetime(2926, 1, 1, tzinfo=UTC)
    with place.open(clock=lambda: later) as ledger:
        with pytest.raises(Exception, match="does not fit"):
            ledger.reserve(asking("1e-9"))
        assert [record.seq for record in ledger.history()] == ids
        assert ledger.verify().ok


TAMPERING = {
    "a lowered sum": ("UPDATE pockets SET spent = '0' WHERE owner = ''", "epsilon of patients is damaged"),
    "a raised cap": ("UPDATE pockets SET cap = cap || '0' WHERE owner = ''", "epsilon of patients is damaged"),
    "a forgotten analyst": ("DELETE FROM pockets WHERE owner = 'analyst:alice'", "for analyst alice: nothing is kept"),
    "a changed query": ("UPDATE entries SET body = replace(body, 'SELECT', 'select') WHERE seq = 3", "entry 3"),
    "a cheaper charge": ("UPDATE entries SET body = replace(body, '1/10', '1/90') WHERE seq = 3", "entry 3"),
    "a cut tail": ("DELETE FROM entries WHERE seq > 6", ""),
    "a cut middle": ("DELETE FROM entries WHERE seq = 4", "entry"),
    "a changed hash": ("UPDATE entries SET hash = zeroblob(32) WHERE seq = 5", "entry"),
    "a lost name": ("DELETE FROM names WHERE space = 'request'", "index of names"),
    "a moved name": ("UPDATE names SET seq = seq + 1 WHERE space = 'repeat'", "index of names"),
    "another answer": ("UPDATE papers SET content = x'00' WHERE name = 'result'", "result kept with entry"),
    "a lost receipt": ("DELETE FROM papers WHERE name = 'receipt'", "receipt kept with entry"),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_verify_finds_what_was_changed(sqlite: Place, what: str) -> None:
    statement, words = TAMPERING[what]
    with clinic(sqlite) as ledger:
        for number in range(3):
            order = asking("0.1", analyst="alice", sql="SELECT 1", repeat_key=f"{number}", idempotency_key=f"{number}")
            answered(ledger, order)
        assert ledger.verify().ok
    sqlite.tamper(statement)
    report = Ledger.examine(sqlite.where, anchor=sqlite.anchor)
    assert not report.ok
    assert words in "\n".join(report.problems)


DAMAGE = {
    "a lowered sum": ("UPDATE pockets SET spent = '0' WHERE owner = ''", "its seal does not fit"),
    "a lost pocket": ("DELETE FROM pockets WHERE owner = ''", "is gone"),
    "another answer": ("UPDATE papers SET content = x'00' WHERE name = 'result'", "does not fit its digest"),
    "a lost answer": ("DELETE FROM papers", "does not fit its digest"),
    "a changed commit": ("UPDATE entries SET body = replace(body, 'commit', 'commot') WHERE seq = 4", "entry 4"),
    "a moved name": ("UPDATE names SET seq = 3 WHERE space = 'outcome'", "entry 3 is of kind reserve, not commit"),
    "another charge's name": ("UPDATE names SET key = '3' WHERE space = 'outcome' AND seq = 6", "not the outcome of"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_that_is_met_stops_a_ledger_in_use(sqlite: Place, what: str) -> None:
    statement, words = DAMAGE[what]
    with clinic(sqlite) as ledger:
        answered(ledger, asking("0.1", repeat_key="one"))
        answered(ledger, asking("0.1", repeat_key="two"))
        if "another charge" in what:
            sqlite.tamper("DELETE FROM names WHERE space = 'outcome' AND key = '3'")
        sqlite.tamper(statement)
        with pytest.raises(LedgerError, match=words):
            ledger.reserve(asking("0.1", repeat_key="one" if "pocket" not in what and "sum" not in what else "three"))
        with pytest.raises(LedgerError, match="the ledger is stopped"):
            ledger.reserve(asking("0.1", repeat_key="four"))


def test_verify_does_not_rely_on_seals() -> None:
    """A row that is changed and sealed again: here, one that never had a seal."""
    store = MemoryStore()
    ledger = Ledger.on(store, MemoryAnchor())
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    reserved(ledger, asking("0.1"))
    (level,) = store.balances()
    for changed in (level._replace(spent=level.spent - 1), level._replace(cap=(level.cap or 0) + 1)):
        store._balances[level.key] = changed
        assert "epsilon of patients: " in verify(store).problems[0]
    store._balances[level.key] = level
    assert verify(store).ok


class Capless(MemoryStore):
    """Forgets to compare with the cap."""

    def _after(self, step: Step) -> tuple[dict[BalanceKey, BalanceState], tuple[BalanceState, ...]]:
        return super()._after(step)[0], ()


def test_verify_finds_a_cap_that_was_passed_and_a_charge_that_was_answered_twice() -> None:
    store = Capless()
    ledger = Ledger.on(store, MemoryAnchor())
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    held = reserved(ledger, asking("0.9"))
    ledger.commit(held, b"one")
    assert verify(store).ok
    del store._names[Name("outcome", str(held.seq))]
    ledger.commit(held, b"two")
    reserved(ledger, asking("0.9"))
    words = "\n".join(verify(store).problems)
    assert f"commits entry {held.seq}, which is not a charge that waits" in words
    assert "entry 6 exceeds the cap of epsilon of patients" in words


def test_a_well_made_forgery_is_found(sqlite: Place) -> None:
    """Hashes recomputed, rows resealed: prices and the anchor still tell."""
    with clinic(sqlite) as ledger:
        reserved(ledger, asking("0.1"))
        entry = ledger.journal.store.entry(ledger.head.seq)
    assert entry is not None
    forged = entry.body.replace("1/10", "1/20", 1) if '"amounts":{"epsilon":"1/10"}' in entry.body else ""
    assert forged != entry.body
    sqlite.tamper(
        f"UPDATE entries SET body = '{forged.replace(chr(39), chr(39) * 2)}', hash = x'{link(entry.previous, forged)}' "
        f"WHERE seq = {entry.seq}"
    )
    report = Ledger.examine(sqlite.where, anchor=sqlite.anchor)
    words = "\n".join(report.problems)
    assert "and its event costs" in words
    assert "an old or another copy" in words


def test_verify_asks_about_every_receipt_and_tells_how_far_it_is(place: Place) -> None:
    asked: list[Outcome] = []
    steps: list[tuple[int, int]] = []

    def check(outcome: Outcome) -> str | None:
        asked.append(outcome)
        return "is forged" if outcome.result == b"2" else None

    with clinic(place) as ledger:
        for number in range(4):
            answered(ledger, asking("0.1"), b"%d" % number)
        head = ledger.head
        report = ledger.verify(progress=lambda done, total: steps.append((done, total)), check_outcome=check)
        assert [outcome.result for outcome in asked] == [b"0", b"1", b"2", b"3"]
        assert [problem.split(": ")[-1] for problem in report.problems] == ["is forged"]
        assert (report.charges, report.outcomes, report.entries) == (4, 4, head.seq)
        assert steps[-1] == (head.seq, head.seq)
        with pytest.raises(LedgerError, match="stopped: verification found that the receipt"):
            ledger.reserve(asking())


def test_examining_changes_nothing(sqlite: Place) -> None:
    with clinic(sqlite) as ledger:
        reserved(ledger, asking())
    before = Path(sqlite.where).read_bytes(), sqlite.anchor.read_bytes()
    assert Ledger.examine(sqlite.where, anchor=sqlite.anchor).ok
    assert (Path(sqlite.where).read_bytes(), sqlite.anchor.read_bytes()) == before
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.examine(Path(sqlite.where).parent / "other")


def test_canonical_text_is_one_text() -> None:
    assert canonical({"b": [1, None, True], "a": "é"}) == '{"a":"\\u00e9","b":[1,null,true]}'
    with pytest.raises(InputError, match="keys must be text"):
        canonical({1: 2})  # type: ignore[dict-item]


def test_entries_of_another_format_are_refused() -> None:
    store = MemoryStore()
    with Ledger.on(store, MemoryAnchor()) as ledger:
        opened = json.loads(next(iter(ledger.journal.store.entries())).body)
    other = MemoryStore()
    other.append(Step(canonical({**opened, "format": 2})))
    with pytest.raises(LedgerError, match="has format 2, and this Tacit reads 1 alone"):
        Ledger.on(other, MemoryAnchor())
