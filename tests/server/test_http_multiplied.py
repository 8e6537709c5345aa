"""Gated multiplications over HTTP: refused by the text, the same on neighbours, and nothing is charged or read."""

from __future__ import annotations

from typing import Any

import pytest

from support.served import error, rows, serve
from support.toy_engine import ToyEngine

LISTS = "".join(f" CROSS JOIN (VALUES {', '.join(f'({i})' for i in range(30))}) x{n}(a{n})" for n in range(5))
SELF_JOIN = (
    "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.patient = b.patient JOIN visits c ON b.patient = c.patient "
    "JOIN visits d ON c.patient = d.patient WHERE a.patient = 17"
)
QUERIES = [
    f"SELECT COUNT(*) AS n FROM visits v{LISTS} WHERE v.patient = 17",
    f"SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE patient = 17) v{LISTS}",
    f"SELECT ward, COUNT(*) AS n FROM visits v{LISTS} WHERE v.patient = 17 GROUP BY ward",
    SELF_JOIN,
    f"SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w{LISTS} WHERE w.patient = v.patient)",
]


def seen(sql: str, *, there: bool) -> tuple[Any, ...]:
    tables = rows()
    if not there:
        tables["visits"] = [row for row in tables["visits"] if row["patient"] != 17]
    served = serve(engine=ToyEngine(tables), response_step=0.001)
    try:
        asked = served.ask(sql, epsilon=1e-9)
        put = served.ask(sql, epsilon=1e-9, headers={"Prefer": "respond-async"})
        history = served.get("/v1/history").json()
        told = [(each.status_code, error(each.content)) for each in (asked, put)]
        return told, history, served.spent(), served.engine.measured
    finally:
        served.close()


@pytest.mark.parametrize("sql", QUERIES)
def test_a_gated_multiplication_is_refused_alike_on_neighbours(sql: str) -> None:
    told, history, spent, measured = found = seen(sql, there=True)
    assert found == seen(sql, there=False)
    for status, problem in told:
        assert (status, problem["code"]) == (422, "query.work")
        assert "row operations" in problem["message"]
    assert (history["entries"], spent, measured) == ([], 0, 0)
