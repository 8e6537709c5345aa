"""Queries that analysts write are accepted, resolve to pure values, and equal ones are recognised."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from query.corpus.accepted import ACCEPTED, GENERATED, WRITTEN
from query.corpus.analysts import ASKED
from query.corpus.clinic import CATALOG
from support.each import check_each
from tacit.core.errors import InternalError
from tacit.query.planning.measures import MeasureKind
from tacit.query.query import Derive, Keep, Query, Regroup, Slice, Sort
from tacit.query.resolve import resolve
from tacit.query.types import DATE, DOUBLE, INTEGER


def test_the_corpus_is_large_enough() -> None:
    assert len(set(WRITTEN)) == len(WRITTEN)
    assert len(ACCEPTED) >= 300
    assert len(GENERATED) >= 100


def test_every_combination_of_analysts_is_accepted() -> None:
    assert len(set(ASKED) - set(ACCEPTED)) >= 400
    for sql in ASKED:
        assert resolve(sql, CATALOG).columns, sql


def test_every_query_of_the_corpus_resolves_to_a_value() -> None:
    def check(sql: str) -> None:
        query = resolve(sql, CATALOG)
        again = resolve(sql, CATALOG)
        assert query == again
        assert hash(query) == hash(again)
        assert query.digest == again.digest
        _check_whole(query)

    check_each(ACCEPTED, check)


def _check_whole(query: Query) -> None:
    final = query.final
    assert not final.source.is_public
    assert final.source.population == final.population
    assert final.max_groups >= 1
    assert all(index < len(final.measures) for aggregate in final.aggregates for index in aggregate.measures)
    used = {index for aggregate in final.aggregates for index in aggregate.measures}
    assert used == set(range(len(final.measures)))
    for measure in final.measures:
        assert measure.clamp[0] <= 0 <= measure.clamp[1]
        assert measure.clamp != (0, 0)
        assert measure.low <= measure.high
        assert measure.sensitivity(max_groups=final.max_groups).l1 > 0
    derived = [step for step in query.steps if isinstance(step, Derive)]
    width = len(derived[-1].expressions) if derived else len(final.keys) + len(final.aggregates)
    assert len(query.columns) == width
    assert final.public_keys == (final.group_count is not None)


def _kinds(sql: str) -> list[MeasureKind]:
    return [measure.kind for measure in resolve(sql, CATALOG).final.measures]


def test_a_shared_count_is_measured_once() -> None:
    assert _kinds("SELECT COUNT(cost), AVG(cost), STDDEV(cost) FROM visits") == [
        MeasureKind.VALUES,
        MeasureKind.CENTRED_SUM,
        MeasureKind.CENTRED_SQUARES,
    ]
    # nights is declared without NULLs, so its count is the count of rows
    assert _kinds("SELECT COUNT(*), AVG(nights) FROM visits") == [MeasureKind.ROWS, MeasureKind.CENTRED_SUM]


def test_several_quantiles_share_one_measurement() -> None:
    query = resolve("SELECT QUANTILE(cost, 0.1), MIN(cost), MAX(cost), MEDIAN(cost) FROM visits", CATALOG)
    assert [measure.kind for measure in query.final.measures] == [MeasureKind.PLACES, MeasureKind.LEAVES]
    assert [column.name for column in query.columns] == ["quantile", "min", "max", "median"]


def test_one_aggregate_written_twice_is_one() -> None:
    final = resolve("SELECT COUNT(*), COUNT(*) * 2 FROM visits HAVING COUNT(*) > 1", CATALOG).final
    assert len(final.aggregates) == 1


def test_bounds_come_from_metadata_intervals_and_the_query() -> None:
    def clamp(sql: str) -> tuple[Fraction, Fraction]:
        (measure,) = resolve(sql, CATALOG).final.measures
        return measure.clamp[0] * measure.step, measure.clamp[1] * measure.step

    assert clamp("SELECT SUM(nights) FROM visits") == (0, 20 * 60)
    assert clamp("SELECT SUM(LEAST(GREATEST(score, 0), 100)) FROM visits") == (0, 20 * 100)
    assert clamp("SELECT SUM(CLAMP(points, -3, 2)) FROM visits") == (-60, 40)
    assert clamp("SELECT SUM(nights * 100) FROM visits") == (0, 20 * 60 * 100)
    assert clamp("SELECT SUM(score, contribution_bounds_per_group => (-1, 8)) FROM visits") == (-1, 8)
    assert clamp("SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) FROM visits") == (0, 3)
    assert clamp("SELECT SUM(t) FROM (SELECT patient_id, MAX(cost) t FROM visits GROUP BY 1)") == (0, 5000)


def test_zero_lies_within_every_clamp() -> None:
    (measure,) = resolve("SELECT SUM(nights) FROM visits", CATALOG).final.measures
    for clamp in ((1, 2), (-2, -1)):
        with pytest.raises(InternalError, match="without rows"):
            replace(measure, clamp=clamp)


def test_a_person_with_one_row_counts_once() -> None:
    per_person = resolve("SELECT COUNT(*) FROM (SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id)", CATALOG)
    assert per_person.final.measures[0].clamp == (0, 1)
    joined = (
        "SELECT sex, AVG(n) FROM (SELECT sex, id, COUNT(visit_id) AS n FROM patients "
        "LEFT JOIN visits ON id = patient_id GROUP BY sex, id) GROUP BY sex"
    )
    final = resolve(joined, CATALOG).final
    assert final.max_groups == 1
    assert final.measures[0].clamp == (0, 1)


@pytest.mark.parametrize("word", ["UNION", "INTERSECT", "EXCEPT"])
def test_a_set_of_persons_has_one_row_each(word: str) -> None:
    asked = f"SELECT COUNT(*) FROM (SELECT id FROM patients {word} SELECT patient_id FROM visits WHERE urgent)"
    measure = resolve(asked, CATALOG).final.measures[0]
    assert measure.rows == 1


@pytest.mark.parametrize(
    ("key", "count"),
    [
        ("ward", 3),
        ("urgent", 2),
        ("upper(ward)", 3),
        ("substring(ward, 1, 1)", 3),
        ("nights", 61),
        ("nights // 10", 7),
        ("nights % 7", 7),
        ("floor(cost / 500)", 11),
        ("date_trunc('year', admitted)", 5),
        ("date_trunc('month', admitted)", 60),
        ("date_trunc('week', seen)", 262),
        ("year(admitted)", 5),
        ("month(admitted)", 12),
        ("CASE WHEN nights < 3 THEN 'short' END", 2),
        ("CASE WHEN cost > 1 THEN ward ELSE 'other' END", 4),
        ("cost > 100", 2),
        ("ward || '!'", 3),
        ("coalesce(ward, 'none')", 4),
        ("ward IS NULL", 2),
        ("doctor", None),
        ("points", None),
        ("cost", None),
        ("seen", None),
    ],
)
def test_which_keys_are_public(key: str, count: int | None) -> None:
    final = resolve(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k", CATALOG).final
    assert final.group_count == count
    assert final.public_keys == (count is not None)


def test_null_is_a_key_only_where_it_is_declared() -> None:
    assert resolve("SELECT level, COUNT(*) FROM log GROUP BY level", CATALOG).final.keys[0].values == (
        "info",
        "warn",
        None,
    )
    assert None not in (resolve("SELECT ward, COUNT(*) FROM visits GROUP BY ward", CATALOG).final.keys[0].values or ())


def test_the_steps_above_the_aggregation() -> None:
    sql = "SELECT ward, COUNT(*) n FROM visits GROUP BY ward HAVING n > 3 ORDER BY n DESC LIMIT 2 OFFSET 1"
    steps = resolve(sql, CATALOG).steps
    assert [type(step) for step in steps] == [Keep, Sort, Derive, Slice]
    assert steps[-1] == Slice(2, 1)
    outer = "SELECT AVG(n) FROM (SELECT ward, COUNT(*) n FROM visits GROUP BY ward) WHERE n > 0"
    assert [type(step) for step in resolve(outer, CATALOG).steps] == [Derive, Keep, Regroup, Derive]


def test_columns_of_the_answer() -> None:
    sql = "SELECT date_trunc('year', admitted) AS y, COUNT(*) n, AVG(cost) m, 1 AS one FROM visits GROUP BY y"
    columns = resolve(sql, CATALOG).columns
    assert [(c.name, c.type, c.noisy) for c in columns] == [
        ("y", DATE, False),
        ("n", INTEGER, True),
        ("m", DOUBLE, True),
        ("one", INTEGER, False),
    ]


def test_options_are_read_exactly() -> None:
    options = "epsilon=0.1, delta=1e-6, max_groups_contributed=2"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) ward, COUNT(*) FROM visits GROUP BY 1"
    query = resolve(sql, CATALOG)
    assert query.options.epsilon == Fraction(1, 10)
    assert query.options.delta == Fraction(1, 10**6)
    assert query.final.max_groups == 2


def test_counting_the_unit_is_counting_persons() -> None:
    for sql in (
        "SELECT COUNT(DISTINCT patient_id) FROM visits",
        "SELECT COUNT(DISTINCT who) FROM (SELECT patient_id AS who FROM visits)",
        "SELECT COUNT(DISTINCT p.id) FROM visits v JOIN patients p ON v.patient_id = p.id",
    ):
        final = resolve(sql, CATALOG).final
        assert final.aggregates[0].kind == "count_units"
        assert final.measures[0].clamp == (0, 1)
