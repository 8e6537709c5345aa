# ruff: noqa: E402
"""Every accepted query of the corpora on 100,000 visits, beside the same query to DuckDB without privacy.

    .venv/bin/python benchmarks/corpus.py [--people 93000] [--worst 20] [--repeats 3] [--part 0/4]

Processor time of one thread, the best of some repeats in turns. *Tacit* is the engine's part of a query, all that
grows with the data: bounding each person and adding up exact integers. *Raw* is the text as plain DuckDB reads it
(``tests/query/plain_sql.py``). Planning, costs, the ledger, noise and intervals are the same for any number of rows
and are left out; ``query.py --small`` measures them. A raw query of less than a millisecond counts as one of a
millisecond: below, DuckDB's own fixed cost and the clock are what is compared. Queries that are several releases
are left out, since their later parts depend on numbers released before. Prints Markdown: how the ratios are spread,
and the worst of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "tests")]

import duckdb

from query.corpus.accepted import ACCEPTED
from query.corpus.analysts import ASKED
from query.corpus.bounded import arrow, database
from query.corpus.by_value import BY_VALUE, STRUCTURES
from query.corpus.clinic import CATALOG
from query.plain_sql import plain_connection, plain_sql
from tacit.core.errors import TacitError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query.resolve import resolve

FLOOR = 0.001


def best_of(run: Callable[[], object], repeats: int) -> float:
    """The least processor time of some runs."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Ask every query both ways, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=93_000, help="they have about as many visits")
    parser.add_argument("--worst", type=int, default=20, help="how many queries are listed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--part", default="0/1", help="every k-th query from the i-th on: i/k")
    told = parser.parse_args()
    first, of = map(int, told.part.split("/"))
    frames = arrow(database(told.people, odd=False))
    plain = plain_connection(frames)
    sources = {name: DataSource("frame", None, frame) for name, frame in frames.items()}
    engine = DuckDBEngine(CATALOG, sources, Limits(threads=1))
    found, unasked = [], 0
    for sql in tuple(dict.fromkeys((*ACCEPTED, *ASKED, *BY_VALUE, *STRUCTURES)))[first::of]:
        query = resolve(sql, CATALOG)
        limits = query.final.limits
        if query.final.seeks_bounds or limits.groups.is_auto or limits.rows.is_auto or query.values:
            unasked += 1
            continue
        text = plain_sql(sql, query.final)
        work = MeasurementTask(query.final, b"an owner's secret")
        try:
            raw = best_of(lambda text=text: plain.execute(text).fetchall(), told.repeats)
        except duckdb.Error:
            unasked += 1
            continue
        try:
            ours = best_of(lambda work=work: engine.measure(work), told.repeats)
        except TacitError as problem:
            print(f"failed: {problem}: {sql}")
            continue
        found.append((ours / max(raw, FLOOR), ours, raw, sql))
    engine.close()
    plain.close()
    found.sort(reverse=True)
    ratios = [ratio for ratio, *_ in found]
    rows = frames["visits"].num_rows
    print(f"{len(found)} queries, {rows:,} visits of {told.people:,} people; {unasked} are not asked of both.\n")
    print(f"Median {statistics.median(ratios):.1f}, 90 % below {ratios[len(ratios) // 10]:.1f}, ", end="")
    print(f"{sum(ratio > 20 for ratio in ratios)} above 20, largest {ratios[0]:.1f} × raw.\n")
    print("| × raw | Tacit ms | raw ms | query |\n|---:|---:|---:|---|")
    for ratio, ours, raw, sql in found[: told.worst]:
        print(f"| {ratio:.1f} | {1000 * ours:.1f} | {1000 * raw:.2f} | `{sql.replace('|', chr(92) + '|')}` |")


if __name__ == "__main__":
    main()
