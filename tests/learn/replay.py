"""Record a fit on one table, replay it on a neighbour with every output frozen, and compare what went in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.core.events import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    PoissonSampledEvent,
    RepeatedEvent,
)
from tacit.learn import release as noising

Array = NDArray[np.int64]


@dataclass
class Recorder:
    """Inputs of the noise, the noise used, and the outputs, in order."""

    raw: list[Array] = field(default_factory=list)
    noise: list[tuple[str, Fraction]] = field(default_factory=list)
    noisy: list[Any] = field(default_factory=list)


def record(monkeypatch: pytest.MonkeyPatch, fit: Callable[[], object], frozen: Recorder | None = None) -> Recorder:
    """Run ``fit`` and write down its releases; with ``frozen``, give it the outputs of an earlier run."""
    seen = Recorder()

    def patched(name: str) -> Callable[..., Any]:
        true = getattr(noising, name)

        def release(raw: Array, *noise: Any) -> Any:
            seen.raw.append(raw.copy())
            seen.noise.append((name, noise[-1]))
            # Drawn in either case, so that what is drawn beside the noise is the same in both runs.
            drawn = true(raw, *noise)
            out = drawn if frozen is None else frozen.noisy[len(seen.noisy)]
            seen.noisy.append(out)
            return out

        return release

    with monkeypatch.context() as patch:
        for name in ("release_gaussian", "release_laplace"):
            patch.setattr(noising, name, patched(name))
        fit()
    return seen


def released_events(event: object) -> list[Any]:
    if isinstance(event, ComposedEvent):
        return [one for part in event.events for one in released_events(part)]
    if isinstance(event, RepeatedEvent):
        return event.count * released_events(event.event)
    if isinstance(event, PoissonSampledEvent):
        return released_events(event.event)
    assert isinstance(event, DiscreteGaussianEvent | DiscreteLaplaceEvent)
    return [event]
