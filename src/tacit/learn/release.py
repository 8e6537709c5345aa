"""Releases of a fit: the allocation of (ε, δ) among them before data is read, and the functions that add the noise.

A fit is a fixed list of phases. Each phase is one integer vector with discrete Gaussian noise, released a fixed number
of times, possibly on secret Poisson samples. Shares state how the privacy is divided; a common factor of all noises is
then searched so that the events of all phases compose to the given (ε, δ), by their privacy loss distribution.

A sampled phase is a sum over rows, and its event says so: sampling then amplifies under replace-one as well
(``accounting/pld/pld.proof.md``, section 2).

Every release of every estimator passes :func:`release_gaussian` or :func:`release_laplace`, so a test can record the
exact inputs, fix the noisy outputs, and replay a fit on a neighbouring table.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.calibrate import calibrate
from tacit.accounting.compose import compose
from tacit.core.errors import InputError
from tacit.core.events import (
    ComposedEvent,
    Event,
    PoissonSampledEvent,
    RepeatedEvent,
    SampledSumEvent,
)
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    format_up,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn.integer_rows import Integers
from tacit.mechanisms.additive import add_noise
from tacit.noise.gaussian import LARGEST_SIGMA, DiscreteGaussian
from tacit.noise.laplace import DiscreteLaplace

_PIECE: Final = 1 << 13


def release_gaussian(raw: Integers, sigma2: Fraction) -> NDArray[np.float64]:
    """Return the integers plus independent discrete Gaussian noise of variance ``sigma2``, as floats of equal shape."""
    noisy = add_noise(raw.ravel(), _gaussian(sigma2))
    return _as_floats(noisy).reshape(raw.shape)


def release_laplace(raw: Integers, scale: Fraction) -> NDArray[np.float64]:
    """Return the integers plus independent discrete Laplace noise of scale ``scale``, as floats of equal shape."""
    noisy = add_noise(raw.ravel(), DiscreteLaplace(scale))
    return _as_floats(noisy).reshape(raw.shape)


@lru_cache(maxsize=8)
def _gaussian(sigma2: Fraction) -> DiscreteGaussian:
    return DiscreteGaussian(sigma2)


def _as_floats(noisy: Integers) -> NDArray[np.float64]:
    """Convert to the nearest floats in place: allocating memory would take longer than the conversion."""
    floats = noisy.view(np.float64)
    for start in range(0, len(noisy), _PIECE):
        floats[start : start + _PIECE] = noisy[start : start + _PIECE].astype(np.float64)
    return floats


#: Largest ε of a fit; a larger one protects no person, and would leave hardly any noise to account for.
LARGEST_EPSILON: Final = 10_000


@dataclass(frozen=True)
class Phase:
    """One kind of release within a fit.

    Attributes:
        name: name of the phase in reports.
        l2_squared: squared L2 sensitivity: the largest squared norm of one row's contribution, in integer steps.
        dimension: number of integers in one release.
        share: share of the privacy, relative to those of the other phases.
        count: number of releases.
        rate: rate of the secret Poisson sample of each release; 1 for all rows.
    """

    name: str
    l2_squared: int
    dimension: int
    share: Fraction
    count: int = 1
    rate: Fraction = Fraction(1)


@dataclass(frozen=True)
class FitPrice:
    """Cost of a fit, fixed before any row is read: its guarantee and its releases.

    Attributes:
        guarantee: guarantee of the fitted model.
        event: privacy event of all releases.
        releases: description of the releases, one line each.
    """

    guarantee: ApproxDP | PureDP
    event: Event
    releases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spent:
    """Noise of every phase of a fit, and their joint guarantee.

    Attributes:
        phases: the phases, in order.
        sigma2: noise variance of each phase, in squared integer steps.
        event: privacy event of all phases together.
        guarantee: guarantee of all phases together.
    """

    phases: tuple[Phase, ...]
    sigma2: tuple[Fraction, ...]
    event: Event
    guarantee: ApproxDP

    def of(self, name: str) -> Fraction:
        """Return σ² of the phase with this name, in squared integer steps."""
        return next(s for phase, s in zip(self.phases, self.sigma2, strict=True) if phase.name == name)

    @property
    def price(self) -> FitPrice:
        """Cost of a fit with these releases."""
        return FitPrice(self.guarantee, self.event, tuple(map(_described, self.phases, self.sigma2)))


def _described(phase: Phase, sigma2: Fraction) -> str:
    times = f"{phase.count} × " if phase.count > 1 else ""
    noise = float(sqrt_bounds(sigma2 / phase.l2_squared)[1])
    sample = f", each on a secret sample of rate {format_up(phase.rate)}" if phase.rate < 1 else ""
    return f"{times}{phase.name}: {phase.dimension} numbers, noise {noise:.4g} × what one row adds{sample}"


def check_privacy(epsilon: Number, delta: Number | None) -> tuple[Fraction, Fraction | None]:
    """Return ε and δ of a fit as exact rationals, δ as None if it is not given; refuse invalid values."""
    target = exact_positive(epsilon, "epsilon")
    if target > LARGEST_EPSILON:
        raise InputError("epsilon", f"must be at most {LARGEST_EPSILON}; a larger one protects no person")
    return target, None if delta is None else exact_probability(delta, "delta")


def check_gaussian_privacy(epsilon: Number, delta: Number | None) -> tuple[Fraction, Fraction]:
    """Return ε and δ of a fit with Gaussian noise as exact rationals; refuse a missing δ and invalid values."""
    target, slack = check_privacy(epsilon, delta)
    if slack is None:
        raise InputError("delta", "must be given: the noise is Gaussian; write for example delta='1e-6'")
    return target, slack


def spend(phases: Sequence[Phase], *, epsilon: Fraction, delta: Fraction, relation: Relation) -> Spent:
    """Return the least noise, in the proportions of the shares, with which all phases together are (ε, δ)-DP."""
    return _spend(tuple(phases), epsilon, delta, relation)


@lru_cache(maxsize=256)
def _spend(phases: tuple[Phase, ...], epsilon: Fraction, delta: Fraction, relation: Relation) -> Spent:
    for phase in phases:
        check_count(phase.count, "steps")
    sampled = any(phase.rate < 1 for phase in phases)

    def build(scale: Fraction) -> list[Event]:
        return [phase_event(phase, _sigma2(phase, scale, phases), relation) for phase in phases]

    guess = math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
    scale = calibrate(
        build,
        epsilon=epsilon,
        delta=delta,
        method="pld",
        start=max(guess, 1e-3),
        tolerance=1e-3 if sampled else 1e-5,
    )
    events = tuple(build(scale))
    sigma2 = tuple(_sigma2(phase, scale, phases) for phase in phases)
    if max(sigma2) > LARGEST_SIGMA**2:
        raise InputError("epsilon", "is too small for exact noise at this resolution; allow more, or fewer steps")
    guarantee = compose(list(events), delta=delta, method="pld")
    return Spent(phases, sigma2, ComposedEvent(events, relation=relation), guarantee)


def _sigma2(phase: Phase, scale: Fraction, phases: tuple[Phase, ...]) -> Fraction:
    """Return the σ² with which the phase costs its share of 1/scale², in the Gaussian approximation of sampling."""
    share = phase.share / sum((other.share for other in phases), Fraction(0))
    wanted = scale**2 * phase.l2_squared * phase.count * phase.rate**2 / share
    # Sampling amplifies little once the noise is below the contribution, and σ² >= 16 keeps the accounting simple.
    return Fraction(math.ceil(max(wanted, Fraction(16))))


def phase_event(phase: Phase, sigma2: Fraction, relation: Relation) -> Event:
    """Return the privacy event of all releases of a phase with noise variance ``sigma2``."""
    summed = SampledSumEvent(phase.rate, sigma2, Fraction(phase.l2_squared), phase.dimension, relation=relation)
    noise: Event = summed.unsampled
    if phase.rate < 1:
        # Under add-remove the two events are equivalent, and earlier versions know only this one.
        noise = PoissonSampledEvent(phase.rate, noise) if relation is ADD_REMOVE else summed
    return noise if phase.count == 1 else RepeatedEvent(noise, phase.count, relation=relation)


T = TypeVar("T")

#: Seconds after which a progress bar appears.
_PATIENCE: Final = 1.0


def progress(items: Sequence[T], title: str) -> Iterator[T]:
    """Yield ``items``, with a bar on standard error if that is a terminal and the loop has run for over a second.

    The bar shows the number of items, which is public, and the time that the fit takes.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    yield from _shown(items, title)


def _shown(items: Sequence[T], title: str) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    start = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=len(items))
    shown = False
    try:
        for item in items:
            yield item
            bar.advance(task)
            if not shown and time.monotonic() - start > _PATIENCE:
                bar.start()
                shown = True
    finally:
        if shown:
            bar.stop()
