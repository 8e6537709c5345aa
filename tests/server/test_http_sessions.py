"""Sessions of counting queries over HTTP: who may use one, what is charged, and what a crash changes."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.remote_client import remote_of
from support.served import Served, raw, serve
from support.timers import SteppedSlots
from tacit.charges.payment import Caller
from tacit.core.errors import AccessError, FailedRunError, InputError
from tacit.ledger import Ledger, LedgerError
from tacit.paid_work.query_session import QuerySession
from tacit.server import session_registry
from tacit.server.api.app import create_app
from tacit.server.service import CuratorService

#: 200 patients, one row of each: 5, 15, 40 and 140 in four groups, where the histogram begins with 50 in each.
SOURCE = (
    "SELECT CASE WHEN patient < 5 THEN 'p' WHEN patient < 20 THEN 'q' WHEN patient < 60 THEN 'r' ELSE 's' END AS g, "
    "patient % 2 = 0 AS even FROM visits"
)
OPENED = {"source": SOURCE, "columns": ["g", "even"], "epsilon": 0.25, "threshold": 5}
#: So far above every error, or so far below those of the first queries, that noise at this epsilon does not matter.
NEVER, ALWAYS = {"epsilon": 0.25, "threshold": 10**6}, {"epsilon": 1000, "threshold": 1}
RICH = {
    "patients": {"accounting": "approx", "epsilon": "100000", "delta": "1e-6"},
    "employees": {"accounting": "pure", "epsilon": "5"},
}


@pytest.fixture
def hospital() -> Iterator[Served]:
    served = serve(budgets=RICH)
    yield served
    served.close()


def opened(served: Served, name: str = "alice", **words: Any) -> Any:
    response = served.call("POST", "/v1/sessions", name, json=OPENED | words)
    assert response.status_code == 201, response.text
    return response.json()


def asked(served: Served, position: int, where: Any, name: str = "alice", headers: Any = None) -> Any:
    return served.call("POST", f"/v1/sessions/{position}", name, json={"where": where}, headers=headers)


def restarted(served: Served) -> Served:
    """Another process at the same ledger: nothing that was in memory is known to it."""
    service = CuratorService(served.curator, served.people, served.settings)
    return Served(create_app(service, served.settings), service, served.engine, served.settings, served.tokens)


def receipt_of(served: Served, position: int, name: str = "alice") -> Any:
    return served.get(f"/v1/receipts/{position}", name)


def test_easy_queries_cost_one_part_together_and_hard_ones_one_each(hospital: Served) -> None:
    told = opened(hospital, **NEVER)
    assert hospital.spent() == Fraction(1, 4)
    answers = [asked(hospital, told["position"], {"g": g}).json() for g in ("p", ["p", "q"], "s", [])]
    assert [each["charged"] for each in answers] == [True, False, False, False]
    assert not any(each["hard"] for each in answers)
    assert len({each["position"] for each in answers}) == 1
    assert answers[-1]["answer"] == 0
    assert hospital.spent() == Fraction(1, 2)
    # A part that is under way has no receipt yet; closed, it has one.
    part = answers[0]["position"]
    assert receipt_of(hospital, part).status_code == 404
    closed = hospital.call("DELETE", f"/v1/sessions/{told['position']}").json()
    assert (closed["closed"], closed["parts"], closed["hard"]) == (True, 1, [])
    assert receipt_of(hospital, part).json()["receipt"]["charge"] == {"epsilon": "1/4"}
    refused = asked(hospital, told["position"], {"g": "p"})
    assert (refused.status_code, "closed" in refused.text) == (403, True)
    before = hospital.spent()
    hard = opened(hospital, **ALWAYS)
    found = [asked(hospital, hard["position"], {"g": "p", "even": even}).json() for even in (True, False)]
    assert [(each["hard"], each["charged"]) for each in found] == [(True, True)] * 2
    assert hospital.spent() - before == 3000
    shown = hospital.get(f"/v1/sessions/{hard['position']}").json()
    assert [each["where"] for each in shown["hard"]] == [
        {"g": ["p"], "even": [True]},
        {"g": ["p"], "even": [False]},
    ]
    assert [each["answer"] for each in found] == [3, 2]
    assert [each["answer"] for each in shown["hard"]] == [each["answer"] for each in found]
    assert [receipt_of(hospital, each["position"]).status_code for each in shown["hard"]] == [200, 200]
    rows = pq.read_table(io.BytesIO(hospital.get(f"/v1/sessions/{hard['position']}?form=parquet").content))
    assert rows.column_names == ["g", "even", "count"]
    listed = hospital.get("/v1/sessions").json()["sessions"]
    assert [each["position"] for each in listed] == [told["position"], hard["position"]]


def test_a_session_exists_for_its_person_and_for_its_token_alone(hospital: Served) -> None:
    share = hospital.people.issue("alice", label="assistant", expires=None, operator="test", share="0.6")
    hospital.tokens["shared"] = share.text
    own, shared = opened(hospital, **NEVER), opened(hospital, "shared", **NEVER)
    for name, position in (("bob", own), ("olga", own), ("dan", own), ("shared", own), ("alice", shared)):
        path = f"/v1/sessions/{position['position']}"
        for method, body in (("GET", None), ("DELETE", None), ("POST", {"where": {}})):
            assert hospital.call(method, path, name, json=body).status_code == 404, (name, method)
    for name, position in (("alice", own), ("shared", shared)):
        (listed,) = hospital.get("/v1/sessions", name).json()["sessions"]
        assert listed["position"] == position["position"]
    assert hospital.get("/v1/sessions", "audrey").status_code == 403
    assert asked(hospital, shared["position"], {}, "shared").json()["charged"]
    # 0.5 of 0.6 is spent: another process has to begin a part, which the share does not allow.
    refused = asked(restarted(hospital), shared["position"], {}, "shared")
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "budget")
    assert asked(hospital, shared["position"], {}, "shared").status_code == 200
    hospital.people.revoke("alice", operator="test")
    assert asked(hospital, own["position"], {}).status_code == 401


def test_what_cannot_be_asked_is_refused_and_costs_nothing(hospital: Served) -> None:
    for words, status in (
        ({"source": "nowhere"}, 422),
        ({"columns": []}, 400),
        ({"columns": ["street"]}, 422),
        ({"columns": "g"}, 400),
        ({"epsilon": 0}, 400),
        ({"epsilon": "1"}, 400),
        ({"threshold": 0}, 400),
        ({"threshold": 1.5}, 400),
        ({"rounds": 3}, 400),
    ):
        response = hospital.call("POST", "/v1/sessions", "alice", json=OPENED | words)
        assert response.status_code == status, (words, response.text)
    assert hospital.call("POST", "/v1/sessions", "dan", json=OPENED).status_code == 422
    told = opened(hospital, **NEVER)
    before = hospital.spent()
    for where in ({"g": "x"}, {"nurse": 1}, {"even": 1}, "g", {"g": {"p": 1}}, {"g": [["p"]]}, None):
        assert asked(hospital, told["position"], where).status_code == 400, where
    # Numbers that would be as long as they like are compared with nothing.
    for text in (
        '{"where": {"even": "1e999999999"}}',
        '{"where": {"even": 1e999999999}}',
        '{"where": {"g": %s}}' % ("9" * 9000),
    ):
        response = hospital.call(
            "POST", f"/v1/sessions/{told['position']}", content=text, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 400, text[:40]
    for wrong in ("0", "999999", "x", "1" * 30):
        assert hospital.get(f"/v1/sessions/{wrong}").status_code == 404
    assert hospital.get(f"/v1/sessions/{told['position']}?form=exe").status_code == 400
    assert hospital.spent() == before


def test_a_restart_keeps_hard_answers_and_pays_for_a_part_anew(hospital: Served) -> None:
    told = opened(hospital, **ALWAYS)
    first = asked(hospital, told["position"], {"g": "p", "even": True}, headers={"Idempotency-Key": "k"}).json()
    before = hospital.spent()
    again = restarted(hospital)
    shown = again.get(f"/v1/sessions/{told['position']}").json()
    assert [each["answer"] for each in shown["hard"]] == [first["answer"]]
    one, two = (each.service.session(each.access(), told["position"]) for each in (hospital, again))
    assert one.histogram().equals(two.histogram())
    # Sent again with its key, also to another process, a hard query gets the answer that was paid for.
    for served in (hospital, again):
        repeat = asked(served, told["position"], {"even": True, "g": ["p"]}, headers={"Idempotency-Key": "k"})
        assert (repeat.json()["answer"], repeat.json()["charged"]) == (first["answer"], False)
    assert hospital.spent() == before
    assert asked(again, told["position"], {"g": "q"}).json()["charged"]
    assert hospital.spent() == before + 1000
    # The first process learns of it, and the end that one writes holds for both.
    assert one.hard == 2
    again.call("DELETE", f"/v1/sessions/{told['position']}")
    assert asked(hospital, told["position"], {"g": "q"}).status_code == 403


def test_opening_is_sent_again_for_nothing(hospital: Served) -> None:
    key = {"Idempotency-Key": "open"}
    for served in (hospital, hospital, restarted(hospital)):
        response = served.call("POST", "/v1/sessions", "alice", json=OPENED, headers=key)
        assert response.status_code == 201
        assert hospital.spent() == Fraction(1, 4)
    other = hospital.call("POST", "/v1/sessions", "alice", json=OPENED | {"threshold": 6}, headers=key)
    assert other.status_code == 409


def test_a_part_gives_one_hard_answer_however_many_ask_at_once(hospital: Served) -> None:
    told = opened(hospital, **ALWAYS)
    access, found, gate = hospital.access(), [], threading.Barrier(8)

    def ask(place: int) -> None:
        gate.wait()
        found.append(hospital.service.ask_session(access, told["position"], {"g": "pqrs"[place % 4]}))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    hard = [each.position for each in found if each.hard]
    assert len(found) == 8
    assert len(hard) == len(set(hard)) >= 2
    assert hospital.spent() == 1000 * (1 + len({each.position for each in found}))


def test_a_hard_answer_is_on_disk_before_it_is_shown(hospital: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    told = opened(hospital, **ALWAYS)
    commit, spent = Ledger.commit, hospital.spent()

    def broken(*_: Any, **__: Any) -> Any:
        raise LedgerError("the disk is gone")

    monkeypatch.setattr(Ledger, "commit", broken)
    lost = asked(hospital, told["position"], {"g": "p", "even": True})
    assert lost.status_code == 503
    assert "answer" not in lost.json()
    monkeypatch.setattr(Ledger, "commit", commit)
    # The part has told that the query was hard; it is not asked again.
    assert asked(hospital, told["position"], {"g": "p", "even": True}).json()["charged"]
    assert hospital.spent() == spent + 2000


def test_a_part_that_another_process_has_closed_shows_nothing(
    hospital: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = opened(hospital, **ALWAYS)
    session = hospital.service.session(hospital.access(), told["position"])
    begun, other = QuerySession._begin_part, restarted(hospital)

    def closed_meanwhile(self: QuerySession, departure: Any) -> Any:
        part = begun(self, departure)
        other.service.session(other.access(), told["position"]).close()
        return part

    monkeypatch.setattr(QuerySession, "_begin_part", closed_meanwhile)
    with pytest.raises(AccessError, match="closed"):
        session.ask({"g": "p", "even": True})
    assert session.hard == 0


class Watched:
    """A departure that writes down how it was used, and lets everything pass or nothing."""

    seconds = None

    def __init__(self, *, passes: bool = True) -> None:
        self.seen: list[str] = []
        self._passes = passes

    def check(self, plan: Any) -> None:
        self.seen.append("check")

    def begin(self, plan: Any) -> None:
        self.seen.append("begin")

    def end(self, *, failed: bool) -> bool:
        self.seen.append("end")
        return self._passes


def test_rows_are_counted_until_a_departure_and_under_a_charge(hospital: Served) -> None:
    told = opened(hospital, **NEVER)
    again = restarted(hospital)
    late, fine, free = Watched(passes=False), Watched(), Watched()

    def ask(departure: Watched) -> Any:
        return again.service.ask_session(again.access(), told["position"], {}, departure=departure)  # type: ignore[arg-type]

    with pytest.raises(FailedRunError):
        ask(late)
    assert hospital.spent() == Fraction(1, 2), "what was charged stays charged"
    assert ask(fine).charged
    assert not ask(free).charged
    assert (late.seen, fine.seen, free.seen) == (["check", "begin", "end"],) * 2 + ([],)


def test_the_client_asks_closes_and_goes_on(hospital: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with asyncio.Runner() as runner:
        remote = remote_of(hospital, "alice", monkeypatch, runner.get_loop())
        session = remote.query_session(SOURCE, ["g", "even"], epsilon="1000", threshold=1)
        found = session.ask({"g": ("p", "q"), "even": True})
        assert (found.hard, found.charged) == (True, True)
        again = remote.resume_query_session(session.position)
        assert again.body.hard[0].where == {"g": ["p", "q"], "even": [True]}
        assert again.rows == session.rows
        assert session.histogram().num_rows == 8
        again.close()
        assert session.refresh().closed
        with pytest.raises(AccessError, match="closed"):
            session.ask({})


class NotedSlots(SteppedSlots):
    """Notes since when responses are held."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[float] = []

    async def hold(self, arrived: float) -> None:
        self.held.append(arrived)


def test_noise_that_is_drawn_after_a_departure_is_followed_by_a_slot(hospital: Served) -> None:
    """The time that noise takes to draw, which is not shown, is not seen in when the response leaves."""
    told = opened(hospital, **NEVER)
    again = restarted(hospital)
    again.settings = replace(again.settings, slot=0.25)
    again.app = create_app(again.service, again.settings)
    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {again.tokens['alice']}".encode())]
    path = f"/v1/sessions/{told['position']}"

    async def story() -> None:
        slots = again.app.state.runtime.slots = NotedSlots()
        asking = asyncio.ensure_future(raw(again.app, "POST", path, headers=headers, body=b'{"where": {}}'))
        while not slots.ended():
            assert not asking.done()
            await asyncio.sleep(0.001)
        departed = slots.ring()
        assert (await asking)[0] == 200
        assert slots.held == [departed]

    asyncio.run(story())


def test_a_session_can_be_looked_at_and_closed_while_rows_are_counted(hospital: Served) -> None:
    told = opened(hospital, **NEVER)
    session = QuerySession.resumed(hospital.curator.context, told["position"], Caller("alice"))
    shown: list[Any] = []

    def look() -> None:
        shown.extend((session.parts, session.hard, session.histogram().num_rows))
        session.close()

    class Meanwhile(Watched):
        def begin(self, plan: Any) -> None:
            # Were they to wait for the rows, the threads that look would be taken from all others.
            looks = threading.Thread(target=look, daemon=True)
            looks.start()
            looks.join(20)
            assert not looks.is_alive()

    assert session.ask({}, departure=Meanwhile()).charged
    assert shown == [1, 0, 8]
    assert not session.watching
    with pytest.raises(AccessError, match="closed"):
        session.ask({})


def test_the_sessions_of_one_person_push_out_no_others(hospital: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_registry, "_MOST_KEPT", 3)
    mine = opened(hospital, "bob", **NEVER)["position"]
    assert asked(hospital, mine, {}, "bob").json()["charged"]
    for _ in range(4):
        newest = opened(hospital, **NEVER)["position"]
        assert [asked(hospital, newest, {}).json()["charged"] for _ in range(3)] == [True, False, False]
    assert not asked(hospital, mine, {}, "bob").json()["charged"]


def test_a_session_of_another_project_is_not_gone_on_with(hospital: Served) -> None:
    told, context = opened(hospital, **NEVER), hospital.curator.context
    assert QuerySession.resumed(context, told["position"], Caller("alice")).position == told["position"]
    with pytest.raises(InputError, match="of yours"):
        QuerySession.resumed(replace(context, project="another"), told["position"], Caller("alice"))


class Compared(int):
    """A number that counts how often it is compared."""

    seen = 0

    def __eq__(self, other: object) -> bool:
        Compared.seen += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_long_lists_are_looked_up_and_what_is_said_twice_is_refused(hospital: Served) -> None:
    told = opened(hospital, **NEVER)
    session = hospital.service.session(hospital.access(), told["position"])
    with pytest.raises(InputError, match="twice"):
        session.ask({"g": "p", "G": "q"})
    # One comparison for each stated value; all pairs would be four hundred million.
    values = tuple(Compared(place) for place in range(20_000))
    column = replace(session.counts.columns["g"], values=values)
    session.counts = replace(session.counts, columns=session.counts.columns | {"g": column})
    Compared.seen = 0
    (places, _) = session._places({"g": [*range(20_000), "7", "7.0"]})
    assert places == tuple(range(20_000))
    assert Compared.seen < 100_000
    for wrong in (True, "1e2", "7.5", [1], float("nan"), None, 20_000):
        with pytest.raises(InputError, match="not a declared value"):
            session._places({"g": [wrong]})
