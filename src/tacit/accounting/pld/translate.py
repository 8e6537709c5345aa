"""Translation of events to dominating pairs, in both directions.

:func:`terms_of` returns the pairs to compose for an upper bound and for a lower one. The two differ only for the
discrete Gaussian of large σ, which lies between two continuous ones, and for releases of which only part is known.

*Sampled releases* run on a secret Poisson sample. Let (P, Q) dominate a release on data with the unit against data
without it. On a sample of rate q the unit is there with probability q, so with it the output has law (1-q)Q + qP and
without it Q. Its loss ln(1 - q + q e^L) is increasing in L, hence the tails follow from those of (P, Q). The other
direction, without the unit against with it, has loss -ln(1 - q + q e^{-L}), from the reversed pair (Q, P). For one pair
of neighbours that stays the same over all releases both directions are composed, and the larger ε holds (Zhu, Dong and
Wang 2022, Theorem 11). Where the neighbours may change sides from release to release, :class:`EitherPair` dominates
both directions at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.composition_plan import Leaf
from tacit.accounting.pld.pairs import (
    BoundedRangePair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
    LossPair,
    Sides,
    TwoPoint,
    normal_sides,
    response_pair,
)
from tacit.accounting.prices import amplified_epsilon
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

Floats = NDArray[np.float64]


class RemovedPair(LossPair):
    """The mixture (1-q)Q + qP against Q: the unit is in the data of the first law."""

    def __init__(self, base: LossPair, rate: float) -> None:
        self._base, self._rate = base, rate
        self.anchor = self._image(base.anchor)

    def _image(self, loss: float) -> float:
        if loss > 600:
            return loss + math.log(self._rate + (1 - self._rate) * math.exp(-loss))
        return math.log1p(self._rate * math.expm1(loss))

    def sides(self, losses: Floats) -> Sides:
        """Return tails of (P, Q) at the loss ln(1 + (e^l - 1)/q) that is mapped to l."""
        rate = self._rate
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lifted = np.expm1(np.minimum(losses, 600.0)) / rate
            inner = np.where(losses > 600, losses - math.log(rate), np.log1p(np.maximum(lifted, -1.0)))
        # An atom at the anchor must not slip past its own edge by a rounding of this map.
        inner = np.where(losses == self.anchor, self._base.anchor, inner)
        p_above, p_below, q_above, q_below = self._base.sides(inner)
        return Sides((1 - rate) * q_above + rate * p_above, (1 - rate) * q_below + rate * p_below, q_above, q_below)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the image of the reach of (P, Q)."""
        low, high = self._base.reach(log_tail)
        return self._image(low), self._image(high)


class AddedPair(LossPair):
    """P against the mixture (1-q)P + qQ: the unit is in the data of the second law only."""

    def __init__(self, base: LossPair, rate: float) -> None:
        self._base, self._rate = base, rate
        self.anchor = self._image(base.anchor)

    def _image(self, loss: float) -> float:
        if loss < -600:
            return loss - math.log(self._rate + (1 - self._rate) * math.exp(loss))
        return -math.log1p(self._rate * math.expm1(-loss))

    def sides(self, losses: Floats) -> Sides:
        """Return tails of (P, Q) at the loss -ln(1 + (e^{-l} - 1)/q) that is mapped to l."""
        rate = self._rate
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lifted = np.expm1(np.minimum(-losses, 600.0)) / rate
            inner = -np.where(losses < -600, -losses - math.log(rate), np.log1p(np.maximum(lifted, -1.0)))
        # An atom at the anchor must not slip past its own edge by a rounding of this map.
        inner = np.where(losses == self.anchor, self._base.anchor, inner)
        p_above, p_below, q_above, q_below = self._base.sides(inner)
        return Sides(p_above, p_below, (1 - rate) * p_above + rate * q_above, (1 - rate) * p_below + rate * q_below)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the image of the reach of (P, Q)."""
        low, high = self._base.reach(log_tail)
        return self._image(low), self._image(high)


class EitherPair(LossPair):
    """The pair that dominates both directions of a sampled release, for a (P, Q) that is symmetric.

    Removing costs more at every γ >= 1 and adding more at every γ < 1, so their maximum has the tails of the first
    above loss zero and those of the second below, and at zero the remaining atom (``pld.proof.md``, section 2).
    """

    def __init__(self, base: LossPair, rate: float) -> None:
        self._removed, self._added = RemovedPair(base, rate), AddedPair(base, rate)
        self.anchor = self._removed.anchor

    def sides(self, losses: Floats) -> Sides:
        """Return the tails of removing from zero on, the tails of adding below."""
        both = zip(self._removed.sides(losses), self._added.sides(losses), strict=True)
        return Sides(*(np.where(losses >= 0, removed, added) for removed, added in both))

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the lower end of adding and the upper end of removing."""
        return self._added.reach(log_tail)[0], self._removed.reach(log_tail)[1]


class ReplacedPair(LossPair):
    """(1-q)N(0, 1) + qN(μ, 1) against (1-q)N(0, 1) + qN(-μ, 1): one unit replaced by another in a sampled sum.

    The loss at x is ln(1 - q + q e^{μx-μ²/2}) - ln(1 - q + q e^{-μx-μ²/2}), odd and increasing. It is l where
    μx = l/2 + arsinh(sinh(l/2)·(1-q)/q·e^{μ²/2}).
    """

    def __init__(self, mu: float, rate: float) -> None:
        self._mu, self._rate = mu, rate
        # (1-q)/q·e^{μ²/2}; beyond the range of floats a grid is useless.
        self._odds = (1 - rate) / rate * math.exp(mu * mu / 2)
        if math.isinf(self._odds):
            raise OverflowError

    def sides(self, losses: Floats) -> Sides:
        """Return mixtures of normal tails at the output x that has the loss."""
        half = np.abs(losses) / 2
        near = np.arcsinh(np.sinh(np.minimum(half, 40.0)) * self._odds)
        # Where sinh would overflow, 2·sinh is e^, and arsinh w is v + ln(1 + √(1 + e^{-2v})) with v = ln w.
        far = np.maximum(half, 40.0) + math.log(self._odds) - math.log(2)
        far = far + np.log1p(np.sqrt(1 + np.exp(-2 * far)))
        risen = np.where(half > 40, far, near)
        place = np.copysign((half + risen) / self._mu, losses)
        middle, up, down = (normal_sides(place - shift) for shift in (0.0, self._mu, -self._mu))
        first = (self._mixed(here, there) for here, there in zip(middle, up, strict=True))
        second = (self._mixed(here, there) for here, there in zip(middle, down, strict=True))
        return Sides(*first, *second)

    def _mixed(self, middle: Floats, moved: Floats) -> Floats:
        mixture: Floats = (1 - self._rate) * middle + self._rate * moved
        return mixture

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends by Φ(-z) <= exp(-z²/2), beyond the farther of the two means."""
        z = math.sqrt(max(-2 * log_tail, 1.0)) + self._mu
        high = self._image(self._mu * z - self._mu**2 / 2) - self._image(-self._mu * z - self._mu**2 / 2)
        return -high, high

    def _image(self, exponent: float) -> float:
        if exponent > 600:
            return exponent + math.log(self._rate)
        return math.log1p(self._rate * math.expm1(exponent))


class ThinnedPair(LossPair):
    """(P, Q) with probability q, and otherwise an output of loss zero: sampling when a unit is *replaced*."""

    def __init__(self, base: LossPair, rate: float) -> None:
        self._base, self._rate = base, rate

    def sides(self, losses: Floats) -> Sides:
        """Return tails of (P, Q) times q, plus an atom of 1-q at loss zero."""
        atom = np.where(losses < 0, 1 - self._rate, 0.0)
        inner = self._base.sides(losses)
        above = [atom, 1 - self._rate - atom] * 2
        return Sides(*(self._rate * side + rest for side, rest in zip(inner, above, strict=True)))

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the reach of (P, Q), extended to zero."""
        low, high = self._base.reach(log_tail)
        return min(low, 0.0), max(high, 0.0)


#: Largest difference of a discrete Gaussian from a continuous one of nearby σ², in ε and in relative δ, per release.
SLACK: Final = Fraction(1, 10**20)
#: From this σ² on, the two agree to a part in a thousand, and the sums over a lattice would be long.
_LARGE: Final = Fraction(2500)
#: In several coordinates no other pair is known; from this σ² on this one is better than zCDP for most δ.
_SMALLEST: Final = Fraction(16)


@dataclass(frozen=True)
class Term:
    """One release as pairs of distributions.

    Attributes:
        removed, added: pairs that dominate it for a unit in the first or in the second database; the same object where
            the release is symmetric.
        lower: pairs that some release described by the event *attains*, in the same two directions; ``None`` where none
            is known. A pair that is only the pointwise worst case of several releases must not be used here.
        infinity: probability, in either direction, that everything is revealed.
    """

    removed: LossPair
    added: LossPair
    lower: tuple[LossPair, LossPair] | None
    infinity: Fraction = Fraction(0)
    #: Whether ``lower`` differs from the rest only by discretisation, so that a finer grid closes the bracket.
    closes: bool = True


def mu_squared(release: Leaf) -> tuple[Fraction, Fraction] | None:
    """Return bounds ``(low, high)`` on the μ² of a release that is Gaussian or nearly so; ``None`` otherwise."""
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
            # Adding noise of τ² smooths by only σ²τ²/(σ²+τ²); adding this much smooths by τ².
            added = smoothing * release.sigma2 / (release.sigma2 - smoothing)
            return low / (release.sigma2 + added), moved / (release.sigma2 - smoothing)
        case _:
            return None


def _smoothing(dimension: int) -> Fraction:
    """Return τ² such that a discrete Gaussian of σ² lies between continuous ones of σ² ± τ², up to SLACK.

    Each coordinate differs by a factor 1 ± 4e^{-2π²τ²}; with 2π²τ² >= 50 + ln d that is below SLACK for all d together.
    """
    return Fraction(math.ceil((50 + math.log(dimension)) / (2 * math.pi**2) * 100) + 1, 100)


def terms_of(release: Leaf, *, changing: bool = False) -> Term | None:
    """Return the pairs of one release, or ``None`` where no dominating pair is known.

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
            # Two candidates whose scores are swapped: randomized response with odds e^{ε/2}.
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
        # For a shift of one the loss has two values only: it is randomized response.
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
        # No exponential mechanism attains the bounded-range pair; the lower pair, which one attains, has two losses.
        lower, closes = _sampled_pure(inner.epsilon / 2, rate, changing=False).lower, False
    else:
        lower, closes = (RemovedPair(low, q), AddedPair(low, q)), not changing
    if changing:
        either = EitherPair(high, q)
        return Term(either, either, lower, closes=closes)
    return Term(RemovedPair(high, q), AddedPair(high, q), lower, closes=closes)


def _sampled_sum(release: SampledSumEvent) -> Term | None:
    """Return the pairs of a sampled sum when a unit is replaced; the same pair in both directions."""
    rate = float_nearest(release.rate)
    if rate == 1:
        # The rate rounds to 1 as a float: the release without sampling costs no less.
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
    """Return pairs for the lower and the upper bound of a release that is to be sampled; None if unknown."""
    bounds = mu_squared(inner)
    if bounds is not None:
        low, high = (math.sqrt(float_nearest(bound)) for bound in bounds)
        return GaussianPair(low * (1 - 1e-15)), GaussianPair(high * (1 + 1e-15))
    term = terms_of(inner)
    if term is None or term.lower is None or term.infinity or term.removed is not term.added:
        return None
    return term.lower[0], term.removed


def _sampled_pure(epsilon: Fraction, rate: Fraction, *, changing: bool) -> Term:
    """Return the pairs of randomized response on a sample, which has the two losses ln(1 - q + q e^{±ε})."""
    up = float_up(amplified_epsilon(epsilon, rate))
    down = -math.log1p(float_nearest(rate) * math.expm1(-float_up(epsilon)))
    removed, added = TwoPoint(up, down), TwoPoint(down, up)
    if changing:
        # As `EitherPair`: the larger losses of both, and the remaining mass at zero.
        top = math.expm1(-down) / math.expm1(-up - down)
        either = response_pair(up, max(1 - top * (1 + math.exp(-up)), 0.0))
        return Term(either, either, (removed, added), closes=False)
    return Term(removed, added, (removed, added))
