"""Special functions, recurrences and FFT lengths in floats, each accurate to a few units in the last place.

They are for accounting and confidence limits, whose bounds allow for that error; nothing here touches data or noise.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

#: From this n on, five terms of Stirling's series are exact to the last place.
_LARGE: Final = 16.0
#: From this x on, the asymptotic expansion of the normal tail is exact to the last place.
_FAR: Final = 30.0
_SMALL_BLOCK: Final = 64
_NEWTON_STEPS: Final = 200
#: Decrease of the log-density beyond which the integral is cut, and the relative density that may remain there.
_DROP: Final = 45.0
_NOTHING: Final = 1e-17
_TINY: Final = 1e-300
#: Up to this product of the numbers of trials and limits, limits are computed individually.
_FEW: Final = 5000


def normal_cdf(z: Floats) -> Floats:
    """Return Φ(z), with small relative error in the lower tail."""
    found = np.fromiter(map(math.erfc, (z * -math.sqrt(0.5)).ravel().tolist()), np.float64, z.size)
    return 0.5 * found.reshape(z.shape)


def scaled_normal_tail(x: float) -> float:
    """Return Φ(-x)/φ(x), for x above -30: it falls with x and is about 1/x for a large x."""
    if x < _FAR:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    term, total, square = 1.0, 0.0, 1 / (x * x)
    for number in range(1, 20, 2):
        total += term
        term *= -number * square
    return total / x


def log_factorials(n: int) -> Floats:
    """Return ln 0!, ln 1!, …, ln n!."""
    number = np.maximum(np.arange(n + 1, dtype=np.float64), 1.0)
    found = (number + 0.5) * np.log(number) - number + (math.log(2 * math.pi) / 2 + _stirling_rest(number))
    found[:2] = 0.0
    return found


def recur(terms: Floats, factor: float) -> Floats:
    """Return y with y₀ = t₀ and y_j = t_j + factor·y_{j-1}, for a factor from 0 to 1, vectorised over blocks."""
    size = len(terms)
    width = max(math.isqrt(size), 1)
    if size < _SMALL_BLOCK:
        width = max(size, 1)
    blocks = -(-size // width)
    table = np.zeros((blocks, width))
    table.ravel()[:size] = terms
    table = np.ascontiguousarray(table.T)
    for row in range(1, width):
        table[row] += factor * table[row - 1]
    # The last element of each block is added to the next block, times one more factor at every place.
    faded, carries = factor**width, [0.0]
    for last in table[-1].tolist()[:-1]:
        carries.append(last + faded * carries[-1])
    table += np.power(factor, np.arange(1, width + 1))[:, np.newaxis] * np.array(carries)
    return np.ascontiguousarray(table.T).ravel()[:size]


def fast_length(size: int) -> int:
    """Return the smallest product of twos, threes and fives that is at least ``size``: a fast length for an FFT."""
    best = 1 << max(size - 1, 0).bit_length()
    fives = 1
    while fives < best:
        odd = fives
        while odd < best:
            best = min(best, odd << max(-(-size // odd) - 1, 0).bit_length())
            odd *= 3
        fives *= 5
    return best


def solve_tridiagonal(diagonal: Floats, beside: Floats, right: Floats) -> Floats:
    """Solve a symmetric, positive definite, tridiagonal system; ``beside`` is its off-diagonal.

    Cyclic reduction: every second unknown is eliminated at once, which leaves a tridiagonal system of half the size.
    """
    size = len(diagonal)
    if size == 1:
        return right / diagonal
    if size % 2 == 0:
        ends = (np.append(diagonal, 1.0), np.append(beside, 0.0), np.append(right, 0.0))
        return solve_tridiagonal(*ends)[:size]
    before, after = beside[0::2], beside[1::2]  # of an unknown that remains: to the one before, to the one after
    outer, known = diagonal[0::2], right[0::2]
    low, high = before / outer[:-1], after / outer[1:]
    inner = solve_tridiagonal(
        diagonal[1::2] - low * before - high * after,
        -high[:-1] * before[1:],
        right[1::2] - low * known[:-1] - high * known[1:],
    )
    found = np.empty(size)
    found[1::2] = inner
    rest = known.copy()
    rest[:-1] -= before * inner
    rest[1:] -= after * inner
    found[0::2] = rest / outer
    return found


def binomial_masses(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return P(X = k) for n coins of probability p, with small relative error (Loader's form: no cancellation)."""
    k, n, p = (np.asarray(each, dtype=np.float64) for each in (k, n, p))
    k, n, p = np.broadcast_arrays(k, n, p)
    inside = (k > 0) & (k < n)
    some, rest = np.where(inside, k, 1.0), np.where(inside, n - k, 1.0)
    whole = some + rest
    chance = np.where((p > 0) & (p < 1), p, 0.5)
    log = (
        _stirling_rest(whole)
        - _stirling_rest(some)
        - _stirling_rest(rest)
        - _deviance(some, whole * chance)
        - _deviance(rest, whole * (1 - chance))
    )
    found = np.exp(log) * np.sqrt(whole / (2 * math.pi * some * rest))
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.exp(np.where(n == 0, 0.0, n * np.log1p(-p)))
        all_of_them = np.exp(np.where(n == 0, 0.0, n * np.log(p)))
    found = np.where((p <= 0) | (p >= 1), 0.0, found)
    return np.where(inside, found, np.where(k == 0, none, np.where(k == n, all_of_them, 0.0)))


def _stirling_rest(n: Floats) -> Floats:
    """Return ln n! minus Stirling's formula, for n >= 1."""
    small = n < _LARGE
    x = np.where(small, _LARGE, n)
    square = 1 / (x * x)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x
    return np.where(small, _RESTS[np.where(small, n, 1).astype(np.int64)], series)


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Return x ln(x/mean) + mean - x; near zero by its series, because there the terms cancel."""
    ratio = (x - mean) / (x + mean)
    near = np.abs(ratio) < 0.1
    square = np.where(near, ratio * ratio, 0.0)
    tail = np.zeros_like(square)
    for odd in range(21, 1, -2):
        tail = square * (1 / odd + tail)
    with np.errstate(divide="ignore"):
        far = x * np.log(x / mean) + mean - x
    return np.where(near, (x - mean) * ratio + 2 * x * ratio * tail, far)


def binomial_tail(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return P(X >= k) for n coins of probability p: with small relative error above the mean, else as 1 - P(X < k)."""
    k, n, p = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (k, n, p)))
    certain, never = (k <= 0) | (p >= 1), (k > n) | (p <= 0)
    # Below the mean the opposite tail is computed.
    swap = p * (n + 3) > k + 1
    low, chance = np.where(swap, n - k + 1, k), np.where(swap, 1 - p, p)
    open_ = ~(certain | never)
    found = np.zeros(k.shape)
    found[open_] = _upper_tail(low[open_], n[open_], chance[open_])
    found = np.where(swap, 1 - found, found)
    return np.where(never & (k > 0), 0.0, np.where(certain, 1.0, found))


def _upper_tail(k: Floats, n: Floats, p: Floats) -> Floats:
    """Return P(X >= k) for 1 <= k <= n above the mean: the integral of the k-th smallest uniform's density from 0 to p.

    Its logarithm is concave. The interval is cut where the density is negligible beside its value at p; over the rest
    it is a polynomial of low degree or nearly normal, for which Gauss-Legendre nodes are exact to the last places.
    """
    slope = np.maximum((k - 1) / p - (n - k) / (1 - p), 0.0)
    bend = (k - 1) / p**2 + (n - k) / (1 - p) ** 2
    with np.errstate(divide="ignore"):
        length = np.minimum(2 * _DROP / (slope + np.sqrt(slope**2 + 2 * _DROP * bend)), p)
    at_end = binomial_masses(k, n, p) / p
    while True:
        low = p - length
        short = (low > 0) & (binomial_masses(k, n, low) / np.where(low > 0, low, 1.0) > _NOTHING * at_end)
        if not short.any():
            break
        length = np.where(short, np.minimum(2 * length, p), length)
    nodes, weights = _nodes()
    t = p[:, np.newaxis] - length[:, np.newaxis] * nodes
    density = k[:, np.newaxis] * binomial_masses(k[:, np.newaxis], n[:, np.newaxis], t) / t
    return length * (density @ weights)


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights for an integral from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(100)
    return (nodes + 1) / 2, weights / 2


def success_limit(successes: ArrayLike, trials: int, tail: float) -> Floats:
    """Return Clopper and Pearson's lower limit: the p at which P(X >= successes) = ``tail``; 0 for no success.

    As a function of ln p the logarithm of the tail is concave, so Newton's steps approach from below.
    """
    asked, places = np.unique(np.asarray(successes, dtype=np.float64).ravel(), return_inverse=True)
    if len(asked) * trials <= _FEW:
        limits = np.array([_limit_of_few(int(k), trials, tail) for k in asked.tolist()])
        return limits[places].reshape(np.shape(successes))
    limits = np.zeros(len(asked))
    open_ = asked > 0
    k = asked[open_]
    # Start at Wilson's limit, which is a few steps away.
    z = -NormalDist().inv_cdf(min(max(tail, 1e-300), 1 - 1e-16))
    spread = z * np.sqrt(k * (trials - k) / trials + z * z / 4)
    limit = np.clip((k + z * z / 2 - spread) / (trials + z * z), 1e-9 * k / trials, 1 - 1e-3 / trials)
    for _ in range(_NEWTON_STEPS):
        chance = np.maximum(binomial_tail(k, trials, limit), _TINY)
        slope = k * np.maximum(binomial_masses(k, trials, limit), _TINY) / chance
        step = (math.log(tail) - np.log(chance)) / slope
        moved = np.minimum(limit * np.exp(np.clip(step, -50.0, 50.0)), 1.0 - 2.0**-53)
        limit = moved
        # Newton's steps square the error: after one as small as this it is below float precision.
        if (np.abs(step) < 1e-9).all():
            break
    limits[open_] = limit
    return limits[places].reshape(np.shape(successes))


def _limit_of_few(k: int, n: int, tail: float) -> float:
    """Return :func:`success_limit` for one number and few trials, without arrays, by summing the tail."""
    if k == 0:
        return 0.0
    ways, limit, step = math.log(math.comb(n, k)), min(k / n, 1 - 1e-3 / n), 1.0
    for _ in range(_NEWTON_STEPS):
        odds, term, total = limit / (1 - limit), 1.0, 1.0
        for i in range(k, n):
            term *= (n - i) / (i + 1) * odds
            total += term
        # The first term of the tail, in logarithms; the tail is ``total`` times it.
        first = ways + k * math.log(limit) + (n - k) * math.log1p(-limit)
        step = (math.log(tail) - first - math.log(total)) * total / k
        limit = min(limit * math.exp(max(min(step, 50.0), -50.0)), 1.0 - 2.0**-53)
        if abs(step) < 1e-9:
            break
    return limit


#: :func:`_stirling_rest` of 0 (unused) to 15.
_RESTS: Final = np.array(
    [
        0.0,
        0.08106146679532726,
        0.0413406959554093,
        0.02767792568499834,
        0.020790672103765093,
        0.016644691189821193,
        0.013876128823070748,
        0.01189670994589177,
        0.010411265261972096,
        0.009255462182712733,
        0.00833056343336287,
        0.007573675487951841,
        0.00694284010720953,
        0.006408994188004207,
        0.0059513701127588475,
        0.005554733551962801,
    ]
)
