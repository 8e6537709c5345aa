"""Many counting queries at once, which may overlap as they please; see ``counting_queries.proof.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex

from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.sensitivity import counting_queries
from tacit.mechanisms.base import check_iterable
from tacit.mechanisms.count_vector import CountRelease, NoisyCounts
from tacit.mechanisms.laplace import Laplace


class CountingQueries(CountRelease):
    """Releases ``k`` counts: for each of k queries, how many people it is true of.

    The queries may overlap; a person may be counted by all of them. Where each person is counted by exactly one,
    :class:`~tacit.mechanisms.histogram.Histogram` needs k times less noise.

    A query is a function from a record to true or false. One that raises an error on a record does not count that
    record: a person whose data are odd must not be able to stop the release.

    >>> CountingQueries(epsilon=1, k=10).error(beta="0.05")
    53

    Privacy:
        relation: add/remove by default, or replace-one.
        guarantee: ε-DP; (ε, δ)-DP where ``delta`` is given and Gaussian noise chosen,

        where ε is ``epsilon`` for all k answers together.

    Sensitivity:
        l1 = k and l2 = √k under either relation: at most, a person is in every count and their neighbour in none.

    Error:
        :meth:`error` bounds all k answers at once, exactly for Laplace noise (of scale k/ε). With Gaussian noise it
        grows like √(k·ln k) instead of k·ln k, which is less from about ten queries on.

    Assumes:
        the queries are public, and each looks at one person's record alone.

    References:
        Dwork, McSherry, Nissim and Smith (2006).
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        k: SupportsIndex,
        relation: Relation | str = ADD_REMOVE,
        delta: Number | None = None,
    ) -> None:
        self._k = check_count(k, "k", maximum=10**7)
        moves = counting_queries(k=self._k, relation=relation)
        super().__init__(labels=range(self._k), epsilon=epsilon, delta=delta, sensitivity=moves)

    @classmethod
    def for_error(
        cls, *, within: Number, beta: Number, k: SupportsIndex, relation: Relation | str = ADD_REMOVE
    ) -> CountingQueries:
        """The most private release with Laplace noise whose ``error(beta)`` is at most ``within``."""
        queries = check_count(k, "k", maximum=10**7)
        noise = Laplace.for_error(within=within, beta=beta, l1_sensitivity=queries, k=queries)
        return cls(epsilon=noise.epsilon, k=queries, relation=relation)

    @property
    def k(self) -> int:
        """Number of queries."""
        return self._k

    def release(self, records: Iterable[Any], predicates: Sequence[Callable[[Any], object]]) -> NoisyCounts:
        """The noisy number of people for whom each of the k ``predicates`` is true; keys are 0 to k - 1."""
        if len(predicates) != self._k:
            raise InputError("predicates", f"must be k = {self._k} queries, got {len(predicates)}")
        return self._add_noise(self._count(records, predicates))

    def _count(self, records: Iterable[Any], predicates: Sequence[Callable[[Any], object]]) -> list[int]:
        raw_counts = [0] * self._k
        for record in check_iterable(records, "records", "a list with one record per person"):
            for index, predicate in enumerate(predicates):
                raw_counts[index] += _is_true(predicate, record)
        return raw_counts

    def __repr__(self) -> str:
        return f"CountingQueries(k={self._k}, {self.guarantee!r})"


def _is_true(predicate: Callable[[Any], object], record: object) -> bool:
    try:
        return bool(predicate(record))
    except Exception:  # whatever one record provokes must not show, not even by its kind
        return False
