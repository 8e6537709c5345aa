"""A pytest plugin that adds up the processor time of each module and names those beyond their share of 5 s.

The time is that of a test's process and of all that it started, databases and Java machines among them, so other work
on the machine hardly shows in it. ``make slowest`` writes it to ``tests/seconds.json``, by which tests are ordered,
``make check`` chooses, and ``arch/test_tests.py`` refuses a module that is far beyond its share; a run refuses nothing.
"""

from __future__ import annotations

import glob
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from support import postgres
from support.schedule import SECONDS, module_of

#: Seconds of a module without its deep tests, and those from which on it is written down.
SHARE, _LEAST = 5.0, 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_found: defaultdict[str, float] = defaultdict(float)


class Use(NamedTuple):
    """Processor time of one process, in ticks: its own, and that of its children which ended and were waited for."""

    parent: int
    own: int
    children: int


class ProcessorTime:
    """Processor time of some processes and of all that they started, counted once each.

    A child's time stands with the child while it lives, and with its parent from the moment on at which that has waited
    for it. So what a parent got of children is counted less what was counted of them while they lived. A process
    whose parent has ended is watched on. One that came and went between two readings, and whose parent did not wait for
    it, is not seen.

    Args:
        roots: the processes; there may be more of them later.
    """

    def __init__(self, roots: Callable[[], Collection[int]]) -> None:
        self._roots = roots
        self._known: dict[tuple[int, int], Use] = {}
        self._owed: defaultdict[int, int] = defaultdict(int)
        self.seconds()

    def seconds(self) -> float:
        """Seconds since the last call."""
        before, self._known = self._known, self._read()
        alive = {process for process, _ in self._known}
        for key in before.keys() - self._known.keys():
            # The nearest that lives of those who waited for one another.
            heir = before[key].parent
            while (
                heir not in alive and (above := next((u for k, u in before.items() if k[0] == heir), None)) is not None
            ):
                heir = above.parent
            self._owed[heir] += before[key].own + before[key].children
        used = 0
        for (process, start), now in self._known.items():
            then = before.get((process, start), Use(0, 0, 0))
            inherited = now.children - then.children
            counted = min(inherited, self._owed[process])
            self._owed[process] -= counted
            used += now.own - then.own + inherited - counted
        return used / _TICKS

    def _read(self) -> dict[tuple[int, int], Use]:
        found: dict[tuple[int, int], Use] = {}
        waiting = [*self._roots()]
        seen = dict(self._known)
        while waiting or seen:
            known = None if waiting else seen.popitem()[0]
            process = waiting.pop() if known is None else known[0]
            fields = _text(f"/proc/{process}/stat").rpartition(")")[2].split()
            if not fields or (key := (process, int(fields[19]))) in found:
                continue
            if known not in (None, key):
                continue  # Another process has the number now.
            own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
            found[key] = Use(int(fields[1]), own, ended)
            # A thread may end while the others are listed; its children are those of another one then.
            for task in glob.glob(f"/proc/{process}/task/*/children"):
                waiting += map(int, _text(task).split())
        return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


_used: list[ProcessorTime] = []


def pytest_collection_finish() -> None:
    """Begin to count."""
    # A database leaves the process that started it at once.
    _used[:] = [ProcessorTime(lambda: [os.getpid(), *postgres.processes])]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Whether the time is written down."""
    parser.addoption("--write-seconds", action="store_true", help="write tests/seconds.json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what was used since the last test of this process, and send it with this one."""
    report = yield
    if call.when == "teardown":
        report.processor = _used[0].seconds()
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the test to its module; in the process that gathers all reports."""
    _found[module_of(report.nodeid)] += getattr(report, "processor", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name modules beyond their share; write all that ran, where asked for, and keep what is known of others."""
    if hasattr(config, "workerinput"):
        return
    tier = "test" if config.option.markexpr == "not deep" else "deep"
    terminalreporter.write_line(f"{sum(_found.values()):.0f} s of processor time in {len(_found)} modules")
    over = {name: seconds for name, seconds in _found.items() if tier == "test" and seconds > SHARE}
    for name, seconds in sorted(over.items(), key=lambda entry: -entry[1]):
        terminalreporter.write_line(f"{seconds:8.1f} s in {name}, whose share is {SHARE:g} s: mark its slow tests deep")
    if config.option.write_seconds:
        known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {"test": {}, "deep": {}}
        known[tier] = {name: known[tier][name] for name in known[tier] if (SECONDS.parent / name).exists()} | {
            name: round(seconds, 1) for name, seconds in _found.items()
        }
        known[tier] = {name: seconds for name, seconds in sorted(known[tier].items()) if seconds >= _LEAST}
        SECONDS.write_text(json.dumps(known, indent=0) + "\n")
