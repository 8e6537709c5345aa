"""The law of the sum of many independent losses, by one FFT per law, with every error bounded.

Before the transform each law is tilted: masses are multiplied by e^{λl} and normalised (the Esscher transform). The sum
of tilted losses is the tilted sum, and λ is chosen so that it is centred at the ε that is sought. The FFT's error,
which is absolute, is then relative to the largest of the masses that matter, and a δ of 1e-300 is found as precisely
as one of 0.1.

The transform is cyclic. A window is chosen outside of which the tilted sum has mass at most ``ALIASED``, by Chernoff's
bound; at most that much mass is wrapped to the wrong place.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pld.discretise import Lattice, TooFineError
from tacit.core.float_functions import fast_length

Floats = NDArray[np.float64]
#: Laws to add up, each with its count.
Losses = Sequence[tuple[Lattice, int]]

#: Largest mass of the tilted sum outside the window, on each side.
ALIASED: Final = 1e-9
_UNIT: Final = 2.0**-53
#: Relative error of one level of an FFT: a complex product with a rounded root of unity, and a sum.
_LEVEL: Final = 8 * _UNIT
_MOST_POINTS: Final = 1 << 21
#: Sums of at most this many points are never cut.
_SMALL_SIZE: Final = 4096
#: Logarithm of the size below which a transform is negligible, relative to masses of 1e-10 known to a few digits.
_NEGLIGIBLE: Final = -80.0
#: An ε above this fraction of the largest loss is as good as the largest loss.
_BELOW_LARGEST: Final = 0.98
#: Two laws are convolved directly up to this product of their lengths.
_LARGEST_DIRECT: Final = 1_000_000


@dataclass(frozen=True)
class Cumulants:
    """ln E e^{λL} of a sum of losses and its first two derivatives in λ."""

    value: float
    mean: float
    variance: float


class _Law:
    """One law, with the logarithms of its masses for tilting."""

    __slots__ = ("count", "lattice", "logs", "losses")

    def __init__(self, lattice: Lattice, count: int) -> None:
        self.lattice, self.count = lattice, count
        self.losses = lattice.start + lattice.step * np.arange(len(lattice.masses))
        with np.errstate(divide="ignore"):
            self.logs = np.log(lattice.masses)

    def tilted(self, tilt: float) -> tuple[Floats, float]:
        """Return the masses e^{λl}·p normalised to 1, and the logarithm of their sum before."""
        logs = self.logs + tilt * self.losses
        peak = float(logs.max())
        weights = np.exp(logs - peak)
        total = float(weights.sum())
        weights /= total
        return weights, peak + math.log(total)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        weights, value = self.tilted(tilt)
        # Plain sums: a threaded dot product costs more to start than such arrays take.
        mean = float((weights * self.losses).sum())
        centred = self.losses - mean
        return value, mean, float((weights * centred * centred).sum())


class Sum:
    """The sum of independent losses before the transform: its cumulants, and bounds that follow from them."""

    def __init__(self, losses: Losses) -> None:
        self.laws = [_Law(lattice, count) for lattice, count in _merged(losses)]
        if not all(law.lattice.masses.any() for law in self.laws):
            # Differences below the accuracy of the tails can leave a lower law without mass.
            raise TooFineError
        self.step = losses[0][0].step
        self.start = math.fsum(law.count * law.lattice.start for law in self.laws)
        self.end = math.fsum(law.count * law.lattice.end for law in self.laws)
        self.infinity = min(math.fsum(law.count * law.lattice.infinity for law in self.laws), 1.0)

    def cumulants(self, tilt: float) -> Cumulants:
        """Return the cumulants of the sum: the sums of the laws' cumulants."""
        parts = [law.cumulants(tilt) for law in self.laws]
        totals = (math.fsum(law.count * part[i] for law, part in zip(self.laws, parts, strict=True)) for i in range(3))
        return Cumulants(*totals)

    def value(self, tilt: float) -> float:
        """Return only the logarithm of E e^{λL}."""
        return math.fsum(law.count * law.tilted(tilt)[1] for law in self.laws)

    def best_tilt(self, log_delta: float) -> float:
        """Return the λ whose Renyi order λ+1 gives the smallest ε at δ: the saddle point of the tail."""
        spread = math.sqrt(max(self.cumulants(0.0).variance, self.step**2 / 16))
        low, high = math.log(1e-3 / spread), math.log(max(40 / self.step, 40 / spread))

        def epsilon(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return self.value(tilt) / tilt - math.log1p(1 / tilt) - (log_delta + math.log1p(tilt)) / tilt

        ratio = (math.sqrt(5) - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        f_left, f_right = epsilon(left), epsilon(right)
        while high - low > 0.02:
            if f_left <= f_right:
                high, right, f_right = right, left, f_left
                left = high - ratio * (high - low)
                f_left = epsilon(left)
            else:
                low, left, f_left = left, right, f_right
                right = low + ratio * (high - low)
                f_right = epsilon(right)
        found = math.exp((low + high) / 2)
        if epsilon(math.log(found)) < _BELOW_LARGEST * self.end:
            return found
        # No order improves on the largest loss, and the λ found is the largest tried: it would resolve
        # only the largest losses. Any tilt is valid; this one raises a mass of δ at the other end to the total mass.
        return min(found, (20 - log_delta) / max(self.end - self.start, self.step))

    def window(self, tilt: float) -> tuple[float, float, float, float]:
        """Return ``(low, high, below, above)``: a window, and bounds on the tilted sum's mass below and above it."""
        here = self.cumulants(tilt)
        allowed = math.log(1 / ALIASED)
        spread = math.sqrt(max(here.variance, (self.step / 4) ** 2))
        low, high = -math.inf, math.inf
        normal = math.sqrt(2 * allowed) / spread
        # The first θ suit sums that are nearly normal, the last ones sums with a heavy tail.
        for theta in (*(part * normal for part in (0.25, 0.5, 0.8, 1.0, 1.3)), 0.1 * tilt, 0.5 * tilt, tilt):
            # Chernoff: P(S > h) <= e^{K(λ+θ) - K(λ) - θh}, and likewise below.
            high = min(high, (self.value(tilt + theta) - here.value + allowed) / theta)
            low = max(low, (here.value - self.value(tilt - theta) - allowed) / theta)
        below = ALIASED if low > self.start else 0.0
        above = ALIASED if high < self.end else 0.0
        return max(low, self.start), min(high, self.end), below, above


class TiltedSum:
    """The tilted law of a sum of losses on a window, with a bound on the error of every mass.

    Attributes:
        losses: the losses of the window.
        masses: computed masses; ``masses + error`` is an upper bound on the true masses, and ``masses - error`` a lower
            bound on the masses of the sum with the aliased mass added.
        error: a bound on the error of the transform, at every point.
    """

    def __init__(self, total: Sum, tilt: float) -> None:
        self.total, self.tilt = total, tilt
        #: The mean of the tilted sum: about ε if the tilt is the best one.
        self.centre = total.cumulants(tilt).mean
        low, high, self.below, self.above = total.window(tilt)
        first = math.floor((low - total.start) / total.step)
        wanted = math.ceil((high - total.start) / total.step) - first + 1
        everything = round((total.end - total.start) / total.step) + 1
        if everything <= max(2 * wanted, _SMALL_SIZE):
            # The window holds the whole sum: nothing wraps around.
            first, wanted, self.below, self.above = 0, everything, 0.0, 0.0
        if wanted > _MOST_POINTS:
            raise TooFineError
        size = fast_length(max(wanted, 16))
        product = _Product(size)
        shift, self.log_scale, rounding = 0, 0.0, 0.0
        for law in total.laws:
            weights, value = law.tilted(tilt)
            centre = round(float((weights * np.arange(len(weights))).sum()))
            product.multiply(_folded(weights, centre, size), law.count)
            shift += law.count * centre
            self.log_scale += law.count * value
            reach = abs(tilt) * max(abs(law.lattice.start), abs(law.lattice.end))
            rounding += (
                law.count * ((6 + min(reach, 800.0)) * _UNIT + law.lattice.rounding)
                + abs(law.count * value) * 2 * _UNIT
            )
        self.error = product.error()
        self.masses: Floats = np.roll(np.fft.irfft(product.value, size), shift - first)
        self.losses: Floats = total.start + total.step * (first + np.arange(size, dtype=np.float64))
        #: Relative error of tilting and tilting back.
        self.relative = 2 * rounding + 64 * _UNIT


class _Product:
    """A product of powers of transforms, with bounds on its true value and on its error at every frequency.

    Each computed transform F̂ of masses that sum to 1 has |F̂ - F| <= e at every frequency. Then
    |ΠF̂^k - ΠF^k| <= Π(|F̂|+e)^k · (1 - e^{-g}) with g = Σ k·e/|F̂|.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._level = math.log2(size) * _LEVEL
        self.value = np.ones(size // 2 + 1, dtype=np.complex128)
        self._most = np.ones(size // 2 + 1)
        self._growth = np.zeros(size // 2 + 1)

    def multiply(self, weights: Floats, count: int) -> None:
        transform = np.fft.rfft(weights)
        sizes = np.abs(transform)
        if count == 1:
            self.value *= transform
            self._most *= sizes + self._level
            with np.errstate(divide="ignore"):
                self._growth += self._level / sizes
            return
        most = count * np.log(sizes + self._level)
        # Powers that are negligible at this precision are not computed; their bound is kept and counts as error.
        kept = np.flatnonzero(most > _NEGLIGIBLE)
        # Weights are centred, so phases are small where it matters, and k times their rounding error is too.
        logs = np.log(np.where(sizes[kept] > 0, transform[kept], 1e-300))
        power = np.zeros_like(self.value)
        power[kept] = np.exp(count * logs)
        growth = np.full(len(sizes), math.inf)
        growth[kept] = count * (self._level / np.maximum(sizes[kept], 1e-300) + 4 * _UNIT * (np.abs(logs) + 1))
        self.value *= power
        self._most *= np.exp(np.maximum(most, _NEGLIGIBLE))
        self._growth += growth

    def error(self) -> float:
        """Return a bound on the error of every point of the inverse transform."""
        off = self._most * -np.expm1(-self._growth)
        # Both halves of the spectrum, and the inverse transform's own error, relative to the sum of magnitudes.
        return float(2 * off.sum() + 2 * self._most.sum() * self._level) / self._size


def _merged(losses: Losses) -> list[tuple[Lattice, int]]:
    """Return an equal sum of fewer laws: short laws of count 1 are convolved directly, which is faster than by FFT."""
    single = [lattice for lattice, count in losses if count == 1]
    merged = [(lattice, count) for lattice, count in losses if count != 1]
    heap = [(len(lattice.masses), i, lattice) for i, lattice in enumerate(single)]
    heapq.heapify(heap)
    while len(heap) > 1 and heap[0][0] * min(heap[1:3])[0] <= _LARGEST_DIRECT:
        _, i, one = heapq.heappop(heap)
        _, _, two = heapq.heappop(heap)
        both = _added(one, two)
        heapq.heappush(heap, (len(both.masses), i, both))
    return merged + [(lattice, 1) for _, _, lattice in heap]


def _added(one: Lattice, two: Lattice) -> Lattice:
    """Return the law of the sum of two losses; all terms are positive, so its error is relative."""
    rounding = one.rounding + two.rounding + (min(len(one.masses), len(two.masses)) + 2) * _UNIT
    masses = np.convolve(one.masses, two.masses)
    return Lattice(one.start + two.start, one.step, masses, one.infinity + two.infinity, rounding)


def _folded(weights: Floats, centre: int, size: int) -> Floats:
    """Return the weights on a cycle of ``size`` points, with index ``centre`` at zero."""
    padded = -(-len(weights) // size) * size
    folded = np.zeros(padded)
    folded[: len(weights)] = weights
    result: Floats = np.roll(folded.reshape(-1, size).sum(axis=0), -(centre % size))
    return result
