"""Group keys in one order, so that ``GROUP BY a, b`` and ``GROUP BY b, a`` are one release, taken and paid once.

Both have the same groups, and the same noise on each. The order of columns and rows is restored by steps on released
cells, which are free.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.query.question import Derive, FinalAggregation, Question, Sort
from tacit.query.relational.algebra import SortKey
from tacit.query.relational.expressions import Reference, text_of
from tacit.query.types import Domain

__all__ = ["order_keys"]


def order_keys(question: Question) -> Question:
    """Sort the keys by their text; then restore the order of columns, and of rows by the keys as they were written."""
    final = question.final
    order = sorted(range(len(final.keys)), key=lambda index: text_of(final.keys[index].expression))
    if order == list(range(len(order))):
        return question
    ordered = replace(final, keys=tuple(final.keys[index] for index in order))
    totals = question.totals
    if totals is not None:
        # They have columns and rows in the order that is written, whatever that of the cells.
        moved = replace(totals, keys=tuple(order.index(index) for index in totals.keys))
        return replace(question, final=ordered, steps=(moved, *question.steps[1:]))
    rows = Sort(tuple(SortKey(_column(final, slot, slot), False, False) for slot in range(len(order))))
    return replace(question, final=ordered, steps=(_restored(final, order), rows, *question.steps))


def _restored(final: FinalAggregation, order: list[int]) -> Derive:
    places = {old: new for new, old in enumerate(order)}
    return Derive(tuple(_column(final, slot, places.get(slot, slot)) for slot in range(len(final.types))))


def _column(final: FinalAggregation, slot: int, place: int) -> Reference:
    """Column ``slot`` of the released cells, found at some place."""
    known = final.keys[slot].expression.domain if slot < len(final.keys) else Domain()
    return Reference(final.types[slot], known, place, "")
