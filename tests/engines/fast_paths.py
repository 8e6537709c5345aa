"""DuckDB with one of its accelerators, or without any: for tests that compare its paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tacit.engines.duckdb.engine import DuckDBWriter
from tacit.engines.duckdb.fast.array_spreads import SpreadPlan
from tacit.engines.duckdb.fast.fetched_rows import RowPlan
from tacit.engines.duckdb.fast.private_totals import PrivatePlan
from tacit.engines.duckdb.fast.table_cache import TableCache
from tacit.engines.sql.statements import Writer


def without_groups(patch: pytest.MonkeyPatch) -> None:
    for plan in (PrivatePlan, SpreadPlan):
        patch.setattr(plan, "measure", lambda *_: None)


def without_arrays(patch: pytest.MonkeyPatch) -> None:
    without_groups(patch)
    patch.setattr(RowPlan, "measure", lambda *_: None)


def without_copied_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tacit.engines.duckdb.engine.each_row_once", lambda _: None)


def without_losses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tacit.engines.duckdb.engine.loss_plan", lambda *_: None)


def without_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableCache, "_current", lambda *_: None)


def without_bit_sets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DuckDBWriter, "sums", Writer.sums)
    patch.setattr(DuckDBWriter, "kept", Writer.kept)


#: One for each module of ``fast``: how to do without it. Rows are fetched for totals, and tell losses besides; those of
#: private keys and of values are numbered and sorted.
PUBLIC = {"array_totals", "fetched_rows", "copied_rows", "handed_columns", "sorted_totals"}
GROUPED = {"handed_columns", "grouped_rows", "item_numbers", "private_totals", "array_spreads", *PUBLIC}
TOGETHER = {
    "array_totals": PUBLIC,
    "grouped_rows": GROUPED,
    "handed_columns": GROUPED,
    "array_losses": {"array_losses", *GROUPED},
}
ACCELERATORS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "array_totals": without_arrays,
    "sorted_totals": without_arrays,
    "fetched_rows": without_arrays,
    "handed_columns": without_arrays,
    "copied_rows": without_copied_rows,
    "array_losses": without_losses,
    "grouped_rows": without_groups,
    "item_numbers": without_groups,
    "private_totals": without_groups,
    "array_spreads": without_groups,
    "table_cache": without_copies,
    "bitset_bounding": without_bit_sets,
}


@contextmanager
def only(name: str | None) -> Iterator[None]:
    """With one accelerator, or with none."""
    with pytest.MonkeyPatch.context() as patch:
        wanted = TOGETHER.get(name or "", {name})
        # Columns are handed over by NumPy alone, as where Arrow is not installed.
        patch.setattr("tacit.engines.duckdb.fast.handed_columns.has_arrow", lambda: name != "handed_columns")
        for other, leave_out in ACCELERATORS.items():
            if other not in wanted:
                leave_out(patch)
        yield
