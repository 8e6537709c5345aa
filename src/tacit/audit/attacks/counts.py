"""Attacks on counts: differencing, averaging, reconstruction, collusion, and defences that fail.

The attacker may only count. "How many have the secret?" minus "how many, apart from this person?" is the person's
secret. Noise on each answer does not help if asking again brings fresh noise for nothing: it averages out. A curator
gives a repeated query its old answer, and lets every new draw be paid for; many cheap draws then say less than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, ParamSpec

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.results import (
    BitAttack,
    Result,
    SuccessRate,
    Words,
    below,
    choose_evenly,
    most_that_any_can,
    percent,
    toss,
)
from tacit.audit.charts import draw_curves
from tacit.core.errors import BudgetError, InputError
from tacit.core.numbers import Number, exact_positive, float_nearest, format_up
from tacit.mechanisms.laplace import Laplace

#: Counts those with the secret apart from one person, or all of them for None. The number is a wording: the same
#: wording is the same query, another one asks the same in other words.
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
    how="Every answer has noise, so the attacker asks the same query many times and takes the mean.",
    measure="secrets guessed from the mean of repeated answers",
    moral="Noise that is drawn anew at no cost is no protection. Repeats must get the same answer, or be paid for.",
)


@dataclass(frozen=True)
class Differencing(BitAttack):
    """Guess who has a secret from pairs of totals.

    Args:
        victims: persons, and whether they have it.
    """

    victims: tuple[tuple[Hashable, bool], ...]
    words: Words = _DIFFERENCING
    #: Number of paid queries about one victim.
    queries: int = 2

    def run(self, ask: CountWithout) -> SuccessRate:
        """Share of victims for whom the difference, rounded to 0 or 1, was the truth."""
        right = 0
        for wording, (person, truth) in enumerate(self.victims):
            # The total is worded anew each time, so that the noise is drawn anew; the old answer would be free.
            right += (ask(None, wording) - ask(person, wording) > 0.5) is truth
        return SuccessRate(right, len(self.victims))


@dataclass(frozen=True)
class Averaging(BitAttack):
    """Guess who has a secret from the mean of many differences.

    Args:
        victims: persons, and whether they have it.
        repeats: how often each query is asked.
        reworded: ask in other words each time, which is a new query with a new cost; else word for word.
    """

    victims: tuple[tuple[Hashable, bool], ...]
    repeats: int
    reworded: bool = False
    words: Words = _AVERAGING

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InputError("repeats", f"must be at least 1, got {self.repeats}")

    @property
    def queries(self) -> int:
        """Number of paid queries about one victim."""
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
        words = replace(self.words, title="Averaging, paid for: the same query in other words each time")
        return replace(self, reworded=True, words=words)


_P = ParamSpec("_P")


def hide_small(ask: Callable[_P, float], *, smallest: int) -> Callable[_P, float]:
    """Answers below ``smallest`` become 0, as in "we publish no count under ten"."""

    def answer(*args: _P.args, **kwargs: _P.kwargs) -> float:
        found = ask(*args, **kwargs)
        return found if found >= smallest else 0.0

    return answer


def noise_anew(ask: Callable[_P, float], *, epsilon: Number) -> Callable[_P, float]:
    """Good noise on every answer, but anew for every repeat, and without an account of the budget."""
    mechanism = Laplace(epsilon=epsilon, l1_sensitivity=1)

    def answer(*args: _P.args, **kwargs: _P.kwargs) -> float:
        return float(mechanism.release(round(ask(*args, **kwargs))))

    return answer


def bounded_noise(count: int, *, most: int) -> NDArray[np.int64]:
    """``count`` whole numbers from -``most`` to ``most``: noise that looks large and has an end."""
    if most < 0:
        raise InputError("most", f"must not be negative, got {most}")
    return below(2 * most + 1, count) - most


_STEPS: Final = 60

_RECONSTRUCTION: Final = Words(
    name="reconstruction",
    title="Reconstruction: solve the totals like a puzzle",
    how="The attacker asks for many totals over arbitrary halves of the people. Each answer is one equation; with more "
    "equations than people, solving them gives back each person's secret, even if every answer is a little wrong.",
    measure="secrets computed from totals over random halves, of as many people who have it as who do not",
    moral="Too many answers that are too accurate give everything away. Something has to count them: the budget.",
)


@dataclass(frozen=True, eq=False)
class Subset:
    """Some of the people, chosen by arithmetic on a public number of theirs, so that a query can choose them too.

    Those are in it whose number x has ``(x % modulus * multiplier + shift) % modulus < modulus // 2``.

    Args:
        mask: who is in it.
        modulus: a prime; 0 if the choice has no such form.
        multiplier: see above.
        shift: see above.
    """

    mask: NDArray[np.bool_]
    modulus: int = 0
    multiplier: int = 0
    shift: int = 0

    def sql(self, column: str) -> str:
        """The choice as a condition."""
        if not self.modulus:
            raise InputError("subset", "was drawn by lot; there is no condition for it")
        p = self.modulus
        return f"({column} % {p} * {self.multiplier} + {self.shift}) % {p} < {p // 2}"


#: Counts those of a subset who have the secret; raises BudgetError when there is nothing left to pay with.
CountSubset = Callable[[Subset], float]


def random_subsets(people: int, count: int) -> list[Subset]:
    """``count`` subsets that hold each person with probability one half."""
    return [Subset(mask) for mask in toss(count, people)]


def modular_subsets(numbers: Sequence[int], count: int) -> list[Subset]:
    """``count`` pseudo-random halves of people with these public numbers, which must differ and not be negative.

    Any two people fall into the subsets independently of one another, which is all that least squares needs.
    """
    found = np.asarray(numbers, dtype=np.int64)
    if len(found) < 2 or found.min() < 0 or len(np.unique(found)) < len(found):
        raise InputError("numbers", "must be at least two different whole numbers from 0 on")
    modulus = _telling_prime(found)
    rest = found % modulus
    draws = zip((1 + below(modulus - 1, count)).tolist(), below(modulus, count).tolist(), strict=True)
    return [Subset((rest * a + b) % modulus < modulus // 2, modulus, a, b) for a, b in draws]


def _telling_prime(numbers: NDArray[np.int64]) -> int:
    """A prime by which the numbers leave different remainders, small enough that products fit into 64 bits."""
    candidate = 2 * len(numbers) | 1
    while candidate < 1 << 31:
        if _is_prime(candidate) and len(np.unique(numbers % candidate)) == len(numbers):
            return candidate
        # Steps grow, for scattered numbers need a modulus of about the square of how many there are.
        candidate = (candidate + 2 + candidate // 64) | 1
    raise InputError("numbers", "are too large and too many to be told apart by small remainders")


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def reconstruct(masks: NDArray[np.bool_], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """An estimate of each person's secret, 0 or 1 but for the noise, from subset counts.

    Args:
        masks: one row per query, one column per person.
        answers: to the queries.
    """
    if masks.ndim != 2 or len(masks) != len(answers):
        raise InputError("masks", "must have one row for each answer and one column for each person")
    matrix = masks.astype(np.float32)
    # Start at the common share: with fewer queries than people, every estimate that no equation moves stays there.
    sizes, share = matrix.sum(axis=1), _common_share(masks, answers)
    return share + _least_squares(matrix, (answers - share * sizes)[:, None])[:, 0]


def _common_share(masks: NDArray[np.bool_], answers: NDArray[np.float64]) -> float:
    """Share of the people who have the secret, by all answers together."""
    return float(np.clip(answers.sum() / max(int(masks.sum()), 1), 0.0, 1.0))


def _least_squares(matrix: NDArray[np.float32], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest solutions of least squares, a column for each column of answers, by conjugate gradients.

    Columns of random subsets are nearly orthogonal, so that a few steps do; single precision is finer than any noise.
    """
    rest = answers.astype(np.float32)
    found = np.zeros((matrix.shape[1], rest.shape[1]), dtype=np.float32)
    slope = matrix.T @ rest
    step, size = slope, (slope**2).sum(axis=0)
    first = np.maximum(size, np.float32(1e-12))
    for _ in range(_STEPS):
        if (size <= 1e-8 * first).all():
            break
        moved = matrix @ step
        length = size / np.maximum((moved**2).sum(axis=0), np.float32(1e-12))
        found += length * step
        rest = rest - length * moved
        slope = matrix.T @ rest
        size, before = (slope**2).sum(axis=0), np.maximum(size, np.float32(1e-12))
        step = slope + size / before * step
    return found.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Reconstruction(BitAttack):
    """Compute secrets from subset counts, as many as are answered.

    Args:
        secrets: who has it; says who was guessed rightly.
        subsets: what to ask about.
        judged: how many people the success is measured on, half of whom have the secret.
    """

    secrets: NDArray[np.bool_]
    subsets: tuple[Subset, ...]
    judged: int = 1000
    words: Words = _RECONSTRUCTION

    def run(self, ask: CountSubset) -> SuccessRate:
        """Share of people for whom the estimate lies on the true side of the middle."""
        answers = []
        for subset in self.subsets:
            try:
                answers.append(ask(subset))
            except BudgetError:
                break
        guesses = self._guess(np.array(answers, dtype=np.float64))
        judged = choose_evenly(range(len(self.secrets)), self.secrets.tolist(), self.judged)
        return SuccessRate(sum(bool(guesses[person]) is truth for person, truth in judged), len(judged))

    def _guess(self, answers: NDArray[np.float64]) -> NDArray[np.bool_]:
        if not len(answers):
            return toss(1, len(self.secrets)).ravel()
        masks = np.array([subset.mask for subset in self.subsets[: len(answers)]])
        # With few queries estimates stay near the common share: half way between 0 and 1, moved as far as they moved.
        share, told = _common_share(masks, answers), min(1.0, masks.shape[0] / masks.shape[1])
        middle = share + told * (0.5 - share)
        return np.asarray(reconstruct(masks, answers) > middle)


@dataclass(frozen=True)
class ReconstructionGrid(Result):
    """Recovered secrets by amount of noise and number of queries.

    Args:
        people: n.
        cells: triples (queries per person, largest noise in √n, share of secrets recovered).
    """

    people: int
    cells: tuple[tuple[float, float, float], ...]

    @property
    def title(self) -> str:
        """A headline."""
        return f"Secrets of {self.people:,} people, computed from noisy totals"

    @property
    def headline(self) -> str:
        best = [cell for cell in self.cells if 0 < cell[1] <= 0.5]
        ratio, noise, share = max(best or self.cells, key=lambda cell: cell[2])
        return f"{ratio:g} totals per person, each off by up to {noise:g}√n, give back {percent(share)} of secrets."

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        keys = ("queries_per_person", "noise_per_root_n", "recovered")
        return {"people": self.people, "cells": [dict(zip(keys, cell, strict=True)) for cell in self.cells]}

    def draw(self) -> Any:
        """Recovered share against noise, a line for each number of queries."""
        curves: dict[str, list[tuple[float, float]]] = {}
        for ratio, noise, share in self.cells:
            curves.setdefault(f"{ratio:g} totals per person", []).append((noise, share))
        return draw_curves(
            curves,
            x="largest noise on a total, in units of √n",
            title=self.title,
            subtitle="share recovered; no budget, noise that does not grow with the queries",
            colours=("#e8a598", "#d4685b", "#c0392b", "#7d1f15"),
        )

    def __str__(self) -> str:
        lines = [self.title]
        lines += [
            f"  {ratio:g} totals per person, each off by up to {noise:g}√n: {percent(share)} recovered"
            for ratio, noise, share in self.cells
        ]
        return "\n".join(lines)


def reconstruct_under_noise(
    secrets: NDArray[np.bool_],
    *,
    ratios: Sequence[float] = (1.5, 2, 4),
    noises: Sequence[float] = (0, 0.25, 0.5, 1, 2),
    progress: Callable[[str], None] = lambda _: None,
) -> ReconstructionGrid:
    """Recover secrets from random totals with bounded noise, for several amounts of both.

    Args:
        secrets: who has it.
        ratios: queries per person.
        noises: the largest noise on a total, in units of √n.
        progress: is told what is being done.
    """
    people = len(secrets)
    cells: list[tuple[float, float, float]] = []
    masks = toss(math.ceil(max(ratios) * people), people)
    sizes, exact = masks.sum(axis=1), masks[:, secrets].sum(axis=1)
    for ratio in ratios:
        progress(f"{ratio:g} totals per person")
        asked = math.ceil(ratio * people)
        noisy = [
            exact[:asked] + bounded_noise(asked, most=round(noise * math.sqrt(people))) - sizes[:asked] / 2
            for noise in noises
        ]
        found = 0.5 + _least_squares(masks[:asked].astype(np.float32), np.stack(noisy, axis=1))
        shares = ((found > 0.5) == secrets[:, None]).mean(axis=0)
        cells += [(float(ratio), float(noise), float(share)) for noise, share in zip(noises, shares, strict=True)]
    return ReconstructionGrid(people, tuple(cells))


#: Asks, as one of the analysts (by number), whether a person has the secret: 1 or 0, and noise. Raises BudgetError
#: where there is nothing left to pay with.
AskAs = Callable[[int, Hashable], float]

COLLUSION: Final = Words(
    name="collusion",
    title="Collusion: many analysts, one table",
    how="Several analysts ask about the same people and put their answers together. If each has a budget of their own, "
    "the mean of their answers has little noise; if there is one account behind all of them, it has as much as before.",
    measure="secrets guessed from pooled answers",
    moral="A budget for each analyst is no budget: what counts is what all of them together can learn about a person.",
)


@dataclass(frozen=True)
class Collusion(BitAttack):
    """Guess who has a secret from the mean of what several analysts were told.

    Args:
        victims: persons, and whether they have it.
        analysts: how many pool their answers.
    """

    victims: tuple[tuple[Hashable, bool], ...]
    analysts: int
    words: Words = COLLUSION

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
        return COLLUSION.title

    @property
    def headline(self) -> str:
        count, own, shared = self.points[-1]
        with_account = f"with one account: {percent(shared.share)}"
        return f"{count} analysts with a budget each: {percent(own.share)}; {with_account}."

    @property
    def limit(self) -> float:
        """The most that any attack can reach with one account, however many analysts there are."""
        return most_that_any_can(float_nearest(self.epsilon))

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "attack": COLLUSION.name,
            "title": self.title,
            "measure": COLLUSION.measure,
            "epsilon": format_up(self.epsilon),
            "limit": self.limit,
            "analysts": [
                {"analysts": count, "own_budgets": own.content(), "one_account": shared.content()}
                for count, own, shared in self.points
            ],
        }

    def draw(self) -> Any:
        """Success against the number of analysts."""
        curves = {
            "a budget for each analyst": [(float(count), own.share) for count, own, _ in self.points],
            "one account for all (Tacit)": [(float(count), shared.share) for count, _, shared in self.points],
        }
        return draw_curves(
            curves,
            x="analysts who pool their answers",
            title=self.title,
            subtitle=f"{COLLUSION.measure}, ε = {format_up(self.epsilon, 3)}",
            log=True,
        )

    def __str__(self) -> str:
        lines = [self.title, f"  {COLLUSION.measure}, epsilon {format_up(self.epsilon, 3)}:"]
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
