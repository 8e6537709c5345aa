"""Measures of how well latencies tell two databases apart, and whether they go along with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.server.timing import (
    STEPS,
)


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 1; ties share the middle of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in range(start, end):
            found[order[place]] = (start + end + 1) / 2
        start = end
    return found


def auc(one: Sequence[float], other: Sequence[float]) -> float:
    """The chance that a latency of ``one`` is above one of ``other``, ties half: 0.5 tells nothing."""
    found = ranks([*one, *other])
    above = sum(found[: len(one)]) - len(one) * (len(one) + 1) / 2
    return above / (len(one) * len(other))


def trained_auc(one: Sequence[float], other: Sequence[float], bins: int = 24) -> float:
    """As :func:`auc`, by a classifier that learns any difference of two distributions from every second latency.

    Latencies go into bins of equal weight; the score of a bin is how much more often the first database was in it.
    """
    learnt = sorted([*one[::2], *other[::2]])
    edges = sorted({learnt[len(learnt) * i // bins] for i in range(1, bins)})

    def place(value: float) -> int:
        return sum(value >= edge for edge in edges)

    weights = [0.0] * (len(edges) + 1)
    counts = [[1.0] * len(weights), [1.0] * len(weights)]
    for which, sample in enumerate((one[::2], other[::2])):
        for value in sample:
            counts[which][place(value)] += 1
    weights = [math.log(a / b) for a, b in zip(*counts, strict=True)]
    scores = [[weights[place(value)] for value in sample] for sample in (one[1::2], other[1::2])]
    return auc(scores[0], scores[1])


def spread(count: int, more: int) -> float:
    """The standard deviation of :func:`auc` where there is nothing to tell."""
    return math.sqrt((count + more + 1) / (12 * count * more))


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The correlation of ranks; 0 where one of them does not vary."""
    first, second = ranks(one), ranks(other)
    middle = (len(first) + 1) / 2
    up = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    down = math.sqrt(sum((a - middle) ** 2 for a in first) * sum((b - middle) ** 2 for b in second))
    return up / down if down else 0.0


def late_probability(lateness: int, epsilon: float) -> float:
    """P(lateness + ν >= ρ), from the two laws, computed without any of the code that runs."""
    first = epsilon / (1 + 2 ** (2 / 3))
    threshold, query = STEPS / first, 2 * STEPS / (epsilon - first)

    def tail(k: int) -> float:
        """P(ν >= k)."""
        q = math.exp(-1 / query)
        return q**k / (1 + q) if k > 0 else 1 - q ** (1 - k) / (1 + q)

    q = math.exp(-1 / threshold)
    wide = int(40 * threshold)
    step = 64
    total = weight = 0.0
    for rho in range(-wide, wide, step):
        mass = q ** abs(rho)
        total, weight = total + mass * tail(rho - lateness), weight + mass
    return total / weight
