"""Accelerated paths of the DuckDB engine, equal to the plain statements.

Modules:
* :mod:`.bitset_bounding` — Bounding of public groups per unit by bit sets instead of sorting pairs
* :mod:`.dense_totals` — Totals per unit and group in one dense array, without a sort
* :mod:`.rows` — Rows of DuckDB as arrays: unit, public group and one column per summed value
* :mod:`.sorted_totals` — Bounded totals per unit and group by one sort
* :mod:`.statement_cache` — Cache of planned statements shared by questions that differ in whole numbers only
* :mod:`.table_cache` — In-memory copies of small source files, reused across questions
* :mod:`.unit_arrays` — Per-unit totals from arrays: the same integers as ``engines/sql/unit_totals.py``
"""
