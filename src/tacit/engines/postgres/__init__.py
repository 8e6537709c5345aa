"""PostgreSQL: tables and views where they already are, read by a role that may only read.

``engine`` runs; ``session`` holds connections and pins everything for a transaction; ``tables`` says what a
table is; ``dialect`` and ``double_arithmetic`` say how PostgreSQL writes what ``engines/sql`` asks
for.

Modules:
* :mod:`.dialect` — PostgreSQL dialect, version 13 and later
* :mod:`.doctor` — Checks of ``tacit doctor`` for PostgreSQL: version, rights, types, collations, row security
* :mod:`.double_arithmetic` — Double arithmetic in PostgreSQL without overflow errors
* :mod:`.engine` — The PostgreSQL engine: bounding and adding up happen in the database, and only exact integers
  come back
* :mod:`.session` — PostgreSQL sessions: read-only transactions, one per query
* :mod:`.tables` — PostgreSQL tables and views: columns, identity, and total reads
"""

from __future__ import annotations

from tacit.engines.postgres.engine import PostgresEngine
from tacit.engines.postgres.session import place_of

__all__ = ["PostgresEngine", "place_of"]
