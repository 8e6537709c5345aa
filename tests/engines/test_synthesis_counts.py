"""Counts behind synthetic tables: two tables, NULL as a value and bins by quantiles are the same on every engine."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from engines.makers import postgres_engine
from support.spark import spark_engine
from tacit.synth.synthesis_request import SynthesisRequest
from tacit.synth.synthesis_stages import SynthesisStages

PROJECT = """
[project]
name = "clinic"
[populations.people]
accounting = "zcdp"
rho = "10"
delta = "1e-6"
[tables.patients]
source = "patients.parquet"
population = "people"
unit = "id"
max_rows = 1
[tables.patients.columns]
id = {type = "integer"}
well = {type = "boolean"}
[tables.visits]
source = "visits.parquet"
population = "people"
unit = "patient"
max_rows = 2
[tables.visits.columns]
patient = {type = "integer"}
ward = {type = "text", categories = ["a'", "b"], null_category = true}
cost = {type = "decimal", bounds = [0, 100], step = "0.01"}
day = {type = "date", bounds = ["2020-01-01", "2020-12-31"]}
size = {type = "double", bounds = [0, 8]}
"""


#: Engines that must count as DuckDB does.
MAKERS = {"postgres": postgres_engine, "spark": spark_engine}
BESIDE_DUCKDB = ["postgres", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.parametrize("other", BESIDE_DUCKDB)
def test_every_engine_counts_alike(other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = np.random.default_rng(4)
    count, many = 30, 90
    first = datetime.date(2019, 12, 25)
    frames = {
        "patients": pa.table(
            {"id": np.arange(count), "well": [None if i % 4 == 0 else bool(i % 2) for i in range(count)]}
        ),
        "visits": pa.table(
            {
                "patient": pa.array([None if i == 5 else int(made.integers(0, 34)) for i in range(many)], pa.int64()),
                "ward": [["a'", "b", None, "z"][i] for i in made.integers(0, 4, many)],
                "cost": pa.array(
                    [None if i % 9 == 0 else Decimal(int(made.integers(-5, 10_010))) / 100 for i in range(many)],
                    pa.decimal128(10, 2),
                ),
                "day": [first + datetime.timedelta(int(d)) for d in made.integers(0, 380, many)],
                "size": made.choice([0.0, 0.5, 7.999, 8.0, 8.5, -1.0, float("nan"), 3.25], many),
            }
        ),
    }
    for name, frame in frames.items():
        pq.write_table(frame, tmp_path / f"{name}.parquet")
    (tmp_path / "tacit.toml").write_text(PROJECT)
    context = tacit.open(tmp_path / "tacit.toml").context
    request = SynthesisRequest.of(
        {"patients": None, "visits": None}, None, "mst", {"rho": "1", "nulls": ["well", "cost"]}
    )
    stages = SynthesisStages(context, request)
    counts = [stages._counts(0), stages._counts(1)]
    sets = [[tuple(counts[0].sizes)], [("ward", "cost"), ("day", "size", "number_of_visits")]]

    def told(engine: object) -> list[list[object]]:
        own = replace(context, engine=engine)  # type: ignore[type-var]
        return [
            [each.count(own, wanted)[names].tolist() for names in wanted]
            for each, wanted in zip(counts, sets, strict=True)
        ]

    exact = told(context.engine)
    assert 15 < np.sum(exact[1][0]) < many
    assert np.sum(exact[0][0]) == count
    # Persons have as many rows as are counted of them.
    persons = counts[0].count(context, [("number_of_visits",)])["number_of_visits",]
    assert persons @ np.arange(3) == np.sum(exact[1][0])
    with MAKERS[other](context.catalog, frames) as engine:
        assert told(engine) == exact


#: Texts that stand in a statement once they are found.
TEXTS = ["x", "it's", 'a "b" \\', "-- ;", "ünï", "", "NULL", "%s {0}"]


@pytest.mark.parametrize("other", BESIDE_DUCKDB)
def test_every_engine_counts_found_values_alike(other: str, tmp_path: Path) -> None:
    made = np.random.default_rng(5)
    texts = [None, "too rare", *TEXTS]
    notes = [texts[i] for i in made.integers(0, len(texts), 120)]
    frames = {
        "patients": pa.table({"id": [1], "well": [True]}),
        "visits": pa.table(
            {
                "patient": np.arange(120),
                "ward": [["a'", "b", None, "z"][i] for i in made.integers(0, 4, 120)],
                "cost": pa.array([Decimal(1)] * 120, pa.decimal128(10, 2)),
                "day": [datetime.date(2020, 1, 1)] * 120,
                "size": np.ones(120),
                "note": notes,
            }
        ),
    }
    for name, frame in frames.items():
        pq.write_table(frame, tmp_path / f"{name}.parquet")
    (tmp_path / "tacit.toml").write_text(f'{PROJECT}note = {{type = "text"}}\n')
    context = tacit.open(tmp_path / "tacit.toml").context
    request = SynthesisRequest.of("visits", ["ward", "note"], "independent", {"rho": "1"})
    counts = SynthesisStages(context, request, {"note": TEXTS}).stage(0, []).counts

    def told(engine: object) -> list[list[int]]:
        own = replace(context, engine=engine)  # type: ignore[type-var]
        return [counts.count(own, [names])[names].tolist() for names in [("note",), ("ward", "note")]]

    exact = told(context.engine)
    kept = [note for note, ward in zip(notes, frames["visits"]["ward"].to_pylist(), strict=True) if ward != "z"]
    assert exact[0] == [sum(note not in TEXTS for note in kept), *(kept.count(text) for text in TEXTS)]
    with MAKERS[other](context.catalog, frames) as engine:
        assert told(engine) == exact
