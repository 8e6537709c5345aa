"""SVG charts of released numbers, budgets and prices, written into the page.

A chart is markup of the page itself: its colours come from the page's style sheet, in light and in dark, and nothing is
fetched for it. Lines with a band stand for time and numbers, bars with an error bar for categories. Every text is
escaped.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup, escape

CATEGORY: Final = "category"
NUMBER: Final = "number"
TIME: Final = "time"
_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Point:
    """A released value and the two ends of its interval.

    Args:
        place: on an axis of numbers, or of days since year 1; None on one of categories.
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
    """Points of one line, in the order of their places."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One column of an answer."""

    title: str
    series: tuple[Series, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, line after line."""
        return tuple(point for each in self.series for point in each.points)


@dataclass(frozen=True)
class Drawing:
    """Panels over one kind of axis: ``category``, ``number`` or ``time``; each is a picture of its own.

    ``across`` is the name of the column along the axis, empty for categories.
    """

    panels: tuple[Panel, ...]
    confidence: str
    axis: str = CATEGORY
    across: str = ""

    @property
    def shown(self) -> int:
        """Number of points in the fullest panel."""
        return max(len(panel.points) for panel in self.panels)

    @property
    def marked(self) -> bool:
        """Whether any point is marked."""
        return any(point.marked for panel in self.panels for point in panel.points)


def thinned(points: Sequence[Point], most: int) -> tuple[tuple[Point, ...], int]:
    """At most so many points, each of as many neighbours; and how many those are.

    The value of one is that of the neighbour in the middle, and its interval holds the intervals of all, so that no
    row disappears from the picture.
    """
    each = -(-len(points) // most)
    if each <= 1:
        return tuple(points), 1
    return tuple(_joined(points[i : i + each]) for i in range(0, len(points), each)), each


def time_place(value: dt.date) -> float:
    """Days since year 1, with a fraction for the time of day."""
    if not isinstance(value, dt.datetime):
        return float(value.toordinal())
    seconds = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return value.toordinal() + seconds / _DAY


def _joined(points: Sequence[Point]) -> Point:
    middle = sorted(points, key=lambda point: point.value)[len(points) // 2]
    label = f"{points[0].label} to {points[-1].label}" if len(points) > 1 else points[0].label
    places = [point.place for point in points if point.place is not None]
    return Point(
        label,
        middle.value,
        min(point.low for point in points),
        max(point.high for point in points),
        sum(places) / len(places) if places else None,
        any(point.marked for point in points),
    )


#: Categories that get a row and a label each; more stand side by side.
MOST_BARS: Final = 40
#: Points of a line, and categories side by side; more are drawn several at a time.
MOST_MARKS: Final = 320
_MOST_DOTS: Final = 60
_WIDE: Final = 640
_NARROW: Final = 340
_LETTER: Final = 6.9
_DASHES: Final = ("", "6 3", "2 3", "9 3 2 3", "4 4", "1 2")


def draw_panels(drawing: Drawing) -> list[dict[str, Markup]]:
    """A picture of each panel: for wide and for narrow screens."""
    widths = (_WIDE, _NARROW) if len(drawing.panels) == 1 else (_NARROW, _NARROW)
    found = []
    for panel in drawing.panels:
        wide = _panel(panel, drawing, widths[0])
        narrow = wide if widths[0] == widths[1] else _panel(panel, drawing, widths[1])
        found.append({"wide": wide, "narrow": narrow})
    return found


def draw_stairs(steps: Sequence[float], cap: float, letter: str, words: str) -> dict[str, Markup]:
    """The budget left before the first and after each charge, as stairs that go down; ``steps`` are what was spent."""
    left = [max(cap - spent, 0.0) for spent in steps]
    # The last stair is as wide as the others, so that what is left now can be seen.
    heights = [*left, left[-1]]
    return {name: _stairs(heights, cap, letter, words, width) for name, width in (("wide", _WIDE), ("narrow", _NARROW))}


def _stairs(heights: list[float], cap: float, letter: str, words: str, width: int) -> Markup:
    frame = _Frame(width, 220, f"{letter} left", _ticks(0, cap, 4), (0, float(len(heights) - 1)))
    corners = [(x, y) for n, y in enumerate(heights[:-1]) for x in (n, n + 1)]
    path = " L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in corners)
    base = frame.y(0)
    charges = [float(n) for n in range(0, len(heights), max(-(-(len(heights) - 1) // 6), 1))]
    area = f"M{frame.x(0):.1f} {base:.1f} L{path} L{frame.x(len(heights) - 1):.1f} {base:.1f} Z"
    marks = [
        *frame.axes(
            "charges, in order",
            charges,
            "{:g}".format,
        ),
        _tag("path", d=area, class_="band s0"),
        _tag("path", d=f"M{path}", class_="line s0"),
    ]
    return _svg(width, frame.height, words, marks)


def draw_curve(points: Sequence[tuple[float, float]], now: float | None, letter: str, title: str, words: str) -> Markup:
    """The error of a column against the price, both in powers of ten; ``now`` is marked, ``words`` are read out."""
    prices, errors = [math.log10(price) for price, _ in points], [math.log10(error) for _, error in points]
    ticks = _decade_ticks(min(errors), max(errors))
    decades = [n for n in _decade_ticks(prices[0], prices[-1]) if prices[0] - 1e-9 <= n <= prices[-1] + 1e-9]
    frame = _Frame(_NARROW, 170, title, ticks, (min(prices), max(prices)), text=_power_text)
    path = " L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in zip(prices, errors, strict=True))
    marks = [
        *frame.axes(f"price, in {letter}", decades, _power_text),
        _tag("path", d=f"M{path}", class_="line s0"),
        *(_tag("circle", cx=f"{frame.x(x):.1f}", cy=f"{frame.y(y):.1f}", r="2.5", class_="dot s0")
          for x, y in zip(prices, errors, strict=True)),
    ]  # fmt: skip
    if now is not None and prices[0] <= math.log10(now) <= prices[-1]:
        place = math.log10(now)
        height = _between(prices, errors, place)
        marks.append(_tag("circle", cx=f"{frame.x(place):.1f}", cy=f"{frame.y(height):.1f}", r="5.5", class_="now"))
    return _svg(_NARROW, frame.height, words, marks)


def draw_histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    bounds: tuple[float, float] | None,
    title: str,
    words: str,
    *,
    is_time: bool = False,
) -> dict[str, Markup]:
    """Bars of a histogram, and bounds as two lines; what lies beyond them is hatched.

    Args:
        edges: ends of the bins, one more than there are bars.
        counts: heights of the bars.
        bounds: a lower and an upper one, within the edges; None where there are none.
        title: above.
        words: for screen readers.
        is_time: whether places are days.
    """
    return {
        name: _histogram(edges, counts, bounds, title, words, width, is_time=is_time)
        for name, width in (("wide", _WIDE), ("narrow", _NARROW))
    }


def _histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    bounds: tuple[float, float] | None,
    title: str,
    words: str,
    width: int,
    *,
    is_time: bool,
) -> Markup:
    span = edges[0], edges[-1]
    frame = _Frame(width, 220, title, _ticks(0, max(*counts, 1), 4), span)
    most = 6 if width > _NARROW else 3
    places = _time_ticks(*span, most) if is_time else _inside(span, most)
    marks = frame.axes(
        "", [each for each in places if span[0] <= each <= span[1]], _time_text(*span) if is_time else tick_text
    )
    base = frame.y(0)
    for start, end, count in zip(edges, edges[1:], counts, strict=False):
        left, right, top = frame.x(start), frame.x(end), frame.y(count)
        if count:
            size = {"width": f"{max(right - left - 1, 0.6):.1f}", "height": f"{max(base - top, 0.8):.1f}"}
            marks.append(_tag("rect", x=f"{left:.1f}", y=f"{min(top, base - 0.8):.1f}", class_="bar s0", **size))
    if bounds is not None:
        roof = frame.y(frame.ticks[-1])
        for place, start, end in ((bounds[0], span[0], bounds[0]), (bounds[1], bounds[1], span[1])):
            left, right = frame.x(start), frame.x(end)
            if right > left:
                size = {"width": f"{right - left:.1f}", "height": f"{base - roof:.1f}"}
                marks.append(_tag("rect", x=f"{left:.1f}", y=f"{roof:.1f}", class_="beyond", **size))
            x = f"{frame.x(place):.1f}"
            marks.append(_tag("line", x1=x, x2=x, y1=f"{roof:.1f}", y2=f"{base:.1f}", class_="bound"))
    return _svg(width, frame.height, words, marks)


def tick_text(number: float) -> str:
    """A number beside an axis: short, with separators."""
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
    """Scales of a chart with a title above, numbers on the left and places below.

    Args:
        ticks: numbers on the left, upwards; the first and the last are the ends of the scale.
        span: ends of the places.
        text: of a number on the left.
        inset: left free at both ends of the places.
    """

    def __init__(
        self,
        width: int,
        height: int,
        title: str,
        ticks: list[float],
        span: tuple[float, float],
        *,
        text: Callable[[float], str] = tick_text,
        inset: float = 8,
    ) -> None:
        self.width, self.height, self.title, self.ticks, self.text = width, height, title, ticks, text
        self._left = 14 + _LETTER * max(len(text(tick)) for tick in ticks)
        self._top, self._bottom = 30, 44
        low, high = span
        self._span = (low, high) if high > low else (low - 0.5, high + 0.5)
        self._inset = inset

    def x(self, place: float) -> float:
        """Position of a place."""
        low, high = self._span
        room = self.width - self._left - 10 - 2 * self._inset
        return self._left + self._inset + room * (place - low) / (high - low)

    def y(self, value: float) -> float:
        """Position of a value."""
        low, high = self.ticks[0], self.ticks[-1]
        room = self.height - self._top - self._bottom
        return self._top + room * (high - value) / ((high - low) or 1)

    def axes(self, across: str, places: list[float], text: Callable[[float], str]) -> list[Markup]:
        """Title, grid, numbers and places."""
        found = [_text(self.title, 0, 14, "title", "start", limit=int(self.width / _LETTER) - 2)]
        for tick in self.ticks:
            y = f"{self.y(tick):.1f}"
            found.append(_tag("line", x1=f"{self._left:.1f}", x2=str(self.width - 6), y1=y, y2=y, class_="grid"))
            found.append(_text(self.text(tick), self._left - 6, self.y(tick) + 4, "tick", "end"))
        for place in places:
            words = text(place)
            half = _LETTER * len(words) / 2
            x = min(max(self.x(place), half), self.width - half)
            found.append(_text(words, x, self.height - 24, "tick", "middle"))
        middle = (self._left + self.width) / 2
        found.append(_text(across, middle, self.height - 6, "title", "middle", limit=40))
        return found


def _panel(panel: Panel, drawing: Drawing, width: int) -> Markup:
    words = f"Chart of {panel.title} with {drawing.confidence} intervals; the table has the same numbers."
    if drawing.axis != CATEGORY:
        return _lines(panel, drawing, width, words)
    if len(panel.points) <= MOST_BARS:
        return _bars(panel, width, words)
    return _columns(panel, width, words)


def _lines(panel: Panel, drawing: Drawing, width: int, words: str) -> Markup:
    points = panel.points
    places = [point.place or 0.0 for point in points]
    span = min(places), max(places)
    ticks = _ticks(*_reach(points), 5)
    frame = _Frame(width, 270 if width > _NARROW else 230, panel.title, ticks, span)
    time = drawing.axis == TIME
    across = _time_ticks(*span, 6 if width > _NARROW else 4) if time else _inside(span, 6 if width > _NARROW else 4)
    marks = frame.axes(drawing.across, across, _time_text(*span) if time else tick_text)
    for number, series in enumerate(panel.series):
        marks += _line(series, number, frame)
    if len(panel.series) > 1:
        return _with_names(panel.series, width, frame.height, words, marks)
    return _svg(width, frame.height, words, marks)


def _line(series: Series, number: int, frame: _Frame) -> list[Markup]:
    points, _ = thinned(series.points, MOST_MARKS)
    spots = [(frame.x(point.place or 0.0), point) for point in points]
    style = f"s{number}"
    found = []
    if len(spots) > 1:
        above = [f"{x:.1f} {frame.y(point.high):.1f}" for x, point in spots]
        below = [f"{x:.1f} {frame.y(point.low):.1f}" for x, point in reversed(spots)]
        found.append(_tag("path", d=f"M{' L'.join([*above, *below])} Z", class_=f"band {style}"))
        line = " L".join(f"{x:.1f} {frame.y(point.value):.1f}" for x, point in spots)
        dash = {"stroke_dasharray": _DASHES[number]} if _DASHES[number] else {}
        found.append(_tag("path", d=f"M{line}", class_=f"line {style}", **dash))
    for x, point in spots:
        if len(spots) == 1:
            found.append(_whisker(x, frame.y(point.low), x, frame.y(point.high), style))
        if len(spots) <= _MOST_DOTS or point.marked:
            found.append(_dot(x, frame.y(point.value), point, style, series.name))
    return found


def _with_names(series: Sequence[Series], width: int, height: int, words: str, marks: list[Markup]) -> Markup:
    """The names of lines below the chart, each with a piece of its line."""
    x, y = 0.0, float(height) + 12
    for number, each in enumerate(series):
        name = _short(each.name, 24)
        if x and x + 34 + _LETTER * len(name) > width:
            x, y = 0.0, y + 18
        dash = {"stroke_dasharray": _DASHES[number]} if _DASHES[number] else {}
        at = f"{y - 4:.1f}"
        marks.append(_tag("line", x1=f"{x:.1f}", x2=f"{x + 22:.1f}", y1=at, y2=at, class_=f"line s{number}", **dash))
        marks.append(_text(name, x + 28, y, "tick", "start"))
        x += 28 + _LETTER * len(name) + 18
    return _svg(width, int(y) + 6, words, marks)


def _bars(panel: Panel, width: int, words: str) -> Markup:
    points = panel.points
    wide = width > _NARROW
    letters = min(max(len(point.label) for point in points), 24 if wide else 15)
    left, row, top = 12 + _LETTER * letters, 26, 30
    low, high = _reach(points, zero=True)
    ticks = _ticks(low, high, 5 if wide else 3)
    height = top + row * len(points) + 26

    def x(value: float) -> float:
        return left + (width - left - 16) * (value - ticks[0]) / ((ticks[-1] - ticks[0]) or 1)

    marks = [_text(panel.title, 0, 14, "title", "start", limit=int(width / _LETTER) - 2)]
    for tick in ticks:
        place = f"{x(tick):.1f}"
        marks.append(_tag("line", x1=place, x2=place, y1=str(top - 4), y2=str(height - 22), class_="grid"))
        half = _LETTER * len(tick_text(tick)) / 2
        marks.append(_text(tick_text(tick), min(x(tick), width - half), height - 6, "tick", "middle"))
    for n, point in enumerate(points):
        y = top + row * n
        start, end = sorted((x(0), x(point.value)))
        marks.append(_text(point.label, left - 8, y + 15, "name", "end", limit=letters))
        size = f"{max(end - start, 0.5):.1f}"
        marks.append(_tag("rect", x=f"{start:.1f}", y=str(y + 4), width=size, height="15", class_="bar s0"))
        marks.append(_whisker(x(point.low), y + 11.5, x(point.high), y + 11.5, "s0"))
        marks.append(_dot(x(point.value), y + 11.5, point, "s0", ""))
    return _svg(width, height, words, marks)


def _columns(panel: Panel, width: int, words: str) -> Markup:
    points, _ = thinned(panel.points, MOST_MARKS if width > _NARROW else MOST_MARKS // 2)
    ticks = _ticks(*_reach(points, zero=True), 5)
    frame = _Frame(width, 270, panel.title, ticks, (-0.5, len(points) - 0.5), inset=0)
    step = frame.x(1) - frame.x(0)
    labels = _inside((0, len(points) - 1), 5 if width > _NARROW else 3)
    names = [each for each in labels if float(each).is_integer()]
    marks = frame.axes("", names, lambda n: _short(points[int(n)].label, 14))
    for n, point in enumerate(points):
        middle = frame.x(n)
        top, bottom = sorted((frame.y(0), frame.y(point.value)))
        place, size = f"{middle - 0.4 * step:.2f}", f"{max(bottom - top, 0.5):.1f}"
        bar = {"x": place, "y": f"{top:.1f}", "width": f"{0.8 * step:.2f}", "height": size}
        marks.append(_tag("rect", _tag("title", _told(point, "")), class_="bar s0", **bar))
        marks.append(_whisker(middle, frame.y(point.low), middle, frame.y(point.high), "s0", ends=step > 6))
        if point.marked:
            marks.append(_dot(middle, frame.y(point.value), point, "s0", ""))
    return _svg(width, frame.height, words, marks)


def _dot(x: float, y: float, point: Point, style: str, name: str) -> Markup:
    kind = "dot marked" if point.marked else "dot"
    title = _tag("title", _told(point, name))
    size = "4.5" if point.marked else "3.2"
    return _tag("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=size, class_=f"{kind} {style}")


def _told(point: Point, name: str) -> str:
    whose = f"{name}, {point.label}" if name else point.label
    star = "; the bias may exceed this error" if point.marked else ""
    return f"{whose}: {point.value:,.6g}, between {point.low:,.6g} and {point.high:,.6g}{star}"


def _whisker(x1: float, y1: float, x2: float, y2: float, style: str, *, ends: bool = True) -> Markup:
    d = f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}"
    if ends:
        across = (0.0, 4.0) if abs(y1 - y2) < 0.01 else (4.0, 0.0)
        for x, y in ((x1, y1), (x2, y2)):
            d += f" M{x - across[0]:.1f} {y - across[1]:.1f} L{x + across[0]:.1f} {y + across[1]:.1f}"
    return _tag("path", d=d, class_=f"whisker {style}")


def _reach(points: Sequence[Point], *, zero: bool = False) -> tuple[float, float]:
    low, high = min(point.low for point in points), max(point.high for point in points)
    # From zero, unless that would leave half of the picture empty.
    if zero or 0 < low < 0.5 * high:
        low = min(low, 0.0)
    if zero or 0.5 * low < high < 0:
        high = max(high, 0.0)
    return low, high


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers, the first not above the lowest value and the last not below the highest."""
    if high <= low:
        low, high = (low - abs(low) / 2 - 0.5, high + abs(high) / 2 + 0.5) if low else (0.0, 1.0)
    step = _round_step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _inside(span: tuple[float, float], most: int) -> list[float]:
    """Round numbers within a span."""
    low, high = span
    if high <= low:
        return [low]
    return [tick for tick in _ticks(low, high, most) if low - 1e-9 <= tick <= high + 1e-9]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if step <= power * each * (1 + 1e-9))


def _decade_ticks(low: float, high: float) -> list[float]:
    """Logarithms of 1, 2 and 5 times powers of ten around a span; of the powers alone where those are many."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    steps = (1, 2, 5) if high - low <= 2.2 else (1,)
    found = [power + math.log10(each) for power in powers for each in steps]
    first = max((tick for tick in found if tick <= low + 1e-9), default=low)
    last = min((tick for tick in found if tick >= high - 1e-9), default=high)
    chosen = [tick for tick in found if first <= tick <= last]
    return chosen if len(chosen) > 1 else [low, high + 1e-6]


def _power_text(power: float) -> str:
    return tick_text(float(f"{10**power:.6g}"))


def _between(places: list[float], heights: list[float], place: float) -> float:
    for (x1, y1), (x2, y2) in pairwise(zip(places, heights, strict=True)):
        if x1 <= place <= x2:
            return y1 + (y2 - y1) * ((place - x1) / ((x2 - x1) or 1))
    return heights[-1]


def _time_ticks(low: float, high: float, most: int) -> list[float]:
    """Beginnings of years, months or days within a span, at most about so many."""
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
    return _tag("text", _short(text, limit), x=f"{x:.1f}", y=f"{y:.1f}", class_=style, text_anchor=anchor)


def _tag(name: str, content: str | Markup = "", **attributes: str) -> Markup:
    """An element; text and attributes are escaped, markup is taken unchanged."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"' for key, text in attributes.items())
    return Markup(f"<{name}{said}>{escape(content)}</{name}>")  # noqa: S704 - every part is escaped


def _svg(width: int, height: int, words: str, marks: Sequence[Markup]) -> Markup:
    content = Markup("").join(marks)
    size = {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
    return _tag("svg", content, class_="plot", role="img", aria_label=words, **size)
