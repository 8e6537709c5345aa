"""Exhibits: private training that does not match its accountant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from audit.museum.exhibit import Piece
from tacit.accounting.compose import compose
from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.replay import ReplayReport
from tacit.audit.search import replay_neighbours
from tacit.core.events import GaussianEvent, PoissonSampledEvent
from tacit.core.guarantees import ApproxDP
from tacit.mechanisms.gaussian import Gaussian
from tacit.noise import entropy
from tacit.noise.gaussian import DiscreteGaussian

_STEPS = 400
_DELTA = Fraction(1, 1000)
#: Gradients are clipped to 1; noise has σ = 1/2, in steps of 1/16.
_GRID = 16
_NOISE = DiscreteGaussian(Fraction(_GRID, 2) ** 2)
_FIRST, _SECOND = 1, 0
Vector = NDArray[np.int64]


@cache
def poisson_claim() -> ApproxDP:
    """Guarantee of 400 steps if every record is in each batch with probability 1/400, independently."""
    step = PoissonSampledEvent(Fraction(1, _STEPS), GaussianEvent(Fraction(1, 2), Fraction(1)))
    return ApproxDP(compose([(step, _STEPS)], delta=_DELTA).epsilon, _DELTA)


def _gradients(one: int) -> Vector:
    """All but one record pull the other way, in steps of the grid."""
    gradients = np.full(_STEPS, -_GRID, dtype=np.int64)
    gradients[0] = one * _GRID
    return gradients


def shuffled(one: int) -> int:
    """The largest noisy batch sum of an epoch in which every record is in exactly one batch, in random order."""
    gradients = _gradients(one)
    order = np.argsort(entropy.current().words(_STEPS))
    return int((gradients[order] + _NOISE.sample_many(_STEPS)).max())


def sampled(one: int) -> int:
    """Corrected: batches drawn by independent coins, as the accountant was told."""
    sums = _NOISE.sample_many(_STEPS)
    limit = np.uint64(2**64 // _STEPS)
    chosen = entropy.current().words(_STEPS * _STEPS).reshape(_STEPS, _STEPS) < limit
    return int((sums + chosen @ _gradients(one)).max())


def mean_over_batch(gradients: Sequence[int]) -> float:
    """A noisy mean gradient: the sum is noised as it should be, and divided by how many there happen to be."""
    noisy = _noisy_sum(gradients)
    return noisy / max(len(gradients), 1)


def mean_over_public_size(gradients: Sequence[int]) -> float:
    """Corrected: divided by the expected batch size, which is public."""
    return _noisy_sum(gradients) / 4


def _noisy_sum(gradients: Sequence[int]) -> int:
    clipped = [min(max(each, -_GRID), _GRID) for each in gradients]
    return Gaussian.from_rho(rho="1/2", l2_sensitivity=_GRID, whole=True).release(sum(clipped))


def _batches(function: Callable[[int], int], samples: int) -> LowerBound:
    claim = poisson_claim()
    return lower_bound(function, _FIRST, _SECOND, claimed=claim, delta=_DELTA, samples=samples, confidence=0.999)


def _normalised(function: Callable[[Sequence[int]], float]) -> list[ReplayReport]:
    return replay_neighbours(function, [3, -5, 40, 7])


PIECES = (
    Piece(
        name="shuffled-as-poisson",
        title="shuffled batches accounted as Poisson sampling",
        story="Accountants of private training assume that each record joins each batch by a coin. Data loaders "
        "shuffle and cut, so that each record is in exactly one batch of an epoch. The noise that hides "
        "it in that batch is then all there is.",
        seen_in="opacus#80; Chua and others 2024",
        tool="lower_bound",
        flawed=lambda: _batches(shuffled, 2_400),
        mended=lambda: _batches(sampled, 600),
    ),
    Piece(
        name="batch-normaliser",
        title="a mean over a secret batch size",
        story="The noisy sum of gradients was divided by how many records the batch really had. That number is "
        "data: between neighbours the same noisy sum gives different means.",
        seen_in="opacus#571, opacus#819",
        tool="replay",
        flawed=lambda: _normalised(mean_over_batch),
        mended=lambda: _normalised(mean_over_public_size),
    ),
)
