"""The sparse vector technique: ask as many queries as you like, pay only for those that exceed a threshold.

See ``sparse_vector.proof.md`` for the proof.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from threading import Lock
from typing import Final, NoReturn, SupportsIndex

from tacit.core.errors import AccountingError, BudgetError, InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_positive,
    exact_probability,
    float_up,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.base import Mechanism, check_iterable, per_output_beta, read_numbers
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.mechanisms.selection_scores import calibrate_epsilon, check_monotone
from tacit.noise.laplace import DiscreteLaplace

#: The split between threshold and queries is rounded to this many parts.
_PARTS: Final = 10**6


class SparseVector(Mechanism):
    """Releases, for each number of a stream, whether it is above a threshold; stops after ``positives`` yes answers.

    One object is one stream of queries (:meth:`ask`), which may depend on earlier answers. "Below" answers are free, in
    any number. When the "above" answers are used up, every further query raises
    :class:`~tacit.core.errors.BudgetError`. A stream cannot be copied, pickled or carried over a fork, because the
    copy would answer again at no cost.

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP for the whole stream, with ε = ε₁ + ε₂ + ε₃,

        where, with c = ``positives``,
          * the threshold gets discrete Laplace noise of scale Δ/ε₁, once;
          * every query gets fresh discrete Laplace noise of scale 2cΔ/ε₂, or cΔ/ε₂ with ``monotone=True``;
          * ε₃ is ``epsilon_values``, a part of ``epsilon``: with it :meth:`ask_value` returns the value of each
            yes-answer with fresh noise of scale cΔ/ε₃. The noise that was compared is never shown;
          * ε₁ : ε₂ = 1 : (2c)^(2/3), or 1 : c^(2/3) if monotone, unless ``epsilon_threshold`` states ε₁.

    Sensitivity:
        ``sensitivity`` Δ is the furthest that one unit can move any one of the numbers. By default the stream is of
        whole numbers, which move by whole numbers. With ``whole=False`` floats are rounded to a public power of two,
        2²⁴ times finer than Δ and every noise, and one step is added to Δ.

    Error:
        with probability at least 1 - β, over all of k queries, every number called above is at least T - α and
        every number called below is less than T + α. See :meth:`error` for α and :meth:`value_error`.

    Assumes:
        with ``monotone=True``, that one unit moves *all* numbers of the stream in the same direction.

    References:
        Dwork and Roth (2014), section 3.6; Lyu, Su and Li (2017), *Understanding the sparse vector technique*,
        whose algorithm 7 this is, and who list the variants that are not private.

    >>> alarm = SparseVector(epsilon=1, sensitivity=1, threshold=100)
    >>> alarm.guarantee, alarm.left
    (PureDP(1), 1)
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number,
        threshold: Number,
        positives: SupportsIndex = 1,
        monotone: bool = False,
        epsilon_values: Number | None = None,
        epsilon_threshold: Number | None = None,
        whole: bool = True,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        self._epsilon = exact_positive(epsilon, "epsilon")
        self._sensitivity = exact_positive(sensitivity, "sensitivity")
        self._threshold = exact(threshold, "threshold")
        self._positives = check_count(positives, "positives", maximum=10**9)
        self._relation = as_relation(relation)
        self._monotone = check_monotone(monotone, self._relation)
        if not isinstance(whole, bool):
            raise InputError("whole", f"must be True or False, not {type(whole).__name__}")
        self._set_epsilons(epsilon_values, epsilon_threshold)
        self._set_units(whole)
        self._left, self._pid, self._lock = self._positives, os.getpid(), Lock()
        self._noisy_threshold = self._cut + DiscreteLaplace(self._threshold_scale).sample()
        self._query_noise = DiscreteLaplace(self._query_scale)

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        queries: SupportsIndex,
        sensitivity: Number,
        threshold: Number,
        positives: SupportsIndex = 1,
        monotone: bool = False,
        whole: bool = True,
        relation: Relation | str = ADD_REMOVE,
    ) -> SparseVector:
        """Return the stream of the smallest ε whose :meth:`error` over ``queries`` is at most ``within``."""
        make = partial(
            cls, sensitivity=sensitivity, threshold=threshold, positives=positives,
            monotone=monotone, whole=whole, relation=relation,
        )  # fmt: skip
        start = exact_positive(sensitivity, "sensitivity")
        found = calibrate_epsilon(lambda epsilon: make(epsilon=epsilon).error(beta, queries), within, start)
        return make(epsilon=found)

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of the whole stream, however long."""
        return PureDP(self._epsilon, relation=self._relation)

    @property
    def event(self) -> PureEvent:
        """Event of the whole stream, for accountants."""
        return PureEvent(self._epsilon, "sparse_vector", relation=self._relation)

    @property
    def epsilon(self) -> Fraction:
        """ε of the whole stream."""
        return self._epsilon

    @property
    def sensitivity(self) -> Fraction:
        """The furthest that one unit can move any one number of the stream."""
        return self._sensitivity

    @property
    def monotone(self) -> bool:
        """Whether one unit moves all numbers of the stream in the same direction."""
        return self._monotone

    @property
    def epsilons(self) -> tuple[Fraction, Fraction, Fraction]:
        """ε₁ for the threshold, ε₂ for the queries, ε₃ for values; they add up to ε."""
        return self._epsilons

    @property
    def left(self) -> int:
        """Remaining number of "above" answers; public, since the answers are."""
        return self._left

    def ask(self, value: int | float) -> bool:
        """Return whether ``value`` plus noise is above the threshold plus noise."""
        return self._ask(self._units(value))

    def ask_value(self, value: int | float) -> int | float | None:
        """Return ``value`` plus fresh noise where :meth:`ask` would return True, else ``None``."""
        if self._value_noise is None:
            raise InputError("epsilon_values", "must be stated when the stream is made for it to release values")
        units = self._units(value)
        if not self._ask(units):
            return None
        noisy = units + self._value_noise.sample()
        return noisy if self._grid is None else self._grid.to_float(noisy)

    def release(self, values: Iterable[int | float]) -> list[bool]:
        """Ask about one value after the other; the answers end with the last "above" answer that remains."""
        answers: list[bool] = []
        for value in check_iterable(values, "values", "a list of numbers"):
            answers.append(self.ask(value))
            if not self._left:
                break
        return answers

    def error(self, beta: Number, queries: SupportsIndex) -> float:
        """Return α, which the distance of any misjudged number from the threshold exceeds with probability <= β.

        The probability is that over all ``queries``.
        """
        half = exact_probability(beta, "beta") / 2
        threshold = LaplaceNoise(self._threshold_scale).quantile(half)
        query = LaplaceNoise(self._query_scale).quantile(per_output_beta(half, check_count(queries, "queries")))
        # On the grid the number and the threshold have each been rounded by up to half a step.
        return float_up((threshold + query + (self._grid is not None)) * self._step)

    def value_error(self, beta: Number, k: SupportsIndex = 1) -> float:
        """Return a bound that the error of any of ``k`` values of :meth:`ask_value` exceeds with probability <= β."""
        if self._value_noise is None:
            raise InputError("epsilon_values", "must be stated when the stream is made for it to release values")
        largest = LaplaceNoise(self._value_noise.scale).quantile(per_output_beta(beta, check_count(k, "k")))
        return float_up((largest + (self._grid is not None) * Fraction(1, 2)) * self._step)

    def __repr__(self) -> str:
        return (
            f"SparseVector({self.guarantee!r}, threshold={float(self._threshold):g}, "
            f"positives={self._positives}, left={self._left})"
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise AccountingError("a sparse vector cannot be copied or pickled: the copy would answer again at no charge")

    def _set_epsilons(self, values: Number | None, threshold: Number | None) -> None:
        third = Fraction(0) if values is None else exact_positive(values, "epsilon_values")
        rest = self._epsilon - third
        if rest <= 0:
            raise InputError("epsilon_values", "is a part of epsilon and must be smaller than it")
        first = rest * self._share() if threshold is None else exact_positive(threshold, "epsilon_threshold")
        if first >= rest:
            raise InputError("epsilon_threshold", "must leave some of epsilon for the queries")
        self._epsilons = (first, rest - first, third)

    def _share(self) -> Fraction:
        """Return the share of ε₁ in ε₁ + ε₂: 1/(1 + (2c)^(2/3)), or c in place of 2c if monotone, in millionths.

        Any share is private; this one gives the smallest error.
        """
        moved = self._positives * (1 if self._monotone else 2)
        return Fraction(min(max(round(_PARTS / (1 + math.cbrt(moved**2))), 1), _PARTS - 1), _PARTS)

    def _set_units(self, whole: bool) -> None:
        scales = self._scales(self._sensitivity)
        self._grid = None if whole else Grid.for_scale(min(self._sensitivity, *(scale for scale in scales if scale)))
        if self._grid is None:
            # Whole numbers that move by at most Δ move by at most ⌊Δ⌋; if that is 0 they do not move, and 1 is safe.
            self._step, moved = Fraction(1), max(math.floor(self._sensitivity), 1)
            self._cut = math.ceil(self._threshold)
        else:
            self._step, moved = self._grid.step, self._grid.l1_sensitivity(self._sensitivity)
            self._cut = round(self._threshold / self._step)
        self._threshold_scale, self._query_scale, value_scale = self._scales(Fraction(moved))
        self._value_noise = DiscreteLaplace(value_scale) if value_scale else None

    def _scales(self, moved: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        first, second, third = self._epsilons
        factor = self._positives * (1 if self._monotone else 2)
        return moved / first, factor * moved / second, self._positives * moved / third if third else Fraction(0)

    def _units(self, value: int | float) -> int:
        if type(value) is int and self._grid is None:
            # Of any size: how large a number is must not raise an error.
            return value
        readings = read_numbers(value, "value")
        if readings.form != "scalar":
            raise InputError("value", "must be one number; use release for a list of them")
        if self._grid is None:
            if not readings.whole:
                raise InputError("value", "must be a whole number; make the stream with whole=False for floats")
            return int(readings.array[0])
        if readings.whole:
            return round(int(readings.array[0]) / self._step)
        return self._grid.to_unit(float(readings.array[0]))

    def _ask(self, units: int) -> bool:
        # The lock makes counting and answering one step: two threads must not both get the last "above" answer.
        with self._lock:
            if os.getpid() != self._pid:
                raise AccountingError("this sparse vector was made in another process, which may be asking it too")
            if not self._left:
                raise BudgetError(
                    f"this sparse vector has given all of its yes-answers ({self._positives}) and is used up; "
                    "a new one has a cost of its own"
                )
            above = units + self._query_noise.sample() >= self._noisy_threshold
            self._left -= above
            return above
