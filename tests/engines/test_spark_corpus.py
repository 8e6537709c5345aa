"""One behaviour: Spark gives the integers of DuckDB, keys in the same order, and refuses the same.

Statements run once, two at a time. Of the corpora those queries run that need of Spark what no other one does
(``engines/forms_of_spark.py``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines import clinic, slow_engine
from engines.forms_of_spark import HOSTILE, METHODS, NODES, SMOKE, STRUCTURAL, called, nodes
from engines.makers import MAKERS
from query.corpus.by_value import TIES
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE
from support.engine_comparison import corpus_frames, final_of, plain
from support.spark import spark_engine
from support.spark_comparison import SECRET, compare, measured
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql.relations import has_row_units
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.resolve import resolve

pytestmark = [pytest.mark.spark, pytest.mark.deep]
ROWS = clinic.arrow(clinic.random_rows(3, 40, 120))
#: Methods that no query of two small tables needs; the tests that do are beside them.
ELSEWHERE = {
    "Spark.kept_apart": "test_fragile, marks above unions",
}


def test_structures() -> None:
    assert compare(CATALOG, corpus_frames(DATABASE), STRUCTURAL) > 0.7 * len(STRUCTURAL)


def test_ties_and_nulls_are_settled_as_by_duckdb() -> None:
    assert compare(CATALOG, corpus_frames(DATABASE), TIES) >= len(TIES) - 1


def test_hostile_rows() -> None:
    assert compare(clinic.CATALOG, ROWS, HOSTILE, bias=True) > 0.8 * len(HOSTILE)


def test_every_node_and_every_method_of_spark_is_asked_for() -> None:
    """What is added to the algebra, to the measures or to Spark's dialect needs a query here."""
    there, ran = set(), set()
    for catalog, frames, queries in (
        (clinic.CATALOG, ROWS, HOSTILE),
        (CATALOG, corpus_frames(DATABASE), (*STRUCTURAL, *TIES)),
    ):
        with spark_engine(catalog, frames) as spark:
            for sql in queries:
                final = final_of(sql, catalog)
                there.update(nodes((final.source, final.keys, final.measures)))
                ran |= called(lambda final=final, spark=spark: spark.explain(final))  # type: ignore[misc]
    assert NODES - there == set()
    assert METHODS.keys() - ran - ELSEWHERE.keys() == set()


def test_values_of_public_tables_are_read_as_by_duckdb() -> None:
    tables = tuple(
        replace(table, columns=tuple(replace(column, bounds=None) for column in table.columns))
        if table.public
        else table
        for table in clinic.CATALOG.tables
    )
    catalog, frames = Catalog(tables, clinic.CATALOG.populations), clinic.arrow(clinic.random_rows(3, 4, 10))
    with spark_engine(catalog, frames) as spark, MAKERS["duckdb"](catalog, frames) as duckdb:
        one, two = (PublicSizes(catalog, engine, lambda _: "").now()[1].table("wards") for engine in (spark, duckdb))
    assert one is not None
    assert two is not None
    assert one.size == two.size
    assert set(two.size.domains) == {"ward", "floor", "rate"}  # type: ignore[union-attr]


def test_generated_code_and_the_slow_engine_agree() -> None:
    data = clinic.random_rows(2, 6, 60)
    tables = clinic.canonical(data)
    with spark_engine(clinic.CATALOG, clinic.arrow(data), generated=True) as spark:
        for sql in SMOKE[::2]:
            final = final_of(sql, clinic.CATALOG)
            want = slow_engine.measure(final, tables, SECRET, numbered=has_row_units(final.nodes))
            assert plain(spark.measure(MeasurementTask(final, SECRET))) == want, sql


def test_no_rows() -> None:
    with spark_engine(clinic.CATALOG, clinic.arrow(clinic.random_rows(0, 0, 0))) as spark:
        for sql, found in measured(spark, clinic.CATALOG, SMOKE).items():
            assert not any(np.any(cell) for array in found.raw for cell in array), sql


def test_public_rows_come_sorted() -> None:
    frames = corpus_frames(DATABASE)
    relation = resolve("SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards)", CATALOG).final.source
    other = relation.source.other  # type: ignore[attr-defined]
    with MAKERS["duckdb"](CATALOG, frames) as duckdb, spark_engine(CATALOG, frames) as spark:
        assert spark.rows(other, most=100) == duckdb.rows(other, most=100)
