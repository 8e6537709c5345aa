"""A terminal that is closed: workers finish what they do, and a server started with nohup goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from support.serving import COUNT, Server, fetch, make_clinic, make_tokens, spent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clinic(tmp_path_factory.mktemp("signals"), patients=30)


def test_what_is_under_way_is_finished_when_the_terminal_closes(project: Path) -> None:
    token = make_tokens(project, ["alice"])["alice"]
    got: list[Any] = []
    # Tests that run under nohup would hand on that the signal is ignored.
    kept = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        started = Server(project, "--workers", "1", "--response-step", "2", cold=True)
    finally:
        signal.signal(signal.SIGHUP, kept)
    with started as server:
        (worker,) = server.wait_for_workers(1)
        body = json.dumps({"sql": COUNT, "epsilon": 0.5, "bias_share": 0}).encode()
        asking = threading.Thread(target=lambda: got.append(fetch(f"{server.address}/v1/query", token, body)))
        asking.start()
        time.sleep(0.5)
        # A terminal tells the whole group: the worker and its supervisor.
        os.kill(worker, signal.SIGHUP)
        os.kill(server.process.pid, signal.SIGHUP)
        # An answer that is late by a moment leaves after 8 or 32 seconds.
        asking.join(100)
        assert server.process.wait(100) == 0
    assert [status for status, _, _ in got] == [200], "it was charged, so it is answered"
    assert spent(project) == 0.5


def test_nohup(project: Path) -> None:
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = Server(project, "--workers", "1", cold=True)
    finally:
        signal.signal(signal.SIGHUP, kept)
    with server:
        server.wait_for_workers(1)
        os.kill(server.process.pid, signal.SIGHUP)
        time.sleep(0.7)
        assert server.process.poll() is None
        assert fetch(f"{server.address}/v1/health")[0] == 200
