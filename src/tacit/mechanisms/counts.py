"""Counts of people released at once: histograms over public bins, and counting queries that overlap as they please.

Proof: ``counts.proof.md``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

from tacit.core.errors import InputError
from tacit.core.events import Event
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number, check_count, exact_probability
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.sensitivity import Sensitivity, counting_queries, histogram
from tacit.mechanisms.base import Mechanism, check_iterable
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace


@dataclass(frozen=True, eq=False)
class NoisyCounts(Mapping[Hashable, int]):
    """Noisy counts by label: one for every public label, in the order of the labels.

    Noise may make a small count negative; it is not clamped here, because that would bias sums of counts.
    """

    labels: tuple[Hashable, ...]
    counts: tuple[int, ...]
    mechanism: CountRelease

    def __getitem__(self, label: Hashable) -> int:
        return self._table[label]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _table(self) -> dict[Hashable, int]:
        return dict(zip(self.labels, self.counts, strict=True))

    def intervals(self, confidence: Number = "0.95") -> dict[Hashable, tuple[int, int]]:
        """Return an interval for every count; with probability at least ``confidence`` all contain the true counts.

        True counts are not negative, so the ends are clamped at zero.
        """
        width = int(self.mechanism.error(1 - exact_probability(confidence, "confidence")))
        return {label: (max(count - width, 0), max(count + width, 0)) for label, count in self.items()}

    def __repr__(self) -> str:
        shown = ", ".join(f"{label!r}: {count}" for label, count in self.items())
        return f"NoisyCounts({{{shown}}})"


class CountRelease(Mechanism):
    """Adds integer noise to a fixed number of counts that together have a known :class:`Sensitivity`.

    Without ``delta`` the noise is Laplace of scale l1/ε. With ``delta`` it is Laplace or Gaussian, whichever has the
    smaller variance: a delta permits Gaussian noise and does not force it.
    """

    def __init__(
        self, *, labels: Sequence[Hashable], epsilon: Number, delta: Number | None, sensitivity: Sensitivity
    ) -> None:
        self._labels = tuple(labels)
        self._sensitivity = sensitivity
        self._noise = _noise_for(epsilon, delta, sensitivity, len(self._labels))

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the noise, for all counts together."""
        return self._noise.guarantee

    @property
    def event(self) -> Event:
        """Event of one release, for accountants."""
        return self._noise.event

    @property
    def noise(self) -> Laplace | Gaussian:
        return self._noise

    @property
    def sensitivity(self) -> Sensitivity:
        return self._sensitivity

    def error(self, beta: Number, k: int = 1) -> int:
        """Return a bound that any error in ``k`` releases of all counts exceeds with probability at most ``beta``."""
        return int(self._noise.error(beta, k=k * len(self._labels)))

    def release_counts(self, counts: Sequence[SupportsIndex] | Mapping[Hashable, SupportsIndex]) -> NoisyCounts:
        """Return given exact counts plus noise; ``counts`` holds one per label, in order or by label."""
        if isinstance(counts, Mapping):
            if set(counts) != set(self._labels):
                raise InputError("counts", "must have exactly the public labels as keys; write 0 for an empty label")
            counts = [counts[label] for label in self._labels]
        listed = list(check_iterable(counts, "counts", "a list of whole numbers"))
        if len(listed) != len(self._labels):
            raise InputError("counts", f"must hold {len(self._labels)} counts, got {len(listed)}")
        return self._add_noise([_whole(count) for count in listed])

    def _add_noise(self, raw_counts: list[int]) -> NoisyCounts:
        return NoisyCounts(self._labels, tuple(self._noise.release(raw_counts)), self)


def _noise_for(epsilon: Number, delta: Number | None, sensitivity: Sensitivity, outputs: int) -> Laplace | Gaussian:
    laplace = Laplace(epsilon=epsilon, l1_sensitivity=sensitivity.l1, relation=sensitivity.relation)
    if delta is None:
        return laplace
    gaussian = Gaussian(
        epsilon=epsilon,
        delta=delta,
        l2_squared=sensitivity.l2_squared,
        dimension=outputs,
        whole=True,
        relation=sensitivity.relation,
    )
    return gaussian if gaussian.variance < laplace.variance else laplace


def _whole(count: SupportsIndex) -> int:
    try:
        whole = operator.index(count)
    except TypeError:
        raise InputError("counts", "must be whole numbers") from None
    if isinstance(count, bool):
        raise InputError("counts", "must be whole numbers, not truth values")
    return whole


class Histogram(CountRelease):
    """Releases the number of people in every bin of a public list; empty bins included.

    A bin is a category: any plain value such as text or a whole number. Numbers are binned by the caller, with a
    public rule such as ``age // 10``. A record that equals no bin is dropped, and so is one that cannot be compared
    (NaN, a list): nothing in the data can raise an error, add a bin or remove one. To count the remaining
    records, let the caller's rule map them to a separate bin.

    >>> Histogram(epsilon="0.5", bins=["A", "B", "AB", "0"]).error(beta="0.05")
    9

    Privacy:
        relation: add/remove by default, or replace-one.
        guarantee: ε-DP; (ε, δ)-DP where ``delta`` is given and Gaussian noise chosen,

        where ε is ``epsilon`` for all bins together, however many there are.

    Sensitivity:
        one person is in one bin: l1 = l2 = 1 under add/remove; l1 = 2, l2 = √2 under replace-one, where one bin
        loses and another gains (a single bin moves by 1).

    Error:
        :meth:`error` bounds all bins at once. For Laplace noise of scale t = l1/ε it is the smallest w with
        (1 - 2q^(w+1)/(1+q))^bins >= 1 - β, where q = e^(-1/t): the bins' noises are independent, so this is exact.

    Assumes:
        one record per person; ``bins`` are public and were written without looking at the data.

    References:
        Dwork, McSherry, Nissim and Smith (2006), section 3 on histograms.
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        bins: Sequence[Hashable],
        relation: Relation | str = ADD_REMOVE,
        delta: Number | None = None,
    ) -> None:
        labels = _check_bins(bins)
        moves = histogram(bins=len(labels), relation=relation)
        super().__init__(labels=labels, epsilon=epsilon, delta=delta, sensitivity=moves)

    @classmethod
    def for_error(
        cls, *, within: Number, beta: Number, bins: Sequence[Hashable], relation: Relation | str = ADD_REMOVE
    ) -> Histogram:
        """Return the histogram with Laplace noise of the smallest ε whose ``error(beta)`` is at most ``within``."""
        labels = _check_bins(bins)
        moves = histogram(bins=len(labels), relation=relation)
        noise = Laplace.for_error(within=within, beta=beta, l1_sensitivity=moves.l1, k=len(labels))
        return cls(epsilon=noise.epsilon, bins=labels, relation=relation)

    @property
    def bins(self) -> tuple[Hashable, ...]:
        return self._labels

    def release(self, records: Iterable[object]) -> NoisyCounts:
        """Return the noisy number of people in each bin; ``records`` holds one category per person."""
        return self._add_noise(self._count(records))

    def _count(self, records: Iterable[object]) -> list[int]:
        raw_counts: dict[object, int] = dict.fromkeys(self._labels, 0)
        for record in check_iterable(records, "records", "a list with one record per person"):
            try:
                if record in raw_counts:
                    raw_counts[record] += 1
            except Exception:  # noqa: S112 - cannot be hashed or compared, so it equals no bin; that must not show
                continue
        return list(raw_counts.values())

    def __repr__(self) -> str:
        return f"Histogram(bins={len(self._labels)}, {self.guarantee!r})"


def _check_bins(bins: Sequence[Hashable]) -> tuple[Hashable, ...]:
    listed = tuple(check_iterable(bins, "bins", "a list of categories"))
    try:
        distinct = len(set(listed))
    except TypeError:
        raise InputError("bins", "must be plain values such as text or whole numbers") from None
    if not listed:
        raise InputError("bins", "must list at least one category")
    if any(label != label for label in listed):
        raise InputError("bins", "NaN cannot be a bin: it equals nothing, not even itself")
    if distinct != len(listed):
        raise InputError("bins", "lists a category twice; True and 1 are the same")
    return listed


class CountingQueries(CountRelease):
    """Releases ``k`` counts: for each of k predicates, the number of people who satisfy it.

    The predicates may overlap; a person may be counted by all of them. Where each person is counted by exactly one,
    :class:`~tacit.mechanisms.counts.Histogram` needs k times less noise.

    A predicate is a function from a record to true or false. Where it raises an error, the record is not counted: one
    person's unusual data must not be able to stop the release.

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
        """Return the release with Laplace noise of the smallest ε whose ``error(beta)`` is at most ``within``."""
        queries = check_count(k, "k", maximum=10**7)
        noise = Laplace.for_error(within=within, beta=beta, l1_sensitivity=queries, k=queries)
        return cls(epsilon=noise.epsilon, k=queries, relation=relation)

    @property
    def k(self) -> int:
        """Number of queries."""
        return self._k

    def release(self, records: Iterable[Any], predicates: Sequence[Callable[[Any], object]]) -> NoisyCounts:
        """Return the noisy number of people who satisfy each of the k ``predicates``; keys are 0 to k - 1."""
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
    except Exception:  # no error that one record causes may show, not even its type
        return False
