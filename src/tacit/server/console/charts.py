"""Answers as tables and charts: released numbers as SVG, written into the page.

Everything shown of an answer was released: noisy values, their intervals, and public keys. A chart is inline markup of
the page: its colours come from the page's style sheet, in light and dark mode, and it loads no resources. Lines with a
band are used for time and numbers, bars with an error bar for categories. Every text is escaped.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from markupsafe import Markup, escape

from tacit.query.postprocess.cells import Ends
from tacit.query.types import SqlType, Value, ordinal
from tacit.releases.answer import Answer, format_ends, format_key, format_value

CATEGORY: Final = "category"
NUMBER: Final = "number"
TIME: Final = "time"
_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Point:
    """A released value and the two ends of its interval.

    Args:
        place: position on a numeric axis, or days since year 1 on a time axis; None on a categorical axis.
        marked: whether the bias may exceed the interval.
    """

    label: str
    value: float
    low: float
    high: float
    place: float | None = None
    marked: bool = False


@dataclass(frozen=True)
class Series:
    """Points of one line, in ascending order along the axis."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One column of an answer."""

    title: str
    series: tuple[Series, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(point for each in self.series for point in each.points)


@dataclass(frozen=True)
class Drawing:
    """Panels with the same kind of axis (``category``, ``number`` or ``time``); each panel is a separate picture.

    ``across`` is the name of the column along the axis, empty for categories.
    """

    panels: tuple[Panel, ...]
    confidence: str
    axis: str = CATEGORY
    across: str = ""

    @property
    def shown(self) -> int:
        """Number of points in the panel with the most points."""
        return max(len(panel.points) for panel in self.panels)

    @property
    def marked(self) -> bool:
        return any(point.marked for panel in self.panels for point in panel.points)


def time_place(value: dt.date) -> float:
    """Return the days since year 1, with a fraction for the time of day."""
    if not isinstance(value, dt.datetime):
        return float(value.toordinal())
    seconds = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return value.toordinal() + seconds / _DAY


#: Maximum number of categories that are drawn.
MOST_BARS: Final = 40
_MOST_DOTS: Final = 60
#: Width of a chart, in pixels; narrower screens scale it down.
_WIDTH: Final = 460
_LETTER: Final = 6.9
_DASHES: Final = (None, "6 3", "2 3", "9 3 2 3", "4 4", "1 2")


def draw_panels(drawing: Drawing) -> list[Markup]:
    """Draw each panel."""
    found = []
    for panel in drawing.panels:
        words = f"Chart of {panel.title} with {drawing.confidence} intervals; the table has the same numbers."
        found.append(_bars(panel, words) if drawing.axis == CATEGORY else _lines(panel, drawing, words))
    return found


def draw_histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    bounds: tuple[float, float] | None,
    title: str,
    words: str,
    *,
    is_time: bool = False,
) -> Markup:
    """Draw a histogram with bounds as two lines; values beyond the bounds are hatched.

    Args:
        edges: edges of the bins, one more than there are bins.
        counts: heights of the bars.
        bounds: lower and upper bound, within the edges; None for no bounds.
        title: text above the chart.
        words: text for screen readers.
        is_time: whether the edges are days.
    """
    span = (edges[0], edges[-1])
    frame = _Frame(220, title, _ticks(0, max(*counts, 1), 4), span)
    marks = frame.scale("", is_time=is_time)
    roof, base = frame.y(frame.ticks[-1]), frame.y(0)
    for start, end, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            left, top = frame.x(start), frame.y(count)
            width = max(frame.x(end) - left - 1, 0.6)
            marks.append(_tag("rect", x=left, y=top, width=width, height=max(base - top, 0.8), class_="bar s0"))
    sides = () if bounds is None else ((bounds[0], span[0], bounds[0]), (bounds[1], bounds[1], span[1]))
    for place, start, end in sides:
        left, right = frame.x(start), frame.x(end)
        if right > left:
            marks.append(_tag("rect", x=left, y=roof, width=right - left, height=base - roof, class_="beyond"))
        marks.append(_tag("line", x1=frame.x(place), x2=frame.x(place), y1=roof, y2=base, class_="bound"))
    return _svg(frame.height, words, marks)


def tick_text(number: float) -> str:
    """Format a number next to an axis: short, with separators."""
    if number == 0:
        return "0"
    size = abs(number)
    if size >= 1e15 or size < 1e-4:
        return f"{number:.0e}"
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size >= limit:
            return f"{number / limit:.6g} {letter}"
    return f"{number:,.6g}" if size < 1000 or float(number).is_integer() else f"{number:,.0f}"


class _Frame:
    """Scales of a chart with a title above, a vertical axis of numbers and a horizontal axis of places.

    Args:
        ticks: numbers on the vertical axis, ascending; the first and the last are its ends.
        span: ends of the horizontal axis.
    """

    def __init__(self, height: int, title: str, ticks: list[float], span: tuple[float, float]) -> None:
        self.height, self.title, self.ticks = height, title, ticks
        self._left = 14 + _LETTER * max(len(tick_text(tick)) for tick in ticks)
        low, high = span
        self._span = (low, high) if high > low else (low - 0.5, high + 0.5)

    def x(self, place: float) -> float:
        """Return the x coordinate of a place."""
        low, high = self._span
        return self._left + 8 + (_WIDTH - self._left - 26) * (place - low) / (high - low)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        low, high = self.ticks[0], self.ticks[-1]
        return 30 + (self.height - 74) * (high - value) / ((high - low) or 1)

    def path(self, spots: Iterable[tuple[float, float]]) -> str:
        """Return the SVG path of a line through (place, value) pairs."""
        return "M" + " L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in spots)

    def scale(self, across: str, *, is_time: bool) -> list[Markup]:
        """Draw the title, the grid, the numbers, and round places: numbers or days."""
        found = [_text(self.title, 0, 14, "title", "start")]
        for tick in self.ticks:
            y = self.y(tick)
            found.append(_tag("line", x1=self._left, x2=_WIDTH - 6, y1=y, y2=y, class_="grid"))
            found.append(_text(tick_text(tick), self._left - 6, y + 4, "tick", "end"))
        places, text = (_time_ticks, _time_text(*self._span)) if is_time else (_inside, tick_text)
        for place in places(*self._span, 5):
            half = _LETTER * len(text(place)) / 2
            x = min(max(self.x(place), half), _WIDTH - half)
            found.append(_text(text(place), x, self.height - 24, "tick", "middle"))
        found.append(_text(across, (self._left + _WIDTH) / 2, self.height - 6, "title", "middle", limit=40))
        return found


def _lines(panel: Panel, drawing: Drawing, words: str) -> Markup:
    points = panel.points
    places = [point.place or 0.0 for point in points]
    frame = _Frame(250, panel.title, _ticks(*_reach(points), 5), (min(places), max(places)))
    marks = frame.scale(drawing.across, is_time=drawing.axis == TIME)
    for number, series in enumerate(panel.series):
        marks += _line(series, number, frame)
    if len(panel.series) == 1:
        return _svg(frame.height, words, marks)
    # Legend below the chart: the names of lines, each with a sample of its line.
    x, y = 0.0, frame.height + 12.0
    for number, series in enumerate(panel.series):
        name = _short(series.name, 24)
        if x and x + 34 + _LETTER * len(name) > _WIDTH:
            x, y = 0.0, y + 18
        marks.append(
            _tag(
                "line", x1=x, x2=x + 22, y1=y - 4, y2=y - 4, class_=f"line s{number}", stroke_dasharray=_DASHES[number]
            )
        )
        marks.append(_text(name, x + 28, y, "tick", "start"))
        x += 28 + _LETTER * len(name) + 18
    return _svg(int(y) + 6, words, marks)


def _line(series: Series, number: int, frame: _Frame) -> list[Markup]:
    points, style = series.points, f"s{number}"
    found = []
    if len(points) > 1:
        above = [(point.place or 0.0, point.high) for point in points]
        below = [(point.place or 0.0, point.low) for point in reversed(points)]
        middle = [(point.place or 0.0, point.value) for point in points]
        found.append(_tag("path", d=f"{frame.path([*above, *below])} Z", class_=f"band {style}"))
        found.append(_tag("path", d=frame.path(middle), class_=f"line {style}", stroke_dasharray=_DASHES[number]))
    for point in points:
        x = frame.x(point.place or 0.0)
        if len(points) == 1:
            found.append(_whisker(x, frame.y(point.low), x, frame.y(point.high), style))
        if len(points) <= _MOST_DOTS or point.marked:
            found.append(_dot(x, frame.y(point.value), point, style, series.name))
    return found


def _bars(panel: Panel, words: str) -> Markup:
    points = panel.points
    letters = min(max(len(point.label) for point in points), 20)
    left, row, top = 20 + _LETTER * letters, 26, 30
    ticks = _ticks(*_reach(points, zero=True), 4)
    height = top + row * len(points) + 26

    def x(value: float) -> float:
        return left + (_WIDTH - left - 16) * (value - ticks[0]) / ((ticks[-1] - ticks[0]) or 1)

    marks = [_text(panel.title, 0, 14, "title", "start")]
    for tick in ticks:
        marks.append(_tag("line", x1=x(tick), x2=x(tick), y1=top - 4, y2=height - 22, class_="grid"))
        half = _LETTER * len(tick_text(tick)) / 2
        marks.append(_text(tick_text(tick), min(x(tick), _WIDTH - half), height - 6, "tick", "middle"))
    for n, point in enumerate(points):
        y = top + row * n
        start, end = sorted((x(0), x(point.value)))
        marks.append(_text(point.label, left - 8, y + 15, "name", "end", limit=letters))
        marks.append(_tag("rect", x=start, y=y + 4, width=max(end - start, 0.5), height=15, class_="bar s0"))
        marks.append(_whisker(x(point.low), y + 11.5, x(point.high), y + 11.5, "s0"))
        marks.append(_dot(x(point.value), y + 11.5, point, "s0", ""))
    return _svg(height, words, marks)


def _dot(x: float, y: float, point: Point, style: str, name: str) -> Markup:
    kind, size = ("dot marked", 4.5) if point.marked else ("dot", 3.2)
    return _tag("circle", _tag("title", _told(point, name)), cx=x, cy=y, r=size, class_=f"{kind} {style}")


def _told(point: Point, name: str) -> str:
    whose = f"{name}, {point.label}" if name else point.label
    star = "; the bias may exceed this error" if point.marked else ""
    return f"{whose}: {point.value:,.6g}, between {point.low:,.6g} and {point.high:,.6g}{star}"


def _whisker(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    d = f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}"
    across = (0.0, 4.0) if abs(y1 - y2) < 0.01 else (4.0, 0.0)
    for x, y in ((x1, y1), (x2, y2)):
        d += f" M{x - across[0]:.1f} {y - across[1]:.1f} L{x + across[0]:.1f} {y + across[1]:.1f}"
    return _tag("path", d=d, class_=f"whisker {style}")


def _reach(points: Sequence[Point], *, zero: bool = False) -> tuple[float, float]:
    low, high = min(point.low for point in points), max(point.high for point in points)
    # The axis starts at zero, unless that would leave half of the picture empty.
    if zero or 0 < low < 0.5 * high:
        low = min(low, 0.0)
    if zero or 0.5 * low < high < 0:
        high = max(high, 0.0)
    return low, high


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from at most the lowest to at least the highest value."""
    if high <= low:
        low, high = (low - abs(low) / 2 - 0.5, high + abs(high) / 2 + 0.5) if low else (0.0, 1.0)
    step = _round_step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _inside(low: float, high: float, most: int) -> list[float]:
    """Return round numbers within a span."""
    if high <= low:
        return [low]
    return [tick for tick in _ticks(low, high, most) if low - 1e-9 <= tick <= high + 1e-9]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if step <= power * each * (1 + 1e-9))


def _time_ticks(low: float, high: float, most: int) -> list[float]:
    """Return beginnings of years, months or days within a span, roughly at most ``most``."""
    days = high - low
    first, last = dt.date.fromordinal(max(int(low), 1)), dt.date.fromordinal(max(int(high), 1))
    if days < most:
        return [float(day) for day in range(math.ceil(low), int(high) + 1)] or [low]
    if days < 62:
        step = -(-int(days) // most)
        return [float(day) for day in range(math.ceil(low), int(high) + 1, step)]
    months = [(year, month) for year in range(first.year, last.year + 1) for month in range(1, 13)]
    starts = [float(dt.date(year, month, 1).toordinal()) for year, month in months]
    starts = [day for day in starts if low - 1 <= day <= high]
    step = next((each for each in (1, 2, 3, 6, 12) if len(starts) <= most * each), 12 * -(-len(starts) // (12 * most)))
    whole = min(step, 12)
    named = (dt.date.fromordinal(int(day)).month for day in starts)
    begin = next((n for n, month in enumerate(named) if month % whole == 1 % whole), 0)
    return starts[begin::step] or [low]


def _time_text(low: float, high: float) -> Callable[[float], str]:
    days = high - low
    form = "%d %b" if days < 62 else "%b %Y" if days < 1500 else "%Y"

    def text(day: float) -> str:
        return dt.date.fromordinal(max(int(day), 1)).strftime(form)

    return text


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(text: str, x: float, y: float, style: str, anchor: str, *, limit: int = 60) -> Markup:
    return _tag("text", _short(text, limit), x=x, y=y, class_=style, text_anchor=anchor)


def _tag(name: str, content: str | Markup = "", **attributes: str | float | None) -> Markup:
    """Return an SVG element; text and attributes are escaped, markup is not, numbers have one decimal."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{value:.1f}"'
        if isinstance(value, int | float)
        else f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{said}>{escape(content)}</{name}>")  # noqa: S704 - every part is escaped


def _svg(height: int, words: str, marks: Sequence[Markup]) -> Markup:
    size = {"viewBox": f"0 0 {_WIDTH} {height}", "width": str(_WIDTH), "height": str(height)}
    return _tag("svg", Markup("").join(marks), class_="plot", role="img", aria_label=words, **size)


_MOST_ROWS: Final = 2_000
_MOST_LINES: Final = 6
_MOST_PANELS: Final = 3
_HUGE: Final = Fraction(10) ** 300
_MOST_DRAWN: Final = 1e15
Rows = Sequence[Sequence[tuple[Value | None, Ends]]]


@dataclass(frozen=True)
class PageCell:
    """Value, its error in muted style, its interval for screen readers, and whether its bias may exceed the error."""

    text: str
    spread: str = ""
    words: str = ""
    marked: bool = False


@dataclass(frozen=True)
class PageHead:
    """A column: its name, its type, and whether its values are numeric and noisy."""

    name: str
    kind: str
    number: bool
    noisy: bool


@dataclass(frozen=True)
class Sheet:
    """A table for a page; ``more`` rows are not shown, and ``zeros`` means that negative counts are shown as 0."""

    heads: tuple[PageHead, ...]
    rows: tuple[tuple[PageCell, ...], ...]
    more: int
    confidence: str
    zeros: bool = False

    @property
    def marked(self) -> bool:
        return any(cell.marked for row in self.rows for cell in row)


def sheet_of(answer: Answer) -> Sheet:
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
    """Return the chart data of an answer, with a panel for each column with intervals and a point for each row."""
    finished = answer.finished
    labels = [i for i, known in enumerate(finished.has_interval) if not known]
    drawn = [i for i, known in enumerate(finished.has_interval) if known and answer.columns[i].type.is_numeric]
    if not drawn or not finished.values:
        return None
    rows, marks = answer.displayed(rows=_MOST_ROWS), finished.marked(rows=_MOST_ROWS)
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
    if not any(panel.points for panel in panels) or (axis is None and len(rows) > MOST_BARS):
        return None
    if axis is None:
        return Drawing(tuple(panels), level_of(answer))
    column = answer.columns[axis]
    return Drawing(tuple(panels), level_of(answer), TIME if column.type.is_temporal else NUMBER, column.name)


def _axis(answer: Answer, labels: list[int]) -> tuple[int | None, int | None]:
    """Return the index of the column along the axis, of times or numbers, and of the column that distinguishes lines.

    The first is None for categories, the second for a single line.
    """
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
    """Whether there are few lines, and no line has two values at the same place."""
    names = {cells[split][0] for cells in rows} if split is not None else {None}
    places = [(cells[axis][0], cells[split][0] if split is not None else None) for cells in rows]
    return len(names) <= _MOST_LINES and len(set(places)) == len(places)


def _place(value: Value | None) -> float | None:
    """Return the place of a value on an axis; None for NULL, text, and values too large to draw."""
    if isinstance(value, dt.date):
        return time_place(value)
    if value is None or isinstance(value, str):
        return None
    place = float(value)
    return place if abs(place) < _MOST_DRAWN else None


def level_of(answer: Answer) -> str:
    """Return the confidence level as text, such as ``95%``."""
    return answer.confidence_text().split(" ")[0]


def _cell(value: Value | None, ends: tuple[Value | None, Value | None], kind: SqlType, known: bool) -> PageCell:
    low, high = ends
    if not known or low is None or high is None:
        return PageCell(format_value(value, kind) if known else format_key(value, kind))
    if value is None or not kind.is_numeric:
        return PageCell(format_value(value, kind), format_ends(low, high, kind))
    words = f"between {format_value(low, kind)} and {format_value(high, kind)}"
    below, above = ordinal(value, kind) - ordinal(low, kind), ordinal(high, kind) - ordinal(value, kind)
    widest = max(below, above)
    if widest > _HUGE:
        return PageCell(format_value(value, kind), "no bound", "without a bound")
    text = format_value(value, kind, widest)
    if abs(above - below) <= widest / 20:
        # The error is a number of the same type, formatted with the same digits.
        return PageCell(
            text, f"± {format_value(int(widest) if widest.denominator == 1 else widest, kind, widest)}", words
        )
    shown = [format_value(end, kind, widest) for end in (low, high)]
    return PageCell(text, f"{shown[0]} to {shown[1]}", f"between {shown[0]} and {shown[1]}")


def _label(cells: Sequence[tuple[Value | None, Ends]], answer: Answer, labels: list[int]) -> str:
    return ", ".join(format_key(cells[i][0], answer.columns[i].type) for i in labels) or "all"


def _point(label: str, *places: Value | None) -> Point | None:
    """Return a point; None if a value is missing, not numeric, or too large to draw."""
    if any(place is None or isinstance(place, (str, dt.date)) for place in places):
        return None
    value, low, high = (float(place) for place in places)  # type: ignore[arg-type]
    return Point(label, value, low, high) if max(abs(value), abs(low), abs(high)) < _MOST_DRAWN else None
