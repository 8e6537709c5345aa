"""Released numbers as text: read back exactly, in one spelling, and only under the plan they were made by."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.toy_engine import ToyEngine
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import InternalError
from tacit.engines.protocol import MeasurementTask
from tacit.query.aggregates.ranks import NoisyTree
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.result import finish
from tacit.query.release import NoisyRelease, release
from tacit.query.request import Account, Request
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, decimal
from tacit.releases.release_format import manifest, released_from_text, released_to_text

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123456)
CATALOG = Catalog(
    (
        Table(
            "t",
            (
                Column("id", INTEGER),
                Column("b", BOOLEAN),
                Column("i", INTEGER, bounds=(-(2**61), 2**61)),
                Column("d", decimal(2), bounds=(Fraction(0), Fraction(100))),
                Column("f", DOUBLE, bounds=(0.0, 1.0)),
                Column("s", TEXT),
                Column("day", DATE),
                Column("noon", TIMESTAMP),
                Column("ward", TEXT, categories=("a", "b", None)),
            ),
            population="people",
            unit="id",
        ),
    ),
    (Population("people"),),
)
ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "b": n % 2 == 0,
        "i": 2**60 if n % 2 else -(2**60),
        "d": Fraction(n % 50, 100) + 1,
        "f": 0.1 * (n % 3),
        "s": "naïve \u2028 \"quoted\" 'text'" if n % 2 else None,
        "day": DAY if n % 2 else None,
        "noon": NOON,
        "ward": "a" if n % 3 else None,
    }
    for n in range(400)
]
QUERIES = [
    "SELECT COUNT(*) AS n FROM t",
    "SELECT ward, COUNT(*) AS n, SUM(d) AS s, AVG(d) AS m FROM t GROUP BY ward",
    "SELECT ward, MEDIAN(d) AS m, VAR_SAMP(f) AS v, SUM(i) AS s FROM t GROUP BY ward",
    "SELECT MODE(ward) FROM t",
    "SELECT b, i, COUNT(*) AS n FROM t GROUP BY b, i",
    "SELECT s, day, noon, COUNT(*) AS n FROM t GROUP BY s, day, noon",
    "SELECT d, COUNT(*) AS n FROM t GROUP BY d",
    "SELECT s, COUNT(*) AS n FROM t WHERE f > 5 GROUP BY s",
]


def released(sql: str) -> NoisyRelease:
    account = Account("zcdp", "1e-2")
    plan = make_plan(sql, CATALOG, Request(rho="2", account=account))
    found = release(plan, ToyEngine({"t": ROWS}).measure(MeasurementTask(plan.final, b"secret")))
    table = plan.priced.bias
    # The toy engine has no subqueries; any counts will do here.
    counts = None if table is None else tuple(range(-3, table.table.cells - 3))
    return replace(found, noisy_bias=counts)


@pytest.mark.parametrize("sql", QUERIES)
def test_what_is_read_back_is_what_was_released(sql: str) -> None:
    first = released(sql)
    text = released_to_text(first)
    again = released_from_text(text, first.plan)
    assert again.keys == first.keys
    assert [[type(value) for value in key] for key in again.keys] == [[type(v) for v in key] for key in first.keys]
    assert again.laws == first.laws
    assert again.noisy_bias == first.noisy_bias
    for one, other in zip(first.noisy, again.noisy, strict=True):
        if isinstance(one, NoisyTree):
            assert isinstance(other, NoisyTree)
            assert (one.tree, one.law) == (other.tree, other.law)
            one, other = one.noisy_nodes, other.noisy_nodes
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert released_to_text(again) == text
    confidence = first.plan.terms.confidence
    finished = [finish(first.plan.query, each, confidence=confidence) for each in (first, again)]
    assert finished[0].values == finished[1].values
    assert finished[0].intervals() == finished[1].intervals()


def test_numbers_that_other_readers_would_round_are_text() -> None:
    content = json.loads(released_to_text(released("SELECT i, SUM(i) AS s FROM t GROUP BY i")))
    assert content["keys"] == [[str(-(2**60))], [str(2**60)]]
    sums = content["noisy"][-1]
    assert sums["wide"] is True
    assert all(isinstance(value, str) for value in sums["values"])


def test_there_is_one_text_and_no_float_in_it() -> None:
    assert canonical({"b": [1, "2/3", None], "a": True}) == '{"a":true,"b":[1,"2/3",null]}'
    assert canonical({"ü": 1}) == '{"ü":1}'
    with pytest.raises(InternalError, match="float"):
        canonical({"a": [{"b": 0.1}]})
    assert digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert manifest({"b": "2", "a": "1"}) == manifest({"a": "1", "b": "2"})


def _edits(text: str) -> list[str]:
    def edited(change: Any) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return [
        "",
        "[]",
        text[:-2],
        edited(lambda c: c.update(version=2)),
        edited(lambda c: c.update(format="other")),
        edited(lambda c: c["keys"].pop()),
        edited(lambda c: c["keys"][0].append("a")),
        edited(lambda c: c["keys"].__setitem__(0, [17])),
        edited(lambda c: c["noisy"].pop()),
        edited(lambda c: c["noisy"][0]["values"].pop()),
        edited(lambda c: c["noisy"][0]["values"].__setitem__(0, "x")),
        edited(lambda c: c["noisy"][0].update(shape=[1])),
        edited(lambda c: c["noisy"][0].update(tree=[2, 2])),
        edited(lambda c: c["noisy"][-1].update(tree=[2, 2])),
    ]


def test_a_text_that_does_not_fit_the_plan_is_refused() -> None:
    first = released("SELECT ward, COUNT(*) AS n, MEDIAN(d) AS m FROM t GROUP BY ward")
    text = released_to_text(first)
    for edited in _edits(text):
        with pytest.raises(InternalError, match="stored answer"):
            released_from_text(edited, first.plan)
    with pytest.raises(InternalError, match="stored answer"):
        released_from_text(text, released("SELECT COUNT(*) AS n FROM t").plan)
