"""Chart data encoded in the address of its image.

A picture is asked for after its page, perhaps of another process. Its address therefore carries the released numbers
that the page shows already, and the server draws them: nothing is kept between the two, and nothing is looked up. The
server marks what it wrote and draws nothing else: drawing takes long, and a picture from here would be believed.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import dataclass
from typing import Any, Final

from tacit.core.errors import InputError

__all__ = ["MOST_TEXT", "Drawing", "Panel", "Point", "address", "read_address"]

#: Of an address, so that every server on the way takes it.
MOST_TEXT: Final = 1600
_MOST_BYTES: Final = 20_000
#: Far more than an answer has; each panel takes as long as many points.
_MOST_PANELS: Final = 4
_MOST_POINTS: Final = 400
_LABEL: Final = 40


@dataclass(frozen=True)
class Point:
    """A released value and its interval."""

    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """The points of one column."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Drawing:
    """Panels side by side or one below the other."""

    panels: tuple[Panel, ...]
    confidence: str

    @property
    def shown(self) -> int:
        """Number of points in the fullest panel."""
        return max(len(panel.points) for panel in self.panels)


def address(drawing: Drawing) -> tuple[str, int]:
    """The text that stands for a drawing, and how many of its points it has; as many as fit."""
    most = drawing.shown
    while True:
        text = _pack(drawing, most)
        if len(text) <= MOST_TEXT or most <= 1:
            return text, most
        most = most * 3 // 4


def read_address(text: str) -> Drawing:
    """The drawing that a text stands for.

    Raises:
        InputError: it stands for none.
    """
    try:
        packed = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        content = json.loads(_inflate(packed))
        panels = tuple(Panel(str(title)[:_LABEL], _points(points)) for title, points in content["p"])
        return _checked(Drawing(panels, str(content["c"])[:_LABEL]))
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError, RecursionError):
        raise InputError("of", "is not a drawing") from None


def _pack(drawing: Drawing, most: int) -> str:
    content = {
        "c": drawing.confidence,
        "p": [
            [
                _cut(panel.title),
                [[_cut(p.label), *(_short(x) for x in (p.value, p.low, p.high))] for p in panel.points[:most]],
            ]
            for panel in drawing.panels
        ],
    }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).rstrip(b"=").decode()


def _inflate(packed: bytes) -> str:
    reader = zlib.decompressobj()
    text = reader.decompress(packed, _MOST_BYTES)
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError("too long")
    return text.decode()


def _points(points: Any) -> tuple[Point, ...]:
    return tuple(Point(str(label)[:_LABEL], *map(float, (value, low, high))) for label, value, low, high in points)


def _checked(drawing: Drawing) -> Drawing:
    points = [point for panel in drawing.panels for point in panel.points]
    numbers = [x for point in points for x in (point.value, point.low, point.high)]
    if not points or len(points) > _MOST_POINTS or len(drawing.panels) > _MOST_PANELS:
        raise ValueError("nothing to draw, or too much")
    if not all(math.isfinite(x) and abs(x) < 1e18 for x in numbers):
        raise ValueError("not on any paper")
    return drawing


def _short(number: float) -> float | int:
    rounded = float(f"{number:.6g}")
    return int(rounded) if rounded.is_integer() else rounded


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"
