"""Exact sums of whole numbers in floats: in float32 while a bound shows that nothing rounds, else in float64.

A sum of whole numbers is exact in a float, in any order, if no partial sum exceeds what the type holds: 2²⁴ or 2⁵³.
For each product of matrices a bound on all of its partial sums is computed first, and decides about the type. Both
types give the same integers, so the decision changes how long a sum takes and nothing else. ``gradients.proof.md`` has
the argument.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from tacit.learn.torch.layer_factors import LayerTap, Outer
from tacit.learn.torch.torch_import import Tensor, torch

#: Bound on the partial sums of a float32 sum; below 2²⁴ by more than the rounding of the bound itself.
_NARROW: Final = 2.0**24 * (1 - 2.0**-6)
#: Vectors of which a bound is computed at a time: its float32 sums are right to a factor of 1 ± 2⁻⁸.
_MOST_VECTORS: Final = 1 << 16
#: Numbers that are made float64 at a time, for their products: so many stay in the caches.
_DOUBLED: Final = 1 << 17
#: Parts that a batch is divided into so that float32 is enough; with more, float64 is as fast.
_MOST_PARTS: Final = 16
#: Multiplications up to which float64 is as fast.
_SMALL_WORK: Final = 1 << 20
#: Vectors from which on parts are worth it.
_MANY_VECTORS: Final = 1 << 11


class ExactSums:
    """A sum for each parameter, of one step after another.

    Args:
        sizes: count of numbers of each parameter, by name and in order.
        constant: what goes into a bias: the whole number for 1.

    Numbers of one row in the sum are together at most ``STEPS`` long; :meth:`spill` is called before so many rows are
    added that a float64 would not hold their sums.
    """

    def __init__(self, sizes: Mapping[str, int], constant: int) -> None:
        self._sizes, self._constant = dict(sizes), constant
        self._device: Any = None
        # Kept from step to step: fresh memory takes longer to come by than sums take.
        self._narrow_room: dict[str, Tensor] = {}
        self._wide_room: dict[str, Tensor] = {}
        self._double_room: dict[str, Tensor] = {}
        self._bounds: dict[str, float] = {}
        self._wide_used: set[str] = set()
        self._spilled: Tensor | None = None

    def begin(self, device: Any) -> None:
        """Forget the sums of the step before; those of this step are on a device."""
        self._device = device
        self._bounds.clear()
        self._wide_used.clear()
        self._spilled = None

    def add_outer(self, tap: LayerTap, chosen: Outer, *, single: bool) -> None:
        """Add outer products and, for a bias, what came back; whole numbers in both.

        Args:
            tap: the layer.
            chosen: of the examples that count.
            single: whether products of float32 are taken in float32 here.
        """
        vectors = chosen.inputs.shape[:2].numel()
        work = vectors * tap.groups * tap.inputs * tap.outputs
        # Of a small product float64 is as fast as a bound, and of a few vectors as several parts.
        narrow = single and work > _SMALL_WORK and chosen.inputs.dtype == chosen.returns.dtype == torch.float32
        bound = self._bound(chosen, tap) if narrow else float("inf")
        # What is no number is below no bound.
        if not bound <= (_NARROW * _MOST_PARTS / 2 if vectors >= _MANY_VECTORS else _NARROW):
            self._add_doubled(tap, chosen)
            return
        parts = 1 if bound <= _NARROW else math.ceil(bound / (_NARROW / 2))
        few = -(-len(chosen.inputs) // parts)
        for into, back in zip(chosen.inputs.split(few), chosen.returns.split(few), strict=True):
            some = Outer(into, back)
            limit = bound if parts == 1 else self._bound(some, tap)
            if limit <= _NARROW:
                some.add_to(self._narrow(tap.weight, limit))
                if tap.bias is not None:
                    self._narrow(tap.bias, limit).add_(back.sum((0, 1)).flatten(), alpha=self._constant)
            else:
                self._add_doubled(tap, some)

    def add_rows(self, tap: LayerTap, words: Tensor, vectors: Tensor) -> None:
        """Add vectors of whole numbers to the rows of a table."""
        table = self._wide(tap.weight).view(tap.words, tap.outputs)
        for which, some in zip(words.split(_few(vectors)), vectors.split(_few(vectors)), strict=True):
            table.index_add_(0, which.flatten(), self._doubled("returns", some).flatten(0, 1))

    def add(self, name: str, whole: Tensor) -> None:
        """Add integers of any type that are exact in a float64."""
        self._wide(name).add_(whole)

    def spill(self) -> None:
        """Move all sums so far to integers of 64 bits."""
        self._spilled = self.integers()
        self._bounds.clear()
        self._wide_used.clear()

    def integers(self) -> Tensor:
        """All sums, one after the other, as int64."""
        whole = torch.empty(sum(self._sizes.values()), dtype=torch.int64, device=self._device)
        for (name, _), place in zip(self._sizes.items(), whole.split(list(self._sizes.values())), strict=True):
            if name in self._wide_used:
                wide = self._wide_room[name]
                if name in self._bounds:
                    wide.add_(self._narrow_room[name])
                place.copy_(wide)
            elif name in self._bounds:
                place.copy_(self._narrow_room[name])
            else:
                place.zero_()
        return whole if self._spilled is None else whole.add_(self._spilled)

    def _bound(self, some: Outer, tap: LayerTap) -> float:
        """Bound on all partial sums of the products, and of those of a bias: max|a| times the largest Σ|b|."""
        back = some.returns.flatten(0, 1)
        if len(back) > _MOST_VECTORS:
            return float("inf")
        low, high = torch.aminmax(some.inputs)
        most = max(float(high), -float(low), self._constant if tap.bias is not None else 0)
        return most * float(back.abs().sum(0).max())

    def _narrow(self, name: str, bound: float) -> Tensor:
        """The float32 sum of a parameter, to which partial sums of at most ``bound`` may be added."""
        before = self._bounds.get(name)
        if before is not None and before + bound <= _NARROW:
            self._bounds[name] = before + bound
            return self._narrow_room[name]
        room = _room(self._narrow_room, name, self._sizes[name], torch.float32, self._device)
        if before is not None:
            self._wide(name).add_(room)
        self._bounds[name] = bound
        return room.zero_()

    def _wide(self, name: str) -> Tensor:
        """The float64 sum of a parameter."""
        room = _room(self._wide_room, name, self._sizes[name], torch.float64, self._device)
        if name not in self._wide_used:
            self._wide_used.add(name)
            room.zero_()
        return room

    def _add_doubled(self, tap: LayerTap, chosen: Outer) -> None:
        """Add outer products in float64; some examples at a time are made float64."""
        few = _few(max(chosen.inputs, chosen.returns, key=lambda each: each.numel()))
        for into, back in zip(chosen.inputs.split(few), chosen.returns.split(few), strict=True):
            some = Outer(self._doubled("inputs", into), self._doubled("returns", back))
            some.add_to(self._wide(tap.weight))
            if tap.bias is not None:
                self._wide(tap.bias).add_(some.returns.sum((0, 1)).flatten(), alpha=self._constant)

    def _doubled(self, name: str, values: Tensor) -> Tensor:
        """Values as float64, in memory that is the same for all layers."""
        if values.dtype == torch.float64:
            return values
        room = _room(self._double_room, name, values.numel(), torch.float64, values.device)
        return room[: values.numel()].view(values.shape).copy_(values)


def _room(rooms: dict[str, Tensor], name: str, count: int, dtype: Any, device: Any) -> Tensor:
    """Memory for at least so many numbers, the same one whenever it is asked for by this name."""
    room = rooms.get(name)
    if room is None or room.numel() < count or room.device != device:
        room = rooms[name] = torch.empty(count, dtype=dtype, device=device)
    return room


def _few(values: Tensor) -> int:
    """Count of examples that are made float64 together; at least as many as keep a matrix product busy."""
    each = max(values[0].numel(), 1) if len(values) else 1
    positions = max(values.shape[1], 1)
    return int(max(_DOUBLED // each, -(-256 // positions), 1))
