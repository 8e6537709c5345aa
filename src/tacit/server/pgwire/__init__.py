"""PostgreSQL protocol: psql, drivers and dashboards ask the server as if it were a database.

Modules:
* :mod:`.cancel_keys` — Keys that cancel statements, valid at every worker process
* :mod:`.catalogue_functions` — Functions that a query about the catalogue may call
* :mod:`.catalogue_rewriting` — Queries about the catalogue, rewritten from PostgreSQL's dialect to DuckDB's: what is on
  no list is refused
* :mod:`.catalogues` — Catalogues of one worker: a database for each part of the catalogue that people see, and answers
  that are kept
* :mod:`.client_questions` — Questions of one connected client: asked, quoted and explained, and queries about the
  catalogue
* :mod:`.messages` — Messages of the protocol: a strict reader and a writer
* :mod:`.server` — Connections: TLS, start-up, proof of identity, cancelling, shutdown
* :mod:`.session` — One connected client: statements, portals, transactions
* :mod:`.sqlstates` — SQLSTATEs of failures
* :mod:`.statements` — Statements in a text: kinds and parameters
* :mod:`.stream` — Byte stream of one connection, in the clear or in TLS
* :mod:`.system_catalog` — Queries about the catalogue, answered by an embedded DuckDB
* :mod:`.system_tables` — Tables of the system, filled from public metadata
* :mod:`.types` — Types on the wire: text, binary, parameters
* :mod:`.variables` — Settings of a connection
"""

from __future__ import annotations

from tacit.server.pgwire.server import PostgresServer

__all__ = ["PostgresServer"]
