"""Trees of counts: shape, exact ranks without noise, honest intervals with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.laplace import DiscreteLaplace
from tacit.query.aggregates.ranks import NoisyTree, Tree, best_tree
from tacit.query.planning.noise import NoiseLaw

EXACT = NoiseLaw("none", Fraction(0))


@pytest.mark.parametrize(("width", "arity"), [(1, 2), (2, 2), (7, 2), (100, 10), (101, 10), (64, 64), (50, 3)])
def test_prefixes_and_suffixes_are_sums_of_the_nodes_counted(width: int, arity: int) -> None:
    tree = Tree(width, arity)
    leaves = np.arange(3 * width).reshape(3, width) ** 2 % 17
    nodes = tree.fill(leaves)
    assert nodes.shape == (3, tree.nodes)
    before, after = tree.sums(nodes)
    assert (before[:, 1:] == leaves.cumsum(axis=1)).all()
    assert (before + after == leaves.sum(axis=1)[:, None]).all()
    # With every node 1 a sum counts its nodes.
    counted = tree.sums(np.ones((1, tree.nodes), dtype=np.int64))
    assert [tree.terms(j) for j in range(width + 1)] == list(zip(*(part[0].tolist() for part in counted), strict=True))


def test_few_leaves_stay_alone_and_many_are_joined() -> None:
    assert best_tree(20, gaussian=False).levels == (20,)
    assert len(best_tree(1024, gaussian=False).levels) == 2
    assert len(best_tree(1024, gaussian=True).levels) > 2
    assert best_tree(1, gaussian=True).levels == (1,)


def leaf_of(values: list[int], fraction: Fraction) -> tuple[int, int]:
    """The leaves between which a continuous quantile lies."""
    ordered = sorted(values)
    place = (len(values) - 1) * fraction
    return ordered[int(place)], ordered[min(int(place) + 1, len(values) - 1)]


@pytest.mark.parametrize("fraction", ["0", "0.25", "0.5", "0.9", "1"])
def test_without_noise_intervals_hold_the_quantile_and_little_else(fraction: str) -> None:
    values = [3, 3, 4, 9, 9, 9, 12, 30, 31, 47]
    leaves = np.bincount(values, minlength=60)[None, :]
    tree = best_tree(60, gaussian=False)
    found = NoisyTree(tree, tree.fill(leaves), EXACT).quantile(fraction, beta="0.05")
    low, high = leaf_of(values, Fraction(fraction))
    assert found.low[0] <= low <= high <= found.high[0]
    assert found.low[0] <= found.estimate[0] <= found.high[0]
    # Not more than the neighbouring value on either side.
    ordered = sorted(set(values))
    assert found.high[0] <= ordered[min(ordered.index(high) + 2, len(ordered) - 1)] or high == ordered[-1]


def test_without_noise_minimum_and_maximum_are_exact() -> None:
    leaves = np.bincount([7, 7, 20, 33], minlength=60)[None, :]
    tree = best_tree(60, gaussian=False)
    noisy = NoisyTree(tree, tree.fill(leaves), EXACT)
    assert [int(part[0]) for part in noisy.minimum(beta="0.05")] == [7, 7, 7]
    assert [int(part[0]) for part in noisy.maximum(beta="0.05")] == [33, 33, 33]
    assert noisy.total.tolist() == [4]


def noisy_trees(kind: str, gaussian: bool, runs: int) -> tuple[NoisyTree, list[int]]:
    rng = np.random.Generator(np.random.PCG64(8))
    values = np.minimum(rng.geometric(0.02, size=4000), 199).tolist()
    tree = best_tree(200, gaussian=gaussian)
    nodes = tree.fill(np.bincount(values, minlength=200)[None, :])
    sampler: Any = DiscreteGaussian(Fraction(400)) if gaussian else DiscreteLaplace(Fraction(20))
    noise = sampler.sample_many(runs * tree.nodes).reshape(runs, tree.nodes)
    return NoisyTree(tree, nodes + noise, NoiseLaw(kind, Fraction(400 if gaussian else 20))), values


@pytest.mark.parametrize(("kind", "gaussian"), [("laplace", False), ("gaussian", True)])
@pytest.mark.parametrize("fraction", ["0.1", "0.5", "0.95"])
def test_intervals_cover(kind: str, gaussian: bool, fraction: str, seeded: SeededBits) -> None:
    """400 runs at 90 percent: a true coverage of 90 percent would give fewer than 330 with probability below 1e-6."""
    noisy, values = noisy_trees(kind, gaussian, 400)
    low, high = leaf_of(values, Fraction(fraction))
    found = noisy.quantile(fraction, beta="0.1")
    covered = ((found.low <= low) & (high <= found.high)).sum()
    assert covered >= 330
    # Informative: far narrower than the domain, and the estimate is near.
    assert np.median(found.high - found.low) < (60 if fraction != "0.95" else 120)
    assert np.median(abs(found.estimate - low)) <= np.median(found.high - found.low)


@pytest.mark.parametrize(("kind", "gaussian"), [("laplace", False), ("gaussian", True)])
def test_intervals_of_the_ends_cover(kind: str, gaussian: bool, seeded: SeededBits) -> None:
    """As above, for MIN and MAX."""
    noisy, values = noisy_trees(kind, gaussian, 400)
    for found, truth in ((noisy.minimum(beta="0.1"), min(values)), (noisy.maximum(beta="0.1"), max(values))):
        assert ((found.low <= truth) & (truth <= found.high)).sum() >= 330
        assert (found.estimate >= found.low).all()
        assert (found.estimate <= found.high).all()


def test_a_quantile_that_claims_less_noise_than_there_is_does_not_cover(seeded: SeededBits) -> None:
    """The test above can fail: with a tenth of the scale in the law, intervals miss."""
    noisy, values = noisy_trees("laplace", False, 400)
    broken = NoisyTree(noisy.tree, noisy.noisy_nodes, NoiseLaw("laplace", Fraction(1, 10)))
    low, high = leaf_of(values, Fraction(1, 2))
    found = broken.quantile("0.5", beta="0.1")
    assert ((found.low <= low) & (high <= found.high)).sum() < 330
