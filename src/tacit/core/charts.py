"""The charting library, and saving of charts as SVG, PNG, HTML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.core.errors import InputError
from tacit.core.extras import load

_FORMATS = (".svg", ".png", ".html", ".json")


def altair() -> Any:
    """The module ``altair``.

    Raises:
        MissingError: the extra ``plot`` is not installed.
    """
    return load("altair", "plot", "charts")


def offline(chart: Any) -> Any:
    """The same chart, which a notebook shows as a picture that needs nothing from the network."""
    made = chart.copy(deep=False)
    # A class of its own, so that charts which a person makes with Altair keep their renderer.
    kind = type(type(chart).__name__, (type(chart),), {"_repr_mimebundle_": _as_svg})
    # Altair's charts keep what is assigned as a part of the picture.
    object.__setattr__(made, "__class__", kind)
    return made


def _as_svg(chart: Any, *_: Any, **__: Any) -> dict[str, str]:
    import io

    stream = io.StringIO()
    chart.save(stream, format="svg")
    return {"image/svg+xml": stream.getvalue(), "text/plain": repr(type(chart).__name__)}


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to a file whose name ends in .svg, .png, .html or .json; a page needs nothing from the network."""
    ending = Path(path).suffix.lower()
    if ending not in _FORMATS:
        raise InputError("path", f"must end in one of {', '.join(_FORMATS)}")
    chart.save(str(path), **({"inline": True} if ending == ".html" else {}))
