"""Reference samplers in integer arithmetic, independent of the fast ones.

Nothing here is used for releases. Tests and auditors feed the same bits to a sampler of :mod:`tacit.noise` and to its
counterpart here and expect the same integer, bit for bit. Where the fast code takes logarithms in floats and settles
with :mod:`decimal`, this code compares U with the tail probabilities themselves, by integer Taylor sums of exp.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from tacit.noise.uniform import LazyUniform

__all__ = ["exp_minus", "invert_geometric", "invert_laplace", "is_below_exp"]


@lru_cache(maxsize=1 << 14)
def exp_minus(rate: Fraction, bits: int) -> tuple[int, int]:
    """Integers ``(low, high)`` with ``low <= 2^bits · exp(-rate) <= high``, for a rational rate >= 0.

    The rate is halved until it is at most 1/2, the alternating Taylor series is summed with every term rounded down
    for one end and up for the other, and the result is squared back.
    """
    halvings = max(rate.numerator.bit_length() - rate.denominator.bit_length() + 2, 0)
    small = rate / 2**halvings
    working = bits + 2 * halvings + 16
    low = high = term_low = term_high = 1 << working
    for index in range(1, working):
        step = small / index
        term_low = term_low * step.numerator // step.denominator
        term_high = -(-term_high * step.numerator // step.denominator)
        low, high = (low + term_low, high + term_high) if index % 2 == 0 else (low - term_high, high - term_low)
        if term_high <= 1:
            # Alternating with shrinking terms: what is left out is smaller than the last term.
            low, high = low - term_high, high + term_high
            break
    for _ in range(halvings):
        low, high = low * low >> working, -(-high * high >> working)
    spare = working - bits
    return max(low, 0) >> spare, -(-high >> spare)


def invert_geometric(scale: Fraction, uniform: LazyUniform) -> int:
    """The largest k with U < exp(-k/scale)."""
    return _largest(uniform, lambda k, bits: exp_minus(k / scale, bits))


def invert_laplace(scale: Fraction, uniform: LazyUniform) -> int:
    """The largest k with U < 2·exp(-k/scale) / (1 + exp(-1/scale)), which holds for k = 0 whatever U is."""

    def tail(k: int, bits: int) -> tuple[int, int]:
        low, high = exp_minus(k / scale, bits)
        base_low, base_high = exp_minus(1 / scale, bits)
        one = 1 << bits
        return 2 * low * one // (one + base_high), -(-2 * high * one // (one + base_low))

    return _largest(uniform, tail)


def is_below_exp(rate: Fraction, uniform: LazyUniform) -> bool:
    """Whether U < exp(-rate)."""
    while True:
        bits = uniform.width + 32
        low, high = exp_minus(rate, bits)
        if uniform.high * (1 << bits) <= low:
            return True
        if uniform.low * (1 << bits) >= high:
            return False
        uniform.reveal()


def _largest(uniform: LazyUniform, tail: Callable[[int, int], tuple[int, int]]) -> int:
    """The largest k with U < tail(k), for a tail that falls as k grows, revealing digits of U as needed."""

    def surely_below(k: int) -> bool:
        bits = uniform.width + 64
        return uniform.high * (1 << bits) <= tail(k, bits)[0]

    def possibly_below(k: int) -> bool:
        bits = uniform.width + 64
        return uniform.low * (1 << bits) < tail(k, bits)[1]

    while uniform.low == 0 or (value := _last(surely_below)) != _last(possibly_below):
        uniform.reveal()
    return value


def _last(holds: Callable[[int], bool]) -> int:
    """The largest k >= 0 with ``holds(k)``, which is true up to some k and false beyond; k = 0 is taken for granted."""
    reach = 1
    while holds(reach):
        reach *= 2
    low, high = reach // 2, reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
