"""Limits of one query on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

import tacit
from tacit.core.errors import EngineError, InputError, QueryError
from tacit.query import limits

PROJECT = """
[limits]
seconds = 1
memory = "1GB"
threads = 1

[populations.patients]
mu = "1"
accounting = "gdp"

[tables.visits]
source = "visits.csv"
population = "patients"
unit = "patient"

[tables.visits.columns]
patient = { type = "integer" }

[tables.wards]
source = "wards.csv"
public = true

[tables.wards.columns]
ward = { type = "text" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("patient\n1\n2\n")
    (tmp_path / "wards.csv").write_text("ward\n" + "".join(f"w{i}\n" for i in range(30)))
    (tmp_path / "tacit.toml").write_text(PROJECT)
    return tmp_path


BOMB = f"(SELECT COUNT(*) FROM {' CROSS JOIN '.join(f'wards AS w{i}' for i in range(12))})"


def test_a_query_that_would_never_end_is_refused(folder: Path) -> None:
    with tacit.open(folder / "tacit.toml") as curator:
        with pytest.raises(QueryError, match="row operations") as refused:
            curator.sql(f"SELECT COUNT(*) AS n, {BOMB} AS m FROM visits", epsilon="0.1")
        assert refused.value.code == "query.work"
        assert curator.history() == ()


def test_one_that_gets_through_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PUBLIC_WORK", 10**30)
    with tacit.open(folder / "tacit.toml") as curator:
        with pytest.raises(EngineError):
            curator.sql(f"SELECT COUNT(*) AS n, {BOMB} AS m FROM visits", epsilon="0.1")
        assert len(curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")) == 1


@pytest.mark.parametrize("line", ["seconds = 0", 'memory = "much"', "threads = 0", 'memory = "1GB; DROP"'])
def test_limits_that_are_none_are_named(folder: Path, line: str) -> None:
    word = line.split(" ")[0]
    text = "\n".join(line if old.startswith(f"{word} =") else old for old in PROJECT.splitlines())
    (folder / "tacit.toml").write_text(text)
    with pytest.raises(InputError, match=f"limits.{word}"):
        tacit.open(folder / "tacit.toml")


@pytest.mark.parametrize("price", [{"epsilon": "1e-40"}, {"mu": "1e-40"}, {"epsilon": "1e-300"}])
def test_prices_that_buy_nothing_are_refused_at_once(folder: Path, price: dict[str, str]) -> None:
    with tacit.open(folder / "tacit.toml") as curator, pytest.raises(InputError, match="too small to buy an answer"):
        curator.explain("SELECT COUNT(*) AS n FROM visits", **price)
