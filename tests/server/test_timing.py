"""Response times and verdicts: what is decided before data is read, and the law of what data decides."""

from __future__ import annotations

import logging
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

import tacit
from support.bits import SeededBits
from support.latency import late_probability
from tacit.engines.duckdb import DuckDBEngine
from tacit.noise import entropy
from tacit.project.example_hospital import make_hospital
from tacit.query.planning.work import WholeWork
from tacit.query.refusal import Refusal
from tacit.server.errors import TooMany
from tacit.server.rate_limit import Buckets
from tacit.server.settings import Settings
from tacit.server.timing import (
    LATER,
    LEAST,
    STEPS,
    TICKS,
    Decided,
    LateAnswers,
    LateLimit,
    LatenessVerdict,
    ProcessorShares,
    ResponseSchedule,
)

EPSILON = 0.5
NONE = WholeWork(0, 0, "")


def plan(work: int, whole: WholeWork = NONE) -> Any:
    return SimpleNamespace(unit_work=work, whole_work=whole, final=SimpleNamespace(population="patients"))


def settings(**words: Any) -> Settings:
    return Settings(**{"time_epsilon": EPSILON, **words})


def answers(buckets: Buckets | None = None, **words: Any) -> LateAnswers:
    return LateAnswers(settings(**words), buckets or Buckets())


#: One unit moves the running time by 100 ticks, and an answer should be ready after 50,000 - 20,000 of them.
DECIDED = Decided(100, 20_000, (50_000, 200_000, 800_000))


# What is decided before ----------------------------------------------------------------------------------------------


def test_response_times_follow_from_the_work_of_one_unit() -> None:
    schedule = ResponseSchedule(Settings())
    works = [1, 100, 768, 1792, 10_000, 106_859, 10**6]
    found = [schedule.decide(plan(work)) for work in works]
    assert [each.first for each in found] == [0.5, 0.5, 0.5, 1.0, 4.0, 64.0, 512.0]
    assert [each.unit_ticks for each in found] == [LEAST, LEAST, LEAST, 180, 1000, 10_686, 100_000]
    for each in found:
        steps = each.times[0] / TICKS / 0.25
        assert math.log2(steps).is_integer()
        assert each.times[0] - 2 * each.shift >= 0.125 * TICKS, "half a response step to run in, and two margins"
        assert [b / a for a, b in zip(each.times, each.times[1:], strict=False)] == [LATER] * 3
        assert each.last == each.times[-1] / TICKS


def test_response_times_follow_from_the_work_of_the_whole_query() -> None:
    """Once all processors are shared, the whole work is done two margins before the first timer."""
    schedule = ResponseSchedule(Settings(threads=8, workers=1), None, DuckDBEngine, processors=2)
    found = {}
    for operations in (0, 10**6, 10**7, 10**8, 7 * 10**8):
        each = plan(1, WholeWork(operations, operations, "the join of visits with visits"))
        schedule.check(each)
        decided = schedule.decide(each)
        processor = DuckDBEngine.start_seconds + operations * DuckDBEngine.operation_seconds
        assert decided.times[0] - 2 * decided.shift >= 4 * processor * TICKS, "eight threads on two processors"
        found[operations] = decided.first
    assert list(found.values()) == [0.5, 1.0, 4.0, 32.0, 128.0], "a small table answers within a second"


def test_the_demo_answers_within_a_second(tmp_path: Path) -> None:
    """Its tables are as small as their declared sizes; by the sizes of undeclared ones an answer took 16 s."""
    project = make_hospital().write(tmp_path)
    with tacit.open(project) as curator:
        schedule = ResponseSchedule(Settings(workers=2), None, DuckDBEngine, processors=2)
        for sql in (
            "SELECT ward, COUNT(*) AS visits, AVG(cost) AS cost FROM visits GROUP BY ward",
            "SELECT MEDIAN(cost) FROM visits",
            "SELECT p.sex, AVG(v.cost) FROM visits AS v JOIN patients AS p USING (patient_id) GROUP BY p.sex",
        ):
            assert schedule.decide(curator.explain(sql, epsilon="0.1").plan).first <= 1
    sizes = {name: (int(rows), int(most)) for name, rows, most in duckdb.sql(f"""
        SELECT 'visits', COUNT(*), (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM '{tmp_path}/visits.parquet'
        GROUP BY patient_id)) FROM '{tmp_path}/visits.parquet'
        UNION ALL SELECT 'patients', COUNT(*), 1 FROM '{tmp_path}/patients.parquet'""").fetchall()}  # fmt: skip
    with tacit.open(project) as curator:
        for each in curator.tables():
            if each.name in sizes:
                assert sizes[each.name] <= (each.table.table_rows, each.table.unit_rows)


def test_a_query_of_too_much_work_is_refused_with_the_number_and_the_operator() -> None:
    schedule = ResponseSchedule(Settings(work_seconds=10), None, DuckDBEngine)
    schedule.check(plan(1, WholeWork(10**8, 10**8, "x")))
    with pytest.raises(Refusal, match="1,000,000,000 row operations") as caught:
        schedule.check(plan(1, WholeWork(10**9, 9 * 10**8, "the conditions on rows of visits")))
    assert caught.value.reason == "work"
    assert "900,000,000 of them are in the conditions on rows of visits" in str(caught.value)
    assert "10 s is the most" in str(caught.value)


def test_an_analyst_has_a_share_of_the_processors() -> None:
    """Half of two processors is 60 s a minute; another's share is untouched, and what was not used comes back."""
    now = [0]
    shares = ProcessorShares(Settings(), 2, Buckets(), lambda: now[0])
    shares.take("a", Fraction(30))
    shares.take("a", Fraction(30))
    with pytest.raises(TooMany) as caught:
        shares.take("a", Fraction(30))
    assert caught.value.seconds == pytest.approx(30)
    shares.take("b", Fraction(30))
    now[0] = 30 * 10**9
    shares.take("a", Fraction(30))
    shares.give_back("a", Fraction(30))
    shares.take("a", Fraction(30))
    # A query that is allowed at all is allowed where a share of the machine is small.
    ProcessorShares(Settings(processor_share=0.1), 1, Buckets(), lambda: 0).take("a", Fraction(30))


def test_late_answers_are_forgotten_at_the_stated_rate() -> None:
    """At most so many streams in any span of days as the proof says, and none but those of one start with no rate."""
    day, now = 86_400 * 10**9, [10**15]
    for per_day, within in ((1.0, 12), (0.5, 7), (0.0, 3)):
        late = LateAnswers(
            settings(late_per_population=2, late_per_analyst=10**6, late_per_day=per_day), Buckets(), lambda: now[0]
        )
        begun = 0
        for _ in range(10 * 24):
            now[0] += day // 24
            for _ in range(3):
                begun += late._stream("patients") is not None
                late._streams.clear()
        assert begun == within <= 1 + 2 + 10 * per_day, "workers, late_per_population and the days"
    late = LateAnswers(settings(late_per_analyst=1), Buckets(), lambda: now[0])
    assert late.verdict("a", "patients", DECIDED, 0, None) is LatenessVerdict.GIVEN_UP
    with pytest.raises(LateLimit, match=r"1 of yours.*1 a day"):
        late.check("a", "patients")
    now[0] += day
    late.check("a", "patients")
    assert late.slow("a") == 0


def test_a_longer_work_never_leaves_earlier() -> None:
    schedule = ResponseSchedule(settings())
    found = [schedule.decide(plan(work)).first for work in range(1, 200_000, 997)]
    assert found == sorted(found)
    assert len(set(found)) > 3


def test_the_limit_of_the_project_ends_the_response_times() -> None:
    """It would be a threshold on the running time without noise; so what is not ready fails at the last timer."""
    assert ResponseSchedule(Settings(), 300).decide(plan(1792)).times == tuple(x * TICKS for x in (1, 4, 16, 64))
    assert ResponseSchedule(Settings(), 10).decide(plan(1792)).times == (TICKS, 4 * TICKS)
    assert ResponseSchedule(Settings(), 0.1).decide(plan(1792)).times == (TICKS,)
    assert len(ResponseSchedule(settings(late_per_analyst=10**6)).decide(plan(1)).times) < 20


def test_a_late_answer_has_later_response_times_and_fewer_of_them() -> None:
    schedule = ResponseSchedule(Settings())
    assert schedule.decide(plan(1), late=2, slow=1).times == (2 * TICKS, 8 * TICKS)
    assert schedule.decide(plan(1), late=3, slow=3).times == (32 * TICKS,)
    assert schedule.decide(plan(1), late=9, slow=9).times


def test_what_was_typed_counts_and_not_its_nearest_double() -> None:
    assert ResponseSchedule(settings(response_step=0.1), processors=8).decide(plan(1)).times[0] == 2 * TICKS // 10


@pytest.mark.parametrize("unit", [1, 7, 100, 1023, 1024, 1025, 99_991])
def test_one_unit_moves_lateness_by_one_unit_at_most(unit: int) -> None:
    decided = Decided(unit, 12_345, (50_001,))
    for taken in range(0, 200_000, 1_237):
        for moved in {0, 1, unit // 2, unit - 1, unit}:
            assert 0 <= decided.lateness(taken + moved, 0) - decided.lateness(taken, 0) <= STEPS
    assert decided.lateness(taken + 2 * unit + 1, 0) - decided.lateness(taken, 0) > STEPS, "the bound is not idle"


# The law of a verdict ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [-8, -2, 0, 3])
def test_a_verdict_has_the_law_of_the_proof(margin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 streams of one look each; false alarm below 6e-5 for each margin, and other scales are told apart."""
    bits = SeededBits(margin + 100)
    monkeypatch.setattr(entropy, "current", lambda: bits)
    late = answers(late_per_population=10**8, late_per_analyst=10**8)
    taken = DECIDED.times[0] - DECIDED.shift + margin * DECIDED.unit_ticks
    assert DECIDED.lateness(taken, 0) == margin * STEPS
    rounds, count = 4_000, 0
    for _ in range(rounds):
        late._streams.clear()
        count += late.verdict("a", "patients", DECIDED, 0, taken) is not LatenessVerdict.ON_TIME
    expected = late_probability(margin * STEPS, EPSILON)
    assert abs(count / rounds - expected) <= 4 * math.sqrt(expected * (1 - expected) / rounds)
    if margin == -8:
        for other in (0.8 * EPSILON, 1.25 * EPSILON):
            wrong = late_probability(margin * STEPS, other)
            assert abs(count / rounds - wrong) > 2 * math.sqrt(wrong * (1 - wrong) / rounds)


def test_the_law_moves_by_no_more_than_epsilon_when_one_unit_comes() -> None:
    """For one look, at every margin; and by nearly as much somewhere, so that the noise is not idle."""
    ratios = []
    for margin in range(-40, 41):
        there, gone = (late_probability((margin + moved) * STEPS, EPSILON) for moved in (1, 0))
        ratios += [math.log(there / gone), math.log((1 - gone) / (1 - there))]
    assert max(ratios) <= EPSILON
    assert max(ratios) > EPSILON / 4


def test_what_is_ready_is_on_time_and_what_is_not_is_late() -> None:
    late = answers()
    decided = ResponseSchedule(settings()).decide(plan(768))
    ready = decided.times[0] - 2 * decided.shift
    assert {late.verdict("a", "patients", decided, 0, ready - 1) for _ in range(300)} == {LatenessVerdict.ON_TIME}
    assert late.late("a") == 0
    assert late.verdict("a", "patients", decided, 0, None) is LatenessVerdict.LATE
    assert late.verdict("a", "patients", decided, 1, decided.times[1] + 1) is LatenessVerdict.LATE
    assert (late.late("a"), late.slow("a")) == (2, 2)
    assert late.verdict("b", "patients", decided, 0, 10, failed=True) is LatenessVerdict.FAILED
    assert (late.late("b"), late.slow("b")) == (1, 0)


# What is limited -----------------------------------------------------------------------------------------------------


def test_a_stream_tells_of_one_late_answer_and_streams_are_counted_for_all_workers() -> None:
    """Two workers and three late answers: five streams, in any order, and then no data decides any more."""
    shared = Buckets()
    words = {"workers": 2, "late_per_population": 3, "late_per_analyst": 100}
    workers = [answers(shared, **words), answers(shared, **words)]
    for worker in workers:
        assert worker.verdict("a", "patients", DECIDED, 0, 0) is LatenessVerdict.ON_TIME
    found = Counter(workers[i % 2].verdict(f"a{i}", "patients", DECIDED, 0, None) for i in range(3))
    assert found == {LatenessVerdict.LATE: 3}
    # One stream is left with each worker, and the next late answer of each is its last.
    assert workers[0].verdict("x", "patients", DECIDED, 0, None) is LatenessVerdict.GIVEN_UP
    with pytest.raises(LateLimit, match="3 about patients"):
        workers[0].check("new", "patients")
    workers[1].check("new", "patients")
    assert workers[1].verdict("x", "patients", DECIDED, 0, 0) is LatenessVerdict.ON_TIME
    assert workers[1].verdict("x", "patients", DECIDED, 0, None) is LatenessVerdict.GIVEN_UP
    for worker in workers:
        for taken in (0, 10**9, None):
            assert worker.verdict("y", "patients", DECIDED, 0, taken) is LatenessVerdict.GIVEN_UP
        with pytest.raises(LateLimit):
            worker.check("new", "patients")
        worker.check("new", "employees")
    # A worker that is begun anew gets no stream for nothing.
    assert answers(shared, **words).verdict("y", "patients", DECIDED, 0, 0) is LatenessVerdict.GIVEN_UP


def test_where_nothing_may_be_late_no_noise_is_drawn_and_no_time_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    late = answers(late_per_population=1, late_per_analyst=1)
    assert late.verdict("a", "patients", DECIDED, 0, None) is LatenessVerdict.GIVEN_UP
    drawn = []
    monkeypatch.setattr(entropy, "current", lambda: drawn.append(1))
    monkeypatch.setattr(Decided, "lateness", lambda *_: drawn.append(2))
    assert {late.verdict("a", "patients", DECIDED, 0, taken) for taken in (0, 1, 10**9, None)} == {
        LatenessVerdict.GIVEN_UP
    }
    assert not drawn


def test_the_late_answers_of_one_analyst_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    late = answers(late_per_analyst=2, late_per_population=100)
    with caplog.at_level(logging.WARNING, "tacit.operator"):
        assert late.verdict("a", "patients", DECIDED, 0, None) is LatenessVerdict.LATE
        assert late.verdict("a", "patients", DECIDED, 1, None) is LatenessVerdict.GIVEN_UP
    assert "patients for a was not ready at its response time, 0.05 s" in caplog.text
    with pytest.raises(LateLimit, match="2 of yours") as caught:
        late.check("a", "patients")
    assert caught.value.code == "access.late"
    late.check("b", "patients")
    assert late.verdict("b", "patients", DECIDED, 0, 0) is LatenessVerdict.ON_TIME


def test_what_is_late_at_its_last_response_time_is_given_up() -> None:
    late = answers()
    assert late.verdict("a", "patients", DECIDED, 1, None) is LatenessVerdict.LATE
    assert late.verdict("a", "patients", DECIDED, 2, None) is LatenessVerdict.GIVEN_UP


def test_counters_are_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.rate_limit._COUNTERS", 8)
    found = Buckets(shared=True)
    assert [found.add("a", 2) for _ in range(3)] == [True, True, False]
    assert not found.add("none", 0)
    assert all(found.add(f"b{i}", 1) for i in range(7))
    assert not found.add("c", 1), "without room nothing more is counted, and what needs it is refused"
    assert (found.counted("a"), found.counted("b3"), found.counted("c")) == (2, 1, 0)
    for i in range(1000):
        found.pour(f"rate {i}", 10**9, 0, 10**12)
    assert found.counted("a") == 2
    found.close()


def test_settings() -> None:
    chosen = Settings()
    total = Fraction(str(chosen.time_epsilon)) * (chosen.workers + chosen.late_per_population)
    assert total == Fraction(13, 10), "as README, SECURITY.md and docs/server.md say"
