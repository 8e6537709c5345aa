"""Every example in the documentation runs, and every link inside the project leads somewhere."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import tacit

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")])
SOURCE = Path(tacit.__file__).parent
#: Networks need an extra.
BIAS = () if importlib.util.find_spec("torch") else ("tacit.learn.torch",)


def module_name(path: Path) -> str:
    parts = ("tacit", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


#: Found by their files: every process collects all tests, and packages would be imported to be walked through.
MODULES = {name: path for path in sorted(SOURCE.rglob("*.py")) if not (name := module_name(path)).startswith(BIAS)}
WITH_EXAMPLES = [name for name, path in MODULES.items() if ">>>" in path.read_text()]
#: Pages whose examples compute for seconds.
SLOW = ("composition.md", "publish-a-synthetic-table.md", "10-learning.md")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def example(page: Path) -> Any:
    marks = [pytest.mark.deep] if page.name in SLOW else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [example(page) for page in PAGES])
def test_examples_of_pages(page: Path) -> None:
    # A fence closes an example; doctest would take it for expected output.
    text = re.sub(r"^```.*$", "", page.read_text(), flags=re.MULTILINE)
    example = doctest.DocTestParser().get_doctest(text, {}, str(page.relative_to(ROOT)), str(page), 0)
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(example).failed == 0


def test_every_module_can_be_imported() -> None:
    assert len(MODULES) > 300
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_modules(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=OPTIONS).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
