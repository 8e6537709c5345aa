"""Membership inference from averages and models; why nothing protects against what a study learns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.results import BitAttack, Result, SuccessRate, Words, choose
from tacit.audit.charts import draw_shares
from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact_positive, exp_bounds, float_nearest
from tacit.mechanisms.laplace import Laplace

#: Gives the published shares: for each attribute, how many of the members have it.
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
        columns: places of the columns.
        cells: all combinations of their values.
    """

    columns: tuple[int, ...]
    cells: tuple[tuple[Hashable, ...], ...]

    def shares(self, counts: Mapping[Any, float], people: float) -> NDArray[np.float64]:
        """The published counts as shares of ``people``, in the order of the cells."""
        return np.array([counts.get(cell, 0.0) for cell in self.cells]) / max(people, 1.0)


def indicators(rows: Sequence[Sequence[Hashable]], marginals: Sequence[Marginal]) -> NDArray[np.float64]:
    """One row per person, one column per cell of every marginal: 1 where the person is in the cell."""
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
    """Call the higher half of the scores members; of ``scores`` the first ``members`` are, the others are not."""
    # By lot among equal scores, so that a constant score is a coin.
    order = np.array(choose(range(len(scores)), len(scores)))
    ranked = order[np.argsort(-scores[order], kind="stable")]
    called = set(ranked[:members].tolist())
    outside = sum(person not in called for person in range(members, len(scores)))
    return SuccessRate(len(called & set(range(members))) + outside, len(scores))


@dataclass(frozen=True, eq=False)
class Membership(BitAttack):
    """Tell members from others by published shares.

    The score of a person is the log-likelihood ratio to first order: Σ (y - p)(s - p) / (p(1 - p)) over attributes,
    where y is the person's, s the published share and p that of people in general.

    Args:
        members: attributes, 0 or 1, of people who are in it.
        outsiders: of as many who are not.
        reference: the share of each attribute among people in general.
    """

    members: NDArray[np.float64]
    outsiders: NDArray[np.float64]
    reference: NDArray[np.float64]
    words: Words = MEMBERSHIP

    def __post_init__(self) -> None:
        if self.members.shape != self.outsiders.shape or self.members.shape[1:] != self.reference.shape:
            raise InputError("outsiders", "must be as many as members, with the same attributes as the reference")

    def run(self, ask: PublishedShares) -> SuccessRate:
        """Share of people told apart correctly."""
        people = np.vstack([self.members, self.outsiders])
        # An attribute that no person of the reference has is not impossible.
        usual = np.clip(self.reference, 0.5 / len(people), 1 - 0.5 / len(people))
        lean = (ask() - usual) / (usual * (1 - usual))
        return guess_members((people - usual) @ lean, len(self.members))


Floats = NDArray[np.float64]
#: Asks a trained model: how badly it predicts each row's label, one loss per row.
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
    """Tell the rows that trained a model from others, by their losses.

    Args:
        members: features of the rows it was trained on.
        member_labels: their labels.
        outsiders: features of as many other rows.
        outsider_labels: their labels.
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
        """Share of rows told apart correctly: the half with the smaller losses is called trained on."""
        features = np.vstack([self.members, self.outsiders])
        labels = np.concatenate([self.member_labels, self.outsider_labels])
        return guess_members(-ask(features, labels), len(self.members))


def ridge(features: Floats, labels: NDArray[np.bool_], *, penalty: float = 1e-3) -> Losses:
    """Least squares on ±1 labels with a small penalty: with more columns than rows it fits every row exactly."""
    centre = features.mean(axis=0)
    shifted = features - centre
    target = np.where(labels, 1.0, -1.0)
    offset = target.mean()
    # In the dual, which is small where columns outnumber rows.
    gram = shifted @ shifted.T + penalty * np.eye(len(shifted))
    weights = shifted.T @ np.linalg.solve(gram, target - offset)

    def losses(rows: Floats, asked: NDArray[np.bool_]) -> Floats:
        return np.asarray(((rows - centre) @ weights + offset - np.where(asked, 1.0, -1.0)) ** 2)

    return losses


#: Ill people, and all people.
Group = tuple[int, int]


@dataclass(frozen=True)
class Learned(Result):
    """Belief of an outsider about a smoker: before, and after a study that was released exactly or privately.

    Args:
        before: the share of all people who are ill, which was known anyway.
        without: the share of ill smokers in a study that the person took no part in.
        with_person: the same if the person took part, and is ill.
        epsilon: of the private release.
        spread: how far the private release of the share is off, with probability 95%, at most.
    """

    before: Fraction
    without: Fraction
    with_person: Fraction
    epsilon: Fraction
    spread: Fraction

    @property
    def learned(self) -> Fraction:
        """Change of the belief about a person who was not in the data."""
        return self.without - self.before

    @property
    def own_share(self) -> Fraction:
        """Change that the person's own row adds, in an exact release."""
        return abs(self.with_person - self.without)

    @property
    def own_factor(self) -> Fraction:
        """e^ε, rounded up: no conclusion from the private release becomes likelier by more than this factor."""
        return exp_bounds(self.epsilon)[1]

    @property
    def title(self) -> str:
        """A headline."""
        return "What a study tells about a person who is not in it"

    @property
    def headline(self) -> str:
        return f"{self.title}."

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        return {
            "before": float_nearest(self.before),
            "after_without": float_nearest(self.without),
            "after_with": float_nearest(self.with_person),
            "epsilon": float_nearest(self.epsilon),
            "private_off_by": float_nearest(self.spread),
            "own_factor": float_nearest(self.own_factor),
        }

    def draw(self) -> Any:
        """The belief before and after, without and with the person, exactly and privately."""
        beliefs = {
            "before the study": self.before,
            "after it, without the person": self.without,
            "after it, with the person": self.with_person,
        }
        rows = [
            (name, {"believed ill": float_nearest(share), "believed well": float_nearest(1 - share)})
            for name, share in beliefs.items()
        ]
        return draw_shares(
            rows, title=self.title, subtitle=f"a private release is off by at most {_percent(self.spread)}"
        )

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
    """Counts of ill people and of all people, among smokers and among others; the person is not one of them."""

    smokers: Group
    others: Group

    def __post_init__(self) -> None:
        for name in ("smokers", "others"):
            ill, all_of_them = getattr(self, name)
            check_count(all_of_them, name)
            if not 0 <= check_count(ill, name, minimum=0) <= all_of_them:
                raise InputError(name, "must be (ill, all of them), with no more ill than there are")

    def learned(self, *, epsilon: Number) -> Learned:
        """Learn about a smoker from this study, exactly and with ``epsilon``.

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
