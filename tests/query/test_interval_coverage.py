"""Intervals hold their confidence over the noise, for every aggregate and for what is computed from aggregates.

One plan and one measurement are released again and again on seeded bits; the truth is what the same formulas give
without noise. At confidence 0.9 the number of intervals that hold it is compared with the point below which a binomial
count falls with probability 1e-6, so that is the chance of a false alarm per case if coverage is only just nominal.
Power: the same intervals shrunk around their values by the factor stated for each case must fall below the point. Exact
intervals fail at a half; proven but conservative ones are given more room.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from support.bits import SeededBits
from support.toy_engine import ToyEngine, without_noise
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import Plan, make_plan
from tacit.query.postprocess.result import finish
from tacit.query.release import release
from tacit.query.request import Account, Request
from tacit.query.types import DATE, INTEGER, TEXT, decimal, from_ordinal, ordinal

CONFIDENCE = Fraction(9, 10)
FALSE_ALARM = 1e-6
GROUPS = tuple(range(40))
CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("person", INTEGER),
                Column("place", INTEGER, categories=GROUPS),
                Column("cost", decimal(1), bounds=(Fraction(0), Fraction(100))),
                Column("level", INTEGER, categories=(1, 2, 3, 4)),
                Column("town", TEXT),
                Column("age", INTEGER, bounds=(0, 63)),
                Column("day", DATE, bounds=(from_ordinal(Fraction(0), DATE), from_ordinal(Fraction(364), DATE))),
            ),
            population="people",
            unit="person",
        ),
    ),
    (Population("people"),),
)

GROUPED = "SELECT place, {} AS answer FROM visits GROUP BY place"
#: Expression, and the factor by which an interval must be shrunk to be caught.
CASES = {
    "COUNT(*)": 0.5,
    "COUNT(DISTINCT person)": 0.5,
    "COUNT(town)": 0.5,
    "COUNT(DISTINCT town)": 0.5,
    "COUNT(*) FILTER (WHERE level > 2)": 0.5,
    "SUM(cost)": 0.5,
    "SUM(level)": 0.5,
    "AVG(cost)": 0.5,
    "AVG(level)": 0.5,
    "VAR_SAMP(cost)": 0.25,
    "VAR_POP(cost)": 0.25,
    "STDDEV_SAMP(cost)": 0.25,
    "STDDEV_POP(cost)": 0.25,
    "GEOMETRIC_MEAN(CLAMP(cost, 1, 99))": 0.25,
    "MEDIAN(age)": 0.1,
    "QUANTILE(age, 0.9)": 0.1,
    "MEDIAN(day)": 0.1,
    "MIN(age)": 0.05,
    "MAX(age)": 0.05,
    "MODE(level)": 0.05,
    "SUM(cost) / COUNT(*)": 0.25,
    "100.0 * COUNT(*) FILTER (WHERE level > 2) / COUNT(*)": 0.25,
    "AVG(cost) - AVG(level)": 0.25,
    "SQRT(ABS(SUM(cost)))": 0.25,
    "COUNT(*) * COUNT(*)": 0.5,
    "COUNT(*) - COUNT(*) FILTER (WHERE level > 2)": 0.25,
    "CASE WHEN COUNT(*) > 80 THEN SUM(cost) ELSE COUNT(*) END": 0.05,
    "GREATEST(COUNT(*), SUM(level))": 0.25,
}
#: Statistics of pairs, in large groups at a high price: elsewhere their intervals are all of [-1, 1], or have no end.
PAIRED = "SELECT place % 2 AS part, {} AS answer FROM visits GROUP BY part"
PAIRS = {
    ("COVAR_SAMP(cost, age)", "zcdp"): 0.1,
    ("CORR(cost, age)", "pure"): 0.1,
    ("CORR(cost, age)", "zcdp"): 0.1,
    ("REGR_SLOPE(cost, age)", "pure"): 0.1,
    ("REGR_INTERCEPT(age, cost)", "zcdp"): 0.1,
}
INNER = "(SELECT place, place % 10 AS part, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY place)"
STEPS = {
    f"SELECT part, SUM(n) AS answer FROM {INNER} GROUP BY part": 0.25,
    f"SELECT part, AVG(s) AS answer FROM {INNER} GROUP BY part": 0.25,
    f"SELECT part, MEDIAN(n) AS answer FROM {INNER} GROUP BY part": 0.25,
    f"SELECT part, STDDEV(n) AS answer FROM {INNER} GROUP BY part": 0.1,
    f"SELECT part, SUM(s) / SUM(n) AS answer FROM {INNER} GROUP BY part": 0.25,
    f"SELECT place, SUM(n) OVER (PARTITION BY part) AS answer FROM {INNER}": 0.25,
    f"SELECT place, AVG(n) OVER (ORDER BY place ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS answer FROM {INNER}": 0.25,
    f"SELECT place, SUM(s) OVER (ORDER BY place ROWS 3 PRECEDING) AS answer FROM {INNER}": 0.25,
}


@cache
def engine() -> ToyEngine:
    generator = np.random.Generator(np.random.PCG64(7))
    rows: list[dict[str, Any]] = [
        {
            "person": number,
            "place": int(generator.integers(0, len(GROUPS))),
            "cost": Fraction(int(generator.beta(2, 4) * 1000), 10),
            "level": int(generator.choice([1, 2, 3, 4], p=[0.26, 0.25, 0.25, 0.24])),
            "town": f"town {generator.integers(0, 30)}" if generator.random() > 0.1 else None,
            "age": int(generator.beta(2, 2) * 64),
            "day": from_ordinal(Fraction(int(generator.beta(3, 2) * 364)), DATE),
        }
        for number in range(80 * len(GROUPS))
    ]
    return ToyEngine({"visits": rows})


@cache
def prepared(sql: str, account: str, epsilon: str) -> tuple[Plan, Measurements, dict[Any, Any]]:
    plan = make_plan(sql, CATALOG, Request(epsilon=epsilon, account=Account(account)))
    measurements = engine().measure(MeasurementTask(plan.final, b"secret"))
    exact = finish(plan.query, without_noise(plan, measurements), confidence=CONFIDENCE)
    return plan, measurements, {values[0]: values[-1] for values in exact.values}


def covered(sql: str, account: str, shrink: float, trials: int, epsilon: str = "0.5") -> tuple[int, int, int]:
    """Numbers of intervals that hold the truth, that still do when shrunk around their values, and of all."""
    plan, measurements, truth = prepared(sql, account, epsilon)
    kind = plan.query.columns[-1].type
    whole = shrunk = total = 0
    while total < trials:
        finished = finish(plan.query, release(plan, measurements), confidence=CONFIDENCE)
        for values, ends in zip(finished.values, finished.intervals(), strict=True):
            true, value, (low, high) = truth[values[0]], values[-1], ends[-1]
            assert true is not None
            assert low is not None
            assert high is not None
            total += 1
            bottom, top, place = (float(ordinal(end, kind)) for end in (low, high, true))
            middle = bottom if value is None else float(ordinal(value, kind))
            assert bottom <= middle <= top
            whole += bottom <= place <= top
            shrunk += middle - shrink * (middle - bottom) <= place <= middle + shrink * (top - middle)
    return whole, shrunk, total


def is_nominal(hits: int, total: int) -> bool:
    return bool(hits >= stats.binom.ppf(FALSE_ALARM, total, float(CONFIDENCE)))


@pytest.mark.parametrize(
    ("expression", "account"), [(each, ("pure", "zcdp")[number % 2]) for number, each in enumerate(CASES)]
)
def test_coverage_of_aggregates(expression: str, account: str, seeded: SeededBits) -> None:
    whole, shrunk, total = covered(GROUPED.format(expression), account, CASES[expression], 480)
    assert is_nominal(whole, total)
    assert not is_nominal(shrunk, total)


@pytest.mark.parametrize(("expression", "account"), PAIRS)
def test_coverage_of_statistics_of_pairs(expression: str, account: str, seeded: SeededBits) -> None:
    whole, shrunk, total = covered(PAIRED.format(expression), account, PAIRS[expression, account], 240, "8")
    assert is_nominal(whole, total)
    assert not is_nominal(shrunk, total)


@pytest.mark.parametrize("sql", STEPS)
def test_coverage_of_steps(sql: str, seeded: SeededBits) -> None:
    whole, shrunk, total = covered(sql, "pure", STEPS[sql], 320)
    assert is_nominal(whole, total)
    assert not is_nominal(shrunk, total)
