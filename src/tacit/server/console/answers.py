"""Answers as pages show them, and as files.

Everything here was released: noisy values, their intervals, and public keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from tacit.query.postprocess.cells import Ends
from tacit.query.types import SqlType, Value, ordinal
from tacit.releases.answer import Answer, format_key, format_value
from tacit.server.console.charts import NUMBER, TIME, Drawing, Panel, Point, Series, time_place

_MOST_ROWS: Final = 2_000
_MOST_POINTS: Final = 20_000
_MOST_LINES: Final = 6
_MOST_PANELS: Final = 3
_HUGE: Final = Fraction(10) ** 300
_LARGEST: Final = 1e15
Rows = Sequence[Sequence[tuple[Value | None, Ends]]]


@dataclass(frozen=True)
class PageCell:
    """Value, its error in a quieter tone, both ends for screen readers, and whether its bias may exceed the error."""

    text: str
    spread: str = ""
    words: str = ""
    marked: bool = False


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

    @property
    def marked(self) -> bool:
        """Whether a cell has the mark."""
        return any(cell.marked for row in self.rows for cell in row)


def sheet_of(answer: Answer) -> Sheet:
    """The table of an answer."""
    finished = answer.finished
    heads = tuple(
        PageHead(column.name, str(column.type).lower(), column.type.is_numeric, known)
        for column, known in zip(answer.columns, finished.has_interval, strict=True)
    )
    marked = finished.marked(rows=_MOST_ROWS)
    rows = tuple(
        tuple(
            replace(_cell(value, pair, column.type, known), marked=mark)
            for (value, pair), column, known, mark in zip(
                cells, answer.columns, finished.has_interval, marks, strict=True
            )
        )
        for cells, marks in zip(answer.displayed(rows=_MOST_ROWS), marked, strict=True)
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
    rows, marks = answer.displayed(rows=_MOST_POINTS), finished.marked(rows=_MOST_POINTS)
    axis, split = _axis(answer, labels)
    if axis is not None and not _is_apart(rows, axis, split):
        axis, split = None, None
    panels = []
    for i in drawn[:_MOST_PANELS]:
        series: dict[str, list[Point]] = {}
        for cells, mark in zip(rows, marks, strict=True):
            name = "" if split is None else format_key(cells[split][0], answer.columns[split].type)
            place = None if axis is None else _place(cells[axis][0])
            if axis is not None and place is None:
                continue
            label = _label(cells, answer, labels if axis is None else [axis])
            point = _point(label, cells[i][0], *cells[i][1])
            if point is not None:
                series.setdefault(name, []).append(replace(point, place=place, marked=mark[i]))
        lines = tuple(
            Series(name, tuple(sorted(points, key=lambda point: point.place or 0.0))) for name, points in series.items()
        )
        panels.append(Panel(answer.columns[i].name, lines))
    if not any(panel.points for panel in panels):
        return None
    if axis is None:
        return Drawing(tuple(panels), level_of(answer))
    column = answer.columns[axis]
    return Drawing(tuple(panels), level_of(answer), TIME if column.type.is_temporal else NUMBER, column.name)


def _axis(answer: Answer, labels: list[int]) -> tuple[int | None, int | None]:
    """The column along the axis, of times or numbers, and the one that tells lines apart; None for categories."""
    if not 1 <= len(labels) <= 2:
        return None, None
    kinds = [answer.columns[i].type for i in labels]
    ordered = [i for i, kind in zip(labels, kinds, strict=True) if kind.is_temporal]
    ordered = ordered or [i for i, kind in zip(labels, kinds, strict=True) if kind.is_numeric]
    if not ordered:
        return None, None
    axis = ordered[0]
    return axis, next((i for i in labels if i != axis), None)


def _is_apart(rows: Rows, axis: int, split: int | None) -> bool:
    """Whether there are few lines, and none has two values at one place."""
    names = {cells[split][0] for cells in rows} if split is not None else {None}
    places = [(cells[axis][0], cells[split][0] if split is not None else None) for cells in rows]
    return len(names) <= _MOST_LINES and len(set(places)) == len(places)


def _place(value: Value | None) -> float | None:
    """Place on an axis; None for NULL and for what no paper has room for."""
    if isinstance(value, dt.date):
        return time_place(value)
    if value is None or isinstance(value, str):
        return None
    place = float(value)
    return place if abs(place) < _LARGEST else None


def level_of(answer: Answer) -> str:
    """Confidence as text, such as ``95%``."""
    return answer.confidence_text().split(" ")[0]


def _cell(value: Value | None, ends: tuple[Value | None, Value | None], kind: SqlType, known: bool) -> PageCell:
    low, high = ends
    if not known or low is None or high is None:
        return PageCell(format_value(value, kind) if known else format_key(value, kind))
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
        return PageCell(
            text, f"± {format_value(int(widest) if widest.denominator == 1 else widest, kind, widest)}", words
        )
    shown = [format_value(end, kind, widest) for end in (low, high)]
    return PageCell(text, f"{shown[0]} to {shown[1]}", f"between {shown[0]} and {shown[1]}")


def _label(cells: Sequence[tuple[Value | None, Ends]], answer: Answer, labels: list[int]) -> str:
    return ", ".join(format_key(cells[i][0], answer.columns[i].type) for i in labels) or "all"


def _point(label: str, *places: Value | None) -> Point | None:
    """None where there is nothing to draw, or nothing that fits on paper."""
    if any(place is None or isinstance(place, (str, dt.date)) for place in places):
        return None
    value, low, high = (float(place) for place in places)  # type: ignore[arg-type]
    return Point(label, value, low, high) if max(abs(value), abs(low), abs(high)) < _LARGEST else None
