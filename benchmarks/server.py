"""A whole server on loopback: quotes, free repeats and fresh queries a second, waiting times, and how fast it starts.

Run ``python benchmarks/server.py`` (about two minutes). The server is ``tacit serve`` with two workers, steps off, on a
table of 100,000 rows and a ledger on disk: every fresh query is a durable charge. The load comes from a process of
its own over kept connections; what that process needs of the processors is stated beside, since it runs on the same
machine. A new query is one that was never asked before; a known one is one of fifty.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROWS = 100_000
KNOWN = 50
CONNECTIONS = 16
_LIMITS = ("asks_per_minute", "quotes_per_minute", "reads_per_minute", "failures_per_minute")
_TICKS = os.sysconf("SC_CLK_TCK")


# The load.


@dataclass(frozen=True)
class Load:
    """Load to send: ``kind`` of query, for so long, over so many connections, at a rate or as fast as it goes."""

    port: int
    token: str
    kind: str
    seconds: float
    connections: int = CONNECTIONS
    rate: float = 0.0
    mark: int = 0


def queries(kind: str, mark: int) -> Iterator[bytes]:
    """Bodies of requests, one after the other."""
    for number in itertools.count():
        fresh = kind.startswith("new")
        day, cost = (number % 365, 1 + (number // 365 + 1000 * mark) % 100_000) if fresh else (number % KNOWN, 50)
        sql = f"SELECT ward, COUNT(*) AS visits FROM visits WHERE day <> {day} AND cost < {cost} GROUP BY ward"
        yield json.dumps({"sql": sql, "epsilon": 0.001}).encode()


class Generator:
    """Sends and counts, with as little work of its own as possible."""

    def __init__(self, load: Load) -> None:
        self.load = load
        path = "/v1/explain" if load.kind.endswith("quote") else "/v1/query"
        self.head = (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {load.token}\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()
        self.queries = queries(load.kind, load.mark)
        self.waits: list[float] = []
        self.statuses: dict[int, int] = {}

    async def run(self) -> dict[str, Any]:
        """All connections at once, until the time is over."""
        begin = time.perf_counter()
        self.end = begin + self.load.seconds
        self.due = itertools.count()
        self.begin = begin
        await asyncio.gather(*(self.connection() for _ in range(self.load.connections)))
        waits = sorted(self.waits)
        used = time.process_time()
        return {
            "count": len(waits),
            "seconds": time.perf_counter() - begin,
            "statuses": self.statuses,
            "median": waits[len(waits) // 2] if waits else 0.0,
            "p99": waits[int(len(waits) * 0.99)] if waits else 0.0,
            "most": waits[-1] if waits else 0.0,
            "cpu": used,
        }

    async def connection(self) -> None:
        """One analyst: a query, its answer, the next query."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.load.port)
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            start = time.perf_counter()
            if self.load.rate:
                # Counted from when it should have been sent: waiting for a connection counts as well.
                start = self.begin + next(self.due) / self.load.rate
            if start >= self.end:
                break
            if self.load.rate:
                await asyncio.sleep(max(start - time.perf_counter(), 0))
            body = next(self.queries)
            writer.write(b"%b%d\r\n\r\n%b" % (self.head, len(body), body))
            head = await reader.readuntil(b"\r\n\r\n")
            place = head.find(b"content-length: ") + 16
            await reader.readexactly(int(head[place : head.index(b"\r", place)]))
            self.waits.append(time.perf_counter() - start)
            status = int(head[9:12])
            self.statuses[status] = self.statuses.get(status, 0) + 1
        writer.close()


def generate(text: str) -> None:
    """The life of the load's own process."""
    load = Load(**json.loads(text))
    try:
        import uvloop

        run = uvloop.run
    except ImportError:
        run = asyncio.run
    print(json.dumps(run(Generator(load).run())))


def measure(server: Server, load: Load) -> dict[str, Any]:
    """Run a load; what it found, and what the server's processes needed of the processors meanwhile."""
    before = server.cpu()
    done = subprocess.run(
        [sys.executable, __file__, "--generate", json.dumps(vars(load))], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    found["server_cpu"] = server.cpu() - before
    return found


# The server.


def make_project(folder: Path, rows: int = ROWS) -> Path:
    """A clinic with five visits of each patient, and a budget that lasts."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = np.arange(rows)
    wards = np.array(["cardiology", "oncology", "surgery", "maternity"])
    table = pa.table(
        {
            "patient": number // 5,
            "ward": wards[(number * 7 // 3) % 4],
            "cost": (number * 37) % 1000,
            "day": (number * 11) % 365,
        }
    )
    pq.write_table(table, folder / "visits.parquet")
    project = folder / "tacit.toml"
    project.write_text(
        """
[project]
name = "clinic"
ledger = "tacit.ledger"
anchor = "tacit.anchor"

[populations.patients]
epsilon = "1000000"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient"
max_groups = 4
max_rows = 2

[tables.visits.columns]
ward = { categories = ["cardiology", "oncology", "surgery", "maternity"] }
cost = { bounds = [0, 1000] }
day  = { bounds = [0, 365] }
"""
    )
    return project


def make_token(project: Path) -> str:
    """An analyst, and what they show."""
    from tacit.curator.opening import open_curator
    from tacit.server.identity import People

    with open_curator(project) as curator, People.open(curator.ledger, str(project.parent / "tacit.ledger")) as people:
        people.add("alice", operator="benchmark")
        return people.issue("alice", expires=None, operator="benchmark").text


class Server:
    """``tacit serve``, started with its defaults."""

    def __init__(self, project: Path, workers: int) -> None:
        self.out = project.parent / "out"
        words = [part for name in _LIMITS for part in ("--set", f"{name}=100000000")]
        command = [sys.executable, "-m", "tacit.cli", "serve", "--project", str(project), "--port", "0", "--json"]
        command += ["--workers", str(workers), "--response-step", "0", *words]
        begin = time.perf_counter()
        with self.out.open("w") as out, (project.parent / "err").open("w") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)
        while not (text := self.out.read_text()).endswith("\n"):
            if self.process.poll() is not None:
                raise RuntimeError((project.parent / "err").read_text())
            time.sleep(0.002)
        self.port = int(json.loads(text)["address"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", self.port)) as caller:
            caller.sendall(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            if b" 200 " not in caller.recv(4096):
                raise RuntimeError("it is not well")
        self.began = time.perf_counter() - begin
        while len(self.pids()) < workers + 1:
            time.sleep(0.02)

    def pids(self) -> list[int]:
        """The supervisor and its workers."""
        own = self.process.pid
        return [own, *map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split())]

    def cpu(self) -> float:
        """Processor seconds that all of them used so far."""
        total = 0
        for pid in self.pids():
            parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(parts[11]) + int(parts[12])
        return total / _TICKS

    def memory(self) -> float:
        """Megabytes of all workers; pages that they share are counted for each."""
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in self.pids()[1:]]
        return sum(int(text.partition("VmRSS:")[2].split()[0]) for text in texts) / 1024

    def stop(self) -> None:
        """Stop the server and its workers in order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def line(what: str, found: dict[str, Any], wanted: str = "") -> str:
    """One line of the table."""
    wrong = {status: count for status, count in found["statuses"].items() if status != "200"}
    failures = f" (**{wrong}**)" if wrong else ""
    each = 1000 * found["server_cpu"] / max(found["count"], 1)
    return (
        f"| {what}{failures} | {found['count'] / found['seconds']:,.0f}{wanted} | {1000 * found['median']:.1f} | "
        f"{1000 * found['p99']:.1f} | {each:.2f} | {found['cpu'] / found['seconds']:.0%} |"
    )


def main() -> None:
    """All of it, as a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0, help="per line of the table")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--disk", help="a folder on the disk to measure")
    parser.add_argument("--generate", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.generate:
        generate(chosen.generate)
        return
    with TemporaryDirectory(dir=chosen.disk, ignore_cleanup_errors=True) as made:
        folder = Path(made)
        os.environ["TACIT_STATE"] = str(folder / "state")
        project = make_project(folder, chosen.rows)
        token = make_token(project)
        starts = []
        for _ in range(3):
            server = Server(project, chosen.workers)
            starts.append(server.began)
            server.stop()
        server = Server(project, chosen.workers)
        try:
            table(server, token, chosen.seconds)
        finally:
            server.stop()
        print(f"\nStart to first answer: {min(starts):.2f} s (reach: 2), of three: {sorted(starts)[1]:.2f} s.")


def pace() -> float:
    """Milliseconds to read a long JSON text: how fast the machine is in this minute, to compare runs by."""
    text = json.dumps([{"number": number, "text": str(number)} for number in range(100_000)])
    begin = time.perf_counter()
    json.loads(text)
    return 1000 * (time.perf_counter() - begin)


def table(server: Server, token: str, seconds: float) -> None:
    """The lines of the table."""

    def run(kind: str, **words: Any) -> dict[str, Any]:
        return measure(server, Load(**{"port": server.port, "token": token, "kind": kind, "seconds": seconds} | words))

    cores = len(os.sched_getaffinity(0))
    print(
        f"{len(server.pids()) - 1} workers, {cores} cores, Python {sys.version.split()[0]}, {CONNECTIONS} connections\n"
    )
    print("| what | a second | median ms | p99 ms | server CPU ms each | load's own CPU |")
    print("|---|---|---|---|---|---|", flush=True)
    for kind in ("quote", "repeat"):
        run(kind, seconds=2.0)
    print(line("quotes of known queries", run("quote"), " (reach: 1,000)"), flush=True)
    print(line("quotes of new queries", run("new quote", mark=1)), flush=True)
    print(line("free repeats", run("repeat"), " (reach: 1,000)"), flush=True)
    paces = [pace()]
    fresh = run("new query", mark=2)
    paces.append(pace())
    print(line("fresh queries, each a durable charge", fresh, " (reach: 150)"), flush=True)
    half = fresh["count"] / fresh["seconds"] / 2
    steady = run("new query", mark=3, rate=half, connections=64)
    print(line(f"the same, {half:.0f} sent a second (reach: p99 < 100 ms)", steady), flush=True)
    print(f"\nMemory of the workers after all that: {server.memory():.0f} MB.")
    print(f"A plain loop of a million steps took {paces[0]:.0f} ms before the fresh queries and {paces[1]:.0f} after.")


if __name__ == "__main__":
    main()
