"""Graphical models of a table: fitted to noisy marginals, queried and sampled.

Fitting, sampling and queries are post-processing of released numbers, with numpy alone. A fit is mirror descent on the
weighted squared distance, with momentum and a line search: at a thousand iterations it is closer to the optimum than
the library ``mbi`` (``tests/synth/test_synth_rivals.py``), which spends most of its time on compiling.

*Junction trees.* Columns are eliminated one by one, the column with the smallest table first; the resulting maximal
cliques are the nodes, joined by a maximum spanning tree on the number of shared columns. The tree is a function of
public sizes and names.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.numbers import Number
from tacit.noise import entropy
from tacit.synth.count_measurement import DISCRETE_GAUSSIAN, CountNoise

Columns = tuple[str, ...]
Floats = NDArray[np.float64]
#: Lower bound on a sum of probabilities before its logarithm is taken.
_LEAST: Final = 1e-300


class JunctionTree:
    """Junction tree: every given clique is contained in one of its nodes. Belief propagation on it, in logarithms.

    Args:
        sizes: number of values of each column.
        cliques: sets of columns.
    """

    def __init__(self, sizes: Mapping[str, int], cliques: Sequence[Columns]) -> None:
        self.sizes = sizes
        place = {name: at for at, name in enumerate(sizes)}
        self.nodes: list[Columns] = [tuple(sorted(node, key=place.__getitem__)) for node in _nodes(sizes, cliques)]
        self.order = _from_the_roots(self.nodes, _joined(self.nodes))
        self.shared = {
            node: () if parent is None else tuple(name for name in node if name in parent)
            for node, parent in self.order
        }
        self._homes: dict[Columns, Columns] = {}
        self._steps: dict[Columns, _Steps] = {node: _Steps(node, sizes) for node in self.nodes}

    @property
    def cells(self) -> int:
        """Number of cells of the tables of all nodes."""
        return sum(math.prod(self.sizes[name] for name in node) for node in self.nodes)

    def home(self, names: Columns) -> Columns | None:
        """Return the smallest node that contains all of ``names``, or None."""
        if names not in self._homes:
            able = [node for node in self.nodes if set(names) <= set(node)]
            found = min(able, key=lambda node: math.prod(self.sizes[name] for name in node), default=None)
            if found is None:
                return None
            self._homes[names] = found
        return self._homes[names]

    def probabilities(self, potentials: Mapping[Columns, Floats]) -> dict[Columns, Floats]:
        """Return the probability table of each node, by messages to the root in logarithms, then marginals from it.

        Args:
            potentials: log-factors by columns; the model is their product.
        """
        parts: dict[Columns, list[tuple[Columns, Floats]]] = {node: [] for node in self.nodes}
        for clique, values in potentials.items():
            parts[self._home(clique)].append((clique, values))
        tables: dict[Columns, Floats] = {}
        sums: dict[Columns, Floats] = {}
        for node, parent in reversed(self.order):
            table = tables[node] = self._steps[node].added(parts[node])
            table -= table.max()
            np.exp(table, out=table)
            if parent is not None and self.shared[node]:
                sums[node] = self._steps[node].sums(table, [self.shared[node]])[self.shared[node]]
                parts[parent].append((self.shared[node], np.log(np.maximum(sums[node], _LEAST))))
        for node, parent in self.order:
            table, shared = tables[node], self.shared[node]
            if parent is not None and shared:
                above = project(tables[parent], parent, shared)
                ratio = np.divide(above, sums[node], out=np.zeros_like(above), where=sums[node] > 0)
                table *= spread(ratio, shared, node, self.sizes)
            else:
                table /= max(float(table.sum()), _LEAST)
        return tables

    def marginals(self, tables: Mapping[Columns, Floats], sets: Sequence[Columns]) -> dict[Columns, Floats]:
        """Return the marginal tables of sets of columns, summed from tables of nodes, axes in the order of each set."""
        wanted: dict[Columns, list[Columns]] = {}
        for names in sets:
            wanted.setdefault(self._home(names), []).append(names)
        found: dict[Columns, Floats] = {}
        for node, listed in wanted.items():
            found |= self._steps[node].sums(tables[node], listed)
        return found

    def _home(self, names: Columns) -> Columns:
        home = self.home(names)
        if home is None:
            raise InternalError("a clique has no home in its junction tree")
        return home


class _Steps:
    """Sums and broadcasts between a node's table and tables over subsets of its columns, with shared intermediates.

    A subset is reached by summing out one column at a time, the largest first. Summing a column out of the whole table
    costs as much as all later steps together, and is done once for all subsets without the column.
    """

    def __init__(self, node: Columns, sizes: Mapping[str, int]) -> None:
        self._node = node
        self._sizes = sizes
        self._above: dict[Columns, Columns] = {}

    def _way(self, names: Columns) -> Columns:
        """Return the subset in the node's order of columns, and record the chain of supersets up to the node."""
        listed = tuple(name for name in self._node if name in names)
        at = listed
        while at != self._node and at not in self._above:
            # The way down leaves the largest column out first, so the way up puts the smallest back first.
            back = min((n for n in self._node if n not in at), key=lambda n: (self._sizes[n], n))
            up = tuple(name for name in self._node if name in at or name == back)
            self._above[at] = up
            at = up
        return listed

    def sums(self, table: Floats, sets: Sequence[Columns]) -> dict[Columns, Floats]:
        """Return the node's table summed onto each set of columns."""
        known: dict[Columns, Floats] = {self._node: table}

        def find(names: Columns) -> Floats:
            if names not in known:
                up = self._above[names]
                axis = next(place for place, name in enumerate(up) if name not in names)
                known[names] = np.asarray(find(up).sum(axis=axis))
            return known[names]

        found = {}
        for names in sets:
            listed = self._way(names)
            found[names] = find(listed).transpose([listed.index(name) for name in names])
        return found

    def added(self, parts: Sequence[tuple[Columns, Floats]]) -> Floats:
        """Return the sum, as a table of the node, of tables over subsets of its columns."""
        waiting: dict[Columns, Floats] = {}
        for names, values in parts:
            listed = self._way(names)
            turned = values.transpose([names.index(name) for name in listed])
            waiting[listed] = waiting[listed] + turned if listed in waiting else turned
        whole = np.zeros(tuple(self._sizes[name] for name in self._node))
        while waiting:
            names = min(waiting, key=len)
            values = waiting.pop(names)
            if names == self._node:
                whole += values
                continue
            up = self._above[names]
            wide = np.expand_dims(values, next(place for place, name in enumerate(up) if name not in names))
            if up == self._node:
                whole += wide
            elif up in waiting:
                waiting[up] = waiting[up] + wide
            else:
                waiting[up] = np.broadcast_to(wide, tuple(self._sizes[name] for name in up))
        return whole


def model_cells(sizes: Mapping[str, int], cliques: Sequence[Columns]) -> int:
    """Return the number of cells of a model with these cliques."""
    return sum(math.prod(sizes[name] for name in node) for node in _nodes(sizes, cliques))


def project(table: Floats, names: Columns, wanted: Columns) -> Floats:
    """Return a table summed onto the columns ``wanted``, with axes in their order."""
    if names == wanted:
        return table.copy()
    others = tuple(axis for axis, name in enumerate(names) if name not in wanted)
    left = [name for name in names if name in wanted]
    return np.asarray(np.asarray(table.sum(axis=others)).transpose([left.index(name) for name in wanted]))


def spread(values: Floats, names: Columns, onto: Columns, sizes: Mapping[str, int]) -> Floats:
    """Return values over some columns, reshaped so that they broadcast over the clique ``onto``."""
    order = sorted(range(len(names)), key=lambda place: onto.index(names[place]))
    shape = tuple(sizes[name] if name in names else 1 for name in onto)
    return values.transpose(order).reshape(shape)


def _nodes(sizes: Mapping[str, int], cliques: Sequence[Columns]) -> list[frozenset[str]]:
    """Return the maximal cliques of the triangulated graph, by elimination of columns."""
    beside: dict[str, set[str]] = {name: set() for name in sizes}
    for clique in cliques:
        for one, other in itertools.permutations(clique, 2):
            beside[one].add(other)
    logs = {name: math.log(size) for name, size in sizes.items()}
    found: list[frozenset[str]] = []
    while beside:
        name = min(beside, key=lambda each: logs[each] + sum(logs[other] for other in beside[each]))
        near = beside.pop(name)
        node = frozenset({name, *near})
        if not any(node <= other for other in found):
            found.append(node)
        for other in near:
            beside[other] |= near
            beside[other] -= {other, name}
    return found


def _joined(nodes: Sequence[Columns]) -> dict[Columns, list[Columns]]:
    """Return the neighbours of each node in a maximum spanning forest on shared columns, which is a junction tree."""
    pairs = [(one, other) for one, other in itertools.combinations(nodes, 2) if set(one) & set(other)]
    pairs.sort(key=lambda pair: -len(set(pair[0]) & set(pair[1])))
    group = {node: node for node in nodes}
    beside: dict[Columns, list[Columns]] = {node: [] for node in nodes}
    for one, other in pairs:
        if group[one] != group[other]:
            left, kept = group[one], group[other]
            group = {node: kept if each == left else each for node, each in group.items()}
            beside[one].append(other)
            beside[other].append(one)
    return beside


def _from_the_roots(
    nodes: Sequence[Columns], beside: Mapping[Columns, Sequence[Columns]]
) -> list[tuple[Columns, Columns | None]]:
    order: list[tuple[Columns, Columns | None]] = []
    seen: set[Columns] = set()
    for root in nodes:
        waiting: list[tuple[Columns, Columns | None]] = [] if root in seen else [(root, None)]
        seen.add(root)
        while waiting:
            node, parent = waiting.pop()
            order.append((node, parent))
            for other in beside[node]:
                if other not in seen:
                    seen.add(other)
                    waiting.append((other, node))
    return order


#: Function that returns the given number of uniform numbers in [0, 1).
Shares = Callable[[int], Floats]
#: Number of iterations without improvement after which a fit ends.
_PATIENCE: Final = 20
#: Number of sampled rows from which marginals outside all cliques are estimated.
_SAMPLED: Final = 100_000
#: Largest number of cells with which a marginal outside all cliques is computed exactly.
_EXACT: Final = 2_000_000
#: Largest number of cells of a node's conditional tables, for all distinct known values drawn in one batch.
_TOGETHER: Final = 4_000_000


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts of the combinations of values of some columns, with their standard deviation.

    Args:
        columns: names of columns, in the order of the axes.
        counts: noisy count of each combination of values.
        stddev: standard deviation of the noise on each count.
        noise: the kind of noise.
    """

    columns: Columns
    counts: Floats
    stddev: float
    noise: CountNoise = DISCRETE_GAUSSIAN

    def wide(self, confidence: Number) -> float:
        """Return the half-width of an interval around each count."""
        # Counts are released on a grid with a noise variance of at least 2¹⁶, except for extremely large costs.
        return self.noise.factor(confidence, 2.0**16 if self.stddev > 1 / 8 else 1.0) * self.stddev


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """Graphical model of a table's rows: the product of log-potentials of cliques, normalised to a total.

    Args:
        sizes: number of values of each column.
        potentials: log-potentials by clique.
        total: estimated number of rows.
    """

    sizes: Mapping[str, int]
    potentials: Mapping[Columns, Floats]
    total: float

    @cached_property
    def _junction(self) -> JunctionTree:
        return JunctionTree(self.sizes, list(self.potentials))

    @cached_property
    def _tree(self) -> list[tuple[Columns, Columns, Floats]]:
        """Nodes from the root down: columns, columns shared with the parent, and probability table."""
        tree = self._junction
        tables = tree.probabilities(self.potentials)
        return [(node, tree.shared[node], tables[node]) for node, _ in tree.order]

    def sample(self, rows: int, shares: Shares | None = None) -> dict[str, NDArray[np.int64]]:
        """Draw rows as indices of values, so that every clique's table is matched as closely as integers allow.

        Args:
            rows: number of rows.
            shares: source of uniform numbers in [0, 1); by default :func:`uniform`.
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
        """Draw the missing columns of rows from the model's distribution given each row's known columns.

        Args:
            known: indices of values by column, one for each row.
            shares: source of uniform numbers in [0, 1); by default :func:`uniform`.

        Returns:
            indices of values by column, including the known columns; and for each row whether its known values have
            positive probability.
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
        """Draw a batch of rows: messages from leaves to roots per distinct known part, then values from the roots."""
        # Of each node: for each distinct known part, the weights of its missing values given those of its parent.
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
            # Weights of a node are determined up to a factor.
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
        """Return, for each distinct known part, the slice of the table over the missing columns."""
        at = [axis for axis, name in enumerate(names) if name in seen]
        turned = np.moveaxis(table, at, range(len(at)))
        if not at:
            count = len(next(iter(seen.values())))
            return np.broadcast_to(turned, (count, *turned.shape))
        return np.asarray(turned[tuple(seen[names[axis]] for axis in at)])

    def marginal(self, names: Sequence[str]) -> Floats:
        """Return expected counts by some columns: exact, or from a sample where the exact table is too large."""
        wanted = tuple(names)
        grown = JunctionTree(self.sizes, [*self.potentials, wanted])
        home = grown.home(wanted)
        if home is None or grown.cells > _EXACT:
            return self.marginals([wanted])[wanted]
        return self.total * project(grown.probabilities(self.potentials)[home], home, wanted)

    def marginals(self, sets: Sequence[Columns], shares: Shares | None = None) -> dict[Columns, Floats]:
        """Return expected counts by sets of columns; sets outside all cliques from one sample drawn with ``shares``."""
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
) -> GraphicalModel:
    """Fit the maximum-entropy model that minimises the squared distance to noisy marginals, weighted by 1/variance.

    Args:
        sizes: number of values of each column.
        measured: noisy marginals.
        iterations: largest number of steps, a public number.
        close: relative improvement of the distance over some steps below which the fit ends.
        start: a model of fewer marginals, the starting point of the fit.
    """
    fit = _Fit(sizes, measured)
    return GraphicalModel(dict(sizes), fit.run(fit.beginning(start), iterations, close), fit.total)


@dataclass(frozen=True)
class _Point:
    """Log-potentials with the loss at this point, its gradient, and the expected counts of each clique."""

    at: dict[Columns, Floats]
    loss: float
    slopes: dict[Columns, Floats]
    counts: dict[Columns, Floats]


class _Fit:
    """One fit: the squared distance of a model from noisy marginals, and its minimisation."""

    def __init__(self, sizes: Mapping[str, int], measured: Sequence[NoisyMarginal]) -> None:
        self.sizes = sizes
        self.total = estimated_total(measured)
        self.measured = _merged(measured)
        names = [noisy.columns for noisy in self.measured]
        self.cliques = [e for e in dict.fromkeys(names) if not any(set(e) < set(other) for other in names)]
        self.tree = JunctionTree(sizes, self.cliques)
        self.homes = [next(each for each in self.cliques if set(one) <= set(each)) for one in names]

    def beginning(self, start: GraphicalModel | None) -> dict[Columns, Floats]:
        """Return the log-potentials of an earlier model, or zeros."""
        found = {clique: np.zeros(tuple(self.sizes[name] for name in clique)) for clique in self.cliques}
        for clique, values in {} if start is None else start.potentials.items():
            home = next(each for each in self.cliques if set(clique) <= set(each))
            found[home] = found[home] + spread(values, clique, home, self.sizes)
        return found

    def evaluate(self, at: dict[Columns, Floats]) -> _Point:
        """Return loss, gradient and expected counts at a point."""
        tables = self.tree.probabilities(at)
        counts = {names: self.total * t for names, t in self.tree.marginals(tables, self.cliques).items()}
        slopes = {clique: np.zeros_like(values) for clique, values in counts.items()}
        loss = 0.0
        for noisy, home in zip(self.measured, self.homes, strict=True):
            apart = (project(counts[home], home, noisy.columns) - noisy.counts) / noisy.stddev
            loss += float(np.vdot(apart, apart)) / 2
            slopes[home] += spread(apart / noisy.stddev, noisy.columns, home, self.sizes)
        return _Point(at, loss, slopes, counts)

    def run(self, at: dict[Columns, Floats], iterations: int, close: float) -> dict[Columns, Floats]:
        """Minimise by mirror descent with momentum: restart where the loss grows, end where it no longer falls."""
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
        """Return a point with a smaller loss (None if there is none) and the next step size, by backtracking."""
        for _ in range(60):
            moved = self.evaluate({c: values - step * point.slopes[c] for c, values in point.at.items()})
            expected = sum(float(np.vdot(point.slopes[c], point.counts[c] - moved.counts[c])) for c in self.cliques)
            if point.loss - moved.loss >= expected / 2:
                return moved, 1.2 * step
            step /= 2
        return None, step


def _merged(measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """Merge repeated measurements: one noisy marginal per columns, their mean weighted by precision."""
    found: dict[Columns, NoisyMarginal] = {}
    for noisy in measured:
        known = found.get(noisy.columns)
        if known is not None:
            mine, other = 1 / noisy.stddev**2, 1 / known.stddev**2
            counts = (mine * noisy.counts + other * known.counts) / (mine + other)
            noisy = NoisyMarginal(noisy.columns, counts, 1 / math.sqrt(mine + other))
        found[noisy.columns] = noisy
    return list(found.values())


def estimated_total(measured: Sequence[NoisyMarginal]) -> float:
    """Return the mean of all marginals' totals, weighted by precision: the estimated number of rows, at least 1."""
    weights = [1 / (noisy.stddev**2 * noisy.counts.size) for noisy in measured]
    found = sum(w * float(noisy.counts.sum()) for w, noisy in zip(weights, measured, strict=True))
    return max(1.0, found / math.fsum(weights))


def _fitted(table: Floats, names: Columns, among: Columns) -> Floats:
    """Return a table over distinct known parts (axis 0) and ``names``, with axes of length 1 for other columns."""
    order = [names.index(name) for name in among if name in names]
    turned = table.transpose(0, *(1 + place for place in order))
    lengths = iter(turned.shape[1:])
    return turned.reshape(len(turned), *(next(lengths) if name in names else 1 for name in among))


def uniform(count: int) -> Floats:
    """Return uniform numbers in [0, 1) from the library's source of randomness."""
    return (entropy.current().words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _draw(table: Floats, groups: NDArray[np.int64], shares: Shares) -> NDArray[np.int64]:
    """Draw a cell for each row from its group's row of ``table``: systematic sampling, in random order."""
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


class ExpandedShares:
    """Pseudorandom numbers in [0, 1), expanded from a public text by SHAKE-256; what is drawn with them is public."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._calls = 0

    def __call__(self, count: int) -> NDArray[np.float64]:
        """Return ``count`` numbers, different ones at each call."""
        self._calls += 1
        words = hashlib.shake_256(f"{self._calls} {self._text}".encode()).digest(8 * count)
        return (np.frombuffer(words, dtype="<u8") >> np.uint64(11)).astype(np.float64) * 2.0**-53
