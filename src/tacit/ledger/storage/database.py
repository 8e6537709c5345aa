"""Interface of a database, its errors, and its tables.

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
_VERSION: Final = 1


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

    def prepare(self, schema: Schema) -> None:
        """Make the tables of a schema where there are none, in a transaction that no other process shares."""

    def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables of one kind.

    Args:
        what: subject and verb of messages about them, such as ``the ledger has``.
        statements: that make the tables.
        version_table: the table that holds the version; empty for SQLite's ``user_version``.
        first: a statement that makes that table where it is missing.
        words: replacements of words in braces, which differ between databases; none where statements have no braces.
        lock: number of the lock under which PostgreSQL prepares them; always the same.
    """

    what: str
    statements: Sequence[str]
    version_table: str = ""
    first: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    lock: int = 0


def make_tables(run: Run, schema: Schema) -> None:
    """Make the tables where there are none, in the transaction of ``run``.

    Raises:
        StorageError: the tables are of another version.
    """
    table = schema.version_table

    def carry_out(statement: str) -> None:
        run(statement.format_map(schema.words) if schema.words else statement, ())

    if schema.first:
        carry_out(schema.first)
    rows = run(f"SELECT version FROM {table}" if table else _PRAGMA, ())  # noqa: S608
    version = int(rows[0][0]) if rows else 0
    if version not in (0, _VERSION):
        raise StorageError(f"{schema.what} version {version} and this Tacit reads version {_VERSION} alone")
    if version == _VERSION:
        return
    for statement in schema.statements:
        carry_out(statement)
    run(f"INSERT INTO {table} VALUES ({_VERSION})" if table else f"{_PRAGMA} = {_VERSION}", ())  # noqa: S608
