"""Small files that are asked again are read from memory: the same integers, and never those of an older file."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from engines import clinic
from engines.makers import duckdb_engine
from support.engine_comparison import final_of, shown
from support.resident_files import CATALOG, COLUMNS, engine_on, write
from tacit.core.errors import EngineError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.duckdb import database as residents
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Population, Table
from tacit.query.resolve import resolve

SECRET = b"resident"
ROWS = Catalog((Table("t", COLUMNS, population="p", unit="row"),), (Population("p"),))
COUNT = "SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k"


def asked(engine: DuckDBEngine, catalog: Catalog = CATALOG) -> Measurements:
    return engine.measure(MeasurementTask(resolve(COUNT, catalog).final, SECRET))


def units(engine: DuckDBEngine, catalog: Catalog = CATALOG) -> list[int]:
    return asked(engine, catalog).raw_units.tolist()


def copies(engine: DuckDBEngine) -> list[str]:
    found = engine._connection.execute(
        f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{residents.DATABASE}'"
    ).fetchall()
    return [name for (name,) in found]


def test_hostile_rows_give_what_frames_give(tmp_path: Path) -> None:
    frames = clinic.arrow(clinic.random_rows(5, 30, 200))
    files = {}
    for name, frame in frames.items():
        pq.write_table(frame, tmp_path / f"{name}.parquet")
        files[name] = DataSource("parquet", str(tmp_path / f"{name}.parquet"))
    with duckdb_engine(clinic.CATALOG, frames) as plain, DuckDBEngine(clinic.CATALOG, files) as engine:
        for sql in clinic.QUERIES:
            work = MeasurementTask(final_of(sql, clinic.CATALOG), SECRET)
            assert shown(engine.measure(work)) == shown(plain.measure(work)), sql
        assert len(copies(engine)) > 3, "of every table that was asked about more than once"


@pytest.mark.parametrize("catalog", [CATALOG, ROWS], ids=["people", "rows"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_that_changes_is_read_anew(suffix: str, catalog: Catalog, tmp_path: Path) -> None:
    path = write(tmp_path / f"t.{suffix}", 10)
    with engine_on(path, catalog) as engine:
        assert [units(engine, catalog) for _ in range(4)] == [[5, 5]] * 4
        first = engine._connection
        assert len(copies(engine)) == 1
        write(path, 20)
        assert [units(engine, catalog) for _ in range(3)] == [[10, 10]] * 3
        assert len(copies(engine)) == 1
        assert engine._connection is not first
        # Another file with the same time of last change.
        before, last = path.stat(), shown(asked(engine, catalog))
        other = write(tmp_path / f"other.{suffix}", 20, ("b", "a"))
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(path)
        with engine_on(path, catalog) as other_engine:
            want = shown(asked(other_engine, catalog))
        assert shown(asked(engine, catalog)) == want != last


def test_a_file_that_changes_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is of the file before, and answers no query."""
    path = write(tmp_path / "t.parquet", 10)
    with engine_on(path) as engine:
        opened = engine._sources.latest
        real, looks = opened._look, 0

        def look() -> object:
            nonlocal looks
            looks += 1
            write(path, 20)
            return real()

        monkeypatch.setattr(opened, "_look", look)
        assert units(engine) == [5, 5]
        assert units(engine) == [10, 10]
        assert looks == 1, "after the copy for the second query was made"
        assert copies(engine) == []


def test_one_query_alone_makes_no_copy(tmp_path: Path) -> None:
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        assert units(engine) == [5, 5]
        assert copies(engine) == []


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_MOST_VALUES"])
def test_large_tables_stay_in_their_files(limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, limit, 30)
    with engine_on(write(tmp_path / "t.parquet", 100)) as engine:
        assert [units(engine) for _ in range(3)] == [[50, 50]] * 3
        assert copies(engine) == []


def test_a_small_memory_holds_small_copies(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", 200_000)
    with DuckDBEngine(CATALOG, {"t": DataSource("parquet", str(path))}, Limits(memory="50MB", threads=1)) as engine:
        assert [units(engine) for _ in range(3)] == [[100_000, 100_000]] * 3
        assert copies(engine) == []


def test_a_copy_lives_as_long_as_a_query_reads_it(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", 10)
    with engine_on(path) as engine:
        units(engine)
        units(engine)
        with engine._sources.reading() as opened:
            reading = opened.reading(())
            write(path, 20)
            assert [units(engine) for _ in range(2)] == [[10, 10]] * 2
            assert opened is not engine._sources.latest
            assert opened.connection.execute(f"SELECT count(*) FROM {reading['t'].scan}").fetchall() == [(10,)]
        assert len(copies(engine)) == 1
        with pytest.raises(duckdb.ConnectionException):
            opened.connection.execute("SELECT 1")


def test_a_file_that_is_gone_or_damaged_fails_as_ever(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", 10)
    with engine_on(path) as engine:
        units(engine)
        units(engine)
        whole = path.read_bytes()
        path.write_bytes(whole[:40] + bytes(40) + whole[80:])
        for _ in range(3):
            with pytest.raises(EngineError):
                units(engine)
        path.unlink()
        with pytest.raises(EngineError):
            units(engine)
        path.write_bytes(whole)
        assert units(engine) == [5, 5]


def test_many_threads_and_a_file_that_keeps_changing(tmp_path: Path) -> None:
    """Every answer is of one of the files, and in the end one copy is left. To be replaced while it is read may fail."""
    path = write(tmp_path / "t.parquet", 10)
    others = [write(tmp_path / f"{people}.parquet", people) for people in (10, 20, 30)]
    found: list[list[int]] = []
    with engine_on(path) as engine:

        def ask() -> None:
            for _ in range(15):
                with suppress(EngineError):
                    found.append(units(engine))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(12):
            copy = tmp_path / "next"
            copy.write_bytes(others[i % 3].read_bytes())
            copy.replace(path)
        for thread in threads:
            thread.join()
        assert len(found) > 10
        assert all(one in ([5, 5], [10, 10], [15, 15]) for one in found)
        assert [units(engine) for _ in range(2)] == [[15, 15]] * 2
        assert len(copies(engine)) == 1


def test_a_large_frame_is_copied_and_a_small_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of frames give what the frames give: decimals, texts that are not declared, rows as units."""
    frames = clinic.arrow(clinic.random_rows(6, 30, 200))
    asked = [MeasurementTask(final_of(sql, clinic.CATALOG), SECRET) for sql in clinic.QUERIES[::3]]
    with duckdb_engine(clinic.CATALOG, frames) as engine:
        want = [shown(engine.measure(work)) for work in asked]
        assert copies(engine) == []
    monkeypatch.setattr(residents, "_LEAST_ROWS", 1)
    with duckdb_engine(clinic.CATALOG, frames) as engine:
        assert [shown(engine.measure(work)) for work in asked] == want
        assert len(copies(engine)) > 2
        assert [shown(engine.measure(work)) for work in asked[:9]] == want[:9]
