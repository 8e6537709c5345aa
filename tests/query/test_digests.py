"""Queries and plans keep their digests: a ledger recognises a repeat by them, also after an upgrade.

Without the table of what is left out, which is another release than there was before.

``python tests/query/test_digests.py`` (with ``src`` and ``tests`` on the path) writes the file anew.
"""

from __future__ import annotations

from pathlib import Path

from query.corpus.accepted import WRITTEN
from query.corpus.clinic import CATALOG
from tacit.query.planning.plan import make_plan
from tacit.query.request import Account, Request

FILE = Path(__file__).parent / "fixtures" / "digests.txt"


def line(sql: str) -> str:
    priced = any(f"{word} =" in sql or f"{word}=" in sql for word in ("epsilon", "rho", "within"))
    request = Request(epsilon=None if priced else "1", account=Account("zcdp", "1e-6"), bias_share=0)
    plan = make_plan(sql, CATALOG, request)
    return f"{plan.query.digest[:16]} {plan.digest[:16]} {sql}"


def test_digests_stay() -> None:
    known = FILE.read_text(encoding="utf-8").splitlines()
    assert [line(sql) for sql in WRITTEN] == known


if __name__ == "__main__":
    FILE.write_text("".join(f"{line(sql)}\n" for sql in WRITTEN), encoding="utf-8")
