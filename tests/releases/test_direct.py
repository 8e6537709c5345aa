"""Mechanisms used from Python: the same account, the same history, receipts that hold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import tacit
from support.bits import SeededBits
from support.clinic import COUNT, open_clinic
from tacit.core.errors import AccountingError, BudgetError, InputError
from tacit.ledger import ConflictError
from tacit.releases.receipt import verify_receipt


def test_a_mechanism_is_charged_before_it_runs_and_receipted(seeded: SeededBits) -> None:
    curator, _ = open_clinic(epsilon="1")
    made = curator.release(tacit.Laplace(epsilon="0.25", l1_sensitivity=1), 42, label="smokers", analyst="alice")
    assert isinstance(made.value, int)
    assert abs(made.value - 42) < 100
    assert made.charge.text == "Charged epsilon 0.25 to patients"
    (entry,) = curator.history()
    assert (entry.sql, entry.analyst, entry.committed) == ("smokers", "alice", True)
    report = verify_receipt(made.receipt, curator.public_key)
    assert report.ok, str(report)
    (line,) = made.receipt["answers"][0]["mechanisms"]
    assert (line["mechanism"], line["l1_sensitivity"], line["scale"]) == ("Laplace", "1", "4")
    curator.sql(COUNT, epsilon="0.75")
    with pytest.raises(BudgetError):
        curator.release(tacit.Laplace(epsilon="0.25", l1_sensitivity=1), 42, label="smokers")
    assert curator.ledger.verify().ok


@pytest.mark.parametrize(
    ("budget", "mechanism", "value"),
    [
        ({"epsilon": "4"}, tacit.Histogram(epsilon="0.5", bins=("a", "b")), ["a", "b", "a"]),
        ({"epsilon": "4"}, tacit.NoisyMax(epsilon="0.5", sensitivity=1), {"a": 3, "b": 9}),
        ({"accounting": "approx", "epsilon": "4", "delta": "1e-3"},
         tacit.Gaussian(epsilon="0.5", delta="1e-6", l2_sensitivity=1), 7),
        ({"accounting": "zcdp", "rho": "4", "delta": "1e-3"},
         tacit.Gaussian(epsilon="0.5", delta="1e-6", l2_sensitivity=1), [1, 2, 3][:1]),
        ({"accounting": "zcdp", "rho": "4"}, tacit.Laplace(epsilon="0.5", l1_sensitivity="1.5"), 0.25),
        ({"accounting": "zcdp", "rho": "4"}, tacit.Exponential(epsilon="0.5", sensitivity=1), {"a": 3, "b": 9}),
        ({"accounting": "gdp", "mu": "3"}, tacit.Laplace(epsilon="0.5", l1_sensitivity=2), 7),
        ({"accounting": "zcdp", "rho": "4", "delta": "1e-3"},
         tacit.PartitionSelection(epsilon="0.5", delta="1e-6", max_groups=2), {"a": 500}),
    ],
)  # fmt: skip
def test_kinds_of_mechanism_and_account(budget: dict[str, Any], mechanism: Any, value: Any, seeded: SeededBits) -> None:
    curator, _ = open_clinic(**budget)
    made = curator.release(mechanism, value, label="something")
    report = verify_receipt(made.receipt, curator.public_key)
    assert report.ok, str(report)
    assert any(amount.amount for amount in made.charge.amounts)
    assert curator.budget().spent[0].amount > 0
    assert made.value is not None


def test_a_charge_for_what_is_released_elsewhere() -> None:
    curator, _ = open_clinic(accounting="zcdp", rho="1", delta="1e-3")
    made = curator.charge(tacit.ZCDP("0.25", delta="1e-5"), label="training of a model", idempotency_key="m")
    assert made.value is None
    assert verify_receipt(made.receipt, curator.public_key).ok
    assert [amount.amount for amount in curator.budget().spent] == [Fraction(1, 4), Fraction(1, 10**5)]
    again = curator.charge(tacit.ZCDP("0.25", delta="1e-5"), label="training of a model", idempotency_key="m")
    assert again.charge.amounts == ()
    assert again.receipt == made.receipt
    with pytest.raises(ConflictError):
        curator.charge(tacit.ZCDP("0.5"), label="training of a model", idempotency_key="m")
    with pytest.raises(BudgetError):
        curator.charge(tacit.ZCDP("0.8"), label="more")


def test_the_same_key_gets_the_same_value() -> None:
    curator, _ = open_clinic()
    noise = tacit.Laplace(epsilon="0.001", l1_sensitivity=1)
    first = curator.release(noise, [3, 10**18], label="x", idempotency_key="k")
    again = curator.release(noise, [3, 10**18], label="x", idempotency_key="k")
    assert again.value == list(first.value)
    fresh = curator.release(noise, [3, 10**18], label="x")
    assert list(fresh.value) != again.value
    assert curator.budget().spent[0].amount == Fraction(2, 1000)


def test_mistakes_are_named_and_cost_nothing() -> None:
    curator, _ = open_clinic()
    with pytest.raises(InputError, match="mechanism"):
        curator.release(object(), 1, label="x")  # type: ignore[arg-type]
    for label in (" ", "x" * 1001, 7):
        with pytest.raises(InputError, match=r"label: .* in 1,000 characters at most"):
            curator.release(tacit.Laplace(epsilon=1, l1_sensitivity=1), 1, label=label)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="label"):
            curator.charge(tacit.PureDP("0.1"), label=label)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="replace_one"):
        curator.charge(tacit.PureDP(1, relation="replace_one"), label="x")
    with pytest.raises(AccountingError, match="pure"):
        curator.charge(tacit.ZCDP(1), label="x")
    with pytest.raises(InputError, match="population"):
        curator.charge(tacit.PureDP(1), label="x", population="staff")
    assert curator.history() == ()


def test_a_label_may_be_as_long_as_it_says() -> None:
    curator, _ = open_clinic()
    assert curator.charge(tacit.PureDP("0.1"), label="x" * 1000).charge.sql == "x" * 1000


def test_the_epsilon_that_was_typed_is_shown_whatever_was_released() -> None:
    curator, _ = open_clinic(accounting="zcdp", epsilon="9", delta="1e-3")
    made = [
        curator.release(tacit.Laplace(epsilon="0.5", l1_sensitivity=1), 42, label="a"),
        curator.release(tacit.Gaussian(epsilon="0.5", delta="1e-6", l2_sensitivity=1), 42, label="b"),
        curator.answer_workload("visits", tacit.Workload.marginals([["ward"]]), epsilon="0.5"),
        curator.synthesize("visits", ["ward"], epsilon="0.5", rows=10, method="independent"),
        curator.fit(
            tacit.learn.GaussianNB(epsilon="0.5", delta="1e-6", classes=["a", "b", "c"]),
            "SELECT cost, ward FROM visits",
        ),
    ]
    assert all(each.charge.text.startswith("Charged epsilon 0.5 (rho ") for each in made)
    history = [entry.text for entry in curator.history() if entry.amounts]
    assert history == [each.charge.text for each in made]
