"""Draw the pictures of the course: python docs/figures/course.py [folder]."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import altair as alt

import tacit
from tacit.lab import save_chart

HERE = Path(__file__).parent
_SIZE = {"width": 420, "height": 220}


def neighbours() -> alt.LayerChart:
    """Histograms of two neighbours: one person more in one bin."""
    rows = [
        {"illness": illness, "people": count, "database": name}
        for name, counts in (("x", (4, 2, 1)), ("y", (5, 2, 1)))
        for illness, count in zip(("flu", "cold", "none"), counts, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("illness:N", sort=None, title=None, axis=alt.Axis(labelAngle=0)),
        xOffset="database:N",
        y=alt.Y("people:Q"),
    )
    return alt.layer(base.mark_bar().encode(color=alt.Color("database:N", title=None))).properties(**_SIZE)


def response() -> alt.Chart:
    """Standard error of randomized response against the number of people, for three noise rates."""
    rows = []
    for gamma in ("0.05", "0.1", "0.25"):
        poll = tacit.RandomizedResponse(gamma=gamma)
        for step in range(21):
            people = round(100 * 10 ** (step * 0.2))
            error = math.sqrt(float(poll.lie * (1 - poll.lie)) / people) / (2 * float(gamma))
            rows.append({"people": people, "standard error": error, "epsilon": f"{float(poll.epsilon):.2f}"})
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("people:Q", scale=alt.Scale(type="log")),
            y=alt.Y("standard error:Q", scale=alt.Scale(type="log"), title="standard error of the share"),
            color=alt.Color("epsilon:N", title="epsilon"),
        )
        .properties(**_SIZE)
    )


def histogram() -> alt.LayerChart:
    """A noisy histogram with its simultaneous error bars; drawn from a fixed example, not from new noise."""
    truth = [120, 95, 210, 60, 18, 3]
    noisy = [121, 93, 211, 60, 22, 4]
    within = tacit.Histogram(epsilon="0.5", bins=range(len(truth))).error("0.05")
    rows = [
        {"bin": "abcdef"[i], "noisy count": noisy[i], "low": noisy[i] - within, "high": noisy[i] + within}
        for i in range(len(truth))
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=alt.X("bin:N", axis=alt.Axis(labelAngle=0)))
    bars = base.mark_bar(opacity=0.6).encode(y=alt.Y("noisy count:Q"))
    errors = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title="noisy count"), y2="high:Q")
    return alt.layer(bars, errors).properties(**_SIZE)


def selection() -> alt.Chart:
    """Probabilities with which the exponential mechanism chooses among five candidates, against epsilon."""
    scores = [0, 1, 2, 4, 8]
    rows = []
    for step in range(1, 31):
        epsilon = step / 10
        for score, chance in zip(
            scores, tacit.Exponential(epsilon=str(epsilon), sensitivity=1).probabilities(scores), strict=True
        ):
            rows.append({"epsilon": epsilon, "probability": float(chance), "score": score})
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(x="epsilon:Q", y="probability:Q", color=alt.Color("score:N", title="score"))
        .properties(**_SIZE)
    )


def learning() -> alt.Chart:
    """Rows that a linear model needs against the excess error allowed, for three epsilons."""
    rows = []
    for epsilon in ("0.1", "1", "10"):
        for excess in ("0.02", "0.03", "0.05", "0.08", "0.12", "0.2"):
            needed = tacit.learn.rows_needed(excess=excess, epsilon=epsilon, delta="1e-6", dimensions=20)
            rows.append({"excess": float(excess), "rows": needed, "epsilon": epsilon})
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("excess:Q", title="excess risk allowed"),
            y=alt.Y("rows:Q", scale=alt.Scale(type="log"), title="rows needed"),
            color=alt.Color("epsilon:N", title="epsilon"),
        )
        .properties(**_SIZE)
    )


def draw(folder: Path = HERE) -> None:
    """Draw all figures of the course."""
    for chart in (neighbours, response, histogram, selection, learning):
        save_chart(chart(), folder / f"course-{chart.__name__}.svg")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
