"""Budgets of accounts with a delta, of zCDP and of GDP: conversions, rounded so that they never promise too much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP, PureDP
from tacit.core.normal import normal_cdf_bounds
from tacit.core.numbers import float_nearest, log_bounds, round_down, sqrt_bounds
from tacit.core.relations import ADD_REMOVE
from tacit.mechanisms.gaussian_profile import rounded_normals_give_at_most
from tacit.query.aggregates import expected_error
from tacit.query.planning.releases import Priced, PricedPart, gaussian_noise
from tacit.query.query import TotalOf
from tacit.query.relational.algebra import released_values
from tacit.query.request import Terms

#: Beyond these, what is left to be told apart has no digits.
LARGEST_MU = 20
LARGEST_EPSILON_FOR_MU = 50
#: Roots are rounded down to this many digits: a price that reads well and is still spent to the last part in 10¹².
_DIGITS = 12
#: Parts of the ρ of continuous Gaussian noise that are left out until the noise of whole numbers is proven to do.
_SPARES: Final = tuple(Fraction(1, 1 << bits) for bits in (12, 9, 7, 5, 4))


def root_down(square: Fraction) -> Fraction:
    """The square root, rounded down."""
    return round_down(sqrt_bounds(square)[0], _DIGITS)


@lru_cache(maxsize=1024)
def epsilon_of_mu2(mu2: Fraction) -> Fraction:
    """The largest ε, rounded down, such that ε-DP implies √``mu2``-GDP: μ = 2Φ⁻¹(e^ε/(1+e^ε)) turned round."""
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
    """The largest ρ, rounded down to twelve digits, whose zCDP guarantee implies (ε, δ)."""
    from tacit.accounting.zcdp import largest_rho

    rho = round_down(largest_rho(epsilon=epsilon, delta=delta), _DIGITS)
    while rho > 0 and ZCDP(rho).to_approx(delta).epsilon > epsilon:
        rho = round_down(rho * (1 - Fraction(1, 10**_DIGITS)), _DIGITS)
    return rho


@lru_cache(maxsize=1024)
def largest_mu_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest μ, rounded down, whose GDP guarantee implies (ε, δ)."""
    from tacit.accounting.filters import GDPFilter

    return GDPFilter.for_target(epsilon=epsilon, delta=delta).mu


def mu_of_epsilon(epsilon: Fraction) -> GDP:
    """Price of an ε-DP release in a GDP account."""
    if epsilon > LARGEST_EPSILON_FOR_MU:
        raise InputError("epsilon", f"must be at most {LARGEST_EPSILON_FOR_MU} in a GDP account")
    return PureDP(epsilon).to_gdp()


def rho_alone(epsilon: Fraction, for_keys: Fraction, terms: Terms) -> tuple[Fraction, Fraction]:
    """The largest ρ, and the δ of private keys, that together are (ε, δ)-DP at the δ of ``terms.alone``."""
    alone = terms.alone or Fraction(0)
    # A δ that was typed pays for both; the account's share for keys is small beside its whole δ.
    for_keys = min(for_keys, alone / 2)
    rho = largest_rho_of(epsilon, alone - for_keys)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    return rho, for_keys


def rho_of_gaussian(parts: Sequence[PricedPart], bought: Sequence[Priced], epsilon: Fraction, terms: Terms) -> Fraction:
    """The largest ρ at which these releases are (ε, δ)-DP by the profile of Gaussian noise, which is all they have.

    That of the budget where there is other noise, keys are private, bounds are sought or a part reads another's value.
    Never more than the account holds, so that a query may always be asked for all of it.
    """
    whole = sum((priced.amount for priced in bought), Fraction(0))
    plain = all(priced.keys is None and not priced.searches for priced in bought) and terms.alone is not None
    # A part that reads another's value is chosen by it, and the profile is one of noises that are drawn together.
    plain = plain and not any(released_values(part.final.source) for part in parts)
    releases = [
        (release, release.share * part.budget.amount / whole)
        for priced in bought
        for part in priced.parts
        for whole_release in part.releases
        for release in whole_release.vectors
        if release.mechanism != "constant"
    ]
    if not plain or not releases or any(r.mechanism != "gaussian" or r.choice is not None for r, _ in releases):
        return whole
    shapes = tuple((release.block.sensitivity.l2_squared, release.numbers, share) for release, share in releases)
    found = _largest_gaussian_rho(shapes, epsilon, terms.alone or Fraction(0), whole)
    return found if terms.most is None else max(min(found, terms.most), whole)


@lru_cache(maxsize=1024)
def _largest_gaussian_rho(
    shapes: tuple[tuple[Fraction, int, Fraction], ...], epsilon: Fraction, delta: Fraction, least: Fraction
) -> Fraction:
    """As :func:`rho_of_gaussian`; each shape is an l2², a number of integers and a share."""
    # The ρ of continuous noise, of which whole numbers need a little more; each is proven before it is used.
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
    """About the largest μ of continuous Gaussian noise that is (ε, δ)-DP: a guess that nothing rests on."""

    def given(mu: float) -> float:
        far, near = (math.erfc((epsilon / mu + side * mu / 2) / math.sqrt(2)) / 2 for side in (1, -1))
        return near - math.exp(epsilon) * far

    low, high = 1e-9, 2 * math.sqrt(epsilon) + epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if given(middle) <= delta else (low, middle)
    return Fraction(low)


def badness(parts: Sequence[PricedPart], bought: Sequence[Priced], beta: Fraction) -> float:
    """The logarithm of the product of all errors: to halve one and double another is no gain."""
    bounds = []
    for (final, _, _), priced in zip(parts, bought, strict=True):
        sums: list[TotalOf | None] = [TotalOf(kept, final.parts_by(kept)) for kept in priced.sets]
        sums = sums or [None]
        errors = [expected_error(final, a, priced, beta, 10**6, each) for a in final.aggregates for each in sums]
        bounds += [error.bound or Fraction(1) for error in errors]
        if priced.keys is not None:
            bounds.append(Fraction(priced.keys.mechanism().error(beta)))
    return math.fsum(math.log(max(float_nearest(bound), 1e-9)) for bound in bounds)
