"""Forms of SQL in random combination, recorded on one database and replayed on a neighbour.

The tests take a sample. ``python tests/privacy/test_composed_questions.py CASES [SEED]`` runs as many as asked for, on
all pairs of neighbours, and prints what it finds.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import pytest

from sql.corpus import hostile
from sql.corpus.clinic import CATALOG
from support.bits import SeededBits
from support.composed_questions import composed
from support.sql_replay import findings, reports
from tacit.core.relations import REPLACE_ONE
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Population
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve

REPLACING = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))
ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())
NEWCOMER = hostile.joined(hostile.ordinary(), hostile.newcomer())
PAIRS = {
    "a person with many rows goes": (ALL_PEOPLE, hostile.ordinary(), CATALOG),
    "a person comes": (hostile.ordinary(), NEWCOMER, CATALOG),
    "the first person comes": (hostile.empty(), hostile.joined(hostile.empty(), hostile.heavy()), CATALOG),
    "one for another": (ALL_PEOPLE, NEWCOMER, REPLACING),
}


def accepted(questions: tuple[str, ...]) -> tuple[str, ...]:
    """Questions that have a plan; whether one has follows from its text alone."""
    kept = []
    for sql in questions:
        try:
            resolve(sql, CATALOG)
        except Refusal:
            continue
        kept.append(sql)
    return tuple(kept)


def test_most_compositions_are_questions() -> None:
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


def main(cases: int, seed: int) -> int:
    """Run many cases and print every finding; returns how many there are."""
    wrong = 0
    done = 0
    for start in range(0, cases, 400):
        asked = accepted(composed(min(400, cases - start), seed=seed + start))
        for name, (one, other, catalog) in PAIRS.items():
            part = asked[:: len(PAIRS)] if name != "a person with many rows goes" else asked
            made = reports(one, other, part, catalog)
            done += len(made)
            for sql, found in findings(made).items():
                wrong += 1
                print(name, sql, found, sep="\n  ", flush=True)
        print(f"{done} replays, {wrong} findings", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1) > 0)
