"""Workloads: what they ask, how little noise answers them, and how far one unit moves what gets noise."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

import tacit
from support.bits import SeededBits
from synth.small_tables import counts_of, sizes_of
from tacit import Workload
from tacit.core.errors import InputError
from tacit.core.events import ComposedEvent
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise_interval import interval_factor, laplace_factor
from tacit.query.planning.pricing import largest_rho_of
from tacit.synth.count_measurement import (
    COUNT_NOISES,
    DISCRETE_LAPLACE,
    ROUNDED_GAUSSIAN,
    CountMeasurement,
    CountNoise,
    divide,
)
from tacit.synth.strategy import CentredStrategy, DenseStrategy, optimal_gram, strategy_for
from tacit.synth.workload import Factor
from tacit.synth.workload_answer import WorkloadEstimates
from tacit.synth.workload_plan import plan_workload

SIZES = {"a": 2, "b": 3, "c": 5}
VALUES = {"a": ["u", "v"], "b": [1, 2, 3], "c": [0, 1, 2, 3, 4]}
RUNS = 600
CELLS = np.random.default_rng(3).integers(0, 60, (2, 3, 5))
MIXED = (
    Workload.marginals(list("abc"), ways=2)
    + Workload.prefixes("c") * Workload.each("a")
    + Workload.ranges("c")
    + Workload.each("a") * Workload.each("b")
)


def explicit(sets: list[tuple[str, ...]]) -> list[list[int]]:
    """The marginals as rows over all cells."""
    cells = list(itertools.product(*(range(SIZES[name]) for name in "abc")))
    rows = []
    for names in sets:
        places = ["abc".index(name) for name in names]
        for key in itertools.product(*(range(SIZES[name]) for name in names)):
            rows += [[int(all(cell[p] == k for p, k in zip(places, key, strict=True))) for cell in cells]]
    return rows


def lower_bound(rows: list[list[int]], rho: Fraction) -> float:
    """No Gaussian mechanism has a smaller sum of variances."""
    matrix = np.array(rows, dtype=np.float64)
    return optimal_gram(matrix.T @ matrix)[1] / float(2 * rho)


# -- queries


def test_a_workload_counts_its_queries() -> None:
    assert MIXED.count(SIZES) == (6 + 10 + 15) + 10 + 15 + 6
    assert Workload.marginals([["a"], ["a", "b"], []]).count(SIZES) == 2 + 6 + 1
    assert (Workload.ranges("c") * Workload.total("a")).count(SIZES) == 15


def test_marginals_that_are_added_share_their_noise_and_order_means_nothing() -> None:
    left = Workload.marginals([["b", "a"]]) + Workload.marginals([["c"]])
    assert left == Workload.marginals([["c"]]) + Workload.marginals([["a", "b"]])
    assert len(left.parts) == 1
    assert left.text == Workload.marginals([["c"], ["a", "b"]]).text


@pytest.mark.parametrize(
    "make",
    [
        lambda: Workload.marginals(["a", "a"], ways=1),
        lambda: Workload.marginals(["a", "b"]),
        lambda: Workload.marginals("ab", ways=1),
        lambda: Workload.marginals(["a"], ways=2),
        lambda: Workload.marginals([]),
        lambda: Workload.each("a") * Workload.prefixes("a"),
        lambda: Workload.marginals(list("abc"), ways=2) * Workload.each("d"),
        lambda: plan_workload(Workload.each("z"), SIZES, price=Fraction(1)),
        lambda: plan_workload(Workload.prefixes("a"), {"a": 5_000}, price=Fraction(1)),
        lambda: plan_workload(Workload.marginals([list("abc")]), dict.fromkeys("abc", 1_000), price=Fraction(1)),
    ],
)
def test_what_cannot_be_asked_is_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


# -- noise


def test_residuals_reach_the_bound_of_all_strategies() -> None:
    rho = Fraction(1, 8)
    sets = list(itertools.combinations("abc", 2))
    plan = plan_workload(Workload.marginals(sets), SIZES, price=rho)
    total = plan.root_mean_square_error**2 * plan.count
    bound = lower_bound(explicit(sets), rho)
    # The bound comes from an iteration that ends within half a percent of the optimum.
    assert bound * 0.999 <= total <= bound * 1.006


def test_residuals_beat_answering_each_marginal_by_itself() -> None:
    sizes = dict.fromkeys("abcdefgh", 4)
    rho, ways = Fraction(1), 3
    plan = plan_workload(Workload.marginals(list(sizes), ways=ways), sizes, price=rho)
    alone = math.sqrt(math.comb(8, ways) / (2 * float(rho)))
    assert plan.root_mean_square_error < 0.8 * alone


def test_all_three_way_marginals_of_a_census_are_at_the_bound_and_far_below_shares_of_epsilon() -> None:
    # Adult with its integers in bins: the sizes of benchmarks/workloads.py.
    sizes = dict(zip("abcdefghijklmno", (26, 7, 33, 16, 16, 7, 14, 6, 5, 2, 33, 33, 26, 41, 2), strict=True))
    work = Workload.marginals(list(sizes), ways=3)
    needed = {names: 0.0 for ways in range(4) for names in itertools.combinations(sizes, ways)}
    for asked in itertools.combinations(sizes, 3):
        cells = math.prod(sizes[name] for name in asked)
        for names in (names for ways in range(4) for names in itertools.combinations(asked, ways)):
            spread = [1 - 1 / sizes[name] if name in names else sizes[name] ** -2 for name in asked]
            needed[names] += cells * math.prod(spread)
    claims = [math.sqrt(c * math.prod(1 - 1 / sizes[name] for name in names)) for names, c in needed.items()]
    for epsilon in ("0.1", "1", "10"):
        rho = largest_rho_of(Fraction(epsilon), Fraction("1e-9"))
        plan = plan_workload(work, sizes, price=rho)
        assert plan.count == 2_289_119
        bound = math.fsum(claims) / math.sqrt(2 * float(rho) * plan.count)
        assert bound * (1 - 1e-9) <= plan.root_mean_square_error <= 1.02 * bound
        # Each of the 455 marginals with Laplace noise at a share of epsilon, as prices in epsilon add up.
        assert 5 * plan.root_mean_square_error <= math.sqrt(2) * 455 / float(Fraction(epsilon))


@pytest.mark.parametrize(("kind", "size"), [("prefixes", 64), ("ranges", 48), ("prefixes", 200)])
def test_ordered_strategies_are_near_the_bound_of_all_strategies(kind: str, size: int) -> None:
    factor = Factor("a", kind)  # type: ignore[arg-type]
    strategy = strategy_for(factor, size)
    assert strategy.bound > 0.985
    gram = factor.gram(size)
    places = [(0, high) for high in range(size)] if kind == "prefixes" else itertools.combinations(range(size + 1), 2)
    rows = np.array(
        [[low <= at <= high - (kind == "ranges") for at in range(size)] for low, high in places], dtype=float
    )
    assert np.array_equal(gram, rows.T @ rows)
    # The identity, which adds noise to every count, is far from it.
    assert np.trace(gram @ strategy.covariance) * strategy.column_squares[1] < 0.4 * np.trace(gram)


def test_a_division_adds_up_exactly() -> None:
    parts = divide(Fraction(1, 3), [1e-30, 0.2, 5.0])
    assert sum(parts) == Fraction(1, 3)
    assert min(parts) > 0


# -- sensitivity


def strategies() -> Iterator[tuple[IntegerStrategies, int]]:
    yield (), 1
    yield (CentredStrategy(3),), 3
    yield (CentredStrategy(2), CentredStrategy(4)), 8
    yield (CentredStrategy(2), CentredStrategy(3), CentredStrategy(2)), 12
    yield (strategy_for(Factor(("c",), "prefixes"), 5),), 5
    yield (strategy_for(Factor(("c",), "ranges"), 4, factors=2), DenseStrategy(np.eye(3, dtype=np.int64))), 12
    yield (DenseStrategy(np.array([[1, -2, 0], [0, 3, 1], [4, 0, 1]])),), 3


IntegerStrategies = tuple[CentredStrategy | DenseStrategy, ...]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_sensitivity_by_enumeration_of_all_columns(rows: int, relation: Relation) -> None:
    for parts, cells in strategies():
        measured = CountMeasurement(("x",) * len(parts), parts, Fraction(1), rows, relation)
        columns = [measured.inputs(np.eye(cells, dtype=np.int64)[j]).ravel() for j in range(cells)]
        moved = [rows * column for column in columns]
        if relation is REPLACE_ONE:
            moved += [rows * (left - right) for left in columns for right in columns]
        furthest = max(int(np.abs(vector).sum()) for vector in moved)
        assert furthest <= measured.l1 <= (furthest if relation is ADD_REMOVE else 2 * furthest)
        largest = max(int(vector @ vector) for vector in moved)
        assert largest <= measured.l2_squared
        if all(isinstance(part, CentredStrategy) for part in parts) or relation is ADD_REMOVE:
            assert largest == measured.l2_squared, parts


def test_several_rows_of_a_unit_move_no_more_than_equal_ones() -> None:
    made = np.random.default_rng(2)
    for parts, cells in strategies():
        measured = CountMeasurement(("x",) * len(parts), parts, Fraction(1), 4)
        for _ in range(50):
            unit = np.bincount(made.integers(0, cells, 4), minlength=cells)
            vector = measured.inputs(unit).ravel()
            assert int(vector @ vector) <= measured.l2_squared
            assert int(np.abs(vector).sum()) <= measured.l1


def test_the_price_is_the_composition_of_all_measurements() -> None:
    plan = plan_workload(MIXED, SIZES, price=Fraction(1, 7), rows=2)
    assert sum(m.price for m in plan.measurements) == Fraction(1, 7)
    for measured in plan.measurements:
        assert measured.event.l2_squared / (2 * measured.event.sigma2) <= measured.price
        assert measured.mechanism.zcdp.rho <= measured.price


@pytest.mark.parametrize("noise", [ROUNDED_GAUSSIAN, DISCRETE_LAPLACE], ids=["gdp", "pure"])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_other_noises_cost_what_they_are_priced_at(noise: CountNoise, relation: Relation) -> None:
    plan = plan_workload(MIXED, SIZES, price=Fraction(1, 7), rows=2, noise=noise, relation=relation)
    assert sum(m.price for m in plan.measurements) == Fraction(1, 7)
    (cost,) = noise.currency.cost(
        ComposedEvent(tuple(m.event for m in plan.measurements), relation=relation), relation
    ).values()
    assert Fraction(999, 1000) / 7 < cost <= Fraction(1, 7)
    for m in plan.measurements:
        made = m.mechanism
        reach = made.l1_sensitivity if noise is DISCRETE_LAPLACE else made.l2_sensitivity**2
        assert reach >= (m.l1 if noise is DISCRETE_LAPLACE else m.l2_squared)


def test_marginals_with_laplace_noise_share_what_they_tell() -> None:
    """No worse than each table by itself, and much better where one table has them all."""
    pure = {"price": Fraction(1), "noise": DISCRETE_LAPLACE}
    sizes = dict.fromkeys("abcdef", 5)
    plan = plan_workload(Workload.marginals(list(sizes), ways=2), sizes, **pure)
    assert plan.root_mean_square_error < 0.97 * math.sqrt(2) * math.comb(6, 2)
    whole = plan_workload(Workload.marginals(list("abc"), ways=2), dict.fromkeys("abc", 2), **pure)
    assert whole.root_mean_square_error < 0.8 * math.sqrt(2) * 3
    # A tree of sums in place of noise on every value.
    prefixes = plan_workload(Workload.prefixes("x"), {"x": 200}, **pure)
    assert prefixes.root_mean_square_error < 0.75 * math.sqrt(2 * 100.5)


@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "3", "40"])
@pytest.mark.parametrize("noise", COUNT_NOISES.values(), ids=list(COUNT_NOISES))
def test_selections_buy_the_most_that_their_price_allows(noise: CountNoise, epsilon: str) -> None:
    price = noise.selection_price(Fraction(epsilon))
    found = noise.selection_epsilon(price)
    assert Fraction(epsilon) * (1 - Fraction(1, 10**9)) < found <= Fraction(epsilon) * (1 + Fraction(1, 10**9))
    assert noise.selection_price(found) <= price
    with pytest.raises(InputError, match="too small"):
        noise.mechanism(Fraction(1, 10**40), 1, 1, 1, ADD_REMOVE)


# -- answers


@pytest.mark.parametrize("noise", COUNT_NOISES.values(), ids=list(COUNT_NOISES))
def test_answers_without_noise_are_the_truth_and_agree(noise: CountNoise) -> None:
    plan = plan_workload(MIXED, SIZES, price=Fraction(1), noise=noise)
    source = counts_of(CELLS, "abc")
    exact = WorkloadEstimates(plan, VALUES, [m.inputs(source(m.columns)) for m in plan.measurements])
    assert np.allclose(exact.marginal("a", "b").values, CELLS.sum(axis=2))
    assert np.allclose(exact.marginal("c").values, CELLS.sum(axis=(0, 1)))
    assert exact.count().value == pytest.approx(CELLS.sum())
    assert exact.count(a="u", c=(1, 3)).value == pytest.approx(CELLS[0, :, 1:4].sum())
    assert exact.count(a="v", b=[1, 3]).value == pytest.approx(CELLS[1][[0, 2]].sum())
    tables = list(exact.tables())
    assert [len(table) for table in tables] == [6, 10, 15, 10, 15, 6]
    assert np.allclose(tables[3].values, CELLS.sum(axis=1).cumsum(axis=1).T)
    assert sizes_of(CELLS, "abc") == SIZES


@pytest.fixture(scope="module", params=list(COUNT_NOISES))
def errors(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray, float]:
    """Errors of all answers in many releases, their variances, and the factor of intervals."""
    bits = SeededBits(11)
    plan = plan_workload(MIXED, SIZES, price=Fraction(5), noise=COUNT_NOISES[request.param])
    source = counts_of(CELLS, "abc")
    true = WorkloadEstimates(plan, VALUES, [m.inputs(source(m.columns)) for m in plan.measurements])
    truth = np.concatenate([table.values.ravel() for table in true.tables()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tacit.noise.entropy.current", lambda: bits)
        noise = [m.mechanism.noise.sampler.sample_many(RUNS * m.outputs) for m in plan.measurements]
    exact = [m.inputs(source(m.columns)) for m in plan.measurements]
    found = []
    for run in range(RUNS):
        drawn = [n.reshape(RUNS, *each.shape)[run] for n, each in zip(noise, exact, strict=True)]
        answer = WorkloadEstimates(plan, VALUES, [e + d for e, d in zip(exact, drawn, strict=True)])
        found.append(np.concatenate([table.values.ravel() for table in answer.tables()]) - truth)
    variances = np.concatenate([table.variances.ravel() for table in true.tables()])
    return np.array(found), variances, plan.factor("0.9")


def test_answers_are_unbiased_with_the_stated_variances(errors: tuple[np.ndarray, np.ndarray, float]) -> None:
    found, variances, _ = errors
    runs = len(found)
    # 62 queries: a normal z beyond 4.5 in any has probability below 4e-4; seeded, so it always passes or never.
    assert np.abs(found.mean(axis=0) / np.sqrt(variances / runs)).max() < 4.5
    ratio = (found**2).mean(axis=0) / variances
    # Squares of Laplace noise vary more than those of Gaussian noise: their variance is 5, not 2.
    assert np.abs(ratio - 1).max() < 4.5 * math.sqrt(5 / runs)


def test_intervals_cover(errors: tuple[np.ndarray, np.ndarray, float]) -> None:
    found, variances, factor = errors
    covered = (np.abs(found) <= factor * np.sqrt(variances)).mean(axis=0)
    assert covered.min() > 0.9 - 4.5 * math.sqrt(0.09 / len(found))
    # Laplace noise is covered at any weights, so that many equal ones have more than they need.
    assert covered.mean() == pytest.approx(0.905, abs=0.02)


@pytest.mark.parametrize("noise", COUNT_NOISES.values(), ids=list(COUNT_NOISES))
def test_answers_agree_also_with_noise(noise: CountNoise) -> None:
    plan = plan_workload(Workload.marginals(list("abc"), ways=2), SIZES, price=Fraction(1, 100), noise=noise)
    source = counts_of(CELLS, "abc")
    answer = WorkloadEstimates(plan, VALUES, [m.release(source) for m in plan.measurements])
    total = answer.count().value
    for names in itertools.combinations("abc", 2):
        table = answer.marginal(*names)
        assert table.values.sum() == pytest.approx(total)
        assert np.allclose(table.values.sum(axis=1), answer.marginal(names[0]).values)
    assert answer.count(a=["u", "v"], b=2).value == pytest.approx(answer.count(b=2).value)
    assert answer.count(a=["u", "v"], b=2).stddev == pytest.approx(answer.count(b=2).stddev)


def test_the_factor_is_the_normal_quantile_for_fine_noise_and_safe_for_coarse_noise() -> None:
    assert interval_factor("0.95", 1.0) == pytest.approx(math.sqrt(2 * math.log(40)))
    factors = [interval_factor("0.95", variance) for variance in (1.0, 100.0, 10**4, 10**6, 10**12)]
    assert factors == sorted(factors, reverse=True)
    assert 1.95996 < factors[-1] < 1.961


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("terms", [1, 2, 5, 60])
def test_intervals_of_laplace_noise_hold_for_any_number_of_terms(terms: int) -> None:
    """Equal weights, and one that is as large as all others together."""
    factor = laplace_factor("0.95", 200.0)
    assert 2.12 < factor < 2.25
    for weights in (np.ones(terms), np.array([terms, *[1.0] * (terms - 1)])):
        drawn = Laplace(epsilon="0.005", l1_sensitivity=1).noise.sampler.sample_many(20_000 * terms).reshape(-1, terms)
        covered = np.abs(drawn @ weights) <= factor * math.sqrt(2 * 200.0**2 * float(weights @ weights))
        assert 0.948 < covered.mean() < 0.975
    # Below what the sum can be computed for, Chernoff's bound, without a gap.
    assert laplace_factor(Fraction(1) - Fraction(1, 10**8), 200.0) < laplace_factor(1 - Fraction(1, 10**10), 200.0)


def test_strategies_that_would_take_hours_are_refused_at_once() -> None:
    sizes = {f"c{place}": 2_048 for place in range(5)}
    parts = [Workload.prefixes(name) for name in sizes]
    with pytest.raises(InputError, match="5 of 2,048 values, and 4 is the most; ask in several workloads"):
        plan_workload(reduce(operator.add, parts), sizes, price=Fraction(1))


def test_the_public_name() -> None:
    assert tacit.Workload is Workload
    assert str(Workload.prefixes("age") * Workload.each("sex")) == "prefixes of age × each of sex"
