"""Fixtures that every test may use."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from support.bits import SeededBits
from tacit.noise import entropy

#: What the bench extra brings.
RIVALS = ("autodp", "diffprivlib", "dp_accounting", "opendp", "prv_accountant")


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Anchors of ledgers lie in the user's state directory; every test has one of its own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("TACIT_STATE", str(folder))
    return folder


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> SeededBits:
    """Replace the system's entropy by repeatable bits for one test."""
    bits = SeededBits(20261115)
    monkeypatch.setattr(entropy, "current", lambda: bits)
    return bits


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs an extra that is not installed, and say so; in CI that is an error."""
    missing = [name for name in RIVALS if importlib.util.find_spec(name) is None]
    left_out = [item for item in items if missing and item.get_closest_marker("bench")]
    if not left_out:
        return
    if os.environ.get("TACIT_LEAVE_NOTHING_OUT"):
        raise pytest.UsageError(f"the bench extra is needed: {', '.join(missing)} not installed")
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out, so that a green run does not claim more than it did."""
    parts = {"bench": ("comparisons with other libraries", RIVALS), "torch": ("networks", ("torch",))}
    for extra, (what, needed) in parts.items():
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            terminalreporter.write_line(
                f"left out: {what} (not installed: {', '.join(missing)}); make EXTRAS=dev,{extra} test runs them"
            )
