"""A private GROUP BY on Spark beside Spark's own query on the same data, and beside Tumult Analytics.

    .venv/bin/python benchmarks/engines_spark.py [--rows 1000000 10000000] [--repeats 3] [--tumult path/to/python]
    .venv/bin/python benchmarks/engines_spark.py --rows 5000000 --bias

The query and the data are those of ``benchmarks/query.py``: orders of 100,000 users, ``GROUP BY city, category``
(20 × 10 public groups), COUNT, SUM and AVG. "Raw" is Spark SQL without any protection. Row-level treats every order as
a person; user-level keeps at most 10 groups of a user and 20 orders in each. All run in one Spark on two cores, take
turns, and the best counts; processor seconds are those of Java, all threads. Starting Spark is a line of its own.

With ``--bias`` the queries of ``engines.py --bias`` are measured alone, with the table of what bounding
leaves out by a statement of its own, and with that table from the same statement.

Tumult Analytics wants a Spark of its own version, so it runs in the Python that ``--tumult`` names, on the same file
and with as many cores. It answers one aggregate per query: the figure is for a count and a sum. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines import QUERIES, with_table
from query import CATEGORIES, CITIES, GROUPS, ROWS, USERS, asked, generate, orders

THREADS = 2
MEMORY = "4g"
#: A contender that takes this many seconds is not repeated.
SLOW = 60.0
RAW = "SELECT city, category, COUNT(*), SUM(amount), AVG(amount) FROM parquet.`{}` GROUP BY city, category"


def engine(path: str, unit: str) -> Any:
    """Tacit's engine, on the one Spark of this process, and its catalog."""
    from tacit.engines.duckdb import DataSource
    from tacit.engines.spark import SparkEngine

    catalog, sources = orders(unit), {"orders": DataSource("parquet", path)}
    return SparkEngine(catalog, sources, session=local_session(THREADS, MEMORY)), catalog


def local_session(threads: int, memory: str = "1g") -> Any:
    """A session on the one Spark of this process, set up as Tacit sets up those that it opens."""
    from pyspark.sql import SparkSession

    from tacit.engines.spark.session import SETTINGS

    builder = SparkSession.builder.master(f"local[{threads}]").config("spark.driver.memory", memory)
    off = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": str(4 * threads)}
    for name, value in {**SETTINGS, **off}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def processor(process: int) -> float:
    """Processor seconds that Java has used so far; 0 where the system does not say."""
    place = Path(f"/proc/{process}/stat")
    if not place.exists():
        return 0.0
    cells = place.read_text().rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / 100


def peak(process: int) -> float:
    """The most memory Java has held, in GB; 0 where the system does not say."""
    place = Path(f"/proc/{process}/status")
    lines = place.read_text().splitlines() if place.exists() else []
    return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM")), 0.0)


def in_turns(runs: dict[str, Callable[[], object]], process: int, repeats: int) -> dict[str, tuple[float, float]]:
    """The best seconds and processor seconds of each; a first round only warms up."""
    best: dict[str, tuple[float, float]] = {}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            if turn > 1 and best[name][0] > SLOW:
                continue
            start, before = time.perf_counter(), processor(process)
            run()
            found = time.perf_counter() - start, processor(process) - before
            if turn <= 1 or name not in best:
                best[name] = found
            else:
                best[name] = min(best[name][0], found[0]), min(best[name][1], found[1])
    return best


def spark(path: Path, rows: int, repeats: int) -> float:
    """One Markdown table; the seconds of the user-level query."""
    start = time.perf_counter()
    by_row, catalog = engine(str(path), "row")
    started = time.perf_counter() - start
    by_user, users = engine(str(path), "user_id")
    session = by_row._held.spark
    process = by_row._held.context._gateway.proc.pid
    runs = {
        "raw Spark": lambda: session.sql(RAW.format(path)).collect(),
        "Tacit, row-level": asked(by_row, catalog),
        "Tacit, user-level": asked(by_user, users),
    }
    best = in_turns(runs, process, repeats)
    print(f"\n### Spark, {rows:,} rows\n\n| | seconds | × raw | processor seconds | × raw |\n|---|---|---|---|---|")
    base = best["raw Spark"]
    for name, (seconds, work) in best.items():
        ratio = f"{work / base[1]:.2f}" if base[1] else "—"
        print(f"| {name} | {seconds:.2f} | {seconds / base[0]:.2f} | {work:.2f} | {ratio} |", flush=True)
    print(f"\nStart of Spark, and its trial: {started:.1f} s. Most memory of Java: {peak(process):.2f} GB.", flush=True)
    by_row.close()
    by_user.close()
    return best["Tacit, user-level"][0]


def bias(path: Path, rows: int, repeats: int) -> None:
    """One Markdown table: queries alone, and with the table of what bounding leaves out."""
    made, catalog = engine(str(path), "user_id")
    process = made._held.context._gateway.proc.pid
    print(f"\n### Spark, what bounding leaves out, {rows:,} rows\n")
    print("| query | | seconds | × alone | processor seconds | × alone |\n|---|---|---|---|---|---|")
    for query, sql in QUERIES.items():
        best = in_turns(with_table(made, catalog, sql), process, repeats)
        base = best["alone"]
        for name, (seconds, work) in best.items():
            ratio = f"{work / base[1]:.2f}" if base[1] else "—"
            print(f"| {query} | {name} | {seconds:.2f} | {seconds / base[0]:.2f} | {work:.2f} | {ratio} |", flush=True)
    made.close()


TUMULT = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
path, cities, categories, most = json.loads(sys.argv[1])
settings = {"spark.driver.memory": "4g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
from tmlt.analytics import AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session
session = Session.from_dataframe(privacy_budget=PureDPBudget(float("inf")), source_id="orders",
    dataframe=spark.read.parquet(path), protected_change=AddRowsWithID("user_id"))
keys = KeySet.from_dict({"city": cities, "category": categories})
# Limits of groups are for one column there; rows of a user are limited to as many as ours at most.
bounded = QueryBuilder("orders").enforce(MaxRowsPerID(most))
start = time.perf_counter()
for query in (bounded.groupby(keys).count(), bounded.groupby(keys).sum("amount", 0, 100)):
    session.evaluate(query, PureDPBudget(1.0)).collect()
print(json.dumps(time.perf_counter() - start))
"""


def tumult(python: str, path: Path, ours: float, seconds: float) -> None:
    """Tumult Analytics on the same file."""
    words = json.dumps([str(path), CITIES, CATEGORIES, GROUPS * ROWS])
    try:
        done = subprocess.run(
            [python, "-c", TUMULT, words],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env={**os.environ, "PYSPARK_PYTHON": python},
        )
    except subprocess.TimeoutExpired:
        print(f"\nTumult Analytics, user-level: not done after {seconds:.0f} s, {seconds / ours:.0f}x as long.")
        return
    if done.returncode != 0:
        print(f"\nTumult Analytics: {(done.stderr.strip().splitlines() or ['failed'])[-1][:200]}")
        return
    took = json.loads(done.stdout.splitlines()[-1])
    print(f"\nTumult Analytics, user-level, count and sum: {took:.1f} s, {took / ours:.1f}x as long.")


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bias", action="store_true", help="the cost of the table of what bounding leaves out")
    parser.add_argument("--data", help="a folder for the files; by default a temporary one")
    parser.add_argument("--tumult", help="a Python that has tmlt.analytics; it is asked about the first number of rows")
    parser.add_argument("--patience", type=float, default=1800, help="seconds to wait for Tumult")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(options.data or made)
        for place, rows in enumerate(options.rows):
            path = folder / f"orders{rows}.parquet"
            if not path.exists():
                generate(path, rows, USERS)
            if options.bias:
                bias(path, rows, options.repeats)
                continue
            ours = spark(path, rows, options.repeats)
            if options.tumult and place == 0:
                tumult(options.tumult, path, ours, options.patience)


if __name__ == "__main__":
    main()
