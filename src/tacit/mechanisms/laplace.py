"""The Laplace mechanism, on integers and on a grid of floats."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from tacit.core.errors import InputError
from tacit.core.events import DiscreteLaplaceEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import Number, exact_nonnegative, exact_positive, exp_bounds, log_bounds
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.base import per_output_beta, smallest_that
from tacit.mechanisms.grid import Grid
from tacit.noise.laplace import LARGEST_SCALE, DiscreteLaplace

#: The event of a release divides the sensitivity into at most this many parts; see the proof file.
_MOST_PARTS: Final = 4096
#: Parts of a sensitivity that is not whole; each costs a little noise, because grids are enlarged to a multiple.
_PARTS_IF_BROKEN: Final = 512
#: Below it q is less than e^-1000, which would be written with as many digits as the scale is small; bounds do there.
_SMALLEST_SCALE: Final = Fraction(1, 1000)


class LaplaceNoise:
    """The discrete Laplace distribution of a scale: P(x) ∝ exp(-|x|/scale) on the integers."""

    def __init__(self, scale: Fraction) -> None:
        self.scale = scale

    @cached_property
    def sampler(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.scale)

    def quantile(self, beta: Fraction) -> int:
        """Return the smallest w with P(|X| > w) = 2·q^(w+1)/(1+q) <= ``beta``, where q = exp(-1/scale)."""
        q = exp_bounds(-1 / self.scale)[0] if self.scale >= _SMALLEST_SCALE else 0
        log_high = log_bounds(2 / ((1 + q) * beta))[1]
        return max(math.ceil(self.scale * log_high) - 1, 0)

    @property
    def variance_bound(self) -> Fraction:
        """Variance of the noise, 2q/(1-q)² with q = exp(-1/scale), rounded up."""
        q = exp_bounds(-1 / max(self.scale, _SMALLEST_SCALE), 60)[1]
        return 2 * q / (1 - q) ** 2


class Laplace(AdditiveNoise):
    """Releases numbers with discrete Laplace noise of scale Δ/ε: integers as integers, floats on a public grid.

    >>> m = Laplace(epsilon="0.5", l1_sensitivity=1)
    >>> m.scale, m.guarantee, m.error(beta="0.05")
    (Fraction(2, 1), PureDP(0.5), 6)

    Privacy:
        ε-DP under ``relation``: P[M(D) ∈ S] <= e^ε · P[M(D′) ∈ S], exactly, for every release of one number or of
        a vector, where

        * ε is ``epsilon``;
        * D, D′ are neighbours whose values differ by at most ``l1_sensitivity`` in the l1 norm over all numbers
          that one release holds.

    Sensitivity:
        Δ = ``l1_sensitivity``, in the units of the values. Integers need a whole Δ. For floats the grid adds one step
        per number for rounding, and the noise grows with it, so that ε stays what was typed.

    Error:
        P(|X| > w) = 2·q^(w+1)/(1+q) with q = exp(-ε/Δ); :meth:`error` inverts it, for k outputs at once.
        The variance is 2q/(1-q)².

    Assumes:
        that Δ is right, with the rounding of whatever computed the values included. A release of a list or array
        needs a scale of at most ``tacit.noise.laplace.LARGEST_SCALE``.

    References:
        Dwork, McSherry, Nissim, Smith (2006); Ghosh, Roughgarden, Sundararajan (2009) for integers;
        Mironov (2012) for what goes wrong with floats. Proof: ``laplace.proof.md``.
    """

    def __init__(self, *, epsilon: Number, l1_sensitivity: Number, relation: Relation | str = ADD_REMOVE) -> None:
        self.epsilon = exact_positive(epsilon, "epsilon")
        self.l1_sensitivity = exact_positive(l1_sensitivity, "l1_sensitivity")
        self.scale = self.l1_sensitivity / self.epsilon
        self._guarantee = PureDP(self.epsilon, relation=as_relation(relation))
        whole = self.l1_sensitivity.denominator == 1
        self._parts = _largest_divisor(self.l1_sensitivity.numerator) if whole else _PARTS_IF_BROKEN
        moved = Fraction(self._parts)
        self._event = DiscreteLaplaceEvent(moved / self.epsilon, moved, relation=self._guarantee.relation)
        super().__init__(LaplaceNoise(self.scale) if whole else None, "l1_sensitivity")

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        l1_sensitivity: Number,
        k: int = 1,
        relation: Relation | str = ADD_REMOVE,
    ) -> Laplace:
        """Return the mechanism of the smallest ε, rounded up to ten digits, with ``error(beta, k) <= within``."""
        sensitivity = exact_positive(l1_sensitivity, "l1_sensitivity")
        bound = exact_nonnegative(within, "within")
        if bound == 0 and sensitivity.denominator != 1:
            raise InputError("within", "must be greater than 0: rounding floats to a grid is never free of error")
        rounding = Fraction(1, 2) if sensitivity.denominator == 1 else Fraction(0)
        guess = sensitivity * log_bounds(2 / per_output_beta(beta, k))[1] / (bound + rounding)

        def accurate(epsilon: Fraction) -> bool:
            return cls(epsilon=epsilon, l1_sensitivity=sensitivity).error(beta, k) <= bound

        return cls(epsilon=smallest_that(accurate, guess), l1_sensitivity=sensitivity, relation=relation)

    @property
    def guarantee(self) -> PureDP:
        """ε-DP, for one release of one number or of a vector."""
        return self._guarantee

    @property
    def event(self) -> DiscreteLaplaceEvent:
        """Event that dominates every release: discrete Laplace noise on one number that moves by Δ.

        For a whole Δ up to 4096 it is the release of an integer itself. A larger or fractional Δ is divided into fewer
        parts: a coarser lattice at the same ε has at least the same privacy loss.
        """
        return self._event

    def _make_grid(self, dimension: int) -> OnGrid:
        grid = Grid.for_noise(self.scale, self.l1_sensitivity, dimension, LARGEST_SCALE)
        moved = grid.l1_sensitivity(self.l1_sensitivity, dimension)
        # A multiple of the parts, so that the coarse event above covers floats as well.
        units = -(-moved // self._parts) * self._parts
        scale = units / self.epsilon
        if scale > LARGEST_SCALE and dimension > 1:
            raise InputError("epsilon", f"is too small for {dimension} floats at once; release integers")
        event = DiscreteLaplaceEvent(scale, Fraction(units), relation=self.relation)
        return OnGrid(grid=grid, noise=LaplaceNoise(scale), guarantee=self.guarantee, event=event, dimension=dimension)

    def __repr__(self) -> str:
        return f"Laplace(epsilon={str(self.epsilon)!r}, l1_sensitivity={str(self.l1_sensitivity)!r})"


# Queries about one column have few sensitivities and many epsilons.
@lru_cache(maxsize=1024)
def _largest_divisor(value: int) -> int:
    if value <= _MOST_PARTS:
        return value
    return next(parts for parts in range(_MOST_PARTS, 0, -1) if value % parts == 0)
