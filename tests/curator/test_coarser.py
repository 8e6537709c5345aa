"""Coarser questions about a release: answered from the ledger for nothing, said so, and never from other data."""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from support.bits import SeededBits
from support.replay import record, replay
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.core.errors import AccessError, QueryError
from tacit.curator.curator import Curator
from tacit.ledger import ConflictError
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER, TEXT
from tacit.wire.responses import charge_json

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("person", INTEGER),
                Column("ward", TEXT, categories=("a", "b", None)),
                Column("site", INTEGER, bounds=(1, 4)),
                Column("cost", INTEGER, bounds=(0, 100)),
            ),
            population="people",
            unit="person",
            max_groups=2,
            max_rows=1,
        ),
        Table("other", (Column("id", INTEGER), Column("site", INTEGER, bounds=(1, 4))), population="people", unit="id"),
    ),
    (Population("people"),),
)
ROWS: list[dict[str, Any]] = [
    {"person": i, "ward": ("a", "b", None)[i % 3], "site": 1 + i % 4, "cost": i * 37 % 101} for i in range(800)
]
FINE = "SELECT ward, site, COUNT(*) AS n, AVG(cost) AS a FROM visits GROUP BY ward, site"


@pytest.fixture(autouse=True)
def bits(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SeededBits(20261117)
    monkeypatch.setattr(entropy, "current", lambda: source)


def opened(rows: list[dict[str, Any]] | None = None, epsilon: str = "100") -> tuple[Curator, ToyEngine]:
    engine = ToyEngine({"visits": ROWS if rows is None else rows, "other": []})
    return toy_curator(CATALOG, engine, {"epsilon": epsilon}), engine


def spent(curator: Curator) -> Fraction:
    return curator.budget().spent[0].amount


FREE = {
    "fewer keys": "SELECT site, COUNT(*) AS n FROM visits GROUP BY site",
    "other order": "SELECT COUNT(*) AS n, ward FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2",
    "no key": "SELECT AVG(cost) AS a, COUNT(*) AS n FROM visits",
    "a condition on a key": "SELECT ward, COUNT(*) AS n FROM visits WHERE site IN (2, 3) GROUP BY ward",
    "conditions alone": "SELECT ward, site, COUNT(*) AS n FROM visits WHERE site >= 3 AND ward = 'a' GROUP BY 1, 2",
    "NULL": "SELECT site, COUNT(*) AS n FROM visits WHERE ward IS NULL GROUP BY site",
    "sets": "SELECT ward, COUNT(*) AS n, GROUPING(ward) AS g FROM visits GROUP BY ROLLUP (ward)",
    "later steps": "SELECT site, n / SUM(n) OVER () AS x FROM (SELECT site, COUNT(*) AS n FROM visits GROUP BY site)",
}


@pytest.mark.parametrize("sql", FREE.values(), ids=FREE)
def test_sums_of_released_cells_are_free_and_say_so(sql: str) -> None:
    curator, engine = opened()
    paid = curator.sql(FINE, epsilon="8")
    before, runs, head = spent(curator), engine.measured, curator.ledger.head
    quote = curator.explain(sql, epsilon="0.1")
    assert quote.free
    assert quote.charge.startswith(
        f"nothing: sums of cells that were released before, under entry {paid.charge.number}"
    )
    assert curator.budget(quote).questions is None
    answer = curator.sql(sql, epsilon="0.1")
    assert (spent(curator), engine.measured, curator.ledger.head) == (before, runs, head)
    assert answer.charge.summed
    assert answer.charge.text == f"Sums of cells released before (entry {paid.charge.number}): charged nothing"
    assert charge_json(answer.charge)["summed"] is True
    assert "charged nothing" in answer.note
    assert answer.receipt["answers"][0]["groups"].startswith("sums of released groups")
    assert answer.receipt["answers"][0]["released"] == paid.receipt["answers"][0]["released"]
    assert curator.check_receipt(answer.receipt).ok
    assert curator.ledger.verify().ok


def test_the_numbers_are_sums_and_the_intervals_those_of_sums() -> None:
    curator, _ = opened()
    cells = curator.sql(FINE, epsilon="8").finished
    free = curator.sql(FREE["fewer keys"], epsilon="0.1").finished
    for site, n in free.values:
        assert n == sum(row[2] for row in cells.values if row[1] == site)  # type: ignore[misc]
    width = [high - low for _, (low, high) in free.intervals()]  # type: ignore[operator]
    one = [ends[2][1] - ends[2][0] for ends in cells.intervals()]  # type: ignore[operator]
    assert min(one) < min(width)
    assert max(width) < 3 * max(one)


BOUGHT = {
    "another condition": "SELECT site, COUNT(*) AS n FROM visits WHERE cost > 3 GROUP BY site",
    "another value": "SELECT site, SUM(cost) AS n FROM visits GROUP BY site",
    "another table": "SELECT site, COUNT(*) AS n FROM other GROUP BY site",
    "other groups": "SELECT site % 2 AS odd, COUNT(*) AS n FROM visits GROUP BY odd",
    "persons": "SELECT site, COUNT(DISTINCT person) AS n FROM visits GROUP BY site",
    "not a sum": "SELECT site, MEDIAN(cost) AS n FROM visits GROUP BY site",
    "the same groups": "SELECT ward, site, COUNT(*) AS n FROM visits GROUP BY ward, site",
    "several parts": "SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits WHERE site = 1) AS n",
}


@pytest.mark.parametrize("sql", BOUGHT.values(), ids=BOUGHT)
def test_everything_else_is_bought(sql: str) -> None:
    curator, engine = opened()
    curator.sql(FINE, epsilon="8")
    before, runs = spent(curator), engine.measured
    assert not curator.explain(sql, epsilon="0.1").free
    assert not curator.sql(sql, epsilon="0.1").charge.summed
    assert spent(curator) == before + Fraction(1, 10)
    assert engine.measured > runs


def test_other_limits_are_another_question() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="8")
    assert not curator.explain(FREE["fewer keys"], epsilon="0.1", max_groups=1).free
    assert not curator.explain(FREE["fewer keys"], epsilon="0.1", max_rows=2).free


def test_a_better_price_buys_afresh_and_is_repeated_then() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="2")
    quote = curator.explain(FREE["fewer keys"], epsilon="8")
    assert not quote.free
    bought = curator.sql(FREE["fewer keys"], epsilon="8")
    assert [str(amount) for amount in bought.charge.amounts] == ["epsilon 8"]
    again = curator.sql(FREE["fewer keys"], epsilon="8")
    assert again.charge.repeated
    assert not again.charge.summed


def test_the_rule_is_the_error_that_the_price_would_buy() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="2")
    sql, free, bought = FREE["fewer keys"], [], []
    for tenth in range(1, 40, 3):
        quote = curator.explain(sql, epsilon=Fraction(tenth, 10))
        error = Fraction(quote.explanation.errors[0].bound or 0)
        (free if quote.free else bought).append(error)
    assert free
    assert bought
    assert min(bought) < max(free)
    assert len(set(free)) == 1


def test_other_data_is_another_release() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="8")
    changed = Curator(replace(curator.context, version=lambda _: "2"), curator.analyst)
    assert curator.explain(FREE["no key"], epsilon="0.1").free
    assert not changed.explain(FREE["no key"], epsilon="0.1").free
    assert not changed.sql(FREE["no key"], epsilon="0.1").charge.summed


def test_a_table_that_a_person_does_not_see_cannot_be_reached() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="8")
    less = Catalog(CATALOG.tables[1:], CATALOG.populations)
    blind = Curator(replace(curator.context, catalog=less), "eve")
    with pytest.raises(QueryError):
        blind.sql(FREE["no key"], epsilon="0.1")
    assert not blind.explain("SELECT COUNT(*) AS n FROM other", epsilon="0.1").free


def test_totals_of_groups_that_people_lost_are_not_offered() -> None:
    """Each person is in twelve groups, and two count: a sum of these would be far too low."""
    rows = [
        {**ROWS[0], "person": i, "ward": w, "site": s} for i in range(400) for w in ("a", "b", None) for s in (1, 2)
    ]
    curator, _ = opened(rows)
    assert curator.sql(FINE, epsilon="8").left_out is not None
    assert not curator.explain(FREE["fewer keys"], epsilon="0.1").free
    unknown, _ = opened(rows)
    unknown.sql(FINE, epsilon="8", bias_share=0)
    assert not unknown.explain(FREE["fewer keys"], epsilon="0.1").free


def test_a_request_sent_again_gets_the_same_release() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="4")
    sql = FREE["fewer keys"]
    first = curator.sql(sql, epsilon="0.1", idempotency_key="k")
    curator.sql(FINE, epsilon="8")
    again = curator.sql(sql, epsilon="0.1", idempotency_key="k")
    assert first.charge.summed
    assert (again.charge, again.finished.values) == (first.charge, first.finished.values)
    assert curator.sql(sql, epsilon="0.1").charge.number > first.charge.number
    with pytest.raises(ConflictError):
        curator.sql(sql, epsilon="0.2", idempotency_key="k")
    assert curator.ledger.verify().ok


def test_a_revoked_analyst_gets_nothing() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="8")
    curator.ledger.add_analyst("eve")
    assert curator.sql(FREE["no key"], epsilon="0.1", analyst="eve").charge.summed
    curator.ledger.revoke_analyst("eve")
    with pytest.raises(AccessError):
        curator.sql(FREE["no key"], epsilon="0.1", analyst="eve")


def test_an_empty_account_still_answers_sums_and_races_charge_nothing() -> None:
    curator, engine = opened(epsilon="8")
    curator.sql(FINE, epsilon="8")
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda sql=sql: answers.append(curator.sql(sql, epsilon="0.1")))  # type: ignore[misc]
        for sql in [*FREE.values(), *FREE.values()]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(threads)
    assert all(answer.charge.summed for answer in answers)
    assert (spent(curator), engine.measured) == (8, 1)


def test_another_process_finds_it_in_the_ledger() -> None:
    curator, _ = opened()
    curator.sql(FINE, epsilon="8")
    fresh = Curator(replace(curator.context), "bob")
    assert fresh.sql(FREE["fewer keys"], epsilon="0.1").charge.summed


@pytest.mark.parametrize("gone", [0, 2])
def test_neighbours_differ_in_nothing_but_the_noise_that_was_paid_for(gone: int) -> None:
    """The free answer runs no mechanism, and all that is seen of it is the same once the paid noise is."""

    def ask(curator: Curator) -> list[Any]:
        seen: list[Any] = [curator.sql(FINE, epsilon="8").finished.values]
        for sql in FREE.values():
            quote, answer = curator.explain(sql, epsilon="0.1"), curator.sql(sql, epsilon="0.1")
            seen += [str(quote), answer.finished.values, answer.finished.intervals(), answer.note, answer.charge]
        return [*seen, str(curator.budget())]

    one, other = opened()[0], opened([row for row in ROWS if row["person"] != gone])[0]
    answer, tape = record(lambda: ask(one))
    assert len(tape) == 2
    made = replay(tape, lambda: ask(other), lambda seen: seen, answer)
    assert made.findings == ()
    assert made.moved
