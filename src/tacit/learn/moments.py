"""Noisy first and second moments of a table, and sums updated by ``partial_fit``.

A row a of integers with ‖a‖ <= UNIT adds the products a_i·a_j, i <= j, to the upper triangle of a matrix. These
products have a joint norm of at most ‖a‖² <= UNIT², so releasing all second moments (and, with a constant column, all
means and the number of rows) costs no more than releasing one number.

In ``partial_fit`` each call releases the sums of its rows with the full (ε, δ) of the estimator, and noisy sums are
added. A person whose rows are in one call has the guarantee of that call; a person with a row in each call has the
composition of all of them, which is what a model states. ``moments.proof.md`` has the proof.
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
    """Release of Σ aaᵀ for rows a of ``width`` integers, or of its diagonal and last column.

    Attributes:
        width: number of integers of a row.
        diagonal: whether only squares, and products with the last column, are released.
        name: name of the release in reports.
    """

    width: int
    diagonal: bool = False
    name: str = "second moments"

    def phase(self, share: Fraction = Fraction(1)) -> Phase:
        """Return the plan of the release of the second moments."""
        return Phase(self.name, UNIT**4, len(self._places[0]), share)

    def release(self, rows: NDArray[np.float64], sigma2: Fraction) -> NDArray[np.float64]:
        """Release and return the symmetric noisy matrix in units of UNIT²; released entries have noise σ/UNIT²."""
        noisy = release.release_gaussian(self.raw_sums(rows), sigma2) / UNIT**2
        matrix = np.zeros((self.width, self.width))
        matrix[self._places] = noisy
        return matrix + np.triu(matrix, 1).T

    def raw_sums(self, rows: NDArray[np.float64]) -> Integers:
        """Return the exact entries before noise."""
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
    """Return the exact upper triangle of Σ aaᵀ, line by line."""
    products = exact_product(rows, rows, UNIT * UNIT)
    return products[np.triu_indices(rows.shape[1])]


@dataclass(frozen=True)
class FeatureSums:
    """Release of Σ1, Σx and Σx² of every column, for each of disjoint groups of rows.

    Attributes:
        box: bounds of the values, which are scaled to [-1, 1].
        columns: number of columns.
        groups: number of groups; a row is in at most one of them.
    """

    box: Box
    columns: int
    groups: int = 1

    @property
    def _parts(self) -> tuple[int, int]:
        """Integers for 1 and for the largest |x| or x²: their squares are UNIT²/3 and UNIT²/(3·columns)."""
        return math.isqrt(UNIT * UNIT // 3), math.isqrt(UNIT * UNIT // (3 * self.columns))

    @property
    def numbers(self) -> int:
        """Number of sums of a group."""
        return 2 * self.columns + 1

    def phase(self, share: Fraction = Fraction(1)) -> Phase:
        """Return the plan of the release; the squared norm of a row is c² + Σ(p·x)² + Σ(p·x²)² <= UNIT²."""
        return Phase("sums", UNIT**2, self.groups * self.numbers, share)

    def raw_sums(self, values: NDArray[np.float64], places: Integers) -> Integers:
        """Return the exact sums before noise, one line per group; a row with a negative group index is in none."""
        constant, part = self._parts
        steps = self.box.to_steps(values)
        # ⌊p·x⌋ and ⌊p·x²⌋ towards zero, in integers: no entry exceeds p.
        first = np.sign(steps) * (np.abs(steps) * part >> 20)
        second = (steps * steps >> 20) * part >> 20
        joined = np.hstack([np.full((len(steps), 1), constant), first, second])
        members = (places[:, None] == np.arange(self.groups)).astype(np.float64)
        return exact_product(members, joined.astype(np.float64), UNIT)

    def release(self, values: NDArray[np.float64], places: Integers, sigma2: Fraction) -> NDArray[np.float64]:
        """Release and return the noisy sums, one line per group."""
        return release.release_gaussian(self.raw_sums(values, places), sigma2)

    def estimates(
        self, noisy: NDArray[np.float64], sigma2: Fraction
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return, by group, the number of rows, and the mean and the variance of every column, from noisy sums."""
        constant, part = self._parts
        sigma = math.sqrt(float_nearest(sigma2))
        # A count below its noise is replaced by its noise.
        counts = np.maximum(noisy[:, :1] / constant, max(sigma / constant, 1.0))
        means = np.clip(noisy[:, 1 : self.columns + 1] / part / counts, -1.0, 1.0)
        squares = np.clip(noisy[:, self.columns + 1 :] / part / counts, 0.0, 1.0)
        return counts[:, 0], means, np.maximum(squares - means**2, 0.0)

    def sum_noise(self, sigma2: Fraction) -> float:
        """Return the standard deviation of the noise in a sum of values in [-1, 1]."""
        return math.sqrt(float_nearest(sigma2)) / self._parts[1]


class PartialSums(BoundedEstimator):
    """Base class of estimators with ``partial_fit``, whose only release is :class:`~tacit.learn.moments.FeatureSums`.

    Each call is charged the full cost of the estimator.

    Attributes:
        guarantee_: composition of all calls so far, for a person with a row in each; their number is fixed in advance.
        call_guarantee_: weakest guarantee of a call, for a person whose rows are in one call.
    """

    call_guarantee_: Guarantees = field(init=False)
    _box: Box = field(init=False)
    _noisy_sums: NDArray[np.float64] = field(init=False)
    _noise: Fraction = field(init=False)
    _paid: tuple[Event, ...] = field(init=False)

    def price_of_calls(self, columns: int, calls: int) -> FitPrice:
        """Return the cost of ``calls`` calls of ``partial_fit``, fixed in advance, for a person with a row in each."""
        once, count = self.price(columns), check_count(calls, "calls", maximum=10**4)
        return _together((once.event,) * count, once)

    def _count_call(self, price: FitPrice, *, fresh: bool) -> bool:
        """Charge a call to the guarantees; return whether it is the first one."""
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
        """Charge a call and add its noisy sums; return the sums of all calls and the variance of their noise."""
        sigma2 = spent.sigma2[0]
        # Charged before the sums are added: if this is interrupted, the release is already charged.
        if self._count_call(spent.price, fresh=fresh):
            self._noisy_sums, self._noise = noisy, sigma2
        else:
            self._noisy_sums, self._noise = self._noisy_sums + noisy, self._noise + sigma2
        self._box = sums.box
        return self._noisy_sums, self._noise

    def _check_continued(self, sums: FeatureSums, relation: Any) -> None:
        """Refuse, before a row is read, a call whose sums cannot be added to those of earlier calls."""
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
    """Return the composition of calls at the δ of the last call, or at ``delta`` if that is larger."""
    if len(events) == 1:
        return once
    total = compose(list(events), delta=max(delta, _delta(once.guarantee)), method="pld")
    each = "each" if len(set(events)) == 1 else "the last one"
    lines = tuple(f"{len(events)} calls, {each} {line}" for line in once.releases)
    return FitPrice(total, ComposedEvent(events, relation=once.guarantee.relation), lines)


def _delta(guarantee: Guarantees) -> Fraction:
    return Fraction(getattr(guarantee, "delta", 0))


def _dearer(one: Guarantees, other: Guarantees) -> Guarantees:
    """Return a guarantee that either of two implies: the larger ε with the larger δ."""
    for first, second in ((one, other), (other, one)):
        if first.epsilon >= second.epsilon and _delta(first) >= _delta(second):
            return first
    return ApproxDP(max(one.epsilon, other.epsilon), max(_delta(one), _delta(other)), relation=one.relation)
