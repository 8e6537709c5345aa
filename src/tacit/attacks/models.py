"""Membership inference from a trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.attacks.comparison import Words
from tacit.attacks.membership import guess_members
from tacit.attacks.success_rate import SuccessRate
from tacit.core.errors import InputError

Floats = NDArray[np.float64]
#: Asks a trained model: how badly it predicts each row's label, one loss per row.
Losses = Callable[[Floats, NDArray[np.bool_]], Floats]

_WORDS: Final = Words(
    name="models",
    title="Models: what a model was trained on, it knows too well",
    how="The attacker may only use a trained model. Rows that it predicts surprisingly well were probably in its "
    "training data.",
    measure="people told apart rightly, of as many whose rows trained the model as others",
    moral="A model is a statistic of its training data. Without a guarantee it can hold whole rows of it.",
)


@dataclass(frozen=True, eq=False)
class ModelMembership:
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
    words: Words = _WORDS
    values: int = 2
    reach: int = 1

    def __post_init__(self) -> None:
        if self.members.shape != self.outsiders.shape or len(self.members) != len(self.member_labels):
            raise InputError("outsiders", "must be as many as members, with the same features, each with a label")

    def run(self, ask: Losses) -> SuccessRate:
        """Share of rows told apart correctly: the half with the smaller losses is called trained on."""
        features = np.vstack([self.members, self.outsiders])
        labels = np.concatenate([self.member_labels, self.outsider_labels])
        return guess_members(-ask(features, labels), len(self.members))


def nearest_neighbour(features: Floats, labels: NDArray[np.bool_]) -> Losses:
    """A model that remembers everything: it predicts the label of the nearest row, and how near that is shows."""

    def losses(rows: Floats, asked: NDArray[np.bool_]) -> Floats:
        squares = (rows**2).sum(axis=1)[:, None] + (features**2).sum(axis=1)[None, :] - 2 * rows @ features.T
        nearest = squares.argmin(axis=1)
        # An unsure model: the further its neighbour, the closer to one half is what it says.
        doubt = np.sqrt(np.maximum(squares[np.arange(len(rows)), nearest], 0.0))
        sure = 0.5 + 0.5 / (1 + doubt)
        return np.asarray(-np.log(np.where(labels[nearest] == asked, sure, 1 - sure + 1e-9)))

    return losses


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
