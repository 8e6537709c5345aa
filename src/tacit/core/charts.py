"""The charting library, and saving of charts as SVG, PNG, HTML or JSON."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.core.extras import load
from tacit.core.text_files import ScriptEncoder

_FORMATS = (".svg", ".png", ".html", ".json")


def altair() -> Any:
    """Return the module ``altair``.

    Raises:
        MissingError: the extra ``plot`` is not installed.
    """
    return load("altair", "plot", "charts")


def offline(chart: Any) -> Any:
    """Return a copy of a chart that shows as SVG in a notebook, needs no network, and escapes its text in pages."""
    base = type(chart)

    # A subclass, so that charts which a person makes with Altair keep their renderer.
    class Shown(base):  # type: ignore[misc, valid-type]
        def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
            stream = io.StringIO()
            self.save(stream, format="svg")
            return {"image/svg+xml": stream.getvalue(), "text/plain": repr(base.__name__)}

        # Altair puts the chart as JSON into a script of the page, which "</script>" inside a text would end.
        def to_html(self, *places: Any, json_kwds: Any = None, **words: Any) -> str:
            page: str = super().to_html(*places, json_kwds={**(json_kwds or {}), "cls": ScriptEncoder}, **words)
            return page

        def save(self, *places: Any, json_kwds: Any = None, **words: Any) -> None:
            super().save(*places, json_kwds={**(json_kwds or {}), "cls": ScriptEncoder}, **words)

    Shown.__name__ = base.__name__
    made = chart.copy(deep=False)
    # Altair's charts take an assigned attribute as a part of the chart.
    object.__setattr__(made, "__class__", Shown)
    return made


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to a .svg, .png, .html or .json file; the HTML page needs no network access."""
    ending = Path(path).suffix.lower()
    if ending not in _FORMATS:
        raise InputError("path", f"must end in one of {', '.join(_FORMATS)}")
    offline(chart).save(str(path), **({"inline": True} if ending == ".html" else {}))
