"""Composition in zero-concentrated differential privacy: the ρ add up, one conversion at the end.

*Privacy.* A δ₁-approximately ρ₁-zCDP release and a (δ₂, ρ₂) one are together (δ₁+δ₂)-approximately (ρ₁+ρ₂)-zCDP, also
when the second depends on the first (Bun and Steinke 2016). The sum becomes (ε, δ) by the best Renyi order (Canonne,
Kamath and Steinke 2020, Proposition 12), which is smaller than ρ + 2√(ρ ln(1/δ)).

Pure ε costs ε²/2, (ε, δ) costs (ε²/2, δ), Gaussians μ²/2, and the exponential mechanism ε²/8 because its privacy loss
has range ε. Sampling is amplified only through (ε, δ): a sampled Gaussian has no small ρ, since its high moments are
those of the Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from tacit.accounting.composition_plan import Composed, CompositionPlan, Leaf, read_plan
from tacit.accounting.pairwise import stated_pair
from tacit.accounting.prices import guarantees_of
from tacit.core.errors import AccountingError
from tacit.core.events import ParallelEvent, PoissonSampledEvent
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP, golden_minimum
from tacit.core.numbers import (
    Number,
    exact_nonnegative,
    exact_probability,
    float_nearest,
    log_bounds,
    round_down,
    sqrt_bounds,
)

#: Digits of the largest ρ; number of times its last digit may be lowered; factors of one lowering and of the check.
_DIGITS: Final = 15
_TRIES: Final = 4
_LESS: Final = 1 - Fraction(1, 10**_DIGITS)
_MORE: Final = 1 + Fraction(1, 10 ** (_DIGITS - 2))


def compose_zcdp(plan: CompositionPlan, delta: Fraction) -> Composed:
    """Return the sum of all ρ, converted to (ε, ``delta``)."""
    rho = spent = Fraction(0)
    for item in plan.items:
        each = rho_of(item.release)
        if each is None:
            raise AccountingError(f"{type(item.release).__name__} has no bound in zCDP; use method='rdp' or 'pld'")
        rho, spent = rho + item.count * each[0], spent + item.count * each[1]
    if rho == 0 and spent <= delta:
        return Composed(0, delta, relation=plan.relation, method="zcdp")
    total = ZCDP(rho, delta=min(spent, Fraction(1)), relation=plan.relation).to_approx(delta)
    return Composed(total.epsilon, delta, relation=plan.relation, method="zcdp")


def rho_of(release: Leaf) -> tuple[Fraction, Fraction] | None:
    """Return the smallest ρ known for one release, with its δ, or ``None``."""
    match release:
        case RDP():
            return None
        case PoissonSampledEvent():
            return _sampled(release)
        case ParallelEvent():
            parts = [_sum(part) for part in release.events]
            known = [part for part in parts if part is not None]
            return (max(r for r, _ in known), max(d for _, d in known)) if len(known) == len(parts) else None
        case _:
            found = [_convert(guarantee) for guarantee in guarantees_of(release)]
            return min(((z.rho, z.delta) for z in found if z is not None), default=None)


def largest_rho(*, epsilon: Number, delta: Number, tight: bool = True) -> Fraction:
    """Return the largest ρ whose zCDP guarantee implies (ε, δ), rounded down.

    With ``tight=False`` return the closed form ρ = (√(ln(1/δ)+ε) - √ln(1/δ))², which is smaller.
    """
    e, d = exact_nonnegative(epsilon, "epsilon"), exact_probability(delta, "delta")
    log_low, log_high = (-bound for bound in reversed(log_bounds(d)))
    # Where the enclosures of the two roots overlap, their difference must not become a positive square.
    closed = round_down(max(sqrt_bounds(log_low + e)[0] - sqrt_bounds(log_high)[1], Fraction(0)) ** 2)
    if not tight or e == 0:
        return closed

    def implies(rho: Fraction) -> bool:
        return ZCDP(rho).to_approx(d).epsilon <= e

    found = _at_best_order(e, d, closed)
    if found is not None:
        # Nearly always valid; the conversion of ρ to ε decides.
        for _ in range(_TRIES):
            found = round_down(found * _LESS, _DIGITS)
            if implies(found):
                return found if found > closed and not implies(found * _MORE) else _bisected(implies, closed, e)
    return _bisected(implies, closed, e)


def _at_best_order(epsilon: Fraction, delta: Fraction, closed: Fraction) -> Fraction | None:
    """Return the ρ for which the best Renyi order gives ε; None where floats cannot find that order.

    At order α the guarantee gives ε = ρα + g(α), so ρ = (ε - g(α))/α is the largest that the order allows. The orders
    that allow a given ρ are an interval, as ρα + g(α) falls and then rises; so there is one best order.
    """
    e, rho, log_delta = float_nearest(epsilon), float_nearest(closed), float_nearest(log_bounds(delta)[0])
    if not (1e-290 < e < 1e290 and 1e-290 < rho < 1e290 and log_delta < 0):
        return None

    def less_rho(alpha: float) -> float:
        return (math.log1p(-1 / alpha) - (log_delta + math.log(alpha)) / (alpha - 1) - e) / alpha

    alpha = golden_minimum(less_rho, 1 + math.sqrt(-log_delta / rho))
    rest = log_bounds(1 - 1 / alpha)[1] - log_bounds(delta * alpha)[0] / (alpha - 1)
    return max((epsilon - rest) / alpha, Fraction(0))


def _bisected(implies: Callable[[Fraction], bool], closed: Fraction, epsilon: Fraction) -> Fraction:
    """Return the largest ρ that satisfies ``implies``, by bisection from ``closed``, which satisfies it."""
    low, high = closed, 2 * closed + epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if implies(middle) else (low, middle)
    return round_down(low)


def _convert(guarantee: object) -> ZCDP | None:
    if isinstance(guarantee, PureDP | ApproxDP | GDP):
        return guarantee.to_zcdp()
    return guarantee if isinstance(guarantee, ZCDP) else None


def _sum(event: object) -> tuple[Fraction, Fraction] | None:
    rho = spent = Fraction(0)
    for item in read_plan([event]).items:  # type: ignore[list-item]
        each = rho_of(item.release)
        if each is None:
            return None
        rho, spent = rho + item.count * each[0], spent + item.count * each[1]
    return rho, min(spent, Fraction(1))


def _sampled(release: PoissonSampledEvent) -> tuple[Fraction, Fraction] | None:
    # The sampled pair is a mixture, and Renyi divergence is quasi-convex, so the inner ρ always holds.
    inside = _sum(release.event)
    candidates = [] if inside is None else [(inside[0], release.rate * inside[1])]
    pair = stated_pair(release)
    if pair is not None:
        candidates.append((pair[0] ** 2 / 2, pair[1]))
    return min(candidates, default=None)
