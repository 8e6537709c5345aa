"""Draft of tables of a database for ``tacit init postgresql://…``: from the database's own schema.

Names and types are read, and nothing else: no row, and none of the statistics that a database keeps of its columns,
which hold smallest, largest and most frequent values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tacit.core.errors import InputError
from tacit.core.names import is_name
from tacit.engines.registry import stored_names, stored_types
from tacit.project.project_template import DraftTable, typed_column
from tacit.project.schema_inference import guess_unit

_SECRETS = ("password", "sslpassword")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}\Z")


def postgres_tables(
    address: str, names: Sequence[str], public: Sequence[str], unit: str | None
) -> tuple[DraftTable, ...]:
    """Draft tables and views without asking.

    Raises:
        InputError: the database cannot be reached or there is no such table; none is named, and those that there are
            are listed.
    """
    wanted = [*((name, False) for name in names), *((name, True) for name in public)]
    try:
        if not names:
            listed = ", ".join(stored_names(address)) or "none"
            raise InputError("table", f"name the tables to protect, each with --table; this role can read: {listed}")
        stored = stored_types(address, {name: name for name, _ in wanted})
    except InputError as problem:
        # A message about a project's engine is about the address here, and of a table's source about --table.
        raise InputError("sources" if problem.parameter == "project.engine" else "table", problem.problem) from None
    return tuple(_table(name, stored[name], unit, public=is_public) for name, is_public in wanted)


def _table(source: str, types: Mapping[str, object], unit: str | None, *, public: bool) -> DraftTable:
    name = source.rpartition(".")[2]
    if not is_name(name):
        raise InputError("table", f"{name!r} cannot be used in questions: make a view whose name is of plain letters")
    columns = tuple(typed_column(column, None if kind is None else str(kind)) for column, kind in types.items())
    usable = [column.name for column in columns if column.why_not is None]
    if not usable:
        raise InputError("table", f"none of the columns of {source} can be used")
    mine = None if public or unit is None else next((n for n in (*usable, "row") if n.lower() == unit.lower()), None)
    guess = None if public or mine else guess_unit(usable)
    return DraftTable(name=name, source=source, columns=columns, public=public, unit=mine, guess=guess)


def address_without_secrets(address: str) -> str:
    """The address as it may stand in a file: passwords are left out, unless a variable stands for them.

    Raises:
        InputError: it cannot be told apart from its password.
    """
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    scheme, _, rest = address.partition("://")
    rest, mark, query = rest.partition("?")
    credentials, at, host = rest.rpartition("@")
    user, colon, password = credentials.partition(":")
    if not _VARIABLE.match(password):
        colon = password = ""
    kept = [part for part in query.split("&") if part and not _is_secret(part)]
    plain = f"{scheme}://{user}{colon}{password}{at}{host}{mark if kept else ''}{'&'.join(kept)}"
    try:
        before, after = conninfo_to_dict(address), conninfo_to_dict(plain)
    except Error:
        before, after = {}, {"password": address}
    # As libpq reads both: the same place, and no secret in what is kept.
    for name in _SECRETS:
        before.pop(name, None)
    left = [str(after.pop(name, None) or "") for name in _SECRETS]
    if before != after or any(text and not _VARIABLE.match(text) for text in left):
        raise InputError("sources", "write the address without its password; PGPASSWORD or a password file can hold it")
    return plain


def _is_secret(part: str) -> bool:
    name, _, value = part.partition("=")
    return name.lower() in _SECRETS and not _VARIABLE.match(value)
