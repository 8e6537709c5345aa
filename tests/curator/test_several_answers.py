"""Answers of several parts: one charge, one receipt, one stored outcome; what fails and what is free."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from support.clinic import CATALOG, COUNT, open_clinic
from support.toy_curators import toy_curator
from support.toy_engine import Killed, ToyEngine
from tacit.core.errors import FailedRunError
from tacit.curator.curator import Curator
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.planning.plan import with_values
from tacit.query.relational.algebra import Constants, RelationNode, bottom_up
from tacit.releases.receipt import verify_receipt
from tacit.releases.release_format import released_from_text

PARTS = (
    "WITH a AS (SELECT ward, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY ward), "
    "b AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) "
    "SELECT a.ward, a.n AS costly, b.n AS every, a.n * 1.0 / b.n AS share FROM a JOIN b ON a.ward = b.ward"
)
RATIO = "SELECT (SELECT SUM(cost) FROM visits) / (SELECT COUNT(*) FROM visits WHERE ward = 'a') AS r"


def spent(curator: Curator) -> list[Fraction]:
    return [amount.amount for amount in curator.budget().spent]


def test_one_charge_one_receipt_and_one_outcome() -> None:
    curator, engine = open_clinic()
    answer = curator.sql(PARTS, epsilon="0.5")
    assert (spent(curator), engine.measured, len(curator.history())) == ([Fraction(1, 2)], 2, 1)
    assert answer.charge.text == "Charged epsilon 0.5 to patients"
    (said,) = answer.receipt["answers"]
    assert {line["part"] for line in said["mechanisms"]} == {"1", "2"}
    assert verify_receipt(answer.receipt, curator.public_key).ok
    outcome = curator.ledger.outcome(answer.charge.number)
    assert outcome is not None
    assert len(json.loads(outcome.result)["others"]) == 1
    asked = curator.explain(PARTS, epsilon="0.5").plan
    again = released_from_text(outcome.result.decode(), asked)
    assert [part.keys for part in again.parts] == [(("a",), ("b",), ("c",))] * 2
    assert again.plan.digest == answer.plan.digest


def test_repeats_and_other_steps_on_the_same_parts_are_free() -> None:
    curator, engine = open_clinic()
    first = {row[0]: row for row in curator.sql(PARTS, epsilon="0.5").finished.values}
    other = curator.sql(PARTS + " WHERE a.ward <> 'b' ORDER BY a.ward DESC", epsilon="0.5")
    assert list(other.finished.values) == [first["c"], first["a"]]
    assert other.charge.amounts == ()
    assert (spent(curator), engine.measured) == ([Fraction(1, 2)], 2)
    turned = curator.sql(PARTS.replace("FROM a JOIN b", "FROM b JOIN a"), epsilon="0.5")
    assert turned.charge.amounts, "parts in another order are another release"


def test_intervals_of_expressions_over_two_parts_contain_the_value_and_are_wider_than_of_one() -> None:
    curator, _ = open_clinic()
    answer = curator.sql(
        "SELECT (SELECT COUNT(*) FROM visits) AS x, (SELECT COUNT(*) FROM visits WHERE cost > 50) AS y, "
        "(SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits WHERE cost > 50) AS d, "
        "(SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits) AS zero",
        epsilon="1",
    )
    (values,), ((x, y, d, zero),) = answer.finished.values, answer.finished.intervals()
    assert values[2] == values[0] - values[1]  # type: ignore[operator]
    assert (values[3], zero) == (0, (0, 0)), "one draw, read twice"
    widths = [high - low for low, high in (x, y, d)]  # type: ignore[operator]
    assert max(widths[:2]) < widths[2] < sum(widths[:2])


def test_a_failure_of_the_second_part_is_the_outcome() -> None:
    curator, engine = open_clinic()
    fail_at(engine, 2, ValueError("Ann"))
    with pytest.raises(FailedRunError):
        curator.sql(RATIO, epsilon="0.5")
    assert (spent(curator), engine.measured) == ([Fraction(1, 2)], 2)
    engine.measure = type(engine).measure.__get__(engine)  # type: ignore[method-assign]
    with pytest.raises(FailedRunError):
        curator.sql(RATIO, epsilon="0.5")
    assert engine.measured == 2, "the stored failure, not another run"
    assert spent(curator) == [Fraction(1, 2)]


def test_a_crash_between_the_parts_is_run_again_under_the_same_charge() -> None:
    curator, engine = open_clinic()
    fail_at(engine, 2, Killed())
    with pytest.raises(Killed):
        curator.sql(RATIO, epsilon="0.5")
    assert (spent(curator), engine.measured) == ([Fraction(1, 2)], 2)
    engine.measure = type(engine).measure.__get__(engine)  # type: ignore[method-assign]
    answer = curator.sql(RATIO, epsilon="0.5")
    assert (spent(curator), engine.measured, answer.charge.amounts) == ([Fraction(1, 2)], 4, ())


def fail_at(engine: ToyEngine, number: int, problem: BaseException) -> None:
    """Make the engine fail at the so-many-th query it measures, tables of losses not counted."""
    plain = engine.measure

    def measure(work: MeasurementTask) -> Measurements:
        found = plain(work)
        if engine.measured >= number:
            raise problem
        return found

    engine.measure = measure  # type: ignore[method-assign]


@pytest.mark.parametrize("budget", [{"epsilon": "4"}, {"rho": "1", "delta": "1e-6", "accounting": "zcdp"}])
def test_limits_are_found_for_each_part(budget: dict[str, Any]) -> None:
    curator, _ = open_clinic(**budget)
    answer = curator.sql(PARTS, epsilon="1", max_groups="auto", max_rows="auto")
    assert [part.limits is not None for part in answer.plan.parts] == [True, True]
    again = curator.sql(PARTS, epsilon="1", max_groups="auto", max_rows="auto")
    assert (again.meaning, again.finished.values) == (answer.meaning, answer.finished.values)
    assert "Limits found for part 2: " in answer.meaning
    assert answer.bias is not None
    assert {cause.part for cause in answer.bias.causes} == {1, 2}
    assert verify_receipt(answer.receipt, curator.public_key).ok
    assert answer.finished.intervals(bias=True)


def test_a_part_that_costs_nothing_leaves_all_to_the_others() -> None:
    curator, _ = open_clinic()
    keys = "SELECT k.ward, c.n FROM (SELECT DISTINCT ward FROM visits) k LEFT JOIN (" + COUNT + ") c USING (ward)"
    plan = curator.explain(keys, epsilon="0.5").plan
    assert sorted(part.priced.amount for part in plan.parts) == [0, Fraction(1, 2)]
    assert len(curator.sql(keys, epsilon="0.5")) == 3


# -- a value that is released first

ABOVE = (
    "WITH m AS (SELECT AVG(cost) AS c FROM visits) "
    "SELECT COUNT(*) AS n, (SELECT c FROM m) AS mean FROM visits WHERE cost > (SELECT c FROM m)"
)


def constants_of(answer: Any) -> list[Any]:
    found: list[Any] = []

    def look(node: RelationNode) -> RelationNode:
        if isinstance(node, Constants):
            found.append(node.rows[0][0].value)
        return node

    for part in answer.plan.parts:
        bottom_up(part.final.source, look)
    return found


def test_rows_are_compared_with_the_released_value_and_the_price_is_one() -> None:
    curator, engine = open_duckdb()
    answer = curator.sql(ABOVE, epsilon="1")
    ((_, mean),) = answer.finished.values
    assert constants_of(answer) == [mean], "the noisy mean, not the exact one"
    assert (spent(curator), len(curator.history())) == ([1], 1)
    again = curator.sql(ABOVE, epsilon="1", confidence="0.5")
    assert (again.finished.values, again.charge.amounts) == (answer.finished.values, ())
    assert constants_of(again) == [mean]
    assert again.plan.parts[0].final.text == answer.plan.parts[0].final.text
    assert verify_receipt(answer.receipt, curator.public_key).ok
    engine.close()


def test_a_value_that_is_null_meets_no_row() -> None:
    curator, engine = open_duckdb()
    nothing = "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) s WHERE n < -1000000"
    answer = curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost > ({nothing})", epsilon="3")
    assert constants_of(answer) == [None]
    ((value,),) = answer.finished.values
    assert abs(int(value)) < 100  # type: ignore[arg-type]
    engine.close()


def test_a_part_that_reads_a_value_is_explained_and_its_noise_does_not_depend_on_it() -> None:
    curator, engine = open_duckdb()
    quote = curator.explain(ABOVE, epsilon="1")
    assert "part 2 is released first; part 1 then reads what was released as constants" in str(quote)
    assert "beside values that another part releases first" in str(quote)
    plan = quote.plan
    ((key, _),) = plan.query.values
    low, high = (with_values(plan.parts[0], {key: [[value]]}) for value in (-1e300, 1e300))
    assert low.priced == high.priced == plan.parts[0].priced
    assert (low.final.measures, low.final.keys) == (high.final.measures, high.final.keys)
    engine.close()


def open_duckdb() -> tuple[Curator, DuckDBEngine]:
    rows = pa.table(
        {
            "patient": list(range(300)),
            "ward": ["abc"[i % 3] for i in range(300)],
            "cost": pa.array([Decimal(i % 101) for i in range(300)], pa.decimal128(18, 2)),
            "street": ["s"] * 300,
        }
    )
    engine = DuckDBEngine(CATALOG, {"visits": DataSource("frame", None, rows)}, Limits(threads=1))
    return toy_curator(CATALOG, engine, {"epsilon": "8"}), engine
