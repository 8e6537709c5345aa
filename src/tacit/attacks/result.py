"""Base class of attack results: text, JSON and chart."""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from tacit.core.charts import save_chart

__all__ = ["Result"]


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
