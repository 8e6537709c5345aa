"""Answers beside the truth: which share of the intervals shown holds what the analyst asked for.

    .venv/bin/python benchmarks/honesty.py [--people 20000] [--epsilon 1] [--limits auto] [--cells 1]
    .venv/bin/python benchmarks/honesty.py --epsilon 0.3 1 3 --limits declared raised auto --cells 500 --summary

Three made-up schemas (an app, a shop, a hospital) with people of very different activity, and bounds that a careful
owner would choose. Every query is asked once of the curator and once of plain DuckDB over the same files, as the
analyst means it: without limits on rows or groups of a person, without clipping. A cell counts as right if its
interval, at 95 %, holds the plain value. Limits and clipping are not noise, so nothing promises that of the plain
interval; the widened one (``intervals(bias=True)``) allows for the estimate of what was left out, and the one that is
shown does so where that makes it less than three times as wide, or where it is sure to have moved the answer. The
table has all shares and widths; below it, how many of the wrong plain intervals are marked. By
default limits are AUTO: found privately within the price; ``--limits declared`` takes the owner's numbers, and
``raised`` limits that few people exceed. A kind of query is asked until it has as many cells as ``--cells`` says:
with 500 of them a kind that is right in 92 % is told apart from one that is right in 95 %. Every time the price is
higher by a billionth, so that nothing is a repeat. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

import tacit

PROJECT = """
[project]
name = "honesty"

[populations.users]
epsilon = "1000000"
[populations.customers]
epsilon = "1000000"
[populations.patients]
epsilon = "1000000"

[tables.events]
source = "events.parquet"
population = "users"
unit = "user_id"
max_groups = 6
max_rows = 4
[tables.events.columns]
user_id = { type = "integer" }
day = { type = "date", bounds = ["2024-01-01", "2024-03-24"] }
hour = { type = "integer", bounds = [0, 23] }
action = { type = "text", categories = ["open", "search", "buy", "share"] }
seconds = { type = "integer", bounds = [0, 300] }

[tables.customers]
source = "customers.parquet"
population = "customers"
unit = "customer"
[tables.customers.columns]
customer = { type = "integer", unique = true }
country = { type = "text", categories = ["AT", "CH", "DE", "FR", "IT"] }

[tables.orders]
source = "orders.parquet"
population = "customers"
unit = "customer"
max_groups = 6
max_rows = 5
[tables.orders.columns]
customer = { type = "integer" }
category = { type = "text", categories = ["books", "food", "garden", "music", "toys"] }
month = { type = "integer", bounds = [1, 12] }
amount = { type = "decimal", bounds = [0, 200], step = "0.01" }

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient"
max_groups = 3
max_rows = 3
[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", categories = ["cardiology", "oncology", "surgery"] }
nights = { type = "integer", bounds = [0, 14] }
cost = { type = "integer", bounds = [0, 5000] }
"""


@dataclass(frozen=True)
class Asked:
    """A query, its kind, and the columns that are keys."""

    kind: str
    sql: str
    keys: int = 0


#: Kind, number of keys, and text.
TEXT = """
rows             | 0 | SELECT COUNT(*) AS n FROM events
rows             | 0 | SELECT COUNT(*) AS n FROM orders
rows             | 0 | SELECT COUNT(*) AS n FROM visits
people           | 0 | SELECT COUNT(DISTINCT user_id) AS n FROM events
people           | 0 | SELECT COUNT(DISTINCT customer) AS n FROM orders WHERE category = 'toys'
people           | 0 | SELECT COUNT(*) AS n FROM customers
people by week   | 1 | SELECT CAST(date_trunc('week', day) AS DATE), COUNT(DISTINCT user_id) FROM events GROUP BY 1
people by month  | 1 | SELECT month, COUNT(DISTINCT customer) AS n FROM orders GROUP BY 1
heat map         | 2 | SELECT isodow(day) AS d, hour, COUNT(*) AS n FROM events GROUP BY 1, 2
keys in WHERE    | 1 | SELECT month, COUNT(DISTINCT customer) AS n FROM orders WHERE month <= 3 GROUP BY 1
keys in WHERE    | 1 | SELECT day, COUNT(DISTINCT user_id) FROM events WHERE day < DATE '2024-01-04' GROUP BY 1
rows by category | 1 | SELECT action, COUNT(*) AS n FROM events GROUP BY 1
rows by category | 1 | SELECT category, COUNT(*) AS n FROM orders GROUP BY 1
rows by category | 1 | SELECT ward, COUNT(*) AS n FROM visits WHERE ward <> 'unknown' GROUP BY 1
sums             | 0 | SELECT SUM(amount) AS s FROM orders
sums             | 1 | SELECT category, SUM(amount) AS s FROM orders GROUP BY 1
clipped sums     | 0 | SELECT SUM(cost) AS s FROM visits
means            | 0 | SELECT AVG(amount) AS m FROM orders
means            | 0 | SELECT AVG(nights) AS m FROM visits
means            | 1 | SELECT ward, AVG(nights) AS m FROM visits WHERE ward <> 'unknown' GROUP BY 1
clipped means    | 0 | SELECT AVG(seconds) AS m FROM events
clipped means    | 0 | SELECT AVG(cost) AS m FROM visits
means of people  | 0 | SELECT AVG(n) AS m FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY 1)
means of people  | 0 | SELECT AVG(n) AS m FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY 1)
means of people  | 0 | SELECT AVG(t) AS m FROM (SELECT patient, SUM(nights) AS t FROM visits GROUP BY 1)
active people    | 0 | SELECT COUNT(*) FILTER (WHERE n > 2) FROM (SELECT user_id, COUNT(*) n FROM events GROUP BY 1)
people by number | 1 | SELECT n, COUNT(*) FROM (SELECT patient, COUNT(*) n FROM visits GROUP BY 1) WHERE n<6 GROUP BY 1
people by trait  | 1 | SELECT country, COUNT(DISTINCT customer) FROM orders JOIN customers USING (customer) GROUP BY 1
rows by trait    | 1 | SELECT country, COUNT(*) AS n FROM orders JOIN customers USING (customer) GROUP BY 1
"""


def queries() -> list[Asked]:
    """The queries of :data:`TEXT`."""
    parts = [line.split("|", 2) for line in TEXT.strip().splitlines()]
    return [Asked(kind.strip(), sql.strip(), int(keys)) for kind, keys, sql in parts]


def write_tables(folder: Path, people: int) -> None:
    """Made-up people; few of them are very active."""
    with duckdb.connect() as made:
        made.execute(
            f"CREATE TABLE person AS SELECT i AS id, 1 + CAST(floor(-ln(1 - (hash(i * 31) % 99991) / 100000.0) * "
            f"(1 + 6 * (hash(i * 37) % 10 = 0)::INT) * 3) AS INT) AS rows FROM range({people}) AS r(i)"
        )
        made.execute("CREATE TABLE row AS SELECT id, unnest(range(rows)) AS k FROM person")
        tables = {
            "events": "SELECT id AS user_id, DATE '2024-01-01' + CAST(hash(id * 3 + k * 7) % 84 AS INT) AS day, "
            "CAST(hash(id * 5 + k * 11) % 24 AS INT) AS hour, "
            "['open', 'search', 'buy', 'share'][1 + CAST(hash(id + k * 13) % 4 AS BIGINT)] AS action, "
            "CAST(floor(-ln(1 - (hash(id * 17 + k) % 99991) / 100000.0) * 120) AS INT) AS seconds FROM row",
            "customers": "SELECT id AS customer, "
            "['AT', 'CH', 'DE', 'FR', 'IT'][1 + CAST(hash(id * 7) % 5 AS BIGINT)] AS country FROM person",
            "orders": "SELECT id AS customer, "
            "['books', 'food', 'garden', 'music', 'toys'][1 + CAST(hash(id * 3 + k) % 5 AS BIGINT)] AS category, "
            "CAST(1 + hash(id + 7 * k) % 12 AS INT) AS month, "
            "CAST((hash(id * 11 + k) % 19000) / 100.0 AS DECIMAL(18, 2)) AS amount FROM row",
            "visits": "SELECT id AS patient, CASE WHEN hash(id + k * 3) % 10 = 0 THEN 'unknown' ELSE "
            "['cardiology', 'oncology', 'surgery'][1 + CAST(hash(id * 13 + k) % 3 AS BIGINT)] END AS ward, "
            "CAST(hash(id * 3 + k * 5) % 12 AS INT) AS nights, CAST(hash(id + k * 17) % 6500 AS INT) AS cost FROM row "
            "WHERE k < 6",
        }
        for name, sql in tables.items():
            made.execute(f"COPY ({sql}) TO '{folder / name}.parquet'")


def plain(folder: Path, query: Asked) -> dict[tuple[Any, ...], float]:
    """Cells of the query without privacy, by their keys."""
    with duckdb.connect() as raw:
        for name in ("events", "customers", "orders", "visits"):
            raw.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
        rows = raw.execute(query.sql).fetchall()
    return {row[: query.keys]: float(row[query.keys]) for row in rows}


@dataclass(frozen=True)
class Judged:
    """A cell: whether its intervals hold the truth, its error, widths, and whether it is marked.

    Args:
        holds: of the plain interval.
        widened: of the one that allows for what was left out.
        error: of the value, in parts of the truth.
        factor: width of the widened interval over that of the plain one; infinite where it has no end.
        marked: whether the answer says that the bias may exceed the interval.
        shown: whether the interval that is shown holds the truth.
        noise_width: half the width of the plain interval, in parts of the truth.
        width: likewise of the interval that is shown.
    """

    holds: bool
    widened: bool
    error: float
    factor: float
    marked: bool
    shown: bool
    noise_width: float
    width: float


def judged(answer: Any, truth: dict[tuple[Any, ...], float], keys: int) -> list[Judged]:
    """Every cell of an answer beside the truth."""
    names = list(answer.to_arrow().column_names)
    value = names[keys]
    tables = (
        answer.intervals(bias=False).to_pylist(),
        answer.intervals(bias=True).to_pylist(),
        answer.intervals().to_pylist(),
    )
    found = []
    for row, wide, seen, marks in zip(*tables, answer.finished.marked(), strict=True):
        real = truth.get(tuple(row[name] for name in names[:keys]), 0.0)
        (low, high), (least, most), (below, above) = (_ends(each, value) for each in (row, wide, seen))
        error = abs(float(row[value]) - real) / max(abs(real), 1.0)
        factor = (most - least) / (high - low) if high > low else 1.0
        widths = [(end - start) / 2 / max(abs(real), 1.0) for start, end in ((low, high), (below, above))]
        found.append(
            Judged(
                low <= real <= high, least <= real <= most, error, factor, marks[keys], below <= real <= above, *widths
            )
        )
    return found


def _ends(row: dict[str, Any], value: str) -> tuple[float, float]:
    low, high = row[f"{value}_low"], row[f"{value}_high"]
    return (-math.inf if low is None else float(low), math.inf if high is None else float(high))


#: Limits of the query, by name.
LIMITS: dict[str, dict[str, Any]] = {
    "auto": {"max_groups": "auto", "max_rows": "auto"},
    "declared": {},
    "raised": {"max_groups": 24, "max_rows": 32},
}


def kinds_of(folder: Path, price: str, limits: str, cells: int, wanted: Sequence[str]) -> dict[str, list[list[Judged]]]:
    """Answers of every kind of query, as many as have some number of cells together; of a new project."""
    by_kind: dict[str, list[tuple[Asked, dict[tuple[Any, ...], float]]]] = defaultdict(list)
    for query in (each for each in queries() if not wanted or each.kind in wanted):
        by_kind[query.kind].append((query, plain(folder, query)))
    found: dict[str, list[list[Judged]]] = defaultdict(list)
    with TemporaryDirectory(dir=folder) as place:
        for table in folder.glob("*.parquet"):
            (Path(place) / table.name).hardlink_to(table)
        (Path(place) / "tacit.toml").write_text(PROJECT)
        curator = tacit.open(Path(place) / "tacit.toml")
        for kind, asked in by_kind.items():
            for turn in range(max(1, -(-cells // sum(len(truth) for _, truth in asked)))):
                epsilon = str(Decimal(price) * (1 + turn * Decimal("1e-9")))
                for query, truth in asked:
                    answer = curator.sql(query.sql, epsilon=epsilon, **LIMITS[limits])
                    if not answer.charge.amounts:
                        raise RuntimeError(f"{query.sql} was answered from an earlier answer")
                    found[kind].append(judged(answer, truth, query.keys))
        curator.close()
    return found


def below(cells: list[Judged]) -> bool:
    """Whether widened intervals hold the truth in less than 95 %, by more than chance.

    Cells of one answer share a table of what was left out, so that this is a guide and no test.
    """
    right, count = sum(cell.widened for cell in cells), len(cells)
    chance = sum(math.comb(count, k) * 0.95**k * 0.05 ** (count - k) for k in range(right + 1))
    return chance < 0.01


def print_kinds(kinds: dict[str, list[list[Judged]]]) -> None:
    """A line for each kind."""
    print(
        "| kind of query | answers | cells | intervals shown that hold the truth | of noise alone | widened ones "
        "| times as wide | median error | half width shown | of noise alone |"
    )
    print("|---|" + "---:|" * 9)
    for kind, found in kinds.items():
        cells = [cell for answer in found for cell in answer]
        shares = [sum(getattr(cell, name) for cell in cells) / len(cells) for name in ("shown", "holds", "widened")]
        error, factor, width, alone = (
            median(getattr(cell, name) for cell in cells) for name in ("error", "factor", "width", "noise_width")
        )
        numbers = [
            *(f"{share:.1%}" for share in shares),
            f"{factor:,.3g}",
            f"{error:.2%}",
            f"{width:.2%}",
            f"{alone:.2%}",
        ]
        print(f"| {kind} | {len(found)} | {len(cells)} | {' | '.join(numbers)} |")
    asked = [answer for found in kinds.values() for answer in found]
    for name, words in (("holds", "intervals"), ("widened", "widened intervals")):
        good = sum(sum(getattr(cell, name) for cell in answer) >= 0.9 * len(answer) for answer in asked)
        print(f"\n{good} of {len(asked)} answers have at least nine in ten {words} right.")
    for words, chosen in (("", kinds), (", apart from clipped values", [k for k in kinds if "clipped" not in k])):
        cells = [cell for kind in chosen for answer in kinds[kind] for cell in answer]
        print(
            f"\nShown intervals hold the truth in {sum(cell.shown for cell in cells) / len(cells):.1%} of cells"
            f"{words}; half width, median {median(cell.width for cell in cells):.2%}, of noise alone "
            f"{median(cell.noise_width for cell in cells):.2%}"
        )
    low = [kind for kind, found in kinds.items() if below([cell for answer in found for cell in answer])]
    print(f"\nKinds below 95 % with widened intervals, by more than chance: {', '.join(low) or 'none'}")
    wrong = [cell for answer in asked for cell in answer if not cell.holds]
    said = sum(cell.marked for cell in wrong)
    print(f"\nOf {len(wrong)} cells whose interval is wrong {said} are marked.\n", flush=True)


def print_summary(found: dict[tuple[str, str], dict[str, list[list[Judged]]]]) -> None:
    """A line for each kind and a column for each setting: widened intervals that hold the truth, and plain ones."""
    print("| kind of query | " + " | ".join(f"{limits}, ε {price}" for limits, price in found) + " |")
    print("|---|" + "---:|" * len(found))
    for kind in next(iter(found.values())):
        line = []
        for kinds in found.values():
            cells = [cell for answer in kinds[kind] for cell in answer]
            wide, right = (sum(getattr(cell, name) for cell in cells) / len(cells) for name in ("widened", "holds"))
            mark = "**" if below(cells) else ""
            line.append(f"{mark}{wide:.1%}{mark} ({right:.0%})")
        print(f"| {kind} | " + " | ".join(line) + " |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--epsilon", nargs="+", default=["1"])
    parser.add_argument("--limits", nargs="+", choices=[*LIMITS], default=["auto"])
    parser.add_argument("--cells", type=int, default=1, help="of each kind of query, at least")
    parser.add_argument("--kinds", nargs="+", default=[], help="of queries; all unless some are named")
    parser.add_argument("--summary", action="store_true", help="one table of all settings, too")
    wanted = parser.parse_args()
    found = {}
    with TemporaryDirectory() as place:
        write_tables(Path(place), wanted.people)
        for limits in wanted.limits:
            for price in wanted.epsilon:
                begun = time.process_time()
                kinds = kinds_of(Path(place), price, limits, wanted.cells, wanted.kinds)
                found[limits, price] = kinds
                spent = time.process_time() - begun
                print(f"{wanted.people:,} people, epsilon {price} a query, {limits} limits ({spent:.0f} s)\n")
                print_kinds(kinds)
    if wanted.summary:
        print_summary(found)


if __name__ == "__main__":
    main()
