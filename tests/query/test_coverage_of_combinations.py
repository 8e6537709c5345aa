"""Intervals of sums, differences, shares and variances hold their confidence and are hardly wider than they must be.

As in ``test_interval_coverage``: one measurement is released again and again on seeded bits, and the truth is what the
same formulas give without noise. At confidence 0.9 the number of intervals that hold it is compared with the point
below which a binomial count falls with probability 1e-6, the chance of a false alarm per case if coverage is only just
nominal. Power: the same intervals shrunk by the stated factor fall below the point, with Laplace and Gaussian noise.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from support.bits import SeededBits
from support.pairwise import pairwise
from support.toy_engine import ToyEngine, without_noise
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.result import finish
from tacit.query.query import FinalAggregation
from tacit.query.release import release
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER, decimal, ordinal

CONFIDENCE = Fraction(9, 10)
FALSE_ALARM = 1e-6
TRIALS = 800
ACCOUNTS = {
    "laplace": Request(epsilon="0.5"),
    "gaussian": Request(rho="0.05", delta="1e-6", account=Account("zcdp")),
}
GDP = Request(mu="0.3", account=Account("gdp"))
INNER = "(SELECT place, place % 10 AS part, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY place)"
#: Query, how many rows each of its 40 groups has, and the factor by which intervals are shrunk to be caught.
SUMS = {
    f"SELECT part, SUM(n) AS answer FROM {INNER} GROUP BY part": (60, 0.7),
    f"SELECT part, AVG(s) AS answer FROM {INNER} GROUP BY part": (60, 0.7),
    f"SELECT place, n - LAG(n) OVER (ORDER BY place) AS answer FROM {INNER}": (60, 0.7),
    "SELECT place, COUNT(*) - COUNT(*) FILTER (WHERE level > 2) AS answer FROM visits GROUP BY place": (60, 0.7),
    "SELECT place, AVG(cost) * COUNT(*) - SUM(cost) AS answer FROM visits GROUP BY place": (60, 0.3),
    "SELECT place, COUNT(*) FILTER (WHERE level > 2) / COUNT(*) AS answer FROM visits GROUP BY place": (200, 0.7),
    "SELECT place, SUM(cost) / COUNT(*) AS answer FROM visits GROUP BY place": (200, 0.7),
    f"SELECT place, n / SUM(n) OVER (PARTITION BY part) AS answer FROM {INNER}": (60, 0.7),
    f"SELECT place, n / SUM(n) OVER () AS answer FROM {INNER}": (60, 0.7),
    f"SELECT part, SUM(s) / SUM(n) AS answer FROM {INNER} GROUP BY part": (60, 0.7),
    # A divisor that is likely to be 0 in part.
    "SELECT place, COUNT(*) FILTER (WHERE level > 2) / COUNT(*) AS answer FROM visits GROUP BY place --": (5, 0.1),
}


def catalog(relation: Relation) -> Catalog:
    columns = (
        Column("person", INTEGER),
        Column("place", INTEGER, categories=tuple(range(40))),
        Column("cost", decimal(1), bounds=(Fraction(0), Fraction(100))),
        Column("level", INTEGER, categories=(1, 2, 3, 4)),
    )
    return Catalog((Table("visits", columns, population="people", unit="person"),), (Population("people", relation),))


@cache
def engine(size: int, spread: str) -> ToyEngine:
    generator = np.random.Generator(np.random.PCG64(7))
    share = {
        "middle": lambda: generator.beta(2, 4),
        "tiny": lambda: 0.7 + 0.01 * generator.random(),
        "huge": lambda: float(generator.integers(0, 2)),
    }[spread]
    rows: list[dict[str, Any]] = [
        {
            "person": number,
            "place": number % 40,
            "cost": Fraction(int(share() * 1000), 10),
            "level": int(generator.integers(1, 5)),
        }
        for number in range(size * 40)
    ]
    return ToyEngine({"visits": rows})


@cache
def measured(final: FinalAggregation, size: int, spread: str) -> Measurements:
    """Measure once what no noise, relation or function of the same sums changes: it is a second of the slow engine."""
    return engine(size, spread).measure(MeasurementTask(final, b"secret"))


def covered(
    sql: str,
    noise: str,
    size: int,
    shrink: float,
    spread: str = "middle",
    relation: Relation = ADD_REMOVE,
    trials: int = TRIALS,
) -> tuple[bool, bool, float]:
    """Whether coverage may be nominal, whether that of shrunk intervals may be, and the coverage."""
    plan = make_plan(sql, catalog(relation), GDP if noise == "rounded" else ACCOUNTS[noise])
    measurements = measured(replace(plan.final, aggregates=()), size, spread)
    exact = finish(plan.query, without_noise(plan, measurements), confidence=CONFIDENCE)
    truth = [values[-1] for values in exact.values]
    kind = plan.query.columns[-1].type
    whole = shrunk = total = 0
    while total < trials:
        finished = finish(plan.query, release(plan, measurements), confidence=CONFIDENCE)
        for values, ends, true in zip(finished.values, finished.intervals(), truth, strict=True):
            if true is None:
                continue
            low, high = ends[-1]
            assert low is not None
            assert high is not None
            bottom, top, place = (float(ordinal(end, kind)) for end in (low, high, true))
            middle = bottom if values[-1] is None else float(ordinal(values[-1], kind))
            total += 1
            slack = 1e-12 * abs(place)
            whole += bottom - slack <= place <= top + slack
            shrunk += middle - shrink * (middle - bottom) <= place <= middle + shrink * (top - middle)
    point = stats.binom.ppf(FALSE_ALARM, total, float(CONFIDENCE))
    return bool(whole >= point), bool(shrunk >= point), whole / total


@pytest.mark.parametrize(("sql", "noise"), [(sql, list(ACCOUNTS)[number % 2]) for number, sql in enumerate(SUMS)])
def test_sums_and_quotients_of_cells(sql: str, noise: str, seeded: SeededBits) -> None:
    size, shrink = SUMS[sql]
    nominal, still, _ = covered(sql.removesuffix(" --"), noise, size, shrink)
    assert nominal
    assert not still


@pytest.mark.parametrize(
    ("size", "spread", "function", "noise", "relation"),
    pairwise(
        [4, 40, 400], ["middle", "tiny", "huge"], ["VAR_POP", "STDDEV_SAMP"], list(ACCOUNTS), [ADD_REMOVE, REPLACE_ONE]
    ),
)
def test_variances_hold_at_every_size(
    size: int, spread: str, function: str, noise: str, relation: Relation, seeded: SeededBits
) -> None:
    sql = f"SELECT place, {function}(cost) AS answer FROM visits GROUP BY place"
    nominal, _, _ = covered(sql, noise, size, 1.0, spread, relation)
    assert nominal


@pytest.mark.parametrize(("function", "noise"), [("VAR_SAMP", "laplace"), ("STDDEV_POP", "gaussian")])
def test_variances_of_large_groups_are_nominal(function: str, noise: str, seeded: SeededBits) -> None:
    """Coverage is near 0.9 and not 1, and intervals of 0.8 the width are caught."""
    sql = f"SELECT place, {function}(cost) AS answer FROM visits GROUP BY place"
    nominal, still, coverage = covered(sql, noise, 1000, 0.8, trials=2400)
    assert nominal
    assert not still
    assert coverage < 0.95


@pytest.mark.parametrize("sql", [*list(SUMS)[:1], *list(SUMS)[5:6]])
def test_rounded_noise_of_gdp_accounts(sql: str, seeded: SeededBits) -> None:
    size, shrink = SUMS[sql]
    nominal, still, _ = covered(sql, "rounded", size, shrink)
    assert nominal
    assert not still
