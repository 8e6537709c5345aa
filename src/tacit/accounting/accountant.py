"""Running account of a plan: the releases so far and their composed guarantee.

*What it tells.* The (ε, δ) of all charges so far, by Renyi accounting or by the plain sum, whichever is smaller. A
charge and a reading cost one pass over a fixed set of orders, whatever the number of charges before.

*Privacy.* Each reading is a theorem about the charges so far, *if their parameters did not depend on earlier answers*.
It is a calculator for plans and for training runs. It is not a stop: an analyst who may choose the next question by
the last answer needs a filter (:mod:`tacit.accounting.filters`).

*Error.* The orders are fixed, so ε may exceed that of ``compose(…, method="rdp")``, which searches between them, by
about a part in a thousand; :meth:`Accountant.compose` composes the same charges by any method.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.basic import Pair, stated_sum
from tacit.accounting.compose import compose_plan
from tacit.accounting.composed import Composed
from tacit.accounting.composition_plan import CompositionPlan, CountedRelease, Leaf, Release, read_plan
from tacit.accounting.renyi import renyi_curve, spent_delta
from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import renyi_epsilon_up
from tacit.core.numbers import Number, exact_probability, float_nearest, format_up, round_up
from tacit.core.relations import ADD_REMOVE, Relation

_EXCESS: Final = np.concatenate(
    (np.geomspace(1e-3, 0.1, 8)[:-1], np.geomspace(0.1, 1e3, 220), np.geomspace(1.2e3, 1e9, 40))
)
_ORDERS: Final = 1 + _EXCESS
_LOG_GAIN: Final = np.log(_EXCESS / _ORDERS) - np.log(_ORDERS) / _EXCESS


class Accountant:
    """Charges so far, at one ``delta``.

    >>> from tacit.core.guarantees import PureDP
    >>> account = Accountant(delta="1e-6")
    >>> account.charge(PureDP("0.1"), count=10)
    >>> float(account.epsilon()) <= 1
    True
    """

    def __init__(self, *, delta: Number) -> None:
        self.delta = exact_probability(delta, "delta")
        self._relation: Relation | None = None
        self._counts: dict[Leaf, int] = {}
        self._stated: dict[Leaf, int] = {}
        self._curves: dict[Leaf, NDArray[np.float64]] = {}
        self._renyi = np.zeros(len(_ORDERS))
        self._additions = 0
        self._spent = Fraction(0)
        self._basic: tuple[Fraction, Fraction] | None = (Fraction(0), Fraction(0))
        self._lock = threading.RLock()

    def charge(self, release: Release, *, count: int = 1) -> None:
        """Put ``count`` releases on the account; if they are refused, nothing has changed."""
        plan = read_plan([(release, count)])
        # A charge reads the sums and stores them; two threads at once would lose one of the two.
        with self._lock:
            self._charge(plan)

    def _charge(self, plan: CompositionPlan) -> None:
        if self._relation not in (None, plan.relation):
            raise InputError("release", f"speaks of {plan.relation.value} neighbours, the account of others")
        spent = self._spent + sum((item.count * spent_delta(item.release) for item in plan.items), Fraction(0))
        basic = _plus(self._basic, stated_sum(plan))
        # Renyi accounting needs some δ for itself; the plain sum may use all of it.
        if spent and spent >= self.delta and (basic is None or basic[1] > self.delta):
            raise AccountingError(f"the charges would spend delta {format_up(spent)} of {format_up(self.delta)}")
        curves = [(item, self._curve(item.release)) for item in plan.items]
        # From here on nothing can fail.
        for item, curve in curves:
            self._renyi = self._renyi + item.count * curve
            self._additions += 1
            self._counts[item.release] = self._counts.get(item.release, 0) + item.count
        for item in plan.stated:
            self._stated[item.release] = self._stated.get(item.release, 0) + item.count
        self._relation, self._spent, self._basic = plan.relation, spent, basic

    def epsilon(self) -> Fraction:
        """The ε of everything so far, rounded up."""
        return self.guarantee().epsilon

    def guarantee(self) -> Composed:
        """The (ε, δ) of everything so far, and by which theorem."""
        with self._lock:
            return self._guarantee()

    def _guarantee(self) -> Composed:
        relation = self._relation or ADD_REMOVE
        if not self._counts:
            return Composed(0, self.delta, relation=relation, method="basic")
        basic, room = self._basic, self.delta - self._spent
        if room <= 0 and basic is not None:
            return Composed(basic[0], self.delta, relation=relation, method="basic")
        log_room = math.log(room.numerator) - math.log(room.denominator)
        with np.errstate(invalid="ignore"):
            epsilons = self._renyi + _LOG_GAIN - log_room / _EXCESS
        at = int(np.nanargmin(epsilons))
        if basic is not None and basic[1] <= self.delta and not epsilons[at] < float_nearest(basic[0]):
            return Composed(basic[0], self.delta, relation=relation, method="basic")
        if not math.isfinite(epsilons[at]):
            raise AccountingError("no Renyi order gives a finite epsilon for these charges")
        # A product and a sum of positive floats per addition, each off by half a unit in the last place.
        total = float(self._renyi[at]) * (1 + 1e-15 * (self._additions + 2))
        epsilon = renyi_epsilon_up(Fraction(float(_ORDERS[at])), Fraction(total), room)
        return Composed(epsilon, self.delta, relation=relation, method="rdp")

    def compose(self, *, method: str = "best") -> Composed:
        """Compose the charges by any method of :func:`~tacit.accounting.compose.compose`."""
        with self._lock:
            plan = self._plan()
        return compose_plan(plan, self.delta, method)

    def _plan(self) -> CompositionPlan:
        items = tuple(CountedRelease(leaf, count) for leaf, count in self._counts.items())
        stated = tuple(CountedRelease(leaf, count) for leaf, count in self._stated.items())
        return CompositionPlan(items, self._relation or ADD_REMOVE, stated)

    def _curve(self, leaf: Leaf) -> NDArray[np.float64]:
        if leaf not in self._curves:
            self._curves[leaf] = renyi_curve(leaf)(_ORDERS)
        return self._curves[leaf]


def _plus(basic: Pair | None, pair: Pair | None) -> Pair | None:
    if basic is None or pair is None:
        return None
    epsilon = basic[0] + pair[0]
    # Sums of many different fractions grow without bound; beyond need they are rounded up.
    if epsilon.denominator.bit_length() > 512:
        epsilon = round_up(epsilon, 30)
    return epsilon, basic[1] + pair[1]
