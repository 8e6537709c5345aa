"""The Laplace mechanism: parameters, forms of input and output, refusals, error bounds."""

from __future__ import annotations

import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.events import DiscreteLaplaceEvent
from tacit.core.guarantees import PureDP
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.additive import add_noise
from tacit.mechanisms.base import LARGEST_VALUE, per_output_beta, read_integers, read_numbers, smallest_that
from tacit.mechanisms.laplace import Laplace
from tacit.noise.laplace import LARGEST_SCALE


def test_parameters_are_exact() -> None:
    m = Laplace(epsilon="0.3", l1_sensitivity=1)
    assert m.scale == Fraction(10, 3)
    assert m.guarantee == PureDP("0.3")
    assert m.event == DiscreteLaplaceEvent(Fraction(10, 3), Fraction(1))
    assert Laplace(epsilon=0.3, l1_sensitivity=Decimal(1)).scale == m.scale


def test_relation_is_carried_everywhere() -> None:
    m = Laplace(epsilon=1, l1_sensitivity=2, relation="replace_one")
    assert m.relation is m.guarantee.relation is m.event.relation is m.on_grid().event.relation is REPLACE_ONE


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"epsilon": 0, "l1_sensitivity": 1}, "epsilon"),
        ({"epsilon": -1, "l1_sensitivity": 1}, "epsilon"),
        ({"epsilon": "nan", "l1_sensitivity": 1}, "epsilon"),
        ({"epsilon": float("inf"), "l1_sensitivity": 1}, "epsilon"),
        ({"epsilon": True, "l1_sensitivity": 1}, "epsilon"),
        ({"epsilon": 1, "l1_sensitivity": 0}, "l1_sensitivity"),
        ({"epsilon": 1, "l1_sensitivity": None}, "l1_sensitivity"),
        ({"epsilon": 1, "l1_sensitivity": "1e400"}, "l1_sensitivity"),
        ({"epsilon": 1, "l1_sensitivity": 1, "relation": "friends"}, "relation"),
    ],
)
def test_bad_parameters_are_refused_by_name(arguments: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        Laplace(**arguments)
    assert caught.value.parameter == parameter


def test_epsilon_has_no_default() -> None:
    with pytest.raises(TypeError):
        Laplace(l1_sensitivity=1)  # type: ignore[call-arg]


def test_what_goes_in_comes_out_in_the_same_form(seeded: SeededBits) -> None:
    m = Laplace(epsilon=1, l1_sensitivity=1)
    assert type(m.release(5)) is int
    assert type(m.release(np.int32(5))) is int
    assert type(m.release(5.5)) is float
    assert type(m.release(np.float32(5.5))) is float
    whole, broken = m.release([1, 2, 3]), m.release((1.5, 2.5))
    assert [type(x) for x in whole] == [int] * 3
    assert [type(x) for x in broken] == [float] * 2
    table = m.release(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert (table.shape, table.dtype) == ((2, 3), np.int64)
    floats = m.release(np.zeros((2, 2), dtype=np.float32))
    assert (floats.shape, floats.dtype) == ((2, 2), np.float64)
    assert m.release(np.array([7])).shape == (1,)


def test_input_is_left_as_it_was(seeded: SeededBits) -> None:
    m = Laplace(epsilon=1, l1_sensitivity=1)
    for values in (np.arange(10), np.arange(10.0)):
        before = values.copy()
        m.release(values)
        assert (values == before).all()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, "truth value"),
        (np.True_, "truth value"),
        (None, "NoneType"),
        ("3", "str"),
        (Fraction(1, 2), "Fraction"),
        (Decimal(1), "Decimal"),
        (1j, "complex"),
        ([], "at least one"),
        (np.empty((0, 2)), "at least one"),
        (np.array(3), "0-d"),
        ([1, True], "truth value"),
        ([[1, 2], [3]], "flat"),
        ([[1, 2], [3, 4]], "flat"),
        ([1, 2.5], "mixes"),
        ([1, None], "NoneType"),
        (np.array([True, False]), "bool"),
        (np.array([1, "a"], dtype=object), "object"),
        (np.array(["1"]), "<U1"),
        (np.array([1j]), "complex"),
        (np.zeros(2, dtype=np.longdouble), "64 bits"),
        (float("nan"), "finite"),
        ([1.0, float("inf")], "finite"),
        (np.array([1.0, np.nan]), "finite"),
        ([2**62 + 1], "2\\*\\*62"),
        ([-(2**62) - 1, 3], "2\\*\\*62"),
        ([2**70], "2\\*\\*62"),
        (np.array([2**63], dtype=np.uint64), "2\\*\\*62"),
        (1e300, "at most"),
        ({1, 2}, "set"),
        (np.longdouble(1), "longdouble"),
        ([np.longdouble(1)], "longdouble"),
        (np.ma.masked_array([1, 2], mask=[True, False]), "MaskedArray"),
    ],
)
def test_hostile_values_are_refused_by_name(value: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        Laplace(epsilon=1, l1_sensitivity=1).release(value)  # type: ignore[call-overload]
    assert caught.value.parameter == "value"


def test_integers_need_a_whole_sensitivity() -> None:
    m = Laplace(epsilon=1, l1_sensitivity="0.5")
    for value in (3, [3], np.array([3])):
        with pytest.raises(InputError, match="l1_sensitivity is not one"):
            m.release(value)  # type: ignore[call-overload]
    assert isinstance(m.release(3.0), float)


def test_one_integer_may_be_of_any_size(seeded: SeededBits) -> None:
    m = Laplace(epsilon=1, l1_sensitivity=1)
    assert abs(m.release(10**100) - 10**100) < 100


def test_arrays_at_the_edge_do_not_wrap(seeded: SeededBits) -> None:
    m = Laplace(epsilon=1, l1_sensitivity=LARGEST_SCALE)
    edge = np.array([LARGEST_VALUE, -LARGEST_VALUE] * 500)
    noisy = m.release(edge)
    assert (np.sign(noisy) == np.sign(edge)).all()
    assert (np.abs(noisy - edge) < 2**56).all()


class _Huge:
    def sample(self) -> int:
        return 2**70

    def sample_many(self, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([2**63 - 1, -(2**63), 5][:count], dtype=np.int64)


def test_a_sum_beyond_int64_is_clamped_not_wrapped() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    assert add_noise(np.array([LARGEST_VALUE, -LARGEST_VALUE, 1]), _Huge()).tolist() == [top, bottom, 6]
    assert add_noise(np.array([-LARGEST_VALUE, LARGEST_VALUE, 1]), _Huge()).tolist() == [2**62 - 1, -(2**62), 6]
    assert add_noise(np.array([1]), _Huge()).tolist() == [top]


def test_scales_beyond_arrays_are_refused_for_arrays_only() -> None:
    m = Laplace(epsilon="1e-9", l1_sensitivity=2**40)
    assert isinstance(m.release(0), int)
    with pytest.raises(InputError, match="for arrays"):
        m.release([1, 2])


def test_sensitivities_beyond_floats_are_refused_for_floats_only() -> None:
    for sensitivity in ("1e-310", "1e305"):
        with pytest.raises(InputError, match="too small or too large"):
            Laplace(epsilon=1, l1_sensitivity=sensitivity).release(1.0)
    assert isinstance(Laplace(epsilon=1, l1_sensitivity=10**305).release(0), int)


@pytest.mark.parametrize("epsilon", ["1e-3", "0.1", "1", "20", "1000"])
@pytest.mark.parametrize("dimension", [1, 2, 1000])
def test_the_grid_costs_next_to_nothing(epsilon: str, dimension: int) -> None:
    m = Laplace(epsilon=epsilon, l1_sensitivity=1)
    on_grid = m.on_grid(dimension)
    enlarged = on_grid.noise.scale * on_grid.grid.step / m.scale  # type: ignore[attr-defined]
    assert 1 <= enlarged < 1 + Fraction(1, 10**4)


def test_an_absurd_epsilon_is_refused_for_vectors_of_floats() -> None:
    m = Laplace(epsilon="1e-12", l1_sensitivity=1)
    with pytest.raises(InputError, match="epsilon: is too small for 1000 floats"):
        m.on_grid(1000)
    assert isinstance(m.release(0.5), float)


def test_the_event_of_a_large_sensitivity_has_few_parts() -> None:
    assert Laplace(epsilon=2, l1_sensitivity=4096).event.l1_sensitivity == 4096
    assert Laplace(epsilon=2, l1_sensitivity=10**6).event.l1_sensitivity == 4000
    assert Laplace(epsilon=2, l1_sensitivity=10007).event == DiscreteLaplaceEvent(Fraction(1, 2), Fraction(1))
    assert Laplace(epsilon=2, l1_sensitivity="0.01").event == DiscreteLaplaceEvent(Fraction(256), Fraction(512))
    for sensitivity in (3, 10**6, 10007, "0.01"):
        m = Laplace(epsilon=2, l1_sensitivity=sensitivity)
        floats = m.on_grid(7).event
        assert isinstance(floats, DiscreteLaplaceEvent)
        assert floats.l1_sensitivity % m.event.l1_sensitivity == 0
        assert floats.l1_sensitivity / floats.scale == m.event.l1_sensitivity / m.event.scale == 2


@pytest.mark.parametrize("dimension", [0, -1, 1.5])
def test_a_grid_needs_a_number_of_floats(dimension: Any) -> None:
    with pytest.raises(InputError, match="dimension"):
        Laplace(epsilon=1, l1_sensitivity=1).on_grid(dimension)


def test_a_grid_is_for_its_number_of_floats_only() -> None:
    on_grid = Laplace(epsilon=1, l1_sensitivity=1).on_grid(2)
    with pytest.raises(InputError, match="2 numbers"):
        on_grid.release([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="must be floats"):
        on_grid.release([1, 2])
    assert len(on_grid.release([1.0, 2.0])) == 2


def _tail(scale: Fraction, w: int) -> mpmath.mpf:
    """P(|X| > w) of the discrete Laplace."""
    q = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    return 2 * q ** (w + 1) / (1 + q)


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "3", "10"])
@pytest.mark.parametrize("beta", ["0.5", "0.05", "1e-9"])
@pytest.mark.parametrize("k", [1, 2, 1000])
def test_error_is_the_exact_quantile(epsilon: str, beta: str, k: int) -> None:
    m = Laplace(epsilon=epsilon, l1_sensitivity=1)
    w = m.error(beta, k)
    assert isinstance(w, int)
    with mpmath.workdps(40):
        share = 1 - (1 - mpmath.mpf(beta)) ** (mpmath.mpf(1) / k)
        assert _tail(m.scale, w) <= share
        assert w == 0 or _tail(m.scale, w - 1) > share


def test_error_of_floats_includes_rounding() -> None:
    m = Laplace(epsilon=1, l1_sensitivity="0.5")
    on_grid = m.on_grid()
    assert m.error("0.05") == on_grid.error("0.05") > 0.5 * float(mpmath.log(20))
    assert m.error("0.05") < 0.5 * float(mpmath.log(20)) * (1 + 1e-4)
    half_steps = 2 * Fraction(on_grid.error("0.05")) / on_grid.grid.step
    assert half_steps >= 2 * on_grid.noise.quantile(Fraction(1, 20)) + 1


@pytest.mark.parametrize("bad", [0, 1, -1, 2, "x", True])
def test_beta_must_be_a_probability(bad: Any) -> None:
    with pytest.raises(InputError) as caught:
        Laplace(epsilon=1, l1_sensitivity=1).error(beta=bad)
    assert caught.value.parameter == "beta"


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_k_must_be_a_count(bad: Any) -> None:
    with pytest.raises(InputError) as caught:
        Laplace(epsilon=1, l1_sensitivity=1).error(beta="0.1", k=bad)
    assert caught.value.parameter == "k"


def test_share_of_beta_is_rounded_down_and_never_zero() -> None:
    assert per_output_beta("0.05") == Fraction(1, 20)
    share = per_output_beta("0.05", 20)
    assert (1 - share) ** 20 >= Fraction(19, 20) > (1 - share * (1 + Fraction(1, 10**30))) ** 20
    tiny = per_output_beta("1e-300", 10**6)
    assert Fraction(1, 10**306) <= tiny


@pytest.mark.parametrize(
    ("within", "sensitivity", "k"), [(10, 1, 1), (0, 1, 1), ("2.5", 3, 4), ("0.1", "0.01", 1), (10**9, 1, 100)]
)
def test_for_error_keeps_its_word_and_wastes_nothing(within: Any, sensitivity: Any, k: int) -> None:
    m = Laplace.for_error(within=within, beta="0.05", l1_sensitivity=sensitivity, k=k)
    assert m.error("0.05", k) <= Fraction(within)
    more_private = Laplace(epsilon=m.epsilon * Fraction(999_999, 10**6), l1_sensitivity=sensitivity)
    assert more_private.error("0.05", k) > Fraction(within)


def test_for_error_refuses_the_impossible() -> None:
    with pytest.raises(InputError, match="within"):
        Laplace.for_error(within=0, beta="0.05", l1_sensitivity="0.5")
    with pytest.raises(InputError, match="within"):
        Laplace.for_error(within=-1, beta="0.05", l1_sensitivity=1)


@pytest.mark.parametrize(
    ("scale", "variance"),
    # 1/(2·sinh²(1/(2t))).
    [(1, 1.84134718841558464), ("0.5", 0.362030830483155233), (10, 199.833416633609454), (2, 7.83539617806552753)],
)
def test_variance(scale: Any, variance: float) -> None:
    m = Laplace(epsilon=1 / Fraction(scale), l1_sensitivity=1)
    assert variance == pytest.approx(m.variance, rel=1e-14)


def test_pickles_and_shows_its_parameters() -> None:
    m = Laplace(epsilon="0.5", l1_sensitivity=3)
    again = pickle.loads(pickle.dumps(m))
    assert again.scale == m.scale
    assert isinstance(again.release(1), int)
    assert repr(m) == "Laplace(epsilon='1/2', l1_sensitivity='3')"


def test_readers() -> None:
    assert read_numbers(3).form == "scalar"
    assert read_integers([3, 4]).array.tolist() == [3, 4]
    with pytest.raises(InputError, match="votes: must be integers"):
        read_integers([3.0], "votes")


def test_smallest_that_finds_the_edge_from_either_side() -> None:
    edge = Fraction(355, 113)
    for start in (Fraction(1, 1000), Fraction(3), edge, Fraction(10**6)):
        found = smallest_that(lambda x: x >= edge, start)
        assert edge <= found <= edge * (1 + Fraction(3, 10**10))
