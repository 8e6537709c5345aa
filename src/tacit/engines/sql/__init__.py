"""Shared by all databases that speak SQL: the planner's algebra and the bounding of units as SQL text.

``dialect`` is the interface that differs; ``scalars`` and ``relations`` turn the algebra into SQL; ``bounding`` and
``statements`` bound units and add up. Nothing here imports a database.

Modules:
* :mod:`.bounding` — Groups, the choice of those of a unit that count by keyed hash, and per-unit totals as clamped
  integers
* :mod:`.dialect` — SQL dialect: the interface that each database implements
* :mod:`.engine` — Engine of a database that speaks SQL: check, explain, measure, public rows, training rows, interrupt,
  close
* :mod:`.relations` — Relations as SQL: one SELECT per node, with the columns that are needed above and no others
* :mod:`.scalars` — Expressions as SQL: total casts, one lowering per function of the registry, and ranges that need no
  check
* :mod:`.statements` — Measuring statements: rows, bounded per unit, summed per group; and the table of bias
"""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.statements import Statement

__all__ = ["Dialect", "Statement", "StoredTable"]
