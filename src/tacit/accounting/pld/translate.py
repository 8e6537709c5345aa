"""Translation of events to dominating pairs, in both directions.

:func:`pairs_of` returns what to compose for an upper bound and for a lower one. The two differ only for the discrete
Gaussian of large σ, which lies between two continuous ones, and for releases of which only part is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from tacit.accounting.amplification import amplified_epsilon
from tacit.accounting.composition_plan import Leaf
from tacit.accounting.pld.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from tacit.accounting.pld.pairs import BoundedRangePair, GaussianPair, LaplacePair, LossPair, TwoPoint, response_pair
from tacit.accounting.pld.sampled import AddedPair, EitherPair, RemovedPair, ReplacedPair, ThinnedPair
from tacit.core.events import (
    ApproxEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    SampledSumEvent,
)
from tacit.core.numbers import float_down, float_nearest, float_up, log_bounds
from tacit.core.relations import ADD_REMOVE

__all__ = ["SLACK", "Term", "mu_squared", "terms_of"]

#: Largest difference of a discrete Gaussian from a continuous one of nearby σ², in ε and in relative δ, per release.
SLACK: Final = Fraction(1, 10**20)
#: From this σ² on, that is closer than a part in a thousand, and the sums over a lattice would be long.
_LARGE: Final = Fraction(2500)
#: In several coordinates there is no other pair, and from here on this one is better than zCDP for most δ.
_SMALLEST: Final = Fraction(16)


@dataclass(frozen=True)
class Term:
    """One release as pairs of laws.

    Attributes:
        removed, added: pairs that dominate it for a unit in the first or in the second database; the same object where
            the release is symmetric.
        lower: pairs that some release described by the event *attains*, in the same two directions; ``None`` where none
            is known. A pair that is only the worst case of several, point by point, must not stand here.
        infinity: probability, in either direction, that everything is given away.
    """

    removed: LossPair
    added: LossPair
    lower: tuple[LossPair, LossPair] | None
    infinity: Fraction = Fraction(0)
    #: Whether ``lower`` differs from the rest only by discretisation, so that a finer grid closes the bracket.
    closes: bool = True


def mu_squared(release: Leaf) -> tuple[Fraction, Fraction] | None:
    """Bounds ``(low, high)`` on the μ² of a release that is Gaussian or nearly so; ``None`` for others."""
    match release:
        case GaussianEvent():
            mu2 = (release.l2_sensitivity / release.sigma) ** 2
            return mu2, mu2
        case DiscreteGaussianEvent() if release.sigma2 >= (_LARGE if release.dimension == 1 else _SMALLEST):
            smoothing = _smoothing(release.dimension)
            # For one coordinate the lower end needs a shift by an integer; √l2_squared may not be one.
            shift = Fraction(math.isqrt(int(release.l2_squared)) ** 2)
            moved = shift if release.dimension == 1 else release.l2_squared
            low = shift if release.dimension < release.l2_squared else moved
            # Adding noise of τ² smooths with σ²τ²/(σ²+τ²) only; this much more makes it τ².
            added = smoothing * release.sigma2 / (release.sigma2 - smoothing)
            return low / (release.sigma2 + added), moved / (release.sigma2 - smoothing)
        case _:
            return None


def _smoothing(dimension: int) -> Fraction:
    """τ² such that a discrete Gaussian of σ² lies between continuous ones of σ² ± τ², but for SLACK.

    Each coordinate differs by a factor 1 ± 4e^{-2π²τ²}; with 2π²τ² >= 50 + ln d that is below SLACK for all d together.
    """
    return Fraction(math.ceil((50 + math.log(dimension)) / (2 * math.pi**2) * 100) + 1, 100)


def terms_of(release: Leaf, *, changing: bool = False) -> Term | None:
    """The pairs of one release, or ``None`` where no dominating pair is known.

    With ``changing`` the pair dominates whichever of the two neighbours has the unit, which may then differ from
    release to release.
    """
    match release:
        case PureEvent():
            return _symmetric(_pure(release.epsilon))
        case ApproxEvent():
            return replace(_symmetric(_pure(release.epsilon)), infinity=release.delta)
        case LaplaceEvent():
            epsilon = release.l1_sensitivity / release.scale
            return _symmetric(LaplacePair(float_up(epsilon), epsilon))
        case DiscreteLaplaceEvent():
            return _symmetric(_discrete_laplace(release))
        case DiscreteGaussianEvent() if release.dimension == 1:
            shift = math.isqrt(int(release.l2_squared))
            return _symmetric(DiscreteGaussianPair(release.sigma2, shift))
        case RandomizedResponseEvent():
            return _symmetric(_response(release))
        case ExponentialEvent():
            pair = BoundedRangePair(float_up(release.epsilon))
            # Two candidates whose scores change places: randomized response with odds e^{ε/2}.
            attained = _exchanged(release.epsilon)
            return Term(pair, pair, (attained, attained), closes=False)
        case SampledSumEvent():
            return _sampled_sum(release)
        case PoissonSampledEvent():
            return _sampled(release, changing=changing)
        case _:
            return None


def _symmetric(pair: LossPair) -> Term:
    return Term(pair, pair, (pair, pair))


def _pure(epsilon: Fraction) -> LossPair:
    e = float_up(epsilon)
    return TwoPoint(e, e, spacing=2 * epsilon)


def _exchanged(epsilon: Fraction) -> TwoPoint:
    half = float_down(epsilon / 2)
    return TwoPoint(half, half, spacing=epsilon)


def _discrete_laplace(release: DiscreteLaplaceEvent) -> LossPair:
    shift = int(release.l1_sensitivity)
    if shift == 1:
        # Moving by one step the noise has two losses only: it is randomized response.
        return _pure(shift / release.scale)
    return DiscreteLaplacePair(release.scale, shift)


def _response(release: RandomizedResponseEvent) -> LossPair:
    other = (1 - release.truth) / (release.categories - 1)
    high, low = max(release.truth, other), min(release.truth, other)
    ratio = high / low
    epsilon = math.log1p(float_nearest(ratio - 1)) if ratio < 2 else float_nearest(log_bounds(ratio)[1])
    neutral = float_nearest(1 - high - low)
    return response_pair(epsilon, neutral) if neutral > 0 else TwoPoint(epsilon, epsilon)


def _sampled(release: PoissonSampledEvent, *, changing: bool) -> Term | None:
    inner, rate = release.event, release.rate
    q = float_nearest(rate)
    if release.relation is not ADD_REMOVE:
        base = _base(inner)
        thinned = None if base is None else ThinnedPair(base[1], q)
        return None if thinned is None else Term(thinned, thinned, None)
    match inner:
        case PureEvent():
            return _sampled_pure(inner.epsilon, rate, changing=changing)
        case ApproxEvent():
            pure = _sampled_pure(inner.epsilon, rate, changing=changing)
            return Term(pure.removed, pure.added, None, rate * inner.delta)
        case DiscreteLaplaceEvent() if inner.l1_sensitivity == 1:
            return _sampled_pure(inner.l1_sensitivity / inner.scale, rate, changing=changing)
    base = _base(inner)
    if base is None:
        return None
    low, high = base
    if isinstance(inner, ExponentialEvent):
        # The worst of all bounded ranges is no exponential mechanism's own; the one that is has two losses.
        lower, closes = _sampled_pure(inner.epsilon / 2, rate, changing=False).lower, False
    else:
        lower, closes = (RemovedPair(low, q), AddedPair(low, q)), not changing
    if changing:
        either = EitherPair(high, q)
        return Term(either, either, lower, closes=closes)
    return Term(RemovedPair(high, q), AddedPair(high, q), lower, closes=closes)


def _sampled_sum(release: SampledSumEvent) -> Term | None:
    """Replacing a unit; the same pair from both sides, so it does not matter which neighbour is the first."""
    rate = float_nearest(release.rate)
    if rate == 1:
        # Floats cannot tell the rate from 1: without sampling it costs no less.
        return terms_of(release.unsampled)
    bounds = mu_squared(DiscreteGaussianEvent(release.sigma2, release.l2_squared, release.dimension))
    if bounds is None:
        base = _base(release.unsampled)
        thinned = None if base is None else ThinnedPair(base[1], rate)
        return None if thinned is None else Term(thinned, thinned, None)
    low, high = (math.sqrt(float_nearest(bound)) for bound in bounds)
    upper = ReplacedPair(high * (1 + 1e-15), rate)
    lower = ReplacedPair(low * (1 - 1e-15), rate)
    return Term(upper, upper, (lower, lower))


def _base(inner: Event) -> tuple[LossPair, LossPair] | None:
    """Pairs below and above a release that is to be sampled."""
    bounds = mu_squared(inner)
    if bounds is not None:
        low, high = (math.sqrt(float_nearest(bound)) for bound in bounds)
        return GaussianPair(low * (1 - 1e-15)), GaussianPair(high * (1 + 1e-15))
    term = terms_of(inner)
    if term is None or term.lower is None or term.infinity or term.removed is not term.added:
        return None
    return term.lower[0], term.removed


def _sampled_pure(epsilon: Fraction, rate: Fraction, *, changing: bool) -> Term:
    """Randomized response on a sample has two losses again, ln(1 - q + q e^{±ε})."""
    up = float_up(amplified_epsilon(epsilon, rate))
    down = -math.log1p(float_nearest(rate) * math.expm1(-float_up(epsilon)))
    removed, added = TwoPoint(up, down), TwoPoint(down, up)
    if changing:
        # As `EitherPair`: the larger losses of both, and what is left at zero.
        top = math.expm1(-down) / math.expm1(-up - down)
        either = response_pair(up, max(1 - top * (1 + math.exp(-up)), 0.0))
        return Term(either, either, (removed, added), closes=False)
    return Term(removed, added, (removed, added))
