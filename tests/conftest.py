"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from support.bits import SeededBits
from support.memory_disk import use_memory_disk
from support.schedule import SlowestFirst, order
from tacit.noise import entropy

# Assertions of these helpers say what they compared.
pytest.register_assert_rewrite("engines.nasty", "support.engine_comparison")


class Part(NamedTuple):
    """Tests under one marker, and what they need that a plain installation may lack."""

    what: str
    modules: tuple[str, ...]
    programs: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """Modules and programs that are not installed."""
        modules = [name for name in self.modules if importlib.util.find_spec(name) is None]
        return modules + [name for name in self.programs if shutil.which(name) is None]


#: Apache Superset, in an environment of its own: `make superset` installs it.
SUPERSET = ".superset/bin/superset"
#: Their tests are deep, but for those marked smoke.
PARTS = {
    "bench": Part("other libraries", ("diffprivlib", "dp_accounting", "opendp")),
    "torch": Part("networks", ("torch",)),
    "spark": Part("Spark", ("py4j", "grpc"), ("java",)),
    "browser": Part("the console in a browser", ("playwright",), ("chromium",)),
    "dashboard": Part("a dashboard", (), (SUPERSET,)),
}
_left_out: set[str] = set()

_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of all state directories: ``mktemp`` reads every name beside the new one, thousands of times here.

    Fixtures of modules run before those of tests; their ledgers have anchors in a directory of this run as well, not in
    the user's, where an anchor of an earlier run would find its ledger gone.
    """
    folder = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_STATE", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def state(states: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Anchors of ledgers lie in the user's state directory; every test has one of its own."""
    folder = states / str(next(_numbers))
    folder.mkdir()
    monkeypatch.setenv("TACIT_STATE", str(folder))
    return folder


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> SeededBits:
    """Replace the system's entropy by repeatable bits for one test."""
    bits = SeededBits(20261115)
    monkeypatch.setattr(entropy, "current", lambda: bits)
    return bits


def pytest_configure() -> None:
    """Choose where temporary files lie, before the first is made; let no example of Hypothesis be timed."""
    use_memory_disk()
    settings.register_profile("untimed", settings.default, deadline=None)
    settings.load_profile("untimed")
    os.register_at_fork(after_in_child=gc.unfreeze)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SlowestFirst:
    """Share tests out among processes."""
    return SlowestFirst(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark tests deep, choose by options, leave out parts that are not installed, which is an error in CI; sort."""
    for item in items:
        if not item.get_closest_marker("smoke") and any(item.get_closest_marker(part) for part in PARTS):
            item.add_marker("deep")
    yield
    left_out = []
    for marker, part in PARTS.items():
        needy = [item for item in items if item.get_closest_marker(marker)] if part.missing else []
        if needy and os.environ.get("TACIT_LEAVE_NOTHING_OUT"):
            raise pytest.UsageError(f"tests of {part.what} need {', '.join(part.missing)}, which is not installed")
        left_out += needy
        _left_out.update({marker} if needy else ())
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    if hasattr(config, "workerinput"):
        order(items, "test" if config.option.markexpr == "not deep" else "deep")


def pytest_collection_finish() -> None:
    """Leave what was imported out of the garbage collector's rounds, and make them rare: a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 50, 1_000)


def pytest_unconfigure() -> None:
    """Give the collector back what it was spared: extension modules complain of what is never freed."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out, so that a green run does not claim more than it did."""
    for marker in sorted(_left_out):
        part = PARTS[marker]
        terminalreporter.write_line(f"left out: tests of {part.what} (not installed: {', '.join(part.missing)})")
