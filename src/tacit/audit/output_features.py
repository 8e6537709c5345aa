"""Outputs of a mechanism as numeric features for a test.

A mechanism may return anything: a number, a table, nothing, an exception. All that an observer could notice is
turned into a row of *features*: the values themselves, how many there are, their differences, the largest and the
smallest, which exception was raised, and for floats the exponent of the lowest bit that is set, where careless
arithmetic leaves traces of the secret input.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Runs a mechanism once on the data it was made for.
Observer = Callable[[Any], Any]

_MOST_NUMBERS: Final = 64
_MOST_SHAPES: Final = 32
#: So many times the usual spread away from the middle, a number is as far out as can be.
_FAR: Final = 20.0
_HUGE: Final = 2.0**1000
#: Where an object lives in memory says nothing, and would look like a difference.
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Observation:
    """Features of one output.

    Args:
        label: names the output exactly; equal outputs have equal labels.
        shape: what kind of thing it is: its structure, the text in it, or the exception that was raised.
        numbers: every number in it, in order.
    """

    label: Hashable
    shape: str
    numbers: tuple[int | float, ...]


def observe(mechanism: Observer, data: Any) -> Observation:
    """Run a mechanism once. An exception is an output like any other: an analyst sees it."""
    try:
        output = mechanism(data)
    except Exception as problem:
        shape = f"raised {type(problem).__name__}: {problem}"
        return Observation(shape, shape, ())
    numbers: list[int | float] = []
    shape = _walk(output, numbers)
    return Observation((shape, tuple(map(_exactly, numbers))), shape, tuple(numbers))


def _walk(output: Any, numbers: list[int | float]) -> str:
    """The structure of an output, with its numbers taken out."""
    if output is None or isinstance(output, (str, bytes)):
        return repr(output)
    if isinstance(output, np.generic):
        return _walk(output.item(), numbers)
    if isinstance(output, (int, float, Fraction)):
        numbers.append(output if isinstance(output, (int, float)) else float(output))
        return "?" if isinstance(output, bool) else "#"
    if isinstance(output, np.ndarray):
        return f"array{output.shape}[{' '.join(_walk(each, numbers) for each in output.ravel().tolist())}]"
    if isinstance(output, Mapping):
        return "{" + ", ".join(f"{key!r}: {_walk(value, numbers)}" for key, value in output.items()) + "}"
    if isinstance(output, (list, tuple)):
        return "[" + " ".join(_walk(each, numbers) for each in output) + "]"
    if isinstance(output, (set, frozenset)):
        return "{" + " ".join(_walk(each, numbers) for each in sorted(output, key=repr)) + "}"
    if is_dataclass(output):
        inside = " ".join(f"{each.name}={_walk(getattr(output, each.name), numbers)}" for each in fields(output))
        return f"{type(output).__name__}({inside})"
    return _ADDRESS.sub("", repr(output))


def _exactly(number: int | float) -> str:
    return number.hex() if isinstance(number, float) else str(number)


@dataclass(frozen=True, eq=False)
class Sample:
    """Some outputs of one law, and the features of each."""

    observations: Sequence[Observation]
    table: NDArray[np.float64]


class FeatureReader:
    """Reader of features; their names are fixed on the samples that events are learned from, so that none is added.

    Args:
        observations: of both laws.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        usual = [shape for shape, _ in Counter(o.shape for o in observations).most_common(_MOST_SHAPES)]
        # Errors first: of events that tell as much, the first is reported.
        self._shapes = sorted(usual, key=lambda shape: not shape.startswith("raised "))
        self._width = min(max((len(each.numbers) for each in observations), default=0), _MOST_NUMBERS)
        values = _values(observations, self._width)[0]
        low, self._middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        self._spread = np.where(high > low, high - low, 1.0)
        self.names = [f"the shape is {shape}" for shape in self._shapes] + ["how many numbers there are"]
        places = range(1, self._width + 1)
        self.names += [f"number {i}" for i in places]
        self.names += [f"the lowest bit of number {i}" for i in places]
        self.names += [f"what kind of number {i} is" for i in places]
        if self._width > 1:
            self.names += [f"number {i + 1} less number {i}" for i in places[:-1]]
            self.names += ["the largest number", "the smallest number", "the sum of the numbers"]

    def read(self, observations: Sequence[Observation]) -> Sample:
        """The features of some outputs, a row for each."""
        shapes = {shape: j for j, shape in enumerate(self._shapes)}
        is_shape = np.zeros((len(observations), len(shapes)))
        for row, each in zip(is_shape, observations, strict=True):
            if each.shape in shapes:
                row[shapes[each.shape]] = 1
        counts = np.array([[len(each.numbers)] for each in observations], dtype=np.float64).reshape(-1, 1)
        values, lowest, kinds = _values(observations, self._width)
        # Squeezed, so that no outlier hides the rest from a linear score.
        usual = np.clip((values - self._middle) / self._spread, -_FAR, _FAR)
        parts = [is_shape, counts, usual, lowest, kinds]
        if self._width > 1:
            parts += [np.clip(np.diff(values, axis=1), -1e9, 1e9)]
            parts += [f(values, axis=1, keepdims=True) for f in (np.max, np.min)] + [usual.sum(axis=1, keepdims=True)]
        return Sample(observations, np.hstack(parts))


def _values(observations: Sequence[Observation], width: int) -> tuple[NDArray[np.float64], ...]:
    """Of every number its value, its lowest bit, and what kind of non-number it is: a row for each output."""
    values, lowest, kinds = (np.zeros((len(observations), width)) for _ in range(3))
    for i, each in enumerate(observations):
        for j, number in enumerate(each.numbers[:width]):
            if isinstance(number, float) and not math.isfinite(number):
                kinds[i, j] = 1.0 if math.isnan(number) else math.copysign(2.0, number)
            else:
                values[i, j] = float(number) if abs(number) < _HUGE else _HUGE * (1 if number > 0 else -1)
                lowest[i, j] = _lowest_bit(number)
    return values, lowest, kinds


def _lowest_bit(number: int | float) -> int:
    """The exponent of the lowest bit that is set; 0 for zero."""
    if number == 0:
        return 0
    numerator, denominator = number.as_integer_ratio()
    return ((numerator & -numerator).bit_length() - 1) - (denominator.bit_length() - 1)
