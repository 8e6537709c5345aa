"""Texts that are hard on planners are answered by every engine, alike, with and without rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from engines import clinic
from engines.fragile import FRAGILE, WINDOWS, WINDOWS_TOGETHER, alone, of_one, together
from engines.makers import MAKERS
from support.engine_comparison import final_of, shown
from support.spark import spark_engine
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve

SECRET = b"an owner's secret"
#: Seconds; a planner that waits for ever is stopped here.
PATIENCE = 60.0


def asked(engine: Engine, sql: str) -> str:
    """Measurements of an engine, or that it refuses; a failure is a failure."""
    final = final_of(sql, clinic.CATALOG)
    try:
        engine.check(final)
    except Refusal as refused:
        return str(refused)
    return shown(engine.measure(MeasurementTask(final, SECRET, timeout=PATIENCE)))


def plannable(queries: list[str]) -> list[str]:
    """Those that the planner takes; the others never come to an engine."""
    found = []
    for sql in queries:
        try:
            resolve(sql, clinic.CATALOG)
        except Refusal:
            continue
        found.append(sql)
    assert len(found) > 0.9 * len(queries)
    return found


def missing_of(engine: Engine) -> Callable[[str, str], bool]:
    """Whether an engine takes an expression of a constant for NULL."""

    def missing(one: str, expression: str) -> bool:
        found = engine.measure(MeasurementTask(final_of(of_one(one, expression), clinic.CATALOG), SECRET))
        return bool(found.raw[0].any())

    return cache(missing)


@contextmanager
def all_folded() -> Iterator[list[str]]:
    """The queries about constants, several expressions in each."""
    with MAKERS["duckdb"](clinic.CATALOG, clinic.arrow(clinic.random_rows(7, 2, 4))) as known:
        yield together(missing_of(known))


@pytest.mark.deep
@pytest.mark.parametrize("people", [0, 12])
def test_duckdb_and_postgresql(people: int) -> None:
    """Every expression in every place, some at once; alone in one place, another one where there are no rows."""
    frames = clinic.arrow(clinic.random_rows(7, people, 8 * people))
    with (
        MAKERS["duckdb"](clinic.CATALOG, frames) as one,
        MAKERS["postgres"](clinic.CATALOG, frames) as two,
        all_folded() as folded,
    ):
        for sql in plannable([*WINDOWS, WINDOWS_TOGETHER, *FRAGILE, *folded, *alone(3 if people else 0)]):
            assert asked(two, sql) == asked(one, sql), sql


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize(("people", "generated"), [(12, False), (0, True)])
def test_spark(people: int, generated: bool) -> None:
    frames = clinic.arrow(clinic.random_rows(7, people, 8 * people))
    with (
        MAKERS["duckdb"](clinic.CATALOG, frames) as one,
        spark_engine(clinic.CATALOG, frames, generated=generated) as two,
        all_folded() as folded,
    ):
        chosen = [*FRAGILE, WINDOWS_TOGETHER, *folded[::2]] if people else [*FRAGILE[::4], *folded[1::4]]
        for sql in plannable(chosen):
            assert asked(two, sql) == asked(one, sql), sql
