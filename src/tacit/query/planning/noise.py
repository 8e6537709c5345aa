"""Distribution of weighted sums of independent integer noise.

A released measurement holds one noise, or the sum of two or three (where a count and a sum were released together),
or the sum of many (a rank read off a tree). One noise has an exact quantile; sums of two or three Laplace noises have
an exact tail. Weighted sums of any independent noises have the tail of a numerical convolution with a proven error
(:func:`sum_error`; ``postprocess/intervals.proof.md``), or, of Gaussian noises of many laws on a fine grid, that of a
normal with a proven margin (:mod:`tacit.mechanisms.noise_interval`). Ranks, and probabilities too small for
that error, are bounded by Chernoff's inequality, which needs only that

* discrete Laplace noise of scale t has E exp(λX) = (cosh u - 1)/(cosh u - cosh λ) with u = 1/t, and this is at most
  u²/(u² - λ²), that of continuous Laplace noise: the claim is equivalent to (cosh λ - 1)/λ² <= (cosh u - 1)/u², and
  (cosh x - 1)/x² = Σ x^(2k-2)/(2k)! grows with x;
* discrete Gaussian noise has E exp(λX) <= exp(λ²σ²/2) (Canonne, Kamath and Steinke 2020), and rounded normal noise
  has that of a slightly larger σ² (``mechanisms/rounded_gaussian.proof.md``).

*Sums of released numbers whose noises depend on each other.* Groups that are estimated from noisy sums of groups
(:mod:`tacit.mechanisms.residual_basis`) share the noises of these sums. A sum of such estimates is a sum of independent
noises again once the weights of the groups are carried over to the levels; the same holds for sums of several kinds of
draws, and for the two sums of a quotient.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.events import DiscreteGaussianEvent, Event
from tacit.core.numbers import Number, exact_probability, exp_bounds, float_nearest, log_bounds, sqrt_bounds
from tacit.core.relations import Relation
from tacit.core.sensitivity import Sensitivity
from tacit.mechanisms.gaussian import Gaussian, GaussianNoise
from tacit.mechanisms.laplace import Laplace, LaplaceNoise
from tacit.mechanisms.noise_interval import interval_factor
from tacit.mechanisms.residual_basis import LevelBasis
from tacit.mechanisms.rounded_gaussian import RoundedGaussian, RoundedNoise

if TYPE_CHECKING:
    from tacit.query.postprocess.cells import Draw


#: Rounding to the grid, wrapping around it and float errors each use one of this many parts of the failure probability.
_SPARE: Final = 256
#: Width of a grid cell with all rounding, in standard deviations of the sum; a 0.95 quantile is about two of them.
_RESOLUTION: Final = 0.03
#: Longest transform, and the longest that is taken without rounding weights to a coarser grid.
_LONGEST, _LONG_ENOUGH = 1 << 16, 1 << 12
#: Absolute error allowed per term and per point of a transform; the proof file derives less than half of it.
_TRANSFORM_ERROR: Final = 2.0**-48
#: Standard deviation from which Gaussian masses are compared with those of a rounded normal.
_ROUNDED: Final = 64.0
_MARGIN: Final = 1 + 1e-9
#: More terms than this, all Gaussian of at least this variance, are compared with one normal instead of convolved.
_FEW_TERMS, _FINE = 2, 1 << 15
#: For each of several sums the number of noises of each weight.
Counts = Sequence[Sequence[int]]
QueryMechanism = Laplace | Gaussian | RoundedGaussian
IntegerNoise = LaplaceNoise | GaussianNoise | RoundedNoise


class Noise(ABC):
    """Distribution of integer noise, with the mechanism that adds it; a new one is a subclass, in :data:`NOISES`.

    Args:
        scale: the parameter of the distribution.
    """

    #: Name in plans and receipts.
    name: ClassVar[str]
    #: Power of :attr:`width` with which ``scale`` grows.
    power: ClassVar[int] = 2
    #: Type of the noise of the mechanism.
    integers: ClassVar[type[IntegerNoise]]

    def __init__(self, scale: Fraction) -> None:
        self.scale = scale

    @cached_property
    def float_scale(self) -> float:
        return float_nearest(self.scale)

    @cached_property
    def noise(self) -> IntegerNoise:
        return self.integers(self.scale)

    @staticmethod
    @abstractmethod
    def mechanism(moved: Sensitivity, relation: Relation, numbers: int, price: Fraction) -> QueryMechanism:
        """Return the mechanism that ``price``, an ε, ρ or μ, buys; it has the draw, the event and the error."""

    @staticmethod
    def exact_event(mechanism: Any, event: Event) -> Event:  # noqa: ARG004 - of some noises
        """Return the event of a mechanism's release as exactly as it is known; ``event`` is the one it states."""
        return event

    @staticmethod
    @abstractmethod
    def text(mechanism: Any) -> dict[str, str]:
        """Return sensitivity and noise of a mechanism as receipts show them."""

    @property
    def width(self) -> Fraction:
        """Scale of Laplace noise or σ of Gaussian noise, rounded up."""
        return sqrt_bounds(self.scale)[1]

    @property
    def proxy(self) -> Fraction | None:
        """The s with E exp(λX) <= exp(λ²s/2); None for noise with the tails of Laplace noise of the same scale."""
        return self.scale

    @property
    def is_nearly_normal(self) -> bool:
        """Whether sums of several such distributions are compared with one normal distribution."""
        return False

    @property
    def variance(self) -> float:
        """Variance, approximately."""
        return float_nearest(self.proxy or Fraction(0))

    def quantile_of_sum(self, terms: int, beta: Fraction) -> int | None:
        """Return the smallest w that the sum of ``terms`` noises exceeds in size with probability at most ``beta``.

        None if no exact quantile is known.
        """
        return self.noise.quantile(beta) if terms == 1 else None

    def one_sided(self, sizes: Sequence[Fraction], counts: Counts, log_high: Fraction) -> list[Fraction]:
        """Return Chernoff bounds of sums of weighted noises at probability exp(-``log_high``)."""
        squares = [size * size for size in sizes]
        return [sqrt_bounds(2 * (self.proxy or 0) * _total(each, squares) * log_high)[1] for each in counts]

    @abstractmethod
    def masses(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X = x) for the integers x = 0, 1, …."""

    @abstractmethod
    def beyond(self, last: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X > x) for each x >= 0 in ``last``."""

    def least(self, last: NDArray[np.float64]) -> NDArray[np.float64] | float:  # noqa: ARG002 - of some noises
        """Return the factor by which masses in cells that end at x may be smaller than :meth:`beyond` says."""
        return 1.0


class LaplaceLaw(Noise):
    """Discrete Laplace noise of scale t."""

    name, power, integers = "laplace", 1, LaplaceNoise

    @staticmethod
    @lru_cache(maxsize=1024)
    def mechanism(moved: Sensitivity, relation: Relation, numbers: int, price: Fraction) -> QueryMechanism:
        del numbers
        return Laplace(epsilon=price, l1_sensitivity=moved.l1, relation=relation)

    @staticmethod
    def text(mechanism: Laplace) -> dict[str, str]:
        return {"l1_sensitivity": str(mechanism.l1_sensitivity), "scale": str(mechanism.scale)}

    @property
    def width(self) -> Fraction:
        return self.scale

    @property
    def proxy(self) -> None:
        return None

    @property
    def variance(self) -> float:
        half = 0.5 / self.float_scale
        return 0.5 / math.sinh(half) ** 2 if half < 300 else 0.0

    def quantile_of_sum(self, terms: int, beta: Fraction) -> int | None:
        """Return the quantile of the sum of one, two or three noises."""
        return _laplace_sum(self.scale, terms, beta) if terms in (2, 3) else super().quantile_of_sum(terms, beta)

    def one_sided(self, sizes: Sequence[Fraction], counts: Counts, log_high: Fraction) -> list[Fraction]:
        """Return Chernoff bounds at the x that is best for the widest sum and valid for all."""
        squares = [size * size for size in sizes]
        x = _place(max(counts, key=lambda each: _total(each, squares)), sizes, log_high)
        costs = [-log_bounds(1 - (size * x) ** 2)[0] if size else Fraction(0) for size in sizes]
        # Sums without any noise are exact.
        return [
            self.scale * (log_high + _total(each, costs)) / x if _total(each, squares) else Fraction(0)
            for each in counts
        ]

    def masses(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.exp(-steps / self.float_scale) * math.tanh(0.5 / self.float_scale)
        return found

    def beyond(self, last: NDArray[np.float64]) -> NDArray[np.float64]:
        q = math.exp(-1 / self.float_scale)
        found: NDArray[np.float64] = np.exp(-(last + 1) / self.float_scale) / (1 + q)
        return found


class RoundedLaw(Noise):
    """Normal noise of variance σ², rounded to integers."""

    name = "rounded"
    integers: ClassVar[type[IntegerNoise]] = RoundedNoise

    @staticmethod
    @lru_cache(maxsize=1024)
    def mechanism(moved: Sensitivity, relation: Relation, numbers: int, price: Fraction) -> QueryMechanism:
        del numbers
        return RoundedGaussian(mu=price, l2_squared=moved.l2_squared, relation=relation)

    @staticmethod
    def text(mechanism: Any) -> dict[str, str]:
        return {"l2_sensitivity": str(mechanism.event.l2_sensitivity), "sigma": str(mechanism.event.sigma)}

    @property
    def proxy(self) -> Fraction | None:
        return RoundedNoise(self.scale).proxy

    def masses(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(X = x): twice the half-interval for 0, differences of tails elsewhere."""
        ends = np.append(0.5, self.beyond(steps))
        return np.asarray(ends[:-1] - ends[1:]) * np.where(steps == 0, 2.0, 1.0)

    def beyond(self, last: NDArray[np.float64]) -> NDArray[np.float64]:
        width = math.sqrt(2 * self.float_scale)
        # Beyond 28 a double has no smaller number than erfc.
        near = int(np.searchsorted(last, 28 * width))
        tails = np.zeros(len(last))
        tails[:near] = [math.erfc((x + 0.5) / width) / 2 for x in last[:near].tolist()]
        return tails


class GaussianLaw(RoundedLaw):
    """Discrete Gaussian noise of parameter σ²; for a large σ² its tails are nearly those of a rounded normal."""

    name, integers = "gaussian", GaussianNoise

    @staticmethod
    @lru_cache(maxsize=1024)
    def mechanism(moved: Sensitivity, relation: Relation, numbers: int, price: Fraction) -> QueryMechanism:
        return gaussian_noise(price, moved.l2_squared, numbers, relation)

    @staticmethod
    def exact_event(mechanism: Any, event: Event) -> Event:  # noqa: ARG004
        """Return the event of the integer noise itself.

        One integer moves by an integer, so that the effective sensitivity may be below the declared one.
        """
        moved = 2 * mechanism.zcdp.rho * mechanism.sigma2
        return DiscreteGaussianEvent(
            mechanism.sigma2, moved, dimension=mechanism.dimension, relation=mechanism.relation
        )

    @staticmethod
    def text(mechanism: Any) -> dict[str, str]:
        moved = 2 * mechanism.zcdp.rho * mechanism.sigma2
        return {"l2_squared": str(moved), "sigma2": str(mechanism.sigma2)}

    @property
    def proxy(self) -> Fraction | None:
        return self.scale

    @property
    def is_nearly_normal(self) -> bool:
        return self.scale >= _FINE

    def masses(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.float_scale >= _ROUNDED**2:
            total = math.sqrt(2 * math.pi * self.float_scale) * (1 + 1e-12)
        else:
            every = np.exp(-(np.arange(1.0, 40 * math.sqrt(self.float_scale) + 2) ** 2) / (2 * self.float_scale))
            total = 1 + 2 * float(every.sum())
        masses: NDArray[np.float64] = np.exp(-(steps**2) / (2 * self.float_scale)) / total
        return masses

    def beyond(self, last: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.float_scale >= _ROUNDED**2:
            return super().beyond(last)
        masses = self.masses(np.arange(0.0, 40 * math.sqrt(self.float_scale) + 2))
        sums = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        chosen: NDArray[np.float64] = sums[np.minimum(last + 1, len(masses)).astype(np.int64)]
        return chosen

    def least(self, last: NDArray[np.float64]) -> NDArray[np.float64] | float:
        if self.scale < _ROUNDED**2:
            return 1.0
        found: NDArray[np.float64] = np.exp(-((last / self.float_scale) ** 2) / 24) * (1 - 1e-12)
        return found


#: All noise distributions, by name.
NOISES: Final[dict[str, type[Noise]]] = {law.name: law for law in (LaplaceLaw, GaussianLaw, RoundedLaw)}


@lru_cache(maxsize=4096)
def noise_of(kind: str, scale: Fraction) -> Noise:
    """Return the distribution with a name of :data:`NOISES` and a scale."""
    return NOISES[kind](scale)


@lru_cache(maxsize=1024)
def gaussian_noise(rho: Fraction, l2_squared: Fraction, numbers: int, relation: Relation) -> Gaussian:
    """Return the discrete Gaussian mechanism at ``rho``; cached."""
    return Gaussian.from_rho(rho=rho, l2_squared=l2_squared, dimension=numbers, relation=relation)


class NoiseTerm(NamedTuple):
    """``number`` independent noises of one law, each times ``weight``."""

    kind: str
    scale: Fraction
    weight: Fraction
    number: int


@dataclass(frozen=True)
class LevelNoise:
    """Noise of cells that are estimated from several noisy levels; the noises of two cells are dependent.

    Args:
        basis: estimator of the cells from the levels.
        noises: kind and scale of the noise of each level.
    """

    basis: LevelBasis
    noises: tuple[tuple[str, Fraction], ...]

    def terms(self, tally: Sequence[tuple[int, int, int]]) -> tuple[NoiseTerm, ...]:
        """Return the independent noises of a tally of (level, weight, number of noises)."""
        return tuple(NoiseTerm(*self.noises[level], Fraction(weight), count) for level, weight, count in tally)


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """The noise in a released integer.

    Args:
        kind: a name of :data:`NOISES`; ``"mixed"`` if :attr:`layers` list the noises; ``"none"`` for a number that no
            data can change.
        scale: the scale t of Laplace noise; σ² of Gaussian and of normal noise; 0 for none.
        terms: number of independent noises of that law that are added or subtracted.
        unit: value of one released integer in steps of its measurement: an estimate is ``integer * unit``.
        source: index of the vector that the integer is read off. Noises of two sources are independent, and so are
            those of two groups, or of two entries of one vector. None if the source is not known.
        signs: sign with which each entry of the vector enters the integer; empty if the source is None.
        copies: number of vectors of the source that are added up, entry by entry: a total of that many groups.
        layers: of mixed noise, the independent noises of every entry of the vector; empty otherwise.
        cells: dependence between the noises of such numbers; None if they are independent.
    """

    kind: str
    scale: Fraction
    terms: int = 1
    unit: Fraction = Fraction(1)
    source: int | None = None
    signs: tuple[int, ...] = ()
    copies: int = 1
    layers: tuple[NoiseTerm, ...] = ()
    cells: LevelNoise | None = None

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise."""
        return not self.scale and not self.layers

    @property
    def has_laplace_tails(self) -> bool:
        """Whether the noise is of one distribution with the tails of Laplace noise, or is none."""
        return not self.layers and (not self.scale or noise_of(self.kind, self.scale).proxy is None)

    def smooth_error(self, beta: Fraction, fine: int) -> Fraction:
        """Return :meth:`error` on a grid that is ``fine`` times finer, so that a small error is not rounded to 0."""
        if self.is_exact or self.layers:
            return self.error(beta)
        power = noise_of(self.kind, self.scale).power
        return replace(self, scale=self.scale * fine**power).error(beta) / fine

    @property
    def noises(self) -> tuple[NoiseTerm, ...]:
        """Independent noises of one integer of the vector."""
        return self.layers or (NoiseTerm(self.kind, self.scale, Fraction(1), self.copies),)

    def summed(self, tally: Sequence[tuple[int, int, int]], source: int) -> NoiseLaw:
        """Return the law of a sum of numbers with :attr:`cells`, from a tally of (level, weight, number of noises)."""
        if self.cells is None:
            raise InternalError("only numbers that are estimated from levels have such sums")
        known = None if self.source is None else source
        return replace(self, layers=self.cells.terms(tally), cells=None, source=known)

    def added(self, copies: int, source: int) -> NoiseLaw:
        """Return the law of the sum of this integer over ``copies`` groups, as an integer read off ``source``."""
        if self.is_exact or not copies:
            return NoiseLaw("none", Fraction(0), unit=self.unit)
        known = None if self.source is None else source
        return replace(self, terms=copies * self.terms, source=known, copies=copies * self.copies)

    def error(self, beta: Number) -> Fraction:
        """Return the w, in steps, that the noise exceeds in size with probability at most ``beta``."""
        return self.unit * self.integer_error(exact_probability(beta, "beta"))

    def integer_error(self, beta: Fraction) -> Fraction:
        """Return :meth:`error` in released integers instead of steps."""
        if self.layers:
            return sum_error([term._replace(number=self.terms * term.number) for term in self.layers], beta)
        return _two_sided(self.kind, self.scale, self.terms, beta)

    @property
    def variance_bound(self) -> Fraction:
        """The variance in squared steps, rounded up."""
        if self.is_exact:
            return Fraction(0)
        once = sum(
            (
                term.number // self.copies * term.weight**2 * noise_of(term.kind, term.scale).noise.variance_bound
                for term in self.noises
            ),
            Fraction(0),
        )
        return self.terms * once * self.unit**2


@lru_cache(maxsize=4096)
def _two_sided(kind: str, scale: Fraction, terms: int, beta: Fraction) -> Fraction:
    if not scale:
        return Fraction(0)
    exact = noise_of(kind, scale).quantile_of_sum(terms, beta)
    if exact is not None:
        return Fraction(exact)
    # The sum is an integer, so the bound may be rounded down to an integer.
    return Fraction(math.floor(_sum_error(((kind, scale, 1, terms),), beta)))


def _laplace_sum(scale: Fraction, terms: int, beta: Fraction) -> int:
    """Return a w, the smallest or slightly larger, with P(|X + Y|, or |X + Y + Z|, > w) <= ``beta``."""
    if _laplace_tail_up(scale, terms, 1) <= beta:
        return 0
    low, high = 0, 1
    while _laplace_tail_up(scale, terms, high + 1) > beta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _laplace_tail_up(scale, terms, middle + 1) <= beta else (middle, high)
    return high


def _laplace_tail_up(scale: Fraction, terms: int, start: int) -> Fraction:
    """P(|sum of two or three| >= ``start``) for ``start`` >= 1, rounded up.

    A sum of m noises has P(d) = (1-q)^(2m) Σ_k C(k+m-1, m-1) C(k+d+m-1, m-1) q^(2k+d) for d >= 0, a polynomial in d
    times q^d; the code is its sum from ``start`` on, with u = 1 - q.
    """
    low, q = exp_bounds(-1 / scale)
    u, one = 1 - low, 1 + low
    power = exp_bounds(-start / scale)[1]
    if terms == 2:
        return 2 * power / one**2 * ((1 + q**2) / one + start * u + q)
    square = u**2 * start**2 / 2 + u * q * start + q * (1 + q) / 2
    linear = Fraction(3, 2) * (1 + q**2) * (u * start + q)
    return 2 * power * (square / one**3 + linear / one**4 + (1 + 4 * q**2 + q**4) / one**5)


def one_sided_error(kind: str, scale: Fraction, terms: Sequence[tuple[Fraction, int]], beta: Fraction) -> Fraction:
    """Return the s with P(Σ wᵢXᵢ > s) <= ``beta``, where ``terms`` lists pairs (weight, number of noises)."""
    return one_sided_errors(kind, scale, [weight for weight, _ in terms], [[count for _, count in terms]], beta)[0]


def one_sided_errors(
    kind: str, scale: Fraction, weights: Sequence[Fraction], counts: Sequence[Sequence[int]], beta: Fraction
) -> list[Fraction]:
    """Return :func:`one_sided_error` of several sums; ``counts``: for each sum, the number of noises of each weight.

    By Chernoff's inequality: for Laplace noise s = t·(ln(1/β) - Σ nᵢ ln(1 - wᵢ²x²))/x holds at any x between 0 and
    1/max w, and the x that is best for the widest sum serves all; for Gaussian noise s = σ·√(2 Σ nᵢwᵢ²·ln(1/β)).
    """
    sizes = [abs(weight) for weight in weights]
    squares = [size * size for size in sizes]
    log_high = log_bounds(1 / beta)[1]
    if not scale or not any(squares):
        return [Fraction(0)] * len(counts)
    return noise_of(kind, scale).one_sided(sizes, counts, log_high)


def _total(counts: Sequence[int], values: Sequence[Fraction]) -> Fraction:
    return sum((count * value for count, value in zip(counts, values, strict=True)), Fraction(0))


def _place(counts: Sequence[int], sizes: Sequence[Fraction], log_high: Fraction) -> Fraction:
    """Return a near-optimal x, searched in floats: the Chernoff bound holds at any x, so it need not be exact."""
    largest = max(sizes)
    terms = [(float_nearest(size / largest), count) for size, count in zip(sizes, counts, strict=True)]
    target = float_nearest(log_high)

    def value(y: float) -> float:
        return (target - sum(count * math.log1p(-((size * y) ** 2)) for size, count in terms)) / y

    low, high = 1e-6, 1 - 1e-6
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if value(left) <= value(right) else (left, high)
    # Below 1 after rounding: multiples of 10⁻⁶ end at 1 - 10⁻⁶.
    return Fraction(min(max(round((low + high) * 500_000), 1), 999_999), 10**6) / largest


# -- weighted sums of independent noises, by convolution


def sum_error(terms: Sequence[NoiseTerm], beta: Fraction) -> Fraction:
    """Return the w with P(|Σ weight·X| > w) <= ``beta``, over independent noises X."""
    kept = [term for term in terms if term.weight and term.scale]
    if not kept:
        return Fraction(0)
    if len(kept) == 1:
        ((kind, scale, only, number),) = kept
        exact = noise_of(kind, scale).quantile_of_sum(number, beta)
        if exact is not None:
            return abs(only) * exact
    bottom = math.lcm(*(term.weight.denominator for term in kept))
    whole = [abs(term.weight.numerator) * (bottom // term.weight.denominator) for term in kept]
    unit = math.gcd(*whole)
    tally: dict[tuple[str, Fraction, int], int] = {}
    for term, weight in zip(kept, whole, strict=True):
        key = term.kind, term.scale, weight // unit
        tally[key] = tally.get(key, 0) + term.number
    shape = tuple(sorted((*key, count) for key, count in tally.items()))
    return Fraction(unit, bottom) * _sum_error(shape, beta)


_Shape = tuple[tuple[str, Fraction, int, int], ...]


@lru_cache(maxsize=16_384)
def _sum_error(shape: _Shape, beta: Fraction) -> Fraction:
    """Return :func:`sum_error` for integer weights without a common divisor."""
    if len(shape) > _FEW_TERMS and all(noise_of(kind, scale).is_nearly_normal for kind, scale, _, _ in shape):
        spread = sqrt_bounds(sum((count * weight**2 * scale for _, scale, weight, count in shape), Fraction(0)))[1]
        return Fraction(interval_factor(1 - beta, float_nearest(min(scale for _, scale, _, _ in shape)) / 2)) * spread
    found = _convolved(shape, math.nextafter(float_nearest(beta), 0.0))
    return _chernoff(shape, beta) if found is None else Fraction(found)


def _chernoff(shape: _Shape, beta: Fraction) -> Fraction:
    """Return a Chernoff bound; if there are Laplace and Gaussian noises, each gets half of the probability.

    The bound of Laplace noise of scale t and weight w depends on t·w alone.
    """
    laplace, squares = [], Fraction(0)
    for kind, scale, weight, count in shape:
        proxy = noise_of(kind, scale).proxy
        if proxy is None:
            laplace.append((scale * weight, count))
        else:
            squares += proxy * weight**2 * count
    each = beta / 2 / (1 + bool(laplace and squares))
    return (one_sided_error(LaplaceLaw.name, Fraction(1), laplace, each) if laplace else Fraction(0)) + (
        one_sided_error(GaussianLaw.name, squares, [(Fraction(1), 1)], each) if squares else Fraction(0)
    )


def _convolved(shape: _Shape, beta: float) -> float | None:
    """Return a w with P(|Y| > w) <= ``beta`` by a transform; None if its error is too large relative to ``beta``."""
    numbers = sum(count for *_, count in shape)
    spare = beta / _SPARE
    spread = math.sqrt(sum(count * weight**2 * noise_of(kind, scale).variance for kind, scale, weight, count in shape))
    reach = _far(shape, spare / 2) * _MARGIN
    # Error of rounding, in cells: at most a half per noise; Hoeffding's bound also holds for centred bounded terms.
    slip = min(numbers / 2, math.sqrt(numbers * math.log(2 / spare) / 2)) * _MARGIN
    cell = spread * _RESOLUTION / (slip + 1)
    if 2 * reach + 3 <= (_LONGEST if cell <= 1 else _LONG_ENOUGH):
        cell, slip = 1.0, 0.0
    else:
        cell = 2.0 ** math.floor(math.log2(max(cell, 2.0)))
        while 2 * (reach / cell + slip) + 3 > _LONGEST:
            cell *= 2
            if slip * cell > reach:
                return None
    places = max(1 << math.ceil(math.log2(2 * (reach / cell + slip) + 3)), 16)
    error = (numbers + 8) * places * _TRANSFORM_ERROR
    if error > spare:
        return None
    product = np.ones(places // 2 + 1)
    for kind, scale, weight, count in shape:
        product *= _transform(kind, scale, weight, cell, places) ** count
    law = np.fft.irfft(product, places)[: places // 2]
    inside = 2 * np.cumsum(law) - law[0]
    # Rounding to the grid, wrapping around it (a Chernoff bound, and once more rounding) and float errors.
    enough = inside >= 1 - beta + 2 * spare + error
    if not enough.any():
        return None
    within = int(np.argmax(enough))
    return (within + slip) * cell * _MARGIN if slip else float(within)


def _far(shape: _Shape, beta: float) -> float:
    """Return about the distance that the sum exceeds in size with probability at most ``beta``: Chernoff in floats."""
    laplace, squares = [], 0.0
    for kind, scale, weight, count in shape:
        noise = noise_of(kind, scale)
        if noise.proxy is None:
            laplace.append((noise.float_scale * weight, count))
        else:
            squares += noise.variance * weight**2 * count
    target = math.log(2 / beta)
    if not laplace:
        return math.sqrt(2 * squares * target)
    # Chernoff's bound holds at every place y/largest with 0 < y < 1; a few of them are near enough to the best.
    largest = max(width for width, _ in laplace)

    def bound(y: float) -> float:
        x = y / largest
        costs = sum(count * math.log1p(-((width * x) ** 2)) for width, count in laplace)
        return (target - costs + squares * x * x / 2) / x

    return min(bound(y) for y in (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95))


@lru_cache(maxsize=128)
def _transform(kind: str, scale: Fraction, weight: int, cell: float, places: int) -> NDArray[np.float64]:
    """Return the Fourier transform of ``weight`` times a noise, rounded to cells; no probability is rounded up."""
    half, noise = places // 2, noise_of(kind, scale)
    law = np.zeros(places)
    if cell == 1:
        steps = np.arange((half - 1) // weight + 1, dtype=np.float64)
        law[:half:weight] = noise.masses(steps)
    else:
        # The last integer in each cell; ties are rounded towards 0, symmetrically.
        last = np.floor((np.arange(half) + 0.5) * (cell / weight))
        beyond = noise.beyond(last)
        law[0] = 1 - 2 * beyond[0]
        law[1:half] = beyond[:-1] - beyond[1:]
        law[:half] *= noise.least(last)
    np.maximum(law, 0, out=law)
    law[half + 1 :] = law[1:half][::-1]
    found: NDArray[np.float64] = np.fft.rfft(law).real
    return found


# -- sums of released numbers


#: Kind and scale of a noise, and its weight in each of some sums.
Weighed = tuple[str, Fraction, tuple[Fraction, ...]]


def independent_noises(sums: Sequence[Mapping[Draw, Fraction]], laws: Sequence[NoiseLaw]) -> Counter[Weighed]:
    """Count the independent noises that have the same law and the same weights in all sums.

    Args:
        sums: the weight of each draw in each sum; the vectors that the draws are read off are known.
        laws: noise law of each measurement.
    """
    plain: dict[tuple[int, int, int], list[Fraction]] = {}
    kinds: dict[int, NoiseLaw] = {}
    tables: dict[tuple[int, int], dict[int, list[tuple[int, Fraction]]]] = {}
    for side, weights in enumerate(sums):
        for draw, weight in weights.items():
            law = laws[draw.measure]
            source = -1 if law.source is None else law.source
            kinds[source] = law
            for place, sign in enumerate(law.signs):
                worth = sign * weight * law.unit
                if not worth:
                    continue
                if law.cells is None:
                    own = plain.setdefault((source, place, draw.group), [Fraction(0)] * len(sums))
                    own[side] += worth
                else:
                    tables.setdefault((source, place), {}).setdefault(side, []).append((draw.group, worth))
    found: Counter[Weighed] = Counter()
    for (source, _, _), own in plain.items():
        for kind, scale, weight, number in kinds[source].noises:
            found[kind, scale, tuple(weight * each for each in own)] += number if any(own) else 0
    for (source, _), sides in tables.items():
        found += _of_levels(kinds[source], sides, len(sums))
    return found


def _of_levels(law: NoiseLaw, sides: Mapping[int, Sequence[tuple[int, Fraction]]], count: int) -> Counter[Weighed]:
    """Return the independent noises of the levels of one integer of a vector."""
    if law.cells is None:
        raise AssertionError("only estimates have levels")
    basis, noises = law.cells.basis, law.cells.noises
    bottom = math.lcm(*(worth.denominator for parts in sides.values() for _, worth in parts))
    levels: list[list[NDArray[Any]]] = []
    for side in range(count):
        # Python's own integers: weights may have long denominators.
        weights = np.zeros(math.prod(basis.sizes), dtype=object)
        for group, worth in sides.get(side, ()):
            weights[group] += worth.numerator * (bottom // worth.denominator)
        levels.append(basis.noise_weights(weights.reshape(basis.sizes)))
    found: Counter[Weighed] = Counter()
    for level, (kind, scale) in enumerate(noises):
        columns = zip(*(side[level].ravel().tolist() for side in levels), strict=True)
        for both, number in Counter(columns).items():
            if any(both):
                found[kind, scale, tuple(Fraction(int(weight), bottom) for weight in both)] += number
    return found
