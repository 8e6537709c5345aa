"""Privacy odometers: bounds on the loss consumed so far by an adaptive interaction.

A *filter* proves its cap in advance. An *odometer* in the strict sense would prove, at every moment and for every
adaptive analyst, a running "(ε, δ) so far"; that is a stronger claim, and any odometer that makes it has to pay more
than a filter does (Rogers, Roth, Ullman and Vadhan 2016). The meter here therefore reports how much of a filter's
budget has been *consumed* and what is left. The only guarantee it quotes is the one that the filter proves: that of
the cap. One exception is exact: the pure sum Σε bounds the loss of every transcript, so for a :class:`PureFilter` the
amount consumed is itself a guarantee of what was released so far.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from tacit.accounting.filters import Filter, Line, PureFilter
from tacit.accounting.prices import Charge
from tacit.core.guarantees import Guarantee, PureDP
from tacit.core.numbers import format_up, round_down


class Reading(NamedTuple):
    """Amount of one currency at one moment."""

    currency: str
    cap: Fraction
    spent: Fraction | float
    left: Fraction
    share: Fraction | float

    def __str__(self) -> str:
        if isinstance(self.spent, float):
            return f"{self.currency:<24} closed: a charge had no price in it"
        percent = "" if isinstance(self.share, float) else f" ({_percent(self.share)})"
        return f"{self.currency:<24} {format_up(self.spent)} of {_down(self.cap)}{percent}, {_down(self.left)} left"


class Odometer:
    """Reads a filter; it cannot charge or change it.

    Privacy: reading is a function of the charges alone, which depend on questions and public metadata.
    Sensitivity: none.
    Error: text is rounded so that what is spent never looks smaller, nor what is left larger, than it is.
    Assumes: nothing beyond the filter.
    References: Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters", NeurIPS 2016.
    """

    def __init__(self, filter: Filter) -> None:  # noqa: A002 - the word of the field
        self._filter = filter

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Cap, consumption and rest of each currency of the filter."""
        return tuple(_reading(line) for line in self._filter.lines)

    @property
    def promised(self) -> Guarantee:
        """Guarantee that the filter proves for the whole transcript, now and later."""
        return self._filter.guarantee

    @property
    def proven_so_far(self) -> Guarantee:
        """The strongest guarantee proven for what was released up to now, at a moment the analyst may choose.

        For pure charges it is their sum. For every other filter only the cap is proven, however little of it is used.
        """
        if isinstance(self._filter, PureFilter):
            spent = self._filter.lines[0].spent
            if isinstance(spent, Fraction):
                return PureDP(spent, relation=self._filter.relation)
        return self._filter.guarantee

    def how_many_more(self, charge: Charge) -> int | None:
        """Number of further charges like this one that fit; ``None`` when it costs nothing."""
        return self._filter.how_many(charge)

    def __str__(self) -> str:
        lines = [str(reading) for reading in self.readings]
        return "\n".join([*lines, f"proven for everything together: {self.promised!r}"])


def _reading(line: Line) -> Reading:
    return Reading(line.currency, line.cap, line.spent, line.left, line.share)


def _percent(share: Fraction) -> str:
    return f"{math.ceil(share * 1000) / 10:g} %"


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
