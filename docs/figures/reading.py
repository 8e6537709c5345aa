"""Draw the figures of docs/how-to-read-an-answer.md: python docs/figures/reading.py [folder]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

import tacit
from tacit.core.charts import save_chart
from tacit.curator.curator import Curator
from tacit.releases.answer import error_bars

HERE = Path(__file__).parent
WARDS = ("cardiology", "oncology", "surgery")
TRUTH = "#b3261e"


def visits() -> pa.Table:
    """Visits of 5,000 people: one in ten has twenty visits, the others one; one visit in fifty is very dear."""
    rows = [(person, turn) for person in range(5000) for turn in range(1 if person % 10 else 20)]
    return pa.table(
        {
            "person": [person for person, _ in rows],
            "ward": [WARDS[(person + turn) % 7 % 3] for person, turn in rows],
            "cost": [4000 if i % 50 == 0 else 20 + i * 37 % 200 for i in range(len(rows))],
        }
    )


def main(folder: Path) -> None:
    """Noise at three prices, bounds of an average, and rows of a person, each beside the truth."""
    frame = visits()
    opened = {"unit": "person", "epsilon": "1000", "max_groups": 3, "max_rows": 20}
    with tacit.open(frame, table="visits", columns={"ward": WARDS, "cost": (0, 5000)}, **opened) as curator:
        save_chart(_noise(curator, frame), folder / "reading-noise.svg")
        save_chart(_bounds(curator, frame), folder / "reading-bounds.svg")
        save_chart(_limits(curator, frame), folder / "reading-limits.svg")


def _noise(curator: Curator, frame: pa.Table) -> Any:
    counts = frame.group_by("ward").aggregate([("person", "count")]).to_pydict()
    truth = dict(zip(counts["ward"], counts["person_count"], strict=True))
    charts = []
    for price in ("0.1", "0.5", "2.5"):
        answer = curator.sql("SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward", epsilon=price)
        records = [_record(row[0][0], row[1]) for row in answer.displayed()]
        charts.append(_beside(records, truth, "", "visits").properties(title=f"ε = {price}"))
    return alt.hconcat(*charts).resolve_scale(y="shared")


def _bounds(curator: Curator, frame: pa.Table) -> Any:
    mean = pc.mean(frame["cost"]).as_py()
    records = []
    for high in (60, 120, 220, 1000, 5000):
        sql = "SELECT AVG(CLAMP(cost, 0, most)) AS cost FROM visits".replace("most", str(high))
        answer = curator.sql(sql, epsilon="0.2", max_groups=1, max_rows=20)
        records.append(_record(f"0 to {high:,}", answer.displayed()[0][0]))
    return _beside(records, {each["group"]: mean for each in records}, "bounds", "average cost")


def _limits(curator: Curator, frame: pa.Table) -> Any:
    records = []
    for rows in (1, 5, 10, 20, 100, 400):
        answer = curator.sql("SELECT COUNT(*) AS visits FROM visits", epsilon="0.2", max_rows=rows)
        records.append(_record(str(rows), answer.displayed()[0][0]))
    return _beside(records, {each["group"]: len(frame) for each in records}, "max_rows", "visits")


def _record(group: Any, cell: Any) -> dict[str, Any]:
    value, (low, high) = cell
    return {"group": group, "value": float(value), "low": float(low), "high": float(high)}


def _beside(records: list[dict[str, Any]], truth: dict[str, float], x: str, y: str) -> Any:
    """Points with error bars, and the truth as a line across each."""
    marks = [{"group": each["group"], "truth": truth[each["group"]]} for each in records]
    lines = (
        alt.Chart(alt.InlineData(values=marks))
        .mark_tick(color=TRUTH, thickness=2, size=30)
        .encode(x=alt.X("group:N", sort=None, title=x or None), y="truth:Q")
    )
    return (error_bars(records, x=x, y=y) + lines).properties(width=alt.Step(54), height=240)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
