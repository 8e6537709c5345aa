"""Audits over many pairs of neighbours with both tools.

A replay is cheap, so every pair has its own. For a lower bound there is a short look at each pair and a long one at
the worst. The short looks only choose a pair. The reported bound comes from fresh runs on that pair alone, so the
confidence is that of :func:`~tacit.audit.lower_bound.lower_bound`, however many pairs were looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.audit.lower_bound import LowerBound, lower_bound
from tacit.audit.neighbours import Neighbours, propose_neighbours
from tacit.audit.output_features import Observer
from tacit.audit.replay import ReplayReport, replay
from tacit.core.errors import InputError
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import Number
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.base import Mechanism


@dataclass(frozen=True)
class FoundBound:
    """The bound, and the neighbours it was found on.

    Args:
        bound: confirmed on fresh runs.
        neighbours: of all that were tried, those that looked worst.
        tried: how many pairs were looked at.
    """

    bound: LowerBound
    neighbours: Neighbours
    tried: int

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, at the confidence stated."""
        return self.bound.violated

    def __str__(self) -> str:
        return f"{self.bound} The neighbours, the worst of {self.tried} pairs: {self.neighbours.how}."


def search_lower_bound(
    mechanism: Mechanism | Observer,
    database: Any,
    *,
    relation: Relation | str = ADD_REMOVE,
    unit: Hashable | None = None,
    neighbours: Sequence[Neighbours] | None = None,
    delta: Number = 0,
    claimed: Number | Guarantee | None = None,
    samples: int = 20_000,
    confidence: float = 0.99,
    look: int = 400,
    progress: Callable[[int, int], None] | None = None,
) -> FoundBound:
    """As :func:`~tacit.audit.lower_bound.lower_bound`, with neighbours found automatically.

    Args:
        mechanism: as there; it takes a database like ``database``.
        database: from which neighbours are made.
        relation: what neighbours are.
        unit: the column that says whose a row is, if units have several rows.
        neighbours: pairs to try instead of those that :func:`~tacit.audit.neighbours.propose_neighbours` makes.
        delta: at which the loss is bounded.
        claimed: the ε, or the guarantee, under test.
        samples: runs on each neighbour of the pair that is looked at closely.
        confidence: that the bound is true.
        look: runs on each neighbour of every pair in the short looks.
        progress: called with the runs done and the runs in all.
    """
    pairs = list(neighbours) if neighbours is not None else propose_neighbours(database, relation=relation, unit=unit)
    if not pairs:
        raise InputError("database", "is empty; give one record at least, or neighbours of your own")
    total = look * len(pairs) + samples

    def shown(before: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress(before + done, total)

    def loss(place: int) -> float:
        pair = pairs[place]
        found = lower_bound(mechanism, pair.first, pair.second, delta=delta, samples=look, progress=shown(look * place))
        return found.epsilon

    losses = [loss(i) for i in range(len(pairs))]
    worst = pairs[max(range(len(pairs)), key=losses.__getitem__)]
    bound = lower_bound(
        mechanism,
        worst.first,
        worst.second,
        delta=delta,
        claimed=claimed,
        samples=samples,
        confidence=confidence,
        progress=shown(look * len(pairs)),
    )
    return FoundBound(bound, worst, len(pairs))


def replay_neighbours(
    function: Callable[[Any], Any],
    database: Any,
    *,
    relation: Relation | str = ADD_REMOVE,
    unit: Hashable | None = None,
    neighbours: Sequence[Neighbours] | None = None,
    claimed: Number | Guarantee | None = None,
    see: Callable[[Any], Any] | None = None,
) -> list[ReplayReport]:
    """:func:`~tacit.audit.replay.replay` on every pair of neighbours that is proposed for a database.

    Args:
        function: the code under test; takes a database.
        database: from which neighbours are made.
        relation: what neighbours are.
        unit: the column that says whose a row is, if units have several rows.
        neighbours: pairs to try instead.
        claimed: what all that happens inside costs.
        see: all that is visible of what the function returns; left out, all of it.
    """
    pairs = list(neighbours) if neighbours is not None else propose_neighbours(database, relation=relation, unit=unit)
    return [replay(function, each.first, each.second, claimed=claimed, see=see, how=each.how) for each in pairs]
