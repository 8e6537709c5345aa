"""Noisy first and second moments of a table, and sums that grow call by call.

A row a of integers with ‖a‖ <= UNIT adds the products a_i·a_j, i <= j, to the upper triangle of a matrix. Counted once
each they have a norm of at most ‖a‖² <= UNIT², so all second moments, with a constant column also all means and the
number of rows, cost no more than one number would.

In ``partial_fit`` each call releases the sums of its own rows with the whole (ε, δ) of the estimator, and noisy sums
add up. A person whose rows are in one call is protected by the guarantee of that call, whatever others do; one with a
row in each call by the composition of all of them, which is what a model states. ``moments.proof.md`` has the argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.compose import compose
from tacit.core.errors import InputError
from tacit.core.events import ComposedEvent, Event
from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import check_count, float_nearest
from tacit.learn import release
from tacit.learn.estimator import BoundedEstimator, Guarantees
from tacit.learn.integer_rows import UNIT, Box, Integers, exact_product
from tacit.learn.release import FitPrice, Phase, Spent


@dataclass(frozen=True)
class SecondMoments:
    """The release of Σ aaᵀ for rows of ``width`` integers, or of its diagonal and last column.

    Attributes:
        width: of a row.
        diagonal: whether only squares, and products with the last column, are released.
        name: for the report.
    """

    width: int
    diagonal: bool = False
    name: str = "second moments"

    def phase(self, share: Fraction = Fraction(1)) -> Phase:
        """Cost of the second moments."""
        return Phase(self.name, UNIT**4, len(self._places[0]), share)

    def release(self, rows: NDArray[np.float64], sigma2: Fraction) -> NDArray[np.float64]:
        """The noisy matrix, symmetric, in units of UNIT²; released entries have noise of σ/UNIT²."""
        noisy = release.release_gaussian(self.raw_sums(rows), sigma2) / UNIT**2
        matrix = np.zeros((self.width, self.width))
        matrix[self._places] = noisy
        return matrix + np.triu(matrix, 1).T

    def raw_sums(self, rows: NDArray[np.float64]) -> Integers:
        """The entries before noise, exactly."""
        if not self.diagonal:
            return raw_triangle(rows)
        ones, last = np.ones((len(rows), 1)), rows[:, -1:]
        squares = exact_product(rows * rows, ones, UNIT * UNIT).ravel()
        return np.concatenate([squares, exact_product(rows[:, :-1], last, UNIT * UNIT).ravel()])

    @property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        if not self.diagonal:
            return np.triu_indices(self.width)
        every = np.arange(self.width)
        return np.append(every, every[:-1]), np.append(every, np.full(self.width - 1, self.width - 1))


def raw_triangle(rows: NDArray[np.float64]) -> Integers:
    """The upper triangle of Σ aaᵀ, row by row, exactly."""
    products = exact_product(rows, rows, UNIT * UNIT)
    return products[np.triu_indices(rows.shape[1])]


@dataclass(frozen=True)
class FeatureSums:
    """The release of Σ1, Σx and Σx² of every column, for each of disjoint groups of rows.

    Attributes:
        box: where the values lie; they are measured from -1 to 1 between their bounds.
        columns: how many there are.
        groups: how many groups; a row is in one of them or in none.
    """

    box: Box
    columns: int
    groups: int = 1

    @property
    def _parts(self) -> tuple[int, int]:
        """The constant, and the largest entry of x and of x²: a third of UNIT² for the first, the rest shared."""
        return math.isqrt(UNIT * UNIT // 3), math.isqrt(UNIT * UNIT // (3 * self.columns))

    @property
    def numbers(self) -> int:
        """Count of sums of a group."""
        return 2 * self.columns + 1

    def phase(self, share: Fraction = Fraction(1)) -> Phase:
        """Cost of the sums: a row adds c² + Σ(p·x)² + Σ(p·x²)² <= UNIT²."""
        return Phase("sums", UNIT**2, self.groups * self.numbers, share)

    def raw_sums(self, values: NDArray[np.float64], places: Integers) -> Integers:
        """The sums before noise, exactly, one line per group; rows whose place is negative are in none."""
        constant, part = self._parts
        steps = self.box.to_steps(values)
        # ⌊p·x⌋ and ⌊p·x²⌋ towards zero, in integers: no entry exceeds p.
        first = np.sign(steps) * (np.abs(steps) * part >> 20)
        second = (steps * steps >> 20) * part >> 20
        joined = np.hstack([np.full((len(steps), 1), constant), first, second])
        members = (places[:, None] == np.arange(self.groups)).astype(np.float64)
        return exact_product(members, joined.astype(np.float64), UNIT)

    def release(self, values: NDArray[np.float64], places: Integers, sigma2: Fraction) -> NDArray[np.float64]:
        """The noisy sums, one line per group."""
        return release.release_gaussian(self.raw_sums(values, places), sigma2)

    def estimates(
        self, noisy: NDArray[np.float64], sigma2: Fraction
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Per group: the number of rows, the mean and the variance of every column, from noisy sums."""
        constant, part = self._parts
        sigma = math.sqrt(float_nearest(sigma2))
        # Less than its own noise is no count at all.
        counts = np.maximum(noisy[:, :1] / constant, max(sigma / constant, 1.0))
        means = np.clip(noisy[:, 1 : self.columns + 1] / part / counts, -1.0, 1.0)
        squares = np.clip(noisy[:, self.columns + 1 :] / part / counts, 0.0, 1.0)
        return counts[:, 0], means, np.maximum(squares - means**2, 0.0)

    def sum_noise(self, sigma2: Fraction) -> float:
        """The standard deviation of the noise in a sum of values between -1 and 1."""
        return math.sqrt(float_nearest(sigma2)) / self._parts[1]


class PartialSums(BoundedEstimator):
    """Estimators whose only release is :class:`~tacit.learn.moments.FeatureSums`, with calls of ``partial_fit``.

    Each call has the whole price of the estimator.

    Attributes:
        guarantee_: of all calls so far together, for a person with a row in each; their number is decided beforehand.
        call_guarantee_: of the dearest call, for a person whose rows are in one call.
    """

    call_guarantee_: Guarantees = field(init=False)
    _box: Box = field(init=False)
    _noisy_sums: NDArray[np.float64] = field(init=False)
    _noise: Fraction = field(init=False)
    _paid: tuple[Event, ...] = field(init=False)

    def price_of_calls(self, columns: int, calls: int) -> FitPrice:
        """Price of so many calls of ``partial_fit``, decided beforehand, for a person with a row in each."""
        once, count = self.price(columns), check_count(calls, "calls", maximum=10**4)
        return _together((once.event,) * count, once)

    def _count_call(self, price: FitPrice, *, fresh: bool) -> bool:
        """Take a call into the account; whether it is the first one."""
        if fresh or not hasattr(self, "_paid"):
            self._paid, self.call_guarantee_ = (price.event,), price.guarantee
            self._keep(price)
            return True
        paid = (*self._paid, price.event)
        self._keep(_together(paid, price, _delta(self.guarantee_)))
        self._paid, self.call_guarantee_ = paid, _dearer(self.call_guarantee_, price.guarantee)
        return False

    def _assumes(self) -> tuple[str, ...]:
        said = super()._assumes()
        if len(getattr(self, "_paid", ())) <= 1:
            return said
        calls = (
            f"no person has more than one row in each of {len(self._paid)} calls, whose number was decided beforehand"
        )
        return (calls, f"where no person is in two calls, {self.call_guarantee_!r} holds", *said[1:])

    def _added(
        self, sums: FeatureSums, noisy: NDArray[np.float64], spent: Spent, *, fresh: bool
    ) -> tuple[NDArray[np.float64], Fraction]:
        """Sums of all calls so far and the variance of their noise; keeps them with their account."""
        sigma2 = spent.sigma2[0]
        # The account before the sums: what is interrupted here was paid for.
        if self._count_call(spent.price, fresh=fresh):
            self._noisy_sums, self._noise = noisy, sigma2
        else:
            self._noisy_sums, self._noise = self._noisy_sums + noisy, self._noise + sigma2
        self._box = sums.box
        return self._noisy_sums, self._noise

    def _check_continued(self, sums: FeatureSums, relation: Any) -> None:
        """Refuse a call whose sums cannot be added to those before; before a row is read."""
        if not hasattr(self, "_paid"):
            if hasattr(self, "guarantee_"):
                raise InputError("model", "was fitted, or saved, without its sums; call fit to begin anew")
            return
        if self._noisy_sums.shape[1] != sums.numbers:
            raise InputError("X", "must have as many columns as in the calls before; call fit to begin anew")
        if sums.box != self._box:
            raise InputError("bounds", "must stay as they are from call to call; call fit to begin anew")
        if relation is not self.guarantee_.relation:
            raise InputError("relation", "must stay as it is from call to call; call fit to begin anew")


def _together(events: tuple[Event, ...], once: FitPrice, delta: Fraction = Fraction(0)) -> FitPrice:
    """Composition of calls at the δ of one; at the largest where calls differ, or more was asked for."""
    if len(events) == 1:
        return once
    total = compose(list(events), delta=max(delta, _delta(once.guarantee)), method="pld")
    each = "each" if len(set(events)) == 1 else "the last one"
    lines = tuple(f"{len(events)} calls, {each} {line}" for line in once.releases)
    return FitPrice(total, ComposedEvent(events, relation=once.guarantee.relation), lines)


def _delta(guarantee: Guarantees) -> Fraction:
    return Fraction(getattr(guarantee, "delta", 0))


def _dearer(one: Guarantees, other: Guarantees) -> Guarantees:
    """A guarantee that holds wherever one of two does: the larger ε with the larger δ."""
    for first, second in ((one, other), (other, one)):
        if first.epsilon >= second.epsilon and _delta(first) >= _delta(second):
            return first
    return ApproxDP(max(one.epsilon, other.epsilon), max(_delta(one), _delta(other)), relation=one.relation)
