"""Theorems checked in small worlds: composition from basic to exact, group privacy, post-processing.

Each of k rounds is (ε, δ₀)-DP with e^ε given as a rational ``ratio``, so the optimal bound is exact: it is the
δ-approximate max divergence of two binomial laws with rational weights.

Group privacy and post-processing are checked on a given mechanism:

>>> from tacit.lab.finite import geometric
>>> print(group_privacy(geometric(ratio=2, rows=3), k=3))
group privacy, 3 units: measured e^ε = 8, bound 8: holds, with equality
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from math import comb, inf
from typing import Any, Final

from tacit.core.divergences import Distribution, Enclosure, Extended, hockey_stick, max_ratio
from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import ZCDP
from tacit.core.numbers import Number, check_count, exact, exact_probability, log_bounds, round_down, sqrt_bounds
from tacit.lab.finite import FiniteMechanism, group_pairs

#: Rounds of the exact optimal bound, whose whole numbers are as long as the rounds are many.
MOST_ROUNDS: Final = 1000


@dataclass(frozen=True)
class CompositionBounds:
    """Upper bounds on ε at one δ, by four theorems; infinite where a theorem says nothing at that δ."""

    rounds: int
    ratio: Fraction
    delta: Fraction
    basic: Extended
    advanced: Extended
    zcdp: Extended
    optimal: Extended

    @property
    def by_name(self) -> dict[str, Extended]:
        """The bounds on ε, from the coarsest theorem to the exact one."""
        return {"basic": self.basic, "advanced": self.advanced, "zCDP": self.zcdp, "optimal": self.optimal}

    def __str__(self) -> str:
        return "\n".join(f"{name:>10}  ε <= {Enclosure(v, v).up:.6g}" for name, v in self.by_name.items())


def composition_bounds(*, ratio: Number, rounds: int, delta: Number, step_delta: Number = 0) -> CompositionBounds:
    """Bounds on ``rounds`` adaptive rounds, each (ln ``ratio``, ``step_delta``)-DP, at the total ``delta``.

    * basic: kε, with kδ₀ (Dwork et al. 2006);
    * advanced: √(2k ln(1/δ'))·ε + kε(e^ε-1), with kδ₀ + δ' (Dwork, Rothblum and Vadhan 2010);
    * zCDP: ρ = kε²/2 and the best Renyi order (Bun and Steinke 2016; Canonne, Kamath and Steinke 2020);
    * optimal: no smaller ε is true of every such mechanism (Kairouz, Oh and Viswanath 2015).

    All but the second theorem's logarithm is exact, so rounds are limited; ``tacit.compose`` takes any number.
    """
    odds, k = exact(ratio, "ratio"), check_count(rounds, "rounds", minimum=0, maximum=MOST_ROUNDS)
    total = exact_probability(delta, "delta", zero=True)
    each = exact_probability(step_delta, "step_delta", zero=True)
    if odds < 1:
        raise InputError("ratio", "must be at least 1: it is e^ε for an ε >= 0")
    epsilon, spare = log_bounds(odds)[1], total - k * each
    return CompositionBounds(
        rounds=k,
        ratio=odds,
        delta=total,
        basic=k * epsilon if spare >= 0 else inf,
        advanced=_advanced(epsilon, odds, k, spare),
        zcdp=ZCDP(k * epsilon**2 / 2).to_approx(spare).epsilon if spare > 0 else inf,
        optimal=min(_optimal(odds, k, total, each), k * epsilon if spare >= 0 else inf),
    )


def optimal_pair(*, ratio: Number, rounds: int) -> tuple[list[Fraction], list[Fraction]]:
    """The two laws that are hardest to hide: the number of true answers in k randomized responses, under each bit."""
    odds, k = exact(ratio, "ratio"), check_count(rounds, "rounds", minimum=0, maximum=MOST_ROUNDS)
    weights = [comb(k, lies) * odds ** (k - lies) for lies in range(k + 1)]
    left = [Fraction(weight) / (1 + odds) ** k for weight in weights]
    return left, left[::-1]


def _advanced(epsilon: Fraction, odds: Fraction, k: int, spare: Fraction) -> Extended:
    if spare <= 0:
        return inf
    spread = sqrt_bounds(2 * k * log_bounds(1 / spare)[1])[1] if k else Fraction(0)
    return spread * epsilon + k * epsilon * (odds - 1)


def _optimal(odds: Fraction, k: int, total: Fraction, each: Fraction) -> Extended:
    # The k rounds are free of the δ₀ events with probability (1-δ₀)^k and are then k randomized responses.
    spare = 1 - (1 - total) / (1 - each) ** k
    if spare < 0:
        return inf
    left, right = optimal_pair(ratio=odds, rounds=k)
    # Spending less of δ than there is errs on the safe side, and keeps the number short.
    found = max_ratio(left, right, delta=round_down(spare, 60)).high
    if isinstance(found, float):
        raise AccountingError("randomized response gives every answer with some probability")
    return log_bounds(max(found, Fraction(1)))[1]


@dataclass(frozen=True)
class TheoremCheck:
    """A measured number beside the bound that a theorem puts on it."""

    theorem: str
    quantity: str
    measured: Enclosure
    bound: Enclosure

    @property
    def holds(self) -> bool:
        """Whether the measured number is proven to be within the bound."""
        return self.measured.high <= self.bound.low or self.measured == self.bound

    @property
    def is_tight(self) -> bool:
        """Whether the two are equal."""
        return self.measured == self.bound and self.measured.is_exact

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        verdict = ("holds, with equality" if self.is_tight else "holds") if self.holds else "is BROKEN"
        return f"{self.theorem}: measured {self.quantity} = {self.measured}, bound {self.bound}: {verdict}"


def group_privacy(mechanism: FiniteMechanism, *, k: int, delta: Number = 0) -> TheoremCheck:
    """(ε, δ) for one unit is (kε, δ(e^{kε}-1)/(e^ε-1)) for any ``k`` units at once, measured over every such pair.

    At δ = 0 the largest e^ε of databases k steps apart is compared with (e^ε)^k; otherwise the largest δ at kε,
    where ε is the mechanism's exact one at ``delta``.
    """
    units, slack = check_count(k, "k"), exact_probability(delta, "delta", zero=True)
    pairs = group_pairs(mechanism, units)
    if not pairs:
        raise AccountingError(f"the table has no two databases that are {units} steps apart")
    step = mechanism.ratio(delta=slack)
    if not step.is_finite:
        raise AccountingError("the mechanism has no finite epsilon at this delta; give a larger delta")
    laws = [(mechanism.distribution(left), mechanism.distribution(right)) for left, right in pairs]
    name = f"group privacy, {units} units"
    power = Enclosure(*(Fraction(end) ** units for end in step))
    if slack == 0:
        return TheoremCheck(name, "e^ε", Enclosure.largest(max_ratio(p, q) for p, q in laws), power)
    growth = Enclosure(*(sum((Fraction(end) ** i for i in range(units)), Fraction(0)) for end in step))
    measured = Enclosure.largest(hockey_stick(p, q, ratio=Fraction(power.low)) for p, q in laws)
    return TheoremCheck(name, "δ", measured, Enclosure(slack * growth.low, slack * growth.high))


def post_processing(
    mechanism: FiniteMechanism, function: Callable[[Any], Distribution | Hashable], *, delta: Number = 0
) -> TheoremCheck:
    """Whatever ``function`` makes of the output, its ε at ``delta`` is at most that of the output itself."""
    after = mechanism.postprocess(function)
    return TheoremCheck("post-processing", "e^ε", after.ratio(delta=delta), mechanism.ratio(delta=delta))
