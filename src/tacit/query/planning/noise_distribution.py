"""Distribution of weighted sums of independent integer noise.

A released measurement holds one noise, or the sum of two or three (where a count and a sum were released together),
or the sum of many (a rank read off a tree). One noise has an exact quantile; sums of two or three Laplace noises have
an exact tail. Longer sums are bounded by Chernoff's inequality, which needs only that

* discrete Laplace noise of scale t has E exp(λX) = (cosh u - 1)/(cosh u - cosh λ) with u = 1/t, and this is at most
  u²/(u² - λ²), the same of continuous Laplace noise: the claim says (cosh λ - 1)/λ² <= (cosh u - 1)/u², and
  (cosh x - 1)/x² = Σ x^(2k-2)/(2k)! grows with x;
* discrete Gaussian noise has E exp(λX) <= exp(λ²σ²/2) (Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tacit.core.numbers import Number, exact_probability, exp_bounds, float_nearest, log_bounds, sqrt_bounds
from tacit.mechanisms.gaussian import GaussianNoise
from tacit.mechanisms.laplace import LaplaceNoise

__all__ = ["NoiseLaw", "one_sided_error", "one_sided_errors"]


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The noise in a released integer.

    Args:
        kind: ``"laplace"``, ``"gaussian"``, or ``"none"`` for a number that no data can change.
        scale: the scale t of Laplace noise; σ² of Gaussian noise; 0 for none.
        terms: how many independent noises of that law are added or subtracted.
        unit: what the integer is worth in steps of its measurement, so that an estimate is ``integer * unit``.
    """

    kind: str
    scale: Fraction
    terms: int = 1
    unit: Fraction = Fraction(1)

    def error(self, beta: Number) -> Fraction:
        """The w, in steps, that the noise exceeds in size with probability at most ``beta``."""
        return self.unit * self.integer_error(exact_probability(beta, "beta"))

    def integer_error(self, beta: Fraction) -> Fraction:
        """As :meth:`error`, in the released integers themselves."""
        return _two_sided(self.kind, self.scale, self.terms, beta)

    @property
    def variance_bound(self) -> Fraction:
        """The variance in squared steps, rounded up."""
        if self.kind == "none":
            return Fraction(0)
        once = LaplaceNoise(self.scale).variance_bound if self.kind == "laplace" else self.scale
        return self.terms * once * self.unit**2


@lru_cache(maxsize=4096)
def _two_sided(kind: str, scale: Fraction, terms: int, beta: Fraction) -> Fraction:
    if kind == "none":
        return Fraction(0)
    if terms == 1:
        noise = LaplaceNoise(scale) if kind == "laplace" else GaussianNoise(scale)
        return Fraction(noise.quantile(beta))
    if kind == "laplace" and terms in (2, 3):
        return Fraction(_laplace_sum(scale, terms, beta))
    # The sum is an integer, so a bound that is not whole may be cut to the next below.
    return Fraction(math.floor(one_sided_error(kind, scale, ((Fraction(1), terms),), beta / 2)))


def _laplace_sum(scale: Fraction, terms: int, beta: Fraction) -> int:
    """The smallest w, or a little more, with P(|X + Y|, or |X + Y + Z|, > w) <= ``beta``."""
    if _laplace_tail_up(scale, terms, 1) <= beta:
        return 0
    low, high = 0, 1
    while _laplace_tail_up(scale, terms, high + 1) > beta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _laplace_tail_up(scale, terms, middle + 1) <= beta else (middle, high)
    return high


def _laplace_tail_up(scale: Fraction, terms: int, start: int) -> Fraction:
    """P(|sum of two or three| >= ``start``) for ``start`` >= 1, rounded up.

    A sum of m noises has P(d) = (1-q)^(2m) Σ_k C(k+m-1, m-1) C(k+d+m-1, m-1) q^(2k+d) for d >= 0, a polynomial in d
    times q^d; what follows is its sum from ``start`` on, with u = 1 - q.
    """
    low, q = exp_bounds(-1 / scale)
    u, one = 1 - low, 1 + low
    power = exp_bounds(-start / scale)[1]
    if terms == 2:
        return 2 * power / one**2 * ((1 + q**2) / one + start * u + q)
    square = u**2 * start**2 / 2 + u * q * start + q * (1 + q) / 2
    linear = Fraction(3, 2) * (1 + q**2) * (u * start + q)
    return 2 * power * (square / one**3 + linear / one**4 + (1 + 4 * q**2 + q**4) / one**5)


def one_sided_error(kind: str, scale: Fraction, terms: Sequence[tuple[Fraction, int]], beta: Fraction) -> Fraction:
    """The s with P(Σ wᵢXᵢ > s) <= ``beta``, where ``terms`` lists (weight, how many noises have it)."""
    return one_sided_errors(kind, scale, [weight for weight, _ in terms], [[count for _, count in terms]], beta)[0]


def one_sided_errors(
    kind: str, scale: Fraction, weights: Sequence[Fraction], counts: Sequence[Sequence[int]], beta: Fraction
) -> list[Fraction]:
    """As :func:`one_sided_error`, for several sums: ``counts`` says for each how many noises have each of ``weights``.

    By Chernoff's inequality: for Laplace noise s = t·(ln(1/β) - Σ nᵢ ln(1 - wᵢ²x²))/x holds at any x between 0 and
    1/max w, and the x that is best for the widest sum serves all; for Gaussian noise s = σ·√(2 Σ nᵢwᵢ²·ln(1/β)).
    """
    sizes = [abs(weight) for weight in weights]
    squares = [size * size for size in sizes]
    log_high = log_bounds(1 / beta)[1]
    if kind == "none" or not any(squares):
        return [Fraction(0)] * len(counts)
    if kind == "gaussian":
        return [sqrt_bounds(2 * scale * _total(each, squares) * log_high)[1] for each in counts]
    x = _place(max(counts, key=lambda each: _total(each, squares)), sizes, log_high)
    costs = [-log_bounds(1 - (size * x) ** 2)[0] if size else Fraction(0) for size in sizes]
    # Sums without any noise are exact.
    return [scale * (log_high + _total(each, costs)) / x if _total(each, squares) else Fraction(0) for each in counts]


def _total(counts: Sequence[int], values: Sequence[Fraction]) -> Fraction:
    return sum((count * value for count, value in zip(counts, values, strict=True)), Fraction(0))


def _place(counts: Sequence[int], sizes: Sequence[Fraction], log_high: Fraction) -> Fraction:
    """A near optimal x, found in floats: the bound holds at any place, so the search need not be exact."""
    largest = max(sizes)
    terms = [(float_nearest(size / largest), count) for size, count in zip(sizes, counts, strict=True)]
    target = float_nearest(log_high)

    def value(y: float) -> float:
        return (target - sum(count * math.log1p(-((size * y) ** 2)) for size, count in terms)) / y

    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if value(left) <= value(right) else (left, high)
    # Below 1 after rounding: multiples of 10⁻⁶ end at 1 - 10⁻⁶.
    return Fraction(min(max(round((low + high) * 500_000), 1), 999_999), 10**6) / largest
