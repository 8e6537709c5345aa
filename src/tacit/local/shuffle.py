"""Amplification by shuffling: the privacy of one report among n in random order.

A report among many from unknown senders reveals less about its sender than one report alone. The bound is that of
hiding among clones, evaluated numerically instead of by a closed formula; see ``shuffle.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, SupportsIndex

import numpy as np

from tacit.core.errors import InputError
from tacit.core.extras import load
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability, float_nearest
from tacit.core.relations import REPLACE_ONE
from tacit.local.frequency import ResponseProtocol, as_protocol
from tacit.local.protocol import LocalProtocol
from tacit.mechanisms.randomized_response import RandomizedResponse

#: Number of standard deviations within which the number of clones is summed; the rest is added to δ.
_REACH: Final = 10
#: Relative and absolute error allowed for in sums of binomial probabilities.
_TAIL_ERROR: Final = 1e-10
_SLACK: Final = 1e-15
_SMALLEST_DELTA: Final = 1e-12
_STEPS: Final = 45


def amplified(protocol: LocalProtocol | RandomizedResponse | Number, *, n: SupportsIndex, delta: Number) -> ApproxDP:
    """Return the guarantee of each of ``n`` shuffled reports, for the person who sent it.

    Args:
        protocol: of all reports, or the ε of one report whatever the protocol is. For randomized
            response the bound uses the number of its categories and is tighter.
        n: number of reports that are shuffled together.
        delta: of the guarantee, at least 10⁻¹².

    Assumes, and each of these is a party to be trusted: a shuffler that forgets order, addresses and times, and does
    not collude with the collector; n honest clients, none of which tells its report; one report per person.

    >>> from tacit.local import amplified
    >>> print(f"{float(amplified('1', n=100_000, delta='1e-6').epsilon):.4f}")
    0.0153
    """
    people = check_count(n, "n", maximum=10**10)
    wanted = exact_probability(delta, "delta")
    if wanted < _SMALLEST_DELTA:
        raise InputError("delta", "must be at least 1e-12: the sums are floats")
    local, pair = _pair(protocol, people)
    target = float_nearest(wanted)
    low, high = 0.0, float_nearest(local)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if pair.delta(middle) <= target else (middle, high)
    # The upper end of the last interval is valid: its δ was checked, or it is the ε of one report.
    found = min(Fraction(high).limit_denominator(10**12) + Fraction(1, 10**12), local)
    return ApproxDP(found, wanted, relation=REPLACE_ONE)


def shuffled_delta(
    protocol: LocalProtocol | RandomizedResponse | Number, *, n: SupportsIndex, epsilon: Number
) -> float:
    """Return an upper bound on δ at ``epsilon`` of each of ``n`` shuffled reports."""
    _, pair = _pair(protocol, check_count(n, "n", maximum=10**10))
    return min(1.0, pair.delta(float_nearest(exact_positive(epsilon, "epsilon"))))


def _pair(protocol: LocalProtocol | RandomizedResponse | Number, n: int) -> tuple[Fraction, _ClonePair]:
    """Return the ε of one report, and the pair of distributions that dominates shuffled reports."""
    if isinstance(protocol, RandomizedResponse):
        protocol = as_protocol(protocol)
    if isinstance(protocol, ResponseProtocol):
        own, other = float_nearest(protocol.truth), float_nearest(protocol.noise)
        return protocol.epsilon, _ClonePair(own, other, 2 * other, n)
    local = protocol.epsilon if isinstance(protocol, LocalProtocol) else exact_positive(protocol, "epsilon")
    odds = math.exp(float_nearest(local))
    return local, _ClonePair(odds / (odds + 1), 1 / (odds + 1), 1 / odds, n)


class _ClonePair:
    """Dominating pair of shuffled reports: distributions of the numbers of reports of two kinds.

    The sender's report is of the first kind with probability ``own``, of the second with ``other``, otherwise of
    neither, which is revealed; under the sender's alternative value the two kinds are exchanged. Each of the n - 1
    remaining reports is a clone with probability ``clone``, and then of either kind with probability ½.
    """

    def __init__(self, own: float, other: float, clone: float, n: int) -> None:
        binom = load("scipy.stats", "scipy", "bounds on shuffled reports").binom
        self.own, self.other = own, other
        self._binom = binom
        mean, spread = (n - 1) * clone, math.sqrt((n - 1) * clone * (1 - clone))
        low, high = max(int(mean - _REACH * spread) - 50, 0), min(int(mean + _REACH * spread) + 50, n - 1)
        self._clones = np.arange(low, high + 1, dtype=np.float64)
        self._chances = binom.pmf(self._clones, n - 1, clone)
        self._left_out = float(binom.cdf(low - 1, n - 1, clone) + binom.sf(high, n - 1, clone)) + _SLACK

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the hockey-stick divergence at ``epsilon``.

        Given c clones, i reports are of the first kind with probability own·B(i-1) + other·B(i) under the first
        value, where B is the binomial law of c fair coins. Its ratio to the probability under the second value grows
        with i, because B(i-1) : B(i) = i : (c + 1 - i); so the divergence is a difference of tails, from the first i on
        at which the ratio exceeds e^ε.
        """
        c, own, other, odds = self._clones, self.own, self.other, math.exp(epsilon)
        cut = np.floor((c + 1) * (odds * own - other) / ((own - other) * (1 + odds)))
        above, beyond = self._binom.sf(cut - 1, c, 0.5), self._binom.sf(cut, c, 0.5)
        first, second = own * above + other * beyond, other * above + own * beyond
        excess = np.maximum(first - odds * second, 0.0) + _TAIL_ERROR * (first + odds * second)
        return float(self._chances @ excess) * (1 + _TAIL_ERROR) + self._left_out
