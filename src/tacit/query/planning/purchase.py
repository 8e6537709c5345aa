"""Purchase: charge and budget for the stated price in each kind of account."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

from tacit.accounting.prices import approx_price, gdp_price, pure_price, zcdp_price
from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.numbers import float_nearest
from tacit.core.relations import Relation
from tacit.query.planning.auto_bounds import search_of, search_share, sought
from tacit.query.planning.expected_error import expected_error
from tacit.query.planning.pricing import Asked, PlanBudget, Priced, largest_rho_of, mu_of_epsilon, price
from tacit.query.question import FinalAggregation
from tacit.query.request import Terms

__all__ = ["Charge", "Weights", "buy", "buy_rest", "check_charge"]

#: A guarantee in the currency of an account.
Charge = PureDP | ApproxDP | ZCDP | GDP


class Weights(NamedTuple):
    """How much every measurement, the selection of keys and the search for AUTO bounds matter."""

    measures: list[Fraction]
    keys: Fraction
    bounds: Fraction


_RULES: Final = {
    "AUTO": "best",
    "PUBLIC_GROUPS": "best",
    "LAPLACE_THRESHOLD": "laplace",
    "GAUSSIAN_THRESHOLD": "gaussian",
    "TRUNCATED_GEOMETRIC": "truncated_geometric",
}


def buy(
    final: FinalAggregation, relation: Relation, terms: Terms, currency: str, amount: Fraction, weights: Weights
) -> tuple[Priced, Charge]:
    """What an amount of ``currency`` buys in the account of ``terms``, and the charge for it."""
    priced, guarantee = _bought(final, relation, terms, currency, amount, weights)
    if priced.keys is None and all(release.mechanism == "constant" for release in priced.releases):
        return priced, _nothing(guarantee)
    return priced, guarantee


def buy_rest(
    final: FinalAggregation, relation: Relation, budget: PlanBudget, asked: Asked, first: Priced | None
) -> Priced:
    """What a budget buys besides a search for AUTO bounds, before or after it.

    The kind of noise is decided without the confidence of intervals, which may differ when an answer is looked at
    again.
    """
    weights, keys, rule = asked
    priced = price(final, budget, relation, weights=weights, keys_weight=keys, rule=rule)
    return replace(priced, first=first, asked=asked)


def _nothing(guarantee: Charge) -> Charge:
    """A question that releases nothing of anybody, such as the list of public keys, costs nothing."""
    match guarantee:
        case PureDP():
            return PureDP(0, relation=guarantee.relation)
        case ApproxDP():
            return ApproxDP(0, 0, relation=guarantee.relation)
        case ZCDP():
            return ZCDP(0, relation=guarantee.relation)
        case _:
            return GDP(0, relation=guarantee.relation)


def _bought(
    final: FinalAggregation, relation: Relation, terms: Terms, currency: str, amount: Fraction, weights: Weights
) -> tuple[Priced, Charge]:
    delta = (terms.delta or Fraction(0)) if not final.public_keys else Fraction(0)

    beta = 1 - terms.confidence
    asked = (tuple(weights.measures), weights.keys, _RULES[terms.rule])

    def bought(budget: PlanBudget) -> Priced:
        if not sought(final):
            return price(final, budget, relation, weights=asked[0], keys_weight=asked[1], rule=asked[2], beta=beta)
        share = search_share(weights.bounds, squared=budget.currency != "epsilon")
        search = price(search_of(final), PlanBudget(budget.currency, budget.amount * share), relation)
        rest = PlanBudget(budget.currency, budget.amount * (1 - share), budget.delta)
        return buy_rest(final, relation, rest, asked, search)

    match terms.account:
        case "pure":
            return bought(PlanBudget("epsilon", amount)), PureDP(amount, relation=relation)
        case "zcdp":
            rho = amount if currency == "rho" else amount**2 / 2
            return bought(PlanBudget("rho", rho, delta)), ZCDP(rho, delta=delta, relation=relation)
        case "gdp":
            mu = amount if currency == "mu" else mu_of_epsilon(amount).mu
            return bought(PlanBudget("mu2", mu**2)), GDP(mu, relation=relation)
        case _:
            return _buy_approx(final, relation, terms, amount, bought)


def _buy_approx(
    final: FinalAggregation, relation: Relation, terms: Terms, epsilon: Fraction, bought: Callable[[PlanBudget], Priced]
) -> tuple[Priced, ApproxDP]:
    """An (ε, δ) budget, spent as ε or as ρ, whichever has the smaller errors; δ is charged if it was needed."""
    delta, private = terms.delta or Fraction(0), not final.public_keys
    ways: list[tuple[Priced, Fraction]] = []
    if not private or _RULES[terms.rule] != "gaussian":
        needed = delta if private else Fraction(0)
        ways.append((bought(PlanBudget("epsilon", epsilon, needed)), needed))
    for_keys = delta / 2 if private else Fraction(0)
    rho = largest_rho_of(epsilon, delta - for_keys) if delta else Fraction(0)
    if rho > 0:
        ways.append((bought(PlanBudget("rho", rho, for_keys)), delta))
    if not ways:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    beta = 1 - terms.confidence
    priced, charged = min(ways, key=lambda way: _badness(final, way[0], beta))
    return priced, ApproxDP(epsilon, charged, relation=relation)


def _badness(final: FinalAggregation, priced: Priced, beta: Fraction) -> float:
    """The logarithm of the product of all errors: to halve one and double another is no gain."""
    bounds = [expected_error(final, a, priced, beta, 10**6).bound or Fraction(1) for a in final.aggregates]
    if priced.keys is not None:
        bounds.append(Fraction(priced.keys.mechanism().error(beta)))
    return math.fsum(math.log(max(float_nearest(bound), 1e-9)) for bound in bounds)


def check_charge(event: ComposedEvent, guarantee: Charge) -> None:
    """The events of a plan, composed, must be within what is charged; anything else is a defect of the planner."""
    relation = event.relation
    match guarantee:
        case PureDP():
            within = pure_price(event, relation).amount <= guarantee.epsilon
        case GDP():
            within = gdp_price(event, relation).amount <= guarantee.mu**2
        case ZCDP():
            spent = zcdp_price(event, relation)
            within = spent.amount <= guarantee.rho and spent.delta <= guarantee.delta
        case ApproxDP():
            within = _is_within_pair(event, guarantee)
    if not within:
        raise InternalError("a plan would release more than it charges")


def _is_within_pair(event: ComposedEvent, guarantee: ApproxDP) -> bool:
    try:
        pair = approx_price(event, event.relation)
    except AccountingError:
        spent = zcdp_price(event, event.relation)
        total = ZCDP(spent.amount, delta=spent.delta, relation=event.relation)
        return spent.delta < guarantee.delta and total.to_approx(guarantee.delta).epsilon <= guarantee.epsilon
    return pair.amount <= guarantee.epsilon and pair.delta <= guarantee.delta
