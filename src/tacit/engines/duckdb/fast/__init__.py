"""Accelerated paths of the DuckDB engine, equal to the plain statements.

:func:`measure` is the door: what a statement gives whose rows fit into memory, and with totals the table of what
bounding leaves out; None where SQL has to do it.

Modules:
* :mod:`.array_losses` — Table of units by what bounding left out of them, from rows in memory: the integers of
  ``planning/left_out.py``
* :mod:`.array_spreads` — Distinct values and counts of places of each group, from rows in memory: the same integers as
  the statements
* :mod:`.array_totals` — Bounded totals of rows in memory: the same integers as the statements of
  ``engines/sql/unit_totals.py``
* :mod:`.bitset_bounding` — Bounding of public groups per unit by bit sets instead of sorting pairs
* :mod:`.fetched_rows` — Rows of a question in memory: read by DuckDB, turned into keys, and handed to
  :mod:`.array_totals`
* :mod:`.grouped_rows` — Rows in memory in the order of unit, group and value, and the first few groups or values of
  each owner
* :mod:`.item_numbers` — Numbers in place of keys, values and units that are not declared: equal ones get one number, in
  their own order
* :mod:`.private_totals` — Bounded totals over private keys, from rows in memory: the same integers as the statements of
  ``engines/sql``
* :mod:`.table_cache` — In-memory copies of small source files, reused across questions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.engines.duckdb.fast import array_spreads, fetched_rows, private_totals
from tacit.engines.duckdb.fast.array_spreads import SpreadPlan
from tacit.engines.duckdb.fast.array_totals import FoldedRows, TooWideError
from tacit.engines.duckdb.fast.fetched_rows import ROW_BYTES, RowPlan
from tacit.engines.duckdb.fast.private_totals import PrivatePlan
from tacit.engines.duckdb.sources import MOST_PLACES

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession

__all__ = ["measure"]


def measure(
    session: DuckDBSession, plan: RowPlan | PrivatePlan | SpreadPlan, most_rows: int, threads: int
) -> FoldedRows | None:
    """The rows of a statement by its faster form; None where SQL has to do it.

    Args:
        session: to read with; asked now and then whether to stop.
        plan: what to read.
        most_rows: that are held at once, of :data:`~.fetched_rows.ROW_BYTES` each.
        threads: for adding up.
    """
    if isinstance(plan, RowPlan):
        if plan.groups > MOST_PLACES:
            # Arrays hold the number of a group in 16 bits.
            return None
        return fetched_rows.measure(session, plan, most_rows, threads)
    try:
        if isinstance(plan, PrivatePlan):
            return private_totals.measure(session, plan, most_rows * ROW_BYTES, threads)
        return FoldedRows(array_spreads.measure(session, plan, most_rows * ROW_BYTES, threads), None)
    except TooWideError:
        return None
