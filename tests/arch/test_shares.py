"""Tests that several processes share: each module is imported by the process that runs it, and nothing else changes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.quick_tests import TESTS

CONFTEST = """
import os
import pytest
from support.schedule import SlowestFirst
from support.shares import pytest_pycollect_makemodule, pytest_runtest_protocol

@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return SlowestFirst(config, log)

@pytest.fixture(scope="session")
def whole():
    with open("made", "a") as file:
        file.write(f"begin {os.getpid()}\\n")
    yield
    with open("made", "a") as file:
        file.write(f"end {os.getpid()}\\n")
"""
COUNTED = """
import os
import pytest
with open("imported", "a") as file:
    file.write(f"{__name__.rpartition('.')[2]} {os.getpid()}\\n")
@pytest.fixture(scope="module", params=["x", "y"])
def part(request, whole):
    return request.param
@pytest.mark.parametrize("number", range(3))
def test_of_a_part(part, number):
    assert (part, number) != ("y", 2), "as it should"
class TestInside:
    def test_method(self, whole):
        pass
"""
MIXED = COUNTED + "\ndef test_that_spark_reads(): pass\n"
BROKEN = "import no_such_module\ndef test_never(): pass\n"


def run(folder: Path, *words: str) -> tuple[int, dict[str, set[str]]]:
    """The exit status, and the tests by their outcome."""
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    plugins = ("-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "--import-mode=importlib", *plugins, *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    found: dict[str, set[str]] = {}
    for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE):
        found.setdefault(outcome, set()).add(test)
    return done.returncode, found


def test_outcomes_are_those_of_one_process_and_modules_are_imported_where_they_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in {"one": COUNTED, "two": COUNTED, "mixed": MIXED, "broken": BROKEN}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    code, shared = run(tmp_path, "-n2")
    assert code == 1
    assert {outcome: len(tests) for outcome, tests in shared.items()} == {"PASSED": 19, "FAILED": 3, "ERROR": 1}
    assert shared["ERROR"] == {"test_broken.py"}
    assert shared["FAILED"] == {f"test_{name}.py::test_of_a_part[y-2]" for name in ("one", "two", "mixed")}
    imported = (tmp_path / "imported").read_text().splitlines()
    # A module whose tests of Spark are a share of their own may be imported by a second process.
    assert [sum(f"test_{name} " in line for line in imported) for name in ("one", "two")] == [1, 1]
    made = (tmp_path / "made").read_text().splitlines()
    processes = {line.split()[1] for line in imported}
    assert sorted(made) == sorted(
        f"{word} {pid}" for pid in {line.split()[1] for line in made} for word in ("begin", "end")
    )
    assert {line.split()[1] for line in made} <= processes
    # A test that is named is found, though its module would not be imported yet.
    code, named = run(tmp_path, "-n2", "test_one.py::test_of_a_part", "-k", "x")
    assert (code, {outcome: len(tests) for outcome, tests in named.items()}) == (0, {"PASSED": 3})
