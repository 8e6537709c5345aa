"""Plans of parts once something is found: released values, AUTO bounds, AUTO limits; noise and price stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from tacit.core.errors import InternalError
from tacit.query.planning import auto_limits
from tacit.query.planning.auto_bounds import Bounds, Found, bounded, find, sought
from tacit.query.planning.auto_limits import FoundLimits, limited
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.planning.plan import Plan, together
from tacit.query.planning.pricing import buy_rest, check_charge
from tacit.query.query import Query
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, ReleasedTable, ReleasedValue, bottom_up
from tacit.query.relational.expressions import literal
from tacit.query.types import Value

#: The error that noise exceeds with this probability is compared with what AUTO limits leave out.
_COMPARED: Final = Fraction(1, 20)


def with_values(plan: Plan, released: Mapping[str, Sequence[Sequence[Value | None]]]) -> Plan:
    """The plan of a part, once what its rows are compared or joined with is released; noise and price stay.

    Args:
        plan: of the part.
        released: by key the rows that were released; a value is that of the first row, NULL where there is none.
    """

    def known(node: RelationNode) -> RelationNode:
        if not isinstance(node, ReleasedValue):
            return node
        rows, kinds = released[node.key], [column.type for column in node.fields]
        if not isinstance(node, ReleasedTable):
            rows = rows[:1] or [[None]]
        elif len(rows) > len(node.rows):
            raise InternalError("more rows were released than were planned")
        return ownership.constants([[*map(literal, row, kinds)] for row in rows], node.fields)

    source = bottom_up(plan.final.source, known)
    return replace(plan, query=replace(plan.query, final=replace(plan.final, source=source)))


def with_parts(plan: Plan, parts: Sequence[Plan]) -> Plan:
    """The plan of a whole query, its parts as they ran; the price stays what it was."""
    if len(parts) != len(plan.parts):
        raise InternalError("a query has other parts than its plan")
    if len(parts) == 1:
        return parts[0]
    first, *others = parts
    query = replace(plan.query, final=first.final, others=tuple(other.final for other in others))
    event = together([part.event for part in parts], plan.relation)
    check_charge(event, plan.guarantee)
    return replace(first, query=query, event=event, others=tuple(others))


def with_bounds(plan: Plan, bounds: Sequence[Bounds]) -> Plan:
    """The plan of the rest of a query, once its AUTO bounds are found; the price stays what it was."""
    query = replace(plan.query, final=bounded(plan.final, bounds))
    found = tuple(Found(value.name, *pair) for value, pair in zip(sought(plan.final), bounds, strict=True))
    return replace(_priced_again(plan, query), found=found)


def with_limits(plan: Plan, found: FoundLimits) -> Plan:
    """The plan of the rest of a query, once its AUTO limits are found; the price stays what it was."""
    query = replace(plan.query, final=limited(plan.final, found))
    return replace(_priced_again(plan, query), limits=found)


def with_found(plan: Plan, noisy: Sequence[Any], laws: Sequence[NoiseLaw]) -> Plan:
    """The plan of the rest of a query, from what the first of its searches released."""
    if plan.priced.limits is None or plan.limits is not None:
        return with_bounds(plan, find(plan.final, noisy, laws))
    # Noise is compared at one fixed confidence, so that an answer which is looked at again has the same limits.
    return with_limits(plan, auto_limits.find_limits(plan.final, plan.priced, noisy, laws, _COMPARED))


def _priced_again(plan: Plan, query: Query) -> Plan:
    """The plan with what was found in its query, at the same price."""
    bought = plan.priced
    if bought.asked is None:
        raise InternalError("there is nothing AUTO to be found")
    rest = buy_rest(query.final, plan.relation, bought.budget, bought.asked, bought.first, bought.limits, bought.sets)
    priced = replace(rest, bias=bought.bias)
    event = priced.event(plan.relation)
    check_charge(event, plan.guarantee)
    return replace(plan, query=query, priced=priced, event=event)
