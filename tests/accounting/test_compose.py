"""``compose``: what it accepts, what it refuses, and that each method says what it did."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.compose import METHODS, compose
from tacit.accounting.pairwise import advanced_epsilon, simple_epsilon
from tacit.accounting.prices import amplify
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import (
    ApproxEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    NoEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
)
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.permute_and_flip import PermuteAndFlip

GAUSSIAN = GaussianEvent(Fraction(10), Fraction(1))
LAPLACE = LaplaceEvent(Fraction(10), Fraction(1))
PURE = PureEvent(Fraction(1, 10))


class Mechanism:
    """Anything with an event will do."""

    event = PURE


@pytest.mark.parametrize("method", METHODS)
def test_ways_of_writing_the_same_list(method: str) -> None:
    ways = [
        [PURE] * 6,
        [(PURE, 6)],
        [RepeatedEvent(PURE, 6)],
        [ComposedEvent((RepeatedEvent(PURE, 2), PURE, NoEvent())), (PURE, 3)],
        [Mechanism(), (Mechanism(), 5)],
        [(PureDP("0.1"), 6)],
        [(ApproxDP("0.1", 0), 6)],
        [PureEvent(Fraction(1, 10), mechanism=name) for name in "abcdef"],
    ]
    answers = {compose(way, delta="1e-6", method=method).epsilon for way in ways}  # type: ignore[arg-type]
    assert len(answers) == 1


def test_the_answer_is_a_guarantee() -> None:
    found = compose([(GAUSSIAN, 4), (PURE, 4)], delta="1e-6", method="pld")
    assert isinstance(found, ApproxDP)
    assert found.delta == Fraction("1e-6")
    assert found.upper == found.epsilon
    assert found.lower is not None
    assert found.lower <= found.epsilon
    assert (found.method, found.note) == ("pld", "")
    assert found.group(2).epsilon == 2 * found.epsilon
    assert repr(found).startswith("Composed(")


def test_pure_releases_need_no_delta() -> None:
    assert compose([PURE, LAPLACE]).epsilon == Fraction(1, 5)
    assert compose([PURE, LAPLACE], delta=0).delta == 0
    assert compose(PURE).epsilon == Fraction(1, 10)
    assert compose([]).epsilon == 0
    with pytest.raises(AccountingError, match="delta"):
        compose([PURE, GAUSSIAN])


@pytest.mark.parametrize("method", METHODS)
def test_nothing_costs_nothing(method: str) -> None:
    free: list[Event] = [
        NoEvent(),
        PureEvent(Fraction(0)),
        LaplaceEvent(Fraction(1), Fraction(0)),
        GaussianEvent(Fraction(1), Fraction(0)),
        RandomizedResponseEvent(Fraction(1, 3), 3),
        ExponentialEvent(Fraction(0)),
        PoissonSampledEvent(Fraction(0), GAUSSIAN),
        RepeatedEvent(GAUSSIAN, 0),
    ]
    assert compose(free, delta="1e-6", method=method).epsilon == 0


def test_relations_do_not_mix() -> None:
    with pytest.raises(InputError, match="neighbours"):
        compose([PURE, PureEvent(Fraction(1), relation=REPLACE_ONE)], delta="1e-6")
    found = compose([PureDP(1, relation=REPLACE_ONE)] * 2, delta="1e-6")
    assert found.relation is REPLACE_ONE


@pytest.mark.parametrize("releases", ["abc", 3, [3], [(PURE, -1)], [(PURE, 1, 1)], [(PURE, 1.5)]])
def test_other_things_are_refused(releases: object) -> None:
    with pytest.raises(InputError, match="releases"):
        compose(releases, delta="1e-6")  # type: ignore[arg-type]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="method"):
        compose([PURE], delta="1e-6", method="magic")
    for delta in (1, 2, -1, "x"):
        with pytest.raises(InputError, match="delta"):
            compose([PURE], delta=delta)


def test_optimal_is_for_equal_pairs() -> None:
    with pytest.raises(AccountingError, match="pld"):
        compose([PURE, PureEvent(Fraction(1, 5))], delta="1e-6", method="optimal")
    with pytest.raises(AccountingError, match="pld"):
        compose([GAUSSIAN], delta="1e-6", method="optimal")
    # Laplace of scale 10 and pure 0.1 state the same pair.
    assert compose([(LAPLACE, 5), (PURE, 5)], delta="1e-6", method="optimal").epsilon < 1


@pytest.mark.parametrize("method", METHODS)
def test_spent_delta_is_not_given_twice(method: str) -> None:
    leaky = ApproxEvent(Fraction(1, 10), Fraction("1e-6"))
    with pytest.raises(AccountingError, match="delta"):
        compose([(leaky, 11)], delta="1e-5", method=method)
    tight, wide = (compose([(leaky, 9)], delta=d, method=method).epsilon for d in ("1.0e-5", "1e-3"))
    assert tight >= wide


def test_advanced_never_exceeds_basic() -> None:
    found = compose([(PURE, 10)], delta="1e-6", method="advanced")
    assert (found.method, found.epsilon) == ("basic", 1)
    assert "basic" in found.note
    assert compose([(PURE, 100)], delta="1e-6", method="advanced").method == "advanced"
    mixed = compose([(PURE, 100), (PureEvent(Fraction(1, 20)), 100)], delta="1e-6", method="advanced")
    assert mixed.epsilon == advanced_epsilon([("0.1", 100), ("0.05", 100)], delta="1e-6")
    simple = simple_epsilon([("0.1", 100)], delta="1e-6")
    assert advanced_epsilon([("0.1", 100)], delta="1e-6") > simple > compose([(PURE, 100)], delta="1e-6").epsilon
    with pytest.raises(AccountingError, match="epsilon < 1"):
        simple_epsilon([(1, 2)], delta="1e-6")


def test_best_is_the_smallest_and_named() -> None:
    for releases in (
        [(PURE, 100)],
        [(GAUSSIAN, 50)],
        [(PURE, 3), (GAUSSIAN, 3)],
        [(ExponentialEvent(Fraction(1, 10)), 500)],
    ):
        best = compose(releases, delta="1e-6")
        each = {}
        for method in METHODS[:-1]:
            try:
                each[method] = compose(releases, delta="1e-6", method=method).epsilon
            except AccountingError:
                continue
        assert best.epsilon == min(each.values())
        assert best.method in METHODS


def test_without_a_known_pair_pld_says_so() -> None:
    for release in (
        ZCDP("0.01"),
        RDP({4: "0.1", 8: "0.2"}),
        DiscreteGaussianEvent(Fraction(2), Fraction(4), dimension=3),
    ):
        found = compose([(release, 3)], delta="1e-6", method="pld")
        assert found.method == "rdp"
        assert "Renyi" in found.note
        assert found.epsilon == compose([(release, 3)], delta="1e-6", method="rdp").epsilon


def test_gdp_is_a_gaussian() -> None:
    mine = compose([(GDP("0.1"), 100)], delta="1e-5", method="pld").epsilon
    assert mine == compose([(GAUSSIAN, 100)], delta="1e-5", method="pld").epsilon
    assert float(mine) == pytest.approx(float(GDP(1).to_approx("1e-5").epsilon), rel=1e-12)


@pytest.mark.parametrize("method", ["basic", "zcdp", "rdp", "pld", "best"])
def test_parts_of_a_partition(method: str) -> None:
    small, large = GaussianEvent(Fraction(20), Fraction(1)), GAUSSIAN
    both = compose([(ParallelEvent((small, large, small)), 3)], delta="1e-6", method=method).epsilon
    assert both == compose([(large, 3)], delta="1e-6", method=method).epsilon
    # Parts of different kinds: never less than any part alone.
    mixed = compose([(ParallelEvent((LAPLACE, large)), 3)], delta="1e-6", method=method).epsilon
    for part in (LAPLACE, large):
        assert mixed >= compose(
            [(part, 3)], delta="1e-6", method="rdp" if method == "pld" else method
        ).epsilon * Fraction(99, 100)


def test_replacing_a_unit_changes_two_parts() -> None:
    part = PureEvent(Fraction(1, 10), relation=REPLACE_ONE)
    whole = ParallelEvent((part, part, part), relation=REPLACE_ONE)
    assert compose([whole]).epsilon == Fraction(1, 5)
    assert compose([ParallelEvent((part,), relation=REPLACE_ONE)]).epsilon == Fraction(1, 10)


def test_one_person_in_several_databases() -> None:
    # One account, several releases about the same people: composition; a household of three: group privacy.
    total = compose([PURE, LAPLACE, RandomizedResponseEvent(Fraction(3, 4))], delta="1e-6", method="basic")
    household = total.group(3)
    assert household.epsilon == 3 * total.epsilon
    assert household.delta > total.delta


def test_sampling() -> None:
    inner = PureEvent(Fraction(1))
    sampled = PoissonSampledEvent(Fraction(1, 100), inner)
    assert compose([sampled]).epsilon == amplify(epsilon=1, rate="0.01").epsilon
    # A sample of a sample; a sample of all rows.
    nested = PoissonSampledEvent(Fraction(1, 10), PoissonSampledEvent(Fraction(1, 10), inner))
    assert compose([nested]).epsilon == compose([sampled]).epsilon
    assert compose([PoissonSampledEvent(Fraction(1), inner)]).epsilon == 1
    # Several releases on one sample are one mechanism.
    together = PoissonSampledEvent(Fraction(1, 100), RepeatedEvent(inner, 2))
    assert compose([together]).epsilon == amplify(epsilon=2, rate="0.01").epsilon
    # Replacing a unit: no gain in epsilon.
    replaced = PoissonSampledEvent(Fraction(1, 100), PureEvent(Fraction(1), relation=REPLACE_ONE), relation=REPLACE_ONE)
    assert compose([replaced]).epsilon == 1
    assert amplify(epsilon=1, delta="1e-6", rate="0.01", relation="replace_one").delta == Fraction("1e-8")
    assert compose([(replaced, 10)], delta="1e-3", method="pld").epsilon < 10


@pytest.mark.parametrize("rate", ["0.001", "0.1", "0.9"])
def test_sampled_gaussian_in_every_method(rate: str) -> None:
    sampled = PoissonSampledEvent(Fraction(rate), GaussianEvent(Fraction(2), Fraction(1)))
    answers = {m: compose([(sampled, 20)], delta="1e-5", method=m).epsilon for m in ("basic", "zcdp", "rdp", "pld")}
    assert answers["pld"] <= answers["rdp"] <= answers["zcdp"]
    assert answers["pld"] <= answers["basic"]


def test_best_puts_a_large_pure_release_beside_the_others_where_that_is_cheaper() -> None:
    large, chosen, noise = PureEvent(2), ExponentialEvent(1), GaussianEvent(7, 1)
    apart = compose([chosen, noise], delta="1e-12").epsilon
    assert compose([large, chosen, noise], delta="1e-12").epsilon <= 2 + apart
    assert compose([large, noise], delta="1e-12").epsilon <= 2 + compose([noise], delta="1e-12").epsilon


@pytest.mark.parametrize("method", ["optimal", "pld", "best"])
def test_no_selection_attains_the_bound_of_randomized_response(method: str) -> None:
    """Its event says ε-DP and nothing finer, so no lower bound is known that is its own."""
    noisy, flip = (kind(epsilon="0.1", sensitivity=1) for kind in (NoisyMax, PermuteAndFlip))
    for releases in ([(noisy, 20)], [flip, flip], [(noisy.event, 3)], iter([(noisy, 20)]), noisy):
        assert compose(releases, delta="1e-6", method=method).lower is None
    assert compose([(PureDP("0.1"), 20)], delta="1e-6", method=method).lower is not None
