"""Differencing and averaging: two totals that differ in one person, and repeated noisy answers.

The attacker may only count. "How many have the secret?" minus "how many, apart from this person?" is the person's
secret. Noise on each answer does not help if asking again brings fresh noise for nothing: it averages out. A curator
gives a repeated question its old answer, and lets every new draw be paid for; many cheap draws then say less than one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from tacit.attacks.comparison import Words
from tacit.attacks.success_rate import SuccessRate
from tacit.core.errors import InputError

#: Counts those with the secret apart from one person, or all of them for None. The number is a wording: the same
#: wording is the same question, another one asks the same in other words.
CountWithout = Callable[[Hashable | None, int], float]

_DIFFERENCING: Final = Words(
    name="differencing",
    title="Differencing: two harmless totals, one person apart",
    how="The attacker asks for a total, and for the same total without one person. Both are large, neither is about "
    "one person; the difference is that person's secret.",
    measure="secrets guessed from the difference of two totals",
    moral="Publishing only totals protects no person, and hiding small ones does not either: these are large.",
)
_AVERAGING: Final = Words(
    name="averaging",
    title="Averaging: ask a noisy answer again until the noise is gone",
    how="Every answer has noise, so the attacker asks the same question many times and takes the mean.",
    measure="secrets guessed from the mean of repeated answers",
    moral="Noise that is drawn anew for nothing is no protection. Repeats must get the same answer, or be paid for.",
)


@dataclass(frozen=True)
class Differencing:
    """Guess who has a secret from pairs of totals.

    Args:
        victims: persons, and whether they have it.
    """

    victims: tuple[tuple[Hashable, bool], ...]
    words: Words = _DIFFERENCING
    values: int = 2
    reach: int = 1
    #: Number of paid questions about one victim.
    questions: int = 2

    def run(self, ask: CountWithout) -> SuccessRate:
        """Share of victims for whom the difference, rounded to 0 or 1, was the truth."""
        right = 0
        for wording, (person, truth) in enumerate(self.victims):
            # The total is worded anew each time, so that the noise is drawn anew; the old answer would be free.
            right += (ask(None, wording) - ask(person, wording) > 0.5) is truth
        return SuccessRate(right, len(self.victims))


@dataclass(frozen=True)
class Averaging:
    """Guess who has a secret from the mean of many differences.

    Args:
        victims: persons, and whether they have it.
        repeats: how often each question is asked.
        reworded: ask in other words each time, which is a new question with a new price; else word for word.
    """

    victims: tuple[tuple[Hashable, bool], ...]
    repeats: int
    reworded: bool = False
    words: Words = _AVERAGING
    values: int = 2
    reach: int = 1

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InputError("repeats", f"must be at least 1, got {self.repeats}")

    @property
    def questions(self) -> int:
        """Number of paid questions about one victim."""
        return 2 * self.repeats if self.reworded else 2

    def run(self, ask: CountWithout) -> SuccessRate:
        """Share of victims for whom the mean difference, rounded to 0 or 1, was the truth."""
        right = 0
        for place, (person, truth) in enumerate(self.victims):
            wordings = [place * self.repeats + (turn if self.reworded else 0) for turn in range(self.repeats)]
            total = sum(Fraction(ask(None, wording)) - Fraction(ask(person, wording)) for wording in wordings)
            right += (2 * total > self.repeats) is truth
        return SuccessRate(right, len(self.victims))

    def in_other_words(self) -> Averaging:
        """Averaging with every repeat reworded, and so paid for."""
        words = replace(self.words, title="Averaging, paid for: the same question in other words each time")
        return replace(self, reworded=True, words=words)
