"""A constant of a query is the same text on every engine, whatever it holds: in joins, conditions, keys and functions."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from engines.makers import MAKERS
from query.corpus.hostile_texts import HOSTILE_TEXTS, quoted
from support.engine_comparison import SECRET, final_of
from support.spark import spark_engine
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER, TEXT

_CATALOG = Catalog(
    (
        Table(
            "v", (Column("p", INTEGER), Column("note", TEXT)), population="people", unit="p", max_groups=1, max_rows=1
        ),
        Table("w", (Column("k", TEXT),), public=True),
    ),
    (Population("people"),),
)
_FRAMES = {
    "v": pa.table({"p": pa.array(range(len(HOSTILE_TEXTS)), pa.int64()), "note": list(HOSTILE_TEXTS)}),
    "w": pa.table({"k": ["nobody's"]}),
}
#: Each holds for everybody, whose note is one of the constants.
_RELATIONS = (
    "SELECT COUNT(*) FROM v a JOIN v b ON a.p = b.p AND ({})",
    "SELECT COUNT(a.note) FROM v b LEFT JOIN v a ON a.p = b.p AND ({})",
    "SELECT COUNT(*) FROM v a JOIN w ON {} OR a.note = w.k",
    "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM v a WHERE a.p = v.p AND ({}))",
    "SELECT COUNT(*) FROM v WHERE p IN (SELECT p FROM v a WHERE {})",
)
#: Conditions of one row that hold for the same person alone.
_CONDITIONS = (
    "note = {}",
    "note IN ({}, 'nobody''s')",
    "CASE WHEN note = {} THEN 1 ELSE 0 END = 1",
    "CONCAT(note, {0}) = CONCAT({0}, {0})",
    "REPLACE(CONCAT('nobody', note), {}, '') = 'nobody'",
    "STRPOS(note, {0}) = 1 AND LENGTH(note) = LENGTH({0})",
)


@pytest.fixture(scope="module", params=[*MAKERS, pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    make = {**MAKERS, "spark": spark_engine}[request.param]
    with make(_CATALOG, _FRAMES) as made:
        yield made


def cells(engine: Engine, sql: str) -> list[int]:
    found = engine.measure(MeasurementTask(final_of(sql, _CATALOG), SECRET))
    return [int(array.sum()) for array in found.raw]


@pytest.mark.parametrize("form", _RELATIONS)
def test_a_relation(engine: Engine, form: str) -> None:
    condition = " OR ".join(f"a.note = {quoted(text)}" for text in HOSTILE_TEXTS)
    assert cells(engine, form.format(condition)) == [len(HOSTILE_TEXTS)]


@pytest.mark.parametrize("form", _CONDITIONS)
def test_a_condition(engine: Engine, form: str) -> None:
    listed = ", ".join(f"COUNT(*) FILTER (WHERE {form.format(quoted(text))})" for text in HOSTILE_TEXTS)
    assert cells(engine, f"SELECT {listed} FROM v") == [1] * len(HOSTILE_TEXTS)


def test_a_key(engine: Engine) -> None:
    arms = " ".join(f"WHEN note = {quoted(text)} THEN {quoted(text + text)}" for text in HOSTILE_TEXTS)
    found = engine.measure(
        MeasurementTask(final_of(f"SELECT CASE {arms} END AS k, COUNT(*) FROM v GROUP BY k", _CATALOG), SECRET)
    )
    assert sorted(key for (key,) in found.keys if key) == sorted(text + text for text in HOSTILE_TEXTS)


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "DATE", "TIMESTAMP", "DECIMAL(9,2)"])
def test_a_cast_in_a_join(engine: Engine, kind: str) -> None:
    """Patterns that casts of texts are checked with hold braces of their own."""
    sql = f"SELECT COUNT(*) FROM v a JOIN v b ON a.p = b.p AND CAST(a.note AS {kind}) IS NULL"
    assert cells(engine, sql) == [len(HOSTILE_TEXTS)]
