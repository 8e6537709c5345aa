"""DuckDB with one of its accelerators, or without any: for tests that compare its paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tacit.engines.duckdb.database import OpenedSources
from tacit.engines.duckdb.totals import CountPlan, SpreadPlan, TotalsPlan


def without_arrays(patch: pytest.MonkeyPatch) -> None:
    for plan in (TotalsPlan, SpreadPlan, CountPlan):
        patch.setattr(plan, "measure", lambda *_: None)


def without_spreads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SpreadPlan, "measure", lambda *_: None)


def without_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CountPlan, "measure", lambda *_: None)


def without_bias(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tacit.engines.duckdb.engine.loss_plan", lambda *_: None)


def without_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenedSources, "_copied", lambda _, source: source)


#: How to do without each. Rows are fetched, sorted and added up together, and tell bias and counts of values besides.
TOTALS = {"columns", "totals", "counts"}
#: The accelerator of each plan of ``duckdb/totals.py``.
PLANS = {"TotalsPlan": "totals", "CountPlan": "counts", "SpreadPlan": "spreads", "LossPlan": "bias"}
TOGETHER = {
    "totals": TOTALS,
    "spreads": {"spreads", *TOTALS},
    "columns": {"spreads", *TOTALS},
    "bias": {"bias", "spreads", *TOTALS},
}
ACCELERATORS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "columns": without_arrays,
    "totals": without_arrays,
    "counts": without_counts,
    "spreads": without_spreads,
    "bias": without_bias,
    "copies": without_copies,
}


@contextmanager
def only(name: str | None) -> Iterator[None]:
    """With one accelerator, or with none."""
    with pytest.MonkeyPatch.context() as patch:
        wanted = TOGETHER.get(name or "", {name})
        # Columns are handed over by NumPy alone, as where Arrow is not installed.
        patch.setattr("tacit.engines.duckdb.segments.has_arrow", lambda: name != "columns")
        for other, leave_out in ACCELERATORS.items():
            if other not in wanted:
                leave_out(patch)
        yield
