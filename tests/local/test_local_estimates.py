"""Estimates: coverage of simultaneous intervals by simulation, consistency, and the textbook's bound."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import InputError
from tacit.local import (
    Aggregator,
    Client,
    HadamardResponse,
    LocalHashing,
    LocalMean,
    ResponseProtocol,
    UnaryEncoding,
    output_law,
)
from tacit.local.frequency import FrequencyProtocol, onto_simplex
from tacit.mechanisms.planning import survey_bounds

PROTOCOLS: list[FrequencyProtocol] = [
    ResponseProtocol(categories=6, epsilon="1"),
    UnaryEncoding(categories=6, epsilon="1"),
    LocalHashing(categories=6, epsilon="1"),
    HadamardResponse(categories=6, epsilon="1", blocks=1),
    HadamardResponse(categories=6, epsilon="3", blocks=4),
]
SHARES = np.array([0.5, 0.25, 0.15, 0.07, 0.03, 0.0])


@cache
def law_of(protocol: FrequencyProtocol, value: int) -> tuple[Any, list[float]]:
    law = output_law(lambda draws: protocol.randomise(value, draws))
    return np.array([list(each) for each in law], dtype=np.uint8), [float(each) for each in law.values()]


def simulated(protocol: FrequencyProtocol, people: int, generator: Any) -> tuple[Any, Any]:
    """Reports of fixed respondents, drawn from the exact law of each category's client, added up."""
    holders = np.round(SHARES * people).astype(int)
    aggregator = Aggregator(protocol)
    for value, number in enumerate(holders):
        outputs, chances = law_of(protocol, value)
        aggregator.add(np.repeat(outputs, generator.multinomial(number, chances), axis=0))
    return aggregator.estimate(confidence="0.8"), holders / people


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: f"{each.kind}-{each.size}")
def test_simultaneous_intervals_cover_and_are_not_idle(protocol: FrequencyProtocol) -> None:
    """400 surveys at 80 %: fewer than 294 hits has probability below 0.001 if coverage is at least 80 %.

    Power: intervals of a third of the width miss so often that the same test rejects them. Standard errors are
    compared with the deviations found, within a fifth.
    """
    generator = np.random.default_rng(20)
    hits = narrow_hits = 0
    scores = []
    for _ in range(400):
        found, true = simulated(protocol, 500, generator)
        hits += bool(((found.low <= true) & (true <= found.high)).all())
        error = abs(found.frequencies - true)
        third = (found.high - found.low) / 6
        narrow_hits += bool((error <= np.maximum(third, 1e-9)).all())
        scores.append((found.frequencies - true) / found.standard_errors)
    assert hits >= 294
    assert narrow_hits < 294
    spread = np.sqrt(np.mean(np.square(scores), axis=0))
    assert ((spread > 0.8) & (spread < 1.2)).all()
    # Unbiased: the mean score of 400 surveys is within 4.5 standard deviations of zero.
    assert (abs(np.mean(scores, axis=0)) < 4.5 / 20).all()


@pytest.mark.parametrize("method", ["rounding", "piecewise", "hybrid"])
def test_intervals_of_means_cover(seeded: object, method: str) -> None:
    """60 surveys at 80 %: fewer than 35 hits has probability below 0.001; a tenth of the width is rejected."""
    protocol = LocalMean(bounds=(0, 100), epsilon="2", method=method)
    client = Client(protocol)
    values = [0.0, 12.5, 33.3, 99.0, 250.0]
    true = np.mean(np.clip(values, 0, 100))
    hits = narrow_hits = 0
    for _ in range(60):
        aggregator = Aggregator(protocol)
        aggregator.add([client.report(value) for value in values * 20])
        found = aggregator.estimate(confidence="0.8")
        hits += found.low <= true <= found.high
        narrow_hits += abs(found.mean - true) <= (found.high - found.low) / 20
        assert 0 <= found.low <= found.high <= 100
        assert found.low <= found.consistent().mean <= found.high
    assert hits >= 35 > narrow_hits


def test_the_textbook_bound_holds(seeded: object) -> None:
    """Error at most 1/(γ√n) with probability 3/4, and n >= 1/(γ²α²) people are enough for an error of α.

    γ = 1/4 is ε = ln 3. By Hoeffding the bound holds but for 2e⁻⁸ of surveys; by Chebyshev half of it holds in 3 of 4.
    """
    gamma, alpha = 0.25, 0.1
    people = math.ceil(1 / (gamma * alpha) ** 2)
    bound = float(survey_bounds(gamma="0.25", people=people).textbook)
    assert bound == pytest.approx(alpha, rel=0.01)
    protocol = ResponseProtocol(categories=2, epsilon="1.09861228866810969")
    assert float(protocol.truth) == pytest.approx(0.75, abs=1e-12)
    generator = np.random.default_rng(3)
    off = []
    for _ in range(400):
        yes = generator.binomial(people, 0.3)
        told = generator.binomial(yes, 0.75) + generator.binomial(people - yes, 0.25)
        counts = np.array([people - told, told])
        off.append(abs(protocol.estimate(counts, people, confidence=0.95).frequencies[1] - yes / people))
    assert np.mean(np.array(off) <= bound) == 1.0
    assert np.mean(np.array(off) <= bound / 2) >= 0.75


def test_consistent_frequencies_are_the_nearest_that_add_up() -> None:
    found = onto_simplex(np.array([0.7, 0.5, -0.2]))
    assert np.allclose(found, [0.6, 0.4, 0.0])
    generator = np.random.default_rng(1)
    for _ in range(50):
        values = generator.normal(0.2, 0.3, size=5)
        found = onto_simplex(values)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        # No point of a net over the simplex is nearer.
        net = generator.dirichlet(np.ones(5), size=300)
        assert (np.square(net - values).sum(axis=1) >= np.square(found - values).sum() - 1e-12).all()


def test_an_estimate_is_read_by_category(seeded: object) -> None:
    protocol = ResponseProtocol(categories=["tea", "coffee", "none"], epsilon="2")
    aggregator = Aggregator(protocol)
    aggregator.add(np.array([0] * 60 + [1] * 30 + [2] * 10))
    found = aggregator.estimate(confidence="0.9")
    assert found["tea"].frequency > found["coffee"].frequency > found["none"].frequency
    assert [category for category, _ in found.top(2)] == ["tea", "coffee"]
    assert found["tea"].low < found["tea"].frequency < found["tea"].high
    assert found.categories == ("tea", "coffee", "none")
    assert len(found) == 3
    together = aggregator.estimate(consistent=True)
    assert together.frequencies.sum() == pytest.approx(1)
    assert together.is_consistent
    assert not found.is_consistent
    with pytest.raises(InputError, match="one of the categories"):
        _ = found["water"]
    assert found.plot().to_dict()["layer"]


@pytest.mark.parametrize(
    ("made", "variance"),
    [
        # Published numbers: randomized response, optimised and symmetric unary encoding at frequency 0.
        (ResponseProtocol(categories=2, epsilon="1"), 0.920673594208),
        (ResponseProtocol(categories=10, epsilon="1"), 3.63024869292),
        (ResponseProtocol(categories=4, epsilon="0.5"), 8.67010610202),
        (ResponseProtocol(categories=100, epsilon="3"), 0.324181288561),
        (UnaryEncoding(categories=5, epsilon="1"), 3.6826943768312),
        (UnaryEncoding(categories=5, epsilon="1", optimised=False), 3.9176980890328),
        (UnaryEncoding(categories=5, epsilon="2"), 0.72406166096631),
        (UnaryEncoding(categories=5, epsilon="2", optimised=False), 0.92067359420779),
    ],
)
def test_variances_are_the_published_ones(made: FrequencyProtocol, variance: float) -> None:
    assert made.variance() == pytest.approx(variance, rel=1e-11)
