"""Sampling: publishing a few random rows exposes the persons in them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.attacks.comparison import Words
from tacit.attacks.linkage import KnownRow
from tacit.attacks.random_choice import choose
from tacit.attacks.success_rate import Result, percent
from tacit.core.errors import InputError
from tacit.core.numbers import float_nearest

#: For the attack of :class:`tacit.attacks.linkage.Linkage` on those whose rows were published.
WORDS: Final = Words(
    name="sampling",
    title="Sampling: publish a few random rows, and expose a few random people",
    how="A small random sample of rows is published without names. A person who is alone with their values and is "
    "unlucky enough to be drawn is found like in any other table.",
    measure="secrets guessed of people who were drawn and are alone with their values",
    moral="A small chance for each person is a certainty for some: the harm is rare, complete, and in print.",
)


@dataclass(frozen=True)
class ExposureOf:
    """Samples of one size.

    Args:
        rows: published.
        expected: people found in a sample, on average, computed.
        at_least_one: the chance that a sample finds at least one, computed.
        measured: people found on average in the samples that were drawn.
        drawn: how many these were.
    """

    rows: int
    expected: Fraction
    at_least_one: Fraction
    measured: float
    drawn: int


@dataclass(frozen=True)
class Exposure(Result):
    """Exposure of people by random samples.

    Args:
        people: in the table.
        alone: whose values no other person has; only these are counted as found.
        sizes: the samples.
    """

    people: int
    alone: int
    sizes: tuple[ExposureOf, ...]

    @property
    def title(self) -> str:
        """A headline."""
        return f"A few random rows of {self.people:,}"

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "people": self.people,
            "alone": self.alone,
            "samples": [
                {
                    "rows": one.rows,
                    "expected": float_nearest(one.expected),
                    "at_least_one": float_nearest(one.at_least_one),
                    "measured": one.measured,
                    "drawn": one.drawn,
                }
                for one in self.sizes
            ],
        }

    def draw(self) -> Any:
        """Chart the number of people found by size of the sample."""
        from tacit.attacks.plots import draw_curves

        curve = [(float(one.rows), float_nearest(one.expected)) for one in self.sizes]
        none = [(float(one.rows), 0.0) for one in self.sizes]
        return draw_curves(
            {"published rows": curve, "a curator publishes none": none},
            x="rows published",
            title=self.title,
            subtitle="people who are found for certain, on average",
            y="people found",
        )

    def __str__(self) -> str:
        lines = [f"{self.title}; {percent(self.alone / self.people)} are alone with their values"]
        lines += [
            f"  {one.rows:,} rows: {float_nearest(one.expected):.3g} people found on average (measured "
            f"{one.measured:.3g} over {one.drawn} samples); at least one with probability "
            f"{percent(float_nearest(one.at_least_one))}"
            for one in self.sizes
        ]
        return "\n".join(lines)


def exposure(known: Sequence[KnownRow], sizes: Sequence[int], *, samples: int = 50) -> Exposure:
    """Publish samples of some sizes and count who is found, beside what must come out.

    Of n people of whom u are alone with their values, a sample of k finds k·u/n on average, and no person with
    probability C(n-u, k) / C(n, k).

    Args:
        known: what an outsider knows about each person, one row per person.
        sizes: of the samples.
        samples: how many to draw of each size.
    """
    if samples < 1 or any(not 1 <= size <= len(known) for size in sizes):
        raise InputError("sizes", f"must be from 1 to the number of people ({len(known)}), and samples at least 1")
    counts = Counter(known)
    is_alone = [counts[values] == 1 for values in known]
    alone = sum(is_alone)
    found = []
    for size in sizes:
        hits = [sum(choose(is_alone, size)) for _ in range(samples)]
        none = Fraction(math.comb(len(known) - alone, size), math.comb(len(known), size))
        expected = Fraction(size * alone, len(known))
        found.append(ExposureOf(size, expected, 1 - none, sum(hits) / samples, samples))
    return Exposure(len(known), alone, tuple(found))
