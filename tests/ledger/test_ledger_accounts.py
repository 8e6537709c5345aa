"""Accounts, quotas, sources, analysts and what they spend: never lowered by any name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from support.ledgers import NOON, Place, answered, asking, clinic, reserved, spent
from tacit.accounting.filters import ApproxFilter, GDPFilter, PureFilter, PureOrZCDPFilter, RenyiFilter, ZCDPFilter
from tacit.core.errors import AccessError, BudgetError, InputError
from tacit.core.guarantees import GDP, ZCDP, PureDP
from tacit.ledger import Order, Outcome

FILTERS = [
    PureFilter(epsilon="4"),
    ApproxFilter(epsilon="4", delta="1e-6"),
    ZCDPFilter(rho="0.5"),
    ZCDPFilter.for_target(epsilon="1", delta="1e-6", own_delta="5e-7"),
    GDPFilter(mu="1.5"),
    GDPFilter.for_target(epsilon="1", delta="1e-6"),
    RenyiFilter(alpha=8, epsilon="1"),
    PureFilter(epsilon="1/3", relation="replace_one"),
]


@pytest.mark.parametrize("limit", FILTERS, ids=repr)
def test_terms_survive_and_may_be_stated_again(place: Place, limit: PureFilter) -> None:
    with place.open() as ledger:
        ledger.ensure_account("patients", limit)
        ledger.ensure_account("patients", limit)
        kept = ledger.filter("patients")
        assert type(kept) is type(limit)
        assert (kept.lines, kept.relation, kept.guarantee) == (limit.lines, limit.relation, limit.guarantee)
        assert ledger.budget("patients").lines[0].cap <= limit.lines[0].cap
        assert ledger.accounts() == ("patients",)


def test_other_terms_are_refused(place: Place) -> None:
    with clinic(place) as ledger:
        for limit in (
            PureFilter(epsilon=2),
            PureFilter(epsilon=1, relation="replace_one"),
            ApproxFilter(epsilon=1, delta=0),
        ):
            with pytest.raises(InputError, match="the account has pure, epsilon 1"):
                ledger.ensure_account("Patients", limit)
        assert len([*ledger.history()]) == 0


def test_a_rule_that_is_not_a_sum_is_refused(place: Place) -> None:
    with place.open() as ledger, pytest.raises(InputError, match="PureOrZCDPFilter is another rule"):
        ledger.ensure_account("patients", PureOrZCDPFilter(epsilon=1, delta="1e-6"))


def test_caps_change_by_an_operator_only_and_spending_stays(place: Place) -> None:
    with clinic(place) as ledger:
        reserved(ledger, asking("0.75"))
        ledger.change_caps("patients", PureFilter(epsilon="1/2"), reason="less", operator="owner")
        assert (spent(ledger), ledger.budget("patients", charge=PureDP("0.1")).queries) == (Fraction(3, 4), 0)
        with pytest.raises(BudgetError, match=r"has 0 of 0\.5 left"):
            ledger.reserve(asking("1e-9"))
        ledger.change_caps("patients", PureFilter(epsilon=2), reason="more", operator="owner")
        reserved(ledger, asking("1.25"))
        with pytest.raises(BudgetError):
            ledger.reserve(asking("1e-9"))
        with pytest.raises(InputError, match="must keep the account's rule"):
            ledger.change_caps("patients", ZCDPFilter(rho=9), reason="?", operator="owner")
        with pytest.raises(InputError, match="reason: must say something"):
            ledger.change_caps("patients", PureFilter(epsilon=9), reason=" ", operator="owner")
        with pytest.raises(InputError):
            ledger.ensure_account("patients", PureFilter(epsilon=1))
        ledger.ensure_account("patients", PureFilter(epsilon=2))
        assert ledger.verify().ok


def test_a_quota_limits_an_analyst_within_the_account(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.set_quota("patients", {"epsilon": "0.3"}, analyst="alice", operator="owner")
        reserved(ledger, asking("0.2", analyst="Alice"))
        with pytest.raises(BudgetError, match=r"epsilon needs 0.2 and has 0.1 of 0.3 left for analyst alice"):
            ledger.reserve(asking("0.2", analyst="alice"))
        reserved(ledger, asking("0.7", analyst="bob"))
        with pytest.raises(BudgetError) as caught:
            ledger.reserve(asking("0.2", analyst="alice"))
        assert str(caught.value).count("needs 0.2") == 2
        budget = ledger.budget("patients", analyst="ALICE", charge=PureDP("0.05"))
        assert [(b.owner, b.limited, b.lines[0].spent, b.lines[0].cap) for b in budget.balances] == [
            ("population", True, Fraction(9, 10), 1),
            ("analyst alice", True, Fraction(1, 5), Fraction(3, 10)),
        ]
        assert budget.queries == 2


def test_a_quota_counts_what_was_spent_before_it(place: Place) -> None:
    with clinic(place) as ledger:
        reserved(ledger, asking("0.5", analyst="alice", project="study"))
        ledger.set_quota("patients", {"epsilon": "0.4"}, analyst="Alice")
        with pytest.raises(BudgetError, match=r"has 0 of 0\.4 left for analyst alice"):
            ledger.reserve(asking("0.1", analyst="alice"))
        reserved(ledger, asking("0.1", analyst="bob", project="study"))
        ledger.set_quota("patients", None, analyst="alice")
        reserved(ledger, asking("0.1", analyst="alice", project="other"))
        assert ledger.budget("patients", analyst="alice").balances[1].lines[0].spent == Fraction(6, 10)


def test_quotas_are_about_known_currencies_and_amounts(place: Place) -> None:
    with clinic(place) as ledger:
        with pytest.raises(InputError, match="rho: is not what this account counts: epsilon"):
            ledger.set_quota("patients", {"rho": 1}, analyst="alice")
        with pytest.raises(InputError):
            ledger.set_quota("patients", {"epsilon": -1}, analyst="alice")


def test_two_currencies_move_together(place: Place) -> None:
    with place.open() as ledger:
        ledger.ensure_account("patients", ZCDPFilter(rho=1, delta="1e-6"))
        ledger.set_quota("patients", {"delta": "1e-7"}, analyst="alice")
        reserved(ledger, Order("patients", ZCDP("0.1", delta="1e-7"), analyst="alice"))
        with pytest.raises(BudgetError, match="delta needs 1e-09 and has 0 of 1e-07 left for analyst alice"):
            ledger.reserve(Order("patients", ZCDP("0.1", delta="1e-9"), analyst="alice"))
        reserved(ledger, Order("patients", ZCDP("0.1"), analyst="alice"))
        assert [line.spent for line in ledger.budget("patients").lines] == [Fraction(1, 5), Fraction(1, 10**7)]


def test_gdp_adds_squares(place: Place) -> None:
    with place.open() as ledger:
        ledger.ensure_account("patients", GDPFilter(mu=1))
        for _ in range(9):
            reserved(ledger, Order("patients", GDP("1/3")))
        with pytest.raises(BudgetError):
            ledger.reserve(Order("patients", GDP("1e-9")))
        assert ledger.verify().ok


def test_a_source_stays_with_its_population(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.ensure_account("staff", PureFilter(epsilon=1))
        ledger.bind_source("patients", ["path:/data/visits", "sha:1"], name="visits")
        ledger.bind_source("patients", ["path:/data/renamed", "sha:1"])
        for known in ("path:/data/visits", "path:/data/renamed", "sha:1"):
            with pytest.raises(InputError, match="belongs to the population 'patients'"):
                ledger.bind_source("staff", ["new", known])
            assert ledger.source_of(known) == "patients"
        assert ledger.source_of("new") is None
        head = ledger.head
        ledger.bind_source("PATIENTS", ["sha:1"])
        assert ledger.head == head


def test_revoked_analysts_are_refused_and_never_forgotten(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.set_quota("patients", {"epsilon": "0.3"}, analyst="alice")
        ledger.add_analyst("Alice", {"token": "hash"}, operator="owner")
        answered(ledger, asking("0.2", analyst="alice", repeat_key="r"))
        ledger.revoke_analyst("alice", operator="owner", reason="left")
        for order in (asking("0.01", analyst="alice"), asking("0.2", analyst="ALICE", repeat_key="r")):
            with pytest.raises(AccessError, match="alice may not ask any more"):
                ledger.reserve(order)
        assert [(a.name, a.active, a.details) for a in ledger.analysts()] == [("alice", False, {"token": "hash"})]
        ledger.add_analyst("alice", {"token": "new"})
        assert isinstance(ledger.reserve(asking("0.2", analyst="alice", repeat_key="r")), Outcome)
        with pytest.raises(BudgetError):
            ledger.reserve(asking("0.2", analyst="alice"))
        assert ledger.verify().ok


def test_names_have_one_spelling(place: Place) -> None:
    with clinic(place) as ledger:
        reserved(ledger, Order("PATIENTS ", PureDP("0.1"), analyst="Stra\u00dfe"))
        reserved(ledger, Order("\uff50atients", PureDP("0.1"), analyst="STRASSE"))
        assert ledger.budget("patients", analyst="strasse").balances[1].lines[0].spent == Fraction(1, 5)
        for bad in ("", "   ", "a\nb", "x" * 201, "\ud800"):
            with pytest.raises(InputError, match="population"):
                ledger.ensure_account(bad, PureFilter(epsilon=1))


def test_history_and_notes(place: Place) -> None:
    with clinic(place, clock=lambda: NOON) as ledger:
        answered(ledger, asking("0.1", analyst="alice", sql="one", plan="p1"), b"x")
        reserved(ledger, asking("0.2", analyst="bob", project="study", sql="two"))
        assert [r.sql for r in ledger.history()] == ["one", "two"]
        assert [r.sql for r in ledger.history(newest_first=True)] == ["two", "one"]
        assert [r.sql for r in ledger.history(analyst="Bob")] == ["two"]
        assert [r.sql for r in ledger.history(project="study", population="patients")] == ["two"]
        assert [*ledger.history(population="staff")] == []
        first = next(iter(ledger.history()))
        assert (first.time, first.plan, first.committed) == ("2026-11-15T12:00:00+00:00", "p1", first.seq + 1)
        outcome = ledger.outcome(first.seq)
        assert outcome is not None
        assert first.digest == outcome.digest
        head = ledger.note("key", {"public": "abc"})
        ledger.note("other", {})
        assert [*ledger.notes("key")] == [(head, {"public": "abc"})]
        assert len([*ledger.notes()]) == 2


@pytest.mark.parametrize("kind", ["zcdp", "gdp"])
def test_a_refusal_names_an_epsilon_that_still_fits(place: Place, kind: str) -> None:
    """Accounts that count in rho or mu are asked in epsilon: the one named fits, and a fiftieth more does not."""
    filters: dict[str, Any] = {"zcdp": ZCDPFilter, "gdp": GDPFilter}
    own = {"own_delta": "5e-9"} if kind == "zcdp" else {}
    delta = "1e-08" if kind == "zcdp" else "1e-06"
    first, dear = (ZCDP("0.02"), ZCDP(1)) if kind == "zcdp" else (GDP("0.2"), GDP(3))

    def query(epsilon: Fraction) -> Order:
        mu = GDPFilter.for_target(epsilon=epsilon, delta=delta).mu
        return Order("patients", ZCDP(mu**2 / 2) if kind == "zcdp" else GDP(mu))

    with place.open() as ledger:
        ledger.ensure_account("patients", filters[kind].for_target(epsilon=2, delta=delta, **own))
        ledger.reserve(Order("patients", first))
        with pytest.raises(BudgetError, match=f" at delta {delta} is about the most that a query can have$") as caught:
            ledger.reserve(Order("patients", dear))
        epsilon = Fraction(str(caught.value).rpartition("; epsilon ")[2].split()[0])
        with pytest.raises(BudgetError):
            ledger.reserve(query(epsilon * Fraction(51, 50)))
        ledger.reserve(query(epsilon))


def test_a_refusal_in_a_currency_without_queries_in_epsilon_is_plain(place: Place) -> None:
    with place.open() as ledger:
        ledger.ensure_account("patients", RenyiFilter(alpha=8, epsilon="1"))
        with pytest.raises(BudgetError, match=r"left$"):
            ledger.reserve(asking("4"))
