"""The shape of the tests: they share helpers, not each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.quick_tests import TESTS, folders_of, importers, module_name
from support.schedule import recorded_seconds
from support.seconds import SHARE


def imported_tests(text: str) -> Iterator[str]:
    """Test modules that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            path = TESTS.joinpath(*name.split("."))
            if path.name.startswith("test_") and path.with_suffix(".py").exists():
                yield name


def test_no_module_imports_a_test_module() -> None:
    """A helper that two of them need goes to ``tests/support``, or beside them under a name of its own."""
    found = {
        str(path.relative_to(TESTS)): names
        for path in sorted(TESTS.rglob("*.py"))
        if (names := sorted(set(imported_tests(path.read_text()))))
    }
    assert found == {}


def test_an_import_of_a_test_module_is_found() -> None:
    inside = "def f():\n    from arch.test_maps import named"
    assert list(imported_tests(inside)) == ["arch.test_maps"]
    assert list(imported_tests("from arch import test_maps\nimport arch.test_maps")) == ["arch.test_maps"] * 2
    assert list(imported_tests("from support.bits import SeededBits")) == []


def test_tests_of_a_change_are_those_that_import_it_and_those_of_its_room() -> None:
    texts = {
        "tests/unit/test_a.py": "from tacit.core.errors import InputError",
        "tests/unit/test_b.py": "from tacit.core import errors",
        "tests/unit/test_c.py": "from tacit.core.errors_of_others import X",
    }
    name = module_name("src/tacit/core/errors.py")
    assert name == "tacit.core.errors"
    assert importers(name, texts) == ["tests/unit/test_a.py", "tests/unit/test_b.py"]
    assert module_name("tests/support/bits.py") == "support.bits"
    assert module_name("src/tacit/ledger/__init__.py") == "tacit.ledger"
    assert folders_of("src/tacit/ledger/sqlite.py") == ("ledger",)
    assert folders_of("src/tacit/query/resolve/tables.py") == ("query",)
    assert folders_of("src/tacit/noise/laplace.py") == ("noise",)
    assert folders_of("docs/threats.md") == ("docs",)
    assert folders_of("Makefile") == ()


def test_a_folder_of_tests_is_on_the_map() -> None:
    text = (TESTS / "README.md").read_text()
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    assert {name for name in folders if f"`{name}/`" not in text} == set()


def test_a_module_keeps_its_share_of_processor_time() -> None:
    """As ``make slowest`` last recorded it, with room for another machine: what goes beyond is marked deep."""
    recorded = recorded_seconds("test")
    assert len(recorded) > 100
    assert {name: seconds for name, seconds in recorded.items() if seconds > 1.5 * SHARE} == {}
