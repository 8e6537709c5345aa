"""Noisy measurements of counts: an integer strategy, exact noise, the sensitivity of the two, and their price.

=========== ============================== ========================== ==============================================
currency    noise on integers              its cost adds up as        a selection of ε costs
=========== ============================== ========================== ==============================================
``rho``     discrete Gaussian              ρ = Δ₂²/(2σ²)              ε²/8
``mu2``     normal, rounded to integers    μ² = Δ₂²/σ²                the μ² of ε/2-DP
``epsilon`` discrete Laplace               ε = Δ₁/scale               ε
=========== ============================== ========================== ==============================================

Proofs: ``count_measurement.proof.md``; selections: ``mechanisms/exponential.proof.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.currencies import GAUSSIAN, PURE, ZERO_CONCENTRATED, AccountGuarantee, Currency
from tacit.core.errors import InputError
from tacit.core.events import Event, ExponentialEvent, GaussianEvent, PureEvent, ZCDPEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.normal import normal_cdf_bounds
from tacit.core.numbers import Number, float_down, float_up, log_bounds, round_down, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise_interval import interval_factor, laplace_factor, rounded_normal_factor
from tacit.mechanisms.rounded_gaussian import RoundedGaussian
from tacit.noise.laplace import LARGEST_SCALE
from tacit.query.parsing.parse import Options
from tacit.query.planning.pricing import largest_mu_of, largest_rho_of
from tacit.query.request import Request, Terms, settle
from tacit.synth.marginal_counts import CountingContext
from tacit.synth.strategy import IntegerStrategy, least

NoiseMechanism = Gaussian | RoundedGaussian | Laplace
_DIGITS: Final = 12
#: Largest variance of noise on an integer, so that sums with it stay far below 2⁶³.
_LARGEST_VARIANCE: Final = 2.0**80


class CountNoise(ABC):
    """Kind of noise on counts, whose cost is counted in one currency.

    Attributes:
        name: name of the currency in stored releases.
        words: name of the noise in texts.
        power: exponent p such that the precision (1/variance) of a measurement grows as cost^p.
        norm: 2 where noise is calibrated to l2 sensitivity, 1 where to l1 sensitivity.
        mean_size: ratio of the mean absolute value of the noise to its standard deviation.
    """

    name: ClassVar[str]
    words: ClassVar[str] = "Gaussian noise"
    power: ClassVar[int] = 1
    norm: ClassVar[int] = 2
    mean_size: ClassVar[float] = math.sqrt(2 / math.pi)
    currency: ClassVar[Currency]

    @abstractmethod
    def variance(self, price: Fraction, l1: int, l2_squared: int) -> Fraction:
        """Return (a bound on) the noise variance on each integer of a vector with l1 and squared l2 sensitivity."""

    @abstractmethod
    def mechanism(self, price: Fraction, l1: int, l2_squared: int, numbers: int, relation: Relation) -> NoiseMechanism:
        """Return the mechanism that has this cost for a vector of these sensitivities."""

    @abstractmethod
    def selection_epsilon(self, price: Fraction) -> Fraction:
        """Return the largest ε, rounded down, of a selection by the exponential mechanism at this cost."""

    @abstractmethod
    def event(self, price: Fraction, words: str, relation: Relation) -> Event:
        """Return a privacy event that states the cost alone."""

    @abstractmethod
    def factor(self, confidence: Number, least_variance: float) -> float:
        """Return the ratio of an interval's half-width to the standard deviation, for weighted sums of such noise.

        Args:
            confidence: confidence of the interval.
            least_variance: the smallest :meth:`variance` among the independent noises, in squared integers.
        """

    def selection_price(self, epsilon: Fraction) -> Fraction:
        """Return the cost of a selection with this ε."""
        return self.currency.cost(ExponentialEvent(epsilon), ADD_REMOVE)[self.currency.amounts[0]]

    def halved(self, price: Fraction) -> Fraction:
        """Return the cost at which the standard deviation of the noise is half as large."""
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
        # The variance of continuous noise of the same scale, which is slightly larger.
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
#: Kinds of noise by name.
COUNT_NOISES: Final = {each.name: each for each in (DISCRETE_GAUSSIAN, ROUNDED_GAUSSIAN, DISCRETE_LAPLACE)}


def noise_variance(mechanism: NoiseMechanism) -> Fraction:
    """Return the noise variance on each integer, before rounding to integers, for :meth:`CountNoise.factor`."""
    return 2 * mechanism.scale**2 if isinstance(mechanism, Laplace) else mechanism.sigma2


#: Function from columns to their exact cell counts, in the order of the columns; these never leave the curator.
CountSource = Callable[[tuple[str, ...]], NDArray[np.int64]]
#: Integers are scaled up until the variance of their noise is at least this: a finer grid at the same cost.
_LEAST_VARIANCE: Final = 2**16
#: The square of a column stays below this, so that sums over a table of 2⁴⁰ rows stay below 2⁶².
_LARGEST_COLUMN: Final = 2**40
#: Resolution with which a budget is divided.
_PARTS: Final = 10**9


@dataclass(frozen=True, eq=False)
class CountMeasurement:
    """Release of one integer vector: strategies applied to the counts of some columns, plus noise.

    Args:
        columns: columns whose cross product is counted.
        strategies: one strategy for each axis; together they read all cells. Empty for the counts themselves.
        price: cost in the currency of the noise: ρ, μ² or ε.
        rows: the most rows of one unit that count.
        relation: neighbouring relation of databases.
        noise: the kind of noise.

    Privacy:
        under ``relation``, with ``price`` as ρ, μ² or ε by the kind of noise: ρ-zCDP, μ-GDP or ε-DP.

    Sensitivity:
        one unit adds at most ``rows`` rows, each of which moves the vector by one column of the strategy: at most
        ``rows`` times the largest column, in l2 and in l1, which is the product of the largest columns along the axes.

    Error:
        :attr:`sigma2` is the noise variance on every integer, rounded up; least-squares estimates follow :meth:`solve`.

    Assumes:
        that the counts are of rows of which each unit has at most ``rows``, and of fewer than 2⁴⁰ in all.

    References:
        Canonne, Kamath, Steinke (2020). Proof: ``count_measurement.proof.md``.
    """

    columns: tuple[str, ...]
    strategies: tuple[IntegerStrategy, ...]
    price: Fraction
    rows: int = 1
    relation: Relation = ADD_REMOVE
    noise: CountNoise = DISCRETE_GAUSSIAN

    @cached_property
    def scale(self) -> int:
        """Factor of all integers, a power of two; noise on a coarser grid would have wider intervals."""
        scale = 1
        column = math.prod(strategy.column_squares[1] for strategy in self.strategies)
        variance = self.noise.variance(self.price, self._moved_l1, self._moved)
        while column * (2 * scale) ** 2 <= _LARGEST_COLUMN and variance * scale**2 < _LEAST_VARIANCE:
            scale *= 2
        return scale

    @cached_property
    def l2_squared(self) -> int:
        """Squared l2 sensitivity of the vector to one unit, computed exactly from all columns."""
        return self._moved * self.scale**2

    @property
    def l1(self) -> int:
        """l1 sensitivity of the vector to one unit, computed exactly from all columns."""
        return self._moved_l1 * self.scale

    @cached_property
    def _moved_l1(self) -> int:
        column = math.prod(strategy.column_size for strategy in self.strategies)
        return self.rows * column * (1 if self.relation is ADD_REMOVE else 2)

    @cached_property
    def _moved(self) -> int:
        squares = [strategy.column_squares for strategy in self.strategies]
        column = math.prod(high for _, high in squares)
        if self.relation is not ADD_REMOVE:
            # One row is replaced by another: |a - b|² = |a|² + |b|² - 2ab.
            column = max(column, 2 * column - 2 * least(squares)) if squares else column
        return self.rows**2 * column

    @property
    def outputs(self) -> int:
        return math.prod(strategy.outputs for strategy in self.strategies)

    @cached_property
    def mechanism(self) -> NoiseMechanism:
        return self.noise.mechanism(self.price, self.l1, self.l2_squared, self.outputs, self.relation)

    @property
    def event(self) -> Event:
        """Privacy event of the release."""
        return self.mechanism.event

    @cached_property
    def variance(self) -> Fraction:
        """Variance of the noise on each integer before rounding to integers, for intervals."""
        return noise_variance(self.mechanism)

    @cached_property
    def sigma2(self) -> float:
        """Variance of the noise on each integer divided by :attr:`scale`², rounded up."""
        return float_up(self.variance / self.scale**2)

    def inputs(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact integers before noise: the scaled counts with the strategies applied along each axis."""
        shape = tuple(strategy.inputs for strategy in self.strategies)
        vector = self.scale * counts.reshape(shape)
        for axis, strategy in enumerate(self.strategies):
            vector = strategy.apply(vector, axis)
        return vector

    def release(self, source: CountSource) -> NDArray[np.int64]:
        """Return the integers with noise: the only step at which exact counts become a release."""
        raw_inputs = self.inputs(source(self.columns))
        noisy = add_noise(self.mechanism, raw_inputs.ravel())
        return noisy.reshape(raw_inputs.shape)

    def solve(self, noisy: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return least-squares estimates of the counts (of centred counts, for centred strategies)."""
        estimate = noisy / self.scale
        for axis, strategy in enumerate(self.strategies):
            estimate = strategy.solve(estimate, axis)
        return estimate


def add_noise(mechanism: NoiseMechanism, raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return integers with a mechanism's noise added; record-and-replay hooks in here."""
    return np.asarray(mechanism.release(raw), dtype=np.int64)


def divide(whole: Fraction, claims: Sequence[float] | NDArray[Any]) -> tuple[Fraction, ...]:
    """Divide a budget in proportion to claims, into exact positive parts that add up to the whole.

    >>> divide(Fraction(1), [1.0, 1.0])
    (Fraction(1, 2), Fraction(1, 2))
    """
    total = math.fsum(claims)
    parts = [max(1, int(_PARTS * float(claim) / total)) for claim in claims]
    all_parts = sum(parts)
    return tuple(whole * Fraction(part, all_parts) for part in parts)


#: Options of a query that apply to a workload.
_HEEDED: Final = ("epsilon", "delta", "rho", "mu", "confidence", "max_rows")


class CountPrice(NamedTuple):
    """Cost of a release of counts: the amount in the currency of its noise, and the guarantee that is charged."""

    amount: Fraction
    noise: CountNoise
    guarantee: AccountGuarantee


def value_delta(terms: Terms) -> Fraction:
    """Return the δ available for private selection of values; 0 where the account has none."""
    if terms.account == "zcdp":
        own = terms.delta or Fraction(0)
        return own if terms.currency == "rho" or terms.alone is None else min(own, terms.alone / 2)
    return (terms.delta or Fraction(0)) / 2 if terms.account == "approx" else Fraction(0)


def count_price(terms: Terms, relation: Relation, own: Fraction = Fraction(0)) -> CountPrice:
    """Return the kind and cost of noise on counts for the terms of a request, and the charge.

    A pure account has Laplace noise, a gdp account rounded normal noise, other accounts discrete Gaussian noise.

    Args:
        terms: settled cost and options of the request.
        relation: neighbouring relation of databases.
        own: share of δ spent on private selection of values, see :func:`value_delta`.

    Raises:
        InputError: an epsilon needs a delta and has none, or is too small.
    """
    if terms.account == "pure":
        return CountPrice(terms.amount, DISCRETE_LAPLACE, PureDP(terms.amount, relation=relation))
    if terms.currency == "rho":
        return CountPrice(terms.amount, DISCRETE_GAUSSIAN, ZCDP(terms.amount, delta=own, relation=relation))
    if terms.currency == "mu":
        return CountPrice(terms.amount**2, ROUNDED_GAUSSIAN, GDP(terms.amount, relation=relation))
    delta = meant_delta(terms)
    if not delta:
        raise InputError("delta", "must be stated: an epsilon buys Gaussian noise at a delta alone, such as 1e-6")
    if terms.account == "gdp":
        mu = largest_mu_of(terms.amount, delta)
        return CountPrice(mu**2, ROUNDED_GAUSSIAN, GDP(mu, relation=relation))
    rho = largest_rho_of(terms.amount, delta - own)
    if rho <= 0:
        raise InputError("epsilon", "is too small to buy anything at this delta")
    if terms.account == "zcdp":
        return CountPrice(rho, DISCRETE_GAUSSIAN, ZCDP(rho, delta=own, relation=relation))
    return CountPrice(rho, DISCRETE_GAUSSIAN, ApproxDP(terms.amount, delta, relation=relation))


def meant_delta(terms: Terms) -> Fraction | None:
    """Return the delta that belongs to a stated epsilon, or None."""
    return terms.delta if terms.account == "approx" else terms.alone


def settled(
    context: CountingContext, population: str, options: Mapping[str, Any], heeded: Sequence[str] = _HEEDED
) -> Terms:
    """Return the terms of a release that is no query; refuse options that do not apply to it.

    Raises:
        InputError: an option contradicts another option or the account, or does not apply.
    """
    for name, value in options.items():
        if value is not None and name not in heeded:
            raise InputError(name, f"means nothing here; state one of {', '.join(heeded)}")
    request = Request(**options, account=context.accounts[population])
    return settle(request, Options())


def count_prices(terms: Terms, relation: Relation) -> tuple[CountPrice, ...]:
    """Return the possible kinds of noise on counts for the terms of a request, each with its charge within the terms.

    For (ε, δ) in an approx account: Gaussian noise at both, or Laplace noise at ε alone, which costs no δ.
    """
    if terms.account != "approx" or terms.currency != "epsilon":
        return (count_price(terms, relation),)
    pure = CountPrice(terms.amount, DISCRETE_LAPLACE, ApproxDP(terms.amount, 0, relation=relation))
    delta = meant_delta(terms)
    if not delta or largest_rho_of(terms.amount, delta) <= 0:
        return (pure,)
    return count_price(terms, relation), pure
