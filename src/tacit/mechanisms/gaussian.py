"""The Gaussian mechanism, on integers and on a grid of floats."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

from tacit.core.errors import InputError
from tacit.core.events import DiscreteGaussianEvent, ZCDPEvent
from tacit.core.guarantees import ZCDP, ApproxDP
from tacit.core.normal import gaussian_epsilon_up, normal_quantile_bounds
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    float_up,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.additive import AdditiveNoise, OnGrid
from tacit.mechanisms.base import Readings, per_output_beta, smallest_that
from tacit.mechanisms.gaussian_profile import (
    analytic_gaussian_sigma,
    calibrate_discrete_sigma,
    check_discrete_sigma,
    check_epsilon,
    classic_gaussian_sigma,
    discrete_tail_bound,
)
from tacit.mechanisms.grid import Grid
from tacit.noise.gaussian import LARGEST_SIGMA, DiscreteGaussian

Calibration = Literal["analytic", "classic"]
_CALIBRATIONS: Final = ("analytic", "classic")
#: The smallest ε that a search for accuracy returns.
_SMALLEST_FOUND: Final = Fraction(1, 10**6)


class GaussianNoise:
    """The discrete Gaussian distribution of σ²: P(x) ∝ exp(-x²/(2σ²)) on the integers."""

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2

    @cached_property
    def sampler(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.sigma2)

    def quantile(self, beta: Fraction) -> int:
        """Return the smallest w for which P(|X| > w) <= ``beta`` is proven."""
        normal = normal_quantile_bounds(1 - beta / 2)[1] * sqrt_bounds(self.sigma2)[1]
        low = high = max(math.floor(normal), 0)
        step = 1
        while discrete_tail_bound(self.sigma2, high + 1) > beta:
            low, high, step = high + 1, high + step, 2 * step
        while low > 0 and discrete_tail_bound(self.sigma2, low) <= beta:
            low, high, step = max(low - step, 0), low - 1, 2 * step
        while low < high:
            middle = (low + high) // 2
            if discrete_tail_bound(self.sigma2, middle + 1) <= beta:
                high = middle
            else:
                low = middle + 1
        return high

    @property
    def variance_bound(self) -> Fraction:
        """σ², an upper bound on the variance of the discrete Gaussian."""
        return self.sigma2


class Gaussian(AdditiveNoise):
    """Releases numbers with discrete Gaussian noise: integers as integers, floats on a public grid.

    >>> m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1)
    >>> round(m.sigma, 4), m.guarantee, m.error(beta="0.05")
    (3.7405, ApproxDP(1, 1e-05), 7)

    Args:
        epsilon: of the guarantee.
        delta: of the guarantee.
        l2_sensitivity: how far the numbers of one release, together, can move between neighbours, in the l2 norm.
        l2_squared: the square of that, to be given instead where the root is irrational.
        dimension: how many numbers one release may hold.
        calibration: ``"analytic"`` finds the smallest σ that is proven; ``"classic"`` takes √(2 ln(1.25/δ))·Δ/ε,
            which is larger, and refuses ε > 1.
        whole: True for a mechanism of integers only, False for one of floats only. The exact privacy loss of the two
            differs a little, so :attr:`event` can name it only where one of them is ruled out.
        relation: which databases are neighbours.

    Privacy:
        (ε, δ)-DP under ``relation``: P[M(D) ∈ S] <= e^ε · P[M(D′) ∈ S] + δ, and also ρ-zCDP (:attr:`zcdp`), where

        * ε, δ are ``epsilon`` and ``delta``, for the *discrete* noise that is really added, not for a continuous ideal;
        * ρ = Δ²/(2σ²);
        * D, D′ are neighbours whose values differ by at most Δ in the l2 norm over all numbers of one release.

        Guarantee and :attr:`zcdp` hold for integers and floats alike. So does :attr:`event`: unless ``whole`` says
        which of the two is released, it claims no more than ρ-zCDP.

    Sensitivity:
        Δ = ``l2_sensitivity``, in the units of the values. Integers need a whole Δ². For floats the grid adds one
        step per number for rounding, √dimension in the norm, and the noise grows with it.

    Error:
        :meth:`error` inverts the tail of the discrete Gaussian, for k outputs at once. The variance is at most σ².

    Assumes:
        that Δ is right, with the rounding of whatever computed the values included; and for σ up to 2¹⁵ that the
        machine's ``exp`` and ``expm1`` are right to 2⁻⁴⁸. A release of a list or array needs σ <= 2⁴⁰.

    References:
        Canonne, Kamath, Steinke (2020) for discrete noise and zCDP; Balle, Wang (2018) for the analytic δ.
        Proof: ``gaussian.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        l2_sensitivity: Number | None = None,
        l2_squared: Number | None = None,
        dimension: int = 1,
        calibration: Calibration = "analytic",
        whole: bool | None = None,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        if calibration not in _CALIBRATIONS:
            raise InputError("calibration", f"must be 'analytic' or 'classic', got {calibration!r}")
        self.calibration = calibration
        self._guarantee: ApproxDP | ZCDP = ApproxDP(
            check_epsilon(epsilon), exact_probability(delta, "delta"), relation=as_relation(relation)
        )
        self._set_up(_squared(l2_sensitivity, l2_squared), dimension, whole)

    @classmethod
    def from_rho(
        cls,
        *,
        rho: Number,
        l2_sensitivity: Number | None = None,
        l2_squared: Number | None = None,
        dimension: int = 1,
        whole: bool | None = None,
        relation: Relation | str = ADD_REMOVE,
    ) -> Gaussian:
        """Return the mechanism whose guarantee is ρ-zCDP, with σ² = Δ²/(2ρ) exactly."""
        self = cls.__new__(cls)
        self.calibration = "analytic"
        self._guarantee = ZCDP(exact_positive(rho, "rho"), relation=as_relation(relation))
        self._set_up(_squared(l2_sensitivity, l2_squared), dimension, whole)
        return self

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        delta: Number,
        l2_sensitivity: Number | None = None,
        l2_squared: Number | None = None,
        k: int = 1,
        dimension: int = 1,
        whole: bool | None = None,
        relation: Relation | str = ADD_REMOVE,
    ) -> Gaussian:
        """Return the mechanism of the smallest ε, rounded up to six digits, with ``error(beta, k) <= within`` at δ."""
        squared = _squared(l2_sensitivity, l2_squared)
        bound = exact_positive(within, "within")
        rounding = Fraction(1, 2) if squared.denominator == 1 and whole is not False else Fraction(0)
        sigma = (bound + rounding) / normal_quantile_bounds(1 - per_output_beta(beta, k) / 2)[1]
        guess = gaussian_epsilon_up(sqrt_bounds(squared / sigma**2)[1], exact_probability(delta, "delta"))

        def make(epsilon: Fraction) -> Gaussian:
            return cls(
                epsilon=epsilon, delta=delta, l2_squared=squared, dimension=dimension, whole=whole, relation=relation
            )

        # A large δ alone allows this noise, so no search for the smallest positive ε would end.
        if guess <= _SMALLEST_FOUND and make(_SMALLEST_FOUND).error(beta, k) <= bound:
            return make(_SMALLEST_FOUND)
        guess = max(guess, _SMALLEST_FOUND)
        return make(smallest_that(lambda epsilon: make(epsilon).error(beta, k) <= bound, guess, digits=6))

    def _set_up(self, l2_squared: Fraction, dimension: int, whole: bool | None) -> None:
        self.l2_squared = l2_squared
        self.dimension = check_count(dimension, "dimension")
        self._whole = _check_whole(whole, l2_squared)
        noise = None
        if self._whole is not False:
            noise = GaussianNoise(self._calibrate(self._reachable(int(l2_squared), dimension), dimension))
        super().__init__(noise, "the square of l2_sensitivity")

    @property
    def guarantee(self) -> ApproxDP | ZCDP:
        """(ε, δ)-DP, or ρ-zCDP from :meth:`from_rho`, for one release of up to ``dimension`` numbers."""
        return self._guarantee

    @property
    def zcdp(self) -> ZCDP:
        """ρ-zCDP with ρ = Δ²/(2σ²), for integers and for floats."""
        noise = self._exact_event
        return ZCDP(noise.l2_squared / (2 * noise.sigma2), relation=self.relation)

    @property
    def event(self) -> DiscreteGaussianEvent | ZCDPEvent:
        """Event of one release: discrete Gaussian noise, or ρ-zCDP where both integers and floats may be released."""
        if self._whole is None:
            return ZCDPEvent(self.zcdp.rho, mechanism="gaussian", relation=self.relation)
        return self._exact_event

    @property
    def _exact_event(self) -> DiscreteGaussianEvent:
        """Event of the noise on integers or, if only floats are released, on floats in grid steps."""
        if self._noise is None:
            return self._gaussian_event(self.on_grid(self.dimension))
        squared = self._reachable(int(self.l2_squared), self.dimension)
        return DiscreteGaussianEvent(self.sigma2, Fraction(squared), dimension=self.dimension, relation=self.relation)

    @property
    def sigma2(self) -> Fraction:
        """Exact σ² of the noise on integers or, if only floats are released, on ``dimension`` floats."""
        if isinstance(self._noise, GaussianNoise):
            return self._noise.sigma2
        on_grid = self.on_grid(self.dimension)
        return self._gaussian_event(on_grid).sigma2 * on_grid.grid.step**2

    @property
    def sigma(self) -> float:
        """σ, rounded up."""
        return float_up(sqrt_bounds(self.sigma2)[1])

    def error(self, beta: Number, k: int = 1) -> int | float:
        """Return :meth:`AdditiveNoise.error`; for floats, the bound for releases of ``dimension`` floats."""
        return self.on_grid(self.dimension).error(beta, k) if self._noise is None else super().error(beta, k)

    def _calibrate(self, l2_squared: int, dimension: int) -> Fraction:
        """Return σ² for integers whose l2 sensitivity is √``l2_squared``."""
        promise = self._guarantee
        if isinstance(promise, ZCDP):
            return l2_squared / (2 * promise.rho)
        epsilon, delta = promise.epsilon, promise.delta
        if self.calibration == "classic":
            sigma = classic_gaussian_sigma(epsilon, delta, sqrt_bounds(Fraction(l2_squared))[1])
            check_discrete_sigma(sigma, epsilon=epsilon, delta=delta, l2_squared=l2_squared, dimension=dimension)
        else:
            sigma = calibrate_discrete_sigma(epsilon, delta, l2_squared, dimension)
        return sigma * sigma

    def _make_grid(self, dimension: int) -> OnGrid:
        if self._whole:
            raise InputError("value", "must be integers, as whole=True says; leave it out to release floats too")
        sensitivity = sqrt_bounds(self.l2_squared)[1]
        grid = Grid.for_noise(self._sigma_estimate(sensitivity), sensitivity, dimension, LARGEST_SIGMA)
        moved = self._reachable(grid.l2_squared(self.l2_squared, dimension), dimension)
        sigma2 = self._calibrate(moved, dimension)
        if self._noise is not None or dimension < self.dimension:
            # σ/Δ is at least that of integers and of longer vectors, so that one rho holds for all.
            sigma2 = max(sigma2, moved / (2 * self.zcdp.rho))
        if sigma2 >= LARGEST_SIGMA**2 and dimension > 1:
            raise InputError("epsilon", f"is too small for {dimension} floats at once; release integers")
        event = DiscreteGaussianEvent(sigma2, Fraction(moved), dimension=dimension, relation=self.relation)
        return OnGrid(
            grid=grid, noise=GaussianNoise(sigma2), guarantee=self.guarantee, event=event, dimension=dimension
        )

    def _sigma_estimate(self, sensitivity: Fraction) -> Fraction:
        if isinstance(self._guarantee, ZCDP):
            return sqrt_bounds(self.l2_squared / (2 * self._guarantee.rho))[1]
        return analytic_gaussian_sigma(self._guarantee.epsilon, self._guarantee.delta, sensitivity)

    def _release_integers(self, readings: Readings) -> Any:
        if self._whole is False and self.l2_squared.denominator == 1:
            raise InputError("value", "must be floats, as whole=False says; leave it out to release integers too")
        return super()._release_integers(readings)

    def _check_size(self, size: int) -> None:
        if size > self.dimension:
            raise InputError(
                "value",
                f"holds {size} numbers, but the noise is calibrated for {self.dimension}; state dimension={size}",
            )

    @staticmethod
    def _reachable(l2_squared: int, dimension: int) -> int:
        """Return the largest squared norm that can occur: a single integer moves by a whole number."""
        return math.isqrt(l2_squared) ** 2 if dimension == 1 else l2_squared

    @staticmethod
    def _gaussian_event(on_grid: OnGrid) -> DiscreteGaussianEvent:
        assert isinstance(on_grid.event, DiscreteGaussianEvent)  # noqa: S101 - for the type checker
        return on_grid.event

    def __repr__(self) -> str:
        return f"Gaussian({self._guarantee!r}, sigma={self.sigma:.6g}, dimension={self.dimension})"


def _check_whole(whole: bool | None, l2_squared: Fraction) -> bool | None:
    if whole not in (None, True, False):
        raise InputError("whole", f"must be True, False or left out, not {whole!r}")
    if l2_squared.denominator == 1:
        return whole
    if whole:
        raise InputError("whole", "integers move by whole numbers, but the square of l2_sensitivity is not one")
    return False


def _squared(l2_sensitivity: Number | None, l2_squared: Number | None) -> Fraction:
    if l2_sensitivity is not None and l2_squared is None:
        return exact_positive(l2_sensitivity, "l2_sensitivity") ** 2
    if l2_squared is not None and l2_sensitivity is None:
        return exact_positive(l2_squared, "l2_squared")
    raise InputError("l2_sensitivity", "must be given, either itself or as l2_squared, and not both")
