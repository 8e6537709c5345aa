"""Spark: Parquet files and folders, CSV files, tables of a catalog, and frames of Spark or of Python.

``engine`` writes statements that bound units by one exchange, and runs them; ``session`` opens a session at a Spark
Connect server, tries it out, and watches over its queries; ``sources`` reads values that do not fit as NULL;
``dialect`` says how Spark writes things. Importing this package imports no Spark.

Modules:
* :mod:`.dialect` — Spark dialect in ANSI mode with the session clock in UTC
* :mod:`.engine` — The Spark engine: one session, one job group per query, exact integers back
* :mod:`.session` — Spark session: at a server or its owner's, checked before use, and one running query of it
* :mod:`.sources` — Spark sources: Parquet, CSV, catalog tables, Spark and Python frames
"""

from __future__ import annotations

from tacit.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
