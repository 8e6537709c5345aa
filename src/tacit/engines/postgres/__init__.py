"""PostgreSQL: tables and views where they already are, read by a role that may only read.

``engine`` runs; ``session`` holds connections and pins everything for a transaction; ``tables`` and ``identity`` say
what a table is; ``dialect``, ``doubles``, ``lists``, ``numbers`` and ``texts`` say how PostgreSQL writes what
``engines/sql`` asks for; ``checks`` is what ``tacit doctor`` looks at.

Modules:
* :mod:`.dialect` — PostgreSQL dialect, version 13 and later
* :mod:`.doctor` — Checks of ``tacit doctor`` for PostgreSQL: version, rights, types, collations, row security
* :mod:`.double_arithmetic` — Double arithmetic in PostgreSQL without overflow errors
* :mod:`.double_functions` — Double functions that PostgreSQL lacks or that raise errors
* :mod:`.engine` — The PostgreSQL engine: bounding and adding up happen in the database, and only exact integers
  come back
* :mod:`.list_sums` — Sums of sorted doubles in PostgreSQL without overflow errors
* :mod:`.session` — PostgreSQL sessions: read-only transactions, one per question
* :mod:`.statements` — PostgreSQL statements that bound units by one sort
* :mod:`.table_identity` — Identity of a PostgreSQL table, independent of its name in a project
* :mod:`.tables` — PostgreSQL tables and views: columns, identity, and total reads
* :mod:`.text_functions` — Text functions of PostgreSQL under the collation "C"
* :mod:`.unit_columns` — Stored types of identifying columns in PostgreSQL; reads no row
"""

from __future__ import annotations

from tacit.engines.postgres.engine import PostgresEngine, PostgresLimits
from tacit.engines.postgres.session import place_of

__all__ = ["PostgresEngine", "PostgresLimits", "place_of"]
