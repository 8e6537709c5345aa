"""A pytest plugin that adds up the processor time of each module and writes ``tests/seconds.json``.

``make slowest`` loads it. The time is that of a test's process and of all that it started, databases and Java machines
among them, so other work on the machine hardly shows in it. The order of tests and ``make check`` use it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from support.schedule import SECONDS, module_of

#: Number of modules shown, and the seconds from which on a module is written down.
_SHOWN, _LEAST = 40, 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_found: defaultdict[str, float] = defaultdict(float)
_before: list[float] = []


def processor_seconds(process: int) -> float:
    """Processor time of a process, of its children that ended and of those that run; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        tasks = [*Path(f"/proc/{process}/task").iterdir()]
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(processor_seconds, children))


def pytest_collection_finish() -> None:
    """Begin to count."""
    _before[:] = [processor_seconds(os.getpid())]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what was used since the last report of this process, and send it with this one."""
    report = yield
    now = processor_seconds(os.getpid())
    # A process that was ended by others and left to itself takes its time along.
    report.processor = max(0.0, now - _before[0])
    _before[:] = [now]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the setup, the test or the teardown to its module; in the process that gathers all reports."""
    _found[module_of(report.nodeid)] += getattr(report, "processor", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the most expensive modules and write all that ran; what is known of the others stays."""
    if hasattr(config, "workerinput"):
        return
    slowest = sorted(_found.items(), key=lambda entry: -entry[1])
    terminalreporter.write_line(f"{sum(_found.values()):8.1f} s in {len(_found)} modules; the most expensive:")
    for module, seconds in slowest[:_SHOWN]:
        terminalreporter.write_line(f"{seconds:8.1f} s {module}")
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    there = {module: known[module] for module in known if (SECONDS.parent / module).exists()} | dict(_found)
    kept = {module: round(seconds, 1) for module, seconds in sorted(there.items()) if seconds >= _LEAST}
    SECONDS.write_text(json.dumps(kept, indent=0) + "\n")
