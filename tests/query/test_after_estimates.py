"""Estimates and their enclosures, by hand and by brute force over the integers that an event leaves possible."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tacit.mechanisms.laplace import LaplaceNoise
from tacit.query.aggregates.counts_and_sums import Direct
from tacit.query.aggregates.means_and_variances import JointMean, MeanEstimate, Spread, half_widths
from tacit.query.aggregates.ranks import Common, CommonEvent, LeafGrid, NoisyTree, Rank, Ranks, Tree
from tacit.query.planning.noise import NoiseLaw
from tacit.query.postprocess.cells import Affine, CellConfidence, Draw, Exact, linear_events, type_range, value_at
from tacit.query.postprocess.result import Intervals
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, UNKNOWN, Kind, Range, SqlType, decimal

LAPLACE = NoiseLaw("laplace", Fraction(2))
GAUSSIAN = NoiseLaw("gaussian", Fraction(9))
NONE = NoiseLaw("none", Fraction(0))
F = Fraction


def level(*laws: NoiseLaw, beta: str = "0.05") -> CellConfidence:
    return CellConfidence(laws, Fraction(beta))


def ends(found: Range) -> tuple[Fraction, Fraction]:
    assert found.ends is not None
    return found.ends


class TestDirect:
    def cell(self, noisy: int, possible: Range = UNKNOWN, kind: SqlType = INTEGER) -> Direct:
        return Direct(F(noisy), Draw(0, 0), F(1), possible, kind)

    def test_the_interval_is_the_exact_quantile_of_the_noise(self) -> None:
        width = LaplaceNoise(F(2)).quantile(F(1, 20))
        assert ends(self.cell(100).enclose(level(LAPLACE)).range) == (100 - width, 100 + width)

    def test_it_is_cut_to_what_is_possible_and_contains_the_value(self) -> None:
        nonnegative = Range(F(0), None)
        assert ends(self.cell(2, nonnegative).enclose(level(LAPLACE)).range)[0] == 0
        assert Intervals([LAPLACE], "0.95").of(self.cell(-3, nonnegative)) == (-3, 3)
        assert self.cell(-3, nonnegative).value == -3

    def test_steps_and_types(self) -> None:
        cell = Direct(F(12345), Draw(0, 0), F(1, 100), UNKNOWN, decimal(2))
        assert cell.value == F("123.45")
        assert Intervals([LAPLACE], "0.95").of(cell) == (F("123.39"), F("123.51"))
        # A count read off a joint release need not be whole; it is rounded, and its interval inwards: counts are whole.
        broken = Direct(F(1001, 4), Draw(0, 0), F(1), UNKNOWN, INTEGER)
        assert broken.value == 250
        assert Intervals([LAPLACE], "0.95").of(broken) == (245, 256)
        # Of a truth off the grid of its type, outwards.
        assert Intervals([LAPLACE], "0.95").of(Direct(F(1001, 4), Draw(0, 0), F(1, 3), UNKNOWN, INTEGER)) == (81, 86)


class TestSums:
    def test_a_sum_of_draws_is_tighter_than_a_box_and_wider_than_one(self) -> None:
        many = {Draw(0, group): F(1) for group in range(100)}
        width = level(LAPLACE).sum_half_width(many)
        deviation = 10 * math.sqrt(float(LAPLACE.variance_bound))
        assert 1.9 * deviation < width < 4 * deviation
        assert width < 100 * LAPLACE.error(F(1, 2000))

    def test_two_measurements_share_the_chance(self) -> None:
        here = level(LAPLACE, GAUSSIAN)
        both = here.sum_half_width({Draw(0, 0): F(1), Draw(1, 0): F(-2)})
        assert both == LAPLACE.error(F(1, 40)) + 2 * GAUSSIAN.error(F(1, 40))

    def test_draws_in_common_add_up_and_cancel(self) -> None:
        one = Affine({Draw(0, 0): F(1)}, F(10), F(1))
        assert one.plus(one).weights == {Draw(0, 0): F(2)}
        assert one.plus(one.scaled(F(-1))).weights == {}
        assert linear_events(one.plus(one)) == {Draw(0, 0)}
        assert level(LAPLACE).sum_half_width({}) == 0


class TestMoments:
    @pytest.mark.parametrize("noisy", [(10, 7), (3, -20), (1, 0), (-2, 5), (40, 40)])
    def test_the_mean_covers_every_corner_of_the_box(self, noisy: tuple[int, int]) -> None:
        here = level(LAPLACE, GAUSSIAN)
        mean = MeanEstimate(F(noisy[0]), F(noisy[1]), Draw(0, 0), Draw(1, 0), F(1, 2), DOUBLE, 5, (0, 10))
        w, v = here.half_width(0), here.half_width(1)
        box = product(
            range(math.ceil(noisy[0] - w), math.floor(noisy[0] + w) + 1),
            range(int(noisy[1] - v), int(noisy[1] + v) + 1),
        )
        places = [min(max(5 + F(s, n), F(0)), F(10)) / 2 for n, s in box if n >= 1]
        low, high = ends(mean.enclose(here).range)
        if places:
            assert (low, high) == (min(places), max(places))
        assert 0 <= low <= high <= 5

    @pytest.mark.parametrize(("sample", "root"), [(False, False), (True, False), (True, True), (False, True)])
    @pytest.mark.parametrize("noisy", [(9, 4, 60), (12, -30, 100), (4, 0, -10), (30, 25, 700)])
    def test_the_spread_covers_the_whole_box(self, noisy: tuple[int, int, int], sample: bool, root: bool) -> None:
        here = level(NoiseLaw("laplace", F(1)), NoiseLaw("laplace", F(1)), NoiseLaw("laplace", F(2)))
        spread = Spread(
            *map(F, noisy[:2]), Draw(0, 0), Draw(1, 0), F(1), DOUBLE, F(noisy[2]), Draw(2, 0), F(25), sample, root
        )
        widths = [int(here.half_width(i)) for i in range(3)]
        low, high = (float(end) for end in ends(spread.enclose(here).range))
        seen = []
        for n, s, t in product(*(range(x - w, x + w + 1) for x, w in zip(noisy, widths, strict=True))):
            if n >= 1 + sample:
                variance = min(max(t / n - (s / n) ** 2, 0), 25) * (n / (n - 1) if sample else 1)
                seen.append(math.sqrt(variance) if root else variance)
        assert low - 1e-9 <= min(seen) <= max(seen) <= high + 1e-9
        if not sample:
            assert high <= max(seen) + 0.5

    def test_too_few_is_null_with_an_interval(self) -> None:
        mean = MeanEstimate(F(0), F(3), Draw(0, 0), Draw(1, 0), F(1), DOUBLE, 5, (0, 10))
        assert mean.value is None
        assert Intervals([LAPLACE, LAPLACE], "0.95").of(mean) == (1.0, 10.0)
        lone = Spread(F(1), F(0), Draw(0, 0), Draw(1, 0), F(1), DOUBLE, F(0), Draw(2, 0), F(25), True, False)
        assert lone.value is None


class TestJointMean:
    @pytest.mark.parametrize("scale", ["0.5", "3", "40"])
    @pytest.mark.parametrize("place", [0.0, 0.3, -0.8, 1.0])
    def test_half_widths_hold_for_discrete_noise(self, scale: str, place: float) -> None:
        """The exact tail of X(1-r) - Y(1+r), summed over the lattice, is at most what was asked for."""
        beta = F(1, 20)
        width = float(half_widths(F(scale), beta)[min(int(abs(place) * 32), 31)])
        size = int(40 * float(F(scale))) + 40
        q = math.exp(-1 / float(F(scale)))
        mass = (1 - q) / (1 + q) * q ** np.abs(np.arange(-size, size + 1, dtype=float))
        sums = np.subtract.outer(np.arange(-size, size + 1) * (1 - place), np.arange(-size, size + 1) * (1 + place))
        tail = float((np.outer(mass, mass) * (np.abs(sums) > width)).sum())
        assert tail <= 0.05
        if float(F(scale)) > 10:
            assert tail > 0.04

    def test_without_noise_it_is_the_mean(self) -> None:
        mean = JointMean(F(20), F(30), Draw(0, 0), Draw(1, 0), F(1, 10), DOUBLE, 50, (0, 100), half=50, scale=F(0))
        assert mean.value == 5.15
        low, high = ends(mean.enclose(level(NONE, NONE)).range)
        assert low <= F(515, 100) <= high <= low + F(1, 10**9)

    def test_nothing_left_is_the_whole_range(self) -> None:
        mean = JointMean(F(-2), F(30), Draw(0, 0), Draw(1, 0), F(1), DOUBLE, 50, (0, 100), half=50, scale=F(100))
        assert ends(mean.enclose(level(LAPLACE, LAPLACE)).range) == (0, 100)

    def test_impossible_totals_stay_inside_the_bounds(self) -> None:
        mean = JointMean(F(10), F(9000), Draw(0, 0), Draw(1, 0), F(1), DOUBLE, 50, (0, 100), half=50, scale=F(1))
        assert ends(mean.enclose(level(LAPLACE, LAPLACE)).range) == (100, 100)


class TestRanksAndCategories:
    def ranks(self, leaves: list[int], fraction: Fraction, kind: str = "quantile", law: NoiseLaw = NONE) -> Ranks:
        tree = Tree(len(leaves), 4)
        nodes = tree.fill(np.array([leaves], dtype=np.int64))
        return Ranks(NoisyTree(tree, nodes, law), LeafGrid(0, 2 * len(leaves) - 1, 2, F(1, 2)), kind, fraction)

    def test_quantiles_lie_between_order_statistics(self) -> None:
        ranks = self.ranks([2, 0, 0, 1, 1], F(1, 2))
        # The second and third of four values lie in leaves 0 and 3, whose middles are 0.25 and 3.25.
        assert ranks.place(0) == F("1.75")
        assert Rank(ranks, 0, 0, DOUBLE).value == 1.75
        assert self.ranks([0, 3, 0, 0, 1], F(0), "min").place(0) == F("1.25")
        assert self.ranks([0, 3, 0, 0, 1], F(1), "max").place(0) == F("4.25")

    def test_an_empty_group_is_null_with_an_interval(self) -> None:
        rank = Rank(self.ranks([0, 0, 0, 0, 0], F(1, 2), law=LAPLACE), 0, 0, DOUBLE)
        assert rank.value is None
        low, high = Intervals([LAPLACE], "0.95").of(rank)
        assert (low, high) == (0.0, 4.5)

    def test_the_interval_holds_whole_leaves(self) -> None:
        rank = Rank(self.ranks([50, 50, 50, 50, 50], F(1, 2), law=LAPLACE), 0, 0, DOUBLE)
        low, high = Intervals([LAPLACE], "0.95").of(rank)
        assert low <= 2.0 <= rank.value <= 2.5 <= high  # type: ignore[operator]

    def test_the_most_common(self) -> None:
        def common(*noisy: int) -> Common:
            return Common(np.array(noisy), (10, 20, 30), CommonEvent(0, 0), INTEGER)

        assert common(5, 90, 40).value == 20
        assert common(7, 7, 3).value == 10
        assert common(0, -4, -1).value is None
        assert common(5, 90, 40).enclose(level(LAPLACE)).values == (20,)
        assert common(35, 3, 40).enclose(level(LAPLACE)).values == (10, 30)


class TestPlaces:
    @pytest.mark.parametrize("kind", [INTEGER, DOUBLE, DATE, TIMESTAMP, decimal(3)])
    def test_ends_are_rounded_outwards_and_stay_in_the_type(self, kind: SqlType) -> None:
        assert value_at(None, kind, "down") is not None
        assert value_at(F(10) ** 400, kind, "up") == value_at(None, kind, "up")
        low, high = (value_at(F(22, 7), kind, way) for way in ("down", "up"))  # type: ignore[arg-type]
        assert low < high  # type: ignore[operator]

    def test_text_has_no_places(self) -> None:
        assert value_at(F(1), TEXT) is None
        assert type_range(SqlType(Kind.BOOLEAN)).ends == (0, 1)

    def test_exact_cells_are_their_own_interval(self) -> None:
        assert Intervals([], "0.9").of(Exact(7, INTEGER)) == (7, 7)
        assert Intervals([], "0.9").of(Exact("x", TEXT)) == (None, None)
