"""The service itself, as every door uses it: visibility, repeats across it, pages, answers that are shown again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from support.served import CATALOG, COUNT, STAFF, Served, serve
from tacit.client.responses import AnswerResponse
from tacit.core.errors import AccessError, InputError, QueryError
from tacit.ledger import ConflictError
from tacit.ledger.history import page
from tacit.query.catalog import Catalog, Population
from tacit.query.request import Request
from tacit.server.errors import Unknown
from tacit.server.service import ONLY, _Seen


def test_a_part_of_a_catalogue_has_the_digest_of_the_whole() -> None:
    seen = _Seen.of(CATALOG, frozenset({"patients"}))
    assert seen.digest == CATALOG.digest
    assert [table.name for table in seen.tables] == ["visits", "wards"]
    assert seen.tables[0].foreign_keys == ()
    assert [each.name for each in seen.populations] == ["patients"]
    assert seen.table("staff") is None
    no_population = _Seen.of(CATALOG, frozenset())
    assert [table.name for table in no_population.tables] == ["wards"]


def test_the_spelling_of_a_population_hides_nothing() -> None:
    """People have the names that the ledger knows; a catalogue has those that its owner typed."""
    visits, staff, wards = CATALOG.tables
    shouted = Catalog(
        (replace(visits, population="Patients"), staff, wards), (Population("Patients"), Population("employees"))
    )
    seen = _Seen.of(shouted, frozenset({"patients"}))
    assert [table.name for table in seen.tables] == ["visits", "wards"]
    assert [each.name for each in seen.populations] == ["Patients"]


def test_persons_who_see_the_same_share_their_plans(served: Served) -> None:
    service = served.service
    assert service._for(served.access("alice")) is service._for(served.access("olga"))
    assert service._for(served.access("carol")) is service._for(served.access("carol"))
    assert service._for(served.access("carol")) is not service._for(served.access("dan"))


@pytest.mark.parametrize("name", ["alice", "carol"])
def test_plans_are_the_same_whatever_else_a_person_sees(served: Served, name: str) -> None:
    """Also of queries with joins, keys and public tables; so that what they release is shared."""
    for sql in (
        COUNT,
        "SELECT w.beds, COUNT(*) AS n FROM visits AS v JOIN wards AS w ON v.ward = w.name GROUP BY w.beds",
    ):
        ask = Request(sql=sql, epsilon="0.5")
        mine = served.service.quote(served.access(name), ask)
        assert mine.plan.digest == served.curator.explain(sql, epsilon="0.5").plan.digest


def test_a_join_into_what_a_person_does_not_see(served: Served) -> None:
    ask = Request(sql="SELECT COUNT(*) FROM visits AS v JOIN staff AS s ON v.nurse = s.id", epsilon="0.5")
    with pytest.raises(QueryError) as problem:
        served.service.quote(served.access("carol"), ask)
    assert problem.value.code == "query.unknown_table"


def test_scopes(served: Served) -> None:
    for work in (
        lambda: served.service.quote(served.access("audrey"), Request(sql=COUNT, epsilon="1")),
        lambda: served.service.ask(served.access("audrey"), Request(sql=COUNT, epsilon="1")),
        lambda: served.service.history(served.access("alice"), everyone=True),
    ):
        with pytest.raises(AccessError, match="needs the scope"):
            work()
    assert served.service.budget(served.access("audrey"))


def test_an_auditor_of_one_population_sees_its_charges_only(served: Served) -> None:
    from tacit.server.identity import Role

    served.people.add("arno", Role.AUDITOR, populations=frozenset({"employees"}), operator="test")
    served.tokens["arno"] = served.people.issue("arno", expires=None, operator="test").text
    mine = served.service.ask(served.access(), Request(sql=COUNT, epsilon="0.5")).receipt.position
    theirs = served.service.ask(served.access(), Request(sql=STAFF, epsilon="0.5")).receipt.position
    found = served.service.history(served.access("arno"), everyone=True)
    assert [record.seq for record in found.records] == [theirs]
    assert served.service.receipt(served.access("arno"), theirs).position == theirs
    with pytest.raises(Unknown):
        served.service.receipt(served.access("arno"), mine)


BUDGETS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"epsilon": "10"}, {"epsilon": "0.5"}),
    ({"epsilon": "10"}, {"within": "30"}),
    ({"accounting": "approx", "epsilon": "10", "delta": "1e-6"}, {"epsilon": "0.5"}),
    ({"accounting": "zcdp", "epsilon": "4", "delta": "1e-6"}, {"epsilon": "0.5"}),
    ({"accounting": "zcdp", "epsilon": "4", "delta": "1e-6"}, {"rho": "0.02"}),
    ({"accounting": "gdp", "mu": "2"}, {"mu": "0.25"}),
]


@pytest.mark.parametrize(("budget", "words"), BUDGETS, ids=lambda value: str(value))
def test_what_was_released_is_shown_again_for_nothing(budget: dict[str, Any], words: dict[str, Any]) -> None:
    """Whatever it was paid in; also after the data has changed."""
    versions = ["1"]
    served = serve(budgets={"patients": budget, "employees": {"epsilon": "1"}}, version=lambda _: versions[-1])
    first = served.service.ask(served.access(), Request(sql=COUNT, **words))
    head = served.curator.ledger.head
    versions.append("2")
    again = served.service.answer_again(served.access(), first.receipt.position)
    assert AnswerResponse.of(again).rows == AnswerResponse.of(first).rows
    assert again.charge.repeated
    assert served.curator.ledger.head == head
    for name in ("bob", "dan"):
        with pytest.raises(Unknown):
            served.service.answer_again(served.access(name), first.receipt.position)
    assert AnswerResponse.of(served.service.answer_again(served.access("olga"), first.receipt.position))
    served.close()


@pytest.mark.parametrize("options", [
    {"epsilon": "0.5", "weights": {"n": "3"}, "confidence": "0.9"},
    {"within": {"n": 40, "a": "20"}, "suppose": 500},
    {"within": "40", "suppose": 500},
    {"epsilon": 0.5, "max_groups": 2, "max_rows": "auto", "bias_share": "0.1"},
    {"epsilon": Fraction(1, 3)},
])  # fmt: skip
def test_an_answer_is_shown_again_on_all_the_terms_it_was_paid_on(served: Served, options: dict[str, Any]) -> None:
    two = "SELECT ward, COUNT(*) AS n, AVG(cost) AS a FROM visits GROUP BY ward"
    first = served.service.ask(served.access(), Request(sql=two, **options))
    again = served.service.answer_again(served.access(), first.receipt.position)
    assert AnswerResponse.of(again).rows == AnswerResponse.of(first).rows
    assert again.plan == first.plan


def test_what_holds_no_answer_is_not_shown(served: Served) -> None:
    for place in (0, -1, 1, 2**70):
        with pytest.raises(Unknown):
            served.service.answer_again(served.access(), place)


def test_only_for_nothing(served: Served) -> None:
    ask = Request(sql=COUNT, epsilon="0.5")
    with pytest.raises(ConflictError):
        served.service.ask(served.access(), ask, free=ONLY)
    assert served.spent() == 0
    first = served.service.ask(served.access("carol"), ask)
    with pytest.raises(ConflictError):
        served.service.ask(served.access(), ask, free=ONLY)
    mine = served.service.release_code(served.access(), first)
    for name, free in (("carol", ONLY), ("alice", mine)):
        assert AnswerResponse.of(served.service.ask(served.access(name), ask, free=free)) == AnswerResponse.of(first)


def test_many_at_once(served: Served) -> None:
    """Two analysts with different views ask the same in many threads: one charge, one release."""

    def one(i: int) -> Any:
        return AnswerResponse.of(
            served.service.ask(served.access(("alice", "carol")[i % 2]), Request(sql=COUNT, epsilon="0.5"))
        )

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(24)))
    assert all(each == found[0] for each in found)
    assert served.spent() == Fraction(1, 2)


def test_a_page_looks_at_so_much_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = served.curator.ledger
    for i in range(30):
        served.service.ask(
            served.access(), Request(sql=f"SELECT COUNT(*) AS n{i} FROM visits WHERE cost < {i + 1}", epsilon="0.01")
        )
    looked = 0
    real = type(ledger.journal.store).entries_down

    def counted(self: Any, **words: Any) -> Any:
        nonlocal looked
        for entry in real(self, **words):
            looked += 1
            yield entry

    monkeypatch.setattr(type(ledger.journal.store), "entries_down", counted)
    found = page(ledger, analyst="bob", look=10)
    assert (found.records, looked) == ((), 10)
    assert found.next == ledger.head.seq - 9
    looked = 0
    found = page(ledger, analyst="alice", limit=3, look=1000)
    assert len(found.records) == 3
    assert looked <= 6
    assert all(record.committed is not None for record in found.records)
    whole = [record.seq for record in ledger.history(analyst="alice")]
    walked, before = [], None
    while True:
        found = page(ledger, analyst="alice", before=before, limit=7, look=20)
        walked += [record.seq for record in found.records]
        if found.next is None:
            break
        before = found.next
    assert walked == whole[::-1]


def test_pages_that_make_no_sense(served: Served) -> None:
    for words in ({"limit": 0}, {"limit": 51}, {"before": 0}, {"before": 2**62}):
        with pytest.raises(InputError):
            served.service.history(served.access(), **words)
