"""Exhibits: running time and failure that depend on one person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from audit.museum.exhibit import Piece
from tacit.audit.replay import ReplayReport
from tacit.audit.search import replay_neighbours
from tacit.mechanisms.laplace import Laplace

#: Pairs of rows after which a query is stopped, and the rows with which a person enters a join.
_MOST = 1_000
_ENTERING = 3


def join_until_stopped(rows: Sequence[int]) -> int | None:
    """Count the persons with two rows of a kind, for ε = 1, by a join of each person's rows with themselves.

    A query that takes too long is stopped, and how long it takes is up to the person with the most rows.
    """
    met, pairs = 0, 0
    for count in rows:
        pairs += max(count, 0) ** 2
        if pairs > _MOST:
            return None
        met += count > 1
    return int(Laplace(epsilon=1, l1_sensitivity=1).release(met))


def join_of_few(rows: Sequence[int]) -> int:
    """Corrected: a public number of rows of each person, so that the work of one person is known beforehand."""
    met = sum(min(max(count, 0), _ENTERING) > 1 for count in rows)
    return int(Laplace(epsilon=1, l1_sensitivity=1).release(met))


def _replayed(function: Callable[[Any], Any], database: Sequence[int]) -> Callable[[], Sequence[ReplayReport]]:
    return lambda: replay_neighbours(function, list(database))


_ROWS = [1, 2, 5, 40, 3]

PIECES = (
    Piece(
        name="join-until-stopped",
        title="one person decides whether there is an answer",
        story="Rows were multiplied by a join, and a query that took too long was stopped. The answer has noise; "
        "that there is one has none. A condition on one person in front of the join turns time, memory and errors "
        "into an exact statement about that person, at any epsilon.",
        seen_in="PINQ and Airavat (Haeberlen, Pierce and Narayan 2011, Differential Privacy Under Fire)",
        tool="replay",
        flawed=_replayed(join_until_stopped, _ROWS),
        mended=_replayed(join_of_few, _ROWS),
    ),
)
