"""Exact Bernoulli draws."""

from __future__ import annotations

from fractions import Fraction

from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.uniform import LazyUniform

__all__ = ["sample_bernoulli", "sample_bernoulli_exp"]


def sample_bernoulli(probability: Fraction, source: BitSource | None = None) -> bool:
    """True with exactly ``probability``: is a lazily revealed uniform below it?

    Two binary digits are revealed on average, whatever the denominator.
    """
    uniform = LazyUniform(source or entropy.current(), step=1)
    while uniform.low < probability < uniform.high:
        uniform.reveal()
    return uniform.high <= probability


def sample_bernoulli_exp(rate: Fraction, source: BitSource | None = None) -> bool:
    """True with probability exactly exp(-rate), for any rational rate >= 0, in integer arithmetic.

    exp(-r) for r <= 1 by von Neumann's series: toss coins of probability r/1, r/2, r/3, … until one fails; the
    number of tosses is odd with probability exp(-r). A larger rate is a run of whole ones and a remainder
    (Canonne, Kamath and Steinke 2020, algorithm 1).
    """
    source = source or entropy.current()
    while rate > 1:
        if not sample_bernoulli_exp(Fraction(1), source):
            return False
        rate -= 1
    tosses = 1
    while sample_bernoulli(rate / tosses, source):
        tosses += 1
    return tosses % 2 == 1
