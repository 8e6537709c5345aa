"""Columns that nothing reads are not computed, and marks and windows that nothing reads disappear.

What is left of a scan is the columns the question needs, so that ``SELECT *`` in a subquery asks no more than a list of
columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tacit.query.algebra import (
    Filter,
    Join,
    Mark,
    Project,
    Relation,
    Scan,
    UnionAll,
    UnitAggregate,
    UnitWindow,
)
from tacit.query.expressions import Expression, Reference, references
from tacit.query.final import Question
from tacit.query.rules.rewriting import final_over, moved, moved_call, moved_window

__all__ = ["prune_columns"]

#: A relation without some columns, and where the columns it kept now stand.
Pruned = tuple[Relation, dict[int, int]]


def prune_columns(question: Question) -> Question:
    """Keep the columns that keys and measurements read, and what those need."""
    final = question.final
    read = [part for measure in final.measures for part in (measure.argument, measure.where) if part is not None]
    needed = _slots([*read, *(key.expression for key in final.keys)])
    source, slots = _pruned(final.source, needed)
    return replace(question, final=final_over(final, source, moved(slots)))


def _slots(expressions: Iterable[Expression | None]) -> set[int]:
    return {part.slot for expression in expressions if expression is not None for part in references(expression)}


def _pruned(node: Relation, needed: set[int]) -> Pruned:
    wanted = needed if node.unit is None else needed | {node.unit}
    match node:
        case Scan():
            return _scan(node, wanted)
        case Filter():
            below, slots = _pruned(node.source, wanted | _slots([node.condition]))
            condition = moved(slots)(node.condition)
            return replace(node, fields=below.fields, unit=below.unit, source=below, condition=condition), slots
        case Project():
            return _project(node, wanted)
        case Join():
            return _join(node, wanted)
        case Mark():
            return _mark(node, wanted)
        case UnionAll() if all(isinstance(part, Project) for part in node.parts):
            kept = [_pruned(part, wanted | _units(node)) for part in node.parts]
            slots = kept[0][1]
            fields = tuple(node.fields[old] for old in sorted(slots))
            unit = None if node.unit is None else slots[node.unit]
            return replace(node, parts=tuple(part for part, _ in kept), fields=fields, unit=unit), slots
        case UnitAggregate():
            return _aggregate(node, wanted)
        case UnitWindow():
            return _window(node, wanted)
        case _:
            return node, {slot: slot for slot in range(len(node.fields))}


def _units(node: UnionAll) -> set[int]:
    return set() if node.unit is None else {node.unit}


def _scan(node: Scan, wanted: set[int]) -> Pruned:
    kept = sorted(wanted)
    slots = {old: new for new, old in enumerate(kept)}
    columns = tuple(node.columns[old] for old in kept if old < len(node.columns))
    unit = None if node.unit is None else slots[node.unit]
    return replace(node, fields=tuple(node.fields[old] for old in kept), unit=unit, columns=columns), slots


def _project(node: Project, wanted: set[int]) -> Pruned:
    kept = sorted(wanted)
    below, inner = _pruned(node.source, _slots(node.expressions[old] for old in kept))
    change = moved(inner)
    slots = {old: new for new, old in enumerate(kept)}
    unit = None if node.unit is None else slots[node.unit]
    fields = tuple(node.fields[old] for old in kept)
    expressions = tuple(change(node.expressions[old]) for old in kept)
    if [e.slot if isinstance(e, Reference) else None for e in expressions] == list(range(len(below.fields))):
        # Nothing is computed and nothing left out.
        return below, slots
    return replace(node, fields=fields, unit=unit, source=below, expressions=expressions), slots


def _join(node: Join, wanted: set[int]) -> Pruned:
    width = len(node.left.fields)
    both = width + len(node.right.fields)
    read = {slot for slot in wanted if slot < both} | _slots([node.condition])
    left, first = _pruned(node.left, {slot for slot in read if slot < width})
    right, second = _pruned(node.right, {slot - width for slot in read if slot >= width})
    slots = {**first, **{old + width: new + len(left.fields) for old, new in second.items()}}
    condition = moved(slots)(node.condition)
    if len(node.fields) > both:
        slots[both] = len(left.fields) + len(right.fields)
    fields = tuple(node.fields[old] for old, _ in sorted(slots.items(), key=lambda item: item[1]))
    unit = None if node.unit is None else slots[node.unit]
    return replace(node, fields=fields, unit=unit, left=left, right=right, condition=condition), slots


def _mark(node: Mark, wanted: set[int]) -> Pruned:
    width = len(node.source.fields)
    if width not in wanted:
        return _pruned(node.source, wanted)
    read = _slots([node.condition])
    below, first = _pruned(node.source, {slot for slot in wanted | read if slot < width})
    other, second = _pruned(node.other, {slot - width for slot in read if slot >= width})
    inner = {**first, **{old + width: new + len(below.fields) for old, new in second.items()}}
    condition = moved(inner)(node.condition)
    slots = {**first, width: len(below.fields)}
    fields = (*below.fields, node.fields[width])
    return replace(node, fields=fields, unit=below.unit, source=below, other=other, condition=condition), slots


def _aggregate(node: UnitAggregate, wanted: set[int]) -> Pruned:
    count = len(node.keys)
    kept = [index for index in range(len(node.calls)) if index + count in wanted]
    calls = [node.calls[index] for index in kept]
    read = [part for call in calls for part in (call.argument, call.where)]
    below, inner = _pruned(node.source, _slots([*node.keys, *read]))
    change = moved(inner)
    slots = {slot: slot for slot in range(count)} | {index + count: new + count for new, index in enumerate(kept)}
    fields = (*node.fields[:count], *(node.fields[index + count] for index in kept))
    keys = tuple(map(change, node.keys))
    made = tuple(moved_call(call, change) for call in calls)
    return replace(node, fields=fields, source=below, keys=keys, calls=made), slots


def _window(node: UnitWindow, wanted: set[int]) -> Pruned:
    width = len(node.source.fields)
    kept = [index for index in range(len(node.calls)) if index + width in wanted]
    passed = {slot for slot in wanted if slot < width}
    if not kept:
        return _pruned(node.source, passed)
    calls = [node.calls[index] for index in kept]
    parts = [p for c in calls for p in (c.argument, *c.partition, *(key.expression for key in c.order))]
    below, slots = _pruned(node.source, passed | _slots(parts))
    change = moved(slots)
    slots = {**slots, **{index + width: len(below.fields) + new for new, index in enumerate(kept)}}
    fields = (*below.fields, *(node.fields[index + width] for index in kept))
    made = tuple(moved_window(call, change) for call in calls)
    return replace(node, fields=fields, unit=below.unit, source=below, calls=made), slots
