"""Answers as pages show them.

Everything here was released: noisy values, their intervals, and public keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.curator.views.answer_object import Answer
from tacit.curator.views.answer_text import format_value
from tacit.query.postprocess.cells import Ends
from tacit.query.types import SqlType, Value, ordinal
from tacit.server.console.chart_url import Drawing, Panel, Point

__all__ = ["PageCell", "PageHead", "Sheet", "drawing_of", "level_of", "sheet_of"]

_MOST_ROWS: Final = 500
_MOST_POINTS: Final = 40
_MOST_PANELS: Final = 3
_HUGE: Final = Fraction(10) ** 300
_LARGEST: Final = 1e15


@dataclass(frozen=True)
class PageCell:
    """Value, its error in a quieter tone, and both ends for screen readers."""

    text: str
    spread: str = ""
    words: str = ""


@dataclass(frozen=True)
class PageHead:
    """A column: its name, its type, and whether its values are numbers and carry noise."""

    name: str
    kind: str
    number: bool
    noisy: bool


@dataclass(frozen=True)
class Sheet:
    """A table for a page; ``more`` rows did not fit, and ``zeros`` says that negative counts are shown as 0."""

    heads: tuple[PageHead, ...]
    rows: tuple[tuple[PageCell, ...], ...]
    more: int
    confidence: str
    zeros: bool = False


def sheet_of(answer: Answer) -> Sheet:
    """The table of an answer."""
    finished = answer.finished
    heads = tuple(
        PageHead(column.name, str(column.type).lower(), column.type.is_numeric, known)
        for column, known in zip(answer.columns, finished.has_interval, strict=True)
    )
    rows = tuple(
        tuple(
            _cell(value, pair, column.type, known)
            for (value, pair), column, known in zip(cells, answer.columns, finished.has_interval, strict=True)
        )
        for cells in answer.displayed(rows=_MOST_ROWS)
    )
    more = max(len(finished.values) - _MOST_ROWS, 0)
    return Sheet(heads, rows, more, level_of(answer), zeros=bool(answer.zeros_note))


def drawing_of(answer: Answer) -> Drawing | None:
    """Chart data of an answer: a panel for each column with an interval, a point for each row."""
    finished = answer.finished
    labels = [i for i, known in enumerate(finished.has_interval) if not known]
    drawn = [i for i, known in enumerate(finished.has_interval) if known and answer.columns[i].type.is_numeric]
    if not drawn or not finished.values:
        return None
    rows = answer.displayed(rows=_MOST_POINTS)
    panels = []
    for i in drawn[:_MOST_PANELS]:
        found = (_point(_label(cells, answer, labels), cells[i][0], *cells[i][1]) for cells in rows)
        panels.append(Panel(answer.columns[i].name, tuple(point for point in found if point)))
    return Drawing(tuple(panels), level_of(answer)) if any(panel.points for panel in panels) else None


def level_of(answer: Answer) -> str:
    """Confidence as text, such as ``95%``."""
    return answer.confidence_text().split(" ")[0]


def _cell(value: Value | None, ends: tuple[Value | None, Value | None], kind: SqlType, known: bool) -> PageCell:
    low, high = ends
    if not known or low is None or high is None:
        return PageCell(format_value(value, kind))
    words = f"between {format_value(low, kind)} and {format_value(high, kind)}"
    if value is None or not kind.is_numeric:
        return PageCell(format_value(value, kind), f"{format_value(low, kind)} to {format_value(high, kind)}", words)
    below, above = ordinal(value, kind) - ordinal(low, kind), ordinal(high, kind) - ordinal(value, kind)
    widest = max(below, above)
    if widest > _HUGE:
        return PageCell(format_value(value, kind), "no bound", "without a bound")
    text = format_value(value, kind, widest)
    if abs(above - below) <= widest / 20:
        # The spread itself is a number of the same type, written with the same digits.
        return PageCell(text, f"± {_spread(widest, kind)}", words)
    shown = [format_value(end, kind, widest) for end in (low, high)]
    return PageCell(text, f"{shown[0]} to {shown[1]}", f"between {shown[0]} and {shown[1]}")


def _spread(widest: Fraction, kind: SqlType) -> str:
    return format_value(int(widest) if widest.denominator == 1 else widest, kind, widest)


def _label(cells: Sequence[tuple[Value | None, Ends]], answer: Answer, labels: list[int]) -> str:
    return ", ".join(format_value(cells[i][0], answer.columns[i].type) for i in labels) or "all"


def _point(label: str, *places: Value | None) -> Point | None:
    """None where there is nothing to draw, or nothing that fits on paper."""
    if any(place is None or isinstance(place, (str, dt.date)) for place in places):
        return None
    value, low, high = (float(place) for place in places)  # type: ignore[arg-type]
    return Point(label, value, low, high) if max(abs(value), abs(low), abs(high)) < _LARGEST else None
