"""Accelerated paths of the DuckDB engine, equal to the plain statements.

:func:`measure` is the door: the totals of a statement whose rows fit into memory, and with them the table of what
bounding leaves out; None where SQL has to add them up.

Modules:
* :mod:`.array_losses` — Table of units by what bounding left out of them, from rows in memory: the integers of
  ``planning/left_out.py``
* :mod:`.array_totals` — Bounded totals of rows in memory: the same integers as the statements of
  ``engines/sql/unit_totals.py``
* :mod:`.bitset_bounding` — Bounding of public groups per unit by bit sets instead of sorting pairs
* :mod:`.fetched_rows` — Rows of a question in memory: read by DuckDB, turned into keys, and handed to
  :mod:`.array_totals`
* :mod:`.table_cache` — In-memory copies of small source files, reused across questions
"""

from __future__ import annotations

from tacit.engines.duckdb.fast.fetched_rows import measure

__all__ = ["measure"]
