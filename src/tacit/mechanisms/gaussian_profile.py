"""Privacy profile of discrete Gaussian noise, as proven bounds: delta at an epsilon, and tails.

The discrete Gaussian with parameter σ² has P(x) ∝ exp(-x²/(2σ²)) on the integers. Its δ(ε) is not that of the
continuous normal, so four bounds are used here, each proven in ``gaussian.proof.md``:

* *sums*: one integer that moves by at most a whole shift; δ(ε) itself, as a sum of positive terms, for σ up to 2¹⁵;
* *shifts*: any number of integers, Δ² up to 16 and σ up to 64; δ(ε) itself, of the few shifts that may be worst;
* *rounded normal*: any number of integers, σ² >= 40; the noise is nearly a rounded continuous normal, whose
  δ(ε) is known, and the difference is added to ε and δ;
* *zCDP*: any number of integers, any σ; ρ = Δ²/(2σ²) and the best conversion of it.

Calibration inverts them: the standard deviation for an (epsilon, delta), always rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.guarantees import ZCDP
from tacit.core.normal import gaussian_delta_bounds, normal_cdf_bounds
from tacit.core.numbers import (
    Number,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_nearest,
    float_up,
    format_up,
    log_bounds,
    round_up,
    sqrt_bounds,
)
from tacit.mechanisms.base import smallest_that

#: Largest σ² whose sums are taken term by term.
LARGEST_SUMMED: Final = Fraction(1 << 30)
#: Smallest σ² whose tail is computed; the tail beyond zero is 2e^-100 there.
_SMALLEST_SUMMED: Final = Fraction(1, 200)
#: Terms smaller than e^-64 of the largest are not added but bounded.
_CUT: Final = 64
#: Relative error allowed for a float sum of such terms; the proof file derives less than half of it.
_SLACK: Final = Fraction(1, 1 << 40)
#: Bound on the mass lost to underflow, in units of the largest term.
_UNDERFLOW: Final = Fraction(1, 1 << 1000)
#: Number of terms added in floats before an exact sum takes over, so that their number does not enter the error.
_BLOCK: Final = 1024
#: Relative error that the proof allows ``exp`` and ``expm1``: 32 units in the last place, where 1 is usual.
_EXP_ERROR: Final = 2.0**-48
#: Beyond this starting point the sub-Gaussian bound replaces the sum, whose integers would not fit.
_FARTHEST: Final = 1 << 30
_SMALLEST_ROUNDED: Final = 40
#: Largest Δ² whose shifts are enumerated, and largest σ² at which laws of their sums are computed.
_MOST_ENUMERATED: Final = 16
_LARGEST_CONVOLVED: Final = Fraction(1 << 12)
#: Relative error allowed for sums of up to 16 coordinates; the proof file derives less than half of it.
_SUM_SLACK: Final = Fraction(1, 1 << 30)
#: Probability that may be cut off and added to δ, in parts of δ.
_CUT_OFF: Final = Fraction(1, 1 << 30)
#: Smallest δ at which parts of it are far from underflow.
_SMALLEST_DELTA: Final = Fraction(1, 1 << 500)

Weight = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def gives_at_most(epsilon: Fraction, delta: Fraction, *, sigma2: Fraction, l2_squared: int, dimension: int) -> bool:
    """Return whether noise of σ² on ``dimension`` integers of l2 sensitivity √``l2_squared`` is proven (ε, δ)-DP."""
    if dimension == 1 and sigma2 <= LARGEST_SUMMED:
        return discrete_delta_bounds(epsilon, sigma2, math.isqrt(l2_squared))[1] <= delta
    if l2_squared <= _MOST_ENUMERATED and sigma2 <= _LARGEST_CONVOLVED and delta >= _SMALLEST_DELTA:
        shifts = largest_shifts(l2_squared, dimension)
        return all(shift_delta_bound(epsilon, delta, sigma2, shift) <= delta for shift in shifts)
    if rounded_normal_gives_at_most(epsilon, delta, sigma2=sigma2, l2_squared=l2_squared, dimension=dimension):
        return True
    return ZCDP(l2_squared / (2 * sigma2)).to_approx(delta).epsilon <= epsilon


def discrete_delta_bounds(epsilon: Fraction, sigma2: Fraction, shift: int) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds on δ(ε) of one integer that moves by ``shift``, for σ² up to 2³⁰.

    δ(ε) = Σ_{x > τ} P(x)·(1 - exp(-(x-τ)·Δ/σ²)) with τ = εσ²/Δ - Δ/2: outputs beyond τ are those whose privacy loss
    exceeds ε, and the bracket is the part of their probability that e^ε does not cover. No term is negative.
    """
    if shift == 0:
        return Fraction(0), Fraction(0)
    threshold = epsilon * sigma2 / shift - Fraction(shift, 2)
    first = math.floor(threshold) + 1
    rate, offset = float_nearest(shift / sigma2), float_up(first - threshold)

    def uncovered(steps: NDArray[np.float64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = -np.expm1(-rate * (steps + offset))
        return result

    low, high = _sum_bounds(sigma2, first, uncovered)
    total_low, total_high = _total_bounds(sigma2)
    return low / total_high, min(high / total_low, Fraction(1))


def largest_shifts(l2_squared: int, dimension: int) -> tuple[tuple[int, ...], ...]:
    """Return the maximal shifts of ``dimension`` integers: of l2 norm <= √``l2_squared``, dominated by no other shift.

    A shift dominates another if it is at least as large in every coordinate. Shifts are listed up to order and signs,
    which do not change δ(ε): as their nonzero coordinates, in descending order.

    >>> largest_shifts(5, 10)
    ((2, 1), (1, 1, 1, 1, 1))
    """

    def extended(shift: tuple[int, ...], left: int) -> list[tuple[int, ...]]:
        if len(shift) == dimension:
            return [shift]
        largest = min(math.isqrt(left), shift[-1] if shift else left)
        longer = [found for part in range(largest, 0, -1) for found in extended((*shift, part), left - part * part)]
        return longer or [shift]

    found = extended((), l2_squared)
    return tuple(shift for shift in found if not any(_exceeds(other, shift) for other in found))


def _exceeds(shift: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether ``shift`` dominates ``other``: >= in every coordinate, and not equal; both in descending order."""
    covers = len(shift) >= len(other) and all(a >= b for a, b in zip(shift, other, strict=False))
    return covers and shift != other


def shift_delta_bound(epsilon: Fraction, delta: Fraction, sigma2: Fraction, shift: tuple[int, ...]) -> Fraction:
    """Return an upper bound on δ(ε) of integers that move by ``shift``, for σ² up to 2¹²; tight to ``delta``·2⁻²⁹.

    The loss depends on the noise through Y = Σ shift_i·X_i alone, and δ(ε) = Σ_{y > τ} P(Y = y)·(1 - exp(-(y-τ)/σ²))
    with τ = εσ² - ‖shift‖²/2.
    """
    if len(shift) == 1:
        return discrete_delta_bounds(epsilon, sigma2, shift[0])[1]
    norm2 = sum(part * part for part in shift)
    threshold = epsilon * sigma2 - Fraction(norm2, 2)
    law = _law_of_sum(sigma2, shift, delta * _CUT_OFF)
    first = max(math.floor(threshold) + 1, -law.reach)
    steps = np.arange(first, law.reach + 1, dtype=np.int64)
    terms = law.weights[steps + law.reach]
    # -(y - τ)/σ² with the offset rounded away from 0, so that no bracket is too small.
    offset = float_up(Fraction(first) - threshold)
    terms = terms * -np.expm1(-float_nearest(1 / sigma2) * ((steps - first).astype(np.float64) + offset))
    total = Fraction(math.fsum(terms)) * (1 + _SUM_SLACK) + _UNDERFLOW
    return min(total / _total_bounds(sigma2)[0] ** len(shift) + law.cut, Fraction(1))


@dataclass(frozen=True)
class _SumLaw:
    """Unnormalised law of Y on -reach … reach (all noises zero weighs 1), and the probability cut off."""

    weights: NDArray[np.float64]
    reach: int
    cut: Fraction


@lru_cache(maxsize=64)
def _law_of_sum(sigma2: Fraction, shift: tuple[int, ...], spare: Fraction) -> _SumLaw:
    """Compute the law of Σ shift_i·X_i by convolution of positive floats."""
    check_exp()
    share = float_nearest(spare / (4 * len(shift)))
    # A sub-Gaussian guess of the reach; it need not be right, because the probability beyond it is computed.
    reach = math.ceil(math.sqrt(2 * float_nearest(sigma2) * math.log(2 / share))) + 1
    tail = discrete_tail_bound(sigma2, reach + 1)
    steps = np.arange(-reach, reach + 1, dtype=np.int64)
    single = np.exp((steps * steps).astype(np.float64) * -float_nearest(1 / (2 * sigma2)))
    law = _SumLaw(np.ones(1), 0, len(shift) * tail)
    for part in shift:
        spread = np.zeros(2 * reach * part + 1)
        spread[::part] = single
        law = _trimmed(np.convolve(law.weights, spread), law.cut, share)
    return law


def _trimmed(weights: NDArray[np.float64], cut: Fraction, share: float) -> _SumLaw:
    """Cut off both tails of probability below ``share``, and add their probability to ``cut``."""
    reach = len(weights) // 2
    ends = np.cumsum(weights[: reach + 1]) * 2
    total = float(weights.sum())
    drop = int(np.searchsorted(ends, total * share / 2))
    # Twice the float sum, so that its rounding and that of the total do not matter.
    lost = 2 * Fraction(float(ends[drop - 1])) / Fraction(total) if drop else Fraction(0)
    return _SumLaw(weights[drop : len(weights) - drop], reach - drop, cut + lost)


def discrete_tail_bound(sigma2: Fraction, start: int) -> Fraction:
    """Return an upper bound on P(|X| >= ``start``), for ``start`` >= 1; tight to ten digits for σ² from 1/200 to 2³⁰.

    Tails grow with σ²: the ratio of the law of a larger σ² to that of a smaller one grows with |x|. So for σ² below
    1/200, where hardly any noise is left and exponents would have thousands of digits, the bound at 1/200 is returned.
    """
    sigma2 = max(sigma2, _SMALLEST_SUMMED)
    if sigma2 <= LARGEST_SUMMED:
        return min(2 * _sum_bounds(sigma2, start, np.ones_like)[1] / _total_bounds(sigma2)[0], Fraction(1))
    # P(x) <= e^(1/24σ²) · P(normal rounds to x), so a tail is at most that of the normal, half a step further in.
    normal = normal_cdf_bounds(-(start - Fraction(1, 2)) / sqrt_bounds(sigma2)[1])[1]
    return min(2 * exp_bounds(1 / (24 * sigma2))[1] * normal, Fraction(1))


def discrete_upper_tail_bounds(sigma2: Fraction, start: int) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds on P(X >= ``start``), for ``start`` >= 1 and σ² from 1/200 to 2³⁰."""
    low, high = _sum_bounds(sigma2, start, np.ones_like)
    total_low, total_high = _total_bounds(sigma2)
    return low / total_high, min(high / total_low, Fraction(1, 2))


def discrete_weight_bounds(sigma2: Fraction) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds on Σ exp(-x²/(2σ²)) over all integers, for σ² from 1/200 to 2³⁰."""
    return _total_bounds(sigma2)


def rounded_normal_gives_at_most(
    epsilon: Fraction, delta: Fraction, *, sigma2: Fraction, l2_squared: int, dimension: int
) -> bool:
    """Return whether the comparison with a rounded continuous normal proves (ε, δ)-DP.

    δ >= e^(d/24σ²)·(δ_normal(ε - η) + e^ε·P(‖noise‖ > K)), where η = (d + K²/σ²)/(24σ²), up to 2^-900.
    """
    return rounded_normals_give_at_most(
        epsilon, delta, mu_squared=l2_squared / sigma2, sigma2=sigma2, dimension=dimension
    )


def rounded_normals_give_at_most(
    epsilon: Fraction, delta: Fraction, *, mu_squared: Fraction, sigma2: Fraction, dimension: int
) -> bool:
    """Return :func:`rounded_normal_gives_at_most` for integers whose noises have different σ².

    Args:
        epsilon: ε of the guarantee to prove.
        delta: δ of the guarantee to prove.
        mu_squared: an upper bound on Σ shift_i²/σ_i² over the integers.
        sigma2: the smallest of all σ².
        dimension: number of integers that move.
    """
    if sigma2 < _SMALLEST_ROUNDED:
        return False
    # P(‖noise‖ > K) <= e^-t leaves e^ε·e^-t <= δ·e^-20.
    t = math.ceil(20 + epsilon + log_bounds(1 / delta)[1])
    radius2 = dimension + 2 * sqrt_bounds(Fraction(dimension * t))[1] + 2 * t
    radius2 += sqrt_bounds(radius2 * dimension / sigma2)[1] + dimension / (4 * sigma2)
    spent = (dimension + radius2) / (24 * sigma2) + Fraction(dimension, 1 << 900)
    # ε - η may be negative; δ_normal is a bound there as well.
    mu = sqrt_bounds(mu_squared)[1]
    normal = gaussian_delta_bounds(_shorten(epsilon - spent), mu)[1]
    factor = exp_bounds(dimension / (24 * sigma2))[1]
    return factor * (normal + delta * exp_bounds(Fraction(-20))[1]) <= delta


def _shorten(value: Fraction) -> Fraction:
    """Return ``value`` rounded down to a rational of at most 200 binary digits, to keep later arithmetic fast."""
    return Fraction(math.floor(value * (1 << 200)), 1 << 200)


def _total_bounds(sigma2: Fraction) -> tuple[Fraction, Fraction]:
    low, high = _sum_bounds(sigma2, 1, np.ones_like)
    return 1 + 2 * low, 1 + 2 * high


def _sum_bounds(sigma2: Fraction, start: int, weight: Weight) -> tuple[Fraction, Fraction]:
    """Return lower and upper bounds on Σ_{x >= start} exp(-x²/(2σ²))·weight(x - start), for weights between 0 and 1.

    The largest exponential, at ``peak``, is taken out and enclosed in exact arithmetic, so nothing underflows.
    """
    check_exp()
    peak = max(start, 0)
    factor_low, factor_high = exp_bounds(-(peak * peak) / (2 * sigma2))
    if peak > _FARTHEST:
        # (m + y)² >= m² + y², and the sum over y >= 0 is at most 1 + σ·√(π/2) < 4 + 3σ².
        return Fraction(0), factor_high * (4 + 3 * sigma2)
    reach = math.isqrt(math.ceil(peak * peak + 2 * _CUT * sigma2)) + 1
    steps = np.arange(max(start, -reach), reach + 1, dtype=np.int64)
    exponents = ((steps - peak) * (steps + peak)).astype(np.float64)
    exponents *= -float_nearest(1 / (2 * sigma2))
    terms = np.exp(exponents)
    terms *= weight((steps - start).astype(np.float64))
    total = Fraction(math.fsum(np.add.reduceat(terms, np.arange(0, len(terms), _BLOCK))))
    rest = _rest(sigma2, peak, reach) + _UNDERFLOW
    return factor_low * total * (1 - _SLACK), factor_high * (total * (1 + _SLACK) + rest)


def _rest(sigma2: Fraction, peak: int, reach: int) -> Fraction:
    """Bound the sum of both tails beyond ``reach``, relative to the term at ``peak``, by a geometric series."""
    outside = exp_bounds(-((reach + 1) ** 2 - peak * peak) / (2 * sigma2), 20)[1]
    ratio = exp_bounds(-(2 * reach + 3) / (2 * sigma2), 40)[1]
    return 2 * outside / (1 - ratio)


@cache
def check_exp() -> None:
    """Refuse to calibrate on a machine whose ``exp`` or ``expm1`` is not as accurate as the proof assumes.

    A fixed set of points cannot prove the bound, but a broken build does not hide from it.
    """
    points = np.concatenate((-np.linspace(0.01, 66, 199), -(2.0 ** -np.arange(60.0))))
    for point, power, less_one in zip(points.tolist(), np.exp(points), np.expm1(points), strict=True):
        low, high = exp_bounds(Fraction(point))
        for got, bottom, top in ((float(power), low, high), (float(less_one), low - 1, high - 1)):
            tolerance = abs(got) * Fraction(_EXP_ERROR)
            if not bottom - tolerance <= Fraction(got) <= top + tolerance:
                raise InternalError(f"exp({point!r}) is wrong by more than the calibration can allow")


LARGEST_EPSILON: Final = 10_000


def check_epsilon(epsilon: Number) -> Fraction:
    """Return ε as a Fraction; refuse one that is not positive, or so large that exp(ε) cannot be computed."""
    value = exact_positive(epsilon, "epsilon")
    if value > LARGEST_EPSILON:
        raise InputError("epsilon", f"must be at most {LARGEST_EPSILON}; a larger one protects no person")
    return value


def analytic_gaussian_sigma(epsilon: Number, delta: Number, l2_sensitivity: Number) -> Fraction:
    """Return the smallest σ for which *continuous* normal noise is (ε, δ)-DP, rounded up to twelve digits.

    It solves Φ(Δ/(2σ) - εσ/Δ) - e^ε·Φ(-Δ/(2σ) - εσ/Δ) = δ (Balle and Wang 2018). Discrete noise has another
    δ(ε); :func:`calibrate_discrete_sigma` is for that.
    """
    e, d = check_epsilon(epsilon), exact_probability(delta, "delta")
    sensitivity = exact_positive(l2_sensitivity, "l2_sensitivity")
    return round_up(_analytic_multiplier(e, d) * sensitivity, 13)


def classic_gaussian_sigma(epsilon: Number, delta: Number, l2_sensitivity: Number) -> Fraction:
    """Return σ = √(2 ln(1.25/δ))·Δ/ε, rounded up; refuse ε > 1, where it does not give (ε, δ)-DP."""
    e, d = check_epsilon(epsilon), exact_probability(delta, "delta")
    sensitivity = exact_positive(l2_sensitivity, "l2_sensitivity")
    if e > 1:
        raise AccountingError(
            f"the classic calibration is not private for epsilon = {format_up(e)} > 1; use calibration='analytic'"
        )
    root = sqrt_bounds(2 * log_bounds(Fraction(5, 4) / d)[1])[1]
    return round_up(root * sensitivity / e, 13)


@lru_cache(maxsize=1024)
def calibrate_discrete_sigma(epsilon: Fraction, delta: Fraction, l2_squared: int, dimension: int = 1) -> Fraction:
    """Return a σ of ten digits for which discrete Gaussian noise on ``dimension`` integers is (ε, δ)-DP.

    It is the smallest σ that the bounds of :mod:`tacit.mechanisms.gaussian_profile` prove, found by bisection; the
    returned σ itself has been checked.
    """

    def holds(sigma: Fraction) -> bool:
        return gives_at_most(epsilon, delta, sigma2=sigma * sigma, l2_squared=l2_squared, dimension=dimension)

    guess = _multiplier_estimate(epsilon, delta) * sqrt_bounds(Fraction(l2_squared))[1]
    return smallest_that(holds, guess, near=Fraction(1, 10**6))


def check_discrete_sigma(
    sigma: Fraction, *, epsilon: Fraction, delta: Fraction, l2_squared: int, dimension: int
) -> None:
    """Refuse ``sigma`` unless discrete Gaussian noise of it is proven (ε, δ)-DP."""
    if not gives_at_most(epsilon, delta, sigma2=sigma * sigma, l2_squared=l2_squared, dimension=dimension):
        raise AccountingError(
            f"discrete noise of sigma = {format_up(sigma)} is not proven ({format_up(epsilon)}, {format_up(delta)})-DP "
            f"in dimension {dimension}; use calibration='analytic'"
        )


@lru_cache(maxsize=1024)
def _analytic_multiplier(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return σ/Δ for continuous noise, rounded up."""

    def holds(multiplier: Fraction) -> bool:
        return gaussian_delta_bounds(epsilon, 1 / multiplier)[1] <= delta

    return smallest_that(holds, _multiplier_estimate(epsilon, delta), digits=13, near=Fraction(1, 10**9))


def _multiplier_estimate(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return a first guess of σ/Δ for continuous noise, by bisection in floats."""
    e, target = float_nearest(epsilon), float_nearest(delta)

    def log_upper(x: float) -> float:
        """Return ln P(N(0, 1) > x), or its leading term where floats underflow."""
        return math.log(math.erfc(x / math.sqrt(2)) / 2) if x < 37 else -x * x / 2 - math.log(x * 2.5066)

    def delta_at(m: float) -> float:
        return math.exp(log_upper(e * m - 0.5 / m)) - math.exp(min(e + log_upper(e * m + 0.5 / m), 0.0))

    low, high = 1e-200, 1e200
    for _ in range(700):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if delta_at(middle) > target else (low, middle)
        if high <= low * (1 + 1e-15):
            break
    return Fraction(high)
