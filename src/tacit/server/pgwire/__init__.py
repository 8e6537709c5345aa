"""PostgreSQL protocol: psql, drivers and dashboards ask the server as if it were a database.

Modules:
* :mod:`.catalog` — Queries about the catalogue: rewritten from PostgreSQL's dialect to DuckDB's, and answered by an
  embedded DuckDB
* :mod:`.protocol` — The PostgreSQL protocol, version 3.0: messages, values and failures, as bytes
* :mod:`.server` — Connections of PostgreSQL clients: TLS, start-up, proof of identity, cancelling, shutdown
* :mod:`.session` — One connected client: queries, statements, portals, transactions
* :mod:`.statements` — Statements in a text: where each begins, its kind, and its parameters
* :mod:`.system_tables` — Tables and functions of the system, ``pg_catalog``, ``information_schema`` and ``tacit``,
  filled from public metadata
* :mod:`.variables` — Settings of a connection: ``SET tacit.epsilon = '0.1'``, and those that clients of PostgreSQL
  expect
"""

from __future__ import annotations

from tacit.server.pgwire.server import PostgresServer

__all__ = ["PostgresServer"]
