"""Shared by all databases that speak SQL: the planner's algebra and the bounding of units as SQL text.

``dialect`` is the interface that differs; ``scalars``, ``relations`` and ``functions`` turn the algebra into SQL;
``statements``, ``group_choice`` and ``unit_totals`` bound units and add up. Nothing here imports a database.

Modules:
* :mod:`.dialect` — SQL dialect: the interface that each database implements
* :mod:`.engine` — Engine of a database that speaks SQL: check, explain, measure, public rows, training rows, interrupt,
  close
* :mod:`.functions` — One lowering per function of the registry; each gives the value that the registry's Python
  meaning gives
* :mod:`.group_choice` — Groups of a query, and the choice of the groups and values of a unit that count, by keyed
  hash
* :mod:`.bias_cells` — Sums of a query and the table of what bounding leaves out of it, in one statement
* :mod:`.relations` — Relations as SQL: one SELECT per node, with the columns that are needed above and no others
* :mod:`.scalars` — Expressions as SQL: total casts, one lowering per function id, and ranges that need no check
* :mod:`.statements` — Measuring statements: rows, bounded per unit, summed per group
* :mod:`.unit_totals` — Per-unit totals in a group: values quantised, summed measure by measure, and clamped to
  integers
"""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.statements import Statement

__all__ = ["Dialect", "Statement", "StoredTable"]
