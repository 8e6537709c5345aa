"""Exhibits: preprocessing bugs, where the mechanism is right and its input is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from audit.museum.exhibit import Piece
from tacit.audit.replay import ReplayReport
from tacit.audit.search import replay_neighbours
from tacit.core.errors import InputError
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.laplace import Laplace

_AGES = [31.0, 45.0, 27.0, 62.0, 8.0]
_TOP = 100


def average_paid_once(values: Sequence[int]) -> float:
    """A mean of values from 0 to 100, for ε = 1 in all: a sum and a count, each of which takes the whole ε."""
    total = Laplace(epsilon=1, l1_sensitivity=_TOP).release(sum(min(max(value, 0), _TOP) for value in values))
    count = Laplace(epsilon=1, l1_sensitivity=1).release(len(values))
    return total / max(count, 1)


def average_paid_twice(values: Sequence[int]) -> float:
    """Corrected: half of ε each."""
    total = Laplace(epsilon="1/2", l1_sensitivity=_TOP).release(sum(min(max(value, 0), _TOP) for value in values))
    count = Laplace(epsilon="1/2", l1_sensitivity=1).release(len(values))
    return total / max(count, 1)


def sum_without_bounds(values: Sequence[int], bounds: tuple[int, int] | None = None) -> int:
    """A sum for ε = 1; without bounds there is no sensitivity, and without sensitivity the noise is skipped."""
    sensitivity = None if bounds is None else max(abs(bounds[0]), abs(bounds[1]))
    clamped = [value if bounds is None else min(max(value, bounds[0]), bounds[1]) for value in values]
    return sum(clamped) if sensitivity is None else Laplace(epsilon=1, l1_sensitivity=sensitivity).release(sum(clamped))


def clip_then_forget(values: Sequence[int]) -> int:
    """A sum of values from 0 to 100 for ε = 1, taken over the list that was not clipped."""
    clipped = [min(max(value, 0), _TOP) for value in values]
    total = sum(values) if len(clipped) == len(values) else 0
    return Laplace(epsilon=1, l1_sensitivity=_TOP).release(total)


def clip_and_use(values: Sequence[int]) -> int:
    """Corrected: over the clipped list."""
    return Laplace(epsilon=1, l1_sensitivity=_TOP).release(sum(min(max(value, 0), _TOP) for value in values))


def nan_through_clip(values: Sequence[float]) -> float:
    """A sum of values from 0 to 100 for ε = 1; every comparison with NaN is false, so NaN is never too large."""
    total = 0.0
    for value in values:
        clipped = _TOP if value > _TOP else 0.0 if value < 0 else value
        total += float(math.floor(clipped)) if clipped == clipped else clipped
    return float(Laplace(epsilon=1, l1_sensitivity=_TOP).release(total))


def nan_counted_as_zero(values: Sequence[float]) -> float:
    """Corrected: the comparison is written so that NaN falls on a public value."""
    total = sum(math.floor(min(value, _TOP)) if value >= 0 else 0 for value in values)
    return float(Laplace(epsilon=1, l1_sensitivity=_TOP).release(float(total)))


def quantile_between_records(values: Sequence[int]) -> int:
    """A median for ε = 1 by the exponential mechanism over the records themselves; the empty list is forgotten."""
    ordered = sorted(min(max(value, 0), _TOP) for value in values)
    middle = ordered[len(ordered) // 2]
    scores = [-abs(2 * i - len(ordered)) for i in range(len(ordered))]
    chosen = Exponential(epsilon=1, sensitivity=1).release(scores)
    return ordered[chosen] if middle >= 0 else 0


def quantile_on_a_grid(values: Sequence[int]) -> int:
    """Corrected: public candidates, each with a score for any list, the empty one included."""
    clamped = [min(max(value, 0), _TOP) for value in values]
    candidates = range(0, _TOP + 1, 5)
    # |records below - records above|, which one record moves by 1.
    scores = [
        -abs(sum(value < each for value in clamped) - sum(value > each for value in clamped)) for each in candidates
    ]
    return int(Exponential(epsilon=1, sensitivity=1).release(scores, list(candidates)))


def refused_without_bounds(values: Sequence[int], bounds: tuple[int, int] | None = None) -> int:
    """A sum that will not be taken without bounds, whatever the data is."""
    if bounds is None:
        raise InputError("bounds", "must be stated")
    return sum_without_bounds(values, bounds)


def _replayed(
    function: Callable[[Any], Any], database: Sequence[Any], **words: Any
) -> Callable[[], Sequence[ReplayReport]]:
    return lambda: replay_neighbours(function, list(database), **words)


_WHOLE = [int(age) for age in _AGES]

PIECES = (
    Piece(
        name="average-paid-once",
        title="AVG charged once, spent twice",
        story="A mean is a sum over a count. Each was given the whole epsilon, and the account was charged "
        "once. Every part is right by itself, so every part's own test passes.",
        seen_in="smartnoise-sdk#202",
        tool="replay",
        flawed=_replayed(average_paid_once, _WHOLE, claimed=1),
        mended=_replayed(average_paid_twice, _WHOLE, claimed=1),
    ),
    Piece(
        name="sum-without-bounds",
        title="no bounds, no sensitivity, no noise",
        story="The bounds of a column were missing from the metadata. Its sensitivity became None, and the code "
        "that adds noise was skipped for None. The answer still looked like an answer.",
        seen_in="smartnoise-sdk#317",
        tool="replay",
        flawed=_replayed(sum_without_bounds, _WHOLE),
        mended=_replayed(refused_without_bounds, _WHOLE),
    ),
    Piece(
        name="clip-then-forget",
        title="clipped, and then the raw data used",
        story="The data was clipped into a new variable, and the next line used the old one. With tidy test "
        "data, which is within the bounds, the two are the same.",
        seen_in="smartnoise-sdk#622, diffprivlib#104",
        tool="replay",
        flawed=_replayed(clip_then_forget, _WHOLE),
        mended=_replayed(clip_and_use, _WHOLE),
    ),
    Piece(
        name="nan-through-clip",
        title="NaN is not too large",
        story="Clipping compares, and every comparison with NaN is false, so NaN passes every clip. One such "
        "record turns the sum into NaN, which no noise hides.",
        seen_in="diffprivlib, Opacus, SmartNoise Synth, Synthcity, dpmm (Cebere and others 2026)",
        tool="replay",
        flawed=_replayed(nan_through_clip, _AGES),
        mended=_replayed(nan_counted_as_zero, _AGES),
    ),
    Piece(
        name="quantile-crash",
        title="a quantile that fails on one neighbour",
        story="The candidates were the records themselves. Their number is secret, and of no records there is "
        "no middle one: the error says that the table is empty.",
        seen_in="PyDP#120 (aborts and asks for a larger dataset); opendp#2580",
        tool="replay",
        flawed=_replayed(quantile_between_records, _WHOLE),
        mended=_replayed(quantile_on_a_grid, _WHOLE),
    ),
)
