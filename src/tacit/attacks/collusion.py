"""Collusion: analysts with separate budgets pool their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.attacks.comparison import Words, most_that_any_can
from tacit.attacks.plots import PROTECTED, UNPROTECTED
from tacit.attacks.random_choice import toss
from tacit.attacks.success_rate import Result, SuccessRate, percent
from tacit.core.errors import BudgetError
from tacit.core.numbers import Number, exact_positive, float_nearest, format_up

#: Asks, as one of the analysts (by number), whether a person has the secret: 1 or 0, and noise. Raises BudgetError
#: where there is nothing left to pay with.
AskAs = Callable[[int, Hashable], float]

WORDS: Final = Words(
    name="collusion",
    title="Collusion: many analysts, one table",
    how="Several analysts ask about the same people and put their answers together. If each has a budget of their own, "
    "the mean of their answers has little noise; if there is one account behind all of them, it has as much as before.",
    measure="secrets guessed from pooled answers",
    moral="A budget for each analyst is no budget: what counts is what all of them together can learn about a person.",
)


@dataclass(frozen=True)
class Collusion:
    """Guess who has a secret from the mean of what several analysts were told.

    Args:
        victims: persons, and whether they have it.
        analysts: how many pool their answers.
    """

    victims: tuple[tuple[Hashable, bool], ...]
    analysts: int
    words: Words = WORDS
    values: int = 2
    reach: int = 1

    def run(self, ask: AskAs) -> SuccessRate:
        """Share of victims for whom the mean, rounded to 0 or 1, was the truth; a coin where no analyst got answers."""
        right = 0
        for person, truth in self.victims:
            told = [answer for analyst in range(self.analysts) if (answer := _told(ask, analyst, person)) is not None]
            guess = math.fsum(told) / len(told) > 0.5 if told else bool(toss(1, 1)[0, 0])
            right += guess is truth
        return SuccessRate(right, len(self.victims))


def _told(ask: AskAs, analyst: int, person: Hashable) -> float | None:
    try:
        return ask(analyst, person)
    except BudgetError:
        return None


@dataclass(frozen=True)
class Pooling(Result):
    """Success by number of analysts, with a budget for each and with one account for all.

    Args:
        epsilon: what one analyst may spend on a person; and, with one account, all of them.
        points: triples (analysts, success with budgets of their own, success with one account).
    """

    epsilon: Fraction
    points: tuple[tuple[int, SuccessRate, SuccessRate], ...]

    @property
    def title(self) -> str:
        """A headline."""
        return WORDS.title

    @property
    def limit(self) -> float:
        """The most that any attack can reach with one account, however many analysts there are."""
        return most_that_any_can(float_nearest(self.epsilon))

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "attack": WORDS.name,
            "title": self.title,
            "measure": WORDS.measure,
            "epsilon": format_up(self.epsilon),
            "limit": self.limit,
            "analysts": [
                {"analysts": count, "own_budgets": own.content(), "one_account": shared.content()}
                for count, own, shared in self.points
            ],
        }

    def draw(self) -> Any:
        """Success against the number of analysts."""
        from tacit.attacks.plots import draw_curves

        curves = {
            "a budget for each analyst": [(float(count), own.share) for count, own, _ in self.points],
            "one account for all (Tacit)": [(float(count), shared.share) for count, _, shared in self.points],
        }
        return draw_curves(
            curves,
            x="analysts who pool their answers",
            title=self.title,
            subtitle=f"{WORDS.measure}, ε = {format_up(self.epsilon, 3)}",
            colours=(UNPROTECTED, PROTECTED),
            log=True,
        )

    def __str__(self) -> str:
        lines = [self.title, f"  {WORDS.measure}, epsilon {format_up(self.epsilon, 3)}:"]
        lines += [
            f"  {count:>3} analysts: {own} with a budget for each, {shared} with one account"
            for count, own, shared in self.points
        ]
        return "\n".join([*lines, f"  with one account no attack is right more often than {percent(self.limit)}"])


def pool(
    victims: Sequence[tuple[Hashable, bool]],
    counts: Sequence[int],
    own: Callable[[int], AskAs],
    shared: Callable[[int], AskAs],
    *,
    epsilon: Number,
    progress: Callable[[str], None] = lambda _: None,
) -> Pooling:
    """Let growing numbers of analysts pool their answers.

    Args:
        victims: persons, and whether they have the secret.
        counts: numbers of analysts.
        own: for a number of analysts, what answers them where each has ``epsilon`` for every victim.
        shared: the same where all of them together have ``epsilon`` for every victim.
        epsilon: see above.
        progress: is told what is being done.
    """
    points = []
    for count in counts:
        progress(f"{count} analysts")
        attack = Collusion(tuple(victims), count)
        points.append((count, attack.run(own(count)), attack.run(shared(count))))
    return Pooling(exact_positive(epsilon, "epsilon"), tuple(points))
