"""An epsilon that is typed is the guarantee of the answer by itself, in every account."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from query.corpus.clinic import CATALOG
from tacit.accounting.compose import compose
from tacit.accounting.prices import gdp_price, pure_price
from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.mechanisms.laplace import Laplace
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import make_plan
from tacit.query.planning.pricing import largest_rho_of
from tacit.query.request import Account, Request
from tacit.releases.receipt import exact_events

PUBLIC = "SELECT ward, COUNT(*), AVG(cost) FROM visits GROUP BY ward"
PRIVATE = "SELECT doctor, COUNT(*) FROM visits GROUP BY doctor"


def charge(sql: str, account: Account, **price: Any) -> Any:
    return make_plan(sql, CATALOG, Request(account=account, **price)).guarantee


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-9"])
@pytest.mark.parametrize("sql", [PUBLIC, PRIVATE])
@pytest.mark.parametrize("stated", [True, False])
def test_a_zcdp_answer_is_what_was_typed_and_nearly_no_less(sql: str, epsilon: str, delta: str, stated: bool) -> None:
    small = Fraction(delta) / 100
    account = Account("zcdp", small) if stated else Account("zcdp", small, delta)
    spent = charge(sql, account, epsilon=epsilon, **({"delta": delta} if stated else {}))
    assert isinstance(spent, ZCDP)
    if sql == PRIVATE:
        assert spent.to_approx(delta).epsilon <= Fraction(epsilon)
    more = ZCDP(spent.rho * Fraction(101, 100), delta=spent.delta, relation=spent.relation)
    assert more.to_approx(delta).epsilon > Fraction(epsilon)


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
@pytest.mark.parametrize("sql", [PUBLIC, "SELECT COUNT(*) FROM visits", "SELECT SUM(cost) FROM visits"])
def test_gaussian_noise_alone_is_priced_by_its_own_profile(sql: str, epsilon: str) -> None:
    """An accountant of privacy losses, which shares no code with the planner, finds the same to within a percent."""
    plan = make_plan(sql, CATALOG, Request(epsilon=epsilon, account=Account("zcdp", "1e-8", "1e-6")))
    assert {release.mechanism for release in plan.releases} == {"gaussian"}
    found = compose(list(exact_events(plan)), delta="1e-6", method="pld")
    assert found.epsilon <= Fraction(epsilon)
    assert found.epsilon >= Fraction(epsilon) * Fraction(98, 100)
    # More than the conversion of zCDP, which holds for all noise of that rho, would have bought.
    guarantee = plan.guarantee
    assert isinstance(guarantee, ZCDP)
    assert guarantee.rho > largest_rho_of(Fraction(epsilon), Fraction("1e-6")) * Fraction(110, 100)


def test_a_query_for_the_whole_account_costs_no_more_than_it_holds() -> None:
    most = largest_rho_of(Fraction(1), Fraction("1e-6"))
    for cap, same in ((most, True), (2 * most, False)):
        account = Account("zcdp", "1e-8", "1e-6", cap)
        spent = charge("SELECT COUNT(*) FROM visits", account, epsilon="1").rho
        assert (spent == most) is same
        assert spent <= cap


def test_a_quote_shows_both_currencies_and_the_share_of_the_account() -> None:
    account = Account("zcdp", "1e-8", "1e-6", Fraction(1))
    words = explain(make_plan("SELECT SUM(cost) FROM visits", CATALOG, Request(epsilon="1", account=account)))
    assert words.charge.startswith("epsilon 1 (rho 0.02")
    assert words.alone == "epsilon 1 at delta 1e-06, 2.72% of the account"


@pytest.mark.parametrize("epsilon", ["0.01", "1", "4"])
@pytest.mark.parametrize("price", [{}, {"delta": "1e-7"}])
def test_a_gdp_answer_is_what_was_typed_and_nearly_no_less(epsilon: str, price: dict[str, str]) -> None:
    delta = price.get("delta", "1e-5")
    spent = charge(PUBLIC, Account("gdp", None, "1e-5"), epsilon=epsilon, **price)
    assert isinstance(spent, GDP)
    assert spent.to_approx(delta).epsilon <= Fraction(epsilon)
    assert GDP(spent.mu * Fraction(101, 100), relation=spent.relation).to_approx(delta).epsilon > Fraction(epsilon)


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
@pytest.mark.parametrize("sql", [PUBLIC, "SELECT COUNT(*) FROM visits", "SELECT MEDIAN(cost) FROM visits"])
def test_gaussian_noise_in_a_gdp_account_spends_what_was_typed(sql: str, epsilon: str) -> None:
    """The noise is that of the Gaussian mechanism at the μ charged, and nothing of the μ is left."""
    plan = make_plan(sql, CATALOG, Request(epsilon=epsilon, account=Account("gdp", None, "1e-6"), bias_share=0))
    assert {release.mechanism for release in plan.releases} == {"gaussian"}
    spent, guarantee = gdp_price(plan.event, plan.relation).amount, plan.guarantee
    assert isinstance(guarantee, GDP)
    assert guarantee.mu**2 * (1 - Fraction(1, 10**9)) <= spent <= guarantee.mu**2
    if len(plan.releases) == 1 and plan.releases[0].choice is None:
        noise, moved = plan.releases[0].noise, plan.releases[0].block.sensitivity.l2_squared
        assert not isinstance(noise, Laplace)
        assert 1 <= noise.sigma2 * guarantee.mu**2 / moved < 1 + Fraction(1, 10**6)


def test_without_a_delta_an_answer_is_pure_and_charged_as_such() -> None:
    plan = make_plan(PUBLIC, CATALOG, Request(epsilon="0.5", account=Account("zcdp")))
    assert plan.guarantee == ZCDP("0.125", relation=plan.relation)
    assert {release.mechanism for release in plan.releases} == {"laplace"}
    gdp = make_plan(PUBLIC, CATALOG, Request(epsilon="0.5", account=Account("gdp")))
    assert gdp.guarantee == PureDP("0.5", relation=gdp.relation).to_gdp()
    assert pure_price(gdp.event, gdp.relation).amount == Fraction("0.5")


def test_a_price_in_the_currency_of_the_account_is_charged_as_typed() -> None:
    assert charge(PUBLIC, Account("zcdp", None, "1e-6"), rho="0.02").rho == Fraction("0.02")
    assert charge(PUBLIC, Account("gdp", None, "1e-6"), mu="0.2").mu == Fraction("0.2")
    assert charge(PUBLIC, Account("pure"), epsilon="0.2") == PureDP("0.2")
    approx = charge(PUBLIC, Account("approx", "1e-7", "1e-6"), epsilon="0.2")
    assert isinstance(approx, ApproxDP)
    assert approx.epsilon == Fraction("0.2")


def test_a_delta_means_nothing_beside_a_price_in_mu() -> None:
    with pytest.raises(InputError, match="delta"):
        charge(PUBLIC, Account("gdp", None, "1e-6"), mu="0.2", delta="1e-6")
