"""A private GROUP BY beside the same query without privacy and beside OpenDP-Polars, in one run.

    .venv/bin/python benchmarks/query.py [--rows 1000000 10000000] [--people 1000000] [--growth] [--quick] [--small]
        [--shapes]

The query: orders of 100,000 users (``--people``), ``GROUP BY city, category`` (20 × 10 public groups), COUNT, SUM
and AVG. Every contender runs in a process of its own, on two threads, and reports its peak memory; all take turns,
several times, and the best repeat counts. Processor time is that of all threads of the best repeat: it says what a
query costs where other work competes for the cores and the clock tells little.

"Raw" is DuckDB without any protection. Row-level treats every order as a person; user-level keeps at most 10 groups of
a user and 20 orders in each, which has to be found out first; with AUTO these numbers are found privately. A small
table shows what is left when there is little to read. ``--growth`` adds row-level runs up to 100 million rows. Prints
Markdown.

Small queries are what a server gets many of: ten groups of 100,000 rows, a ledger in a file, and all that the curator
does for a quote, for a repeat and for a new query. ``--small`` runs only these. Cold means a text never seen before,
warm one that was quoted a moment ago.

``--shapes`` runs only queries of other shapes, user-level, in the engine, each beside the same query to DuckDB
alone and, where it can, to OpenDP-Polars: private keys, quantiles, distinct values, a join of two protected tables, and
aggregates of per-person ones; of a million rows, or of those that ``--rows`` names.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

CITIES = tuple(f"city_{i:02d}" for i in range(20))
CATEGORIES = tuple(f"category_{i}" for i in range(10))
SQL = "SELECT city, category, COUNT(*), SUM(amount), AVG(amount) FROM orders GROUP BY city, category"
USERS, GROUPS, ROWS = 100_000, 10, 20
THREADS = 2
#: A contender that takes this many seconds is not repeated.
SLOW = 10.0


def generate(path: Path, rows: int, people: int) -> None:
    """Orders, in no order, as one Parquet file."""
    import duckdb

    with duckdb.connect() as made:
        made.execute(
            f"COPY (SELECT CAST(hash(i * 7 + 1) % {people} AS BIGINT) AS user_id,"
            f" 'city_' || lpad(CAST(hash(i * 13 + 5) % {len(CITIES)} AS VARCHAR), 2, '0') AS city,"
            f" 'category_' || CAST(hash(i * 17 + 3) % {len(CATEGORIES)} AS VARCHAR) AS category,"
            f" CAST(hash(i * 19 + 2) % 1000000 AS DOUBLE) / 10000 AS amount FROM range({rows}) AS r(i)) TO '{path}'"
        )


def raw(path: str) -> Callable[[], object]:
    """DuckDB alone."""
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    plain = f"SELECT city, category, COUNT(*), SUM(amount), AVG(amount) FROM '{path}' GROUP BY city, category"
    return lambda: connection.execute(plain).fetchall()


def orders(unit: str) -> Any:
    """The catalog of the one table, for a unit."""
    from tacit.query.catalog import Catalog, Column, Population, Table
    from tacit.query.types import DOUBLE, INTEGER, TEXT

    columns = (
        Column("user_id", INTEGER),
        Column("city", TEXT, categories=CITIES),
        Column("category", TEXT, categories=CATEGORIES),
        Column("amount", DOUBLE, bounds=(0.0, 100.0)),
    )
    table = Table("orders", columns, population="users", unit=unit, max_groups=GROUPS, max_rows=ROWS)
    return Catalog((table,), (Population("users"),))


def asked(made: Any, catalog: Any) -> Callable[[], object]:
    """The query to an engine: exact, bounded integers, before noise."""
    from tacit.engines.protocol import MeasurementTask
    from tacit.query.resolve import resolve

    work = MeasurementTask(resolve(SQL, catalog).final, b"benchmark")
    return lambda: made.measure(work)


def engine(path: str, unit: str) -> Callable[[], object]:
    """Tacit's engine on DuckDB."""
    from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits

    catalog = orders(unit)
    sources = {"orders": DataSource("parquet", path)}
    return asked(DuckDBEngine(catalog, sources, Limits(threads=THREADS)), catalog)


def curator(path: str, unit: str, *, auto: bool = False) -> Callable[[], object]:
    """The whole of Tacit: parse, plan, charge, measure, add noise, answer with intervals."""
    import tacit

    columns = {"city": list(CITIES), "category": list(CATEGORIES), "amount": (0.0, 100.0)}
    limits = {"max_groups": "auto", "max_rows": "auto"} if auto else {"max_groups": GROUPS, "max_rows": ROWS}
    opened = tacit.open(path, unit=unit, epsilon="1000", columns=columns, table="orders", **limits)
    asked = iter(range(1, 10**6))
    # The same query at the same price is answered from memory, so every run asks for another epsilon.
    return lambda: opened.sql(SQL, epsilon=f"0.5{next(asked):06d}")


def planner(path: str, unit: str) -> Callable[[], object]:
    """Everything before data is read: parse, resolve, price, and say what it would cost."""
    import tacit

    columns = {"city": list(CITIES), "category": list(CATEGORIES), "amount": (0.0, 100.0)}
    limits = {"max_groups": GROUPS, "max_rows": ROWS}
    opened = tacit.open(path, unit=unit, epsilon="1000", columns=columns, table="orders", **limits)
    asked = iter(range(1, 10**6))
    return lambda: opened.explain(SQL, epsilon=f"0.5{next(asked):06d}")


def small(path: str, unit: str, ask: str) -> Callable[[], object]:
    """Queries about ten groups, charged in a file: each with a constant of its own, or always the same."""
    import tacit

    columns = {"city": list(CITIES), "category": list(CATEGORIES), "amount": (0.0, 100.0)}
    limits = {"max_groups": GROUPS, "max_rows": ROWS, "ledger": Path(tempfile.mkdtemp()) / "small.ledger"}
    opened = tacit.open(path, unit=unit, epsilon="1000000", columns=columns, table="orders", **limits)
    asked = iter(range(1, 10**6))

    def sql() -> str:
        below = f"50.{next(asked):06d}"
        return (
            f"SELECT category, COUNT(*), SUM(amount), AVG(amount) FROM orders WHERE amount < {below} GROUP BY category"
        )

    same = sql()
    opened.sql(same, epsilon="0.5")
    return {
        "cold": lambda: opened.explain(sql(), epsilon="0.5"),
        "price": lambda: opened.explain(same, epsilon=f"0.5{next(asked):06d}"),
        "warm": lambda: opened.explain(same, epsilon="0.5"),
        "repeat": lambda: opened.sql(same, epsilon="0.5"),
        "fresh": lambda: opened.sql(sql(), epsilon="0.5"),
    }[ask]


def opendp(path: str, unit: str) -> Callable[[], object]:
    """OpenDP's Polars queries with the same limits; integer sums, which it noises less than floating-point ones."""
    import opendp.prelude as dp
    import polars as pl

    warnings.simplefilter("ignore", FutureWarning)
    dp.enable_features("contrib")
    by = ["city", "category"]
    identifier = {} if unit == "row" else {"identifier": pl.col(unit)}

    def run() -> object:
        context = dp.Context.compositor(
            data=pl.scan_parquet(path),
            privacy_unit=dp.unit_of(contributions=1, **identifier),
            privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-7),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=by, max_length=2 * 10**8, max_groups=200, invariant="keys")],
        )
        query = context.query()
        if identifier:
            query = query.truncate_per_group(ROWS, by=by, keep="first").truncate_num_groups(GROUPS, by=by, keep="first")
        amount = pl.col("amount").cast(int).fill_null(0)
        # Its mean is this sum over this length.
        return query.group_by(by).agg(dp.len(), amount.dp.sum((0, 100))).release().collect()

    return run


CONTENDERS: dict[str, Callable[[str], Callable[[], object]]] = {
    "raw DuckDB": raw,
    "Tacit, row-level, engine": lambda path: engine(path, "row"),
    "Tacit, row-level, answer": lambda path: curator(path, "row"),
    "Tacit, user-level, engine": lambda path: engine(path, "user_id"),
    "Tacit, user-level, answer": lambda path: curator(path, "user_id"),
    "Tacit, user-level with AUTO, answer": lambda path: curator(path, "user_id", auto=True),
    "OpenDP-Polars, row-level": lambda path: opendp(path, "row"),
    "OpenDP-Polars, user-level": lambda path: opendp(path, "user_id"),
}
#: For a small table.
LITTLE: dict[str, Callable[[str], Callable[[], object]]] = {
    "planning and explaining": lambda path: planner(path, "user_id"),
    "Tacit, row-level, answer": lambda path: curator(path, "row"),
    "Tacit, user-level, answer": lambda path: curator(path, "user_id"),
}

#: Typical load of a server.
SMALL: dict[str, Callable[[str], Callable[[], object]]] = {
    "quote, cold": lambda path: small(path, "user_id", "cold"),
    "quote, known text at another price": lambda path: small(path, "user_id", "price"),
    "quote, warm": lambda path: small(path, "user_id", "warm"),
    "free repeat": lambda path: small(path, "user_id", "repeat"),
    "fresh query, row-level": lambda path: small(path, "row", "fresh"),
    "fresh query, user-level": lambda path: small(path, "user_id", "fresh"),
}


_JOINED = (
    "SELECT city, COUNT(*), SUM(cost) FROM orders JOIN returns ON orders.user_id = returns.user_id"
    " AND orders.order_id = returns.order_id GROUP BY city"
)
_PER_PERSON = "FROM (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id)"
#: Queries of other shapes over the files of orders and returns, as the engine gets them.
SHAPES = {
    "10,000 private keys": "SELECT tag, COUNT(*), SUM(amount) FROM orders GROUP BY tag",
    "median per group": "SELECT city, MEDIAN(amount) FROM orders GROUP BY city",
    "distinct values per group": "SELECT city, COUNT(DISTINCT item) FROM orders GROUP BY city",
    "join of two protected tables": _JOINED,
    "mean of a per-person count": f"SELECT AVG(CLAMP(n, 0, 50)) {_PER_PERSON}",
}
#: As DuckDB gets them, where that is another text.
PLAIN = {"mean of a per-person count": f"SELECT AVG(LEAST(GREATEST(n, 0), 50)) {_PER_PERSON}"}


def generate_shapes(folder: Path, rows: int, people: int) -> None:
    """Orders with keys that are not declared, and returns of a tenth of them, as Parquet files."""
    import duckdb

    with duckdb.connect() as made:
        made.execute(
            f"COPY (SELECT i AS order_id, CAST(hash(i * 7 + 1) % {people} AS BIGINT) AS user_id,"
            f" 'city_' || lpad(CAST(hash(i * 13 + 5) % {len(CITIES)} AS VARCHAR), 2, '0') AS city,"
            " 'tag ' || CAST(hash(i * 17 + 3) % 10000 AS VARCHAR) AS tag,"
            " CAST(hash(i * 23 + 9) % 500 AS BIGINT) AS item,"
            f" CAST(hash(i * 19 + 2) % 1000000 AS DOUBLE) / 10000 AS amount FROM range({rows}) AS r(i))"
            f" TO '{folder / 'orders.parquet'}'"
        )
        made.execute(
            f"COPY (SELECT order_id, user_id, amount / 2 AS cost FROM '{folder / 'orders.parquet'}'"
            f" WHERE order_id % 10 = 0) TO '{folder / 'returns.parquet'}'"
        )


def shape(folder: str, name: str, *, private: bool) -> Callable[[], object]:
    """One query of another shape: bounded integers before noise, or DuckDB alone."""
    sql = SHAPES[name]
    files = {each: f"{folder}/{each}.parquet" for each in ("orders", "returns")}
    if not private:
        import duckdb

        connection = duckdb.connect(config={"threads": THREADS})
        for each, file in files.items():
            connection.execute(f"CREATE VIEW {each} AS SELECT * FROM '{file}'")
        return lambda: connection.execute(PLAIN.get(name, sql)).fetchall()
    from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
    from tacit.engines.protocol import MeasurementTask
    from tacit.query.catalog import Catalog, Column, Population, Table
    from tacit.query.resolve import resolve
    from tacit.query.types import DOUBLE, INTEGER, TEXT

    limits = {"population": "users", "unit": "user_id", "max_groups": GROUPS, "max_rows": ROWS}
    owned = (Column("order_id", INTEGER, unique=True), Column("user_id", INTEGER))
    columns = (
        Column("city", TEXT, categories=CITIES),
        Column("tag", TEXT),
        Column("item", INTEGER),
        Column("amount", DOUBLE, bounds=(0.0, 100.0)),
    )
    catalog = Catalog(
        (
            Table("orders", (*owned, *columns), **limits),
            Table("returns", (*owned, Column("cost", DOUBLE, bounds=(0.0, 50.0))), **limits),
        ),
        (Population("users"),),
    )
    sources = {each: DataSource("parquet", file) for each, file in files.items()}
    made = DuckDBEngine(catalog, sources, Limits(threads=THREADS))
    work = MeasurementTask(resolve(sql, catalog).final, b"benchmark")
    return lambda: made.measure(work)


def opendp_shape(folder: str, name: str) -> Callable[[], object]:
    """The same from OpenDP's Polars queries, where they can; a count comes beside, which they ask for."""
    import opendp.prelude as dp
    import polars as pl

    warnings.simplefilter("ignore", FutureWarning)
    dp.enable_features("contrib")
    steps = [quarter / 4 for quarter in range(401)]
    key, groups, asked = {
        "10,000 private keys": ("tag", 10_000, pl.col("amount").cast(int).fill_null(0).dp.sum((0, 100))),
        "median per group": ("city", 20, pl.col("amount").fill_nan(0.0).fill_null(0.0).dp.median(steps)),
        "distinct values per group": ("city", 20, pl.col("item").dp.n_unique()),
    }[name]
    known = {"invariant": "keys"} if key == "city" else {}

    def run() -> object:
        context = dp.Context.compositor(
            data=pl.scan_parquet(f"{folder}/orders.parquet"),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
            privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-7),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=[key], max_length=2 * 10**8, max_groups=groups, **known)],
        )
        query = context.query().truncate_per_group(ROWS, by=[key], keep="first")
        query = query.truncate_num_groups(GROUPS, by=[key], keep="first")
        return query.group_by([key]).agg(dp.len(), asked).release().collect()

    return run


SHAPED: dict[str, Callable[[str], Callable[[], object]]] = {
    **{
        f"{who}: {name}": partial(shape, name=name, private=who == "Tacit")
        for name in SHAPES
        for who in ("raw", "Tacit")
    },
    **{f"OpenDP: {name}": partial(opendp_shape, name=name) for name in list(SHAPES)[:3]},
}


@dataclass(frozen=True)
class Found:
    """The best of a contender: seconds, seconds of processor time, and peak GB."""

    seconds: float
    processor: float
    peak: float

    def better(self, other: Found) -> Found:
        """The best of both; memory is the most either took."""
        return Found(min(self.seconds, other.seconds), min(self.processor, other.processor), max(self.peak, other.peak))


def best_of(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The best seconds and processor seconds after a first run that warms caches; a slow first run counts itself."""
    best = _timed(run)
    for _ in range(0 if best[0] > SLOW else repeats):
        again = _timed(run)
        best = min(best[0], again[0]), min(best[1], again[1])
    return best


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    start, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - processor


def measured(name: str, path: Path, repeats: int) -> Found | str:
    """A contender in a process of its own; or why there is none."""
    command = [sys.executable, __file__, "--one", name, "--path", str(path), "--repeats", str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:100]
    return Found(*json.loads(done.stdout.splitlines()[-1]))


def in_turns(names: Iterable[str], path: Path, repeats: int, rounds: int) -> dict[str, Found | str]:
    """All contenders, one after the other, several times; slow ones once."""
    best: dict[str, Found | str] = {}
    for _ in range(rounds):
        for name in names:
            known = best.get(name)
            if isinstance(known, str) or (known is not None and known.seconds > SLOW):
                continue
            found = measured(name, path, repeats)
            best[name] = found if known is None or isinstance(found, str) else found.better(known)
    return best


def table(path: Path, rows: int, people: int, repeats: int, rounds: int) -> None:
    """One Markdown table."""
    print(
        f"\n### {rows:,} rows of {people:,} people\n\n"
        "| | seconds | × raw | processor seconds | × raw | peak GB |\n|---|---|---|---|---|---|"
    )
    best = in_turns(CONTENDERS, path, repeats, rounds)
    base = best["raw DuckDB"]
    for name, found in best.items():
        if isinstance(found, str) or isinstance(base, str):
            print(f"| {name} | — ({found}) | | | | |", flush=True)
            continue
        print(
            f"| {name} | {found.seconds:.3f} | {found.seconds / base.seconds:.2f} | {found.processor:.3f} "
            f"| {found.processor / base.processor:.2f} | {found.peak:.2f} |",
            flush=True,
        )


def little(title: str, names: Iterable[str], path: Path, repeats: int, rounds: int) -> None:
    """Print the cost of a query when there is little to read."""
    print(f"\n### {title}\n\n| | ms | processor ms |\n|---|---|---|")
    for name, found in in_turns(names, path, repeats, rounds).items():
        shown = (
            (found, "") if isinstance(found, str) else (f"{found.seconds * 1e3:.2f}", f"{found.processor * 1e3:.2f}")
        )
        print(f"| {name} | {shown[0]} | {shown[1]} |", flush=True)


def shapes(folder: Path, rows: int, people: int, repeats: int, rounds: int) -> None:
    """Queries of other shapes beside DuckDB alone."""
    print(
        f"\n### Other shapes, {rows:,} rows of {people:,} people\n\n"
        "| | raw processor s | Tacit processor s | × raw | × raw, seconds "
        "| raw peak GB | Tacit peak GB | OpenDP-Polars processor s |\n|---|---|---|---|---|---|---|---|"
    )
    generate_shapes(folder, rows, people)
    for name in SHAPES:
        names = [each for each in (f"raw: {name}", f"Tacit: {name}", f"OpenDP: {name}") if each in SHAPED]
        plain, private, *rivals = in_turns(names, folder, repeats, rounds).values()
        if isinstance(plain, str) or isinstance(private, str):
            print(f"| {name} | — ({plain}; {private}) | | | | | | |", flush=True)
            continue
        rival = "—" if not rivals else rivals[0] if isinstance(rivals[0], str) else f"{rivals[0].processor:.3f}"
        print(
            f"| {name} | {plain.processor:.3f} | {private.processor:.3f} | {private.processor / plain.processor:.1f} "
            f"| {private.seconds / plain.seconds:.1f} | {plain.peak:.2f} | {private.peak:.2f} | {rival} |",
            flush=True,
        )


def growth(folder: Path, repeats: int, rounds: int) -> None:
    """Row-level time and memory against the number of rows."""
    print(
        "\n### Row-level, growing\n\n"
        "| rows | raw s | Tacit s | × raw | × raw, processor | raw peak GB | Tacit peak GB |\n"
        "|---|---|---|---|---|---|---|"
    )
    for rows in (10**6, 10**7, 10**8):
        path = folder / f"growth_{rows}.parquet"
        generate(path, rows, USERS)
        plain, private = in_turns(list(CONTENDERS)[:2], path, repeats, rounds).values()
        path.unlink()
        if not isinstance(plain, str) and not isinstance(private, str):
            print(
                f"| {rows:,} | {plain.seconds:.3f} | {private.seconds:.3f} | {private.seconds / plain.seconds:.2f} "
                f"| {private.processor / plain.processor:.2f} | {plain.peak:.2f} | {private.peak:.2f} |",
                flush=True,
            )


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--growth", action="store_true", help="row-level up to 100 million rows")
    parser.add_argument("--quick", action="store_true", help="one million rows, two repeats")
    parser.add_argument("--small", action="store_true", help="only the small queries")
    parser.add_argument("--shapes", action="store_true", help="only queries of other shapes")
    parser.add_argument("--people", type=int, default=USERS, help="whose the orders are")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="how often the contenders take turns")
    parser.add_argument("--one", choices=[*CONTENDERS, *LITTLE, *SMALL, *SHAPED], help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        best = best_of({**LITTLE, **SMALL, **CONTENDERS, **SHAPED}[chosen.one](chosen.path), chosen.repeats)
        print(json.dumps([*best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))
        return
    repeats, rounds = (2, 1) if chosen.quick else (chosen.repeats, chosen.rounds)
    print(f"## Queries\n\nGROUP BY {len(CITIES)} cities × {len(CATEGORIES)} categories, {THREADS} threads.")
    with tempfile.TemporaryDirectory() as folder:
        if chosen.shapes:
            for rows in chosen.rows or [10**6]:
                shapes(Path(folder), rows, chosen.people, repeats, rounds)
            return
        for rows in [] if chosen.small else [10**6] if chosen.quick else chosen.rows or [10**6, 10**7]:
            path = Path(folder) / f"orders_{rows}.parquet"
            generate(path, rows, chosen.people)
            table(path, rows, chosen.people, repeats, rounds)
            path.unlink()
        path = Path(folder) / "little.parquet"
        generate(path, 10**5, USERS)
        if not chosen.small:
            little("A table of 100,000 rows", LITTLE, path, 4 * repeats, rounds)
        little("Small queries", SMALL, path, 20 * repeats, rounds)
        if chosen.growth:
            growth(Path(folder), repeats, rounds)


if __name__ == "__main__":
    main()
