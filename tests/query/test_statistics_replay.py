"""Replay on all neighbours: what the noise is added to moves by no more than the noise was calibrated for.

The release method of the noise is replaced by one that hands back its input; every mechanism is then run on every
database of a small universe of ordinary, odd and hostile records, and on all neighbours of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from decimal import Decimal
from fractions import Fraction

import pytest

from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.core.sensitivity import MeasuredSensitivity, measure_sensitivity
from tacit.mechanisms.counts import CountingQueries, Histogram
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean

RELATIONS = [ADD_REMOVE, REPLACE_ONE]
CATEGORIES = ["a", "b", "c", "unknown", None, math.nan, math.inf, 1.5, ["a"], b"a"]
NUMBERS = [0, 1, -2, 0.3, 7.5, 1e308, -1e308, -0.0, 5e-324, math.nan, math.inf, -math.inf, None, "x", Decimal("sNaN")]
ANSWERS = [(0, 0, 0), (1, 1, 1), (1, 0, 1), None, math.nan, "odd", (1,), {}]


class Recorder:
    """Stands in for the noise and remembers what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: list[list[int]] = []
        for kind in (Laplace, Gaussian):
            monkeypatch.setattr(kind, "release", self._release())

    def _release(self) -> Callable[[object, int | list[int]], int | list[int]]:
        def release(mechanism: object, value: int | list[int]) -> int | list[int]:
            self.inputs.append(list(value) if isinstance(value, list) else [value])
            return value

        return release

    def measure(
        self, run: Callable[[list[object]], object], records: list[object], n: object, relation: Relation
    ) -> MeasuredSensitivity:
        """The sensitivity of the noise's input. Records go by index, since some of them cannot be hashed."""

        def noise_input(rows: tuple[Hashable, ...]) -> list[int]:
            self.inputs.clear()
            run([records[row] for row in rows])
            (only,) = self.inputs  # one call of the noise, whatever the data
            assert all(type(number) is int for number in only)
            return only

        return measure_sensitivity(noise_input, range(len(records)), n, relation)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [None, "0.04"])
def test_histogram(recorder: Recorder, relation: Relation, delta: str | None) -> None:
    mechanism = Histogram(epsilon="0.01", bins=["a", "b", "c", 1], relation=relation, delta=delta)
    measured = recorder.measure(mechanism.release, CATEGORIES, range(3), relation).sensitivity
    assert measured == mechanism.sensitivity
    check_calibration(mechanism.noise, measured.l1, measured.l2_squared)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [None, "0.04"])
def test_counting_queries(recorder: Recorder, relation: Relation, delta: str | None) -> None:
    mechanism = CountingQueries(epsilon="0.01", k=3, relation=relation, delta=delta)
    queries = [lambda row, i=i: row[i] == 1 for i in range(3)]
    measured = recorder.measure(
        lambda records: mechanism.release(records, queries), ANSWERS, range(3), relation
    ).sensitivity
    assert measured == mechanism.sensitivity
    check_calibration(mechanism.noise, measured.l1, measured.l2_squared)


@pytest.mark.parametrize(
    ("bounds", "step"), [((0, 1), None), ((-2, 7), 1), ((-2, 7), "0.5"), ((3, 5), "1/3"), ((-9, -4), 5)]
)
def test_mean_with_private_n(recorder: Recorder, bounds: tuple[int, int], step: object) -> None:
    mechanism = Mean(epsilon=1, bounds=bounds, step=step)
    measured = recorder.measure(mechanism.release, NUMBERS, range(3), ADD_REMOVE).sensitivity
    assert measured.l1 == mechanism._noise.l1_sensitivity == (bounds[1] - bounds[0]) / mechanism.step


@pytest.mark.parametrize(
    ("bounds", "step"), [((0, 1), None), ((-2, 7), 1), ((-2, 7), "0.5"), ((3, 5), "1/3"), ((-9, -4), 5)]
)
@pytest.mark.parametrize("n", [1, 2])
def test_mean_with_public_n(recorder: Recorder, bounds: tuple[int, int], step: object, n: int) -> None:
    mechanism = Mean(epsilon=1, bounds=bounds, step=step, n=n)
    measured = recorder.measure(mechanism.release, NUMBERS, n, REPLACE_ONE).sensitivity
    assert measured.l1 == mechanism._noise.l1_sensitivity
    assert measured.l1 * mechanism.step / n == Fraction(bounds[1] - bounds[0]) / n


def test_two_people_can_be_in_no_bin_and_the_shape_stays(recorder: Recorder) -> None:
    mechanism = Histogram(epsilon=1, bins=["a", "b"])
    for records in ([], [math.nan], [["a"], "zzz"]):
        recorder.inputs.clear()
        noisy = mechanism.release(records)
        assert recorder.inputs == [[0, 0]]
        assert list(noisy) == ["a", "b"]


def test_a_mechanism_that_counts_twice_is_caught(recorder: Recorder) -> None:
    """The replay itself can fail: this histogram counts "a" in two bins."""
    mechanism = Histogram(epsilon=1, bins=["a", "b"])

    def broken(records: list[object]) -> object:
        hits = sum(record == "a" for record in records)
        return mechanism.noise.release([hits, hits])

    measured = recorder.measure(broken, ["a", "x"], range(3), ADD_REMOVE)
    assert not measured.sensitivity.is_within(mechanism.sensitivity)
    assert measured.sensitivity.l1 == 2


def check_calibration(noise: Laplace | Gaussian, l1: Fraction, l2_squared: Fraction) -> None:
    """The noise was built for at least this much movement."""
    if isinstance(noise, Laplace):
        assert noise.l1_sensitivity >= l1
        assert noise.scale * noise.epsilon >= l1
    else:
        assert noise.l2_squared >= l2_squared
