"""Parts of a query in turn: what rows are compared or joined with is released before they are read.

A value, and a row of values, is a function of released cells alone, so that it is public once its parts are released.
It is put into the relation of the part that reads it as constants. That part's keys, bounds, noise and price were fixed
before; only the rows it reads depend on the values, as they would on numbers that the analyst types after having seen
the first answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tacit.core.errors import InternalError
from tacit.query.planning.found_parts import with_values
from tacit.query.planning.plan import Plan
from tacit.query.postprocess.result import finish
from tacit.query.query import Append, Combine, Query
from tacit.query.relational.algebra import released_values
from tacit.query.release import NoisyRelease, together
from tacit.query.types import Value

#: Intervals decide nothing in a value; the resolver refuses them there.
_ANY: Final = Fraction(1, 2)


def in_turn(plan: Plan, make: Callable[[int, Plan], NoisyRelease]) -> NoisyRelease:
    """The release of a whole query.

    Args:
        plan: of the query.
        make: makes or reads the release of a part: of its number, and of its plan with the values that it reads.
    """
    made: dict[int, NoisyRelease] = {}
    queries, parts = dict(plan.query.values), plan.parts
    waiting = {number: released_values(part.final.source) for number, part in enumerate(parts)}
    while waiting:
        ready = [n for n, keys in waiting.items() if all(queries[key].parts_read <= made.keys() for key in keys)]
        if not ready:
            raise InternalError("parts of a query wait for each other")
        number = ready[0]
        values = {key: _rows(queries[key], made) for key in waiting.pop(number)}
        made[number] = make(number, with_values(parts[number], values) if values else parts[number])
    return together(plan, [made[number] for number in range(len(parts))])


def _rows(query: Query, made: Mapping[int, NoisyRelease]) -> Sequence[Sequence[Value | None]]:
    """The rows of a query whose parts are released."""
    read = sorted(query.parts_read)
    first, *others = (made[number] for number in read)
    released = first
    if others:
        whole = replace(first.plan, others=tuple(other.plan for other in others))
        released = replace(first, plan=whole, others=tuple(others))
    return finish(_renumbered(query, read), released, confidence=_ANY).values


def _renumbered(query: Query, read: list[int]) -> Query:
    steps = tuple(
        replace(step, other=_renumbered(step.other, read)) if isinstance(step, Combine | Append) else step
        for step in query.steps
    )
    return replace(query, steps=steps, part=read.index(query.part))
