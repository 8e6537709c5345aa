"""A hospital and a clinic whose responses are repeatable, and the parts of a response that never are."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from support.bits import SeededBits
from support.served import COUNT, STAFF, Served, serve
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.core.relations import as_relation
from tacit.curator.curator import Curator
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, decimal

GOLDEN: Final = Path(__file__).parents[1] / "client" / "golden"
#: Made anew in every run: keys, ids, hashes and times.
_FRESH: Final = (
    *("signature", "public_key", "hash", "previous", "key", "time", "token", "id", "issued", "expires", "used"),
    *("accepted", "released", "catalog"),
)
_TOKEN_OR_ID: Final = re.compile(r"tacit_\w+|\b(?=[0-9]*[a-f])[0-9a-f]{12}(?:[0-9a-f]{4,})?\b")

DAYS: Final = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
TIMES: Final = (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31, 23, 59, 59))
#: Every type of a column, and every kind of declaration.
CATALOG: Final = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("<b>ä</b>", 'b"', None), nullable=True),
                Column("emergency", BOOLEAN, categories=(True, False)),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(10**12)), step=Fraction(1, 4)),
                Column("units", INTEGER, bounds=(-(2**60), 2**60)),
                Column("weight", DOUBLE, bounds=(0.5, 300.25)),
                Column("day", DATE, bounds=DAYS),
                Column("moment", TIMESTAMP, bounds=TIMES),
            ),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
EVERY_CELL: Final = (
    "SELECT ward, emergency, COUNT(*) AS n, SUM(cost) AS s, SUM(units) AS u, AVG(cost) AS m, MEDIAN(day) AS d, "
    "MEDIAN(moment) AS t, AVG(weight) AS w, COUNT(*) > 10 AS many, NULL AS nothing "
    "FROM visits GROUP BY ward, emergency"
)
QUOTED: Final = "SELECT street, AVG(cost) AS a, MEDIAN(units) AS m FROM visits GROUP BY street"


def clinic(budget: dict[str, Any]) -> Curator:
    """A curator of one table with a column of every type."""
    rows = [
        {
            "patient": i,
            "ward": "<b>ä</b>" if i % 3 else None,
            "emergency": i % 2 == 0,
            "cost": Fraction(i * 10**9),
            "units": i * 2**52,
            "weight": i / 7,
            "day": DAYS[0] + dt.timedelta(days=i % 366),
            "moment": TIMES[0] + dt.timedelta(hours=i),
        }
        for i in range(600)
    ]
    people = Population("patients", relation=as_relation(budget.get("relation", "add_remove")))
    catalog = Catalog(CATALOG.tables, (people,))
    return toy_curator(catalog, ToyEngine({"visits": rows}), budget)


class Recorder:
    """Responses by name, each made with bits of its own, so that one more draw in one changes no other."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, Any] = {}
        self._patch = patch

    def seed(self, name: str) -> None:
        """Begin the bits of a response."""
        bits = SeededBits(sum(name.encode()))
        self._patch.setattr(entropy, "current", lambda: bits)

    def put(self, name: str, response: Any) -> Any:
        """Keep a response of the application."""
        content = json.loads(response.content)
        self.found[name] = {"status": response.status_code, "body": masked(content)}
        return content


def masked(content: Any, name: str = "") -> Any:
    """The same without what is made anew in every run."""
    if isinstance(content, dict):
        return {key: masked(value, key) for key, value in content.items()}
    if isinstance(content, list):
        return [masked(item, name) for item in content]
    if not isinstance(content, str):
        return content
    if name in _FRESH and content:
        return f"<{name}>"
    return _TOKEN_OR_ID.sub("<id>", content)


def recorded(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Responses of every endpoint to requests that work and to requests that do not."""
    recorder = Recorder(patch)
    recorder.seed("hospital")
    served = serve()
    try:
        _record(served, recorder)
    finally:
        served.close()
    return recorder.found


def _record(served: Served, to: Recorder) -> None:
    def call(name: str, method: str, path: str, who: str = "alice", **words: Any) -> Any:
        to.seed(name)
        return to.put(name, served.call(method, path, who, **words))

    asked = {"sql": COUNT, "epsilon": 0.5}
    position = call("answer", "POST", "/v1/query", json=asked)["charge"]["position"]
    call("answer_repeated", "POST", "/v1/query", json=asked)
    private = {"sql": "SELECT street, SUM(units) AS u FROM visits GROUP BY street", "epsilon": 2, "delta": 1e-7}
    call("answer_private_keys", "POST", "/v1/query", json=private)
    call("quote", "POST", "/v1/explain", json={"sql": QUOTED, "epsilon": 0.5, "confidence": 0.9, "suppose": 100})
    call("quote_owner", "POST", "/v1/explain", "olga", json={"sql": STAFF, "within": 20})
    call("budget", "GET", "/v1/budget")
    call("budget_one", "GET", "/v1/budget?population=employees")
    call("tables", "GET", "/v1/tables")
    call("history", "GET", "/v1/history")
    call("history_page", "GET", "/v1/history?limit=1")
    call("receipt", "GET", f"/v1/receipts/{position}")
    call("key", "GET", "/v1/key")
    call("me", "GET", "/v1/me")
    call("me_limited", "GET", "/v1/me", "carol")
    call("health", "GET", "/v1/health", "")
    asyncio.run(_jobs(served, to))
    call("queries", "GET", "/v1/queries", "olga")
    call("query_stopped", "DELETE", "/v1/queries/1-1", "olga")
    bad: dict[str, Any] = {
        "unknown_field": {**asked, "more": 1},
        "missing": {"epsilon": 1},
        "text_for_number": {**asked, "epsilon": "1,5"},
        "number_for_text": {"sql": 1},
        "fraction_for_count": {**asked, "max_groups": 1.5},
        "text_for_count": {**asked, "suppose": "1"},
        "list_for_numbers": {**asked, "weights": []},
        "text_in_numbers": {**asked, "weights": {"n": "-1"}},
        "null": {**asked, "within": None},
        "nothing_stated": {"sql": COUNT},
        "contradiction": {**asked, "rho": 1},
        "too_small": {"sql": COUNT, "epsilon": 1e-13},
        "too_large": {"sql": COUNT, "epsilon": 1e7},
        "too_sure": {**asked, "confidence": 0.001},
        "refused": {"sql": "SELECT * FROM visits", "epsilon": 1},
        "unaffordable": {"sql": COUNT, "epsilon": 11},
    }
    for name, body in bad.items():
        call(f"error_{name}", "POST", "/v1/query", json=body)
    call("error_body", "POST", "/v1/query", content=b"{", headers={"content-type": "application/json"})
    call("error_object", "POST", "/v1/query", json=[1])
    call("error_token", "GET", "/v1/me", "")
    call("error_scope", "GET", "/v1/queries")
    call("error_unknown", "GET", "/v1/receipts/999")
    served.engine.measure = _broken
    call("error_engine", "POST", "/v1/query", json={"sql": COUNT, "epsilon": 0.25})


async def _jobs(served: Served, to: Recorder) -> None:
    """A job that is done and one that failed; both run on the event loop that took them."""
    async with served.client("alice", prefer="respond-async") as client:
        for name, epsilon in (("job", 1), ("job_failed", 100)):
            to.seed(name)
            put = to.put(f"{name}_put", await client.post("/v1/query", json={"sql": STAFF, "epsilon": epsilon}))
            while (response := await client.get(f"/v1/jobs/{put['id']}")).json()["state"] in ("waiting", "running"):
                await asyncio.sleep(0.01)
            to.put(name, response)


def _broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a value of a person")


def golden(name: str) -> Any:
    """A recorded response."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def as_text(content: Any) -> str:
    """A response as its file holds it: fields in the order in which they are sent."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
