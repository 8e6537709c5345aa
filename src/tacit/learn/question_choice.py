"""Private choice of the questions of a tree: the exponential mechanism among candidates drawn by chance.

A candidate is a feature and a bin. Its score is the length of the projection of residuals on the leaves that the
question makes of those there are, where λ rows without residuals are added to each leaf: then one row moves the score
of every candidate by no more than its own residual. ``boosting.proof.md`` has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np

from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn import release
from tacit.learn.binned import Floats
from tacit.learn.integer_rows import Integers
from tacit.learn.weights import SHARES
from tacit.noise import entropy
from tacit.noise.uniform import sample_below_many

#: Questions among which one is chosen.
CANDIDATES: Final = 128
#: Scores beyond are taken as this, in steps: below, floats are wrong by far less than a step.
_LARGEST_SCORE: Final = 1 << 40
#: Resolution of draws by weight.
_DRAWS: Final = 1 << 40


@dataclass(frozen=True, eq=False)
class TreeQuestion:
    """Is the bin of a feature, in an order of categories if they are such, at least this one?"""

    feature: int
    first: int
    ranks: Integers | None = None


def drawn_candidates(weights: Floats, count: int = CANDIDATES) -> list[tuple[int, int]]:
    """Features and bins by chance, in proportion to public weights; the same may come twice.

    Args:
        weights: by feature and by bin from the second on.
        count: how many.
    """
    places = np.maximum(np.rint(weights / weights.sum() * _DRAWS), 1).astype(np.int64).ravel().cumsum()
    drawn = sample_below_many(int(places[-1]), count, entropy.current())
    features, bins = np.divmod(np.searchsorted(places, drawn, side="right"), weights.shape[1])
    return list(zip(features.tolist(), (bins + 1).tolist(), strict=True))


def score_sensitivity(clip: int, leaves: int, outputs: int, relation: Relation) -> int:
    """Distance by which a row moves a score at most, in steps; rounding included.

    Args:
        clip: norm of residuals.
        leaves: of the tree with the question.
        outputs: scores per row.
        relation: which tables are neighbours.
    """
    return clip * (1 if relation is ADD_REMOVE else 2) + 2 + (leaves * outputs >> 10)


def question_scores(sums: Integers, candidates: list[tuple[int, int]], ridge: int) -> Integers:
    """Score of each candidate, in whole steps of residuals.

    Args:
        sums: exact sums by feature, leaf and bin of residuals and, last, of shares of rows; bins in the order that
            questions use.
        candidates: features and first bins.
        ridge: rows added to each leaf, times ``SHARES``.
    """
    # Sums of the bins from each on, and of all.
    above = sums[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    features, firsts = (np.array(each) for each in zip(*candidates, strict=True))
    yes = above[features, :, firsts]
    both = np.stack([yes, above[features, :, 0] - yes], axis=2)
    residuals, rows = both[..., :-1].astype(np.float64), both[..., -1].astype(np.float64)
    squares = (residuals**2).sum(axis=3) * (ridge / (rows + ridge))
    lengths = np.sqrt(squares.sum(axis=(1, 2)))
    return cast("Integers", np.floor(np.minimum(lengths, float(_LARGEST_SCORE))).astype(np.int64))


def chosen_question(
    sums: Integers, candidates: list[tuple[int, int]], ridge: float, epsilon: Fraction, sensitivity: int
) -> tuple[int, int]:
    """A candidate, better ones exponentially more often; ``ridge`` is a public number of rows."""
    scores = question_scores(sums, candidates, max(round(ridge * SHARES), SHARES))
    return candidates[release.release_choice(scores, sensitivity, epsilon)]
