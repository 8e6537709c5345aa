"""Comparison of one attack against an unprotected twin and a curator at several epsilons."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from tacit.attacks.success_rate import Result, SuccessRate, percent
from tacit.core.numbers import Number, exact_positive, float_nearest, format_up

_Ask = TypeVar("_Ask")
_Asked = TypeVar("_Asked", contravariant=True)
_Epsilon = TypeVar("_Epsilon", bound=Number)


@dataclass(frozen=True)
class Words:
    """An attack for people who have not heard of it.

    Args:
        name: one word or two, as on the command line.
        title: a headline.
        how: what the attacker does.
        measure: what counts as a hit.
        moral: what follows.
    """

    name: str
    title: str
    how: str
    measure: str
    moral: str


class Attack(Protocol[_Asked]):
    """Attack that can be run against anything that answers its questions."""

    @property
    def words(self) -> Words:
        """Title, method and moral, for people."""

    @property
    def values(self) -> int:
        """Number of secrets to choose from; a blind guess is right once in so many times."""

    @property
    def reach(self) -> int:
        """Multiple of epsilon by which two secrets can differ: 1 if one of them is absence, 2 if a row changes."""

    def run(self, ask: _Asked) -> SuccessRate:
        """Run the attack and return how often it was right."""


def most_that_any_can(epsilon: float, *, values: int = 2, reach: int = 1) -> float:
    """Upper bound on the success rate of any attack, on answers about a person that cost ``epsilon`` together.

    Let ``values`` secrets be equally likely beforehand, and no answer more than e^(reach·ε) times likelier under one
    of them than under another. Then the best guess is right with probability at most 1 / (1 + (values-1)·e^(-reach·ε)).

    >>> round(most_that_any_can(1), 3), round(most_that_any_can(0.1), 3)
    (0.731, 0.525)
    """
    return 1 / (1 + (values - 1) * math.exp(-reach * epsilon))


@dataclass(frozen=True)
class Comparison(Result):
    """The success of one attack: unprotected, and by epsilon.

    Args:
        words: what the attack is.
        values: how many secrets there were to choose from.
        reach: how many times epsilon apart two of them can be; see :class:`Attack`.
        unprotected: against the twin.
        protected: against the curator, by what the answers about one person cost together.
    """

    words: Words
    values: int
    reach: int
    unprotected: SuccessRate
    protected: tuple[tuple[Fraction, SuccessRate], ...]

    @property
    def chance(self) -> float:
        """Success rate of a blind guess."""
        return 1 / self.values

    @property
    def limits(self) -> tuple[float, ...]:
        """For each epsilon, the most that any attack can reach."""
        return tuple(self.limit(float_nearest(epsilon)) for epsilon, _ in self.protected)

    def limit(self, epsilon: float) -> float:
        """The most that any attack can reach at an epsilon."""
        return most_that_any_can(epsilon, values=self.values, reach=self.reach)

    @property
    def title(self) -> str:
        """A headline."""
        return self.words.title

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "attack": self.words.name,
            "title": self.title,
            "measure": self.words.measure,
            "chance": self.chance,
            "unprotected": self.unprotected.content(),
            "protected": [
                {"epsilon": format_up(epsilon), **rate.content(), "limit": limit}
                for (epsilon, rate), limit in zip(self.protected, self.limits, strict=True)
            ],
        }

    def draw(self) -> Any:
        """Success against epsilon, beside the twin, blind guessing and the limit of all attacks."""
        from tacit.attacks.plots import draw_comparison

        return draw_comparison(self)

    def __str__(self) -> str:
        lines = [self.title, f"  {self.words.measure}:", f"  {'unprotected':<14}{self.unprotected}"]
        lines += [
            f"  {'epsilon ' + format_up(epsilon, 3):<14}{rate}; in the long run no attack above {percent(limit)}"
            for (epsilon, rate), limit in zip(self.protected, self.limits, strict=True)
        ]
        return "\n".join([*lines, f"  {'blind guess':<14}{percent(self.chance)}"])


def compare(
    attack: Attack[_Ask],
    unprotected: _Ask,
    protected: Mapping[_Epsilon, _Ask],
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run an attack against an unprotected twin and against curators.

    Args:
        attack: what to run.
        unprotected: answers without protection.
        protected: by epsilon, what answers with it; all answers about one person must cost no more than that together.
        progress: is told what is being done.
    """
    asks = sorted({exact_positive(e, "epsilon"): ask for e, ask in protected.items()}.items(), key=lambda pair: pair[0])
    progress("unprotected")
    bare = attack.run(unprotected)
    rates = []
    for epsilon, ask in asks:
        progress(f"epsilon {format_up(epsilon, 3)}")
        rates.append((epsilon, attack.run(ask)))
    return Comparison(attack.words, attack.values, attack.reach, bare, tuple(rates))
