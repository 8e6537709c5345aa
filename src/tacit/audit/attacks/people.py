"""Attacks on people in published data: linkage, sampling, inexact ratings, membership.

An "anonymised" table is joined with a list of people on what both contain. A person who is unique in these values is
found, and so is the rest of their row. Averages and models reveal who was in a study; and nothing protects against what
a study reveals about people who are not in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.results import BitAttack, SuccessRate, Words, choose, largest
from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, exp_bounds, float_nearest
from tacit.mechanisms.laplace import Laplace
from tacit.noise.uniform import sample_below

#: Knowledge of an outsider about a person: the values of the quasi-identifiers.
KnownRow = tuple[Hashable, ...]
#: Returns, for given known values, the number of people with each of the secrets.
CountsBySecret = Callable[[KnownRow], Sequence[float]]

LINKAGE: Final = Words(
    name="linkage",
    title="Linkage: take the names off, and join them on again",
    how="The attacker knows a few everyday facts about a person and looks for the only row that has them. Against the "
    "curator, which shows no rows, the same facts become a query: how many such people have each of the secrets?",
    measure="secrets guessed of people about whom a few everyday facts are known",
    moral="Removing names and numbers does not make a table anonymous: the rest of the row is a name.",
)


@dataclass(frozen=True)
class LinkageStep:
    """Outcome of a release against an attacker who knows certain columns.

    Args:
        known: names of the known columns.
        sizes: pairs (k, n): n released rows are in groups of k rows with equal values.
        linked: people who match exactly one row, their own; out of all people on the public list.
        misled: number of people who match exactly one row, another person's.
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
        """Largest k for which the release is k-anonymous."""
        return self.sizes[0][0]

    def share(self, low: int, high: int | None = None) -> float:
        """Return the share of rows in groups of ``low`` to ``high`` rows with equal values."""
        found = sum(count for k, count in self.sizes if k >= low and (high is None or k <= high))
        return found / self.rows


def link(
    released: Sequence[KnownRow], public: Sequence[KnownRow], owners: Sequence[int], known: Sequence[str] = ()
) -> LinkageStep:
    """Join a nameless table with a list of people, by exact equality.

    Args:
        released: the quasi-identifiers of each row of the nameless table.
        public: the quasi-identifiers of each person on the list.
        owners: for each released row, the index of its person on the list, or -1. The attacker does not know it; it is
            for judging the matches.
        known: the names of the quasi-identifiers.
    """
    if not released or not public or len(released) != len(owners):
        raise InputError("released", "must have rows, each with an owner, and the public list must have people")
    rows_of = Counter(released)
    # The last row with given values; used only where it is the only one.
    owner_of = dict(zip(released, owners, strict=True))
    found = [owner_of[values] == person for person, values in enumerate(public) if rows_of[values] == 1]
    sizes = Counter(rows_of[values] for values in released)
    linked = SuccessRate(sum(found), len(public))
    return LinkageStep(tuple(known), tuple(sorted(sizes.items())), linked, len(found) - linked.hits)


def link_by_steps(
    names: Sequence[str], released: Sequence[KnownRow], public: Sequence[KnownRow], owners: Sequence[int]
) -> list[LinkageStep]:
    """Run :func:`link` with the first column known, the first two, and so on."""
    return [
        link([row[:i] for row in released], [row[:i] for row in public], owners, names[:i])
        for i in range(1, len(names) + 1)
    ]


@dataclass(frozen=True)
class Linkage:
    """Guess people's secrets from counts of people with the same known values.

    Args:
        victims: pairs (known values, index of the person's secret).
        values: number of possible secrets.
        words: description for readers.
    """

    victims: tuple[tuple[KnownRow, int], ...]
    values: int
    words: Words = LINKAGE
    reach: int = 2

    def run(self, ask: CountsBySecret) -> SuccessRate:
        """Return the share of victims whose secret is the most frequent one; ties are broken at random."""
        return SuccessRate(sum(largest(ask(known)) == secret for known, secret in self.victims), len(self.victims))


#: For :class:`Linkage` against the people whose rows were published.
SAMPLING: Final = Words(
    name="sampling",
    title="Sampling: publish a few random rows, and expose a few random people",
    how="A small random sample of rows is published without names. A person who is alone with their values and is "
    "unlucky enough to be drawn is found like in any other table.",
    measure="secrets guessed of people who were drawn and are alone with their values",
    moral="A small chance for each person is a certainty for some: the harm is rare, complete, and in print.",
)


class Exposure(NamedTuple):
    """People exposed by random samples of one size.

    Args:
        rows: number of rows in a sample.
        alone: number of people with unique known values; only these are counted as found.
        expected: computed mean number of people found in a sample.
        at_least_one: computed probability that a sample exposes at least one person.
        measured: mean number of people found in the samples that were drawn.
    """

    rows: int
    alone: int
    expected: Fraction
    at_least_one: Fraction
    measured: float


def exposure(known: Sequence[KnownRow], sizes: Sequence[int], *, samples: int = 50) -> list[Exposure]:
    """Publish samples of several sizes, and count the people found; compute the expected number as well.

    Of n people, u of them with unique values, a sample of k exposes k·u/n on average, and none with probability
    C(n-u, k) / C(n, k).

    Args:
        known: the values that an outsider knows about each person, one row per person.
        sizes: sample sizes.
        samples: number of samples of each size.
    """
    if samples < 1 or any(not 1 <= size <= len(known) for size in sizes):
        raise InputError("sizes", f"must be from 1 to the number of people ({len(known)}), and samples at least 1")
    counts = Counter(known)
    is_alone = [counts[values] == 1 for values in known]
    alone = sum(is_alone)
    found = []
    for size in sizes:
        hits = sum(sum(choose(is_alone, size)) for _ in range(samples))
        none = Fraction(math.comb(len(known) - alone, size), math.comb(len(known), size))
        found.append(Exposure(size, alone, Fraction(size * alone, len(known)), 1 - none, hits / samples))
    return found


#: Decay scale of a score with distance: in stars, and in days.
STARS_APART: Final = 1.5
DAYS_APART: Final = 30.0
#: The lead over the second best, in standard deviations of all scores, from which on a person is named.
STANDS_OUT: Final = 1.5
_STARS: Final = 5


class Rating(NamedTuple):
    """Stars, from 1 to 5, and day number."""

    stars: int
    day: int


#: Each row of the nameless table: film -> rating.
FilmTable = Sequence[Mapping[int, Rating]]


class Scored(NamedTuple):
    """Result of the scoring rule on a table: the best row, its lead in standard deviations, and the row named."""

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
    # A film rated by one person is weighted like one rated by two: the logarithm of one is zero, a divisor here.
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
    """Return a synthetic rating table: few films are rated by many people, most films by few.

    Film i is drawn with probability proportional to 1/(i + 1), stars around 4, the day uniformly.
    """
    if not 1 <= per_person <= films:
        raise InputError("per_person", f"must be from 1 to the number of films ({films})")
    reach = np.cumsum([10**6 // (film + 1) + 1 for film in range(films)])
    table = []
    for _ in range(people):
        mine: dict[int, Rating] = {}
        while len(mine) < per_person:
            film = int(np.searchsorted(reach, sample_below(int(reach[-1])), side="right"))
            stars = min(1 + sample_below(3) + sample_below(3) + sample_below(2), _STARS)
            mine.setdefault(film, Rating(stars, sample_below(days)))
        table.append(mine)
    return table


def blur(row: Mapping[int, Rating], *, films: int, stars: int, days: int) -> dict[int, Rating]:
    """Return inexact knowledge of ``films`` of the row, off by up to ``stars`` and ``days``."""
    if films < 1 or films > len(row):
        raise InputError("films", f"must be from 1 to the {len(row)} films of the row")

    def off(most: int) -> int:
        return sample_below(2 * most + 1) - most

    return {
        film: Rating(min(max(row[film].stars + off(stars), 1), _STARS), max(row[film].day + off(days), 0))
        for film in choose(sorted(row), films)
    }


class InexactStep(NamedTuple):
    """Success for a given number of known films.

    Args:
        films: number of films known about each victim.
        found: victims for whom their own row was named.
        misled: victims for whom another person's row was named.
    """

    films: int
    found: SuccessRate
    misled: int


def link_inexactly(
    table: FilmTable, *, films: Sequence[int], stars: int = 1, days: int = 14, victims: int = 50
) -> list[InexactStep]:
    """Choose ``victims`` people of the table, blur a few films of each, and search the table for their rows.

    Args:
        table: the nameless table.
        films: numbers of known films; one step of the result for each.
        stars: largest error of a known rating.
        days: largest error of a known day.
        victims: number of people searched for in each step.
    """
    if not 1 <= victims <= len(table):
        raise InputError("victims", f"must be from 1 to the number of people ({len(table)})")
    steps = []
    for count in films:
        chosen = choose(range(len(table)), victims)
        told = [score_rows(blur(table[v], films=count, stars=stars, days=days), table) for v in chosen]
        right = sum(scored.named == victim for scored, victim in zip(told, chosen, strict=True))
        named = sum(scored.named is not None for scored in told)
        steps.append(InexactStep(count, SuccessRate(right, victims), named - right))
    return steps


#: Returns the published shares: for each attribute, the share of members who have it.
PublishedShares = Callable[[], NDArray[np.float64]]

MEMBERSHIP: Final = Words(
    name="membership",
    title="Membership: many averages tell who was in the study",
    how="A study publishes, for many attributes, how many of its participants have each. The attacker knows a person's "
    "attributes and those of people in general, and sees whether the published figures lean towards the person.",
    measure="people told apart rightly, of as many participants as others",
    moral="Being in a study of a disease is the secret. Averages over few people leak it, if there are enough of them.",
)


@dataclass(frozen=True)
class Marginal:
    """A table of counts over some columns.

    Args:
        columns: indices of the columns.
        cells: all combinations of their values.
    """

    columns: tuple[int, ...]
    cells: tuple[tuple[Hashable, ...], ...]

    def shares(self, counts: Mapping[Any, float], people: float) -> NDArray[np.float64]:
        """Return the published counts as shares of ``people``, in the order of the cells."""
        return np.array([counts.get(cell, 0.0) for cell in self.cells]) / max(people, 1.0)


def indicators(rows: Sequence[Sequence[Hashable]], marginals: Sequence[Marginal]) -> NDArray[np.float64]:
    """Return a matrix, one row per person, one column per cell of every marginal: 1 where the person is in the cell."""
    width = sum(len(marginal.cells) for marginal in marginals)
    found = np.zeros((len(rows), width))
    start = 0
    for marginal in marginals:
        places = {cell: start + i for i, cell in enumerate(marginal.cells)}
        for i, row in enumerate(rows):
            place = places.get(tuple(row[column] for column in marginal.columns))
            if place is not None:
                found[i, place] = 1.0
        start += len(marginal.cells)
    return found


def guess_members(scores: NDArray[np.float64], members: int) -> SuccessRate:
    """Guess that the higher half of the scores are members; the first ``members`` of ``scores`` truly are."""
    # Ties are broken at random, so that a constant score is a coin.
    order = np.array(choose(range(len(scores)), len(scores)))
    ranked = order[np.argsort(-scores[order], kind="stable")]
    called = set(ranked[:members].tolist())
    outside = sum(person not in called for person in range(members, len(scores)))
    return SuccessRate(len(called & set(range(members))) + outside, len(scores))


@dataclass(frozen=True, eq=False)
class Membership(BitAttack):
    """Distinguish members of a study from outsiders by published shares.

    The score of a person is the log-likelihood ratio to first order: Σ (y - p)(s - p) / (p(1 - p)) over attributes,
    where y is the person's attribute (0 or 1), s the published share and p the share among people in general.

    Args:
        members: attributes, 0 or 1, of people in the study.
        outsiders: attributes of as many people who are not in it.
        reference: share of each attribute among people in general.
    """

    members: NDArray[np.float64]
    outsiders: NDArray[np.float64]
    reference: NDArray[np.float64]
    words: Words = MEMBERSHIP

    def __post_init__(self) -> None:
        if self.members.shape != self.outsiders.shape or self.members.shape[1:] != self.reference.shape:
            raise InputError("outsiders", "must be as many as members, with the same attributes as the reference")

    def run(self, ask: PublishedShares) -> SuccessRate:
        """Return the share of people classified correctly."""
        people = np.vstack([self.members, self.outsiders])
        # Clipped: an attribute that no person of the reference has is still possible.
        usual = np.clip(self.reference, 0.5 / len(people), 1 - 0.5 / len(people))
        lean = (ask() - usual) / (usual * (1 - usual))
        return guess_members((people - usual) @ lean, len(self.members))


Floats = NDArray[np.float64]
#: Returns a trained model's loss on the label of each row.
Losses = Callable[[Floats, NDArray[np.bool_]], Floats]

MODELS: Final = Words(
    name="models",
    title="Models: what a model was trained on, it knows too well",
    how="The attacker may only use a trained model. Rows that it predicts surprisingly well were probably in its "
    "training data.",
    measure="people told apart rightly, of as many whose rows trained the model as others",
    moral="A model is a statistic of its training data. Without a guarantee it can hold whole rows of it.",
)


@dataclass(frozen=True, eq=False)
class ModelMembership(BitAttack):
    """Distinguish training rows of a model from fresh rows by their losses.

    Args:
        members: features of the training rows.
        member_labels: labels of the training rows.
        outsiders: features of as many fresh rows.
        outsider_labels: labels of the fresh rows.
    """

    members: Floats
    member_labels: NDArray[np.bool_]
    outsiders: Floats
    outsider_labels: NDArray[np.bool_]
    words: Words = MODELS

    def __post_init__(self) -> None:
        if self.members.shape != self.outsiders.shape or len(self.members) != len(self.member_labels):
            raise InputError("outsiders", "must be as many as members, with the same features, each with a label")

    def run(self, ask: Losses) -> SuccessRate:
        """Return the share of rows classified correctly: the half with the smaller losses as training rows."""
        features = np.vstack([self.members, self.outsiders])
        labels = np.concatenate([self.member_labels, self.outsider_labels])
        return guess_members(-ask(features, labels), len(self.members))


def ridge(features: Floats, labels: NDArray[np.bool_], *, penalty: float = 1e-3) -> Losses:
    """Fit ridge regression on ±1 labels; with a small penalty and more columns than rows it fits every row exactly."""
    centre = features.mean(axis=0)
    shifted = features - centre
    target = np.where(labels, 1.0, -1.0)
    offset = target.mean()
    # Solved in the dual, which is small where columns outnumber rows.
    gram = shifted @ shifted.T + penalty * np.eye(len(shifted))
    weights = shifted.T @ np.linalg.solve(gram, target - offset)

    def losses(rows: Floats, asked: NDArray[np.bool_]) -> Floats:
        return np.asarray(((rows - centre) @ weights + offset - np.where(asked, 1.0, -1.0)) ** 2)

    return losses


#: Ill people, and all people.
Group = tuple[int, int]


@dataclass(frozen=True)
class Learned:
    """Belief of an outsider that a smoker is ill: before a study, and after its exact or private release.

    Args:
        before: share of all people who are ill, the belief before the study.
        without: share of ill smokers in a study without the person.
        with_person: share of ill smokers in a study with the person, who is ill.
        epsilon: ε of the private release.
        spread: bound on the error of the privately released share, with probability 95%.
    """

    before: Fraction
    without: Fraction
    with_person: Fraction
    epsilon: Fraction
    spread: Fraction

    @property
    def learned(self) -> Fraction:
        """Change of the belief about a person who is not in the data."""
        return self.without - self.before

    @property
    def own_share(self) -> Fraction:
        """Further change that the person's own row causes, in an exact release."""
        return abs(self.with_person - self.without)

    @property
    def own_factor(self) -> Fraction:
        """e^ε, rounded up: the person's row changes the probability of any private release by at most this factor."""
        return exp_bounds(self.epsilon)[1]

    def __str__(self) -> str:
        return (
            f"belief that a smoker falls ill: {_percent(self.before)} before the study, "
            f"{_percent(self.without)} after it\n"
            f"  exact release:   {_percent(self.without)} without the person, {_percent(self.with_person)} with them\n"
            f"  epsilon {float_nearest(self.epsilon):g}:       {_percent(self.without)} give or take "
            f"{float_nearest(100 * self.spread):.2g} points either way; "
            f"e^epsilon = {float_nearest(self.own_factor):.2f} bounds what the person's own row adds"
        )


@dataclass(frozen=True)
class Study:
    """Counts of ill people and of all people, among smokers and non-smokers, without the person."""

    smokers: Group
    others: Group

    def __post_init__(self) -> None:
        for name in ("smokers", "others"):
            ill, all_of_them = getattr(self, name)
            check_count(all_of_them, name)
            if not 0 <= check_count(ill, name, minimum=0) <= all_of_them:
                raise InputError(name, "must be (ill, all of them), with no more ill than there are")

    def learned(self, *, epsilon: Number) -> Learned:
        """Return the belief about a smoker after this study, by an exact release and by one with ``epsilon``.

        The private release is a histogram of the four groups, so one person changes one count by one. The noise on ill
        smokers and on smokers who are well is at most w for both, with probability 95%. A share a/(a + b) then becomes
        (a + e)/(a + b + e + f) with |e|, |f| <= w, which moves it by |b·e - a·f|/(n(n + e + f)) <= w/(n - 2w).
        """
        ill, smokers = self.smokers
        cost = exact_positive(epsilon, "epsilon")
        off = int(Laplace(epsilon=cost, l1_sensitivity=1).error("0.05", k=2))
        spread = Fraction(off, smokers - 2 * off) if smokers > 2 * off else Fraction(1)
        return Learned(
            before=Fraction(ill + self.others[0], smokers + self.others[1]),
            without=Fraction(ill, smokers),
            with_person=Fraction(ill + 1, smokers + 1),
            epsilon=cost,
            spread=min(spread, Fraction(1)),
        )


def _percent(share: Fraction) -> str:
    return f"{float_nearest(100 * share):.4g}%"
