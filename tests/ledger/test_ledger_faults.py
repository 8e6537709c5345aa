"""Disks that fail, fill up, tear and lie: the ledger refuses, says why, stays stopped, and lost nothing that left."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from support.faulty import FULL, IOERR_FSYNC, IOERR_WRITE, FailingDisk, Plan, faulty_vfs
from support.ledgers import Place, answered, asking, clinic, copy_files, reserved, spent, sqlite_place
from tacit.accounting.filters import PureFilter
from tacit.ledger import BusyError, Ledger, LedgerError, RollbackError
from tacit.ledger.anchor import AnchorFile
from tacit.ledger.disk import Disk
from tacit.ledger.errors import StorageError
from tacit.ledger.protocol import Step
from tacit.ledger.sqlite import SqliteStore, connect_to


@pytest.fixture
def sqlite(folder: Path) -> Place:
    """A ledger in files."""
    return sqlite_place(folder)


def nth(kind: str, number: int, code: int) -> Plan:
    """Fail the call of a kind with this number, and all of its kind after it."""
    count = 0

    def plan(call: str, name: str) -> int:
        nonlocal count
        count += call == kind
        return code if call == kind and count >= number else 0

    return plan


def check_stopped(ledger: Ledger, words: str) -> None:
    """Nothing works any more, and the reason is told."""
    for call in (lambda: ledger.reserve(asking()), lambda: ledger.budget("patients"), lambda: ledger.head):
        with pytest.raises(LedgerError, match="the ledger is stopped: .*" + words):
            call()


def ask_on(ledger: Ledger, most: int) -> list[int]:
    """Ask until it fails; the places of the charges that were answered."""
    return [answered(ledger, asking("0.001")).reservation.seq for _ in range(most)]


FAULTS = {
    "EIO on write": ("write", IOERR_WRITE, "disk I/O error"),
    "half a write": ("write", -IOERR_WRITE, "disk I/O error"),
    "no space": ("write", FULL, "full"),
    "half a write, then no space": ("write", -FULL, "full"),
    "EIO on fsync": ("sync", IOERR_FSYNC, "disk I/O error"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_database_that_cannot_write_stops_the_ledger(sqlite: Place, fault: str) -> None:
    kind, code, words = FAULTS[fault]
    clinic(sqlite).close()
    left: list[tuple[int, bytes]] = []
    stops = 0
    for number in range(1, 13):
        layer = faulty_vfs(lambda call, name: 0)
        ledger = Ledger.on(SqliteStore.open(sqlite.where, connect=layer.connect), AnchorFile(sqlite.anchor))
        layer.plan = nth(kind, number, code)
        try:
            for query in range(3):
                outcome = answered(ledger, asking("1e-3"), b"%d %d" % (number, query))
                left.append((outcome.reservation.seq, outcome.result))
        except LedgerError as problem:
            stops += 1
            assert words in str(problem)  # noqa: PT017
            check_stopped(ledger, words)
        layer.plan = lambda call, name: 0
        ledger.close()
        with sqlite.open() as again:
            assert again.verify().ok
            assert spent(again) >= Fraction(len(left), 1000)
            for seq, result in left:
                kept = again.outcome(seq)
                assert kept is not None
                assert kept.result == result
    assert stops >= 6


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_checkpoint_that_fails_stops_the_ledger(sqlite: Place, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite would keep this to itself, and answer on."""
    monkeypatch.setattr("tacit.ledger.sqlite._CHECKPOINT_EVERY", 2)
    clinic(sqlite).close()

    def plan(kind: str, name: str) -> int:
        return IOERR_FSYNC if kind == call and name == "clinic.ledger" else 0

    layer = faulty_vfs(lambda kind, name: 0)
    ledger = Ledger.on(SqliteStore.open(sqlite.where, connect=layer.connect), AnchorFile(sqlite.anchor))
    layer.plan = plan
    with pytest.raises(LedgerError, match="disk I/O error"):
        ask_on(ledger, 4)
    with pytest.raises(LedgerError, match="stopped"):
        ledger.reserve(asking())
    layer.plan = lambda kind, name: 0
    ledger.close()
    with sqlite.open() as again:
        assert again.verify().ok


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_an_anchor_that_cannot_be_written_stops_the_ledger(sqlite: Place, code: int) -> None:
    disk = FailingDisk()
    ledger = Ledger.on(SqliteStore.open(sqlite.where), AnchorFile(sqlite.anchor, disk))
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    disk.error = OSError(code, os.strerror(code))
    with pytest.raises(LedgerError, match=os.strerror(code)):
        ledger.reserve(asking("0.1"))
    disk.error = None
    with pytest.raises(LedgerError, match="the ledger is stopped: the anchor"):
        ledger.reserve(asking("0.1"))
    ledger.close()
    with sqlite.open() as again:
        assert spent(again) == Fraction(1, 10)


@pytest.mark.parametrize("call", ["_sync_data", "os.fsync"])
def test_a_sync_that_fails_stops_the_ledger(sqlite: Place, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if call == "_sync_data":
        ledger = clinic(sqlite)
        monkeypatch.setattr("tacit.ledger.disk._sync_data", fail)
        with pytest.raises(LedgerError, match=r"the anchor .* Input/output error"):
            ledger.reserve(asking())
        check_stopped(ledger, "Input/output error")
        ledger.close()
    else:
        monkeypatch.setattr("tacit.ledger.disk.os.fsync", fail)
        with pytest.raises(LedgerError, match="Input/output error"):
            sqlite.open()


def test_writers_pass_a_gate(sqlite: Place) -> None:
    with clinic(sqlite) as ledger:
        waiting = threading.Thread(target=ledger.reserve, args=(asking(),))
        with Disk().lock(Path(f"{sqlite.where}-gate")):
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
            assert spent(ledger) == 0
        waiting.join()
        assert spent(ledger) == Fraction(1, 10)


def test_a_file_that_may_not_grow_stops_the_ledger(sqlite: Place) -> None:
    """The system's own limit, met by the real write call: as a full disk, without one."""
    clinic(sqlite, epsilon=100).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ledger = sqlite.open()
    before = len(ask_on(ledger, 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(LedgerError, match=r"disk I/O error|full"):
            ask_on(ledger, 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.close()
    with sqlite.open() as again:
        assert again.verify().ok
        assert Fraction(before, 1000) < spent(again) < Fraction(505, 1000)


def test_a_read_only_file_is_refused(sqlite: Place) -> None:
    clinic(sqlite).close()
    with pytest.raises(StorageError, match="readonly"):
        SqliteStore.open(sqlite.where, connect=lambda path: connect_to(path, options="mode=ro"))


def test_what_is_not_a_ledger_is_refused(folder: Path) -> None:
    for name, content in (
        ("text", b"this is not a database, and long enough to be read as one" * 20),
        ("zeros", bytes(8192)),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(LedgerError, match="not a database"):
            Ledger.open(folder / name, anchor=folder / "anchor")
    with sqlite3.connect(folder / "other") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(folder / "other", anchor=folder / "anchor")
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(folder / "none", anchor=folder / "anchor", create=False)
    (folder / "folder").mkdir()
    with pytest.raises(LedgerError):
        Ledger.open(folder / "folder", anchor=folder / "anchor")


def test_someone_else_holding_the_file_is_no_damage(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.ledger.sqlite._PATIENCE", 0.05)
    with clinic(sqlite) as ledger:
        rude = sqlite3.connect(sqlite.where, isolation_level=None)
        rude.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="another program holds"):
            ledger.reserve(asking("0.1"))
        rude.execute("ROLLBACK")
        rude.close()
        reserved(ledger, asking("0.1"))
        assert spent(ledger) == Fraction(1, 10)


def test_a_child_must_open_its_own(sqlite: Place) -> None:
    with clinic(sqlite) as ledger:
        pid = os.fork()
        if pid == 0:
            try:
                ledger.reserve(asking())
            except LedgerError as problem:
                os._exit(7 if "before a fork" in str(problem) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def harmless_or_found(place: Place, due: Fraction, damage: Callable[[], None]) -> bool:
    """Whether damage was found out; if it was not, nothing may have changed."""
    damage()
    try:
        with place.open() as ledger:
            if not ledger.verify().ok:
                return True
            assert spent(ledger) == due
            reserved(ledger, asking("1e-3"))
            return False
    except LedgerError:
        return True


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_flipped_bits_are_found_or_harmless(sqlite: Place, folder: Path) -> None:
    chance = Random(11)
    with clinic(sqlite) as ledger:
        for number in range(12):
            answered(ledger, asking("0.05", analyst=f"a{number % 3}", sql="SELECT 1" * 20, repeat_key=f"{number}"))
        due = spent(ledger)
    copy_files(sqlite, folder / "whole")
    kept = folder / "anchor-kept"
    shutil.copy(sqlite.anchor, kept)
    file = Path(sqlite.where)
    size, found = file.stat().st_size * 8, 0
    for _ in range(160):
        shutil.rmtree(file.parent)
        shutil.copytree(folder / "whole", file.parent)
        shutil.copy(kept, sqlite.anchor)
        found += harmless_or_found(sqlite, due, lambda: flip(file, chance.randrange(size)))
    assert found > 30


def test_a_cut_file_is_found(sqlite: Place, folder: Path) -> None:
    with clinic(sqlite) as ledger:
        for number in range(12):
            answered(ledger, asking("0.05", repeat_key=f"{number}"))
        due = spent(ledger)
    with closing(sqlite3.connect(sqlite.where)) as connection:
        # Pages that the log still held would replace those that are cut off.
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    copy_files(sqlite, folder / "whole")
    kept = folder / "anchor-kept"
    shutil.copy(sqlite.anchor, kept)
    file = Path(sqlite.where)
    size = file.stat().st_size
    for length in (0, 1, 100, 4096, 8192, size // 2, size - 4096, size - 1):
        shutil.rmtree(file.parent)
        shutil.copytree(folder / "whole", file.parent)
        shutil.copy(kept, sqlite.anchor)
        assert harmless_or_found(sqlite, due, lambda length=length: os.truncate(file, length))  # type: ignore[misc]


def test_a_damaged_log_is_an_old_copy(sqlite: Place, folder: Path) -> None:
    """Frames after the damage are lost to SQLite without a word; the anchor has it."""
    clinic(sqlite).close()
    pid = os.fork()
    if pid == 0:
        ledger = sqlite.open()
        for _ in range(5):
            ledger.reserve(asking("0.1"))
        os._exit(0)
    os.waitpid(pid, 0)
    log = Path(f"{sqlite.where}-wal")
    copy_files(sqlite, folder / "whole")
    size, chance = log.stat().st_size, Random(3)
    outcomes = set()
    for _ in range(40):
        shutil.rmtree(log.parent)
        shutil.copytree(folder / "whole", log.parent)
        flip(log, chance.randrange(size * 8))
        (log.parent / f"{Path(sqlite.where).name}-shm").unlink(missing_ok=True)
        try:
            with sqlite.open() as ledger:
                assert spent(ledger) == Fraction(5, 10)
                outcomes.add("harmless")
        except RollbackError:
            outcomes.add("old copy")
        except LedgerError:
            outcomes.add("damaged")
    assert "old copy" in outcomes


def test_tables_of_another_version_are_refused(sqlite: Place) -> None:
    clinic(sqlite).close()
    with closing(sqlite3.connect(sqlite.where)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match="the ledger has version 2 and this Tacit reads version 1 alone"):
        sqlite.open()


def test_entries_are_never_changed_or_deleted(sqlite: Place) -> None:
    clinic(sqlite).close()
    store = SqliteStore.open(sqlite.where)
    with pytest.raises(StorageError, match="never changed"):
        store._rows("UPDATE entries SET body = ''")
    with pytest.raises(StorageError, match="never deleted"):
        store._rows("DELETE FROM entries")
    store.append(Step("{}"))
    store.close()


def test_a_gate_that_is_held_for_too_long_is_busy_and_nothing_was_charged(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process that holds it was stopped in the middle of a step."""
    monkeypatch.setattr("tacit.ledger.sqlite._PATIENCE", 0.05)
    before = set(threading.enumerate())
    with clinic(sqlite) as ledger:
        with Disk().lock(Path(f"{sqlite.where}-gate")):
            for _ in range(3):
                with pytest.raises(BusyError, match="another process holds the ledger, and nothing was charged"):
                    ledger.reserve(asking("0.1"))
            with pytest.raises(BusyError, match="nothing was charged"):
                sqlite.open()
        # Those who gave up waiting do not keep it from those who come later.
        monkeypatch.setattr("tacit.ledger.sqlite._PATIENCE", 30)
        reserved(ledger, asking("0.2"))
        assert spent(ledger) == Fraction(2, 10)
        assert ledger.verify().ok
    for thread in threading.enumerate():
        if thread.name == "tacit-gate":
            thread.join(10)
    # Threads of tests before may end meanwhile; none was added.
    assert set(threading.enumerate()) <= before


def test_a_waiting_caller_gets_in_when_the_gate_opens(sqlite: Place) -> None:
    with clinic(sqlite) as ledger:
        made: list[object] = []
        asker = threading.Thread(target=lambda: made.append(reserved(ledger, asking("0.1"))))
        with Disk().lock(Path(f"{sqlite.where}-gate")):
            asker.start()
            while not any(thread.name == "tacit-gate" for thread in threading.enumerate()):
                time.sleep(0.001)
            assert not made
        asker.join(10)
        assert len(made) == 1
