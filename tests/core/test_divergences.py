"""Divergences of finite distributions: values by hand, infinities, enclosures, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tacit.core.divergences import (
    Enclosure,
    approx_max_divergence,
    as_distribution,
    hockey_stick,
    kl_bound,
    kl_divergence,
    max_divergence,
    max_ratio,
    renyi_divergence,
    total_variation,
)
from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import exp_bounds, log_bounds

COIN = ["3/4", "1/4"]
NIOC = ["1/4", "3/4"]
WIDTH = Fraction(1, 10**30)


def close(enclosure: Enclosure, value: str, digits: int) -> bool:
    wanted, slack = Fraction(value), Fraction(1, 10**digits)
    return enclosure.is_finite and wanted - slack <= enclosure.low <= enclosure.high <= wanted + slack


def test_total_variation_is_exact() -> None:
    assert total_variation({"a": "0.5", "b": "0.5"}, {"b": "0.25", "c": "0.75"}).value == Fraction(3, 4)


@pytest.mark.parametrize(("ratio", "delta"), [("1/2", "5/8"), (1, "1/2"), (2, "1/4"), ("5/2", "1/8"), (3, 0), (7, 0)])
def test_hockey_stick_of_randomized_response(ratio: str, delta: str) -> None:
    assert hockey_stick(COIN, NIOC, ratio=ratio).value == Fraction(delta)


def test_hockey_stick_at_an_epsilon_encloses_3_4_minus_e_4() -> None:
    found = hockey_stick(COIN, NIOC, epsilon=1)
    low, high = exp_bounds(Fraction(1), 60)
    assert found.low <= Fraction(3, 4) - high / 4 <= Fraction(3, 4) - low / 4 <= found.high
    assert found.high - found.low < WIDTH


def test_epsilon_zero_is_exact() -> None:
    assert hockey_stick(COIN, NIOC, epsilon=0).value == Fraction(1, 2)


def test_max_divergence_is_the_log_of_the_worst_ratio() -> None:
    assert max_ratio(COIN, NIOC).value == 3
    found = max_divergence(COIN, NIOC)
    assert found == log_bounds(Fraction(3))


@pytest.mark.parametrize(("delta", "ratio"), [(0, 3), ("1/4", 2), ("1/2", 1), ("3/5", "3/5"), ("3/4", "1/4")])
def test_approximate_max_ratio_inverts_the_profile(delta: str, ratio: str) -> None:
    # Up to δ = 2/3 the event {0} is best, (3/4 - δ)/(1/4); beyond, the whole space is: 1 - δ.
    assert max_ratio(COIN, NIOC, delta=delta).value == Fraction(ratio)
    assert hockey_stick(COIN, NIOC, ratio=ratio).value == Fraction(delta)


def test_approximate_max_divergence_may_be_negative() -> None:
    assert approx_max_divergence(COIN, NIOC, delta="3/5").high < 0


def test_a_support_mismatch_is_infinite_until_delta_covers_it() -> None:
    p, q = {"a": "0.9", "b": "0.1"}, {"a": 1}
    assert max_divergence(p, q) == (math.inf, math.inf)
    assert kl_divergence(p, q) == (math.inf, math.inf)
    assert renyi_divergence(p, q, alpha=2) == (math.inf, math.inf)
    assert max_ratio(p, q, delta="0.0999").value == math.inf
    assert max_ratio(p, q, delta="0.1").value == Fraction(9, 10)
    assert kl_divergence(q, p).is_finite
    assert str(max_divergence(p, q)) == "infinite"


def test_orders_below_one_are_finite_while_anything_overlaps() -> None:
    found = renyi_divergence({"a": "0.9", "b": "0.1"}, {"a": 1}, alpha="1/2")
    # -2 ln √0.9
    assert found.low <= log_bounds(Fraction(10, 9))[1]
    assert found.high >= log_bounds(Fraction(10, 9))[0]
    assert renyi_divergence([1, 0], [0, 1], alpha="1/2") == (math.inf, math.inf)


# RR(p): (1/(α-1))·ln[p^α(1-p)^{1-α} + (1-p)^α p^{1-α}], evaluated at 40 digits.
@pytest.mark.parametrize(
    ("alpha", "truth", "value"),
    [
        ("2", "0.75", "0.847297860387203614"),
        ("1.5", "0.9", "2.01104373120419548"),
        ("10", "0.6", "0.348756815609485018"),
        ("64", "0.75", "1.09404590656570047"),
    ],
)
def test_renyi_divergence_of_randomized_response(alpha: str, truth: str, value: str) -> None:
    p = [Fraction(truth), 1 - Fraction(truth)]
    assert close(renyi_divergence(p, p[::-1], alpha=alpha), value, 16)


def test_renyi_interpolates_between_kl_and_max() -> None:
    assert renyi_divergence(COIN, NIOC, alpha=1) == kl_divergence(COIN, NIOC)
    assert renyi_divergence(COIN, NIOC, alpha=math.inf) == max_divergence(COIN, NIOC)


def test_permute_and_flip_exceeds_the_zcdp_of_the_exponential_mechanism() -> None:
    # Scores [1, -1] against [0, 0] at ε = 2: p = e^-2 for the worse one, which is chosen with probability p/2.
    low, high = exp_bounds(Fraction(-2))
    q: dict[object, tuple[Fraction, Fraction]] = {0: (1 - high / 2, 1 - low / 2), 1: (low / 2, high / 2)}
    found = renyi_divergence({0: "1/2", 1: "1/2"}, q, alpha=2)
    assert close(found, "1.376918739600336", 15)
    assert found.low > 2 * Fraction(4, 8)


def test_kl_of_randomized_response_meets_the_tight_lemma() -> None:
    found, tight, loose = kl_divergence(COIN, NIOC), kl_bound(ratio=3), kl_bound(ratio=3, tight=False)
    half = log_bounds(Fraction(3))
    assert found.low <= half[1] / 2
    assert found.high >= half[0] / 2
    assert abs(Fraction(found.high) - Fraction(tight.high)) < WIDTH
    assert loose.low > 3 * tight.high
    assert close(kl_bound(epsilon="0.1"), "0.0049958374957880", 15)  # 0.1·tanh(0.05)


def test_enclosures_in_give_enclosures_out() -> None:
    vague = [("0.7499", "0.7501"), ("0.2499", "0.2501")]
    for divergence in (total_variation, kl_divergence, max_divergence):
        around, at = divergence(vague, NIOC), divergence(COIN, NIOC)
        assert around.low < at.low <= at.high < around.high
        assert Fraction(around.high) - Fraction(around.low) < Fraction(1, 1000)
    around = renyi_divergence(vague, NIOC, alpha="0.5")
    assert around.low < renyi_divergence(COIN, NIOC, alpha="0.5").low < around.high


def test_kl_of_wide_enclosures_covers_every_distribution_inside() -> None:
    wide = [("0", "0.5"), ("0.5", "1")]
    found = kl_divergence(wide, NIOC)
    for n in range(0, 51, 5):
        p = [Fraction(n, 100), 1 - Fraction(n, 100)]
        inside = kl_divergence(p, NIOC)
        assert found.low <= inside.low
        assert inside.high <= found.high
    other = kl_divergence(NIOC, [("0", "0.5"), ("0.5", "1")])
    assert other.high == math.inf
    assert other.low == 0


def test_an_enclosure_is_readable_and_refuses_to_pretend() -> None:
    vague = Enclosure(Fraction(1, 3), Fraction(1, 2))
    assert str(vague) == "[0.3333333333, 0.5]"
    assert str(Enclosure(Fraction(1, 3), Fraction(1, 3))) == "1/3"
    assert vague.down <= Fraction(1, 3) < vague.up
    with pytest.raises(AccountingError, match=r"only known to be \[0.333"):
        _ = vague.value


@pytest.mark.parametrize(
    ("p", "q", "words"),
    [
        (["0.5", "0.4"], COIN, "p: must have probabilities that add up to exactly 1; they add up to 9/10"),
        (COIN, ["1.5", "-0.5"], r"q\[0\]: must lie in"),
        ([0.1] * 10, COIN, "q: must name the same outcomes"),
        ({"a": 1}, [1], "q: must name the same outcomes"),
        ([("0.6", "0.5"), "0.5"], COIN, "wrong way round"),
        ([("0.1", "0.2"), ("0.1", "0.2")], COIN, "add up to between 0.2 and 0.4"),
        ([float("nan"), 1], COIN, r"p\[0\]: must be finite"),
    ],
)
def test_what_is_not_a_distribution_is_refused(p: list[object], q: list[object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        total_variation(p, q)  # type: ignore[arg-type]


def test_floats_mean_their_decimal_text() -> None:
    assert as_distribution([0.1] * 10)[3].value == Fraction(1, 10)


def test_epsilon_and_ratio_exclude_each_other() -> None:
    with pytest.raises(InputError, match="give either epsilon, or ratio"):
        hockey_stick(COIN, NIOC)
    with pytest.raises(InputError, match="give either epsilon, or ratio"):
        hockey_stick(COIN, NIOC, epsilon=1, ratio=2)
    with pytest.raises(InputError, match="ratio: must be at least 1"):
        kl_bound(ratio="0.5")


def test_probabilities_may_be_longer_than_parameters() -> None:
    tiny = Fraction(1, 3**4000)
    assert hockey_stick([tiny, 1 - tiny], [1 - tiny, tiny], ratio=1).value == 1 - 2 * tiny
