"""Chart data of released numbers: points with intervals, in panels, over categories, numbers or time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
