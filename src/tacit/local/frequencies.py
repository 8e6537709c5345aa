"""Estimated frequencies of categories, with standard errors and simultaneous intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.charts import altair, offline
from tacit.core.errors import InputError
from tacit.core.text_files import visible
from tacit.mechanisms.randomized_response import FrequencyEstimate

_COLOUR: Final = "#0072b2"
_MOST_SHOWN: Final = 40


@dataclass(frozen=True)
class Frequencies:
    """Estimated share of each category among the respondents.

    Attributes:
        categories: all of them, in the order of the protocol.
        frequencies: unbiased estimates, which may fall a little outside [0, 1]; or, once :meth:`consistent`, shares
            that are not negative and add up to 1, at the price of a small bias.
        standard_errors: estimated standard deviations of the unbiased estimates over the coins.
        low: lower ends of the intervals.
        high: upper ends; with probability at least ``confidence`` *all* intervals hold their true shares.
        confidence: the coverage asked for.
        n: number of reports.
        reported: the share of reports that support each category.
        is_consistent: whether the frequencies were made to add up.
    """

    categories: Sequence[Hashable]
    frequencies: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    n: int
    reported: NDArray[np.float64]
    is_consistent: bool = False

    def __getitem__(self, category: Hashable) -> FrequencyEstimate:
        try:
            return self._at(self.categories.index(category))
        except ValueError:
            raise InputError("category", "must be one of the categories") from None

    def __iter__(self) -> Iterator[tuple[Hashable, FrequencyEstimate]]:
        return ((category, self._at(place)) for place, category in enumerate(self.categories))

    def __len__(self) -> int:
        return len(self.categories)

    def top(self, number: int = 10) -> list[tuple[Hashable, FrequencyEstimate]]:
        """The categories with the largest estimates, the largest first."""
        order = np.argsort(-self.frequencies, kind="stable")[:number]
        return [(self.categories[place], self._at(place)) for place in order.tolist()]

    def consistent(self) -> Frequencies:
        """Frequencies that are not negative and add up to 1: the nearest such, in the sense of least squares.

        Intervals are not moved, because they hold for the true shares as they are.
        """
        return replace(self, frequencies=onto_simplex(self.frequencies), is_consistent=True)

    def plot(self, title: str | None = None) -> Any:
        """Bars with intervals, as an Altair chart; of many categories those with the largest estimates."""
        alt = altair()
        shown = [
            {"category": visible(str(category)), "share": each.frequency, "low": each.low, "high": each.high}
            for category, each in (self if len(self) <= _MOST_SHOWN else self.top(_MOST_SHOWN))
        ]
        base = alt.Chart(chart_data(alt, shown)).encode(y=alt.Y("category:N", title=None, sort=None))
        share = alt.X("share:Q", title="estimated share", axis=alt.Axis(format="%"))
        bars = base.mark_bar(color=_COLOUR, opacity=0.55).encode(x=share)
        rules = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
        words = f"{self.n:,} reports; all bars hold with {self.confidence:.0%} confidence"
        chart = alt.layer(bars, rules).properties(title={"text": title or "Survey", "subtitle": words}, width=420)
        return offline(chart)

    def _at(self, place: int) -> FrequencyEstimate:
        return FrequencyEstimate(
            frequency=float(self.frequencies[place]),
            standard_error=float(self.standard_errors[place]),
            low=float(self.low[place]),
            high=float(self.high[place]),
            confidence=self.confidence,
            n=self.n,
            reported=float(self.reported[place]),
        )


def bernstein_width(variance: NDArray[np.float64] | float, spread: float, n: int, tail: float) -> Any:
    """Half the width of an interval for a mean of ``n`` independent values in a range of length ``spread``.

    Missed on each side with probability at most ``tail`` at every n (Maurer and Pontil 2009, theorem 4), from the
    sample variance alone; the values may have different laws.
    """
    if n < 2:
        return np.full_like(np.asarray(variance, dtype=np.float64), spread)
    depth = math.log(2 / tail)
    return np.sqrt(2 * np.asarray(variance) * depth / n) + 7 * spread * depth / (3 * (n - 1))


def onto_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest point whose coordinates are not negative and add up to 1."""
    ordered = np.sort(values)[::-1]
    surplus = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > surplus)[-1])
    found: NDArray[np.float64] = np.maximum(values - surplus[last], 0.0)
    return found


def chart_data(alt: Any, rows: list[dict[str, Any]]) -> Any:
    """Rows as the inline data of a chart."""
    return alt.Data(values=rows)
