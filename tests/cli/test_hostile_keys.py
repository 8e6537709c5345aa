# ruff: noqa: E501 - keys stay on one line
"""Group keys and names that others wrote, in all that a person opens: no script, formula or escape sequence."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from support.command_line import run_command
from tacit.core.charts import offline
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator

KEYS = (
    "\x1b[31mred", "\x9b31m", "</script><script>alert(1)</script>", "<!--<script>", "<img src=x onerror=alert(1)>", "=1+1", "+1", "-2+3", "@SUM(A1)",
    "\t=1", "＝1", "\x1b]0;title\x07", "a\rb", "\x7f", "it's", 'a"b', "a,b", "a|b", "&amp;", "\ufeff=1+1", " =1+1", "\u202e=1",
)  # fmt: skip
ASKED = 'SELECT k, COUNT(*) AS "=n" FROM t GROUP BY k'
PROJECT = """
[project]
name = "p"

[populations.people]
accounting = "zcdp"
rho = "90"

[tables.t]
source = "t.parquet"
population = "people"
unit = "p"
max_groups = 1
max_rows = 1

[tables.t.columns]
p = { type = "integer" }
k = { type = "text", categories = [LISTED] }
"""
#: What a terminal or a spreadsheet would obey.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path
    rows = {"p": list(range(40 * len(KEYS))), "k": [*KEYS] * 40}
    pq.write_table(pa.table(rows), folder / "t.parquet")
    listed = ", ".join(json.dumps(key).replace("\x7f", "\\u007f").replace("\x9b", "\\u009b") for key in KEYS)
    (folder / "tacit.toml").write_text(PROJECT.replace("LISTED", listed), encoding="utf-8")
    return folder / "tacit.toml"


@pytest.fixture
def curator(place: Path) -> Iterator[Curator]:
    with open_curator(place) as opened:
        yield opened


class _Scripts(HTMLParser):
    """The scripts of a page, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.tags: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def check_page(page: str, plain: str) -> None:
    """It has the elements and scripts of a page about harmless keys."""
    found, wanted = _Scripts(), _Scripts()
    found.feed(page)
    wanted.feed(plain)
    assert found.tags == wanted.tags
    assert len(found.scripts) == len(wanted.scripts)
    assert "<!--" not in "".join(found.scripts).partition("vegaEmbed")[2]


def test_a_chart_as_a_page(place: Path, curator: Curator, tmp_path: Path) -> None:
    answer = curator.sql(ASKED, rho="0.5")
    plain = curator.sql("SELECT COUNT(*) AS n FROM t", rho="0.5").plot()
    for inline in (False, True):
        check_page(answer.plot().to_html(inline=inline), plain.to_html(inline=inline))
    check_page(answer.plot().properties(width=200).to_html(), plain.to_html())
    answer.plot(path=tmp_path / "a.html")
    answer.plot().save(str(tmp_path / "b.html"))
    run = run_command("query", ASKED, "--rho", "0.5", "--project", str(place), "--plot", str(tmp_path / "c.html"))
    assert run.exit_code == 0, run.output
    for name in "ac":
        check_page((tmp_path / f"{name}.html").read_text(), plain.to_html(inline=True))
    check_page((tmp_path / "b.html").read_text(), plain.to_html())
    # The texts are whole: what is spelled by number is read back.
    assert "<img src=x onerror=alert(1)>" in json.dumps(json.loads(answer.plot().to_json()))
    twice = offline(answer.plot()).to_html()
    check_page(twice, plain.to_html())


def test_a_chart_as_a_picture(curator: Curator, tmp_path: Path) -> None:
    answer = curator.sql(ASKED, rho="0.5")
    answer.plot(path=tmp_path / "a.svg")
    for picture in ((tmp_path / "a.svg").read_text(), answer.plot()._repr_mimebundle_()["image/svg+xml"]):
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(picture).iter()}
        assert not tags & {"script", "img", "foreignObject", "a"}
        assert not CONTROL.search(picture)


def test_a_notebook(curator: Curator) -> None:
    found = _Scripts()
    found.feed(curator.sql(ASKED, rho="0.5")._repr_html_() + curator.tables()[0]._repr_html_() + curator._repr_html_())
    assert not {"script", "img", "b>"} & set(found.tags)


def check_csv(text: str, *, separator: str = ",") -> None:
    assert not CONTROL.search(text)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    assert len({len(row) for row in rows}) == 1
    for row in rows:
        for cell in row:
            assert cell[:1] not in tuple("=+@\t\r＝＋－＠"), cell
            assert not cell.startswith("-") or float(cell) < 0
    assert any("</script><script>alert(1)</script>" in row for row in rows)


def test_csv(place: Path, curator: Curator, tmp_path: Path) -> None:
    for more in ((), ("--output", str(tmp_path / "a.csv"))):
        run = run_command("query", ASKED, "--rho", "0.5", "--project", str(place), "--format", "csv", *more)
        assert run.exit_code == 0, run.output
        check_csv(Path(more[1]).read_text(encoding="utf-8") if more else run.stdout)


def test_synthetic_tables_and_workloads(curator: Curator) -> None:
    synthetic = curator.synthesize("t", ["k"], method="independent", rho="0.5")
    check_csv(synthetic.to_bytes("csv").decode())
    assert set(pq.read_table(io.BytesIO(synthetic.to_bytes("parquet"))).column("k").to_pylist()) <= {*KEYS, None}
    from tacit.core.text_files import table_bytes

    answers = curator.answer_workload("t", tacit.Workload.marginals([["k"]]), rho="0.5")
    check_csv(table_bytes(next(answers.tables()).to_arrow(), "csv").decode())


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_terminal(place: Path, form: str) -> None:
    run = run_command("query", ASKED, "--rho", "0.5", "--project", str(place), "--format", form)
    assert run.exit_code == 0, run.output
    assert not CONTROL.search(run.output.replace("\r\n", "\n"))
    if form == "json":
        assert {row["k"] for row in json.loads(run.stdout)["rows"]} == set(KEYS)
    for command in (["explain", ASKED, "--rho", "0.5"], ["doctor"], ["budget"], ["ledger", "show"]):
        shown = run_command(*command, "--project", str(place))
        assert not CONTROL.search(shown.output), command


def test_text(curator: Curator) -> None:
    answer = curator.sql(ASKED, rho="0.5")
    for text in (str(answer), repr(answer), str(curator.tables()[0]), str(curator.explain(ASKED, rho="0.5"))):
        assert not CONTROL.search(text)
