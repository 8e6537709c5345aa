"""The staircase mechanism: the least noise that pure differential privacy allows for one number."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import (
    Number,
    exact_nonnegative,
    exact_positive,
    exp_bounds,
    float_nearest,
    float_up,
    log_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.base import per_output_beta, smallest_that
from tacit.mechanisms.grid import Grid
from tacit.noise import entropy
from tacit.noise.inversion import Geometric
from tacit.noise.laplace import LARGEST_SCALE
from tacit.noise.uniform import LazyUniform, sample_below

Minimise = Literal["variance", "absolute"]
_MINIMISE: Final = ("variance", "absolute")
_DIGITS: Final = 60
#: Wider sensitivities take the continuous optimum unchanged.
_WIDEST_SEARCHED: Final = 1 << 32


class StaircaseNoise:
    """P(x) ∝ b^k for |x| in [kΔ, kΔ + r) and b^(k+1) for |x| in [kΔ + r, (k+1)Δ), with b = e^-ε and 1 <= r <= Δ.

    Args:
        epsilon: ε.
        width: Δ, how long a step of the stairs is, in integers.
        tread: r, how many integers of each step lie on the higher part.
    """

    def __init__(self, epsilon: Fraction, width: int, tread: int) -> None:
        self.epsilon = epsilon
        self.width = width
        self.tread = tread
        self._b_low, self._b_high = exp_bounds(-epsilon, _DIGITS)

    @cached_property
    def sampler(self) -> _StaircaseSampler:
        """Draws from the distribution."""
        return _StaircaseSampler(self.epsilon, self.width, self.tread)

    def quantile(self, beta: Fraction) -> int:
        """The smallest w with P(|X| > w) <= ``beta``."""
        low, high = 0, self.width
        while self.tail_bound(high + 1) > beta:
            low, high = high, 2 * high
        while low < high:
            middle = (low + high) // 2
            if self.tail_bound(middle + 1) <= beta:
                high = middle
            else:
                low = middle + 1
        return high

    def tail_bound(self, start: int) -> Fraction:
        """P(|X| >= ``start``) for ``start`` >= 1, rounded up: what is left of one layer, and all later layers."""
        layer, inside = divmod(start, self.width)
        b = self._b_high
        left = max(self.tread - inside, 0) + b * (self.width - max(inside, self.tread))
        weight = exp_bounds(-layer * self.epsilon)[1] * (left + b * self._layer(b) / (1 - b))
        return 2 * weight / self._total(self._b_low)

    @property
    def variance_bound(self) -> Fraction:
        """The variance, rounded up."""
        return second_moment(self._b_high, self.width, self.tread) / self._total(self._b_low)

    @property
    def mean_absolute_bound(self) -> Fraction:
        """E|X|, rounded up."""
        return first_moment(self._b_high, self.width, self.tread) / self._total(self._b_low)

    def _layer(self, b: Fraction) -> Fraction:
        return self.tread + (self.width - self.tread) * b

    def _total(self, b: Fraction) -> Fraction:
        """The sum of all weights: two sides that share x = 0."""
        return 2 * self._layer(b) / (1 - b) - 1


class _StaircaseSampler:
    """Layer by a geometric draw, part of the layer by one exact coin, place within it uniformly; then a sign."""

    def __init__(self, epsilon: Fraction, width: int, tread: int) -> None:
        self._epsilon, self._width, self._tread = epsilon, width, tread
        self._layers = Geometric(epsilon)
        self._first_bounds = self._high_part_bounds(25)

    def sample(self) -> int:
        """One draw."""
        while True:
            size = self._layers.sample() * self._width + self._place()
            negative = sample_below(2)
            # Zero has no sign; drawing -0 again leaves it the weight of one number.
            if size or not negative:
                return -size if negative else size

    def sample_many(self, count: int) -> NDArray[np.int64]:
        """``count`` independent draws."""
        return np.array([self.sample() for _ in range(count)], dtype=np.int64)

    def _place(self) -> int:
        if self._on_high_part():
            return sample_below(self._tread)
        return self._tread + sample_below(self._width - self._tread)

    def _on_high_part(self) -> bool:
        """True with probability r/(r + (Δ-r)·b) exactly: a uniform against an enclosure that narrows as needed."""
        if self._tread == self._width:
            return True
        uniform = LazyUniform(entropy.current())
        (low, high), precision = self._first_bounds, 25
        while True:
            uniform.reveal()
            if uniform.high <= low:
                return True
            if uniform.low >= high:
                return False
            precision += 20
            low, high = self._high_part_bounds(precision)

    def _high_part_bounds(self, precision: int) -> tuple[Fraction, Fraction]:
        b_low, b_high = exp_bounds(-self._epsilon, precision)
        rest = self._width - self._tread
        return self._tread / (self._tread + rest * b_high), self._tread / (self._tread + rest * b_low)


class Staircase(AdditiveNoise):
    """Releases one number with staircase noise: an integer as an integer, a float on a public grid.

    For large ε the noise is far smaller than Laplace noise at the same ε; for small ε the two are nearly alike. With
    Δ = 1 on integers it *is* discrete Laplace noise.

    >>> m = Staircase(epsilon=5, l1_sensitivity=100)
    >>> m.guarantee, m.noise.tread, m.error(beta="0.05")
    (PureDP(5), 15, 14)

    Privacy:
        ε-DP under ``relation``: P[M(D) ∈ S] <= e^ε · P[M(D′) ∈ S], exactly, for a release of one number, where

        * ε is ``epsilon``;
        * D, D′ are neighbours whose values differ by at most ``l1_sensitivity``.

        Vectors are refused: staircase noise on each coordinate is not ε-DP for an l1 sensitivity.

    Sensitivity:
        Δ = ``l1_sensitivity``, in the units of the value. Integers need a whole Δ. For floats the grid adds one step
        for rounding.

    Error:
        :meth:`error` inverts the tail P(|X| >= n), in closed form. ``minimise`` chooses the shape: least variance
        or least mean absolute error, over all whole treads.

    Assumes:
        that Δ is right, with the rounding of whatever computed the value included.

    References:
        Geng, Viswanath (2014), The optimal noise-adding mechanism in differential privacy.
        Proof: ``staircase.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        l1_sensitivity: Number,
        minimise: Minimise = "variance",
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        if minimise not in _MINIMISE:
            raise InputError("minimise", f"must be 'variance' or 'absolute', got {minimise!r}")
        self.epsilon = exact_positive(epsilon, "epsilon")
        self.l1_sensitivity = exact_positive(l1_sensitivity, "l1_sensitivity")
        self.minimise = minimise
        self._guarantee = PureDP(self.epsilon, relation=as_relation(relation))
        whole = self.l1_sensitivity.denominator == 1
        super().__init__(self._make_noise(int(self.l1_sensitivity)) if whole else None, "l1_sensitivity")

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        l1_sensitivity: Number,
        k: int = 1,
        minimise: Minimise = "variance",
        relation: Relation | str = ADD_REMOVE,
    ) -> Staircase:
        """A mechanism with ``error(beta, k) <= within``, whose ε has six digits and is about as small as it can be."""
        sensitivity = exact_positive(l1_sensitivity, "l1_sensitivity")
        bound = exact_nonnegative(within, "within")
        if bound == 0 and sensitivity.denominator != 1:
            raise InputError("within", "must be greater than 0: rounding floats to a grid is never free of error")
        rounding = Fraction(1, 2) if sensitivity.denominator == 1 else Fraction(0)
        guess = sensitivity * log_bounds(2 / per_output_beta(beta, k))[1] / (bound + rounding)

        def make(epsilon: Fraction) -> Staircase:
            return cls(epsilon=epsilon, l1_sensitivity=sensitivity, minimise=minimise, relation=relation)

        return make(smallest_that(lambda epsilon: make(epsilon).error(beta, k) <= bound, guess, digits=6))

    @property
    def guarantee(self) -> PureDP:
        """ε-DP, for one release of one number."""
        return self._guarantee

    @property
    def event(self) -> PureEvent:
        """An ε-DP release, of an integer or a float."""
        return PureEvent(self.epsilon, "staircase", relation=self.relation)

    @property
    def mean_absolute_error(self) -> float:
        """E|X| of the noise on one output, rounded up."""
        if isinstance(self._noise, StaircaseNoise):
            return float_up(self._noise.mean_absolute_bound)
        on_grid = self.on_grid()
        noise = on_grid.noise
        assert isinstance(noise, StaircaseNoise)  # noqa: S101 - for the type checker
        return float_up(noise.mean_absolute_bound * on_grid.grid.step)

    def _make_noise(self, width: int) -> StaircaseNoise:
        return StaircaseNoise(self.epsilon, width, best_tread(self.epsilon, width, self.minimise))

    def _make_grid(self, dimension: int) -> OnGrid:
        grid = Grid.for_noise(self.l1_sensitivity / self.epsilon, self.l1_sensitivity, dimension, LARGEST_SCALE)
        noise = self._make_noise(grid.l1_sensitivity(self.l1_sensitivity))
        return OnGrid(grid=grid, noise=noise, guarantee=self.guarantee, event=self.event)

    def _check_size(self, size: int) -> None:
        if size != 1:
            raise InputError("value", f"must be a single number, not {size}: for vectors take Laplace noise")

    def __repr__(self) -> str:
        return (
            f"Staircase(epsilon={str(self.epsilon)!r}, l1_sensitivity={str(self.l1_sensitivity)!r}, "
            f"minimise={self.minimise!r})"
        )


def best_tread(epsilon: Fraction, width: int, minimise: Minimise) -> int:
    """The whole tread, from 1 to ``width``, with the least variance or mean absolute error.

    From the continuous optimum downhill to a local minimum, which the tests find to be the global one. Any tread is
    as private as any other.
    """
    b = exp_bounds(-epsilon, _DIGITS)[0]
    moment = second_moment if minimise == "variance" else first_moment

    def objective(tread: int) -> Fraction:
        return moment(b, width, tread) / (2 * (tread + (width - tread) * b) / (1 - b) - 1)

    tread = min(max(round(_best_share(epsilon, minimise) * width), 1), width)
    if width > _WIDEST_SEARCHED:
        # The continuous optimum is as good as any tread near it, and exact moments of such widths take long.
        return tread
    for direction in (-1, 1):
        while 1 <= tread + direction <= width and objective(tread + direction) < objective(tread):
            tread += direction
    return tread


def _best_share(epsilon: Fraction, minimise: Minimise) -> float:
    """The tread over the width that is optimal for continuous noise (Geng and Viswanath 2014)."""
    e = float_nearest(epsilon)
    if e < 1e-4:
        return 0.5
    if minimise == "absolute":
        return 1 / (1 + math.exp(min(e / 2, 700.0)))
    b = math.exp(-e)
    return (math.cbrt(b * (1 + b) / 2) - b) / (1 - b)


def first_moment(b: Fraction, width: int, tread: int) -> Fraction:
    """Σ |x|·weight; every part grows with b."""
    layer = tread + (width - tread) * b
    inside = _sum_1(tread) + b * (_sum_1(width) - _sum_1(tread))
    return 2 * (layer * width * b / (1 - b) ** 2 + inside / (1 - b))


def second_moment(b: Fraction, width: int, tread: int) -> Fraction:
    """Σ x²·weight; every part grows with b."""
    layer = tread + (width - tread) * b
    inside = _sum_1(tread) + b * (_sum_1(width) - _sum_1(tread))
    inside_2 = _sum_2(tread) + b * (_sum_2(width) - _sum_2(tread))
    a = 1 - b
    return 2 * (layer * width**2 * b * (1 + b) / a**3 + 2 * width * inside * b / a**2 + inside_2 / a)


def _sum_1(count: int) -> int:
    """0 + 1 + … + (count - 1)."""
    return count * (count - 1) // 2


def _sum_2(count: int) -> int:
    """0² + 1² + … + (count - 1)²."""
    return (count - 1) * count * (2 * count - 1) // 6
