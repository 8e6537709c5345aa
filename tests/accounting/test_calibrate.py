"""Noise for a target: the result holds when it is composed again, and a little less noise would not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.calibrate import calibrate, calibrate_gaussian, calibrate_laplace
from tacit.accounting.compose import compose
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import ApproxEvent, Event, GaussianEvent, LaplaceEvent, PoissonSampledEvent, PureEvent


@pytest.mark.parametrize("method", ["basic", "advanced", "zcdp", "rdp", "pld", "best"])
@pytest.mark.parametrize(("count", "epsilon", "delta"), [(1, "1", "1e-6"), (50, "0.3", "1e-9"), (20, "6", "1e-2")])
def test_gaussian(count: int, epsilon: str, delta: str, method: str) -> None:
    sigma = calibrate_gaussian(count=count, epsilon=epsilon, delta=delta, method=method)
    event = GaussianEvent(sigma, Fraction(1))
    assert compose([(event, count)], delta=delta, method=method).epsilon <= Fraction(epsilon)
    less = GaussianEvent(sigma * Fraction(9999, 10000), Fraction(1))
    assert compose([(less, count)], delta=delta, method=method).epsilon > Fraction(epsilon)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [("0.1", "1e-5", 30.7495661319774502), ("1", "1e-6", 4.22467888932683528)]
)
def test_one_gaussian_is_the_analytic_one(epsilon: str, delta: str, sigma: float) -> None:
    found = calibrate_gaussian(count=1, epsilon=epsilon, delta=delta, method="pld", tolerance=1e-10)
    assert sigma <= float(found) <= sigma * (1 + 2e-10)


@pytest.mark.parametrize(("method", "low", "high"), [("rdp", 1.3560, 1.3562), ("pld", 1.2895, 1.2915)])
def test_sampled_gaussian(method: str, low: float, high: float) -> None:
    # ε=8, δ=1e-5, q=0.04, 2000 steps: others find 1.3562 by Renyi and 1.2915 numerically, both rounded up.
    sigma = calibrate_gaussian(count=2000, rate="0.04", epsilon=8, delta="1e-5", method=method)
    assert low < float(sigma) <= high
    event = PoissonSampledEvent(Fraction("0.04"), GaussianEvent(sigma, Fraction(1)))
    assert compose([(event, 2000)], delta="1e-5", method=method).epsilon <= 8


def test_sensitivity_scales() -> None:
    one, seven = (calibrate_gaussian(count=3, epsilon=1, delta="1e-6", l2_sensitivity=d, method="zcdp") for d in (1, 7))
    assert float(seven / one) == pytest.approx(7, rel=3e-5)


def test_laplace() -> None:
    assert calibrate_laplace(count=10, epsilon="0.5") == 20
    assert calibrate_laplace(count=10, epsilon="0.5", l1_sensitivity=3) == 60
    scale = calibrate_laplace(count=400, epsilon=2, delta="1e-6", method="pld")
    assert compose([(LaplaceEvent(scale, Fraction(1)), 400)], delta="1e-6", method="pld").epsilon <= 2
    assert scale < calibrate_laplace(count=400, epsilon=2, delta="1e-6", method="advanced")
    sampled = calibrate_laplace(count=1, epsilon=1, rate="0.1")
    # ln(1 + 0.1(e^x - 1)) = 1 at x = 2.899…
    assert float(sampled) == pytest.approx(1 / 2.8991, rel=1e-3)


def test_any_plan() -> None:
    def plan(scale: Fraction) -> list[Event]:
        return [LaplaceEvent(scale, Fraction(1)), GaussianEvent(2 * scale, Fraction(3)), PureEvent(Fraction(1, 10))]

    scale = calibrate(plan, epsilon=1, delta="1e-6", method="pld")
    assert compose(plan(scale), delta="1e-6", method="pld").epsilon <= 1
    assert compose(plan(scale * Fraction(999, 1000)), delta="1e-6", method="pld").epsilon > 1


def test_start_does_not_matter() -> None:
    found = {
        float(calibrate(lambda s: [GaussianEvent(s, Fraction(1))], epsilon=1, delta="1e-6", method="zcdp", start=start))
        for start in ("1e-6", "0.5", 4, "1e9")
    }
    assert max(found) / min(found) < 1 + 2e-5


def test_impossible_targets_are_refused() -> None:
    with pytest.raises(AccountingError, match="noise"):
        calibrate(lambda _: [PureEvent(Fraction(2))], epsilon=1, delta="1e-6", method="basic")
    with pytest.raises(AccountingError, match="delta"):
        calibrate(lambda _: [ApproxEvent(Fraction(1), Fraction(1, 10))], epsilon=1, delta="1e-6")
    for name, arguments in {
        "epsilon": {"epsilon": 0, "delta": "1e-6"},
        "delta": {"epsilon": 1, "delta": 2},
        "method": {"epsilon": 1, "delta": "1e-6", "method": "magic"},
        "tolerance": {"epsilon": 1, "delta": "1e-6", "tolerance": 2.0},
    }.items():
        with pytest.raises(InputError, match=name):
            calibrate(lambda s: [GaussianEvent(s, Fraction(1))], **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rate"):
        calibrate_gaussian(count=1, epsilon=1, delta="1e-6", rate=0)
