"""Black-box lower bounds: never above the truth more often than they say, and above half of it when noise is halved.

Tests that sample run on seeded bits, so they are repeatable; the false-alarm probabilities are those of fresh bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from support.bits import SeededBits
from tacit.audit import lower_bound
from tacit.audit.lower_bound import Confirmed, FeatureReader, observe
from tacit.core.errors import InputError
from tacit.noise.bernoulli import sample_bernoulli

pytestmark = pytest.mark.usefixtures("seeded")


# The arithmetic of a confirmed event


@pytest.mark.parametrize(
    ("hits", "misses", "samples", "delta", "epsilon"),
    # ln((Clopper-Pearson lower - delta) / Clopper-Pearson upper), each end at 97.5 %
    [
        (5000, 1500, 10**5, 0, 1.12652635),
        (5000, 1839, 10**5, 0, 0.92771348),
        (200, 0, 10**5, 0, 3.84950758),
        (300, 0, 10**6, 1e-6, 4.27822634),
    ],
)
def test_two_sample_vectors(hits: int, misses: int, samples: int, delta: float, epsilon: float) -> None:
    assert Confirmed(hits, misses, samples, 0.95).epsilon(delta) == pytest.approx(epsilon, abs=1e-8)


def test_an_event_that_favours_the_other_law_proves_nothing() -> None:
    found = Confirmed(10, 500, 1000, 0.95)
    assert found.epsilon(0) == 0
    assert found.margin(0) < 0
    assert Confirmed(0, 0, 1000, 0.95).margin(0) == -math.inf


# Validity and power


def flip(bit: int) -> int:
    return bit if sample_bernoulli(Fraction(3, 4)) else 1 - bit


def test_a_true_claim_is_refuted_no_more_often_than_stated() -> None:
    """60 audits of an exact mechanism at 95 %: more than 9 refutations have probability below 10⁻³; none is usual."""
    noise = tacit.Laplace(epsilon=1, l1_sensitivity=1)
    refuted = sum(lower_bound(noise, 0, 1, samples=300, confidence=0.95).violated for _ in range(60))
    assert refuted <= 9
    coins = sum(lower_bound(flip, 0, 1, claimed=math.log(3), samples=300, confidence=0.95).violated for _ in range(60))
    assert coins <= 9


HALVED: dict[str, tuple[Callable[[Any], Any], Any, Any, float]] = {
    "laplace": (tacit.Laplace(epsilon=2, l1_sensitivity=1).release, 0, 1, 1),
    "laplace, floats": (tacit.Laplace(epsilon=2, l1_sensitivity=1).release, 0.0, 1.0, 1),
    "laplace, many": (tacit.Laplace(epsilon=2, l1_sensitivity=1).release, [0, 5, 3], [0, 6, 3], 1),
    "noisy max": (tacit.NoisyMax(epsilon=4, sensitivity=1).release, [0, 0], [1, -1], 2),
    "exponential": (tacit.Exponential(epsilon=4, sensitivity=1).release, [0, 0], [1, -1], 2),
    "randomized response": (tacit.RandomizedResponse(epsilon=2).release, 0, 1, 1),
    "histogram": (tacit.Histogram(epsilon=2, bins=["a", "b"]).release, ["a", "a", "b"], ["a", "a"], 1),
}


@pytest.mark.parametrize("name", HALVED)
def test_half_the_noise_is_caught(name: str) -> None:
    """The same mechanism passes at its own ε and is refuted at half of it."""
    release, first, second, claimed = HALVED[name]
    found = lower_bound(release, first, second, claimed=claimed, samples=2_500, confidence=0.999)
    assert found.violated
    assert found.epsilon <= 2 * claimed
    assert "REFUTED" in str(found)


def test_gaussian_noise_at_its_delta() -> None:
    noise = tacit.Gaussian(epsilon=1, delta="0.01", l2_sensitivity=1)
    found = lower_bound(noise, 0, 1, delta="0.01", samples=4_000)
    assert not found.violated
    assert found.claimed == 1.0
    assert lower_bound(noise, 0, 4, delta="0.01", samples=4_000).violated


def test_many_numbers_are_read_together() -> None:
    """No single coordinate tells the neighbours apart at the claimed ε; all of them together do."""
    noise = tacit.Laplace(epsilon=1, l1_sensitivity=1)
    found = lower_bound(noise, [0] * 12, [1] * 12, samples=1_600, confidence=0.999)
    assert found.epsilon > 1.5


# What counts as an output


def test_an_error_on_one_neighbour_is_an_output() -> None:
    def fails(rows: list[int]) -> int:
        return tacit.Laplace(epsilon="0.1", l1_sensitivity=1).release(len(rows)) // min(len(rows), 1)

    found = lower_bound(fails, [1], [], claimed="0.1", samples=400)
    assert found.violated
    assert "ZeroDivisionError" in str(found)


def test_the_same_error_every_time_is_a_wrong_call() -> None:
    with pytest.raises(InputError, match="mechanism: raised TypeError"):
        lower_bound(lambda: 0, [1], [], samples=400)  # type: ignore[arg-type,misc]


def test_where_an_object_lives_is_not_an_output() -> None:
    class Plain:
        pass

    assert observe(lambda _: Plain(), None).label == observe(lambda _: Plain(), None).label


@pytest.mark.parametrize(
    ("output", "numbers"),
    [
        (3, (3,)),
        (np.float64(0.5), (0.5,)),
        ({"a": [1, None], "b": True}, (1, True)),
        (np.array([[1, 2], [3, 4]]), (1, 2, 3, 4)),
        ({2, 1}, (1, 2)),
        (Fraction(1, 2), (0.5,)),
        ("text", ()),
    ],
)
def test_numbers_are_taken_out_of_any_structure(output: Any, numbers: tuple[float, ...]) -> None:
    assert observe(lambda _: output, None).numbers == numbers


def test_features_of_strange_numbers_are_finite() -> None:
    seen = [observe(lambda _, x=x: x, None) for x in (math.nan, math.inf, -math.inf, 10**400, 5e-324, 0, [1, 2.5])]
    table = FeatureReader(seen).read(seen).table
    assert np.isfinite(table).all()
    lowest = FeatureReader(seen).names.index("the lowest bit of number 1")
    assert table[4, lowest] == -1074


# Reports


def test_reports_and_plots(tmp_path: Path) -> None:
    found = lower_bound(flip, 0, 1, claimed=1, samples=1_000)
    content = json.loads(found.to_json())
    assert content["epsilon_at_least"] == found.epsilon
    assert content["samples_of_each"] == 500
    found.plot(tmp_path / "found.svg")
    assert (tmp_path / "found.svg").read_text().count("<svg") == 1
    with pytest.raises(InputError, match="path"):
        found.plot(tmp_path / "found.txt")


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    lower_bound(flip, 0, 1, samples=600, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (600, 600)


@pytest.mark.parametrize(
    ("words", "parameter"),
    [({"samples": 10}, "samples"), ({"confidence": 1.0}, "confidence"), ({"delta": 2}, "delta")],
)
def test_bad_arguments_are_named(words: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError, match=parameter):
        lower_bound(flip, 0, 1, **words)


def test_seeded_bits_are_used(seeded: SeededBits) -> None:
    """The fixture reaches the mechanisms, or these tests would not be repeatable."""
    from tacit.noise import entropy

    assert entropy.current() is seeded
