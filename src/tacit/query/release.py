"""Release: exact integers become noisy ones.

:func:`add_noise` takes the exact measurements of an engine, chooses private keys, adds the noise of the plan's
mechanisms, and returns :class:`NoisyNumbers`. It checks shapes and clamps nothing: the engine has bounded every unit
already. Integers that do not fit the plan are an :class:`~tacit.core.errors.InternalError`, opaque to analysts.

The order of the released groups is public: the product of the public keys, or the order of their types for private
keys.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.mechanisms.additive import add_noise as with_samples
from tacit.mechanisms.base import LARGEST_VALUE
from tacit.mechanisms.residual_basis import LevelBasis
from tacit.noise.laplace import LARGEST_SCALE
from tacit.query.aggregates.ranks import NoisyTree, RankChoice, count_cells, cuts_around
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan, with_parts
from tacit.query.planning.releases import Block, KeySelection, Priced, Release
from tacit.query.query import FinalAggregation
from tacit.query.types import Value, sort_key

#: One group's key; empty for the one group of a query without GROUP BY.
KeyTuple = tuple[Value | None, ...]


class Measured(Protocol):
    """Exact integers from an engine, which never leave the curator."""

    @property
    def keys(self) -> Sequence[KeyTuple]:
        """All public keys in product order; or, for private keys, those present in the data, in any order."""

    @property
    def raw_units(self) -> Any:
        """Number of units that count in each group after bounding; read only where keys are private."""

    @property
    def raw(self) -> Sequence[Any]:
        """One array (or nested tuples) of integers per measure: groups × width, or one per group where the width is 1.

        For PLACES, each group has an array, or a tuple, of pairs: a place that occurs, and its count.
        """


@dataclass(frozen=True)
class NoisyLevels:
    """Noisy integers of one measurement, taken on sums of groups at several levels.

    Args:
        basis: the basis by which groups are estimated from the levels.
        noisy: one array per level, with an axis for each of its keys, and one for categories where there are some.
    """

    basis: LevelBasis
    noisy: tuple[NDArray[Any], ...]

    @cached_property
    def estimates(self) -> NDArray[Any]:
        """Integer estimates times the denominator of the basis: one per group, or a row of them per group."""
        made = self.basis.estimates(self.noisy)
        return made.reshape(-1, *made.shape[len(self.basis.sizes) :])


@dataclass(frozen=True)
class NoisyNumbers:
    """Group keys and noisy numbers, already charged. Everything after this is post-processing.

    Args:
        keys: one key tuple per group, in public order.
        noisy: one per measure: an integer per group; for categories, groups × width; for leaves a
            :class:`~tacit.query.aggregates.ranks.NoisyTree`. ``integer * law.unit`` estimates a measurement, in its
            steps, without bias. Where noise was added to sums of groups instead of groups, :class:`NoisyLevels`.
        laws: one per measure: the law of the noise in each of its integers (in each node of a tree).
    """

    keys: tuple[KeyTuple, ...]
    noisy: tuple[NDArray[Any] | NoisyTree | NoisyLevels, ...]
    laws: tuple[NoiseLaw, ...]


@dataclass(frozen=True)
class NoisyRelease(NoisyNumbers):
    """The noisy numbers of a query.

    Args:
        plan: the plan that they were released by.
        noisy_bias: noisy numbers of units in the cells of the bias table; None where no part of the cost bought it.
        others: releases of further parts of the query, in the order of :attr:`Plan.others`; ``plan`` is that of
            the whole query.
    """

    plan: Plan
    noisy_bias: tuple[int, ...] | None = None
    others: tuple[NoisyRelease, ...] = ()

    @property
    def parts(self) -> tuple[NoisyRelease, ...]:
        """One release for each aggregation of the query; the release itself where there is one."""
        return (replace(self, plan=self.plan.parts[0], others=()), *self.others) if self.others else (self,)


def release(plan: Plan, measurements: Measured) -> NoisyRelease:
    """Return the release of a query from its measurements."""
    made = add_noise(plan.final, plan.priced, measurements)
    return NoisyRelease(made.keys, made.noisy, made.laws, plan)


def add_noise(final: FinalAggregation, priced: Priced, measurements: Measured) -> NoisyNumbers:
    """Select private group keys, if any, and add noise to every measurement of the groups that remain."""
    order = _order(final, measurements.keys)
    keys = [tuple(measurements.keys[i]) for i in order]
    if len(measurements.raw) != len(final.measures):
        raise InternalError("the engine measured something else than the plan says")
    raw = [
        (_places if measure.kind is MeasureKind.PLACES else _array)(found, measure, order)
        for found, measure in zip(measurements.raw, final.measures, strict=True)
    ]
    if priced.keys is not None:
        kept = draw(priced.keys, keys, _units(measurements, order))
        keys = [key for key, keep in zip(keys, kept, strict=True) if keep]
        raw = [array[kept] for array in raw]
    noisy: dict[int, NDArray[Any] | NoisyTree | NoisyLevels] = {}
    for each in priced.releases:
        if each.levels:
            noisy |= _drawn_levels(each, final, raw)
            continue
        drawn = None if each.choice is None else draw(each.choice, keys, raw[each.choice.measure])
        noisy |= _read_off(each, draw(each, keys, inputs(each.block, raw, drawn)), drawn)
    return NoisyNumbers(tuple(keys), tuple([noisy[i] for i in range(len(raw))]), priced.laws)


def _drawn_levels(each: Release, final: FinalAggregation, raw: Sequence[NDArray[Any]]) -> dict[int, NoisyLevels]:
    """Add noise to sums of groups, and return the noisy levels of each measurement."""
    # Python's own integers: no number of groups makes their sums too large.
    table = each.scale * inputs(each.block, raw).astype(object).reshape(*each.sizes, -1)
    found: dict[int, list[NDArray[Any]]] = {index: [] for index in each.block.measures}
    for number, level in enumerate(each.levels):
        sums = each.basis.measured(table, number)
        keys = list(product(*(final.keys[axis].values or () for axis in level.axes)))
        drawn = draw(level.release, keys, sums.reshape(len(keys), -1))
        for index, part in _read_off(level.release, drawn, None).items():
            if isinstance(part, NoisyTree):
                raise InternalError("a tree has no levels")
            found[index].append(part.reshape((*sums.shape[:-1], *part.shape[1:])))
    return {index: NoisyLevels(each.basis, tuple(parts)) for index, parts in found.items()}


def with_bias(released: NoisyRelease, raw_counts: Sequence[int] | NDArray[Any]) -> NoisyRelease:
    """Return the release with noisy bias counts, from the exact number of units in each cell of the bias table."""
    part = released.plan.priced.bias
    if part is None or len(raw_counts) != part.table.cells:
        raise InternalError("the engine counted something else than the plan says")
    each, keys = part.priced.releases[0], part.table.keys
    noisy = draw(each, keys, inputs(each.block, [np.asarray(raw_counts, dtype=np.int64)]))
    return replace(released, noisy_bias=tuple(noisy[:, 0].tolist()))


def together(plan: Plan, parts: Sequence[NoisyRelease]) -> NoisyRelease:
    """Combine the releases of all parts into the release of the whole query."""
    whole = with_parts(plan, [part.plan for part in parts])
    return replace(parts[0], plan=whole, others=tuple(parts[1:])) if len(parts) > 1 else parts[0]


def inputs(block: Block, raw: Sequence[NDArray[Any]], drawn: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """Return the input of a block's mechanism: one row of integers per group.

    ``drawn`` are the quantiles around which places are counted, if there are any. This is the vector whose change
    between neighbouring databases the block's sensitivity bounds; tests replay it.
    """
    parts = [raw[index] for index in block.measures]
    if block.tree is not None:
        leaves = parts[0] if not block.fractions else _around(block, parts[0], drawn)
        return block.tree.fill(leaves)
    if len(block.forms) == 1:
        return parts[0] if block.spread else parts[0].reshape(-1, 1)
    together = np.stack([part.astype(object) for part in parts], axis=1)
    return np.asarray(together @ np.array(block.forms, dtype=object).T)


def _around(block: Block, raw: NDArray[Any], drawn: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Count places in the cells around the drawn quantiles; without a draw the counts are 0 and no data is read."""
    cells = np.zeros((len(raw), block.tree.width if block.tree else 1), dtype=np.int64)
    if drawn is not None:
        for group, counted in enumerate(raw):
            cells[group] = count_cells(counted, cuts_around(drawn[group].tolist(), block.width))
    return cells


def draw(step: Release | KeySelection | RankChoice, keys: Sequence[KeyTuple], raw: NDArray[Any]) -> NDArray[Any]:
    """Run one mechanism: the only place where exact integers go in and noisy numbers, already charged, come out.

    Record-and-replay (``tests/support/replay.py``) intercepts this function and no other.

    Args:
        step: the mechanism of the plan to run.
        keys: the group keys, one per row of ``raw``.
        raw: the integers of each group; for a selection the number of units of each group; for quantiles the places
            that occur in each group, and their counts.

    Returns:
        Noisy integers of the same shape; for a selection whether each group is kept; for quantiles the places drawn.
    """
    if isinstance(step, RankChoice):
        return step.choose(raw)
    if not isinstance(step, KeySelection):
        return _with_noise(step, raw)
    if not len(keys):
        return np.zeros(0, dtype=np.bool_)
    kept: NDArray[np.bool_] = step.mechanism().release(raw)
    return kept


def _read_off(
    each: Release, noisy: NDArray[Any], drawn: NDArray[np.int64] | None
) -> dict[int, NDArray[Any] | NoisyTree]:
    block = each.block
    if block.tree is not None:
        index = block.measures[0]
        return {index: NoisyTree(block.tree, noisy, each.law(index), drawn)}
    if len(block.forms) == 1:
        index = block.measures[0]
        return {index: noisy if each.block.spread else noisy[:, 0]}
    return {
        index: np.asarray(noisy @ np.array(readout.signs, dtype=object))
        for index, readout in zip(block.measures, block.readouts, strict=True)
    }


def _with_noise(each: Release, raw: NDArray[Any]) -> NDArray[Any]:
    """Add independent noise to each integer.

    Whether arithmetic is in 64 bits is decided by the kind of measurement and the public scale, never by the values.
    """
    if each.is_constant:
        # Its sensitivity is 0, and without units it is 0: the data is not read.
        return np.zeros(raw.shape, dtype=np.int64)
    if raw.size == 0:
        return raw
    fast = 2 * each.noise_law.width < LARGEST_SCALE
    sampler = each.noise.noise.sampler
    if fast and raw.dtype == np.int64:
        return with_samples(raw.ravel(), sampler).reshape(raw.shape)
    draws = sampler.sample_many(raw.size).tolist() if fast else [sampler.sample() for _ in range(raw.size)]
    result = np.empty(raw.size, dtype=object)
    result[:] = [int(value) + draw for value, draw in zip(raw.ravel(), draws, strict=True)]
    return result.reshape(raw.shape)


def _units(measurements: Measured, order: list[int]) -> NDArray[np.int64]:
    """Number of units of each group, in public order."""
    units = [operator.index(count) for count in measurements.raw_units]
    if len(units) != len(order):
        raise InternalError("the engine counted the units of other groups than it measured")
    return np.array([units[i] for i in order], dtype=np.int64)


def _order(final: FinalAggregation, keys: Sequence[KeyTuple]) -> list[int]:
    """Return the indices of the groups in public order; refuse keys other than the public ones, and repeated keys."""
    if final.public_keys:
        lists = [key.values or () for key in final.keys]
        expected = list(product(*lists))
        if [tuple(key) for key in keys] != expected:
            raise InternalError("the engine returned other groups than the public ones")
        return list(range(len(expected)))
    if len({tuple(key) for key in keys}) != len(keys) or any(len(key) != len(final.keys) for key in keys):
        raise InternalError("the engine returned a group twice")
    types = [key.expression.type for key in final.keys]
    return sorted(
        range(len(keys)),
        key=lambda i: tuple(sort_key(value, kind) for value, kind in zip(keys[i], types, strict=True)),
    )


def _places(raw: Any, measure: Measure, order: list[int]) -> NDArray[Any]:
    """Return one array of places and counts per group, in public order."""
    groups = len(order)
    if len(raw) != groups:
        raise InternalError("the engine returned a measurement of another shape than the plan says")
    sparse = np.empty(groups, dtype=object)
    for place, group in enumerate(order):
        counted = np.array(raw[group]) if len(raw[group]) else np.zeros((0, 2), dtype=np.int64)
        if counted.dtype != np.int64 or counted.ndim != 2 or counted.shape[1] != 2:
            raise InternalError("the engine returned something else than places and counts")
        found, counts = counted[:, 0], counted[:, 1]
        outside = len(found) and (found[0] < 0 or found[-1] >= measure.width or (np.diff(found) <= 0).any())
        if outside or (counts < 0).any() or (counts > LARGEST_VALUE).any():
            raise InternalError("the engine returned places that are not there, or not in order")
        sparse[place] = counted
    return sparse


def _array(raw: Any, measure: Measure, order: list[int]) -> NDArray[Any]:
    """Return a measurement in public order: int64 where it is a count, Python integers where it is a sum.

    Spread measurements have a column per leaf or category, the others none.
    """
    groups = len(order)
    # With an explicit type: numpy would turn integers of more than 64 bits into floats.
    array = raw if isinstance(raw, np.ndarray) else np.array(raw, dtype=object)
    if array.shape not in ((groups, measure.width), (groups,)) or (array.ndim == 1 and groups and measure.width != 1):
        raise InternalError("the engine returned a measurement of another shape than the plan says")
    if array.dtype.kind not in "iuO" or (array.dtype.kind == "O" and not all(type(v) is int for v in array.ravel())):
        raise InternalError("the engine returned something else than integers")
    array = array.reshape(groups, measure.width)
    # Counts fit 62 bits; sums may be wider.
    if measure.kind.traits.adds_values:
        return array[:, 0].astype(object)[order]
    if array.size and (int(array.min()) < -LARGEST_VALUE or int(array.max()) > LARGEST_VALUE):
        raise InternalError("the engine counted more than there can be")
    counts = array.astype(np.int64)[order]
    return counts if measure.kind.traits.spread else counts[:, 0]
