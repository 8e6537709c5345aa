"""Pricing: the charge for a stated budget, its division among releases, and the noise that each share buys.

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
up to exactly 1. A release that no data can change has share 0.

*Grouping sets.* The finest groups, by all keys of all sets, are bounded once, and each coarser group is a sum of
finest groups (:mod:`tacit.query.postprocess.result`), so that totals are consistent. Either the finest groups get
noise, and a total over m groups has the noise of m cells; or sums of finest groups by some of the keys get noise, and
all groups are estimated from these sums (:mod:`tacit.mechanisms.residual_basis`), whichever has the smaller variance
over all sets (:func:`tacit.query.planning.pricing.price`). The list of groups is public: a set has one group per
combination of its keys' values.

Proof: ``pricing.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tacit.accounting.currencies import ZERO_CONCENTRATED, AccountGuarantee, currency_of
from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.events import ComposedEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.normal import normal_cdf_bounds
from tacit.core.numbers import float_nearest, log_bounds, round_down, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.base import smallest_that
from tacit.mechanisms.gaussian_profile import rounded_normals_give_at_most
from tacit.mechanisms.partition_selection import TruncatedGeometric
from tacit.mechanisms.residual_basis import best_levels
from tacit.query import limits
from tacit.query.aggregates import entry_of, expected_error
from tacit.query.aggregates.ranks import RankChoice, part_that_draws
from tacit.query.planning import auto_limits
from tacit.query.planning.auto_bounds import search_of, search_shares
from tacit.query.planning.bias import bias_table, cell_counts
from tacit.query.planning.measures import COUNT_UNITS
from tacit.query.planning.noise import gaussian_noise
from tacit.query.planning.releases import (
    Asked,
    Block,
    KeySelection,
    Level,
    LossPricing,
    PlanBudget,
    Priced,
    PricedPart,
    Release,
    Sets,
    blocks_of,
    key_selection,
)
from tacit.query.query import FinalAggregation, Query, TotalOf, Totals, with_branches
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import released_values
from tacit.query.relational.expressions import literal
from tacit.query.request import EVERY, Terms
from tacit.query.types import INTEGER

# -- shares


def split(coefficients: Sequence[Fraction], weights: Sequence[Fraction], *, squared: bool) -> tuple[Fraction, ...]:
    """Return the share of the budget of each release.

    Args:
        coefficients: of each release; 0 for a release at no cost.
        weights: of each release.
        squared: whether the currency adds up squares of epsilons.

    >>> split([Fraction(1), Fraction(1), Fraction(0)], [Fraction(2), Fraction(1), Fraction(1)], squared=False)
    (Fraction(2, 3), Fraction(1, 3), Fraction(0, 1))
    """
    claims = [c * w for c, w in zip(coefficients, weights, strict=True)]
    if squared:
        claims = [claim * claim for claim in claims]
    total = sum(claims, Fraction(0))
    return tuple([claim / total if total else Fraction(0) for claim in claims])


# -- releases within a budget


#: Largest number of integers in one release when the number of groups is private.
ANY_NUMBER = 10**12
#: Integers of levels are multiplied until the variance of Gaussian noise is this large, up to this factor: the cost
#: stays the same, and sums of many noises are nearly normal.
_FINE_GRID, _LARGEST_FACTOR = 1 << 16, 1 << 24
#: Norm of the sensitivity that scales the noise, and the power of a level's share in its precision, by currency.
_LEVEL_NOISE: Final = {"epsilon": (1, 2), "rho": (2, 1), "mu2": (2, 1)}
#: Smallest σ² of rounded normal noise; below it Laplace noise is used.
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
    """Return the releases that a budget buys.

    Args:
        final: the aggregation to release.
        budget: the total cost of the releases.
        relation: which databases are neighbours.
        weights: of the measurements; all 1 by default. A block has the largest weight of its measurements.
        keys_weight: weight of the private selection of group keys.
        rule: of that selection.
        beta: Laplace and Gaussian noise are compared by the error that is exceeded with this probability.
        sets: positions of the keys of each grouping set; empty for a plain GROUP BY.
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
    releases = [
        _release(block, budget, share, relation, count, beta)
        for block, share, count in zip(blocks, shares, numbers, strict=False)
    ]
    if sets and final.public_keys:
        releases = [_with_levels(each, final, budget, sets, beta) for each in releases]
    selection = _selection(final, budget, shares[-1], relation, rule) if private else None
    return Priced(budget, tuple(releases), selection, sets=sets)


def _with_levels(release: Release, final: FinalAggregation, budget: PlanBudget, sets: Sets, beta: Fraction) -> Release:
    """Return the release with noise on sums of groups, if that lowers the total variance over all grouping sets.

    The decision depends on public sizes, ``max_groups`` and the kind of noise alone.
    """
    movement = None if release.is_constant else release.block.movement(final)
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
    laws = [level.release.noise_law for level in made]
    if made and not any(law.proxy is None for law in laws):
        least = min(law.scale for law in laws)
        while least * scale**2 < _FINE_GRID and scale < _LARGEST_FACTOR:
            scale *= 2
        made = levels(scale)
    return replace(release, levels=made, sizes=sizes, scale=scale) if made else release


def _release(
    block: Block, budget: PlanBudget, share: Fraction, relation: Relation, numbers: int, beta: Fraction
) -> Release:
    amount = budget.amount * share
    choice = _choice(block, budget, share, relation) if block.fractions and amount else None
    if choice is not None:
        amount -= budget.amount * choice.share

    constant = Release(block, "constant", Fraction(0), Fraction(0), share, relation, numbers, choice)
    if not amount:
        return constant
    if budget.currency == "epsilon":
        return replace(constant, mechanism="laplace", epsilon=amount)
    if budget.currency == "mu2":
        gaussian = replace(constant, mechanism="gaussian", mu=root_down(amount))
        laplace = replace(constant, mechanism="laplace", epsilon=epsilon_of_mu2(amount))
        if block.sensitivity.l2_squared < _LEAST_ROUNDED * amount:
            return laplace
    else:
        gaussian = replace(constant, mechanism="gaussian", rho=amount)
        laplace = replace(constant, mechanism="laplace", epsilon=root_down(2 * amount))
    measure = block.measures[0]
    lighter = gaussian.law(measure).variance_bound <= laplace.law(measure).variance_bound
    if lighter and beta <= Fraction(1, 4):
        # A smaller variance and lighter tails: away from the middle the error is smaller too, and need not be computed.
        return gaussian
    return min(gaussian, laplace, key=lambda release: release.law(measure).error(beta))


def _choice(block: Block, budget: PlanBudget, share: Fraction, relation: Relation) -> RankChoice:
    """Return the exponential-mechanism draws of quantiles, which get most of the budget share of a block."""
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
            # A draw of bounded range ε also has the μ of ε/2-DP.
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
        # Gaussian noise scales with l2; it is a candidate where the same budget is spent as zCDP.
        touched = groups * (1 if relation is ADD_REMOVE else 2)
        short = TruncatedGeometric.is_short(amount / touched, budget.delta / touched)
        rule = "truncated_geometric" if short else "laplace"
    return KeySelection(rule, amount, zero, budget.delta, groups, share, relation)


# -- budget and charge in each kind of account


#: Stands for the cell of a unit where only the number of cells matters.
_ANY_CELL: Final = literal(0, INTEGER)
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
    """Return the releases per part that an amount of ``currency`` buys in the account of ``terms``, and the charge."""
    bought, guarantee = _bought(parts, relation, terms, currency, amount)
    # A query that releases nothing about any unit, such as the list of public keys, costs nothing.
    # A search for limits that change no release costs nothing either.
    constant = [each.keys is None and all(release.is_constant for release in each.releases) for each in bought]
    found = [replace(each, bias=None, limits=None) if no else each for each, no in zip(bought, constant, strict=True)]
    return tuple(found), currency_of(guarantee).nothing(relation) if all(constant) else guarantee


def buy_rest(
    final: FinalAggregation,
    relation: Relation,
    budget: PlanBudget,
    asked: Asked,
    first: Priced | None,
    limits: Priced | None = None,
    sets: Sets = (),
) -> Priced:
    """Return the releases that a budget buys in addition to the searches for AUTO bounds and limits.

    The kind of noise does not depend on the confidence of intervals, which may change when an answer is read again.
    """
    weights, keys, rule = asked
    priced = price(final, budget, relation, weights=weights, keys_weight=keys, rule=rule, sets=sets)
    return replace(priced, first=first, asked=asked, limits=limits)


def _bought(
    parts: Sequence[PricedPart], relation: Relation, terms: Terms, currency: str, amount: Fraction
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    private = not all(part.final.public_keys for part in parts)
    delta = (terms.delta or Fraction(0)) if private else Fraction(0)

    def bought(budget: PlanBudget) -> tuple[Priced, ...]:
        budgets = [budget] if len(parts) == 1 else _divided(parts, budget, relation)
        return tuple([_buy_part(part, each, relation, terms) for part, each in zip(parts, budgets, strict=True)])

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
    """Divide a budget among the parts for equal relative errors, as among the releases of one part."""
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
    """Return the sum of the claims of all releases of a part; see :func:`split`."""
    own = part.weights.measures
    blocks = blocks_of(part.final, relation, concentrated=budget.concentrated, weights=own)
    claims = [block.coefficient * max(own[index] for index in block.measures) for block in blocks]
    claims += [] if part.final.public_keys else [part.weights.keys]
    return sum((claim * claim if squared else claim for claim in claims), Fraction(0))


def _buy_part(part: PricedPart, budget: PlanBudget, relation: Relation, terms: Terms) -> Priced:
    """Return the releases of one aggregation that a budget buys, with its searches and its bias table."""
    final, weights, sets = part
    asked = (tuple(weights.measures), weights.keys, _RULES[terms.rule])
    bias = None
    table = bias_table(final) if terms.bias_share and budget.amount else None
    if table is not None:
        # The cell of a unit is computed when the query runs; the cost depends on the number of cells alone.
        counts = cell_counts(final.source, [_ANY_CELL] * (len(table.causes) + 1), table)
        own = PlanBudget(budget.currency, budget.amount * terms.bias_share)
        bias = LossPricing(table, price(counts, own, relation), final)
        budget = replace(budget, amount=budget.amount * (1 - terms.bias_share))
    claims = {}
    if final.seeks_limits:
        worth = auto_limits.search_weight(final)
        claims["limits"] = ((weights.limits, worth), auto_limits.search_of(final))
    if final.seeks_bounds:
        claims["first"] = ((weights.bounds, Fraction(1)), search_of(final))
    if not claims:
        own_weights, keys_weight, rule = asked
        priced = price(
            final,
            budget,
            relation,
            weights=own_weights,
            keys_weight=keys_weight,
            rule=rule,
            beta=1 - terms.confidence,
            sets=sets,
        )
        return replace(priced, bias=bias)
    shares = search_shares([weight for weight, _ in claims.values()], squared=budget.concentrated)
    searches = {
        name: price(search, PlanBudget(budget.currency, budget.amount * share), relation)
        for (name, (_, search)), share in zip(claims.items(), shares, strict=True)
    }
    rest = replace(budget, amount=budget.amount * (1 - sum(shares)))
    priced = buy_rest(final, relation, rest, asked, searches.get("first"), searches.get("limits"), sets)
    return replace(priced, bias=bias)


def _buy_approx(
    parts: Sequence[PricedPart],
    relation: Relation,
    terms: Terms,
    epsilon: Fraction,
    bought: Callable[[PlanBudget], tuple[Priced, ...]],
) -> tuple[tuple[Priced, ...], ApproxDP]:
    """Spend an (ε, δ) budget as ε or as ρ, whichever has the smaller errors; δ is charged only if it is needed."""
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
    """Check that the composed events of a plan cost no more than the charge; a failure is a defect of the planner."""
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


# -- accounts with a delta, of zCDP and of GDP: conversions, rounded so that they never promise too much


#: Largest μ and ε that are converted; beyond, the probability of confusing two neighbours has no digits left.
LARGEST_MU = 20
LARGEST_EPSILON_FOR_MU = 50
#: Roots are rounded down to this many digits: the cost is readable, and all but one part in 10¹² of it is spent.
_DIGITS = 12
#: Fractions to subtract from the ρ of continuous Gaussian noise, in order, until integer noise is proven (ε, δ)-DP.
_SPARES: Final = tuple(Fraction(1, 1 << bits) for bits in (12, 9, 7, 5, 4))


def root_down(square: Fraction) -> Fraction:
    """Return the square root, rounded down."""
    return round_down(sqrt_bounds(square)[0], _DIGITS)


@lru_cache(maxsize=1024)
def epsilon_of_mu2(mu2: Fraction) -> Fraction:
    """Return the largest ε, rounded down, such that ε-DP implies √``mu2``-GDP: the inverse of μ = 2Φ⁻¹(e^ε/(1+e^ε))."""
    if mu2 > LARGEST_MU**2:
        raise InputError("mu", f"must be at most {LARGEST_MU}; beyond, nothing is protected")
    low = normal_cdf_bounds(sqrt_bounds(mu2)[0] / 2)[0]
    epsilon = round_down(log_bounds(low / (1 - low))[0], _DIGITS)
    while epsilon > 0 and PureDP(epsilon).to_gdp().mu ** 2 > mu2:
        epsilon = round_down(epsilon * (1 - Fraction(1, 10**_DIGITS)), _DIGITS)
    if epsilon <= 0:
        raise InputError("mu", "is too small to buy anything")
    return epsilon


@lru_cache(maxsize=1024)
def largest_rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ρ, rounded down to twelve digits, whose zCDP guarantee implies (ε, δ)-DP."""
    from tacit.accounting.zcdp import largest_rho

    rho = round_down(largest_rho(epsilon=epsilon, delta=delta), _DIGITS)
    while rho > 0 and ZCDP(rho).to_approx(delta).epsilon > epsilon:
        rho = round_down(rho * (1 - Fraction(1, 10**_DIGITS)), _DIGITS)
    return rho


@lru_cache(maxsize=1024)
def largest_mu_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest μ, rounded down, whose GDP guarantee implies (ε, δ)-DP."""
    from tacit.accounting.filters import GDPFilter

    return GDPFilter.for_target(epsilon=epsilon, delta=delta).mu


def mu_of_epsilon(epsilon: Fraction) -> GDP:
    """Return the cost of an ε-DP release in a GDP account."""
    if epsilon > LARGEST_EPSILON_FOR_MU:
        raise InputError("epsilon", f"must be at most {LARGEST_EPSILON_FOR_MU} in a GDP account")
    return PureDP(epsilon).to_gdp()


def rho_alone(epsilon: Fraction, for_keys: Fraction, terms: Terms) -> tuple[Fraction, Fraction]:
    """Return the largest ρ and the δ of key selection that together are (ε, δ)-DP at the δ of ``terms.alone``."""
    alone = terms.alone or Fraction(0)
    # A stated δ pays for both; the account's share for key selection is small relative to its whole δ.
    for_keys = min(for_keys, alone / 2)
    rho = largest_rho_of(epsilon, alone - for_keys)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    return rho, for_keys


def rho_of_gaussian(parts: Sequence[PricedPart], bought: Sequence[Priced], epsilon: Fraction, terms: Terms) -> Fraction:
    """Return the largest ρ at which these releases are (ε, δ)-DP by the privacy profile of Gaussian noise.

    Return the ρ of the budget if there is other noise, keys are private, bounds are searched or a part reads a
    value that another part releases. Never exceed the account, so that a query may always ask for all of it.
    """
    whole = sum((priced.amount for priced in bought), Fraction(0))
    plain = all(priced.keys is None and not priced.searches for priced in bought) and terms.alone is not None
    # A part that reads another part's released value depends on it; the profile holds for noises drawn together.
    plain = plain and not any(released_values(part.final.source) for part in parts)
    releases = [
        (release, release.share * part.budget.amount / whole)
        for priced in bought
        for part in priced.parts
        for whole_release in part.releases
        for release in whole_release.vectors
        if not release.is_constant
    ]
    if not plain or not releases or any(not r.rho or r.choice is not None for r, _ in releases):
        return whole
    shapes = tuple((release.block.sensitivity.l2_squared, release.numbers, share) for release, share in releases)
    found = _largest_gaussian_rho(shapes, epsilon, terms.alone or Fraction(0), whole)
    return found if terms.most is None else max(min(found, terms.most), whole)


@lru_cache(maxsize=1024)
def _largest_gaussian_rho(
    shapes: tuple[tuple[Fraction, int, Fraction], ...], epsilon: Fraction, delta: Fraction, least: Fraction
) -> Fraction:
    """Compute :func:`rho_of_gaussian` for shapes (l2², number of integers, share)."""
    # Start from the ρ of continuous noise; integer noise needs a slightly smaller ρ. Each ρ is proven before use.
    most = _likely_mu(float_nearest(epsilon), float_nearest(delta)) ** 2 / 2
    for spare in _SPARES:
        rho = round_down(most * (1 - spare), _DIGITS)
        if rho <= least:
            break
        noises = [gaussian_noise(rho * share, l2, numbers, ADD_REMOVE) for l2, numbers, share in shapes]
        moved = [2 * noise.zcdp.rho * noise.sigma2 for noise in noises]
        # An integer vector that moves by √l2² moves in at most l2² places.
        places = sum(min(numbers, math.floor(each)) for (_, numbers, _), each in zip(shapes, moved, strict=True))
        mu_squared = sum((each / noise.sigma2 for each, noise in zip(moved, noises, strict=True)), Fraction(0))
        smallest = min(noise.sigma2 for noise in noises)
        if rounded_normals_give_at_most(
            epsilon, delta, mu_squared=mu_squared, sigma2=smallest, dimension=max(places, 1)
        ):
            return rho
    return least


def _likely_mu(epsilon: float, delta: float) -> Fraction:
    """Return about the largest μ of continuous Gaussian noise that is (ε, δ)-DP: a guess that no proof uses."""

    def given(mu: float) -> float:
        far, near = (math.erfc((epsilon / mu + side * mu / 2) / math.sqrt(2)) / 2 for side in (1, -1))
        return near - math.exp(epsilon) * far

    low, high = 1e-9, 2 * math.sqrt(epsilon) + epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if given(middle) <= delta else (low, middle)
    return Fraction(low)


def badness(parts: Sequence[PricedPart], bought: Sequence[Priced], beta: Fraction) -> float:
    """Return the logarithm of the product of all errors: halving one error and doubling another is no gain."""
    bounds = []
    for (final, _, _), priced in zip(parts, bought, strict=True):
        sums: list[TotalOf | None] = [TotalOf(kept, final.parts_by(kept)) for kept in priced.sets]
        sums = sums or [None]
        errors = [expected_error(final, a, priced, beta, 10**6, each) for a in final.aggregates for each in sums]
        bounds += [error.bound or Fraction(1) for error in errors]
        if priced.keys is not None:
            bounds.append(Fraction(priced.keys.mechanism().error(beta)))
    return math.fsum(math.log(max(float_nearest(bound), 1e-9)) for bound in bounds)


# -- the smallest cost at which every requested error bound is kept


#: An accuracy that needs a larger epsilon is refused as a typing error.
LARGEST_EPSILON: Final = Fraction(50)
_PRICE_DIGITS: Final = 4
#: Aggregates by name: pairs (number of the part, number of the aggregate in it).
NamedAggregates = dict[str, frozenset[tuple[int, int]]]


def buy_accuracy(
    query: Query, parts: Sequence[PricedPart], relation: Relation, terms: Terms, names: NamedAggregates
) -> tuple[tuple[Priced, ...], AccountGuarantee]:
    """Return the releases at the smallest cost, rounded up to four digits, that keeps every requested error bound.

    The cost is an ε, or the μ of a gdp account. With grouping sets an error bound holds in every set, also for the
    totals over most groups.
    """
    wanted = _wanted(parts, terms, names)
    sums: list[list[TotalOf | None]] = [
        [each.total for totals in totals_of_part(query, number) for each in set_sizes(part.final, totals)]
        for number, part in enumerate(parts)
    ]
    if not wanted:
        raise InputError("within", "there is no aggregate to be accurate; state epsilon")
    beta = 1 - terms.confidence
    currency, most = ("mu", Fraction(LARGEST_MU)) if terms.account == "gdp" else ("epsilon", LARGEST_EPSILON)

    @cache
    def bought(amount: Fraction) -> tuple[tuple[Priced, ...], AccountGuarantee]:
        return buy(parts, relation, terms, currency, amount)

    def kept(amount: Fraction) -> bool:
        if amount > most:
            return True
        priced, _ = bought(amount)
        for (part, index), bound in wanted.items():
            final, asked = parts[part].final, parts[part].final.aggregates[index]
            for total in sums[part] or [None]:
                reached = expected_error(final, asked, priced[part], beta, terms.suppose, total).bound
                if reached is None or reached > bound:
                    return False
        return True

    def guess(final: FinalAggregation, index: int, bound: Fraction) -> Fraction:
        measure = final.measures[final.aggregates[index].measures[-1]]
        moved = measure.sensitivity(max_groups=final.max_groups, relation=relation, groups=final.group_count).l1
        people = terms.suppose if len(final.aggregates[index].measures) > 1 and terms.suppose else 1
        return max(moved, Fraction(1)) * measure.unit_of_value * log_bounds(1 / beta)[1] / (bound * people)

    if not kept(most):
        raise InputError("within", f"cannot be kept at any sensible {currency}; allow a larger error")
    count = sum(len(final.measures) for final, *_ in parts)
    start = count * max(guess(parts[part].final, index, bound) for (part, index), bound in wanted.items())
    return bought(smallest_that(kept, min(start, most), digits=_PRICE_DIGITS, near=Fraction(1, 4)))


def _wanted(parts: Sequence[PricedPart], terms: Terms, names: NamedAggregates) -> dict[tuple[int, int], Fraction]:
    every = terms.within[0][0] == EVERY
    if every:
        places = [(part, index) for part, (final, *_) in enumerate(parts) for index in range(len(final.aggregates))]
        wanted = dict.fromkeys(places, terms.within[0][1])
    else:
        wanted = {place: bound for name, bound in terms.within for place in sorted(places_of(name, names, "within"))}
    for part, index in wanted:
        aggregate = parts[part].final.aggregates[index]
        if len(aggregate.measures) > 1 and terms.suppose is None:
            raise InputError(
                "within",
                f"the error of {aggregate.label} depends on how many values a group has; state suppose=…, or name the "
                "counts and sums that matter",
            )
        kind = entry_of(aggregate.kind).released.error_kind
        if kind != "value" and every:
            raise InputError(
                "within",
                f"{aggregate.label} is off in {kind}, not in value; name it to state how much, or state epsilon",
            )
    return wanted


def places_of(name: str, names: NamedAggregates, parameter: str) -> frozenset[tuple[int, int]]:
    """Return the aggregates that a name stands for; ``parameter`` is the request parameter that states the name."""
    if name.lower() not in names:
        known = ", ".join(sorted(names)) or "none"
        raise InputError(parameter, f"names {name!r}, which is not an aggregate of this query; those are: {known}")
    return names[name.lower()]


# -- grouping sets


def check_totals(query: Query) -> None:
    """Refuse grouping sets whose totals are not sums of released groups.

    Raises:
        Refusal: keys are private, there are too many groups, or an aggregate of a total is not made of its groups.
    """
    for part in range(len(query.finals)):
        for totals in totals_of_part(query, part):
            _check(query.finals[part], totals)


def _check(final: FinalAggregation, totals: Totals) -> None:
    if not final.public_keys:
        private = ", ".join(key.name for key in final.keys)
        raise Refusal(
            "grouping_sets",
            f"ROLLUP, CUBE and GROUPING SETS need public keys, at most {limits.MAX_KEYS} together, and {private} are "
            "chosen privately: a total would silently lack the groups that are not chosen. Group by declared "
            f"categories, list values with WHERE key IN (…), or ask GROUP BY {private} and the total apart.",
        )
    groups = sum(each.groups for each in set_sizes(final, totals))
    limits.check_size(groups, limits.MAX_SET_GROUPS, "groups in its grouping sets")
    for aggregate in final.aggregates:
        # COUNT(DISTINCT unit) adds up too where each person is in one group: :func:`check_units_of_totals`.
        if aggregate.kind != COUNT_UNITS and not entry_of(aggregate.kind).adds_up:
            raise Refusal(
                "grouping_sets",
                f"{aggregate.label} is not computed for totals: grouping sets have COUNT, SUM, AVG, VARIANCE and "
                "STDDEV. Ask for each grouping in a query of its own.",
            )


def check_units_of_totals(query: Query) -> None:
    """Refuse totals of COUNT(DISTINCT unit) if one person may be in several groups, with the limits in force.

    Raises:
        Refusal: COUNT(DISTINCT unit) with grouping sets, and max_groups above 1 or AUTO.
    """
    for part, final in enumerate(query.finals):
        units = [each.label for each in final.aggregates if each.kind == COUNT_UNITS]
        if units and totals_of_part(query, part) and (final.auto_groups or final.max_groups > 1):
            many = "several" if final.auto_groups else final.max_groups
            raise Refusal(
                "grouping_sets",
                f"{units[0]} of a total is not the sum of its parts while a person may be in {many} groups: state "
                "max_groups = 1, so that each counts in one, or ask for each grouping in a query of its own.",
            )


def totals_of_part(query: Query, part: int) -> tuple[Totals, ...]:
    """Return the grouping sets of one part of a query, in the order of the steps."""
    found = (each.totals for each in with_branches(query) if each.part == part)
    return tuple(dict.fromkeys(totals for totals in found if totals is not None))


class SetSize(NamedTuple):
    """Size of one grouping set.

    Args:
        names: names of its keys.
        groups: number of its groups.
        total: the largest sum of finest groups that one of its groups is.
    """

    names: tuple[str, ...]
    groups: int
    total: TotalOf


def set_sizes(final: FinalAggregation, totals: Totals) -> Iterator[SetSize]:
    """Yield the size of each grouping set, in order."""
    names = [final.keys[index].name for index in totals.keys]
    for places in totals.sets:
        kept = tuple(totals.keys[place] for place in places)
        groups, merged = parts_of_totals(final, totals, places)
        yield SetSize(tuple(names[place] for place in places), groups, TotalOf(kept, merged))


def sets_of_part(query: Query, part: int) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the keys of each grouping set that a step reads from a part; () without totals.

    A step that reads the groups themselves counts as the set of all keys.
    """
    found: dict[tuple[int, ...], None] = {}
    read = [each for one in (query, *(value for _, value in query.values)) for each in with_branches(one)]
    readers = [each for each in read if each.part == part]
    if all(each.totals is None for each in readers):
        return ()
    for each in readers:
        if each.totals is None:
            found[tuple(range(len(query.finals[part].keys)))] = None
        else:
            found |= dict.fromkeys(
                tuple(sorted(each.totals.keys[place] for place in places)) for places in each.totals.sets
            )
    return tuple(found)


def parts_of_totals(final: FinalAggregation, totals: Totals, places: Sequence[int]) -> tuple[int, int]:
    """Return the number of groups of a set of public keys, and the most finest groups that one of them sums."""
    kept = [totals.keys[place] for place in places]
    return math.prod(len(final.keys[index].values or ()) for index in kept), final.parts_by(kept)
