"""Step ``n`` of :data:`MIGRATIONS` turns version ``n`` of the tables into version ``n + 1``, on every database.

They lie beside the ledger's own tables, which know nothing of them. A step that was ever released is never edited.
Times are whole milliseconds since 1970; ``born``, ``ended`` and ``changed`` are places in the ledger's chain
(:mod:`tacit.server.identity.ledger_people` says what they are for). Words in braces differ between databases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tacit.ledger import LedgerError
from tacit.server.identity.storage import Run

__all__ = ["MIGRATIONS", "POSTGRES", "SQLITE", "bring_up_to_date"]

SQLITE: Final = {"integer": "INTEGER", "text": "TEXT", "bytes": "BLOB", "end": "STRICT"}
POSTGRES: Final = {"integer": "BIGINT", "text": 'TEXT COLLATE "C"', "bytes": "BYTEA", "end": ""}

MIGRATIONS: Final = (
    (
        # How far the chain has been read, and the hash of that entry.
        "CREATE TABLE people_seen (seq {integer} NOT NULL, hash {text} NOT NULL) {end}",
        "INSERT INTO people_seen VALUES (0, '')",
        # The row of '' is about everybody.
        """
        CREATE TABLE people_persons (
            name {text} PRIMARY KEY,
            ended {integer} NOT NULL,
            changed {integer} NOT NULL,
            password {text}
        ) {end}
        """,
        "INSERT INTO people_persons VALUES ('', 0, 0, NULL)",
        """
        CREATE TABLE people_tokens (
            id {text} PRIMARY KEY,
            name {text} NOT NULL,
            digest {bytes} NOT NULL,
            label {text} NOT NULL,
            scopes {text} NOT NULL,
            born {integer} NOT NULL,
            issued {integer} NOT NULL,
            expires {integer},
            used {integer},
            withdrawn {integer} NOT NULL
        ) {end}
        """,
        """
        CREATE TABLE people_sessions (
            id {text} PRIMARY KEY,
            name {text} NOT NULL,
            digest {bytes} NOT NULL,
            born {integer} NOT NULL,
            opened {integer} NOT NULL,
            seen {integer} NOT NULL
        ) {end}
        """,
        """
        CREATE TABLE people_links (
            kind {text} NOT NULL,
            name {text} NOT NULL,
            id {text} NOT NULL,
            digest {bytes} NOT NULL,
            born {integer} NOT NULL,
            expires {integer} NOT NULL,
            PRIMARY KEY (kind, name)
        ) {end}
        """,
        """
        CREATE TABLE people_tries (
            lane {text} PRIMARY KEY,
            failures {integer} NOT NULL,
            latest {integer} NOT NULL,
            until {integer} NOT NULL
        ) {end}
        """,
        "CREATE TABLE people_origins (origin {text} PRIMARY KEY, until {integer} NOT NULL) {end}",
        """
        CREATE TABLE people_jobs (
            id {text} PRIMARY KEY,
            analyst {text} NOT NULL,
            request {text} NOT NULL,
            created {integer} NOT NULL,
            state {text} NOT NULL,
            outcome {text} NOT NULL,
            worker {text} NOT NULL,
            lease {integer},
            finished {integer}
        ) {end}
        """,
        "CREATE INDEX people_jobs_open ON people_jobs (state, created)",
    ),
    # How many workers have taken a job.
    ("ALTER TABLE people_jobs ADD COLUMN tries {integer} NOT NULL DEFAULT 0",),
)


def bring_up_to_date(run: Run, words: Mapping[str, str], migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Make the tables or change them to the newest version, in a transaction that no other process shares."""
    run("CREATE TABLE IF NOT EXISTS people_version (version {integer} NOT NULL) {end}".format_map(words), ())
    rows = run("SELECT version FROM people_version", ())
    version = rows[0][0] if rows else 0
    if version > len(migrations):
        raise LedgerError(
            f"the tables of people have version {version} and this Tacit knows {len(migrations)}; use a newer one"
        )
    if version == len(migrations):
        return
    for statements in migrations[version:]:
        for statement in statements:
            run(statement.format_map(words), ())
    run("DELETE FROM people_version", ())
    run("INSERT INTO people_version VALUES (?)", (len(migrations),))
