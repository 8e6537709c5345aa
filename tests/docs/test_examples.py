"""Examples and notebooks: each runs, is short, and is in the list; short names are modules."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def example(path: Path) -> Any:
    marks = [pytest.mark.torch] if "\nimport torch\n" in path.read_text() else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("example", [example(path) for path in EXAMPLES])
def test_an_example_runs_and_is_short(
    example: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(example.read_text().splitlines()) <= 80
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_list_of_examples_is_whole() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    listed = re.findall(r"\]\(([^)]+)\)", page)
    assert sorted(listed) == sorted(str(path.relative_to(ROOT / "examples")) for path in (*EXAMPLES, *NOTEBOOKS))


class Cells:
    """A notebook's cells, run one after the other; a real kernel was tried by hand."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {"__name__": "__main__"}
        self.shown: list[str] = []

    def run(self, text: str) -> None:
        *_, last = text.strip().splitlines()
        exec(compile(text, "cell", "exec"), self.user_ns)
        if re.fullmatch(r"\w[\w.()]*", last):
            value = eval(last, self.user_ns)
            self.shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path) -> None:
    cells, content = Cells(), json.loads(notebook.read_text())
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cells.run("".join(cell["source"]))
    assert cells.shown
    outputs = [each for cell in content["cells"] for each in cell.get("outputs", [])]
    assert any("image/svg+xml" in each.get("data", {}) for each in outputs), "a reader sees pictures without running it"
    assert "error" not in {each["output_type"] for each in outputs}
