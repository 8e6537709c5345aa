"""Information about the data in latencies, on a real server: two neighbouring databases, asked in turns.

Run ``python benchmarks/server_timing.py`` (some minutes; ``--queries 10000`` for the figures of docs/server.md, which
takes an hour). One database has a person with four times as many rows as all others together; the other does not have
that person. Each is served by a worker of its own, and fresh queries go to either in turns, several at once. A
classifier then tells the two apart by latency alone, once as it is and once learning any difference of the two
distributions from half of the latencies; 0.5 is chance. The same is done without response steps, to show that there is
something to be found, and with two servers of the same data, to show how far two processes differ by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]

from support.analysts import Line  # noqa: E402
from support.latency import auc, spearman, spread, trained_auc  # noqa: E402
from support.serving import Server, make_tokens  # noqa: E402

FRESH = itertools.count(2000)
ROWS = 40_000
#: Analysts; one asks until an answer is late.
PEOPLE = 60
EPSILON = 1


def make_project(folder: Path, *, heavy: bool) -> Path:
    """A clinic, and in one of the two a person with very many visits."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    number = np.arange(ROWS * (5 if heavy else 1))
    patient = np.where(number < ROWS, 1 + number // 4, 0)
    wards = np.array(["cardiology", "oncology", "surgery"])
    table = pa.table({"patient": patient, "ward": wards[number % 3], "cost": number * 37 % 1000, "day": number % 365})
    pq.write_table(table, folder / "visits.parquet")
    project = folder / "tacit.toml"
    project.write_text(
        """
[project]
name = "clinic"
ledger = "tacit.ledger"
anchor = "tacit.anchor"

[populations.patients]
epsilon = "10000000"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient"
max_groups = 3
max_rows = 2

[tables.visits.columns]
ward = { categories = ["cardiology", "oncology", "surgery"] }
cost = { bounds = [0, 1000] }
day  = { bounds = [0, 365] }
"""
    )
    return project


class Asked:
    """Latencies of the two databases, the sizes of their noise, and when answers were to leave."""

    def __init__(self) -> None:
        self.response_time = 0.0
        self.latencies: tuple[list[float], list[float]] = ([], [])
        self.values: tuple[list[float], list[float]] = ([], [])


async def ask(ports: list[int], tokens: list[list[str]], queries: int, at_once: int, pause: float) -> Asked:
    """So many fresh queries to each of the two, in an order that nothing else can depend on."""
    found, dice = Asked(), random.Random(5)
    order = [which for which in (0, 1) for _ in range(queries)]
    dice.shuffle(order)
    waiting = iter(enumerate(order))

    sql = "SELECT ward, COUNT(*) AS n FROM visits WHERE cost <> 1999 GROUP BY ward"
    body = json.dumps({"sql": sql, "epsilon": EPSILON}).encode()
    _, _, content = await Line(ports[0], tokens[0][-1]).send("/v1/explain", body)
    found.response_time = json.loads(content)["response_time"]

    people = zip(*tokens, strict=True)

    def lines_of_next() -> list[Line]:
        return [Line(port, token) for port, token in zip(ports, next(people), strict=True)]

    async def analyst() -> None:
        lines = lines_of_next()
        for number, which in waiting:
            # No text is used twice, in this round or another: a repeat would read nothing.
            sql = f"SELECT ward, COUNT(*) AS n FROM visits WHERE cost <> {next(FRESH)} GROUP BY ward"
            body = json.dumps({"sql": sql, "epsilon": EPSILON}).encode()
            await asyncio.sleep(pause * dice.random())
            start = time.perf_counter()
            status, headers, content = await lines[which].send("/v1/query", body)
            taken = time.perf_counter() - start
            if status != 200 or headers["tacit-repeat"] != "false":
                raise RuntimeError(f"not a fresh answer: {content!r}")
            if found.response_time and taken > 1.5 * found.response_time:
                # All later answers of an analyst with a late one leave later.
                lines = lines_of_next()
            if number >= 20:
                found.latencies[which].append(taken)
                found.values[which].append(json.loads(content)["rows"][0][1]["value"])

    await asyncio.gather(*(analyst() for _ in range(at_once)))
    return found


def noises(values: list[float]) -> list[float]:
    """The noise of answers to queries that all have the same true answer."""
    middle = sorted(values)[len(values) // 2]
    return [abs(value - middle) for value in values]


def measured(projects: list[Path], tokens: list[list[str]], step: float, chosen: argparse.Namespace) -> Asked:
    """Ask both, at one response step; in two rounds, so that neither is always the one started first."""
    # How many may be late is not what is measured here.
    options = ("--workers", "1", "--response-step", str(step), "--set", "late_per_population=1000")
    together = Asked()
    for order in ((0, 1), (1, 0)):
        with Server(projects[order[0]], *options) as one, Server(projects[order[1]], *options) as other:
            ports = [one.port, other.port] if order == (0, 1) else [other.port, one.port]
            found = asyncio.run(ask(ports, tokens, chosen.queries // 2, chosen.at_once, chosen.pause))
        together.response_time = found.response_time
        for which in (0, 1):
            together.latencies[which].extend(found.latencies[which])
            together.values[which].extend(found.values[which])
    return together


def line(name: str, what: str, found: Asked, step: float) -> str:
    """One line of the table."""
    heavy, light = found.latencies
    beyond = sum(value > 1.5 * found.response_time for value in (*heavy, *light))
    ties = [spearman(sample, noises(values)) for sample, values in zip(found.latencies, found.values, strict=True)]
    cells = [
        name,
        what,
        f"{len(heavy):,} + {len(light):,}",
        f"{1000 * sorted(heavy)[len(heavy) // 2]:.1f}",
        f"{1000 * sorted(light)[len(light) // 2]:.1f}",
        f"{auc(heavy, light):.3f}",
        f"{trained_auc(heavy, light):.3f}",
        f"{2 * spread(len(heavy), len(light)):.3f}",
        f"{max(ties, key=abs):+.3f}",
        f"{found.response_time:g} s" if step else "–",
        str(beyond) if step else "–",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Both tables, in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=1000, help="to each database")
    parser.add_argument("--response-step", type=float, default=0.25)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two queries, at most")
    chosen = parser.parse_args()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as place:
        os.environ["TACIT_STATE"] = str(Path(place) / "state")
        names = ("with", "without", "twin")
        projects = [make_project(Path(place) / name, heavy=name == "with") for name in names]
        tokens = [list(make_tokens(project, [f"analyst {i}" for i in range(PEOPLE)]).values()) for project in projects]
        heads = ("step", "databases", "queries", "median ms", "median ms", "AUC", "AUC, trained", "± by chance",
                 "Spearman of latency and noise", "leaves after", "late")  # fmt: skip
        print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
        for step in (0.0, chosen.response_step):
            for what, pair in (("neighbours", (0, 1)), ("the same twice", (1, 2))):
                found = measured([projects[i] for i in pair], [tokens[i] for i in pair], step, chosen)
                print(line(f"{step:g} s" if step else "off", what, found, step), flush=True)


if __name__ == "__main__":
    main()
