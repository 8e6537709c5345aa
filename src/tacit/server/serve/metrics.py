"""Metrics for operators, independent of the data.

Counted are requests by route and status, charges by population, free repeats, refusals by code, and how often a
worker had to be replaced. There are no times of questions, no sizes of answers, no rows, no load of the engine: those
depend on the data, and a dashboard is often seen by more people than a table.

Workers count for themselves and send what was added to the supervisor, which adds up and shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["Added", "Counters", "exposition", "read_added"]

#: What is counted, its labels, and what it says.
FAMILIES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "tacit_requests": (("route", "status"), "Requests, by route and status."),
    "tacit_charges": (("population",), "Questions that were charged."),
    "tacit_repeats": ((), "Questions that got an existing answer for nothing."),
    "tacit_refusals": (("code",), "Requests that were refused, by error code."),
    "tacit_workers_replaced": ((), "Workers that ended and were replaced."),
}
#: One increment: the family, its labels, how many.
Added = tuple[str, tuple[str, ...], int]
#: However odd the requests are, there are only so many different lines.
_MOST_LINES: Final = 2000
_OTHER: Final = "other"


class Counters:
    """Counts by family and labels."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._told: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def add(self, family: str, *labels: str, count: int = 1) -> None:
        """Count something."""
        if len(labels) != len(FAMILIES[family][0]):
            raise ValueError(f"{family} has the labels {FAMILIES[family][0]}")
        key = (family, labels)
        if key not in self._counts and len(self._counts) >= _MOST_LINES:
            key = (family, (_OTHER,) * len(labels))
        self._counts[key] += count

    def news(self) -> list[Added]:
        """What was counted since the last call."""
        added = [(family, labels, count - self._told[family, labels]) for (family, labels), count in self.items()]
        self._told = Counter(self._counts)
        return [each for each in added if each[2]]

    def take(self, added: Iterable[Added]) -> None:
        """Add what a worker sent."""
        for family, labels, count in added:
            self.add(family, *labels, count=count)

    def items(self) -> list[tuple[tuple[str, tuple[str, ...]], int]]:
        """All of them, in order."""
        return sorted(self._counts.items())


def read_added(content: object) -> list[Added]:
    """Increments as JSON has them."""
    if not isinstance(content, list):
        return []
    return [(str(family), tuple(map(str, labels)), int(count)) for family, labels, count in content]


def exposition(counters: Counters, gauges: Mapping[str, tuple[str, int]]) -> bytes:
    """The text that Prometheus reads."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

    families: dict[str, CounterMetricFamily] = {
        name: CounterMetricFamily(name, words, labels=labels) for name, (labels, words) in FAMILIES.items()
    }
    for (family, labels), count in counters.items():
        families[family].add_metric(list(labels), count)
    shown: list[Metric] = [
        *families.values(),
        *(GaugeMetricFamily(name, words, value=value) for name, (words, value) in gauges.items()),
    ]

    class _Shown:
        def collect(self) -> list[Metric]:
            return shown

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Shown())
    return generate_latest(registry)
