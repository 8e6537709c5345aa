"""Releases without noise: for comparing the machinery with ordinary SQL, and for nothing else.

The product has no such switch. Here the one seam of :mod:`tacit.query.release` is replaced by the identity, every
private key is kept, and the laws of noise say that there is none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.engines.protocol import Measurements
from tacit.query import release as noising
from tacit.query.aggregates.ranks import NoisyTree, RankChoice
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan
from tacit.query.planning.releases import KeySelection, Release
from tacit.query.release import NoisyLevels, NoisyRelease

__all__ = ["exact_draw", "true_places", "without_noise"]


def exact_draw(step: Release | KeySelection | RankChoice, keys: Any, raw: NDArray[Any]) -> NDArray[Any]:
    """Stand in for :func:`tacit.query.release.draw`: numbers as they are, true quantiles, every key."""
    if isinstance(step, RankChoice):
        return true_places(step, raw)
    return np.ones(len(keys), dtype=np.bool_) if isinstance(step, KeySelection) else raw


def true_places(choice: RankChoice, raw: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each quantile, rounded down where it lies between two; 0 in an empty group."""
    found = np.zeros((len(raw), len(choice.fractions)), dtype=np.int64)
    for group, counted in enumerate(raw):
        upto = np.cumsum(counted[:, 1])
        for index, fraction in enumerate(choice.fractions):
            if len(upto):
                place = (int(upto[-1]) - 1) * fraction
                ranks = [min(int(place) + more, int(upto[-1]) - 1) for more in (0, 1)]
                low, high = (int(counted[int(np.searchsorted(upto, rank, side="right")), 0]) for rank in ranks)
                found[group, index] = int(low + (place - int(place)) * (high - low))
    return found


def _only(tree: NoisyTree, there: NDArray[np.bool_], law: NoiseLaw) -> NoisyTree:
    drawn = None if tree.drawn is None else tree.drawn[there]
    return replace(tree, noisy_nodes=tree.noisy_nodes[there], law=law, drawn=drawn)


def _cells(
    noisy: NDArray[Any] | NoisyTree | NoisyLevels, raw: Any, there: NDArray[np.bool_], law: NoiseLaw
) -> NDArray[Any] | NoisyTree:
    if isinstance(noisy, NoisyTree):
        return _only(noisy, there, law)
    if not isinstance(noisy, NoisyLevels):
        return noisy[there]
    # Groups without rows are left out below, so that the exact numbers stand for estimates; both have the same sums.
    exact = np.array([int(int(value) / law.unit) for value in np.ravel(raw)], dtype=object)
    made = noisy.basis.estimates(noisy.noisy)
    table = exact.reshape(made.shape)
    for level in range(len(noisy.basis.levels)):
        assert (np.asarray(noisy.basis.measured(made, level) == noisy.basis.measured(table, level))).all()
    return table.reshape(len(there), *made.shape[len(noisy.basis.sizes) :])[there]


def without_noise(plan: Plan, measurements: Measurements, *, every_key: bool = False) -> NoisyRelease:
    """The exact integers as if they had been released; without ``every_key`` as SQL lists groups: those with rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noising, "draw", exact_draw)
        released = noising.release(plan, measurements)
    laws = tuple(replace(law, kind="none", scale=law.scale * 0, layers=(), cells=None) for law in released.laws)
    there = np.ones(len(released.keys), dtype=np.bool_)
    if plan.final.keys and plan.final.public_keys and not every_key:
        there = np.asarray(measurements.raw_units) > 0
    noisy = tuple(
        _cells(cells, raw, there, law) for cells, raw, law in zip(released.noisy, measurements.raw, laws, strict=True)
    )
    keys = tuple(key for key, some in zip(released.keys, there, strict=True) if some)
    return replace(released, keys=keys, noisy=noisy, laws=laws)
