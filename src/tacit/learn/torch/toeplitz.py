"""Noise strategies: noise of a step partly taken back in later ones, as an alternative to secret samples.

A strategy is a lower triangular Toeplitz matrix C with non-negative coefficients, C = 1 on the diagonal. Instead of the
sums of gradients G the trainer releases C·G with independent noise z, and multiplies by C⁻¹ afterwards: G + C⁻¹·z.
The noise of sums of steps, which is what weights are made of, is far smaller than with independent noise; in return a
row counts once in each pass over the rows, in a turn of its own, and no sample is secret. ``correlated.proof.md`` has
the argument.

Coefficients lie on a public grid, so that what one row moves is computed from the very numbers that are used: exactly
for bands, rounded up for buffers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import check_count, float_up, sqrt_bounds

Floats = NDArray[np.float64]

#: Coefficients are multiples of 2^-20, so that products with sums are taken in two halves of an int64.
GRID_BITS: Final = 20
#: Binary digits after the point of what buffers hold.
STATE_BITS: Final = 6
#: Digits after the point of powers of decay rates, which are rounded up.
_POWER_BITS: Final = 64
_UNIT: Final = 1 << GRID_BITS
_MOST_BANDS: Final = 1024
_MOST_BUFFERS: Final = 8
_MOST_STEPS: Final = 1 << 18


@dataclass(frozen=True)
class Bands:
    """Coefficients c₁, c₂, … after the diagonal, in steps of 2^-20; all others are 0."""

    after: tuple[int, ...]

    def coefficients(self, steps: int) -> list[Fraction]:
        """The first column of C, exactly."""
        column = [Fraction(1), *(Fraction(each, _UNIT) for each in self.after)][:steps]
        return column + [Fraction(0)] * (steps - len(column))

    def roundings(self) -> Fraction:
        """Most that rounding adds to the difference of two sums, in each coordinate."""
        return Fraction(1 if any(self.after) else 0)

    def inverse(self, steps: int) -> Floats:
        """First column of C⁻¹, for display and for the error."""
        return _filtered([1.0], [1.0, *(each / _UNIT for each in self.after)], _impulse(steps))


@dataclass(frozen=True)
class Buffers:
    """Weights ω and decay rates θ in steps of 2^-20: c_k = Σ ω·θ^(k-1)."""

    weights: tuple[int, ...]
    decays: tuple[int, ...]

    def coefficients(self, steps: int) -> list[Fraction]:
        """The first column of C, rounded up."""
        column, powers, unit = [Fraction(1)], [1 << _POWER_BITS] * len(self.weights), _UNIT << _POWER_BITS
        for _ in range(steps - 1):
            column.append(Fraction(sum(w * power for w, power in zip(self.weights, powers, strict=True)), unit))
            powers = [-(-power * decay >> GRID_BITS) for power, decay in zip(powers, self.decays, strict=True)]
        return column[:steps]

    def roundings(self) -> Fraction:
        """Most that rounding adds to the difference of two sums, in each coordinate."""
        # A buffer is off by at most 1/(1-θ) of its steps; their weighted sum is rounded twice.
        held = sum(
            (Fraction(w, _UNIT - decay) for w, decay in zip(self.weights, self.decays, strict=True)), Fraction(1)
        )
        return 1 + held / 2**STATE_BITS

    def inverse(self, steps: int) -> Floats:
        """First column of C⁻¹, for display and for the error."""
        above, below = _ratio(np.array(self.weights) / _UNIT, np.array(self.decays) / _UNIT)
        return _filtered(below, above, _impulse(steps))


class NoiseStrategy(ABC):
    """Correlation of the noise of steps; made once, used by a trainer for its own number of steps."""

    @abstractmethod
    def made_for(self, steps: int, period: int) -> Bands | Buffers:
        """The coefficients for so many steps, with each row in every ``period``-th of them."""

    def l2_sensitivity(self, steps: int, period: int, dimension: int, unit: int, taken: int | None = None) -> int:
        """Most that a row of gradients of norm ``unit`` moves the first ``taken`` of C·G together, rounded up.

        Args:
            steps: of the whole plan.
            period: steps from one turn of a row to the next.
            dimension: how many numbers a step has.
            unit: the norm of what a row adds to a step.
            taken: how many steps are looked at; all by default.
        """
        count, made = taken or steps, self.made_for(steps, period)
        length = sqrt_bounds(Fraction(moved_squared(made.coefficients(steps)[:count], period)))[1]
        rounding = made.roundings() * sqrt_bounds(Fraction(count * dimension))[1]
        return math.ceil(unit * length + rounding)

    def error(self, steps: int, period: int) -> float:
        """Root mean square of the noise in sums of steps, where independent noise of one step moves by 1.

        A noise multiplier times this number is the error of a sum of clipped gradients, on average over all steps.
        """
        made = self.made_for(steps, period)
        moved = float_up(moved_squared(made.coefficients(steps), period))
        return math.sqrt(moved * _squared_error(made.inverse(steps)))


@dataclass(frozen=True)
class BandedToeplitz(NoiseStrategy):
    """Correlation over ``bands`` neighbouring steps; 1 is independent noise.

    Coefficients are those of least mean squared error of sums of steps, found for the number of steps and passes
    before any row is seen. Memory is that of 2·(bands - 1) gradients.

    References:
        Choquette-Choo et al. (2023) for banded strategies; Kalinin, Lampert (2024) for Toeplitz ones.
    """

    bands: int

    def __post_init__(self) -> None:
        check_count(self.bands, "bands", maximum=_MOST_BANDS)

    def made_for(self, steps: int, period: int) -> Bands:
        """The coefficients of least error."""
        return _best_bands(min(self.bands, _checked(steps)), steps, period)


@dataclass(frozen=True)
class BufferedToeplitz(NoiseStrategy):
    """Correlation over all steps by a few decaying sums: a buffered linear Toeplitz matrix.

    Memory is that of 2·``buffers`` gradients, however many steps there are; two to five suit thousands of steps.

    References:
        Dvijotham, McMahan, Pillutla, Steinke, Thakurta (2024).
    """

    buffers: int = 4

    def __post_init__(self) -> None:
        check_count(self.buffers, "buffers", maximum=_MOST_BUFFERS)

    def made_for(self, steps: int, period: int) -> Buffers:
        """The weights and decay rates of least error."""
        return _best_buffers(self.buffers, _checked(steps), period)


def moved_squared(column: list[Fraction], period: int) -> Fraction:
    """Square of the most that a row moves C·G, with gradients of norm 1 in every ``period``-th step.

    The worst turn is the first: later ones have the same entries, with the last of them cut off.
    """
    # One denominator for all, so that integers are added.
    shared = math.lcm(*(each.denominator for each in column)) if column else 1
    moved = [int(each * shared) for each in column]
    for place in range(period, len(moved)):
        moved[place] += moved[place - period]
    return Fraction(sum(each * each for each in moved), shared * shared)


def _checked(steps: int) -> int:
    if steps > _MOST_STEPS:
        raise InputError("steps", f"must be at most {_MOST_STEPS} with a strategy; take larger batches")
    return steps


@lru_cache(maxsize=64)
def _best_bands(bands: int, steps: int, period: int) -> Bands:
    if bands == 1:
        return Bands(())

    def loss(after: Floats) -> tuple[float, Floats]:
        below = np.concatenate(([1.0], after))
        value, slopes = _loss(
            np.concatenate((below, np.zeros(steps - bands))), lambda given: _filtered([1.0], below, given), period
        )
        return value, slopes[1:bands]

    found = _minimised(loss, _square_root(bands)[1:], [(0.0, 1.0)] * (bands - 1))
    return Bands(tuple(min(max(round(each * _UNIT), 0), _UNIT) for each in found))


@lru_cache(maxsize=64)
def _best_buffers(buffers: int, steps: int, period: int) -> Buffers:
    places = np.arange(steps - 1, dtype=np.float64)

    def loss(given: Floats) -> tuple[float, Floats]:
        weights, decays = np.exp(given[:buffers]), 1 / (1 + np.exp(-given[buffers:]))
        above, below = _ratio(weights, decays)
        with np.errstate(under="ignore"):
            powers = decays[:, None] ** places
        value, slopes = _loss(
            np.concatenate(([1.0], weights @ powers)), lambda values: _filtered(below, above, values), period
        )
        by_weight = powers @ slopes[1:]
        by_decay = weights * ((powers * places) @ slopes[1:]) / decays
        return value, np.concatenate((by_weight * weights, by_decay * decays * (1 - decays)))

    # Decay rates spread evenly on the scale of how long they last, with the weights of a square root.
    lasting = np.exp(np.linspace(math.log(1.5), math.log(max(steps, 3)), buffers))
    start = np.concatenate((np.log(0.5 / buffers / np.sqrt(lasting)), np.log(lasting)))
    found = _minimised(loss, start, [(-16.0, -0.01)] * buffers + [(-12.0, 11.0)] * buffers)
    weights = [max(math.floor(math.exp(each) * _UNIT), 1) for each in found[:buffers]]
    decays = [min(max(round(_UNIT / (1 + math.exp(-each))), 1), _UNIT - 16) for each in found[buffers:]]
    # The weights add up to c₁, which is below one; so no sum of products overflows.
    excess = max(sum(weights) / _UNIT, 1.0)
    return Buffers(tuple(math.floor(each / excess) for each in weights), tuple(decays))


def _loss(column: Floats, inverse: Callable[[Floats], Floats], period: int) -> tuple[float, Floats]:
    """Ln of sensitivity² times mean squared error, and its slopes by the coefficients of C."""
    steps = len(column)
    moved = column.copy()
    for place in range(period, steps, period):
        part = moved[place : place + period]
        part += moved[place - period : place - period + len(part)]
    back = moved.copy()
    for place in range((steps - 1) // period * period - period, -1, -period):
        part = back[place + period : place + 2 * period]
        back[place : place + len(part)] += part
    size = float(moved @ moved)
    error = np.cumsum(inverse(_impulse(steps)))
    shares = np.arange(steps, 0, -1) / steps
    spread = float(shares @ error**2)
    # One more coefficient at lag k takes the inverse of the error, moved by k, off the error.
    passed = inverse(error)
    length = 2 * steps
    correlated = np.fft.irfft(np.fft.rfft(2 * shares * error, length) * np.conj(np.fft.rfft(passed, length)), length)
    return math.log(size) + math.log(spread), 2 * back / size - correlated[:steps] / spread


def _minimised(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, bounds: list[tuple[float, float]]
) -> list[float]:
    from scipy.optimize import minimize

    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 300})
    return [float(each) for each in found.x]


def _square_root(count: int) -> Floats:
    """Coefficients of 1/√(1-x): the best strategy of one pass, but for a constant."""
    places = np.arange(1, count)
    return np.concatenate(([1.0], np.cumprod((places - 0.5) / places)))


def _ratio(weights: Floats, decays: Floats) -> tuple[Floats, Floats]:
    """Two polynomials whose ratio is C: 1 + Σ ω·x/(1 - θx)."""
    below = np.array([1.0])
    for decay in decays:
        below = np.convolve(below, [1.0, -decay])
    above = below.copy()
    for i, weight in enumerate(weights):
        rest = np.array([0.0, weight])
        for decay in np.delete(decays, i):
            rest = np.convolve(rest, [1.0, -decay])
        above += rest
    return above, below


def _squared_error(inverse: Floats) -> float:
    """Mean over all steps of the squared noise in the sum of the steps before, for independent noise of 1."""
    sums = np.cumsum(inverse)
    return float(np.mean(np.cumsum(sums**2)))


def _impulse(steps: int) -> Floats:
    first = np.zeros(steps)
    first[0] = 1.0
    return first


def _filtered(above: Any, below: Any, values: Floats) -> Floats:
    from scipy.signal import lfilter

    filtered: Floats = lfilter(above, below, values)
    return filtered
