"""Vectors of counts released at once, shared by histograms and counting queries."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex

from tacit.core.errors import InputError
from tacit.core.events import Event
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number, exact_probability
from tacit.core.sensitivity import Sensitivity
from tacit.mechanisms.base import Mechanism, check_iterable
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace


@dataclass(frozen=True, eq=False)
class NoisyCounts(Mapping[Hashable, int]):
    """Noisy counts by label, in the order of the public labels, all of them, always.

    Noise may carry a small count below zero; clamping is left to the reader because it would bias sums of counts.
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
        """An interval for every count; with probability at least ``confidence`` all hold their true counts at once.

        True counts are not negative, so neither are the ends.
        """
        width = int(self.mechanism.error(1 - exact_probability(confidence, "confidence")))
        return {label: (max(count - width, 0), max(count + width, 0)) for label, count in self.items()}

    def __repr__(self) -> str:
        shown = ", ".join(f"{label!r}: {count}" for label, count in self.items())
        return f"NoisyCounts({{{shown}}})"


class CountRelease(Mechanism):
    """Integer noise on a fixed number of counts that together move by a known :class:`Sensitivity`.

    Without ``delta`` the noise is Laplace of scale l1/ε. With it the noise is Laplace or Gaussian, whichever has the
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
        """The release, as accountants read it."""
        return self._noise.event

    @property
    def noise(self) -> Laplace | Gaussian:
        """The mechanism that adds the noise."""
        return self._noise

    @property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity of the whole vector of counts."""
        return self._sensitivity

    def error(self, beta: Number, k: int = 1) -> int:
        """Bound on the errors of all counts of ``k`` releases at once, exceeded with probability at most ``beta``."""
        return int(self._noise.error(beta, k=k * len(self._labels)))

    def release_counts(self, counts: Sequence[SupportsIndex] | Mapping[Hashable, SupportsIndex]) -> NoisyCounts:
        """Counts made elsewhere, with noise: one for every label, in order or by label."""
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
