"""Checks of ``tacit doctor`` for PostgreSQL: version, rights, types, collations, row security."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from tacit.engines.postgres.engine import first_look
from tacit.engines.postgres.session import PostgresSession, Server, place_of
from tacit.engines.postgres.tables import Described, check_identities, describe, open_table
from tacit.engines.protocol import DoctorCheck
from tacit.query.catalog import Catalog, Table

_ROLE = """
SELECT current_user::text, r.rolsuper, r.rolcreatedb OR r.rolcreaterole OR r.rolreplication, r.rolbypassrls,
  current_setting('server_version'), current_database()::text
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
_RIGHTS = """
SELECT has_schema_privilege(%(schema)s, 'USAGE'),
  has_table_privilege(%(oid)s::oid, 'SELECT') OR has_any_column_privilege(%(oid)s::oid, 'SELECT'),
  has_table_privilege(%(oid)s::oid, 'INSERT, UPDATE, DELETE, TRUNCATE'),
  row_security_active(%(oid)s::oid)
"""
_READABLE = "SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT has_column_privilege(a.attrelid, a.attnum, 'SELECT')"  # noqa: E501


def look_at(address: str, catalog: Catalog, names: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """All checks, in order.

    Raises:
        InputError: the server cannot be reached or is not fit.
    """
    server = Server(place_of(address))
    try:
        with first_look(server) as session:
            role = yield from _server(session, server.place.words)
            found = {}
            for index, table in enumerate(catalog.tables):
                described = describe(session, names[table.name], f"tables.{table.name}.source")
                found[table.name.lower()] = described
                yield from _table(session, described, table, index, role)
            check_identities(catalog, found)
    finally:
        server.close()


def _server(session: PostgresSession, words: str) -> Generator[DoctorCheck, None, str]:
    ((role, is_super, may_make, passes_by, version, database),) = session.rows(_ROLE)
    yield DoctorCheck(
        "database", True, f"{words}: PostgreSQL {version}, database {database}, role {role}; encoding UTF8"
    )
    if is_super or may_make:
        yield DoctorCheck(
            "role",
            False,
            f"{role} can do more than read: {'a superuser' if is_super else 'it may make roles, databases or copies'}",
            f"CREATE ROLE tacit LOGIN; GRANT CONNECT ON DATABASE {_identifier(database)} TO tacit; and use that one",
        )
    else:
        seen = "; it sees all rows where row security is on" if passes_by else ""
        yield DoctorCheck("role", True, f"{role} has no rights over the server{seen}")
    return str(role)


def _table(
    session: PostgresSession, described: Described, table: Table, index: int, role: str
) -> Iterator[DoctorCheck]:
    name, where = f"table {table.name}", f"{described.schema}.{described.name}"
    rights = session.rows(_RIGHTS, {"schema": described.schema, "oid": described.oid})
    ((may_enter, may_read, may_write, is_filtered),) = rights
    grants = [] if may_enter else [f"GRANT USAGE ON SCHEMA {_identifier(described.schema)} TO {_identifier(role)};"]
    hidden = {row[0] for row in session.rows(_READABLE, (described.oid,))}
    missing = sorted(column.stored_name for column in table.columns if column.stored_name in hidden)
    if not may_read or missing:
        columns = f" ({', '.join(map(_identifier, missing))})" if may_read else ""
        grants.append(f"GRANT SELECT{columns} ON {described.scan} TO {_identifier(role)};")
    if grants:
        yield DoctorCheck(name, False, f"{where}: {role} may not read it", " ".join(grants))
        return
    open_table(described, table, index)
    yield DoctorCheck(name, True, f"{where}: readable, {len(table.columns)} columns of fitting types")
    if may_write:
        yield DoctorCheck(
            f"{name} rights",
            False,
            f"{role} may change {where}; Tacit never does, but a thief of its connection could",
            f"REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON {described.scan} FROM {_identifier(role)};",
        )
    if is_filtered:
        yield DoctorCheck(
            f"{name} row security",
            False,
            f"row-level security hides rows of {where} from {role}: answers are about those it can see",
            f"CREATE POLICY tacit ON {described.scan} FOR SELECT TO {_identifier(role)} USING (true); or leave it so",
        )
    if described.inexact:
        listed = ", ".join(sorted(described.inexact))
        yield DoctorCheck(
            f"{name} collations",
            True,
            f"{listed}: texts that the database calls equal, whatever their case or accents, are different groups here,"
            " where bytes decide",
        )


def _identifier(name: str) -> str:
    plain = name.isidentifier() and name == name.lower() and name.isascii()
    return name if plain else '"' + name.replace('"', '""') + '"'
