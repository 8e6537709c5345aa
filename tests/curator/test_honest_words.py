"""Words of answers and quotes: no bound that is none, and nothing about how much data there is."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.client.responses import AnswerResponse
from tacit.engines.duckdb import engine

COLUMNS = {"a": (0, 100), "g": ["x", "y", "z"]}


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
            assert "1.797" not in str(answer) + answer._repr_html_() + str(AnswerResponse.of(answer).plain())
            assert "no bound" in str(answer)
            assert answer.intervals()["n_low"].null_count == 0
    assert open_ends > 0


def test_a_quote_does_not_tell_how_large_the_data_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = set()
    columns = {"a": (0, 100), "g": list(range(200))}
    for rows in (3, 20_000):
        numbers = range(rows)
        content = {
            "id": [i // 5 for i in numbers],
            "a": [i % 100 / 1 for i in numbers],
            "g": [i % 200 for i in numbers],
        }
        pq.write_table(pa.table(content), tmp_path / "data.parquet")
        for most in (1, engine.MOST_ROWS):
            monkeypatch.setattr(engine, "MOST_ROWS", most)
            words = {"unit": "id", "epsilon": "1", "max_groups": 2, "max_rows": 3, "columns": columns}
            with tacit.open(tmp_path / "data.parquet", **words) as curator:
                quote = curator.explain("SELECT g, MEDIAN(a) AS d FROM data GROUP BY g", epsilon="1")
                texts.add(str(quote) + quote.to_json())
    assert len(texts) == 1


def test_a_caution_is_a_sentence_of_its_own() -> None:
    with tacit.open(table(3), unit="id", epsilon="100", columns=COLUMNS) as curator:
        assert "100 left (kept in memory: it ends with this process). Caution: epsilon 100" in str(curator.budget())
