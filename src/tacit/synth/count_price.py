"""Prices of noise on counts: how much of which noise the terms of an account buy, and the charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tacit.accounting.currencies import AccountGuarantee
from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import Relation
from tacit.query.parsing.query_options import Options
from tacit.query.planning.delta_budgets import largest_mu_of, largest_rho_of
from tacit.query.request import Request, Terms, settle
from tacit.synth.count_noise import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, ROUNDED_GAUSSIAN, CountNoise
from tacit.synth.marginal_counts import CountingContext

#: Options of a query that mean something for a workload.
_HEEDED: Final = ("epsilon", "delta", "rho", "mu", "confidence", "max_rows")


class CountPrice(NamedTuple):
    """A price of work on counts: how much of which noise, and the charge."""

    amount: Fraction
    noise: CountNoise
    guarantee: AccountGuarantee


def count_price(terms: Terms, relation: Relation) -> CountPrice:
    """The noise on counts that terms buy in their account, and the charge.

    A pure account buys Laplace noise, a GDP account rounded normal noise, others discrete Gaussian noise.

    Raises:
        InputError: an epsilon needs a delta and has none, or buys nothing.
    """
    if terms.account == "pure":
        return CountPrice(terms.amount, DISCRETE_LAPLACE, PureDP(terms.amount, relation=relation))
    if terms.currency == "rho":
        return CountPrice(terms.amount, DISCRETE_GAUSSIAN, ZCDP(terms.amount, relation=relation))
    if terms.currency == "mu":
        return CountPrice(terms.amount**2, ROUNDED_GAUSSIAN, GDP(terms.amount, relation=relation))
    delta = meant_delta(terms)
    if not delta:
        raise InputError("delta", "must be stated: an epsilon buys Gaussian noise at a delta alone, such as 1e-6")
    if terms.account == "gdp":
        mu = largest_mu_of(terms.amount, delta)
        return CountPrice(mu**2, ROUNDED_GAUSSIAN, GDP(mu, relation=relation))
    rho = largest_rho_of(terms.amount, delta)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    if terms.account == "zcdp":
        return CountPrice(rho, DISCRETE_GAUSSIAN, ZCDP(rho, relation=relation))
    return CountPrice(rho, DISCRETE_GAUSSIAN, ApproxDP(terms.amount, delta, relation=relation))


def meant_delta(terms: Terms) -> Fraction | None:
    """The delta at which an epsilon is meant; None for none."""
    return terms.delta if terms.account == "approx" else terms.alone


def settled(
    context: CountingContext, population: str, options: Mapping[str, Any], heeded: Sequence[str] = _HEEDED
) -> Terms:
    """The terms of work that is no query; options that it cannot heed are refused.

    Raises:
        InputError: an option contradicts another or the account, or is not heeded.
    """
    for name, value in options.items():
        if value is not None and name not in heeded:
            raise InputError(name, f"means nothing here; state one of {', '.join(heeded)}")
    request = Request(**options, account=context.accounts[population])
    return settle(request, Options())


def count_prices(terms: Terms, relation: Relation) -> tuple[CountPrice, ...]:
    """The kinds of noise on counts that terms buy in their account, each with its charge; all keep what is stated.

    An (ε, δ) of an approx account buys Gaussian noise at both, or Laplace noise at ε alone, which costs no δ.
    """
    if terms.account != "approx" or terms.currency != "epsilon":
        return (count_price(terms, relation),)
    pure = CountPrice(terms.amount, DISCRETE_LAPLACE, ApproxDP(terms.amount, 0, relation=relation))
    delta = meant_delta(terms)
    if not delta or largest_rho_of(terms.amount, delta) <= 0:
        return (pure,)
    return count_price(terms, relation), pure
