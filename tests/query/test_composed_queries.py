"""Forms of SQL in random combination, recorded on one database and replayed on a neighbour.

The tests take a sample. ``python tests/query/test_composed_queries.py CASES --seed SEED --log FILE`` runs as many
as asked for, the pairs of neighbours in turns, and prints what it finds. The log has a line for each batch with its
seed, cases and findings; a run that was stopped goes on after the last of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest

from query.corpus import hostile
from query.corpus.clinic import CATALOG
from support.bits import SeededBits
from support.composed_queries import composed
from support.sql_replay import findings, query_of, reports
from tacit.core.relations import REPLACE_ONE
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Population
from tacit.query.refusal import Refusal
from tacit.query.resolve import statements
from tacit.releases import query as answering

REPLACING = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))
ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())
NEWCOMER = hostile.joined(hostile.ordinary(), hostile.newcomer())
PAIRS = {
    "a person with many rows goes": (ALL_PEOPLE, hostile.ordinary(), CATALOG),
    "a person comes": (hostile.ordinary(), NEWCOMER, CATALOG),
    "the first person comes": (hostile.empty(), hostile.joined(hostile.empty(), hostile.heavy()), CATALOG),
    "one for another": (ALL_PEOPLE, NEWCOMER, REPLACING),
}


def accepted(queries: tuple[str, ...]) -> tuple[str, ...]:
    """Queries that have a plan; whether one has follows from its text alone."""
    kept = []
    for sql in queries:
        try:
            query_of(sql)
        except Refusal:
            continue
        kept.append(sql)
    return tuple(kept)


def test_most_compositions_are_queries() -> None:
    asked = composed(200, seed=1)
    assert len(accepted(asked)) > 150


@pytest.mark.parametrize("name", PAIRS)
def test_compositions_on_neighbours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SeededBits(20261117)
    monkeypatch.setattr(entropy, "current", lambda: source)
    one, other, catalog = PAIRS[name]
    made = reports(one, other, accepted(composed(24, seed=len(name))), catalog)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(made) // 3


BATCH = 160


def batch(seed: int) -> tuple[int, dict[str, str]]:
    """One batch: how many replays, and what was found by query."""
    done, found = 0, {}
    asked = accepted(composed(BATCH, seed=seed))
    for turn, (name, (one, other, catalog)) in enumerate(PAIRS.items()):
        made = reports(one, other, asked[turn :: len(PAIRS)], catalog, whole=False)
        done += len(made)
        found |= {f"{name}: {sql}": str(each) for sql, each in findings(made).items()}
    return done, found


def main(cases: int, seed: int, log: Path | None) -> int:
    """Run batches until the log holds so many cases; returns how many findings it has."""
    # A query is resolved once for both neighbours: that is a function of the text and the catalog.
    resolved = cache(answering.resolve_any)
    answering.resolve_any = statements.resolve_any = resolved  # type: ignore[assignment]
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log and log.exists() else []
    known = {line["seed"]: line for line in lines}
    done, wrong = sum(line["cases"] for line in lines), sum(len(line["findings"]) for line in lines)
    while done < cases:
        if seed not in known:
            began = time.process_time()
            made, found = batch(seed)
            done, wrong = done + made, wrong + len(found)
            line = {"seed": seed, "cases": made, "seconds": round(time.process_time() - began, 1), "findings": found}
            if log is not None:
                with log.open("a") as out:
                    out.write(json.dumps(line) + "\n")
            for sql, what in found.items():
                print(seed, sql, what, sep="\n  ", flush=True)
            resolved.cache_clear()
            query_of.cache_clear()
        seed += 1
    print(f"{done} cases, {wrong} findings", flush=True)
    return wrong


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description="Composed queries on neighbours.")
    reader.add_argument("cases", type=int)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--log", type=Path, default=None)
    told = reader.parse_args()
    sys.exit(main(told.cases, told.seed, told.log) > 0)
