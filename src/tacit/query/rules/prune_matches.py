"""Of a public relation beside released rows, only the columns that later steps read are fetched.

A public value that nothing reads is not fetched at all.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.query.question import Derive, Extend, Keep, Match, Question, Regroup, Sort, Step, Unique, types_after
from tacit.query.relational.algebra import Change, JoinKind, SortKey, moved, moved_call, moved_window, row_bounds
from tacit.query.rules.prune_columns import Pruned, pruned, slots_read

__all__ = ["prune_matches"]


def prune_matches(question: Question) -> Question:
    """Leave out columns of public relations, and move the slots behind them."""
    if not question.reads:
        return question
    types = [question.final.types]
    for step in question.steps:
        types.append(types_after(step, types[-1]))
    widths = [len(each) for each in types]
    needed = _needed(question.steps, widths)
    slots = {slot: slot for slot in range(widths[0])}
    now = widths[0]
    steps: list[Step] = []
    for index, step in enumerate(question.steps):
        width, after = widths[index], needed[index + 1]
        if isinstance(step, Match):
            kept = _kept(step, width, after | slots_read([step.condition]))
            if kept is None:
                continue
            slots |= {width + old: now + new for old, new in kept[1].items()}
            now += len(kept[0].fields)
            steps.append(Match(kept[0], step.kind, moved(slots)(step.condition)))
            continue
        steps.append(_moved(step, moved(slots)))
        if isinstance(step, Extend):
            slots |= {width + place: now + place for place in range(len(step.calls))}
            now += len(step.calls)
        elif isinstance(step, Derive | Regroup):
            now = widths[index + 1]
            slots = {slot: slot for slot in range(now)}
    return replace(question, steps=tuple(steps))


def _kept(step: Match, width: int, read: set[int]) -> Pruned | None:
    """The relation with what is read of it; None where nothing is and every released row stays once anyway."""
    wanted = {slot - width for slot in read if slot >= width}
    if not wanted and step.kind is JoinKind.LEFT and row_bounds(step.relation)[1] in (0, 1):
        return None
    return pruned(step.relation, wanted)


def _needed(steps: tuple[Step, ...], widths: list[int]) -> list[set[int]]:
    """For each place between steps, the columns that something later reads; all of them at the end."""
    needed = [set(range(widths[-1]))]
    for step, width in zip(reversed(steps), reversed(widths[:-1]), strict=True):
        after = needed[-1]
        passed = {slot for slot in after if slot < width}
        match step:
            case Derive():
                needed.append(slots_read(step.expressions))
            case Regroup():
                read = [part for call in step.calls for part in (call.argument, call.where)]
                needed.append(slots_read([*step.keys, *read]))
            case Keep():
                needed.append(passed | slots_read([step.condition]))
            case Sort():
                needed.append(passed | slots_read(key.expression for key in step.keys))
            case Extend():
                parts = [p for c in step.calls for p in (c.argument, *c.partition, *(k.expression for k in c.order))]
                needed.append(passed | slots_read(parts))
            case Match():
                needed.append(passed | {slot for slot in slots_read([step.condition]) if slot < width})
            case Unique():
                needed.append(set(range(width)))
            case _:
                needed.append(passed)
    return needed[::-1]


def _moved(step: Step, change: Change) -> Step:
    match step:
        case Derive():
            return Derive(tuple(map(change, step.expressions)))
        case Regroup():
            return Regroup(tuple(map(change, step.keys)), tuple(moved_call(call, change) for call in step.calls))
        case Keep():
            return Keep(change(step.condition))
        case Sort():
            return Sort(tuple(SortKey(change(k.expression), k.descending, k.nulls_first) for k in step.keys))
        case Extend():
            return Extend(tuple(moved_window(call, change) for call in step.calls))
        case _:
            return step
