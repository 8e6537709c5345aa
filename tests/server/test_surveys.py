"""Surveys over HTTP: reports from strangers, counted once, durable, rate limited, estimated, and shown."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from support.postgres import address
from support.served import Served, serve
from tacit.core.errors import InputError
from tacit.ledger import Ledger
from tacit.local import Client, HeavyHitters, KaryResponse, LocalProtocol, UnaryEncoding
from tacit.server.identity import People

PROTOCOL = KaryResponse(categories=["tea", "coffee", "other"], epsilon="1")


@pytest.fixture
def served() -> Iterator[Served]:
    found = serve()
    found.people.surveys.create("drinks", PROTOCOL, question="What do you drink?", operator="olga")
    yield found
    found.close()


def send(
    served: Served, reports: bytes, survey: str = "drinks", key: str | None = None, **words: Any
) -> httpx.Response:
    body = {"version": 1, "reports": base64.b64encode(reports).decode(), **words}
    return served.call("POST", f"/v1/collect/{survey}", "", json=body, headers={"idempotency-key": key} if key else {})


def n_of(served: Served, survey: str = "drinks") -> int:
    surveys = served.people.surveys
    return surveys.sums(surveys.one(survey)).n


def test_a_stranger_sends_and_an_analyst_reads(served: Served) -> None:
    told = served.get("/v1/surveys/drinks", "").json()
    assert told["protocol"] == PROTOCOL.spec()
    assert told["epsilon"] == told["total_epsilon"] == "1"
    client = Client(PROTOCOL)
    reports = b"".join(client.report("tea").payload for _ in range(400))
    assert send(served, reports).json() == {"survey": "drinks", "accepted": 400, "repeated": False}
    found = served.get("/v1/results/drinks").json()
    assert found["n"] == 400
    assert [each["label"] for each in found["estimates"]] == ["tea", "coffee", "other"]
    tea = found["estimates"][0]
    assert tea["low"] <= tea["value"] <= 1.6
    assert tea["value"] > 0.5
    assert served.get("/v1/results/drinks", "").status_code == 401


def test_reports_count_once_under_their_key(served: Served) -> None:
    assert send(served, b"\x00\x01", key="a").json()["repeated"] is False
    for _ in range(3):
        assert send(served, b"\x00\x01", key="a").json() == {"survey": "drinks", "accepted": 2, "repeated": True}
    assert n_of(served) == 2
    # Also after they were added up, when their bytes are gone.
    assert send(served, b"\x00\x01", key="a").json()["repeated"] is True
    refused = send(served, b"\x02", key="a")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "input.conflict")
    # Without a key every batch is another one.
    send(served, b"\x00")
    send(served, b"\x00")
    assert n_of(served) == 4


@pytest.mark.parametrize("reports", [b"", b"\x03", b"\x00\xff"])
def test_what_no_client_makes_is_refused_whole(served: Served, reports: bytes) -> None:
    response = send(served, reports)
    assert response.status_code == 400
    assert response.json()["error"]["parameter"] == "reports"
    assert n_of(served) == 0


def test_a_closed_survey_takes_nothing_more(served: Served) -> None:
    send(served, b"\x00")
    served.people.surveys.close("drinks", operator="olga")
    assert send(served, b"\x00").status_code == 403
    assert served.get("/v1/surveys/drinks", "").json()["open"] is False
    assert served.get("/v1/results/drinks").json()["n"] == 1
    assert served.people.surveys.total() == 0


def test_unknown_surveys_do_not_exist(served: Served) -> None:
    for method, path in (("GET", "/v1/surveys/x"), ("POST", "/v1/collect/x"), ("GET", "/v1/results/x")):
        words = {"json": {"version": 1, "reports": "AA=="}} if method == "POST" else {}
        assert served.call(method, path, **words).status_code == 404


def test_one_address_has_a_rate() -> None:
    served = serve(collects_per_minute=3)
    served.people.surveys.create("drinks", PROTOCOL, operator="olga")
    found = [send(served, b"\x00").status_code for _ in range(5)]
    served.close()
    assert found == [200, 200, 200, 429, 429]


def test_many_senders_at_once_lose_nothing(served: Served) -> None:
    surveys = served.people.surveys
    survey = surveys.one("drinks")

    def work(first: int) -> None:
        for i in range(20):
            surveys.collect(survey, b"\x01" + bytes([i % 3] * 5), f"{first}-{i}")
            if i % 7 == first:
                surveys.sums(survey)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sums = surveys.sums(survey)
    assert sums.n == 400
    assert sums.counts.tolist() == [140, 140, 120]


def test_many_batches_are_added_up_in_steps(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.server.identity.surveys._AT_ONCE", 3)
    for i in range(10):
        served.people.surveys.collect(served.people.surveys.one("drinks"), b"\x01\x00", str(i))
    assert n_of(served) == 10


def test_surveys_stand_in_the_chain(served: Served) -> None:
    served.people.surveys.create("ages", UnaryEncoding(categories=5, epsilon="0.5"), operator="olga")
    notes = [fields for _, fields in served.curator.ledger.notes("survey created")]
    assert [each["survey"] for each in notes] == ["drinks", "ages"]
    assert '"epsilon": "0.5"' in notes[1]["promise"]
    assert served.people.surveys.total() == PROTOCOL.epsilon + 1 / 2


@pytest.mark.parametrize(
    ("name", "protocol"),
    [("", PROTOCOL), ("a b", PROTOCOL), ("é", PROTOCOL), ("x" * 61, PROTOCOL), ("drinks", PROTOCOL)],
)
def test_refused_surveys(served: Served, name: str, protocol: LocalProtocol) -> None:
    with pytest.raises(InputError) as refused:
        served.people.surveys.create(name, protocol, operator="olga")
    assert refused.value.parameter == "name"


def test_a_survey_with_too_many_sums_is_refused(served: Served) -> None:
    with pytest.raises(InputError, match="sums"):
        served.people.surveys.create("x", HeavyHitters(epsilon="1", length=32, hashes=1 << 16), operator="olga")


def test_a_question_that_is_too_long_leaves_no_note_of_a_survey(served: Served) -> None:
    before = served.curator.ledger.head
    with pytest.raises(InputError, match="question"):
        served.people.surveys.create("long", PROTOCOL, question="?" * 501, operator="olga")
    assert served.curator.ledger.head == before


def test_every_address_is_forgotten(served: Served) -> None:
    send(served, b"\x00")
    rows = served.people._context.tables.read("SELECT * FROM people_survey_batches")
    assert len(rows) == 1
    assert not any("127.0.0.1" in str(value) or "testclient" in str(value) for value in rows[0])
    assert np.frombuffer(bytes(rows[0][4]), dtype=np.uint8).tolist() == [1, 0]


def test_surveys_in_postgres_and_in_a_file(tmp_path: Path) -> None:
    """Sums, keys and closing survive that the database is closed and opened, by any number of processes."""
    for place in (str(tmp_path / "clinic.ledger"), address()):
        with Ledger.open(place) as ledger, People.open(ledger, place) as people:
            people.surveys.create("drinks", PROTOCOL, question="Tea?", operator="olga")
            survey = people.surveys.one("drinks")
            assert people.surveys.collect(survey, b"\x01\x00\x01", "a").repeated is False
        with Ledger.open(place) as ledger, People.open(ledger, place) as people, People.open(ledger, place) as others:
            survey = people.surveys.one("drinks")
            assert people.surveys.sums(survey).n == 2
            assert others.surveys.collect(survey, b"\x01\x00\x01", "a").repeated is True
            others.surveys.collect(survey, b"\x01\x02", "b")
            assert people.surveys.sums(survey).counts.tolist() == [1, 1, 1]
            people.surveys.close("drinks", operator="olga")
            assert [each.open for each in others.surveys.all()] == [False]
