"""Ledgers on media that cannot be written, and files whose first page is damaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.bits import SeededBits
from support.ledgers import answered, asking, clinic, sqlite_place
from tacit.core.errors import TacitError
from tacit.ledger import Ledger, sqlite


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which nothing can be made; SQLite is told so by the way it opens the file."""
    true = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and true(path, mode, **more))


@pytest.mark.parametrize("logged", [False, True])
def test_a_ledger_is_verified_where_nothing_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, logged: bool
) -> None:
    place = sqlite_place(folder)
    ledger = clinic(place)
    for i in range(5):
        answered(ledger, asking("0.1", idempotency_key=str(i)))
    copy = folder / "medium"
    copy.mkdir()
    source = Path(place.where)
    if logged:
        # As a machine leaves it that lost its power: the newest entries are in the log alone.
        for name in (source.name, f"{source.name}-wal"):
            shutil.copy(source.with_name(name), copy / name)
        assert (copy / f"{source.name}-wal").stat().st_size > 0
        ledger.close()
    else:
        ledger.close()
        shutil.copy(source, copy / source.name)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    read_only(monkeypatch)
    with sqlite._readable(copy / source.name) as uri:
        assert ("immutable=1" in uri) == (not logged)
        assert (str(copy) in uri) == (not logged)
    report = Ledger.examine(copy / source.name, anchor=place.anchor)
    assert report.problems == ()
    assert report.charges == 5
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before, "nothing was made there"


def test_a_damaged_schema_page_is_a_damaged_ledger(folder: Path) -> None:
    """Whatever is in the first page, the error is one of the tree and no other."""
    place = sqlite_place(folder)
    clinic(place).close()
    path, bits = Path(place.where), SeededBits(11)
    raw = path.read_bytes()
    refused: list[Any] = []
    for _ in range(120):
        content = bytearray(raw)
        for _ in range(1 + bits.bits(5)):
            content[100 + bits.bits(12) % 3996] = bits.bits(8)
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        path.write_bytes(content)
        for work in (lambda: Ledger.examine(path, anchor=place.anchor), lambda: place.open(create=False).close()):
            try:
                work()
            except TacitError as problem:
                refused.append(problem)
    assert len(refused) > 30
