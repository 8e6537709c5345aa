"""Workloads over HTTP and in the console: jobs, one charge, answers that are free to read."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.remote_client import remote_of
from support.served import Served, serve
from support.visiting import Visitor
from tacit import Workload
from tacit.core.errors import DelayedError, InputError
from tacit.releases.payment import Ending
from tacit.releases.workload import WorkloadRequest
from tacit.server.api.request import job_back, release_of
from tacit.server.identity import TokenScope

SOURCE = "SELECT ward, patient % 2 = 0 AS even FROM visits"
ASKED: dict[str, Any] = {
    "kind": "workload",
    "source": SOURCE,
    "workload": [{"marginals": ["ward", "even"], "ways": 2}, {"product": [{"each": "ward"}, {"total": "even"}]}],
    "epsilon": 2,
    "delta": 1e-7,
}


@pytest.fixture(scope="module")
def hospital() -> Iterator[Served]:
    """One hospital for tests that do not mind charges."""
    served = serve()
    yield served
    served.close()


def answered(served: Served, name: str = "olga", **words: Any) -> tuple[Any, Any]:
    """The response to a request for a workload, and the end of its job."""
    return served.job("/v1/releases", ASKED | words, name)


def test_a_workload_is_answered_once_and_read_for_nothing(hospital: Served) -> None:
    before = hospital.spent()
    _, job = answered(hospital)
    release = job["release"]
    made = release["about"]
    wards = 3
    assert [(each["columns"], each["queries"]) for each in made["tables"]] == [
        (["even", "ward"], 2 * wards),
        (["ward"], wards),
    ]
    assert made["queries"] == 3 * wards
    assert hospital.spent() - before == 2
    (told,) = hospital.get("/v1/releases").json()["releases"]
    assert (told["position"], told["source"]) == (release["position"], SOURCE)
    place = f"/v1/releases/{told['position']}"
    assert hospital.get(place).json() == release
    rows = pq.read_table(io.BytesIO(hospital.get(f"{place}?file=table-0.parquet").content))
    assert rows.column_names == ["even", "ward", "count", "stddev", "low", "high"]
    assert rows.num_rows == 2 * wards
    text = hospital.get(f"{place}?file=table-1.csv")
    assert text.headers["content-disposition"].endswith("-1.csv")
    assert len(text.text.splitlines()) == 1 + wards
    _, again = answered(hospital)
    assert again["release"]["position"] == release["position"]
    assert hospital.spent() - before == 2


def test_an_analyst_pays_with_the_own_share_and_those_who_see_the_population_read(hospital: Served) -> None:
    asked = ASKED | {"epsilon": 0.25}
    accepted, job = hospital.job("/v1/releases", asked, "alice")
    assert accepted.status_code == 202
    (mine, *_) = hospital.get("/v1/history", "alice").json()["entries"]
    assert mine["position"] == job["release"]["position"]
    _, again = hospital.job("/v1/releases", asked, "olga")
    assert again["release"]["position"] == job["release"]["position"]
    refused, _ = answered(hospital, "dan")
    assert refused.status_code in (403, 422)
    (told, *_) = hospital.get("/v1/releases?kind=workload", "alice").json()["releases"]
    assert hospital.get("/v1/releases", "dan").json() == {"releases": []}
    assert hospital.get(f"/v1/releases/{told['position']}", "dan").status_code == 404
    for wrong in ("0", "999", "x", "1" * 30):
        assert hospital.get(f"/v1/releases/{wrong}").status_code == 404
    for query in ("file=table-0.exe", "file=table--1.csv", "file=table-99.csv", "file="):
        assert hospital.get(f"/v1/releases/{told['position']}?{query}").status_code == 400


def test_a_job_is_run_for_the_person_so_that_a_lesser_token_cannot_submit_it(hospital: Served) -> None:
    """An owner's job does not wait for response times, which a token that may only ask is held to."""
    lesser = hospital.people.issue("olga", scopes=[TokenScope.ASK], expires=None, operator="test")
    refused = hospital.call(
        "POST", "/v1/releases", "olga", json=ASKED, headers={"Authorization": f"Bearer {lesser.text}"}
    )
    assert refused.status_code == 400
    assert "admin" in refused.json()["error"]["message"]


class Watched:
    """A response time that writes down how it was used, and lets everything pass or nothing."""

    seconds = None

    def __init__(self, *, passes: bool = True) -> None:
        self.seen: list[Any] = []
        self._passes = passes

    def check(self, plan: Any) -> None:
        self.seen.append(("check", plan.final.population))

    def begin(self, plan: Any) -> None:
        self.seen.append(("begin", plan.unit_work))

    def end(self, *, failed: bool) -> Ending:
        self.seen.append(("end", failed))
        return Ending.DONE if self._passes else Ending.DELAYED


def test_an_analyst_sees_the_outcome_at_its_response_time_and_an_owner_at_once(hospital: Served) -> None:
    def answer(name: str, timer: Watched, epsilon: str) -> Any:
        said = release_of(json.dumps(ASKED | {"epsilon": float(epsilon)}).encode())
        return hospital.service.make_release(hospital.access(name), said, timer=timer)  # type: ignore[arg-type]

    fresh, repeat, owners, late = Watched(), Watched(), Watched(), Watched(passes=False)
    answer("alice", fresh, "0.125")
    work = dict(fresh.seen)
    assert (work["check"], work["end"]) == ("patients", False)
    assert 0 < work["begin"] < 10_000
    answer("alice", repeat, "0.125")
    answer("olga", owners, "0.0625")
    assert repeat.seen == owners.seen == []
    # What was not ready has no outcome, whatever the run has made, and is run again under its charge.
    with pytest.raises(DelayedError):
        answer("alice", late, "0.03125")
    spent = hospital.spent()
    answer("alice", Watched(), "0.03125")
    assert hospital.spent() == spent


def test_workloads_that_cannot_be_answered_are_refused_at_once(hospital: Served) -> None:
    before = hospital.spent()
    for words, status in (
        ({"source": "nowhere"}, 422),
        ({"workload": []}, 400),
        ({"workload": "ward"}, 400),
        ({"workload": [{"marginals": ["street"], "ways": 1}]}, 422),
        ({"workload": [{"marginals": ["ward"], "ways": 1.5}]}, 400),
        ({"workload": [{"prefixes": ["ward"]}]}, 400),
        ({"workload": [{"best": "ward"}]}, 400),
        ({"workload": [{"matrix": ["even"], "rows": ["10"]}]}, 400),
        ({"within": 3}, 400),
        ({"epsilon": "two"}, 400),
    ):
        response, _ = answered(hospital, **words)
        assert response.status_code == status, (words, response.text)
    _, job = answered(hospital, epsilon=900)
    assert job["error"]["code"] == "budget"
    assert hospital.spent() == before


def test_a_remote_curator_reads_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    served, loop = serve(), asyncio.new_event_loop()
    try:
        remote = remote_of(served, "olga", monkeypatch, loop)
        workload = Workload.marginals(["ward", "even"], ways=1) + Workload.prefixes("even")
        made = remote.answer_workload(SOURCE, workload, epsilon="1", delta="1e-7", confidence="0.9")
        place = [each.columns for each in made.about.tables].index(["ward"])
        assert made.about.queries == workload.count({"ward": len(made.table(f"table-{place}")), "even": 2})
        assert remote.released(made.receipt.position).table().equals(made.table("table-0"))
        assert [each.position for each in remote.releases("workload")] == [made.receipt.position]
        with pytest.raises(InputError):
            made.table("table-9")
        assert served.spent() == 1
        remote.close()
    finally:
        served.close()
        loop.close()


def test_the_console_quotes_answers_and_hands_out_a_workload() -> None:
    served = serve()
    owner, analyst = Visitor(served), Visitor(served)
    try:
        owner.sign_in("olga")
        assert "There are none yet." in owner.get("/console/releases").text
        asked = {
            "kind": "workload",
            "source": SOURCE,
            "columns": "ward, even",
            "ways": "2",
            "epsilon": "2",
            "delta": "1e-7",
        }
        quoted = owner.post("/console/releases", **asked, do="quote")
        assert "root-mean-square error" in quoted.text
        for wrong in ({"epsilon": "-1"}, {"ways": "ranges"}, {"ways": "best"}, {"kind": "best"}):
            assert owner.post("/console/releases", **(asked | wrong), do="make").status_code == 400
        assert served.spent() == 0
        put = owner.post("/console/releases", **asked, do="make")
        assert put.status_code == 303
        assert "<strong>waiting</strong>" in owner.get(put.headers["location"]).text
        (job,) = served.people.jobs.unfinished()
        said, _ = job_back(job.request)
        assert isinstance(said, WorkloadRequest)
        position = served.service.make_release(served.access("olga"), said, key="console").receipt.position
        analyst.sign_in("alice")
        assert f"/console/releases/{position}" in analyst.get("/console/releases").text
        assert "Answer a workload" in analyst.get("/console/releases").text
        shown = analyst.get(f"/console/releases/{position}").text
        assert "Answers: even × ward" in shown
        assert shown.count('<td class="number">') == 2 * 6
        assert "<svg" in shown
        assert "Answers: even × ward" in analyst.get(f"/console/releases/{position}?table=0").text
        for wrong in ("1", "-1", "x", "99999999999999"):
            assert analyst.get(f"/console/releases/{position}?table={wrong}").status_code == 404
        assert analyst.get(f"/console/releases/{position}/table-0.csv").text.startswith("even,ward,count")
        assert analyst.get(f"/console/releases/{position}/table-0.exe").status_code == 404
        assert "root-mean-square error" in analyst.post("/console/releases", **asked, do="quote").text
        assert served.spent() == Fraction(2)
    finally:
        for visitor in (owner, analyst):
            visitor.close()
        served.close()
