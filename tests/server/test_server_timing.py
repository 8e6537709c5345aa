"""Telling neighbouring databases apart by how long answers take: what response times that are decided before hide.

Time is made up here: the clock stands still but for the engine, which takes longer the more rows there are, and for
timers. So the outcome is exact, and does not depend on the machine. ``benchmarks/server_timing.py`` measures what
remains on a real one.
"""

from __future__ import annotations

import asyncio
import random
from fractions import Fraction
from typing import Any

import pytest

from support.latency import auc, spearman, trained_auc
from support.served import COUNT, rows, serve
from support.timers import Clock, TestedSteps
from support.toy_engine import ToyEngine
from tacit.core.errors import EngineError
from tacit.engines.protocol import Measurements, MeasurementTask

STEP = 0.25
QUERIES = 40
#: Row operations of one person that the text of every query here allows, at least.
WORK = 500
ROWS = 150
#: One person has so many more rows.
HEAVY = 100


class TimedEngine(ToyEngine):
    """Takes a time that grows with the rows, and varies by chance; may fail where a person has very many rows."""

    def __init__(self, tables: Any, clock: Clock, each: float, *, fails: bool = False) -> None:
        super().__init__(tables)
        self.clock, self.each, self.fails = clock, each, fails
        self.dice = random.Random(7)

    def measure(self, work: MeasurementTask) -> Measurements:
        count = len(self.tables["visits"])
        self.clock.now += 0.01 + self.each * count + 0.01 * self.dice.random()
        if self.fails and count > ROWS:
            raise EngineError("out of memory at row 17")
        return super().measure(work)


def latencies(*, heavy: bool, step: float, each: float = 8e-4, fails: bool = False) -> tuple[list[float], list[float]]:
    """Times of fresh queries on one of two neighbours, by the clock, and the size of the noise.

    Shares of the time at which the query was to leave; with a response step of 0, seconds.
    """
    clock = Clock()
    tables = rows()
    mine = [dict(row, patient=17) for row in tables["visits"][:1] * HEAVY] if heavy else []
    tables["visits"] = [row for row in tables["visits"] if row["patient"] != 17][:ROWS] + mine
    truth = len([row for row in tables["visits"] if row["patient"] != 17]) / 3
    engine = TimedEngine(tables, clock, each, fails=fails)
    # As much as HEAVY rows can take here; so an answer is late only by chance.
    words = {"row_seconds": HEAVY * each / WORK, "late_per_analyst": 10**6, "late_per_population": 10**6}
    served = serve(engine=engine, response_step=step, asks_per_minute=10**6, **words)
    runtime = served.app.state.runtime
    runtime.steps = TestedSteps(step, clock)
    taken, noises = [], []

    async def ask() -> None:
        async with served.client() as client:
            for number in range(QUERIES):
                sql = COUNT.replace("GROUP", f"WHERE units <> {number + 10**6} GROUP")
                begin = clock.now
                reply = await client.post("/v1/query", json={"sql": sql, "epsilon": 0.01})
                taken.append((clock.now - begin) / (await _leaves(client, sql) or 1))
                if reply.status_code == 200:
                    noises.append(abs(reply.json()["rows"][0][1]["value"] - truth))

    asyncio.run(ask())
    served.close()
    return taken, noises


async def _leaves(client: Any, sql: str) -> float:
    quote = await client.post("/v1/explain", json={"sql": sql, "epsilon": 0.01})
    return float(quote.json()["response_time"])


def test_without_response_steps_the_heavy_person_shows() -> None:
    """The power of the test: the same queries, the same classifier, no response steps."""
    there, _ = latencies(heavy=True, step=0)
    gone, _ = latencies(heavy=False, step=0)
    assert auc(there, gone) > 0.95
    assert trained_auc(there, gone) > 0.95


def test_with_response_steps_every_answer_is_sent_when_its_quote_said() -> None:
    there, noises = latencies(heavy=True, step=STEP)
    gone, _ = latencies(heavy=False, step=STEP)
    assert {round(each, 9) for each in there} == {round(each, 9) for each in gone} == {1}
    assert abs(auc(there, gone) - 0.5) <= 0.02
    assert abs(trained_auc(there, gone) - 0.5) <= 0.02
    assert len(noises) == QUERIES
    assert abs(spearman(there, noises)) <= 0.02


def test_a_failure_leaves_when_an_answer_would() -> None:
    there, answers = latencies(heavy=True, step=STEP, fails=True)
    gone, _ = latencies(heavy=False, step=STEP)
    assert not answers, "every query failed"
    assert {round(each, 9) for each in there} == {round(each, 9) for each in gone} == {1}


def test_the_classifier_is_honest() -> None:
    """Equal samples give one half, with ties or without; different ones do not."""
    dice = random.Random(1)
    same = [dice.gauss(0, 1) for _ in range(4000)]
    other = [dice.gauss(0, 1) for _ in range(4000)]
    shifted = [value + 0.2 for value in other]
    wider = [2 * value for value in other]
    assert abs(auc(same, other) - 0.5) < 0.025, "four standard deviations"
    assert auc(shifted, same) > 0.53
    assert abs(auc(wider, same) - 0.5) < 0.025, "an order alone does not see a difference of widths"
    assert trained_auc(wider, same) > 0.55
    assert auc([1.0] * 50, [1.0] * 70) == 0.5
    assert auc([2.0, 3.0], [0.0, 1.0]) == 1
    assert spearman([1, 2, 3], [10, 20, 25]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 1], [3, 2, 1]) == 0
    assert Fraction(1, 2) == Fraction(auc([0.0], [0.0]))
