"""PostgreSQL: tables and views where they already are, read by a role that may only read.

``engine`` holds connections, pins everything for a transaction and runs; ``tables`` reads the schema; ``dialect``
says how PostgreSQL writes what ``engines/sql`` asks for.

Modules:
* :mod:`.dialect` — PostgreSQL dialect, version 13 and later
* :mod:`.engine` — The PostgreSQL engine: units are bounded and summed in the database; only exact integers
  come back
* :mod:`.tables` — PostgreSQL tables and views: columns, identity, and total reads
"""

from __future__ import annotations

from tacit.engines.postgres.engine import PostgresEngine, place_of

__all__ = ["PostgresEngine", "place_of"]
