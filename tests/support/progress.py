"""A pytest plugin that says how far the tests are, by processor time: one line on a terminal, a few lines elsewhere.

The Makefile loads it; it takes the place of the dots.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import pytest

from support.schedule import module_of, recorded_seconds

#: Processor time of a module that is not recorded, and the part of the whole after which a line is written to a log.
_UNKNOWN, _STEP = 0.4, 0.1


class Progress:
    """How far the tests are: each module has the share of its recorded processor time."""

    def __init__(self, tests: list[str], tier: str) -> None:
        seconds = recorded_seconds(tier)
        modules = Counter(map(module_of, tests))
        self._each = {name: seconds.get(name, _UNKNOWN) / count for name, count in modules.items()}
        self._all = sum(self._each[name] * count for name, count in modules.items())
        self._tests, self._begun = len(tests), time.monotonic()
        self._done, self._time, self._failed, self._told = 0, 0.0, 0, 0.0

    def add(self, report: pytest.TestReport) -> str | None:
        """Count a report; the line to show, if there is one."""
        self._failed += report.failed
        if report.when != "teardown":
            return None
        self._done += 1
        self._time += self._each.get(module_of(report.nodeid), 0.0)
        part, terminal = self._time / self._all, sys.stdout.isatty()
        if part < self._told + (0.001 if terminal else _STEP) and self._done < self._tests:
            return None
        self._told = part
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        failed = f", {self._failed} failed" if self._failed else ""
        line = (
            f"{part:4.0%} of the tests' time: {self._done:,} of {self._tests:,} tests{failed}, {minutes}:{seconds:02}"
        )
        return f"\r{line}\x1b[K" + "\n" * (self._done == self._tests) if terminal else f"{line}\n"


_progress: list[Progress] = []


def _tier(config: pytest.Config) -> str:
    return "test" if config.option.markexpr == "not deep" else "deep"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: object, ids: list[str]) -> None:
    """Begin when the first process has found its tests, which are those of all."""
    if not _progress:
        _progress.append(Progress(ids, _tier(node.config)))  # type: ignore[attr-defined]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin where one process runs all tests."""
    if session.items and not hasattr(session.config, "workerinput"):
        _progress.append(Progress([item.nodeid for item in session.items], _tier(session.config)))


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """No dot for a test that passed."""
    return ("passed", "", "") if report.passed and report.when == "call" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show the line; a process that runs a share of the tests has none."""
    line = _progress[0].add(report) if _progress else None
    if line:
        sys.stdout.write(line)
        sys.stdout.flush()
