"""The main path on a toy engine: what is charged and when, what is free, what passes through and what stays opaque."""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from support.clinic import CATALOG, COUNT
from support.toy_curators import toy_curator
from support.toy_engine import Killed, ToyEngine
from tacit.core.errors import BudgetError, EngineError, FailedRunError, InputError, QueryError
from tacit.curator.curator import Curator
from tacit.ledger import FAILED_DIGEST, MOST_RUNS, Outcome
from tacit.query.planning.pricing import largest_rho_of
from tacit.releases.receipt import Receipt, outcome_problem, verify_receipt

ROWS: list[dict[str, Any]] = [
    {"patient": i, "ward": "abc"[i % 3], "cost": Fraction(i % 101), "street": f"street {i % 2}"} for i in range(300)
]


def make(**budget: Any) -> tuple[Curator, ToyEngine]:
    engine = ToyEngine({"visits": ROWS})
    return toy_curator(CATALOG, engine, budget or {"epsilon": "4"}), engine


def spent(curator: Curator) -> list[Fraction]:
    return [amount.amount for amount in curator.budget().spent]


def test_a_query_is_charged_what_was_typed() -> None:
    curator, engine = make()
    answer = curator.sql(COUNT, epsilon="0.5")
    assert [row[0] for row in answer.finished.values] == ["a", "b", "c"]
    assert spent(curator) == [Fraction(1, 2)]
    assert answer.charge.text == "Charged epsilon 0.5 to patients"
    assert answer.charge.committed
    assert curator.history() == (answer.charge,)
    assert engine.measured == 1


def test_explain_is_free_and_reads_no_data() -> None:
    curator, engine = make()
    quote = curator.explain(COUNT, epsilon="0.5")
    assert repr(quote.guarantee) == "PureDP(0.5)"
    assert "laplace" in str(quote).lower()
    assert json.loads(quote.to_json())["population"] == "patients"
    assert (spent(curator), engine.measured, curator.history()) == ([0], 0, ())
    assert curator.budget(quote).queries == 8


def test_a_repeat_is_the_same_answer_for_nothing_at_any_confidence() -> None:
    curator, engine = make()
    first = curator.sql(COUNT, epsilon="0.5")
    again = curator.sql("select WARD, count(*) as n from visits group by 1", epsilon="0.50", confidence="0.99")
    assert again.finished.values == first.finished.values
    assert again.charge.amounts == ()
    assert "charged nothing" in again.charge.text
    assert (spent(curator), engine.measured, len(curator.history())) == ([Fraction(1, 2)], 1, 1)
    assert curator.sql(COUNT, epsilon="0.6").charge.amounts != ()


def test_other_post_processing_of_the_same_release_is_a_repeat_too() -> None:
    curator, engine = make()
    first = dict(curator.sql(COUNT, epsilon="0.5").finished.values)
    top = curator.sql(COUNT + " ORDER BY n DESC LIMIT 1", epsilon="0.5")
    assert [row[1] for row in top.finished.values] == [max(first.values())]  # type: ignore[type-var]
    doubled = curator.sql("SELECT ward AS w, 2 * COUNT(*) AS d FROM visits GROUP BY ward", epsilon="0.5")
    assert dict(doubled.finished.values) == {ward: 2 * n for ward, n in first.items()}  # type: ignore[operator]
    assert (spent(curator), engine.measured) == ([Fraction(1, 2)], 1)


def test_a_new_version_of_the_data_is_a_new_query_on_the_same_account() -> None:
    curator, engine = make()
    state = ["1"]
    object.__setattr__(curator._context, "version", lambda tables: state[0])
    curator.sql(COUNT, epsilon="0.5")
    state[0] = "2"
    curator.sql(COUNT, epsilon="0.5")
    assert (spent(curator), engine.measured) == ([1], 2)


def test_a_charge_that_does_not_fit_changes_nothing_and_reads_nothing() -> None:
    curator, engine = make(epsilon="1")
    curator.sql(COUNT, epsilon="0.75")
    with pytest.raises(BudgetError, match=r"patients: .*epsilon needs 0.5 and has 0.25 of 1 left"):
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.5")
    assert (spent(curator), engine.measured) == ([Fraction(3, 4)], 1)
    curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.25")


def test_refusals_and_bad_requests_cost_nothing() -> None:
    curator, engine = make()
    with pytest.raises(QueryError) as refusal:
        curator.sql("SELECT patient FROM visits", epsilon="1")
    assert str(refusal.value)
    with pytest.raises(InputError, match="epsilon"):
        curator.sql(COUNT)
    with pytest.raises(QueryError, match="delta"):
        curator.sql("SELECT street, COUNT(*) AS n FROM visits GROUP BY street", epsilon="1")
    assert (spent(curator), engine.measured) == ([0], 0)


@pytest.mark.parametrize("failure", [EngineError("row 17 of Ann"), ValueError("Ann Smith, 1980"), MemoryError("Ann")])
def test_a_failure_after_the_reservation_is_opaque_and_stays_charged(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    curator, engine = make()
    engine.fail = failure
    with caplog.at_level(logging.ERROR, "tacit.operator"), pytest.raises(FailedRunError) as caught:
        curator.sql(COUNT, epsilon="0.5")
    assert "Ann" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert spent(curator) == [Fraction(1, 2)]
    assert [entry.committed for entry in curator.history()] == [False]
    mark = str(caught.value).split()[-1]
    assert mark in caplog.text
    assert "Ann" in caplog.text
    # It stays failed: a second run under the same charge would be a second look at whether it fails.
    engine.fail = None
    measured = engine.measured
    for words in ({}, {"idempotency_key": "again"}, {"confidence": "0.5"}):
        with pytest.raises(FailedRunError) as again:
            curator.sql(COUNT, epsilon="0.5", **words)
        assert str(again.value) == str(caught.value)
    assert engine.measured == measured
    assert spent(curator) == [Fraction(1, 2)]
    assert [entry.committed for entry in curator.history()] == [False]
    report = curator.ledger.verify(check_outcome=lambda kept: _wrong(curator, kept))
    assert (report.problems, report.charges, report.outcomes, report.failures) == ((), 1, 1, 1)
    # Another price is another release.
    assert len(curator.sql(COUNT, epsilon="0.25")) == 3
    # The receipt says so to every reader.
    kept = curator.ledger.outcome(caught.value.position)
    assert kept is not None
    told = verify_receipt(kept.receipt, curator.public_key)
    assert told.ok
    assert "nothing was released" in str(told)
    assert Receipt.from_json(kept.receipt)["answers"][0]["released"] == FAILED_DIGEST


def _wrong(curator: Curator, kept: Outcome) -> str | None:
    return outcome_problem(kept, ledger=curator.ledger.id, public_key=curator.public_key)


def test_a_run_that_died_is_run_again_under_the_same_charge_but_not_for_ever() -> None:
    curator, engine = make()
    for number in range(MOST_RUNS):
        engine.fail = Killed()
        with pytest.raises(Killed):
            curator.sql(COUNT, epsilon="0.5")
        assert engine.measured == number + 1
    engine.fail = None
    with pytest.raises(FailedRunError):
        curator.sql(COUNT, epsilon="0.5")
    assert engine.measured == MOST_RUNS
    other, engine = make()
    engine.fail = Killed()
    with pytest.raises(Killed):
        other.sql(COUNT, epsilon="0.5")
    engine.fail = None
    again = other.sql(COUNT, epsilon="0.5")
    assert "charged nothing" in again.charge.text
    assert spent(other) == [Fraction(1, 2)]
    assert [entry.committed for entry in other.history()] == [True]
    assert other.ledger.verify().ok


def test_what_is_interrupted_by_closing_has_not_failed() -> None:
    curator, engine = make()
    engine.fail = EngineError("interrupted")
    curator.context.closing.set()
    with pytest.raises(EngineError) as caught:
        curator.sql(COUNT, epsilon="0.5")
    assert not isinstance(caught.value, FailedRunError)
    curator.context.closing.clear()
    engine.fail = None
    assert len(curator.sql(COUNT, epsilon="0.5")) == 3


def test_an_answer_holds_nothing_raw() -> None:
    """Neither the engine nor any exact integer can be reached from an answer."""
    curator, _ = make()
    answer = curator.sql("SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward", epsilon="0.5")
    seen: set[int] = set()
    stack: list[Any] = [answer]
    while stack:
        here = stack.pop()
        if id(here) in seen or isinstance(here, (str, bytes, int, float, type)):
            continue
        seen.add(id(here))
        assert type(here).__name__ not in ("ToyEngine", "Measurements", "Desk", "Ledger", "Keys")
        if isinstance(here, dict):
            stack += [*here, *here.values()]
        elif isinstance(here, (list, tuple, set, frozenset)):
            stack += here
        else:
            stack += vars(here).values() if hasattr(here, "__dict__") else []
            stack += [getattr(here, name) for name in getattr(type(here), "__slots__", ()) if hasattr(here, name)]
    assert answer != curator.sql("SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward", epsilon="0.5")


def test_equal_queries_at_once_are_charged_once() -> None:
    curator, engine = make()
    gate = threading.Barrier(8)
    measure = engine.measure

    def slowly(work: Any) -> Any:
        # Long enough that every thread would be inside, were they not waiting for the first.
        time.sleep(0.2)
        return measure(work)

    engine.measure = slowly  # type: ignore[method-assign]

    def ask(_: int) -> Any:
        gate.wait()
        return curator.sql(COUNT, epsilon="0.5").finished.values

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert all(values == answers[0] for values in answers)
    assert (spent(curator), engine.measured) == ([Fraction(1, 2)], 1)


def test_different_queries_at_once_never_exceed_the_cap() -> None:
    curator, engine = make(epsilon="1")

    def ask(number: int) -> bool:
        try:
            curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE cost > {number}", epsilon="0.1")
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(30))) == 10
    assert (spent(curator), engine.measured, len(curator.history())) == ([1], 10, 10)


@pytest.mark.parametrize(
    ("budget", "asked", "charged"),
    [
        ({"accounting": "zcdp", "rho": "0.1"}, {"rho": "0.01"}, {"rho": Fraction(1, 100)}),
        ({"accounting": "approx", "epsilon": "1", "delta": "1e-6"}, {"epsilon": "0.1"}, {"epsilon": Fraction(1, 10)}),
        ({"accounting": "gdp", "mu": "1"}, {"mu": "0.1"}, {"mu squared": Fraction(1, 100)}),
    ],
)
def test_other_kinds_of_account(budget: dict[str, str], asked: dict[str, str], charged: dict[str, Fraction]) -> None:
    curator, _ = make(**budget)
    answer = curator.sql(COUNT, **asked)  # type: ignore[arg-type]
    assert charged.items() <= {amount.currency: amount.amount for amount in answer.charge.amounts}.items()


def test_an_epsilon_in_a_zcdp_account_is_charged_what_its_noise_costs() -> None:
    """Gaussian noise alone that is (0.1, 1e-6)-DP costs more than the rho that means it for all noise."""
    curator, _ = make(accounting="zcdp", epsilon="1", delta="1e-6")
    answer = curator.sql(COUNT, epsilon="0.1")
    (charged,) = (amount.amount for amount in answer.charge.amounts if amount.currency == "rho")
    assert charged == answer.plan.priced.amount
    least = largest_rho_of(Fraction(1, 10), Fraction(1, 10**6))
    assert least * Fraction(11, 10) < charged < least * Fraction(5, 4)


def test_private_groups_are_paid_from_the_budgets_own_delta() -> None:
    curator, _ = make(accounting="zcdp", epsilon="4", delta="1e-6")
    answer = curator.sql("SELECT street, COUNT(*) AS n FROM visits GROUP BY street", epsilon="0.5")
    amounts = {amount.currency: amount.amount for amount in answer.charge.amounts}
    for_keys = Fraction("1e-6") / 2 / 100
    assert amounts == {"rho": largest_rho_of(Fraction(1, 2), Fraction("1e-6") - for_keys), "delta": for_keys}
    assert {row[0] for row in answer.finished.values} <= {"street 0", "street 1"}


def test_accuracy_instead_of_a_price() -> None:
    curator, _ = make()
    answer = curator.sql(COUNT, within=10, confidence="0.9")
    table = answer.intervals()
    widths = [h.as_py() - n.as_py() for h, n in zip(table["n_high"], table["n"], strict=True)]
    assert max(widths) <= 10


def test_tables_tell_public_things_only() -> None:
    curator, engine = make()
    (table,) = curator.tables()
    assert "ward TEXT, one of a, b, c" in str(table)
    assert "cost DECIMAL(18,2), from 0 to 100" in str(table)
    assert "patient INTEGER, the unit" in str(table)
    assert engine.measured == 0
    with pytest.raises(InputError, match="patients"):
        curator.budget(population="staff")


def test_close_and_words_about_the_budget() -> None:
    curator, engine = make()
    with curator:
        curator.sql(COUNT, epsilon="0.5")
        assert str(curator.budget()) == (
            "patients: epsilon: 0.5 of 4 spent, 3.5 left (kept in memory: it ends with this process)"
        )
        assert str(curator.budget(curator.explain(COUNT, epsilon="1"))).endswith(
            "3 more such queries fit (kept in memory: it ends with this process)"
        )
    assert engine.closed
    assert repr(curator) == "<Curator clinic: visits>"
