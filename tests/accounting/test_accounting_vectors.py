"""Composition against numbers computed to forty digits, each with its formula: right to 1e-9 and never below."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.compose import compose
from tacit.accounting.pairwise import advanced_epsilon, optimal_epsilon_bounds
from tacit.accounting.prices import amplify
from tacit.accounting.renyi import renyi_curve
from tacit.accounting.zcdp import largest_rho
from tacit.core.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    RandomizedResponseEvent,
)
from tacit.core.guarantees import RDP, ZCDP, ApproxDP, PureDP

#: The numbers below are printed with at least this many correct digits.
PRINTED = Fraction(1, 10**12)


def close_above(value: Fraction, true: str, *, digits: int = 9, printed: Fraction = PRINTED) -> bool:
    exact = Fraction(true)
    return exact * (1 - printed) <= value <= exact * (1 + Fraction(1, 10**digits))


@pytest.mark.parametrize(
    ("sigma", "k", "delta", "epsilon"),
    [
        ("1", 1, "1e-5", "4.37717809568122463"),
        ("5", 10, "1e-5", "2.59438338052760704"),
        ("10", 100, "1e-6", "4.886554117462212"),
        ("50", 1000, "1e-6", "2.92160059042704586"),
        ("100", 10000, "1e-9", "6.17393504667090795"),
    ],
)
def test_gaussians_compose_to_a_gaussian(sigma: str, k: int, delta: str, epsilon: str) -> None:
    # δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) with μ = √k/σ.
    found = compose([(GaussianEvent(Fraction(sigma), Fraction(1)), k)], delta=delta, method="pld")
    assert close_above(found.epsilon, epsilon)
    assert found.lower is not None
    assert found.lower <= Fraction(epsilon) * (1 + PRINTED)


KOV = [
    # ε, k, δ, δ each, exact, Dwork-Rothblum-Vadhan
    ("0.1", 10, "1e-6", "0", "0.999370905721758725", "1.7674290543448"),
    ("0.1", 30, "1e-6", "0", "2.34588769300803662", "3.1946283015398"),
    ("0.1", 100, "1e-6", "0", "4.77456758810798615", "6.3082309505134"),
    ("0.1", 100, "1e-9", "0", "5.9596495221262859", "7.4896072596245"),
    ("0.5", 20, "1e-6", "0", "9.98679786964016406", "18.241152709385"),
    ("1", 10, "1e-6", "0", "9.99997706582073262", "33.805399647282"),
    ("0.01", 1000, "1e-6", "0", "1.36544670999375596", "1.7627598071108"),
    ("0.1", 100, "1e-5", "1e-8", "4.32963671401660593", "5.8721419373932"),
    ("1", 2, "1e-6", "0", "1.99999812890408392", "10.870408034618"),
]


@pytest.mark.parametrize(("epsilon", "k", "delta", "each", "exact", "drv"), KOV)
def test_optimal_composition(epsilon: str, k: int, delta: str, each: str, exact: str, drv: str) -> None:
    # (ε_g, 1 - (1-δ)^k (1 - δ_k)) with δ_k(ε_g) = (1+e^ε)^-k Σ C(k,l) (e^{(k-l)ε} - e^{ε_g+lε}) over (k-2l)ε > ε_g.
    found = compose([(ApproxDP(epsilon, each), k)], delta=delta, method="optimal")
    assert close_above(found.epsilon, exact)
    assert found.lower is not None
    assert Fraction(exact) * (1 - Fraction(1, 10**9)) <= found.lower <= Fraction(exact) * (1 + PRINTED)


@pytest.mark.parametrize(("epsilon", "k", "delta", "each", "exact", "drv"), KOV)
def test_advanced_is_the_theorem_or_the_sum(epsilon: str, k: int, delta: str, each: str, exact: str, drv: str) -> None:
    found = compose([(ApproxDP(epsilon, each), k)], delta=delta, method="advanced")
    total = k * Fraction(epsilon)
    if Fraction(drv) < total:
        assert found.method == "advanced"
        assert close_above(found.epsilon, drv)
    else:
        assert (found.method, found.epsilon) == ("basic", total)


@pytest.mark.parametrize(
    ("epsilon", "k", "total", "delta"),
    [
        ("0.1", 10, "0.8", "0.00028823385761864797921"),
        ("0.1", 10, "0.4", "0.016080131993212995479"),
        ("0.1", 10, "0", "0.12253622356149266512"),
        ("1", 2, "0", "0.4621171572600097585"),
        ("0.5", 20, "6", "0.017821646136620011928"),
    ],
)
def test_optimal_epsilon_on_the_grid(epsilon: str, k: int, total: str, delta: str) -> None:
    low, high = optimal_epsilon_bounds(epsilon=epsilon, count=k, delta=delta)
    assert float(low) == pytest.approx(float(total), abs=1e-9)
    assert float(high) == pytest.approx(float(total), abs=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "k", "delta", "total"),
    [
        ("0.1", 100, "1e-6", "6.30823095051340823"),
        ("0.01", 10000, "1e-6", "6.26153847817373773"),
        ("0.5", 10, "1e-5", "10.8307420004263725"),
        ("1", 100, "1e-9", "236.207163634584941"),
    ],
)
def test_advanced_formula(epsilon: str, k: int, delta: str, total: str) -> None:
    # √(2k ln(1/δ'))·ε + kε(e^ε - 1).
    assert close_above(advanced_epsilon([(epsilon, k)], delta=delta), total, digits=15)


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [
        ("0.005", "1e-6", "0.42994146883695"),
        ("0.05", "1e-6", "1.4715947505324"),
        ("0.1", "1e-6", "2.1419389283855"),
        ("0.5", "1e-5", "4.7283869849433"),
        ("1", "1e-6", "7.7662166253117"),
        ("2", "1e-9", "14.150147553875"),
    ],
)
def test_zcdp(rho: str, delta: str, epsilon: str) -> None:
    # inf over α of ρα + ln(1 - 1/α) - (ln δ + ln α)/(α-1).
    for method in ("zcdp", "rdp"):
        assert close_above(compose([ZCDP(rho)], delta=delta, method=method).epsilon, epsilon, digits=8)


@pytest.mark.parametrize(
    ("epsilon", "delta", "basic", "tight"),
    [
        ("1", "1e-6", "0.01746890476912338", "0.0243559703595"),
        ("0.1", "1e-6", "0.0001803040801807577", "0.000321047690346"),
        ("5", "1e-5", "0.4496234804279987", "0.550973474939"),
    ],
)
def test_largest_rho(epsilon: str, delta: str, basic: str, tight: str) -> None:
    # The closed form is (√(ln(1/δ)+ε) - √ln(1/δ))²; the tight one inverts the conversion above. Both round down.
    assert float(largest_rho(epsilon=epsilon, delta=delta, tight=False)) == pytest.approx(float(basic), rel=1e-13)
    found = largest_rho(epsilon=epsilon, delta=delta)
    assert float(found) == pytest.approx(float(tight), rel=1e-11)
    assert ZCDP(found).to_approx(delta).epsilon <= Fraction(epsilon)


@pytest.mark.parametrize("delta", ["0.5", "0.1", "1e-3", "1e-6", "1e-40", "1e-300"])
def test_no_larger_rho_would_do(delta: str) -> None:
    for epsilon in ("1e-300", "1e-9", "0.001", "0.25", "1", "20", "1e6"):
        rho = largest_rho(epsilon=epsilon, delta=delta)
        assert ZCDP(rho).to_approx(delta).epsilon <= Fraction(epsilon)
        if epsilon != "1e-300":
            assert ZCDP(rho * (1 + Fraction(1, 10**12))).to_approx(delta).epsilon > Fraction(epsilon), epsilon


def sampled(q: str, sigma: str) -> Event:
    return PoissonSampledEvent(Fraction(q), GaussianEvent(Fraction(sigma), Fraction(1)))


@pytest.mark.parametrize(
    ("event", "alpha", "epsilon"),
    [
        # Laplace: ln[α/(2α-1) e^{(α-1)/b} + (α-1)/(2α-1) e^{-α/b}]/(α-1)
        (LaplaceEvent(Fraction(1), Fraction(1)), 2, 0.619123629998592883),
        (LaplaceEvent(Fraction(2), Fraction(1)), 1.5, 0.155977878485739499),
        (LaplaceEvent(Fraction(1), Fraction(1)), 10, 0.928682902096680223),
        (LaplaceEvent(Fraction(1, 2), Fraction(1)), 32, 1.97814842504542561),
        (LaplaceEvent(Fraction(10), Fraction(1)), 2, 0.00964420784034467471),
        # randomized response: ln[p^α (1-p)^{1-α} + (1-p)^α p^{1-α}]/(α-1)
        (RandomizedResponseEvent(Fraction(3, 4)), 2, 0.847297860387203614),
        (RandomizedResponseEvent(Fraction(9, 10)), 1.5, 2.01104373120419548),
        (RandomizedResponseEvent(Fraction(3, 5)), 10, 0.348756815609485018),
        (RandomizedResponseEvent(Fraction(3, 4)), 64, 1.09404590656570047),
        # sampled Gaussian: ln Σ_k C(α,k)(1-q)^{α-k} q^k e^{(k²-k)/(2σ²)}/(α-1)
        (sampled("0.01", "1"), 2, 0.000171813422074547931),
        (sampled("0.01", "1"), 8, 0.000893643907606031847),
        (sampled("0.01", "1"), 32, 11.2462759370480688),
        (sampled("0.004266666666666667", "1.1"), 2, 0.0000233957760099491694),
        (sampled("0.004266666666666667", "1.1"), 16, 0.791891432781895606),
        (sampled("0.001", "2"), 64, 0.982744635963038618),
        (GaussianEvent(Fraction(3, 2), Fraction(1)), 4, 0.888888888888888889),
    ],
)
def test_renyi_curves(event: Event, alpha: float, epsilon: float) -> None:
    found = renyi_curve(event)(np.array([float(alpha)]))[0]
    assert epsilon <= found <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta", "integer_orders"),
    [
        ("0.01", "1", 1000, "1e-5", 2.1077530754516),
        ("0.004266666666666667", "1.1", 14062, "1e-5", 2.5969811785949),
        ("0.001", "2", 10000, "1e-6", 0.24471730638397),
    ],
)
def test_dp_sgd(q: str, sigma: str, steps: int, delta: str, integer_orders: float) -> None:
    # The best integer order gives the number in the table; more orders can only help, and the truth lies below both.
    renyi = compose([(sampled(q, sigma), steps)], delta=delta, method="rdp")
    certified = compose([(sampled(q, sigma), steps)], delta=delta, method="pld")
    assert certified.lower is not None
    assert integer_orders * 0.995 < float(renyi.epsilon) <= integer_orders
    assert certified.lower <= certified.epsilon < renyi.epsilon


def test_published_anchors() -> None:
    # σ=1.5, q=0.04, 2250 steps, δ=1e-5: Renyi over a list of fractional orders gave 7.32911117143 elsewhere.
    many = compose([(sampled("0.04", "1.5"), 2250)], delta="1e-5", method="rdp")
    assert 7.325 < float(many.epsilon) <= 7.32911117143
    # 2249 steps: an upper bound with an allowance of 0.01 gave 6.777395712150674.
    exact = compose([(sampled("0.04", "1.5"), 2249)], delta="1e-5", method="pld")
    assert exact.lower is not None
    assert 6.777395712150674 - 0.0205 < float(exact.lower) <= float(exact.epsilon) < 6.777395712150674
    # σ=4.530877117 is (1, 1e-6) by Renyi; a constant curve of 1.1 up to order 32 is 1.32783806176 at 1e-5.
    gaussian = compose([GaussianEvent(Fraction("4.530877117"), Fraction(1))], delta="1e-6", method="rdp")
    assert float(gaussian.epsilon) == pytest.approx(1, rel=1e-8)
    constant = compose([RDP(dict.fromkeys(range(2, 33), "1.1"))], delta="1e-5", method="rdp")
    assert float(constant.epsilon) == pytest.approx(1.32783806176, rel=1e-11)


@pytest.mark.parametrize(
    ("epsilon", "q", "amplified"), [("1", "0.01", "0.0170368632361765498"), ("0.5", "0.1", "0.0628547234737303818")]
)
def test_amplification(epsilon: str, q: str, amplified: str) -> None:
    # ln(1 + q(e^ε - 1)).
    assert close_above(amplify(epsilon=epsilon, rate=q).epsilon, amplified, digits=15, printed=Fraction(1, 10**17))


@pytest.mark.parametrize(
    ("epsilon", "scale", "delta"),
    [("0.5", "1", "0.221199216928595132"), ("1", "0.5", "0.393469340287366576")],
)
def test_laplace_profile(epsilon: str, scale: str, delta: str) -> None:
    # δ(ε) = 1 - e^{(ε - 1/b)/2}, so ε at that δ is the ε we started from.
    found = compose([LaplaceEvent(Fraction(scale), Fraction(1))], delta=delta, method="pld")
    assert found.lower is not None
    assert float(found.lower) <= float(epsilon) * (1 + 1e-12)
    assert float(epsilon) * (1 - 1e-12) <= float(found.epsilon) <= float(epsilon) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "group"),
    [
        ("0.1", "1e-6", 5, "6.168257181453091e-6"),
        ("1", "1e-6", 3, "1.11073379273897e-5"),
        ("0.5", "1e-8", 10, "2.272365124446774e-6"),
    ],
)
def test_groups(epsilon: str, delta: str, k: int, group: str) -> None:
    # (kε, δ(e^{kε}-1)/(e^ε-1)), and a group guarantee composes like any other.
    together = ApproxDP(epsilon, delta).group(k)
    assert close_above(together.delta, group)
    twice = compose([(together, 2)], delta="1e-4", method="basic")
    assert twice.epsilon == 2 * k * Fraction(epsilon)


def test_optimal_number_of_pure_releases() -> None:
    # How many releases of ε₀ fit (1, 1e-6) when parameters are fixed beforehand: 562 of 0.01, and not 563.
    for k, fits in ((562, True), (563, False)):
        found = compose([(PureDP("0.01"), k)], delta="1e-6", method="optimal")
        assert (found.epsilon <= 1) is fits
