"""The mean of one bounded value per person, with the number of people public or private; see ``mean.proof.md``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, SupportsIndex

import numpy as np

from tacit.core.errors import InputError
from tacit.core.events import Event
from tacit.core.guarantees import PureDP
from tacit.core.numbers import (
    MAX_EXPONENT,
    Number,
    check_count,
    exact_positive,
    exact_probability,
    float_down,
    float_nearest,
    float_up,
    log_bounds,
)
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation, as_relation
from tacit.core.sensitivity import check_bounds
from tacit.mechanisms.base import LARGEST_VALUE, Mechanism, check_iterable, smallest_that
from tacit.mechanisms.laplace import Laplace
from tacit.noise.laplace import LARGEST_SCALE

#: Steps between the bounds when no step is stated: rounding then moves a mean by at most a two-millionth of them.
DEFAULT_STEPS: Final = 1 << 20
#: Most steps between the bounds; finer ones would only be lost in the noise.
MOST_STEPS: Final = 1 << 30


@dataclass(frozen=True)
class NoisyMean:
    """A released mean, computed from noisy integers and public parameters alone.

    Attributes:
        value: the estimate, always finite and within the bounds.
        people: the number of people: public, or estimated from the same release, off by its noise and perhaps negative.
        noisy_above: noisy total of the steps above the lower bound.
        noisy_below: noisy total of the steps below the upper bound; exactly what is left when n is public.
    """

    value: float
    people: float
    noisy_above: int
    noisy_below: int
    mechanism: Mean

    def interval(self, confidence: Number = "0.95") -> tuple[float, float]:
        """Return an interval that contains the mean of the clamped values with probability at least ``confidence``.

        The probability is over the noise. Clipping bias is not covered: values outside the bounds count as the bound.
        """
        beta = 1 - exact_probability(confidence, "confidence")
        return self.mechanism._interval(self.noisy_above, self.noisy_below, beta)


class Mean(Mechanism):
    """Releases the mean of one value per person, each clamped to public bounds.

    A value x in [L, U] becomes the whole number a = ⌊(x - L)/step + 1/2⌋ of steps above L, from 0 to g = (U - L)/step.
    A value that is no finite number (NaN, an infinity, ``None``, text) counts as the middle of the bounds; the person
    is still counted. Nothing in the data can raise an error or change the shape of the result.

    * ``n`` given: the number of people is public, and the noisy total of a is divided by it.
    * ``n`` left out: the number of people is private too. Two totals are released at once, the steps above L and the
      steps below U. One person adds a to the first and g - a to the second, g in all, so the pair costs as much as the
      first alone: no budget is split between a sum and a count, yet both can be computed.

    Privacy:
        relation: replace-one with public ``n``; add/remove with private ``n``.
        guarantee: ε-DP,

        where ε is the ``epsilon`` typed, for everything in the result together.

    Sensitivity:
        l1 = g steps in either case, rounding included: (U - L)/n in the mean of n people, 1/n for bits.

    Error:
        with w the largest of the noises at β (one of them, or two with private n), the value is off by at most
        step·w/n + step/2, and :meth:`error` returns it; :meth:`NoisyMean.interval` needs no knowledge of n. The half
        step is for rounding. Where every value is a whole number of steps above L nothing is rounded: ``whole=True``
        says so and leaves it out. It is the default where one step is all there is, as for bits with ``step=1``.

    Assumes:
        ``bounds``, ``step`` and ``n`` are public and were chosen without looking at the data. Privacy does not depend
        on ``whole``; if a value is no whole number of steps after all, it is rounded, and error and interval are about
        the mean of the rounded values.

    References:
        Dwork, McSherry, Nissim and Smith (2006) for the noise; the pair of totals is argued in ``mean.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        bounds: tuple[Number, Number],
        n: SupportsIndex | None = None,
        relation: Relation | str | None = None,
        step: Number | None = None,
        whole: bool | None = None,
    ) -> None:
        self._low, self._high = check_bounds(bounds)
        self._whole = _check_whole(whole, step, self._high - self._low)
        if self._low == self._high:
            raise InputError("bounds", "must leave room between them: a mean that cannot vary needs no release")
        self._n = None if n is None else check_count(n, "n")
        natural = ADD_REMOVE if n is None else REPLACE_ONE
        if relation is not None and as_relation(relation) is not natural:
            raise InputError("relation", _WRONG_RELATION[natural])
        self._steps, self._step = _grid(self._high - self._low, step)
        self._noise = Laplace(epsilon=epsilon, l1_sensitivity=self._steps, relation=natural)
        if self._noise.scale > LARGEST_SCALE:
            raise InputError("epsilon", f"is too small for {self._steps} steps between the bounds; state a larger step")

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        bounds: tuple[Number, Number],
        n: SupportsIndex,
        private_n: bool = False,
        step: Number | None = None,
        whole: bool | None = None,
    ) -> Mean:
        """Return the mean of the smallest ε that is off by more than ``within`` with probability at most ``beta``.

        The bound is for ``n`` people; with ``private_n`` that number is an assumption, and the true one stays private.
        ε is rounded up to ten digits.
        """
        bound, people = exact_positive(within, "within"), check_count(n, "n")
        low, high = check_bounds(bounds)
        _, size = _grid(high - low, step)
        rounding = Fraction(0) if _check_whole(whole, step, high - low) else size / 2
        if bound <= rounding:
            raise InputError("within", f"must exceed half a step, {float_nearest(size / 2):g}; state a smaller step")

        def make(epsilon: Fraction) -> Mean:
            return cls(epsilon=epsilon, bounds=bounds, n=None if private_n else people, step=step, whole=whole)

        def accurate(epsilon: Fraction) -> bool:
            return make(epsilon).error(beta, n=people) <= bound

        # The noise is about width·ln(2/β)/ε in all, of which each of n people bears a share.
        guess = (high - low) * log_bounds(2 / exact_probability(beta, "beta"))[1] / (people * (bound - rounding))
        return make(smallest_that(accurate, guess))

    @property
    def guarantee(self) -> PureDP:
        """ε-DP for the whole result."""
        return PureDP(self.epsilon, relation=self.relation)

    @property
    def event(self) -> Event:
        """Event of one release, for accountants."""
        return self._noise.event

    @property
    def relation(self) -> Relation:
        """Replace-one with public n, add/remove with private n."""
        return REPLACE_ONE if self._n is not None else ADD_REMOVE

    @property
    def epsilon(self) -> Fraction:
        """ε of the guarantee, as stated."""
        return self._noise.guarantee.epsilon

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """Clipping bounds (L, U)."""
        return self._low, self._high

    @property
    def step(self) -> Fraction:
        """Length of one step, in the unit of the values."""
        return self._step

    @property
    def n(self) -> int | None:
        """Public number of people, or ``None`` when it is private."""
        return self._n

    def release(self, values: Iterable[object]) -> NoisyMean:
        """Return the noisy mean of ``values``, one per person; an empty list is accepted."""
        raw_steps = self._quantise(values)
        if self._n is None:
            raw_above = sum(raw_steps)
            raw_below = self._steps * len(raw_steps) - raw_above
            # No list is that long, but if one were, the number of people must not raise an error.
            above, below = self._noise.release([min(raw_above, LARGEST_VALUE), min(raw_below, LARGEST_VALUE)])
        else:
            if len(raw_steps) != self._n:
                # Under replace-one the number of people is public, so this says nothing about anyone.
                raise InputError("values", f"must hold n = {self._n} values, one per person, got {len(raw_steps)}")
            above = self._noise.release(sum(raw_steps))
            below = self._steps * self._n - above
        value = self._low + (self._high - self._low) * _share(above, below)
        people = Fraction(above + below, self._steps)
        return NoisyMean(float_nearest(value), float_nearest(people), above, below, self)

    def error(self, beta: Number, k: int = 1, *, n: SupportsIndex | None = None) -> Fraction:
        """Return a bound that the error of any of ``k`` released means exceeds with probability at most ``beta``.

        Where the number of people is private, state an assumed ``n``: the bound is for a mean over ``n`` people.
        """
        people = self._n if n is None else check_count(n, "n")
        if people is None:
            raise InputError("n", "the error depends on the number of people, which is private; say what to suppose")
        if self._n not in (None, people):
            raise InputError("n", f"was stated as {self._n} already")
        return min(self._step * (self._width(beta, k) / people + self._rounding), self._high - self._low)

    def __repr__(self) -> str:
        low, high = (f"{float_nearest(end):g}" for end in self.bounds)
        people = "private" if self._n is None else self._n
        return f"Mean(bounds=({low}, {high}), n={people}, {self.guarantee!r})"

    @property
    def _rounding(self) -> Fraction:
        """Largest rounding error of one value, in steps."""
        return Fraction(0) if self._whole else Fraction(1, 2)

    def _width(self, beta: Number, k: int = 1) -> Fraction:
        """Return a bound in steps that the noise of ``k`` releases exceeds with probability at most ``beta``."""
        return Fraction(self._noise.error(beta, k=2 * k if self._n is None else k))

    def _interval(self, above: int, below: int, beta: Fraction) -> tuple[float, float]:
        width, half = self._width(beta), self._rounding / self._steps
        if self._n is None:
            # A/(A + B) rises in A and falls in B, so over the box of both it is largest and smallest in a corner.
            least, most = _share(above - width, below + width, 0), _share(above + width, below - width, 1)
        else:
            total = self._steps * self._n
            least, most = Fraction(above - width, total), Fraction(above + width, total)
        ends = (min(max(end, Fraction(0)), Fraction(1)) for end in (least - half, most + half))
        low, high = (self._low + (self._high - self._low) * end for end in ends)
        return float_down(low), float_up(high)

    def _quantise(self, values: Iterable[object]) -> list[int]:
        check_iterable(values, "values", "a list of numbers, one per person")
        if isinstance(values, np.ndarray):
            if values.ndim != 1:
                raise InputError("values", f"must have one dimension, not {values.ndim}")
            values = values.tolist()
        # (x - L)/step + 1/2 = (x·scale + shift) / common, in whole numbers.
        offset = Fraction(1, 2) - self._low / self._step
        per_unit = 1 / self._step
        common = per_unit.denominator * offset.denominator
        scale, shift = int(per_unit * common), int(offset * common)
        middle = (self._steps + 1) // 2
        steps = []
        for value in values:
            ratio = _ratio(value)
            if ratio is None:
                place = middle
            else:
                numerator, denominator = ratio
                place = (numerator * scale + shift * denominator) // (common * denominator)
            steps.append(0 if place < 0 else min(place, self._steps))
        return steps


_WRONG_RELATION: Final = {
    REPLACE_ONE: "with a public n no person comes or goes: write 'replace_one', or leave n out to keep it private",
    ADD_REMOVE: "under 'replace_one' the number of people is public: state it as n",
}


def _check_whole(whole: bool | None, step: Number | None, width: Fraction) -> bool:
    if whole is None:
        # A single step means that there are two values, such as bits.
        return step is not None and exact_positive(step, "step") == width
    if not isinstance(whole, bool):
        raise InputError("whole", f"must be True or False, not {type(whole).__name__}")
    if whole and step is None:
        raise InputError("whole", "needs a stated step, of which every value is a whole number above the lower bound")
    return whole


def _grid(width: Fraction, step: Number | None) -> tuple[int, Fraction]:
    if step is None:
        return DEFAULT_STEPS, width / DEFAULT_STEPS
    size = exact_positive(step, "step")
    steps = width / size
    if steps.denominator != 1 or steps > MOST_STEPS:
        raise InputError("step", "must divide the width of bounds into a whole number of steps, at most 2**30")
    return int(steps), size


def _share(above: Fraction | int, below: Fraction | int, otherwise: Fraction | int = Fraction(1, 2)) -> Fraction:
    """Return above / (above + below), both clamped at 0; ``otherwise`` if both are 0."""
    first, second = max(Fraction(above), Fraction(0)), max(Fraction(below), Fraction(0))
    return first / (first + second) if first + second else Fraction(otherwise)


def _ratio(value: object) -> tuple[int, int] | None:
    """Return the exact numerator and denominator of a finite number, or ``None`` for any other value."""
    try:
        if isinstance(value, int | np.integer | np.bool_):
            return int(value), 1
        if isinstance(value, Decimal) and value.is_finite() and value and abs(value.adjusted()) > MAX_EXPONENT:
            # Its digits could fill memory. It lies beyond any real bounds or next to zero, and so does its replacement.
            return _HUGE.get((value > 0, value.adjusted() > 0), 0), 1
        numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]
        ratio = int(numerator), int(denominator)
    except Exception:  # a value of a user-defined class may raise any exception, which must not show
        return None
    return ratio if ratio[1] > 0 else None


#: By sign and size: (is positive, is large).
_HUGE: Final = {(True, True): 10 ** (2 * MAX_EXPONENT), (False, True): -(10 ** (2 * MAX_EXPONENT))}
