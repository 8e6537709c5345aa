"""Queries about public tables alone: what plain DuckDB answers, and what is refused of them all the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from engines.makers import MAKERS, OTHERS
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE
from query.corpus.public import ORDERED, PUBLIC
from query.plain_sql import plain_connection
from support.engine_comparison import corpus_frames
from tacit.engines.protocol import Engine
from tacit.query.query import PublicQuery
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import is_public_throughout
from tacit.query.resolve import resolve, resolve_any

FRAMES = corpus_frames(DATABASE)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with MAKERS["duckdb"](CATALOG, FRAMES) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> duckdb.DuckDBPyConnection:
    return plain_connection(FRAMES)


def rows_of(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    query = resolve_any(sql, CATALOG)
    assert isinstance(query, PublicQuery)
    return [row[query.placed :] for row in engine.rows(query.relation, most=1000)]


def _number(value: Any) -> Any:
    """Numbers alike, whatever their type; days as times, which DuckDB makes of them when it adds to them."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return round(float(value), 9) if isinstance(value, (int, float, Fraction)) or hasattr(value, "is_nan") else value


def _comparable(rows: list[tuple[Any, ...]], *, ordered: bool) -> list[tuple[Any, ...]]:
    found = [tuple(map(_number, row)) for row in rows]
    return found if ordered else sorted(found, key=repr)


@pytest.mark.parametrize("sql", PUBLIC)
def test_the_rows_are_those_of_plain_duckdb(engine: Engine, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    want = plain.execute(sql).fetchall()
    ordered = sql in ORDERED
    assert _comparable(rows_of(engine, sql), ordered=ordered) == _comparable(want, ordered=ordered)


@pytest.mark.parametrize("sql", PUBLIC[::4])
def test_a_public_query_is_a_value_of_public_relations(sql: str) -> None:
    query = resolve_any(sql, CATALOG)
    assert isinstance(query, PublicQuery)
    assert query == resolve_any(sql, CATALOG)
    assert is_public_throughout(query.relation)
    assert not any(column.noisy for column in query.columns)
    with pytest.raises(Refusal) as refused:
        resolve(sql, CATALOG)
    assert refused.value.code == "query.public_only"


@pytest.mark.parametrize("other", OTHERS)
def test_every_engine_has_the_same_rows(engine: Engine, other: str) -> None:
    with MAKERS[other](CATALOG, FRAMES) as second:
        for sql in PUBLIC:
            assert rows_of(second, sql) == rows_of(engine, sql), sql


#: Refused of public tables as of protected ones: nothing depends on a clock, a seed or an order of rows.
REFUSED = (
    ("volatile", "SELECT NOW()"),
    ("volatile", "SELECT ward, RANDOM() FROM wards"),
    ("volatile", "SELECT COUNT(*) FROM wards WHERE CURRENT_DATE > DATE '2024-01-01'"),
    ("sample", "SELECT * FROM wards USING SAMPLE 10%"),
    ("unknown_table", "SELECT * FROM read_csv('/etc/passwd')"),
    ("unknown_table", "SELECT * FROM pg_catalog.pg_class"),
    ("unknown_column", "SELECT street FROM wards"),
    ("distinct", "SELECT DISTINCT ward FROM wards ORDER BY beds"),
    ("position", "SELECT ward FROM wards ORDER BY 3"),
    ("set_operation", "SELECT ward FROM wards EXCEPT ALL SELECT 'surgery'"),
    ("recursion", "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t"),
    ("interval", "SELECT DP_INTERVAL_LOW(beds) FROM wards"),
    ("subquery", "SELECT ward FROM wards WHERE ward IN (SELECT ward FROM visits)"),
    ("subquery", "SELECT ward FROM wards w WHERE EXISTS (SELECT 1 FROM visits v WHERE v.ward = w.ward)"),
    ("work", "SELECT COUNT(*) FROM " + ", ".join(f"GENERATE_SERIES(1, 1000) t{i}(n{i})" for i in range(4))),
)


@pytest.mark.parametrize(("reason", "sql"), REFUSED)
def test_what_is_refused(reason: str, sql: str) -> None:
    with pytest.raises(Refusal) as refused:
        resolve_any(sql, CATALOG)
    assert refused.value.reason == reason, refused.value.sentence
