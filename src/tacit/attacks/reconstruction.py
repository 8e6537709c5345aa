"""Reconstruction: solving many noisy totals for every person's secret.

Dinur and Nissim (2003): if the answers to random subset counts over n people are off by less than about √n, and there
are some multiples of n of them, then nearly all secrets follow. Least squares or a linear program finds them. Noise
that grows with the number of answers stops it, and a budget makes it grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.attacks.broken_defences import bounded_noise
from tacit.attacks.comparison import Words
from tacit.attacks.random_choice import below, choose_evenly, toss
from tacit.attacks.success_rate import Result, SuccessRate, percent
from tacit.core.errors import BudgetError, InputError
from tacit.core.extras import load

Method = Literal["least_squares", "linear_program"]
#: A linear program of more unknowns takes minutes.
_MOST_FOR_PROGRAMS: Final = 400
_STEPS: Final = 60

_WORDS: Final = Words(
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


def reconstruct(
    masks: NDArray[np.bool_], answers: NDArray[np.float64], *, method: Method = "least_squares"
) -> NDArray[np.float64]:
    """An estimate of each person's secret, 0 or 1 but for the noise, from subset counts.

    Args:
        masks: one row per question, one column per person.
        answers: to the questions.
        method: ``"least_squares"``, or ``"linear_program"``, which minimises the sum of errors over estimates from 0
            to 1 and is stronger with bounded noise, for up to 400 people.
    """
    if masks.ndim != 2 or len(masks) != len(answers):
        raise InputError("masks", "must have one row for each answer and one column for each person")
    if method == "linear_program":
        return _linear_program(masks, answers)
    if method != "least_squares":
        raise InputError("method", f"must be 'least_squares' or 'linear_program', got {method!r}")
    matrix = masks.astype(np.float32)
    # Start at the common share: with fewer questions than people, every estimate that no equation moves stays there.
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


def _linear_program(masks: NDArray[np.bool_], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    linprog = load("scipy.optimize", "scipy", "linear programs").linprog
    sparse = load("scipy.sparse", "scipy", "linear programs")
    questions, people = masks.shape
    if people > _MOST_FOR_PROGRAMS:
        raise InputError("method", f"a linear program is for at most {_MOST_FOR_PROGRAMS} people, not {people}")
    eye = sparse.identity(questions)
    # masks @ x + over - under = answers; the sum of over and under is what it costs.
    equations = sparse.hstack([sparse.csr_matrix(masks.astype(np.float64)), eye, -eye])
    cost = np.concatenate([np.zeros(people), np.ones(2 * questions)])
    bounds = [(0, 1)] * people + [(0, None)] * (2 * questions)
    solved = linprog(cost, A_eq=equations, b_eq=answers, bounds=bounds, method="highs")
    if solved.x is None:
        raise InputError("answers", "have no solution: some are not finite")
    return np.asarray(solved.x[:people], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Compute secrets from subset counts, as many as are answered.

    Args:
        secrets: who has it; says who was guessed rightly.
        subsets: what to ask about.
        judged: how many people the success is measured on, half of whom have the secret.
        method: see :func:`reconstruct`.
    """

    secrets: NDArray[np.bool_]
    subsets: tuple[Subset, ...]
    judged: int = 1000
    method: Method = "least_squares"
    words: Words = _WORDS
    values: int = 2
    reach: int = 1

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
        # With few questions estimates stay near the common share: half way between 0 and 1, moved as far as they moved.
        share, told = _common_share(masks, answers), min(1.0, masks.shape[0] / masks.shape[1])
        middle = share + told * (0.5 - share)
        return np.asarray(reconstruct(masks, answers, method=self.method) > middle)


@dataclass(frozen=True)
class ReconstructionGrid(Result):
    """Recovered secrets by amount of noise and number of questions.

    Args:
        people: n.
        cells: triples (questions per person, largest noise in √n, share of secrets recovered).
    """

    people: int
    cells: tuple[tuple[float, float, float], ...]

    @property
    def title(self) -> str:
        """A headline."""
        return f"Secrets of {self.people:,} people, computed from noisy totals"

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        keys = ("questions_per_person", "noise_per_root_n", "recovered")
        return {"people": self.people, "cells": [dict(zip(keys, cell, strict=True)) for cell in self.cells]}

    def draw(self) -> Any:
        """Recovered share against noise, a line for each number of questions."""
        from tacit.attacks.plots import draw_curves

        curves: dict[str, list[tuple[float, float]]] = {}
        for ratio, noise, share in self.cells:
            curves.setdefault(f"{ratio:g} totals per person", []).append((noise, share))
        return draw_curves(
            curves,
            x="largest noise on a total, in units of √n",
            title=self.title,
            subtitle="share recovered; no budget, noise that does not grow with the questions",
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
        ratios: questions per person.
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
