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
from tacit.query.planning.plan import Plan
from tacit.query.planning.pricing import KeySelection, Release
from tacit.query.planning.quantile_tree import NoisyTree
from tacit.query.release import NoisyRelease

__all__ = ["without_noise"]


def _unchanged(step: Release | KeySelection, keys: Any, raw: NDArray[Any]) -> NDArray[Any]:
    return np.ones(len(keys), dtype=np.bool_) if isinstance(step, KeySelection) else raw


def without_noise(plan: Plan, measurements: Measurements) -> NoisyRelease:
    """The exact integers as if they had been released; empty groups are left out, as SQL leaves them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noising, "draw", _unchanged)
        released = noising.release(plan, measurements)
    laws = tuple(replace(law, kind="none", scale=law.scale * 0) for law in released.laws)
    there = np.ones(len(released.keys), dtype=np.bool_)
    if plan.final.keys and plan.final.public_keys:
        there = np.asarray(measurements.raw_units) > 0
    noisy = tuple(
        replace(cells, noisy_nodes=cells.noisy_nodes[there], law=law) if isinstance(cells, NoisyTree) else cells[there]
        for cells, law in zip(released.noisy, laws, strict=True)
    )
    keys = tuple(key for key, some in zip(released.keys, there, strict=True) if some)
    return replace(released, keys=keys, noisy=noisy, laws=laws)
