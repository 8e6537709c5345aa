"""DuckDB: Parquet, CSV and DuckDB files, patterns of files, and Arrow, pandas or Polars frames in memory.

``engine`` runs; ``connection`` locks; ``sources`` reads files totally; ``dialect`` and ``texts`` say how DuckDB writes
what ``engines/sql`` asks for; ``statements`` and ``bitsets`` bound units in SQL; ``fetching``, ``folding`` and
``shares`` do so in memory, faster.
"""

from __future__ import annotations

from tacit.engines.duckdb.connection import Limits
from tacit.engines.duckdb.engine import DuckDBEngine
from tacit.engines.duckdb.sources import DataSource, SourceLike

__all__ = ["DataSource", "DuckDBEngine", "Limits", "SourceLike"]
