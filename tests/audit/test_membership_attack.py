"""Membership in studies and in training data: told apart without protection, guessed at small epsilon."""

from __future__ import annotations

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.audit.attacks import Marginal, Membership, ModelMembership, compare, indicators, ridge
from tacit.audit.attacks.people import guess_members
from tacit.audit.attacks.results import toss
from tacit.core.errors import InputError
from tacit.mechanisms.laplace import Laplace

N, D = 100, 1000


def study() -> tuple[Membership, np.ndarray]:
    members, outsiders = (toss(N, D).astype(float) for _ in range(2))
    return Membership(members, outsiders, np.full(D, 0.5)), members.sum(axis=0).astype(np.int64)


def test_exact_shares_give_members_away_and_noisy_ones_do_not(seeded: SeededBits) -> None:
    """1,000 fair attributes of 100 members: scores of members and others lie √(D/N) = 3.2 deviations apart, so that
    half way a person is on the right side with probability 0.94; 160 of 200 is nine deviations below. At epsilon 0.1
    for all D counts no attacker is right more often than 0.525; 140 of 200 is five deviations above."""
    attack, counts = study()
    noise = {epsilon: Laplace(epsilon=epsilon, l1_sensitivity=D) for epsilon in ("0.1", "100000")}

    def through(epsilon: str):  # type: ignore[no-untyped-def]
        return lambda: noise[epsilon].release(counts) / N

    found = compare(attack, lambda: counts / N, {epsilon: through(epsilon) for epsilon in noise})
    assert found.unprotected.hits >= 160
    assert 60 < found.protected[0][1].hits < 140
    assert found.protected[1][1].hits >= 160


def test_indicators_have_a_one_in_each_marginal() -> None:
    marginals = [Marginal((0,), (("a",), ("b",))), Marginal((0, 1), (("a", 1), ("a", 2), ("b", 1), ("b", 2)))]
    found = indicators([("a", 1), ("b", 2), ("c", 1)], marginals)
    assert found.tolist() == [[1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]]
    assert marginals[0].shares({("b",): 3.0}, 4).tolist() == [0, 0.75]


def test_equal_scores_are_a_coin(seeded: SeededBits) -> None:
    """Hypergeometric: half of 1,000, with a deviation of 16 for 2·hits of members."""
    rate = guess_members(np.zeros(1000), 500)
    assert 400 < rate.hits < 600
    assert guess_members(np.array([3.0, 2.0, 1.0, 0.0]), 2).share == 1
    assert guess_members(np.array([0.0, 1.0, 2.0, 3.0]), 2).share == 0


def test_an_overfitted_model_knows_its_rows(seeded: SeededBits) -> None:
    """Ridge regression fits 60 rows of 400 columns exactly, so that losses of rows it was trained on are 0 and others'
    are not: outsiders fall among them with probability below 0.01 each. A model that has seen other rows is a coin: 90
    of 120 are five deviations."""
    rows = [toss(60, 400).astype(float) for _ in range(3)]
    labels = [toss(1, 60)[0] for _ in range(3)]
    attack = ModelMembership(rows[0], labels[0], rows[1], labels[1])
    assert attack.run(ridge(rows[0], labels[0])).hits >= 115
    assert 30 < attack.run(ridge(rows[2], labels[2])).hits < 90


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match="outsiders"):
        Membership(np.ones((2, 3)), np.ones((3, 3)), np.ones(3))
    with pytest.raises(InputError, match="outsiders"):
        ModelMembership(np.ones((2, 3)), np.ones(2) > 0, np.ones((3, 3)), np.ones(3) > 0)
