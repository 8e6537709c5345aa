"""The order of tests among processes: a module is one share, the slowest come first, one process runs all of Spark.

``tests/seconds.json`` holds the processor time of every module that takes more than half a second, of its deep tests
and of the others; ``make slowest`` writes it. As the slowest come first, no process is left with a long one at the end.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["SECONDS", "SlowestFirst", "module_of", "order", "recorded_seconds"]

SECONDS = Path(__file__).resolve().parents[1] / "seconds.json"
#: Where a module that is not measured stands: a new one may be slow, and quick ones do no harm before the last.
_UNKNOWN = 10.0
#: Tests of the Spark inside the process, by their names or those of their modules; one module starts another outside.
_SPARK = re.compile(r"/test_spark_(?!connect)|::test_(\w*_)?spark|\[.*\bspark\b")


def recorded_seconds(tier: str = "test") -> dict[str, float]:
    """Processor time of modules, by their path below ``tests``, in ``make test`` or in ``make deep``."""
    return dict(json.loads(SECONDS.read_text())[tier]) if SECONDS.exists() else {}


def module_of(nodeid: str) -> str:
    """The path of a test's module below ``tests``."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def order(items: list[pytest.Item], tier: str) -> None:
    """Put the slowest modules first, and those of Spark before all others: one process runs all of them."""
    seconds = recorded_seconds(tier)
    items.sort(key=lambda item: (not _SPARK.search(item.nodeid), -seconds.get(module_of(item.nodeid), _UNKNOWN)))


class SlowestFirst(LoadScopeScheduling):
    """Shares out modules in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if _SPARK.search(nodeid) else module_of(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget shares that are done: the base class counts all tests of all shares after each test."""
        shares = self.assigned_work[node]
        done = [scope for scope, share in shares.items() if all(share.values())]
        for scope in done:
            del shares[scope]
        super().mark_test_complete(node, item_index, duration)
