"""Two hundred analysts at once, while workers are killed: no wrong answer, no charge too many, none missing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

import tacit
from support.analysts import EPSILON, crowd, summary
from support.serving import Server, make_clinic, make_tokens, resident

ANALYSTS = 200
PATIENTS = 300
SECONDS = 5.0
KILLS = 3
#: Enough that the budget is still there when workers are killed, and gone at the end.
CHARGES = 150


@pytest.mark.deep
def test_two_hundred_analysts_and_dying_workers(tmp_path: Path) -> None:
    project = make_clinic(tmp_path / "clinic", patients=PATIENTS, epsilon=str(CHARGES * EPSILON))
    tokens = list(make_tokens(project, [f"analyst{n}" for n in range(ANALYSTS)]).values())
    stop = threading.Event()
    killed: list[int] = []
    with Server(project, "--workers", "2", "--response-step", "0", limits={"queue": 300, "quick_queue": 300}) as server:
        server.wait_for_workers(2)

        def kill() -> None:
            while not stop.wait(1.5):
                victims = server.workers()
                if len(victims) == 2:
                    killed.append(victims[len(killed) % 2])
                    os.kill(killed[-1], signal.SIGKILL)

        killing = threading.Thread(target=kill)
        work = crowd(
            server.port, tokens, SECONDS, PATIENTS,
            most=120.0, enough=lambda: len(killed) >= KILLS, begun=killing.start,
        )  # fmt: skip
        try:
            findings = asyncio.run(work)
        finally:
            stop.set()
            if killing.ident is not None:
                killing.join()
        time.sleep(0.2)
        sizes = [resident(pid) for pid in server.workers()]
        assert server.stop() == 0
    told = summary(findings)
    assert not findings.wrong, told
    assert len(killed) >= KILLS, told
    assert {name.rpartition(" ")[2] for name in findings.counts} <= {"200", "402", "422", "503"}, told
    # A worker starts at some 150 MB, most of it shared; one that keeps what it was asked would be far beyond this.
    assert all(size < 400 * 2**20 for size in sizes), sizes
    with tacit.open(project) as curator:
        spent = Fraction(curator.budget().spent[0].amount)
        history = curator.history()
        assert spent <= CHARGES * EPSILON
        assert spent == sum(entry.amounts[0].amount for entry in history)
        asked = {entry.sql for entry in history}
        assert len(asked) == len(history), "nothing was charged twice"
        answered = {f"n{key.rpartition('-')[2]} " for key in findings.answers}
        fresh = [sql for sql in asked if "day <> " in sql]
        assert all(any(mark in sql for sql in fresh) for mark in answered), "no answer without a charge"
        assert len(findings.charged) <= len(findings.answers) <= len(fresh)
        assert curator.ledger.verify().ok
    # The test has teeth only if the server was busy, and the budget was reached.
    assert told["repeats"] > 100, told
    assert findings.counts["fresh 402"] > 0, told
    assert spent > (CHARGES - 2 * EPSILON) * EPSILON, told
