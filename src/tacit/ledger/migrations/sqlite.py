"""SQLite: step ``n`` of :data:`MIGRATIONS` turns version ``n`` of the tables into version ``n + 1``.

A step that was ever released is never edited. The entries themselves never change: a migration may move them to other
tables, and the chain proves that it lost nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MIGRATIONS"]

MIGRATIONS: Final = (
    (
        """
        CREATE TABLE entries (
            seq INTEGER PRIMARY KEY,
            body TEXT NOT NULL,
            hash BLOB NOT NULL
        ) STRICT
        """,
        # spent and cap are whole grains in decimal text: they outgrow 64 bits. The seal finds flipped bits.
        """
        CREATE TABLE pockets (
            account TEXT NOT NULL,
            owner TEXT NOT NULL,
            currency TEXT NOT NULL,
            spent TEXT NOT NULL,
            cap TEXT,
            seq INTEGER NOT NULL,
            seal BLOB NOT NULL,
            PRIMARY KEY (account, owner, currency)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE names (
            space TEXT NOT NULL,
            key TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (space, key)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE papers (
            seq INTEGER NOT NULL,
            name TEXT NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (seq, name)
        ) STRICT
        """,
        """
        CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END
        """,
        """
        CREATE TRIGGER entries_remain BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END
        """,
    ),
)
