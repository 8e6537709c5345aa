"""Networks are tested where torch is installed; where nothing may be left out, its absence is an error."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

MISSING = importlib.util.find_spec("torch") is None

#: With TACIT_LEAVE_NOTHING_OUT the modules are collected all the same, and fail on their import of torch.
collect_ignore_glob = ["test_torch_*.py"] if MISSING and not os.environ.get("TACIT_LEAVE_NOTHING_OUT") else []


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    """Several threads on tiny networks only wait for one another."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
