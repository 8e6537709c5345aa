"""Graphical models of a table: fitted to noisy marginals by ``mbi``, queried and sampled here.

Fitting, sampling and queries are post-processing of released numbers. ``mbi`` and JAX come with the extra ``synth`` and
are loaded when a model is fitted, in a process of its own; the fitted model is plain arrays.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError, InternalError
from tacit.core.extras import install_command
from tacit.noise import entropy
from tacit.synth.fit_process import pack, unpack

__all__ = [
    "GraphicalModel", "JunctionTree", "NoisyMarginal", "check_installed", "estimated_total", "fit_model", "model_size",
    "sketch_model", "uniform",
]  # fmt: skip

Columns = tuple[str, ...]
Floats = NDArray[np.float64]
#: A fit ends where fifty iterations improve it by less than this part.
_CLOSE: Final = 1e-4
#: Rows of a sample that stands for marginals which no clique has.
_SAMPLED: Final = 100_000
_EXTRA: Final = f"needs the extra 'synth': {install_command('synth')}"


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts of the combinations of values of some columns, with the standard deviation of each."""

    columns: Columns
    counts: Floats
    stddev: float


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """A distribution over a table: cliques of columns in a tree, and the log-potential of each.

    Args:
        sizes: number of values of each column.
        potentials: log-potentials by clique.
        total: estimated number of rows.
    """

    sizes: Mapping[str, int]
    potentials: Mapping[Columns, Floats]
    total: float

    @cached_property
    def _tree(self) -> list[tuple[Columns, Columns, Floats]]:
        """Cliques from the root down: columns, those shared with the parent, and the table of probabilities."""
        tree = JunctionTree(self.sizes, list(self.potentials))
        tables = tree.probabilities(self.potentials)
        return [(node, tree.shared[node], tables[node]) for node, _ in tree.order]

    def sample(self, rows: int) -> dict[str, NDArray[np.int64]]:
        """Rows as places of values, drawn so that every clique's table is met as closely as integers allow."""
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
            cells = _draw(flat, groups)
            for name in reversed(rest):
                drawn[name] = cells % self.sizes[name]
                cells = cells // self.sizes[name]
        return {name: drawn[name] for name in self.sizes}

    def marginal(self, names: Sequence[str]) -> Floats:
        """Expected counts by some columns: exact where a clique has them all, else from a large sample."""
        return self.marginals([tuple(names)])[tuple(names)]

    def marginals(self, sets: Sequence[Columns]) -> dict[Columns, Floats]:
        """Expected counts of several sets, with one sample for those that no clique has."""
        found: dict[Columns, Floats] = {}
        open_sets: list[Columns] = []
        for names in sets:
            clique = next((c for c in self._tree if set(names) <= set(c[0])), None)
            if clique is None:
                open_sets.append(names)
            else:
                found[names] = self.total * _project(clique[2], clique[0], names)
        if open_sets:
            drawn = self.sample(_SAMPLED)
            for names in open_sets:
                shape = tuple(self.sizes[name] for name in names)
                cells = np.ravel_multi_index(tuple(drawn[name] for name in names), shape)
                counted = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
                found[names] = counted.astype(np.float64) * (self.total / _SAMPLED)
        return found


def check_installed() -> None:
    """Refuse work that needs the extra where it is missing.

    Raises:
        InputError: naming the extra.
    """
    if importlib.util.find_spec("mbi") is None:
        raise InputError("synthesize", _EXTRA)


def model_size(sizes: Mapping[str, int], cliques: Sequence[Columns]) -> float:
    """Megabytes of a model with these cliques."""
    return float(_library().junction_tree.hypothetical_model_size(_domain(sizes), list(cliques)))


def fit_model(
    sizes: Mapping[str, int], measured: Sequence[NoisyMarginal], *, iterations: int = 1_000
) -> GraphicalModel:
    """The model that fits noisy marginals best, weighted by their noise, with the largest entropy.

    Args:
        sizes: number of values of each column.
        measured: noisy marginals.
        iterations: of the fit, a public number.

    Raises:
        InternalError: the process that fits failed.
    """
    check_installed()
    head = {
        "sizes": dict(sizes),
        "columns": [list(noisy.columns) for noisy in measured],
        "stddev": [noisy.stddev for noisy in measured],
        "iterations": iterations,
        "close": _CLOSE,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tacit.synth.fit_process"],
        input=pack(head, [noisy.counts for noisy in measured]),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise InternalError(f"the process that fits a model failed: {' '.join(last)}")
    found, tables = unpack(done.stdout)
    potentials = {tuple(clique): table for clique, table in zip(found["cliques"], tables, strict=True)}
    return GraphicalModel(dict(sizes), potentials, found["total"])


def _library() -> Any:
    check_installed()
    with warnings.catch_warnings():
        # Only junction trees are made in this process, for which precision and caches mean nothing.
        warnings.simplefilter("ignore")
        import mbi

    return mbi


def _domain(sizes: Mapping[str, int]) -> Any:
    return _library().Domain.fromdict(dict(sizes))


def _project(table: Floats, names: Columns, wanted: Columns) -> Floats:
    others = tuple(axis for axis, name in enumerate(names) if name not in wanted)
    left = [name for name in names if name in wanted]
    return np.asarray(np.asarray(table.sum(axis=others)).transpose([left.index(name) for name in wanted]))


class JunctionTree:
    """Tree of cliques in which every given clique has a home; belief propagation on it, in logarithms.

    Args:
        sizes: number of values of each column.
        cliques: sets of columns.
    """

    def __init__(self, sizes: Mapping[str, int], cliques: Sequence[Columns]) -> None:
        tree, _ = _library().junction_tree.make_junction_tree(_domain(sizes), list(cliques))
        self.sizes = sizes
        self.nodes: list[Columns] = [tuple(node) for node in tree.nodes]
        beside = {node: [tuple(other) for other in tree[node]] for node in self.nodes}
        self.order = _from_the_roots(self.nodes, beside)
        self.shared = {
            node: () if parent is None else tuple(name for name in node if name in parent)
            for node, parent in self.order
        }

    def home(self, names: Sequence[str]) -> Columns | None:
        """The smallest node that has all of some columns, if there is one."""
        able = [node for node in self.nodes if set(names) <= set(node)]
        return min(able, key=lambda node: math.prod(self.sizes[name] for name in node), default=None)

    def probabilities(self, potentials: Mapping[Columns, Floats]) -> dict[Columns, Floats]:
        """The table of each node, from the root down: messages to the root, then marginals from it."""
        tables = {node: np.zeros(tuple(self.sizes[name] for name in node)) for node in self.nodes}
        for clique, values in potentials.items():
            home = self.home(clique)
            if home is None:
                raise InternalError("a clique has no home in its junction tree")
            tables[home] = tables[home] + _spread(values, clique, home, self.sizes)
        for node, parent in reversed(self.order):
            if parent is not None and self.shared[node]:
                message = _log_sums(tables[node], node, self.shared[node])
                tables[parent] = tables[parent] + _spread(message, self.shared[node], parent, self.sizes)
        found: dict[Columns, Floats] = {}
        for node, parent in self.order:
            table = np.exp(tables[node] - tables[node].max())
            table = table / table.sum()
            shared = self.shared[node]
            if parent is not None and shared:
                own, above = _project(table, node, shared), _project(found[parent], parent, shared)
                ratio = np.divide(above, own, out=np.zeros_like(own), where=own > 0)
                table = table * _spread(ratio, shared, node, self.sizes)
            found[node] = table
        return found


def sketch_model(
    sizes: Mapping[str, int],
    measured: Sequence[NoisyMarginal],
    *,
    iterations: int = 100,
    start: GraphicalModel | None = None,
) -> GraphicalModel:
    """A quick model of noisy marginals, for choosing the next one: mirror descent in numpy, started from the last.

    The library compiles every new set of cliques for longer than a whole fit takes here, and a choice needs no more
    than a rough model. Published tables come from :func:`fit_model`.
    """
    names = list(dict.fromkeys(noisy.columns for noisy in measured))
    cliques = [each for each in names if not any(set(each) < set(other) for other in names)]
    tree = JunctionTree(sizes, cliques)
    total = estimated_total(measured)
    potentials = {clique: np.zeros(tuple(sizes[name] for name in clique)) for clique in cliques}
    for clique, values in {} if start is None else start.potentials.items():
        home = next(each for each in cliques if set(clique) <= set(each))
        potentials[home] = potentials[home] + _spread(values, clique, home, sizes)
    homes = [next(each for each in cliques if set(noisy.columns) <= set(each)) for noisy in measured]

    def evaluate(
        at: Mapping[Columns, Floats],
    ) -> tuple[float, dict[Columns, Floats], dict[Columns, Floats]]:
        """Loss, its gradient, and the counts of each clique."""
        tables = tree.probabilities(at)
        counts = {clique: total * _in_tree(tree, tables, clique) for clique in cliques}
        slopes = {clique: np.zeros_like(values) for clique, values in counts.items()}
        loss = 0.0
        for noisy, home in zip(measured, homes, strict=True):
            apart = _project(counts[home], home, noisy.columns) - noisy.counts
            loss += float((apart**2).sum()) / (2 * noisy.stddev**2)
            slopes[home] = slopes[home] + _spread(apart / noisy.stddev**2, noisy.columns, home, sizes)
        return loss, slopes, counts

    loss, slopes, counts = evaluate(potentials)
    step = 1.0 / (total * sum(1 / noisy.stddev**2 for noisy in measured))
    for _ in range(iterations):
        moved = {clique: values - step * slopes[clique] for clique, values in potentials.items()}
        tried, other_slopes, other_counts = evaluate(moved)
        expected = sum(float((slopes[c] * (counts[c] - other_counts[c])).sum()) for c in cliques)
        if loss - tried >= expected / 2:
            improved = loss - tried
            potentials, loss, slopes, counts = moved, tried, other_slopes, other_counts
            step *= 1.5
            if improved <= _CLOSE * max(loss, 1.0):
                break
        else:
            step /= 2
    return GraphicalModel(dict(sizes), potentials, total)


def estimated_total(measured: Sequence[NoisyMarginal]) -> float:
    """The number of rows, from all marginals by their noise; at least 1."""
    weights = [1 / (noisy.stddev**2 * noisy.counts.size) for noisy in measured]
    found = sum(w * float(noisy.counts.sum()) for w, noisy in zip(weights, measured, strict=True))
    return max(1.0, found / math.fsum(weights))


def _in_tree(tree: JunctionTree, tables: Mapping[Columns, Floats], names: Columns) -> Floats:
    home = tree.home(names)
    if home is None:
        raise InternalError("a clique has no home in its junction tree")
    return _project(tables[home], home, names)


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


def _spread(values: Floats, names: Columns, onto: Columns, sizes: Mapping[str, int]) -> Floats:
    """Values over some columns, as an array that broadcasts over a clique that has them."""
    order = sorted(range(len(names)), key=lambda place: onto.index(names[place]))
    shape = tuple(sizes[name] if name in names else 1 for name in onto)
    return values.transpose(order).reshape(shape)


def _log_sums(table: Floats, names: Columns, wanted: Columns) -> Floats:
    largest = table.max()
    return np.asarray(np.log(np.maximum(_project(np.exp(table - largest), names, wanted), 1e-300)) + largest)


def uniform(count: int) -> Floats:
    """Uniform numbers of [0, 1), from the one source of randomness."""
    return (entropy.current().words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _draw(table: Floats, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """A cell for each row, from the row of ``table`` of its group: evenly spaced on the cumulative sums, then mixed."""
    cells = np.zeros(len(groups), dtype=np.int64)
    order = np.lexsort((uniform(len(groups)), groups))
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    starts = [0, *ends.tolist(), len(groups)]
    shifts = uniform(max(len(starts), 1))
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
