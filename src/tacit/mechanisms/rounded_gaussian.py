"""Rounded Gaussian noise on integers, whose guarantee is μ-GDP itself."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Final

from tacit.core.errors import InputError
from tacit.core.events import GaussianEvent
from tacit.core.guarantees import GDP
from tacit.core.normal import normal_quantile_bounds
from tacit.core.numbers import Number, exact_positive, float_up, round_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.noise.rounded_normal import RoundedNormal

#: The σ² at which 12σ⁴/(12σ² - 1) is least.
_LEAST_PROXY: Final = Fraction(1, 6)


class RoundedNoise:
    """Normal noise of variance σ², rounded to whole numbers."""

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2

    @cached_property
    def sampler(self) -> RoundedNormal:
        return RoundedNormal(self.sigma2)

    def quantile(self, beta: Fraction) -> int:
        """Return the smallest w with P(|X| > w) = 2·Φ(-(w + 1/2)/σ) <= ``beta``."""
        normal = normal_quantile_bounds(1 - beta / 2)[1] * sqrt_bounds(self.sigma2)[1]
        return max(math.ceil(normal - Fraction(1, 2)), 0)

    @property
    def proxy(self) -> Fraction:
        """σ² of discrete Gaussian noise whose tails are at least as large: σ² + 1/12 and a little more.

        Tails grow with σ, so a σ² below 1/6 gets the bound at 1/6, where the bound is least.
        """
        sigma2 = max(self.sigma2, _LEAST_PROXY)
        return 12 * sigma2**2 / (12 * sigma2 - 1)

    @property
    def variance_bound(self) -> Fraction:
        """The variance, rounded up."""
        return self.proxy


class RoundedGaussian(AdditiveNoise):
    """Releases integers with normal noise that is rounded to whole numbers: exactly μ-GDP.

    >>> m = RoundedGaussian(mu="0.5", l2_squared=1)
    >>> m.sigma, m.guarantee, m.error(beta="0.05")
    (2.0, GDP(0.5), 4)

    Args:
        mu: of the guarantee.
        l2_squared: the square of how far the integers of one release, together, can move between neighbours, in the l2
            norm.
        relation: which databases are neighbours.

    Privacy:
        μ-GDP under ``relation``: telling D from D′ by a release, of any number of integers, is no easier than telling
        N(0, 1) from N(μ, 1), where

        * μ is ``mu``;
        * D, D′ are neighbours whose values differ by at most Δ in the l2 norm over all integers of one release.

    Sensitivity:
        Δ = √``l2_squared``, rounded up to 18 digits where it is not rational; σ = Δ/μ.

    Error:
        P(|X| > w) = 2·Φ(-(w + 1/2)/σ); :meth:`error` inverts it, for k outputs at once. The variance is about
        σ² + 1/12.

    Assumes:
        that Δ is right; and that the machine's ``exp`` is right to 2⁻⁴⁸.

    References:
        Dong, Roth, Su (2022). Proofs: ``rounded_gaussian.proof.md``, ``noise/rounded_normal.proof.md``.
    """

    def __init__(self, *, mu: Number, l2_squared: Number, relation: Relation | str = ADD_REMOVE) -> None:
        self._guarantee = GDP(exact_positive(mu, "mu"), relation=as_relation(relation))
        low, high = sqrt_bounds(exact_positive(l2_squared, "l2_squared"))
        self.l2_sensitivity = low if low == high else round_up(high)
        super().__init__(RoundedNoise((self.l2_sensitivity / self._guarantee.mu) ** 2), "l2_squared")

    @property
    def guarantee(self) -> GDP:
        """μ-GDP, for one release of integers."""
        return self._guarantee

    @property
    def event(self) -> GaussianEvent:
        """Event of the normal noise before rounding; rounding is post-processing."""
        return GaussianEvent(self.l2_sensitivity / self._guarantee.mu, self.l2_sensitivity, relation=self.relation)

    @property
    def sigma2(self) -> Fraction:
        """Exact σ² of the noise before rounding."""
        return (self.l2_sensitivity / self._guarantee.mu) ** 2

    @property
    def sigma(self) -> float:
        """σ, rounded up."""
        return float_up(self.l2_sensitivity / self._guarantee.mu)

    def _make_grid(self, dimension: int) -> OnGrid:  # noqa: ARG002 - there is no grid of any size
        raise InputError("value", "must be integers; Gaussian releases floats")

    def __repr__(self) -> str:
        return f"RoundedGaussian({self._guarantee!r}, sigma={self.sigma:.6g})"
