"""Every consumer knows every entry of the table of aggregates, and the corpus has a case of each."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from query.corpus.accepted import WRITTEN
from query.corpus.bounded import BOUNDED, arrow
from query.corpus.clinic import CATALOG
from support.bits import SeededBits
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.aggregates import AGGREGATES, NEVER_NULL, SQL_NAMES, entry_of
from tacit.query.planning.explain import explain
from tacit.query.planning.measures import MeasureKind
from tacit.query.planning.plan import Plan, make_plan
from tacit.query.postprocess.result import finish
from tacit.query.query import Query, Regroup, Totals
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, UnitAggregate, sources
from tacit.query.release import release
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve

WAYS = {"any": "nights", "number": "nights", "condition": "urgent"}


def called(name: str) -> str:
    """A call of an aggregate by one of its SQL names."""
    how = SQL_NAMES[name]
    other = {"mode": "ward", "geometric_mean": "CLAMP(nights, 1, 60)"}
    column = other.get(how.function, WAYS[AGGREGATES[how.function].takes])
    if how.parameter == "condition":
        return f"{name}(nights > 3)"
    if how.parameter == "parts":
        return f"{name}({column}, 2)[OFFSET(1)]"
    return (
        f"{name}({column})"
        if how.arguments == 1
        else f"{name}({column}, {0.3 if how.parameter in ('fraction', 'discrete') else 2})"
    )


#: A call of every entry; those without a name of their own are written by COUNT.
CALLS = {
    **{function: called(next(iter(entry.names))) for function, entry in AGGREGATES.items() if entry.names},
    "count_rows": "COUNT(*)",
    "count_distinct": "COUNT(DISTINCT nights)",
    "sum_distinct": "SUM(DISTINCT nights)",
    "avg_distinct": "AVG(DISTINCT nights)",
}

#: Every released kind.
KINDS = tuple(dict.fromkeys(kind for entry in AGGREGATES.values() for kind in entry.kinds))


@cache
def corpus() -> tuple[Query, ...]:
    return tuple(resolve(sql, CATALOG) for sql in WRITTEN)


@cache
def example(kind: str) -> Plan:
    """The plan of the first query of the corpus, without private keys, that releases a kind."""
    account = Account("approx", "1e-6")
    for sql, query in zip(WRITTEN, corpus(), strict=True):
        plain = query.final.public_keys and not query.reads and not query.final.seeks_bounds
        plain = plain and not any(isinstance(step, Totals) for step in query.steps)
        if plain and any(a.kind == kind for a in query.final.aggregates) and query.options.epsilon is None:
            return make_plan(sql, CATALOG, Request(epsilon="1", account=account, suppose=1000))
    raise AssertionError(f"the corpus has no case of {kind}")


def test_every_kind_has_one_entry_and_every_name_one_reading() -> None:
    kinds = [kind for entry in AGGREGATES.values() for kind in entry.kinds]
    assert sorted(kinds) == sorted(KINDS)
    names = [name for entry in AGGREGATES.values() for name in entry.names]
    assert sorted(names) == sorted(SQL_NAMES)
    assert set(CALLS) == set(AGGREGATES)
    for function, entry in AGGREGATES.items():
        assert all(how.function == function for how in entry.names.values())
        assert (entry.family is None) == (not entry.kinds)
        assert all(entry_of(kind) is entry for kind in entry.kinds)
        assert entry.counts or entry.fold or entry.spread or entry.unit is None, function
        assert not (entry.counts and entry.bounded)
    assert set(NEVER_NULL) <= {kind for entry in AGGREGATES.values() if entry.counts for kind in entry.kinds}


@pytest.mark.parametrize("name", SQL_NAMES)
def test_every_name_is_released_or_refused_for_what_it_tells(name: str) -> None:
    entry, sql = AGGREGATES[SQL_NAMES[name].function], f"SELECT {called(name)} FROM visits"
    if entry.family is None:
        with pytest.raises(Refusal, match="would tell") as caught:
            resolve(sql, CATALOG)
        assert caught.value.reason == "raw_aggregate"
    else:
        assert {a.kind for a in resolve(sql, CATALOG).final.aggregates} <= set(entry.kinds) | {"count_rows"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_planned_explained_and_estimated(kind: str, seeded: SeededBits) -> None:
    del seeded
    plan = example(kind)
    family = entry_of(kind).released
    places = [i for i, aggregate in enumerate(plan.final.aggregates) if aggregate.kind == kind]
    for place in places:
        error = plan.errors[place]
        assert error.kind == family.error_kind
        assert error.bound is not None
        assert error.bound >= 0
        assert (error.supposing is None) == (len(plan.final.aggregates[place].measures) == 1)
    told = explain(plan)
    # Named by the alias of the column that shows it, else as an analyst would write the aggregate.
    aliases = {column.name for column in plan.query.columns}
    for each, aggregate in zip(told.errors, plan.final.aggregates, strict=True):
        assert each.label in {*aliases, aggregate.label.replace("count_rows(", "count(")}
        assert each.meaning
    assert len({each.label for each in told.errors}) == len(told.errors)
    keys = tuple(product(*(key.values or () for key in plan.final.keys)))
    raw = tuple(
        np.zeros((len(keys), 0) if measure.kind is MeasureKind.PLACES else (len(keys), measure.width), dtype=np.int64)
        for measure in plan.final.measures
    )
    noisy = release(plan, Measurements(keys, np.zeros(len(keys), dtype=np.int64), raw))
    finished = finish(Query(plan.final, (), (), plan.query.options), noisy, confidence="0.9")
    for row in finished.rows:
        for place in places:
            cell = row[len(plan.final.keys) + place]
            assert cell.events, "an estimate rests on noise"
            assert cell.type == plan.final.aggregates[place].type
            assert kind not in NEVER_NULL or cell.value is not None


@pytest.mark.parametrize("kind", MeasureKind)
def test_every_measurement_has_traits_and_a_case_in_the_corpus(kind: MeasureKind) -> None:
    assert kind.traits.sentence.format(low=-1, high=1)
    assert kind.traits.own_statement or not kind.traits.spread
    assert bool(kind.traits.power) == kind.traits.adds_values
    assert any(measure.kind is kind for query in corpus() for measure in query.final.measures)


def calls_below(node: RelationNode) -> set[str]:
    found = {call.function for call in node.calls} if isinstance(node, UnitAggregate) else set()
    return found.union(*(calls_below(part) for part in sources(node)))


@pytest.fixture(scope="module")
def engine() -> DuckDBEngine:
    frames = arrow(BOUNDED["one"])
    tables = {table: DataSource("frame", None, frame) for table, frame in frames.items()}
    return DuckDBEngine(CATALOG, tables, Limits(threads=1))


@pytest.mark.parametrize("function", AGGREGATES)
def test_every_exact_form_runs_inside_units_and_over_released_cells(function: str, engine: DuckDBEngine) -> None:
    call = CALLS[function]
    inside = f"SELECT COUNT(x) FROM (SELECT patient_id, {call} AS x FROM visits GROUP BY patient_id)"
    above = call.replace("nights > 3", "n > 3").replace("nights", "n").replace("urgent", "n > 3")
    released = f"SELECT {above} AS x FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)"
    if AGGREGATES[function].unit is None:
        for sql in (inside, released):
            with pytest.raises(Refusal, match="inside one person's rows"):
                resolve(sql, CATALOG)
        return
    final = resolve(inside, CATALOG).final
    assert function in calls_below(final.source)
    assert len(engine.measure(MeasurementTask(final, b"an owner's secret")).raw) == 1
    plan = make_plan(released, CATALOG, Request(epsilon="1", account=Account("pure")))
    assert [c.function for step in plan.query.steps if isinstance(step, Regroup) for c in step.calls] == [function]
    keys = tuple(product(*(key.values or () for key in plan.final.keys)))
    counts = np.arange(10, 10 + len(keys))[:, None]
    noisy = release(plan, Measurements(keys, counts[:, 0], (counts,)))
    ((value,),) = finish(plan.query, noisy, confidence="0.9").values
    assert value is not None


def test_the_corpus_meets_every_exact_form() -> None:
    below = set().union(*(calls_below(query.final.source) for query in corpus()))
    above = {c.function for q in corpus() for step in q.steps if isinstance(step, Regroup) for c in step.calls}
    exact = {function for function, entry in AGGREGATES.items() if entry.unit is not None}
    assert exact - below - above == set()


def test_bounds_of_a_spread_hold_at_the_ends() -> None:
    for entry in AGGREGATES.values():
        if entry.spread is not None:
            assert entry.spread.largest(Fraction(4)) >= (2 if entry.spread.root else 4)
