"""Sums of whole numbers in floats against sums of Python integers, at the edge of what float32 holds and beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tacit.learn.torch import exact_sums
from tacit.learn.torch.exact_sums import STEPS, ExactSums, GradientGrid, LayerTap, Outer

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
CONSTANT = 128


def tap_of(positions: int, groups: int, inputs: int, outputs: int) -> LayerTap:
    return LayerTap("weight", "bias", (1,), positions, groups, inputs, outputs, 0, lambda into, back: (into, back))


def sums_for(tap: LayerTap) -> ExactSums:
    numbers = tap.groups * tap.inputs * tap.outputs
    sums = ExactSums({"weight": numbers, "bias": tap.groups * tap.outputs}, CONSTANT)
    sums.begin(CPU)
    return sums


def vectors(tap: LayerTap, examples: int, largest: int, seed: int) -> torch.Tensor:
    """Odd numbers: a sum that rounds in its last digit is seen."""
    shape = (examples, tap.positions, tap.groups, 24)
    halves = np.random.default_rng(seed).integers(-largest // 2, largest // 2, shape)
    # A drift, so that sums grow.
    return torch.tensor(2 * halves + 1 + largest // 2 * 2, dtype=torch.float32)


def wanted(into: torch.Tensor, back: torch.Tensor) -> NDArray[Any]:
    a, b = (each.double().numpy().astype(np.int64).astype(object) for each in (into, back))
    weight = [
        sum(
            np.outer(b[example, place, group], a[example, place, group])
            for example in range(a.shape[0])
            for place in range(a.shape[1])
        )
        for group in range(a.shape[2])
    ]
    return np.concatenate([np.asarray(weight).ravel(), CONSTANT * b.sum((0, 1)).ravel()])


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of a few numbers are taken in float32 as well, so that sums of Python integers take no time."""
    monkeypatch.setattr(exact_sums, "_SMALL_WORK", 0)
    monkeypatch.setattr(exact_sums, "_MANY_VECTORS", 4)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("largest", [40, 500, 1 << 14])
def test_sums_are_those_of_integers(groups: int, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 at once, in parts, and in float64: by the size of the numbers."""
    doubled: list[int] = []
    slow = ExactSums._add_doubled

    def seen(self: ExactSums, tap: LayerTap, chosen: Outer) -> None:
        doubled.append(1)
        slow(self, tap, chosen)

    monkeypatch.setattr(ExactSums, "_add_doubled", seen)
    tap = tap_of(4, groups, 24, 24)
    sums, total = sums_for(tap), np.zeros(groups * 24 * 25, dtype=object)
    for turn in range(5):
        into, back = (vectors(tap, 30, largest, 10 * turn + side) for side in (0, 5))
        sums.add_outer(tap, Outer(into, back), single=True)
        total = total + wanted(into, back)
    assert sums.integers().tolist() == total.tolist()
    assert bool(doubled) is (largest == 1 << 14)
    assert bool(sums._wide_used) is (largest > 40), "beyond what float32 holds, sums move on to float64"


def test_without_the_bound_float32_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of these tests are such that a missing bound shows."""
    tap = tap_of(4, 1, 24, 24)
    into, back = vectors(tap, 30, 500, 0), vectors(tap, 30, 500, 5)
    assert torch.tensor(wanted(into, back).astype(np.int64)).abs().max() > 1 << 24
    monkeypatch.setattr(exact_sums, "_NARROW", 2.0**60)
    sums = sums_for(tap)
    sums.add_outer(tap, Outer(into, back), single=True)
    assert sums.integers().tolist() != wanted(into, back).tolist()


@pytest.mark.parametrize("last", [0, 1])
def test_the_bound_is_that_of_the_largest_sum(last: int) -> None:
    """All numbers of one sign: the largest coordinate is the bound itself; just below the limit it is still exact."""
    tap = tap_of(1, 1, 24, 24)
    limit = int(exact_sums._NARROW)
    into, back = (torch.full((3, 1, 1, 24), value) for value in (2047.0, 1.0))
    back[:, :, :, 3] = limit // (3 * 2047) + last
    sums = sums_for(tap)
    assert sums._bound(Outer(into, back), tap) == 3 * 2047 * float(back.max())
    sums.add_outer(tap, Outer(into, back), single=True)
    assert sums.integers().tolist() == wanted(into, back).tolist()
    assert bool(sums._wide_used) is bool(last), "float32 up to the limit, float64 from there on"


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_no_number_is_below_no_bound(odd: float) -> None:
    tap = tap_of(1, 1, 24, 24)
    for place in (0, 1):
        given = [torch.ones(3, 1, 1, 24), torch.ones(3, 1, 1, 24)]
        given[place][1, 0, 0, 5] = odd
        assert not sums_for(tap)._bound(Outer(*given), tap) <= exact_sums._NARROW


def test_where_products_are_shorter_all_is_float64() -> None:
    tap = tap_of(4, 1, 24, 24)
    into, back = vectors(tap, 9, 40, 1), vectors(tap, 9, 40, 2)
    sums = sums_for(tap)
    sums.add_outer(tap, Outer(into, back), single=False)
    assert sums._wide_used == {"weight", "bias"}
    assert sums.integers().tolist() == wanted(into, back).tolist()


def test_sums_that_spill_and_begin_again() -> None:
    """Sums that were moved to integers count once; those of the step before do not count."""
    tap = tap_of(4, 1, 24, 24)
    into, back = vectors(tap, 9, 40, 1), vectors(tap, 9, 40, 2)
    sums, once = sums_for(tap), wanted(into, back)
    for _ in range(2):
        sums.begin(CPU)
        sums.add_outer(tap, Outer(into, back), single=True)
        sums.spill()
        sums.add_outer(tap, Outer(into, back), single=True)
        sums.add("bias", torch.full((24,), 1 << 40))
        assert sums.integers().tolist() == (2 * once + np.array([0] * 576 + [1 << 40] * 24)).tolist()
    sums.begin(CPU)
    assert not sums.integers().any()


def test_the_grid_is_finer_for_larger_networks() -> None:
    assert GradientGrid.of(1 << 18) == GradientGrid(STEPS, 1 << 7)
    assert GradientGrid.of((1 << 18) + 1) == GradientGrid(1 << 24, 1 << 8)
    for numbers in (1, 1 << 30):
        grid = GradientGrid.of(numbers)
        assert grid.longest < grid.steps**2
