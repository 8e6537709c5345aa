"""Maps a reader can trust: packages name every module, class names are unique, first lines say what a file is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import tacit

SOURCE = Path(tacit.__file__).parent
PACKAGES = sorted(path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))
#: Pronouns that are no subject of a first line; see docs/architecture.md.
RIDDLES = re.compile(r"\b(whoever|somebody|nobody|what|whatever)\b", re.IGNORECASE)


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: named(path.parent))
def test_a_package_names_all_its_modules(package: Path) -> None:
    listed = set(re.findall(r":mod:`\.(\w+)`", docstring(package)))
    there = {path.stem for path in package.parent.glob("*.py")} - {"__init__", "__main__"}
    there |= {path.parent.name for path in package.parent.glob("*/__init__.py")}
    assert listed == there


def test_the_top_level_map_names_every_room_once() -> None:
    listed = re.findall(r"^``tacit\.(\w+)``", tacit.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def test_public_class_names_are_unique() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(named(path))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_the_first_line_of_a_module_says_what_it_is(path: Path) -> None:
    first = docstring(path).partition("\n\n")[0].replace("\n", " ")
    assert first.endswith((".", ":", "?", "!"))
    assert not RIDDLES.match(first), first
