"""Texts that are hard on planners are answered by every engine, alike, with and without rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from engines import clinic
from engines.fragile import FOLDED, FRAGILE, WINDOWS, WINDOWS_TOGETHER, of_one, together
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


def plannable(questions: list[str]) -> list[str]:
    """Those that the planner takes; the others never come to an engine."""
    found = []
    for sql in questions:
        try:
            resolve(sql, clinic.CATALOG)
        except Refusal:
            continue
        found.append(sql)
    assert len(found) > 0.9 * len(questions)
    return found


@pytest.mark.parametrize("people", [0, 12])
@pytest.mark.parametrize("kind", ["fragile", "folded"])
def test_duckdb_and_postgresql(kind: str, people: int) -> None:
    frames = clinic.arrow(clinic.random_rows(7, people, 8 * people))
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS["postgres"](clinic.CATALOG, frames) as two:
        for sql in plannable([*WINDOWS, WINDOWS_TOGETHER, *FRAGILE] if kind == "fragile" else FOLDED):
            assert asked(two, sql) == asked(one, sql), sql


def missing_of(engine: Engine) -> Callable[[str, str], bool]:
    """Whether an engine takes an expression of a constant for NULL."""

    def missing(one: str, expression: str) -> bool:
        found = engine.measure(MeasurementTask(final_of(of_one(one, expression), clinic.CATALOG), SECRET))
        return bool(found.raw[0].any())

    return cache(missing)


@pytest.mark.spark
@pytest.mark.parametrize(("people", "generated"), [(0, False), (12, False), (12, True)])
def test_spark(people: int, generated: bool) -> None:
    frames = clinic.arrow(clinic.random_rows(7, people, 8 * people))
    with (
        MAKERS["duckdb"](clinic.CATALOG, clinic.arrow(clinic.random_rows(7, 2, 4))) as known,
        MAKERS["duckdb"](clinic.CATALOG, frames) as one,
        spark_engine(clinic.CATALOG, frames, generated=generated) as two,
    ):
        folded = together(missing_of(known))
        all_of_them = bool(people) and not generated
        some = [*WINDOWS, *folded] if all_of_them else [WINDOWS_TOGETHER, *folded[::7]]
        for sql in plannable([*FRAGILE, *some]):
            assert asked(two, sql) == asked(one, sql), sql
