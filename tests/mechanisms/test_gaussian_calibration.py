"""Published and independently computed numbers: analytic and classic sigma, delta, discrete laws."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from tacit.core.normal import gaussian_delta_bounds
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_profile import (
    analytic_gaussian_sigma,
    calibrate_discrete_sigma,
    classic_gaussian_sigma,
    discrete_delta_bounds,
    rounded_normal_gives_at_most,
)

# δ(ε,σ) = Φ(1/(2σ) - εσ) - e^ε·Φ(-1/(2σ) - εσ) solved for σ, σ = √(2 ln(1.25/δ))/ε, and δ(ε, that σ).
ANALYTIC = [
    ("0.01", "1e-5", "243.785437675678029", "484.480526261", "2.52008e-10"),
    ("0.01", "1e-6", "306.350376153817687", "529.880252685", "1.95877e-11"),
    ("0.01", "1e-9", "458.50849749725296", "647.246620513", "1.10694e-14"),
    ("0.1", "1e-5", "30.7495661319774502", "48.4480526261", "2.63594e-9"),
    ("0.1", "1e-6", "36.3046904261957849", "52.9880252685", "2.04884e-10"),
    ("0.1", "1e-9", "50.2098182630153308", "64.7246620513", "1.15785e-13"),
    ("0.5", "1e-5", "7.03182667558249144", "9.68961052521", "1.60785e-8"),
    ("0.5", "1e-6", "8.05761848072504426", "10.5976050537", "1.24997e-9"),
    ("0.5", "1e-9", "10.6738968150800261", "12.9449324103", "7.06618e-13"),
    ("1", "1e-5", "3.73063163481594183", "4.84480526261", "4.11369e-8"),
    ("1", "1e-6", "4.22467888932683528", "5.29880252685", "3.19991e-9"),
    ("1", "1e-9", "5.49526615723829619", "6.47246620513", "1.81074e-12"),
    ("2", "1e-5", "1.99381244564353669", "2.4224026313", "1.3364e-7"),
    ("2", "1e-6", "2.2304762711864173", "2.64940126343", "1.04196e-8"),
    ("2", "1e-9", "2.84454707349574498", "3.23623310256", "5.91979e-12"),
    ("5", "1e-5", "0.891868264951518032", "0.968961052521", "1.349e-6"),
    ("5", "1e-6", "0.980049000309209907", "1.05976050537", "1.06902e-7"),
    ("5", "1e-9", "1.21171246613458391", "1.29449324103", "6.24596e-11"),
    ("10", "1e-5", "0.499888619709008515", "0.484480526261", "2.26537e-5"),
    ("10", "1e-6", "0.541086831818365981", "0.529880252685", "1.90216e-6"),
    ("10", "1e-9", "0.650246918958657377", "0.647246620513", "1.22803e-9"),
]

SPOT_DELTAS = [
    ("1", "1", "0.1269367375066439458"),
    ("1", "2", "0.0068295949831145753842"),
    ("0.5", "4", "0.0027088802183181927041"),
    ("3", "0.7", "0.033822247546672376121"),
    ("10", "0.3", "0.057496922269049700293"),
    ("20", "0.2", "0.047322964188519658609"),
]


@pytest.mark.parametrize(("epsilon", "delta", "sigma", "classic", "true_delta"), ANALYTIC)
def test_analytic_sigma(epsilon: str, delta: str, sigma: str, classic: str, true_delta: str) -> None:
    got = analytic_gaussian_sigma(epsilon, delta, 1)
    # The table has 18 digits, rounded to nearest; the answer is rounded up.
    assert Fraction(sigma) * (1 - Fraction(1, 10**17)) <= got <= Fraction(sigma) * (1 + Fraction(1, 10**11))
    assert analytic_gaussian_sigma(epsilon, delta, 3) == pytest.approx(3 * got, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta", "sigma", "classic", "true_delta"), ANALYTIC)
def test_classic_sigma_and_what_it_really_gives(
    epsilon: str, delta: str, sigma: str, classic: str, true_delta: str
) -> None:
    low, high = gaussian_delta_bounds(Fraction(epsilon), 1 / Fraction(classic))
    assert float(low) == pytest.approx(float(true_delta), rel=1e-5)
    assert (high <= Fraction(delta)) == (Fraction(epsilon) < 10)
    if Fraction(epsilon) <= 1:
        assert float(classic_gaussian_sigma(epsilon, delta, 1)) == pytest.approx(float(classic), rel=1e-11)


@pytest.mark.parametrize(("epsilon", "sigma", "delta"), SPOT_DELTAS)
def test_delta_of_the_continuous_normal(epsilon: str, sigma: str, delta: str) -> None:
    low, high = gaussian_delta_bounds(Fraction(epsilon), 1 / Fraction(sigma))
    assert float(low) == pytest.approx(float(delta), rel=1e-15)
    assert low <= high


@pytest.mark.parametrize(
    ("sigma2", "probability_0", "probability_1"),
    # exp(-x²/2σ²)/Σ exp(-y²/2σ²).
    [
        ("0.25", "0.7865707070419479", "0.106450769423144724"),
        ("1", "0.398942278266861706", "0.24197072322446061"),
        ("4", "0.199471140200716339", "0.176032663382149739"),
        ("100", "0.0398942280401432678", "0.0396952547477011766"),
    ],
)
def test_discrete_delta_from_published_probabilities(sigma2: str, probability_0: str, probability_1: str) -> None:
    """At ε = 0 and a shift of 1, δ = Σ (P(x) - P(x+1)) over x >= 0 = P(0)."""
    low, high = discrete_delta_bounds(Fraction(0), Fraction(sigma2), 1)
    assert float(low) == pytest.approx(float(probability_0), rel=1e-11)
    assert low <= Fraction(probability_0) * (1 + Fraction(1, 10**15))
    assert high >= Fraction(probability_0) * (1 - Fraction(1, 10**15))
    two = discrete_delta_bounds(Fraction(0), Fraction(sigma2), 2)
    assert float(two[1]) == pytest.approx(float(probability_0) + float(probability_1), rel=1e-11)


@pytest.mark.parametrize(
    ("epsilon", "sigma2", "shift"), [("0.1", "0.3", 1), ("1", "14", 1), ("2", "50", 9), ("9", "0.2", 1)]
)
def test_discrete_delta_is_the_textbook_difference(epsilon: str, sigma2: str, shift: int) -> None:
    """δ(ε) = P[X > εσ²/Δ - Δ/2] - e^ε·P[X > εσ²/Δ + Δ/2], added up at 60 digits."""
    with mpmath.workdps(60):
        s2 = mpmath.mpf(sigma2)
        threshold = mpmath.mpf(epsilon) * s2 / shift - mpmath.mpf(shift) / 2

        def upper(t: mpmath.mpf) -> mpmath.mpf:
            first = int(mpmath.floor(t)) + 1
            return mpmath.fsum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s2)) for x in range(first, first + 400))

        total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s2)) for x in range(-400, 401))
        truth = (upper(threshold) - mpmath.exp(mpmath.mpf(epsilon)) * upper(threshold + shift)) / total
        low, high = discrete_delta_bounds(Fraction(epsilon), Fraction(sigma2), shift)
        assert mpmath.mpf(low.numerator) / low.denominator <= truth <= mpmath.mpf(high.numerator) / high.denominator
        assert high - low <= high / 10**11


@pytest.mark.parametrize(
    ("epsilon", "sigma2", "l2_squared", "dimension"), [("1", "40", 4, 1), ("0.3", "64.5", 1, 7), ("2", "40", 30, 100)]
)
def test_rounded_normal_bound_is_the_formula_of_the_proof(
    epsilon: str, sigma2: str, l2_squared: int, dimension: int
) -> None:
    """δ >= e^(d/24σ²)·(δ_N(ε - (d + K²/σ²)/(24σ²)) + δ·e^-20) decides, with K from t = ⌈20 + ε + ln(1/δ)⌉."""

    def needed(delta: mpmath.mpf) -> mpmath.mpf:
        s2, d, e = mpmath.mpf(sigma2), mpmath.mpf(dimension), mpmath.mpf(epsilon)
        t = mpmath.ceil(20 + e + mpmath.log(1 / delta))
        radius = mpmath.sqrt(d + 2 * mpmath.sqrt(d * t) + 2 * t) + mpmath.sqrt(d / s2) / 2
        left = e - (d + radius**2) / (24 * s2)
        mu = mpmath.sqrt(l2_squared / s2)
        normal = mpmath.ncdf(mu / 2 - left / mu) - mpmath.exp(left) * mpmath.ncdf(-mu / 2 - left / mu)
        return mpmath.exp(d / (24 * s2)) * (normal + delta * mpmath.exp(-20))

    def holds(delta: mpmath.mpf) -> bool:
        return rounded_normal_gives_at_most(
            Fraction(epsilon),
            Fraction(float(delta)),
            sigma2=Fraction(sigma2),
            l2_squared=l2_squared,
            dimension=dimension,
        )

    with mpmath.workdps(40):
        for delta in (mpmath.mpf(2) ** (-mpmath.mpf(i) / 2) for i in range(1, 120)):
            edge = needed(delta)
            assert holds(delta) == (edge <= delta)
        # At the edge itself the two sides agree to ten digits; t is constant there.
        edge = mpmath.findroot(lambda x: needed(x) - x, needed(edge), tol=1e-30, verify=False)
        assert holds(edge * (1 + mpmath.mpf(10) ** -10))
        assert not holds(edge * (1 - mpmath.mpf(10) ** -10))


def test_total_variation_at_a_vanishing_epsilon() -> None:
    """At ε → 0 the δ is 2Φ(Δ/(2σ)) - 1, about Δ/(σ√(2π)): the noise has a finite limit."""
    got = calibrate_discrete_sigma(Fraction(1, 10**30), Fraction(1, 10**5), 1)
    assert float(got) == pytest.approx(1e5 / math.sqrt(2 * math.pi), rel=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.01", "1e-5"), ("1", "1e-6"), ("10", "1e-9")])
def test_discrete_sigma_tends_to_the_analytic_one(epsilon: str, delta: str) -> None:
    analytic = analytic_gaussian_sigma(epsilon, delta, 1)
    for sensitivity, near in ((10, 1e-2), (1000, 1e-6), (10**6, 1e-7)):
        got = calibrate_discrete_sigma(Fraction(epsilon), Fraction(delta), sensitivity**2)
        assert float(got / sensitivity) == pytest.approx(float(analytic), rel=near)
    many = calibrate_discrete_sigma(Fraction(epsilon), Fraction(delta), 10**12, 100)
    assert float(many) / 10**6 == pytest.approx(float(analytic), rel=1e-6)


def test_floats_get_the_analytic_sigma() -> None:
    m = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity="0.1", dimension=10)
    assert m.sigma == pytest.approx(0.1 * 3.73063163481594183, rel=1e-6)


@pytest.mark.bench
@pytest.mark.parametrize(("epsilon", "delta", "sensitivity"), [(1.0, 1e-5, 1.0), (0.1, 1e-6, 3.0), (5.0, 1e-9, 1.0)])
def test_analytic_sigma_agrees_with_dp_accounting(epsilon: float, delta: float, sensitivity: float) -> None:
    from dp_accounting.pld import common, privacy_loss_mechanism

    parameters = common.DifferentialPrivacyParameters(epsilon, delta)
    theirs = privacy_loss_mechanism.GaussianPrivacyLoss.from_privacy_guarantee(parameters, sensitivity=sensitivity)
    ours = analytic_gaussian_sigma(epsilon, delta, sensitivity)
    assert float(ours) == pytest.approx(theirs.standard_deviation, rel=1e-4)
