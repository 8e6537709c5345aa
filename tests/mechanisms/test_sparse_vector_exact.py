"""The exact law of sparse-vector transcripts on all neighbouring short streams, and the broken variants it catches.

P(answers) = Σ_ρ P(ρ)·Π_i P(answer i | T + ρ): given the threshold's noise the queries are independent, and both laws
are those of discrete Laplace noise, known in closed form. Only the outer sum is cut off, far in the tail.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tacit.mechanisms.sparse_vector import SparseVector

Stream = tuple[int, ...]
Answers = tuple[bool, ...]


def pmf(scale: float, x: int) -> float:
    return math.tanh(1 / (2 * scale)) * math.exp(-abs(x) / scale)


def at_least(scale: float, x: int) -> float:
    """P(X >= x)."""
    q = math.exp(-1 / scale)
    return math.exp(-x / scale) / (1 + q) if x > 0 else 1 - math.exp((x - 1) / scale) / (1 + q)


@dataclass(frozen=True)
class Variant:
    """A sparse vector with threshold 0; a query scale of 0 means no noise."""

    threshold_scale: float
    query_scale: float
    positives: int

    def chance(self, stream: Stream, answers: Answers) -> float:
        reach = math.ceil(60 * self.threshold_scale) + 20
        return sum(pmf(self.threshold_scale, rho) * self._given(stream, answers, rho) for rho in range(-reach, reach))

    def _given(self, stream: Stream, answers: Answers, rho: int) -> float:
        chance = 1.0
        for value, answer in zip(stream, answers, strict=False):
            above = float(value >= rho) if self.query_scale == 0 else at_least(self.query_scale, rho - value)
            chance *= above if answer else 1 - above
        return chance


def of(stream: SparseVector) -> Variant:
    return Variant(float(stream._threshold_scale), float(stream._query_scale), stream._positives)


def transcripts(length: int, positives: int) -> Iterator[Answers]:
    """Every sequence of answers that the stream can give: it ends with its last yes or with the queries."""
    for size in range(1, length + 1):
        for answers in itertools.product((False, True), repeat=size):
            used_up = sum(answers) == positives and answers[-1]
            if used_up or (size == length and sum(answers) < positives):
                yield answers


def worst_log_ratio(variant: Variant, length: int, *, monotone: bool, values: tuple[int, ...] = (-1, 0, 2)) -> float:
    moves = [(0, 1), (-1, 0)] if monotone else [(-1, 0, 1)]
    worst = 0.0
    for stream in itertools.product(values, repeat=length):
        mine = {answers: variant.chance(stream, answers) for answers in transcripts(length, variant.positives)}
        for move in moves:
            for step in itertools.product(move, repeat=length):
                other = tuple(value + extra for value, extra in zip(stream, step, strict=True))
                for answers, chance in mine.items():
                    theirs = variant.chance(other, answers)
                    worst = max(worst, math.log(chance / theirs) if theirs else math.inf)
    return worst


def test_the_law_adds_up_to_one() -> None:
    for positives in (1, 2):
        variant = of(SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=positives))
        total = sum(variant.chance((1, -2, 0), answers) for answers in transcripts(3, positives))
        assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(
    ("positives", "length", "values"), [(1, 1, (-1, 0, 2)), (1, 2, (-1, 1)), (2, 2, (0, 1)), (1, 3, (0,)), (2, 3, (0,))]
)
def test_short_streams_are_private(monotone: bool, positives: int, length: int, values: tuple[int, ...]) -> None:
    made = SparseVector(epsilon=2, sensitivity=1, threshold=0, positives=positives, monotone=monotone)
    worst = worst_log_ratio(of(made), length, monotone=monotone, values=values)
    assert 0.2 < worst <= 2 + 1e-9


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("positives", [1, 5, 25])
def test_the_hardest_long_streams_are_private(monotone: bool, positives: int) -> None:
    """As many yes as allowed, each moved one way, and many no, each moved the other way."""
    made = SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=positives, monotone=monotone)
    variant = of(made)
    answers = (False,) * 25 + (True,) * positives
    worst = 0.0
    for base in (-20, -1, 0, 1, 20):
        before = (base,) * 25 + (base + 1,) * positives
        after = (base + (0 if monotone else 1),) * 25 + (base,) * positives
        one, other = variant.chance(before, answers), variant.chance(after, answers)
        worst = max(worst, abs(math.log(one / other)))
        one, other = (
            variant.chance((base,) * len(answers), answers),
            variant.chance((base + 1,) * len(answers), answers),
        )
        worst = max(worst, abs(math.log(one / other)))
    assert 0.05 < worst <= 1 + 1e-9


def test_half_the_query_noise_is_only_private_for_monotone_streams() -> None:
    """The monotone scales under a general move exceed ε, so the declaration matters."""
    monotone = of(SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=25, monotone=True))
    answers = (False,) * 25 + (True,) * 25
    before, after = (0,) * 25 + (1,) * 25, (1,) * 25 + (0,) * 25
    assert math.log(monotone.chance(before, answers) / monotone.chance(after, answers)) > 1


# --- the variants of the literature that are not private; each must be caught by the same law


def test_no_query_noise_is_caught() -> None:
    """P[(no, yes)] is positive for (0, 1) and zero for (1, 0): with a shared threshold the order is certain."""
    broken = Variant(threshold_scale=2.0, query_scale=0, positives=1)
    assert broken.chance((0, 1), (False, True)) > 0.1
    assert broken.chance((1, 0), (False, True)) == 0


def test_query_noise_that_ignores_the_number_of_positives_is_caught() -> None:
    """25 no and 25 yes with noise 2/ε₁ and 4/ε₂ as for one positive: far above the ε = 1 that was claimed."""
    broken = Variant(threshold_scale=2.0, query_scale=4.0, positives=25)
    answers = (False,) * 25 + (True,) * 25
    before, after = (0,) * 25 + (1,) * 25, (1,) * 25 + (0,) * 25
    assert math.log(broken.chance(before, answers) / broken.chance(after, answers)) > 3
    correct = of(SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=25))
    assert abs(math.log(correct.chance(before, answers) / correct.chance(after, answers))) <= 1


def test_unlimited_positives_are_caught() -> None:
    one = of(SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=1))
    many = (True, False) * 30
    before, after = (1, 0) * 30, (0, 1) * 30
    assert math.log(one.chance(before, many) / one.chance(after, many)) > 1


def test_showing_the_compared_value_is_caught() -> None:
    """If a yes shows the very value that was compared, the no-answers before it bound the threshold from below.

    P(no, …, no, yes with noisy value v) = Σ_{ρ <= v} P(ρ)·Π P(no | ρ)·P(noise = v - value).
    """
    made = of(SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=1))

    def chance(stream: Stream, value: int) -> float:
        reach = math.ceil(60 * made.threshold_scale)
        return sum(
            pmf(made.threshold_scale, rho)
            * math.prod(1 - at_least(made.query_scale, rho - asked) for asked in stream[:-1])
            * pmf(made.query_scale, value - stream[-1])
            for rho in range(-reach, value + 1)
        )

    refusals = 40
    low, high = (0,) * refusals + (0,), (1,) * refusals + (0,)
    worst = max(math.log(chance(low, value) / chance(high, value)) for value in range(-10, 5))
    assert worst > 1
