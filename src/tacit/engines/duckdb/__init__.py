"""DuckDB: Parquet, CSV and DuckDB files, patterns of files, and Arrow, pandas or Polars frames in memory.

``engine`` runs; ``connection`` locks; ``sources`` reads files totally; ``relations``, ``aggregates``, ``windows``,
``scalars``, ``casts`` and ``functions`` turn the algebra into SQL; ``statements``, ``partials``, ``groups``,
``bitsets``, ``choosing`` and ``quantising`` bound units and add up in SQL; ``fetching``, ``folding`` and ``shares`` do
so in memory, faster; ``results`` reads the integers back.
"""

from __future__ import annotations

from tacit.engines.duckdb.connection import Limits
from tacit.engines.duckdb.engine import DuckDBEngine
from tacit.engines.duckdb.sources import DataSource, SourceLike

__all__ = ["DataSource", "DuckDBEngine", "Limits", "SourceLike"]
