"""Choice of a frequency protocol by its error, the size of its reports and the aggregator's memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, SupportsIndex

from tacit.core.charts import altair
from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, float_nearest
from tacit.local.frequencies import chart_data
from tacit.local.frequency import (
    FrequencyProtocol,
    HadamardResponse,
    KaryResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
)

#: A protocol whose error is within this share of the smallest is as good, if its reports are shorter.
_AS_GOOD: Final = 1.05
_COLOUR: Final = "#0072b2"


@dataclass(frozen=True)
class Candidate:
    """One protocol for a domain and an ε.

    Attributes:
        protocol: ready to use.
        name: for people.
        variance: of the estimated share of a category with an average share, times the number of reports.
        error: standard error of that share from ``n`` reports.
        report_bytes: length of a report.
        counters: numbers that an aggregator holds.
    """

    protocol: FrequencyProtocol
    name: str
    variance: float
    error: float
    report_bytes: int
    counters: int


@dataclass(frozen=True)
class ProtocolChoice:
    """A recommended protocol, the reason, and all candidates.

    Attributes:
        protocol: the recommended one.
        reason: one sentence.
        candidates: all that the domain allows, the smallest error first.
        n: number of reports that the errors are for.
    """

    protocol: FrequencyProtocol
    reason: str
    candidates: tuple[Candidate, ...]
    n: int

    def table(self) -> str:
        """Candidates as text, one line each."""
        head = f"{'protocol':<28}{'error':>10}{'bytes':>8}{'counters':>12}"
        lines = [
            f"{each.name:<28}{each.error:>10.4%}{each.report_bytes:>8,}{each.counters:>12,}" for each in self.candidates
        ]
        return "\n".join([head, *lines])

    def plot(self) -> Any:
        """Standard error of each protocol against ε, as an Altair chart; a dot marks the recommended one."""
        alt = altair()
        at = float_nearest(self.protocol.epsilon)
        categories = self.protocol.k
        rows = [
            {"epsilon": epsilon, "error": each.error, "protocol": each.name}
            for epsilon in (at * 2 ** (i / 4) for i in range(-8, 9))
            if epsilon <= 10
            for each in _candidates(categories, round(epsilon, 6), self.n)
        ]
        chosen = next(each for each in self.candidates if each.protocol is self.protocol)
        lines = (
            alt.Chart(chart_data(alt, rows))
            .mark_line()
            .encode(
                x=alt.X("epsilon:Q", title="ε of one report", scale=alt.Scale(type="log")),
                y=alt.Y("error:Q", title="standard error of a share", scale=alt.Scale(type="log")),
                color=alt.Color("protocol:N"),
            )
        )
        mark = alt.Chart(chart_data(alt, [{"epsilon": at, "error": chosen.error}]))
        dot = mark.mark_point(size=120, filled=True, color=_COLOUR).encode(x="epsilon:Q", y="error:Q")
        return alt.layer(lines, dot).properties(title=f"{categories:,} categories, {self.n:,} reports", width=420)

    def __str__(self) -> str:
        return f"{self.reason}\n{self.table()}"


def choose(
    domain_size: SupportsIndex | Sequence[Hashable], *, epsilon: Number, n: SupportsIndex = 10_000
) -> ProtocolChoice:
    """Recommend a frequency protocol.

    The smallest standard error decides, for a category of average share; among protocols within five percent of it, the
    one with the shortest reports, then the one with the smallest aggregator.

    Args:
        domain_size: number of categories, or the categories themselves.
        epsilon: of one report.
        n: number of reports expected.

    >>> from tacit.local import choose
    >>> print(choose(4, epsilon="1").reason)
    k-ary randomized response: error 1.37% of all respondents from 10,000 reports of 1 byte, the smallest of all.
    """
    people = check_count(n, "n")
    found = _candidates(domain_size, exact_positive(epsilon, "epsilon"), people)
    least = found[0].error
    good = [each for each in found if each.error <= _AS_GOOD * least]
    best = min(good, key=lambda each: (each.report_bytes, each.counters, each.error))
    bytes_ = f"{best.report_bytes:,} byte{'s' if best.report_bytes > 1 else ''}"
    said = "the smallest of all" if best.error <= least else f"within {best.error / least - 1:.1%} of the smallest"
    reason = f"{best.name}: error {best.error:.2%} of all respondents from {people:,} reports of {bytes_}, {said}."
    return ProtocolChoice(best.protocol, reason, found, people)


def _candidates(categories: SupportsIndex | Sequence[Hashable], epsilon: Any, n: int) -> tuple[Candidate, ...]:
    makers: dict[str, Callable[..., FrequencyProtocol]] = {
        "k-ary randomized response": KaryResponse,
        "optimised unary encoding": UnaryEncoding,
        "symmetric unary encoding": lambda **words: UnaryEncoding(**words, optimised=False),
        "subset selection": SubsetSelection,
        "local hashing": LocalHashing,
        "Hadamard response": HadamardResponse,
    }
    found = []
    for name, make in makers.items():
        try:
            made = make(categories=categories, epsilon=epsilon)
        except InputError:
            # Too many categories for one bit each, or for a counter each.
            if name == "k-ary randomized response":
                raise
            continue
        variance = made.variance(exact_positive(1, "share") / made.k)
        error = math.sqrt(variance / n)
        found.append(Candidate(made, name, variance, error, made.width, made.size))
    return tuple(sorted(found, key=lambda each: each.error))
