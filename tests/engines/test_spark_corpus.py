"""One behaviour: Spark gives the integers of DuckDB, keys in the same order, and refuses the same.

Statements run once, two at a time; questions that come to the same statements share what they found. Of the corpora
those run that have a form which no other has (``support/spark_comparison.py``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines import clinic, slow_engine
from engines.makers import MAKERS
from sql.corpus.accepted import ACCEPTED
from sql.corpus.by_value import BY_VALUE, STRUCTURES, TIES
from sql.corpus.clinic import CATALOG
from sql.corpus.data import DATABASE, without
from support.engine_comparison import check_close, corpus_frames, final_of, plain, refusal, shown
from support.spark import spark_engine
from support.spark_comparison import SECRET, compare, covering, forms_of, measured
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql.relations import has_row_units
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.resolve import resolve

pytestmark = pytest.mark.spark
#: Questions that Spark does not answer, and why: nothing of the corpora.
NOT_DONE: dict[str, str] = {}


HOSTILE = clinic.arrow(clinic.random_rows(3, 40, 120))


def read_of_hostile_rows() -> set[tuple[str, ...]]:
    """Forms of the statements of :func:`test_hostile_rows`."""
    catalog = clinic.CATALOG
    with spark_engine(catalog, HOSTILE) as spark:
        asked = [sql for sql in clinic.QUESTIONS if refusal(spark, final_of(sql, catalog)) is None]
        chosen = covering(spark, catalog, asked, left_out=True)
        return {form for sql in chosen for form in forms_of(spark, final_of(sql, catalog), left_out=True)}


def test_corpus_of_accepted_questions() -> None:
    """Forms of SQL that are read neither of hostile rows nor of ties."""
    frames = corpus_frames(DATABASE)
    questions = tuple(sql for sql in (*ACCEPTED, *BY_VALUE, *STRUCTURES) if sql not in NOT_DONE)
    assert len(questions) > 700
    with spark_engine(CATALOG, frames) as spark:
        ties = {form for sql in TIES for form in forms_of(spark, final_of(sql, CATALOG))}
    assert compare(CATALOG, frames, questions, some=True, read=ties | read_of_hostile_rows()) > 110


def test_ties_and_nulls_are_settled_as_by_duckdb() -> None:
    assert compare(CATALOG, corpus_frames(DATABASE), TIES) >= len(TIES) - 1


def test_hostile_rows() -> None:
    assert compare(clinic.CATALOG, HOSTILE, tuple(clinic.QUESTIONS), some=True, left_out=True) > 30


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
        for sql in clinic.QUESTIONS[::8]:
            final = final_of(sql, clinic.CATALOG)
            want = slow_engine.measure(final, tables, SECRET, numbered=has_row_units(final.source))
            assert plain(spark.measure(MeasurementTask(final, SECRET))) == want, sql


def test_looking_ahead_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """For much data rows that a unit certainly drops are dropped before they travel."""
    data = clinic.random_rows(9, 4, 400)
    questions = [sql for sql in clinic.QUESTIONS if "FROM members" in sql]
    with spark_engine(clinic.CATALOG, clinic.arrow(data)) as spark:
        little = measured(spark, clinic.CATALOG, questions)
        monkeypatch.setattr("tacit.engines.spark.engine._LARGE", 0)
        finals = [final_of(sql, clinic.CATALOG) for sql in questions]
        assert sum("BROADCAST" in text for final in finals for text in spark.explain(final)) >= 2
        much = measured(spark, clinic.CATALOG, questions)
        monkeypatch.setattr("tacit.engines.spark.engine._MOST_UNITS", 1)
        some = measured(spark, clinic.CATALOG, questions)
    for sql in questions:
        assert shown(much[sql]) == shown(some[sql]) == shown(little[sql]), sql


def test_no_rows() -> None:
    with spark_engine(clinic.CATALOG, clinic.arrow(clinic.random_rows(0, 0, 0))) as spark:
        for sql, found in measured(spark, clinic.CATALOG, clinic.QUESTIONS[::4]).items():
            assert not any(np.any(cell) for array in found.raw for cell in array), sql


def test_neighbours() -> None:
    """Without one unit nothing moves further than its sensitivity."""
    questions = [sql for sql in ACCEPTED[::48] if final_of(sql, CATALOG).population == "patients"]
    with (
        spark_engine(CATALOG, corpus_frames(DATABASE)) as one,
        spark_engine(CATALOG, corpus_frames(without("patients", 1))) as two,
    ):
        before, after = (measured(each, CATALOG, questions, left_out=True) for each in (one, two))
    moved = [
        check_close(final_of(sql, CATALOG), before[sql], after[sql], sql) for sql in questions
    ]  # fmt: skip
    assert sum(moved) > len(questions) // 3
    pairs = ((before[sql].raw_left_out, after[sql].raw_left_out) for sql in questions)
    gaps = [int(np.abs(one - two).sum()) for one, two in pairs if one is not None and two is not None]
    # A person who is gone is in one cell.
    assert max(gaps) == 1
    assert sum(gaps) > len(questions) // 3


def test_public_rows_come_sorted() -> None:
    frames = corpus_frames(DATABASE)
    relation = resolve("SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards)", CATALOG).final.source
    other = relation.source.other  # type: ignore[attr-defined]
    with MAKERS["duckdb"](CATALOG, frames) as duckdb, spark_engine(CATALOG, frames) as spark:
        assert spark.rows(other, most=100) == duckdb.rows(other, most=100)
