"""Optional packages: a missing one is refused with the command that installs it, and every command can be typed."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import tacit
from tacit.core.charts import altair
from tacit.core.extras import DISTRIBUTION, MissingError, install_command, load

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_missing_packages_are_refused_with_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingError, match=r"altair: is not installed; charts need it: pip install 'tacit-dp\[plot\]'"):
        altair()
    with pytest.raises(tacit.InputError):
        altair()
    with pytest.raises(ModuleNotFoundError):
        altair()


def test_a_module_that_is_broken_inside_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_extra.py").write_text("import no_such_module_of_anyone\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_anyone") as found:
        load("broken_extra", "plot", "charts")
    assert not isinstance(found.value, MissingError)


def test_every_extra_that_is_named_exists() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    known = set(PROJECT["optional-dependencies"])
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"install_command\([\"']([\w-]+)", code)) | set(
        re.findall(r"load\([\"'\w.]+, [\"'](\w+)[\"'], ", code)
    )
    assert {"plot", "server", "spark", "torch"} <= named <= known
    pages = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    said = {extra for group in re.findall(r"tacit-dp\[([\w,-]+)\]", pages) for extra in group.split(",")}
    assert {"plot", "client", "learn", "spark"} <= said <= known
    assert "tacit[" not in code + pages
    # Through `tacit.core.charts`, so that a missing extra is refused in words; a notebook has code of its own.
    written = (ROOT / "src" / "tacit" / "releases" / "notebook.py").read_text()
    assert "import altair" not in code.replace(written, "").replace("charts import altair", "")
    assert install_command("plot") == "pip install 'tacit-dp[plot]'"
