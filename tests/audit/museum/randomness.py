"""Exhibits: repeated, predictable or missing randomness."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction

from audit.museum.exhibit import Piece
from tacit.audit.exact import Chance, ExactLoss, exact
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.core.numbers import log_bounds
from tacit.mechanisms.laplace import Laplace
from tacit.noise.laplace import DiscreteLaplace

_REPORTS = 6
_TRUTH = Fraction(3, 4)
#: ln 3, rounded up: what one such report is worth.
_ONE_REPORT = log_bounds(Fraction(3))[1]
_NOISE = DiscreteLaplace(Fraction(1))
_OWN = Laplace(epsilon=1, l1_sensitivity=1)
Counts = tuple[int, int]


class BufferedNoise:
    """Noise that is drawn ahead into a buffer; a fork gets a copy of it."""

    def __init__(self) -> None:
        self._buffer = [_NOISE.sample() for _ in range(4)]

    def sample(self) -> int:
        """Draw the next number."""
        return self._buffer.pop()


def workers_that_forked(counts: Counts) -> tuple[int, int]:
    """Two counts of different people, for ε = 1: each by a worker that was forked after the buffer was filled."""
    parent = BufferedNoise()
    workers = deepcopy(parent), deepcopy(parent)
    return counts[0] + workers[0].sample(), counts[1] + workers[1].sample()


def workers_on_their_own(counts: Counts) -> tuple[int, int]:
    """Corrected: Tacit's noise, whose pools are emptied by a fork."""
    return _OWN.release(counts[0]), _OWN.release(counts[1])


def memo_per_report(answer: int, chance: Chance) -> tuple[int, ...]:
    """Six reports of one unchanging answer; the memo is kept under the number of the report, so it is never found."""
    memo: dict[int, int] = {}
    for number in range(_REPORTS):
        if number not in memo:
            memo[number] = answer if chance(_TRUTH) else 1 - answer
    return tuple(memo[number] for number in range(_REPORTS))


def memo_per_answer(answer: int, chance: Chance) -> tuple[int, ...]:
    """Corrected: the memo is kept under the answer."""
    memo: dict[int, int] = {}
    reports = []
    for _ in range(_REPORTS):
        if answer not in memo:
            memo[answer] = answer if chance(_TRUTH) else 1 - answer
        reports.append(memo[answer])
    return tuple(reports)


def _forked(function: Callable[[Counts], tuple[int, int]]) -> LowerBound:
    return lower_bound(function, (5, 5), (6, 5), claimed=1, samples=3_000, confidence=0.999)


def _reported(function: Callable[[int, Chance], tuple[int, ...]]) -> ExactLoss:
    return exact(function, databases=[0, 1], claimed=_ONE_REPORT)


PIECES = (
    Piece(
        name="noise-shared-by-forks",
        title="noise shared by forked workers",
        story="A generator drew ahead into a buffer, and a server forked its workers afterwards. Each worker "
        "had the same buffer, hence the same noise, and the difference of two answers had none.",
        seen_in="opendp#2934, numpy#9650",
        tool="lower_bound",
        flawed=lambda: _forked(workers_that_forked),
        mended=lambda: _forked(workers_on_their_own),
    ),
    Piece(
        name="memo-per-report",
        title="randomized response with a memo per report",
        story="An answer that does not change must be randomized once and repeated. Here the memory was kept "
        "per report, so every report had fresh noise, and the average of a year of them is the truth.",
        seen_in="RAPPOR deployments, analysed by Ding and others 2017",
        tool="exact",
        flawed=lambda: _reported(memo_per_report),
        mended=lambda: _reported(memo_per_answer),
    ),
)
