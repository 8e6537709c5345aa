"""Frames of windows: ROWS and RANGE, from syntax to offsets from the current row."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import SortKey, WindowFrame
from tacit.query.resolve.time_functions import interval_of
from tacit.query.types import DATE, TIMESTAMP

__all__ = ["window_frame"]

Around = tuple[Fraction | None, Fraction | None]


def window_frame(spec: exp.Expr | None, terms: tuple[SortKey, ...]) -> tuple[WindowFrame, Around | None]:
    """The frame that a window writes, and where it begins and ends if that follows the current row."""
    if spec is None:
        return (WindowFrame.PEERS if terms else WindowFrame.PARTITION), None
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE"):
        raise Refusal("window", "Frames are ROWS or RANGE BETWEEN … PRECEDING AND … FOLLOWING.")
    key = None if kind == "ROWS" else terms
    begin = _frame_end(spec.args.get("start"), spec.args.get("start_side"), key, first=True)
    end = _frame_end(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), key, first=False)
    if begin is None and end is None:
        return WindowFrame.PARTITION, None
    if begin is None and end == 0:
        return (WindowFrame.RUNNING if kind == "ROWS" else WindowFrame.PEERS), None
    if not terms:
        raise Refusal("window", "A frame around the current row needs ORDER BY in the window.")
    if begin is not None and end is not None and begin > end:
        raise Refusal("window", "A frame ends before it begins; exchange its ends.")
    return (WindowFrame.ROWS_AROUND if kind == "ROWS" else WindowFrame.VALUES_AROUND), (begin, end)


def _frame_end(
    node: exp.Expr | str | None, side: object, order: tuple[SortKey, ...] | None, *, first: bool
) -> Fraction | None:
    """One end of a frame, counted from the current row on; None for no end."""
    sign = {"PRECEDING": -1, "FOLLOWING": 1}.get(str(side or "").upper(), 0)
    word = node.upper() if isinstance(node, str) else ""
    if word == "CURRENT ROW":
        return Fraction(0)
    if word == "UNBOUNDED" and sign == (-1 if first else 1):
        return None
    if isinstance(node, exp.Literal) and not node.is_string and sign:
        size = _constant_number(node.name)
        numeric = order is None or (len(order) == 1 and order[0].expression.type.is_numeric)
        if size is not None and numeric and (order is not None or size.denominator == 1):
            return sign * size
    if isinstance(node, exp.Interval) and sign and order is not None and len(order) == 1:
        seconds, kind = Fraction(interval_of(node).fixed), order[0].expression.type
        if kind == DATE and seconds % 86_400 == 0:
            return sign * seconds / 86_400
        if kind == TIMESTAMP:
            return sign * seconds * 10**6
    raise Refusal(
        "window",
        "A frame is ROWS BETWEEN n PRECEDING AND m FOLLOWING, n and m whole numbers, CURRENT ROW or UNBOUNDED, or "
        "RANGE with numbers for a numeric key and intervals of days or less for one date.",
    )


def _constant_number(text: str) -> Fraction | None:
    plain = text.isascii() and len(text) <= 12 and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text)
    return Fraction(text) if plain else None
