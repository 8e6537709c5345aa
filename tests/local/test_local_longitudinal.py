"""Repeated reports: exact laws of histories, memory across restarts, devices and changes; several attributes."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import InputError
from tacit.core.numbers import log_bounds
from tacit.local import (
    Aggregator,
    Attributes,
    Client,
    LongitudinalClient,
    LongitudinalResponse,
    largest_ratio,
    output_law,
    protocol_from,
)
from tacit.local.draws import SYSTEM, Draws

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


def test_memory_survives_a_restart_and_a_change_of_value(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    client = LongitudinalClient.create(PROTOCOL, path)
    for _ in range(50):
        client.report(0)
    memory = json.loads(path.read_text())["memory"]
    assert client.account().values == 1
    assert client.account().epsilon == PROTOCOL.permanent
    client = LongitudinalClient.open(PROTOCOL, path)
    for value in (0, 1, 0):
        client.report(value)
    client.report(1, attribute="another")
    account = LongitudinalClient.open(PROTOCOL, path).account()
    assert account.reports == 54
    assert account.values == 3
    assert account.epsilon == PROTOCOL.permanent + 2 * PROTOCOL.epsilon
    assert account.changes == 54 * PROTOCOL.change
    kept = json.loads(path.read_text())["memory"]
    assert {key: seen[0] for key, seen in kept.items()} | {key: seen[0] for key, seen in memory.items()} == {
        key: seen[0] for key, seen in kept.items()
    }
    assert path.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == ["memory"]


def test_a_permanent_response_is_drawn_once(tmp_path: Path) -> None:
    """Of 200 categories; drawn anew it would be the same response with probability below 0.02 each time."""
    protocol = LongitudinalResponse(categories=200, permanent="1", epsilon="0.5")
    path = tmp_path / "memory"
    client = LongitudinalClient.create(protocol, path)
    client.report(7)
    (first,) = json.loads(path.read_text())["memory"].values()
    for _ in range(5):
        client.report(7)
        client = LongitudinalClient.open(protocol, path)
        client.report(9)
        client.report(7)
        memory = json.loads(path.read_text())["memory"]
        assert len(memory) == 2
        assert next(iter(memory.values()))[0] == first[0]


def test_a_thousand_reports_cannot_be_averaged(seeded: object) -> None:
    """The most common report is the permanent response, right as often as one response of ε∞ is, and no more often."""
    right = 0
    for _ in range(60):
        memory = PROTOCOL.memorise(1, SYSTEM)
        counts = np.bincount([PROTOCOL.instant(memory, SYSTEM) for _ in range(1000)], minlength=3)
        right += counts.argmax() == 1
    share = float(PROTOCOL._permanent.truth)
    assert abs(right - 60 * share) <= 4 * (60 * share * (1 - share)) ** 0.5


def test_a_new_device_is_no_silent_reset(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with pytest.raises(InputError, match="there is no memory"):
        LongitudinalClient.open(PROTOCOL, path)
    LongitudinalClient.create(PROTOCOL, path).report(0)
    with pytest.raises(InputError, match="pays twice"):
        LongitudinalClient.create(PROTOCOL, path)
    with pytest.raises(InputError, match="another protocol"):
        LongitudinalClient.open(LongitudinalResponse(categories=3, permanent="3", epsilon="0.5"), path)
    for damaged in ("", "{}", "[]", '{"format": 1, "protocol": {}, "memory": {"a": 1}}'):
        path.write_text(damaged)
        with pytest.raises(InputError, match="damaged"):
            LongitudinalClient.open(PROTOCOL, path)


def test_the_permanent_epsilon_is_the_larger() -> None:
    with pytest.raises(InputError, match="larger than epsilon"):
        LongitudinalResponse(categories=3, permanent="0.5", epsilon="0.5")


# --- several attributes

WORDS: dict[str, Any] = {
    "drink": {"protocol": "k-ary", "categories": ["tea", "coffee"]},
    "level": {"protocol": "unary", "categories": 3, "optimised": True},
    "age": {"protocol": "mean", "bounds": ["0", "100"], "method": "rounding"},
}
PEOPLE = [{"drink": d, "level": v, "age": a} for d in ("tea", "coffee") for v in range(3) for a in (0, 50, 100)]


@pytest.mark.parametrize("method", ["sample", "split"])
def test_law_of_several_attributes(method: str) -> None:
    protocol = Attributes(attributes=WORDS, epsilon="1.5", method=method)
    assert protocol_from(protocol.spec()) == protocol
    laws = [output_law(lambda draws, value=value: protocol.randomise(value, draws)) for value in [*PEOPLE, {}, None]]
    assert all(sum(law.values()) == 1 for law in laws)
    assert protocol.spent == protocol.epsilon
    assert 0 <= protocol.epsilon - loss(laws) <= Fraction(1, 10**12)


@pytest.mark.parametrize("method", ["sample", "split"])
def test_attributes_are_estimated_together(method: str, seeded: object) -> None:
    protocol = Attributes(attributes=WORDS, epsilon="6", method=method)
    client = Client(protocol)
    one, two = Aggregator(protocol), Aggregator(protocol)
    one.add([client.report({"drink": "tea", "level": i % 2, "age": 30}) for i in range(1500)])
    two.add([client.report({"drink": "coffee", "level": 2, "age": 30}) for i in range(500)])
    one.merge(Aggregator.from_bytes(two.to_bytes()))
    found = one.estimate(confidence="0.999")
    assert found["drink"]["tea"].low <= 0.75 <= found["drink"]["tea"].high
    assert found["level"][2].low <= 0.25 <= found["level"][2].high
    assert found["age"].low <= 30 <= found["age"].high
    assert one.estimate(consistent=True)["drink"].frequencies.sum() == pytest.approx(1)


def test_bad_reports_of_attributes_are_refused() -> None:
    aggregator = Aggregator(Attributes(attributes=WORDS, epsilon="1"))
    for raw in (b"\x01\x03\x00", b"\x01\x00\x02", b"\x01\x01\xff"):
        with pytest.raises(InputError):
            aggregator.add(raw)
    assert not aggregator.counts.any()


@pytest.mark.parametrize(
    "words",
    [
        {"attributes": {"a": WORDS["drink"]}},
        {"attributes": WORDS, "method": "both"},
        {"attributes": {"a": WORDS["drink"] | {"epsilon": "9"}, "b": WORDS["drink"]}},
    ],
)
def test_refused_attributes(words: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Attributes(**words, epsilon="1")
