"""Divergences between finite distributions: max, approximate max, KL, Renyi, total variation.

Distributions are mappings ``outcome -> probability`` or sequences of probabilities. A probability is an exact number,
or a pair ``(low, high)`` of exact numbers that encloses an irrational one. Every function returns an
:class:`Enclosure`: two ends that the true value lies between, equal wherever the value is rational.

============================ ============================================ ==========================================
function                     value                                        exact when the probabilities are
============================ ============================================ ==========================================
:func:`total_variation`      max over events S of P(S) - Q(S)             yes
:func:`hockey_stick`         max over S of P(S) - e^ε Q(S)                yes, for a rational ``ratio`` = e^ε
:func:`max_ratio`            max over S of (P(S) - δ) / Q(S)              yes
:func:`max_divergence`       ln max P(S) / Q(S)                           up to the logarithm
:func:`approx_max_divergence`  ln max (P(S) - δ) / Q(S)                   up to the logarithm
:func:`kl_divergence`        Σ P ln(P/Q)                                  up to logarithms
:func:`renyi_divergence`     ln(Σ P^α Q^(1-α)) / (α-1)                    up to the logarithm, for whole α
============================ ============================================ ==========================================

An outcome that P can give and Q cannot makes the last four infinite; they then return ``math.inf``, which is the
only float that an :class:`Enclosure` ever holds (with its negative). None of them is symmetric except total
variation; privacy needs both directions, and :mod:`tacit.lab` asks for both.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import (
    Number,
    exact,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_down,
    float_nearest,
    float_up,
    log_bounds,
)

#: A rational, or an infinity.
Extended = Fraction | float
#: An exact number, or two that enclose an irrational one.
Probability = Number | tuple[Number, Number]
#: Outcomes are hashable; ``Any`` because a mapping is not covariant in its keys.
Distribution = Mapping[Any, Probability] | Sequence[Probability]


class Enclosure(NamedTuple):
    """An interval that contains the true value, ends included."""

    low: Extended
    high: Extended

    @property
    def is_exact(self) -> bool:
        """Whether the ends are equal, so that the value is known exactly."""
        return self.low == self.high

    @property
    def value(self) -> Extended:
        """The value itself; raises an :class:`AccountingError` when only an interval is known."""
        if not self.is_exact:
            raise AccountingError(f"the value is only known to be {self}; use .low or .high")
        return self.low

    @property
    def is_finite(self) -> bool:
        """Whether the value is proven to be finite."""
        return not isinstance(self.low, float) and not isinstance(self.high, float)

    @property
    def up(self) -> float:
        """The upper end as a float, rounded up."""
        return float_up(self.high) if isinstance(self.high, Fraction) else self.high

    @property
    def down(self) -> float:
        """The lower end as a float, rounded down."""
        return float_down(self.low) if isinstance(self.low, Fraction) else self.low

    @staticmethod
    def largest(values: Iterable[Enclosure]) -> Enclosure:
        """Return the enclosure of the maximum of the values; there must be at least one."""
        lows, highs = zip(*values, strict=True)
        return Enclosure(max(lows), max(highs))

    def log(self, digits: int = 40) -> Enclosure:
        """Return the enclosure of the natural logarithm of a nonnegative value."""
        return Enclosure(_log(self.low, digits)[0], _log(self.high, digits)[1])

    def __str__(self) -> str:
        if self.is_exact:
            value = self.low
            if isinstance(value, float) or value.denominator.bit_length() <= 40:
                return "infinite" if isinstance(value, float) else str(value)
        if f"{self.down:.10g}" == f"{self.up:.10g}":
            return f"{self.up:.10g}"
        return f"[{self.down:.10g}, {self.up:.10g}]"

    def __repr__(self) -> str:
        # Rounded: rationals may have hundreds of digits.
        return f"Enclosure({self})"


def as_distribution(distribution: Distribution, parameter: str = "distribution") -> dict[Hashable, Enclosure]:
    """Return the enclosure of each outcome's probability; refuse probabilities that cannot add up to 1."""
    if isinstance(distribution, Mapping):
        items: Iterable[tuple[Hashable, Probability]] = distribution.items()
    elif isinstance(distribution, str):
        raise InputError(parameter, "must map outcomes to probabilities, or be a sequence of probabilities")
    else:
        items = enumerate(distribution)
    result = {outcome: _as_probability(value, f"{parameter}[{outcome!r}]") for outcome, value in items}
    low = sum((Fraction(p.low) for p in result.values()), Fraction(0))
    high = sum((Fraction(p.high) for p in result.values()), Fraction(0))
    if not low <= 1 <= high:
        total = str(low) if low == high else f"between {float_nearest(low)!r} and {float_nearest(high)!r}"
        raise InputError(parameter, f"must have probabilities that add up to exactly 1; they add up to {total}")
    return result


def total_variation(p: Distribution, q: Distribution) -> Enclosure:
    """Return the largest difference P(S) - Q(S) over all events S.

    >>> total_variation(["3/4", "1/4"], ["1/4", "3/4"]).value
    Fraction(1, 2)
    """
    return hockey_stick(p, q, ratio=1)


def hockey_stick(
    p: Distribution,
    q: Distribution,
    *,
    epsilon: Number | None = None,
    ratio: Number | None = None,
    digits: int = 40,
) -> Enclosure:
    """Return δ(ε) = Σ max(0, P - e^ε Q): the smallest δ with P(S) <= e^ε Q(S) + δ for every event S.

    Give ``epsilon``, or ``ratio`` = e^ε for an exact answer.

    >>> hockey_stick(["3/4", "1/4"], ["1/4", "3/4"], ratio=2).value
    Fraction(1, 4)
    """
    factor = ratio_bounds(epsilon=epsilon, ratio=ratio, digits=digits)
    rows = _rows(p, q)
    zero = Fraction(0)
    # Every term grows with P and falls with Q and with the factor, so the ends of the enclosures give the ends.
    low = sum((max(zero, a.low - factor.high * b.high) for a, b in rows), zero)
    high = sum((max(zero, a.high - factor.low * b.low) for a, b in rows), zero)
    return Enclosure(low, min(high, Fraction(1)))


def max_ratio(p: Distribution, q: Distribution, *, delta: Number = 0) -> Enclosure:
    """Return the largest (P(S) - δ) / Q(S) over events S: e to the δ-approximate max divergence, if possible exactly.

    The best event holds the outcomes whose P/Q is largest, so only as many events as outcomes are tried.

    >>> max_ratio(["3/4", "1/4"], ["1/4", "3/4"], delta="1/4").value
    Fraction(2, 1)
    """
    slack = exact_probability(delta, "delta", zero=True)
    rows = _rows(p, q)
    low = _best_ratio([(a.low, b.high) for a, b in rows], slack)
    high = _best_ratio([(a.high, b.low) for a, b in rows], slack)
    return Enclosure(low, high)


def max_divergence(p: Distribution, q: Distribution, *, digits: int = 40) -> Enclosure:
    """Return D_∞(P‖Q) = ln max P(S)/Q(S): the smallest ε of pure privacy in this direction."""
    return max_ratio(p, q).log(digits)


def approx_max_divergence(p: Distribution, q: Distribution, *, delta: Number, digits: int = 40) -> Enclosure:
    """Return D_∞^δ(P‖Q) = ln max (P(S) - δ)/Q(S) over events with P(S) >= δ: the smallest ε with δ(ε) <= δ.

    Below zero when δ exceeds the total variation; as a privacy parameter it then counts as zero.
    """
    return max_ratio(p, q, delta=delta).log(digits)


def kl_divergence(p: Distribution, q: Distribution, *, digits: int = 40) -> Enclosure:
    """Return KL(P‖Q) = Σ P ln(P/Q): the expected privacy loss."""
    low: Extended = Fraction(0)
    high: Extended = Fraction(0)
    for a, b in _rows(p, q):
        term = _kl_term(a, b, digits)
        low, high = low + term.low, high + term.high
    return Enclosure(max(low, Fraction(0)), high)


def renyi_divergence(p: Distribution, q: Distribution, *, alpha: Number, digits: int = 40) -> Enclosure:
    """Return D_α(P‖Q) = ln(Σ P^α Q^(1-α)) / (α - 1) for an order α > 0.

    Order 1 means KL, and ``math.inf`` max divergence.
    """
    if isinstance(alpha, float) and alpha == math.inf:
        return max_divergence(p, q, digits=digits)
    order = exact_positive(alpha, "alpha")
    if order == 1:
        return kl_divergence(p, q, digits=digits)
    rows = _rows(p, q)
    if order > 1:
        # Q·(P/Q)^α grows with P and falls with Q.
        low = _sum(_power_term(a.low, b.high, order, digits)[0] for a, b in rows)
        high = _sum(_power_term(a.high, b.low, order, digits)[1] for a, b in rows)
    else:
        # P^α·Q^(1-α) grows with both, and dividing its logarithm by α - 1 < 0 swaps the ends.
        low = _sum(_power_term(a.low, b.low, order, digits)[0] for a, b in rows)
        high = _sum(_power_term(a.high, b.high, order, digits)[1] for a, b in rows)
    logs = Enclosure(low, high).log(digits)
    ends = sorted(end / (order - 1) for end in logs)
    return Enclosure(max(ends[0], Fraction(0)), max(ends[1], Fraction(0)))


def kl_bound(
    *, epsilon: Number | None = None, ratio: Number | None = None, tight: bool = True, digits: int = 40
) -> Enclosure:
    """Return the largest KL divergence of two distributions that are ε-close in both directions.

    ``tight`` gives ε(e^ε-1)/(e^ε+1), which randomized response attains; otherwise the lemma ε(e^ε-1) of Dwork,
    Rothblum and Vadhan (2010), on which advanced composition was first built.
    """
    factor = ratio_bounds(epsilon=epsilon, ratio=ratio, digits=digits)
    if factor.low < 1:
        raise InputError("ratio", "must be at least 1: it is e^ε for an ε >= 0")
    loss = factor.log(digits) if epsilon is None else Enclosure(exact(epsilon, "epsilon"), exact(epsilon, "epsilon"))
    low, high = ((f - 1) / (f + 1) if tight else f - 1 for f in factor)
    return Enclosure(loss.low * low, loss.high * high)


def ratio_bounds(*, epsilon: Number | None = None, ratio: Number | None = None, digits: int = 40) -> Enclosure:
    """Return e^ε as an enclosure, exact when ``ratio`` = e^ε is given; give exactly one of the two."""
    if ratio is not None and epsilon is None:
        value = exact_positive(ratio, "ratio")
        return Enclosure(value, value)
    if epsilon is not None and ratio is None:
        return Enclosure(*exp_bounds(exact(epsilon, "epsilon"), digits))
    raise InputError("epsilon", "give either epsilon, or ratio = e^epsilon as a rational, and not both")


def _as_probability(value: Probability, parameter: str) -> Enclosure:
    low, high = value if isinstance(value, tuple) else (value, value)
    ends = Enclosure(_as_end(low, parameter), _as_end(high, parameter))
    if ends.low > ends.high:
        raise InputError(parameter, "has its ends the wrong way round; write (low, high)")
    return ends


def _as_end(value: Number, parameter: str) -> Fraction:
    # Products of many probabilities may have more digits than parameters may have, so they are not checked again.
    if isinstance(value, Fraction) and 0 <= value <= 1:
        return value
    return exact_probability(value, parameter, zero=True, one=True)


def _rows(p: Distribution, q: Distribution) -> list[tuple[Enclosure, Enclosure]]:
    if isinstance(p, Mapping) != isinstance(q, Mapping) or (not isinstance(p, Mapping) and len(p) != len(q)):
        raise InputError("q", "must name the same outcomes as p: two mappings, or two sequences of one length")
    mine, theirs = as_distribution(p, "p"), as_distribution(q, "q")
    nothing = Enclosure(Fraction(0), Fraction(0))
    outcomes = dict.fromkeys(chain(mine, theirs))
    return [(mine.get(outcome, nothing), theirs.get(outcome, nothing)) for outcome in outcomes]


def _best_ratio(rows: list[tuple[Extended, Extended]], delta: Fraction) -> Extended:
    mass = sum((Fraction(p) for p, q in rows if q == 0), Fraction(0)) - delta
    if mass > 0:
        return math.inf
    best, other = Fraction(0), Fraction(0)
    for p, q in sorted(
        ((Fraction(p), Fraction(q)) for p, q in rows if q), key=lambda row: row[0] / row[1], reverse=True
    ):
        mass += p
        other += q
        best = max(best, mass / other)
    return best


def _kl_term(p: Enclosure, q: Enclosure, digits: int) -> Enclosure:
    if p.high == 0:
        return Enclosure(Fraction(0), Fraction(0))
    high: Extended = math.inf
    if q.low > 0:
        # x ln(x/q) is convex in x: over an interval it is largest at an end.
        high = max(_times_log(end, Fraction(q.low), digits)[1] for end in p)
    if q.high == 0:
        return Enclosure(math.inf if p.low > 0 else Fraction(0), high)
    if p.is_exact and q.is_exact:
        return Enclosure(_times_log(p.low, Fraction(q.low), digits)[0], high)
    # ln x >= 1 - 1/x turns x ln(x/q) into at least x - q, whatever x is; the log form is sharper where it applies.
    simple = Fraction(p.low) - Fraction(q.high)
    return Enclosure(max(simple, _lowest_times_log(p, Fraction(q.high), digits)), high)


def _lowest_times_log(p: Enclosure, q: Fraction, digits: int) -> Fraction:
    """Return a lower bound on x·ln(x/q) over x in ``p``: the function falls until q/e and rises after."""
    if p.low <= 0:
        return -q
    slope_low = _log(Fraction(p.low) / q, digits)[0] + 1
    if slope_low >= 0:
        return Fraction(_times_log(p.low, q, digits)[0])
    return Fraction(_times_log(p.low, q, digits)[0] + slope_low * (Fraction(p.high) - Fraction(p.low)))


def _times_log(x: Extended, q: Fraction, digits: int) -> tuple[Extended, Extended]:
    if x == 0:
        return Fraction(0), Fraction(0)
    low, high = log_bounds(Fraction(x) / q, digits)
    return x * low, x * high


def _power_term(p: Extended, q: Extended, alpha: Fraction, digits: int) -> tuple[Extended, Extended]:
    if p == 0:
        return Fraction(0), Fraction(0)
    if q == 0:
        empty = math.inf if alpha > 1 else Fraction(0)
        return empty, empty
    low, high = _power(Fraction(p) / Fraction(q), alpha, digits)
    return q * low, q * high


def _power(base: Fraction, exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    if exponent.denominator == 1:
        value = base**exponent.numerator
        return Fraction(value), Fraction(value)
    low, high = log_bounds(base, digits)
    return exp_bounds(exponent * low, digits)[0], exp_bounds(exponent * high, digits)[1]


def _log(value: Extended, digits: int) -> tuple[Extended, Extended]:
    if isinstance(value, float):
        return value, value
    if value == 0:
        return -math.inf, -math.inf
    return log_bounds(value, digits)


def _sum(values: Iterable[Extended]) -> Extended:
    total: Extended = Fraction(0)
    for value in values:
        total += value
    return total
