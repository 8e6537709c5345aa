"""Bounding of rows in memory, equal to the plain statements.

``measure`` of a plan (``TotalsPlan``, ``SpreadPlan``) is the door: what a statement gives whose rows fit into memory,
and with totals the table of bias; None where SQL has to do it.

Modules:
* :mod:`.bias` — Table of units by what bounding left out of them, from rows in memory: the integers of
  ``planning/bias.py``
* :mod:`.columns` — Columns of rows in memory: whole numbers as they are, and other keys, values and units by numbers
* :mod:`.segments` — Rows in memory in the order of unit, group and value, cut into units: what all bounded measurements
  are made of
* :mod:`.spreads` — Distinct values and counts of places of each group, from rows in memory: the same integers as the
  statements
* :mod:`.totals` — Bounded totals of rows in memory: the same integers as the statements of
  ``engines/sql/unit_totals.py``
"""
