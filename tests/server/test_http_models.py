"""Models over HTTP: jobs of owners, one charge, models that are free for those who see the population."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.remote_client import remote_of
from support.served import Served, serve
from support.visiting import Visitor
from tacit.core.errors import BudgetError, InputError
from tacit.learn import PCA, AdditiveClassifier, LinearRegression, LogisticRegression, load_model
from tacit.releases.model import ModelRequest
from tacit.server.api.request import job_back

ROWS = "SELECT CLAMP(cost, 0, 100) AS cost, patient % 2 = 0 AS even FROM visits"
MODEL: dict[str, Any] = {
    "kind": "model",
    "estimator": "LogisticRegression",
    "parameters": {"epsilon": 1, "delta": 1e-7, "steps": 3},
    "sql": ROWS,
}


@pytest.fixture(scope="module")
def hospital() -> Iterator[Served]:
    """One hospital for tests that do not mind charges."""
    served = serve()
    yield served
    served.close()


def made(served: Served, name: str = "olga", headers: Any = None, **words: Any) -> tuple[Any, Any]:
    """The response to a request for a model, and the end of its job."""
    return served.job("/v1/releases", MODEL | words, name, headers)


def test_a_model_is_fitted_once_and_used_for_nothing(hospital: Served) -> None:
    before = hospital.spent()
    _, job = made(hospital, headers={"Idempotency-Key": "once"})
    assert job["state"] == "done", job
    made_once = job["release"]
    model = made_once["about"]
    assert (model["estimator"], model["features"], model["target"]) == ("LogisticRegression", ["cost"], "even")
    assert "LogisticRegression: " in model["report"]
    assert 0.9 < hospital.spent() - before <= 1
    told = hospital.get("/v1/releases?kind=model").json()["releases"][-1]
    assert (told["position"], told["source"]) == (made_once["position"], ROWS)
    assert hospital.get(f"/v1/releases/{told['position']}").json() == made_once
    assert hospital.get(f"/v1/releases/{told['position']}?file=model.json").json()["estimator"] == "LogisticRegression"
    # Sent again it is the same model and no charge; without a key it is a new fit.
    spent = hospital.spent()
    _, again = made(hospital, headers={"Idempotency-Key": "once"})
    assert again["release"] == made_once
    assert hospital.spent() == spent


def test_only_owners_fit_and_only_those_who_see_the_population_use_models(hospital: Served) -> None:
    made(hospital)
    before = hospital.spent()
    assert made(hospital, "alice")[0].status_code == 403
    (told, *_) = hospital.get("/v1/releases", "alice").json()["releases"]
    assert hospital.get("/v1/releases", "dan").json() == {"releases": []}
    assert hospital.get(f"/v1/releases/{told['position']}", "dan").status_code == 404
    for wrong in ("0", "999", "x", "1" * 30):
        assert hospital.get(f"/v1/releases/{wrong}").status_code == 404
    assert hospital.spent() == before


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ({"estimator": "Popen"}, 400),
        ({"estimator": 1}, 400),
        ({"parameters": []}, 400),
        ({"parameters": {"epsilon": 1, "delta": 1e-7, "seed": 3}}, 400),
        ({"parameters": {"delta": 1e-7}}, 400),
        ({"parameters": {"epsilon": -1, "delta": 1e-7}}, 400),
        ({"parameters": {"epsilon": 1, "delta": 1e-7, "classes": "discover"}}, 400),
        ({"parameters": {"epsilon": 1, "delta": 1e-7, "class_weight": {"pairs": 3}}}, 400),
        ({"sql": "SELECT cost FROM nowhere"}, 422),
        ({"sql": "SELECT CAST(cost AS TEXT) AS cost, patient % 2 = 0 AS even FROM visits"}, 422),
        ({"more": 1}, 400),
    ],
)
def test_models_that_cannot_be_fitted_are_refused_at_once(hospital: Served, words: Any, status: int) -> None:
    before = hospital.spent()
    assert made(hospital, **words)[0].status_code == status
    assert hospital.spent() == before


def test_a_client_fits_as_if_it_were_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, loop = serve(), asyncio.new_event_loop()
    try:
        remote = remote_of(served, "olga", monkeypatch, loop)
        fitted = remote.fit(LogisticRegression(epsilon="0.5", delta="1e-7", classes=[False, True], steps=3), ROWS)
        assert fitted.model.classes_.tolist() == [False, True]
        assert fitted.receipt["answers"][0]["query"] == ROWS
        assert fitted.charge.text.startswith("Charged epsilon 0.5")
        again = remote.released(fitted.receipt.position)
        assert again.text == fitted.text
        assert again.charge.text == "A repeated query: charged nothing"
        assert [each.position for each in remote.releases("model")] == [fitted.receipt.position]
        fitted.save(tmp_path / "model.json")
        rows = np.array([[1.0], [50.0], [99.0]])
        np.testing.assert_array_equal(
            load_model(tmp_path / "model.json").predict_proba(rows), fitted.model.predict_proba(rows)
        )
        with pytest.raises(InputError):
            remote.fit(object(), ROWS)
        numbers = "SELECT CLAMP(cost, 0, 1) AS a, CLAMP(cost, 0, 1) AS b FROM visits"
        with pytest.raises(BudgetError):
            remote.fit(LinearRegression(epsilon=900, delta="1e-7"), numbers)
        remote.close()
    finally:
        served.close()
        loop.close()


def test_the_console_fits_shows_and_hands_out_a_model() -> None:
    served = serve()
    owner, analyst, other = Visitor(served), Visitor(served), Visitor(served)
    try:
        owner.sign_in("olga")
        analyst.sign_in("alice")
        assert "There are none yet.</p>" in owner.get("/console/releases").text
        assert "Fit a model" in owner.get("/console/releases").text
        assert analyst.get("/console/releases?make=model").status_code == 404
        asked = {"kind": "model", "sql": ROWS, "estimator": "LogisticRegression", "epsilon": "1", "delta": "1e-7"}
        assert owner.post("/console/releases", **(asked | {"epsilon": "-1"})).status_code == 400
        put = owner.post("/console/releases", **asked)
        assert put.status_code == 303
        assert "The release that you asked for: <strong>waiting</strong>" in owner.get(put.headers["location"]).text
        (job,) = served.people.jobs.unfinished()
        said, _ = job_back(job.request)
        assert isinstance(said, ModelRequest)
        position = served.service.make_release(served.access("olga"), said, key="console").receipt.position
        shapes = AdditiveClassifier(epsilon="0.5", delta="1e-7")
        curved = served.service.curator.fit(shapes, ROWS).receipt.position
        three = AdditiveClassifier(epsilon="0.5", delta="1e-7", classes=[0, 1, 2], rounds=2)
        many = served.service.curator.fit(three, ROWS.replace("2 = 0", "3")).receipt.position
        parts = served.service.curator.fit(PCA(epsilon="0.5", delta="1e-7"), ROWS).receipt.position
        listed = analyst.get("/console/releases").text
        assert f"/console/releases/{position}" in listed
        assert "Fit a model" not in listed
        shown = analyst.get(f"/console/releases/{position}").text
        assert "for one row added or removed" in shown
        assert 'aria-label="Shape of cost' in analyst.get(f"/console/releases/{curved}").text
        assert all(
            f"Shape of cost, class {each}," in analyst.get(f"/console/releases/{many}").text for each in range(3)
        )
        assert "model.transform(rows)" in analyst.get(f"/console/releases/{parts}").text
        assert analyst.get(f"/console/releases/{position}/model.json").json()["estimator"] == "LogisticRegression"
        assert analyst.post("/console/releases", **asked).status_code == 403
        other.sign_in("dan")
        assert other.get(f"/console/releases/{position}").status_code == 404
    finally:
        for visitor in (owner, analyst, other):
            visitor.close()
        served.close()
