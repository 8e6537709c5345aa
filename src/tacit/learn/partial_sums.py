"""Sums that grow call by call, and the account of all calls: ``partial_fit`` of models that need sums alone.

Each call releases the sums of its own rows with the whole (ε, δ) of the estimator, and noisy sums add up. A person
whose rows are in one call is protected by the guarantee of that call, whatever others do; one with a row in each call
by the composition of all of them, which is what a model states. ``moments.proof.md`` has the argument.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import compose
from tacit.core.errors import InputError
from tacit.core.events import ComposedEvent, Event
from tacit.core.numbers import check_count
from tacit.learn.budget_allocation import FitPrice, Spent
from tacit.learn.estimator import Guarantees, PrivateEstimator
from tacit.learn.integer_rows import Box
from tacit.learn.moments import FeatureSums

__all__ = ["PartialSums"]


class PartialSums(PrivateEstimator):
    """Estimators whose only release is :class:`~tacit.learn.moments.FeatureSums`.

    Attributes:
        guarantee_: of all calls so far together, for a person with a row in each; their number is decided beforehand.
        call_guarantee_: of the dearest call, for a person whose rows are in one call.
    """

    call_guarantee_: Guarantees

    _box: Box
    _noisy_sums: NDArray[np.float64]
    _noise: Fraction
    _paid: tuple[Event, ...]

    def price_of_calls(self, columns: int, calls: int) -> FitPrice:
        """Price of so many calls of ``partial_fit``, decided beforehand, for a person with a row in each."""
        once, count = self.price(columns), check_count(calls, "calls", maximum=10**4)
        return _together((once.event,) * count, once)

    def _added(
        self, sums: FeatureSums, noisy: NDArray[np.float64], spent: Spent, *, fresh: bool
    ) -> tuple[NDArray[np.float64], Fraction]:
        """Sums of all calls so far and the variance of their noise; keeps them with their account."""
        price, sigma2 = spent.price, spent.sigma2[0]
        if fresh or not hasattr(self, "_paid"):
            self._noisy_sums, self._noise, self._paid = noisy, sigma2, (price.event,)
            self.call_guarantee_ = price.guarantee
            self._keep(price)
        else:
            self._noisy_sums, self._noise = self._noisy_sums + noisy, self._noise + sigma2
            self._paid = (*self._paid, price.event)
            self.call_guarantee_ = max(self.call_guarantee_, price.guarantee, key=lambda each: each.epsilon)
            self._keep(_together(self._paid, price))
        self._box = sums.box
        return self._noisy_sums, self._noise

    def _check_continued(self, sums: FeatureSums, relation: Any) -> None:
        """Refuse a call whose sums cannot be added to those before; before a row is read."""
        if not hasattr(self, "_paid"):
            return
        if sums.box != self._box:
            raise InputError("bounds", "must stay as they are from call to call; call fit to begin anew")
        if relation is not self.guarantee_.relation:
            raise InputError("relation", "must stay as it is from call to call; call fit to begin anew")

    def _assumes(self) -> tuple[str, ...]:
        said = super()._assumes()
        if len(self._paid) == 1:
            return said
        calls = (
            f"no person has more than one row in each of {len(self._paid)} calls, whose number was decided beforehand"
        )
        return (calls, f"where no person is in two calls, {self.call_guarantee_!r} holds", *said[1:])


def _together(events: tuple[Event, ...], once: FitPrice) -> FitPrice:
    """Composition of calls at the δ of one."""
    if len(events) == 1:
        return once
    total = compose(list(events), delta=Fraction(getattr(once.guarantee, "delta", 0)), method="pld")
    lines = tuple(f"{len(events)} calls, each {line}" for line in once.releases)
    return FitPrice(total, ComposedEvent(events, relation=once.guarantee.relation), lines)
