"""What all databases that speak SQL have in common: the planner's algebra and the bounding of units as SQL text.

``dialect`` says what differs; ``relations``, ``aggregates``, ``windows``, ``scalars``, ``casts`` and ``functions`` turn
the algebra into SQL; ``statements``, ``partials``, ``groups``, ``choosing`` and ``quantising`` bound units and add up;
``public`` and ``examples`` select the rows that may leave; ``results`` reads the integers back. Nothing here imports a
database.

Modules:
* :mod:`.aggregates` — Exact aggregates inside one unit's group: functions of the multiset of values, whatever the
  order and the threads
* :mod:`.casts` — Total casts in SQL; unreadable or overflowing values are NULL
* :mod:`.dialect` — SQL dialect: the interface that each database implements
* :mod:`.functions` — One lowering per function of the registry; each gives the value that the registry's Python
  meaning gives
* :mod:`.group_choice` — Choice of the groups and values of a unit that count, by keyed hash
* :mod:`.group_keys` — Group keys in SQL: public ones as one number, private ones as they are
* :mod:`.public_rows` — Rows of public relations for steps above the final aggregation
* :mod:`.quantising` — Quantisation: clamp, then q(x) = floor(x / step + 1/2), exactly
* :mod:`.read_measurements` — Measurements from result rows: every public group, or private groups in key order
* :mod:`.relations` — Relations as SQL: one SELECT per node, with the columns that are needed above and no others
* :mod:`.scalars` — Expressions as SQL: one walk over the nodes, one lowering per function id
* :mod:`.statements` — Measuring statements: rows, bounded per unit, summed per group
* :mod:`.stored_table` — Stored table: scan and column expressions of one source
* :mod:`.training_rows` — Protected rows for a model trained in this process
* :mod:`.unit_totals` — Per-unit totals in a group, measure by measure, clamped to integers
* :mod:`.windows` — Windows over one unit's rows
"""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.statements import Statement, statements
from tacit.engines.sql.stored_table import StoredTable

__all__ = ["Dialect", "Statement", "StoredTable", "statements"]
