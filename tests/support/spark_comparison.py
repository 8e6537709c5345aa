"""Spark beside DuckDB: many queries at once, every different statement once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from engines.makers import MAKERS
from support.engine_comparison import SECRET, final_of, refusal, shown
from support.spark import spark_engine
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.engines.spark import SparkEngine
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.engine import SparkWriter
from tacit.engines.sql.engine import Answered, read_measurements, with_cells
from tacit.engines.sql.statements import Statement
from tacit.query.catalog import Catalog
from tacit.query.planning.bias import bias_table
from tacit.query.query import FinalAggregation


def _statements(engine: SparkEngine, final: FinalAggregation, bias: bool) -> tuple[Statement, ...]:
    table = bias_table(final) if bias else None
    return SparkWriter.of(SPARK, final, engine._tables, SECRET, table).statements()


def measured(
    engine: SparkEngine, catalog: Catalog, queries: Iterable[str], *, bias: bool = False
) -> dict[str, Measurements]:
    """Measurements of Spark, by query; every different statement runs once.

    With ``bias``, statements that can count what bounding leaves out as well.
    """
    finals = {sql: final_of(sql, catalog) for sql in queries}
    tables = {sql: bias_table(final) if bias else None for sql, final in finals.items()}
    planned = {sql: _statements(engine, final, bias) for sql, final in finals.items()}
    texts = list(dict.fromkeys(part.sql for parts in planned.values() for part in parts))

    def run(text: str) -> list[Any]:
        with engine._session(finals[next(iter(finals))].source, None) as (jobs, _):
            return jobs.rows(text)

    with ThreadPoolExecutor(2) as pool:
        rows = dict(zip(texts, pool.map(run, texts), strict=True))
    found = {}
    for sql, final in finals.items():
        table, answered = tables[sql], [Answered(part, rows[part.sql]) for part in planned[sql]]
        if table is not None:
            answered = [with_cells(each, final, table) for each in answered]
        cells = next((np.array(each.bias) for each in answered if each.bias is not None), None)
        found[sql] = replace(read_measurements(final, answered), raw_bias=cells)
    return found


def compare(catalog: Catalog, frames: Mapping[str, pa.Table], queries: Iterable[str], *, bias: bool = False) -> int:
    """Compare both on all queries; the number of those with a measure that is not zero throughout.

    With ``bias``, also the units by what bounding left out of them, where one statement counts both.
    """
    told = 0
    with MAKERS["duckdb"](catalog, frames) as duckdb, spark_engine(catalog, frames) as spark:
        asked = []
        for sql in queries:
            final = final_of(sql, catalog)
            refused = refusal(duckdb, final)
            assert refused == refusal(spark, final), sql
            asked += [] if refused else [sql]
        found = measured(spark, catalog, asked, bias=bias)
        for sql in asked:
            final, cells = final_of(sql, catalog), found[sql].raw_bias
            want = duckdb.measure(MeasurementTask(final, SECRET, bias=None if cells is None else bias_table(final)))
            assert shown(found[sql]) == shown(want), sql
            if cells is not None and want.raw_bias is not None:
                assert cells.tolist() == want.raw_bias.tolist(), sql
            told += any(np.any(cell) for array in want.raw for cell in array)
        for sql in asked[::40]:
            # The engine does by itself what was done here by hand.
            assert shown(spark.measure(MeasurementTask(final_of(sql, catalog), SECRET))) == shown(found[sql]), sql
    return told
