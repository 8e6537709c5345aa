"""Graphical models of a table: fitted to noisy marginals, queried, conditioned and sampled.

Fitting, sampling and queries are post-processing of released numbers, with numpy alone. A fit is mirror descent on the
weighted squared distance, with momentum and a line search: at a thousand iterations it is closer to the optimum than
the library ``mbi`` (``tests/synth/test_synth_rivals.py``), which spends most of its time on compiling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.noise import entropy
from tacit.synth.count_noise import DISCRETE_GAUSSIAN, CountNoise
from tacit.synth.junction_tree import Columns, Floats, JunctionTree, project, spread
from tacit.synth.value_pools import Pools, pool, pooled_alone, unpool

#: Combinations of values that cannot be, by columns: true where a cell is impossible.
Impossible = Mapping[Columns, NDArray[np.bool_]]
#: So many numbers of [0, 1).
Shares = Callable[[int], Floats]
#: Iterations over which a fit has to improve, or it ends.
_PATIENCE: Final = 20
#: Rows of a sample that stands for marginals which no clique has.
_SAMPLED: Final = 100_000
#: Cells up to which a marginal that no clique has is computed exactly.
_EXACT: Final = 2_000_000
#: Cells of the largest table of a node that rows of several kinds have together while they are drawn.
_TOGETHER: Final = 4_000_000


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts of the combinations of values of some columns, with the standard deviation of each.

    Args:
        columns: in the order of the axes.
        counts: one for each combination of groups of values.
        stddev: of the noise on each.
        pools: for each axis the group of each value; None, or nothing at all, where each value is a group.
        noise: the kind of noise.
    """

    columns: Columns
    counts: Floats
    stddev: float
    pools: Pools = ()
    noise: CountNoise = DISCRETE_GAUSSIAN

    def wide(self, confidence: Number) -> float:
        """Half-width of an interval around each count."""
        # Counts are released on a grid on which the noise is this wide, but for absurd prices.
        return self.noise.factor(confidence, 2.0**16 if self.stddev > 1 / 8 else 1.0) * self.stddev

    @property
    def unpooled(self) -> Floats:
        """The count of every combination of values, NaN where it was counted together with others."""
        counts = unpool(self.counts, self.pools)
        return np.where(pooled_alone(self.pools, counts.shape), counts, np.nan)


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """A distribution over a table: cliques of columns in a tree, and the log-potential of each.

    Args:
        sizes: number of values of each column.
        potentials: log-potentials by clique.
        total: estimated number of rows.
        fixed: log-potentials that no fit changes: 0 where a combination may be, minus infinity where not.
    """

    sizes: Mapping[str, int]
    potentials: Mapping[Columns, Floats]
    total: float
    fixed: Mapping[Columns, Floats] = field(default_factory=dict)

    @cached_property
    def _junction(self) -> JunctionTree:
        return JunctionTree(self.sizes, [*self.potentials, *self.fixed])

    @cached_property
    def _tree(self) -> list[tuple[Columns, Columns, Floats]]:
        """Cliques from the root down: columns, those shared with the parent, and the table of probabilities."""
        tree = self._junction
        tables = tree.probabilities(self.potentials, self.fixed)
        return [(node, tree.shared[node], tables[node]) for node, _ in tree.order]

    def sample(self, rows: int, shares: Shares | None = None) -> dict[str, NDArray[np.int64]]:
        """Rows as places of values, drawn so that every clique's table is met as closely as integers allow.

        Args:
            rows: how many.
            shares: numbers of [0, 1) to draw with; fresh ones where there are none.
        """
        shares = shares or uniform
        drawn: dict[str, NDArray[np.int64]] = {}
        for names, shared, table in self._tree:
            rest = [name for name in names if name not in shared]
            if not rest:
                continue
            order = [names.index(name) for name in (*shared, *rest)]
            width = math.prod(self.sizes[name] for name in rest)
            flat = table.transpose(order).reshape(-1, width)
            groups = np.zeros(rows, dtype=np.int64)
            for name in shared:
                groups = groups * self.sizes[name] + drawn[name]
            cells = _draw(flat, groups, shares)
            for name in reversed(rest):
                drawn[name] = cells % self.sizes[name]
                cells = cells // self.sizes[name]
        return {name: drawn[name] for name in self.sizes}

    def sample_beside(
        self, known: Mapping[str, NDArray[np.int64]], shares: Shares | None = None
    ) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.bool_]]:
        """The other columns of rows of which some are known, each row drawn from the model given what is known of it.

        Args:
            known: places of values by column, one for each row.
            shares: numbers of [0, 1) to draw with; fresh ones where there are none.

        Returns:
            places by column, the known ones too; and which rows can be, because the model has some like that.
        """
        shares = shares or uniform
        listed = np.stack([np.asarray(places) for places in known.values()], axis=1)
        distinct, kind = np.unique(listed, axis=0, return_inverse=True)
        kind = kind.ravel()
        open_sets = [[n for n in names if n not in known] for names, _, _ in self._tree]
        widest = max((math.prod(self.sizes[n] for n in each) for each in open_sets), default=1)
        drawn = {name: np.zeros(len(kind), dtype=np.int64) for name in self.sizes}
        drawn |= {name: np.asarray(places) for name, places in known.items()}
        able = np.ones(len(kind), dtype=np.bool_)
        order = np.argsort(kind, kind="stable")
        step = max(1, _TOGETHER // widest)
        for first in range(0, len(distinct), step):
            part = distinct[first : first + step]
            start, end = np.searchsorted(kind[order], [first, first + len(part)])
            rows = order[start:end]
            seen = {name: part[:, at] for at, name in enumerate(known)}
            self._beside(seen, kind[rows] - first, rows, drawn, able, shares)
        return drawn, able

    def _beside(
        self,
        seen: Mapping[str, NDArray[np.int64]],
        kind: NDArray[np.int64],
        rows: NDArray[np.int64],
        drawn: dict[str, NDArray[np.int64]],
        able: NDArray[np.bool_],
        shares: Shares,
    ) -> None:
        """Draw some rows: sums from the leaves to the roots for each kind of row, then values from the roots down."""
        # Of each node: for each kind of row, the weights of its values that are not known, given those of its parent.
        weights: dict[Columns, Floats] = {}
        below: dict[Columns, list[tuple[Columns, Floats]]] = {names: [] for names, _, _ in self._tree}
        parents = dict(self._junction.order)
        for names, shared, table in reversed(self._tree):
            free = tuple(name for name in names if name not in seen)
            weight = self._sliced(table, names, seen)
            if shared:
                inside = project(table, names, shared)
                under = self._sliced(inside, shared, seen)
                left = tuple(name for name in shared if name not in seen)
                with np.errstate(divide="ignore", invalid="ignore"):
                    weight = np.where(weight > 0, weight / _fitted(under, left, free), 0.0)
            for columns, message in below[names]:
                weight = weight * _fitted(message, columns, free)
            # Weights of a node are known up to a factor.
            most = weight.reshape(len(weight), -1).max(axis=1).reshape(-1, *[1] * len(free))
            weights[names] = weight = np.divide(weight, most, out=np.zeros_like(weight), where=most > 0)
            left = tuple(name for name in shared if name not in seen)
            parent = parents[names]
            if parent is not None and shared:
                axes = tuple(1 + axis for axis, name in enumerate(free) if name not in left)
                message = weight.sum(axis=axes)
                kept = [name for name in free if name in left]
                message = message.transpose(0, *(1 + kept.index(name) for name in left))
                below[parent].append((left, message))
            else:
                able[rows] &= (most.ravel() > 0)[kind]
        for names, shared, _ in self._tree:
            free = tuple(name for name in names if name not in seen)
            rest = [name for name in free if name not in shared]
            if not rest:
                continue
            fixed = [name for name in free if name in shared]
            order = [0, *(1 + free.index(name) for name in (*fixed, *rest))]
            width = math.prod(self.sizes[name] for name in rest)
            flat = weights[names].transpose(order).reshape(-1, width)
            groups = kind.copy()
            for name in fixed:
                groups = groups * self.sizes[name] + drawn[name][rows]
            cells = _draw(flat, groups, shares)
            for name in reversed(rest):
                drawn[name][rows] = cells % self.sizes[name]
                cells = cells // self.sizes[name]

    @staticmethod
    def _sliced(table: Floats, names: Columns, seen: Mapping[str, NDArray[np.int64]]) -> Floats:
        """For each kind of row, the table of the columns that are not known."""
        at = [axis for axis, name in enumerate(names) if name in seen]
        turned = np.moveaxis(table, at, range(len(at)))
        if not at:
            count = len(next(iter(seen.values())))
            return np.broadcast_to(turned, (count, *turned.shape))
        return np.asarray(turned[tuple(seen[names[axis]] for axis in at)])

    def marginal(self, names: Sequence[str]) -> Floats:
        """Expected counts by some columns: exact, but from a large sample where the exact table would be huge."""
        wanted = tuple(names)
        grown = JunctionTree(self.sizes, [*self.potentials, *self.fixed, wanted])
        home = grown.home(wanted)
        if home is None or grown.cells > _EXACT:
            return self.marginals([wanted])[wanted]
        return self.total * project(grown.probabilities(self.potentials, self.fixed)[home], home, wanted)

    def given(self, chosen: Mapping[str, Sequence[int]]) -> GraphicalModel:
        """The model of the rows that have one of some places in each of some columns.

        Args:
            chosen: places of values by column.

        Raises:
            InputError: a column or a place is unknown, or no row of the model is like that.
        """
        fixed = dict(self.fixed)
        for name, places in chosen.items():
            if name not in self.sizes or not all(0 <= place < self.sizes[name] for place in places):
                raise InputError(name, "is no column of the model, or a value is none of its values")
            only = np.full(self.sizes[name], -np.inf)
            only[list(places)] = 0.0
            fixed[name,] = fixed.get((name,), np.zeros(self.sizes[name])) + only
        share = self.marginal(tuple(chosen))[np.ix_(*(sorted(set(places)) for places in chosen.values()))].sum()
        if not share > 0:
            raise InputError("given", "no row of the model is like that")
        return GraphicalModel(self.sizes, self.potentials, float(share), fixed)

    def marginals(self, sets: Sequence[Columns], shares: Shares | None = None) -> dict[Columns, Floats]:
        """Expected counts of several sets, with one sample for those that no clique has, drawn with ``shares``."""
        found: dict[Columns, Floats] = {}
        open_sets: list[Columns] = []
        for names in sets:
            clique = next((c for c in self._tree if set(names) <= set(c[0])), None)
            if clique is None:
                open_sets.append(names)
            else:
                found[names] = self.total * project(clique[2], clique[0], names)
        if open_sets:
            drawn = self.sample(_SAMPLED, shares)
            for names in open_sets:
                shape = tuple(self.sizes[name] for name in names)
                cells = np.ravel_multi_index(tuple(drawn[name] for name in names), shape)
                counted = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
                found[names] = counted.astype(np.float64) * (self.total / _SAMPLED)
        return found


def fit_model(
    sizes: Mapping[str, int],
    measured: Sequence[NoisyMarginal],
    *,
    iterations: int = 1_000,
    close: float = 1e-6,
    start: GraphicalModel | None = None,
    impossible: Impossible | None = None,
) -> GraphicalModel:
    """The model that fits noisy marginals best, weighted by their noise, with the largest entropy.

    Args:
        sizes: number of values of each column.
        measured: noisy marginals.
        iterations: the most steps, a public number.
        close: part of the distance by which some steps have to improve it, or the fit ends.
        start: a model of fewer marginals, to begin with.
        impossible: combinations of values that no row has.
    """
    fit = _Fit(sizes, measured, impossible or {})
    return GraphicalModel(dict(sizes), fit.run(fit.beginning(start), iterations, close), fit.total, fit.fixed)


@dataclass(frozen=True)
class _Point:
    """Log-potentials with the distance there, its slope, and the expected counts of each clique."""

    at: dict[Columns, Floats]
    loss: float
    slopes: dict[Columns, Floats]
    counts: dict[Columns, Floats]


class _Fit:
    """One fit: the distance of a model from noisy marginals, and steps down."""

    def __init__(self, sizes: Mapping[str, int], measured: Sequence[NoisyMarginal], impossible: Impossible) -> None:
        self.sizes = sizes
        self.total = estimated_total(measured)
        self.measured = _merged(measured)
        self.fixed = {names: np.where(cells, -np.inf, 0.0) for names, cells in impossible.items()}
        names = [noisy.columns for noisy in self.measured]
        self.cliques = [e for e in dict.fromkeys(names) if not any(set(e) < set(other) for other in names)]
        self.tree = JunctionTree(sizes, [*self.cliques, *self.fixed])
        self.homes = [next(each for each in self.cliques if set(one) <= set(each)) for one in names]

    def beginning(self, start: GraphicalModel | None) -> dict[Columns, Floats]:
        """Log-potentials of an earlier model, or all alike."""
        found = {clique: np.zeros(tuple(self.sizes[name] for name in clique)) for clique in self.cliques}
        for clique, values in {} if start is None else start.potentials.items():
            home = next(each for each in self.cliques if set(clique) <= set(each))
            found[home] = found[home] + spread(values, clique, home, self.sizes)
        return found

    def evaluate(self, at: dict[Columns, Floats]) -> _Point:
        """The distance at a point."""
        tables = self.tree.probabilities(at, self.fixed)
        counts = {names: self.total * t for names, t in self.tree.marginals(tables, self.cliques).items()}
        slopes = {clique: np.zeros_like(values) for clique, values in counts.items()}
        loss = 0.0
        for noisy, home in zip(self.measured, self.homes, strict=True):
            apart = (pool(project(counts[home], home, noisy.columns), noisy.pools) - noisy.counts) / noisy.stddev
            loss += float(np.vdot(apart, apart)) / 2
            slope = unpool(apart / noisy.stddev, noisy.pools)
            slopes[home] += spread(slope, noisy.columns, home, self.sizes)
        return _Point(at, loss, slopes, counts)

    def run(self, at: dict[Columns, Floats], iterations: int, close: float) -> dict[Columns, Floats]:
        """Mirror descent with momentum: begins anew where the distance grows, ends where it stays."""
        here = point = self.evaluate(at)
        step = 1.0 / (self.total * sum(1 / noisy.stddev**2 for noisy in self.measured))
        pace, earlier = 1.0, [here.loss]
        for _ in range(iterations):
            moved, step = self._down(point, step)
            if moved is None:
                break
            if moved.loss > here.loss:
                if point is here:
                    break
                pace, point = 1.0, here
                continue
            following = (1 + math.sqrt(1 + 4 * pace**2)) / 2
            push = (pace - 1) / following
            ahead = {c: values + push * (values - here.at[c]) for c, values in moved.at.items()} if push else None
            here, pace = moved, following
            point = here if ahead is None else self.evaluate(ahead)
            earlier.append(here.loss)
            if len(earlier) > _PATIENCE and earlier[-_PATIENCE] - here.loss <= close * max(here.loss, 1.0):
                break
        return here.at

    def _down(self, point: _Point, step: float) -> tuple[_Point | None, float]:
        """A point below, and the length of the next step."""
        for _ in range(60):
            moved = self.evaluate({c: values - step * point.slopes[c] for c, values in point.at.items()})
            expected = sum(float(np.vdot(point.slopes[c], point.counts[c] - moved.counts[c])) for c in self.cliques)
            if point.loss - moved.loss >= expected / 2:
                return moved, 1.2 * step
            step /= 2
        return None, step


def _merged(measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """One noisy marginal for each set of columns and pools: the mean of equal ones, weighted by their precision."""
    found: dict[tuple[Columns, Pools], NoisyMarginal] = {}
    for noisy in measured:
        known = found.get((noisy.columns, noisy.pools))
        if known is not None:
            mine, other = 1 / noisy.stddev**2, 1 / known.stddev**2
            counts = (mine * noisy.counts + other * known.counts) / (mine + other)
            noisy = NoisyMarginal(noisy.columns, counts, 1 / math.sqrt(mine + other), noisy.pools)
        found[noisy.columns, noisy.pools] = noisy
    return list(found.values())


def estimated_total(measured: Sequence[NoisyMarginal]) -> float:
    """The number of rows, from all marginals by their noise; at least 1."""
    weights = [1 / (noisy.stddev**2 * noisy.counts.size) for noisy in measured]
    found = sum(w * float(noisy.counts.sum()) for w, noisy in zip(weights, measured, strict=True))
    return max(1.0, found / math.fsum(weights))


def _fitted(table: Floats, names: Columns, among: Columns) -> Floats:
    """A table by kind and some columns, with an axis of length 1 for each column that it lacks."""
    order = [names.index(name) for name in among if name in names]
    turned = table.transpose(0, *(1 + place for place in order))
    lengths = iter(turned.shape[1:])
    return turned.reshape(len(turned), *(next(lengths) if name in names else 1 for name in among))


def uniform(count: int) -> Floats:
    """Uniform numbers of [0, 1), from the one source of randomness."""
    return (entropy.current().words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _draw(table: Floats, groups: NDArray[np.int64], shares: Shares) -> NDArray[np.int64]:
    """A cell for each row, from the row of ``table`` of its group: evenly spaced on the cumulative sums, then mixed."""
    cells = np.zeros(len(groups), dtype=np.int64)
    order = np.lexsort((shares(len(groups)), groups))
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    starts = [0, *ends.tolist(), len(groups)]
    shifts = shares(max(len(starts), 1))
    for place, (start, end) in enumerate(itertools.pairwise(starts)):
        if start == end:
            continue
        sums = table[groups[order[start]]].cumsum()
        if sums[-1] <= 0:
            sums = np.arange(1.0, len(sums) + 1)
        points = (np.arange(end - start) + shifts[place]) / (end - start) * sums[-1]
        found = np.searchsorted(sums, points, side="right")
        cells[order[start:end]] = np.minimum(found, len(sums) - 1)
    return cells
