"""Filters, accounts, lists and events in careless or hostile hands: nothing is had twice or for less."""

from __future__ import annotations

import copy
import os
import pickle
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.compose import compose
from tacit.accounting.filters import GDPFilter, PureFilter, ZCDPFilter
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import ComposedEvent, Event, PureEvent, RepeatedEvent, event_from_json, event_to_json
from tacit.core.guarantees import PureDP
from tacit.mechanisms.counts import Histogram
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.sparse_vector import SparseVector

FILTERS = [PureFilter(epsilon=1), ZCDPFilter(rho=1), GDPFilter(mu=1)]


@pytest.mark.parametrize("budget", FILTERS, ids=lambda budget: type(budget).__name__)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_budget_cannot_be_copied(budget: Any, again: Any) -> None:
    with pytest.raises(AccountingError, match="copied"):
        again(budget)


def test_a_forked_process_cannot_spend_the_same_budget() -> None:
    budget = PureFilter(epsilon=1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            budget.charge(PureDP(1))
            os.write(write, b"spent")
        except AccountingError:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    budget.charge(PureDP(1))


@pytest.mark.parametrize("releases", [{PureDP(1): 2}, {PureDP(1), PureDP(2)}, frozenset({PureDP(1)}), {}.keys(), "ab"])
def test_lists_that_would_lose_releases_are_refused(releases: Any) -> None:
    with pytest.raises(InputError, match="must be a list"):
        compose(releases)


def test_events_are_not_nested_without_end() -> None:
    event: Event = PureEvent(Fraction(1))
    for _ in range(63):
        event = RepeatedEvent(event, 1)
    assert event.depth == 64
    assert event_from_json(event_to_json(event)) == event
    assert compose([event]).epsilon == 1
    with pytest.raises(InputError, match="nested"):
        ComposedEvent((event,))
    with pytest.raises(InputError, match="nested"):
        event_from_json('{"kind":"RepeatedEvent","event":{"count":1,"event":' * 5000 + "null" + "}}" * 5000)


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ('{"kind":"PureEvent","event":{"epsilon":"1","epsilon":"0"}}', "event"),
        ('{"kind":"PureEvent","kind":"NoEvent","event":{}}', "event"),
        ('{"kind":"PureEvent","event":{"epsilon":"1","mechanism":{"a":1}}}', "mechanism"),
        ('{"kind":"PureEvent","event":{"epsilon":NaN}}', "epsilon"),
        ("{", "event"),
    ],
)
def test_events_that_can_be_read_in_two_ways_are_refused(text: str, parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        event_from_json(text)
    assert caught.value.parameter == parameter


class Grim:
    """A record of a class that raises at every touch."""

    def __hash__(self) -> int:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def as_integer_ratio(self) -> tuple[int, int]:
        raise RuntimeError


class Alike(Grim):
    """One that finds the bin and then raises."""

    def __hash__(self) -> int:
        return hash("a")


class Void:
    """A number over nothing."""

    def as_integer_ratio(self) -> tuple[int, int]:
        return 1, 0


class Heavy(int):
    """An integer that will not be one."""

    def __int__(self) -> int:
        raise RuntimeError


def test_no_record_can_raise() -> None:
    assert Histogram(epsilon=1000, bins=["a"]).release(["a", Grim(), Alike()])["a"] == 1
    found = Mean(epsilon=10_000, bounds=(0, 2), n=4, step=1).release([Grim(), Void(), Heavy(3), 1])
    assert found.value == 1


def test_no_size_of_a_whole_number_stops_a_stream() -> None:
    stream = SparseVector(epsilon=1, sensitivity=1, threshold=0, positives=2)
    assert stream.ask(-(10**400)) is False
    assert stream.ask(10**400) is True
