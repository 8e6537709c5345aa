"""Spark: Parquet files and folders, CSV files, tables of a catalog, and frames of Spark or of Python.

``engine`` runs; ``session`` finds or starts a Spark, ``connect`` one at a Spark Connect server, and ``trial`` tries
it out; ``jobs`` stops and watches; ``sources`` and ``files`` read totally; ``identity`` recognises; ``checks`` are for
the doctor; ``dialect`` and ``texts`` say how Spark writes things; ``statements`` bounds units by one exchange.
Importing this package does not import Spark.
"""

from __future__ import annotations

from tacit.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
