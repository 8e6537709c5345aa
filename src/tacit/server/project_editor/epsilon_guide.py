"""Guide to choosing epsilon: published numbers, and the risk of one person.

``docs/choosing-epsilon.md`` has the same numbers with their sources; a test compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.core.cautions import guess_probability
from tacit.core.numbers import exact_positive

__all__ = ["PUBLISHED", "GuessRisk", "PublishedEpsilon", "guess_risks"]


@dataclass(frozen=True, slots=True)
class PublishedEpsilon:
    """A release, its epsilon, and the unit that the number is about."""

    release: str
    epsilon: str
    unit: str


@dataclass(frozen=True, slots=True)
class GuessRisk:
    """An epsilon and how often an attacker is right, at most, who gave one person's secret even odds."""

    epsilon: str
    percent: str
    is_chosen: bool


PUBLISHED: Final = (
    PublishedEpsilon("US Census 2020, redistricting data", "19.61 at δ = 10⁻¹⁰", "a person, once"),
    PublishedEpsilon("Apple, emoji suggestions", "4, local model", "a device, per day"),
    PublishedEpsilon("Apple, health types", "2, local model", "a device, per day"),
    PublishedEpsilon("Apple, new words", "16, local model", "a device, per day"),
    PublishedEpsilon("Google, community mobility reports", "2.64", "a person, per day"),
    PublishedEpsilon("Israel's Ministry of Health, live births", "9.98", "a birth, once"),
)
_STEPS: Final = ("0.1", "0.5", "1", "2", "4", "8")


def guess_risks(chosen: Fraction | None, text: str = "") -> list[GuessRisk]:
    """The risk at some round numbers, and at the chosen one in its place."""
    steps = {exact_positive(step, "epsilon"): step for step in _STEPS}
    if chosen is not None:
        steps.setdefault(chosen, text)
    return [
        GuessRisk(said, _percent(guess_probability(number)), number == chosen) for number, said in sorted(steps.items())
    ]


def _percent(share: Fraction) -> str:
    tenths = math.ceil(1000 * share)
    return f"{tenths / 10:.1f} %" if tenths < 1000 else "over 99.9 %"
