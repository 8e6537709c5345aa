"""PostgreSQL protocol: psql, drivers and dashboards ask the server as if it were a database.

Modules:
* :mod:`.catalog` — Queries about the catalogue: rewritten from PostgreSQL's dialect to DuckDB's, and answered by an
  embedded DuckDB
* :mod:`.client_queries` — Queries of one connected client: asked, quoted and explained, and queries about the
  catalogue
* :mod:`.messages` — Messages of the PostgreSQL protocol, versions 3.0 and 3.2: a strict reader and a writer
* :mod:`.server` — Connections of PostgreSQL clients: TLS, start-up, proof of identity, cancelling, shutdown
* :mod:`.session` — One connected client: statements, portals, transactions
* :mod:`.sqlstates` — SQLSTATEs of failures: the one place where codes of Tacit become codes of PostgreSQL
* :mod:`.statements` — Statements in a text: where each begins, its kind, and its parameters
* :mod:`.stream` — Byte stream of one connection, in the clear or in TLS, with limits on waiting
* :mod:`.system_tables` — Tables and functions of the system, ``pg_catalog``, ``information_schema`` and ``tacit``,
  filled from public metadata
* :mod:`.types` — Types of PostgreSQL on the wire: values to text and binary, parameters to values
* :mod:`.variables` — Settings of a connection: ``SET tacit.epsilon = '0.1'``, and those that clients of PostgreSQL
  expect
"""

from __future__ import annotations

from tacit.server.pgwire.server import PostgresServer

__all__ = ["PostgresServer"]
