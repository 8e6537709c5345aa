"""Fresh queries a second over 32 connections, by the PostgreSQL protocol and by HTTP in the same run.

Run ``python benchmarks/pgwire.py``. Rounds of the two alternate, so that a busy machine slows both. Every query is
new: its text differs from all others, so that each is planned, charged, measured and signed. Queries of the catalogue
are counted as well, with the processor time of server and clients for each: clients run on the same machine, so that
the time says what the machine would do if it had nothing else to do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "tests")]

import psycopg  # noqa: E402

from support.serving import Server, make_clinic, make_tokens  # noqa: E402

_numbers = itertools.count(1)
CATALOGUE = (
    "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
    "WHERE c.relkind = 'r' AND c.relnamespace = 2200"
)


def query() -> str:
    """A query that was not asked before."""
    return f"SELECT ward, COUNT(*) AS n FROM visits WHERE cost < {next(_numbers)} GROUP BY ward"


def processor_seconds(pids: list[int]) -> float:
    """Processor time of some processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rate(seconds: float, workers: list[Callable[[], None]]) -> float:
    """Number of times a second that all workers together did their work."""
    counts = [0] * len(workers)
    end = time.monotonic() + seconds

    def repeat(place: int) -> None:
        while time.monotonic() < end:
            workers[place]()
            counts[place] += 1

    threads = [threading.Thread(target=repeat, args=(place,)) for place in range(len(workers))]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as place:
        os.environ["TACIT_STATE"] = str(Path(place) / "state")
        project = make_clinic(Path(place) / "clinic")
        names = [f"analyst{n}" for n in range(chosen.connections)]
        tokens = make_tokens(project, names)
        limits = {"queue": 300.0, "quick_queue": 300.0}
        with Server(project, "--workers", "2", "--response-step", "0", "--postgres", "0", limits=limits) as server:
            workers = server.wait_for_workers(2)
            host, _, port = str(server.told["postgres"]).partition(":")
            wires = [
                psycopg.connect(
                    host=host, port=port, user=name, password=token, dbname="clinic", autocommit=True,
                    options="-c tacit.epsilon=0.01", prepare_threshold=None,
                )
                for name, token in tokens.items()
            ]  # fmt: skip
            import httpx2

            clients = [
                httpx2.Client(base_url=server.address, headers={"authorization": f"Bearer {token}"}, timeout=60)
                for token in tokens.values()
            ]

            def ask(client: httpx2.Client) -> None:
                told = client.post("/v1/query", json={"sql": query(), "epsilon": 0.01})
                assert told.status_code == 200, told.text

            by_wire = [lambda wire=wire: wire.execute(query()).fetchall() for wire in wires]  # type: ignore[misc]
            by_http = [lambda client=client: ask(client) for client in clients]  # type: ignore[misc]
            looks = [lambda wire=wire: wire.execute(CATALOGUE).fetchall() for wire in wires]  # type: ignore[misc]
            kinds = ("postgres", "http", "catalogue", "server_ms", "client_ms")
            found: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(chosen.rounds):
                found["http"].append(rate(chosen.seconds, by_http))
                found["postgres"].append(rate(chosen.seconds, by_wire))
                before = processor_seconds(workers), time.process_time(), time.monotonic()
                found["catalogue"].append(rate(chosen.seconds / 2, looks))
                count = found["catalogue"][-1] * (time.monotonic() - before[2])
                found["server_ms"].append(1000 * (processor_seconds(workers) - before[0]) / count)
                found["client_ms"].append(1000 * (time.process_time() - before[1]) / count)
            for wire in wires:
                wire.close()
    middle = {name: statistics.median(rates) for name, rates in found.items()}
    print(f"fresh queries by HTTP      {middle['http']:8.0f} / s")
    share = middle["postgres"] / middle["http"]
    print(f"fresh queries by postgres  {middle['postgres']:8.0f} / s  ({share:.0%} of HTTP)")
    print(f"catalogue round trips        {middle['catalogue']:8.0f} / s, load {os.getloadavg()[0]:.1f}")
    mine, theirs = middle["server_ms"], middle["client_ms"]
    cores = os.cpu_count() or 1
    print(f"processor time of each       {mine:8.3f} ms in the server, {theirs:.3f} ms in the clients")
    # The clients are threads of one process, and the workers are two.
    idle = min(cores / (mine + theirs), 1 / theirs, 2 / mine) * 1000
    print(f"round trips if idle          {idle:8.0f} / s on {cores} cores")


if __name__ == "__main__":
    main()
