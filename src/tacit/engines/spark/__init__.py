"""Spark: Parquet files and folders, CSV files, tables of a catalog, and frames of Spark or of Python.

``engine`` writes statements that bound units by one exchange, and runs them; ``connect`` finds a session at a Spark
Connect server, ``session`` there or on this machine, and tries it out; ``running_query`` stops and watches; ``sources``
and ``parquet_scan`` read totally; ``dialect`` says how Spark writes things. Importing this package imports no Spark.

Modules:
* :mod:`.connect` — Spark Connect sessions by an address such as ``sc://host:15002``
* :mod:`.dialect` — Spark dialect in ANSI mode with the session clock in UTC
* :mod:`.doctor` — Checks of ``tacit doctor`` for Spark: packages, Java, session, declared tables
* :mod:`.engine` — The Spark engine: one session, one job group per query, exact integers back
* :mod:`.parquet_scan` — Parquet scan in which Spark can read every value
* :mod:`.running_query` — One running query on Spark: timeout, cancellation, progress
* :mod:`.session` — Spark session: found or started, and checked before use
* :mod:`.sources` — Spark sources: Parquet, CSV, catalog tables, Spark and Python frames
"""

from __future__ import annotations

from tacit.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
