"""Maps a reader can trust: packages name every module, class names are unique, first lines say what a file is."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
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


def test_the_curator_keeps_to_the_path_of_a_question() -> None:
    """Other paid work has rooms of its own: ``paid_work``, ``synthetic_tables``."""
    assert len(list((SOURCE / "curator").rglob("*.py"))) <= 20


def test_an_ordinary_question_enters_no_module_of_special_forms(tmp_path: Path) -> None:
    """Each module that looks at every question makes the walk longer for all; see docs/architecture.md."""
    place = Path(__file__).parents[2] / "benchmarks" / "walks.py"
    spec = importlib.util.spec_from_file_location("walks_of_the_benchmark", place)
    assert spec is not None
    assert spec.loader is not None
    walks = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = walks
    spec.loader.exec_module(walks)
    with walks.example_curator(tmp_path) as warm:
        warm.sql(walks.OTHER, epsilon="1")
    with walks.example_curator(tmp_path) as curator:
        curator.explain(walks.OTHER, epsilon="1")
        walk = walks.measure(lambda: curator.sql(walks.QUESTION, epsilon="0.5"))
    special = {
        "curator/synthetic_questions.py",
        "curator/views/progress_bar.py",
        "engines/duckdb/fast/sorted_totals.py",
        "engines/sql/result_keys.py",
        "project/public_sizes.py",
        "query/parsing/spellings.py",
        "query/planning/accuracy.py",
        "query/planning/auto_limits.py",
        "query/planning/delta_budgets.py",
        "query/planning/found_parts.py",
        "query/planning/join_spread.py",
        "query/planning/left_out_question.py",
        "query/planning/set_totals.py",
        "query/postprocess/parts_in_turn.py",
        "query/relational/narrowing.py",
        "query/resolve/grouping_sets.py",
        "query/resolve/kept_public_rows.py",
        "query/resolve/public_keys.py",
        "query/resolve/public_order.py",
        "query/resolve/released_cells.py",
        "query/resolve/subquery_values.py",
        "query/resolve/time_arithmetic.py",
        "query/resolve/unit_rows.py",
        "query/resolve/windows.py",
    }
    assert all((SOURCE / file).exists() for file in special)
    assert walk.files & special == set()
    assert 60 < len(walk.files) <= 70
