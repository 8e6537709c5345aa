"""Distance between a drawn law and its textbook counterpart.

A law on the integers and a law with a density have no event in common that decides anything: the event "a whole number"
has probability 1 under one and 0 under the other. Two comparisons mean something:

* *total variation* from the continuous law **rounded to the nearest integer** (an exponential law is rounded down, and
  then there is no difference at all): how often a reader could tell which of the two was added to a count;
* the largest gap of the two *cdfs*: how far any tail probability or quantile level of the textbook is off.

Both fall as the noise grows: for Laplace like 1/(8b²) and 1/(4b), for the Gaussian faster still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.core.divergences import Enclosure
from tacit.core.errors import InputError
from tacit.core.numbers import exp_bounds, sqrt_bounds
from tacit.laws.continuous import ExponentialLaw, GaussianLaw, LaplaceLaw
from tacit.laws.discrete import DiscreteGaussianLaw, DiscreteLaplaceLaw, GeometricLaw
from tacit.laws.law import ContinuousLaw, DiscreteLaw

_ZERO: Final = Fraction(0)
#: Largest σ whose cells are compared one by one; beyond it a proven bound is given.
_COMPARED: Final = 12


@dataclass(frozen=True)
class LawDistance:
    """A discrete law beside the continuous law of the same parameter.

    Attributes:
        discrete: the law that is drawn.
        continuous: the law of the textbook.
        total_variation: to the continuous law rounded to integers; the advantage in telling the two apart.
        cdf_gap: the largest difference of the two cdfs.
        variance_ratio: the discrete variance over the continuous one.
    """

    discrete: DiscreteLaw
    continuous: ContinuousLaw
    total_variation: Enclosure
    cdf_gap: Enclosure
    variance_ratio: Enclosure

    def __str__(self) -> str:
        apart, gap, ratio = (_four(value) for value in (self.total_variation, self.cdf_gap, self.variance_ratio))
        return (
            f"{self.discrete} beside {self.continuous}: total variation {apart}, "
            f"cdf {gap} apart, variance {ratio} of it"
        )


def distance_to_continuous(law: DiscreteLaw) -> LawDistance:
    """Distance of ``law`` from the continuous law of the same scale or sigma.

    >>> for scale in (1, 10, 100):
    ...     print(distance_to_continuous(DiscreteLaplaceLaw(scale=scale)))
    Discrete Laplace(1) beside Laplace(1): total variation 0.06865, cdf 0.2311 apart, variance 0.9207 of it
    Discrete Laplace(10) beside Laplace(10): total variation 0.001188, cdf 0.02498 apart, variance 0.9992 of it
    Discrete Laplace(100) beside Laplace(100): total variation 1.244e-05, cdf 0.0025 apart, variance 1 of it
    """
    like = continuous_like(law)
    if isinstance(law, GeometricLaw):
        # Rounded down, an exponential is geometric: Pr[floor(Y) >= k] = e^(-k/b). The cdfs differ most at 0.
        apart, gap = Enclosure(_ZERO, _ZERO), law.mass(0)
    elif isinstance(law, DiscreteLaplaceLaw):
        apart, gap = _laplace(law)
    elif isinstance(law, DiscreteGaussianLaw) and isinstance(like, GaussianLaw):
        apart, gap = _gaussian(law, like)
    mine, theirs = law.variance, like.variance
    ratio = Enclosure(mine.low / theirs.high, mine.high / theirs.low)
    return LawDistance(law, like, apart, gap, ratio)


def continuous_like(law: DiscreteLaw) -> ContinuousLaw:
    """The continuous law with the same parameter."""
    match law:
        case DiscreteLaplaceLaw():
            return LaplaceLaw(scale=law.scale)
        case GeometricLaw():
            return ExponentialLaw(scale=law.scale)
        case DiscreteGaussianLaw():
            return GaussianLaw(sigma2=law.sigma2)
    raise InputError("law", "must be a discrete Laplace, geometric or discrete Gaussian law")


def _laplace(law: DiscreteLaplaceLaw) -> tuple[Enclosure, Enclosure]:
    """In closed form: away from 0 both have mass ∝ q^|x|, so they differ by what they put on 0."""
    at_zero, half = law.mass(0), exp_bounds(-1 / (2 * law.scale))
    apart = Enclosure(at_zero.low - (1 - half[0]), at_zero.high - (1 - half[1]))
    # At x >= 1 the gap is q^x times that at 0, which is half of the mass there.
    return apart, Enclosure(at_zero.low / 2, at_zero.high / 2)


def _gaussian(law: DiscreteGaussianLaw, like: GaussianLaw) -> tuple[Enclosure, Enclosure]:
    if law.sigma2 > _COMPARED**2:
        # No mass exceeds that of the rounded normal by more than the factor e^(1/(24σ²)): gaussian.proof.md.
        most = 1 - exp_bounds(-1 / (24 * law.sigma2))[0]
        cell = like.density(0).high / 2
        return Enclosure(_ZERO, most), Enclosure(law.mass(0).low / 2, cell + most)
    low = high = _ZERO
    gaps = [Enclosure(law.mass(0).low / 2, law.mass(0).high / 2)]
    reach = math.ceil(10 * sqrt_bounds(law.sigma2)[1]) + 10
    for x in range(reach + 1):
        mine = law.mass(x)
        left, right = like.cdf(x - Fraction(1, 2)), like.cdf(x + Fraction(1, 2))
        sides = 1 if x == 0 else 2
        more = mine.low - (right.high - left.low), mine.high - (right.low - left.high)
        low += sides * Fraction(max(more[0], _ZERO))
        high += sides * Fraction(max(more[1], _ZERO))
        middle, step = like.cdf(x), law.cdf(x)
        gaps += [_size(step, middle), _size(Enclosure(step.low - mine.high, step.high - mine.low), middle)]
    # Nothing of interest lies beyond ten sigmas; what does is counted whole.
    return Enclosure(low, high + law.tail(reach + 1).high), Enclosure.largest(gaps)


def _size(a: Enclosure, b: Enclosure) -> Enclosure:
    ends = (Fraction(a.low - b.high), Fraction(a.high - b.low))
    return Enclosure(max(ends[0], -ends[1], _ZERO), max(abs(end) for end in ends))


def _four(value: Enclosure) -> str:
    low, high = f"{value.down:.4g}", f"{value.up:.4g}"
    return high if low == high else f"at most {high}"
