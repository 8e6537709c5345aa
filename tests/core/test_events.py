"""Events: frozen, exact, stable as text."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import pytest

from tacit.core import events
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
    event_from_json,
    event_to_json,
)

LAPLACE = DiscreteLaplaceEvent("2.5", 1)
ALL = [
    NoEvent(),
    PureEvent("0.1", "permute_and_flip"),
    ApproxEvent("0.1", "1e-6"),
    ZCDPEvent("1/3", delta="1e-9", mechanism="gaussian"),
    LaplaceEvent("0.3", "0.1", dimension=3),
    LAPLACE,
    GaussianEvent("1.1", 1),
    DiscreteGaussianEvent("22/7", 3, dimension=3),
    RandomizedResponseEvent("3/4", 5),
    ExponentialEvent("0.5"),
    PoissonSampledEvent("0.01", GaussianEvent(1, 1)),
    SampledSumEvent("0.01", 16, 4, 3, relation="add_remove"),
    RepeatedEvent(LAPLACE, 10**6),
    ComposedEvent((LAPLACE, RepeatedEvent(NoEvent(), 2))),
    ParallelEvent((LAPLACE, PureEvent(1))),
    ComposedEvent((PureEvent(1, relation="replace_one"),), relation="replace_one"),
]


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_text_form_is_lossless_and_canonical(event: Event) -> None:
    text = event_to_json(event)
    again = event_from_json(text)
    assert again == event
    assert event_to_json(again) == text
    assert " " not in text
    assert "." not in json.dumps(json.loads(text)).replace("permute_and_flip", "")  # exact, no decimals lost


@pytest.mark.parametrize("event", ALL, ids=lambda event: type(event).__name__)
def test_events_are_frozen_values(event: Event) -> None:
    assert hash(event) == hash(event_from_json(event_to_json(event)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.relation = None  # type: ignore[misc, assignment]


def test_every_kind_can_be_read_back() -> None:
    kinds = {
        value
        for name, value in vars(events).items()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event and not name.startswith("_")
    }
    assert kinds == {type(event) for event in ALL} == set(events._KINDS.values())


def test_numbers_are_exact() -> None:
    assert LAPLACE.scale == Fraction(5, 2)
    assert PureEvent(0.1).epsilon == Fraction(1, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: PureEvent(-1), "epsilon"),
        (lambda: ApproxEvent(1, 2), "delta"),
        (lambda: DiscreteLaplaceEvent(0, 1), "scale"),
        (lambda: DiscreteLaplaceEvent(1, "0.5"), "l1_sensitivity"),
        (lambda: DiscreteGaussianEvent(1, "1.5"), "l2_squared"),
        (lambda: GaussianEvent("nan", 1), "sigma"),
        (lambda: LaplaceEvent(1, 1, dimension=0), "dimension"),
        (lambda: RandomizedResponseEvent(1), "truth"),
        (lambda: RandomizedResponseEvent("0.5", 1), "categories"),
        (lambda: PoissonSampledEvent(2, LAPLACE), "rate"),
        (lambda: RepeatedEvent(LAPLACE, -1), "count"),
        (lambda: RepeatedEvent("laplace", 1), "event"),
        (lambda: ComposedEvent((PureEvent(1, relation="replace_one"),)), "relation"),
        (lambda: ParallelEvent((PureEvent(1), PureEvent(1, relation="replace_one"))), "relation"),
        (lambda: PureEvent(1, relation="unknown"), "relation"),
    ],
)
def test_bad_events_are_refused_by_name(make: object, parameter: str) -> None:
    with pytest.raises(InputError) as refusal:
        make()  # type: ignore[operator]
    assert refusal.value.parameter == parameter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"kind":"PureEvent"}',
        '{"kind":"Nope","event":{}}',
        '{"kind":"PureEvent","event":{"price":"1"}}',
        '{"kind":"PureEvent","event":[]}',
        '{"kind":["PureEvent"],"event":{}}',
        '{"kind":"PureEvent","event":{}}',
        '{"kind":"ComposedEvent","event":{"events":3}}',
        '{"kind":"RepeatedEvent","event":{"event":1,"count":1}}',
    ],
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        event_from_json(text)
