"""Rewrite rules, each from a query to a query that asks the same.

Rules bring queries that mean the same to the same form, so that a repeated one is recognised, and make the engine's
work smaller. None may change an answer, or raise a sensitivity or a cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from tacit.query import limits
from tacit.query.planning.measures import COUNT_ROWS, COUNT_VALUES, Measure, MeasureKind
from tacit.query.query import (
    Append,
    Combine,
    Derive,
    Extend,
    FinalAggregation,
    Match,
    Query,
    Regroup,
    Sort,
    Step,
    Totals,
    Unique,
    final_over,
    types_after,
)
from tacit.query.relational.algebra import (
    ExistsColumn,
    FilterRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    SortKey,
    UnionAll,
    UnitAggregate,
    UnitWindow,
    bottom_up,
    moved,
    row_bounds,
    substituted,
)
from tacit.query.relational.expressions import (
    TRUE,
    Expression,
    Reference,
    depth,
    references,
    size,
    text_of,
)
from tacit.query.relational.functions import call
from tacit.query.relational.functions.registry import all_of
from tacit.query.relational.narrowing import conjuncts
from tacit.query.types import Domain

# -- projections
#
# Projections are inlined.
#
# ``SELECT AVG(x) FROM (SELECT cost * 2 AS x FROM visits)`` asks the same as ``SELECT AVG(cost * 2) FROM visits``. Two
# projections in a row become one, a filter over a projection moves below it, and the topmost projection is substituted
# into the final aggregation. Where substitution would make an expression long, the projection stays.


def inline_projections(query: Query) -> Query:
    """Inline projections wherever the expressions stay short."""
    final = query.final
    final = replace(final, source=bottom_up(final.source, _inlined))
    while isinstance(final.source, ProjectColumns) and _is_short(_expressions(final), final.source):
        final = final_over(final, final.source.source, substituted(final.source.expressions))
    return replace(query, final=final)


def _inlined(node: RelationNode) -> RelationNode:
    if (
        isinstance(node, FilterRows)
        and isinstance(node.source, ProjectColumns)
        and _is_short([node.condition], node.source)
    ):
        below, above = node.source.source, node.source
        condition = substituted(above.expressions)(node.condition)
        shape = (below.fields, below.unit, below.population, below.max_groups, below.max_rows, node.weight)
        return _inlined(replace(above, source=_inlined(FilterRows(*shape, below, condition))))
    if (
        isinstance(node, ProjectColumns)
        and isinstance(node.source, ProjectColumns)
        and _is_short(node.expressions, node.source)
    ):
        change = substituted(node.source.expressions)
        return replace(node, source=node.source.source, expressions=tuple(map(change, node.expressions)))
    return node


def _expressions(final: FinalAggregation) -> list[Expression]:
    read = [part for measure in final.measures for part in (measure.argument, measure.where) if part is not None]
    return [*read, *(key.expression for key in final.keys)]


def _is_short(readers: Iterable[Expression], below: ProjectColumns) -> bool:
    above = list(readers)
    longest = max((size(part) for part in below.expressions), default=1)
    deepest = max((depth(part) for part in below.expressions), default=1)
    return (
        longest * sum(size(reader) for reader in above) <= limits.MAX_EXPRESSION
        and deepest + max((depth(reader) for reader in above), default=0) <= limits.MAX_DEPTH
    )


# -- filters
#
# Filters over filters become one filter, with each condition once and in a canonical order.
#
# ``WHERE a AND b`` and ``WHERE b AND a`` ask the same.


def merge_filters(query: Query) -> Query:
    """Merge filters that follow one another into one."""
    final = query.final
    return replace(query, final=replace(final, source=bottom_up(final.source, _merged)))


def _merged(node: RelationNode) -> RelationNode:
    if not isinstance(node, FilterRows):
        return node
    parts = list(conjuncts(node.condition))
    below = node.source
    if isinstance(below, FilterRows):
        parts.extend(conjuncts(below.condition))
        below = below.source
    ordered = [part for part in sorted(set(parts), key=text_of) if part != TRUE]
    return replace(node, source=below, condition=all_of(ordered)) if ordered else below


# -- counts
#
# A count of values that are never NULL is a count of rows, so that both are one measurement and charged once.
#
# ``SELECT COUNT(*), AVG(x)`` with ``x`` declared without NULLs needs two measurements, not three; so does one
# whose FILTER says ``x IS NOT NULL``. Should a NULL occur after all, it is counted like any row; what one unit can add
# stays the same.


def count_rows(query: Query) -> Query:
    """Replace VALUES by ROWS where the argument is not nullable, and merge measurements that became equal."""
    final = query.final
    wanted = [_simpler(measure) for measure in final.measures]
    measures = tuple(dict.fromkeys(wanted))
    place = [measures.index(measure) for measure in wanted]
    aggregates = tuple(
        replace(
            aggregate,
            measures=tuple(place[index] for index in aggregate.measures),
            kind=COUNT_ROWS
            if aggregate.kind == COUNT_VALUES and wanted[aggregate.measures[0]].kind is MeasureKind.ROWS
            else aggregate.kind,
        )
        for aggregate in final.aggregates
    )
    return replace(query, final=replace(final, measures=measures, aggregates=aggregates))


def _simpler(measure: Measure) -> Measure:
    if measure.kind is MeasureKind.VALUES and measure.argument is not None:
        argument, where = measure.argument, measure.where
        # Without a WHERE, no condition says that the argument is not NULL.
        if not argument.nullable or (where is not None and call("not", call("is_null", argument)) in conjuncts(where)):
            return replace(measure, kind=MeasureKind.ROWS, argument=None)
    return measure


# -- keys
#
# Group keys in one order, so that ``GROUP BY a, b`` and ``GROUP BY b, a`` are one release, charged once.
#
# Both have the same groups, and the same noise on each. The order of columns and rows is restored by steps on released
# cells, which are free.


def order_keys(query: Query) -> Query:
    """Sort the keys by their text; then restore the order of columns, and of rows by the keys as they were written."""
    final = query.final
    order = sorted(range(len(final.keys)), key=lambda index: text_of(final.keys[index].expression))
    if order == list(range(len(order))):
        return query
    ordered = replace(final, keys=tuple(final.keys[index] for index in order))
    totals = query.totals
    if totals is not None:
        # Totals have columns and rows in the order as written, whatever the order of the cells.
        moved = replace(totals, keys=tuple(order.index(index) for index in totals.keys))
        return replace(query, final=ordered, steps=(moved, *query.steps[1:]))
    rows = Sort(tuple(SortKey(_column(final, slot, slot), False, False) for slot in range(len(order))))
    places = {old: new for new, old in enumerate(order)}
    restored = Derive(tuple(_column(final, slot, places.get(slot, slot)) for slot in range(len(final.types))))
    return replace(query, final=ordered, steps=(restored, rows, *query.steps))


def _column(final: FinalAggregation, slot: int, place: int) -> Reference:
    """Return a reference to column ``slot`` of the released cells, which now stands at slot ``place``."""
    known = final.keys[slot].expression.domain if slot < len(final.keys) else Domain()
    return Reference(final.types[slot], known, place, "")


# -- columns
#
# Columns that nothing reads are not computed, and marks and windows that nothing reads disappear.
#
# A scan keeps the columns that the query needs, so that ``SELECT *`` in a subquery is the same as a list of columns. Of
# a public relation joined with released rows, only the columns that later steps read are fetched; a public value that
# nothing reads is not fetched at all.

#: A relation with columns pruned, and the new slot of each column kept, by its old slot.
Pruned = tuple[RelationNode, dict[int, int]]


def prune_columns(query: Query) -> Query:
    """Drop the columns that neither keys nor measurements, nor the columns these need, read."""
    final = query.final
    read = [part for measure in final.measures for part in (measure.argument, measure.where) if part is not None]
    needed = slots_read([*read, *(key.expression for key in final.keys)])
    source, slots = pruned(final.source, needed)
    if source is final.source:
        return query
    return replace(query, final=final_over(final, source, moved(slots)))


def slots_read(expressions: Iterable[Expression | None]) -> set[int]:
    """Return the slots that the expressions read."""
    return {part.slot for expression in expressions if expression is not None for part in references(expression)}


def pruned(node: RelationNode, needed: set[int]) -> Pruned:
    """Return the relation with the columns of ``needed``, its unit, and as few others as its node allows."""
    wanted = needed if node.unit is None else needed | {node.unit}
    match node:
        case Scan():
            kept = sorted(wanted)
            slots = {old: new for new, old in enumerate(kept)}
            if len(kept) == len(node.fields):
                return node, slots
            columns = tuple(node.columns[old] for old in kept if old < len(node.columns))
            unit = None if node.unit is None else slots[node.unit]
            return replace(node, fields=tuple(node.fields[old] for old in kept), unit=unit, columns=columns), slots
        case FilterRows():
            below, slots = pruned(node.source, wanted | slots_read([node.condition]))
            condition = moved(slots)(node.condition)
            return replace(node, fields=below.fields, unit=below.unit, source=below, condition=condition), slots
        case ProjectColumns():
            kept = sorted(wanted)
            below, inner = pruned(node.source, slots_read(node.expressions[old] for old in kept))
            expressions = tuple(moved(inner)(node.expressions[old]) for old in kept)
            slots = {old: new for new, old in enumerate(kept)}
            if [e.slot if isinstance(e, Reference) else None for e in expressions] == list(range(len(below.fields))):
                # Nothing is computed and nothing left out.
                return below, slots
            unit = None if node.unit is None else slots[node.unit]
            fields = tuple(node.fields[old] for old in kept)
            return replace(node, fields=fields, unit=unit, source=below, expressions=expressions), slots
        case Join():
            return _join(node, wanted)
        case ExistsColumn() if len(node.source.fields) in wanted:
            width, read = len(node.source.fields), slots_read([node.condition])
            below, first = pruned(node.source, {slot for slot in wanted | read if slot < width})
            other, second = pruned(node.other, {slot - width for slot in read if slot >= width})
            inner = {**first, **{old + width: new + len(below.fields) for old, new in second.items()}}
            condition = moved(inner)(node.condition)
            fields = (*below.fields, node.fields[width])
            made = replace(node, fields=fields, unit=below.unit, source=below, other=other, condition=condition)
            return made, {**first, width: len(below.fields)}
        case UnionAll() if all(isinstance(part, ProjectColumns) for part in node.parts):
            parts = [pruned(part, wanted) for part in node.parts]
            slots = parts[0][1]
            fields = tuple(node.fields[old] for old in sorted(slots))
            unit = None if node.unit is None else slots[node.unit]
            return replace(node, parts=tuple(part for part, _ in parts), fields=fields, unit=unit), slots
        case UnitAggregate():
            count = len(node.keys)
            kept = [index for index in range(len(node.calls)) if index + count in wanted]
            calls = [node.calls[index] for index in kept]
            below, inner = pruned(node.source, slots_read([*node.keys, *(part for c in calls for part in c.held())]))
            change = moved(inner)
            slots = {slot: slot for slot in range(count)} | {i + count: new + count for new, i in enumerate(kept)}
            fields = (*node.fields[:count], *(node.fields[index + count] for index in kept))
            keys, made_calls = tuple(map(change, node.keys)), tuple(each.changed(change) for each in calls)
            return replace(node, fields=fields, source=below, keys=keys, calls=made_calls), slots
        case ExistsColumn():
            return pruned(node.source, wanted)
        case UnitWindow():
            return _window(node, wanted)
        case _:
            return node, {slot: slot for slot in range(len(node.fields))}


def _join(node: Join, wanted: set[int]) -> Pruned:
    width = len(node.left.fields)
    both = width + len(node.right.fields)
    fewest, most = row_bounds(node.right)
    # Whether every left row comes out exactly once, whatever the tables hold, as in a join with one public value.
    once = node.kind is JoinKind.LEFT or (node.kind is JoinKind.INNER and fewest == 1 and node.condition == TRUE)
    if once and most in (0, 1) and all(slot < width for slot in wanted):
        return pruned(node.left, wanted)
    read = {slot for slot in wanted if slot < both} | slots_read([node.condition])
    left, first = pruned(node.left, {slot for slot in read if slot < width})
    right, second = pruned(node.right, {slot - width for slot in read if slot >= width})
    slots = {**first, **{old + width: new + len(left.fields) for old, new in second.items()}}
    condition = moved(slots)(node.condition)
    if len(node.fields) > both:
        slots[both] = len(left.fields) + len(right.fields)
    fields = tuple(node.fields[old] for old, _ in sorted(slots.items(), key=lambda item: item[1]))
    unit = None if node.unit is None else slots[node.unit]
    return replace(node, fields=fields, unit=unit, left=left, right=right, condition=condition), slots


def _window(node: UnitWindow, wanted: set[int]) -> Pruned:
    width = len(node.source.fields)
    kept = [slot - width for slot in sorted(wanted) if slot >= width]
    passed = {slot for slot in wanted if slot < width}
    if not kept:
        return pruned(node.source, passed)
    calls = [node.calls[index] for index in kept]
    below, slots = pruned(node.source, passed | slots_read(part for call in calls for part in call.held()))
    change = moved(slots)
    slots = {**slots, **{index + width: len(below.fields) + new for new, index in enumerate(kept)}}
    fields = (*below.fields, *(node.fields[index + width] for index in kept))
    made = tuple(call.changed(change) for call in calls)
    return replace(node, fields=fields, unit=below.unit, source=below, calls=made), slots


# Public relations joined with released rows.


def prune_matches(query: Query) -> Query:
    """Drop columns of public relations that no step reads, and renumber the slots after them."""
    if not query.reads:
        return query
    types = [query.final.types]
    for step in query.steps:
        types.append(types_after(step, types[-1]))
    widths = [len(each) for each in types]
    needed = _needed(query.steps, widths)
    slots = {slot: slot for slot in range(widths[0])}
    now = widths[0]
    steps: list[Step] = []
    for index, step in enumerate(query.steps):
        width, after = widths[index], needed[index + 1]
        if isinstance(step, Match):
            read = {slot - width for slot in after | slots_read([step.condition]) if slot >= width}
            if not read and step.kind is JoinKind.LEFT and row_bounds(step.relation)[1] in (0, 1):
                # Nothing is read, and every released row stays once anyway.
                continue
            kept = pruned(step.relation, read)
            slots |= {width + old: now + new for old, new in kept[1].items()}
            now += len(kept[0].fields)
            steps.append(Match(kept[0], step.kind, moved(slots)(step.condition)))
            continue
        if isinstance(step, Combine):
            added = len(step.other.columns)
            slots |= {width + place: now + place for place in range(added)}
            now += added
            steps.append(replace(step, condition=moved(slots)(step.condition)))
            continue
        steps.append(step.changed(moved(slots)))
        if isinstance(step, Extend):
            slots |= {width + place: now + place for place in range(len(step.calls))}
            now += len(step.calls)
        elif isinstance(step, Totals | Derive | Regroup):
            now = widths[index + 1]
            slots = {slot: slot for slot in range(now)}
    return replace(query, steps=tuple(steps))


def _needed(steps: tuple[Step, ...], widths: list[int]) -> list[set[int]]:
    """Return, for each position between steps, the slots that later steps read; at the end, all slots."""
    needed = [set(range(widths[-1]))]
    for step, width in zip(reversed(steps), reversed(widths[:-1]), strict=True):
        after = needed[-1]
        match step:
            case Derive() | Regroup():
                needed.append(slots_read(step.held()))
            case Totals() | Unique() | Append():
                needed.append(set(range(width)))
            case _:
                needed.append({slot for slot in after | slots_read(step.held()) if slot < width})
    return needed[::-1]


# -- all rules

Rule = Callable[[Query], Query]
#: In the order of application: first layers are removed, then everything that the removal makes superfluous.
RULES: Final[tuple[Rule, ...]] = (
    inline_projections,
    prune_matches,
    prune_columns,
    merge_filters,
    count_rows,
    order_keys,
)


def apply_rules(query: Query) -> Query:
    """Apply all rules to the query and to every query that its steps read."""
    steps = tuple(
        replace(step, other=apply_rules(step.other)) if isinstance(step, Combine | Append) else step
        for step in query.steps
    )
    query = replace(query, steps=steps)
    for rule in RULES:
        query = rule(query)
    return query
