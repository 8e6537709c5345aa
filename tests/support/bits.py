"""Bit sources for tests: repeatable ones, and one that walks through every possible string of bits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.noise.entropy import BitSource


class SeededBits:
    """Repeatable bits for statistical tests; the product has no such thing."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def word(self) -> int:
        return int(self._generator.integers(0, 2**64, dtype=np.uint64))

    def bits(self, count: int) -> int:
        result = 0
        for _ in range(-(-count // 64)):
            result = result << 64 | self.word()
        return result >> (-count % 64)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)


class ListedBits:
    """The words given, and then bits of ``rest``; for driving a sampler into a chosen corner."""

    def __init__(self, words: Iterable[int], rest: BitSource | None = None) -> None:
        self._words = list(words)
        self._rest = rest or SeededBits(0)
        self.drawn_after = 0

    def word(self) -> int:
        return self._words.pop(0) if self._words else self._rest.word()

    def bits(self, count: int) -> int:
        self.drawn_after += count
        return self._rest.bits(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.array([self.word() for _ in range(count)], dtype=np.uint64)


class OutOfBitsError(Exception):
    """The string of bits being tried is too short for the sampler to finish."""


class StringOfBits:
    """A finite string of bits, read from the left; raises :class:`OutOfBitsError` at its end."""

    def __init__(self, string: tuple[int, ...]) -> None:
        self._string = string
        self.used = 0

    def bits(self, count: int) -> int:
        if self.used + count > len(self._string):
            raise OutOfBitsError
        taken = self._string[self.used : self.used + count]
        self.used += count
        return int("".join(map(str, taken)) or "0", 2)

    def word(self) -> int:
        return self.bits(64)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.array([self.word() for _ in range(count)], dtype=np.uint64)


def enumerate_outputs(
    sampler: Callable[[BitSource], Hashable], depth: int
) -> tuple[dict[Hashable, Fraction], Fraction]:
    """The exact probability of each output over all bit strings up to ``depth``, and the mass not yet decided.

    The true probability of an output lies between its entry and its entry plus the undecided mass.
    """
    mass: dict[Hashable, Fraction] = defaultdict(Fraction)
    undecided = Fraction(0)
    for string in _undecided_prefixes(sampler, depth, mass):
        undecided += Fraction(1, 2 ** len(string))
    return dict(mass), undecided


def _undecided_prefixes(
    sampler: Callable[[BitSource], Hashable], depth: int, mass: dict[Hashable, Fraction]
) -> Iterator[tuple[int, ...]]:
    stack: list[tuple[int, ...]] = [()]
    while stack:
        string = stack.pop()
        try:
            output = sampler(StringOfBits(string))
        except OutOfBitsError:
            if len(string) == depth:
                yield string
            else:
                stack += [(*string, 0), (*string, 1)]
        else:
            mass[output] += Fraction(1, 2 ** len(string))
