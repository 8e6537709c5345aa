"""A search for queries whose work depends on one person, in processor time, on neighbouring databases.

    python benchmarks/work_search.py [--engine duckdb|postgres|spark] [--rows 400000] [--repeats 5] [--control]

Each query gates a dear expression over everybody's rows (LIKE, regular expressions, casts, CASE, windows, sorts,
DISTINCT) by the rows of one person (joins of each kind, IN, NOT IN, EXISTS, correlated values, parts of a UNION, joins
that multiply rows). Both databases have the same table, but for the one or more rows of that person. An engine
measures them in turns; what counts is the processor time of this process and of the database's. Prints a Markdown
table of medians: without the person, with, the difference of medians (and of the fastest runs), and the nanoseconds for
each of the row operations that :func:`tacit.query.planning.work.whole_work` states. The largest of these is what
``operation_seconds`` of an engine must exceed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# In place of the folder of the benchmarks, where "engines" is another module.
sys.path[0] = str(Path(__file__).parent.parent / "tests")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from tacit.core.errors import EngineError  # noqa: E402
from tacit.engines.protocol import Engine, Limits, MeasurementTask  # noqa: E402
from tacit.query.catalog import Catalog, Column, Population, Table  # noqa: E402
from tacit.query.planning.work import whole_work  # noqa: E402
from tacit.query.refusal import Refusal  # noqa: E402
from tacit.query.resolve import resolve  # noqa: E402
from tacit.query.types import INTEGER, TEXT  # noqa: E402

SECRET = b"secret"
#: One person, and the rows that they have.
PERSON, OWN = 7, 3
_TICKS = os.sysconf("SC_CLK_TCK")

#: Expressions that are dear, over the rows of a table called b.
DEAR = {
    "LIKE": " AND ".join(f"b.note NOT LIKE '%{letter}%q{letter}%'" for letter in "abcdefgh"),
    "regexp": "NOT REGEXP_MATCHES(b.note, '[a-f]{3}x[0-9]{2}') AND NOT REGEXP_MATCHES(b.note, 'q[a-z]{2}z')",
    "case and cast": "UPPER(CAST(b.cost AS VARCHAR) || b.note) <> 'X' AND REPLACE(LOWER(b.note), 'a', 'bc') <> 'X'",
    "plain": "b.cost * 3 + b.day <> -1",
}
#: The rows of one person.
ONE = f"SELECT v.patient, v.cost, v.day FROM visits v WHERE v.ward = 'rare' AND v.patient = {PERSON}"


def gates(dear: str) -> dict[str, str]:
    """Queries in which the rows of one person decide about expressions over everybody's."""
    all_rows = f"SELECT b.patient, b.cost, b.day, b.note FROM visits b WHERE {dear}"
    grouped = f"SELECT b.patient, COUNT(*) AS cost, MAX(b.day) AS day FROM visits b WHERE {dear} GROUP BY b.patient"
    window = f"SELECT b.patient, b.cost, ROW_NUMBER() OVER (PARTITION BY b.patient ORDER BY b.note) AS day FROM visits b WHERE {dear}"
    distinct = f"SELECT DISTINCT b.patient, b.ward, b.cost AS cost, b.day FROM visits b WHERE {dear}"
    median = (
        f"SELECT b.patient, MEDIAN(b.cost) AS cost, MAX(b.day) AS day FROM visits b WHERE {dear} GROUP BY b.patient"
    )
    count = "SELECT COUNT(*) FROM"
    return {
        "join": f"{count} ({all_rows}) x JOIN ({ONE}) g ON x.patient = g.patient",
        "join, gate first": f"{count} ({ONE}) g JOIN ({all_rows}) x ON x.patient = g.patient",
        "join of groups": f"{count} ({grouped}) x JOIN (SELECT patient FROM ({ONE}) q GROUP BY patient) g ON x.patient = g.patient",
        "groups, gate first": f"{count} (SELECT patient FROM ({ONE}) q GROUP BY patient) g JOIN ({grouped}) x ON x.patient = g.patient",
        "join of windows": f"{count} ({window}) x JOIN ({ONE}) g ON x.patient = g.patient",
        "join of DISTINCT": f"{count} ({distinct}) x JOIN ({ONE}) g ON x.patient = g.patient",
        "join of medians": f"{count} ({median}) x JOIN ({ONE}) g ON x.patient = g.patient",
        "join, inequality": f"{count} ({all_rows}) x JOIN ({ONE}) g ON x.patient = g.patient AND x.day >= g.day",
        "left": f"{count} ({all_rows}) x LEFT JOIN ({ONE}) g ON x.patient = g.patient WHERE g.cost >= 0",
        "left, gate first": f"{count} ({ONE}) g LEFT JOIN ({all_rows}) x ON x.patient = g.patient",
        "right": f"{count} ({all_rows}) x RIGHT JOIN ({ONE}) g ON x.patient = g.patient",
        "full": f"{count} ({all_rows}) x FULL JOIN ({ONE}) g ON x.patient = g.patient WHERE g.cost >= 0",
        "IN": f"{count} ({all_rows}) x WHERE x.patient IN (SELECT patient FROM ({ONE}) g)",
        "IN, gate first": f"{count} ({ONE}) g WHERE g.patient IN (SELECT patient FROM ({all_rows}) x)",
        "NOT IN, gate first": f"{count} ({ONE}) g WHERE g.patient NOT IN (SELECT patient FROM ({all_rows}) x)",
        "EXISTS": f"{count} ({all_rows}) x WHERE EXISTS (SELECT 1 FROM ({ONE}) g WHERE g.patient = x.patient)",
        "EXISTS, gate first": f"{count} ({ONE}) g WHERE EXISTS (SELECT 1 FROM ({all_rows}) x WHERE g.patient = x.patient)",
        "EXISTS, inequality": f"{count} ({ONE}) g WHERE EXISTS (SELECT 1 FROM ({all_rows}) x WHERE g.patient = x.patient AND x.day > g.day)",
        "NOT EXISTS": f"{count} ({all_rows}) x WHERE NOT EXISTS (SELECT 1 FROM ({ONE}) g WHERE g.patient = x.patient)",
        "correlated value": f"{count} ({ONE}) g WHERE g.cost < (SELECT MAX(x.cost) FROM ({all_rows}) x WHERE x.patient = g.patient)",
        "value, gate inside": f"{count} ({all_rows}) x WHERE x.cost < (SELECT MAX(g.cost) FROM ({ONE}) g WHERE x.patient = g.patient)",
        "UNION part": f"{count} (SELECT patient, cost FROM ({all_rows}) x UNION ALL SELECT patient, cost FROM ({ONE}) g) u JOIN ({ONE}) h ON u.patient = h.patient",
        "UNION of gates": f"{count} ({all_rows}) x JOIN (SELECT patient FROM ({ONE}) g UNION ALL SELECT patient FROM ({ONE}) h) u ON u.patient = x.patient",
        "join twice": f"{count} ({all_rows}) x JOIN ({all_rows}) y ON x.patient = y.patient AND x.day = y.day JOIN ({ONE}) g ON g.patient = y.patient",
        "keys and gate": f"SELECT u.ward, COUNT(*) FROM (SELECT b.patient, b.ward FROM visits b WHERE {dear}) u JOIN ({ONE}) g ON u.patient = g.patient GROUP BY u.ward",
        "condition": f"{count} visits b WHERE b.ward = 'rare' AND {dear}",
        "CASE": f"SELECT SUM(CLAMP(CASE WHEN b.ward = 'rare' AND {dear} THEN 1 ELSE 0 END, 0, 1)) FROM visits b",
        "DISTINCT": f"SELECT COUNT(DISTINCT b.day) FROM visits b WHERE b.ward = 'rare' AND {dear}",
        "median": f"SELECT MEDIAN(CLAMP(b.cost, 0, 1000)) FROM visits b WHERE b.ward = 'rare' AND {dear}",
    }


def frames(rows: int, own: int) -> dict[str, pa.Table]:
    """A table of visits; ``own`` of the rows are of the person."""
    dice = np.random.default_rng(5)
    number = np.arange(rows)
    words = np.array(["".join(dice.choice(list("abcdefghijklmnop "), 40)) for _ in range(997)])
    patient = np.concatenate([1000 + number % max(rows // 5, 1), np.full(own, PERSON)])
    ward = np.concatenate([np.array(["a", "b", "c"])[number % 3], np.full(own, "rare")])
    both = np.concatenate([number, np.arange(own)])
    return {
        "visits": pa.table(
            {
                "patient": pa.array(patient, pa.int64()),
                "ward": pa.array(ward, pa.string()),
                "cost": pa.array(both * 37 % 1000, pa.int64()),
                "day": pa.array(both * 7 % 365, pa.int64()),
                # Different texts: a database may compute an expression once for each entry of a dictionary.
                "note": pa.array([f"{words[i % len(words)]} {i}" for i in both.tolist()], pa.string()),
            }
        )
    }


def catalog(rows: int) -> Catalog:
    """Its metadata."""
    columns = (
        Column("patient", INTEGER, nullable=False),
        Column("ward", TEXT, categories=("a", "b", "c", "rare"), nullable=False),
        Column("cost", INTEGER, bounds=(0, 1000), nullable=False),
        Column("day", INTEGER, bounds=(0, 365), nullable=False),
        Column("note", TEXT, nullable=False),
    )
    table = Table("visits", columns, population="patients", unit="patient", max_groups=4, unit_rows=16, table_rows=rows)
    return Catalog((table,), (Population("patients"),))


Measure = Callable[[Any], object]


def of_processes(roots: Iterable[int]) -> float:
    """Processor seconds of this process and of some others, with all below them, ended ones included."""
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split() if folder.name.isdigit() else []
            if words:
                # In nanoseconds where a process has one thread; threads that have ended are in the ticks alone.
                own = sum(map(int, words[11:13])) / _TICKS
                alone = int(words[17]) == 1
                own = int((folder / "schedstat").read_text().split()[0]) / 1e9 if alone else own
                parents[int(folder.name)], used[int(folder.name)] = (
                    int(words[1]),
                    own + sum(map(int, words[13:15])) / _TICKS,
                )
        except (OSError, ValueError):
            continue
    wanted, more = set(), {os.getpid(), *roots}
    while more:
        wanted |= more
        more = {pid for pid, parent in parents.items() if parent in wanted} - wanted
    used[os.getpid()] = time.process_time()
    return sum(used.get(pid, 0) for pid in wanted)


@contextmanager
def pair(name: str, rows: int, own: int = OWN) -> Iterator[tuple[Engine, Engine, Callable[[], float]]]:
    """Engines on the database without the person and with, and the clock of their processors."""
    made, stored = catalog(rows), (frames(rows, 0), frames(rows, own))
    if name == "duckdb":
        import pyarrow.parquet as pq

        from tacit.engines.duckdb import DataSource, DuckDBEngine

        with tempfile.TemporaryDirectory(prefix="tacit-bench-") as place:
            engines = []
            for which, data in enumerate(stored):
                path = str(Path(place) / f"{which}.parquet")
                pq.write_table(data["visits"], path)
                engines.append(DuckDBEngine(made, {"visits": DataSource("parquet", path, None)}, Limits(threads=1)))
            yield engines[0], engines[1], time.process_time
            for engine in engines:
                engine.close()
    elif name == "postgres":
        import psycopg

        from engines.makers import database, load
        from support.postgres import processes
        from tacit.engines.postgres import PostgresEngine

        names = [load(data) for data in stored]
        with psycopg.connect(database(), autocommit=True) as connection:
            for each in names:
                connection.execute(f"VACUUM ANALYZE {each['visits']}".encode())
        one, other = (PostgresEngine(made, each, database(), Limits(threads=1)) for each in names)
        yield one, other, lambda: of_processes(processes)
        one.close()
        other.close()
    else:
        import pyarrow.parquet as pq

        from engines_spark import local_session
        from tacit.engines.duckdb import DataSource
        from tacit.engines.spark import SparkEngine

        with tempfile.TemporaryDirectory(prefix="tacit-bench-") as place:
            paths = []
            for which, data in enumerate(stored):
                paths.append(str(Path(place) / f"{which}.parquet"))
                pq.write_table(data["visits"], paths[-1])
            one, other = (
                SparkEngine(made, {"visits": DataSource("parquet", path, None)}, session=local_session(1))
                for path in paths
            )
            yield one, other, lambda: of_processes(())
            one.close()
            other.close()


def search(chosen: argparse.Namespace) -> None:
    """The table of the search."""
    known = catalog(chosen.rows)
    print(
        "| gate | expression | without, ms | with, ms | difference | ns for a row operation |\n|---|---|---:|---:|---:|---:|"
    )
    with pair(chosen.engine, chosen.rows, 0 if chosen.control else OWN) as (without, there, clock):
        for dear, expression in DEAR.items():
            if chosen.dear and dear not in chosen.dear:
                continue
            for gate, sql in gates(expression).items():
                if chosen.gate and gate not in chosen.gate:
                    continue
                try:
                    final = resolve(sql, known).final
                except Refusal as refused:
                    print(f"| {gate} | {dear} | refused: {str(refused)[:100]} |", flush=True)
                    continue
                task = MeasurementTask(final, SECRET)
                taken: tuple[list[float], list[float]] = ([], [])
                try:
                    for repeat in range(chosen.repeats + 1):
                        for place in (0, 1) if repeat % 2 else (1, 0):
                            begun = clock()
                            (without, there)[place].measure(task)
                            # The first run of each opens copies and plans.
                            if repeat:
                                taken[place].append(clock() - begun)
                except EngineError as problem:
                    print(f"| {gate} | {dear} | failed: {problem} |", flush=True)
                    continue
                one, other = (1000 * statistics.median(times) for times in taken)
                least = 1000 * (min(taken[1]) - min(taken[0]))
                mark = " **" if min(other - one, least) > max(1, 0.05 * one) else ""
                cost = 1e6 * one / whole_work(final).operations
                print(
                    f"| {gate} | {dear} | {one:.2f} | {other:.2f} | {other - one:+.2f} ({least:+.2f}){mark} | {cost:.0f} |",
                    flush=True,
                )


def main() -> None:
    """The table of the engine that is named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["duckdb", "postgres", "spark"], default="duckdb")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--control", action="store_true", help="the same database twice: what chance does")
    parser.add_argument("--dear", nargs="*")
    parser.add_argument("--gate", nargs="*")
    search(parser.parse_args())


if __name__ == "__main__":
    main()
