"""Parallel composition: releases on the parts of a partition that was fixed without looking at the data.

*Privacy.* Every unit lies in one part. Adding or removing it changes one part, so the whole costs no more than the
costliest part. Replacing a unit may take it out of one part and put another into a second one, so two parts change and
the whole costs two of the costliest. In both cases each part's event must be true of the *whole* database under the
stated relation, that is, also for a unit that enters or leaves the part; a mechanism whose event was worked out for
parts of fixed size (the exact count of a part costs nothing when no unit can enter it) must not stand here.

*Which part is costliest* is clear when all are of one kind that is ordered by one number. Otherwise the parts stay
together in one event, and each accountant takes the largest of what it knows: (max ε, max δ), max ρ, or the largest
Renyi divergence order by order. All are valid, because the pair of neighbours touches one part whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from tacit.core.events import (
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PureEvent,
    ZCDPEvent,
)
from tacit.core.guarantees import RDP

__all__ = ["worst_part"]

_Leaves: TypeAlias = tuple[tuple[Event | RDP, int], ...]


def worst_part(event: ParallelEvent, leaves: Callable[[Event], _Leaves]) -> _Leaves | ParallelEvent:
    """The leaves of a part that is at least as costly as every other, or the event itself where none is known."""
    parts = list(dict.fromkeys(leaves(part) for part in event.events))
    if len(parts) <= 1:
        return parts[0] if parts else ()
    if all(len(part) == 1 for part in parts) and len({part[0][1] for part in parts}) == 1:
        releases = [part[0][0] for part in parts]
        strengths = [_strength(release) for release in releases]
        if all(s is not None for s in strengths) and len({_kind(release) for release in releases}) == 1:
            return max(zip(parts, strengths, strict=True), key=lambda pair: pair[1] or Fraction(0))[0]
    return ParallelEvent(_trimmed(event.events), relation=event.relation)


def _trimmed(events: Sequence[Event]) -> tuple[Event, ...]:
    return tuple(dict.fromkeys(events))


def _strength(release: Event | RDP) -> Fraction | None:
    """A number that orders releases of one kind from harmless to costly, at every ε and δ alike."""
    match release:
        case PureEvent() | ExponentialEvent():
            return release.epsilon
        case ZCDPEvent(delta=delta) if delta == 0:
            return release.rho
        case LaplaceEvent() | DiscreteLaplaceEvent():
            return release.l1_sensitivity / release.scale
        case GaussianEvent():
            return release.l2_sensitivity / release.sigma
        case _:
            return None


def _kind(release: Event | RDP) -> object:
    # Discrete Laplace is ordered by its scale once the shift is the same: more noise is less noise with noise added.
    if isinstance(release, DiscreteLaplaceEvent):
        return DiscreteLaplaceEvent, release.l1_sensitivity
    return type(release)
