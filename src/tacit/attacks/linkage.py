"""Linkage: re-identification of rows without names by age, sex, district and date.

An "anonymised" table is joined with a list of people on what both contain. A person who is alone with these values is
found, and with them the rest of their row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.attacks.comparison import Words
from tacit.attacks.random_choice import largest
from tacit.attacks.success_rate import Result, SuccessRate, percent
from tacit.core.errors import InputError

#: Knowledge of an outsider about a person: the values of the quasi-identifiers.
KnownRow = tuple[Hashable, ...]
#: Answers how many of those with given values have each of the secrets.
CountsBySecret = Callable[[KnownRow], Sequence[float]]

WORDS: Final = Words(
    name="linkage",
    title="Linkage: take the names off, and join them on again",
    how="The attacker knows a few everyday facts about a person and looks for the only row that has them. Against the "
    "curator, which shows no rows, the same facts become a question: how many such people have each of the secrets?",
    measure="secrets guessed of people about whom a few everyday facts are known",
    moral="Removing names and numbers does not make a table anonymous: the rest of the row is a name.",
)


@dataclass(frozen=True)
class LinkageStep:
    """Outcome of a release against an attacker who knows certain columns.

    Args:
        known: the columns.
        sizes: pairs (k, n): n released rows share their values with k rows, themselves included.
        linked: people who match exactly one row, and it is theirs; out of all people on the public list.
        misled: people who match exactly one row that is another person's.
    """

    known: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    linked: SuccessRate
    misled: int

    @property
    def rows(self) -> int:
        """Number of rows in the release."""
        return sum(count for _, count in self.sizes)

    @property
    def k(self) -> int:
        """The release is k-anonymous for this k and no larger one."""
        return self.sizes[0][0]

    def share(self, low: int, high: int | None = None) -> float:
        """The share of rows that hide among ``low`` to ``high`` rows."""
        found = sum(count for k, count in self.sizes if k >= low and (high is None or k <= high))
        return found / self.rows


@dataclass(frozen=True)
class LinkageProfile(Result):
    """Linkage of one release by people who know more and more."""

    steps: tuple[LinkageStep, ...]

    @property
    def title(self) -> str:
        """A headline."""
        return "Who is alone with their values?"

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "steps": [
                {
                    "known": list(step.known),
                    "k_anonymity": step.k,
                    "alone": step.share(1, 1),
                    "among_fewer_than_5": step.share(1, 4),
                    "reidentified": step.linked.content(),
                    "misled": step.misled,
                }
                for step in self.steps
            ]
        }

    def draw(self) -> Any:
        """Bars: how many rows hide among how many, by what is known."""
        from tacit.attacks.plots import draw_shares

        kinds = {"alone": (1, 1), "one of 2 to 4": (2, 4), "one of 5 to 19": (5, 19), "one of 20 or more": (20, None)}
        rows = [
            (
                f"… and {step.known[-1]}" if i else ", ".join(step.known),
                {kind: step.share(*ends) for kind, ends in kinds.items()},
            )
            for i, step in enumerate(self.steps)
        ]
        return draw_shares(rows, title=self.title, subtitle="rows of the nameless table, by what an outsider knows")

    def __str__(self) -> str:
        lines = [self.title]
        lines += [
            f"  {', '.join(step.known)}: {percent(step.share(1, 1))} of rows alone, "
            f"{percent(step.share(1, 4))} among fewer than 5; {step.linked} of people found"
            for step in self.steps
        ]
        return "\n".join(lines)


def link(
    released: Sequence[KnownRow], public: Sequence[KnownRow], owners: Sequence[int], known: Sequence[str] = ()
) -> LinkageStep:
    """Join a nameless table with a list of people, by exact equality.

    Args:
        released: the quasi-identifiers of each row of the nameless table.
        public: the same of each person on the list.
        owners: for each released row, the place of its person on the list, -1 for a person who is not on it. The
            attacker does not have it; it says who was found rightly.
        known: the names of the quasi-identifiers.
    """
    if not released or not public or len(released) != len(owners):
        raise InputError("released", "must have rows, each with an owner, and the public list must have people")
    rows_of = Counter(released)
    # The last row with given values; looked at only where it is the only one.
    owner_of = dict(zip(released, owners, strict=True))
    found = [owner_of[values] == person for person, values in enumerate(public) if rows_of[values] == 1]
    sizes = Counter(rows_of[values] for values in released)
    linked = SuccessRate(sum(found), len(public))
    return LinkageStep(tuple(known), tuple(sorted(sizes.items())), linked, len(found) - linked.hits)


def link_by_steps(
    names: Sequence[str], released: Sequence[KnownRow], public: Sequence[KnownRow], owners: Sequence[int]
) -> LinkageProfile:
    """:func:`link` with the first column known, the first two, and so on."""
    steps = [
        link([row[:i] for row in released], [row[:i] for row in public], owners, names[:i])
        for i in range(1, len(names) + 1)
    ]
    return LinkageProfile(tuple(steps))


@dataclass(frozen=True)
class Linkage:
    """Guess people's secrets from counts of those who share their values.

    Args:
        victims: what is known about each, and the place of their secret among all secrets.
        values: how many secrets there are.
        words: for people.
    """

    victims: tuple[tuple[KnownRow, int], ...]
    values: int
    words: Words = WORDS
    reach: int = 2

    def run(self, ask: CountsBySecret) -> SuccessRate:
        """Share of victims for whom the most frequent secret was theirs; among equals, any one by lot."""
        return SuccessRate(sum(largest(ask(known)) == secret for known, secret in self.victims), len(self.victims))
