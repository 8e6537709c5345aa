"""What an answer and a quote say: no bound that is none, and nothing about how much data there is."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tacit
from tacit.curator.wire import answer_wire
from tacit.engines.duckdb import statements

COLUMNS = {"a": (0, 100), "g": ["x", "y", "z"]}
SQL = "SELECT g, AVG(a) AS m, COUNT(*) AS n, MEDIAN(a) AS d FROM data GROUP BY g"


def table(rows: int) -> pa.Table:
    return pa.table(
        {"id": list(range(rows)), "a": [float(i % 100) for i in range(rows)], "g": ["xyz"[i % 3] for i in range(rows)]}
    )


def test_an_end_that_nothing_bounds_is_null_and_not_the_largest_double() -> None:
    sql = "SELECT LN(COUNT(*) - 50) AS l, EXP(SUM(a)) AS e, SQRT(COUNT(*) - 900) AS s, COUNT(*) AS n FROM data"
    with tacit.open(table(20), unit="id", epsilon="100", columns=COLUMNS) as curator:
        open_ends = 0
        for epsilon in ("0.01", "0.1", "1"):
            answer = curator.sql(sql, epsilon=epsilon)
            for row in answer.finished.intervals():
                for low, high in row:
                    assert low != -sys.float_info.max
                    assert high != sys.float_info.max
                    open_ends += (low is None) + (high is None)
            assert "1.797" not in str(answer) + answer._repr_html_() + str(answer_wire(answer))
            assert "no bound" in str(answer)
            assert answer.intervals()["n_low"].null_count == 0
    assert open_ends > 0


def test_a_quote_does_not_tell_how_large_the_data_is(tmp_path: Path) -> None:
    texts = set()
    for rows in (3, 20_000):
        pq.write_table(table(rows), tmp_path / f"{rows}.parquet")
        for large in (1, 10**12):
            statements._LARGE, kept = large, statements._LARGE
            try:
                words = {"unit": "id", "epsilon": "1", "table": "data", "max_groups": 2, "columns": COLUMNS}
                with tacit.open(tmp_path / f"{rows}.parquet", **words) as curator:
                    quote = curator.explain(SQL, epsilon="1")
                    texts.add(str(quote) + quote.to_json())
            finally:
                statements._LARGE = kept
    assert len(texts) == 1
