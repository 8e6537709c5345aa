"""Counts behind synthetic tables: two tables, NULL as a value and bins by quantiles are the same on every engine."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from engines.makers import postgres_engine
from support.spark import spark_engine
from tacit.core.errors import InputError
from tacit.synthetic_tables.column_bins import QuantileBins
from tacit.synthetic_tables.synthesis_request import SynthesisRequest
from tacit.synthetic_tables.synthesis_stages import SynthesisStages

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
        {"patients": None, "visits": None}, None, {"rho": "1"}, "mst", quantiles=["day", "size"], nulls=["well", "cost"]
    )
    stages = SynthesisStages(context, request)
    grids = stages._grids[1]
    found = {
        (1, name): QuantileBins.on(grid, (0, 3, 200, 201, len(grid.starts) - 1), nulls=False)
        for name, grid in grids.items()
    }
    monkeypatch.setattr(stages, "_found_bins", lambda _: found)
    counts = [stages.stage(0, []).counts, stages._counts(0, found), stages._counts(1, found)]
    sets = [[("day",), ("size",)], [tuple(counts[1].sizes)], [("ward", "cost"), ("day", "size", "number_of_visits")]]

    def told(engine: object) -> list[list[object]]:
        own = replace(context, engine=engine)  # type: ignore[type-var]
        return [
            [each.count(own, wanted)[names].tolist() for names in wanted]
            for each, wanted in zip(counts, sets, strict=True)
        ]

    exact = told(context.engine)
    assert 15 < np.sum(exact[2][0]) < many
    assert np.sum(exact[1][0]) == count
    # Persons have as many rows as are counted of them.
    persons = counts[1].count(context, [("number_of_visits",)])["number_of_visits",]
    assert persons @ np.arange(3) == np.sum(exact[2][0])
    with MAKERS[other](context.catalog, frames) as engine:
        assert told(engine) == exact


# -- rows in order

MOST = 3
CHAIN = """
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
max_rows = 3
[tables.visits.columns]
patient = {type = "integer"}
ward = {type = "text", categories = ["a", "b"], null_category = true}
level = {type = "integer", bounds = [0, 2]}
day = {type = "double"}
note = {type = "text"}
"""
WARDS, LEVELS = ("a", "b", None), (0, 1, 2)


def tied_visits() -> list[dict[str, Any]]:
    """Visits of which most stand at the same place of the order as another; some at no place, which NaN is too."""
    made = np.random.default_rng(11)
    days = [None, 1.0, -7.5, -0.0, 0.0, float("inf"), float("nan")]
    return [
        {
            "patient": int(made.integers(0, 14)), "ward": ["a", "b", None, "z"][made.integers(0, 4)],
            "level": int(made.integers(0, 4)), "day": days[made.integers(0, 7)], "note": "x",
        }
        for _ in range(240)
    ]  # fmt: skip


def by_rule(visit: dict[str, Any]) -> tuple[int, int]:
    """The place of a visit among those of one day: by columns in the order of their names, as values are declared."""
    return LEVELS.index(visit["level"]), WARDS.index(visit["ward"])


#: Other rules, none of which gives the same chains.
OTHERS: list[Callable[[dict[str, Any]], tuple[int, ...]]] = [
    lambda visit: by_rule(visit)[::-1],
    lambda visit: (-by_rule(visit)[0], by_rule(visit)[1]),
    lambda visit: (by_rule(visit)[0], -by_rule(visit)[1]),
    lambda _: (),
]


def chained(
    visits: list[dict[str, Any]], rule: Callable[[dict[str, Any]], tuple[int, ...]] = by_rule
) -> Counter[tuple[Any, ...]]:
    """Each counted visit beside the one before, by day, where no day is last, and then by a rule."""
    found: Counter[tuple[Any, ...]] = Counter()
    for person in range(12):
        mine = [v for v in visits if v["patient"] == person and v["ward"] in WARDS and v["level"] in LEVELS]
        dated = [v["day"] is not None and math.isfinite(v["day"]) for v in mine]
        days = [(not known, v["day"] if known else 0.0, rule(v)) for v, known in zip(mine, dated, strict=True)]
        before: tuple[Any, ...] = ("none", "none")
        for at in sorted(range(len(mine)), key=lambda at: days[at])[:MOST]:
            after = mine[at]["ward"], mine[at]["level"]
            found[(*before, *after)] += 1
            before = after
    return found


@pytest.mark.parametrize("other", BESIDE_DUCKDB)
def test_rows_at_one_place_of_an_order_are_chained_by_one_rule_everywhere(other: str, tmp_path: Path) -> None:
    visits = tied_visits()
    wanted = chained(visits)
    assert all(chained(visits, other) != wanted for other in OTHERS)
    patients = pa.table({"id": np.arange(12), "well": [bool(i % 2) for i in range(12)]})
    kinds = pa.schema(
        [("patient", pa.int64()), ("ward", pa.string()), ("level", pa.int64()), ("day", pa.float64()),
         ("note", pa.string())]
    )  # fmt: skip
    names = ("previous_ward", "previous_level", "ward", "level")

    def told(context: Any, columns: list[str]) -> Counter[tuple[Any, ...]]:
        request = SynthesisRequest.of({"patients": None, "visits": columns}, None, {"rho": "1"}, "mst", order_by="day")
        counts = SynthesisStages(context, request)._counts(1, {})
        cells = counts.count(context, [names])[names]
        lists = (("none", *WARDS), ("none", *LEVELS), WARDS, LEVELS)
        return Counter(
            {values: int(n) for values, n in zip(itertools.product(*lists), cells.ravel(), strict=True) if n}
        )

    for number, rows in enumerate((visits, visits[::-1], sorted(visits, key=repr))):
        folder = tmp_path / str(number)
        folder.mkdir()
        frames = {"patients": patients, "visits": pa.Table.from_pylist(rows, kinds)}
        for name, frame in frames.items():
            pq.write_table(frame, folder / f"{name}.parquet")
        (folder / "tacit.toml").write_text(CHAIN)
        context = tacit.open(folder / "tacit.toml").context
        # The order in which columns are asked for says nothing either.
        assert told(context, ["ward", "level"]) == wanted
        assert told(context, ["level", "ward"]) == wanted
    with MAKERS[other](context.catalog, frames) as engine:
        assert told(replace(context, engine=engine), ["ward", "level"]) == wanted


@pytest.mark.parametrize(("order", "kind"), [("note", "text"), ("ward", "text")])
def test_an_order_that_databases_do_not_share_is_refused(tmp_path: Path, order: str, kind: str) -> None:
    pq.write_table(pa.table({"id": [1], "well": [True]}), tmp_path / "patients.parquet")
    visits = {"patient": [1], "ward": ["a"], "level": [0], "day": [0.5], "note": ["x"]}
    pq.write_table(pa.table(visits), tmp_path / "visits.parquet")
    (tmp_path / "tacit.toml").write_text(CHAIN)
    curator = tacit.open(tmp_path / "tacit.toml")
    with pytest.raises(InputError, match=f"{order} is {kind}; name a date, a time or a number"):
        curator.synthesize({"patients": None, "visits": ["level"]}, rho="1", method="mst", order_by=order)
    assert len(curator.history()) == 0
