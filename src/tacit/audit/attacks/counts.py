"""Attacks on counts: differencing, averaging, reconstruction, and defences that fail.

The attacker may only count. "How many have the secret?" minus "how many, apart from this person?" is the person's
secret. Noise on each answer does not help if a repeated query gets fresh noise for free: it averages out. A curator
gives a repeated query its stored answer and charges every fresh draw; many cheap draws then reveal less than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, ParamSpec

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.results import (
    BitAttack,
    SuccessRate,
    Words,
    choose_evenly,
    toss,
)
from tacit.core.errors import BudgetError, InputError
from tacit.core.numbers import Number
from tacit.mechanisms.laplace import Laplace
from tacit.noise.uniform import sample_below_many

#: Counts the people with the secret except one person, or all of them for None. The number selects a wording: the same
#: number is the same query, another number an equivalent query in other words.
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
        victims: pairs (person, whether they have the secret).
    """

    victims: tuple[tuple[Hashable, bool], ...]
    words: Words = _DIFFERENCING
    #: Number of queries about one victim that are charged.
    queries: int = 2

    def run(self, ask: CountWithout) -> SuccessRate:
        """Return the share of victims for whom the difference, rounded to 0 or 1, is the truth."""
        right = 0
        for wording, (person, truth) in enumerate(self.victims):
            # The total gets a new wording each time, so that its noise is fresh; the stored answer would be free.
            right += (ask(None, wording) - ask(person, wording) > 0.5) is truth
        return SuccessRate(right, len(self.victims))


@dataclass(frozen=True)
class Averaging(BitAttack):
    """Guess who has a secret from the mean of many differences.

    Args:
        victims: pairs (person, whether they have the secret).
        repeats: number of times each query is asked.
        reworded: whether each repeat has another wording, which makes it a new query with a new cost.
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
        """Number of queries about one victim that are charged."""
        return 2 * self.repeats if self.reworded else 2

    def run(self, ask: CountWithout) -> SuccessRate:
        """Return the share of victims for whom the mean difference, rounded to 0 or 1, is the truth."""
        right = 0
        for place, (person, truth) in enumerate(self.victims):
            wordings = [place * self.repeats + (turn if self.reworded else 0) for turn in range(self.repeats)]
            total = sum(Fraction(ask(None, wording)) - Fraction(ask(person, wording)) for wording in wordings)
            right += (2 * total > self.repeats) is truth
        return SuccessRate(right, len(self.victims))

    def in_other_words(self) -> Averaging:
        """Return this attack with every repeat reworded, and so charged."""
        words = replace(self.words, title="Averaging, paid for: the same query in other words each time")
        return replace(self, reworded=True, words=words)


_P = ParamSpec("_P")


def hide_small(ask: Callable[_P, float], *, smallest: int) -> Callable[_P, float]:
    """Return ``ask`` with answers below ``smallest`` replaced by 0, as in "we publish no count under ten"."""

    def answer(*args: _P.args, **kwargs: _P.kwargs) -> float:
        found = ask(*args, **kwargs)
        return found if found >= smallest else 0.0

    return answer


def noise_anew(ask: Callable[_P, float], *, epsilon: Number) -> Callable[_P, float]:
    """Return ``ask`` with fresh Laplace noise on every answer, repeats included, and without a privacy budget."""
    mechanism = Laplace(epsilon=epsilon, l1_sensitivity=1)

    def answer(*args: _P.args, **kwargs: _P.kwargs) -> float:
        return float(mechanism.release(round(ask(*args, **kwargs))))

    return answer


def bounded_noise(count: int, *, most: int) -> NDArray[np.int64]:
    """Draw ``count`` uniform whole numbers from -``most`` to ``most``: noise that looks large but is bounded."""
    if most < 0:
        raise InputError("most", f"must not be negative, got {most}")
    return sample_below_many(2 * most + 1, count) - most


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
    """Subset of the people, selected by arithmetic on a public number of each, so that SQL can select it too.

    It holds the people whose number x has ``(x % modulus * multiplier + shift) % modulus < modulus // 2``.

    Args:
        mask: for each person, whether they are in the subset.
        modulus: a prime; 0 if the subset has no such formula.
        multiplier: see above.
        shift: see above.
    """

    mask: NDArray[np.bool_]
    modulus: int = 0
    multiplier: int = 0
    shift: int = 0

    def sql(self, column: str) -> str:
        """Return the subset as a SQL condition on ``column``."""
        if not self.modulus:
            raise InputError("subset", "was drawn by lot; there is no condition for it")
        p = self.modulus
        return f"({column} % {p} * {self.multiplier} + {self.shift}) % {p} < {p // 2}"


#: Counts the people of a subset who have the secret; raises BudgetError when the budget is exhausted.
CountSubset = Callable[[Subset], float]


def random_subsets(people: int, count: int) -> list[Subset]:
    """Return ``count`` subsets that hold each person independently with probability one half."""
    return [Subset(mask) for mask in toss(count, people)]


def modular_subsets(numbers: Sequence[int], count: int) -> list[Subset]:
    """Return ``count`` pseudo-random halves of people with these public numbers, which must be distinct and >= 0.

    Memberships of any two people are independent, which is all that least squares needs.
    """
    found = np.asarray(numbers, dtype=np.int64)
    if len(found) < 2 or found.min() < 0 or len(np.unique(found)) < len(found):
        raise InputError("numbers", "must be at least two different whole numbers from 0 on")
    modulus = _telling_prime(found)
    rest = found % modulus
    draws = zip(
        (1 + sample_below_many(modulus - 1, count)).tolist(), sample_below_many(modulus, count).tolist(), strict=True
    )
    return [Subset((rest * a + b) % modulus < modulus // 2, modulus, a, b) for a, b in draws]


def _telling_prime(numbers: NDArray[np.int64]) -> int:
    """Return a prime modulo which all numbers differ, small enough that products fit into 64 bits."""
    candidate = 2 * len(numbers) | 1
    while candidate < 1 << 31:
        if _is_prime(candidate) and len(np.unique(numbers % candidate)) == len(numbers):
            return candidate
        # Steps grow, because scattered numbers need a modulus of about the square of their number.
        candidate = (candidate + 2 + candidate // 64) | 1
    raise InputError("numbers", "are too large and too many to be told apart by small remainders")


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def reconstruct(masks: NDArray[np.bool_], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimate each person's secret, 0 or 1 plus noise, from subset counts.

    Args:
        masks: one row per query, one column per person.
        answers: answers to the queries.
    """
    if masks.ndim != 2 or len(masks) != len(answers):
        raise InputError("masks", "must have one row for each answer and one column for each person")
    matrix = masks.astype(np.float32)
    # Start at the common share: with fewer queries than people, every estimate that no equation moves stays there.
    sizes, share = matrix.sum(axis=1), _common_share(masks, answers)
    return share + _least_squares(matrix, (answers - share * sizes)[:, None])[:, 0]


def _common_share(masks: NDArray[np.bool_], answers: NDArray[np.float64]) -> float:
    """Estimate the share of people who have the secret, from all answers together."""
    return float(np.clip(answers.sum() / max(int(masks.sum()), 1), 0.0, 1.0))


def _least_squares(matrix: NDArray[np.float32], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return minimum-norm least-squares solutions, one column per column of answers.

    By the normal equations in the smaller dimension, with a ridge that is finer than any noise.
    """
    wide = matrix.shape[0] < matrix.shape[1]
    gram = (matrix @ matrix.T if wide else matrix.T @ matrix).astype(np.float64) + 1e-3 * np.eye(min(matrix.shape))
    return np.asarray(matrix.T @ np.linalg.solve(gram, answers) if wide else np.linalg.solve(gram, matrix.T @ answers))


@dataclass(frozen=True, eq=False)
class Reconstruction(BitAttack):
    """Compute secrets from as many subset counts as the curator answers.

    Args:
        secrets: whether each person has the secret; only for judging the guesses.
        subsets: subsets to ask about.
        judged: number of people on whom success is measured, half of whom have the secret.
    """

    secrets: NDArray[np.bool_]
    subsets: tuple[Subset, ...]
    judged: int = 1000
    words: Words = _RECONSTRUCTION

    def run(self, ask: CountSubset) -> SuccessRate:
        """Return the share of people for whom the estimate lies on the true side of the middle."""
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
        # With few queries estimates stay near the common share, so the middle between 0 and 1 is moved by as much.
        share, told = _common_share(masks, answers), min(1.0, masks.shape[0] / masks.shape[1])
        middle = share + told * (0.5 - share)
        return np.asarray(reconstruct(masks, answers) > middle)


def reconstruct_under_noise(
    secrets: NDArray[np.bool_],
    *,
    ratios: Sequence[float] = (1.5, 2, 4),
    noises: Sequence[float] = (0, 0.25, 0.5, 1, 2),
    progress: Callable[[str], None] = lambda _: None,
) -> list[tuple[float, float, float]]:
    """Return triples (queries per person, largest noise in √n, share of secrets recovered from random subset counts).

    Args:
        secrets: whether each person has the secret.
        ratios: queries per person.
        noises: the largest noise on a count, in units of √n.
        progress: called with a description of each step.
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
    return cells
