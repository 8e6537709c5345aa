"""Private choice of the questions of a tree: the exponential mechanism among candidates drawn by chance.

A candidate is a feature and a bin. Its score in a node is the length of the projection of the node's residuals on the
two sides of the question, where λ rows without residuals are added to each side: then one row moves the score of every
candidate by no more than its own residual. A row is in one node, so the choices of all nodes of a level cost no more
than one. ``boosting.proof.md`` has the proof.
"""

from __future__ import annotations

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
CANDIDATES: Final = 256
#: Scores beyond are taken as this, in steps: below, floats are wrong by far less than a step.
_LARGEST_SCORE: Final = 1 << 40
#: Resolution of draws by weight.
_DRAWS: Final = 1 << 40


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


def score_sensitivity(clip: int, outputs: int, relation: Relation) -> int:
    """Distance by which a row moves the scores of all nodes together at most, in steps; rounding included.

    Args:
        clip: norm of residuals.
        outputs: scores per row.
        relation: which tables are neighbours.
    """
    return (clip + 1 + (2 * outputs + 12 >> 11)) * (1 if relation is ADD_REMOVE else 2)


def question_scores(sums: Integers, candidates: list[tuple[int, int]], ridge: int) -> Integers:
    """Score of each candidate in each node, in whole steps of residuals; one line per node.

    Args:
        sums: exact sums by feature, node and bin of residuals and, last, of shares of rows; bins in the order that
            questions use.
        candidates: features and first bins.
        ridge: rows added to each side of a question, times ``SHARES``.
    """
    # Sums of the bins from each on, and of all.
    above = sums[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
    features, firsts = (np.array(each) for each in zip(*candidates, strict=True))
    yes = above[features, :, firsts]
    both = np.stack([yes, above[features, :, 0] - yes], axis=2)
    residuals, rows = both[..., :-1].astype(np.float64), both[..., -1].astype(np.float64)
    squares = (residuals**2).sum(axis=3) * (ridge / (rows + ridge))
    lengths = np.sqrt(squares.sum(axis=2)).T
    return cast("Integers", np.floor(np.minimum(lengths, float(_LARGEST_SCORE))).astype(np.int64))


def chosen_questions(
    sums: Integers, candidates: list[tuple[int, int]], ridge: float, epsilon: Fraction, sensitivity: int
) -> list[tuple[int, int]]:
    """A candidate for each node, better ones exponentially more often; ``ridge`` is a public number of rows."""
    scores = question_scores(sums, candidates, max(round(ridge * SHARES), SHARES))
    return [candidates[place] for place in release.release_choices(scores, sensitivity, epsilon)]
