"""Rewrite rules keep the meaning of a query and bring equal ones to one form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE
from query.interpreter import rows_of
from support.each import check_each
from tacit.query.parsing.parse import parse
from tacit.query.query import Query
from tacit.query.relational.algebra import Scan
from tacit.query.relational.functions import evaluate
from tacit.query.resolve import resolve
from tacit.query.resolve.statements import Queries
from tacit.query.rules import RULES, apply_rules, count_rows, order_keys

_FIXTURES = Path(__file__).parent / "fixtures"


def _pairs(name: str) -> list[tuple[str, str]]:
    lines = [line for line in (_FIXTURES / name).read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
    blocks = [block.split("\n") for block in "\n".join(lines).strip().split("\n\n")]
    return [(first, second) for first, second in blocks]


@pytest.mark.parametrize(("first", "second"), _pairs("same.sql"))
def test_queries_that_mean_the_same_are_the_same(first: str, second: str) -> None:
    one, other = resolve(first, CATALOG), resolve(second, CATALOG)
    assert one.text == other.text
    assert one.digest == other.digest
    assert one.final == other.final


@pytest.mark.parametrize(("first", "second"), _pairs("different.sql"))
def test_queries_that_differ_stay_different(first: str, second: str) -> None:
    one, other = resolve(first, CATALOG), resolve(second, CATALOG)
    assert one.digest != other.digest
    assert one != other


def _raw(sql: str) -> Query:
    parsed = parse(sql)
    released = Queries(CATALOG, parsed.options).outermost(parsed.tree)
    return Query(released.final, released.steps, released.columns, parsed.options)


def _measured(query: Query) -> Counter[Any]:
    """Columns that the aggregation reads: its unit, keys, and the argument and filter of every aggregate."""
    final = query.final
    assert final.source.unit is not None
    found: Counter[Any] = Counter()
    for row in rows_of(final.source, DATABASE):
        cells: list[object] = [row[final.source.unit]]
        cells += [evaluate(key.expression, row) for key in final.keys]
        for aggregate in final.aggregates:
            measure = final.measures[aggregate.measures[-1]]
            cells.append(None if measure.argument is None else evaluate(measure.argument, row))
            cells.append(None if measure.where is None else evaluate(measure.where, row))
        found[tuple(cells)] += 1
    return found


def test_no_rule_changes_what_is_measured() -> None:
    def check(sql: str) -> None:
        query = _raw(sql)
        # Counts of values that are never NULL become counts of rows, which read no argument, and keys change their
        # order; both rules have fixtures of their own.
        for rule in (each for each in RULES if each not in (count_rows, order_keys)):
            changed = rule(query)
            assert _measured(changed) == _measured(query)
            assert [m.clamp for m in changed.final.measures] == [m.clamp for m in query.final.measures]
            query = changed

    check_each(ACCEPTED[1::3], check)


def test_a_query_in_normal_form_stays_as_it_is() -> None:
    def check(sql: str) -> None:
        query = resolve(sql, CATALOG)
        assert apply_rules(query) == query

    check_each(ACCEPTED[2::3], check)


def test_a_scan_reads_what_the_query_needs() -> None:
    source = resolve("SELECT ward, SUM(cost) FROM (SELECT * FROM visits) GROUP BY ward", CATALOG).final.source
    assert isinstance(source, Scan)
    assert source.columns == ("patient_id", "ward", "cost")
