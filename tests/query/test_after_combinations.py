"""Sums, quotients and variances of released cells: which noises are one, and where an interval has no end."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.query.aggregates.counts_and_sums import Direct
from tacit.query.aggregates.means_and_variances import Spread
from tacit.query.planning.noise import NoiseLaw, NoiseTerm, sum_error
from tacit.query.postprocess.cells import Affine, Cell, CellConfidence, Draw, ratio_range
from tacit.query.postprocess.result import Intervals
from tacit.query.postprocess.rows import derive, pool
from tacit.query.relational.expressions import Reference
from tacit.query.relational.functions import call
from tacit.query.types import DOUBLE, INTEGER, UNKNOWN, Domain, Range

F = Fraction
BETA = F(1, 20)
ONE, OTHER = NoiseLaw("laplace", F(3), source=0, signs=(1,)), NoiseLaw("gaussian", F(9), source=1, signs=(1,))
#: A count and a sum read off one vector of two places, as (A + B)/2 and (A - B)/2.
PLUS = NoiseLaw("laplace", F(3), 2, F(1, 2), 2, (1, 1))
MINUS = NoiseLaw("laplace", F(3), 2, F(1, 2), 2, (1, -1))
UNKNOWN_SOURCE = NoiseLaw("laplace", F(3))
LAWS = (ONE, OTHER, PLUS, MINUS, UNKNOWN_SOURCE)


def level(beta: Fraction = BETA) -> CellConfidence:
    return CellConfidence(LAWS, beta)


def width(**weights: int) -> Fraction:
    return level().sum_half_width({Draw("abcde".index(name[0]), int(name[1:])): F(w) for name, w in weights.items()})


def reference(slot: int) -> Reference:
    return Reference(INTEGER, Domain(UNKNOWN, False, None, F(1)), slot, f"c{slot}")


def count(value: int, group: int, measure: int = 0) -> Cell:
    return Direct(F(value), Draw(measure, group), F(1), Range(F(0), None), INTEGER)


def test_independent_noises_have_the_law_of_their_sum() -> None:
    terms = [NoiseTerm("laplace", F(3), F(1), 2), NoiseTerm("gaussian", F(9), F(2), 1)]
    assert width(a0=1, a1=-1, b0=2) == sum_error(terms, BETA)
    assert width(a0=1, a1=1) < 2 * ONE.error(BETA)


def test_measurements_of_one_vector_share_its_noise() -> None:
    """(A+B)/2 + (A-B)/2 = A: one noise, not four."""
    assert width(c0=1, d0=1) == ONE.error(BETA)
    assert width(c0=1, d0=-1) == ONE.error(BETA)
    # In two groups they are independent.
    assert width(c0=1, d1=1) == sum_error([NoiseTerm("laplace", F(3), F(1, 2), 4)], BETA)
    assert width(c0=2) == sum_error([NoiseTerm("laplace", F(3), F(1), 2)], BETA)


def test_noise_of_an_unknown_vector_is_not_taken_for_independent() -> None:
    each = BETA / 2
    assert width(a0=1, e0=1) == ONE.error(each) + UNKNOWN_SOURCE.error(each)
    assert width(c0=1, d0=1, e0=1) == ONE.error(each) + UNKNOWN_SOURCE.error(each)


def test_sums_of_counts_are_not_negative() -> None:
    total = pool("sum", [count(1, 0), count(-2, 1)], None, INTEGER)
    low, high = Intervals(LAWS, "0.95").of(total)
    assert low == -1  # the value itself, which an interval contains
    assert total.enclose(level()).range.low == 0
    assert high == -1 + width(a0=1, a1=1)


def quotient(top: Affine, bottom: Affine) -> tuple[Fraction, Fraction]:
    found = ratio_range(top, bottom, level())
    assert found is not None
    assert found.ends is not None
    return found.ends


def test_a_quotient_lies_inside_the_box_and_around_its_value() -> None:
    top, bottom = Affine({Draw(0, 0): F(1)}, F(300), F(1)), Affine({Draw(0, 1): F(1)}, F(1000), F(1))
    low, high = quotient(top, bottom)
    move = sum_error([NoiseTerm("laplace", F(3), F(1), 1), NoiseTerm("laplace", F(3), F(3, 10), 1)], BETA)
    assert low < F(3, 10) < high
    assert F(95, 100) * 2 * move / 1000 < high - low < F(107, 100) * 2 * move / 1000


def test_a_share_of_a_total_has_its_own_cell_in_common() -> None:
    """With r near 1 the share is nearly without noise, because both ends move together."""
    part, rest = Affine({Draw(0, 0): F(1)}, F(1000), F(1)), Affine({Draw(0, 1): F(1)}, F(0), F(1))
    low, high = quotient(part, Affine.total((part, rest)))
    other = Affine({Draw(0, 2): F(1)}, F(1000), F(1))
    apart = quotient(part, other)
    assert high - low < (apart[1] - apart[0]) * F(8, 10)


def test_a_divisor_that_may_be_zero_is_a_step_away_from_it() -> None:
    top, bottom = Affine({Draw(0, 0): F(1)}, F(10), F(1)), Affine({Draw(0, 1): F(1)}, F(1), F(1))
    low, high = quotient(top, bottom)
    assert -50 < low < 10 < high < 50
    whole = ratio_range(top, Affine({Draw(0, 1): F(1)}, F(1)), level())
    assert whole == Range(None, None)
    counts = Affine(top.weights, F(10), F(1), not_negative=True), Affine(bottom.weights, F(1), F(1), not_negative=True)
    assert quotient(*counts) == (0, high)


def test_a_quotient_by_a_window_of_one_row_has_an_interval() -> None:
    alone = pool("sum", [count(2, 1)], None, INTEGER)
    low, high = Intervals(LAWS, "0.95").of(derive(call("div", reference(0), reference(1)), (count(30, 0), alone)))
    assert 0 == low < 15 < high < 100  # type: ignore[operator]


def test_quotients_of_unknown_noise_are_those_of_a_box() -> None:
    row = (count(30, 0, 4), count(100, 1, 4))
    low, high = Intervals(LAWS, "0.95").of(derive(call("div", reference(0), reference(1)), row))
    half = UNKNOWN_SOURCE.error(BETA / 2)
    assert low == pytest.approx(float((30 - half) / (100 + half)))
    assert high == pytest.approx(float((30 + half) / (100 - half)))


def spread(size: int, joint: bool, **options: bool) -> Spread:
    """Values spread evenly over -50 … 50 steps, mean 10, variance 400."""
    form = {"sample": False, "root": False, **options}
    return Spread(
        noisy_count=F(size), noisy_sum=F(10 * size), count_draw=Draw(0, 0), sum_draw=Draw(1, 0), step=F(1), type=DOUBLE,
        noisy_squares=F(500 * size), squares_draw=Draw(2, 0), most=F(2500), joint=joint, **form,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("options", [{}, {"sample": True}, {"root": True}], ids=["population", "sample", "root"])
@pytest.mark.parametrize("size", [1, 2, 20, 300, 10**4, 10**7])
def test_one_test_is_narrower_than_a_box_for_large_groups(kind: str, options: dict[str, bool], size: int) -> None:
    power = 1 if kind == "laplace" else 2
    laws = [
        NoiseLaw(kind, (3 * F(scale)) ** power, source=index, signs=(1,)) for index, scale in enumerate((1, 50, 2500))
    ]
    at = Intervals(laws, "0.95")
    tested, boxed = (at.of(spread(size, joint, **options)) for joint in (True, False))
    value = spread(size, True, **options).value
    assert value is None or tested[0] <= value <= tested[1]  # type: ignore[operator]
    ratio = (tested[1] - tested[0]) / (boxed[1] - boxed[0])  # type: ignore[operator]
    assert ratio < (0.75 if size >= 300 else 1.02)


def test_one_test_of_a_variance_is_one_event() -> None:
    assert len(spread(100, True).events) == 1
    assert len(spread(100, False).events) == 3
