"""Every byte that paid work leaves in the ledger, with fixed randomness and time.

A stored ledger gives repeats for nothing only as long as the names of releases, orders and receipts keep their bytes.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tacit
from support.bits import SeededBits
from support.clinic import COUNT, open_clinic
from support.toy_curators import toy_curator
from support.toy_engine import Killed
from tacit.core.errors import EngineError, FailedRunError
from tacit.curator.curator import Curator
from tacit.engines.duckdb import DuckDBEngine
from tacit.engines.protocol import DataSource
from tacit.learn import LogisticRegression
from tacit.ledger import journal
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import DOUBLE, INTEGER, TEXT

GOLDEN = Path(__file__).with_name("golden_payments.json")
BUDGETS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": "8"},
    "approx": {"accounting": "approx", "epsilon": "8", "delta": "1e-2"},
    "zcdp": {"accounting": "zcdp", "rho": "8", "delta": "1e-2"},
    "gdp": {"accounting": "gdp", "mu": "5"},
}
#: The price of half an epsilon, and of a quarter, as each account counts it; without a share for what is left out.
HALF: dict[str, dict[str, Any]] = {
    kind: {"bias_share": 0, **({"rho": "1/8"} if kind == "zcdp" else {"epsilon": "0.5"})} for kind in BUDGETS
}
QUARTER: dict[str, dict[str, Any]] = {
    kind: {"bias_share": 0, **({"rho": "1/32"} if kind == "zcdp" else {"epsilon": "0.25"})} for kind in BUDGETS
}
STREETS = "SELECT street, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY street"
#: Times differ with the machine; that of the first entry of a ledger is of the same clock.
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class Noon(dt.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return NOON


def seed(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    bits = SeededBits(number)
    monkeypatch.setattr(entropy, "current", lambda: bits)


def written(curator: Curator) -> list[dict[str, Any]]:
    """All entries of a ledger with the bytes they hold."""
    store = curator.ledger.journal.store
    found = []
    for entry in store.entries():
        papers = {name: store.attachment(entry.seq, name) for name in ("result", "receipt")}
        found.append({"entry": entry.body, "hash": entry.hash} | {k: v.decode() for k, v in papers.items() if v})
    return found


def queries(kind: str, _: Path, __: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    curator, _engine = open_clinic(**BUDGETS[kind])
    curator.sql(COUNT, **HALF[kind], analyst="alice", idempotency_key="k1")
    other = curator.sql("SELECT COUNT(*) AS m, ward AS w FROM visits GROUP BY ward -- mine", **HALF[kind])
    if kind in ("approx", "zcdp"):
        curator.sql(STREETS, **HALF[kind], delta="1e-5")
    return [*written(curator), {"receipt": other.receipt.to_json()}]


def mechanisms(kind: str, _: Path, __: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    curator, _engine = open_clinic(**BUDGETS[kind])
    noise = tacit.Laplace(epsilon="0.25", l1_sensitivity=1)
    curator.release(noise, [3, 10**18], label="smokers", analyst="alice", idempotency_key="k1")
    curator.release(noise, [3, 10**18], label="smokers", analyst="alice", idempotency_key="k1")
    curator.charge(tacit.PureDP("0.125"), label="elsewhere")

    class Broken(tacit.Laplace):
        def release(self, value: Any, /) -> Any:
            raise ValueError("broken")

    with pytest.raises(Exception, match="operator"):
        curator.release(Broken(epsilon="0.25", l1_sensitivity=1), 3, label="broken", idempotency_key="k2")
    with pytest.raises(FailedRunError):
        curator.release(Broken(epsilon="0.25", l1_sensitivity=1), 3, label="broken", idempotency_key="k2")
    return written(curator)


def failures(kind: str, _: Path, __: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    curator, engine = open_clinic(**BUDGETS[kind])
    engine.fail = EngineError("row 7 is odd")
    words = []
    for _ in range(2):
        with pytest.raises(FailedRunError) as caught:
            curator.sql(COUNT, **HALF[kind])
        words.append(str(caught.value))
    engine.fail = Killed()
    with pytest.raises(Killed):
        curator.sql(COUNT, **QUARTER[kind])
    engine.fail = None
    curator.sql(COUNT, **QUARTER[kind])
    return [*written(curator), {"words": words}]


def planned(kind: str, folder: Path, __: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    curator, _engine = open_clinic(**BUDGETS[kind])
    total = {"pure": 'epsilon = "1"', "zcdp": 'rho = "0.5"', "gdp": 'mu = "1"', "approx": 'epsilon = "1"'}[kind]
    place = folder / "plan.toml"
    place.write_text(
        f'[release]\nname = "The year"\n{total}\nbias_share = 0\n[statistics.a]\nsql = "{COUNT}"\nweight = 2\n'
        f'[statistics.b]\nsql = "SELECT AVG(cost) AS m FROM visits"\n'
    )
    curator.publish(place, output=folder)
    curator.publish(place, output=folder)
    return [*written(curator), {"report": (folder / "report.html").read_text().partition("<section")[0]}]


def fits(kind: str, _: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    columns = (
        Column("patient", INTEGER),
        Column("dose", DOUBLE, bounds=(-1.0, 1.0)),
        Column("outcome", TEXT, categories=("ill", "well")),
    )
    known = Catalog((Table("visits", columns, population="patients", unit="patient"),), (Population("patients"),))
    # No rows: the minimiser is then zero on every machine, and what is released is the exact noise alone.
    rows = pa.table(
        {"patient": pa.array([], pa.int64()), "dose": pa.array([], pa.float64()), "outcome": pa.array([], pa.string())}
    )
    curator = toy_curator(known, DuckDBEngine(known, {"visits": DataSource("frame", None, rows)}), BUDGETS[kind])
    true = DuckDBEngine.examples

    def examples(self: Any, *given: Any) -> Any:
        seed(monkeypatch, 7)  # Whatever was drawn to find the price, the fit itself begins here.
        return true(self, *given)

    monkeypatch.setattr(DuckDBEngine, "examples", examples)
    curator.fit(LogisticRegression(epsilon="0.5", method="output"), "SELECT dose, outcome FROM visits", analyst="alice")
    monkeypatch.setattr(DuckDBEngine, "examples", lambda *_: 1 / 0)
    with pytest.raises(FailedRunError):
        curator.fit(LogisticRegression(epsilon="0.5", method="output"), "SELECT dose, outcome FROM visits")
    return written(curator)


WORK = {
    f"{make.__name__} {kind}": (make, kind)
    for make in (queries, mechanisms, failures, planned, fits)
    for kind in BUDGETS
    if (make.__name__, kind) != ("planned", "approx")  # Its factor is searched in floats.
}


def made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    seed(monkeypatch, 20261115)
    monkeypatch.setattr(journal, "datetime", Noon)
    make, kind = WORK[name]
    return json.loads(json.dumps(make(kind, folder, monkeypatch)))


@pytest.mark.parametrize("name", WORK)
def test_paid_work_writes_the_bytes_it_always_wrote(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(name, tmp_path, monkeypatch) == json.loads(GOLDEN.read_text())[name]
