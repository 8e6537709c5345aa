"""Junction trees: cliques of columns in a tree, on which the marginals of a graphical model are exact.

Columns are eliminated one by one, the one with the smallest table first; the tables that arise are the nodes, joined so
that neighbours share as many columns as possible. Everything here is a function of public sizes and names.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError

Columns = tuple[str, ...]
Floats = NDArray[np.float64]
#: A sum of probabilities that is 0 in doubles has this logarithm's argument instead.
_LEAST: Final = 1e-300


class JunctionTree:
    """Tree of cliques in which every given clique has a home; belief propagation on it, in logarithms.

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
        """Numbers in the tables of all nodes."""
        return sum(math.prod(self.sizes[name] for name in node) for node in self.nodes)

    def home(self, names: Columns) -> Columns | None:
        """The smallest node that has all of some columns, if there is one."""
        if names not in self._homes:
            able = [node for node in self.nodes if set(names) <= set(node)]
            found = min(able, key=lambda node: math.prod(self.sizes[name] for name in node), default=None)
            if found is None:
                return None
            self._homes[names] = found
        return self._homes[names]

    def probabilities(self, *potentials: Mapping[Columns, Floats]) -> dict[Columns, Floats]:
        """The table of each node: messages to the root in logarithms, then marginals from it.

        Args:
            potentials: logarithms of factors by columns; all of them are multiplied. Minus infinity is impossible.
        """
        parts: dict[Columns, list[tuple[Columns, Floats]]] = {node: [] for node in self.nodes}
        for clique, values in itertools.chain.from_iterable(part.items() for part in potentials):
            parts[self._home(clique)].append((clique, values))
        tables: dict[Columns, Floats] = {}
        sums: dict[Columns, Floats] = {}
        for node, parent in reversed(self.order):
            table = tables[node] = self._steps[node].added(parts[node])
            largest = float(table.max())
            table -= largest if math.isfinite(largest) else 0.0
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
        """Sums of the tables of nodes by sets of columns, each in the order of its set."""
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
    """Sums and broadcasts between one node and sets of its columns, by way of tables in between that they share.

    A set is reached by leaving out one column at a time, the largest first. Leaving one out of the whole table costs as
    much as all later steps together, and is done once for all sets that lack the column.
    """

    def __init__(self, node: Columns, sizes: Mapping[str, int]) -> None:
        self._node = node
        self._sizes = sizes
        self._above: dict[Columns, Columns] = {}

    def _way(self, names: Columns) -> Columns:
        """The set in the node's own order, with the sets above it noted."""
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
        """Sums of the node's table by each set."""
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
        """The node's table as the sum of tables over sets of its columns."""
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
    """Numbers in the tables of a model with these cliques."""
    return sum(math.prod(sizes[name] for name in node) for node in _nodes(sizes, cliques))


def project(table: Floats, names: Columns, wanted: Columns) -> Floats:
    """Sums of a table by some of its columns, in their order."""
    if names == wanted:
        return table.copy()
    others = tuple(axis for axis, name in enumerate(names) if name not in wanted)
    left = [name for name in names if name in wanted]
    return np.asarray(np.asarray(table.sum(axis=others)).transpose([left.index(name) for name in wanted]))


def spread(values: Floats, names: Columns, onto: Columns, sizes: Mapping[str, int]) -> Floats:
    """Values over some columns, as an array that broadcasts over a clique that has them."""
    order = sorted(range(len(names)), key=lambda place: onto.index(names[place]))
    shape = tuple(sizes[name] if name in names else 1 for name in onto)
    return values.transpose(order).reshape(shape)


def _nodes(sizes: Mapping[str, int], cliques: Sequence[Columns]) -> list[frozenset[str]]:
    """Maximal cliques of the graph after elimination."""
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
    """Neighbours in a spanning forest with the most shared columns, which is a junction tree of the nodes."""
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
