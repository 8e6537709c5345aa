"""What all databases that speak SQL have in common: the planner's algebra and the bounding of units as SQL text.

``dialect`` says what differs; ``relations``, ``aggregates``, ``windows``, ``scalars``, ``casts`` and ``functions`` turn
the algebra into SQL; ``statements``, ``partials``, ``groups``, ``choosing`` and ``quantising`` bound units and add up;
``public`` and ``examples`` select the rows that may leave; ``results`` reads the integers back. Nothing here imports a
database.
"""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.statements import Statement, statements
from tacit.engines.sql.tables import StoredTable

__all__ = ["Dialect", "Statement", "StoredTable", "statements"]
