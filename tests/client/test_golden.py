"""The JSON of every endpoint is as it was recorded, and so is the client's reading of it.

``TACIT_RECORD=1`` writes the files anew: for a field that is added on purpose, never for one that changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest

from support.wire_records import EVERY_CELL, GOLDEN, Recorder, as_text, clinic, golden, masked, recorded
from tacit.client.account_responses import (
    BudgetResponse,
    BudgetsResponse,
    HistoryResponse,
    TableResponse,
    TablesResponse,
)
from tacit.client.http_client import error_of
from tacit.client.remote_curator import RemoteRows
from tacit.client.responses import AnswerResponse, QuoteResponse, answer_json
from tacit.client.trust import identity_of
from tacit.server.api.routes import ROUTES, description

RECORD = bool(os.environ.get("TACIT_RECORD"))
BUDGETS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": "1000"},
    "zcdp": {"accounting": "zcdp", "epsilon": "1000", "delta": "1e-6"},
    "gdp": {"accounting": "gdp", "mu": "1000", "relation": "replace_one"},
}


def compare(name: str, content: Any) -> None:
    text = as_text(content)
    if RECORD:
        (GOLDEN / f"{name}.json").write_text(text, encoding="utf-8")
    assert text == (GOLDEN / f"{name}.json").read_text(encoding="utf-8"), name


def test_every_endpoint_says_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = recorded(monkeypatch)
    for name, content in found.items():
        compare(name, content)
    named = {path.stem for path in GOLDEN.glob("*.json")}
    assert named == {*found, "openapi", *(f"clinic_{kind}" for kind in BUDGETS), "read"}


def test_the_description_is_as_recorded() -> None:
    compare("openapi", description(ROUTES))


@pytest.mark.parametrize("kind", BUDGETS)
def test_every_kind_of_cell_and_of_guarantee(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    recorder.seed(kind)
    curator = clinic(BUDGETS[kind])
    recorder.seed(f"{kind} answer")
    answer = curator.sql(EVERY_CELL, epsilon="2")
    shown = {
        "answer": AnswerResponse.of(answer).plain(),
        "printed": answer_json(curator, answer),
        "quote": QuoteResponse.of(curator.explain(EVERY_CELL, epsilon="0.5"), engine=True).plain(),
        "budget": BudgetResponse.of(curator.budget(answer)).plain(),
        "table": [TableResponse.of(each).plain() for each in curator.tables()],
    }
    compare(f"clinic_{kind}", masked(json.loads(json.dumps(shown))))


def _rows(body: Any) -> Any:
    rows = RemoteRows.of(AnswerResponse.read(body))
    return [rows.columns, rows.values, rows.ends, rows.confidence]


def _quote(body: Any) -> Any:
    quote = QuoteResponse.read(body)
    return [*quote.to_domain(), quote.queries_left, quote.response_time]


def _key(body: Any) -> Any:
    body = json.loads(
        json.dumps(body).replace("<public_key>", "ab" * 32).replace("<id>", "1a").replace("<hash>", "0" * 64)
    )
    return astuple(identity_of(body))


#: Readers of the client, by endpoint.
READERS: dict[str, Callable[[Any], Any]] = {
    "answer": _rows,
    "answer_private_keys": _rows,
    "quote": _quote,
    "quote_owner": _quote,
    "budget": lambda body: [each.to_domain() for each in BudgetsResponse.read(body).budgets],
    "budget_one": lambda body: [each.to_domain() for each in BudgetsResponse.read(body).budgets],
    "tables": lambda body: [each.to_domain().table for each in TablesResponse.read(body).tables],
    "history": lambda body: [each.to_domain() for each in HistoryResponse.read(body).entries],
    "key": _key,
}


def test_the_client_reads_what_was_recorded() -> None:
    read = {name: repr(reader(golden(name)["body"])) for name, reader in READERS.items()}
    for kind in BUDGETS:
        body = golden(f"clinic_{kind}")
        read[f"clinic_{kind}"] = repr(
            [
                _rows(body["answer"]),
                _quote(body["quote"]),
                BudgetResponse.read(body["budget"]).to_domain(),
                *(TableResponse.read(each).to_domain() for each in body["table"]),
            ]
        )
    for path in sorted(GOLDEN.glob("error_*.json")):
        content = golden(path.stem)
        found = error_of(content["body"], content["status"])
        read[path.stem] = f"{type(found).__name__}: {found}"
    compare("read", read)
