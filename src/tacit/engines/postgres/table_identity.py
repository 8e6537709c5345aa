"""Identity of a PostgreSQL table, independent of its name in a project.

A relation leaves two marks: its number in its database in its server, which a renaming does not change, and its name
there, which making it anew does not change. A view leaves those of every relation it reads as well, so that a table
and a view of it share one budget. So does a table with its parents, children and partitions: a row of one is a row of
the others. A foreign table leaves the place that it stands for, so that two of them for one place are one. (Two views
that share a table are one as well: a list of codes that several populations use is better joined in the question than
in the view.) The server is known by the identifier that was made with its files: a standby and a copy of its files
have the same, a dump that was restored has another.
"""

from __future__ import annotations

from tacit.core.errors import InputError
from tacit.engines.postgres.tables import Asks, Described
from tacit.engines.protocol import Marks

__all__ = ["marks_of", "server_identity"]


def server_identity(session: Asks) -> str:
    """The server's files and the database in them.

    Raises:
        InputError: the role may not ask; PostgreSQL lets everyone, unless its owner has taken that away.
    """
    ((allowed,),) = session.rows("SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')")
    if not allowed:
        raise InputError("engine", "needs GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() to this role")
    ((number,),) = session.rows("SELECT system_identifier::text FROM pg_catalog.pg_control_system()")
    ((oid, name),) = session.rows(
        "SELECT oid::bigint, datname::text FROM pg_catalog.pg_database WHERE datname = current_database()"
    )
    return f"{number}:{oid}:{name}"


def marks_of(server: str, table: Described) -> Marks:
    """The marks of a relation and of all it reads."""
    system, oid, database = server.split(":", 2)
    marks, rows = [], []
    for number, schema, name, _, _ in table.bases:
        found = [f"postgres {system} database {oid} relation {number}", f"postgres {system} {database}.{schema}.{name}"]
        if number in table.elsewhere:
            found.append(f"postgres foreign {table.elsewhere[number]}")
        marks += found
        rows += found if number in table.family else []
    own = tuple(dict.fromkeys(marks))
    return Marks(version=f"postgres {system}:{oid}:{table.oid}", marks=own, own=own, rows=tuple(dict.fromkeys(rows)))
