"""Guarantees: published numbers, safe directions, group privacy, and what cannot be converted."""

from __future__ import annotations

import pickle
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import AccountingError, InputError
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from tacit.core.normal import gaussian_delta_bounds, normal_cdf_bounds, normal_quantile_bounds

mpmath.mp.dps = 40

# math.md M4: ρ, δ, tight ε; M4 last column and M1: the exact ε of a Gaussian.
ZCDP_TABLE = [
    ("0.005", "1e-6", "0.42994146883695", "0.39685737764408"),
    ("0.05", "1e-6", "1.4715947505324", "1.3675714750843"),
    ("0.1", "1e-6", "2.1419389283855", "1.9945269006963"),
    ("0.5", "1e-5", "4.7283869849433", "4.3771780956812"),
    ("1", "1e-6", "7.7662166253117", "7.2860809664186"),
    ("2", "1e-9", "14.150147553875", "13.534772219166"),
]


@pytest.mark.parametrize(("rho", "delta", "tight", "gaussian"), ZCDP_TABLE)
def test_conversion_of_zcdp_and_gdp(rho: str, delta: str, tight: str, gaussian: str) -> None:
    epsilon = ZCDP(rho).to_approx(delta).epsilon
    assert float(epsilon) == pytest.approx(float(tight), rel=1e-9)
    # μ = √(2ρ); for rational μ the exact normal curve is reached, and it is never above zCDP's answer.
    mu = mpmath.sqrt(2 * mpmath.mpf(rho))
    exactly = GDP(Fraction(str(mu))).to_approx(delta).epsilon
    assert float(exactly) == pytest.approx(float(gaussian), rel=1e-9)
    assert exactly <= epsilon


# math.md M1, spot values of δ(ε, σ), with μ = 1/σ.
@pytest.mark.parametrize(
    ("epsilon", "sigma", "delta"),
    [
        ("1", "1", "0.1269367375066439458"),
        ("1", "2", "0.0068295949831145753842"),
        ("0.5", "4", "0.0027088802183181927041"),
        ("3", "0.7", "0.033822247546672376121"),
        ("10", "0.3", "0.057496922269049700293"),
        ("20", "0.2", "0.047322964188519658609"),
    ],
)
def test_profile_of_the_normal(epsilon: str, sigma: str, delta: str) -> None:
    low, high = gaussian_delta_bounds(Fraction(epsilon), 1 / Fraction(sigma))
    assert low <= Fraction(delta) + Fraction(1, 10**20)
    assert high >= Fraction(delta) - Fraction(1, 10**20)
    assert high - low < Fraction(1, 10**30)


@pytest.mark.parametrize("mu", ["1e-6", "0.001", "1", "30", "1000"])
@pytest.mark.parametrize("epsilon", ["0", "1e-9", "0.1", "5", "400"])
def test_profile_of_the_normal_at_extremes(mu: str, epsilon: str) -> None:
    low, high = gaussian_delta_bounds(Fraction(epsilon), Fraction(mu))
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        true = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        assert mpmath.mpf(low.numerator) / low.denominator <= true <= mpmath.mpf(high.numerator) / high.denominator


def test_normal_quantile_inverts_the_distribution() -> None:
    for text in ("1e-30", "1e-5", "0.3", "0.5", "0.9", "0.999999"):
        p = Fraction(text)
        low, high = normal_quantile_bounds(p)
        assert normal_cdf_bounds(low)[0] <= p <= normal_cdf_bounds(high)[1]
        assert high - low <= abs(high) * Fraction(1, 10**40)


# math.md M8.
@pytest.mark.parametrize(
    ("epsilon", "delta", "k", "tight"),
    [
        ("0.1", "1e-6", 5, "6.168257181453091e-6"),
        ("1", "1e-6", 3, "1.11073379273897e-5"),
        ("0.5", "1e-8", 10, "2.272365124446774e-6"),
    ],
)
def test_group_privacy_of_approximate_dp(epsilon: str, delta: str, k: int, tight: str) -> None:
    group = ApproxDP(epsilon, delta).group(k)
    assert group.epsilon == k * Fraction(epsilon)
    assert float(group.delta) == pytest.approx(float(tight), rel=1e-12)
    assert group.delta >= Fraction(delta) * k


def test_group_privacy_is_attained() -> None:
    """A chain of coins p₀ = 0, p_{i+1} = e^ε·p_i + δ is (ε, δ)-DP step by step and ends exactly at the group's δ."""
    epsilon, delta, k = Fraction("0.1"), Fraction("0.001"), 4
    base = mpmath.exp(mpmath.mpf("0.1"))
    p = mpmath.mpf(0)
    for _ in range(k):
        p = base * p + mpmath.mpf("0.001")
    assert float(ApproxDP(epsilon, delta).group(k).delta) == pytest.approx(float(p), rel=1e-14)


@pytest.mark.parametrize(
    ("one", "three"),
    [
        (PureDP("0.1"), PureDP("0.3")),
        (ApproxDP(0, "1e-6"), ApproxDP(0, "3e-6")),
        (ZCDP("0.1"), ZCDP("0.9")),
        (GDP("0.5"), GDP("1.5")),
        (RDP({8: "0.1", 16: "0.2"}), RDP({2: "0.9", 4: "1.8"})),
    ],
)
def test_groups_of_three(one: Guarantee, three: Guarantee) -> None:
    assert one.group(3) == three
    assert one.group(1) == one


def test_group_rules_that_do_not_exist_are_refused() -> None:
    with pytest.raises(AccountingError, match="approximate zCDP"):
        ZCDP("0.1", delta="1e-6").group(2)
    with pytest.raises(AccountingError, match="order of at least 8"):
        RDP({4: "0.1"}).group(3)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="k: "):
            PureDP(1).group(bad)  # type: ignore[arg-type]


def test_a_group_delta_never_exceeds_one() -> None:
    assert ApproxDP(5, "0.1").group(100).delta == 1


def test_pure_converts_safely() -> None:
    pure = PureDP(1)
    assert pure.to_approx() == ApproxDP(1, 0)
    assert pure.to_zcdp() == ZCDP("0.5")
    assert dict(pure.to_rdp([2, 100]).curve) == {2: 1, 100: 1}
    # The normal curve of the corner: δ(ε) of GDP at ε = 1 may not be below that of ε-DP anywhere.
    mu = pure.to_gdp().mu
    for e in ("0", "0.3", "0.7", "0.99"):
        ours = gaussian_delta_bounds(Fraction(e), mu)[1]
        theirs = (mpmath.exp(1) - mpmath.exp(mpmath.mpf(e))) / (1 + mpmath.exp(1))
        assert float(ours) >= float(theirs) * (1 - 1e-12)


def test_gdp_to_zcdp_is_exact() -> None:
    assert GDP("0.5").to_zcdp() == ZCDP("0.125")
    assert GDP(2).delta_at(0).delta >= gaussian_delta_bounds(Fraction(0), Fraction(2))[0]


# peers.md section 5: constant RDP 1.1 at orders 2..32, δ = 1e-5.
def test_renyi_conversion_matches_a_published_anchor() -> None:
    curve = RDP(dict.fromkeys(range(2, 33), "1.1"))
    assert float(curve.to_approx("1e-5").epsilon) == pytest.approx(1.32783806176, rel=1e-10)


def test_nothing_costs_nothing() -> None:
    assert ZCDP(0).to_approx("1e-6").epsilon == 0
    assert GDP(0).to_approx("1e-6").epsilon == 0
    assert PureDP(0).to_gdp() == GDP(0)
    # A generous δ may need no ε at all; a negative one is never reported.
    assert ZCDP("1e-9").to_approx("0.5").epsilon == 0


def test_a_smaller_delta_than_given_is_refused() -> None:
    with pytest.raises(AccountingError, match="smaller"):
        ApproxDP(1, "1e-6").to_approx("1e-7")
    assert ApproxDP(1, "1e-6").to_approx("1e-5").delta == Fraction(1, 10**5)
    with pytest.raises(AccountingError, match="already used"):
        ZCDP(1, delta="1e-6").to_approx("1e-6")
    with pytest.raises(AccountingError, match="Renyi"):
        ZCDP(1, delta="1e-6").to_rdp()


def test_approximate_zcdp_spends_its_own_delta_first() -> None:
    assert ZCDP("0.1", delta="5e-7").to_approx("1e-6").epsilon == ZCDP("0.1").to_approx("5e-7").epsilon


def test_relations_are_carried_and_checked() -> None:
    swapped = PureDP(1, relation="replace_one")
    assert swapped != PureDP(1)
    assert repr(swapped) == "PureDP(1, relation=REPLACE_ONE)"
    for other in (swapped.to_approx(), swapped.to_zcdp(), swapped.to_gdp(), swapped.to_rdp([2]), swapped.group(2)):
        assert other.relation is swapped.relation
    with pytest.raises(InputError, match="relation: must be 'add_remove' or 'replace_one'"):
        PureDP(1, relation="swap")


@pytest.mark.parametrize(
    "make",
    [
        lambda: PureDP(-1),
        lambda: ApproxDP(1, 2),
        lambda: ZCDP("nan"),
        lambda: GDP(True),
        lambda: RDP({}),
        lambda: RDP({1: 1}),
    ],
)
def test_bad_parameters_are_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]


def test_post_processing_changes_nothing() -> None:
    guarantee = ApproxDP(1, "1e-6")
    assert guarantee.postprocess() is guarantee


def test_guarantees_are_values() -> None:
    for guarantee in (PureDP("0.1"), ApproxDP(1, "1e-6"), ZCDP("0.5"), GDP(1), RDP({2: 1})):
        assert pickle.loads(pickle.dumps(guarantee)) == guarantee
        assert hash(guarantee) == hash(pickle.loads(pickle.dumps(guarantee)))
        with pytest.raises(AttributeError):
            guarantee.relation = None  # type: ignore[misc]


@settings(max_examples=25, deadline=None)
@given(
    st.fractions(min_value="1/1000", max_value=20, max_denominator=1000),
    st.sampled_from(["1e-3", "1e-6", "1e-12", "1e-100"]),
)
def test_conversions_are_monotone_and_ordered(rho: Fraction, delta: str) -> None:
    epsilon = ZCDP(rho).to_approx(delta).epsilon
    assert epsilon <= ZCDP(rho * Fraction(11, 10)).to_approx(delta).epsilon
    assert epsilon <= ZCDP(rho).to_approx(Fraction(delta) / 10).epsilon
    basic = rho + 2 * Fraction(
        str(mpmath.sqrt(mpmath.mpf(rho.numerator) / rho.denominator * mpmath.log(1 / mpmath.mpf(delta))))
    )
    assert epsilon <= basic + Fraction(1, 10**12)
