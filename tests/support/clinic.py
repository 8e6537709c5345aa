"""A small clinic for tests of the curator, and a program that asks it something in a process of its own.

``python -m support.clinic <ledger> <killed at> <sql>``: prints the answer as JSON, unless it is killed on the way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from fractions import Fraction
from typing import Any

from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.curator.curator import Curator
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER, TEXT, decimal

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("a", "b", "c")),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(100))),
                Column("street", TEXT),
            ),
            population="patients",
            unit="patient",
        ),
    ),
    (Population("patients"),),
)
# Every person is in several groups, so that which one counts depends on the ledger's secret.
ROWS: list[dict[str, Any]] = [
    {"patient": i // 3, "ward": "abc"[i % 3], "cost": Fraction(i % 101), "street": f"street {i % 2}"}
    for i in range(900)
]
COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def open_clinic(ledger: Any = ":memory:", **budget: Any) -> tuple[Curator, ToyEngine]:
    """A curator for the clinic, and its engine."""
    engine = ToyEngine({"visits": ROWS})
    return toy_curator(CATALOG, engine, budget or {"epsilon": "4"}, ledger=ledger), engine


def shown(answer: Any) -> dict[str, Any]:
    """An answer as JSON: rows, whether anything was charged, the receipt."""
    rows = [[str(value) for value in row] for row in answer.finished.values]
    return {"rows": rows, "charged": [str(a) for a in answer.charge.amounts], "receipt": answer.receipt.to_json()}


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(ledger: str, killed_at: str, sql: str) -> None:
    """Ask one query."""
    curator, engine = open_clinic(ledger)
    if killed_at == "measure":
        engine.measure = _die  # type: ignore[method-assign]
    if killed_at == "commit":
        curator.ledger.commit = _die  # type: ignore[method-assign]
    answer = curator.sql(sql, epsilon="0.5", idempotency_key="k1")
    if killed_at == "answer":
        _die()
    print(json.dumps(shown(answer)))


if __name__ == "__main__":
    main(*sys.argv[1:])
