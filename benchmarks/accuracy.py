"""Errors of answers beside those of an ideal mechanism for the same budget.

    .venv/bin/python benchmarks/accuracy.py [--draws 400] [--samples 12]
        [--only quantiles|ratios|groups|combinations|joint|typed|sets|limits|means]

*Quantiles*: the mean distance, in value, between the answer and the true quantile, divided by that of an exponential
mechanism that has the whole budget and chooses among all steps of the type; how often the 95 % interval holds the true
quantile; and how wide it is beside that distance. *Joint releases*: the standard deviation of the noise of COUNT, SUM,
AVG and shares beside that of a query for the first of them alone, which no joint release can beat. *Typed numbers*:
σ for a typed (ε, δ) divided by the σ of the Gaussian mechanism at that (ε, δ). *Groups*: errors where a person is in
one group. *Combinations*: widths of intervals of expressions of released cells. *Sets*: errors of totals and groups of
CUBE, ROLLUP and GROUPING SETS over those of sums of finest groups at the same price. *Limits*: what the choice of AUTO
``max_groups`` costs beside the best one. *Means*: coverage of the intervals of means of people, computed from the law
of the noise. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tacit
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.aggregates.ranks import sides
from tacit.query.postprocess.result import finish
from tacit.query.release import release

#: Of quantiles: small, so that errors are many steps wide.
EPSILON = Fraction(1, 5)


def lognormal(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values with a long tail, far from the upper bound."""
    return np.round(np.clip(rng.lognormal(3, 1, n), 0, 5000), 2)


def narrow(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """All values within a thousandth of the declared range."""
    return np.round(np.clip(rng.normal(2500, 1, n), 0, 5000), 2)


def uniform(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values all over the declared range."""
    return np.round(rng.uniform(0, 5000, n), 2)


def few(n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small integers."""
    return rng.poisson(3, n).clip(0, 30).astype(np.float64)


def quantiles(draws: int) -> None:
    """The table of quantiles."""
    print("\n### Quantiles\n")
    print("| values | account | quantile | error / ideal | coverage | half width / ideal error |")
    print("|---|---|---|---|---|---|")
    rng = np.random.default_rng(7)
    for make in (lognormal, narrow, uniform, few):
        for n, account in ((2_000, "pure"), (20_000, "pure"), (20_000, "zcdp")):
            values = make(n, rng)
            kind = "integer" if make is few else "decimal"
            bounds = [0, 30] if make is few else [0, 5000]
            column = {"type": kind, "bounds": bounds} | ({} if make is few else {"step": "0.01"})
            stored = values.astype(np.int64) if make is few else values
            table = pa.table({"id": np.arange(n), "x": stored})
            asked: dict[str, Any] = {"epsilon": "1000000"} | (
                {"delta": "1e-6", "accounting": "zcdp"} if account == "zcdp" else {}
            )
            curator = tacit.open(table, unit="id", max_rows=1, max_groups=1, columns={"x": column}, **asked)
            for fraction in ("0.5", "0.9"):
                _one(curator, values, fraction, account, draws, f"{make.__name__}, {n:,}", 1 if make is few else 100)


def _one(
    curator: Any, values: np.ndarray[Any, Any], fraction: str, account: str, draws: int, name: str, per: int
) -> None:
    true = float(np.quantile(values, float(fraction)))
    placed = np.round(values * per).astype(np.int64)
    plan = curator.explain(f"SELECT QUANTILE(x, {fraction}) AS q FROM data", epsilon=EPSILON).plan
    (measure,) = plan.final.measures
    places, counts = np.unique((placed - measure.low) // measure.leaf, return_counts=True)
    if measure.kind.value == "places":
        raw: Any = (tuple(zip(places.tolist(), counts.tolist(), strict=True)),)
    else:
        raw = np.zeros((1, measure.width), dtype=np.int64)
        raw[0, places] = counts
    measured = Measurements(((),), np.array([len(values)]), (raw,))
    errors, widths, held = [], [], 0
    for _ in range(draws):
        finished = finish(plan.query, release(plan, measured), confidence=Fraction(19, 20))
        value, (low, high) = finished.values[0][0], finished.intervals()[0][0]
        errors.append(abs(float(value if value is not None else low) - true))
        widths.append((float(high) - float(low)) / 2)
        held += float(low) <= true <= float(high)
    # The exponential mechanism with all of the budget, and with the part that draws: both errors are computed.
    whole = float(EPSILON) if account == "pure" else math.sqrt(8 * float(plan.guarantee.rho))
    best = _expected(placed, true, fraction, whole, per)
    drawn = plan.releases[0].choice
    ours = best if drawn is None else _expected(placed, true, fraction, float(drawn.epsilon), per, ours=True)
    least = 0.01 / per
    ratio = f"{ours / best:.2f} ({np.mean(errors) / best:.2f})" if best > least else f"{ours:.1g} beside {best:.1g}"
    wide = f"{np.mean(widths) / best:.1f}" if best > least else f"{np.mean(widths):.3g} beside {best:.1g}"
    print(f"| {name} | {account} | {fraction} | {ratio} | {held / draws:.3f} | {wide} |", flush=True)


def _expected(
    placed: np.ndarray[Any, Any], true: float, fraction: str, epsilon: float, per: int, *, ours: bool = False
) -> float:
    """Expected distance of a draw over all steps from the true quantile.

    By the exponential mechanism with one weight for both sides and none for ties, which is the ideal, or by ours.
    """
    steps = np.arange((31 if per == 1 else 5000 * per) + (per > 1))
    ordered = np.sort(placed)
    below, upto = np.searchsorted(ordered, steps), np.searchsorted(ordered, steps, side="right")
    share, n = Fraction(fraction), len(placed)
    over, under = share.denominator, share.numerator
    low, high = (Fraction(side, 10) for side in sides(share)) if ours else (1, 1)
    short = np.maximum(float(high) * (over * below - under * n), float(low) * (under * n - over * upto))
    short = short - short.min() if ours else np.maximum(short, 0)
    chances = np.exp(-short * epsilon / (2 * max(under, over - under)))
    return float((np.abs(steps / per - true) * chances).sum() / chances.sum())


def ratios(samples: int) -> None:
    """Errors of quantiles beside the ideal, computed, for several sizes, prices and values.

    Errors of both are averaged over samples of the same law, whose gaps around the quantile differ by chance; in
    brackets the largest ratio of one sample.
    """
    print("\n### Quantiles: error / ideal, computed\n")
    print("| values | people | ε = 0.05 | 0.2 | 1 |")
    print("|---|---:|---:|---:|---:|")
    rng = np.random.default_rng(8)
    column = {"type": "decimal", "bounds": [0, 5000], "step": "0.01"}
    table = pa.table({"id": np.arange(10), "x": np.arange(10.0)})
    curator = tacit.open(table, unit="id", max_rows=1, max_groups=1, columns={"x": column}, epsilon="1000000")
    for make in (lognormal, narrow, uniform):
        for n in (500, 2_000, 20_000, 200_000):
            drawn = [make(n, rng) for _ in range(samples)]
            cells = [
                ", ".join(_ratio(curator, drawn, fraction, epsilon) for fraction in ("0.5", "0.9"))
                for epsilon in ("0.05", "0.2", "1")
            ]
            print(f"| {make.__name__} | {n:,} | {' | '.join(cells)} |", flush=True)
    curator.close()


def _ratio(curator: Any, samples: list[np.ndarray[Any, Any]], fraction: str, epsilon: str) -> str:
    plan = curator.explain(f"SELECT QUANTILE(x, {fraction}) AS q FROM data", epsilon=epsilon).plan
    prices = plan.releases[0].choice.epsilon, epsilon
    errors = np.array([
        [_expected(np.round(values * 100).astype(np.int64), float(np.quantile(values, float(fraction))), fraction,
                   float(price), 100, ours=ours) for price, ours in zip(prices, (True, False), strict=True)]
        for values in samples
    ])  # fmt: skip
    ours, best = errors.mean(axis=0)
    # Errors of less than a step are those of chance that a neighbouring step is drawn.
    return f"{ours / best:.2f} ({(errors[:, 0] / errors[:, 1]).max():.2f})" if best > 0.01 else "below a step"


SHOP = """
[project]
name = "shop"
[populations.customers]
epsilon = "1000"
[tables.customers]
source = "customers.parquet"
population = "customers"
unit = "customer"
[tables.customers.columns]
customer = { type = "integer", unique = true }
country = { type = "text", categories = ["AT", "CH", "DE", "FR", "IT"] }
joined = { type = "date", bounds = ["2024-01-01", "2024-12-31"] }
[tables.orders]
source = "orders.parquet"
population = "customers"
unit = "customer"
max_groups = 12
max_rows = 5
[tables.orders.columns]
customer = { type = "integer" }
month = { type = "integer", bounds = [1, 12] }
amount = { type = "integer", bounds = [0, 200] }
"""
OF_ONE = "FROM orders JOIN customers USING (customer) GROUP BY 1"
OF_MANY = "FROM orders GROUP BY 1"
UNMATCHED = "FROM customers LEFT JOIN orders USING (customer) WHERE orders.customer IS NULL GROUP BY 1"
#: Name, query, and the aggregate that is asked by a key of which a person has many as well.
ONE_GROUP = (
    ("people by country", f"SELECT country, COUNT(DISTINCT customer) {OF_ONE}", "COUNT(DISTINCT customer)"),
    ("people by cohort", f"SELECT MONTH(joined), COUNT(DISTINCT customer) {OF_ONE}", "COUNT(DISTINCT customer)"),
    ("LEFT JOIN … IS NULL", f"SELECT country, COUNT(*) {UNMATCHED}", "COUNT(*)"),
    ("totals by country", f"SELECT country, SUM(amount) {OF_ONE}", "SUM(amount)"),
)  # fmt: skip


def one_group() -> None:
    """Errors where a person is in one group, beside those of a key of which a person has up to twelve."""
    print("\n### Groups that a person has once: 95 % error at ε = 1, max_groups 12, max_rows 5\n")
    print("| query | one group | twelve groups |")
    print("|---|---:|---:|")
    with TemporaryDirectory() as place:
        folder = Path(place)
        days = np.datetime64("2024-01-01") + np.arange(50)
        customers = {"customer": np.arange(50), "country": ["AT"] * 50, "joined": days}
        pq.write_table(pa.table(customers), folder / "customers.parquet")
        orders = {"customer": np.arange(200) % 50, "month": 1 + np.arange(200) % 12, "amount": np.arange(200)}
        pq.write_table(pa.table(orders), folder / "orders.parquet")
        (folder / "tacit.toml").write_text(SHOP)
        curator = tacit.open(folder / "tacit.toml")
        for name, sql, aggregate in ONE_GROUP:
            queries = sql, f"SELECT month, {aggregate} {OF_MANY}"
            bounds = [float(curator.explain(text, epsilon="1").explanation.errors[0].bound) for text in queries]
            print(f"| {name} | ± {bounds[0]:,.0f} | ± {bounds[1]:,.0f} |", flush=True)
        curator.close()


def combinations(draws: int) -> None:
    """Intervals of sums, shares and differences of released cells beside the true quantile of their error."""
    print("\n### Sums, shares and differences of cells: width of 90 % intervals / true quantile, coverage\n")
    print("| expression of released cells | Laplace | Gaussian |")
    print("|---|---|---|")
    table = pa.table({"id": np.arange(2400), "place": np.arange(2400) % 40, "cost": np.arange(2400) * 37 % 100})
    columns = {"place": list(range(40)), "cost": (0, 100)}
    inner = "(SELECT place, place % 4 AS part, COUNT(*) AS n, SUM(cost) AS s FROM data GROUP BY place)"
    asked = {
        "sum of ten counts": f"SELECT part, SUM(n) AS a FROM {inner} GROUP BY part",
        "mean of ten sums": f"SELECT part, AVG(s) AS a FROM {inner} GROUP BY part",
        "difference of two counts": f"SELECT place, n - LAG(n) OVER (ORDER BY place) AS a FROM {inner}",
        "share of all": f"SELECT place, n / SUM(n) OVER () AS a FROM {inner}",
        "share by a condition": "SELECT place, COUNT(*) FILTER (WHERE cost > 50) / COUNT(*) AS a FROM data GROUP BY 1",
        "sum over count": f"SELECT part, SUM(s) / SUM(n) AS a FROM {inner} GROUP BY part",
        "variance": "SELECT place % 2 AS part, VAR_SAMP(cost) AS a FROM data GROUP BY 1",
    }  # fmt: skip
    prices = [({"epsilon": "1000000"}, {"epsilon": "0.5"}),
              ({"rho": "1000000", "delta": "1e-6", "accounting": "zcdp"}, {"rho": "0.05"})]  # fmt: skip
    opened = [(tacit.open(table, unit="id", max_rows=1, max_groups=1, columns=columns, **own), price)
              for own, price in prices]  # fmt: skip
    for name, sql in asked.items():
        print(f"| {name} | {' | '.join(_width(curator, sql, price, draws) for curator, price in opened)} |", flush=True)


def _width(curator: Any, sql: str, price: dict[str, str], draws: int) -> str:
    plan = curator.explain(sql, **price, bias_share=0).plan
    measured = curator._context.engine.measure(MeasurementTask(plan.final, b"secret"))
    whole = replace(plan, priced=replace(plan.priced, releases=tuple(
        replace(each, mechanism="laplace", epsilon=Fraction(10**12), rho=Fraction(0)) for each in plan.releases
    )))  # fmt: skip
    truth = [
        float(row[-1] or 0) for row in finish(plan.query, release(whole, measured), confidence=Fraction(9, 10)).values
    ]
    ratios = []
    while len(ratios) < draws:
        finished = finish(plan.query, release(plan, measured), confidence=Fraction(9, 10))
        for values, ends, true in zip(finished.values, finished.intervals(), truth, strict=True):
            value, (low, high) = float(values[-1] or 0), map(float, ends[-1])
            if high > low and values[-1] is not None:
                ratios.append((true - value) / (high - value) if true > value else (value - true) / (value - low))
    return f"{1 / np.quantile(ratios, 0.9):.2f}, {np.mean(np.array(ratios) <= 1 + 1e-9):.3f}"


QUERIES = (
    "SELECT AVG(x), COUNT(*) FROM data",
    "SELECT SUM(x), COUNT(*) FROM data",
    "SELECT COUNT(*) FILTER (WHERE x > 10), COUNT(*) FROM data",
    "SELECT COUNT(y), COUNT(*) FROM data",
    "SELECT AVG(y), COUNT(*) FROM data",
)


def joint() -> None:
    """The table of joint releases."""
    print("\n### Joint releases\n")
    print("| query | account | standard deviations of the noise, in steps | those of each alone |")
    print("|---|---|---|---|")
    values = np.arange(1000)
    table = pa.table({"id": values, "x": values % 100, "y": values % 100})
    columns = {
        "x": {"type": "integer", "bounds": [0, 100], "nullable": False},
        "y": {"type": "integer", "bounds": [0, 100]},
    }
    for account in ({}, {"delta": "1e-6", "accounting": "zcdp"}):
        curator = tacit.open(table, unit="id", epsilon="100", max_rows=1, max_groups=1, columns=columns, **account)
        for query in QUERIES:
            plan = curator.explain(query, epsilon="1").plan
            shown, alone = [], []
            for index, measure in enumerate(plan.final.measures):
                law = plan.priced.release_of(index).law(index)
                shown.append(f"{measure.kind.value} {math.sqrt(law.variance_bound):.3g}")
                moved = measure.sensitivity(max_groups=1)
                least = (
                    math.sqrt(2) * moved.l1 if not account else math.sqrt(moved.l2_squared / (2 * plan.guarantee.rho))
                )
                alone.append(f"{float(least):.3g}")
            name = "zcdp" if account else "pure"
            print(f"| `{query}` | {name} | {', '.join(shown)} | {', '.join(alone)} |")


SETS = (
    ("CUBE of 7 × 24", "CUBE (d, h)", 1),
    ("ROLLUP of 7 × 24", "ROLLUP (d, h)", 1),
    ("CUBE of 12 × 10 × 8", "CUBE (m, c, p)", 1),
    ("CUBE of 12 × 10 × 8, 5 groups a person", "CUBE (m, c, p)", 5),
    ("GROUPING SETS (12), (10), (8)", "GROUPING SETS ((m), (c), (p))", 1),
    ("ROLLUP of 50 × 20", "ROLLUP (a, b)", 1),
)


def grouping_sets(draws: int) -> None:
    """The table of totals: root mean square errors with noise on sums of groups over those of finest groups alone."""
    print("\n### Grouping sets: errors over those of sums of finest groups\n")
    print("| query | account | of each set: expected (measured) |")
    print("|---|---|---|")
    values = np.arange(40_000)
    sizes = {"d": 7, "h": 24, "m": 12, "c": 10, "p": 8, "a": 50, "b": 20}
    table = pa.table(
        {"id": values} | {name: values * (31 + i) // 7 % size for i, (name, size) in enumerate(sizes.items())}
    )
    columns = {name: {"type": "integer", "bounds": [0, size - 1]} for name, size in sizes.items()}
    for name, grouping, groups in SETS:
        for account in ({}, {"delta": "1e-6", "accounting": "zcdp"}):
            curator = tacit.open(
                table, unit="id", epsilon="100", max_rows=1, max_groups=groups, columns=columns, **account
            )
            plan = curator.explain(
                f"SELECT COUNT(*) AS n FROM data GROUP BY {grouping}", epsilon="1", bias_share=0
            ).plan
            measured = curator._context.engine.measure(MeasurementTask(plan.final, b"secret"))
            plain = tuple(replace(each, levels=(), sizes=(), scale=1) for each in plan.releases)
            finest = replace(plan, priced=replace(plan.priced, releases=plain))
            errors = [{names: error[0].bound for names, error in each.set_errors(0)} for each in (plan, finest)]
            seen = [_set_errors(each, measured, draws) for each in (plan, finest)]
            said = [
                f"({', '.join(names)}) {float(errors[0][names] / errors[1][names]):.2f} "
                f"({seen[0][names] / seen[1][names]:.2f})"
                for names in errors[0]
            ]
            print(f"| {name} | {'zcdp' if account else 'pure'} | {', '.join(said)} |", flush=True)


def _set_errors(plan: Any, measured: Any, draws: int) -> dict[tuple[str, ...], float]:
    """Root mean square error of each set, over some draws."""
    whole = tuple(
        replace(each, mechanism="laplace", epsilon=Fraction(10**12), rho=Fraction(0), levels=(), sizes=(), scale=1)
        for each in plan.releases
    )
    exact = release(replace(plan, priced=replace(plan.priced, releases=whole)), measured)
    truth = [float(row[0] or 0) for row in finish(plan.query, exact, confidence="0.95").values]
    squares = np.zeros(len(truth))
    for _ in range(draws):
        made = finish(plan.query, release(plan, measured), confidence="0.95").values
        squares += (np.array([float(row[0] or 0) for row in made]) - truth) ** 2
    # Rows of sets are mixed by key; which set a row is of follows from the query with GROUPING.
    totals = plan.query.totals
    keys = [plan.final.keys[index] for index in totals.keys]
    rows = []
    for number, places in enumerate(totals.sets):
        for combination in product(*(range(len(keys[place].values)) for place in places)):
            own = dict(zip(places, combination, strict=True))
            rows.append(([(place not in own, own.get(place, 0)) for place in range(len(keys))], number))
    found: dict[tuple[str, ...], list[float]] = {}
    for (_, number), square in zip(sorted(rows), squares / draws, strict=True):
        found.setdefault(tuple(keys[place].name for place in totals.sets[number]), []).append(square)
    return {names: math.sqrt(float(np.mean(each))) for names, each in found.items()}


def typed() -> None:
    """The table of typed numbers."""
    print("\n### Typed numbers\n")
    print("| query | epsilon | sigma / sigma of the Gaussian mechanism |")
    print("|---|---|---|")
    values = np.arange(1000)
    table = pa.table({"id": values, "x": values % 100})
    columns = {"x": {"type": "integer", "bounds": [0, 100]}}
    curator = tacit.open(
        table, unit="id", epsilon="100", delta="1e-6", accounting="zcdp", max_rows=1, max_groups=1, columns=columns
    )
    for query, moved in (("SELECT COUNT(*) FROM data", 1), ("SELECT SUM(x) FROM data", 100)):
        for epsilon in ("0.1", "0.5", "1", "4"):
            law = curator.explain(query, epsilon=epsilon).plan.priced.release_of(0).law(0)
            ideal = tacit.Gaussian(epsilon=epsilon, delta="1e-6", l2_sensitivity=moved).sigma
            print(f"| `{query}` | {epsilon} | {math.sqrt(law.variance_bound) / float(ideal):.3f} |")


#: Groups of each person.
SHAPES = {
    "all in one": lambda n, _most, _rng: np.ones(n, dtype=np.int64),
    "a tenth in two": lambda n, _most, rng: 1 + (rng.random(n) < 0.1),
    "half in two": lambda n, _most, rng: 1 + (rng.random(n) < 0.5),
    "geometric, mean 2": lambda n, most, rng: np.minimum(rng.geometric(0.5, n), most),
    "geometric, mean 4": lambda n, most, rng: np.minimum(rng.geometric(0.25, n), most),
    "exactly 4": lambda n, _most, _rng: np.full(n, 4),
    "5 to 8": lambda n, _most, rng: rng.integers(5, 9, n),
    "a tenth in 8": lambda n, _most, rng: np.where(rng.random(n) < 0.1, 8, 1),
    "a hundredth in all": lambda n, most, rng: np.where(rng.random(n) < 0.01, most, 1),
}


def limits(draws: int) -> None:
    """The cost of AUTO ``max_groups``: of its own objective, and of the root mean square error, over the best ones."""
    print("\n### AUTO max_groups: people by group, cost of what is found over the best\n")
    print("| people | groups of a person | settings | found what has the least error | more, less "
          "| objective / best | root mean square error / best |\n|---|---|---:|---:|---:|---:|---:|")  # fmt: skip
    rng = np.random.default_rng(3)
    for people in (500, 2_000, 20_000):
        for name, make in SHAPES.items():
            settings = [_limit_cost(make, people, most, price, draws, rng)
                        for most in (12, 100) for price in ("0.3", "1", "3")]  # fmt: skip
            at_best, more, less = (sum(each[place] for each in settings) for place in range(3))
            costs = [", ".join(f"{value:.2f}" for value in (np.mean(each), max(each)))
                     for each in zip(*(setting[3:] for setting in settings), strict=True)]  # fmt: skip
            print(f"| {people:,} | {name} | {len(settings)} | {at_best} | {more}, {less} | {' | '.join(costs)} |",
                  flush=True)  # fmt: skip


def _limit_cost(make: Any, people: int, most: int, price: str, draws: int, rng: Any) -> tuple[float, ...]:
    """Whether mostly the limit of least error is found, a larger or a smaller one; mean cost in both measures."""
    from tacit.query.planning.auto_limits import _noise_of_one, cells_of, choose

    table = pa.table({"id": [1], "k": [1]})
    column = {"type": "integer", "bounds": [1, most]}
    with tacit.open(table, unit="id", max_rows=1, max_groups="auto", columns={"k": column}, epsilon="100") as curator:
        plan = curator.explain("SELECT k, COUNT(DISTINCT id) FROM data GROUP BY k", epsilon=price).plan
    of_one = _noise_of_one(plan.final, plan.priced, Fraction(1, 20))
    deviation = math.sqrt(plan.priced.release_of(0).law(0).variance_bound)
    law, edges, own = plan.first.priced.release_of(0).law(0), cells_of(plan.final).groups, make(people, most, rng)
    counts = np.bincount(np.searchsorted(edges, own), minlength=len(edges))
    lost = {limit: float(np.maximum(own - limit, 0).sum()) / most for limit in edges}
    error = {limit: math.hypot(deviation * limit, lost[limit]) for limit in edges}
    worth = {limit: of_one * limit + 3 * lost[limit] for limit in edges}
    found = []
    for _ in range(draws):
        noisy = counts + np.round(rng.laplace(0, float(law.scale), len(counts))).astype(np.int64)
        found.append(choose(plan.final, noisy.tolist(), law, noise=of_one, squared=False).groups)
    best, usual = min(edges, key=lambda limit: (error[limit], limit)), sorted(found)[draws // 2]
    costs = (float(np.mean([each[limit] for limit in found])) / min(each.values()) for each in (worth, error))
    return (usual == best, usual > best, usual < best, *costs)


def means() -> None:
    """Exact coverage of 95 % intervals of means of people in ``honesty.py``, from the law of the two noises."""
    from tacit.query.aggregates.means_and_variances import half_widths

    print("\n### Means of people: coverage of 95 % intervals, computed\n")
    print("| mean | range | ε = 0.3 | 1 | 3 |\n|---:|---|---:|---:|---:|")
    for mean, most in ((5.33915, 256), (3.2852, 256), (18.00815, 3584)):
        place = mean / (most / 2) - 1
        covered = []
        for price in (Fraction(3, 10), Fraction(1), Fraction(3)):
            scale = most / (price * Fraction(24, 25))
            width, t = float(half_widths(scale, Fraction(1, 20))[min(int(abs(place) * 32), 31)]), float(scale)
            first, last = 1 - place, 1 + place
            other = np.arange(-int(40 * t), int(40 * t) + 1)
            mass = np.tanh(1 / (2 * t)) * np.exp(-np.abs(other) / t)
            high, low = np.floor((last * other + width) / first), np.ceil((last * other - width) / first) - 1
            covered.append(float((mass * (_laplace_upto(high, t) - _laplace_upto(low, t))).sum()))
        print(f"| {mean:.2f} | 0 to {most:,} | {' | '.join(f'{each:.2%}' for each in covered)} |")


def _laplace_upto(places: np.ndarray[Any, Any], scale: float) -> np.ndarray[Any, Any]:
    """Chance that discrete Laplace noise is at most a whole number."""
    far = 1 + math.exp(-1 / scale)
    above = 1 - np.exp(-(np.maximum(places, 0) + 1) / scale) / far
    return np.where(places >= 0, above, np.exp(np.minimum(places, 0) / scale) / far)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    if asked.only in ("", "joint"):
        joint()
    if asked.only in ("", "sets"):
        grouping_sets(max(asked.draws // 20, 5))
    if asked.only in ("", "typed"):
        typed()
    if asked.only in ("", "quantiles"):
        quantiles(asked.draws)
    if asked.only in ("", "ratios"):
        ratios(asked.samples)
    if asked.only in ("", "limits"):
        limits(max(asked.draws // 10, 5))
    if asked.only in ("", "means"):
        means()
    if asked.only in ("", "groups"):
        one_group()
    if asked.only in ("", "combinations"):
        combinations(4 * asked.draws)


if __name__ == "__main__":
    main()
