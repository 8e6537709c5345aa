"""Copies of a ledger made while it is used, and what happens when they are put back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

import tacit
from tacit.ledger import Ledger

Run = Callable[..., Result]
Json = Callable[..., Any]
COUNT = "SELECT COUNT(*) AS n FROM visits WHERE cost < {}"


def put_back(copy: Path, clinic: Path) -> None:
    for file in clinic.glob("tacit.ledger*"):
        file.unlink()
    for part in ("", ".key"):
        (clinic / f"tacit.ledger{part}").write_bytes(copy.with_name(copy.name + part).read_bytes())
        (clinic / f"tacit.ledger{part}").chmod(0o600)


def test_a_copy_made_while_charges_are_written_is_whole(clinic: Path, run_json: Json, tmp_path: Path) -> None:
    stop, written = threading.Event(), threading.Event()
    with tacit.open(clinic / "tacit.toml") as curator:
        curator.sql(COUNT.format(1), epsilon="0.001")

        def ask() -> None:
            number = 2
            while not stop.is_set():
                curator.sql(COUNT.format(number), epsilon="0.001")
                written.set()
                number += 1

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            told = []
            for i in range(4):
                told.append(run_json("ledger", "backup", str(tmp_path / f"copy{i}")))
                written.clear()
                assert written.wait(60), "the ledger is in use"
        finally:
            stop.set()
            asking.join()
        last = curator.ledger.head.seq
    heads = [each["head"]["position"] for each in told]
    assert all(each["ok"] for each in told)
    assert heads == sorted(heads)
    assert heads[0] < heads[-1] <= last, "the ledger was in use"
    for path in tmp_path.glob("copy*"):
        assert path.stat().st_mode & 0o077 == 0, path
    # A copy is a file alone, which needs no log beside it.
    assert {path.name for path in tmp_path.glob("copy0*")} == {"copy0", "copy0.key"}


def test_the_newest_copy_is_taken_and_an_older_one_refused(
    clinic: Path, run: Run, run_json: Json, tmp_path: Path
) -> None:
    run("query", COUNT.format(5), "--epsilon", "0.5")
    assert run("ledger", "backup", str(tmp_path / "newest")).exit_code == 0
    put_back(tmp_path / "newest", clinic)
    again = run_json("query", COUNT.format(5), "--epsilon", "0.5")
    assert not again["charge"]["amounts"], "nothing was forgotten"
    run("query", COUNT.format(6), "--epsilon", "0.5")
    put_back(tmp_path / "newest", clinic)
    refused = run("query", COUNT.format(7), "--epsilon", "0.5")
    assert (refused.exit_code, "is an old or another copy" in refused.stderr) == (10, True)
    assert run("ledger", "adopt", "--reason", "the disk died", "--operator", "olga").exit_code == 0
    assert run("query", COUNT.format(7), "--epsilon", "0.5").exit_code == 4, "the rest counts as spent"


def test_what_cannot_be_copied(clinic: Path, run: Run, tmp_path: Path) -> None:
    assert run("ledger", "backup", str(tmp_path / "x")).exit_code != 0, "there is no ledger yet"
    run("query", COUNT.format(5), "--epsilon", "0.5")
    for taken in ("there", "there.key"):
        (tmp_path / taken).write_text("kept")
        found = run("ledger", "backup", str(tmp_path / "there"))
        assert found.exit_code == 2
        assert "name a new file" in found.stderr
        assert (tmp_path / taken).read_text() == "kept"
        (tmp_path / taken).unlink()
    assert run("ledger", "backup", str(tmp_path / "no" / "folder")).exit_code != 0
    assert run("ledger", "backup", str(tmp_path / "alone"), "--no-key").exit_code == 0
    assert not (tmp_path / "alone.key").exists()


def test_a_damaged_ledger_is_copied_and_said_to_be_damaged(clinic: Path, run: Run, tmp_path: Path) -> None:
    import sqlite3

    run("query", COUNT.format(5), "--epsilon", "0.5")
    with sqlite3.connect(clinic / "tacit.ledger") as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        lower = "UPDATE entries SET body = replace(body, '1/2', '1/4') WHERE body LIKE '%\"kind\":\"reserve\"%'"
        assert connection.execute(lower).rowcount == 1
    connection.close()
    found = run("ledger", "backup", str(tmp_path / "copy"), "--json")
    assert found.exit_code == 9
    assert not json.loads(found.stdout)["ok"]
    assert Ledger.examine(tmp_path / "copy").problems
