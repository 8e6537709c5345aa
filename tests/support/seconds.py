"""A pytest plugin that adds up how long each module takes, shows the slowest, and writes ``tests/seconds.json``.

``make slowest`` loads it. The times are good on an idle machine; the order of tests and ``make check`` use them.
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from support.schedule import SECONDS, module_of

#: Number of modules shown, and the seconds from which on a module is written down.
_SHOWN, _LEAST = 40, 0.5
_found: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the setup, the test or the teardown to its module; in the process that gathers all reports."""
    _found[module_of(report.nodeid)] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the slowest modules and write all of them."""
    if hasattr(config, "workerinput"):
        return
    slowest = sorted(_found.items(), key=lambda entry: -entry[1])
    terminalreporter.write_line(f"{sum(_found.values()):8.1f} s in {len(_found)} modules; the slowest:")
    for module, seconds in slowest[:_SHOWN]:
        terminalreporter.write_line(f"{seconds:8.1f} s {module}")
    kept = {module: round(seconds, 1) for module, seconds in sorted(_found.items()) if seconds >= _LEAST}
    SECONDS.write_text(json.dumps(kept, indent=0) + "\n")
