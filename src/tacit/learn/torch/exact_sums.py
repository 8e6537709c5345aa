"""Outer products of layers, and their exact sums of integers held in floats.

In a linear layer the gradient of one example is Σ_t δ_t ⊗ (a_t, 1), for the inputs a_t and the output gradients δ_t
("returns") at the positions t of the example; a convolution is a linear layer over patches, and an embedding adds δ_t
to the row of its word. So the gradient need not be materialised: its norm follows from the inner products of all pairs
of positions, and the sum over examples is one matrix product. :class:`LayerTap` decides which takes less work.

A sum of integers is exact in floats, in any order, if no partial sum exceeds 2²⁴ in float32 or 2⁵³ in float64. For each
matrix product a bound on all of its partial sums is computed first, and determines the type. Both types give the same
integers, so the choice affects speed only. ``gradients.proof.md`` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tacit.learn.torch.torch_import import Tensor, load, torch

#: Clip in grid steps, for networks of up to :data:`_FEW_NUMBERS` parameters. The noise in one number is about as large,
#: so that a finer grid would cost time without benefit: sums of such numbers are mostly exact in float32, and noise of
#: this size takes 32 bits.
STEPS: Final = 1 << 20
#: Largest number of parameters with that grid: the rounding error of a gradient's norm grows with their square root.
_FEW_NUMBERS: Final = 1 << 18
_FINER: Final = 1 << 24


@dataclass(frozen=True)
class GradientGrid:
    """Resolution of integer gradients.

    Attributes:
        steps: grid steps of the clip: one example adds an integer vector of at most this norm.
        inputs: grid steps of 1 in a layer's inputs; output gradients have ``steps / inputs`` steps per clip.
    """

    steps: int
    inputs: int

    @classmethod
    def of(cls, numbers: int) -> GradientGrid:
        """Return the grid for a network with this public number of trained parameters."""
        return cls(STEPS, 1 << 7) if numbers <= _FEW_NUMBERS else cls(_FINER, 1 << 8)

    @property
    def longest(self) -> float:
        """Bound on the square of a norm computed in floats: below that of the clip by more than the rounding error."""
        return float(self.steps) ** 2 * (1 - 2.0**-9)


functional = load("torch.nn.functional")
#: 12-bit numbers, one in each row, whose products are exact in float32: they reveal whether factors are rounded first.
_LONG_NUMBERS: Final = torch.zeros(1, 32, 1, 64, dtype=torch.float32).index_fill_(3, torch.tensor([7]), 4095.0)
_LONG_PRODUCTS: Final = torch.full((1, 1, 32, 32), 4095.0**2, dtype=torch.float32)


@dataclass(frozen=True)
class LayerTap:
    """Shapes of one call of a layer on one example.

    Args:
        weight: name of the weight.
        bias: name of the bias, if there is one and it is trained.
        output: shape of the output, for a batch of one.
        positions: number of outer products in the gradient.
        groups: number of groups that inputs and outputs are divided into.
        inputs: length of an input vector in one group.
        outputs: length of an output vector in one group.
        words: number of rows of an embedding's table; 0 for any other layer.
        arrange: function that reshapes inputs and output gradients of a batch to (examples, positions, groups, length);
            for an embedding, words and output gradients.
    """

    weight: str
    bias: str | None
    output: tuple[int, ...]
    positions: int
    groups: int
    inputs: int
    outputs: int
    words: int
    arrange: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

    @property
    def lone(self) -> bool:
        """Whether the gradient of an example is one outer product."""
        return self.positions == self.groups == 1 and not self.words

    @property
    def materialised(self) -> bool:
        """Whether the gradient of an example has fewer numbers than the products of all pairs of positions."""
        whole = self.inputs * self.outputs
        return not self.words and self.positions > 1 and whole <= self.positions**2

    @property
    def numbers(self) -> int:
        """Count of numbers in memory per example."""
        vectors = self.positions * self.groups * (self.inputs * (not self.words) + self.outputs)
        return vectors + self.groups * (self.inputs * self.outputs if self.materialised else self.positions**2)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the weight and of the bias, if any."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


class LayerTaps:
    """Taps of a network's layers during a call: their inputs are stored, and zeros are added to their outputs.

    Args:
        held: values of the parameters, by name.
        nudges: zeros to add to the outputs of tapped layers, by the name of the weight; the loss's gradient with
            respect to them is the layer's output gradient. None to find the calls that can be tapped.
    """

    def __init__(self, held: Mapping[str, Tensor], nudges: Mapping[str, Tensor] | None) -> None:
        self._names = {id(value): name for name, value in held.items()}
        self._nudges = nudges
        self.inputs: dict[str, Tensor] = {}
        self.found: list[LayerTap] = []

    def call(self, func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Tensor | None:
        """Return the output of a tapped layer; None for any other call."""
        reader = _READERS.get(func)
        weight = named.get("weight", args[1] if len(args) > 1 else None)
        name = self._names.get(id(weight))
        if reader is None or name is None:
            return None
        if self._nudges is None:
            tap = reader(_Call(args, named, name, self._names, func(*args, **named)))
            if tap is None:
                return None
            self.found.append(tap)
            # The parameters are detached here, so that they have a gradient only if they are also used elsewhere.
            plain = _cut(args, tap.parameters, self._names)
            options = zip(named, _cut(named.values(), tap.parameters, self._names), strict=True)
            output: Tensor = func(*plain, **dict(options))
            return output
        if name not in self._nudges:
            return None
        self.inputs[name] = args[0]
        plainly: Tensor = func(*args, **named)
        nudged: Tensor = plainly + self._nudges[name].to(plainly.dtype)
        return nudged


@dataclass(frozen=True)
class Outer:
    """Factors of a batch's outer products: inputs and output gradients, by position and group.

    Args:
        inputs: inputs of the layer, (examples, positions, groups, length); without the constant for the bias.
        returns: output gradients of the layer, of the same dimensions.
    """

    inputs: Tensor
    returns: Tensor

    def each(self) -> Tensor:
        """Return the sum of outer products of each example: (examples, groups, outputs, inputs)."""
        return torch.einsum("btgo,btgi->bgoi", self.returns, self.inputs)

    def add_to(self, total: Tensor) -> None:
        """Add the outer products of all examples to a sum of (groups, outputs, inputs)."""
        back, into = (each.flatten(0, 1).transpose(0, 1) for each in (self.returns, self.inputs))
        if len(back) == 1:
            total.view(back.shape[2], into.shape[2]).addmm_(back[0].t(), into[0])
        else:
            total.view(len(back), back.shape[2], into.shape[2]).baddbmm_(back.transpose(1, 2), into)


def inner_products(vectors: Tensor, more: float = 0.0) -> Tensor:
    """Return inner products of all pairs of positions, plus ``more``: (examples, groups, positions, positions).

    The squared norm of a sum of outer products is the sum of the elementwise product of these tables for both factors.
    """
    if vectors.shape[1] == 1:
        found = torch.linalg.vector_norm(vectors, dim=3).square_().transpose(1, 2)[..., None]
    else:
        ahead = vectors.transpose(1, 2)
        found = ahead @ ahead.transpose(2, 3)
    return found.add_(more) if more else found


def pair_square(words: Tensor, returns: Tensor) -> Tensor:
    """Return the squared norm of each example's gradient of an embedding: vectors of equal words are added first."""
    if returns.shape[1] == 1:
        return returns.square().sum((1, 2)).double()
    same = words[:, :, None] == words[:, None, :]
    return (returns @ returns.transpose(1, 2)).mul_(same).sum(2).double().sum(1)


def product_sum(first: Tensor, second: Tensor) -> Tensor:
    """Return the sum of the elementwise product of two tables, by example, as float64; ``first`` may be overwritten."""
    products = first.mul_(second) if first.dtype == second.dtype else first * second
    return products.sum(3).double().sum((1, 2))


def products_are_single(device: Any) -> bool:
    """Return whether float32 matrices are multiplied in float32: settings of PyTorch may lower the precision.

    False on any device but the CPU, where rounding is not known.
    """
    try:
        if device.type != "cpu" or torch.get_float32_matmul_precision() != "highest":
            return False
    except RuntimeError:
        # PyTorch raises if the precision was set inconsistently.
        return False
    shorter = torch.backends.mkldnn
    places = (torch.backends, shorter, getattr(shorter, "matmul", None))
    if any(getattr(place, "fp32_precision", "none") not in ("none", "ieee") for place in places):
        return False
    # Independently of settings, check that 12-bit factors are not rounded before multiplication.
    return bool(torch.equal(inner_products(_LONG_NUMBERS), _LONG_PRODUCTS))


def _cut(values: Iterable[Any], parameters: tuple[str, ...], names: Mapping[int, str]) -> tuple[Any, ...]:
    return tuple(value.detach() if names.get(id(value)) in parameters else value for value in values)


@dataclass(frozen=True)
class _Call:
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    weight: str
    names: Mapping[int, str]
    output: Tensor

    def argument(self, place: int, name: str, default: Any) -> Any:
        return self.args[place] if len(self.args) > place else self.named.get(name, default)

    @property
    def bias(self) -> str | None:
        bias = self.argument(2, "bias", None)
        return None if bias is None else self.names.get(id(bias))


def _linear(call: _Call) -> LayerTap | None:
    given, (outputs, inputs) = call.args[0], call.argument(1, "weight", None).shape
    shape = tuple(call.output.shape)

    def arrange(into: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        return into.reshape(len(into), -1, 1, inputs), back.reshape(len(back), -1, 1, outputs)

    positions = given.numel() // inputs
    return LayerTap(call.weight, call.bias, shape, positions, 1, inputs, outputs, 0, arrange)


def _convolution(call: _Call) -> LayerTap | None:
    images, weight = call.args[0], call.argument(1, "weight", None)
    sides = weight.dim() - 2
    places = ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
    stride, padding, dilation = (call.argument(*place) for place in places)
    groups = call.argument(6, "groups", 1)
    if images.dim() != sides + 2 or isinstance(padding, str):
        return None
    # A one-dimensional input is unfolded as an image of height 1.
    layout = {
        "kernel_size": _both(tuple(weight.shape[2:]), sides, 1),
        "dilation": _both(dilation, sides, 1),
        "padding": _both(padding, sides, 0),
        "stride": _both(stride, sides, 1),
    }
    outputs, inputs = weight.shape[0] // groups, math.prod(weight.shape[1:])

    def arrange(into: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        # Views of an example, the second dimension, count as positions.
        views = into.shape[1]
        grid = into.reshape(len(into) * views, into.shape[2], *((1,) * (2 - sides)), *into.shape[3:])
        patches = functional.unfold(grid, **layout).reshape(len(into), views, groups, inputs, -1)
        returned = back.reshape(len(back), views, groups, outputs, -1)
        return patches.permute(0, 1, 4, 2, 3).flatten(1, 2), returned.permute(0, 1, 4, 2, 3).flatten(1, 2)

    positions = len(images) * math.prod(call.output.shape[2:])
    return LayerTap(call.weight, call.bias, tuple(call.output.shape), positions, groups, inputs, outputs, 0, arrange)


def _both(sides: Any, count: int, fill: int) -> tuple[int, ...]:
    """Return a convolution's setting as a pair for height and width, from one number or from one per dimension."""
    each = (sides,) * count if isinstance(sides, int) else tuple(sides) * (count // len(sides))
    return (fill,) * (2 - count) + each


def _embedding(call: _Call) -> LayerTap | None:
    words, table = call.args[0], call.argument(1, "weight", None)
    if call.argument(5, "scale_grad_by_freq", False):
        return None
    nothing = call.argument(2, "padding_idx", None)
    length = table.shape[1]

    def arrange(into: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        flat, returned = into.reshape(len(into), -1), back.reshape(len(back), -1, length)
        if nothing is not None:
            returned = returned * (flat != nothing % len(table))[:, :, None]
        return flat, returned

    return LayerTap(call.weight, None, tuple(call.output.shape), words.numel(), 1, 1, length, len(table), arrange)


_READERS: dict[Any, Callable[[_Call], LayerTap | None]] = {
    functional.linear: _linear,
    functional.conv1d: _convolution,
    functional.conv2d: _convolution,
    functional.embedding: _embedding,
}


#: Bound on partial sums in float32: below 2²⁴ by more than the rounding error of the bound itself.
_NARROW: Final = 2.0**24 * (1 - 2.0**-6)
#: Largest number of vectors of which a bound is computed: its float32 sums are then exact to a factor of 1 ± 2⁻⁸.
_MOST_VECTORS: Final = 1 << 16
#: Count of numbers converted to float64 at a time: that many fit the caches.
_DOUBLED: Final = 1 << 17
#: Largest number of parts of a batch that float32 products are computed for; with more, float64 is as fast.
_MOST_PARTS: Final = 16
#: Number of multiplications up to which float64 is as fast.
_SMALL_WORK: Final = 1 << 20
#: Least number of vectors for which dividing a batch into parts is faster.
_MANY_VECTORS: Final = 1 << 11


class ExactSums:
    """Exact integer sums of all parameters' gradients, for one step at a time.

    Args:
        sizes: number of coordinates of each parameter, by name and in order.
        constant: constant input of a bias: the integer for 1.

    The contribution of one row has a norm of at most the grid's ``steps``; the caller calls :meth:`spill` before sums
    could exceed the exact range of a float64.
    """

    def __init__(self, sizes: Mapping[str, int], constant: int) -> None:
        self._sizes, self._constant = dict(sizes), constant
        self._device: Any = None
        # Kept from step to step: allocating memory takes longer than the sums.
        self._narrow_room: dict[str, Tensor] = {}
        self._wide_room: dict[str, Tensor] = {}
        self._double_room: dict[str, Tensor] = {}
        self._bounds: dict[str, float] = {}
        self._wide_used: set[str] = set()
        self._spilled: Tensor | None = None

    def begin(self, device: Any) -> None:
        """Reset all sums to zero, on this device."""
        self._device = device
        self._bounds.clear()
        self._wide_used.clear()
        self._spilled = None

    def add_outer(self, tap: LayerTap, chosen: Outer, *, single: bool) -> None:
        """Add integer outer products and, for a bias, integer output gradients.

        Args:
            tap: the layer.
            chosen: factors of the outer products of the examples to add.
            single: whether float32 matrices are multiplied in float32 (:func:`products_are_single`).
        """
        vectors = chosen.inputs.shape[:2].numel()
        work = vectors * tap.groups * tap.inputs * tap.outputs
        # For a small product float64 is as fast as computing a bound; for few vectors, as several parts.
        narrow = single and work > _SMALL_WORK and chosen.inputs.dtype == chosen.returns.dtype == torch.float32
        bound = self._bound(chosen, tap) if narrow else float("inf")
        # The comparison is also true for a NaN bound.
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
        """Add integer vectors to the rows of an embedding's table."""
        table = self._wide(tap.weight).view(tap.words, tap.outputs)
        for which, some in zip(words.split(_few(vectors)), vectors.split(_few(vectors)), strict=True):
            table.index_add_(0, which.flatten(), self._doubled("returns", some).flatten(0, 1))

    def add(self, name: str, whole: Tensor) -> None:
        """Add integers of any type that are exact in a float64."""
        self._wide(name).add_(whole)

    def spill(self) -> None:
        """Move all sums so far to int64."""
        self._spilled = self.integers()
        self._bounds.clear()
        self._wide_used.clear()

    def integers(self) -> Tensor:
        """Return all sums, concatenated in order of the parameters, as int64."""
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
        """Return a bound on all partial sums of the products, including a bias: max|a| times the largest Σ|b|."""
        back = some.returns.flatten(0, 1)
        if len(back) > _MOST_VECTORS:
            return float("inf")
        low, high = torch.aminmax(some.inputs)
        most = max(float(high), -float(low), self._constant if tap.bias is not None else 0)
        return most * float(back.abs().sum(0).max())

    def _narrow(self, name: str, bound: float) -> Tensor:
        """Return the float32 sum of a parameter, to which partial sums of at most ``bound`` may be added."""
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
        """Return the float64 sum of a parameter."""
        room = _room(self._wide_room, name, self._sizes[name], torch.float64, self._device)
        if name not in self._wide_used:
            self._wide_used.add(name)
            room.zero_()
        return room

    def _add_doubled(self, tap: LayerTap, chosen: Outer) -> None:
        """Add outer products in float64, converting a few examples at a time."""
        few = _few(max(chosen.inputs, chosen.returns, key=lambda each: each.numel()))
        for into, back in zip(chosen.inputs.split(few), chosen.returns.split(few), strict=True):
            some = Outer(self._doubled("inputs", into), self._doubled("returns", back))
            some.add_to(self._wide(tap.weight))
            if tap.bias is not None:
                self._wide(tap.bias).add_(some.returns.sum((0, 1)).flatten(), alpha=self._constant)

    def _doubled(self, name: str, values: Tensor) -> Tensor:
        """Return values as float64, in memory that all layers share."""
        if values.dtype == torch.float64:
            return values
        room = _room(self._double_room, name, values.numel(), torch.float64, values.device)
        return room[: values.numel()].view(values.shape).copy_(values)


def _room(rooms: dict[str, Tensor], name: str, count: int, dtype: Any, device: Any) -> Tensor:
    """Return memory for at least ``count`` numbers, reused for the same name."""
    room = rooms.get(name)
    if room is None or room.numel() < count or room.device != device:
        room = rooms[name] = torch.empty(count, dtype=dtype, device=device)
    return room


def _few(values: Tensor) -> int:
    """Return the number of examples to convert to float64 at a time, with at least 256 positions."""
    each = max(values[0].numel(), 1) if len(values) else 1
    positions = max(values.shape[1], 1)
    return int(max(_DOUBLED // each, -(-256 // positions), 1))
