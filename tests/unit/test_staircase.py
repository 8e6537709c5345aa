"""The staircase mechanism: exact law, shape, forms of input, error bounds."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import exp_bounds
from tacit.mechanisms import staircase
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.staircase import Staircase, StaircaseNoise, best_tread


def weights(noise: StaircaseNoise, reach: int) -> list[mpmath.mpf]:
    """Weights of 0, 1, …, written from the definition."""
    b = mpmath.exp(-mpmath.mpf(noise.epsilon.numerator) / noise.epsilon.denominator)
    return [b ** (n // noise.width + (n % noise.width >= noise.tread)) for n in range(reach)]


def moment(noise: StaircaseNoise, power: int, reach: int) -> mpmath.mpf:
    w = weights(noise, reach)
    return 2 * mpmath.fsum(x**power * n for x, n in enumerate(w)) / (2 * mpmath.fsum(w) - 1)


def test_guarantee_and_event() -> None:
    m = Staircase(epsilon="1.5", l1_sensitivity=7)
    assert m.guarantee == PureDP("1.5")
    assert m.event == PureEvent(Fraction(3, 2), "staircase")
    assert m.on_grid().guarantee == m.guarantee


@pytest.mark.parametrize("epsilon", ["0.2", "1", "4"])
@pytest.mark.parametrize(("width", "tread"), [(1, 1), (2, 1), (5, 2), (5, 5), (12, 3)])
def test_moments_are_those_of_the_definition(epsilon: str, width: int, tread: int) -> None:
    noise = StaircaseNoise(Fraction(epsilon), width, tread)
    reach = 400 * width
    with mpmath.workdps(30):
        assert float(noise.variance_bound) == pytest.approx(float(moment(noise, 2, reach)), rel=1e-13)
        assert float(noise.mean_absolute_bound) == pytest.approx(float(moment(noise, 1, reach)), rel=1e-13)


@pytest.mark.parametrize("epsilon", ["0.3", "2"])
@pytest.mark.parametrize(("width", "tread"), [(1, 1), (4, 1), (7, 3)])
def test_error_is_the_exact_quantile(epsilon: str, width: int, tread: int) -> None:
    noise = StaircaseNoise(Fraction(epsilon), width, tread)
    with mpmath.workdps(30):
        w = weights(noise, 400 * width)
        total = 2 * mpmath.fsum(w) - 1
        for beta in ("0.9", "0.5", "0.05", "1e-6"):
            got = noise.quantile(Fraction(beta))
            assert 2 * mpmath.fsum(w[got + 1 :]) / total <= mpmath.mpf(beta)
            assert got == 0 or 2 * mpmath.fsum(w[got:]) / total > mpmath.mpf(beta)


@pytest.mark.parametrize("minimise", ["variance", "absolute"])
@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "1", "2", "5", "12"])
@pytest.mark.parametrize("width", [1, 2, 3, 10, 57])
def test_the_tread_is_the_best_of_all(minimise: Any, epsilon: str, width: int) -> None:
    def cost(tread: int) -> Fraction:
        noise = StaircaseNoise(Fraction(epsilon), width, tread)
        return noise.variance_bound if minimise == "variance" else noise.mean_absolute_bound

    chosen = best_tread(Fraction(epsilon), width, minimise)
    assert cost(chosen) == min(map(cost, range(1, width + 1)))


def test_sensitivity_one_is_discrete_laplace() -> None:
    stairs, laplace = Staircase(epsilon=1, l1_sensitivity=1), Laplace(epsilon=1, l1_sensitivity=1)
    assert stairs.variance == pytest.approx(laplace.variance, rel=1e-15)
    for beta in ("0.5", "0.01", "1e-9"):
        assert stairs.error(beta) == laplace.error(beta)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
def test_variance_is_below_laplace(epsilon: str) -> None:
    for sensitivity in (2, 100):
        stairs = Staircase(epsilon=epsilon, l1_sensitivity=sensitivity)
        assert stairs.variance < Laplace(epsilon=epsilon, l1_sensitivity=sensitivity).variance
    floats = Staircase(epsilon=epsilon, l1_sensitivity=1).on_grid()
    assert floats.variance < Laplace(epsilon=epsilon, l1_sensitivity=1).on_grid().variance


def test_minimise_chooses_what_is_minimised() -> None:
    by_variance = Staircase(epsilon=3, l1_sensitivity=100)
    by_absolute = Staircase(epsilon=3, l1_sensitivity=100, minimise="absolute")
    assert by_variance.variance < by_absolute.variance
    assert by_absolute.mean_absolute_error < by_variance.mean_absolute_error
    floats = Staircase(epsilon=3, l1_sensitivity="0.5", minimise="absolute")
    assert floats.mean_absolute_error == pytest.approx(0.5 * np.exp(1.5) / (np.exp(3) - 1), rel=1e-6)


def test_forms_of_input(seeded: SeededBits) -> None:
    m = Staircase(epsilon=1, l1_sensitivity=3)
    assert type(m.release(5)) is int
    assert type(m.release(5.5)) is float
    assert isinstance(m.release([5])[0], int)
    assert m.release(np.array([5.5])).shape == (1,)
    assert abs(m.release(10**50) - 10**50) < 1000


def test_vectors_are_refused() -> None:
    m = Staircase(epsilon=1, l1_sensitivity=3)
    for value in ([1, 2], [1.0, 2.0], np.zeros((2, 2), dtype=int)):
        with pytest.raises(InputError, match="single number") as caught:
            m.release(value)  # type: ignore[call-overload]
        assert caught.value.parameter == "value"


@pytest.mark.parametrize("value", [True, None, float("nan"), float("inf"), [], [[1]], 1e300, 2.5 + 0j])
def test_hostile_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        Staircase(epsilon=1, l1_sensitivity=3).release(value)
    assert caught.value.parameter == "value"


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [({"epsilon": 0}, "epsilon"), ({"l1_sensitivity": -1}, "l1_sensitivity"), ({"minimise": "cost"}, "minimise")],
)
def test_bad_parameters_are_refused_by_name(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        Staircase(**{"epsilon": 1, "l1_sensitivity": 1} | changes)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(("within", "sensitivity"), [(10, 7), ("0.01", "0.07"), (0, 1)])
def test_for_error_keeps_its_word(within: Any, sensitivity: Any) -> None:
    m = Staircase.for_error(within=within, beta="0.05", l1_sensitivity=sensitivity, k=3)
    assert m.error("0.05", 3) <= Fraction(within)
    assert Staircase(epsilon=m.epsilon * Fraction(99, 100), l1_sensitivity=sensitivity).error("0.05", 3) > Fraction(
        within
    )


def test_for_error_refuses_the_impossible() -> None:
    with pytest.raises(InputError, match="within"):
        Staircase.for_error(within=0, beta="0.05", l1_sensitivity="0.5")


@pytest.mark.parametrize("below", [True, False])
def test_a_close_call_is_decided_with_more_digits(below: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A uniform that homes in on a point 1e-40 beside the probability 2/(2+3/e) of the high part."""
    reveals = []

    class Homing:
        low, high = Fraction(0), Fraction(1)

        def __init__(self, source: object) -> None:
            point = 2 / (2 + 3 * exp_bounds(Fraction(-1), 80)[0])
            self.point = point + Fraction(-1 if below else 1, 10**40)

        def reveal(self) -> None:
            reveals.append(1)
            width = Fraction(1, 10 ** (15 * len(reveals)))
            self.low, self.high = self.point - width, self.point + width

    sampler = StaircaseNoise(Fraction(1), 5, 2).sampler
    monkeypatch.setattr(staircase, "LazyUniform", Homing)
    assert sampler._on_high_part() is below
    assert len(reveals) == 3


def test_the_sampler_has_the_law_of_the_definition(seeded: SeededBits) -> None:
    """Chi-square over 21 cells, 40,000 draws; the 1 - 1e-6 quantile of χ²(20) is 66.3."""
    draws = 40_000
    for epsilon, width, tread in (("0.5", 5, 2), ("2", 3, 1), ("1", 4, 4)):
        noise = StaircaseNoise(Fraction(epsilon), width, tread)
        seen = Counter(noise.sampler.sample() for _ in range(draws))
        assert chi_square(noise, seen, draws) < 66.3
        wrong = StaircaseNoise(Fraction(epsilon), width, tread % width + 1)
        assert chi_square(wrong, seen, draws) > 66.3


def chi_square(noise: StaircaseNoise, seen: Counter[int], draws: int) -> float:
    w = [float(x) for x in weights(noise, 2000)]
    total = 2 * sum(w) - 1
    result, inside, expected_inside = 0.0, 0, 0.0
    for x in range(-10, 11):
        expected = draws * w[abs(x)] / total
        result += (seen[x] - expected) ** 2 / expected
        inside, expected_inside = inside + seen[x], expected_inside + expected
    outside = draws - expected_inside
    return result + (draws - inside - outside) ** 2 / outside
