"""Privacy events: frozen descriptions of releases between mechanisms and accountants.

A mechanism describes its release by an event; an accountant reads events and never sees a mechanism. The classes are
append-only: a field is never renamed or given another meaning, because ledgers and receipts keep events for good.

:func:`event_to_json` and :func:`event_from_json` give the stable text form. Numbers are written as exact text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import (
    Number,
    check_count,
    exact,
    exact_nonnegative,
    exact_positive,
    exact_probability,
)
from tacit.core.relations import ADD_REMOVE, Relation, as_relation

#: Maximal depth of nested events.
_DEEPEST: Final = 64


def _whole(value: Number, parameter: str) -> Fraction:
    size = exact_nonnegative(value, parameter)
    if size.denominator != 1:
        raise InputError(parameter, "must be a whole number: integers move by integers")
    return size


#: For each name of a field, the function that checks its value; a name means the same in all events.
_CHECKS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    **dict.fromkeys(("epsilon", "rho", "l1_sensitivity", "l2_sensitivity"), exact_nonnegative),
    **dict.fromkeys(("scale", "sigma", "sigma2"), exact_positive),
    **dict.fromkeys(("delta", "rate"), partial(exact_probability, zero=True, one=True)),
    "l2_squared": _whole,
    "truth": exact_probability,
    "dimension": check_count,
    "categories": partial(check_count, minimum=2),
    "count": partial(check_count, minimum=0),
    "events": lambda events, _: tuple(events),
}


@dataclass(frozen=True)
class Event:
    """Base class of all events: a release under a neighbouring relation."""

    relation: Relation = field(default=ADD_REMOVE, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", as_relation(self.relation))
        for name in self.__dataclass_fields__:
            if name in _CHECKS:
                object.__setattr__(self, name, _CHECKS[name](getattr(self, name), name))
        for event in self._inside:
            _check_inside(event, self.relation)

    @property
    def _inside(self) -> tuple[Event, ...]:
        if hasattr(self, "event"):
            return (self.event,)
        return getattr(self, "events", ())

    @property
    def depth(self) -> int:
        """Depth of nested events, this one included."""
        return 1 + max((event.depth for event in self._inside), default=0)


@dataclass(frozen=True)
class NoEvent(Event):
    """Release that does not depend on data; it is free."""


@dataclass(frozen=True)
class PureEvent(Event):
    """Release known only to be ε-DP; ``mechanism`` is a label for people."""

    epsilon: Fraction
    mechanism: str = ""


@dataclass(frozen=True)
class ApproxEvent(Event):
    """Release known only to be (ε, δ)-DP."""

    epsilon: Fraction
    delta: Fraction
    mechanism: str = ""


@dataclass(frozen=True)
class ZCDPEvent(Event):
    """Release known only to be δ-approximately ρ-zCDP."""

    rho: Fraction
    delta: Fraction = Fraction(0)
    mechanism: str = ""


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """Continuous Laplace noise of ``scale`` on a vector that moves by at most ``l1_sensitivity`` in l1.

    In one dimension the whole privacy profile is known. In several, only that of the worst split is used.
    """

    scale: Fraction
    l1_sensitivity: Fraction
    dimension: int = 1


@dataclass(frozen=True)
class DiscreteLaplaceEvent(Event):
    """Discrete Laplace noise of ``scale`` on an integer vector that moves by at most ``l1_sensitivity``, an integer."""

    scale: Fraction
    l1_sensitivity: Fraction
    dimension: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole(self.l1_sensitivity, "l1_sensitivity")


@dataclass(frozen=True)
class GaussianEvent(Event):
    """Continuous Gaussian noise of standard deviation ``sigma`` on vectors that move by at most ``l2_sensitivity``."""

    sigma: Fraction
    l2_sensitivity: Fraction


@dataclass(frozen=True)
class DiscreteGaussianEvent(Event):
    """Discrete Gaussian noise with parameter ``sigma2`` = σ² on integer vectors that move by at most √``l2_squared``.

    Squares are stored because they are exact: the l2 norm of an integer vector is the root of an integer.
    """

    sigma2: Fraction
    l2_squared: Fraction
    dimension: int = 1


@dataclass(frozen=True)
class RandomizedResponseEvent(Event):
    """One of ``categories`` answers: the true one with probability ``truth``, each false one equally likely."""

    truth: Fraction
    categories: int = 2


@dataclass(frozen=True)
class ExponentialEvent(Event):
    """The exponential mechanism: ε-DP with ε-bounded range; permute-and-flip and noisy max lack the latter."""

    epsilon: Fraction


@dataclass(frozen=True)
class PoissonSampledEvent(Event):
    """``event`` on a secret sample that holds each unit independently with probability ``rate``."""

    rate: Fraction
    event: Event


@dataclass(frozen=True)
class SampledSumEvent(Event):
    """Discrete Gaussian noise of ``sigma2`` on a sum of integer vectors, one of each unit in a secret Poisson sample.

    Each unit is in the sample independently with probability ``rate``, and its vector has a norm of at most
    √``l2_squared``; a unit outside the sample adds nothing. This states more than the distance that the sum moves when
    a unit is replaced, and so sampling lowers the cost further (``pld.proof.md``).
    """

    rate: Fraction
    sigma2: Fraction
    l2_squared: Fraction
    dimension: int = 1

    @property
    def unsampled(self) -> DiscreteGaussianEvent:
        """The same release with every unit in the sample: replacing a unit moves the sum by twice its norm."""
        moved = self.l2_squared if self.relation is ADD_REMOVE else 4 * self.l2_squared
        return DiscreteGaussianEvent(self.sigma2, moved, self.dimension, relation=self.relation)


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """``count`` releases of ``event``, possibly adaptive."""

    event: Event
    count: int


@dataclass(frozen=True)
class ComposedEvent(Event):
    """All of ``events``, in order, on the same units, possibly adaptive."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class ParallelEvent(Event):
    """Each of ``events`` on a separate part of a partition that was fixed without looking at the data.

    Every unit lies in one part. Adding or removing a unit touches one part; replacing one may touch two.
    """

    events: tuple[Event, ...]


def event_to_json(event: Event) -> str:
    """Return the stable text form of an event: sorted keys, exact numbers as text, no spaces."""
    return json.dumps(_to_plain(event), sort_keys=True, separators=(",", ":"))


def event_from_json(text: str) -> Event:
    """Return the event that :func:`event_to_json` wrote."""
    try:
        return _from_plain(json.loads(text, object_pairs_hook=_without_repeats))
    except InputError:
        raise
    except ValueError:
        raise InputError("event", "is not JSON") from None
    except RecursionError:
        raise InputError("event", f"is nested more than {_DEEPEST} deep") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse a repeated key, because readers would not agree on its value."""
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise InputError("event", "names a field twice")
    return plain


_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}


def _to_plain(value: object) -> object:
    if isinstance(value, Event):
        plain: dict[str, object] = {f.name: _to_plain(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, "event": plain}
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Relation):
        return value.value
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    return value


def _from_plain(plain: Any) -> Event:
    if not isinstance(plain, dict) or set(plain) != {"kind", "event"} or not isinstance(plain["event"], dict):
        raise InputError("event", "must be an object with the keys 'kind' and 'event'")
    kind = _KINDS.get(plain["kind"]) if isinstance(plain["kind"], str) else None
    if kind is None:
        raise InputError("event", f"of unknown kind {str(plain['kind'])[:40]!r}")
    known = {f.name: f.default is MISSING for f in fields(kind)}
    for name in plain["event"]:
        if name not in known:
            raise InputError("event", f"{plain['kind']} has no field {name[:40]!r}")
    for name, required in known.items():
        if required and name not in plain["event"]:
            raise InputError("event", f"{plain['kind']} needs the field {name!r}")
    return kind(**{name: _field_from_plain(name, value) for name, value in plain["event"].items()})


def _field_from_plain(name: str, value: Any) -> Any:
    if name == "event":
        return _from_plain(value)
    if name == "events":
        if not isinstance(value, list):
            raise InputError("events", "must be a list of events")
        return tuple(_from_plain(item) for item in value)
    if name == "mechanism" and not isinstance(value, str):
        raise InputError("mechanism", "must be text: a label for people")
    if isinstance(value, str) and name not in ("relation", "mechanism"):
        return exact(value, name)
    return value


def _check_inside(event: Event, relation: Relation) -> None:
    if not isinstance(event, Event):
        raise InputError("event", f"must be an event, not {type(event).__name__}")
    if event.relation is not relation:
        raise InputError(
            "relation",
            f"differs inside the event: {event.relation.value} within {relation.value}; state one for all",
        )
    if event.depth >= _DEEPEST:
        raise InputError("event", f"is nested more than {_DEEPEST} deep; write repetitions as one count")
