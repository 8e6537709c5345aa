"""Maps a reader can trust: packages name every module, the top level names every room, one file names the engines."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import tacit

SOURCE = Path(tacit.__file__).parent
PACKAGES = sorted(path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def docstring(path: Path) -> str:
    return ast.get_docstring(tree(path)) or ""


def test_a_package_names_all_its_modules() -> None:
    wrong = {}
    for package in PACKAGES:
        listed = set(re.findall(r":mod:`\.(\w+)`", docstring(package)))
        there = {path.stem for path in package.parent.glob("*.py")} - {"__init__", "__main__"}
        there |= {path.parent.name for path in package.parent.glob("*/__init__.py")}
        if listed != there:
            wrong[named(package.parent)] = {"missing": sorted(there - listed), "not there": sorted(listed - there)}
    assert wrong == {}


def test_the_top_level_map_names_every_room_once() -> None:
    listed = re.findall(r"^``tacit\.(\w+)``", tacit.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def test_engines_are_named_in_the_registry_alone() -> None:
    """A new engine is a package of its own, its lines in the registry, and its libraries in pyproject.toml."""
    kinds = sorted(path.parent.name for path in (SOURCE / "engines").glob("*/engine.py") if path.parent.name != "sql")
    assert len(kinds) == 4
    module = re.compile(rf"tacit\.engines\.({'|'.join(kinds)})\b")
    rooms = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[1:2] not in {(k,) for k in kinds}]
    naming = {named(path) for path in rooms if module.search(path.read_text())}
    assert naming == {"engines/registry.py"}
