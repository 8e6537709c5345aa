"""Results of attacks: success rates with intervals, one attack at several epsilons, and the page that tells them."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.audit.charts import draw_comparison, svg
from tacit.audit.report import html_page
from tacit.core.charts import save_chart
from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, float_nearest, format_up
from tacit.lab.experiment import probability_bounds
from tacit.noise import entropy
from tacit.noise.uniform import sample_below


@dataclass(frozen=True)
class SuccessRate:
    """Number of successes out of a number of tries."""

    hits: int
    tries: int

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.tries or self.tries < 1:
            raise InputError("hits", f"must be from 0 to tries, and tries positive; got {self.hits} of {self.tries}")

    @property
    def share(self) -> float:
        """Successes per try."""
        return self.hits / self.tries

    def interval(self) -> tuple[float, float]:
        """Return the 95% interval of Clopper and Pearson for the probability of success, for independent tries."""
        return probability_bounds(self.hits, self.tries, 0.975)

    def content(self) -> dict[str, Any]:
        """Return the figures for JSON; keys are stable."""
        low, high = self.interval()
        return {"hits": self.hits, "tries": self.tries, "share": self.share, "low": low, "high": high}

    @property
    def text(self) -> str:
        """The share with half the width of its 95% interval in percentage points: ``55% ± 9``."""
        low, high = self.interval()
        return f"{percent(self.share)} ± {max(round(50 * (high - low)), 1)}"

    def __str__(self) -> str:
        return f"{self.hits:,} of {self.tries:,} ({percent(self.share)})"


def percent(share: float) -> str:
    """Format a share in whole per cent; 0% and 100% are shown only for exactly 0 and 1."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "<0.1%" if share < 0.5 else ">99.9%"
    return f"{100 * share:.{1 if 0 < share < 0.01 or 0.99 < share < 1 else 0}f}%"


@dataclass(frozen=True)
class Figures:
    """Result of an attack as a table: figures about many people; no result holds a person's row.

    Args:
        title: headline.
        headline: the result in one sentence.
        columns: names of the columns.
        rows: numbers and text, one row for each case.
    """

    title: str
    headline: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def content(self) -> dict[str, Any]:
        """Return the figures for JSON; keys are stable."""
        return {"title": self.title, "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows]}

    def table(self) -> list[tuple[str, ...]]:
        """Return the head and the rows as text."""
        rows = (tuple(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row) for row in self.rows)
        return [tuple(name.replace("_", " ") for name in self.columns), *rows]


_Ask = TypeVar("_Ask")
_Asked = TypeVar("_Asked", contravariant=True)
_Epsilon = TypeVar("_Epsilon", bound=Number)


@dataclass(frozen=True)
class Words:
    """Description of an attack for readers who have not heard of it.

    Args:
        name: name of the attack on the command line.
        title: a headline.
        how: what the attacker does.
        measure: what counts as a success.
        moral: the conclusion.
    """

    name: str
    title: str
    how: str
    measure: str
    moral: str


class Attack(Protocol[_Asked]):
    """An attack, which can be run against any callable that answers its queries."""

    @property
    def words(self) -> Words:
        """Title, method and moral, for readers."""

    @property
    def values(self) -> int:
        """Number of possible secrets; a blind guess is right with probability 1/``values``."""

    @property
    def reach(self) -> int:
        """Privacy distance of two secrets in multiples of epsilon: 1 if one of them is absence, 2 if a row changes."""

    def run(self, ask: _Asked) -> SuccessRate:
        """Run the attack and return its success rate."""


class BitAttack:
    """An attack on one bit that a person has or lacks: two secrets, as far apart as presence and absence."""

    values = 2
    reach = 1


def most_that_any_can(epsilon: float, *, values: int = 2, reach: int = 1) -> float:
    """Return an upper bound on the success rate of any attack, if all answers about a person cost ``epsilon`` in total.

    Let ``values`` secrets be equally likely beforehand, and no answer more than e^(reach·ε) times likelier under one
    of them than under another. Then the best guess is right with probability at most 1 / (1 + (values-1)·e^(-reach·ε)).

    >>> round(most_that_any_can(1), 3), round(most_that_any_can(0.1), 3)
    (0.731, 0.525)
    """
    return 1 / (1 + (values - 1) * math.exp(-reach * epsilon))


@dataclass(frozen=True)
class Comparison:
    """Success of one attack, against unprotected data and by epsilon.

    Args:
        words: description of the attack.
        values: number of possible secrets.
        reach: privacy distance of two secrets in multiples of epsilon; see :class:`Attack`.
        unprotected: success against the unprotected twin.
        protected: pairs of epsilon, the total cost of all answers about one person, and success against the curator.
    """

    words: Words
    values: int
    reach: int
    unprotected: SuccessRate
    protected: tuple[tuple[Fraction, SuccessRate], ...]

    @property
    def chance(self) -> float:
        """Success rate of a blind guess."""
        return 1 / self.values

    @property
    def limits(self) -> tuple[float, ...]:
        """For each epsilon, the upper bound on the success of any attack."""
        return tuple(self.limit(float_nearest(epsilon)) for epsilon, _ in self.protected)

    def limit(self, epsilon: float) -> float:
        """Return the upper bound on the success of any attack at an epsilon."""
        return most_that_any_can(epsilon, values=self.values, reach=self.reach)

    @property
    def title(self) -> str:
        """Headline of the result."""
        return self.words.title

    def content(self) -> dict[str, Any]:
        """Return the figures for JSON; keys are stable."""
        return {
            "attack": self.words.name,
            "title": self.title,
            "measure": self.words.measure,
            "chance": self.chance,
            "unprotected": self.unprotected.content(),
            "protected": [
                {"epsilon": format_up(epsilon), **rate.content(), "limit": limit}
                for (epsilon, rate), limit in zip(self.protected, self.limits, strict=True)
            ],
        }

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        words = [f"Unprotected: {percent(self.unprotected.share)} right"]
        for epsilon, rate in self.protected[:1]:
            words.append(f"through Tacit at ε = {format_up(epsilon, 3)}: {percent(rate.share)}")
        return f"{'; '.join([*words, f'a blind guess: {percent(self.chance)}'])}."

    def table(self) -> list[tuple[str, ...]]:
        """Return the head and the rows as text."""
        return [
            ("", "right", "share", "in the long run no attack above"),
            ("unprotected", f"{self.unprotected}", self.unprotected.text, ""),
            *(
                (f"epsilon {format_up(epsilon, 3)}", f"{rate}", rate.text, percent(limit))
                for (epsilon, rate), limit in zip(self.protected, self.limits, strict=True)
            ),
            ("blind guess", "", percent(self.chance), ""),
        ]

    def chart(self, path: str | Path | None = None) -> Any:
        """Return an Altair chart of success against epsilon; ``path`` saves it as SVG, PNG, HTML or JSON."""
        chart = draw_comparison(self)
        if path is not None:
            save_chart(chart, path)
        return chart

    def __str__(self) -> str:
        rows = [f"  {name:<14}{right:<22}{limit}" for name, right, _, limit in self.table()[:-1]]
        rows.append(f"  {'blind guess':<14}{percent(self.chance)}")
        return "\n".join([self.title, f"  {self.words.measure}:", *map(str.rstrip, rows)])


def compare(
    attack: Attack[_Ask],
    unprotected: _Ask,
    protected: Mapping[_Epsilon, _Ask],
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run an attack against an unprotected twin and against curators.

    Args:
        attack: the attack to run.
        unprotected: answers queries without protection.
        protected: by epsilon, answers queries with protection; all answers about one person must cost at most that in
            total.
        progress: called with a description of each step.
    """
    asks = sorted({exact_positive(e, "epsilon"): ask for e, ask in protected.items()}.items(), key=lambda pair: pair[0])
    progress("unprotected")
    bare = attack.run(unprotected)
    rates = []
    for epsilon, ask in asks:
        progress(f"epsilon {format_up(epsilon, 3)}")
        rates.append((epsilon, attack.run(ask)))
    return Comparison(attack.words, attack.values, attack.reach, bare, tuple(rates))


_Item = TypeVar("_Item")


def choose(items: Sequence[_Item], count: int) -> list[_Item]:
    """Sample ``count`` of ``items`` uniformly without replacement, in random order."""
    if not 0 <= count <= len(items):
        raise InputError("count", f"must be from 0 to {len(items)}, got {count}")
    places = np.arange(len(items))
    for i in range(count):
        other = i + sample_below(len(items) - i)
        places[i], places[other] = places[other], places[i]
    return [items[place] for place in places[:count]]


def choose_evenly(items: Sequence[_Item], truths: Sequence[bool], count: int) -> list[tuple[_Item, bool]]:
    """Sample ``count`` pairs (item, truth), half of them true, so that a coin is right half the time."""
    if len(items) != len(truths):
        raise InputError("truths", f"must have one entry for each of {len(items)} items, got {len(truths)}")
    sides = [[item for item, truth in zip(items, truths, strict=True) if bool(truth) is side] for side in (True, False)]
    half = min(count // 2, *map(len, sides))
    if half < 1:
        raise InputError("truths", "must hold for some and not for others: there is nothing to find out")
    pairs = [(item, side) for side, found in zip((True, False), sides, strict=True) for item in choose(found, half)]
    return choose(pairs, len(pairs))


def largest(values: Sequence[float]) -> int:
    """Return the index of the largest value; ties are broken at random."""
    best = max(values)
    places = [place for place, value in enumerate(values) if value == best]
    return places[sample_below(len(places))] if len(places) > 1 else places[0]


def toss(rows: int, columns: int) -> NDArray[np.bool_]:
    """Toss fair coins: a random matrix of bools."""
    words = entropy.current().words(-(-rows * columns // 64))
    return np.unpackbits(words.view(np.uint8))[: rows * columns].reshape(rows, columns).astype(np.bool_)


@dataclass(frozen=True)
class Chapter:
    """One attack and its results.

    Args:
        words: description of the attack.
        results: its results; empty where it could not be run.
        note: why it could not be run, or how it was run.
    """

    words: Words
    results: tuple[Figures | Comparison, ...]
    note: str = ""

    def content(self) -> dict[str, Any]:
        """Return the figures for JSON; keys are stable."""
        return {
            "attack": self.words.name,
            "title": self.words.title,
            "note": self.note,
            "moral": self.words.moral,
            "results": [result.content() for result in self.results],
        }


def report_page(title: str, chapters: Sequence[Chapter], *, about: str) -> str:
    """Return the HTML page of a report.

    Args:
        title: headline of the page.
        chapters: attacks and their results.
        about: description of what was attacked.
    """
    body = [
        f'<p class="quiet">{html.escape(about)}</p>',
        (
            "<p>Each attack below was run twice: against the bare data, protected by a usual rule such as “no names”, "
            "“only totals” or “a little noise”, and against a curator that answers the same queries within a budget ε "
            "for everything that is ever said about one person. Small ε is strong protection: no attack, however "
            "clever, is right more often than the dotted line.</p>"
        ),
        *(line for chapter in chapters for line in _chapter(chapter)),
        (
            "<h2>About these figures</h2>\n<p>They are shares of many people; no one’s row is on this page. But they "
            "were computed on the bare data, without noise: show them to those who may know the data, and do not "
            "publish them. The page needs no network, and nothing was sent anywhere.</p>"
        ),
    ]
    return html_page(title, "\n".join(body))


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"<section>\n<h2>{html.escape(chapter.words.title)}</h2>\n<p>{html.escape(chapter.words.how)}</p>"
    for result in chapter.results:
        yield f"<p><strong>{html.escape(result.headline)}</strong></p>"
        if isinstance(result, Comparison):
            yield f"<figure>{svg(result.chart())}</figure>"
        head, *rows = result.table()
        yield "".join(("<table>", _row(head, "th"), *(_row(row, "td") for row in rows), "</table>"))
    if chapter.note:
        yield f'<p class="quiet">{html.escape(chapter.note)}</p>'
    yield f'<p class="moral">{html.escape(chapter.words.moral)}</p>\n</section>'


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
