"""AUTO bounds are useful at small prices, and are wrong as rarely as they say.

*Coverage.* 2,000 lognormal values, one per person; a search at ε = 0.1 (a tenth of ε = 1). On 100 seeded runs the
bounds must hold 99 % of the values in all but 10 runs, and be at most 16 times too wide in all but 10 runs. Measured
on 2,000 other runs of each case, at most 1.1 % fail either; if 1.5 % did, more than 10 of 100 would have probability
1e-6. Power: the thresholds alone, without what :func:`~tacit.query.planning.auto_bounds.choose` adds to them, fall
short.

*Mistakes.* On an empty database nothing must be found but with probability 1/1000. On 40,000 runs that many are
compared with the points that a binomial count passes with probability 1e-6. Power: noise 1.25 times as wide as the
search believes is found out (8 of 1,000 runs would then be wrong), and so is noise 0.8 times as wide.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from support.toy_engine import ToyEngine
from tacit.engines.protocol import MeasurementTask
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.auto_bounds import choose, edges_of, find
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import make_plan, with_bounds
from tacit.query.postprocess.result import finish
from tacit.query.relational.expressions import Reference
from tacit.query.release import add_noise, release
from tacit.query.request import Account, Request
from tacit.query.types import DOUBLE, INTEGER, Domain, Range

CATALOG = Catalog(
    (Table("people", (Column("id", INTEGER), Column("x", DOUBLE)), population="people", unit="id"),),
    (Population("people"),),
)
pytestmark = pytest.mark.usefixtures("seeded")
RUNS = 100
MOST = 10
FALSE_ALARM = 1e-6


def engine(values: Any) -> ToyEngine:
    return ToyEngine({"people": [{"id": i, "x": float(value)} for i, value in enumerate(values)]})


def lognormal(sigma: float) -> Any:
    places = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    return np.exp(3 + sigma * places)


@pytest.mark.parametrize(("account", "sigma"), [("pure", 0.5), ("pure", 1.5), ("zcdp", 1.0), ("gdp", 1.0)])
def test_bounds_hold_nearly_all_values_and_not_much_more(account: str, sigma: float) -> None:
    values = lognormal(sigma)
    plan = make_plan(
        "SELECT AVG(CLAMP(x, AUTO)) AS a FROM people", CATALOG, Request(epsilon=1, account=Account(account))
    )
    assert plan.first is not None
    measured = engine(values).measure(MeasurementTask(plan.first.final, b""))
    short = wide = 0
    for _ in range(RUNS):
        released = add_noise(*plan.first, measured)
        ((low, high),) = find(plan.final, released.noisy, released.laws)
        short += np.mean((values >= low) & (values <= high)) < 0.99
        wide += float(high - low) > 16 * values.max()
    assert short <= MOST
    assert wide <= MOST


def test_inhabited_cells_alone_would_fall_short() -> None:
    values = lognormal(1.5)
    plan = make_plan("SELECT AVG(CLAMP(x, AUTO)) AS a FROM people", CATALOG, Request(epsilon=1))
    assert plan.first is not None
    measured = engine(values).measure(MeasurementTask(plan.first.final, b""))
    edges, short = edges_of(Reference(DOUBLE, Domain(), 0, "x")), 0
    for _ in range(RUNS):
        released = add_noise(*plan.first, measured)
        sure = released.laws[0].error(Fraction(1, 10**5))
        inhabited = [i for i, count in enumerate(released.noisy[0][0]) if count > sure]  # type: ignore[index]
        short += np.mean(values <= float(edges[inhabited[-1] + 1])) < 0.99
    assert short > MOST


def test_the_answer_and_its_interval_use_the_bounds_found() -> None:
    """The interval of the mean holds the mean of the values clamped to the bounds that were found."""
    values = lognormal(1.0)
    plan = make_plan("SELECT AVG(CLAMP(x, AUTO)) AS a FROM people", CATALOG, Request(epsilon=1))
    assert plan.first is not None
    source, held = engine(values), 0
    searched = source.measure(MeasurementTask(plan.first.final, b""))
    for _ in range(40):
        first = add_noise(*plan.first, searched)
        rest = with_bounds(plan, find(plan.final, first.noisy, first.laws))
        released = release(rest, source.measure(MeasurementTask(rest.final, b"")))
        (((low, high),),) = finish(rest.query, released, confidence="0.95").intervals()
        clamped = np.clip(values, float(rest.found[0].low), float(rest.found[0].high)).mean()
        held += low <= clamped <= high
    assert held >= int(stats.binom.ppf(FALSE_ALARM, 40, 0.95))


def mistakes(stretch: Fraction, runs: int) -> int:
    """In how many runs on an empty database something is found, with noise ``stretch`` times as wide as believed."""
    argument = Reference(INTEGER, Domain(Range(Fraction(0), None)), 0, "x")
    cells = len(edges_of(argument)) - 1
    noise = LaplaceNoise(10 * stretch).sampler.sample_many(runs * cells).reshape(runs, cells)
    law = NoiseLaw("laplace", Fraction(10))
    # Only rows with a large count can be mistaken; the others need not be looked at one by one.
    far = noise[noise.max(axis=1) > 60]
    return sum(choose(argument, row.tolist(), law) != (0, 1) for row in far)


@pytest.mark.deep
def test_nothing_is_found_where_nothing_is() -> None:
    runs = 40_000
    most = int(stats.binom.ppf(1 - FALSE_ALARM, runs, 1e-3))
    least = int(stats.binom.ppf(FALSE_ALARM, runs, 0.9e-3))
    assert least <= mistakes(Fraction(1), runs) <= most
    assert mistakes(Fraction(5, 4), runs) > most
    assert mistakes(Fraction(4, 5), runs) < least
