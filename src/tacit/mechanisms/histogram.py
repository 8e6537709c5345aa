"""A histogram over public bins: how many people are in each, all bins at once; see ``histogram.proof.md``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.sensitivity import histogram
from tacit.mechanisms.base import check_iterable
from tacit.mechanisms.count_vector import CountRelease, NoisyCounts
from tacit.mechanisms.laplace import Laplace


class Histogram(CountRelease):
    """Releases the number of people in every bin of a public list; empty bins are released like all others.

    A bin is a category: any plain value such as text or a whole number. Numbers are binned by the caller, with a
    public rule such as ``age // 10``. A record that equals no bin is dropped, and so is one that cannot be compared
    (NaN, a list): nothing in the data can raise an error, add a bin or remove one. To count the rest, let the
    caller's rule send it to a bin of its own.

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
        """The most private histogram with Laplace noise whose ``error(beta)`` is at most ``within``."""
        labels = _check_bins(bins)
        moves = histogram(bins=len(labels), relation=relation)
        noise = Laplace.for_error(within=within, beta=beta, l1_sensitivity=moves.l1, k=len(labels))
        return cls(epsilon=noise.epsilon, bins=labels, relation=relation)

    @property
    def bins(self) -> tuple[Hashable, ...]:
        """The public bins, in order."""
        return self._labels

    def release(self, records: Iterable[object]) -> NoisyCounts:
        """The noisy number of people in each bin; ``records`` has one category per person."""
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
