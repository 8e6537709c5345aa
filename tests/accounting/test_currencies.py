"""Every currency at every door: account opened, charge priced, receipt written and checked, budget shown."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tacit
from support.clinic import COUNT, open_clinic
from tacit.accounting.composition_plan import read_plan
from tacit.accounting.currencies import CURRENCIES, SYMBOLS, Currency, currency_named, currency_of, implied_currency
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import event_from_json, event_to_json
from tacit.core.guarantees import RDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.ledger.protocol import to_grain
from tacit.ledger.records import filter_from_terms, price, terms_of
from tacit.project.project_file import PopulationModel
from tacit.query.planning.explain import explain
from tacit.query.request import ACCOUNTS
from tacit.releases.accounts import filter_of, share_caps
from tacit.releases.batch import guarantee_in_words, load_plan, quote_batch
from tacit.releases.receipt import charge_of, guarantee_to_plain, verify_receipt
from tacit.server.console.amounts import as_pair, symbol
from tacit.server.console.amounts import charge_of as shown_charge
from tacit.server.console.read_pages import _terms

NUMBERS = {"epsilon": "0.5", "delta": "1e-6", "rho": "0.125", "mu": "0.75"}
every = pytest.mark.parametrize("currency", CURRENCIES.values(), ids=list(CURRENCIES))


def stated(currency: Currency, relation: Any = ADD_REMOVE) -> Any:
    return currency.guarantee({name: NUMBERS[name] for name in currency.numbers}, relation)


def budget(currency: Currency, words: Any = None) -> dict[str, str]:
    numbers = {"epsilon": "8", "delta": "1e-3", "rho": "8", "mu": "5"}
    return {"accounting": currency.kind, **{name: numbers[name] for name in words or currency.budgets[-1]}}


@every
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_a_guarantee_costs_itself(currency: Currency, relation: Any) -> None:
    guarantee = stated(currency, relation)
    assert currency_of(guarantee) is currency
    assert currency.guarantee(currency.numbers_of(guarantee), relation) == guarantee
    assert tuple(currency.amounts_of(guarantee)) == currency.amounts
    event = currency.event(guarantee, "label")
    assert event.relation is relation
    for charge in (guarantee, event):
        cost = currency.cost(charge, relation)
        assert cost == currency.amounts_of(guarantee)
        assert currency.covers(guarantee, cost)
        assert not currency.covers(currency.nothing(relation), cost)
    assert currency.covers(guarantee, currency.cost(currency.nothing(relation), relation))
    # Rounded up where the inverse of the amounts is irrational.
    back = currency.numbers_of(currency.price(guarantee, relation))
    assert all(0 <= back[name] - number < Fraction(1, 10**9) for name, number in currency.numbers_of(guarantee).items())


@every
def test_accounts_are_opened_priced_and_written_down(currency: Currency) -> None:
    for words in currency.budgets:
        limit = filter_of("patients", PopulationModel(**budget(currency, words)))
        assert currency_of(limit) is currency
        assert tuple(line.currency for line in limit.lines) == currency.amounts
        assert currency_of(limit.guarantee) is currency
        again = filter_from_terms(terms_of(limit))
        assert [line.cap for line in again.lines] == [line.cap for line in limit.lines]
        assert terms_of(limit)["rule"] == currency.kind
    guarantee = stated(currency)
    priced = price(filter_of("patients", PopulationModel(**budget(currency))), guarantee)
    assert tuple(priced.amounts) == currency.amounts
    assert currency.cost(event_from_json(priced.event), ADD_REMOVE) == currency.amounts_of(guarantee)
    with pytest.raises(InputError, match=f"accounting = '{currency.kind}' needs .*, and nothing else; got nothing"):
        filter_of("patients", PopulationModel(accounting=currency.kind))
    if currency.kind == "pure":
        with pytest.raises(InputError, match="got delta, epsilon; accounting = 'approx' has a delta"):
            filter_of("patients", PopulationModel(epsilon="1", delta="1e-6"))


@every
def test_a_share_is_stated_in_epsilon(currency: Currency) -> None:
    limit = filter_of("patients", PopulationModel(**budget(currency)))
    caps = share_caps(limit, {"epsilon": "1"}, delta="1e-6")
    if "epsilon" in currency.amounts:
        assert caps == {"epsilon": "1"}
        pair = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6)}
        assert currency.caps(**pair, own_delta=Fraction(0)) == {name: pair[name] for name in currency.amounts}
    else:
        assert set(caps) <= set(currency.amounts)
        numbers = {name: Fraction(caps.get(name, 0)) for name in currency.amounts}
        assert currency.from_amounts(numbers).to_approx("1e-6").epsilon <= 1


@every
def test_queries_mechanisms_and_planned_releases_pay_in_it(currency: Currency, tmp_path: Path) -> None:
    assert currency.kind in ACCOUNTS
    curator, _ = open_clinic(**budget(currency))
    for name in currency.prices:
        asked = curator.explain(COUNT, **{name: NUMBERS[name]})  # type: ignore[arg-type]
        assert currency_of(asked.guarantee) is currency
        assert currency.numbers[0] in asked.charge
        answer = curator.sql(COUNT, **{name: NUMBERS[name]})  # type: ignore[arg-type]
        assert {each.currency for each in answer.charge.amounts} <= set(currency.amounts)
        assert explain(answer.plan).charge == asked.charge
        report = verify_receipt(answer.receipt, curator.public_key)
        assert report.ok, str(report)
        assert answer.receipt["account"] == currency.kind
    made = curator.release(tacit.Laplace(epsilon="0.25", l1_sensitivity=1), 3, label="x")
    assert verify_receipt(made.receipt, curator.public_key).ok
    charged = curator.charge(stated(currency), label="elsewhere")
    assert verify_receipt(charged.receipt, curator.public_key).ok
    assert [line.currency for line in curator.budget().lines] == list(currency.amounts)
    place = tmp_path / "plan.toml"
    total = currency.numbers[0]
    place.write_text(f'[release]\nname = "x"\n{total} = "{NUMBERS[total]}"\n[statistics.a]\nsql = "{COUNT}"\n')
    split = quote_batch(curator.context, load_plan(place))
    assert currency_of(split.guarantee) is currency


@every
def test_receipts_state_it(currency: Currency) -> None:
    guarantee = stated(currency)
    said = guarantee_to_plain(guarantee)
    assert said.pop("kind") == type(guarantee).__name__
    assert tuple(said) == currency.numbers
    charged = {each.currency: each.amount for each in charge_of(currency.kind, guarantee)}
    assert charged == {name: to_grain(amount) for name, amount in currency.amounts_of(guarantee).items()}
    for other in CURRENCIES.values():
        if other is not currency:
            with pytest.raises(InputError, match=f"a {other.kind} account is not charged in"):
                charge_of(other.kind, guarantee)


@every
def test_people_see_it(currency: Currency) -> None:
    guarantee = stated(currency)
    assert set(currency.numbers) | set(currency.amounts) <= set(SYMBOLS)
    assert shown_charge(guarantee) == currency.amounts_of(guarantee)
    epsilon, delta = as_pair(guarantee)
    assert epsilon >= 0 <= delta
    assert as_pair(currency.nothing()) == (0, 0)
    assert symbol(currency.numbers[0]) in _terms(guarantee)
    words = guarantee_in_words(guarantee, "patients")
    assert currency.concept in words
    assert all(name in words for name in currency.shown(guarantee))
    assert currency.shown(currency.nothing())
    assert currency.text(currency.amounts_of(currency.nothing())) == f"{currency.amounts[0]} 0"


@every
def test_it_is_composed_as_its_event(currency: Currency) -> None:
    (item,) = read_plan([stated(currency)]).items
    assert event_to_json(item.release) == event_to_json(currency.event(stated(currency)))  # type: ignore[arg-type]


def test_other_things_are_no_currency() -> None:
    with pytest.raises(InputError, match="RDP is not what an account is charged in"):
        currency_of(RDP.at(2, 1))
    with pytest.raises(InputError, match="must be one of pure, approx, zcdp, gdp"):
        currency_named("renyi")
    with pytest.raises(AccountingError, match="no proven cost"):
        currency_named("pure").price(tacit.ZCDP(1), ADD_REMOVE)
    assert [implied_currency(words).kind for words in ({"epsilon"}, {"epsilon", "delta"}, {"rho"}, {"mu"})] == [
        "pure",
        "zcdp",
        "zcdp",
        "gdp",
    ]
