"""PostgreSQL: tables and views where they already are, read by a role that may only read.

``engine`` runs; ``session`` holds connections and pins everything for a transaction; ``tables`` and ``identity`` say
what a table is; ``dialect``, ``doubles``, ``lists``, ``numbers`` and ``texts`` say how PostgreSQL writes what
``engines/sql`` asks for; ``checks`` is what ``tacit doctor`` looks at.
"""

from __future__ import annotations

from tacit.engines.postgres.engine import PostgresEngine, PostgresLimits
from tacit.engines.postgres.session import place_of

__all__ = ["PostgresEngine", "PostgresLimits", "place_of"]
