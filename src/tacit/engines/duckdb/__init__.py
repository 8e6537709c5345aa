"""DuckDB: Parquet, CSV and DuckDB files, patterns of files, and Arrow, pandas or Polars frames in memory.

``engine`` writes statements that bound units in SQL, and runs them; ``segments`` and ``totals`` bound in memory, with
equal results; ``database`` locks;
``sources`` reads files so that no value fails a scan; ``dialect`` says how DuckDB writes what ``engines/sql`` asks for.

Modules:
* :mod:`.csv_lines` — CSV reader by lines: a malformed line affects no other line
* :mod:`.database` — Locked DuckDB database over one state of the declared sources, its sessions and their timeouts
* :mod:`.dialect` — DuckDB dialect, with text functions by code points and in the order of UTF-8 bytes
* :mod:`.engine` — The DuckDB engine: one locked database, one cursor per query, exact integers back
* :mod:`.segments` — Rows in memory in the order of unit, group and value, cut into units
* :mod:`.sources` — DuckDB sources: files and frames read as the declared types, so that no value can fail a scan
* :mod:`.totals` — Bounded totals, distinct values, places and bias of rows in memory: the integers of the statements
"""

from __future__ import annotations

from tacit.engines.duckdb.engine import DuckDBEngine
from tacit.engines.protocol import DataSource, Limits, SourceLike

__all__ = ["DataSource", "DuckDBEngine", "Limits", "SourceLike"]
