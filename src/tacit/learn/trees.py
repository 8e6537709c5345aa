"""Trees of questions about bins, and the leaf of a row: by integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.learn.binned import Floats
from tacit.learn.integer_rows import Integers


@dataclass(frozen=True, eq=False)
class TreeQuestion:
    """Is the bin of a feature, in an order of categories if they are such, at least this one?"""

    feature: int
    first: int
    ranks: Integers | None = None

    def asked(self, bins: Integers) -> Integers:
        """The places of bins in the order that the question uses."""
        return bins if self.ranks is None else self.ranks[bins]


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """A tree all of whose paths have the same length.

    Attributes:
        questions: from the root on, each asked of all rows.
        values: of the leaves, by the binary number of the answers; one column per output.
    """

    questions: tuple[TreeQuestion, ...]
    values: Floats

    def leaves(self, places: Integers) -> Integers:
        """The leaf of each row."""
        return leaves_of(places, self.questions)

    def contrasts(self, features: int) -> Floats:
        """By feature, how far leaves on both sides of its questions differ: mean squares, summed over levels."""
        found = np.zeros(features)
        for depth, question in enumerate(self.questions):
            sides = self.values.reshape(1 << depth, 2, -1)
            found[question.feature] += ((sides[:, 1] - sides[:, 0]) ** 2).mean()
        return found


def leaves_of(places: Integers, questions: tuple[TreeQuestion, ...]) -> Integers:
    """The leaf of each row: the binary number of its answers, by integers."""
    leaves = np.zeros(len(places), dtype=np.int64)
    for each in questions:
        leaves = 2 * leaves + (each.asked(places[:, each.feature]) >= each.first)
    return leaves
