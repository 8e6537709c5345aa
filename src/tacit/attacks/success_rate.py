"""Success rate of an attack with its confidence interval, and the base class of attack results."""

from __future__ import annotations

import io
import json
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.core.charts import save_chart
from tacit.core.errors import InputError

#: The two-sided 95% point of the normal law.
_Z: Final = 1.959964


@dataclass(frozen=True)
class SuccessRate:
    """Number of successes out of a number of tries."""

    hits: int
    tries: int

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.tries or self.tries < 1:
            raise InputError("hits", f"must be from 0 to tries, and tries positive; got {self.hits} of {self.tries}")

    @property
    def share(self) -> float:
        """Hits per try."""
        return self.hits / self.tries

    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval for the chance behind the rate, for independent tries."""
        centre = (self.share + _Z**2 / (2 * self.tries)) / (1 + _Z**2 / self.tries)
        spread = math.sqrt(self.share * (1 - self.share) / self.tries + _Z**2 / (4 * self.tries**2))
        half = spread * _Z / (1 + _Z**2 / self.tries)
        return max(0.0, centre - half), min(1.0, centre + half)

    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""
        low, high = self.interval()
        return {"hits": self.hits, "tries": self.tries, "share": self.share, "low": low, "high": high}

    @property
    def text(self) -> str:
        """The share, and how far luck with these tries may have moved it: ``55% ± 9``."""
        low, high = self.interval()
        return f"{percent(self.share)} ± {max(round(50 * (high - low)), 1)}"

    def __str__(self) -> str:
        return f"{self.hits:,} of {self.tries:,} ({percent(self.share)})"


def percent(share: float) -> str:
    """A share for people: whole per cents, but neither none nor all where it is not."""
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "<0.1%" if share < 0.5 else ">99.9%"
    return f"{100 * share:.{1 if 0 < share < 0.01 or 0.99 < share < 1 else 0}f}%"


class Result(ABC):
    """Figures about many people at once; no result holds a person's row."""

    @property
    @abstractmethod
    def title(self) -> str:
        """A headline."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Plain figures under stable keys."""

    @abstractmethod
    def draw(self) -> Any:
        """An Altair chart."""

    def to_json(self) -> str:
        """Stable keys."""
        return json.dumps(self.content(), ensure_ascii=False, allow_nan=False)

    def chart(self, path: str | Path | None = None) -> Any:
        """An Altair chart; saved as SVG, PNG, HTML or JSON when ``path`` is given, by its ending."""
        chart = self.draw()
        if path is not None:
            save_chart(chart, path)
        return chart

    def svg(self) -> str:
        """The chart as SVG text, to stand inside a page."""
        sink = io.StringIO()
        self.draw().save(sink, format="svg")
        found = re.search(r"<svg.*</svg>", sink.getvalue(), re.DOTALL)
        return found.group(0) if found else ""
