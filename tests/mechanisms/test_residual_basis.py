"""Tables estimated from noisy marginals: exact without noise, of the stated variance, near the optimum, and whole."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.residual_basis import LevelBasis, UnitMovement, best_levels, packed, rounded_table, subsets
from tacit.synth.workload import Workload
from tacit.synth.workload_plan import plan_workload

CUBE = ((), (0,), (1,), (0, 1))


def moved_by(groups: int) -> UnitMovement:
    return UnitMovement(groups, (Fraction(0), Fraction(1)))


def basis_of(sizes: tuple[int, ...], sets: tuple[tuple[int, ...], ...], groups: int = 1) -> LevelBasis:
    levels = best_levels(sizes, sets, moved_by(groups), norm=2, power=1)
    assert levels is not None
    axes = tuple(axes for axes, _ in levels)
    moved = [packed(groups, math.prod(size for axis, size in enumerate(sizes) if axis not in level)) for level in axes]
    return LevelBasis(sizes, axes, tuple(share / far for (_, share), far in zip(levels, moved, strict=True)))


def cell_variance(basis: LevelBasis, kept: tuple[int, ...]) -> float:
    noises = [1 / float(each) for each in basis.precisions]
    return sum(
        count * (weight / basis.denominator) ** 2 * noises[level] for level, weight, count in basis.set_noise(kept)
    )


@pytest.mark.parametrize("sizes", [(3, 5), (2, 1, 4), (6,)])
def test_exact_marginals_give_the_table_back(sizes: tuple[int, ...]) -> None:
    table = np.arange(math.prod(sizes), dtype=object).reshape(sizes) ** 2
    basis = basis_of(sizes, tuple(subsets(range(len(sizes)))))
    levels = [basis.measured(table, level) for level in range(len(basis.levels))]
    assert (basis.estimates(levels) == basis.denominator * table).all()


def test_totals_without_the_finest_cells() -> None:
    """Marginals alone are measured; sums of estimates along other axes are exact, and cells are not claimed to be."""
    basis = basis_of((6, 7), ((0,), (1,)))
    assert (0, 1) not in basis.levels
    table = (np.arange(42, dtype=object).reshape(6, 7) * 37) % 11
    made = basis.estimates([basis.measured(table, level) for level in range(len(basis.levels))])
    for axis in (0, 1):
        assert (made.sum(axis=axis) == basis.denominator * table.sum(axis=axis)).all()


def test_noise_of_a_cell_is_what_each_noisy_number_changes() -> None:
    """Every single number of every level, moved by one, moves the cells as the weights say."""
    basis = basis_of((3, 4), CUBE)
    zero = [np.zeros([basis.sizes[axis] for axis in axes], dtype=object) for axes in basis.levels]
    for kept in CUBE:
        seen: list[tuple[int, int]] = []
        for level, array in enumerate(zero):
            for place in np.ndindex(array.shape):
                moved = [each.copy() for each in zero]
                moved[level][place] = 1
                others = tuple(axis for axis in (0, 1) if axis not in kept)
                cells = np.asarray(basis.estimates(moved).sum(axis=others))
                seen.append((level, abs(int(cells.ravel()[0]))))
        counted = {(level, weight): count for level, weight, count in basis.set_noise(kept)}
        assert {key: seen.count(key) for key in seen if key[1]} == counted


@pytest.mark.parametrize(("sizes", "sets"), [
    ((7, 24), CUBE), ((12, 10, 8), tuple(subsets(range(3)))), ((50, 20), ((), (0,), (0, 1))), ((6, 7), ((0,), (1,))),
])  # fmt: skip
def test_near_the_optimum_of_residuals_and_far_below_the_finest_cells(
    sizes: tuple[int, ...], sets: tuple[tuple[int, ...], ...]
) -> None:
    """The residual basis with a noise for each residual is optimal among all Gaussian mechanisms for marginals."""
    names = [f"k{axis}" for axis in range(len(sizes))]
    workload = Workload.marginals([tuple(names[axis] for axis in kept) for kept in sets])
    best = plan_workload(workload, dict(zip(names, sizes, strict=True)), price=Fraction(1, 2)).parts[0].total_variance
    basis = basis_of(sizes, sets)
    made = sum(math.prod(sizes[axis] for axis in kept) * cell_variance(basis, kept) for kept in sets)
    finest = math.prod(sizes) * len(sets)
    assert best * 0.99 < made < 1.03 * best
    assert made < 0.75 * finest


def test_a_person_moves_a_level_as_far_as_packing_says() -> None:
    """All persons in up to four of the cells of a small table, with values from -2 to 2."""
    sizes, worst = (2, 3), {}
    cells = list(itertools.product(range(2), range(3)))
    basis = LevelBasis(sizes, CUBE, (Fraction(1),) * 4)
    for groups in range(1, 5):
        for chosen in itertools.combinations(cells, groups):
            for signs in itertools.product((-2, 2), repeat=groups):
                table = np.zeros(sizes, dtype=object)
                for cell, value in zip(chosen, signs, strict=True):
                    table[cell] = value
                for level in range(4):
                    squares = int((np.asarray(basis.measured(table, level)) ** 2).sum())
                    worst[groups, level] = max(worst.get((groups, level), 0), squares)
    assert worst == {
        (groups, level): 4 * packed(groups, basis.merged(level)) for groups in range(1, 5) for level in range(4)
    }


@pytest.mark.parametrize("bounds", [(0, 2), (-2, 0), (-1, 2), (-2, 2)])
def test_two_persons_who_replace_one_another_move_a_level_no_farther_than_declared(bounds: tuple[int, int]) -> None:
    """All pairs of persons in up to two of the cells of a small table; the bounds are reached by values of one sign."""
    sizes, values = (2, 3), [v for v in range(bounds[0], bounds[1] + 1) if v]
    basis = LevelBasis(sizes, CUBE, (Fraction(1),) * 4)
    for groups in (1, 2):
        tables = [_placed(sizes, chosen, put) for put in itertools.product(values, repeat=groups)
                  for chosen in itertools.combinations(np.ndindex(sizes), groups)]  # fmt: skip
        tables.append(np.zeros(sizes, dtype=np.int64))
        moved = UnitMovement(groups, (Fraction(bounds[0]), Fraction(bounds[1])), REPLACE_ONE)
        for level in range(4):
            sums = np.unique([np.ravel(basis.measured(table, level)) for table in tables], axis=0)
            gaps = np.abs(sums[:, None, :] - sums[None, :, :]).reshape(-1, sums.shape[1])
            declared = moved.at(basis.merged(level), sums.shape[1])
            found = (gaps.sum(axis=1).max(), (gaps**2).sum(axis=1).max(), gaps.max())
            assert found[0] <= declared.l1
            assert found[1] <= declared.l2_squared
            assert found[2] <= declared.linf
            if 0 in bounds:
                assert found == (declared.l1, declared.l2_squared, declared.linf), (groups, level)


def test_persons_who_replace_one_another_in_counts_of_categories() -> None:
    """Two values in each of up to two cells, of three categories: one cell of a level has room for both persons."""
    own = [tuple(counts) for counts in itertools.product(range(3), repeat=3) if sum(counts) == 2]
    for groups, merged, cells in ((1, 2, 1), (2, 2, 1), (2, 2, 2)):
        places = itertools.combinations(range(merged * cells), groups)
        levels = set()
        for chosen, put in itertools.product(places, itertools.product(own, repeat=groups)):
            table = np.zeros((merged * cells, 3), dtype=np.int64)
            table[list(chosen)] = put
            levels.add(tuple(table.reshape(cells, merged, 3).sum(axis=1).ravel().tolist()))
        sums = np.array(sorted(levels))
        gaps = np.abs(sums[:, None, :] - sums[None, :, :]).reshape(-1, sums.shape[1])
        moved = UnitMovement(groups, (Fraction(0), Fraction(2)), REPLACE_ONE, spread=True).at(merged, cells)
        assert (gaps.sum(axis=1).max(), (gaps**2).sum(axis=1).max(), gaps.max()) == (
            moved.l1, moved.l2_squared, moved.linf
        )  # fmt: skip


def _placed(sizes: tuple[int, ...], cells: tuple[tuple[int, ...], ...], values: tuple[int, ...]) -> Any:
    table = np.zeros(sizes, dtype=np.int64)
    for cell, value in zip(cells, values, strict=True):
        table[cell] = value
    return table


def test_many_axes_and_further_ones() -> None:
    """ROLLUP of nine keys has ten levels; tables of counts of categories are estimated category by category."""
    sizes = (2, 3, 2, 1, 2, 2, 2, 2, 2)
    rollup = tuple(tuple(range(count)) for count in range(10))
    basis = basis_of(sizes, rollup)
    assert 5 <= len(basis.levels) <= 9
    table = (np.arange(math.prod(sizes) * 2, dtype=object).reshape(*sizes, 2) * 37) % 11
    levels = [basis.measured(table, level) for level in range(len(basis.levels))]
    assert (basis.estimates(levels) == basis.denominator * table).all()
    assert best_levels((2,) * 7, tuple(subsets(range(7))), moved_by(1), norm=2, power=1) is not None
    assert best_levels((2,) * 8, tuple(subsets(range(8))), moved_by(1), norm=2, power=1) is None


def test_finest_cells_stay_where_they_are_better() -> None:
    assert best_levels((10,), ((), (0,)), moved_by(10), norm=2, power=1) is None
    assert best_levels((3, 5), CUBE, moved_by(1), norm=1, power=2) is None
    assert best_levels((1, 1), CUBE, moved_by(1), norm=2, power=1) is None
    assert best_levels((3, 0), CUBE, moved_by(1), norm=2, power=1) is None


def test_rounding_keeps_sums_near() -> None:
    table = (np.arange(200 * 30, dtype=object).reshape(200, 30) * 7919) % 1000
    whole = rounded_table(table, 1000)
    assert abs(int(whole.sum()) - Fraction(int(table.sum()), 1000)) <= Fraction(1, 2)
    for axis in (0, 1):
        assert max(abs(whole.sum(axis=axis) - table.sum(axis=axis) / Fraction(1000))) <= 1
    assert np.abs(whole - table / Fraction(1000)).max() <= 2
    assert (rounded_table(table * 1000, 1000) == table).all()
