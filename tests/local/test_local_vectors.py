"""Sparse sums, quantiles and heavy hitters: exact laws, unbiased estimates, coverage, found texts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.core.numbers import log_bounds
from tacit.local import (
    Aggregator,
    Client,
    HeavyHitters,
    LocalProtocol,
    LocalQuantiles,
    SparseVectorSum,
    largest_ratio,
    output_law,
    protocol_from,
)


def laws_of(protocol: LocalProtocol, values: Any) -> list[dict[bytes, Fraction]]:
    return [output_law(lambda draws, value=value: protocol.randomise(value, draws)) for value in values]


VECTORS: list[Any] = [
    {},
    {0: 1},
    {0: -1, 4: 1},
    {2: Fraction(1, 4), 1: -0.5},
    {0: 1, 1: 1, 2: 1},
    {9: 1, "x": 1},
    {1: 99, 2: float("nan")},
    None,
    "text",
]


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_law_of_sparse_sums(epsilon: str) -> None:
    protocol = SparseVectorSum(dimension=5, max_nonzero=2, epsilon=epsilon)
    assert protocol_from(protocol.spec()) == protocol
    full = [{0: 1, 3: 1}, {0: -1, 3: -1}, {0: 1}, {3: -1, 1: 1}]
    # One slot alone: the loss is ε itself.
    single = SparseVectorSum(dimension=5, max_nonzero=1, epsilon=epsilon)
    for each, values in ((protocol, [*VECTORS, *full]), (single, [{i: s} for i in range(5) for s in (1, -1)])):
        laws = laws_of(each, values)
        loss = log_bounds(largest_ratio(laws))[1]
        assert all(sum(law.values()) == 1 for law in laws)
        assert loss <= each.epsilon
    assert single.epsilon - loss <= Fraction(1, 10**12)


@pytest.mark.parametrize(
    ("value", "mean"),
    [({}, [0, 0, 0]), ({0: 1, 2: -0.5}, [1, 0, -0.5]), ({1: 0.25}, [0, 0.25, 0]), ({0: 1, 1: 1, 2: 1}, [2 / 3] * 3)],
)
def test_sparse_sums_are_unbiased(value: Any, mean: list[float]) -> None:
    protocol = SparseVectorSum(dimension=3, max_nonzero=2, epsilon="1")
    expected = np.zeros(3)
    for output, chance in laws_of(protocol, [value])[0].items():
        aggregator = Aggregator(protocol)
        aggregator.add(b"\x01" + output)
        expected += float(chance) * aggregator.estimate().means
    assert np.allclose(expected, mean, atol=1e-12)


def test_intervals_of_sparse_sums_cover(seeded: object) -> None:
    """100 surveys at 80 %: fewer than 66 hits has probability below 0.001; a fifth of the width is rejected."""
    protocol = SparseVectorSum(dimension=4, max_nonzero=2, epsilon="2")
    client, hits, narrow = Client(protocol), 0, 0
    true = np.array([0.5, -0.25, 0, 0])
    for _ in range(100):
        aggregator = Aggregator(protocol)
        aggregator.add([client.report({0: 1, 1: -0.5} if i % 2 else {}) for i in range(200)])
        found = aggregator.estimate(confidence="0.8")
        hits += bool(((found.low <= true) & (true <= found.high)).all())
        narrow += bool((abs(found.means - true) <= (found.high - found.low) / 10).all())
        assert found.sums == pytest.approx(200 * found.means)
        assert (abs(found.consistent().means) <= 1).all()
    assert hits >= 66 > narrow


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_law_of_quantiles(epsilon: str) -> None:
    protocol = LocalQuantiles(bounds=(0, 8), epsilon=epsilon, levels=3)
    assert protocol_from(protocol.spec()) == protocol
    laws = laws_of(protocol, [*range(9), None, -1, float("inf")])
    assert all(sum(law.values()) == 1 for law in laws)
    assert 0 <= protocol.epsilon - log_bounds(largest_ratio(laws))[1] <= Fraction(1, 10**12)
    # For many reports the width of an interval is √(2·variance·ln(2/α)/n).
    n = 10**12
    widths = protocol.estimate(np.zeros(protocol.size, dtype=np.int64), n, confidence=0.95).widths
    used = widths**2 * n / (2 * np.log(2 / 0.05))
    for value, law in zip(range(8), laws, strict=False):
        expected, second = np.zeros(9), np.zeros(9)
        for output, chance in law.items():
            aggregator = Aggregator(protocol)
            aggregator.add(b"\x01" + output)
            found = aggregator.estimate()
            expected += float(chance) * found.shares
            second += float(chance) * (found.shares - np.arange(9) / 8) ** 2
        assert np.allclose(expected, np.arange(9) > value, atol=1e-12)
        assert np.allclose(second, used, rtol=1e-4, atol=1e-9)


def test_quantiles_are_found_and_covered(seeded: object) -> None:
    protocol = LocalQuantiles(bounds=(0, 100), epsilon="2", levels=6)
    client = Client(protocol)
    generator = np.random.default_rng(5)
    hits = 0
    for _ in range(20):
        values = generator.normal(40, 15, size=1500)
        aggregator = Aggregator(protocol)
        aggregator.add([client.report(value) for value in values])
        found = aggregator.estimate(confidence="0.9").quantile("0.5")
        median = np.median(values)
        cell = 100 / 64
        hits += found.low - cell <= median <= found.high + cell
        assert abs(found.value - median) < 15
        assert found.high - found.low < 60
        shares = aggregator.estimate(consistent=True).shares
        assert (np.diff(shares) >= 0).all()
    # 20 at 90 %: fewer than 14 has probability below 0.003.
    assert hits >= 14


def test_law_of_heavy_hitters() -> None:
    protocol = HeavyHitters(epsilon="1", length=2, hashes=16, salt="s")
    assert protocol_from(protocol.spec()) == protocol
    laws = laws_of(protocol, ["", "a", "ab", "zebra", None, "\ud800"])
    assert all(sum(law.values()) == 1 for law in laws)
    assert 0 <= protocol.epsilon - log_bounds(largest_ratio(laws))[1] <= Fraction(1, 10**12)


def test_common_texts_are_found(seeded: object) -> None:
    """Two common texts among many rare ones, of a domain that is not listed."""
    protocol = HeavyHitters(epsilon="4", length=4, hashes=1 << 10)
    client = Client(protocol)
    aggregator = Aggregator(protocol)
    texts = ["tea"] * 4000 + ["café"] * 3000 + [f"{i:04x}" for i in range(3000)]
    aggregator.add([client.report(text) for text in texts])
    found = aggregator.estimate()
    # "café" is five bytes long and is cut after four, in the middle of its last letter.
    assert [text for text, _ in found.found[:2]] == ["tea", "caf\ufffd"]
    assert found.found[0][1].low <= 0.4 <= found.found[0][1].high
    assert 0 < found.threshold < 0.3
    assert found.consistent() is found
    assert len(found.found) <= 4


def test_nothing_common_is_nothing_found(seeded: object) -> None:
    protocol = HeavyHitters(epsilon="1", length=4, hashes=1 << 10)
    aggregator = Aggregator(protocol)
    aggregator.add([Client(protocol).report(f"{i:x}") for i in range(50)])
    assert aggregator.estimate().found == ()
