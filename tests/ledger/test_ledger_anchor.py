"""The anchor by itself: it never goes back, and never leaves the history that it follows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.ledger.anchor import AnchorFile, AnchorMark
from tacit.ledger.disk import Disk
from tacit.ledger.errors import StorageError
from tacit.ledger.protocol import Head, RecentHeads


def line(seq: int, reach: int = 9) -> RecentHeads:
    """An entry of one long history."""
    return RecentHeads.of(
        Head(seq, f"{seq:032d}" * 2), [f"{before:032d}" * 2 for before in range(seq - 1, max(seq - 1 - reach, 0), -1)]
    )


def unasked(head: Head) -> bool:
    raise AssertionError(f"the trails say enough of {head}")


def test_anchors_never_go_back(folder: Path) -> None:
    anchor = AnchorFile(folder / "anchor")
    anchor.begin("a" * 32)
    anchor.use("a" * 32)
    for seq in (1, 5, 3, 5, 6, 2):
        anchor.advance(line(seq).head, line(seq), unasked)
        other = AnchorFile(folder / "anchor").of("a" * 32)
        assert other is not None
        assert other.head.seq == max(s for s in (1, 5, 3, 5, 6, 2)[: (1, 5, 3, 5, 6, 2).index(seq) + 1])
    late = AnchorFile(folder / "anchor")
    late.use("a" * 32)
    late.advance(line(4).head, line(4), unasked)
    mark = late.read()
    assert mark is not None
    assert mark == AnchorMark("a" * 32, line(6))
    with pytest.raises(StorageError):
        AnchorFile(folder / "none" / "x").advance(Head(1, ""), RecentHeads(Head(1, "")), unasked)


@pytest.mark.parametrize("known", [6, 20])
@pytest.mark.parametrize("kept", [True, False])
def test_where_trails_are_too_short_the_ledger_is_asked(folder: Path, known: int, kept: bool) -> None:
    anchor = AnchorFile(folder / "anchor")
    anchor.begin("a" * 32)
    anchor.use("a" * 32)
    anchor.replace("a" * 32, line(known).head)
    asked: list[Head] = []

    def holds(head: Head) -> bool:
        asked.append(head)
        return kept

    if kept:
        anchor.advance(line(16).head, line(16), holds)
    else:
        with pytest.raises(StorageError, match="not the only copy"):
            anchor.advance(line(16).head, line(16), holds)
    assert asked == [line(known).head]
    after = anchor.read()
    assert after is not None
    assert after.head == line(16 if kept and known < 16 else known).head


@pytest.mark.parametrize("known", [9, 12])
def test_an_anchor_does_not_leave_the_history_it_follows(folder: Path, known: int) -> None:
    """Two histories part after entry 8; whichever was remembered first, the other one stops."""
    other = RecentHeads(
        Head(known, "f" * 64), tuple("f" * 32 if seq > 8 else f"{seq:032d}" for seq in range(known - 1, 2, -1))
    )
    anchor = AnchorFile(folder / "anchor")
    anchor.begin("a" * 32)
    anchor.use("a" * 32)
    anchor.advance(line(8).head, line(8), lambda _: False)
    anchor.advance(other.head, other, lambda _: False)
    for mine in (9, 10, 13):
        for process in (anchor, AnchorFile(folder / "anchor")):
            process.use("a" * 32)
            with pytest.raises(StorageError, match="not the only copy"):
                process.advance(line(mine).head, line(mine), lambda _: False)
    assert AnchorFile(folder / "anchor").read() == AnchorMark("a" * 32, RecentHeads(other.head, other.before[:9]))


def test_one_mark_serves_all_whose_entries_it_knows_of(folder: Path) -> None:
    written: list[bytes] = []

    class Watched(Disk):
        def change(self, path: Path, decide: Callable[[bytes], tuple[int, bytes] | None]) -> None:
            def watched(content: bytes) -> tuple[int, bytes] | None:
                decided = decide(content)
                written.extend([] if decided is None else [decided[1]])
                return decided

            super().change(path, watched)

    anchors = [AnchorFile(folder / "anchor", Watched()) for _ in range(8)]
    anchors[0].begin("a" * 32)
    for place, anchor in enumerate(anchors):
        anchor.use("a" * 32)
        anchor.advance(line(5 + place).head, line(12), unasked)
    assert len(written) == 1
    assert len(written[0]) == 512


def test_what_is_written_is_durable_before_it_is_relied_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before its name, its name before the call returns; a change likewise. Other tests make up a disk."""
    calls: list[str] = []

    def heard(name: str) -> Callable[..., object]:
        plain = getattr(os, name)
        return lambda *words: (calls.append(name), plain(*words))[1]

    sync = "fdatasync" if hasattr(os, "fdatasync") else "fsync"
    for name in {"pwrite", "fsync", sync}:
        monkeypatch.setattr(os, name, heard(name))
    disk, path = Disk(), tmp_path / "anchor"
    assert disk.create(path, b"one", replace=False)
    assert calls == ["pwrite", "fsync", "fsync"]
    calls.clear()
    disk.change(path, lambda held: (0, held.upper()))
    assert calls == ["pwrite", sync]
    assert path.read_bytes() == b"ONE"
