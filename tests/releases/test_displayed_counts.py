"""Displays show no negative count; everything that programs read holds the released values."""

from __future__ import annotations

import html
import runpy
from pathlib import Path
from typing import Any

import pytest

from support.bits import SeededBits
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.client.remote_curator import RemoteRows
from tacit.client.responses import AnswerResponse
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER
from tacit.releases.answer import Answer
from tacit.server.console.charts import drawing_of, sheet_of

CATALOG = Catalog(
    (
        Table(
            "visits",
            (Column("patient", INTEGER), Column("k", INTEGER, bounds=(0, 9)), Column("x", INTEGER, bounds=(-5, 5))),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
SQL = "SELECT k, COUNT(*) AS n, SUM(x) AS s, COUNT(*) - 5 AS d, 3 * COUNT(*) AS t FROM visits GROUP BY k"
N, S, D, T = 1, 2, 3, 4


@pytest.fixture
def answer(seeded: SeededBits) -> Answer:
    return toy_curator(CATALOG, ToyEngine({"visits": []}), {"epsilon": "10"}).sql(SQL, epsilon="0.5")


def negatives(cells: Any, column: int) -> int:
    return sum(value < 0 or low < 0 for value, (low, _) in (row[column] for row in cells))


def test_a_display_shows_zero_for_what_cannot_be_negative(answer: Answer) -> None:
    assert answer.finished.not_negative == (False, True, False, False, True)
    ends = answer.finished.intervals()
    released = [list(zip(row, pairs, strict=True)) for row, pairs in zip(answer.finished.values, ends, strict=True)]
    shown = answer.displayed()
    assert [negatives(released, column) > 0 for column in (N, S, D, T)] == [True] * 4
    assert [negatives(shown, column) > 0 for column in (N, S, D, T)] == [False, True, True, False]
    for one, other in zip(shown, released, strict=True):
        value, (low, high) = one[N]
        assert value == max(other[N][0], 0)  # type: ignore[type-var]
        assert low <= value <= high  # type: ignore[operator]


def test_a_count_far_below_zero_is_not_shown_as_exact(answer: Answer) -> None:
    ends = answer.finished.intervals("0.01")
    released = [(row[N], pairs[N]) for row, pairs in zip(answer.finished.values, ends, strict=True)]
    shown = [row[N] for row in answer.displayed("0.01")]
    below = [i for i, (value, (_, high)) in enumerate(released) if value < 0 and high == 0]  # type: ignore[operator]
    assert below
    assert [shown[i] for i in below] == [(0, (0, -released[i][0])) for i in below]  # type: ignore[operator]


def test_values_frames_and_json_are_as_released(answer: Answer) -> None:
    released = [row[N] for row in answer.finished.values]
    assert min(released) < 0  # type: ignore[type-var]
    assert answer.to_arrow().column("n").to_pylist() == released
    assert [cell["value"] for _, cell, *_ in AnswerResponse.of(answer).plain()["rows"]] == released


def test_text_html_pages_and_charts_agree(answer: Answer) -> None:
    counts = [row[N][0] for row in answer.displayed()]
    assert [row[N].text for row in sheet_of(answer).rows] == [f"{count:,}" for count in counts]
    assert sheet_of(answer).zeros
    drawn = drawing_of(answer)
    assert drawn is not None
    assert [point.value for point in drawn.panels[0].points] == counts
    for text in (str(answer), html.unescape(answer._repr_html_())):
        assert "shown as 0" in " ".join(text.split())
    (records,) = answer.plot("n").to_dict()["datasets"].values()
    assert [each["value"] for each in records] == counts


def test_a_client_learns_which_columns_are_counts(answer: Answer) -> None:
    sent = AnswerResponse.of(answer).plain()
    assert [column.get("not_negative", False) for column in sent["columns"]] == list(answer.finished.not_negative)
    read = RemoteRows.of(AnswerResponse.read(sent))
    assert read.not_negative == answer.finished.not_negative
    for column in sent["columns"]:
        column.pop("not_negative", None)
    assert not any(RemoteRows.of(AnswerResponse.read(sent)).not_negative)


def test_no_note_where_nothing_is_negative(seeded: SeededBits) -> None:
    rows = [{"patient": i, "k": i % 10, "x": 1} for i in range(1000)]
    answer = toy_curator(CATALOG, ToyEngine({"visits": rows}), {"epsilon": "10"}).sql(SQL, epsilon="5")
    assert answer.zeros_note == ""
    assert "shown as 0" not in str(answer)


def test_the_figures_about_reading_answers_can_be_drawn(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "docs" / "figures"
    runpy.run_path(str(folder / "reading.py"))["main"](tmp_path)
    for name in ("noise", "bounds", "limits"):
        assert (tmp_path / f"reading-{name}.svg").read_text().startswith("<svg")
        assert (folder / f"reading-{name}.svg").read_text().startswith("<svg")
