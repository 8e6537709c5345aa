"""Adversaries of the composition experiment: memory, next move, coins.

An adversary chooses each round from what it has seen. It must be a *function* of what it has seen: an adversary that
wants to be random declares the law of its coins, which are tossed once, before the first round, and are part of its
view. Then exact computation averages over them. An adversary that tosses a coin inside ``choose`` would give
another number every time; it is refused nearly always: choices are asked for again, up to a thousand times, so a coin
that hardly ever falls otherwise can be missed, and the numbers are then those of its usual side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any

from tacit.core.divergences import as_distribution
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.lab.moves import Turn

View = tuple[Any, ...]


class Adversary(ABC):
    """Chooses each round from what it has seen.

    Its view so far is kept as a *state*; by default the whole view. An adversary that needs less says so by
    overriding :meth:`start` and :meth:`observe`, and the exact computation becomes as small as its memory.
    """

    def coins(self) -> Mapping[Any, Number] | None:
        """The law of the adversary's random coins R, or ``None`` if it has none.

        R is drawn once and is the first entry of the view. It must not be ``None`` itself.
        """
        return None

    def start(self) -> Hashable:
        """The state before the first round."""
        return ()

    def start_with(self, coins: Hashable) -> Hashable:
        """The state before the first round of an adversary whose coins came up as ``coins``."""
        return (coins,)

    @abstractmethod
    def choose(self, state: Any) -> Turn | None:
        """The next move, or several for one round, or ``None`` to stop."""

    def observe(self, state: Any, output: Hashable) -> Hashable:
        """The state after an output was seen; of a round with several moves, the tuple of their outputs."""
        return (*state, output)


class Repeat(Adversary):
    """Strategy that repeats one round: composition without adaptivity."""

    def __init__(self, move: Turn) -> None:
        self._move = move

    def start(self) -> Hashable:
        """Return no state: nothing is remembered."""
        return None

    def choose(self, state: Any) -> Turn:  # noqa: ARG002 - the interface gives it
        """Always the same move."""
        return self._move

    def observe(self, state: Any, output: Hashable) -> Hashable:  # noqa: ARG002 - the interface gives it
        """Return no state: nothing is remembered."""
        return None


class Strategy(Adversary):
    """An adversary given by a function from the tuple of outputs so far to the next move."""

    def __init__(self, choose: Callable[[View], Turn | None]) -> None:
        self._choose = choose

    def choose(self, state: Any) -> Turn | None:
        """Return the choice of the function."""
        return self._choose(state)


class RandomizedStrategy(Strategy):
    """A strategy with coins: the function is given the tuple (R, first output, second output, …).

    ``coins`` maps each outcome of R to its probability.
    """

    def __init__(self, coins: Mapping[Any, Number], choose: Callable[[View], Turn | None]) -> None:
        super().__init__(choose)
        self._coins = dict(coins)

    def coins(self) -> Mapping[Any, Number]:
        """The law of R."""
        return self._coins


def coin_law(adversary: Adversary) -> dict[Hashable, Fraction] | None:
    """The exact law of the adversary's coins, checked; ``None`` if it has none."""
    stated = adversary.coins()
    if stated is None:
        return None
    law = as_distribution(stated, "coins")
    if None in law or not all(p.is_exact for p in law.values()):
        raise InputError("coins", "must map outcomes other than None to rational probabilities")
    return {outcome: Fraction(p.low) for outcome, p in law.items() if p.low}
