"""Engines: exact integers from DuckDB, PostgreSQL and Spark.

This is the only layer that imports a database. Its results (:class:`~tacit.engines.protocol.Measurements`) are raw
and go to the noise step alone. An engine never sees the analyst's text, and what a database says of a failure stays
in the operator's log.

Modules:
* :mod:`.duckdb` — DuckDB: Parquet, CSV and DuckDB files, patterns of files, and Arrow, pandas or Polars frames in
  memory
* :mod:`.files` — Files of a source: which they are, their version, the form of CSV, and what Parquet files hold
* :mod:`.frames` — Frames in memory: of Python's values, and Arrow tables that are sound in every value
* :mod:`.postgres` — PostgreSQL: tables and views where they already are, read by a role that may only read
* :mod:`.protocol` — Engine protocol: exact integer measurements of owned relations, rows of public ones
* :mod:`.registry` — Registry of engines by address: ``duckdb``, ``postgresql://…``, ``sc://…``, ``warehouse``
* :mod:`.spark` — Spark: Parquet files and folders, CSV files, tables of a catalog, and frames of Spark or of Python
* :mod:`.sql` — Shared by all databases that speak SQL: the planner's algebra and the bounding of units as SQL text
* :mod:`.stored_units` — Check that the stored types of identifying columns give one canonical unit
* :mod:`.warehouse` — Warehouses that Tacit never connects to: statements out, integers in
"""
