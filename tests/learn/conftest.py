"""Networks are tested where torch is installed; where nothing may be left out, its absence is an error."""

from __future__ import annotations

import importlib.util
import os

MISSING = importlib.util.find_spec("torch") is None

#: With TACIT_LEAVE_NOTHING_OUT the modules are collected all the same, and fail on their import of torch.
collect_ignore_glob = ["test_torch_*.py"] if MISSING and not os.environ.get("TACIT_LEAVE_NOTHING_OUT") else []


def pytest_configure() -> None:
    if not MISSING:
        import torch

        # Several threads on tiny networks only wait for one another.
        torch.set_num_threads(1)
