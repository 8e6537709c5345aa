"""Multiplicative weights: many counting queries about few cells, from the answers to those that were explained worst.

A public histogram begins with all cells alike. Where it answers a query badly, the query is answered with noise, and
the histogram is moved towards that answer. Most queries never have to be paid for. Queries are 0/1 vectors over the
cells; everything that touches exact counts is integer arithmetic.

Proof: ``multiplicative_weights.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import BudgetError, InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability
from tacit.core.relations import ADD_REMOVE, Relation, as_relation
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.sparse_vector import SparseVector

#: Scores are counted in steps of this part of a row.
_STEPS: Final = 16
#: Part of the price that pays for the number of rows, where that is private.
_TOTAL: Final = Fraction(1, 20)
#: Probability of noise that makes repeated moves useless.
_RARE: Final = Fraction(1, 10**6)
#: Times that all answers so far are gone through after a new one.
_PASSES: Final = 30
#: Cells of answers that are read at a time in such moves: about a second of a processor.
_MOST_READ: Final = 100_000_000
#: Entries of a matrix of queries.
_MOST: Final = 50_000_000


@dataclass(frozen=True, eq=False)
class WeightedAnswers:
    """Answers to all queries and the histogram behind them.

    Args:
        answers: one for each query.
        histogram: the mean of the histograms of all rounds, which the bound is about; any other query may be asked of
            it for nothing.
        last: the histogram after the last round; usually closer, and without a bound.
        measured: the query of each round and its noisy answer.
        total: number of rows, noisy where it is private.
    """

    answers: NDArray[np.float64]
    histogram: NDArray[np.float64]
    last: NDArray[np.float64]
    measured: tuple[tuple[int, int], ...]
    total: int


class MultiplicativeWeights(Mechanism):
    """Releases answers to k counting queries about N cells: MWEM, with a bound on the largest error.

    In each round the exponential mechanism chooses a query that the histogram answers badly, Laplace noise answers it,
    and the histogram is moved. The histogram that is released is the mean over all rounds.

    >>> prefixes = [[1] * (i + 1) + [0] * (15 - i) for i in range(16)]
    >>> MultiplicativeWeights(epsilon=1, queries=prefixes, rounds=6).guarantee
    PureDP(1)

    Args:
        epsilon: of everything together.
        queries: a list of 0/1 vectors, one entry for each cell.
        rounds: how many queries are answered with noise.
        total: the number of rows where it is public, as it is under replace-one; None where it is private.
        relation: which databases are neighbours.

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP, where ε is ``epsilon``: a twentieth for the number of rows where that is private, the rest in
        equal parts for choices and answers.

    Sensitivity:
        one unit, which is one row, moves each count by at most 1, so each query and each score by at most 1.

    Error:
        :meth:`error` bounds the errors of all queries at once.

    Assumes:
        each unit has one row.

    References:
        Hardt, Ligett, McSherry (2012), *A simple and practical algorithm for differentially private data release*.
        Proof: ``multiplicative_weights.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        queries: Any,
        rounds: SupportsIndex,
        total: SupportsIndex | None = None,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        self._epsilon = exact_positive(epsilon, "epsilon")
        self._relation = as_relation(relation)
        self._queries = _zero_one(queries)
        self._rounds = check_count(rounds, "rounds", maximum=10_000)
        self._known = None if total is None else check_count(total, "total", maximum=2**40)
        if self._known is None and self._relation is not ADD_REMOVE:
            raise InputError("total", "must be stated: where units are replaced, the number of rows is public")
        if self._known is not None and self._relation is ADD_REMOVE:
            raise InputError("total", "must be left out: where units come and go, the number of rows is private")
        first = _TOTAL * self._epsilon if self._known is None else Fraction(0)
        each = (self._epsilon - first) / (2 * self._rounds)
        self._count = None if self._known is not None else Laplace(epsilon=first, l1_sensitivity=1)
        self._choice = Exponential(epsilon=each, sensitivity=_STEPS, relation=self._relation)
        self._noise = Laplace(epsilon=each, l1_sensitivity=1, relation=self._relation)
        # Answers and the number of rows are further off than this together with probability _RARE at most.
        self._sure = float(self._noise.error(_RARE / 2, k=self._rounds))
        self._sure += 0.0 if self._count is None else float(self._count.error(_RARE / 2))

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of one release."""
        return PureDP(self._epsilon, relation=self._relation)

    @property
    def event(self) -> PureEvent:
        """Event of one release, for accountants."""
        return PureEvent(self._epsilon, "multiplicative_weights", relation=self._relation)

    @property
    def rounds(self) -> int:
        """Number of queries that are answered with noise."""
        return self._rounds

    def release(self, counts: Sequence[int] | NDArray[np.int64]) -> WeightedAnswers:
        """Answers to all queries from the exact counts of the cells."""
        raw = _counts(counts, self._queries.shape[1])
        raw_answers = self._queries @ raw
        total = self._known or 1
        if self._count is not None:
            total = max(1, int(self._count.release(int(raw.sum()))))
        weights = PublicWeights(self._queries.shape[1], total)
        mean = np.zeros(self._queries.shape[1])
        measured = []
        for _ in range(self._rounds):
            mean += weights.histogram / self._rounds
            expected = weights.steps(self._queries)
            chosen = int(self._choice.release(np.abs(_STEPS * raw_answers - expected).tolist()))
            noisy = int(self._noise.release(int(raw_answers[chosen])))
            measured.append((chosen, noisy))
            weights.move(self._queries[chosen], noisy, self._sure)
        return WeightedAnswers(self._queries @ mean, mean, weights.histogram, tuple(measured), total)

    def error(self, beta: Number, total: SupportsIndex) -> float:
        """Bound on the errors of all queries, exceeded with probability at most ``beta``, for a table of so many rows.

        2n̂·√(ln N / T) for the rounds, and the noise of answers, of choices and of the number of rows.
        """
        sure = exact_probability(beta, "beta")
        if sure <= 2 * _RARE:
            raise InputError("beta", f"must be more than {float(2 * _RARE)}")
        rows = check_count(total, "total", maximum=2**40)
        part = (sure - _RARE) / 3
        off = 0.0 if self._count is None else float(self._count.error(part))
        noise = float(self._noise.error(part, k=self._rounds))
        gap = float(self._choice.error(part / self._rounds, candidates=len(self._queries))) / _STEPS
        cells = self._queries.shape[1]
        learnt = 2 * (rows + off) * math.sqrt(math.log(cells) / self._rounds)
        # A sixteenth for rounding expected answers to steps, when choosing and when comparing.
        return (learnt + noise + gap + 2 * off + 1 / _STEPS) * (1 + 1e-9)

    @classmethod
    def for_people(
        cls, *, epsilon: Number, queries: Any, people: SupportsIndex, relation: Relation | str = ADD_REMOVE
    ) -> MultiplicativeWeights:
        """The mechanism with the number of rounds whose bound at 95 % is least for about so many people.

        Args:
            epsilon: of everything together.
            queries: a list of 0/1 vectors.
            people: a public guess; under replace-one the public number.
            relation: which databases are neighbours.
        """
        known = as_relation(relation)
        total = None if known is ADD_REMOVE else people
        tried = [
            cls(epsilon=epsilon, queries=queries, rounds=rounds, total=total, relation=known)
            for rounds in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
        ]
        return min(tried, key=lambda each: each.error("0.05", people))


class PublicWeights:
    """A public histogram that is moved towards noisy answers; floats, because nothing here is secret."""

    def __init__(self, cells: int, total: int) -> None:
        self.total = total
        self._logs = np.zeros(cells)
        self._moved: list[tuple[NDArray[np.int8], int]] = []

    @property
    def histogram(self) -> NDArray[np.float64]:
        """Counts that add up to the total."""
        found = np.exp(self._logs - self._logs.max())
        return np.asarray(self.total * found / found.sum())

    def steps(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Expected answers in steps, as whole numbers."""
        return np.asarray(np.rint(_STEPS * (queries @ self.histogram)).astype(np.int64))

    def move(self, query: NDArray[np.int64], noisy: int, sure: float) -> None:
        """Multiply the cells of a query by exp((answer - expected) / 2n); then again towards all answers so far.

        Args:
            query: that was answered.
            noisy: the answer.
            sure: how far off answers are but for a rare event. A histogram that is twice as far from one of them
                gains by moving towards it.
        """
        self.move_all([(query, noisy)], sure)

    def move_all(self, answers: Iterable[tuple[NDArray[np.int64], int]], sure: float) -> None:
        """Move towards several answers one after the other, as :meth:`move` does.

        Where there are many of many cells, the histogram moves again towards answers so far after the last of them
        alone, and fewer times: how often follows from public numbers.
        """
        listed = list(answers)
        together = len(listed) * (len(self._moved) + len(listed)) * len(self._logs) * _PASSES > _MOST_READ
        for query, noisy in listed:
            target = min(max(noisy, 0), self.total)
            # Small, because a session keeps one for each hard query.
            self._moved.append((query.astype(np.int8), target))
            self._step(query, target, self.histogram)
            if not together:
                self._repeat(sure)
        if together and listed:
            self._repeat(sure)

    def _repeat(self, sure: float) -> None:
        """Move again towards answers that the histogram is far from."""
        for _ in range(min(_PASSES, max(1, _MOST_READ // (len(self._moved) * len(self._logs))))):
            now = self.histogram
            far = [(q, t) for q, t in self._moved if abs(t - float(q @ now)) > 2 * sure]
            if not far:
                break
            for each, aim in far:
                now = self.histogram
                if abs(aim - float(each @ now)) > 2 * sure:
                    self._step(each, aim, now)

    def _step(self, query: NDArray[np.int64] | NDArray[np.int8], target: int, now: NDArray[np.float64]) -> None:
        self._logs = self._logs + query * ((target - float(query @ now)) / (2 * self.total))


@dataclass(frozen=True)
class HardQuery:
    """An answer of a stream.

    Args:
        answer: the noisy answer where the query was hard, else that of the public histogram.
        hard: whether data was needed beyond saying that it was not.
    """

    answer: float
    hard: bool


class QueryStream(Mechanism):
    """Answers a stream of counting queries until one is hard: private multiplicative weights, one part of it.

    A part answers any number of queries, adaptively chosen, from a public histogram, as long as these answers are
    within about ``threshold`` of the truth; the sparse vector technique watches that. The first that is not gets an
    answer with Laplace noise and ends the part. :class:`PublicWeights`, moved by that answer, is public and goes on to
    the next part, which is paid for anew: hard queries cost, easy ones do not.

    Args:
        epsilon: of the part, three quarters for watching and a quarter for the answer.
        counts: exact, of the cells.
        weights: the public histogram.
        threshold: error that is let pass.
        relation: which databases are neighbours.

    Privacy:
        relation: as given, add/remove by default.
        guarantee: ε-DP for the whole part, however long.

    Sensitivity:
        one unit, which is one row, moves each distance |16·q(x) − e| by at most 16, and q(x) by at most 1.

    Error:
        :meth:`error` bounds the errors of k answers at once.

    Assumes:
        each unit has one row.

    References:
        Hardt, Rothblum (2010), *A multiplicative weights mechanism for privacy-preserving data analysis*. Proof:
        ``multiplicative_weights.proof.md``.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        counts: Sequence[int] | NDArray[np.int64],
        weights: PublicWeights,
        threshold: SupportsIndex,
        relation: Relation | str = ADD_REMOVE,
    ) -> None:
        self._epsilon = exact_positive(epsilon, "epsilon")
        self._relation = as_relation(relation)
        self._weights = weights
        self._raw = _counts(counts, weights.histogram.size)
        self._threshold = check_count(threshold, "threshold", maximum=2**40)
        self._watch = SparseVector(
            epsilon=Fraction(3, 4) * self._epsilon,
            sensitivity=_STEPS,
            threshold=_STEPS * self._threshold,
            relation=self._relation,
        )
        self._noise = _answer_noise(self._epsilon, self._relation)

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of the whole part."""
        return PureDP(self._epsilon, relation=self._relation)

    @property
    def event(self) -> PureEvent:
        """Event of the whole part, for accountants."""
        return PureEvent(self._epsilon, "query_stream", relation=self._relation)

    @property
    def ended(self) -> bool:
        """Whether a hard query has used the part up."""
        return not self._watch.left

    def ask(self, query: Sequence[int] | NDArray[np.int64]) -> HardQuery:
        """The answer to a 0/1 query.

        Raises:
            BudgetError: the part has ended.
        """
        if self.ended:
            raise BudgetError("a hard query has used this part up; begin another")
        asked = _zero_one([query])
        if asked.shape[1] != self._raw.size:
            raise InputError("query", f"must have one entry for each of {self._raw.size} cells")
        expected = int(self._weights.steps(asked)[0])
        raw_answer = int((asked @ self._raw)[0])
        if not self._watch.ask(abs(_STEPS * raw_answer - expected)):
            return HardQuery(float(asked[0] @ self._weights.histogram), hard=False)
        noisy = int(self._noise.release(raw_answer))
        self._weights.move(asked[0], noisy, sure_answer(self._epsilon, self._relation))
        return HardQuery(float(noisy), hard=True)

    def error(self, beta: Number, queries: SupportsIndex) -> float:
        """Bound on the errors of so many answers of a part, exceeded with probability at most ``beta``."""
        half = exact_probability(beta, "beta") / 2
        easy = self._threshold + self._watch.error(half, queries) / _STEPS + 1 / _STEPS
        return max(easy, float(self._noise.error(half))) * (1 + 1e-9)


def _answer_noise(epsilon: Fraction, relation: Relation) -> Laplace:
    """Noise on the answer that ends a part, for a quarter of its epsilon."""
    return Laplace(epsilon=epsilon / 4, l1_sensitivity=1, relation=relation)


def sure_answer(epsilon: Fraction, relation: Relation) -> float:
    """Distance within which the answer of a hard query is of the truth but for a rare event, by the part's epsilon."""
    return float(_answer_noise(epsilon, relation).error(_RARE))


def _zero_one(queries: Any) -> NDArray[np.int64]:
    try:
        found = np.asarray(queries)
    except ValueError:
        raise InputError("queries", "must be lists of equal length") from None
    if found.ndim != 2 or not found.size or found.size > _MOST or found.dtype.kind not in "iub":
        raise InputError("queries", f"must be a list of vectors of 0 and 1 with at most {_MOST:,} entries in all")
    if not ((found == 0) | (found == 1)).all():
        raise InputError("queries", "must have no other entries than 0 and 1")
    return found.astype(np.int64)


def _counts(counts: Any, cells: int) -> NDArray[np.int64]:
    found = np.asarray(counts)
    if found.dtype.kind not in "iu" or found.shape != (cells,):
        raise InputError("counts", f"must be {cells} whole numbers")
    return found.astype(np.int64)
