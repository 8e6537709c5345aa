"""Trees of questions about bins, and the leaf of a row: by integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

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


#: Questions of one level of a tree, counted from its root: one that all of its nodes ask, or one of each node.
Level = tuple[TreeQuestion, ...]
Levels = tuple[Level, ...]


@dataclass(frozen=True, eq=False)
class DecisionTree:
    """A tree all of whose paths have the same length.

    Attributes:
        levels: questions from the root on.
        values: of the leaves, by the binary number of the answers; one column per output.
    """

    levels: Levels
    values: Floats

    def leaves(self, places: Integers) -> Integers:
        """The leaf of each row."""
        return leaves_of(places, self.levels)

    def contrasts(self, features: int) -> Floats:
        """By feature, how far leaves on both sides of its questions differ: mean squares, summed over levels."""
        found = np.zeros(features)
        for depth, level in enumerate(self.levels):
            sides = self.values.reshape(1 << depth, 2, -1)
            apart = ((sides[:, 1] - sides[:, 0]) ** 2).mean(axis=1) / (1 << depth)
            for node, each in enumerate(apart.tolist()):
                found[level[node % len(level)].feature] += each
        return found


def leaves_of(places: Integers, levels: Levels) -> Integers:
    """The leaf of each row: the binary number of its answers, by integers."""
    leaves = np.zeros(len(places), dtype=np.int64)
    for level in levels:
        leaves = 2 * leaves + _answers(places, level, leaves)
    return leaves


def _answers(places: Integers, level: Level, nodes: Integers) -> Integers:
    """1 for each row that answers the question of its node with yes, else 0."""
    if len(level) == 1:
        return cast("Integers", (level[0].asked(places[:, level[0].feature]) >= level[0].first).astype(np.int64))
    asked = places[np.arange(len(places)), np.array([each.feature for each in level])[nodes]]
    for node, each in enumerate(level):
        if each.ranks is not None:
            here = nodes == node
            asked[here] = each.asked(asked[here])
    firsts = np.array([each.first for each in level], dtype=np.int64)[nodes]
    return cast("Integers", (asked >= firsts).astype(np.int64))
