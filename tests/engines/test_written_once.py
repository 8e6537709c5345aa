"""Statements are written when a query is checked, without the secret, and not again when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from engines import clinic
from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG as CORPUS
from support.engine_comparison import final_of
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.engine import DuckDBWriter
from tacit.engines.duckdb.sources import DuckDBTable
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.postgres.engine import PostgresWriter
from tacit.engines.protocol import MeasurementTask
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.engine import SparkWriter
from tacit.engines.sql import Dialect, Statement, StoredTable
from tacit.engines.sql import engine as sql_engine
from tacit.engines.sql.engine import SqlEngine
from tacit.engines.sql.statements import Writer
from tacit.query.catalog import Catalog
from tacit.query.relational.algebra import RelationNode
from tacit.query.resolve import resolve

SECRET = b"a secret of the data set"
WRITERS: dict[str, tuple[type[Writer], Dialect, type[StoredTable]]] = {
    "duckdb": (DuckDBWriter, DUCKDB, DuckDBTable),
    "postgres": (PostgresWriter, POSTGRES, StoredTable),
    "spark": (SparkWriter, SPARK, StoredTable),
}


def tables(catalog: Catalog, kind: type[StoredTable] = StoredTable) -> dict[str, StoredTable]:
    return {
        table.name.lower(): kind(i, f"scan{i}", {c.name.lower(): c.name for c in table.columns}, "place", 30 * 2**20)
        for i, table in enumerate(catalog.tables)
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_secret_that_comes_later_gives_the_same_text(name: str) -> None:
    writer, d, kind = WRITERS[name]
    for catalog, queries in ((CORPUS, list(ACCEPTED)[::4]), (clinic.CATALOG, clinic.QUERIES)):
        stored = tables(catalog, kind)
        for sql in queries:
            final = final_of(sql, catalog)
            want = [statement.sql for statement in writer.of(d, final, stored, SECRET).statements()]
            later = [statement.keyed(SECRET) for statement in writer.of(d, final, stored, None).statements()]
            assert [statement.sql for statement in later] == want, sql
            assert not any("\0" in text for text in want), sql


class Session:
    def __init__(self) -> None:
        self.ran: list[str] = []

    def rows(self, sql: str) -> list[Any]:
        self.ran.append(sql)
        return []

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[Any]:
        raise NotImplementedError

    def interrupt(self) -> None:
        pass


class CountingWriter(PostgresWriter):
    written = 0

    def statements(self) -> tuple[Statement, ...]:
        CountingWriter.written += 1
        return super().statements()


class Counting(SqlEngine):
    """An engine without a database."""

    dialect = POSTGRES
    writer = CountingWriter

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog, None)
        self.stored, self.session = tables(catalog), Session()
        CountingWriter.written = 0

    @property
    def _tables(self) -> Mapping[str, StoredTable]:
        return self.stored

    @contextmanager
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> Iterator[tuple[Session, Mapping[str, StoredTable]]]:
        yield self.session, self.stored

    def close(self) -> None:
        pass


def test_a_query_is_written_once() -> None:
    engine, final = Counting(CORPUS), resolve(next(iter(ACCEPTED)), CORPUS).final
    engine.check(final)
    for secret in (b"one", b"two"):
        engine.session.ran.clear()
        engine.measure(MeasurementTask(final, secret))
        want = [statement.sql for statement in PostgresWriter.of(POSTGRES, final, engine.stored, secret).statements()]
        assert engine.session.ran == want
    assert CountingWriter.written == 1


def test_tables_that_were_opened_anew_are_written_anew() -> None:
    engine, final = Counting(CORPUS), resolve(next(iter(ACCEPTED)), CORPUS).final
    engine.check(final)
    engine.stored = tables(CORPUS)
    engine.measure(MeasurementTask(final, SECRET))
    assert CountingWriter.written == 2


def test_few_queries_and_short_statements_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Counting(CORPUS)
    finals = [resolve(next(iter(ACCEPTED)), CORPUS).final for _ in range(sql_engine._MOST_CHECKED + 5)]
    for final in finals:
        engine.check(final)
    assert len(engine._checked._known) == sql_engine._MOST_CHECKED
    engine.measure(MeasurementTask(finals[0], SECRET))
    assert CountingWriter.written == len(finals) + 1, "the oldest was forgotten, and is checked again"
    monkeypatch.setattr(sql_engine, "_MOST_CHARACTERS", 10)
    engine.check(finals[1])
    assert engine._checked.written(finals[1], engine.stored) == ()
