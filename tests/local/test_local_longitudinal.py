"""Repeated reports: exact laws of histories, memory across restarts, devices and changes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import InputError
from tacit.core.numbers import log_bounds
from tacit.local import (
    LongitudinalClient,
    LongitudinalResponse,
    largest_ratio,
    output_law,
    protocol_from,
)
from tacit.local.protocol import SYSTEM, Draws

PROTOCOL = LongitudinalResponse(categories=3, permanent="2", epsilon="0.5")


def history_law(values: tuple[int, ...]) -> dict[bytes, Fraction]:
    """The exact law of all reports of a history."""

    def reports(draws: Draws) -> bytes:
        memory = {value: PROTOCOL.memorise(value, draws) for value in dict.fromkeys(values)}
        return bytes(PROTOCOL.instant(memory[value], draws) for value in values)

    return output_law(reports)


def loss(laws: list[dict[bytes, Fraction]]) -> Fraction:
    return log_bounds(largest_ratio(laws))[1]


def test_one_report_costs_epsilon_and_is_unbiased() -> None:
    laws = [output_law(lambda draws, value=value: PROTOCOL.randomise(value, draws)) for value in range(3)]
    assert 0 <= PROTOCOL.epsilon - loss(laws) <= Fraction(1, 10**12)
    assert laws[0][b"\x00"] == PROTOCOL.truth
    assert laws[0][b"\x01"] == PROTOCOL.noise
    assert protocol_from(PROTOCOL.spec()) == PROTOCOL


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_many_reports_of_one_value_cost_no_more_than_stated(times: int) -> None:
    found = loss([history_law((value,) * times) for value in range(3)])
    bound = PROTOCOL.epsilon if times == 1 else min(PROTOCOL.permanent, times * PROTOCOL.change)
    assert found <= bound
    # Without memory the same reports would cost more from the fifth on; with it they stay below for ever.
    assert found < PROTOCOL.permanent


def test_histories_of_one_pattern_cost_the_sum_over_values() -> None:
    for times in ((0, 1), (0, 1, 0)):
        pairs = [tuple(pair[place] for place in times) for pair in product(range(3), repeat=2) if pair[0] != pair[1]]
        counts = [times.count(place) for place in set(times)]
        bound = sum(min(PROTOCOL.permanent, PROTOCOL.epsilon if c == 1 else c * PROTOCOL.change) for c in counts)
        assert loss([history_law(values) for values in pairs]) <= bound


def test_any_two_histories_are_within_the_loss_of_changes() -> None:
    laws = [history_law(values) for values in product(range(3), repeat=3)]
    assert loss(laws) <= 3 * PROTOCOL.change
    # And a change is not hidden by permanent responses: the total of one value does not cover it.
    assert loss([history_law((0, 0, 0)), history_law((0, 1, 0))]) > PROTOCOL.epsilon


def test_memory_is_the_callers_and_outlives_the_client() -> None:
    memory: dict[str, tuple[int, int]] = {}
    client = LongitudinalClient(PROTOCOL, memory)
    for _ in range(50):
        client.report(0)
    before = {key: seen[0] for key, seen in memory.items()}
    assert client.account().values == 1
    assert client.account().epsilon == PROTOCOL.permanent
    client = LongitudinalClient(PROTOCOL, memory)
    for value in (0, 1, 0):
        client.report(value)
    client.report(1, attribute="another")
    account = LongitudinalClient(PROTOCOL, memory).account()
    assert account.reports == 54
    assert account.values == 3
    assert account.epsilon == PROTOCOL.permanent + 2 * PROTOCOL.epsilon
    assert account.changes == 54 * PROTOCOL.change
    assert before.items() <= {key: seen[0] for key, seen in memory.items()}.items()


def test_a_permanent_response_is_drawn_once() -> None:
    """Of 200 categories; drawn anew it would be the same response with probability below 0.02 each time."""
    protocol = LongitudinalResponse(categories=200, permanent="1", epsilon="0.5")
    memory: dict[str, tuple[int, int]] = {}
    LongitudinalClient(protocol, memory).report(7)
    (first,) = memory.values()
    for _ in range(5):
        LongitudinalClient(protocol, memory).report(7)
        LongitudinalClient(protocol, memory).report(9)
        assert len(memory) == 2
        assert next(iter(memory.values()))[0] == first[0]


def test_a_report_leaves_after_its_response_is_kept() -> None:
    class Full(dict[str, tuple[int, int]]):
        def __setitem__(self, key: str, value: tuple[int, int]) -> None:
            raise OSError("no space left")

    client = LongitudinalClient(PROTOCOL, Full())
    with pytest.raises(OSError, match="no space"):
        client.report(0)


def test_a_thousand_reports_cannot_be_averaged(seeded: object) -> None:
    """The most common report is the permanent response, right as often as one response of ε∞ is, and no more often."""
    right = 0
    for _ in range(60):
        memory = PROTOCOL.memorise(1, SYSTEM)
        counts = np.bincount([PROTOCOL.instant(memory, SYSTEM) for _ in range(1000)], minlength=3)
        right += counts.argmax() == 1
    share = float(PROTOCOL._permanent.truth)
    assert abs(right - 60 * share) <= 4 * (60 * share * (1 - share)) ** 0.5


def test_one_memory_serves_several_protocols() -> None:
    memory: dict[str, tuple[int, int]] = {}
    other = LongitudinalResponse(categories=3, permanent="3", epsilon="0.5")
    for protocol in (PROTOCOL, other, other):
        LongitudinalClient(protocol, memory).report(0)
    assert len(memory) == 2
    assert LongitudinalClient(PROTOCOL, memory).account().reports == 1
    assert LongitudinalClient(other, memory).account().reports == 2


@pytest.mark.parametrize("damaged", [None, (), (3, 1), (-1, 1), (0, 0), ("0", 1), (0.5, 1), 7])
def test_a_damaged_memory_is_not_drawn_anew(damaged: Any) -> None:
    memory: dict[str, Any] = {}
    client = LongitudinalClient(PROTOCOL, memory)
    client.report(0)
    (key,) = memory
    memory[key] = damaged
    for work in (lambda: client.report(0), client.account):
        with pytest.raises(InputError, match="pays again"):
            work()
    assert memory == {key: damaged}


def test_the_permanent_epsilon_is_the_larger() -> None:
    with pytest.raises(InputError, match="larger than epsilon"):
        LongitudinalResponse(categories=3, permanent="0.5", epsilon="0.5")
