"""Maps a reader can trust: packages name every module, class names are unique, first lines say what a file is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import tacit

SOURCE = Path(tacit.__file__).parent
PACKAGES = sorted(path for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))
#: Pronouns that are no subject of a first line; see docs/architecture.md.
RIDDLES = re.compile(r"\b(whoever|somebody|nobody|what|whatever)\b", re.IGNORECASE)


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


def test_public_class_names_are_unique() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(named(path))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_the_first_line_of_a_module_says_what_it_is() -> None:
    first = {named(path): docstring(path).partition("\n\n")[0].replace("\n", " ") for path in MODULES}
    wrong = {
        path: line for path, line in first.items() if not line.endswith((".", ":", "?", "!")) or RIDDLES.match(line)
    }
    assert wrong == {}


def test_engines_are_named_in_the_registry_alone() -> None:
    """A new engine is a package of its own, its lines in the registry, and its libraries in pyproject.toml."""
    kinds = sorted(path.parent.name for path in (SOURCE / "engines").glob("*/engine.py") if path.parent.name != "sql")
    assert len(kinds) == 3
    module = re.compile(rf"tacit\.engines\.({'|'.join(kinds)})\b")
    rooms = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[1:2] not in {(k,) for k in kinds}]
    naming = {named(path) for path in rooms if module.search(path.read_text())}
    assert naming == {"engines/registry.py"}
