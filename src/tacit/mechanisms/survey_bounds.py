"""Error bounds of surveys by randomized response.

Each of n people tells the truth with probability 1/2 + γ. The estimate of the share of yes is unbiased with a variance
of (1/4 - γ²)/(4γ²n) <= 1/(16γ²n). Chebyshev's inequality turns this into an error of at most 1/(2γ√n) with probability
3/4; lectures round it up to 1/(γ√n), so that n >= 1/(γ²α²) people are enough for an error of α. Hoeffding's
inequality says that the rounded bound holds with probability 1 - 2e⁻⁸, far more than 3/4.

>>> print(survey_bounds(gamma="0.25", people=6400))
γ = 0.25, 6,400 people: off by at most 0.05 = 1/(γ√n),
with probability 3/4 as lectures say, 0.999329 as Hoeffding proves;
with probability 3/4: Chebyshev 0.0216507, Hoeffding 0.0254917
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_nearest,
    format_up,
    log_bounds,
    round_down,
    round_up,
    sqrt_bounds,
)
from tacit.mechanisms.randomized_response import RandomizedResponse

__all__ = ["SurveyBounds", "survey_bounds", "survey_size"]


@dataclass(frozen=True)
class SurveyBounds:
    """Bounds on the error of the unbiased estimate from ``people`` reports that lean by ``gamma`` to the truth."""

    gamma: Fraction
    people: int

    @property
    def textbook(self) -> Fraction:
        """1/(γ√n), rounded up: holds with probability 3/4, and with far more."""
        return round_up(1 / (self.gamma * sqrt_bounds(Fraction(self.people))[0]))

    @property
    def textbook_confidence(self) -> Fraction:
        """The probability with which Hoeffding's inequality proves the textbook's bound, rounded down: 1 - 2e⁻⁸."""
        return round_down(1 - 2 * exp_bounds(Fraction(-8))[1])

    @property
    def variance(self) -> Fraction:
        """The variance of the estimate given the true answers: (1/4 - γ²)/(4γ²n)."""
        return (Fraction(1, 4) - self.gamma**2) / (4 * self.gamma**2 * self.people)

    def chebyshev(self, beta: Number = "1/4") -> Fraction:
        """√(variance/β), rounded up: the error is larger with probability at most ``beta``."""
        return round_up(sqrt_bounds(self.variance / exact_probability(beta, "beta"))[1])

    def hoeffding(self, beta: Number = "1/4") -> Fraction:
        """√(ln(2/β)/8)/(γ√n), rounded up: the error is larger with probability at most ``beta``."""
        spread = log_bounds(2 / exact_probability(beta, "beta"))[1] / (8 * self.people)
        return round_up(sqrt_bounds(spread)[1] / self.gamma)

    def __str__(self) -> str:
        return (
            f"γ = {format_up(self.gamma)}, {self.people:,} people: "
            f"off by at most {format_up(self.textbook)} = 1/(γ√n),\n"
            f"with probability 3/4 as lectures say, {float_nearest(round_down(self.textbook_confidence, 6)):g} "
            f"as Hoeffding proves;\nwith probability 3/4: Chebyshev {format_up(self.chebyshev())}, "
            f"Hoeffding {format_up(self.hoeffding())}"
        )


def survey_bounds(*, gamma: Number, people: SupportsIndex) -> SurveyBounds:
    """The bounds for a survey of ``people`` who tell the truth with probability 1/2 + ``gamma``."""
    return SurveyBounds(RandomizedResponse(gamma=gamma).gamma, check_count(people, "people"))


def survey_size(*, gamma: Number, within: Number) -> int:
    """The people of the blackboard's rule n >= 1/(γ²α²), for an error of α = ``within`` with probability 3/4 and more.

    >>> survey_size(gamma="0.25", within="0.05")
    6400
    """
    return math.ceil(1 / (RandomizedResponse(gamma=gamma).gamma * exact_positive(within, "within")) ** 2)
