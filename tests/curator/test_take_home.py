"""Notebooks: whoever has the file alone sees query, cost, numbers and receipt, and runs it with Python alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.clinic import open_clinic
from tacit.core.errors import InputError
from tacit.releases.answer import Answer
from tacit.releases.notebook import tables_notebook

SQL = 'SELECT ward, COUNT(*) AS n, AVG(cost) AS "m`*" FROM visits GROUP BY ward -- ``` # not a heading'


def cells(content: bytes, kind: str) -> list[Any]:
    return [cell for cell in json.loads(content)["cells"] if cell["cell_type"] == kind]


def run(content: bytes, folder: Path) -> str:
    """What the code prints, in a process without site packages: no Tacit, no Altair, no server, no data."""
    script = folder / "cells.py"
    script.write_text("\n\n".join(cell["source"] for cell in cells(content, "code")))
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(script)], capture_output=True, text=True, check=True, cwd=folder
    )
    return done.stdout


@pytest.fixture(scope="module")
def answer() -> Answer:
    """An answer with a count, a mean and a text that Markdown would read."""
    return open_clinic(epsilon="4")[0].sql(SQL, epsilon=1)


def test_a_notebook_runs_without_anything(answer: Answer, tmp_path: Path) -> None:
    place = tmp_path / "x.ipynb"
    answer.notebook(place)
    content = place.read_bytes()
    shown = json.loads(content)
    assert (shown["nbformat"], shown["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in shown["cells"]}) == len(shown["cells"])
    printed = run(content, tmp_path)
    first = cells(content, "code")[0]
    assert printed.startswith(first["outputs"][0]["text"])
    assert f"{answer.finished.values[0][1]}" in printed
    assert "pip install tacit-dp checks the receipt" in printed
    words = cells(content, "markdown")[0]["source"] + cells(content, "markdown")[1]["source"]
    assert SQL in words
    assert "````sql" in words
    assert "Charged epsilon 1" in words.replace("\\", "")
    with pytest.raises(InputError, match=r"\.ipynb"):
        answer.notebook(tmp_path / "x.txt")


def test_its_receipt_holds_where_tacit_is_installed(answer: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    curator, _ = open_clinic(epsilon="4")
    own = curator.sql(SQL, epsilon=1)
    source = cells(own.to_notebook(), "code")[-1]["source"]
    exec(source.replace('PUBLIC_KEY = ""', f"PUBLIC_KEY = {curator.public_key!r}"), {})
    assert "The receipt holds." in capsys.readouterr().out
    assert cells(answer.to_notebook(), "code")[-1]["outputs"] == []


def test_its_plot_is_drawn_by_the_cell(answer: Answer) -> None:
    altair = pytest.importorskip("altair")
    drawn: list[Any] = []
    names: dict[str, Any] = {}
    for cell in [each["source"] for each in cells(answer.to_notebook(), "code")][:-1]:
        exec(cell, names)
        # Jupyter shows the value of a last line.
        drawn += [names["chart"]] if cell.endswith("\nchart\n") else []
    assert [type(chart) for chart in drawn] == [altair.LayerChart] * 2
    assert "svg" in str(cells(answer.to_notebook(), "code")[1]["outputs"][0]["data"])


def test_tables_of_a_release_with_hostile_texts(answer: Answer, tmp_path: Path) -> None:
    rows = b"name,n\n\"<script>alert(1)</script>'''\",3\n"
    assert answer.receipt is not None
    content = tables_notebook("# <b>x</b>", "{}", {"a.csv": rows}, answer.receipt)
    assert "<script>" in run(content, tmp_path)
    assert not any("<" in cell["source"].replace("\\<", "") for cell in cells(content, "markdown"))
