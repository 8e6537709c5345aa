"""Noise on counts, one object for each currency of a price: which noise it buys, and what selections cost in it.

=========== ============================== ========================== ==============================================
currency    noise on integers              its price adds up as       a selection of ε costs
=========== ============================== ========================== ==============================================
``rho``     discrete Gaussian              ρ = Δ₂²/(2σ²)              ε²/8
``mu2``     normal, rounded to integers    μ² = Δ₂²/σ²                the μ² of ε/2-DP
``epsilon`` discrete Laplace               ε = Δ₁/scale               ε
=========== ============================== ========================== ==============================================

Proof: ``count_measurement.proof.md``, *Noise*; selections: ``mechanisms/exponential.proof.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar, Final

from tacit.accounting.currencies import GAUSSIAN, PURE, ZERO_CONCENTRATED, Currency
from tacit.core.errors import InputError
from tacit.core.events import Event, ExponentialEvent, GaussianEvent, PureEvent, ZCDPEvent
from tacit.core.normal import normal_cdf_bounds
from tacit.core.numbers import Number, float_down, log_bounds, round_down, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise_interval import interval_factor, laplace_factor, rounded_normal_factor
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.noise.laplace import LARGEST_SCALE

NoiseMechanism = Gaussian | RoundedGaussian | Laplace
_DIGITS: Final = 12
#: Largest variance of noise on an integer, so that sums with it stay far below 2⁶³.
_LARGEST_VARIANCE: Final = 2.0**80


class CountNoise(ABC):
    """Noise of one currency.

    Attributes:
        name: of the currency, as stored releases write it.
        words: the noise, for people.
        power: with which power of its price the precision of a measurement grows.
        norm: 2 where noise follows how far a unit moves a vector in l2, 1 where in l1.
        mean_size: mean absolute value of the noise over its standard deviation.
    """

    name: ClassVar[str]
    words: ClassVar[str] = "Gaussian noise"
    power: ClassVar[int] = 1
    norm: ClassVar[int] = 2
    mean_size: ClassVar[float] = math.sqrt(2 / math.pi)
    currency: ClassVar[Currency]

    @abstractmethod
    def variance(self, price: Fraction, l1: int, l2_squared: int) -> Fraction:
        """Variance of the noise on each integer of a vector that one unit moves so far, or a bound on it."""

    @abstractmethod
    def mechanism(self, price: Fraction, l1: int, l2_squared: int, numbers: int, relation: Relation) -> NoiseMechanism:
        """The mechanism that a price buys."""

    @abstractmethod
    def selection_epsilon(self, price: Fraction) -> Fraction:
        """The largest ε, rounded down, of a selection by the exponential mechanism at a price."""

    @abstractmethod
    def event(self, price: Fraction, words: str, relation: Relation) -> Event:
        """An event of which the price is all that is known."""

    @abstractmethod
    def factor(self, confidence: Number, least_variance: float) -> float:
        """Half-width of an interval over the standard deviation of a weighted sum of independent noises.

        Args:
            confidence: of the interval.
            least_variance: the least :meth:`variance` among the noises, in integers.
        """

    def selection_price(self, epsilon: Fraction) -> Fraction:
        """Price of a selection of ε."""
        return self.currency.cost(ExponentialEvent(epsilon), ADD_REMOVE)[self.currency.amounts[0]]

    def halved(self, price: Fraction) -> Fraction:
        """The price at which the standard deviation of the noise is half as large."""
        return price * (4 if self.power == 1 else 2)

    def _found(self, epsilon: Fraction, price: Fraction, costs: Callable[[Fraction], Fraction]) -> Fraction:
        found = round_down(epsilon, _DIGITS)
        while found > 0 and costs(found) > price:
            found = round_down(found * (1 - Fraction(1, 10**_DIGITS)), _DIGITS)
        if found <= 0:
            raise InputError("price", "is too small to buy anything")
        return found

    def check(self, variance: Fraction) -> None:
        """Refuse noise that is too large for integers of 64 bits, before anything is charged."""
        if variance > _LARGEST_VARIANCE:
            raise InputError(
                "price", f"is too small: noise would have a standard deviation of {math.sqrt(variance):.1e}; state more"
            )


class _DiscreteGaussian(CountNoise):
    name = "rho"
    currency = ZERO_CONCENTRATED

    def variance(self, price: Fraction, l1: int, l2_squared: int) -> Fraction:  # noqa: ARG002 - l2 alone matters
        return l2_squared / (2 * price)

    def mechanism(self, price: Fraction, l1: int, l2_squared: int, numbers: int, relation: Relation) -> Gaussian:
        self.check(self.variance(price, l1, l2_squared))
        return Gaussian.from_rho(rho=price, l2_squared=l2_squared, dimension=numbers, whole=True, relation=relation)

    def selection_epsilon(self, price: Fraction) -> Fraction:
        return round_down(sqrt_bounds(8 * price)[0], _DIGITS)

    def selection_price(self, epsilon: Fraction) -> Fraction:
        return epsilon**2 / 8

    def event(self, price: Fraction, words: str, relation: Relation) -> Event:
        return ZCDPEvent(price, mechanism=words, relation=relation)

    def factor(self, confidence: Number, least_variance: float) -> float:
        return interval_factor(confidence, least_variance)


class _RoundedGaussian(CountNoise):
    name = "mu2"
    currency = GAUSSIAN

    def variance(self, price: Fraction, l1: int, l2_squared: int) -> Fraction:  # noqa: ARG002 - l2 alone matters
        return l2_squared / price

    def mechanism(
        self, price: Fraction, l1: int, l2_squared: int, numbers: int, relation: Relation  # noqa: ARG002
    ) -> RoundedGaussian:  # fmt: skip
        self.check(self.variance(price, l1, l2_squared))
        return RoundedGaussian(mu=round_down(sqrt_bounds(price)[0]), l2_squared=l2_squared, relation=relation)

    def selection_epsilon(self, price: Fraction) -> Fraction:
        # ε-bounded range is ε/2-DP in a GDP account, and μ = 2Φ⁻¹(e^(ε/2)/(1 + e^(ε/2))).
        low = normal_cdf_bounds(min(sqrt_bounds(price)[0], Fraction(16)) / 2)[0]
        return self._found(2 * log_bounds(low / (1 - low))[0], price, self.selection_price)

    def event(self, price: Fraction, words: str, relation: Relation) -> Event:  # noqa: ARG002 - has no label
        return GaussianEvent(Fraction(1), sqrt_bounds(price)[1], relation=relation)

    def factor(self, confidence: Number, least_variance: float) -> float:
        return rounded_normal_factor(confidence, least_variance)


class _DiscreteLaplace(CountNoise):
    name = "epsilon"
    words = "Laplace noise"
    power = 2
    norm = 1
    mean_size = math.sqrt(1 / 2)
    currency = PURE

    def variance(self, price: Fraction, l1: int, l2_squared: int) -> Fraction:  # noqa: ARG002 - l1 alone matters
        # That of continuous noise of the same scale, which is a little more.
        return 2 * (l1 / price) ** 2

    def mechanism(self, price: Fraction, l1: int, l2_squared: int, numbers: int, relation: Relation) -> Laplace:  # noqa: ARG002
        self.check(max(self.variance(price, l1, l2_squared), Fraction(0)))
        if l1 / price > LARGEST_SCALE:
            raise InputError("price", f"is too small: noise would have a scale of {float(l1 / price):.1e}; state more")
        return Laplace(epsilon=price, l1_sensitivity=l1, relation=relation)

    def selection_epsilon(self, price: Fraction) -> Fraction:
        return self._found(price, price, lambda each: each)

    def event(self, price: Fraction, words: str, relation: Relation) -> Event:
        return PureEvent(price, words, relation=relation)

    def factor(self, confidence: Number, least_variance: float) -> float:
        return laplace_factor(confidence, float_down(sqrt_bounds(Fraction(least_variance) / 2)[0]))


DISCRETE_GAUSSIAN: Final = _DiscreteGaussian()
ROUNDED_GAUSSIAN: Final = _RoundedGaussian()
DISCRETE_LAPLACE: Final = _DiscreteLaplace()
#: By name.
COUNT_NOISES: Final = {each.name: each for each in (DISCRETE_GAUSSIAN, ROUNDED_GAUSSIAN, DISCRETE_LAPLACE)}


def noise_variance(mechanism: NoiseMechanism) -> Fraction:
    """Variance of the noise on each integer, before it is rounded to one, as :meth:`CountNoise.factor` reads it."""
    return 2 * mechanism.scale**2 if isinstance(mechanism, Laplace) else mechanism.sigma2
