"""Plans serve again only where text, terms and metadata are the same, and never instead of a check."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import pytest

from support.clinic import CATALOG, COUNT, ROWS, open_clinic
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.core.errors import BudgetError, InputError, QueryError
from tacit.curator.curator import Curator
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog
from tacit.query.planning.plan import make_plan
from tacit.query.request import Account, Request
from tacit.releases import plans as planning
from tacit.releases import query as answering
from tacit.releases.plans import Planner, PricedPlan
from tacit.releases.query import quote, release_key

SUM = "SELECT ward, SUM(cost) AS s FROM visits GROUP BY ward"


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count how often a text was resolved, and a query planned."""
    done = {"resolve_any": 0, "plan_on_terms": 0}

    def counted(name: str) -> Any:
        original = getattr(planning, name)

        def call(*args: Any, **options: Any) -> Any:
            done[name] += 1
            return original(*args, **options)

        return call

    for name in done:
        monkeypatch.setattr(planning, name, counted(name))
    return done


def wider() -> Catalog:
    """The clinic, whose costs are declared to reach ten times as far."""
    (table,) = CATALOG.tables
    columns = [replace(c, bounds=(Fraction(0), Fraction(1000))) if c.name == "cost" else c for c in table.columns]
    return Catalog((replace(table, columns=tuple(columns)),), CATALOG.populations)


def test_a_quote_the_query_and_its_repeats_are_planned_once(work: dict[str, int]) -> None:
    curator, engine = open_clinic()
    told = curator.explain(SUM, epsilon="0.5")
    first = curator.sql(SUM, epsilon="0.5")
    again = curator.sql(SUM, epsilon=Fraction(1, 2))
    assert work == {"resolve_any": 1, "plan_on_terms": 1}
    assert told.plan is first.plan is again.plan
    assert curator.explain(SUM, epsilon="0.50") is told
    assert again.finished is first.finished
    assert (first.charge.repeated, again.charge.repeated, engine.measured) == (False, True, 1)


def test_other_terms_are_planned_anew_from_the_same_query(work: dict[str, int]) -> None:
    curator, _ = open_clinic()
    asked: list[dict[str, Any]] = [
        {"epsilon": "0.5"},
        {"epsilon": "0.25"},
        {"epsilon": "0.5", "confidence": "0.99"},
        {"epsilon": "0.5", "suppose": 100},
        {"epsilon": "0.5", "weights": {"s": 2}},
        {"within": 5000},
        {"within": {"s": 5000}},
    ]
    told = [curator.explain(SUM, **terms) for terms in asked]
    assert work == {"resolve_any": 1, "plan_on_terms": len(asked)}
    for terms, quoted in zip(asked, told, strict=True):
        account = Account("pure", most=quoted.plan.terms.most)
        alone = make_plan(SUM, CATALOG, Request(**terms, account=account))
        assert (quoted.plan, quoted.plan.digest) == (alone, alone.digest)
    assert len({quoted.to_json() for quoted in told}) == len(asked)


def test_another_number_of_rows_is_another_query_and_leaks_into_none(work: dict[str, int]) -> None:
    curator, _ = open_clinic()
    asked: list[dict[str, Any]] = [{}, {"max_rows": 7}, {}, {"max_rows": 8}, {"max_rows": 7, "max_groups": 2}, {}]
    told = [curator.explain(SUM, epsilon="0.5", **terms).plan for terms in asked]
    assert work == {"resolve_any": 3, "plan_on_terms": 4}
    assert [plan.final.measures[0].rows for plan in told] == [
        told[0].final.measures[0].rows,
        7,
        told[0].final.measures[0].rows,
        8,
        7,
        told[0].final.measures[0].rows,
    ]
    assert told[0] is told[2] is told[5]
    for wrong in (True, 7.0, "7", [7], 0, 10**30):
        with pytest.raises(InputError, match="max_rows"):
            curator.explain(SUM, epsilon="0.5", max_rows=wrong)  # type: ignore[arg-type]


def test_a_number_beside_the_text_or_in_it_is_one_release() -> None:
    curator, engine = open_clinic()
    text = SUM.replace(
        "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 7, max_groups_contributed = 2)"
    )
    first = curator.sql(SUM, epsilon="0.5", max_rows=7, max_groups=2)
    again = curator.sql(text, epsilon="0.5")
    both = curator.sql(text, epsilon="0.5", max_rows=7)
    other = curator.sql(SUM, epsilon="0.5", max_rows=8, max_groups=2)
    assert [each.charge.repeated for each in (first, again, both, other)] == [False, True, True, False]
    assert first.finished.values == again.finished.values == both.finished.values
    assert engine.measured == 2


def test_a_request_is_read_every_time() -> None:
    """A wrong request is refused, although an equal one that was right is known: True equals 1."""
    curator, _ = open_clinic()
    for _ in range(2):
        curator.explain(SUM, epsilon=1)
        for wrong in ({"epsilon": True}, {"epsilon": 1, "suppose": True}, {"epsilon": 1, "delta": "0.1"}, {}):
            with pytest.raises(InputError):
                curator.explain(SUM, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sql"):
        curator.explain([SUM], epsilon=1)  # type: ignore[arg-type]


def test_text_that_claims_to_equal_another_is_the_text_it_holds(work: dict[str, int]) -> None:
    class Sly(str):
        """Equal to any text."""

        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return hash(SUM)

    curator, _ = open_clinic()
    curator.explain(SUM, epsilon=1)
    told = curator.explain(Sly(COUNT), epsilon=1)
    assert [column.name for column in told.plan.query.columns] == ["ward", "n"]
    assert [column.name for column in curator.explain(SUM, epsilon=1).plan.query.columns] == ["ward", "s"]
    assert work == {"resolve_any": 2, "plan_on_terms": 2}


def test_refusals_are_not_kept(work: dict[str, int]) -> None:
    curator, _ = open_clinic()
    words = []
    for _ in range(2):
        with pytest.raises(QueryError) as refused:
            curator.explain("SELECT patient FROM visits", epsilon=1)
        words.append(str(refused.value))
    assert words[0] == words[1]
    assert work["resolve_any"] == 2


def test_what_an_engine_refuses_is_refused_again() -> None:
    curator, engine = open_clinic()

    def check(final: Any) -> None:
        raise InputError("measure", "is too wide")

    engine.check = check  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(InputError, match="too wide"):
            curator.explain(SUM, epsilon=1)


def test_equal_text_under_other_metadata_or_another_account_is_another_plan() -> None:
    engine = ToyEngine({"visits": ROWS})
    curators = [
        toy_curator(CATALOG, engine, {"epsilon": "4"}),
        toy_curator(wider(), engine, {"epsilon": "4"}),
        toy_curator(CATALOG, engine, {"accounting": "zcdp", "epsilon": "4", "delta": "1e-6"}),
        toy_curator(CATALOG, engine, {"accounting": "approx", "epsilon": "4", "delta": "1e-6"}),
    ]
    told = [curator.explain(SUM, epsilon="0.5") for curator in curators]
    assert len({quoted.plan.digest for quoted in told}) == len(told)
    assert [quoted.plan.terms.account for quoted in told] == ["pure", "pure", "zcdp", "approx"]
    scales = [quoted.explanation.releases[0].l1_sensitivity for quoted in told[:2]]
    assert scales == ["10000", "100000"]


def test_a_desk_with_another_engine_plans_for_itself(work: dict[str, int]) -> None:
    curator, _ = open_clinic()
    curator.explain(SUM, epsilon="0.5")
    other = Curator(replace(curator._context, engine=ToyEngine({"visits": ROWS})), "owner")
    other.explain(SUM, epsilon="0.5")
    assert work == {"resolve_any": 2, "plan_on_terms": 2}


def test_a_known_plan_is_not_a_permission() -> None:
    """Whether a charge fits, and who may ask, is asked of the ledger every time."""
    curator, engine = open_clinic(epsilon="1")
    curator.ledger.add_analyst("ann")
    curator.ledger.add_analyst("bob")
    paid = curator.sql(COUNT, epsilon="0.75", analyst="ann")
    free = curator.sql(COUNT, epsilon="0.75", analyst="bob")
    assert (paid.charge.analyst, free.charge.analyst) == ("ann", "bob")
    assert (paid.charge.repeated, free.charge.repeated) == (False, True)
    for _ in range(2):
        curator.explain(SUM, epsilon="0.5")
        with pytest.raises(BudgetError):
            curator.sql(SUM, epsilon="0.5", analyst="bob")
    assert engine.measured == 1


def test_rows_are_those_of_the_ledgers_bytes() -> None:
    """A new version of the data, asked in the same words, is presented from its own bytes."""
    curator, engine = open_clinic()
    state = ["1"]
    object.__setattr__(curator._context, "version", lambda tables: state[0])
    first = curator.sql(COUNT, epsilon="0.5")
    state[0], engine.tables["visits"] = "2", ROWS[:30]
    second = curator.sql(COUNT, epsilon="0.5")
    assert first.plan is second.plan
    assert first.finished.values != second.finished.values
    state[0] = "1"
    assert curator.sql(COUNT, epsilon="0.5").finished is first.finished
    other = curator.sql(COUNT, epsilon="0.5", confidence="0.99")
    assert other.finished.values == first.finished.values
    assert other.finished.confidence == Fraction(99, 100)


def test_digests_are_of_stable_texts() -> None:
    """A ledger holds them: a digest of another form would make every known query a new one."""
    curator, _ = open_clinic()
    planned = quote(curator._context, SUM, Request(epsilon="0.5", bias_share=0))
    plan = planned.plan
    guarantee = ("PureDP", "epsilon=1/2", "delta=0")
    parts = (plan.query.text, plan.catalog, "add_remove", plan.terms, plan.priced, guarantee, ())
    assert plan.digest == hashlib.sha256(repr(parts).encode()).hexdigest()
    named = (plan.final.text, plan.catalog, "add_remove", plan.priced, repr(plan.guarantee), "1")
    assert release_key(curator._context, plan) == hashlib.sha256(repr(named).encode()).hexdigest()


def test_the_key_of_a_release_is_made_once_for_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(answering, "release_key", lambda *args: made.append(release_key(*args)) or made[-1])
    curator, _ = open_clinic()
    for count in (1, 2):
        curator.sql(SUM, epsilon="0.5")
        assert len(made) == count
    assert made[0] == made[1]


def test_what_is_kept_cannot_be_changed() -> None:
    curator, _ = open_clinic()
    told, answer = curator.explain(SUM, epsilon="0.5"), curator.sql(SUM, epsilon="0.5")
    for thing, name in (
        (told, "explanation"),
        (told.plan, "priced"),
        (told.plan.query, "final"),
        (told.plan.final, "measures"),
        (told.plan.priced, "releases"),
        (told.plan.releases[0], "epsilon"),
        (told.explanation, "charge"),
        (answer.finished, "rows"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, None)
    # A receipt is read from the ledger's bytes each time, so that a caller who changes one changes a copy.
    answer.receipt.statement["answers"][0]["mechanisms"].clear()  # type: ignore[attr-defined]
    assert curator.sql(SUM, epsilon="0.5").receipt["answers"][0]["mechanisms"]


def test_memory_is_bounded_by_the_length_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_MOST", 20_000)
    engine = ToyEngine({"visits": ROWS})
    made = Planner(PublicSizes(CATALOG, engine, lambda _: ""), {"patients": Account("pure")}, engine)
    for number in range(200):
        made.of(f"SELECT COUNT(*) AS n{number} FROM visits WHERE cost < {number}", Request(epsilon=1))
    listed = ", ".join(f"COUNT(*) AS n{number}" for number in range(200))
    long = made.of(f"SELECT {listed} FROM visits", Request(epsilon=1))
    assert len(long.plan.query.columns) == 200
    for kept in (made._queries, made._plans):
        assert 10 < len(kept) < 150
        assert kept.weight <= 20_000
    assert long is not made.of(f"SELECT {listed} FROM visits", Request(epsilon=1))


def test_many_threads_get_their_own_plans() -> None:
    engine = ToyEngine({"visits": ROWS})
    made = Planner(PublicSizes(CATALOG, engine, lambda _: ""), {"patients": Account("pure")}, engine)
    texts = [COUNT, SUM, "SELECT AVG(cost) AS m FROM visits", "SELECT COUNT(*) AS n FROM visits WHERE ward = 'a'"]
    prices = ["0.5", "0.25", "0.125"]
    asked = [(sql, epsilon) for sql in texts for epsilon in prices]
    alone = {
        (sql, epsilon): make_plan(sql, CATALOG, Request(epsilon=epsilon)).digest for sql in texts for epsilon in prices
    }
    start = threading.Barrier(8)

    def ask(seed: int) -> list[tuple[tuple[str, str], PricedPlan]]:
        start.wait()
        return [(pair, made.of(pair[0], Request(epsilon=pair[1]))) for pair in asked[seed:] + asked[:seed]]

    with ThreadPoolExecutor(8) as pool:
        found = [answer for answers in pool.map(ask, range(8)) for answer in answers]
    assert all(planned.plan.digest == alone[pair] for pair, planned in found)
    # However many threads planned a query at once, all hold the same plan of it.
    assert len({id(planned) for _, planned in found}) == len(asked)
    with ThreadPoolExecutor(8) as pool:
        texts_of = list(pool.map(lambda answer: answer[1].quote.to_json(), found))
    assert len(set(texts_of)) == len(asked)
