"""Several workers of a real server together: one limit for all, and a job that kills the worker that runs it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.serving import COUNT, Server, fetch, make_clinic, make_tokens, spent, until

#: Longer than the test: what was found is never written down, so that every worker dies with the job in its hands.
STEP = 600


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clinic(tmp_path_factory.mktemp("workers"), patients=30)


@pytest.fixture(scope="module")
def token(project: Path) -> str:
    return make_tokens(project, ["alice"])["alice"]


@pytest.fixture(scope="module")
def server(project: Path, token: str) -> Iterator[Server]:
    limits = {"job_seconds": 0.6, "quotes_per_minute": 2}
    with Server(project, "--workers", "2", "--response-step", str(STEP), limits=limits) as running:
        running.wait_for_workers(2)
        yield running


@pytest.mark.deep
def test_two_workers_do_not_double_a_limit(server: Server, token: str) -> None:
    body = json.dumps({"sql": COUNT, "epsilon": 1}).encode()
    statuses = [fetch(f"{server.address}/v1/explain", token, body)[0] for _ in range(16)]
    # One more may be let through after half a minute.
    assert statuses[:2] == [200, 200]
    assert statuses.count(429) >= 13, statuses


def test_a_job_that_kills_its_worker_is_given_up_after_three(server: Server, project: Path, token: str) -> None:
    body = json.dumps({"sql": COUNT, "epsilon": 1}).encode()
    status, headers, _ = fetch(f"{server.address}/v1/query", token, body, Prefer="respond-async")
    assert status == 202
    for number in (1, 2, 3):
        until(lambda wanted=number: _tries(project) == wanted and spent(project) == 1, f"worker {number}")
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)

    def polled() -> Any:
        try:
            told = json.loads(fetch(f"{server.address}{headers['location']}", token)[2])
        except OSError:
            return None
        return told if told["state"] in ("done", "failed") else None

    job = until(polled, "the end of the job")
    assert (job["state"], job["error"]["code"]) == ("failed", "internal")
    assert set(job["error"]) == {"code", "message", "id"}
    assert job["error"]["id"] in (project.parent / "state" / "operator.log").read_text()
    assert _tries(project) == 4
    assert spent(project) == 1, "what was charged stays charged, once"


def _tries(project: Path) -> int:
    place = f"file:{project.parent / 'tacit.ledger'}?mode=ro"
    with closing(sqlite3.connect(place, uri=True)) as connection:
        return int(connection.execute("SELECT tries FROM people_jobs").fetchone()[0])


STOPPED_AT_BIRTH = """
import os, signal, sys
from pathlib import Path
from tacit.core.errors import InternalError
from tacit.server.serve import Serving, supervise
from tacit.server.settings import Settings
fork = os.fork
def told_to_stop():
    pid = fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    return pid
os.fork = told_to_stop
try:
    supervise(Serving(Path(sys.argv[1]), Settings(port=0, workers=1), log=None))
except InternalError as problem:
    print(problem)
"""


def test_a_worker_that_is_told_to_stop_as_it_is_born_stops(project: Path) -> None:
    """The signal is not swallowed by what the child still has of its parent; else no signal would come again."""
    ran = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_BIRTH, str(project)], capture_output=True, text=True, check=False, timeout=60
    )
    assert f"ended with status {-signal.SIGTERM}" in ran.stdout, ran.stderr


HANGS = """
import sys, time
from pathlib import Path
from tacit.server.serve import Serving, processes, supervise
from tacit.server.settings import Settings
beat = processes._Worker._beat
async def hangs(self):
    await beat(self)
    time.sleep(60)
processes._HUNG = 0.5
processes._Worker._beat = hangs
supervise(Serving(Path(sys.argv[1]), Settings(port=0, workers=1), log="-"))
"""


def test_a_worker_whose_loop_stands_still_ends_and_is_replaced(project: Path) -> None:
    command = [sys.executable, "-c", HANGS, str(project)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        while sum("worker ended" in line for line in lines) < 2:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        process.kill()
    assert any("in hangs" in line for line in lines), "the traceback says where"
