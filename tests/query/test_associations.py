"""Correlations, covariances and regressions: estimates, enclosures, shared measurements, hostile data."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.corpus.clinic import CATALOG
from tacit.query.aggregates.associations import Association, PairSums, association_error
from tacit.query.planning.measures import MeasureKind
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.cells import CellConfidence, Draw
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE

FORMS = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_sxy")
NEEDS = {"covar_pop": 4, "covar_samp": 4, "regr_sxy": 4, "regr_slope": 5, "regr_intercept": 5}
CENTRES = (Fraction(3), Fraction(-2))


def sums_of(u: np.ndarray, v: np.ndarray) -> PairSums:
    shifted = [[Fraction(int(x)) - c for x in side] for side, c in zip((u, v), CENTRES, strict=True)]
    a, b = shifted
    return PairSums(
        Fraction(len(a)), sum(a, Fraction(0)), sum(b, Fraction(0)),
        sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0)),
        sum((x * x for x in a), Fraction(0)), sum((y * y for y in b), Fraction(0)),
    )  # fmt: skip


def cell(form: str, sums: PairSums) -> Association:
    needed = NEEDS.get(form, 6)
    bounds = {"corr": (Fraction(-1), Fraction(1)), "regr_r2": (Fraction(0), Fraction(1))}.get(form)
    draws = tuple(Draw(i, 0) for i in range(needed))
    reach = (Fraction(20), Fraction(20))
    return Association(form, draws, (Fraction(1),) * needed, DOUBLE, PairSums(*sums[:needed]), CENTRES, reach, bounds)


def truth(form: str, u: np.ndarray, v: np.ndarray) -> float:
    cov = np.cov(u, v, ddof=0)
    slope = cov[0, 1] / cov[0, 0]
    return float(
        {
            "covar_pop": cov[0, 1], "covar_samp": cov[0, 1] * len(u) / (len(u) - 1), "regr_sxy": cov[0, 1] * len(u),
            "corr": cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1]), "regr_slope": slope,
            "regr_intercept": v.mean() - slope * u.mean(), "regr_r2": cov[0, 1] ** 2 / (cov[0, 0] * cov[1, 1]),
        }[form]
    )  # fmt: skip


class Boxes(CellConfidence):
    """Every draw is within one half-width."""

    def __init__(self, width: Fraction) -> None:
        super().__init__([NoiseLaw("none", Fraction(0))] * 6, Fraction(1, 10))
        self.width = width

    def half_width(self, measure: int) -> Fraction:
        return self.width


@pytest.mark.parametrize("form", FORMS)
def test_without_noise_they_are_those_of_numpy(form: str) -> None:
    generator = np.random.Generator(np.random.PCG64(1))
    u, v = generator.integers(-15, 20, 60), generator.integers(-20, 15, 60)
    v = v + u
    found = cell(form, sums_of(u, v))
    assert found.value == pytest.approx(truth(form, u, v), rel=1e-12)
    low, high = found.ends(Boxes(Fraction(0)))
    assert low == pytest.approx(found.value, rel=1e-12)
    assert high == pytest.approx(found.value, rel=1e-12)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    values=st.lists(st.tuples(st.integers(-17, 23), st.integers(-22, 18)), min_size=2, max_size=12),
    form=st.sampled_from(FORMS),
    noise=st.lists(st.integers(-4, 4), min_size=6, max_size=6),
)
def test_the_truth_is_enclosed_wherever_noise_is_within_the_box(
    values: list[tuple[int, int]], form: str, noise: list[int]
) -> None:
    u, v = (np.array(side) for side in zip(*values, strict=True))
    if len(set(u)) == 1 or len(set(v)) == 1:
        return
    noisy = PairSums(*(total + by for total, by in zip(sums_of(u, v), noise, strict=True)))  # type: ignore[operator]
    span = cell(form, noisy).enclose(Boxes(Fraction(4))).range
    exact = truth(form, u, v)
    slack = 1e-9 * (1 + abs(exact))
    assert span.low is None or float(span.low) - slack <= exact
    assert span.high is None or exact <= float(span.high) + slack


def test_enclosures_narrow_with_the_box() -> None:
    generator = np.random.Generator(np.random.PCG64(2))
    u = generator.integers(-15, 20, 500)
    sums = sums_of(u, u // 2)
    for form in FORMS:
        widths = []
        for width in (40, 10, 1):
            low, high = cell(form, sums).ends(Boxes(Fraction(width)))
            assert isinstance(low, float)
            assert isinstance(high, float)
            widths.append(high - low)
        assert widths[0] > widths[1] > widths[2] > 0, form
        assert widths[2] < 0.1 * max(1.0, abs(truth(form, u, u // 2))), form


@pytest.mark.parametrize("form", FORMS)
def test_constants_empty_groups_and_huge_noise(form: str) -> None:
    constant = cell(form, sums_of(np.full(30, 5), np.arange(30) % 7))
    if form in ("corr", "regr_r2", "regr_slope", "regr_intercept"):
        assert constant.value is None
        # With noise a constant cannot be told from a value that varies a little.
        span = constant.enclose(Boxes(Fraction(3))).range
        assert form not in ("corr", "regr_r2") or (span.low, span.high) in ((-1, 1), (0, 1))
    for sums in itertools.product((-1000, 1, 10**30), repeat=6):
        found = cell(form, PairSums(*map(Fraction, sums)))
        value = found.value
        low, high = found.ends(Boxes(Fraction(10**6)))
        assert value is None or (isinstance(value, float) and math.isfinite(value))
        assert all(end is None or (isinstance(end, float) and math.isfinite(end)) for end in (low, high))
        if form == "corr" and value is not None:
            assert -1 <= value <= 1  # type: ignore[operator]


def test_moments_are_measured_once() -> None:
    def kinds(sql: str) -> list[MeasureKind]:
        return [measure.kind for measure in resolve(sql, CATALOG).final.measures]

    count, total, squares = MeasureKind.ROWS, MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES
    beds = "nights, CLAMP(nights, 2, 9)"
    alone = kinds(f"SELECT CORR({beds}) FROM visits")
    assert alone == [count, total, total, total, squares, squares]
    assert kinds(f"SELECT CORR({beds}), REGR_SLOPE({beds}), REGR_SXX({beds}), REGR_COUNT({beds}) FROM visits") == alone
    assert kinds(f"SELECT CORR({beds}), AVG(nights), VARIANCE(nights), COUNT(*) FROM visits") == alone
    # Where values may be NULL, the pairs are counted, and once.
    pairs = "SELECT CORR(cost, weight), REGR_AVGX(cost, weight), REGR_AVGY(cost, weight), REGR_COUNT(cost, weight)"
    joined = f"{pairs} FROM visits JOIN patients ON id = patient_id"
    assert kinds(joined) == alone


@pytest.mark.parametrize("account", ["pure", "approx", "zcdp", "gdp"])
def test_they_are_quoted_in_every_currency(account: str) -> None:
    sql = "SELECT CORR(weight, year(birth)) AS r, COVAR_POP(weight, year(birth)) AS c FROM patients"
    delta = "1e-6" if account in ("approx", "zcdp") else None

    def quoted(epsilon: str, pairs: int) -> list[Fraction | None]:
        request = Request(epsilon=epsilon, account=Account(account, delta), suppose=pairs)
        return [each.bound for each in make_plan(sql, CATALOG, request).errors]

    errors = [quoted("1", 5000), quoted("4", 5000), quoted("4", 50_000)]
    for column in zip(*errors, strict=True):
        first, second, third = (float(bound or 0) for bound in column)
        assert first > second > third > 0
    assert errors[2][0] is not None
    assert errors[2][0] < Fraction(1, 10)


def test_the_quoted_error_covers_estimates_of_evenly_spread_values() -> None:
    """Noise at its bound in the worst direction: the estimate is off by at most the quote."""
    generator = np.random.Generator(np.random.PCG64(3))
    u = generator.permutation(np.arange(-17, 24).repeat(25))
    v = (u - 3) // 2 - 2
    sums, reach = sums_of(u, v), (Fraction(20), Fraction(10))
    noises = [Fraction(2), Fraction(15), Fraction(15), Fraction(300), Fraction(300), Fraction(300)]
    for form in FORMS:
        needed = NEEDS.get(form, 6)
        bound = association_error(form, len(u), noises[:needed], reach, CENTRES[0])
        assert bound is not None
        for signs in itertools.product((-1, 1), repeat=needed):
            off = [total + sign * noise for total, sign, noise in zip(sums, signs, noises, strict=False)]  # type: ignore[operator]
            value = cell(form, PairSums(*off)).value
            assert isinstance(value, float)
            assert abs(value - truth(form, u, v)) <= float(bound) * 1.02 + 1e-9, form
