"""The Gaussian mechanism: parameters, calibrations, forms of input and output, refusals, error bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from support.bits import SeededBits
from tacit.core.errors import AccountingError, InputError, InternalError
from tacit.core.events import DiscreteGaussianEvent, ZCDPEvent
from tacit.core.guarantees import ZCDP, ApproxDP
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms import gaussian_profile
from tacit.mechanisms.gaussian import Gaussian, GaussianNoise
from tacit.mechanisms.gaussian_profile import check_discrete_sigma, discrete_tail_bound


def test_guarantee_event_and_zcdp_agree() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=2)
    assert m.guarantee == ApproxDP(1, "1e-5")
    assert m.zcdp == ZCDP(2 / m.sigma2)
    assert m.event == ZCDPEvent(m.zcdp.rho, mechanism="gaussian")
    assert m.sigma == pytest.approx(math.sqrt(m.sigma2), rel=1e-14)
    assert Fraction(m.sigma) ** 2 >= m.sigma2


def test_from_rho_is_exact() -> None:
    m = Gaussian.from_rho(rho="0.1", l2_squared=3, dimension=3)
    assert m.sigma2 == 15
    assert m.guarantee == m.zcdp == ZCDP("0.1")
    assert Gaussian.from_rho(rho="0.1", l2_squared=3, dimension=3, whole=True).event == DiscreteGaussianEvent(
        Fraction(15), Fraction(3), dimension=3
    )


def test_the_event_is_exact_only_where_one_kind_of_number_is_ruled_out() -> None:
    """A float release loses a little differently from an integer one, so an open mechanism claims zCDP alone."""
    integers = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, whole=True)
    assert integers.event == DiscreteGaussianEvent(integers.sigma2, Fraction(1))
    with pytest.raises(InputError, match=r"value: must be integers, as whole=True says"):
        integers.release(3.7)
    floats = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, whole=False)
    assert floats.event == floats.on_grid().event
    assert isinstance(floats.release(3.7), float)
    with pytest.raises(InputError, match="value: must be floats, as whole=False says"):
        floats.release(3)
    either = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1)
    assert isinstance(either.release(3), int)
    assert isinstance(either.release(3.7), float)
    assert isinstance(either.event, ZCDPEvent)


@pytest.mark.parametrize(("whole", "l2_sensitivity"), [(True, "0.5"), ("yes", 1), (1.5, 1)])
def test_whole_is_checked(whole: object, l2_sensitivity: object) -> None:
    with pytest.raises(InputError, match="whole: "):
        Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=l2_sensitivity, whole=whole)  # type: ignore[arg-type]


def test_relation_is_carried_everywhere() -> None:
    for m in (
        Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, relation="replace_one"),
        Gaussian.from_rho(rho=1, l2_sensitivity=1, relation=REPLACE_ONE),
    ):
        relations = {m.relation, m.guarantee.relation, m.event.relation, m.zcdp.relation, m.on_grid().event.relation}
        assert relations == {REPLACE_ONE}


def test_one_rho_holds_for_integers_and_floats() -> None:
    for dimension in (1, 3):
        m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, dimension=dimension)
        floats = m.on_grid(dimension).event
        assert isinstance(floats, DiscreteGaussianEvent)
        assert floats.l2_squared / (2 * floats.sigma2) <= m.zcdp.rho


def test_one_rho_holds_for_fewer_floats() -> None:
    m = Gaussian(epsilon="0.5", delta="1e-5", l2_sensitivity="0.3", dimension=1000)
    for size in (1, 10, 1000):
        floats = m.on_grid(size).event
        assert isinstance(floats, DiscreteGaussianEvent)
        assert floats.l2_squared / (2 * floats.sigma2) <= m.zcdp.rho


def test_a_single_integer_moves_by_whole_numbers() -> None:
    assert (
        Gaussian(epsilon=1, delta="1e-5", l2_squared=3).sigma2
        == Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1).sigma2
    )


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": 10**5}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"delta": "2e0"}, "delta"),
        ({"l2_sensitivity": 0}, "l2_sensitivity"),
        ({"l2_sensitivity": None}, "l2_sensitivity"),
        ({"l2_squared": 4}, "l2_sensitivity"),
        ({"l2_sensitivity": None, "l2_squared": -4}, "l2_squared"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 1.5}, "dimension"),
        ({"calibration": "magic"}, "calibration"),
        ({"relation": "x"}, "relation"),
    ],
)
def test_bad_parameters_are_refused_by_name(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        Gaussian(**{"epsilon": 1, "delta": "1e-6", "l2_sensitivity": 1} | changes)
    assert caught.value.parameter == parameter


def test_classic_is_refused_where_it_is_false() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, calibration="classic")
    assert m.sigma == pytest.approx(4.84480526261, rel=1e-11)
    assert m.sigma > Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1).sigma
    with pytest.raises(AccountingError, match=r"epsilon = 1\.01 > 1"):
        Gaussian(epsilon="1.01", delta="1e-5", l2_sensitivity=1, calibration="classic")


def test_a_sigma_that_discrete_noise_does_not_keep_is_refused() -> None:
    enough = {"epsilon": Fraction(1), "delta": Fraction(1, 10**5), "l2_squared": 1, "dimension": 1}
    # The continuous normal would do with 3.7307; the discrete one needs 3.7405.
    with pytest.raises(AccountingError, match="not proven"):
        check_discrete_sigma(Fraction("3.735"), **enough)  # type: ignore[arg-type]
    check_discrete_sigma(Fraction("3.741"), **enough)  # type: ignore[arg-type]


def test_what_goes_in_comes_out_in_the_same_form(seeded: SeededBits) -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, dimension=4)
    assert type(m.release(5)) is int
    assert type(m.release(5.5)) is float
    assert [type(x) for x in m.release([1, 2, 3])] == [int] * 3
    assert [type(x) for x in m.release([1.0, 2.0])] == [float] * 2
    assert m.release(np.zeros((2, 2), dtype=np.int8)).dtype == np.int64
    assert m.release(np.zeros((2, 2))).shape == (2, 2)


def test_more_numbers_than_calibrated_for_are_refused() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1)
    for value in ([1, 2], [1.0, 2.0], np.zeros((2, 1))):
        with pytest.raises(InputError, match="dimension=2"):
            m.release(value)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="dimension=2"):
        m.on_grid(2)


@pytest.mark.parametrize(
    "value", [True, None, "1", float("nan"), [], [[1]], [1, 2.0], np.array([2**63], dtype=np.uint64)]
)
def test_hostile_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, dimension=2).release(value)
    assert caught.value.parameter == "value"


def test_integers_need_a_whole_squared_sensitivity() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity="0.5")
    with pytest.raises(InputError, match="not one"):
        m.release(3)
    assert isinstance(m.release(3.0), float)
    assert m.sigma == pytest.approx(0.5 * 3.73063163481594183, rel=1e-6)
    assert m.error("0.05") == m.on_grid().error("0.05")
    assert m.variance == pytest.approx(m.sigma**2)


@pytest.mark.parametrize("sensitivity", ["1e-310", "1e305"])
def test_sensitivities_beyond_floats_are_refused_for_floats(sensitivity: str) -> None:
    with pytest.raises(InputError, match="too small or too large"):
        Gaussian.from_rho(rho=1, l2_sensitivity=sensitivity).release(1.0)


def _tail(sigma2: Fraction, w: int) -> mpmath.mpf:
    """P(|X| > w) of the discrete Gaussian, by adding it up."""
    s2 = mpmath.mpf(sigma2.numerator) / sigma2.denominator
    reach = int(20 * mpmath.sqrt(s2)) + 20
    terms = [mpmath.exp(-mpmath.mpf(x * x) / (2 * s2)) for x in range(reach)]
    return 2 * mpmath.fsum(terms[w + 1 :]) / (2 * mpmath.fsum(terms) - 1)


@pytest.mark.parametrize("sigma2", ["0.01", "0.25", "1", "13.99", "400"])
@pytest.mark.parametrize("beta", ["0.5", "0.05", "1e-12"])
def test_error_is_the_exact_quantile(sigma2: str, beta: str) -> None:
    w = GaussianNoise(Fraction(sigma2)).quantile(Fraction(beta))
    with mpmath.workdps(40):
        assert _tail(Fraction(sigma2), w) <= mpmath.mpf(beta)
        assert w == 0 or _tail(Fraction(sigma2), w - 1) > mpmath.mpf(beta)


def test_error_of_large_sigma_is_a_normal_quantile() -> None:
    assert GaussianNoise(Fraction(10**20)).quantile(Fraction(1, 20)) == pytest.approx(1.959963984540054e10, abs=2)


def test_tail_bounds_meet_where_the_method_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma2 = Fraction(10**6)
    for start in (1, 1000, 5000):
        added = discrete_tail_bound(sigma2, start)
        with monkeypatch.context() as patch:
            patch.setattr(gaussian_profile, "LARGEST_SUMMED", Fraction(1))
            compared = discrete_tail_bound(sigma2, start)
        assert added <= compared * (1 + Fraction(1, 10**10))
        assert compared <= added * (1 + Fraction(1, 10**5))


def test_error_for_many_outputs_is_simultaneous() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, dimension=100)
    assert m.error("0.05", 100) > m.error("0.05")
    with mpmath.workdps(40):
        share = 1 - mpmath.mpf("0.95") ** (mpmath.mpf(1) / 100)
        assert _tail(m.sigma2, int(m.error("0.05", 100))) <= share


@pytest.mark.parametrize(("within", "sensitivity", "dimension"), [(10, 1, 1), ("0.1", "0.01", 2)])
def test_for_error_keeps_its_word_and_wastes_nothing(within: Any, sensitivity: Any, dimension: int) -> None:
    m = Gaussian.for_error(
        within=within, beta="0.05", delta="1e-6", l2_sensitivity=sensitivity, k=dimension, dimension=dimension
    )
    assert isinstance(m.guarantee, ApproxDP)
    assert m.error("0.05", dimension) <= Fraction(within)
    assert m.guarantee.delta == Fraction(1, 10**6)
    more_private = Gaussian(
        epsilon=m.guarantee.epsilon * Fraction(9999, 10000),
        delta="1e-6",
        l2_sensitivity=sensitivity,
        dimension=dimension,
    )
    assert more_private.error("0.05", dimension) > Fraction(within)


def test_a_machine_with_a_wrong_exp_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = np.exp
    gaussian_profile.check_exp.cache_clear()
    monkeypatch.setattr(gaussian_profile.np, "exp", lambda x: right(x) * (1 + 2.0**-46))
    with pytest.raises(InternalError, match="wrong by more"):
        gaussian_profile.check_exp()
    monkeypatch.undo()
    gaussian_profile.check_exp()


def test_shows_what_it_promises() -> None:
    assert repr(Gaussian.from_rho(rho="0.5", l2_sensitivity=1)) == "Gaussian(ZCDP(0.5), sigma=1, dimension=1)"
