"""Reconstruction: all secrets from exact totals, the predicted share under noise, nothing within a budget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.desk import SmallDesk
from support.bits import SeededBits
from tacit.audit.attacks import (
    Reconstruction,
    compare,
    modular_subsets,
    random_subsets,
    reconstruct,
    reconstruct_under_noise,
)
from tacit.audit.attacks.counts import Subset
from tacit.audit.attacks.results import toss
from tacit.core.errors import InputError


def exact(secrets):  # type: ignore[no-untyped-def]
    return lambda subset: float((subset.mask & secrets).sum())


def test_two_thousand_people_from_exact_totals_and_not_through_a_budget(seeded: SeededBits) -> None:
    """Four thousand exact equations in two thousand unknowns have one solution. Through an account of epsilon 1 the
    first 100 are answered and no attack is right with probability above 0.731; a mean over 1,000 people that far above
    one half as 0.6 would already be six deviations."""
    secrets = toss(1, 2000)[0]
    subsets = tuple(modular_subsets(range(10_000, 12_000), 4000))
    desk, asked = SmallDesk(price="0.01", cap="1"), []

    def through(subset: Subset) -> float:
        asked.append(subset)
        return desk.ask(subset, lambda: int((subset.mask & secrets).sum()))

    found = compare(Reconstruction(secrets, subsets), exact(secrets), {"1": through})
    # The attack gives up at the first refusal.
    assert asked == list(subsets[:101])
    assert found.unprotected.share == 1
    assert found.protected[0][1].share < 0.6
    assert desk.spent == 1


def test_the_condition_chooses_the_same_people_as_the_mask(seeded: SeededBits) -> None:
    import duckdb

    numbers = [17, 3, 999_999_937, 250_000_000_000, 44, 0]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t(x BIGINT, place INT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(x, i) for i, x in enumerate(numbers)])
    for subset in modular_subsets(numbers, 20):
        rows = connection.execute(f"SELECT {subset.sql('x')} FROM t ORDER BY place").fetchall()
        assert [row[0] for row in rows] == subset.mask.tolist()


def test_people_fall_into_modular_subsets_independently(seeded: SeededBits) -> None:
    """Over 4,000 subsets, correlations of 30 people have a deviation of 0.016: six of them for 435 pairs, 1e-6."""
    masks = np.array([subset.mask for subset in modular_subsets(range(30), 4000)])
    correlations = np.corrcoef(masks.T.astype(float)) - np.eye(30)
    assert np.abs(correlations).max() < 0.1


@pytest.mark.parametrize("numbers", [[1], [1, 1], [-1, 2]])
def test_numbers_must_tell_people_apart(numbers: list[int]) -> None:
    with pytest.raises(InputError, match="different whole numbers"):
        modular_subsets(numbers, 3)


def test_noise_and_queries_recover_what_the_normal_law_predicts(seeded: SeededBits) -> None:
    """n = 800: shares have a deviation of at most 0.018; five of them, beside 0.02 for the approximation."""
    secrets = toss(1, 800)[0]
    grid = reconstruct_under_noise(secrets, ratios=(2, 4), noises=(0, 0.5, 1))
    for ratio, noise, share in grid:
        most = round(noise * math.sqrt(800))
        sigma = math.sqrt(((2 * most + 1) ** 2 - 1) / 12)
        # A person's estimate is off by about 2σ/√(queries - people); it is wrong when that exceeds one half.
        error = 2 * sigma / math.sqrt(round(ratio * 800) - 800)
        expected = 0.5 * (1 + math.erf(0.5 / error / math.sqrt(2))) if error else 1.0
        assert share == pytest.approx(expected, abs=0.11), (ratio, noise)
    assert [share for _, noise, share in grid if noise == 0] == [1.0, 1.0]


def test_exact_totals_give_back_every_secret(seeded: SeededBits) -> None:
    secrets = toss(1, 60)[0]
    masks = np.array([subset.mask for subset in random_subsets(60, 240)])
    assert np.abs(reconstruct(masks, masks @ secrets.astype(float)) - secrets).max() < 0.01


def test_words_that_cannot_be_used() -> None:
    masks = np.ones((3, 500), dtype=np.bool_)
    with pytest.raises(InputError, match="one row for each answer"):
        reconstruct(masks, np.ones(4))
    with pytest.raises(InputError, match="drawn by lot"):
        random_subsets(3, 1)[0].sql("x")


def test_a_closed_desk_leaves_a_coin(seeded: SeededBits) -> None:
    secrets = toss(1, 1000)[0]
    desk = SmallDesk(price="1", cap="0.5")
    rate = Reconstruction(secrets, tuple(random_subsets(1000, 5))).run(lambda s: desk.ask(s, lambda: 0))
    # Five deviations of a thousand fair coins are 79.
    assert abs(rate.hits / rate.tries - 0.5) < 0.08
