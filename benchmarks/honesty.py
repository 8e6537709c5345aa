"""Answers beside the truth: which share of the intervals shown holds what the analyst asked for.

    .venv/bin/python benchmarks/honesty.py [--people 20000] [--epsilon 1]

Three made-up schemas (an app, a shop, a hospital) with people of very different activity, and bounds that a careful
owner would choose. Every question is asked once of the curator and once of plain DuckDB over the same files, as the
analyst means it: without limits on rows or groups of a person, without clipping. A cell counts as right if its
interval, at 95 %, holds the plain value. Limits and clipping are not noise, so nothing promises that; the table shows
where they matter. Prints Markdown.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

import tacit

PROJECT = """
[project]
name = "honesty"

[populations.users]
epsilon = "1000"
[populations.customers]
epsilon = "1000"
[populations.patients]
epsilon = "1000"

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
    """A question, its kind, and the columns that are keys."""

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
sums             | 0 | SELECT SUM(cost) AS s FROM visits
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


def questions() -> list[Asked]:
    """The questions of :data:`TEXT`."""
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


def plain(folder: Path, question: Asked) -> dict[tuple[Any, ...], float]:
    """Cells of the question without privacy, by their keys."""
    with duckdb.connect() as raw:
        for name in ("events", "customers", "orders", "visits"):
            raw.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
        rows = raw.execute(question.sql).fetchall()
    return {row[: question.keys]: float(row[question.keys]) for row in rows}


def judged(answer: Any, truth: dict[tuple[Any, ...], float], keys: int) -> list[tuple[bool, float]]:
    """For each cell whether its interval holds the truth, and how far off the value is, in parts of the truth."""
    table = answer.intervals().to_pylist()
    names = list(answer.to_arrow().column_names)
    value = names[keys]
    found = []
    for row in table:
        real = truth.get(tuple(row[name] for name in names[:keys]), 0.0)
        low, high = float(row[f"{value}_low"]), float(row[f"{value}_high"])
        found.append((low <= real <= high, abs(float(row[value]) - real) / max(abs(real), 1.0)))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--epsilon", default="1")
    wanted = parser.parse_args()
    kinds: dict[str, list[list[tuple[bool, float]]]] = defaultdict(list)
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(folder, wanted.people)
        (folder / "tacit.toml").write_text(PROJECT)
        curator = tacit.open(folder / "tacit.toml")
        for question in questions():
            answer = curator.sql(question.sql, epsilon=wanted.epsilon)
            kinds[question.kind].append(judged(answer, plain(folder, question), question.keys))
        curator.close()
    print(f"{wanted.people:,} people in each schema, epsilon {wanted.epsilon} a question\n")
    print("| kind of question | questions | cells | intervals that hold the truth | median error |")
    print("|---|---:|---:|---:|---:|")
    for kind, answers in kinds.items():
        cells = [cell for answer in answers for cell in answer]
        errors = sorted(error for _, error in cells)
        right = sum(holds for holds, _ in cells) / len(cells)
        print(f"| {kind} | {len(answers)} | {len(cells)} | {right:.0%} | {errors[len(errors) // 2]:.2%} |")
    asked = [answer for answers in kinds.values() for answer in answers]
    good = sum(sum(holds for holds, _ in answer) >= 0.9 * len(answer) for answer in asked)
    print(f"\n{good} of {len(asked)} answers have at least nine in ten intervals right.")


if __name__ == "__main__":
    main()
