"""Inside the locked database, strings that would read, write, load or reconfigure anything do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER

CATALOG = Catalog(
    (Table("t", (Column("id", INTEGER), Column("x", INTEGER, bounds=(0, 9))), population="p", unit="id"),),
    (Population("p"),),
)

ESCAPES = [
    "SELECT * FROM '{other}'",
    "SELECT * FROM read_csv('{other}')",
    "SELECT * FROM read_csv_auto('{other}')",
    "SELECT * FROM sniff_csv('{other}')",
    "SELECT * FROM read_text('{other}')",
    "SELECT * FROM read_blob('{other}')",
    "SELECT * FROM read_parquet('{folder}/*.parquet')",
    "SELECT * FROM parquet_metadata('{folder}/other.parquet')",
    "SELECT * FROM read_json('{other}')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_csv('https://example.org/x.csv')",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "COPY (SELECT 1) TO '{folder}/written.csv'",
    "COPY (SELECT 1) TO '{folder}/written.parquet' (FORMAT parquet, USE_TMP_FILE false)",
    "EXPORT DATABASE '{folder}/dump'",
    "IMPORT DATABASE '{folder}/dump'",
    "ATTACH '{folder}/new.duckdb' AS n",
    "ATTACH '{folder}/stored.duckdb' AS n",
    "ATTACH 'host=localhost' AS pg (TYPE postgres)",
    "INSTALL httpfs",
    "LOAD httpfs",
    "INSTALL '{folder}/evil.duckdb_extension'",
    "LOAD '{folder}/evil.duckdb_extension'",
    "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "SET allowed_paths = ['/etc/passwd']",
    "SET allowed_directories = ['/']",
    "SET temp_directory = '{folder}/spill'",
    "SET python_enable_replacements = true",
    "SET autoinstall_known_extensions = true",
    "SET autoload_known_extensions = true",
    "SET extension_directories = ['{folder}']",
    "SET log_query_path = '{folder}/queries.log'",
    "SET profiling_output = '{folder}/profile.json'",
    "SET GLOBAL threads = 64",
    "RESET enable_external_access",
    "PRAGMA enable_external_access",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA log_query_path = '{folder}/queries.log'",
    "CALL enable_logging('QueryLog', storage = 'file', storage_path = '{folder}')",
    "SELECT * FROM secret_frame",
    "CREATE TABLE stolen AS SELECT * FROM secret_frame",
    "SELECT getenv('HOME')",
    "SELECT * FROM pg_read_file('/etc/passwd')",
    "SELECT * FROM sqlite_scan('{folder}/x.db', 't')",
    "SELECT load_extension('x')",
    "SELECT * FROM query('SELECT * FROM read_csv(''/etc/passwd'')')",
    "SELECT * FROM query_table('{other}')",
    "DETACH tacit_source_0; ATTACH '{folder}/stored.duckdb' AS tacit_source_0",
    "UPDATE tacit_source_0.t SET x = 0",
    "DROP TABLE tacit_source_0.t",
    "INSERT INTO tacit_source_0.t VALUES (1, 1)",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect() as made:
        made.execute(f"COPY (SELECT i AS id, i % 10 AS x FROM range(100) r(i)) TO '{tmp_path}/t.parquet'")
        made.execute(f"COPY (SELECT 42 AS secret) TO '{tmp_path}/other.parquet'")
    (tmp_path / "other.csv").write_text("secret\n42\n")
    with duckdb.connect(str(tmp_path / "stored.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i AS id, i % 10 AS x FROM range(100) r(i)")
    return tmp_path


@pytest.fixture(params=["parquet", "duckdb"])
def engine(folder: Path, request: pytest.FixtureRequest) -> Iterator[DuckDBEngine]:
    path = f"{folder}/t.parquet" if request.param == "parquet" else f"{folder}/stored.duckdb#t"
    with DuckDBEngine(CATALOG, {"t": DataSource(request.param, path)}, Limits(memory="200MB", threads=1)) as made:
        yield made


def test_escapes_fail(engine: DuckDBEngine, folder: Path) -> None:
    secret_frame = pa.table({"secret": [42]})  # noqa: F841 - duckdb itself finds it by its name
    assert duckdb.sql("SELECT * FROM secret_frame").fetchall() == [(42,)]
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    came_through = []
    for escape in ESCAPES:
        cursor = engine._connection.cursor()
        try:
            rows = cursor.execute(escape.format(folder=folder, other=folder / "other.csv")).fetchall()
        except duckdb.Error:
            rows = None
        finally:
            cursor.close()
        if rows is not None:
            came_through.append((escape, rows))
    assert not came_through
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_the_lock_leaves_the_query_working(engine: DuckDBEngine) -> None:
    final = resolve("SELECT COUNT(*), SUM(x) FROM t", CATALOG).final
    found = engine.measure(MeasurementTask(final, b"k"))
    assert [array.tolist() for array in found.raw] == [[100], [450]]


def test_the_settings_that_lock(engine: DuckDBEngine) -> None:
    names = ("enable_external_access", "lock_configuration", "python_enable_replacements", "autoload_known_extensions",
             "autoinstall_known_extensions", "allow_community_extensions", "temp_directory")  # fmt: skip
    rows = engine._connection.cursor().execute("SELECT name, value FROM duckdb_settings()").fetchall()
    values = {name: value for name, value in rows if name in names}
    assert values == dict.fromkeys(names, "false") | {"lock_configuration": "true", "temp_directory": ""}


def test_the_unlocked_database_would_let_them_through(folder: Path) -> None:
    """Shows that the strings are escapes at all: without the lock the plain ones work."""
    with duckdb.connect() as open_connection:
        for escape in (ESCAPES[0], ESCAPES[1], ESCAPES[10]):
            assert open_connection.execute(escape.format(folder=folder, other=folder / "other.csv")).fetchall()
