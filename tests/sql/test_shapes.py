"""Skewness and kurtosis: estimates, enclosures, shared measurements, hostile sums."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.corpus.clinic import CATALOG
from tacit.query.planning.measures import MeasureKind
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.cells import CellConfidence, Draw
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.query.shape_family import LEAST_VALUES, ShapeEstimate, shape_error
from tacit.query.types import DOUBLE

FORMS = tuple(LEAST_VALUES)
REACH = Fraction(20)


class Boxes(CellConfidence):
    """Every draw is within a half-width of its own."""

    def __init__(self, widths: tuple[Fraction, ...]) -> None:
        super().__init__([NoiseLaw("none", Fraction(0))] * 5, Fraction(1, 10))
        self.widths = widths

    def half_width(self, measure: int) -> Fraction:
        return self.widths[measure]


def sums_of(values: np.ndarray) -> tuple[Fraction, ...]:
    return tuple(sum((Fraction(int(x)) ** power for x in values), Fraction(0)) for power in range(5))


def cell(form: str, sums: tuple[Fraction, ...]) -> ShapeEstimate:
    needed = 4 if form == "skewness" else 5
    draws = tuple(Draw(i, 0) for i in range(needed))
    return ShapeEstimate(form, draws, (Fraction(1),) * needed, DOUBLE, sums[:needed], REACH)


def truth(form: str, values: np.ndarray) -> float:
    n, centred = len(values), values - values.mean()
    m2, m3, m4 = (float((centred**p).mean()) for p in (2, 3, 4))
    if form == "skewness":
        return m3 / m2**1.5 * math.sqrt(n * (n - 1)) / (n - 2)
    excess = m4 / m2**2 - 3
    return excess if form == "kurtosis_pop" else (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * excess + 6)


@pytest.mark.parametrize("form", FORMS)
def test_without_noise_they_are_those_of_numpy(form: str) -> None:
    values = np.random.Generator(np.random.PCG64(1)).geometric(0.2, 80).clip(1, 20)
    found = cell(form, sums_of(values))
    assert found.value == pytest.approx(truth(form, values), rel=1e-12)
    assert found.ends(Boxes((Fraction(0),) * 5)) == pytest.approx((found.value,) * 2, rel=1e-12)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    values=st.lists(st.integers(-20, 20), min_size=4, max_size=30),
    form=st.sampled_from(FORMS),
    noise=st.lists(st.sampled_from([-8, -4, -1, 0, 1, 4, 8]), min_size=5, max_size=5),
)
def test_the_truth_is_enclosed_wherever_noise_is_within_the_box(values: list[int], form: str, noise: list[int]) -> None:
    if len(set(values)) == 1:
        return
    widths = tuple(Fraction(8 * 20**power, 20) for power in range(5))
    scaled = [by * Fraction(20**power, 20) for power, by in enumerate(noise)]
    noisy = tuple(total + by for total, by in zip(sums_of(np.array(values)), scaled, strict=True))
    low, high = cell(form, noisy).ends(Boxes(widths))
    exact = truth(form, np.array(values))
    slack = 1e-9 * (1 + abs(exact))
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low - slack <= exact <= high + slack


def test_enclosures_narrow_with_the_box_and_the_quote_covers_them() -> None:
    values = np.arange(-20, 21).repeat(40)
    for form in FORMS:
        needed = 4 if form == "skewness" else 5
        widths = []
        for scale in (Fraction(4), Fraction(1), Fraction(1, 10)):
            noises = tuple(scale * 20**power for power in range(5))
            low, high = cell(form, sums_of(values)).ends(Boxes(noises))
            assert isinstance(low, float)
            assert isinstance(high, float)
            widths.append(high - low)
            quoted = shape_error(form, len(values), noises[:needed], REACH)
            assert quoted is not None
            assert (high - low) / 2 <= float(quoted) * 1.1
        assert widths[0] > widths[1] > widths[2] > 0, form
        assert widths[2] < 0.1, form


@pytest.mark.parametrize("form", FORMS)
def test_constants_empty_groups_and_huge_noise(form: str) -> None:
    assert cell(form, sums_of(np.full(30, 5))).value is None
    for sums in itertools.product((-1000, 1, 10**30), repeat=5):
        found = cell(form, tuple(map(Fraction, sums)))
        ends = found.ends(Boxes((Fraction(10**6),) * 5))
        assert all(end is None or (isinstance(end, float) and math.isfinite(end)) for end in (found.value, *ends))


def test_moments_are_measured_once_and_the_first_three_together() -> None:
    forms = (
        "SKEWNESS(nights)",
        "KURTOSIS(nights)",
        "KURTOSIS_POP(nights)",
        "VARIANCE(nights)",
        "AVG(nights)",
        "COUNT(*)",
    )
    sql = f"SELECT {', '.join(forms)} FROM visits"
    total = MeasureKind.CENTRED_SUM
    kinds = [measure.kind for measure in resolve(sql, CATALOG).final.measures]
    assert kinds == [MeasureKind.ROWS, total, MeasureKind.CENTRED_SQUARES, total, total]
    plan = make_plan(sql, CATALOG, Request(epsilon="1", account=Account("pure")))
    assert [part.block.measures for part in plan.priced.releases] == [(0, 1, 2), (3,), (4,)]


@pytest.mark.parametrize("account", ["pure", "zcdp"])
def test_they_are_quoted_in_every_currency(account: str) -> None:
    sql = "SELECT SKEWNESS(weight) AS s, KURTOSIS(weight) AS k FROM patients"
    errors = []
    for epsilon, values in (("1", 20_000), ("4", 20_000), ("4", 200_000)):
        terms = Account(account, "1e-6" if account == "zcdp" else None)
        plan = make_plan(sql, CATALOG, Request(epsilon=epsilon, account=terms, suppose=values))
        errors.append([float(each.bound or 0) for each in plan.errors])
    for first, second, third in zip(*errors, strict=True):
        assert first > second > third > 0
    assert max(errors[2]) < 0.05
