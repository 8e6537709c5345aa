"""Exact scores of candidates, shared by the selection mechanisms.

A selection mechanism sees only *gaps*: how many steps each candidate's score lies below the best one.

* Whole numbers, fractions and decimals are taken as they are; their step is one over the common denominator.
* Floats, and whatever is listed together with floats, go on a public :class:`~tacit.mechanisms.grid.Grid` that the
  sensitivity and epsilon fix alone. Rounding to the nearest point moves a score by at most half a step, so two
  neighbours' scores differ by at most one step more than declared; the mechanism reckons with that.

Where noise is *added* (``additive``), fractions need a public step too: a step taken from the denominators in the data
would show in the noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Generic, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.guarantees import PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_positive,
    exact_probability,
    float_nearest,
    float_up,
    log_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.base import Mechanism, smallest_that
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.key_order import plain_order
from tacit.noise.laplace import LARGEST_SCALE

#: Accepted forms of scores: numbers in a list or an array, or a mapping from candidate to score.
ScoreList = Sequence[Number] | NDArray[Any] | Mapping[Any, Number]

#: Gaps saturate here. Lifting all scores to at least best - 2⁶² is itself 1-Lipschitz, so nothing is lost in privacy.
LARGEST_GAP: Final = 1 << 62


@dataclass(frozen=True)
class Scores:
    """Scores as integers.

    Attributes:
        gaps: steps below the best, one per candidate; the best has 0. Integers of any size where 64 bits are too few.
        step: length of one step, in the unit of the scores.
        rounded: whether scores were rounded to the step, which enlarges their sensitivity by one step.
        labels: the candidates, or ``None`` when they are known by index.
    """

    gaps: NDArray[Any]
    step: Fraction
    rounded: bool
    labels: tuple[Any, ...] | None

    def label(self, index: int) -> Any:
        """The candidate at ``index``."""
        return index if self.labels is None else self.labels[index]


T = TypeVar("T")


class Selection(Mechanism, Generic[T]):
    """Base class of selection mechanisms: their parameters, and the conversion of scores to gaps."""

    def __init__(
        self,
        *,
        epsilon: Number,
        sensitivity: Number,
        monotone: bool = False,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        self._epsilon = exact_positive(epsilon, "epsilon")
        self._sensitivity = exact_positive(sensitivity, "sensitivity")
        self._relation = as_relation(relation)
        self._monotone = check_monotone(monotone, self._relation)

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of one release."""
        return PureDP(self._epsilon, relation=self._relation)

    @property
    def epsilon(self) -> Fraction:
        """The ε of the guarantee."""
        return self._epsilon

    @property
    def sensitivity(self) -> Fraction:
        """The furthest that one unit can move any one score."""
        return self._sensitivity

    @property
    def monotone(self) -> bool:
        """Whether one unit moves all scores in the same direction."""
        return self._monotone

    @property
    def scale(self) -> Fraction:
        """Score difference that changes a probability by a factor of e: 2Δ/ε, or Δ/ε for monotone scores."""
        return self._scale_of(self._sensitivity)

    @abstractmethod
    def release(self, scores: ScoreList, candidates: Sequence[Any] | None = None) -> T:
        """Choose among the candidates."""

    def _read(self, scores: ScoreList, candidates: Sequence[Any] | None, *, additive: bool = False) -> Scores:
        return read_scores(scores, candidates, grid=self._grid, additive=additive)

    def _read_as_given(self, scores: ScoreList) -> Scores:
        """Read scores in the order of ``scores``, also of a mapping; only for laws that are not released."""
        return read_scores(list(scores.values()) if isinstance(scores, Mapping) else scores, None, grid=self._grid)

    def _scale_in_steps(self, scores: Scores) -> Fraction:
        """Return the scale in steps of ``scores``; the sensitivity is a step larger where scores were rounded."""
        return self._scale_of(self._sensitivity + scores.rounded * scores.step) / scores.step

    def _scale_of(self, sensitivity: Fraction) -> Fraction:
        return (1 if self._monotone else 2) * sensitivity / self._epsilon

    @property
    def _grid(self) -> Grid:
        return Grid.for_noise(self.scale, self._sensitivity, 1, LARGEST_SCALE)

    def _loss_up(self, log_odds: Fraction) -> Fraction:
        """Return scale·log_odds, enlarged by a relative 2⁻²⁴ or so to cover the rounding of scores."""
        step = self._grid.step
        return self._scale_of(self._sensitivity + step) * log_odds + step

    def __repr__(self) -> str:
        monotone = ", monotone" if self._monotone else ""
        return f"{type(self).__name__}({self.guarantee!r}, sensitivity={float(self._sensitivity):g}{monotone})"


class WeightedSelection(Selection[Any]):
    """A mechanism that chooses one candidate by a known law, with odds of the form exp(score/scale)."""

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        candidates: SupportsIndex,
        sensitivity: Number,
        optimal: SupportsIndex = 1,
        monotone: bool = False,
        relation: Relation | str = ADD_REMOVE,
    ) -> Self:
        """Return the mechanism of the smallest ε with ``error(beta, candidates, optimal) <= within``."""

        def make(epsilon: Number, kind: type[Self] = cls) -> Self:
            return kind(epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, relation=relation)

        log_odds = cls._log_odds(beta, candidates, optimal)
        if log_odds == 0:
            raise InputError("beta", "is so large that any epsilon will do; state epsilon itself")
        start = make(1).scale * log_odds
        return make(calibrate_epsilon(lambda epsilon: make(epsilon).error(beta, candidates, optimal), within, start))

    def error(self, beta: Number, candidates: SupportsIndex, optimal: SupportsIndex = 1) -> float:
        """Return the distance below the best score that the choice exceeds with probability at most ``beta``.

        Args:
            beta: the probability that the bound may fail.
            candidates: number of candidates.
            optimal: number of candidates that are known to share the best score.
        """
        return float_up(self._loss_up(self._log_odds(beta, candidates, optimal)))

    def probabilities(self, scores: ScoreList) -> list[float]:
        """Return the probability of each candidate, to about the last digit; data-dependent, not for publication."""
        return [float_nearest((low + high) / 2) for low, high in self.probability_bounds(scores)]

    @abstractmethod
    def probability_bounds(self, scores: ScoreList) -> list[tuple[Fraction, Fraction]]:
        """Return rational bounds on the probability of each candidate. They depend on the data: not for publication."""

    @staticmethod
    @abstractmethod
    def _log_odds(beta: Number, candidates: SupportsIndex, optimal: SupportsIndex) -> Fraction:
        """Return the error in units of the scale that the choice exceeds with probability <= ``beta``; rounded up."""


def check_monotone(monotone: bool, relation: Relation) -> bool:
    """Refuse ``monotone`` under a relation that does not allow it."""
    if not isinstance(monotone, bool):
        raise InputError("monotone", f"must be True or False, not {type(monotone).__name__}")
    if monotone and relation is not ADD_REMOVE:
        raise InputError(
            "monotone",
            "needs relation='add_remove': replacing a unit can raise one score and lower another; write monotone=False",
        )
    return monotone


def check_candidates(candidates: SupportsIndex, optimal: SupportsIndex = 1) -> tuple[int, int]:
    """Check and return the number of candidates and the number of those that share the best score."""
    total = check_count(candidates, "candidates")
    return total, check_count(optimal, "optimal", maximum=total)


def calibrate_epsilon(error: Callable[[Fraction], float], within: Number, start: Fraction) -> Fraction:
    """Return the smallest epsilon, rounded up to ten digits, whose error bound is at most ``within``."""
    bound = exact_positive(within, "within")
    return smallest_that(lambda epsilon: error(epsilon) <= bound, start / bound)


def log_inverse(ratio: Fraction, beta: Number) -> Fraction:
    """Return max(ln(ratio/β), 0), rounded up."""
    return max(log_bounds(ratio / exact_probability(beta, "beta"))[1], Fraction(0))


def read_scores(scores: ScoreList, candidates: Sequence[Any] | None, *, grid: Grid, additive: bool = False) -> Scores:
    """Convert scores to integer gaps, exactly.

    Args:
        scores: numbers, one per candidate, or a mapping from candidate to score, read in the public order of its keys.
        candidates: labels of the numbers; left out, candidates are known by their index.
        grid: the public grid for scores that have to be rounded.
        additive: whether noise will be added; then all but whole numbers are rounded to the public grid.
    """
    values, labels = _split(scores, candidates)
    array = _as_array(values)
    if array is not None and array.dtype == np.int64:
        return Scores(_gaps(array), Fraction(1), False, labels)
    if array is not None:
        return Scores(_gaps(_rounded(array, grid)), grid.step, True, labels)
    numbers, kinds = _exact_numbers(values)
    if kinds == {int}:
        return Scores(_saturated([number.numerator for number in numbers]), Fraction(1), False, labels)
    if float in kinds or additive:
        return Scores(_saturated([round(number / grid.step) for number in numbers]), grid.step, True, labels)
    common = math.lcm(*(number.denominator for number in numbers))
    best = max(numbers)
    gaps = [int((best - number) * common) for number in numbers]
    # Not saturated: the level would depend on the denominators in the data.
    kind = np.int64 if max(gaps) <= LARGEST_GAP else object
    return Scores(np.array(gaps, dtype=kind), Fraction(1, common), False, labels)


def _split(scores: ScoreList, candidates: Sequence[Any] | None) -> tuple[Any, tuple[Any, ...] | None]:
    if isinstance(scores, Mapping):
        if candidates is not None:
            raise InputError("candidates", "must be left out when scores map candidates to numbers")
        # Ties go to the lower index, and the order in which a mapping was filled is not public.
        numbers, order = list(scores.values()), plain_order(scores)
        labels: tuple[Any, ...] | None = tuple(order.values())
        values: Any = [numbers[i] for i in order]
    else:
        values, labels = _listed(scores, "scores"), None
        if candidates is not None:
            labels = tuple(_listed(candidates, "candidates"))
    if not len(values):
        raise InputError("scores", "must hold at least one candidate")
    if labels is not None and len(labels) != len(values):
        raise InputError("candidates", f"must be as many as scores: {len(labels)} given for {len(values)} scores")
    return values, labels


def _listed(values: Any, parameter: str) -> Any:
    if isinstance(values, str | bytes | Set) or not isinstance(values, Iterable):
        raise InputError(parameter, f"must be a list or a one-dimensional array, not {type(values).__name__}")
    if isinstance(values, np.ndarray) or hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim != 1:
            raise InputError(parameter, f"must be one-dimensional, got {array.ndim} dimensions")
        return array
    return values if isinstance(values, list | tuple | range) else list(values)


def _as_array(values: Any) -> NDArray[Any] | None:
    """Return an int64 or float64 array if all values are of that one kind, else ``None``."""
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        if kind == "f" and values.dtype.itemsize <= 8:
            return values.astype(np.float64)
        # An unsigned number may exceed an int64, and whether one does is up to the data.
        return values.astype(np.int64) if kind == "i" else None
    kinds = set(map(type, values))
    if kinds == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            return None
    return np.array(values, dtype=np.float64) if kinds == {float} else None


def _exact_numbers(values: Any) -> tuple[list[Fraction], set[type]]:
    """Return the numbers as Fractions, and the set of their types: ``int``, ``float``, or ``Fraction`` for the rest."""
    listed = values.tolist() if isinstance(values, np.ndarray) and values.dtype.kind == "u" else values
    kinds = {_kind(value) for value in listed}
    return [_exact_number(value) for value in listed], kinds


def _kind(value: Any) -> type:
    if isinstance(value, float | np.floating):
        return float
    return int if isinstance(value, int | np.integer) else Fraction


def _exact_number(value: Any) -> Fraction:
    # No message quotes a score: it is a function of the data.
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise InputError("scores", "must be finite; map NaN and infinities to a public value first")
        # The binary value itself, as in an array of floats; a parameter's decimal reading could differ by an ulp.
        return Fraction(*value.as_integer_ratio())
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_):
        return Fraction(int(value))
    try:
        return exact(value, "scores")
    except InputError:
        raise InputError(
            "scores",
            f"must be finite numbers of ordinary length, and one of them, of type {type(value).__name__}, is not",
        ) from None


def _rounded(values: NDArray[np.float64], grid: Grid) -> NDArray[np.int64]:
    """Round floats to steps, clamped to 2⁶² in size: clamping moves no two scores further apart."""
    if not np.isfinite(values).all():
        raise InputError("scores", "must be finite; map NaN and infinities to a public value first")
    most = math.ldexp(float(LARGEST_GAP), grid.exponent)
    return grid.to_units(np.clip(values, -most, most), "scores")


def _saturated(values: list[int]) -> NDArray[np.int64]:
    """Return the gaps below the largest of integers of any size, saturated."""
    best = max(values)
    return np.array([min(best - value, LARGEST_GAP) for value in values], dtype=np.int64)


def _gaps(values: NDArray[np.int64]) -> NDArray[np.int64]:
    # Differences of int64 may need 64 bits without a sign; unsigned subtraction is exact modulo 2⁶⁴.
    below = np.uint64(values.max().view(np.uint64)) - values.view(np.uint64)
    gaps: NDArray[np.int64] = np.minimum(below, np.uint64(LARGEST_GAP)).astype(np.int64)
    return gaps
