"""AUTO bounds on the main path: one charge for both steps, repeats for nothing, bounds in the answer."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.core.errors import BudgetError, EngineError, FailedRunError, InputError
from tacit.curator.curator import Curator
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import DOUBLE, INTEGER, TEXT

CATALOG = Catalog(
    (
        Table(
            "people",
            (Column("id", INTEGER), Column("ward", TEXT, categories=("a", "b")), Column("income", DOUBLE)),
            population="people",
            unit="id",
        ),
    ),
    (Population("people"),),
)
ROWS: list[dict[str, Any]] = [{"id": i, "ward": "ab"[i % 2], "income": 1000.0 + i % 3000} for i in range(6000)]
AVG = "SELECT ward, AVG(CLAMP(income, AUTO)) AS a FROM people GROUP BY ward"
BUDGETS = ({"epsilon": "4"}, {"rho": "4", "accounting": "zcdp"}, {"mu": "4", "accounting": "gdp"})

pytestmark = pytest.mark.usefixtures("seeded")


def make(**budget: Any) -> tuple[Curator, ToyEngine]:
    engine = ToyEngine({"people": ROWS})
    return toy_curator(CATALOG, engine, budget or {"epsilon": "4"}), engine


def spent(curator: Curator) -> list[Fraction]:
    return [amount.amount for amount in curator.budget().spent if amount.amount]


def test_both_steps_are_one_charge_of_what_was_typed() -> None:
    curator, engine = make()
    answer = curator.sql(AVG, epsilon="1")
    assert spent(curator) == [1]
    assert engine.measured == 2
    assert len(curator.history()) == 1
    ((low, high),) = [(found.low, found.high) for found in answer.bounds]
    assert (low, high) == (0, 4096)
    assert all(1500 < value < 3500 for _, value in answer.finished.values)  # type: ignore[operator]
    assert "Clipping bounds found by AUTO: values of avg(income) within [0, 4096]." in answer.note


@pytest.mark.parametrize("budget", BUDGETS[1:], ids=["zcdp", "gdp"])
def test_in_other_accounts(budget: dict[str, str]) -> None:
    curator, _ = make(**budget)
    plain = curator.explain(AVG.replace("AUTO", "0, 4096"), epsilon="1")
    answer = curator.sql(AVG, epsilon="1")
    assert answer.plan.guarantee == plain.guarantee
    assert answer.bounds[0].high == 4096


def test_a_repeat_has_the_same_bounds_and_numbers_for_nothing() -> None:
    curator, engine = make()
    first = curator.sql(AVG, epsilon="1")
    again = curator.sql(AVG.replace("AUTO", "auto"), epsilon="1", confidence="0.5")
    assert again.finished.values == first.finished.values
    assert again.bounds == first.bounds
    doubled = curator.sql(AVG.replace("AVG", "2 * AVG") + " ORDER BY a LIMIT 1", epsilon="1")
    assert doubled.finished.values[0][1] == 2 * min(value for _, value in first.finished.values)  # type: ignore[type-var, operator]
    assert (spent(curator), engine.measured) == ([1], 2)
    assert curator.sql(AVG, epsilon="1", weights={"bounds": 2}).charge.amounts != ()


def test_intervals_are_about_the_bounds_found() -> None:
    curator, _ = make()
    table = curator.sql(AVG, epsilon="1").intervals(0.99).to_pydict()
    assert all(
        low < 2499.5 < high and high - low < 100 for low, high in zip(table["a_low"], table["a_high"], strict=True)
    )


def test_nothing_is_read_before_the_whole_charge_fits() -> None:
    curator, engine = make(epsilon="1")
    with pytest.raises(BudgetError):
        curator.sql(AVG, epsilon="1.01")
    with pytest.raises(InputError, match="within"):
        curator.sql(AVG, within=5)
    assert (engine.measured, spent(curator)) == (0, [])


def test_a_failure_between_the_steps_stays_charged_once() -> None:
    curator, engine = make()
    measure, calls = engine.measure, []

    def failing(work: Any) -> Any:
        calls.append(work.final)
        if len(calls) == 2:
            raise EngineError("the disk is gone")
        return measure(work)

    engine.measure = failing  # type: ignore[method-assign]
    with pytest.raises(EngineError) as caught:
        curator.sql(AVG, epsilon="1")
    assert "disk" not in str(caught.value)
    assert spent(curator) == [1]
    with pytest.raises(FailedRunError):
        curator.sql(AVG, epsilon="1")
    assert (len(calls), spent(curator)) == (2, [1])


def test_explain_reads_nothing_and_shows_both_steps() -> None:
    curator, engine = make()
    quote = curator.explain(AVG, epsilon="1")
    assert engine.measured == 0
    content = json.loads(quote.to_json())
    assert [release["share"] for release in content["releases"]] == ["12/125", "108/125", "1/25"]
    assert content["bounds"].startswith("AUTO for avg(income)")
