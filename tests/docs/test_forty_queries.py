"""Sixty queries of the tutorial: answered as plain DuckDB does where noise vanishes, and with intervals at ε = 1."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

import tacit

ROOT = Path(__file__).parents[2]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("forty_queries", ROOT / "docs" / "forty_queries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


FORTY = loaded()
#: So much budget that the noise of a count is 0 with probability above 1 - e^-100.
PLENTY = {'epsilon = "20"': 'epsilon = "10000000"', 'delta = "1e-6"': 'delta = "0.9"'}


@pytest.fixture(scope="module", params=FORTY.SCHEMAS, ids=lambda schema: schema.name)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any, Any]]:
    schema = request.param
    folder = tmp_path_factory.mktemp(schema.name)
    project = schema.project
    for stated, plenty in PLENTY.items():
        assert stated in project
        project = project.replace(stated, plenty)
    curator = tacit.open(FORTY.write_project(schema, folder, project))
    plain = duckdb.connect()
    plain.execute("CREATE MACRO clamp(x, low, high) AS least(greatest(x, low), high)")
    plain.execute(
        "CREATE MACRO width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 "
        "ELSE CAST(floor((x - low) * n / (high - low)) AS INTEGER) + 1 END"
    )
    for table in schema.tables():
        plain.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder / table}.parquet'")
    yield schema, curator, plain
    plain.close()
    curator.close()


def is_close(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) or isinstance(theirs, float):
        return math.isclose(float(ours), float(theirs), rel_tol=2e-3, abs_tol=2e-3)
    # Sums of money still move by a few units.
    both_whole = isinstance(ours, int) and isinstance(theirs, int) and not isinstance(ours, bool)
    return math.isclose(ours, theirs, rel_tol=1e-4) if both_whole and abs(theirs) > 20_000 else bool(ours == theirs)


def in_order(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    return sorted(rows, key=lambda row: [str(cell) for cell in row if not isinstance(cell, float)])


#: Queries of a later walk, of forms that the tutorial does not have: the schema, then the query.
WALKED = (ROOT / "tests" / "query" / "corpus" / "walked.sql").read_text(encoding="utf-8").splitlines()


def rows_of(curator: Any, sql: str) -> list[Sequence[Any]]:
    answer = curator.sql(sql, epsilon="100000", delta="0.001", bias_share=0)
    return in_order([tuple(row.values()) for row in answer.to_arrow().to_pylist()])


def are_alike(ours: list[Sequence[Any]], theirs: list[Sequence[Any]]) -> bool:
    return len(ours) == len(theirs) and all(
        is_close(a, b) for mine, its in zip(ours, theirs, strict=True) for a, b in zip(mine, its, strict=True)
    )


def test_queries_of_a_later_walk(asked: tuple[Any, Any, Any]) -> None:
    schema, curator, plain = asked
    for sql in (line.removeprefix(f"{schema.name}: ") for line in WALKED if line.startswith(schema.name)):
        # Groups without rows are released as well, with a count of 0.
        ours = [row for row in rows_of(curator, sql) if len(row) == 1 or row[-1] != 0]
        theirs = in_order(plain.execute(sql).fetchall())
        assert are_alike(ours, theirs), (sql, ours[:4], theirs[:4])


def test_answers_are_those_of_plain_sql(asked: tuple[Any, Any, Any]) -> None:
    schema, curator, plain = asked
    assert len(schema.queries) == 20
    faults = []
    for query in schema.queries:
        ours, theirs = rows_of(curator, query.sql), in_order(plain.execute(query.sql).fetchall())
        if not are_alike(ours, theirs):
            faults.append(f"{query.words}\n  ours   {ours[:4]}\n  theirs {theirs[:4]}")
    assert not faults, "\n".join(faults)


def test_every_query_has_a_price_and_an_expected_error(asked: tuple[Any, Any, Any]) -> None:
    schema, curator, _ = asked
    for query in schema.queries:
        quote = curator.explain(query.sql, epsilon="1")
        assert str(quote)
