"""Means: reading values exactly, the two kinds of n, intervals, and results that are always finite."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.guarantees import PureDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean, NoisyMean


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the noise off, to see what it would have been added to."""
    monkeypatch.setattr(Laplace, "release", lambda self, value: value)


@pytest.mark.usefixtures("silent")
class TestWithoutNoise:
    def test_with_public_n(self) -> None:
        noisy = Mean(epsilon=1, bounds=(0, 10), n=4, step=1).release([1, 2, 3, 10])
        assert (noisy.value, noisy.people, noisy.noisy_above, noisy.noisy_below) == (4.0, 4.0, 16, 24)

    def test_with_private_n(self) -> None:
        noisy = Mean(epsilon=1, bounds=(-5, 5), step=1).release([-4, -3, -2, 5])
        assert (noisy.value, noisy.people, noisy.noisy_above, noisy.noisy_below) == (-1.0, 4.0, 16, 24)

    @pytest.mark.parametrize("n", [None, 3])
    def test_values_are_clamped(self, n: int | None) -> None:
        assert Mean(epsilon=1, bounds=(0, 1), n=n).release([-50, 1e300, 2]).value == pytest.approx(2 / 3)

    def test_rounding_to_the_step_is_half_up_and_exact(self) -> None:
        mean = Mean(epsilon=1, bounds=(0, 1), step="0.1")
        # The float 0.15 is a little below 0.15, the float 0.25 is exact.
        assert mean._quantise([0.05, 0.15, 0.25, Fraction(3, 20), Decimal("0.15"), 0.349]) == [1, 1, 3, 2, 2, 3]

    def test_bounds_that_are_no_floats(self) -> None:
        mean = Mean(epsilon=1, bounds=("1/3", "4/3"), step="1/7")
        assert mean._quantise([Fraction(1, 3), Fraction(1, 3) + Fraction(3, 7), 2]) == [0, 3, 7]

    def test_whatever_is_no_number_counts_as_the_middle(self) -> None:
        odd = [math.nan, math.inf, -math.inf, None, "7", Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), 1j, [1]]
        mean = Mean(epsilon=1, bounds=(0, 10), step=1)
        assert mean._quantise(odd) == [5] * len(odd)

    def test_numbers_of_every_kind(self) -> None:
        kinds = [3, 3.0, True, Fraction(3), Decimal(3), np.int8(3), np.float32(3), np.float64(3), np.bool_(True)]
        mean = Mean(epsilon=1, bounds=(0, 10), step=1)
        assert mean._quantise(kinds) == [3, 3, 1, 3, 3, 3, 3, 3, 1]
        assert mean._quantise(np.array([1.0, np.nan, 9.6])) == [1, 5, 10]

    def test_extreme_numbers_neither_raise_nor_fill_memory(self) -> None:
        extreme = [1e308, -1e308, 5e-324, -0.0, 10**5000, -(10**5000), Fraction(1, 10**5000)]
        extreme += [Decimal("1e999999999"), Decimal("-1e999999999"), Decimal("1e-999999999"), Decimal("0e999999999")]
        mean = Mean(epsilon=1, bounds=(-1, 1), step=1)
        assert mean._quantise(extreme) == [2, 0, 1, 1, 2, 0, 1, 2, 0, 1, 1]

    def test_no_rows_have_a_mean_too(self) -> None:
        noisy = Mean(epsilon=1, bounds=(0, 10)).release([])
        assert (noisy.value, noisy.people) == (5.0, 0.0)
        assert noisy.interval() == (0.0, 10.0)

    def test_the_interval_by_hand(self) -> None:
        mean = Mean(epsilon=1, bounds=(0, 10), n=100, step=1)
        w = Laplace(epsilon=1, l1_sensitivity=10).error("0.05")
        low, high = mean.release([5] * 100).interval("0.95")
        assert (low, high) == (pytest.approx(5 - w / 100 - 0.5), pytest.approx(5 + w / 100 + 0.5))

    def test_the_interval_with_private_n_by_hand(self) -> None:
        mean = Mean(epsilon=1, bounds=(0, 10), step=1)
        w = Laplace(epsilon=1, l1_sensitivity=10).error("0.05", k=2)
        low, high = mean.release([4] * 100).interval("0.95")
        assert (low, high) == (pytest.approx((400 - w) / 100 - 0.5), pytest.approx((400 + w) / 100 + 0.5))


def test_the_sensitivity_is_the_whole_width_in_steps() -> None:
    for mean in (Mean(epsilon="0.5", bounds=(-3, 7), step="0.1"), Mean(epsilon="0.5", bounds=(-3, 7), step="0.1", n=9)):
        assert mean._noise.l1_sensitivity == 100
        assert mean._noise.scale == 200


def test_bits_move_by_one_over_n() -> None:
    mean = Mean(epsilon="0.5", bounds=(0, 1), n=50, step=1)
    assert mean._noise.l1_sensitivity * mean.step / 50 == Fraction(1, 50)


def test_the_guarantee_is_the_number_typed() -> None:
    assert Mean(epsilon="0.7", bounds=(0, 1)).guarantee == PureDP("0.7", relation=ADD_REMOVE)
    assert Mean(epsilon="0.7", bounds=(0, 1), n=5).guarantee == PureDP("0.7", relation=REPLACE_ONE)
    for mean in (Mean(epsilon="0.7", bounds=(0, 1)), Mean(epsilon="0.7", bounds=(0, 1), n=5)):
        event = mean.event
        assert event.relation is mean.relation
        assert event.l1_sensitivity / event.scale == Fraction(7, 10)


def test_results_are_finite_and_inside_the_bounds_however_loud_the_noise(seeded: SeededBits) -> None:
    for mean, values in (
        (Mean(epsilon="1e-6", bounds=(-2, 9)), []),
        (Mean(epsilon="1e-6", bounds=(-2, 9)), [1, math.nan]),
        (Mean(epsilon="1e-6", bounds=(-2, 9), n=2), [1, math.inf]),
    ):
        for _ in range(50):
            noisy = mean.release(values)
            low, high = noisy.interval("0.95")
            assert -2 <= low <= high <= 9
            assert -2 <= noisy.value <= 9
            assert math.isfinite(noisy.people)


def test_the_error_bound() -> None:
    public = Mean(epsilon="0.1", bounds=(0, 1), n=1000)
    private = Mean(epsilon="0.1", bounds=(0, 1))
    assert public.error("0.05") == pytest.approx(math.log(20) / 0.1 / 1000, rel=1e-3)
    assert public.error("0.05") < private.error("0.05", n=1000) < Fraction(3, 2) * public.error("0.05")
    assert public.error("0.05", n=1000) == public.error("0.05")
    assert public.error("0.05") < public.error("0.05", k=4)
    assert Mean(epsilon="0.001", bounds=(0, 1), n=2).error("0.05") == 1
    with pytest.raises(InputError, match=r"^n: the error depends"):
        private.error("0.05")
    with pytest.raises(InputError, match=r"^n: was stated"):
        public.error("0.05", n=7)


def test_the_two_relations_belong_to_the_two_kinds_of_n() -> None:
    assert Mean(epsilon=1, bounds=(0, 1), relation="add_remove").relation is ADD_REMOVE
    assert Mean(epsilon=1, bounds=(0, 1), n=3, relation="replace_one").relation is REPLACE_ONE
    with pytest.raises(InputError, match=r"^relation: with a public n"):
        Mean(epsilon=1, bounds=(0, 1), n=3, relation="add_remove")
    with pytest.raises(InputError, match=r"^relation: .* state it as n"):
        Mean(epsilon=1, bounds=(0, 1), relation="replace_one")


def test_input_errors_name_the_argument() -> None:
    for bounds in ((1, 1), (2, 1), (0,), 5, (0, math.inf)):
        with pytest.raises(InputError, match=r"^bounds: "):
            Mean(epsilon=1, bounds=bounds)
    for step in (0, "0.3", 2, "1e-12"):
        with pytest.raises(InputError, match=r"^step: "):
            Mean(epsilon=1, bounds=(0, 1), step=step)
    with pytest.raises(InputError, match=r"^n: "):
        Mean(epsilon=1, bounds=(0, 1), n=0)
    with pytest.raises(InputError, match=r"^epsilon: "):
        Mean(epsilon=-1, bounds=(0, 1))
    with pytest.raises(InputError, match=r"^values: must hold n = 3"):
        Mean(epsilon=1, bounds=(0, 1), n=3).release([1, 2])
    for values in ("123", 5, np.zeros((2, 2))):
        with pytest.raises(InputError, match=r"^values: "):
            Mean(epsilon=1, bounds=(0, 1)).release(values)
    with pytest.raises(InputError, match=r"^confidence: "):
        Mean(epsilon=1, bounds=(0, 1)).release([]).interval(1)


def test_reprs_and_properties() -> None:
    mean = Mean(epsilon="0.5", bounds=(0, "2.5"), n=3)
    assert repr(mean) == "Mean(bounds=(0, 2.5), n=3, PureDP(0.5, relation=REPLACE_ONE))"
    assert "n=private" in repr(Mean(epsilon=1, bounds=(0, 1)))
    assert (mean.bounds, mean.n, mean.step) == ((0, Fraction(5, 2)), 3, Fraction(5, 2) / 2**20)
    assert isinstance(mean.release([1, 2, 3]), NoisyMean)


@pytest.mark.parametrize("private_n", [False, True])
@pytest.mark.parametrize(("within", "n"), [("0.01", 1000), ("0.5", 20), ("2", 1)])
def test_accuracy_in_mechanism_out(within: str, n: int, private_n: bool) -> None:
    mean = Mean.for_error(within=within, beta="0.05", bounds=(0, 10), n=n, private_n=private_n)
    assert mean.error("0.05", n=n) <= Fraction(within)
    assert (mean.n is None) == private_n
    less_private = Mean(epsilon=mean.epsilon * Fraction(999, 1000), bounds=(0, 10), n=mean.n)
    assert less_private.error("0.05", n=n) > Fraction(within)


def test_an_accuracy_finer_than_the_step_is_refused() -> None:
    with pytest.raises(InputError, match="within: must exceed half a step"):
        Mean.for_error(within="0.4", beta="0.05", bounds=(0, 10), n=10, step=1)


@pytest.mark.parametrize("n", [1000, None])
def test_bits_on_a_step_of_one_are_not_rounded(n: int | None, seeded: SeededBits) -> None:
    bits = [1, 0, 0, 1, 1] * 200
    exact = Mean(epsilon=1, bounds=(0, 1), n=n, step=1, whole=True)
    rounded = Mean(epsilon=1, bounds=(0, 1), n=n, step=1, whole=False)
    assert rounded.error("0.05", n=1000) - exact.error("0.05", n=1000) == Fraction(1, 2)
    assert exact.error("0.05", n=1000) < Fraction(6, 1000)
    missed = 0
    for _ in range(400):
        found = exact.release(bits)
        low, high = found.interval("0.9")
        assert high - low < 0.02
        missed += not low <= 0.6 <= high
    assert missed <= 65  # of 400 at 10 % the mean is 40 and four deviations 24


def test_a_step_of_one_on_bits_is_exact() -> None:
    bits, said = (Mean(epsilon=1, bounds=(0, 1), n=100, step=1, **words) for words in ({}, {"whole": True}))
    assert bits.error("0.05") == said.error("0.05") == bits.error("0.05") // Fraction(1, 100) * Fraction(1, 100)
    rounded = Mean(epsilon=1, bounds=(0, 1), n=100, step=1, whole=False)
    assert rounded.error("0.05") == bits.error("0.05") + Fraction(1, 2)
    for other in ({"step": "0.5"}, {}, {"step": 1, "bounds": (0, 10)}):
        coarse = Mean(**{"epsilon": 1, "bounds": (0, 1), "n": 100, **other})
        assert coarse._rounding == Fraction(1, 2)
    assert Mean.for_error(within="0.1", beta="0.05", bounds=(0, 1), n=1000, step=1).error("0.05") <= Fraction(1, 10)


def test_whole_steps_need_a_step_and_a_truth_value() -> None:
    for changes in ({"whole": True}, {"whole": 1, "step": 1}):
        with pytest.raises(InputError) as caught:
            Mean(epsilon=1, bounds=(0, 1), **changes)  # type: ignore[arg-type]
        assert caught.value.parameter == "whole"
    made = Mean.for_error(within="0.01", beta="0.05", bounds=(0, 1), n=1000, step=1, whole=True)
    assert made.error("0.05") <= Fraction(1, 100)
