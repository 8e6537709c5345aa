"""Random decisions of a client, and the exact law of a protocol by walking through all of them.

A protocol makes every random decision by one of the three methods of :class:`Draws`. :class:`SystemDraws` makes them
with the samplers of :mod:`tacit.noise`, which are exact. :func:`output_law` runs the same code once for every sequence
of outcomes and adds up their probabilities as rationals, so that what is checked is the code that runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.noise import entropy
from tacit.noise.bernoulli import Coin
from tacit.noise.uniform import sample_below

#: Sequences of decisions that :func:`output_law` walks through at most.
_MOST_WALKS: Final = 1 << 18


class Draws(Protocol):
    """Independent random decisions."""

    def toss(self, coin: Coin) -> bool:
        """One toss of a coin."""

    def toss_many(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        """``count`` tosses of a coin."""

    def below(self, bound: int) -> int:
        """An integer from 0 to ``bound`` - 1, each equally likely."""


class SystemDraws:
    """Decisions from the operating system's entropy, exact."""

    def toss(self, coin: Coin) -> bool:
        """One toss of a coin."""
        return coin.toss(entropy.current())

    def toss_many(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        """``count`` tosses of a coin."""
        return coin.toss_many(count, entropy.current())

    def below(self, bound: int) -> int:
        """An integer from 0 to ``bound`` - 1, each equally likely."""
        return sample_below(bound, entropy.current())


SYSTEM: Final = SystemDraws()


class _Scripted:
    """Decisions by a script of outcomes; the first one beyond it is taken as 0 and noted for the next walk."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = script
        self.taken: list[tuple[int, int]] = []
        self.probability = Fraction(1)

    def _choose(self, chances: Callable[[int], Fraction], number: int) -> int:
        place = len(self.taken)
        outcome = self._script[place] if place < len(self._script) else 0
        self.taken.append((outcome, number))
        self.probability *= chances(outcome)
        return outcome

    def toss(self, coin: Coin) -> bool:
        return self._choose(lambda outcome: coin.probability if outcome else 1 - coin.probability, 2) == 1

    def toss_many(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        return np.array([self.toss(coin) for _ in range(count)], dtype=np.bool_)

    def below(self, bound: int) -> int:
        return self._choose(lambda _: Fraction(1, bound), bound)


def output_law(randomise: Callable[[Draws], bytes]) -> dict[bytes, Fraction]:
    """Exact probability of each output of a randomiser, from the code that runs.

    Args:
        randomise: makes one output with the decisions that it is given.

    Raises:
        InputError: there are too many sequences of decisions; take a smaller domain.
    """
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    script: tuple[int, ...] = ()
    for _ in range(_MOST_WALKS):
        walk = _Scripted(script)
        output = randomise(walk)
        if walk.probability:
            law[output] += walk.probability
        following = _following(walk.taken)
        if following is None:
            return dict(law)
        script = following
    raise InputError("protocol", f"has more than {_MOST_WALKS} sequences of decisions; take a smaller domain")


def largest_ratio(laws: Iterable[dict[bytes, Fraction]]) -> Fraction:
    """The largest ratio of an output's probabilities under two of the laws; its logarithm is the true ε.

    Raises:
        InputError: some output is possible under one law and impossible under another.
    """
    listed = list(laws)
    outputs = set().union(*listed)
    if any(law.keys() != outputs for law in listed):
        raise InputError("protocol", "has an output that some value never gives; no ε covers it")
    return max(max(law[each] for law in listed) / min(law[each] for law in listed) for each in outputs)


def _following(taken: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """The next script in lexicographic order; None after the last."""
    while taken:
        outcome, number = taken.pop()
        if outcome + 1 < number:
            return (*(each for each, _ in taken), outcome + 1)
    return None
