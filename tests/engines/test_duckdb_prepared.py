"""Plans that questions share which differ in numbers alone: the same integers, and nothing outlives its copy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engines import clinic
from engines.makers import Frames, duckdb_engine
from engines.stopping import interrupting
from sql.corpus.accepted import ACCEPTED
from sql.corpus.clinic import CATALOG as CORPUS
from sql.corpus.data import DATABASE
from support.engine_comparison import corpus_frames, final_of, shown
from support.resident_files import CATALOG, engine_on, write
from tacit.core.errors import EngineError
from tacit.engines import MeasurementTask
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.engines.duckdb.fast import statement_cache as prepared
from tacit.engines.duckdb.fast.statement_cache import CursorPool, PlannedCursor, shape_of
from tacit.query.catalog import Catalog
from tacit.query.resolve import resolve

SECRET = b"prepared"


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Shapes that were run by a plan."""
    found: list[str] = []
    real = PlannedCursor._planned

    def planned(cursor: PlannedCursor, shape: prepared.StatementTemplate) -> str | None:
        name = real(cursor, shape)
        if name is not None:
            found.append(shape.text)
        return name

    monkeypatch.setattr(PlannedCursor, "_planned", planned)
    return found


def test_whole_numbers_are_told_apart_from_texts_names_and_lists() -> None:
    sql = (
        "SELECT 'CAST(1 AS BIGINT)', 'it''s CAST(2 AS BIGINT)', \"CAST(3 AS BIGINT)\" "
        "FROM t WHERE a < CAST(-4 AS BIGINT) AND list_position([']', CAST(5 AS BIGINT)], b) = CAST(66 AS BIGINT)"
    )
    shape = shape_of(sql)
    assert shape.numbers == ("-4", "66")
    assert shape.text == sql.replace("CAST(-4 ", "CAST($1 ").replace("CAST(66 ", "CAST($2 ")


def files(folder: Path, frames: Frames) -> dict[str, DataSource]:
    found = {}
    for name, frame in frames.items():
        pq.write_table(frame, folder / f"{name}.parquet")
        found[name] = DataSource("parquet", str(folder / f"{name}.parquet"))
    return found


CASES: dict[str, tuple[Catalog, Callable[[], Frames], tuple[str, ...]]] = {
    "hostile": (clinic.CATALOG, lambda: clinic.arrow(clinic.random_rows(5, 30, 200)), tuple(clinic.QUESTIONS)),
    "corpus": (CORPUS, lambda: corpus_frames(DATABASE), tuple(ACCEPTED)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_gives_the_integers_of_a_statement(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executed: list[str]
) -> None:
    catalog, make, questions = CASES[case]
    frames = make()
    monkeypatch.setattr(CursorPool, "is_known", lambda *_: True)
    with duckdb_engine(catalog, frames) as plain, DuckDBEngine(catalog, files(tmp_path, frames)) as engine:
        for sql in questions:
            work = MeasurementTask(resolve(sql, catalog).final, SECRET)
            want = shown(plain.measure(work))
            assert [shown(engine.measure(work)) for _ in range(2)] == [want] * 2, sql
    assert len(set(executed)) > 15


def numbered(engine: DuckDBEngine, number: int) -> list[list[int]]:
    sql = f"SELECT k, COUNT(*) FROM t WHERE id < {number} AND id <> -{number} GROUP BY k"
    return [array.tolist() for array in engine.measure(MeasurementTask(final_of(sql, CATALOG), SECRET)).raw]


def test_other_numbers_by_the_same_plan(tmp_path: Path, executed: list[str]) -> None:
    with engine_on(write(tmp_path / "t.parquet", 1000)) as engine:
        for number in (0, 10, 20, 500, 4 * 10**9, 9 * 10**18, 30, 990, 1000):
            expected = min(number, 1000) // 2
            assert numbered(engine, number) == [[expected, expected]], number
        assert len(executed) == 7, "the first reads the file, and the second is the first of its shape"
        assert len(set(executed)) == 1


def test_a_number_that_decides_about_the_plan(tmp_path: Path) -> None:
    """The number of digits of a DECIMAL is part of its type."""
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        cursors = CursorPool(engine._sources.latest.new_cursor)
        sql = "SELECT round(12.345::DECIMAL(9, 3), CAST({} AS BIGINT)::INTEGER)"
        for digits, want in ((1, "12.3"), (1, "12.3"), (0, "12"), (2, "12.35"), (1, "12.3")):
            with cursors.one() as cursor:
                assert [str(value) for (value,) in cursor.ask(sql.format(digits)).fetchall()] == [want]
        assert cursor.plans == 1
        cursors.close()


def test_plans_go_with_the_copy(tmp_path: Path, executed: list[str]) -> None:
    path = write(tmp_path / "t.parquet", 10)
    with engine_on(path) as engine:
        for number in range(2, 10, 2):
            numbered(engine, number)
        cursors = engine._residents._copies["t"].cursors
        (cursor,) = cursors._idle
        assert cursor.plans == 1
        write(path, 20)
        assert numbered(engine, 14) == [[7, 7]]
        assert cursors._idle == []
        with pytest.raises(Exception, match="closed"):
            cursor.ask("SELECT 1")
        assert [numbered(engine, number) for number in (18, 16, 20)] == [[[9, 9]], [[8, 8]], [[10, 10]]]
    assert executed


def test_few_plans_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executed: list[str]) -> None:
    monkeypatch.setattr(prepared, "_MOST_PLANS", 3)
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        numbered(engine, 2)
        for _ in range(3):
            for conditions in range(1, 9):
                where = " AND ".join(f"id <> {100 + i}" for i in range(conditions))
                final = resolve(f"SELECT k, COUNT(*) FROM t WHERE {where} GROUP BY k", CATALOG).final
                assert engine.measure(MeasurementTask(final, SECRET)).raw_units.tolist() == [5, 5]
                assert all(cursor.plans < 3 for cursor in engine._residents._copies["t"].cursors._idle)
    assert len(set(executed)) == 8


def test_long_statements_and_many_numbers_are_not_kept(tmp_path: Path, executed: list[str]) -> None:
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        cursors = CursorPool(engine._sources.latest.new_cursor)
        for text, kept in (("'x'", 1), (f"'{'x' * prepared._LONGEST}'", 0), (", ".join(["CAST(1 AS BIGINT)"] * 17), 0)):
            executed.clear()
            for _ in range(3):
                with cursors.one() as cursor:
                    assert cursor.ask(f"SELECT {text} WHERE 2 = CAST(2 AS BIGINT)").fetchall()
            assert len(set(executed)) == kept
        assert len(cursors._shapes) == 1
        cursors.close()


def test_after_a_failure_the_cursor_is_not_used_again(tmp_path: Path) -> None:
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        cursors = CursorPool(engine._sources.latest.new_cursor)
        with cursors.one() as first:
            pass
        with suppress(ValueError), cursors.one() as second:
            assert second is first
            raise ValueError
        with cursors.one() as third:
            assert third is not first
        cursors.close()


def test_a_stop_that_comes_late_is_not_for_the_next_question(tmp_path: Path) -> None:
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        for number in (2, 4, 6):
            numbered(engine, number)
        cursors = engine._residents._copies["t"].cursors
        with engine._session(engine._sources.latest, None, None, cursors) as session:
            used = session.cursor
        late = threading.Timer(0.1, session.interrupt)
        late.start()
        with engine._session(engine._sources.latest, None, None, cursors) as following:
            assert following.cursor is used
            slow = "SELECT count(*) FROM range(100_000_000) WHERE hash(range) % 7 = 3"
            assert len(following.cursor.execute(slow).fetchall()) == 1
            assert late.finished.is_set(), "it came in time to do harm"
            following.check()
        late.join()
        with pytest.raises(InterruptedError):
            session.check()


def test_a_stop_in_time_is(tmp_path: Path) -> None:
    with engine_on(write(tmp_path / "t.parquet", 10)) as engine:
        for number in (2, 4, 6):
            numbered(engine, number)
        with interrupting(engine), suppress(EngineError):
            for _ in range(10_000):
                numbered(engine, 8)
            pytest.fail("nothing was stopped")
        assert numbered(engine, 8) == [[4, 4]]
