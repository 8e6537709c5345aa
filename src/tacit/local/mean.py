"""Mean of a bounded number, from locally differentially private reports.

A value is stochastically rounded to a grid of ``steps`` + 1 points, which keeps its expectation. The report is then one
of ``steps`` + ``window`` integers, of which the ``window`` integers from the point's index on are favoured. The
expected report is linear in the point, so a report maps back to an unbiased estimate of its sender's value. One step
with a window of one is randomized response after stochastic rounding; many steps are the piecewise mechanism on a grid.
See ``mean.proof.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact, exact_probability, float_nearest
from tacit.local.frequency import bernstein_width
from tacit.local.protocol import Counts, Draws, IntegerProtocol, in_words, whole_number, window_truth
from tacit.mechanisms.randomized_response import clopper_pearson
from tacit.noise.bernoulli import Coin

_STEPS: Final = 1024
#: ε up to which the piecewise mechanism is never better than rounding (Wang et al. 2019).
_HYBRID_FROM: Final = 0.61
#: Decimal digits of a stand-in for huge and infinite values, larger than any accepted bound.
_DIGITS: Final = 330
_HUGE: Final = 10**_DIGITS
METHODS: Final = ("rounding", "piecewise", "hybrid")


@dataclass(frozen=True)
class MeanOfReports:
    """Estimated mean of the respondents' values.

    Attributes:
        mean: unbiased estimate, in the units of the values.
        standard_error: estimated standard deviation over coins and respondents.
        low: lower end of the interval.
        high: upper end; the interval contains the mean of the respondents with probability at least ``confidence``.
        confidence: coverage of the interval.
        n: number of reports.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    confidence: float
    n: int

    def consistent(self) -> MeanOfReports:
        """Return the estimate with its mean clipped to the interval, which lies within the bounds."""
        inside = min(max(self.mean, self.low), self.high)
        return MeanOfReports(inside, self.standard_error, self.low, self.high, self.confidence, self.n)


class _Window:
    """Randomisation of a grid point, by a window of favoured integers."""

    def __init__(self, epsilon: Fraction, steps: int, window: int) -> None:
        self.steps, self.window, self.reports = steps, window, steps + window
        self.truth = window_truth(epsilon, window, steps)
        self.coin = Coin(self.truth)
        away = (1 - self.truth) / steps
        # E[report | point] = base + lean·point.
        self.lean = self.truth - away * window
        inside, all_ = Fraction(window * (window - 1), 2), Fraction(self.reports * (self.reports - 1), 2)
        self.base = self.truth * Fraction(window - 1, 2) + away * (all_ - inside)

    def draw(self, share: Fraction, draws: Draws) -> int:
        point, rest = divmod(share.numerator * self.steps, share.denominator)
        if rest:
            point += draws.below(share.denominator) < rest
        if draws.toss(self.coin):
            return point + (draws.below(self.window) if self.window > 1 else 0)
        other = draws.below(self.steps) if self.steps > 1 else 0
        return other if other < point else other + self.window

    def values(self) -> list[Fraction]:
        """Return, for each report, the unbiased estimate of the value's share of the way between the bounds."""
        return [(report - self.base) / (self.lean * self.steps) for report in range(self.reports)]

    def variance(self, point: int) -> Fraction:
        away = (1 - self.truth) / self.steps
        near = self.truth / self.window
        law = [near if point <= y < point + self.window else away for y in range(self.reports)]
        values = self.values()
        mean = sum(p * v for p, v in zip(law, values, strict=True))
        return sum((p * v * v for p, v in zip(law, values, strict=True)), Fraction(0)) - mean * mean


class LocalMean(IntegerProtocol):
    """Protocol that estimates the mean of a number within ``bounds``.

    Privacy:
        relation: replace-one. ε-DP of one report: given the grid point, each favoured report is e^ε times as likely
        as each other one, or a hair less; rounding to the grid mixes such laws. Hybrid: which of the two ways is
        taken does not depend on the value.

    Sensitivity:
        none to state: a value may change to any other. Values are clamped to the bounds; a value that is no number
        counts as their middle.

    Error:
        worst-case variance per report: :meth:`variance`. Rounding: at most ((e^ε + 1)/(e^ε - 1))²/4 times the squared
        length of the bounds. Hybrid is within a percent of the better way at every ε, and mostly better than both.

    Assumes:
        clients follow the protocol.

    References:
        Duchi, Jordan and Wainwright (2018); Wang, Xiao, Yang, Zhao, Hui, Shin, Shin and Yu (2019).
    """

    kind: ClassVar[str] = "mean"

    def __init__(self, *, bounds: tuple[Number, Number], epsilon: Number, method: str = "hybrid") -> None:
        low, high = (exact(each, "bounds") for each in bounds)
        if low >= high:
            raise InputError("bounds", "must be two numbers, the smaller first")
        if method not in METHODS:
            raise InputError("method", f"must be one of {', '.join(METHODS)}")
        self.bounds, self.method = (low, high), method
        epsilon = exact(epsilon, "epsilon")
        super().__init__(epsilon=epsilon, alphabet=2)
        share = 0.0 if method == "rounding" else 1.0
        if method == "hybrid":
            share = max(1 - math.exp(-epsilon / 2), 0.0) if epsilon > _HYBRID_FROM else 0.0
        #: Probability of the piecewise mechanism; rounding is used otherwise.
        self.mixture = exact_probability(Fraction(round(share * 2**16), 2**16), "mixture", zero=True, one=True)
        window = max(round(_STEPS / math.exp(float_nearest(self._epsilon) / 2)), 1)
        self._rounding = _Window(self._epsilon, 1, 1)
        self._piecewise = _Window(self._epsilon, _STEPS, window)
        self._pick = Coin(self.mixture)
        ways = [*([self._rounding] if self.mixture < 1 else []), *([self._piecewise] if self.mixture else [])]
        super().__init__(epsilon=epsilon, alphabet=sum(way.reports for way in ways))
        low_, length = float_nearest(low), float_nearest(high - low)
        self._values: NDArray[np.float64] = low_ + length * np.array(
            [float_nearest(value) for way in ways for value in way.values()]
        )

    def draw(self, value: object, draws: Draws) -> int:
        """Draw a report; where both mechanisms are in use, the reports of rounding come first."""
        share = self.share_of(value)
        if self.mixture == 0 or (self.mixture < 1 and not draws.toss(self._pick)):
            return self._rounding.draw(share, draws)
        return self._piecewise.draw(share, draws) + (self._rounding.reports if self.mixture < 1 else 0)

    def share_of(self, value: object) -> Fraction:
        """Return the exact (value - low)/(high - low), clipped to [0, 1]; one half for a value that is no number."""
        low, high = self.bounds
        number = _exact(value)
        if number is None:
            return Fraction(1, 2)
        if number <= low:
            return Fraction(0)
        return Fraction(1) if number >= high else (number - low) / (high - low)

    def variance(self) -> float:
        """Return the largest variance of one report's estimate, over all values, in squared units of the value."""
        length = float_nearest(self.bounds[1] - self.bounds[0]) ** 2
        share = float_nearest(self.mixture)
        return length * max(
            (1 - share) * float_nearest(self._rounding.variance(point > 0) + _between(point))
            + share * float_nearest(self._piecewise.variance(point))
            for point in (0, _STEPS // 2, _STEPS)
        )

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> MeanOfReports:
        """Return the unbiased mean; its interval is Clopper-Pearson for rounding alone, else empirical Bernstein."""
        mean = float(counts @ self._values / n)
        variance = float(counts @ (self._values - mean) ** 2) / max(n - 1, 1)
        tail = (1 - confidence) / 2
        low, high = (float_nearest(each) for each in self.bounds)
        if self.mixture == 0:
            ends = clopper_pearson(int(counts[1]), n, tail)
            step = self._values[1] - self._values[0]
            found = [float(self._values[0] + step * each) for each in ends]
        else:
            width = float(bernstein_width(variance, float(self._values.max() - self._values.min()), n, tail))
            found = [mean - width, mean + width]
        return MeanOfReports(
            mean=mean,
            standard_error=math.sqrt(variance / n),
            low=min(max(found[0], low), high),
            high=min(max(found[1], low), high),
            confidence=confidence,
            n=n,
        )

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [in_words(each) for each in self.bounds], "method": self.method}


def _exact(value: object) -> Fraction | None:
    """Return a number of any type as an exact rational, with huge ones clipped; None for a value that is no number."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Decimal):
        if value.is_nan():
            return None
        # As a Fraction, a decimal with a large exponent would be a very long integer.
        if value.is_infinite() or abs(value.adjusted()) > _DIGITS:
            value = Decimal(0) if value.is_finite() and value.adjusted() < 0 else Decimal(_HUGE).copy_sign(value)
        return Fraction(value)
    whole = whole_number(value)
    if whole is not None:
        return Fraction(whole)
    if not isinstance(value, Real):
        return None
    number = float(value)
    if math.isnan(number):
        return None
    return Fraction(math.copysign(1, number)) * _HUGE if math.isinf(number) else Fraction(number)


def _between(point: int) -> Fraction:
    """Return the variance of stochastic rounding to the ends of [0, 1], at a point of the fine grid."""
    share = Fraction(point, _STEPS)
    return share * (1 - share) if 0 < share < 1 else Fraction(0)
