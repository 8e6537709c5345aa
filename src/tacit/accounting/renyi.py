"""Composition in Renyi differential privacy: the divergences add up order by order, one conversion at the end.

*Privacy.* D_α of a composition is at most the sum of the D_α, adaptively too (Mironov 2017). At every order α > 1 the
sum gives ε = Σε_i(α) + ln(1 - 1/α) - (ln δ + ln α)/(α - 1) (Canonne, Kamath and Steinke 2020, Proposition 12); any
order is valid, so the smallest is taken, over a grid of orders that is refined around its minimum. An (ε_i, δ_i)
release counts with the divergence of ε_i-DP and takes δ_i from δ.

Curves used, each for the worst pair of neighbours:

* Gaussian αμ²/2; discrete Gaussian αΔ²/(2σ²), a bound; zCDP αρ; bounded range αε²/8 where that is smaller;
* pure ε: that of randomized response, ln(p^α q^{1-α} + q^α p^{1-α})/(α-1) with p = e^ε/(1+e^ε), q = 1-p;
* Laplace and discrete Laplace in closed form; k-ary randomized response likewise;
* Poisson-sampled Gaussian: see :mod:`tacit.accounting.sampled_gaussian`, any real order;
* any Poisson-sampled release: (1/(α-1)) ln(1 - q + q e^{(α-1)ε(α)}), because e^{(α-1)D_α} is jointly convex; and, where
  the inner release is pure, that of its amplified ε.

*Error.* Floats, widened by 1e-12 of each value, over a thousand times the rounding error of the few operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.composition_plan import Composed, CompositionPlan, CountedRelease, Leaf, read_plan
from tacit.accounting.pairwise import stated_pair
from tacit.accounting.sampled_gaussian import sampled_gaussian_renyi
from tacit.core.errors import AccountingError
from tacit.core.events import (
    ApproxEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    SampledSumEvent,
    ZCDPEvent,
)
from tacit.core.guarantees import RDP, renyi_epsilon_up
from tacit.core.numbers import float_down, float_nearest, float_up, log_bounds
from tacit.core.relations import ADD_REMOVE

Floats = NDArray[np.float64]
#: Function from an array of orders to upper bounds on the Renyi divergence.
Curve = Callable[[Floats], Floats]

_SLACK = 1e-12
#: First grid of α - 1, from 1e-6 to 1e12; it is refined around the minimum.
_GRID = np.concatenate((np.geomspace(1e-6, 1e-2, 9), np.geomspace(1.3e-2, 1e5, 90), np.geomspace(2e5, 1e12, 30)))


def compose_renyi(plan: CompositionPlan, delta: Fraction) -> Composed:
    """Return the smallest ε over all orders at ``delta``."""
    spent = sum((item.count * spent_delta(item.release) for item in plan.items), Fraction(0))
    if spent > delta or (spent == delta and delta < 1 and plan.items):
        raise AccountingError(f"the releases already spend delta {float_nearest(spent):g}; ask for a larger one")
    if not plan.items:
        return Composed(0, delta, relation=plan.relation, method="rdp")
    total = total_curve(plan.items)
    epsilon = smallest_epsilon(total, delta - spent, orders=_listed_orders(plan.items))
    return Composed(epsilon, delta, relation=plan.relation, method="rdp")


def total_curve(items: Sequence[CountedRelease]) -> Curve:
    """Return the sum of the curves of all releases, times their counts."""
    curves = [(renyi_curve(item.release), item.count) for item in items]

    def total(orders: Floats) -> Floats:
        result = np.zeros_like(orders)
        for curve, count in curves:
            result += count * curve(orders)
        return result

    return total


def smallest_epsilon(curve: Curve, delta: Fraction, *, orders: Floats | None = None) -> Fraction:
    """Return ε at ``delta`` from the best order; if ``orders`` are given, only those are tried."""
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    excess = _GRID if orders is None else orders - 1
    for _ in range(1 if orders is not None else 4):
        alphas = 1 + excess
        with np.errstate(over="ignore", invalid="ignore"):
            values = curve(alphas)
            epsilons = values + np.log(excess / alphas) - (log_delta + np.log(alphas)) / excess
        epsilons = np.where(np.isnan(epsilons), math.inf, epsilons)
        at = int(np.argmin(epsilons))
        best = alphas[at], values[at]
        if orders is None:
            excess = np.geomspace(excess[max(at - 1, 0)], excess[min(at + 1, len(excess) - 1)], 25)
    if not math.isfinite(best[1]):
        raise AccountingError("no Renyi order gives a finite epsilon here")
    return renyi_epsilon_up(Fraction(float(best[0])), Fraction(float(best[1])), delta)


def renyi_curve(release: Leaf) -> Curve:
    """Return D_α of one release as a function of α, rounded up."""
    exact_curve = _curve(release)

    def curve(orders: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            values = exact_curve(orders) * (1 + _SLACK)
        # A value outside the range of floats is unknown, and infinity is always an upper bound.
        return np.where(np.isnan(values), math.inf, values)

    return curve


def _curve(release: Leaf) -> Curve:
    match release:
        case RDP():
            return _tabulated(release)
        case PureEvent() | ApproxEvent():
            return _randomized_response(float_up(release.epsilon), 0.0)
        case RandomizedResponseEvent():
            return _of_response(release)
        case ZCDPEvent():
            return _linear(float_up(release.rho))
        case GaussianEvent():
            return _linear(float_up((release.l2_sensitivity / release.sigma) ** 2 / 2))
        case DiscreteGaussianEvent():
            return _linear(float_up(release.l2_squared / (2 * release.sigma2)))
        case ExponentialEvent():
            pure, ranged = (
                _randomized_response(float_up(release.epsilon), 0.0),
                _linear(float_up(release.epsilon**2 / 8)),
            )
            return lambda orders: np.minimum(pure(orders), ranged(orders))
        case LaplaceEvent():
            return _laplace(float_up(release.l1_sensitivity / release.scale))
        case DiscreteLaplaceEvent():
            return _discrete_laplace(float_nearest(release.scale), int(release.l1_sensitivity))
        case SampledSumEvent():
            return _convex(_curve(release.unsampled), float_up(release.rate))
        case PoissonSampledEvent():
            return _sampled(release)
        case ParallelEvent():
            parts = [total_curve(read_plan([part]).items) for part in release.events]
            return lambda orders: np.max([part(orders) for part in parts], axis=0)
        case _:
            raise AccountingError(f"no Renyi curve is known for {type(release).__name__}")


def _linear(rho: float) -> Curve:
    return lambda orders: orders * rho


def _randomized_response(epsilon: float, certain: float) -> Curve:
    """Return the curve of a release with loss ±ε of odds e^ε with probability 1 - ``certain``, else loss 0.

    e^{(α-1)D} - 1 = (1-c)·(e^{(α-1)ε} - 1)(1 - e^{-αε})/(1 + e^{-ε}) with all factors free of cancellation.
    """

    def curve(orders: Floats) -> Floats:
        lift = (orders - 1) * epsilon
        rest = -np.expm1(-orders * epsilon) / (1 + math.exp(-epsilon)) * (1 - certain)
        # ln(1 + (e^x - 1)·r) = x + ln(r + (1-r)e^{-x}) for large x.
        small = np.log1p(np.expm1(np.minimum(lift, 30.0)) * rest)
        large = lift + np.log(rest + (1 - rest) * np.exp(-lift))
        result: Floats = np.where(lift < 30, small, large) / (orders - 1)
        return result

    return curve


def _of_response(event: RandomizedResponseEvent) -> Curve:
    other = (1 - event.truth) / (event.categories - 1)
    high, low = max(event.truth, other), min(event.truth, other)
    # ln r <= r - 1, the sharper bound where r is next to 1.
    epsilon = min(log_bounds(high / low)[1], high / low - 1)
    # Only two of the answers differ in probability between the neighbours.
    return _randomized_response(float_up(epsilon), float_down(1 - high - low))


def _laplace(epsilon: float) -> Curve:
    """Return the curve of Laplace noise: E e^{(α-1)L} - 1 = (α e^{(α-1)ε} + (α-1) e^{-αε} - (2α-1))/(2α-1)."""

    def curve(orders: Floats) -> Floats:
        lift = (orders - 1) * epsilon
        excess = (orders * np.expm1(np.minimum(lift, 30)) + (orders - 1) * np.expm1(-orders * epsilon)) / (
            2 * orders - 1
        )
        # For small ε the two terms cancel; a bound on their rounding error is added.
        excess += 1e-15 * orders * (orders - 1) * epsilon / (2 * orders - 1)
        small = np.log1p(excess)
        large = lift + np.log((orders + (orders - 1) * np.exp(-(2 * orders - 1) * epsilon)) / (2 * orders - 1))
        result: Floats = np.where(lift < 30, small, large) / (orders - 1)
        return result

    return curve


def _discrete_laplace(scale: float, shift: int) -> Curve:
    """Return the curve of discrete Laplace noise by a geometric sum.

    The loss is (Δ-2x)/t for x = 0…Δ; the two ends hold the tails.
    """
    a = math.exp(-1 / scale)
    epsilon = shift / scale
    if shift == 0:
        return np.zeros_like
    if shift == 1:
        return _randomized_response(math.nextafter(epsilon, math.inf), 0.0)

    def curve(orders: Floats) -> Floats:
        # Terms over e^{(α-1)ε}: top 1/(1+a), then (1-a)/(1+a)·r^x for x = 1…Δ-1 with r = e^{-(2α-1)/t}, bottom.
        rate = (2 * orders - 1) / scale
        middle = np.exp(-rate) * np.expm1(-rate * (shift - 1)) / np.expm1(-rate)
        inside = (1 + -math.expm1(-1 / scale) * middle + np.exp(-rate * shift)) / (1 + a)
        result: Floats = np.maximum(epsilon + np.log(inside) / (orders - 1), 0.0)
        # The sum is near 1 where α-1 is small; a bound on its rounding error is added.
        return result + 4e-15 / (orders - 1) + 1e-15 * epsilon

    return curve


def _sampled(event: PoissonSampledEvent) -> Curve:
    rate = float_up(event.rate)
    inner = total_curve(read_plan([event.event]).items)
    candidates: list[Curve] = [_convex(inner, rate)]
    if event.relation is ADD_REMOVE:
        if isinstance(event.event, GaussianEvent):
            noise = event.event.sigma / event.event.l2_sensitivity if event.event.l2_sensitivity else None
            if noise is not None:
                candidates.append(sampled_gaussian_renyi(rate, float_nearest(noise) * (1 - 1e-15)))
        pair = stated_pair(event)
        if pair is not None:
            candidates.append(_randomized_response(float_up(pair[0]), 0.0))
    return lambda orders: np.min([candidate(orders) for candidate in candidates], axis=0)


def _convex(inner: Curve, rate: float) -> Curve:
    def curve(orders: Floats) -> Floats:
        lift = inner(orders) * (orders - 1)
        small = np.log1p(rate * np.expm1(np.minimum(lift, 30.0)))
        large = lift + np.log(rate + (1 - rate) * np.exp(-lift))
        result: Floats = np.where(lift < 30, small, large) / (orders - 1)
        return result

    return curve


def _tabulated(release: RDP) -> Curve:
    """Return a curve known at some orders only: D_α does not fall with α, so the next listed order above is a bound."""
    # Rounded down: a bound at an order is not one at a larger order.
    orders = np.array([float_down(alpha) for alpha, _ in release.curve])
    values = np.array([float_up(epsilon) for _, epsilon in release.curve])
    best = np.minimum.accumulate(values[::-1])[::-1]

    def curve(wanted: Floats) -> Floats:
        at = np.searchsorted(orders, wanted)
        return np.where(at < len(orders), best[np.minimum(at, len(orders) - 1)], math.inf)

    return curve


def spent_delta(release: Leaf) -> Fraction:
    """Return the δ of a release that its Renyi curve does not cover."""
    match release:
        case ApproxEvent() | ZCDPEvent():
            return release.delta
        case PoissonSampledEvent():
            # Only failures while the unit is in the sample count.
            return release.rate * sum(
                (item.count * spent_delta(item.release) for item in read_plan([release.event]).items), Fraction(0)
            )
        case ParallelEvent():
            parts = [read_plan([part]).items for part in release.events]
            return max(sum((i.count * spent_delta(i.release) for i in part), Fraction(0)) for part in parts)
        case _:
            return Fraction(0)


def _listed_orders(items: Sequence[CountedRelease]) -> Floats | None:
    """Return the orders of all tabulated curves, or None without one; between these orders the bounds are worse."""
    listed = [item.release for item in items if isinstance(item.release, RDP)]
    if not listed:
        return None
    orders = np.unique([float_down(alpha) for release in listed for alpha, _ in release.curve])
    if orders[-1] == 1:
        raise AccountingError("the Renyi orders are too close to 1 to be composed; use to_approx(delta) of each")
    return orders[orders > 1]
