"""Window functions over the rows of one unit: calls, frames and the order of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from tacit.query.relational.expressions import Change, Expression, optional_text, text_of
from tacit.query.types import SqlType


@dataclass(frozen=True, slots=True)
class SortKey:
    """One term of a window's ORDER BY; NULLs last in either order, if not stated otherwise."""

    expression: Expression
    descending: bool
    nulls_first: bool


class WindowFrame(Enum):
    """The rows of the partition that a window function reads."""

    PARTITION = "whole partition"
    RUNNING = "rows from the first to the current"
    PEERS = "rows from the first to the current and those that sort equal to it"
    ROWS_AROUND = "rows from so many before to so many after the current"
    VALUES_AROUND = "rows whose key is from so much below to so much above that of the current"


@dataclass(frozen=True, slots=True)
class MonthsAway:
    """An end of a frame that is so many months after the date of the current row, or before it where negative."""

    count: int


#: An end of a frame around the current row; None for no end.
FrameEnd = Fraction | MonthsAway | None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function over one unit's rows.

    Args:
        function: a :class:`~.algebra.UnitCall` function, or ``row_number``, ``rank``, ``dense_rank``, ``lag``,
            ``lead``, ``first_value``, ``last_value``, ``nth_value``.
        argument: what it reads; None for ``count_rows``, ``row_number``, ``rank``, ``dense_rank``.
        offset: how many rows away ``lag`` and ``lead`` look; which row of the frame ``nth_value`` takes, from 1.
        partition: expressions, among them the unit where the source is owned.
        order: an engine completes it with all columns of the source (except for ``rank``, ``dense_rank`` and PEERS
            frames, which treat ties alike), so that equal rows are the only ties left.
        frame: which rows.
        type: of the result.
        around: where frames around the current row begin and end: rows after it (before it, where negative), or
            ordinals or months after it in the order of the one key; None for no end.
    """

    function: str
    argument: Expression | None
    offset: int | None
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: WindowFrame
    type: SqlType
    around: tuple[FrameEnd, FrameEnd] | None = None


def window_text(call: WindowCall) -> str:
    """Canonical text of a window."""
    order = ",".join(f"{text_of(k.expression)} {k.descending} {k.nulls_first}" for k in call.order)
    parts = ",".join(map(text_of, call.partition))
    frame = call.frame.value if call.around is None else f"{call.frame.value} {call.around[0]} {call.around[1]}"
    return f"{call.function}({optional_text(call.argument)}|{call.offset})[{parts}|{order}|{frame}]:{call.type}"


def moved_window(call: WindowCall, change: Change) -> WindowCall:
    """A window with changed expressions."""
    return replace(
        call,
        argument=None if call.argument is None else change(call.argument),
        partition=tuple(change(part) for part in call.partition),
        order=tuple(SortKey(change(key.expression), key.descending, key.nulls_first) for key in call.order),
    )
