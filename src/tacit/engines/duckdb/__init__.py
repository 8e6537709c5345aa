"""DuckDB: Parquet, CSV and DuckDB files, patterns of files, and Arrow, pandas or Polars frames in memory.

``engine`` runs; ``connection`` locks; ``sources`` reads files totally; ``dialect`` and ``texts`` say how DuckDB writes
what ``engines/sql`` asks for; ``statements`` and ``bitsets`` bound units in SQL; ``fetching``, ``folding`` and
``shares`` do so in memory, faster.

Modules:
* :mod:`.connection` — Locked DuckDB connection that reads the declared sources only
* :mod:`.csv_lines` — CSV reader by lines: a line can harm itself only
* :mod:`.dialect` — DuckDB dialect
* :mod:`.engine` — The DuckDB engine: one locked database, one cursor per question, exact integers back
* :mod:`.fast` — Accelerated paths of the DuckDB engine, equal to the plain statements
* :mod:`.opened_sources` — Opened state of all sources in one locked database
* :mod:`.parquet_scan` — Parquet scan by DuckDB, with Arrow for columns whose values DuckDB cannot read
* :mod:`.session` — Session of one question in DuckDB
* :mod:`.sources` — DuckDB sources: files and frames read as the declared types, so that no value can fail a scan
* :mod:`.statements` — DuckDB statements that bound units
* :mod:`.text_functions` — Text functions of DuckDB: code points and the order of UTF-8 bytes
* :mod:`.timeouts` — Timeouts of sessions, enforced by one thread
* :mod:`.training_rows` — Protected rows as arrays for training in this process
* :mod:`.unit_columns` — Stored types of identifying columns in DuckDB sources; reads no row
"""

from __future__ import annotations

from tacit.engines.duckdb.connection import Limits
from tacit.engines.duckdb.engine import DuckDBEngine
from tacit.engines.duckdb.sources import DataSource, SourceLike

__all__ = ["DataSource", "DuckDBEngine", "Limits", "SourceLike"]
