"""Group privacy and post-processing, checked on a given mechanism.

>>> from tacit.lab.examples import geometric
>>> print(group_privacy(geometric(ratio=2, rows=3), k=3))
group privacy, 3 units: measured e^ε = 8, bound 8: holds, with equality
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.core.divergences import Distribution, Enclosure, hockey_stick, max_ratio
from tacit.core.errors import AccountingError
from tacit.core.numbers import Number, check_count, exact_probability
from tacit.lab.finite import FiniteMechanism, group_pairs

__all__ = ["TheoremCheck", "group_privacy", "post_processing"]


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
