"""Continuous laws: Laplace, exponential, Gaussian."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from tacit.core.divergences import Enclosure
from tacit.core.errors import InputError
from tacit.core.normal import normal_cdf_bounds, normal_quantile_bounds
from tacit.core.numbers import (
    Number,
    exact,
    exact_nonnegative,
    exact_positive,
    exact_probability,
    exp_bounds,
    format_up,
    log_bounds,
    sqrt_bounds,
)
from tacit.laws.law import ContinuousLaw, enclose

#: π, enclosed to fifty digits.
_PI: Final = (
    Fraction(314159265358979323846264338327950288419716939937510, 10**50),
    Fraction(314159265358979323846264338327950288419716939937511, 10**50),
)


class ExponentialLaw(ContinuousLaw):
    """Density e^(-x/b)/b for x >= 0: the waiting time of mean ``scale`` = b.

    >>> print(ExponentialLaw(scale=2).tail(6))
    0.04978706837
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = exact_positive(scale, "scale")
        self.name = f"Exponential({format_up(self.scale)})"

    def weight(self, x: Number) -> Enclosure:
        """The density; nothing lies below 0."""
        at = exact(x, "x")
        if at < 0:
            return Enclosure(Fraction(0), Fraction(0))
        low, high = exp_bounds(-at / self.scale)
        return Enclosure(low / self.scale, high / self.scale)

    def cdf(self, x: Number) -> Enclosure:
        """1 - e^(-x/b)."""
        at = exact(x, "x")
        low, high = exp_bounds(-max(at, Fraction(0)) / self.scale)
        return enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """e^(-w/b)."""
        return enclose(*exp_bounds(-exact_nonnegative(w, "w") / self.scale))

    def quantile(self, probability: Number) -> Enclosure:
        """-b·ln(1 - p)."""
        low, high = log_bounds(1 - exact_probability(probability, "probability"))
        return Enclosure(-high * self.scale, -low * self.scale)

    @property
    def mean(self) -> Enclosure:
        """The scale, b."""
        return Enclosure(self.scale, self.scale)

    @property
    def mean_size(self) -> Enclosure:
        """The scale, b: the law has no negative part."""
        return self.mean

    @property
    def variance(self) -> Enclosure:
        """b²."""
        return Enclosure(self.scale**2, self.scale**2)


class LaplaceLaw(ContinuousLaw):
    """Density e^(-|x|/b)/(2b): two exponential laws back to back, each with half of the probability.

    A tail of t scales has probability e^-t, the standard deviation is √2·b.

    >>> law = LaplaceLaw(scale=10)
    >>> print(law.tail(3 * law.scale), law.std, law.mean_size)
    0.04978706837 14.14213562 10
    """

    def __init__(self, *, scale: Number) -> None:
        self.scale = exact_positive(scale, "scale")
        self.name = f"Laplace({format_up(self.scale)})"

    @property
    def half(self) -> ExponentialLaw:
        """The law of |X|, and of each side by itself: half of its density at |x| is the density at x."""
        return ExponentialLaw(scale=self.scale)

    def weight(self, x: Number) -> Enclosure:
        """The density."""
        low, high = self.half.weight(abs(exact(x, "x")))
        return Enclosure(low / 2, high / 2)

    def cdf(self, x: Number) -> Enclosure:
        """e^(x/b)/2 below 0, 1 - e^(-x/b)/2 above."""
        at = exact(x, "x")
        low, high = (end / 2 for end in exp_bounds(-abs(at) / self.scale))
        return enclose(low, high) if at < 0 else enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """e^(-w/b)."""
        return self.half.tail(w)

    def quantile(self, probability: Number) -> Enclosure:
        """b·ln(2p) below the median, -b·ln(2(1 - p)) above."""
        p = exact_probability(probability, "probability")
        low, high = log_bounds(2 * min(p, 1 - p))
        ends = (low * self.scale, high * self.scale)
        return Enclosure(*ends) if p < Fraction(1, 2) else Enclosure(-ends[1], -ends[0])

    @property
    def mean(self) -> Enclosure:
        """Zero."""
        return Enclosure(Fraction(0), Fraction(0))

    @property
    def mean_size(self) -> Enclosure:
        """The scale, b."""
        return Enclosure(self.scale, self.scale)

    @property
    def variance(self) -> Enclosure:
        """2b²."""
        return Enclosure(2 * self.scale**2, 2 * self.scale**2)


class GaussianLaw(ContinuousLaw):
    """Density e^(-x²/(2σ²))/(σ√(2π)); give ``sigma``, or ``sigma2`` = σ² where σ is not rational.

    >>> print(GaussianLaw(sigma=2).tail(4))
    0.0455002639
    """

    def __init__(self, *, sigma: Number | None = None, sigma2: Number | None = None) -> None:
        if (sigma is None) == (sigma2 is None):
            raise InputError("sigma", "give either sigma, or sigma2 = sigma squared, and not both")
        if sigma is not None:
            self.sigma2 = exact_positive(sigma, "sigma") ** 2
        elif sigma2 is not None:
            self.sigma2 = exact_positive(sigma2, "sigma2")
        self._sigma = sqrt_bounds(self.sigma2)
        self.name = f"Gaussian({format_up(self._sigma[1])})"

    def weight(self, x: Number) -> Enclosure:
        """The density."""
        low, high = exp_bounds(-(exact(x, "x") ** 2) / (2 * self.sigma2))
        root_low, root_high = (sqrt_bounds(2 * pi * self.sigma2)[i] for i, pi in enumerate(_PI))
        return Enclosure(low / root_high, high / root_low)

    def cdf(self, x: Number) -> Enclosure:
        """Φ(x/σ)."""
        at = exact(x, "x")
        ends = sorted(at / sigma for sigma in self._sigma)
        return enclose(normal_cdf_bounds(ends[0])[0], normal_cdf_bounds(ends[1])[1])

    def tail(self, w: Number) -> Enclosure:
        """2Φ(-w/σ)."""
        low, high = self.cdf(-exact_nonnegative(w, "w"))
        return enclose(2 * Fraction(low), 2 * Fraction(high))

    def quantile(self, probability: Number) -> Enclosure:
        """σ·Φ⁻¹(p)."""
        ends = normal_quantile_bounds(exact_probability(probability, "probability"))
        corners = [end * sigma for end in ends for sigma in self._sigma]
        return Enclosure(min(corners), max(corners))

    @property
    def mean(self) -> Enclosure:
        """Zero."""
        return Enclosure(Fraction(0), Fraction(0))

    @property
    def mean_size(self) -> Enclosure:
        """σ·√(2/π)."""
        return Enclosure(sqrt_bounds(2 * self.sigma2 / _PI[1])[0], sqrt_bounds(2 * self.sigma2 / _PI[0])[1])

    @property
    def variance(self) -> Enclosure:
        """σ²."""
        return Enclosure(self.sigma2, self.sigma2)
