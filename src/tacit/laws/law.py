"""Base class of noise laws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

from tacit.core.divergences import Enclosure
from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import Number, exact, exact_probability, float_nearest, sqrt_bounds

#: Digits tried, in turn, when a cdf is too close to a probability to call.
_PRECISIONS = (40, 80, 160, 320)


class Law(ABC):
    """A law of noise: where it puts its probability, how heavy its tails are, how wide it is."""

    #: The name that charts and sentences use.
    name: str

    @abstractmethod
    def weight(self, x: Number) -> Enclosure:
        """The density of a continuous law at ``x``, the probability of ``x`` under a discrete one."""

    @abstractmethod
    def cdf(self, x: Number) -> Enclosure:
        """Pr[X <= ``x``]."""

    @abstractmethod
    def tail(self, w: Number) -> Enclosure:
        """Pr[|X| >= ``w``]: how often the noise is at least that large."""

    @abstractmethod
    def quantile(self, probability: Number) -> Enclosure | int:
        """The smallest x with Pr[X <= x] >= ``probability``: enclosed, or an integer under a discrete law."""

    @property
    @abstractmethod
    def mean(self) -> Enclosure:
        """The expectation of X."""

    @property
    @abstractmethod
    def mean_size(self) -> Enclosure:
        """The expectation of |X|."""

    @property
    @abstractmethod
    def variance(self) -> Enclosure:
        """The variance of X."""

    @property
    def std(self) -> Enclosure:
        """The standard deviation of X."""
        spread = self.variance
        return Enclosure(sqrt_bounds(Fraction(spread.low))[0], sqrt_bounds(Fraction(spread.high))[1])

    def chart(self, **options: Any) -> Any:
        """The law drawn, as an Altair chart; the options are those of :func:`~tacit.laws.charts.chart_laws`."""
        from tacit.laws.charts import chart_laws

        return chart_laws(self, **options)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class ContinuousLaw(Law):
    """A law with a density. Textbooks calibrate it; on floats it is not private, so no mechanism of Tacit draws it."""

    def density(self, x: Number) -> Enclosure:
        """The density at ``x``."""
        return self.weight(x)

    @abstractmethod
    def quantile(self, probability: Number) -> Enclosure:
        """The x with Pr[X <= x] = ``probability``."""


class DiscreteLaw(Law):
    """A law on the integers: one that mechanisms draw from."""

    def mass(self, x: Number) -> Enclosure:
        """The probability of ``x``, which must be whole."""
        return self.weight(whole(x, "x"))

    def quantile(self, probability: Number) -> int:
        """The smallest integer x with Pr[X <= x] >= ``probability``."""
        wanted = exact_probability(probability, "probability")
        low, high = -1, 1
        while self._is_below(low, wanted) is False:
            low *= 2
            if low < self._least():
                low = self._least() - 1
                break
        while self._is_below(high, wanted):
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_below(middle, wanted) else (low, middle)
        return high

    def _least(self) -> int:
        """An integer below which there is no probability, or one so low that it does not matter."""
        return -(1 << 60)

    def _is_below(self, x: int, wanted: Fraction) -> bool:
        found = self.cdf(x)
        if found.high < wanted or found.low >= wanted:
            return found.high < wanted
        for digits in _PRECISIONS:
            found = self._cdf_at(x, digits)
            if found.high < wanted or found.low >= wanted:
                return found.high < wanted
        raise AccountingError(f"the cdf at {x} is too close to {float_nearest(wanted):g} to call; ask for another one")

    def _cdf_at(self, x: int, digits: int) -> Enclosure:  # noqa: ARG002 - laws that can be refined use them
        return self.cdf(x)


def enclose(low: Fraction, high: Fraction) -> Enclosure:
    """An enclosure of a probability: its ends kept within 0 and 1."""
    return Enclosure(max(low, Fraction(0)), min(high, Fraction(1)))


def whole(x: Number, parameter: str) -> int:
    """``x`` as an integer, or an error that says that the law lives on the integers."""
    value = exact(x, parameter)
    if value.denominator != 1:
        raise InputError(parameter, "must be a whole number: a discrete law puts its probability on the integers")
    return value.numerator
