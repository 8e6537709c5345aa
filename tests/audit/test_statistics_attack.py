"""Differencing and averaging: right on every unprotected answer, a coin at small epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import pytest

from audit.desk import SmallDesk
from support.bits import SeededBits
from tacit.audit.attacks import Averaging, Differencing, compare, most_that_any_can
from tacit.audit.attacks.counts import hide_small, noise_anew
from tacit.core.errors import InputError

PEOPLE = 400
#: Every other person has the secret.
VICTIMS = tuple((person, person % 2 == 0) for person in range(PEOPLE))
TOTAL = 1000


def exact(person: Hashable | None, wording: int) -> float:
    return TOTAL - float(person is not None and hash(person) % 2 == 0)


def through(desk: SmallDesk) -> Callable[[Hashable | None, int], float]:
    return lambda person, wording: desk.ask((person, wording), lambda: int(exact(person, wording)))


def test_differencing_beats_hidden_small_counts_and_not_the_curator(seeded: SeededBits) -> None:
    """At epsilon 0.1 (two queries of 0.05) a guess is right with probability below 0.525; 250 of 400 or more then
    have probability below 4e-5. At epsilon 20 nearly all are right."""
    asks = {epsilon: through(SmallDesk(price=str(float(epsilon) / 2))) for epsilon in ("0.1", "20")}
    found = compare(Differencing(VICTIMS), hide_small(exact, smallest=10), asks)
    assert found.unprotected.share == 1
    assert 150 < found.protected[0][1].hits < 250
    assert found.protected[1][1].share > 0.98
    assert found.chance == 0.5


def test_hiding_small_answers_hides_them() -> None:
    ask = hide_small(lambda count: float(count), smallest=10)
    assert (ask(9), ask(10)) == (0.0, 10.0)


def test_averaging_defeats_fresh_noise_and_not_free_repeats(seeded: SeededBits) -> None:
    """Mean differences of 600 draws of Laplace noise at epsilon 1 have a deviation of √(2·1.84/600) = 0.08; 40 victims
    are then all right but for a chance of 2e-8. A desk that stores answers draws once, at epsilon 0.5 each:
    a guess is right with probability 0.64 at most, and 35 of 40 have probability below 0.001."""
    attack = Averaging(VICTIMS[:40], 600)
    assert attack.run(noise_anew(exact, epsilon="1")).share == 1
    desk = SmallDesk(price="0.5")
    assert attack.run(through(desk)).hits < 35
    assert desk.spent == 40 * attack.queries * desk.price


def test_paid_averaging_is_worse_than_asking_once(seeded: SeededBits) -> None:
    """Epsilon 4 spent on one pair of queries: the difference has a deviation of 0.85, right in four of five cases. On
    64 pairs at 1/32 a query, the mean difference has one of √(2·2·32²/64) = 8: right with probability 0.525. 300 and
    260 of 400 are five deviations from either."""
    once = Differencing(VICTIMS).run(through(SmallDesk(price="2")))
    often = Averaging(VICTIMS, 64).in_other_words()
    assert often.queries == 128
    desk = SmallDesk(price="1/32")
    paid = often.run(through(desk))
    assert desk.spent == PEOPLE * 4
    assert once.hits > 300
    assert paid.hits < 260


def test_repeats_must_be_some() -> None:
    with pytest.raises(InputError, match="repeats"):
        Averaging(VICTIMS, 0)


@pytest.mark.parametrize(("values", "reach"), [(2, 1), (6, 2)])
def test_the_limit_of_all_attacks(values: int, reach: int) -> None:
    """A guess of randomized response with its likelihood ratio at the bound reaches it exactly."""
    epsilon = 0.7
    ratio = math.exp(reach * epsilon)
    stays = ratio / (ratio + values - 1)
    assert most_that_any_can(epsilon, values=values, reach=reach) == pytest.approx(stays)
    assert most_that_any_can(0, values=values) == pytest.approx(1 / values)
