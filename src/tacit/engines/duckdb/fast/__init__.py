"""Accelerated paths of the DuckDB engine, equal to the plain statements.

``measure`` of a plan (``RowPlan``, ``PrivatePlan``, ``SpreadPlan``) is the door: what a statement gives whose rows fit
into memory, and with totals the table of what bounding leaves out; None where SQL has to do it.

Modules:
* :mod:`.array_losses` — Table of units by what bounding left out of them, from rows in memory: the integers of
  ``planning/left_out.py``
* :mod:`.array_spreads` — Distinct values and counts of places of each group, from rows in memory: the same integers as
  the statements
* :mod:`.array_totals` — Bounded totals of rows in memory: the same integers as the statements of
  ``engines/sql/unit_totals.py``
* :mod:`.bitset_bounding` — Bounding of public groups per unit by bit sets instead of sorting pairs
* :mod:`.copied_rows` — Public rows that only copy the rows of units, as a number instead of rows
* :mod:`.fetched_rows` — Rows of a question in memory: read by DuckDB, turned into keys, and handed to
  :mod:`.array_totals`
* :mod:`.grouped_rows` — Rows in memory in the order of unit, group and value, and the first few groups or values of
  each owner
* :mod:`.handed_columns` — Columns as DuckDB hands them over: by Arrow where it is installed, and otherwise as arrays of
  NumPy
* :mod:`.item_numbers` — Numbers in place of keys, values and units that are not declared: equal ones get one number, in
  their own order
* :mod:`.private_totals` — Bounded totals over private keys, from rows in memory: the same integers as the statements of
  ``engines/sql``
* :mod:`.sorted_totals` — Totals of rows that are sorted first, where a unit has to choose among its groups or units are
  far apart
* :mod:`.table_cache` — In-memory copies of small source files, reused across questions
"""
