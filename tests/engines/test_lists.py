"""Lists of sources, read as texts: their values are asked for and are rows, the same on every engine."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engines.makers import MAKERS
from support.engine_comparison import SECRET, final_of
from support.spark import spark_engine
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER, TEXT

CATALOG = Catalog(
    (
        Table(
            "orders",
            (Column("person", INTEGER), Column("tags", TEXT), Column("codes", TEXT)),
            population="people",
            unit="person",
            max_groups=9,
            max_rows=99,
        ),
    ),
    (Population("people"),),
)
TAGS = [["a", "b"], ["b", None, "", "b"], [], None, ["a b"], ["c\x1fd"], [f"t{i}" for i in range(70)]]
ROWS = pa.table(
    {
        "person": pa.array([1, 1, 2, 3, 4, 5, 6]),
        "tags": pa.array(TAGS, pa.list_(pa.string())),
        "codes": pa.array([[7, -1], [7], None, [], [70], [7, 7], [0]], pa.list_(pa.int64())),
    }
)
#: Rows; a value in the list of a separator is two values, and of a long list the first 64 are rows.
COUNTS = {
    "SELECT COUNT(*) FROM orders WHERE list_contains(tags, 'b')": 2,
    "SELECT COUNT(*) FROM orders WHERE 'a' = ANY(tags)": 1,
    "SELECT COUNT(*) FROM orders WHERE NOT array_contains(tags, 'a')": 5,
    "SELECT COUNT(*) FROM orders WHERE list_contains(tags, '')": 0,
    "SELECT COUNT(*) FROM orders WHERE list_contains(tags, 't69')": 1,
    "SELECT COUNT(*) FROM orders WHERE list_contains(codes, 7)": 3,
    "SELECT COUNT(*) FROM orders, UNNEST(tags) AS t(tag)": 2 + 2 + 1 + 2 + 64,
    "SELECT COUNT(*) FROM orders, UNNEST(tags) AS t(tag) WHERE tag IN ('a', 'b', 'd')": 5,
    "SELECT COUNT(*) FROM (SELECT person, UNNEST(codes) AS code FROM orders) WHERE CAST(code AS INTEGER) < 70": 6,
}


@pytest.mark.parametrize("engine", list(MAKERS))
def test_lists(engine: str) -> None:
    with MAKERS[engine](CATALOG, {"orders": ROWS}) as made:
        assert _counted(made) == COUNTS


@pytest.mark.deep
@pytest.mark.spark
def test_lists_of_spark() -> None:
    with spark_engine(CATALOG, {"orders": ROWS}) as made:
        assert _counted(made) == COUNTS


def _counted(engine: Engine) -> dict[str, int]:
    work = {sql: MeasurementTask(final_of(sql, CATALOG), SECRET) for sql in COUNTS}
    return {sql: int(engine.measure(task).raw[0].sum()) for sql, task in work.items()}
