"""The sparse vector as a stream: what it answers, when it stops, and that there is only one of it."""

from __future__ import annotations

import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.core.errors import AccountingError, BudgetError, InputError
from tacit.core.events import PureEvent
from tacit.core.guarantees import PureDP
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.mechanisms.sparse_vector import SparseVector

FAR = 10**9


def stream(**changes: Any) -> SparseVector:
    return SparseVector(**({"epsilon": 1, "sensitivity": 1, "threshold": 0} | changes))


class Scripted:
    """Noise from a list, so that single comparisons can be checked."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)
        self.scale = Fraction(1)

    def sample(self) -> int:
        return self.values.pop(0)


def scripted(*noise: int, threshold_noise: int = 0, **changes: Any) -> SparseVector:
    made = stream(**changes)
    made._noisy_threshold = made._cut + threshold_noise
    made._query_noise = Scripted(*noise)
    return made


def test_the_whole_stream_has_one_price() -> None:
    made = stream(epsilon="0.7", positives=5, relation="replace_one")
    assert made.guarantee == PureDP("0.7", relation="replace_one")
    assert made.event == PureEvent("0.7", "sparse_vector", relation="replace_one")
    assert made.left == 5


def test_below_is_free_and_the_last_yes_ends_it() -> None:
    made = stream(positives=2)
    assert made.release([-FAR] * 10_000) == [False] * 10_000
    assert made.left == 2
    assert made.ask(FAR) is True
    assert made.release([-FAR, FAR, FAR, -FAR]) == [False, True]
    assert made.left == 0
    for query in (FAR, -FAR):
        with pytest.raises(BudgetError, match="used up"):
            made.ask(query)
    with pytest.raises(BudgetError):
        made.release([1])


def test_the_comparison_uses_fresh_noise_and_admits_equality() -> None:
    made = scripted(0, -1, 5, -6, positives=3)
    assert [made.ask(0), made.ask(0), made.ask(-5), made.ask(5)] == [True, False, True, False]
    assert made._query_noise.values == []
    shifted = scripted(0, 0, threshold_noise=3, threshold=10, positives=3)
    assert [shifted.ask(12), shifted.ask(13)] == [False, True]


def test_the_threshold_noise_is_drawn_once() -> None:
    made = stream(positives=3)
    before = made._noisy_threshold
    made.release([FAR, -FAR, FAR])
    assert made._noisy_threshold == before


def test_a_fractional_threshold_of_whole_numbers_rounds_up() -> None:
    made = scripted(0, 0, threshold="2.5")
    assert [made.ask(2), made.ask(3)] == [False, True]


def test_epsilon_is_split_exactly() -> None:
    for positives in (1, 2, 7, 1000):
        for monotone in (False, True):
            made = stream(epsilon="0.3", positives=positives, monotone=monotone)
            first, second, third = made.epsilons
            assert first + second + third == Fraction(3, 10)
            assert third == 0
            moved = positives * (1 if monotone else 2)
            assert float(second / first) == pytest.approx(moved ** (2 / 3), rel=1e-3)
            assert made._threshold_scale == 1 / first
            assert made._query_scale == moved / second


def test_values_are_a_part_of_epsilon_with_noise_of_their_own() -> None:
    made = scripted(7, 7, -9, epsilon=2, epsilon_values="0.5", positives=3, threshold=0)
    assert sum(made.epsilons) == 2
    assert made._value_noise is not None
    assert made._value_noise.scale == 3 / Fraction(1, 2)
    made._value_noise = Scripted(100, 200)
    assert [made.ask_value(1), made.ask_value(2), made.ask_value(3)] == [101, 202, None]
    assert made.left == 1


def test_values_must_be_paid_for() -> None:
    with pytest.raises(InputError) as caught:
        stream().ask_value(3)
    assert caught.value.parameter == "epsilon_values"
    with pytest.raises(InputError):
        stream().value_error("0.1")


def test_floats_live_on_a_public_grid() -> None:
    made = stream(whole=False, threshold="0.1", sensitivity="0.5", epsilon=4, epsilon_values=1, positives=2)
    assert made.release([-1e6, 1e6]) == [False, True]
    value = made.ask_value(1000.7)
    assert isinstance(value, float)
    assert Fraction(value) % made._step == 0
    assert abs(value - 1000.7) < 100
    assert stream(whole=False).ask(FAR) is True


@pytest.mark.parametrize(
    "value", [None, "3", True, [1], np.array([1]), float("nan"), float("inf"), 1.5, Fraction(1, 2)]
)
def test_bad_queries_are_refused_and_cost_nothing(value: Any) -> None:
    made = stream()
    with pytest.raises(InputError) as caught:
        made.ask(value)
    assert caught.value.parameter == "value"
    assert made.left == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("epsilon", "nan"),
        ("sensitivity", 0),
        ("threshold", None),
        ("threshold", float("inf")),
        ("positives", 0),
        ("positives", 1.5),
        ("monotone", 1),
        ("whole", 0),
        ("epsilon_values", 1),
        ("epsilon_values", 0),
        ("epsilon_threshold", 1),
        ("epsilon_threshold", 0),
        ("relation", "twins"),
    ],
)
def test_bad_parameters_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        stream(**{name: value})
    assert caught.value.parameter == name


def test_monotone_needs_add_remove() -> None:
    with pytest.raises(InputError) as caught:
        stream(monotone=True, relation="replace_one")
    assert caught.value.parameter == "monotone"


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps, lambda made: pickle.dumps([made], 0)])
def test_a_stream_cannot_be_copied(duplicate: Any) -> None:
    with pytest.raises(AccountingError, match="copied or pickled"):
        duplicate(stream())


def test_a_stream_does_not_cross_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stream()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(AccountingError, match="another process"):
        made.ask(FAR)


def test_threads_cannot_get_more_than_was_granted() -> None:
    made = stream(positives=10)

    def try_one(_: int) -> bool:
        try:
            return made.ask(FAR)
        except BudgetError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_one, range(400))) == 10


def test_repr_and_public_attributes_hide_the_noise() -> None:
    made = stream(threshold=5)
    assert repr(made) == "SparseVector(PureDP(1), threshold=5, positives=1, left=1)"
    assert not [name for name in vars(made) if not name.startswith("_")]


def test_dwork_and_roth_split_is_within_their_bound() -> None:
    """α = 8(ln k + ln(2/β))/ε for threshold noise 2/ε and query noise 4/ε: 66.35239712081622 at k=100, β=0.05."""
    made = stream(epsilon_threshold="0.5")
    assert (made._threshold_scale, made._query_scale) == (2, 4)
    assert made.error("0.05", 100) <= 66.35239712081622
    assert made.error("0.05", 100) > 33


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(40)])
@pytest.mark.parametrize("beta", [Fraction(9, 10), Fraction(1, 20), Fraction(1, 10**9)])
def test_the_tail_of_the_noise_is_exact(scale: Fraction, beta: Fraction) -> None:
    """P(|X| > n) = 2q^(n+1)/(1+q): n is the smallest with at most β."""
    n = LaplaceNoise(scale).quantile(beta)
    q = math.exp(-1 / scale)
    assert 2 * q ** (n + 1) / (1 + q) <= beta * (1 + 1e-12)
    assert n == 0 or 2 * q**n / (1 + q) > beta


def test_the_error_adds_threshold_and_queries() -> None:
    made = stream(positives=3, epsilon_values="0.25")
    threshold = LaplaceNoise(made._threshold_scale).quantile(Fraction(1, 40))
    one = LaplaceNoise(made._query_scale).quantile(Fraction(1, 40))
    assert made.error("0.05", 1) == threshold + one
    many = LaplaceNoise(made._query_scale).quantile(Fraction(1, 40) / 1000)
    assert threshold + one < made.error("0.05", 1000) <= threshold + many
    assert made.value_error("0.05") == LaplaceNoise(Fraction(12)).quantile(Fraction(1, 20))


def test_the_default_split_is_no_worse_for_many_positives() -> None:
    for positives in (5, 50):
        even = stream(positives=positives, epsilon_threshold="0.5").error("0.05", 100)
        assert stream(positives=positives).error("0.05", 100) < even


def test_for_error_meets_its_target() -> None:
    given: dict[str, Any] = {"sensitivity": 1, "threshold": 100, "positives": 3}
    made = SparseVector.for_error(within=40, beta="0.05", queries=1000, **given)
    assert made.error("0.05", 1000) <= 40
    assert SparseVector(epsilon=made.epsilon * Fraction(9, 10), **given).error("0.05", 1000) > 40
    floats = SparseVector.for_error(within="0.5", beta="0.05", queries=10, whole=False, sensitivity="0.1", threshold=1)
    assert floats.error("0.05", 10) <= 0.5


def test_errors_refuse_bad_arguments() -> None:
    for beta, queries in ((0, 10), (1, 10), ("0.1", 0), ("0.1", None)):
        with pytest.raises(InputError):
            stream().error(beta, queries)
    with pytest.raises(InputError):
        stream().release("123")
