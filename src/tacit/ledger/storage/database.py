"""Interface of a database, its errors, and the one runner of migrations.

Statements have ``?`` for values, on every database. A transaction is durable when its block ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

#: Carry out a statement with values, and give back its rows.
Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

_PRAGMA: Final = "PRAGMA user_version"


class StorageError(Exception):
    """The database or the disk failed, or its contents are impossible; the state after it is unknown."""


class StoreBusy(Exception):  # noqa: N818  (not an error: nothing happened)
    """Another program held the database for too long, and nothing was written."""


class Database(Protocol):
    """One database, for any number of threads.

    Every failure is a :class:`StorageError`; :class:`StoreBusy` guarantees that nothing was written.
    """

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""

    def write(self) -> AbstractContextManager[Run]:
        """A transaction: durable when the block ends, undone when it raises. Keep it short."""

    def migrate(self, schema: Schema) -> tuple[int, int] | None:
        """Make the tables of a schema, or bring them up to date, in a transaction that no other process shares."""

    def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables of one kind, version by version.

    Args:
        what: subject and verb of messages about them, such as ``the ledger has``.
        migrations: step ``n`` turns version ``n`` of the tables into version ``n + 1``. A step that was ever released
            is never edited.
        version_table: the table that holds the version; empty for SQLite's ``user_version``.
        first: a statement that makes that table where it is missing.
        words: replacements of words in braces, which differ between databases; none where statements have no braces.
        lock: number of the lock under which PostgreSQL prepares them; always the same.
    """

    what: str
    migrations: Sequence[Sequence[str]]
    version_table: str = ""
    first: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    lock: int = 0


def bring_up_to_date(run: Run, schema: Schema) -> tuple[int, int] | None:
    """Run the migrations that are missing, in the transaction of ``run``.

    Returns:
        The version before and after, if tables that existed were changed.

    Raises:
        StorageError: the tables are of a later version than this one knows.
    """
    table, migrations = schema.version_table, schema.migrations

    def carry_out(statement: str) -> None:
        run(statement.format_map(schema.words) if schema.words else statement, ())

    if schema.first:
        carry_out(schema.first)
    rows = run(f"SELECT version FROM {table}" if table else _PRAGMA, ())  # noqa: S608
    version, newest = int(rows[0][0]) if rows else 0, len(migrations)
    if version > newest:
        raise StorageError(f"{schema.what} version {version} and this Tacit knows {newest}; use a newer one")
    if version == newest:
        return None
    for statements in migrations[version:]:
        for statement in statements:
            carry_out(statement)
    if table:
        run(f"DELETE FROM {table}", ())  # noqa: S608
        run(f"INSERT INTO {table} VALUES (?)", (newest,))  # noqa: S608
    else:
        run(f"{_PRAGMA} = {newest}", ())
    return (version, newest) if version else None
