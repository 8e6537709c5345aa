"""The charting library, and saving of charts as SVG, PNG, HTML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.core.extras import load

__all__ = ["altair", "save_chart"]

_FORMATS = (".svg", ".png", ".html", ".json")


def altair() -> Any:
    """The module ``altair``.

    Raises:
        MissingError: the extra ``plot`` is not installed.
    """
    return load("altair", "plot", "charts")


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to a file whose name ends in .svg, .png, .html or .json; a page needs nothing from the network."""
    ending = Path(path).suffix.lower()
    if ending not in _FORMATS:
        raise InputError("path", f"must end in one of {', '.join(_FORMATS)}")
    chart.save(str(path), **({"inline": True} if ending == ".html" else {}))
