"""Bounds on an observer's belief implied by a guarantee.

If the answers from two neighbouring databases are within a factor e^ε, then a reader who thought with probability p
that it is the one and not the other thinks so afterwards with a probability between ``p / (p + e^ε (1 - p))`` and
``e^ε p / (e^ε p + 1 - p)``, by Bayes' rule and whatever else they know. δ, where there is one, comes on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.core.numbers import exp_bounds, float_nearest
from tacit.server.console.number_format import up

#: Prior beliefs: a wild guess, a suspicion, a coin, near certainty.
_BEFORE: Final = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
#: Beyond this nothing is promised that could be told in odds.
_MOST: Final = Fraction(100)
_HUGE: Final = 10**26


@dataclass(frozen=True)
class Belief:
    """A probability before, and the range it can end up in; each is text for people, and a place on a line."""

    before: str
    least: str
    most: str


@dataclass(frozen=True)
class Promise:
    """(ε, δ) in words and odds."""

    epsilon: str
    delta: str
    one_in: str
    factor: str
    beliefs: tuple[Belief, ...]


def promise(epsilon: Fraction, delta: Fraction) -> Promise:
    """Bounds on beliefs under (ε, δ), each rounded outwards."""
    factor = exp_bounds(min(epsilon, _MOST))[1]
    beliefs = tuple(_belief(before, factor) for before in _BEFORE)
    small, one_in = (up(delta), f"{int(1 / delta):,}") if delta else ("", "")
    return Promise(up(epsilon), small, one_in, _factor(factor), beliefs)


def _belief(before: Fraction, factor: Fraction) -> Belief:
    most = factor * before / (factor * before + 1 - before)
    least = before / (before + factor * (1 - before))
    return Belief(_percent(before), _percent(_floor(least)), _percent(-_floor(-most)))


def _floor(share: Fraction) -> Fraction:
    """Rounded down: to tenths of a percent, to thousandths below one percent."""
    step = Fraction(1, 1000) if abs(share) >= Fraction(1, 100) else Fraction(1, 100_000)
    return (share // step) * step


def _percent(share: Fraction) -> str:
    return f"{float_nearest(100 * share):.4g}%"


def _factor(factor: Fraction) -> str:
    """Rounded up: to hundredths while it is small, to whole numbers then."""
    if factor > _HUGE:
        return "more than 10²⁶"
    hundredths = math.ceil(100 * factor)
    return f"at most {hundredths / 100:.4g}" if hundredths < 10_000 else f"at most {math.ceil(factor):,}"
