"""Normal form of a plan to compose: single releases with their repetitions; and the result of a composition.

:func:`compose <tacit.accounting.compose.compose>` takes mechanisms, events, guarantees, and ``(item, k)`` pairs. This
module turns them into :class:`CountedRelease` items whose ``release`` is a *leaf*: an event that is neither a
repetition nor a composition, or a Renyi curve. Nested counts are multiplied, equal leaves are merged, and free releases
are left out. The order of releases is lost on purpose: no bound of this package depends on it.

*Parallel composition*: releases on the parts of a partition that was fixed without looking at the data. Every unit lies
in one part. Adding or removing it changes one part, so the whole costs no more than the costliest part. Replacing a
unit may take it out of one part and put another into a second one, so two parts change and the whole costs at most
twice the costliest part. In both cases each part's event must be true of the *whole* database under the stated
relation, that is, also for a unit that enters or leaves the part; a mechanism whose event was derived for parts of
fixed size (the exact count of a part is free when no unit can enter it) must not be used here.

*Which part is costliest* is known when all are of one kind that is ordered by one number. Otherwise the parts stay
together in one event, and each accountant takes the maximum in its own terms: (max ε, max δ), max ρ, or the largest
Renyi divergence order by order. All are valid, because the pair of neighbours touches one part, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, cast

from tacit.accounting.currencies import AccountGuarantee, currency_of
from tacit.accounting.prices import HasEvent, HasGuarantee
from tacit.core.errors import InputError
from tacit.core.events import (
    ApproxEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    NoEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    SampledSumEvent,
    ZCDPEvent,
)
from tacit.core.guarantees import RDP, ApproxDP, Guarantee, PureDP
from tacit.core.numbers import Number, check_count, format_up
from tacit.core.relations import ADD_REMOVE, Relation

_Leaves: TypeAlias = tuple[tuple[Event | RDP, int], ...]


def worst_part(event: ParallelEvent, leaves: Callable[[Event], _Leaves]) -> _Leaves | ParallelEvent:
    """Return the leaves of a part that costs at least as much as every other part, or the event if none is known."""
    parts = list(dict.fromkeys(leaves(part) for part in event.events))
    if len(parts) <= 1:
        return parts[0] if parts else ()
    if all(len(part) == 1 for part in parts) and len({part[0][1] for part in parts}) == 1:
        releases = [part[0][0] for part in parts]
        strengths = [_strength(release) for release in releases]
        if all(s is not None for s in strengths) and len({_kind(release) for release in releases}) == 1:
            return max(zip(parts, strengths, strict=True), key=lambda pair: pair[1] or Fraction(0))[0]
    return ParallelEvent(tuple(dict.fromkeys(event.events)), relation=event.relation)


def _strength(release: Event | RDP) -> Fraction | None:
    """Return a number that orders the cost of releases of one kind, at every ε and δ alike; None if unknown."""
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
    # Discrete Laplace of one shift is ordered by its scale: a larger scale is a smaller one plus independent noise.
    if isinstance(release, DiscreteLaplaceEvent):
        return DiscreteLaplaceEvent, release.l1_sensitivity
    return type(release)


#: An item of a list to compose.
Release = Event | Guarantee | HasEvent | HasGuarantee

#: A single release in normal form.
Leaf = Event | RDP


@dataclass(frozen=True)
class CountedRelease:
    """A leaf and the number of its releases."""

    release: Leaf
    count: int


@dataclass(frozen=True)
class CompositionPlan:
    """The releases to compose, and the neighbouring relation of all of them.

    Attributes:
        items: the leaves, each with the number of its releases.
        relation: which databases are neighbours.
        stated: the same releases as they were listed; a mechanism by the (ε, δ) that it states, if it states one. Its
            event and its guarantee are both true of it, and either may give the smaller cost.
    """

    items: tuple[CountedRelease, ...]
    relation: Relation
    stated: tuple[CountedRelease, ...] = ()

    @property
    def count(self) -> int:
        """Total number of releases."""
        return sum(item.count for item in self.items)


def read_plan(releases: Release | Iterable[Release | tuple[Release, int]]) -> CompositionPlan:
    """Return the plan that ``releases`` describe; refuse a mixture of neighbouring relations."""
    listed = [releases] if isinstance(releases, Release) else _listed(releases)
    counts: dict[Leaf, int] = {}
    stated: list[CountedRelease] = []
    relation: Relation | None = None
    for entry in listed:
        item, count = _counted(entry)
        described = _described(item)
        relation = _same_relation(relation, described)
        if count:
            stated.append(CountedRelease(_promised(item, relation) or described, count))
        for leaf, times in _leaves(described, count):
            counts[leaf] = counts.get(leaf, 0) + times
    items = tuple(CountedRelease(leaf, count) for leaf, count in counts.items() if count)
    return CompositionPlan(items, relation or ADD_REMOVE, tuple(stated))


def _promised(item: object, relation: Relation) -> ApproxEvent | None:
    """Return the event of the (ε, δ) that a mechanism states in addition to its event; None if it states none."""
    if isinstance(item, Event | Guarantee) or not isinstance(item, HasEvent) or not isinstance(item, HasGuarantee):
        return None
    promise = item.guarantee
    if not isinstance(promise, PureDP | ApproxDP) or promise.relation is not relation:
        return None
    return ApproxEvent(promise.epsilon, promise.delta, relation=relation)


def _listed(releases: object) -> list[object]:
    # A set holds equal releases once, and iterating a mapping drops its numbers: the cost would be too small.
    if not isinstance(releases, Iterable) or isinstance(releases, str | bytes | Set | Mapping):
        raise InputError("releases", f"must be a list of mechanisms, events or guarantees, not {_name(releases)}")
    try:
        return list(releases)
    except TypeError:
        raise InputError("releases", "must be a list of mechanisms, events or guarantees") from None


def _counted(entry: object) -> tuple[object, int]:
    if not isinstance(entry, tuple):
        return entry, 1
    if len(entry) != 2:
        raise InputError("releases", f"a tuple must be (item, how often), got {len(entry)} entries")
    return entry[0], check_count(entry[1], "releases", minimum=0)


def _described(item: object) -> Leaf:
    """Return the event of a mechanism, or the event that states exactly a guarantee."""
    if isinstance(item, Event):
        return item
    if isinstance(item, HasEvent):
        return _described(item.event)
    if isinstance(item, HasGuarantee):
        return _described(item.guarantee)
    if isinstance(item, RDP):
        return item
    if isinstance(item, AccountGuarantee):
        return currency_of(item).event(item)
    raise InputError("releases", f"must hold mechanisms, events or guarantees, not {_name(item)}")


def _leaves(item: Leaf, count: int) -> Iterable[tuple[Leaf, int]]:
    match item:
        case NoEvent():
            return
        case RepeatedEvent():
            yield from _leaves(item.event, count * item.count)
        case ComposedEvent():
            for event in item.events:
                yield from _leaves(event, count)
        case ParallelEvent():
            # Replacing a unit may take it out of one part and put it into another: two parts change.
            changed = 1 if item.relation is ADD_REMOVE else 2
            worst = worst_part(item, lambda event: tuple(_leaves(event, 1)))
            if isinstance(worst, ParallelEvent):
                yield worst, count * min(changed, len(worst.events))
            else:
                for leaf, times in worst:
                    yield leaf, times * count * min(changed, len(item.events))
        case PoissonSampledEvent():
            yield from _sampled(item, count)
        case SampledSumEvent() if item.relation is ADD_REMOVE or item.rate in (0, 1):
            yield from _leaves(PoissonSampledEvent(item.rate, item.unsampled, relation=item.relation), count)
        case ApproxEvent(delta=delta) if delta == 0:
            yield from _leaves(PureEvent(item.epsilon, relation=item.relation), count)
        case PureEvent(epsilon=epsilon) if epsilon == 0:
            return
        case PureEvent():
            # The label is for people; releases that differ only in it cost the same.
            yield replace(item, mechanism=""), count
        case _ if not _is_free(item):
            yield item, count


def _is_free(item: Leaf) -> bool:
    """Return whether the output of a release does not depend on any unit."""
    match item:
        case LaplaceEvent() | DiscreteLaplaceEvent():
            return item.l1_sensitivity == 0
        case GaussianEvent():
            return item.l2_sensitivity == 0
        case DiscreteGaussianEvent() | SampledSumEvent():
            return item.l2_squared == 0
        case ExponentialEvent():
            return item.epsilon == 0
        case RandomizedResponseEvent():
            return item.truth * item.categories == 1
        case ZCDPEvent():
            return item.rho == 0 and item.delta == 0
        case _:
            return False


def _sampled(item: PoissonSampledEvent, count: int) -> Iterable[tuple[Leaf, int]]:
    inner = cast("list[tuple[Event, int]]", list(_leaves(item.event, 1)))
    if item.rate == 0 or not inner:
        return
    if item.rate == 1:
        yield from ((leaf, times * count) for leaf, times in inner)
        return
    if len(inner) > 1 or inner[0][1] > 1:
        # Several releases on one sample are one mechanism on that sample.
        parts: Sequence[Event] = [RepeatedEvent(leaf, times, relation=item.relation) for leaf, times in inner]
        together = ComposedEvent(tuple(parts), relation=item.relation)
        yield PoissonSampledEvent(item.rate, together, relation=item.relation), count
        return
    leaf = inner[0][0]
    if isinstance(leaf, PoissonSampledEvent):
        # A sample of a sample holds each unit independently with the product of the rates.
        yield PoissonSampledEvent(item.rate * leaf.rate, leaf.event, relation=item.relation), count
    else:
        yield PoissonSampledEvent(item.rate, leaf, relation=item.relation), count


def _same_relation(relation: Relation | None, described: Leaf) -> Relation:
    if relation is not None and described.relation is not relation:
        raise InputError(
            "releases",
            f"speak of different neighbours: {relation.value} and {described.relation.value}; state all for one "
            "relation (a replacement is one removal and one addition: guarantee.group(2))",
        )
    return described.relation


def _name(value: object) -> str:
    return type(value).__name__


class Composed(ApproxDP):
    """The (ε, δ) guarantee of a composition.

    It is an :class:`~tacit.core.guarantees.ApproxDP` and can be used as one; ``epsilon`` is the amount charged.

    Attributes:
        method: the theorem that gave ε; with ``method="best"``, the one with the smallest ε.
        lower: a proven lower bound on the smallest ε that holds for every mechanism that fits the events: some of
            them attain it. ``None`` where no such mechanism is known.
        note: a remark, such as that another method was used instead; empty when there is none.
    """

    method: str
    lower: Fraction | None
    note: str

    def __init__(
        self,
        epsilon: Number,
        delta: Number,
        *,
        relation: Relation,
        method: str,
        lower: Fraction | None = None,
        note: str = "",
    ) -> None:
        super().__init__(epsilon, delta, relation=relation)
        object.__setattr__(self, "method", method)
        # Two independent computations may cross in their last digits where both are exact.
        object.__setattr__(self, "lower", None if lower is None else min(lower, self.epsilon))
        object.__setattr__(self, "note", note)

    @property
    def upper(self) -> Fraction:
        """Upper end of the bracket; equal to ``epsilon``, the amount charged."""
        return self.epsilon

    def __repr__(self) -> str:
        note = f", note={self.note!r}" if self.note else ""
        numbers = f"{format_up(self.epsilon)}, {format_up(self.delta)}"
        return f"Composed({numbers}, method={self.method!r}{note}{self._suffix()})"
