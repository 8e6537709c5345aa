"""Units on Spark: files, folders, frames and tables write one in one way, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark import held, spark_engine
from support.unit_files import BIG, counted, people, write
from tacit.core.errors import InputError
from tacit.engines.duckdb import DataSource
from tacit.query.catalog import Catalog
from tacit.query.types import INTEGER, TEXT

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def opened(catalog: Catalog, **sources: Any) -> None:
    with spark_engine(catalog, sources):
        pass


def test_files_with_other_types_of_ids(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pa.array([BIG, BIG + 1]))
    write(tmp_path / "b.parquet", pa.array([1.0, 2.0]))
    source = DataSource("parquet", f"{tmp_path}/*.parquet")
    with pytest.raises(InputError, match=r"^(tables\.)?t"):
        opened(people(INTEGER), t=source)
    write(tmp_path / "b.parquet", pa.array([BIG, 3]))
    with spark_engine(people(INTEGER), {"t": source}) as engine:
        assert counted(engine, "SELECT COUNT(*) FROM t", people(INTEGER))[0] == [3]


def test_a_unit_in_the_names_of_folders(tmp_path: Path) -> None:
    for name in ("id=01", "id=1"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": pa.array([1])}), tmp_path / name / "a.parquet")
    with pytest.raises(InputError, match="lacks the column id, which tells persons apart"):
        opened(people(INTEGER), t=DataSource("parquet", str(tmp_path)))


def test_stored_types(tmp_path: Path) -> None:
    doubles, texts, uuids = (pa.table({"id": pa.array(ids), "x": pa.array([1])}) for ids in ([1.0], ["07"], [7]))
    with pytest.raises(InputError, match=r"tables\.t\.columns\.id: tells persons apart, is stored as double"):
        opened(people(INTEGER), t=doubles)
    with pytest.raises(InputError, match=r"tables\.t\.columns\.id: .*stored as bigint and declared as TEXT"):
        opened(people(TEXT), t=uuids)
    # A text that is read as a number is that number, in every table.
    catalog = people(INTEGER, "t", "u")
    both = "SELECT COUNT(*) FROM (SELECT id, x FROM t UNION ALL SELECT id, x FROM u)"
    with spark_engine(catalog, {"t": texts, "u": uuids}) as engine:
        assert counted(engine, both, catalog)[0] == [1]


def test_padded_texts_are_not_mixed_with_others() -> None:
    spark = held().spark
    spark.sql("CREATE OR REPLACE TEMP VIEW padded AS SELECT CAST('ab' AS STRING) AS id, CAST(1 AS BIGINT) AS x")
    catalog = people(TEXT, "t", "u")
    plain = pa.table({"id": ["ab "], "x": [1]})
    with spark_engine(catalog, {"t": plain, "u": DataSource("table", "padded")}) as engine:
        both = "SELECT COUNT(*) FROM (SELECT id, x FROM t UNION ALL SELECT id, x FROM u)"
        assert counted(engine, both, catalog)[0] == [2]


def test_columns_called_as_the_numbers_of_rows(tmp_path: Path) -> None:
    from support.unit_files import rows

    plain = pa.table({"id": [1], "x": [1]})
    for name in ("tacit row", "TACIT ROW", "seen tacit microseconds"):
        with pytest.raises(InputError, match="a name that is needed otherwise"):
            opened(rows(), t=plain.append_column(name, pa.array([0])))
    pq.write_table(plain.append_column("_metadata", pa.array([0])), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="a name that is needed otherwise"):
        opened(rows(), t=DataSource("parquet", f"{tmp_path}/t.parquet"))
