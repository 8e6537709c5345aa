"""Processes killed at every storage call and at random moments: what was answered was paid for, and stays so."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from support.crashing import FITS, Tally, answer_all, child, received
from support.faulty import IOERR_WRITE, MortalConnection, MortalDisk, faulty_vfs
from support.ledgers import Place, clinic, sqlite_place
from tacit.accounting.filters import PureFilter
from tacit.ledger import Ledger
from tacit.ledger.anchor import AnchorFile
from tacit.ledger.sqlite import SqliteStore, connect_to


@pytest.fixture
def sqlite(folder: Path) -> Place:
    """On files, because a process that dies leaves files behind."""
    return sqlite_place(folder)


def mortal_work(place: Place, last: int, queries: list[str], opening: bool) -> Callable[[int], None]:
    """Work that dies at storage call number ``last``, counted from the opening of the ledger or from there on."""

    def work(pipe: int) -> None:
        calls, counted = 0, opening

        def tick() -> None:
            nonlocal calls
            calls += counted
            if calls == last:
                os.kill(os.getpid(), signal.SIGKILL)

        disk = MortalDisk(tick)
        store = SqliteStore.open(
            place.where,
            connect=lambda path: MortalConnection(connect_to(path), tick),  # type: ignore[arg-type, return-value]
            disk=disk,
        )
        ledger = Ledger.on(store, AnchorFile(place.anchor, disk))
        ledger.ensure_account("patients", PureFilter(epsilon=Fraction(FITS, 10)))
        counted = True
        answer_all(ledger, pipe, queries)

    return work


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.deep) for part in (1, 2, 3))])
def test_killed_at_every_storage_call(sqlite: Place, part: int) -> None:
    """660 runs: every call of making and opening a ledger; of reserving, committing and answering, three times over."""
    tally, deaths, call = Tally(sqlite), 0, 1
    for run in range(165):
        queries = [f"{part}-{run // 6}", f"{part}-{run // 4}-again"]
        answers, code = received(*child(mortal_work(sqlite, call, queries, opening=part == 0)))
        assert code in (0, -signal.SIGKILL)
        deaths += code != 0
        # A run that got through has no such call; begin again at the first.
        call = 1 if code == 0 else call + 1
        tally.add(answers)
        if run % 3 == 0:
            tally.check()
    tally.check()
    assert deaths > 140
    assert len(tally.answers) > (3 if part == 0 else 10)


@pytest.mark.deep
def test_killed_from_outside_at_random_moments(sqlite: Place) -> None:
    """300 kills: two processes at a time, of which one or both are killed, while a third opens and verifies."""
    moments, tally = Random(5), Tally(sqlite)
    clinic(sqlite, epsilon=Fraction(FITS, 10)).close()
    kills = 0
    for run in range(200):
        queries = [f"q{number}" for number in range(run // 4, run // 4 + 30)]

        def work(pipe: int, queries: list[str] = queries) -> None:
            with sqlite.open() as ledger:
                answer_all(ledger, pipe, queries)

        def work_on(pipe: int, queries: list[str] = queries) -> None:
            # However fast the machine is, it is at work when it is killed.
            with sqlite.open() as ledger:
                while True:
                    answer_all(ledger, pipe, queries)

        victims = moments.choice([1, 2, 2])
        pair = [child(work_on), child(work if victims == 1 else work_on)]
        time.sleep(moments.uniform(0.002, 0.03))
        for pid, _ in pair[:victims]:
            os.kill(pid, signal.SIGKILL)
        answers = []
        for pid, pipe in pair:
            got, code = received(pid, pipe)
            answers += got
            assert code in (0, -signal.SIGKILL)
            kills += code != 0
        tally.add(answers)
        if run % 2:
            tally.check()
    assert kills >= 200
    assert len(tally.answers) >= 20


@pytest.mark.deep
def test_killed_in_the_middle_of_a_write_of_the_database(sqlite: Place) -> None:
    """150 runs: half a page reaches the file, and the process is gone."""
    clinic(sqlite, epsilon=Fraction(FITS, 10)).close()
    tally, deaths = Tally(sqlite), 0
    for run in range(150):

        def work(pipe: int, run: int = run) -> None:
            left = 1 + run % 30

            def plan(kind: str, name: str) -> int:
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return -IOERR_WRITE if left == 0 and kind == "write" else 0

            layer = faulty_vfs(plan)
            ledger = Ledger.on(SqliteStore.open(sqlite.where, connect=layer.connect), AnchorFile(sqlite.anchor))
            answer_all(ledger, pipe, [f"{run // 20}", f"{run // 10}-again"])

        answers, code = received(*child(work))
        deaths += code != 0
        tally.add(answers)
        tally.check()
    assert deaths > 100
