"""Discrete laws that mechanisms draw exactly: discrete Laplace, geometric, discrete Gaussian."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from tacit.core.divergences import Enclosure
from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact, exact_nonnegative, exact_positive, exp_bounds, format_up, sqrt_bounds
from tacit.laws.law import DiscreteLaw, enclose, whole
from tacit.mechanisms.gaussian_profile import discrete_upper_tail_bounds, discrete_weight_bounds

_ZERO: Final = Fraction(0)
#: Smallest scale: below it the noise is 0 but for a probability of e^-1000.
_SMALLEST_SCALE: Final = Fraction(1, 1000)
#: The range of σ² whose sums are enclosed.
_SIGMA2: Final = (Fraction(1, 200), Fraction(1 << 30))
#: Largest σ² whose moments are summed term by term.
_SUMMED: Final = Fraction(10_000)


class GeometricLaw(DiscreteLaw):
    """Mass (1-q)·q^x for x = 0, 1, 2, …, with q = e^(-1/b): an exponential law of ``scale`` b, rounded down.

    >>> law = GeometricLaw(scale=1)
    >>> print(law.mass(0), law.tail(3))
    0.6321205588 0.04978706837
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = _scale(scale)
        self.name = f"Geometric({format_up(self.scale)})"

    def weight(self, x: Number) -> Enclosure:
        """The mass; nothing lies below 0."""
        at = whole(x, "x")
        if at < 0:
            return Enclosure(_ZERO, _ZERO)
        q, power = exp_bounds(-1 / self.scale), exp_bounds(-at / self.scale)
        return enclose((1 - q[1]) * power[0], (1 - q[0]) * power[1])

    def cdf(self, x: Number) -> Enclosure:
        """1 - q^(x+1)."""
        return self._cdf_at(math.floor(exact(x, "x")), 40)

    def tail(self, w: Number) -> Enclosure:
        """q^w, with w rounded up to a whole number."""
        return enclose(*exp_bounds(-math.ceil(exact_nonnegative(w, "w")) / self.scale))

    @property
    def mean(self) -> Enclosure:
        """q/(1-q)."""
        q = exp_bounds(-1 / self.scale)
        return Enclosure(q[0] / (1 - q[0]), q[1] / (1 - q[1]))

    @property
    def mean_size(self) -> Enclosure:
        """The mean: the law has no negative part."""
        return self.mean

    @property
    def variance(self) -> Enclosure:
        """q/(1-q)²."""
        q = exp_bounds(-1 / self.scale, 60)
        return Enclosure(q[0] / (1 - q[0]) ** 2, q[1] / (1 - q[1]) ** 2)

    def _least(self) -> int:
        return 0

    def _cdf_at(self, x: int, digits: int) -> Enclosure:
        if x < 0:
            return Enclosure(_ZERO, _ZERO)
        low, high = exp_bounds(-(x + 1) / self.scale, digits)
        return enclose(1 - high, 1 - low)


class DiscreteLaplaceLaw(DiscreteLaw):
    """Mass (1-q)/(1+q)·q^|x| with q = e^(-1/b): the two-sided geometric law of ``scale`` b.

    Moving it by one changes no probability by more than the factor e^(1/b), exactly as for the continuous law.

    >>> law = DiscreteLaplaceLaw(scale=1)
    >>> print(law.mass(0), law.mass(1), law.variance)
    0.4621171573 0.1700034016 1.841347188
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = _scale(scale)
        self.name = f"Discrete Laplace({format_up(self.scale)})"

    def weight(self, x: Number) -> Enclosure:
        """The mass."""
        q, power = exp_bounds(-1 / self.scale), exp_bounds(-abs(whole(x, "x")) / self.scale)
        return enclose((1 - q[1]) / (1 + q[1]) * power[0], (1 - q[0]) / (1 + q[0]) * power[1])

    def cdf(self, x: Number) -> Enclosure:
        """1 - q^(x+1)/(1+q) for x >= 0, and the mirror image below."""
        return self._cdf_at(math.floor(exact(x, "x")), 40)

    def tail(self, w: Number) -> Enclosure:
        """2·q^w/(1+q), with w rounded up to a whole number; everything at w = 0."""
        at = math.ceil(exact_nonnegative(w, "w"))
        if at == 0:
            return Enclosure(Fraction(1), Fraction(1))
        low, high = self._side(at, 40)
        return enclose(2 * low, 2 * high)

    @property
    def mean(self) -> Enclosure:
        """Zero."""
        return Enclosure(_ZERO, _ZERO)

    @property
    def mean_size(self) -> Enclosure:
        """2q/(1-q²)."""
        low, high = (2 * q / (1 - q * q) for q in exp_bounds(-1 / self.scale, 60))
        return Enclosure(low, high)

    @property
    def variance(self) -> Enclosure:
        """2q/(1-q)²."""
        low, high = (2 * q / (1 - q) ** 2 for q in exp_bounds(-1 / self.scale, 60))
        return Enclosure(low, high)

    def _side(self, at: int, digits: int) -> tuple[Fraction, Fraction]:
        """Pr[X >= at], for at >= 1."""
        q, power = exp_bounds(-1 / self.scale, digits), exp_bounds(-at / self.scale, digits)
        return power[0] / (1 + q[1]), power[1] / (1 + q[0])

    def _cdf_at(self, x: int, digits: int) -> Enclosure:
        low, high = self._side(abs(x) if x < 0 else x + 1, digits)
        return enclose(low, high) if x < 0 else enclose(1 - high, 1 - low)


class DiscreteGaussianLaw(DiscreteLaw):
    """Mass e^(-x²/(2σ²)) over the sum of all of them; give ``sigma``, or ``sigma2`` = σ². σ is at most 2¹⁵.

    >>> law = DiscreteGaussianLaw(sigma=1)
    >>> print(law.mass(0), law.tail(3))
    0.3989422783 0.009134342836
    """

    def __init__(self, *, sigma: Number | None = None, sigma2: Number | None = None) -> None:
        if (sigma is None) == (sigma2 is None):
            raise InputError("sigma", "give either sigma, or sigma2 = sigma squared, and not both")
        if sigma is not None:
            self.sigma2 = exact_positive(sigma, "sigma") ** 2
        elif sigma2 is not None:
            self.sigma2 = exact_positive(sigma2, "sigma2")
        if not _SIGMA2[0] <= self.sigma2 <= _SIGMA2[1]:
            raise InputError(
                "sigma", "must lie between 0.08 and 2**15 here; beyond it GaussianLaw differs by less than 1e-10"
            )
        self._total = discrete_weight_bounds(self.sigma2)
        self.name = f"Discrete Gaussian({format_up(sqrt_bounds(self.sigma2)[1])})"

    def weight(self, x: Number) -> Enclosure:
        """The mass."""
        low, high = exp_bounds(-Fraction(whole(x, "x") ** 2) / (2 * self.sigma2))
        return enclose(low / self._total[1], high / self._total[0])

    def cdf(self, x: Number) -> Enclosure:
        """Half of the probability that is not at 0, and a sum."""
        at = math.floor(exact(x, "x"))
        low, high = discrete_upper_tail_bounds(self.sigma2, abs(at) if at < 0 else at + 1)
        return enclose(low, high) if at < 0 else enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """Twice the sum from w on, with w rounded up to a whole number; everything at w = 0."""
        at = math.ceil(exact_nonnegative(w, "w"))
        if at == 0:
            return Enclosure(Fraction(1), Fraction(1))
        low, high = discrete_upper_tail_bounds(self.sigma2, at)
        return enclose(2 * low, 2 * high)

    @property
    def mean(self) -> Enclosure:
        """Zero."""
        return Enclosure(_ZERO, _ZERO)

    @property
    def mean_size(self) -> Enclosure:
        """The sum of |x| times its mass."""
        if self.sigma2 <= _SUMMED:
            return self._moment(1)
        # The trapezoid rule for x·e^(-x²/(2σ²)), whose integral is σ², is off by at most an eighth of the variation
        # of its derivative, which is 1 + 4e^(-3/2) < 2.
        low, high = (2 * (self.sigma2 + off) for off in (Fraction(-1, 4), Fraction(1, 4)))
        return Enclosure(low / self._total[1], high / self._total[0])

    @property
    def variance(self) -> Enclosure:
        """The sum of x² times its mass; never more than σ²."""
        if self.sigma2 <= _SUMMED:
            found = self._moment(2)
            return Enclosure(found.low, min(found.high, self.sigma2))
        # Poisson summation: the variance is σ²·(1 - 8π²σ²·Σ k²·e^(-2π²σ²k²)/θ) with θ >= 1, and the sum is tiny.
        return Enclosure(self.sigma2 * (1 - Fraction(1, 10**50)), self.sigma2)

    def _moment(self, power: int) -> Enclosure:
        """Σ |x|^power·mass(x), term by term up to twelve sigmas."""
        reach = math.ceil(12 * sqrt_bounds(self.sigma2)[1]) + 12
        low = high = Fraction(0)
        for x in range(1, reach + 1):
            bottom, top = exp_bounds(-Fraction(x * x) / (2 * self.sigma2))
            low, high = low + 2 * x**power * bottom, high + 2 * x**power * top
        # From term to term the exponential falls by e^(-x/σ²) and x² grows by (1 + 1/x)²: a geometric series.
        ratio = exp_bounds(-Fraction(reach + 1) / self.sigma2)[1] * (1 + Fraction(1, reach + 1)) ** power
        last = 2 * (reach + 1) ** power * exp_bounds(-Fraction((reach + 1) ** 2) / (2 * self.sigma2))[1]
        return Enclosure(low / self._total[1], (high + last / (1 - ratio)) / self._total[0])


def _scale(scale: Number) -> Fraction:
    value = exact_positive(scale, "scale")
    if value < _SMALLEST_SCALE:
        raise InputError("scale", "must be at least 1/1000; below it the noise is 0 but for a probability of e^-1000")
    return value
