"""Databases of every kind: transactions, tables, errors and connections behave the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from support.postgres import address
from tacit.ledger import sqlite
from tacit.ledger.database import Database, Run, Schema
from tacit.ledger.errors import StorageError, StoreBusy
from tacit.ledger.postgres import PostgresDatabase
from tacit.ledger.sqlite import MemoryDatabase, SqliteDatabase, connect_to

THINGS = "CREATE TABLE things (name {text} PRIMARY KEY, size {integer})"
WORDS = {"text": "TEXT", "integer": "INTEGER"}


def schema(*statements: str) -> Schema:
    version = "CREATE TABLE IF NOT EXISTS things_version (version {integer} NOT NULL)"
    return Schema("the things have", statements, "things_version", version, WORDS, lock=7)


def in_sqlite(folder: Path) -> SqliteDatabase:
    return SqliteDatabase(folder / "things", what="the things")


def in_memory(_: Path) -> MemoryDatabase:
    return MemoryDatabase("the things")


def in_postgres(_: Path) -> PostgresDatabase:
    where = address()
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA tacit_ledger")
    # One connection: if one was ever lost or left in a transaction, the next statement would wait or fail.
    return PostgresDatabase(where, what="the things", settings=("lock_timeout=50ms",), most=1)


@pytest.fixture(params=[in_sqlite, in_memory, in_postgres], ids=lambda make: make.__name__)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    make: Callable[[Path], Database] = request.param
    opened = make(tmp_path)
    yield opened
    opened.close()


def names(database: Database) -> list[str]:
    return [row[0] for row in database.read("SELECT name FROM things ORDER BY name")]


def fail(database: Database, how: Callable[[Run], object]) -> None:
    """Write something, and raise in the same block."""
    with database.write() as run:
        run("INSERT INTO things VALUES (?, 1)", ("a",))
        how(run)


def test_a_block_is_kept_whole_or_not_at_all(database: Database) -> None:
    database.prepare(schema(THINGS))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fail(database, lambda run: 1 // 0)
        with pytest.raises(StorageError):
            fail(database, lambda run: run("SELECT nonsense", ()))
        assert names(database) == []
    with database.write() as run:
        assert run("INSERT INTO things VALUES (?, 1) RETURNING name", ("a'?%s",)) == [("a'?%s",)]
    assert names(database) == ["a'?%s"]
    assert database.read("SELECT name FROM things WHERE name = ?", ("b",)) == []


def test_tables_are_made_once_and_whole(database: Database) -> None:
    with pytest.raises(StorageError, match="nonsense"):
        database.prepare(schema(THINGS, "SELECT nonsense"))
    with pytest.raises(StorageError):
        database.read("SELECT * FROM things")
    for _ in range(2):
        database.prepare(schema(THINGS, "INSERT INTO things VALUES ('new', 1)"))
    assert database.read("SELECT name, size FROM things") == [("new", 1)]
    assert database.read("SELECT version FROM things_version") == [(1,)]


@pytest.mark.parametrize("version", [-1, 2])
def test_tables_of_another_version_are_refused(database: Database, version: int) -> None:
    database.prepare(schema(THINGS))
    with database.write() as run:
        run("UPDATE things_version SET version = ?", (version,))
    with pytest.raises(StorageError, match=f"the things have version {version} and this Tacit reads version 1 alone"):
        database.prepare(schema(THINGS))
    assert names(database) == []


def test_a_failure_names_the_database_and_the_next_statement_works(database: Database) -> None:
    for _ in range(3):
        with pytest.raises(StorageError, match=r"^the things.*nonsense"):
            database.read("SELECT nonsense")
    assert database.read("SELECT 1") == [(1,)]


def test_a_file_that_is_held_is_busy_and_nothing_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.05)
    database = in_sqlite(tmp_path)
    database.prepare(schema(THINGS))
    other = connect_to(tmp_path / "things")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy), database.write() as run:
        run("INSERT INTO things VALUES ('a', 1)", ())
    other.execute("ROLLBACK")
    other.close()
    with database.write() as run:
        run("INSERT INTO things VALUES ('b', 1)", ())
    assert names(database) == ["b"]
    database.close()


def test_a_row_that_is_held_is_busy_and_nothing_was_written(tmp_path: Path) -> None:
    database = in_postgres(tmp_path)
    database.prepare(schema(THINGS, "INSERT INTO things VALUES ('new', 1)"))
    change = "UPDATE things SET size = 2"
    with psycopg.connect(database._address) as other:
        other.execute("UPDATE tacit_ledger.things SET size = 3")
        with pytest.raises(StoreBusy), database.write() as run:
            run(change, ())
        other.rollback()
    assert database.read("SELECT size FROM things") == [(1,)]
    with database.write() as run:
        run(change, ())
    assert database.read("SELECT size FROM things") == [(2,)]
    database.close()


@pytest.mark.parametrize("make", [in_sqlite, in_postgres])
def test_a_child_is_refused(make: Callable[[Path], Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        with pytest.raises(StorageError, match="the things was opened before a fork"):
            database.read("SELECT 1")
        with pytest.raises(StorageError, match="before a fork"), database.write():
            pass
    database.close()


def test_a_file_that_was_moved_away_or_replaced_is_noticed(tmp_path: Path) -> None:
    database = in_sqlite(tmp_path)
    database.prepare(schema(THINGS))
    place, away = tmp_path / "things", tmp_path / "elsewhere"
    place.rename(away)
    for _ in range(2):
        with pytest.raises(StorageError, match="was moved away from"):
            names(database)
        with pytest.raises(StorageError, match="was moved away from"), database.write() as run:
            run("INSERT INTO things VALUES (?, 1)", ("a",))
        place.write_bytes(away.read_bytes())
    place.unlink()
    away.rename(place)
    assert names(database) == []
    database.close()
