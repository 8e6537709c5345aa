"""The shape of the package: what it costs to import, where randomness may come from, and what docstrings must say."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tacit

SOURCE = Path(tacit.__file__).parent
HEAVY = (
    "scipy",
    "duckdb",
    "sqlglot",
    "pyarrow",
    "sklearn",
    "mpmath",
    "altair",
    "pandas",
    "polars",
    "pydantic",
    "typer",
    "torch",
)
#: Rooms that are entered only when used, and what they may take along.
AT_THE_TOP = {
    "cli": {"typer"},
    "query": {"sqlglot"},
    "engines": {"duckdb", "pyarrow", "sqlglot"},
    "learn": {"scipy", "sklearn"},
    "audit": {"pyarrow", "pydantic"},
    "client": {"pyarrow", "pydantic"},
    "curator": {"pyarrow", "pydantic"},
    "project": {"pyarrow", "pydantic"},
    "releases": {"pyarrow", "pydantic"},
    "server": {"pydantic"},
}
MODULES = sorted(SOURCE.rglob("*.py"))


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout


def test_import_is_light() -> None:
    """None of the heavy libraries is loaded by the import, nor by making and using a mechanism."""
    program = (
        "import sys, tacit; tacit.Laplace(epsilon=1, l1_sensitivity=1).release(1); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert run(program).strip() == "[]"


def test_import_adds_little_to_numpy() -> None:
    """At most 0.2 s more than ``import numpy``: CPU time, best of three, so that a busy machine does not decide."""

    def seconds(module: str) -> float:
        program = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
        return min(float(run(program)) for _ in range(3))

    assert seconds("tacit") <= seconds("numpy") + 0.2


def test_every_public_name_loads_and_is_declared_once() -> None:
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert declared == set(tacit._HOMES)
    assert set(tacit.__all__) <= set(dir(tacit))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tacit.no_such_name


def insecure(tree: ast.Module, file: str) -> Iterator[str]:
    """Where a module takes randomness from anywhere but the one door."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and node.attr in ("random", "urandom"):
            names = [ast.unparse(node)]
        for name in names:
            forbidden = name.split(".")[0] in ("random", "secrets") or name in ("numpy.random", "np.random")
            if forbidden or (name == "os.urandom" and file != "entropy.py"):
                yield f"{name} at line {node.lineno}"


def heavy(tree: ast.Module, room: str) -> Iterator[str]:
    """Where a module imports a heavy library at its top though its room may not."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found = {module.split(".")[0] for module in modules} & set(HEAVY) - AT_THE_TOP.get(room, set())
            yield from (f"heavy import of {name} at line {node.lineno}" for name in sorted(found))


def test_no_insecure_randomness_and_no_heavy_import_at_the_top() -> None:
    found = {}
    for path in MODULES:
        tree, place = ast.parse(path.read_text()), path.relative_to(SOURCE)
        found[str(place)] = [*insecure(tree, path.name), *heavy(tree, place.parts[0])]
    assert {place: words for place, words in found.items() if words} == {}


def test_what_is_looked_for_is_found() -> None:
    tree = ast.parse("import random\nfrom numpy.random import PCG64\nimport numpy as np\nx = np.random\nimport scipy")
    assert {words.split()[0] for words in insecure(tree, "laplace.py")} >= {"random", "numpy.random", "np.random"}
    assert list(heavy(tree, "noise")) == ["heavy import of scipy at line 5"]
    door = ast.parse("import os\nfrom os import urandom\nx = os.urandom(8)")
    assert len(list(insecure(door, "laplace.py"))) == 2
    assert list(insecure(door, "entropy.py")) == []


MECHANISMS = [
    value
    for name in tacit.__all__
    if inspect.isclass(value := getattr(tacit, name)) and value.__module__.startswith("tacit.mechanisms")
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.__name__)
def test_mechanisms_document_themselves_and_have_a_proof(mechanism: type) -> None:
    text = inspect.getdoc(mechanism) or ""
    places = [text.find(f"{section}:") for section in ("Privacy", "Sensitivity", "Error", "Assumes", "References")]
    assert -1 not in places, f"missing sections in {mechanism.__name__}: {places}"
    assert places == sorted(places)
    source = Path(inspect.getfile(mechanism))
    assert source.with_suffix(".proof.md").exists()
    for member in ("release", "guarantee", "event", "error", "for_error"):
        assert hasattr(mechanism, member) or (member == "release" and hasattr(mechanism, "ask"))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.__name__)
def test_no_seed_and_no_default_epsilon(mechanism: type) -> None:
    for name, parameter in inspect.signature(mechanism).parameters.items():
        assert name not in ("seed", "random_state", "rng", "source")
        if name == "epsilon":
            assert parameter.default in (inspect.Parameter.empty, None)
