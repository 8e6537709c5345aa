"""Membership inference from published averages of a study."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.attacks.comparison import Words
from tacit.attacks.random_choice import choose
from tacit.attacks.success_rate import SuccessRate
from tacit.core.errors import InputError

#: Gives the published shares: for each attribute, how many of the members have it.
PublishedShares = Callable[[], NDArray[np.float64]]

_WORDS: Final = Words(
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
class Membership:
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
    words: Words = _WORDS
    values: int = 2
    reach: int = 1

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
