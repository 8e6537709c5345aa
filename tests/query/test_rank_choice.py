"""Quantiles that are drawn: the law of a draw, its cells, and what a release with them is."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from support.bits import SeededBits
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.noise import entropy
from tacit.noise.runs import select_run
from tacit.query.aggregates import ranks
from tacit.query.aggregates.ranks import (
    RankChoice,
    cells,
    choose_place,
    count_cells,
    cuts_around,
    error_of_choice,
    part_that_draws,
    sides,
)

HALF = Fraction(1, 2)


@pytest.fixture(autouse=True)
def bits(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SeededBits(20261118)
    monkeypatch.setattr(entropy, "current", lambda: source)


def pairs(*values: int) -> NDArray[np.int64]:
    return np.array(sorted(Counter(values).items()), dtype=np.int64).reshape(-1, 2)


def gaps(values: list[int], width: int, p: Fraction) -> list[Fraction]:
    """By the definition, place by place."""
    n, (low, high) = len(values), (Fraction(side, 10) for side in sides(p))
    below = [sum(v < y for v in values) for y in range(width)]
    upto = [sum(v <= y for v in values) for y in range(width)]
    return [max(high * (below[y] - p * n), low * (p * n - upto[y])) for y in range(width)]


@pytest.mark.parametrize("values", [[], [3], [0, 0, 9], [2, 3, 3, 3, 7, 8]])
@pytest.mark.parametrize("p", [HALF, Fraction(9, 10)])
def test_the_law_of_a_draw(values: list[int], p: Fraction) -> None:
    """χ² of 1,000 draws over ten places stays below its quantile of chance 10⁻⁶, about 50 for nine degrees."""
    rate, width, draws = Fraction(2, 3), 10, 1000
    weights = np.array([math.exp(-float(rate * gap)) for gap in gaps(values, width, p)])
    expected = draws * weights / weights.sum()
    found = Counter(choose_place(pairs(*values), width, p, rate) for _ in range(draws))
    seen = np.array([found[place] for place in range(width)])
    # Places that are hardly ever drawn are taken together.
    rare = expected < 5
    terms = [(s - e) ** 2 / e for s, e in zip(seen[~rare], expected[~rare], strict=True)]
    if rare.any():
        terms.append((seen[rare].sum() - expected[rare].sum()) ** 2 / max(expected[rare].sum(), 5.0))
    assert sum(terms) < 50
    if len(values) > 3:
        # With half the noise it would not pass.
        wrong = draws * weights**2 / (weights**2).sum()
        assert sum((seen - wrong) ** 2 / wrong) > 50


@pytest.mark.parametrize("p", ["1/10", "1/2", "9/10", "1000000000001/2000000000000"])
def test_the_exponents_of_all_places(p: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly those of the definition, on both sides of the quantile."""
    asked: list[tuple[NDArray[np.int64], NDArray[np.int64], Fraction]] = []
    monkeypatch.setattr(ranks, "select_run", lambda *words: asked.append(words) or (0, 0))
    values = [0, 2, 3, 3, 3, 7, 7, 8, 11]
    choose_place(pairs(*values), 12, Fraction(p), Fraction(2, 3))
    ((lengths, found, rate),) = asked
    exponents = [int(gap) * rate for length, gap in zip(lengths, found, strict=True) for _ in range(int(length))]
    assert exponents == [Fraction(2, 3) * gap for gap in gaps(values, 12, Fraction(p))]


def test_runs_far_behind_are_possible_and_rare() -> None:
    lengths, far = np.array([1, 10**6, 0]), np.array([0, 10**6, 5])
    assert {select_run(lengths, far, Fraction(1)) for _ in range(50)} == {(0, 0)}
    near = Counter(select_run(lengths, np.array([0, 14, 0]), Fraction(1))[0] for _ in range(500))
    share = 1e6 * math.exp(-14) / (1 + 1e6 * math.exp(-14))
    assert abs(near[1] / 500 - share) < 0.12


def test_gaps_of_fractions_with_long_denominators_are_exact() -> None:
    p = Fraction(10**12 + 1, 2 * 10**12)
    found = [choose_place(pairs(*range(100)), 100, p, Fraction(10**13)) for _ in range(20)]
    assert set(found) == {50}


@pytest.mark.parametrize("width", [1, 2, 5, 8, 9, 40, 1 << 20])
@pytest.mark.parametrize("drawn", [(0,), (1, 1), (0, 10**9, 3)])
def test_cells_cover_all_places_once(width: int, drawn: tuple[int, ...]) -> None:
    places = [min(place, width - 1) for place in drawn]
    cuts = cuts_around(places, width)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, width, cells(width, len(drawn)) + 1)
    assert all(a <= b for a, b in pairwise(cuts))
    values = pairs(*(place for place in (0, 1, 2, 7, 39, 1000) if place < width))
    assert count_cells(values, cuts).sum() == len(values)
    for place in places:
        assert place in cuts
        assert place + 1 in cuts


def test_the_error_holds() -> None:
    choice = RankChoice(0, (HALF,), Fraction(1), 1, 1, 1000, Fraction(1), ADD_REMOVE, "x")
    values = list(range(0, 1000, 3))
    bound = error_of_choice(choice, HALF, Fraction(1, 20))
    off = gaps(values, 1000, HALF)
    drawn = choice.choose(np.array([pairs(*values)] * 200 + [None], dtype=object)[:-1])
    assert max(off[place] for place in drawn[:, 0].tolist()) <= bound


def test_price_of_draws() -> None:
    one = RankChoice(0, (HALF, Fraction(9, 10)), Fraction(1, 4), 3, 2, 100, Fraction(1), ADD_REMOVE, "x")
    other = RankChoice(0, (HALF, Fraction(9, 10)), Fraction(1, 4), 3, 2, 100, Fraction(1), REPLACE_ONE, "x")
    assert (one.draws, one.event.count, one.event.event) == (4, 4, one.event.event)
    assert one.scale(HALF) == 2 * HALF * 3 / Fraction(1, 4)
    assert other.scale(HALF) == 2 * one.scale(HALF)


def test_the_shorter_side_of_a_quantile_weighs_more() -> None:
    """Where the proof allows it: 1/10 is at most |2p - 1|."""
    asked = ("1/10", "9/20", "15/32", "1/2", "17/32", "11/20", "9/10")
    leaning, even = (11, 9), (10, 10)
    assert [sides(Fraction(p)) for p in asked] == [leaning, leaning, even, even, even, (9, 11), (9, 11)]
    assert part_that_draws((HALF,)) == Fraction(8, 9)
    assert part_that_draws((HALF, Fraction(9, 10))) == Fraction(14, 15)


def test_values_that_tie_at_the_quantile_make_it_likelier() -> None:
    tied, spread = gaps([5] * 6, 10, HALF), gaps([2, 3, 4, 6, 7, 8], 10, HALF)
    assert min(tied) == -3
    assert min(spread) == 0
    assert [place for place, gap in enumerate(tied) if gap <= 0] == [5]


@pytest.mark.parametrize("rows", [1, 2])
def test_one_unit_changes_a_draw_by_no_more_than_its_epsilon(rows: int) -> None:
    """The exact probabilities of all places on all neighbours of small groups."""
    epsilon, width = Fraction(1), 6
    for p in (HALF, Fraction(1, 5), Fraction(2, 3), Fraction(9, 20), Fraction(11, 20), Fraction(9, 10)):
        choice = RankChoice(0, (p,), epsilon, rows, 1, width, Fraction(1), ADD_REMOVE, "x")
        scale = float(choice.scale(p))

        def law(values: list[int], p: Fraction = p, scale: float = scale) -> NDArray[np.float64]:
            weights = np.exp([-float(gap) / scale for gap in gaps(values, width, p)])
            return weights / weights.sum()

        worst = 0.0
        for values in ([], [0], [1, 4], [2, 2, 5], [0, 1, 2, 3, 4, 5]):
            for place in range(width):
                ratio = np.log(law(values + [place] * rows) / law(values))
                worst = max(worst, np.abs(ratio).max(), ratio.max() - ratio.min())
        assert worst <= float(epsilon) + 1e-9
        # Half the noise would not do.
        assert worst > float(epsilon) / 2
