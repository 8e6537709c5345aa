"""Outer joins that keep public rows: every group of the public table is returned, and such a row counts nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from query.corpus.bounded import BOUNDED, arrow
from query.corpus.clinic import CATALOG
from query.corpus.kept_rows import KEPT, KEPT_REFUSED, LISTED
from query.plain_sql import plain_connection
from support.noiseless import without_noise
from tacit.core.errors import QueryError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.result import finish
from tacit.query.release import together
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve


@pytest.mark.parametrize("name", ["many", "odd"])
def test_answers_without_noise_are_those_of_plain_duckdb(name: str) -> None:
    frames = arrow(BOUNDED[name])
    plain = plain_connection(frames)
    sources = {table: DataSource("frame", None, frame) for table, frame in frames.items()}
    engine = DuckDBEngine(LISTED, sources, Limits(threads=1))
    for sql in KEPT:
        plan = make_plan(sql, LISTED, Request(epsilon="1", account=Account("zcdp", "1e-6")))
        exact = [
            without_noise(part, engine.measure(MeasurementTask(part.final, b"a secret")), every_key=True)
            for part in plan.parts
        ]
        public = [engine.rows(relation, most=1000) for relation in plan.query.reads]
        ours = finish(plan.query, together(plan, exact), confidence="0.95", public=public).values
        # NULL is a key only where it is declared.
        theirs = [row for row in plain.execute(sql).fetchall() if None not in row[:1]]
        assert sorted(map(_plain, ours), key=str) == sorted(map(_plain, theirs), key=str), sql
    engine.close()
    plain.close()


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row whose numbers compare; a sum of nothing is 0."""
    return tuple(cell if isinstance(cell, str) else round(float(cell or 0), 9) for cell in row)


@pytest.mark.parametrize("case", KEPT_REFUSED, ids=range(len(KEPT_REFUSED)))
def test_refusals_are_true_and_the_nearest_query_is_accepted(case: tuple[str, str, str]) -> None:
    sql, words, nearest = case
    with pytest.raises(QueryError, match=words) as caught:
        resolve(sql, LISTED)
    assert caught.value.code == "query.join"
    assert resolve(nearest, LISTED).finals


def test_groups_that_are_not_listed_publicly_are_refused() -> None:
    sql = "SELECT w.ward, COUNT(v.visit_id) AS n FROM wards w LEFT JOIN visits v ON v.ward = w.ward GROUP BY w.ward"
    with pytest.raises(QueryError, match="not listed publicly"):
        resolve(sql, CATALOG)
