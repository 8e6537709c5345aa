"""Draw the figures of docs/learning.md: python docs/figures/learning.py [folder].

Curves are of the scores that ``benchmarks/learn.py --scores`` kept in ``benchmarks/learning_scores.json``; shapes and
calibration are of one fit to a table made up here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from tacit.core.charts import save_chart
from tacit.learn import AdditiveClassifier

HERE = Path(__file__).parent
SCORES = HERE.parents[1] / "benchmarks" / "learning_scores.json"
SHOWN = {
    "tacit LogisticRegression": "linear",
    "tacit LinearRegression": "linear",
    "tacit AdditiveClassifier": "additive",
    "tacit AdditiveRegressor": "additive",
    "tacit BoostedTreesClassifier": "trees",
    "tacit BoostedTreesRegressor": "trees",
    "DP-EBM": "DP-EBM",
    "diffprivlib LogisticRegression": "diffprivlib",
    "diffprivlib LinearRegression": "diffprivlib",
}
ORDER = ["linear", "additive", "trees", "DP-EBM", "diffprivlib"]


def main(folder: Path) -> None:
    """Curves of all tables; then one additive model: its shapes and its calibration."""
    save_chart(curves(json.loads(SCORES.read_text())), folder / "learning-curves.svg")
    shapes, calibration = one_model()
    save_chart(shapes, folder / "learning-shapes.svg")
    save_chart(calibration, folder / "learning-calibration.svg")


def curves(scores: dict[str, Any]) -> Any:
    """Mean accuracy or R² by ε, one panel per table; the dashed line is the better of two models without privacy."""
    panels = []
    for name, told in scores.items():
        lines, best = [], -np.inf
        for contender, cells in told["contenders"].items():
            if "0" in cells:
                best = max(best, float(np.mean([each[0] for each in cells["0"]])))
            elif contender in SHOWN:
                for epsilon, found in cells.items():
                    mean = float(np.mean([each[0] for each in found]))
                    lines.append({"ε": float(epsilon), "score": mean, "model": SHOWN[contender]})
        floor = min(line["score"] for line in lines if line["model"] == "linear")
        low = max(floor - 0.15, -0.2) if told["scores"][0] == "R²" else max(floor - 0.2, 0.2)
        data = alt.Data(values=[line | {"score": max(line["score"], low)} for line in lines])
        drawn = (
            alt.Chart(data)
            .mark_line(point=True, clip=True)
            .encode(
                x=alt.X("ε:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=[0.1, 1, 10, 100])),
                y=alt.Y("score:Q", title=told["scores"][0], scale=alt.Scale(domain=[low, min(best + 0.05, 1)])),
                color=alt.Color("model:N", sort=ORDER, scale=alt.Scale(domain=ORDER)),
            )
        )
        rule = alt.Chart(alt.Data(values=[{"score": best}])).mark_rule(strokeDash=[4, 3]).encode(y="score:Q")
        panels.append((drawn + rule).properties(title=name, width=190, height=120))
    return alt.concat(*panels, columns=3)


def one_model() -> tuple[Any, Any]:
    """Shapes and calibration of an additive classifier at ε = 1."""
    drawn = np.random.default_rng(7)
    X = np.column_stack([drawn.uniform(18, 90, 12_000), drawn.gamma(2, 20, 12_000), drawn.normal(120, 15, 12_000)])
    chance = 1 / (1 + np.exp(-(0.002 * (X[:, 0] - 50) ** 2 - 1.5 + 0.04 * (X[:, 2] - 120))))
    y = (drawn.random(len(X)) < chance).astype(int)
    names = ["age", "stay", "pressure"]
    bounds = [(18, 90), (0, 200), (60, 200)]
    model = AdditiveClassifier(epsilon=1, delta="1e-6", bounds=bounds, classes=[0, 1]).fit(X[:9000], y[:9000])
    panels = []
    for name, shape in zip(names, model.shapes_, strict=True):
        middles = (shape.edges[1:] + shape.edges[:-1]) / 2
        table = pa.table(
            {name: middles, "score": shape.values[:, 0], "low": shape.lower[:, 0], "high": shape.upper[:, 0]}
        ).to_pylist()
        axis = alt.X(f"{name}:Q", scale=alt.Scale(zero=False, nice=False))
        band = alt.Chart(alt.Data(values=table)).mark_area(opacity=0.25).encode(x=axis, y="low:Q", y2="high:Q")
        line = (
            alt.Chart(alt.Data(values=table))
            .mark_line(interpolate="step")
            .encode(x=axis, y=alt.Y("score:Q", title="added to the score"))
        )
        panels.append((band + line).properties(width=190, height=130))
    sure = model.predict_proba(X[9000:])[:, 1]
    places = np.minimum((sure * 10).astype(int), 9)
    cells = [
        {"predicted": float(sure[places == i].mean()), "true": float(y[9000:][places == i].mean())}
        for i in range(10)
        if (places == i).sum() >= 20
    ]
    ends = alt.Scale(domain=[0, 1])
    points = (
        alt.Chart(alt.Data(values=cells))
        .mark_line(point=True)
        .encode(
            x=alt.X("predicted:Q", scale=ends, title="predicted"),
            y=alt.Y("true:Q", scale=ends, title="share of the class"),
        )
    )
    even = (
        alt.Chart(alt.Data(values=[{"a": 0, "b": 0}, {"a": 1, "b": 1}]))
        .mark_line(strokeDash=[4, 3])
        .encode(x=alt.X("a:Q", title="predicted"), y="b:Q")
    )
    return alt.hconcat(*panels), (even + points).properties(width=220, height=220)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
