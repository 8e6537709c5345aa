"""SVG charts of released numbers and budgets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tacit.core.charts import altair
from tacit.core.extras import load
from tacit.server.console.chart_url import Panel, read_address

__all__ = ["LOOKS", "Look", "draw_answer", "draw_burn_down"]

_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"


@dataclass(frozen=True)
class Look:
    """Colours and the width of a chart."""

    ink: str
    quiet: str
    line: str
    accent: str
    width: int


_LIGHT = ("#1c1f21", "#5d6266", "#dedbd2", "#0d5f63")
_DARK = ("#e8e5dd", "#a0a5a4", "#2c3233", "#72c8c1")
LOOKS: Final = {
    "light": Look(*_LIGHT, 480),
    "dark": Look(*_DARK, 480),
    "light-narrow": Look(*_LIGHT, 190),
    "dark-narrow": Look(*_DARK, 190),
}


@lru_cache(maxsize=256)
def draw_answer(of: str, look: str) -> str:
    """A chart of the drawing that stands in an address: a point and an error bar for every row.

    Raises:
        InputError: the address stands for no drawing.
    """
    alt = altair()
    drawing, style = read_address(of), LOOKS[look]
    narrow = style.width < 300
    beside = 1 if narrow else len(drawing.panels)
    width = (style.width - 40 * (beside - 1)) // beside
    charts = [_panel(panel, style, width, named=narrow or not index) for index, panel in enumerate(drawing.panels)]
    chart = charts[0] if len(charts) == 1 else (alt.vconcat if narrow else alt.hconcat)(*charts, spacing=24)
    return _svg(chart, style)


@lru_cache(maxsize=64)
def draw_burn_down(steps: tuple[float, ...], cap: float, letter: str, look: str) -> str:
    """Draw the budget left before the first and after each charge, as stairs that go down.

    Args:
        steps: what was spent in all, then.
        cap: of the budget.
        letter: of its currency.
        look: see :data:`LOOKS`.
    """
    alt = altair()
    style = LOOKS[look]
    left = [max(cap - spent, 0) for spent in steps]
    # The last stair is as wide as the others, so that what is left now can be seen.
    rows = [{"n": n, "left": each} for n, each in enumerate([*left, left[-1]])]
    end = len(rows) - 1
    marks = list(range(0, end + 1, max(-(-end // 6), 1)))
    across = alt.X(
        "n:Q",
        title="charges, in order",
        axis=alt.Axis(values=marks, format="d", grid=False),
        scale=alt.Scale(nice=False, domain=[0, end]),
    )
    upwards = alt.Y("left:Q", title=f"{letter} left", scale=alt.Scale(domain=[0, cap]), axis=alt.Axis(tickCount=5))
    stairs = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_area(
            interpolate="step-after", color=style.accent, opacity=0.14, line={"color": style.accent, "strokeWidth": 2}
        )
        .encode(x=across, y=upwards)
    )
    wide = style.width + (160 if style.width > 300 else 40)
    return _svg(stairs.properties(width=wide, height=220), style)


def _panel(panel: Panel, look: Look, width: int, *, named: bool) -> Any:
    alt = altair()
    rows = [
        {"row": n, "label": point.label, "value": point.value, "low": point.low, "high": point.high}
        for n, point in enumerate(panel.points)
    ]
    names = [point.label for point in panel.points]
    limit = 170 if look.width > 300 else 100
    # The browser's fonts may be wider than those by which the chart is laid out, so labels get room by their length.
    # Rows are told apart by their number, because two may have the same label.
    words = alt.Axis(
        labelExpr=f"{_array(names)}[datum.value]" if named else "''",
        ticks=False,
        domain=False,
        labelPadding=8,
        labelLimit=limit,
        minExtent=min(limit, 7.4 * max(map(len, names))) + 10 if named else 0,
        title=None,
    )
    scale = alt.Scale(zero=False, nice=True, padding=12)
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("row:O", axis=words, sort=None))
    axis = alt.Axis(tickCount=4 if width < 320 else 6, labelFlush=False, domain=False, ticks=False)
    bars = base.mark_rule(strokeWidth=2, color=look.accent, opacity=0.75).encode(
        x=alt.X("low:Q", title=panel.title, scale=scale, axis=axis), x2="high:Q"
    )
    ends = [
        base.mark_tick(thickness=2, size=9, color=look.accent, opacity=0.75).encode(x=alt.X(f"{end}:Q", scale=scale))
        for end in ("low", "high")
    ]
    points = base.mark_point(filled=True, size=62, opacity=1, color=look.accent).encode(x=alt.X("value:Q", scale=scale))
    return alt.layer(bars, *ends, points).properties(width=width, height=alt.Step(26))


def _array(labels: Any) -> str:
    """A list of texts in Vega's expression language, where nothing in them can end a text."""
    return "[" + ",".join(f"'{''.join(map(_sign, label))}'" for label in labels) + "]"


def _sign(sign: str) -> str:
    return sign if sign.isalnum() or sign in " -_.,:/()+%" else "".join(f"\\u{unit:04x}" for unit in _units(sign))


def _units(sign: str) -> list[int]:
    raw = sign.encode("utf-16-be", "replace")
    return [int.from_bytes(raw[i : i + 2]) for i in range(0, len(raw), 2)]


def _svg(chart: Any, look: Look) -> str:
    vl_convert = load("vl_convert", "plot", "charts")
    words = {"labelColor": look.quiet, "titleColor": look.ink, "gridColor": look.line, "labelFont": _FONT}
    plain = (
        chart.configure(background="transparent", font=_FONT, padding=2)
        .configure_view(stroke=None)
        .configure_axis(
            **words, titleFont=_FONT, labelFontSize=12, titleFontSize=12, titleFontWeight=600, titlePadding=10
        )
    )
    return str(vl_convert.vegalite_to_svg(plain.to_dict()))
