"""Pricing: the charge for a stated price, its division among releases, and the noise that each share buys.

The budget is an amount in one currency that adds up: ε (pure), ρ (zCDP) or μ² (GDP).

* ε: Laplace noise of scale l1/ε_i on every block.
* ρ: Gaussian noise of σ² = l2²/(2ρ_i), or Laplace noise of ε_i = √(2ρ_i), whichever has the smaller
  error.
* μ²: normal noise of σ² = l2²/μ_i², rounded to whole numbers, or Laplace noise of the largest ε_i whose μ fits,
  whichever has the smaller error.

An (ε, δ) budget is used in one of two ways, whichever has the smaller errors: as ε, δ going to the selection of private
keys alone; or as the largest ρ that converts to (ε, δ/2 or δ), the rest of δ going to the selection.

*Shares.* Every release i has a *coefficient* c_i: its error, in units of the largest contribution of one person, at a
budget of one. With pure epsilons the error is c_i/ε_i, so equal relative errors mean ε_i ∝ c_i. In zCDP and GDP the
error is c_i/√ρ_i (or c_i/√μ_i²), so the share of ρ goes with the square. A weight multiplies the epsilon (its square in
those currencies): an aggregate of weight 2 has half the relative error of one of weight 1. Shares are rationals and add
up to exactly 1. A release that no data can change gets nothing.

Proof: ``pricing.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tacit.accounting.currencies import ZERO_CONCENTRATED, AccountGuarantee, currency_of
from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.partition_selection import TruncatedGeometric
from tacit.mechanisms.residual_basis import best_levels
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.query.planning import auto_limits
from tacit.query.planning.auto_bounds import search_of, search_shares
from tacit.query.planning.bias import bias_table, cell_counts
from tacit.query.planning.blocks import Block, blocks_of
from tacit.query.planning.delta_budgets import (
    badness,
    epsilon_of_mu2,
    largest_mu_of,
    largest_rho_of,
    mu_of_epsilon,
    rho_alone,
    rho_of_gaussian,
    root_down,
)
from tacit.query.planning.rank_choice import RankChoice, part_that_draws
from tacit.query.planning.releases import (
    Asked,
    KeySelection,
    Level,
    LossPricing,
    PlanBudget,
    Priced,
    PricedPart,
    Release,
    Sets,
    key_selection,
)
from tacit.query.query import FinalAggregation
from tacit.query.relational.expressions import literal
from tacit.query.request import Terms
from tacit.query.types import INTEGER

# -- shares


def split(coefficients: Sequence[Fraction], weights: Sequence[Fraction], *, squared: bool) -> tuple[Fraction, ...]:
    """The share of each release.

    Args:
        coefficients: of each; 0 for what costs nothing.
        weights: of each.
        squared: whether the currency adds up squares of epsilons.

    >>> split([Fraction(1), Fraction(1), Fraction(0)], [Fraction(2), Fraction(1), Fraction(1)], squared=False)
    (Fraction(2, 3), Fraction(1, 3), Fraction(0, 1))
    """
    claims = [c * w for c, w in zip(coefficients, weights, strict=True)]
    if squared:
        claims = [claim * claim for claim in claims]
    total = sum(claims, Fraction(0))
    return tuple(claim / total if total else Fraction(0) for claim in claims)


# -- releases within a budget

#: One release may hold this many numbers when the number of groups is private.
ANY_NUMBER = 10**12
#: Integers of levels are multiplied until the variance of Gaussian noise is this large, up to this factor: the same
#: price, and sums of many noises are nearly normal.
_FINE_GRID, _LARGEST_FACTOR = 1 << 16, 1 << 24
#: The norm that noise follows, and the power of its share with which the precision of a level grows.
_LEVEL_NOISE: Final = {"epsilon": (1, 2), "rho": (2, 1), "mu2": (2, 1)}
#: Smallest σ² of normal noise that is rounded; below it there is hardly any, and Laplace noise does.
_LEAST_ROUNDED: Final = Fraction(1, 4)


def price(
    final: FinalAggregation,
    budget: PlanBudget,
    relation: Relation,
    *,
    weights: Sequence[Fraction] | None = None,
    keys_weight: Fraction = Fraction(1),
    rule: str = "best",
    beta: Fraction = Fraction(1, 20),
    sets: Sets = (),
) -> Priced:
    """The releases that a budget buys.

    Args:
        final: what is to be released.
        budget: what it may cost in all.
        relation: which databases are neighbours.
        weights: of the measurements; all 1 by default. A block has the largest of its measurements.
        keys_weight: of the selection of private keys.
        rule: of that selection.
        beta: where Laplace and Gaussian noise are compared, by the error that is exceeded with this probability.
        sets: places of the keys of each grouping set; empty where only the groups themselves are asked for.
    """
    own = weights or [Fraction(1)] * len(final.measures)
    blocks = blocks_of(final, relation, concentrated=budget.concentrated, weights=own)
    claims = [max(own[index] for index in block.measures) for block in blocks]
    private = not final.public_keys
    shares = split(
        [block.coefficient for block in blocks] + [Fraction(1)] * private,
        claims + [keys_weight] * private,
        squared=budget.concentrated,
    )
    numbers = [ANY_NUMBER if final.group_count is None else final.group_count * block.integers for block in blocks]
    releases = tuple(
        _with_levels(_release(block, budget, share, relation, count, beta), final, budget, sets, beta)
        for block, share, count in zip(blocks, shares, numbers, strict=False)
    )
    selection = _selection(final, budget, shares[-1], relation, rule) if private else None
    return Priced(budget, releases, selection, sets=sets)


def _with_levels(release: Release, final: FinalAggregation, budget: PlanBudget, sets: Sets, beta: Fraction) -> Release:
    """The release with noise on sums of groups, where that makes the variances of all grouping sets together smaller.

    Whether it does is computed from public sizes, the number of groups of a unit and the kind of noise.
    """
    if not sets or not final.public_keys or release.mechanism == "constant":
        return release
    movement = release.block.movement(final)
    if movement is None:
        return release
    sizes, names = tuple(len(key.values or ()) for key in final.keys), [key.name for key in final.keys]
    norm, power = _LEVEL_NOISE[budget.currency]
    shares = best_levels(sizes, sets, movement, norm=norm, power=power)

    def levels(scale: int) -> tuple[Level, ...]:
        found = []
        for axes, share in shares or ():
            keys = ", ".join(names[axis] for axis in axes) or "none of the keys"
            cells, merged = math.prod(sizes[axis] for axis in axes), final.parts_by(axes)
            block = release.block.at_level(movement.at(merged, cells), merged, keys, scale)
            numbers = cells * block.integers
            found.append(Level(axes, _release(block, budget, release.share * share, release.relation, numbers, beta)))
        return tuple(found)

    made, scale = levels(1), 1
    noises = [level.release.noise() for level in made]
    if made and all(isinstance(noise, Gaussian | RoundedGaussian) for noise in noises):
        least = min(noise.sigma2 for noise in noises if isinstance(noise, Gaussian | RoundedGaussian))
        while least * scale**2 < _FINE_GRID and scale < _LARGEST_FACTOR:
            scale *= 2
        made = levels(scale)
    return replace(release, levels=made, sizes=sizes, scale=scale) if made else release


def _release(
    block: Block, budget: PlanBudget, share: Fraction, relation: Relation, numbers: int, beta: Fraction
) -> Release:
    amount = budget.amount * share
    zero = Fraction(0)
    choice = _choice(block, budget, share, relation) if block.fractions and amount else None
    if choice is not None:
        amount -= budget.amount * choice.share

    def make(mechanism: str, epsilon: Fraction = zero, rho: Fraction = zero, mu: Fraction = zero) -> Release:
        return Release(block, mechanism, epsilon, rho, share, relation, numbers, choice, mu)

    if not amount:
        return make("constant")
    if budget.currency == "epsilon":
        return make("laplace", amount)
    if budget.currency == "mu2":
        gaussian, laplace = make("gaussian", mu=root_down(amount)), make("laplace", epsilon_of_mu2(amount))
        if block.sensitivity.l2_squared < _LEAST_ROUNDED * amount:
            return laplace
    else:
        gaussian, laplace = make("gaussian", rho=amount), make("laplace", root_down(2 * amount))
    measure = block.measures[0]
    lighter = gaussian.law(measure).variance_bound <= laplace.law(measure).variance_bound
    if lighter and beta <= Fraction(1, 4):
        # A smaller variance and lighter tails: away from the middle the error is smaller too, and need not be computed.
        return gaussian
    return min(gaussian, laplace, key=lambda release: release.law(measure).error(beta))


def _choice(block: Block, budget: PlanBudget, share: Fraction, relation: Relation) -> RankChoice:
    """The draws of quantiles, with most of the share of a block."""
    drawing = part_that_draws(block.fractions)
    own = share * (drawing if budget.currency == "epsilon" else drawing**2)
    each = budget.amount * own / (block.groups * len(block.fractions))
    match budget.currency:
        case "epsilon":
            epsilon = each
        case "rho":
            # A draw of bounded range ε is ε²/8-zCDP.
            epsilon = root_down(8 * each)
        case _:
            # And has the μ of ε/2-DP.
            epsilon = 2 * epsilon_of_mu2(each)
    (index,) = block.measures
    return RankChoice(index, block.fractions, epsilon, block.rows, block.groups, block.width, own, relation, block.name)


def _selection(
    final: FinalAggregation, budget: PlanBudget, share: Fraction, relation: Relation, rule: str
) -> KeySelection:
    if not budget.delta:
        raise InputError("delta", "must be stated and greater than 0: the groups of this query are chosen privately")
    amount, zero, groups = budget.amount * share, Fraction(0), final.max_groups
    if budget.currency == "rho":
        best = key_selection(zero, amount, budget.delta, groups, rule, relation)
        return KeySelection(best.rule, zero, amount, budget.delta, groups, share, relation)
    if budget.currency != "epsilon":
        raise InputError(
            "account",
            "groups that are chosen privately cannot be paid for by this budget, which has no delta to spend; group by "
            "a column with declared categories, or by a public table",
        )
    if rule == "best":
        # Gaussian noise pays by l2 and is what the zCDP way of spending the same budget uses.
        touched = groups * (1 if relation is ADD_REMOVE else 2)
        short = TruncatedGeometric.is_short(amount / touched, budget.delta / touched)
        rule = "truncated_geometric" if short else "laplace"
    return KeySelection(rule, amount, zero, budget.delta, groups, share, relation)


# -- budget and charge in each kind of account


_RULES: Final = {
    "AUTO": "best",
    "PUBLIC_GROUPS": "best",
    "LAPLACE_THRESHOLD": "laplace",
    "GAUSSIAN_THRESHOLD": "gaussian",
    "TRUNCATED_GEOMETRIC": "truncated_geometric",
}


def buy(
    parts: Sequence[PricedPart], relation: Relation, terms: Terms, currency: str, amount: Fraction
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    """Releases of each part that an amount of ``currency`` buys in the account of ``terms``, and the charge for all."""
    bought, guarantee = _bought(parts, relation, terms, currency, amount)
    # A query that releases nothing about any unit, such as the list of public keys, costs nothing.
    # Neither does the search for limits that would not matter.
    found = tuple(replace(each, bias=None, limits=None) if _is_constant(each) else each for each in bought)
    if all(map(_is_constant, found)):
        return found, currency_of(guarantee).nothing(relation)
    return found, guarantee


def _is_constant(priced: Priced) -> bool:
    """Whether no data can change what is released."""
    return priced.keys is None and all(release.mechanism == "constant" for release in priced.releases)


def buy_rest(
    final: FinalAggregation,
    relation: Relation,
    budget: PlanBudget,
    asked: Asked,
    first: Priced | None,
    limits: Priced | None = None,
    sets: Sets = (),
) -> Priced:
    """Releases that a budget buys besides the searches for AUTO bounds and limits, before or after them.

    The kind of noise is decided without the confidence of intervals, which may differ when an answer is looked at
    again.
    """
    weights, keys, rule = asked
    priced = price(final, budget, relation, weights=weights, keys_weight=keys, rule=rule, sets=sets)
    return replace(priced, first=first, asked=asked, limits=limits)


def _bought(
    parts: Sequence[PricedPart], relation: Relation, terms: Terms, currency: str, amount: Fraction
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    private = any(not part.final.public_keys for part in parts)
    delta = (terms.delta or Fraction(0)) if private else Fraction(0)

    def bought(budget: PlanBudget) -> tuple[Priced, ...]:
        budgets = _divided(parts, budget, relation)
        return tuple(_buy_part(part, each, relation, terms) for part, each in zip(parts, budgets, strict=True))

    match terms.account:
        case "pure":
            return bought(PlanBudget("epsilon", amount)), PureDP(amount, relation=relation)
        case "zcdp" if currency == "epsilon" and terms.alone is None:
            return bought(PlanBudget("epsilon", amount, delta)), ZCDP(amount**2 / 2, delta=delta, relation=relation)
        case "zcdp":
            rho, delta = (amount, delta) if currency == "rho" else rho_alone(amount, delta, terms)
            priced = bought(PlanBudget("rho", rho, delta))
            more = rho if currency == "rho" else rho_of_gaussian(parts, priced, amount, terms)
            if more > rho:
                priced, rho = bought(PlanBudget("rho", more, delta)), more
            return priced, ZCDP(rho, delta=delta, relation=relation)
        case "gdp" if currency == "epsilon" and terms.alone is None:
            return bought(PlanBudget("epsilon", amount)), GDP(mu_of_epsilon(amount).mu, relation=relation)
        case "gdp":
            mu = amount if currency == "mu" else largest_mu_of(amount, terms.alone or Fraction(0))
            return bought(PlanBudget("mu2", mu**2)), GDP(mu, relation=relation)
        case _:
            return _buy_approx(parts, relation, terms, amount, bought)


def _divided(parts: Sequence[PricedPart], budget: PlanBudget, relation: Relation) -> list[PlanBudget]:
    """The budget of each part: together they have equal relative errors, as the releases of one part have."""
    if len(parts) == 1:
        return [budget]
    squared = budget.concentrated
    claims = [_claim(part, budget, relation, squared=squared) for part in parts]
    total = sum(claims, Fraction(0)) or Fraction(1)
    selections = sum(not part.final.public_keys for part in parts)
    return [
        PlanBudget(
            budget.currency,
            budget.amount * claim / total,
            Fraction(0) if part.final.public_keys else budget.delta / selections,
        )
        for part, claim in zip(parts, claims, strict=True)
    ]


def _claim(part: PricedPart, budget: PlanBudget, relation: Relation, *, squared: bool) -> Fraction:
    """The sum of the claims of all releases of a part; see :func:`split`."""
    own = part.weights.measures
    blocks = blocks_of(part.final, relation, concentrated=budget.concentrated, weights=own)
    claims = [block.coefficient * max(own[index] for index in block.measures) for block in blocks]
    claims += [] if part.final.public_keys else [part.weights.keys]
    return sum((claim * claim if squared else claim for claim in claims), Fraction(0))


def _buy_part(part: PricedPart, budget: PlanBudget, relation: Relation, terms: Terms) -> Priced:
    """Releases of one aggregation that a budget buys, with its searches and the table of what it leaves out."""
    final, weights, sets = part
    beta = 1 - terms.confidence
    asked = (tuple(weights.measures), weights.keys, _RULES[terms.rule])
    table = bias_table(final) if terms.bias_share and budget.amount else None

    def answered(budget: PlanBudget) -> Priced:
        claims = {}
        if final.seeks_limits:
            worth = auto_limits.search_weight(final)
            claims["limits"] = ((weights.limits, worth), auto_limits.search_of(final))
        if final.seeks_bounds:
            claims["first"] = ((weights.bounds, Fraction(1)), search_of(final))
        if not claims:
            return price(
                final, budget, relation, weights=asked[0], keys_weight=asked[1], rule=asked[2], beta=beta, sets=sets
            )
        shares = search_shares([weight for weight, _ in claims.values()], squared=budget.concentrated)
        searches = {
            name: price(search, PlanBudget(budget.currency, budget.amount * share), relation)
            for (name, (_, search)), share in zip(claims.items(), shares, strict=True)
        }
        rest = PlanBudget(budget.currency, budget.amount * (1 - sum(shares)), budget.delta)
        return buy_rest(final, relation, rest, asked, searches.get("first"), searches.get("limits"), sets)

    if table is None:
        return answered(budget)
    share = terms.bias_share
    # The cell of a unit is a matter of the run; the price depends on the number of cells alone.
    counts = cell_counts(final.source, [literal(0, INTEGER)] * (len(table.causes) + 1), table)
    own = price(counts, PlanBudget(budget.currency, budget.amount * share), relation)
    rest = PlanBudget(budget.currency, budget.amount * (1 - share), budget.delta)
    return replace(answered(rest), bias=LossPricing(table, own))


def _buy_approx(
    parts: Sequence[PricedPart],
    relation: Relation,
    terms: Terms,
    epsilon: Fraction,
    bought: Callable[[PlanBudget], tuple[Priced, ...]],
) -> tuple[tuple[Priced, ...], ApproxDP]:
    """An (ε, δ) budget, spent as ε or as ρ, whichever has the smaller errors; δ is charged if it was needed."""
    delta, private = terms.delta or Fraction(0), any(not part.final.public_keys for part in parts)
    ways: list[tuple[tuple[Priced, ...], Fraction]] = []
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
    priced, charged = min(ways, key=lambda way: badness(parts, way[0], beta))
    return priced, ApproxDP(epsilon, charged, relation=relation)


def check_charge(event: ComposedEvent, guarantee: AccountGuarantee) -> None:
    """The events of a plan, composed, must cost no more than the charge; anything else is a defect of the planner."""
    currency = currency_of(guarantee)
    try:
        within = currency.covers(guarantee, currency.cost(event, event.relation))
    except AccountingError:
        if not isinstance(guarantee, ApproxDP):
            raise
        total = ZCDP(**ZERO_CONCENTRATED.cost(event, event.relation), relation=event.relation)
        within = total.delta < guarantee.delta and total.to_approx(guarantee.delta).epsilon <= guarantee.epsilon
    if not within:
        raise InternalError("a plan would release more than it charges")
