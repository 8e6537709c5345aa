"""Histograms: what is counted, what is dropped, what comes back, and how far off it may be."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.mechanisms.counts import Histogram
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace

BLOOD = ["A", "B", "AB", "0"]


def exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the noise off, to see what it would have been added to."""
    for kind in (Laplace, Gaussian):
        monkeypatch.setattr(kind, "release", lambda self, value: value)


def test_every_bin_comes_back_in_order_and_empty_ones_too(seeded: SeededBits) -> None:
    noisy = Histogram(epsilon=1, bins=BLOOD).release([])
    assert list(noisy) == BLOOD
    assert len(noisy.counts) == len(noisy) == 4
    assert all(type(count) is int for count in noisy.values())


def test_one_category_per_person_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    exactly(monkeypatch)
    noisy = Histogram(epsilon=1, bins=BLOOD).release(iter(["A", "0", "A", "B"]))
    assert dict(noisy) == {"A": 2, "B": 1, "AB": 0, "0": 1}
    assert noisy["A"] == 2
    with pytest.raises(KeyError):
        noisy["C"]


def test_records_that_equal_no_bin_are_dropped_whatever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    exactly(monkeypatch)
    odd: list[object] = ["A", "C", math.nan, math.inf, None, ["A"], {"A": 1}, b"A", 7, ("A",)]
    assert dict(Histogram(epsilon=1, bins=BLOOD).release(odd)) == {"A": 1, "B": 0, "AB": 0, "0": 0}


def test_counts_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    exactly(monkeypatch)
    histogram = Histogram(epsilon=1, bins=BLOOD)
    assert histogram.release_counts([4, 3, 2, 1]).counts == (4, 3, 2, 1)
    assert histogram.release_counts({"0": 1, "AB": 2, "B": 3, "A": 4}).counts == (4, 3, 2, 1)
    with pytest.raises(InputError, match=r"^counts: must hold 4"):
        histogram.release_counts([1, 2])
    with pytest.raises(InputError, match=r"^counts: must have exactly"):
        histogram.release_counts({"A": 1})
    with pytest.raises(InputError, match=r"^counts: must be whole"):
        histogram.release_counts([1, 2, 3, 0.5])
    with pytest.raises(InputError, match=r"^counts: must be whole"):
        histogram.release_counts([1, 2, 3, True])


def test_the_guarantee_is_the_number_typed() -> None:
    assert Histogram(epsilon="0.3", bins=BLOOD).guarantee == PureDP("0.3")
    replaced = Histogram(epsilon="0.3", bins=BLOOD, relation="replace_one")
    assert replaced.guarantee == PureDP("0.3", relation=REPLACE_ONE)
    assert replaced.relation is REPLACE_ONE


def test_the_noise_follows_the_relation() -> None:
    for relation, scale in ((ADD_REMOVE, 2), (REPLACE_ONE, 4)):
        noise = Histogram(epsilon="0.5", bins=BLOOD, relation=relation).noise
        assert isinstance(noise, Laplace)
        assert noise.scale == scale
    alone = Histogram(epsilon="0.5", bins=["A"], relation=REPLACE_ONE).noise
    assert isinstance(alone, Laplace)
    assert alone.scale == 2  # a single bin moves by one


def test_the_error_is_the_exact_simultaneous_one() -> None:
    """error(β) is the smallest w with (1 - P(|X| > w))^bins >= 1 - β."""
    for epsilon, bins, beta in ((0.5, 4, 0.05), (1.0, 50, 0.01), (0.1, 7, 0.2)):
        q = math.exp(-epsilon)

        def all_within(w: int, q: float = q, bins: int = bins) -> float:
            return (1 - 2 * q ** (w + 1) / (1 + q)) ** bins

        w = Histogram(epsilon=epsilon, bins=range(bins)).error(beta)
        assert all_within(w) >= 1 - beta > all_within(w - 1)


def test_more_releases_and_more_bins_need_more_room() -> None:
    errors = [Histogram(epsilon=1, bins=range(bins)).error("0.05") for bins in (1, 10, 100, 1000)]
    assert all(small < large for small, large in pairwise(errors))
    assert Histogram(epsilon=1, bins=range(10)).error("0.05", k=10) == errors[2]


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_for_error_finds_the_smallest_epsilon(relation: object) -> None:
    found = Histogram.for_error(within=12, beta="0.05", bins=BLOOD, relation=relation)
    assert found.error("0.05") <= 12
    assert found.relation is relation
    assert isinstance(found.guarantee, PureDP)
    slightly_less = found.guarantee.epsilon * (1 - Fraction(1, 10**6))
    assert Histogram(epsilon=slightly_less, bins=BLOOD, relation=relation).error("0.05") > 12


def test_a_delta_permits_gaussian_noise_and_takes_the_smaller() -> None:
    add_remove = Histogram(epsilon=1, bins=BLOOD, delta="1e-6")
    assert isinstance(add_remove.noise, Laplace)  # scale 1 beats sigma 4.2
    assert add_remove.guarantee == PureDP(1)
    # Under replace-one at tiny epsilon: variance 2·(2/ε)² = 8/ε² against 2·σ², σ ≈ 2.4/ε at δ = 1e-2.
    gaussian = Histogram(epsilon="0.01", bins=BLOOD, delta="0.04", relation=REPLACE_ONE)
    assert isinstance(gaussian.noise, Gaussian)
    assert gaussian.noise.l2_squared == 2
    assert gaussian.guarantee == ApproxDP("0.01", "0.04", relation=REPLACE_ONE)


def test_intervals_hold_and_are_never_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    exactly(monkeypatch)
    histogram = Histogram(epsilon=1, bins=BLOOD)
    w = histogram.error("0.05")
    found = histogram.release_counts([100, 1, 0, 50]).intervals("0.95")
    assert found == {"A": (100 - w, 100 + w), "B": (0, 1 + w), "AB": (0, w), "0": (50 - w, 50 + w)}


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ([], "at least one"),
        (["a", "a"], "twice"),
        ([1, True], "True and 1"),
        ([math.nan, 1], "NaN"),
        ([["a"]], "plain values"),
        ("abc", "list of categories"),
        (4, "list of categories"),
    ],
)
def test_bins_must_be_a_proper_list(bins: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^bins: .*{message}"):
        Histogram(epsilon=1, bins=bins)


def test_records_must_be_a_list_of_people() -> None:
    for records in ("AB", 7):
        with pytest.raises(InputError, match=r"^records: "):
            Histogram(epsilon=1, bins=BLOOD).release(records)


def test_there_is_no_default_epsilon() -> None:
    with pytest.raises(TypeError, match="epsilon"):
        Histogram(bins=BLOOD)


def test_reprs_say_what_is_public() -> None:
    assert repr(Histogram(epsilon="0.5", bins=BLOOD)) == "Histogram(bins=4, PureDP(0.5))"
    assert "'A': " in repr(Histogram(epsilon="0.5", bins=BLOOD).release([]))
