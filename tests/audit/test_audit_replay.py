"""Record and replay: every kind of leak is found and named, every mechanism of Tacit passes, nothing stays behind."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.audit import record, replay, replay_neighbours
from tacit.core.errors import AccountingError
from tacit.core.events import PureEvent
from tacit.core.guarantees import PureDP
from tacit.mechanisms.additive import AdditiveNoise
from tacit.mechanisms.base import Mechanism
from tacit.noise import entropy

AGES = [31, 45, 27, 62, 8]


def kinds(function: Callable[[Any], Any], first: Any, second: Any, **words: Any) -> list[str]:
    return [finding.kind for finding in replay(function, first, second, **words).findings]


def count(rows: Sequence[Any], **words: Any) -> int:
    return tacit.Laplace(**{"epsilon": 1, "l1_sensitivity": 1, **words}).release(len(rows))


# What passes


def everything(ages: list[int]) -> object:
    """All of Tacit's mechanisms on one list."""
    clamped = [min(max(age, 0), 100) for age in ages]
    decades = [age // 10 for age in clamped]
    stream = tacit.SparseVector(epsilon=1, sensitivity=1, threshold=3, positives=3, epsilon_values="1/2")
    by_decade = [decades.count(d) for d in range(11)]
    return (
        tacit.Laplace(epsilon=1, l1_sensitivity=100).release(sum(clamped)),
        tacit.Laplace(epsilon=1, l1_sensitivity=1).release(float(len(ages))),
        tacit.Laplace(epsilon=1, l1_sensitivity=1).on_grid().release(float(len(ages))),
        tacit.Gaussian.from_rho(rho=1, l2_sensitivity=1, dimension=11).release(np.array(by_decade)),
        tacit.Histogram(epsilon=1, bins=range(11)).release(decades),
        tacit.CountingQueries(epsilon=1, k=2).release(ages, [lambda a: a > 30, lambda a: a > 60]),
        tacit.Mean(epsilon=1, bounds=(0, 100)).release(ages).value,
        [stream.ask_value(number) for number in by_decade[:3]],
        tacit.Exponential(epsilon=1, sensitivity=1).release(by_decade),
        tacit.PermuteAndFlip(epsilon=1, sensitivity=1).release({"young": by_decade[2], "old": by_decade[6]}),
        tacit.NoisyMax(epsilon=1, sensitivity=1, gap=True).release(by_decade, list(range(11))),
        tacit.TopK(epsilon=1, k=2, sensitivity=1).release(by_decade),
        sorted(tacit.PartitionSelection(epsilon=1, delta="1e-6").release({d: decades.count(d) for d in decades})),
        tacit.PartitionSelection(epsilon=1, delta="1e-6").release(by_decade),
    )


def test_every_mechanism_of_tacit_passes() -> None:
    reports = replay_neighbours(everything, [*AGES, 33, 34, 61])
    assert [str(report) for report in reports if not report] == []
    assert {report.calls for report in reports} == {16}
    assert max(report.moved for report in reports) >= 12


def test_randomized_response_may_have_any_answer() -> None:
    response = tacit.RandomizedResponse(epsilon=1, categories=3)
    assert replay(response.release, 0, 2).moved == 1
    assert replay(response.release_many, [0, 1, 2], [0, 1, 1])
    assert kinds(response.release_many, [0, 1, 2], [1, 1, 1]) == ["input"]


def test_bits_outside_of_mechanisms_are_served_again() -> None:
    def shuffled(rows: list[int]) -> tuple[list[int], int]:
        order = np.argsort(entropy.current().words(8)).tolist()
        return order, count(rows) + entropy.current().bits(3) + entropy.current().word() % 2

    assert replay(shuffled, AGES, AGES[1:])


# What does not


def test_an_input_that_moves_too_far_is_named_with_its_line() -> None:
    def total(ages: list[int]) -> int:
        return tacit.Laplace(epsilon=1, l1_sensitivity=10).release(sum(ages))

    (found,) = replay(total, AGES, AGES[1:]).findings
    assert found.kind == "input"
    assert "moved by 31 in l1, declared 10" in found.what
    assert found.line == f"test_audit_replay.py:{total.__code__.co_firstlineno + 1} in total"


def test_each_norm_is_checked() -> None:
    assert kinds(tacit.Gaussian.from_rho(rho=1, l2_squared=2, dimension=2).release, [0, 0], [1, 1]) == []
    assert kinds(tacit.Gaussian.from_rho(rho=1, l2_squared=2, dimension=2).release, [0, 0], [1, 2]) == ["input"]
    assert kinds(tacit.Exponential(epsilon=1, sensitivity=1).release, [0, 0, 0], [1, 1, 1]) == []
    assert kinds(tacit.Exponential(epsilon=1, sensitivity=1).release, [0, 0, 0], [0, 0, 2]) == ["input"]
    one_group = tacit.PartitionSelection(epsilon=1, delta="1e-6")
    assert kinds(one_group.release, {"a": 5, "b": 5}, {"a": 6, "b": 6}) == ["input"]
    assert kinds(lambda x: tacit.SparseVector(epsilon=1, sensitivity=1, threshold=0).ask(x), 0, 2) == ["input"]


def test_a_rounding_error_is_a_movement() -> None:
    """0.1 + 0.2 exceeds 0.3 by one unit in the last place, and exactness counts it."""
    noise = tacit.Laplace(epsilon=1, l1_sensitivity="0.3")
    assert kinds(lambda rows: noise.release(sum(rows, 0.0)), [0.1, 0.2], []) == ["input"]


def test_control_flow() -> None:
    def one_more(rows: list[int]) -> list[int]:
        return [count(rows) for _ in range(2 if len(rows) > 4 else 1)]

    assert kinds(one_more, AGES, AGES[1:])[0] == "flow"
    assert kinds(one_more, AGES[1:], AGES) == ["flow"]

    def another_line(rows: list[int]) -> int:
        if len(rows) > 4:
            return count(rows)
        return tacit.Laplace(epsilon=1, l1_sensitivity=1).release(len(rows))

    assert kinds(another_line, AGES, AGES[1:]) == ["flow"]


def test_code_cannot_swallow_the_end_of_a_replay() -> None:
    def careful(rows: list[int]) -> int:
        try:
            return sum(count(rows) for _ in rows)
        except Exception:
            return 0

    assert kinds(careful, AGES[1:], AGES) == ["flow"]


def test_parameters_from_data() -> None:
    def scaled(ages: list[int]) -> int:
        return tacit.Laplace(epsilon=1, l1_sensitivity=max(ages)).release(sum(ages))

    assert kinds(scaled, AGES, [*AGES, 90]) == ["parameters", "input"]


def test_errors_shapes_and_values() -> None:
    assert kinds(lambda rows: count(rows) + rows[4] * 0, AGES, AGES[1:]) == ["end"]
    assert kinds(lambda rows: [count(rows)] * len(rows), AGES, AGES[1:]) == ["visible"]
    assert kinds(lambda rows: count(rows) / len(rows), AGES, AGES[1:]) == ["visible"]
    assert kinds(len, AGES, AGES[1:]) == ["visible"]
    assert "no mechanism" in str(replay(len, AGES, AGES[1:]))


def test_an_error_that_is_the_same_is_no_finding_but_is_told() -> None:
    report = replay(lambda rows: rows.nothing, AGES, AGES[1:])
    assert report
    assert "AttributeError" in str(report)


def test_what_is_printed_and_warned() -> None:
    def talks(rows: list[int]) -> int:
        print(len(rows))
        return count(rows)

    def warns(rows: list[int]) -> int:
        if len(rows) < 5:
            warnings.warn("few rows", stacklevel=1)
        return count(rows)

    assert kinds(talks, AGES, AGES[1:]) == ["printed"]
    assert kinds(warns, AGES, AGES[1:]) == ["printed"]


def test_noise_added_by_hand_is_not_hidden_by_the_same_bits() -> None:
    from tacit.noise.laplace import DiscreteLaplace

    assert kinds(lambda rows: len(rows) + DiscreteLaplace(Fraction(1)).sample(), AGES, AGES[1:]) == ["visible"]


def test_randomness_that_depends_on_data() -> None:
    def draws(rows: list[int]) -> int:
        entropy.current().words(len(rows))
        return count(rows)

    assert kinds(draws, AGES, AGES[1:]) == ["randomness"]


def test_charges() -> None:
    def twice(rows: list[int]) -> tuple[int, int]:
        return count(rows), count(rows)

    assert kinds(twice, AGES, AGES[1:], claimed=2) == []
    assert kinds(twice, AGES, AGES[1:], claimed="1.9") == ["charge"]
    assert kinds(twice, AGES, AGES[1:], claimed=tacit.ZCDP("0.9")) == ["charge"]
    assert kinds(twice, AGES, AGES[1:], claimed=tacit.ZCDP(1)) == []
    assert kinds(twice, AGES, AGES[1:], claimed=tacit.ApproxDP(2, "1e-6")) == []
    stream = lambda rows: tacit.SparseVector(epsilon=1, sensitivity=1, threshold=50).release([len(rows)] * 9)  # noqa: E731
    assert kinds(stream, AGES, AGES[1:], claimed=1) == []


class Tripled(Mechanism):
    """A user's own mechanism."""

    l1_sensitivity = 3

    @property
    def guarantee(self) -> PureDP:
        return PureDP(1)

    @property
    def event(self) -> PureEvent:
        return PureEvent(Fraction(1), "tripled")

    def release(self, value: int) -> int:
        return value + entropy.current().bits(3)


def test_a_users_own_mechanism_is_taken_hold_of() -> None:
    assert kinds(Tripled().release, 0, 3) == []
    assert kinds(Tripled().release, 0, 4) == ["input"]
    assert kinds(lambda x: Tripled().release(3 * x), 0, 1, claimed="1/2") == ["charge"]


# The seam itself


def test_nothing_stays_behind() -> None:
    before = AdditiveNoise.release, entropy.current, tacit.SparseVector.ask

    def breaks(rows: list[int]) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(breaks, AGES, AGES[1:])
    replay(count, AGES, AGES[1:])
    assert (AdditiveNoise.release, entropy.current, tacit.SparseVector.ask) == before


def test_other_threads_keep_their_noise() -> None:
    """While a recording runs, what other threads release is neither recorded nor frozen."""
    noise = tacit.Laplace(epsilon="0.0001", l1_sensitivity=1)
    drawn: list[int] = []

    def run(rows: list[int]) -> int:
        worker = threading.Thread(target=lambda: drawn.append(noise.release(0)))
        worker.start()
        worker.join()
        return count(rows)

    report = replay(run, AGES, AGES[1:])
    assert report.calls == 1
    assert len(set(drawn)) == 2


def test_a_frozen_stream_is_used_up_as_it_was() -> None:
    def ask(number: int) -> list[bool]:
        stream = tacit.SparseVector(epsilon=100, sensitivity=1, threshold=0)
        return stream.release([number] * 5)

    assert replay(ask, 1000, 1001).calls == 1
    assert replay(ask, 1000, 1001)


def test_a_mechanism_that_refuses() -> None:
    """An error of a mechanism is on the tape, so that code which catches it can be replayed too."""

    def lenient(numbers: list[int]) -> list[Any]:
        stream = tacit.SparseVector(epsilon=100, sensitivity=1, threshold=0)
        answers: list[Any] = []
        for number in numbers:
            try:
                answers.append(stream.ask(number))
            except tacit.BudgetError:
                answers.append(None)
        return answers

    report = replay(lenient, [1000, 1000], [1001, 1001])
    assert report
    assert report.calls == 2

    def refusing(number: float) -> float:
        try:
            return tacit.Laplace(epsilon=1, l1_sensitivity=1).release(number)
        except tacit.InputError:
            return 0.0

    assert kinds(refusing, 1.0, float("nan")) == ["input", "end"]
    assert kinds(refusing, float("nan"), 1.0) == ["input", "end"]


def test_recordings_do_not_nest() -> None:
    tape = record(lambda: record(lambda: 0))
    assert "do not nest" in tape.seen.shape
    assert AccountingError.__name__ in tape.seen.shape


def test_a_tape_holds_inputs_and_outputs() -> None:
    tape = record(lambda: count(AGES))
    (call,) = tape.calls
    assert call.reading.entries == {0: 5}
    assert tape.seen.numbers == (call.output,)
    assert tape.guarantees == [PureDP(1)]


def test_reports_as_json() -> None:
    content = json.loads(replay(len, [1], [], how="the only one leaves").to_json())
    assert content["findings"][0]["kind"] == "visible"
    assert content["neighbours"] == "the only one leaves"


# The plugin


def test_three_lines(assert_private: Any) -> None:
    reports = assert_private(count, AGES, claimed=1)
    assert all(reports)
    assert assert_private(count, neighbours=[([1], [])])


def test_the_plugin_fails_a_leak_and_a_test_of_nothing(assert_private: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match="moved by"):
        assert_private(lambda ages: tacit.Laplace(epsilon=1, l1_sensitivity=100).release(sum(ages)), AGES)
    with pytest.raises(pytest.fail.Exception, match="nothing was tested"):
        assert_private(lambda ages: 0, AGES)
