"""Inversion of lazily revealed uniforms: fast in floats where provably right, exact elsewhere.

Geometric and discrete Laplace draws are all of one form,

    X = ⌊t · (c - ln U)⌋,    U uniform on (0, 1),

for a rational scale t and an offset c. One 64-bit word supplies a sign (its lowest bit) and the first 63 binary
digits of U. Floating point then computes t·(c - ln U) with a *proven* bound g on its error. If no integer lies
within g of the result, its floor is the floor of the true value, whatever the digits of U not yet drawn; otherwise
the draw is *settled*: more digits, enclosures of ln in exact arithmetic, until the floor is certain. The proof, and
what it assumes of ``log``, is in ``inversion.proof.md``.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.numbers import decimal_context, exp_bounds, float_nearest, float_up, log_bounds
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.uniform import LazyUniform

if TYPE_CHECKING:
    from collections.abc import Callable

#: Digits of U in one word; the remaining bit is the sign.
DIGITS: Final = 63
#: Words below this have too few leading digits for the float bound and are always settled exactly: one in 2¹⁶.
SMALLEST_DECIDABLE: Final = 1 << (DIGITS - 16)
#: Bound on the error of (c - ln U) in floating point, per unit of scale; see the proof.
GUARD: Final = 2.0**-45
#: Error in a rate below 12 that callers of :func:`accept_exp` may make; the rest of the guard is used up.
RATE_ERROR: Final = 96 * 2.0**-53
#: Relative error that the proof allows ``log``: 4 units in the last place, where 1 is usual.
LOG_ERROR: Final = 2.0**-50
#: Scales above this leave too much undecided; see :mod:`tacit.noise.laplace` for how they are split.
LARGEST_FAST_SCALE: Final = 1 << 34
LARGEST_FLOAT_SCALE: Final = 1 << 44

_UNIT: Final = 2.0**-DIGITS
_ONE: Final = np.uint64(1)
_SMALLEST_WORD: Final = np.uint64(2 * SMALLEST_DECIDABLE)


class LogInversion:
    """Sampler of ⌊scale · (offset - ln U)⌋, with offset 0 or, if ``folded``, ln(2 / (1 + exp(-1/scale))).

    Unfolded it is geometric, P(X >= k) = exp(-k/scale). Folded it is the absolute value of a discrete Laplace:
    P(X >= k) = 2·exp(-k/scale) / (1 + exp(-1/scale)) for k >= 1.
    """

    __slots__ = ("_decimals_at", "_offset", "_scale", "folded", "guard", "scale")

    def __init__(self, scale: Fraction, *, folded: bool) -> None:
        check_log()
        self.scale = scale
        self.folded = folded
        self._decimals_at: dict[int, tuple[Decimal, Decimal]] = {}
        low, high = self._offset_bounds(25)
        self._offset = float_nearest((low + high) / 2)
        # A scale so large that its guard exceeds 1/2 decides nothing in floats; 0 keeps the products finite.
        self._scale = float_nearest(scale) if scale < LARGEST_FLOAT_SCALE else 0.0
        self.guard = float_up(scale) * GUARD

    def one(self, word: int, source: BitSource) -> int:
        """Return the value for one word; its sign bit is ignored."""
        digits = word >> 1
        if digits >= SMALLEST_DECIDABLE:
            value = self._scale * (self._offset - math.log(digits * _UNIT))
            whole = math.floor(value)
            if self.guard < value - whole < 1.0 - self.guard:
                return whole
        return self.settle(LazyUniform(source, digits, DIGITS))

    def many(self, words: NDArray[np.uint64], source: BitSource) -> NDArray[np.float64]:
        """Return the values for many words as whole floats below 2⁵³; their sign bits are ignored."""
        values = (words >> _ONE).view(np.int64).astype(np.float64)
        values *= _UNIT
        # A word of zeros gives ln 0; like every small word it is settled exactly, so its float value is not used.
        with np.errstate(divide="ignore", invalid="ignore"):
            np.log(values, out=values)
            np.subtract(self._offset, values, out=values)
            values *= self._scale
            whole = np.floor(values)
            values -= whole
            values -= 0.5
            undecided = np.abs(values, out=values) >= 0.5 - self.guard
        undecided |= words < _SMALLEST_WORD
        for index in np.flatnonzero(undecided):
            whole[index] = self.settle(LazyUniform(source, int(words[index]) >> 1, DIGITS))
        return whole

    def settle(self, uniform: LazyUniform) -> int:
        """Return the value for ``uniform``, computed in decimals, revealing digits of U until it is certain."""
        while True:
            if uniform.low > 0:
                precision = _digits_for(uniform) + len(str(math.ceil(self.scale)))
                scale, offset = self._decimals(precision)
                context = decimal_context(precision)
                width, digits = uniform.width, uniform.digits
                log = context.ln(context.divide(Decimal(digits), 1 << width))
                value = context.multiply(scale, context.subtract(offset, log))
                # Each of these operations is correctly rounded: all together are off by less than ten units in the
                # last place of the largest number in sight. The digits of U not yet seen take away at most 1/digits.
                reach = context.multiply(scale, context.subtract(2, log))
                rounding = context.multiply(reach, context.power(10, 2 - precision))
                unseen = context.divide(scale, digits)
                # c - ln U is never negative, however close to 1 the unseen digits may bring U.
                low = max(math.floor(context.subtract(value, context.add(unseen, rounding))), 0)
                if low == math.floor(context.add(value, rounding)):
                    return low
            uniform.reveal()

    def _decimals(self, precision: int) -> tuple[Decimal, Decimal]:
        """Return the scale, correctly rounded, and the offset, right to a few units in the last place."""
        if precision not in self._decimals_at:
            context = decimal_context(precision)
            low, high = self._offset_bounds(precision)
            offset = (low + high) / 2
            self._decimals_at[precision] = (
                context.divide(Decimal(self.scale.numerator), Decimal(self.scale.denominator)),
                context.divide(Decimal(offset.numerator), Decimal(offset.denominator)),
            )
        return self._decimals_at[precision]

    def _offset_bounds(self, precision: int) -> tuple[Fraction, Fraction]:
        if not self.folded:
            return Fraction(0), Fraction(0)
        low, high = exp_bounds(-1 / self.scale, precision)
        return log_bounds(2 / (1 + high), precision)[0], log_bounds(2 / (1 + low), precision)[1]


def accept_exp(exact_rate: Callable[[], Fraction], approximate_rate: float, source: BitSource) -> bool:
    """Draw True with probability exactly exp(-rate): whether -ln U is above the rate.

    ``approximate_rate`` is the rate in floating point, right to within ``RATE_ERROR`` wherever it is below 12;
    ``exact_rate`` is called only where that cannot decide.
    """
    digits = source.word() >> 1
    if digits >= SMALLEST_DECIDABLE:
        margin = -math.log(digits * _UNIT) - approximate_rate
        if abs(margin) > GUARD:
            return margin > 0
    return _settle_exp(exact_rate(), LazyUniform(source, digits, DIGITS))


def accept_exp_many(
    exact_rate: Callable[[int], Fraction], approximate_rates: NDArray[np.float64], source: BitSource
) -> NDArray[np.bool_]:
    """Draw one :func:`accept_exp` per element; ``exact_rate(i)`` is called only where floats cannot decide."""
    words = source.words(len(approximate_rates))
    margins = (words >> _ONE).view(np.int64).astype(np.float64)
    margins *= _UNIT
    with np.errstate(divide="ignore"):
        np.log(margins, out=margins)
    margins += approximate_rates
    accepted: NDArray[np.bool_] = margins < 0
    np.abs(margins, out=margins)
    undecided = margins <= GUARD
    undecided |= words < _SMALLEST_WORD
    for index in np.flatnonzero(undecided):
        uniform = LazyUniform(source, int(words[index]) >> 1, DIGITS)
        accepted[index] = _settle_exp(exact_rate(int(index)), uniform)
    return accepted


def _settle_exp(rate: Fraction, uniform: LazyUniform) -> bool:
    """Decide in exact arithmetic whether U < exp(-rate)."""
    while True:
        low, high = exp_bounds(-rate, _digits_for(uniform))
        if uniform.high <= low:
            return True
        if uniform.low >= high:
            return False
        uniform.reveal()


def _digits_for(uniform: LazyUniform) -> int:
    """Return the decimal digits at which bounds are finer than the known digits of U, so that U alone decides."""
    return 15 + uniform.width * 3 // 10


@cache
def check_log() -> None:
    """Refuse to sample on a machine whose ``log`` is not as accurate as the proof assumes.

    NumPy's vector code and the C library are two implementations; both are compared with correctly rounded values.
    A fixed set of points cannot prove the bound, but a broken build does not hide from it; the tests look further.
    """
    points = np.concatenate(
        (np.linspace(2.0**-16, 1.0, 257), 1.0 - 2.0 ** -np.arange(2.0, 54.0), 2.0 ** -np.arange(16.0))
    )
    vector = np.log(points)
    for point, value in zip(points.tolist(), vector.tolist(), strict=True):
        low, high = log_bounds(Fraction(point), 25)
        tolerance = LOG_ERROR * max(abs(value), 2.0**-53)
        for got in (value, math.log(point)):
            if not float_nearest(low) - tolerance <= got <= float_nearest(high) + tolerance:
                raise InternalError(f"log({point!r}) = {got!r} is wrong by more than the samplers can allow")


class Geometric:
    """Exact sampler of P(X = k) = (1 - e^-rate)·e^(-rate·k), k = 0, 1, 2, …, for any rational rate > 0."""

    __slots__ = ("_inversion", "rate")

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self._inversion = LogInversion(1 / rate, folded=False)

    def sample(self, source: BitSource | None = None) -> int:
        """Draw one integer."""
        source = source or entropy.current()
        return self._inversion.one(source.word(), source)

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """Draw ``count`` independent integers, for a rate of at least 2⁻³⁴."""
        source = source or entropy.current()
        return self._inversion.many(source.words(count), source).astype(np.int64)
