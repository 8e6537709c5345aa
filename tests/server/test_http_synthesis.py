"""Synthetic tables over HTTP: jobs of owners, one charge, tables that are free for those who see the population."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.remote_client import remote_of
from support.served import Served, serve
from support.toy_engine import Killed
from support.visiting import Visitor
from tacit.client.releases import ReleaseResponse
from tacit.core.errors import BudgetError, InputError
from tacit.releases.synthesis import SyntheticTableRequest
from tacit.server.api.request import job_back, job_text, json_bytes, release_of
from tacit.server.service import CuratorService

TABLE: dict[str, Any] = {
    "kind": "synthesis",
    "source": "SELECT ward, patient % 2 = 0 AS even FROM visits",
    "method": "mst",
    "epsilon": 2,
    "delta": 1e-7,
}


@pytest.fixture(scope="module")
def hospital() -> Iterator[Served]:
    """One hospital for tests that do not mind charges."""
    served = serve()
    yield served
    served.close()


def made(served: Served, name: str = "olga", headers: Any = None, **words: Any) -> tuple[Any, Any]:
    """The response to a request for a table, and the end of its job."""
    return served.job("/v1/releases", TABLE | words, name, headers)


def test_a_table_is_made_once_and_used_for_nothing(hospital: Served) -> None:
    before = hospital.spent()
    _, job = made(hospital)
    release = job["release"]
    (table,) = release["about"]["tables"]
    assert job["state"] == "done"
    assert table["columns"] == ["ward", "even"]
    assert [each["columns"] for each in table["measured"]][:2] == [["ward"], ["even"]]
    assert table["not_measured"] == []
    assert "only where a marginal was measured" in release["about"]["note"]
    assert hospital.spent() - before == 2
    # Analysts of the population find it, and get the same rows in both forms.
    (told,) = hospital.get("/v1/releases").json()["releases"]
    assert (told["position"], told["names"]) == (release["position"], ["rows_synthetic"])
    assert release["about"]["method"] == "mst"
    place = f"/v1/releases/{told['position']}"
    assert hospital.get(place).json() == release
    text = hospital.get(f"{place}?file=rows_synthetic.csv")
    assert (
        text.headers["content-disposition"] == f"attachment; filename=synthesis-{told['position']}-rows_synthetic.csv"
    )
    rows = text.text.splitlines()
    assert (rows[0], len(rows) - 1) == ("ward,even", table["rows"])
    assert (
        pq.read_table(io.BytesIO(hospital.get(f"{place}?file=rows_synthetic.parquet").content)).num_rows
        == table["rows"]
    )
    _, again = made(hospital)
    assert again["release"]["position"] == release["position"]
    assert hospital.spent() - before == 2


def test_a_table_is_asked_about_for_nothing_by_those_who_see_it(hospital: Served) -> None:
    made(hospital)
    before = hospital.spent()
    asked = {"sql": "SELECT ward, COUNT(*) AS n FROM rows_synthetic GROUP BY ward ORDER BY ward"}
    answer = hospital.call("POST", "/v1/query", "alice", json=asked).json()
    assert answer["public"]
    assert (answer["charge"], answer["receipt"]) == (None, None)
    assert "only where a marginal was measured" in answer["note"]
    assert hospital.call("POST", "/v1/query", "alice", json=asked).json() == answer
    quote = hospital.call("POST", "/v1/explain", "alice", json=asked).json()
    assert "paid for before" in quote["price"]["text"]
    refused = hospital.call("POST", "/v1/query", "dan", json=asked)
    assert refused.status_code == 422, refused.text
    assert hospital.spent() == before


def test_the_console_makes_shows_and_hands_out_a_table() -> None:
    served = serve()
    owner, analyst, other = Visitor(served), Visitor(served), Visitor(served)
    try:
        owner.sign_in("olga")
        assert "There are none yet." in owner.get("/console/releases").text
        asked = {"kind": "synthesis", "source": str(TABLE["source"]), "method": "mst", "epsilon": "2", "delta": "1e-7"}
        refused = owner.post("/console/releases", **(asked | {"epsilon": "-1"}))
        assert (refused.status_code, served.spent()) == (400, 0)
        # A second table makes two that belong together; these are about different persons.
        strangers = owner.post("/console/releases", **(asked | {"source": "visits", "second": "staff"}))
        assert strangers.status_code == 400
        assert "two tables of one population" in strangers.text
        assert 'name="second" value="staff"' in strangers.text
        # It is a job from now on; here it is run by hand.
        put = owner.post("/console/releases", **asked)
        assert put.status_code == 303
        page = owner.get(put.headers["location"]).text
        assert "The release that you asked for: <strong>waiting</strong>" in page
        (job,) = served.people.jobs.unfinished()
        said, _ = job_back(job.request)
        assert isinstance(said, SyntheticTableRequest)
        position = served.service.make_release(served.access("olga"), said, key="console").receipt.position
        analyst.sign_in("alice")
        assert f"/console/releases/{position}" in analyst.get("/console/releases").text
        assert "Make a synthetic table" not in analyst.get("/console/releases").text
        shown = analyst.get(f"/console/releases/{position}").text
        assert "only where a marginal was measured" in shown
        assert "ward × even" in shown
        assert analyst.get(f"/console/releases/{position}/rows_synthetic.csv").text.startswith("ward,")
        assert analyst.get(f"/console/releases/{position}/rows_synthetic.parquet").content.startswith(b"PAR1")
        assert analyst.get(f"/console/releases/{position}/rows_synthetic.exe").status_code == 404
        assert analyst.post("/console/releases", **asked).status_code == 403
        other.sign_in("dan")
        assert other.get(f"/console/releases/{position}").status_code == 404
        assert served.spent() == 2
    finally:
        for visitor in (owner, analyst, other):
            visitor.close()
        served.close()


def test_the_console_says_what_is_wrong_and_where_a_table_is() -> None:
    served = serve()
    owner = Visitor(served)
    try:
        owner.sign_in("olga")
        asked = {
            "kind": "synthesis",
            "source": str(TABLE["source"]),
            "method": "aim",
            "epsilon": "2",
            "delta": "1e-7",
            "rows": "7",
        }
        for wrong, words in (
            ({"rows": "many"}, "must be a whole number"),
            ({"method": "marginals"}, "must list the sets"),
            ({"method": "marginals", "marginals": "ward + nothing"}, "not among the columns"),
        ):
            refused = owner.post("/console/releases", **(asked | wrong))
            assert refused.status_code == 400
            assert words in refused.text
            # What was typed is still there, and the page does not go away by itself.
            assert f'value="{wrong.get("marginals", wrong.get("rows", "7"))}"' in refused.text
            assert "data-again" not in refused.text
        put = owner.post("/console/releases", **asked)
        assert "data-again" in owner.get(put.headers["location"]).text
        (job,) = served.people.jobs.unfinished()
        said, _ = job_back(job.request)
        assert isinstance(said, SyntheticTableRequest)
        table = served.service.make_release(served.access("olga"), said, key="console")
        assert table.rows == 7
        outcome = json_bytes(ReleaseResponse.of("synthesis", table).plain()).decode()
        served.people.jobs.finish(job.id, outcome, failed=False)
        assert f'<a href="/console/releases/{table.receipt.position}">' in owner.get(put.headers["location"]).text
    finally:
        owner.close()
        served.close()


def test_only_owners_make_tables_and_only_those_who_see_the_population_use_them(hospital: Served) -> None:
    before = hospital.spent()
    refused, _ = made(hospital, "alice")
    assert refused.status_code == 403
    assert hospital.spent() == before
    made(hospital)
    (told, *_) = hospital.get("/v1/releases").json()["releases"]
    assert hospital.get("/v1/releases", "dan").json() == {"releases": []}
    assert hospital.get(f"/v1/releases/{told['position']}", "dan").status_code == 404
    for wrong in ("0", "999", "x", "1" * 30):
        assert hospital.get(f"/v1/releases/{wrong}").status_code == 404
    assert hospital.get(f"/v1/releases/{told['position']}?file=exe").status_code == 400


def test_tables_that_cannot_be_made_are_refused_at_once(hospital: Served) -> None:
    before = hospital.spent()
    for words, status in (
        ({"source": "nowhere"}, 422),
        ({"method": "best"}, 400),
        ({"columns": ["street"], "source": "visits"}, 422),
        ({"rows": 0}, 400),
        ({"minutes": 100000}, 400),
        ({"marginals": "ward"}, 400),
        ({"within": 3}, 400),
        ({"epsilon": "two"}, 400),
        ({"source": "SELECT salary > 3000 AS rich FROM staff"}, 400),
    ):
        response, _ = made(hospital, **words)
        assert response.status_code == status, (words, response.text)
    _, job = made(hospital, epsilon=900)
    assert job["error"]["code"] == "budget"
    assert hospital.spent() == before


def test_a_worker_that_dies_is_followed_by_another_under_the_same_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve()
    try:
        from tacit.releases import synthesis as table_synthesis_release

        real, calls = table_synthesis_release.measure_table, []

        def once(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 1:
                raise Killed
            return real(*arguments)

        monkeypatch.setattr(table_synthesis_release, "measure_table", once)
        key = {"idempotency-key": "one"}
        with pytest.raises(Killed):
            served.service.make_release(served.access("olga"), _said(), key="one")
        assert served.spent() == 2
        _, job = made(served, headers=key)
        assert job["state"] == "done"
        assert (served.spent(), len(calls)) == (Fraction(2), 2)
    finally:
        served.close()


def test_the_client_makes_checks_and_asks_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    served, loop = serve(), asyncio.new_event_loop()
    try:
        remote = remote_of(served, "olga", monkeypatch, loop)
        # The job begins when its state was told once, however quick it is.
        told, make = threading.Event(), CuratorService.make_release

        def once_told(*words: Any, **named: Any) -> Any:
            assert told.wait(60)
            return make(*words, **named)

        monkeypatch.setattr(CuratorService, "make_release", once_told)
        words: dict[str, Any] = {"source": TABLE["source"], "method": "mst", "rows": 30}
        table = remote.synthesize(**words, epsilon=2, delta="1e-7", progress=lambda _: told.set())
        (about,) = table.about.tables
        assert (about.name, about.rows, table.table().num_rows) == ("rows_synthetic", 30, 30)
        assert table.table("rows_synthetic").equals(table.table())
        assert "ward: measured" in about.report
        assert remote.sql("SELECT COUNT(*) AS n FROM rows_synthetic", epsilon=1).is_public
        assert [each.position for each in remote.releases("synthesis")] == [table.receipt.position]
        again = remote.released("rows_synthetic")
        assert again.receipt.to_json() == table.receipt.to_json()
        with pytest.raises(InputError):
            remote.synthesize("visits", within=3)
        with pytest.raises(BudgetError):
            remote.synthesize(**words, epsilon=900, delta="1e-7")
        assert served.spent() == 2
        remote.close()
    finally:
        served.close()
        loop.close()


def _said() -> Any:
    words = {name: value for name, value in TABLE.items() if name not in ("epsilon", "delta")}
    return release_of(SyntheticTableRequest.text(words, {"epsilon": "2", "delta": "1e-7"}).encode())


def test_the_text_of_a_job_is_the_same_in_every_process() -> None:
    """A repeat under one key may come to another worker, whose sets have another order."""
    words = {
        "kind": "synthesis",
        "rho": 1,
        "nulls": ["b"],
        "method": "mst",
        "rows": 5,
        "minutes": 3,
        "source": "t",
    }
    texts = {job_text(release_of(json_bytes(dict(order))), "k") for order in list(permutations(words.items()))[::50]}
    assert len(texts) == 1
    told, _ = json.loads(texts.pop())
    assert list(told) == [name for name in SyntheticTableRequest.model_fields if name in words]
