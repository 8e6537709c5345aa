"""Linkage with inexact knowledge: film ratings off by one, dates off by weeks.

A shop publishes who rated which film when, without names. An acquaintance has heard of a few films that a person saw,
about when, and roughly how they liked them. No row matches exactly, so rows are *scored*: a film that both have counts
for the more the rarer it is, and for the closer rating and day are,

    score = Σ_films 1/ln(how many rated it) · (e^(-|stars apart|/1.5) + e^(-|days apart|/30)),

and the best row is named if it stands out: if it leads the second by at least 1.5 standard deviations of all scores.
Otherwise no row is named, so that a name is seldom wrong. The rule is that of Narayanan and Shmatikov (2008), who found
subscribers of Netflix in its published ratings; the film table here is made up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.attacks.random_choice import below, choose
from tacit.attacks.success_rate import Result, SuccessRate
from tacit.core.errors import InputError
from tacit.noise.uniform import sample_below

#: Decay of a score with distance: in stars, and in days.
STARS_APART: Final = 1.5
DAYS_APART: Final = 30.0
#: The lead over the second best, in standard deviations of all scores, from which on a person is named.
STANDS_OUT: Final = 1.5
_STARS: Final = 5


class Rating(NamedTuple):
    """Stars, from 1 to 5, and the day, counted from the first."""

    stars: int
    day: int


#: Each row of the nameless table: film -> rating.
FilmTable = Sequence[Mapping[int, Rating]]


class Scored(NamedTuple):
    """Result of the scoring rule on a table: the best row, its lead in standard deviations, and who is named."""

    best: int
    lead: float
    named: int | None


def score_rows(known: Mapping[int, Rating], table: FilmTable, *, stands_out: float = STANDS_OUT) -> Scored:
    """Compare knowledge about one person with every row of a nameless table.

    >>> table = [{1: Rating(5, 10), 2: Rating(1, 40)}, {1: Rating(2, 300), 3: Rating(4, 7)}, {2: Rating(1, 200)}]
    >>> score_rows({1: Rating(4, 12), 2: Rating(1, 35)}, table).named
    0
    """
    if not known or not table:
        raise InputError("known", "must hold at least one rating, and the table at least one row")
    seen = Counter(film for row in table for film in row)
    # A film of one person's gets the weight of two: the logarithm of one would divide by nothing.
    weights = {film: 1 / math.log(max(seen[film], 2)) for film in known if seen[film]}
    scores = np.array([_score(known, row, weights) for row in table])
    best = int(scores.argmax())
    if len(scores) == 1:
        return Scored(best, math.inf, best)
    second = float(np.partition(scores, -2)[-2])
    spread = float(scores.std())
    lead = (float(scores[best]) - second) / spread if spread > 0 else 0.0
    return Scored(best, lead, best if lead >= stands_out else None)


def _score(known: Mapping[int, Rating], row: Mapping[int, Rating], weights: Mapping[int, float]) -> float:
    total = 0.0
    for film, weight in weights.items():
        if film in row:
            mine, theirs = known[film], row[film]
            total += weight * (
                math.exp(-abs(mine.stars - theirs.stars) / STARS_APART)
                + math.exp(-abs(mine.day - theirs.day) / DAYS_APART)
            )
    return total


def made_up_films(*, people: int, films: int, per_person: int, days: int = 1000) -> list[dict[int, Rating]]:
    """A made-up table: popular films are rated by many, most films by few, as in any shop.

    Film i is drawn with a chance proportional to 1/(i + 1), stars around 4, the day anywhere.
    """
    if not 1 <= per_person <= films:
        raise InputError("per_person", f"must be from 1 to the number of films ({films})")
    reach = np.cumsum([10**6 // (film + 1) + 1 for film in range(films)])
    table = []
    for _ in range(people):
        mine: dict[int, Rating] = {}
        while len(mine) < per_person:
            film = int(np.searchsorted(reach, sample_below(int(reach[-1])), side="right"))
            stars = min(1 + int(below(3, 2).sum()) + int(below(2, 1)[0]), _STARS)
            mine.setdefault(film, Rating(stars, sample_below(days)))
        table.append(mine)
    return table


def blur(row: Mapping[int, Rating], *, films: int, stars: int, days: int, wrong: int = 0) -> dict[int, Rating]:
    """Knowledge of an acquaintance: ``films`` of the row, off by up to ``stars`` and ``days``, ``wrong`` made up.

    A film that is wrong has stars and a day by chance.
    """
    if films < 1 or films > len(row) or wrong < 0 or wrong > films:
        raise InputError("films", f"must be from 1 to the {len(row)} films of the row, and wrong at most as many")
    chosen = choose(sorted(row), films)
    known = {}
    for place, film in enumerate(chosen):
        told = row[film]
        if place < wrong:
            known[film] = Rating(1 + sample_below(_STARS), sample_below(1000))
        else:
            moved = min(max(told.stars + _off(stars), 1), _STARS)
            known[film] = Rating(moved, max(told.day + _off(days), 0))
    return known


def _off(most: int) -> int:
    return sample_below(2 * most + 1) - most


@dataclass(frozen=True)
class InexactStep:
    """Success with so many films, known so well.

    Args:
        films: known about each victim.
        found: victims who were named, and rightly.
        misled: victims for whom another person was named.
    """

    films: int
    found: SuccessRate
    misled: int


@dataclass(frozen=True)
class InexactLinkage(Result):
    """A nameless film table against acquaintances who remember a few films."""

    people: int
    stars: int
    days: int
    steps: tuple[InexactStep, ...]

    @property
    def title(self) -> str:
        """A headline."""
        return "Found by a few films, remembered inexactly"

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "people": self.people,
            "stars_off": self.stars,
            "days_off": self.days,
            "steps": [
                {"films": step.films, "found": step.found.content(), "misled": step.misled} for step in self.steps
            ],
        }

    def draw(self) -> Any:
        """The share of people found, by how many films are known."""
        from tacit.attacks.plots import draw_curves

        return draw_curves(
            {
                "found, rightly": [(float(step.films), step.found.share) for step in self.steps],
                "wrong person named": [(float(step.films), step.misled / step.found.tries) for step in self.steps],
            },
            x="films known",
            title=self.title,
            subtitle=f"{self.people:,} people; stars off by up to {self.stars}, days by up to {self.days}",
        )

    def __str__(self) -> str:
        lines = [f"{self.title}: stars off by up to {self.stars}, days by up to {self.days}"]
        lines += [f"  {step.films} films: {step.found} found, {step.misled} misled" for step in self.steps]
        return "\n".join(lines)


def link_inexactly(
    table: FilmTable, *, films: Sequence[int], stars: int = 1, days: int = 14, wrong: int = 0, victims: int = 50
) -> InexactLinkage:
    """Choose ``victims`` of the table, forget all but a few of their films, blur those, and look for the rows.

    Args:
        table: the nameless table.
        films: how many films are known; one step of the result for each.
        stars: how far a known rating may be off.
        days: how far a known day may be off.
        wrong: how many of the known films have a rating that is made up.
        victims: how many people are looked for in each step.
    """
    if not 1 <= victims <= len(table):
        raise InputError("victims", f"must be from 1 to the number of people ({len(table)})")
    steps = []
    for count in films:
        chosen = choose(range(len(table)), victims)
        told = [score_rows(blur(table[v], films=count, stars=stars, days=days, wrong=wrong), table) for v in chosen]
        right = sum(scored.named == victim for scored, victim in zip(told, chosen, strict=True))
        named = sum(scored.named is not None for scored in told)
        steps.append(InexactStep(count, SuccessRate(right, victims), named - right))
    return InexactLinkage(len(table), stars, days, tuple(steps))
