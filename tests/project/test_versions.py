"""One notion of version: whatever a query reads is part of it, and what is charged for is what is read."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.core.errors import EngineError, InputError
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator
from tacit.project.source import Source

#: So much that an answer is within 1 of the count, except once in 10^20.
EPSILON = "50"


def count(curator: Curator, sql: str = "SELECT COUNT(*) AS n FROM t") -> int:
    return round(curator.sql(sql, epsilon=EPSILON).to_arrow()["n"][0].as_py())


def spent(curator: Curator) -> Fraction:
    return curator.budget().spent[0].amount


def opened(source: Any, **more: Any) -> Curator:
    return open_curator(
        source, **{"unit": "id", "epsilon": "100000", "table": "t", "columns": {"id": "integer"}, **more}
    )


PROJECT = """
[project]
name = "clinic"
[populations.patients]
epsilon = "100000"
[tables.people]
source = "people.parquet"
population = "patients"
unit = "person"
[tables.people.columns]
number = { unique = true }
[tables.stays]
source = "stays.parquet"
population = "patients"
[tables.stays.columns]
stay = { unique = true }
person = { references = "people.number" }
[tables.items]
source = "items.parquet"
population = "patients"
max_rows = 5
[tables.items.columns]
stay = { references = "stays.stay" }
"""


def test_a_table_on_the_way_to_the_unit_is_part_of_the_version(tmp_path: Path) -> None:
    def write(name: str, **columns: list[int]) -> None:
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")

    write("people", number=list(range(100)), person=list(range(100)))
    write("stays", stay=list(range(100)), person=list(range(100)))
    write("items", item=list(range(100)), stay=list(range(100)))
    (tmp_path / "tacit.toml").write_text(PROJECT)
    with open_curator(str(tmp_path / "tacit.toml")) as curator:
        sql = "SELECT COUNT(*) AS n FROM items"
        assert abs(count(curator, sql) - 100) <= 1
        before = spent(curator)
        assert abs(count(curator, sql) - 100) <= 1
        assert spent(curator) == before, "a repeat is free"
        # Each of the tables on the way, one after the other.
        write("stays", stay=list(range(60)), person=list(range(60)))
        assert abs(count(curator, sql) - 60) <= 1
        write("people", number=list(range(30)), person=list(range(30)))
        assert abs(count(curator, sql) - 30) <= 1
        assert spent(curator) == 3 * before


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_that_joins_or_leaves_a_pattern_is_read_or_not(suffix: str, tmp_path: Path) -> None:
    def write(name: str, first: int, people: int) -> None:
        ids = list(range(first, first + people))
        if suffix == "parquet":
            pq.write_table(pa.table({"id": ids}), tmp_path / name)
        else:
            (tmp_path / name).write_text("id\n" + "".join(f"{i}\n" for i in ids))

    write(f"a.{suffix}", 0, 50)
    with opened(str(tmp_path / f"*.{suffix}")) as curator:
        assert [abs(count(curator) - 50) <= 1 for _ in range(3)] == [True] * 3
        one = spent(curator)
        write(f"b.{suffix}", 50, 70)
        assert [abs(count(curator) - 120) <= 1 for _ in range(3)] == [True] * 3
        assert spent(curator) == 2 * one
        # Names that begin with a dot are of no pattern, neither for the reader nor for the version.
        write(f".c.{suffix}", 200, 30)
        assert abs(count(curator) - 120) <= 1
        assert spent(curator) == 2 * one
        (tmp_path / f"a.{suffix}").unlink()
        assert abs(count(curator) - 70) <= 1
        assert spent(curator) == 3 * one
        (tmp_path / f"b.{suffix}").unlink()
        with pytest.raises(EngineError):
            count(curator)


def test_a_duckdb_file_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    def write(people: int) -> None:
        with duckdb.connect(str(tmp_path / "next.duckdb")) as made:
            made.execute(f"CREATE TABLE visits AS SELECT i AS id FROM range({people}) AS r(i)")
        os.replace(tmp_path / "next.duckdb", tmp_path / "a.duckdb")

    write(40)
    with opened(f"{tmp_path}/a.duckdb#visits") as curator:
        assert abs(count(curator) - 40) <= 1
        write(90)
        assert abs(count(curator) - 90) <= 1


def test_columns_that_change_places_are_never_read_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,other\n" + "".join(f"{i},{i % 3}\n" for i in range(90)))
    with opened(str(path)) as curator:
        assert abs(count(curator) - 90) <= 1
        before = spent(curator)
        for header in ("other,id", "other", "id"):
            path.write_text(f"{header}\n" + "".join(f"{i % 3},{i}\n" for i in range(60)))
            with pytest.raises(EngineError):
                count(curator)
        assert spent(curator) == before
        path.write_text("id,other\n" + "".join(f"{i},{i % 3}\n" for i in range(30)))
        assert abs(count(curator) - 30) <= 1
    path.write_text("other,id\n" + "".join(f"{i % 3},{i}\n" for i in range(60)))
    with opened(str(path)) as curator:
        assert abs(count(curator) - 60) <= 1, "three persons would count 3 times"


def frames() -> dict[str, tuple[Any, np.ndarray]]:
    """Frames that stand on an array, and the array."""
    arrays = [np.arange(100) for _ in range(3)]
    table = pa.table({"id": pa.Array.from_buffers(pa.int64(), 100, [None, pa.py_buffer(arrays[1])])})
    return {
        "pandas": (pd.DataFrame({"id": arrays[0]}, copy=False), arrays[0]),
        "arrow": (table, arrays[1]),
        "polars": (pl.DataFrame({"id": arrays[2]}), arrays[2]),
    }


@pytest.mark.parametrize("name", ["pandas", "arrow", "polars"])
def test_a_frame_is_what_it_was_when_it_was_opened(name: str) -> None:
    frame, array = frames()[name]
    with opened(frame) as curator:
        assert abs(count(curator) - 100) <= 1
        array[:] = 7
        if name == "pandas":
            frame.loc[:, "id"] = 7
        assert abs(count(curator, "SELECT COUNT(DISTINCT id) AS n FROM t") - 100) <= 1
        assert abs(count(curator, "SELECT COUNT(*) AS n FROM t WHERE id <> 7") - 99) <= 1


@pytest.mark.parametrize(
    "values",
    [
        [1, "secret", 3],
        [1, 2, 2.5],
        [True, 1, 2],
        [Decimal("1.5"), Decimal("1E-20")],
        [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)],
    ],
    ids=["text among numbers", "double among whole", "bool among whole", "decimals", "day and moment"],
)
def test_no_type_is_guessed_from_the_values_of_a_frame(values: list[Any]) -> None:
    """One of them would decide how the others are read."""
    with pytest.raises(InputError) as caught:
        Source.of_frame(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
    assert "x" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "several types" in str(caught.value) or "without a type" in str(caught.value)


def test_a_column_of_missing_values_is_one_of_texts() -> None:
    """Whether any person has a text decides nothing."""
    for values in ([None, None], [None, "x"]):
        made = Source.of_frame(pd.DataFrame({"x": pd.Series(values, dtype=object)}))
        assert str(made.frame.schema.field("x").type) == "string"


def test_damaged_buffers_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 5, 3], np.int32))
    damaged = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcdefgh")])
    outside = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["a", "b"]), safe=False)
    for column in (damaged, outside):
        with pytest.raises((InputError, pa.ArrowInvalid)):
            opened(pa.table({"id": [1, 2], "x": column}), columns={"id": "integer", "x": "text"})
