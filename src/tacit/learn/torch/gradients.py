"""Per-example gradients as integers of bounded norm, and their exact sum.

The gradient of one example is computed in floats by ``torch.func`` (one example per lane of ``vmap``, so examples
cannot affect each other), clipped, and rounded to a public grid. For linear layers, convolutions and embeddings it is
not materialised: the inputs of the layer and the gradients of its outputs are rounded to grids individually
(:mod:`.exact_sums`). Privacy rests on the integers alone: the norm of each integer gradient is checked, and one that is
too long, or not finite, is replaced by zero. So for any floats, one example moves the sum by at most the clip
(:class:`~tacit.learn.torch.exact_sums.GradientGrid`). ``gradients.proof.md`` has the proof, and the assumptions about
the linear algebra library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.learn.integer_rows import Integers
from tacit.learn.torch.exact_sums import (
    ExactSums,
    GradientGrid,
    LayerTap,
    LayerTaps,
    Outer,
    inner_products,
    pair_square,
    product_sum,
    products_are_single,
)
from tacit.learn.torch.examples import KINDS, Examples, Form, Layout, made_up_rows
from tacit.learn.torch.randomness import RowRandomness, made_up_keys
from tacit.learn.torch.recorded_pass import RecordedPass, program_settings, settle
from tacit.learn.torch.torch_import import Tensor, load, torch
from tacit.noise import entropy


class Parameters:
    """Trained parameters of a model, by name and in order.

    Args:
        model: the network.
        names: names of the trained parameters.
    """

    def __init__(self, model: Any, names: list[str]) -> None:
        self.model, self.names = model, names

    def detached(self, *, copied: bool = True) -> dict[str, Tensor]:
        """Return the current values, detached; by default as copies, so that a pass cannot change them."""
        return {name: _value(parameter, copied) for name, parameter in self._trained.items()}

    def others(self, *, copied: bool = True) -> dict[str, Tensor]:
        """Return the values of untrained parameters and of buffers, detached and, by default, copied."""
        return {name: _value(each, copied) for name, each in (self._kept | dict(self.model.named_buffers())).items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of coordinates of each parameter."""
        return {name: parameter.numel() for name, parameter in self._trained.items()}

    @property
    def dimension(self) -> int:
        """Total number of coordinates of the parameters."""
        return sum(self.sizes.values())

    @property
    def device(self) -> Any:
        return next(iter(self._trained.values())).device

    def give(self, gradient: NDArray[np.float64], unit: float) -> None:
        """Set each parameter's ``grad`` to its part of a noisy gradient, given in steps of ``unit``."""
        flat, start = torch.from_numpy(gradient), 0
        # Converted once per device and type, always as a copy, so that the released numbers stay unchanged.
        kinds = {(parameter.device, parameter.dtype) for parameter in self._trained.values()}
        every = {kind: flat.to(device=kind[0], dtype=kind[1], copy=True).mul_(unit) for kind in kinds}
        for parameter in self._trained.values():
            own = every[parameter.device, parameter.dtype][start : start + parameter.numel()]
            parameter.grad = own.view(parameter.shape)
            start += parameter.numel()

    @cached_property
    def _trained(self) -> dict[str, Tensor]:
        # Parameters stay the same objects when a model is moved or loads a state.
        every = dict(self.model.named_parameters())
        return {name: every[name] for name in self.names}

    @cached_property
    def _kept(self) -> dict[str, Tensor]:
        return {name: each for name, each in self.model.named_parameters() if name not in self.names}


def _value(tensor: Tensor, copied: bool) -> Tensor:
    return tensor.detach().clone() if copied else tensor.detach()


@dataclass(frozen=True)
class ForwardPass:
    """Settings of the forward pass that computes the loss of one example.

    Args:
        augment: function that returns a view of the features of one row; None for the row unchanged.
        views: number of views that are averaged.
        half: whether passes are in bfloat16 where autocast allows it. Integers and their norms are computed after the
            passes, independently of this setting.
    """

    augment: Callable[[Tensor], Tensor] | None = None
    views: int = 1
    half: bool = False

    @classmethod
    def checked(cls, augment: Any, views: int, precision: str | None) -> ForwardPass:
        """Return the settings, given a trainer's arguments; refuse invalid ones."""
        count = check_count(views, "views", maximum=1024)
        if augment is not None and not callable(augment):
            raise InputError("augment", "must be a function from the features of one row to another view of them")
        if augment is None and count > 1:
            raise InputError("views", "needs augment, a function that makes another view of a row; else all are equal")
        if precision not in (None, "float32", "bfloat16"):
            raise InputError("precision", 'must be "bfloat16", or left out; float16 would need scaling of losses')
        return cls(augment, count, precision == "bfloat16")

    def features(self, row: Tensor) -> Tensor:
        """Return the input of the network: all views of a row, as a batch."""
        if self.augment is None:
            return row.unsqueeze(0)
        return torch.stack([self.augment(row) for _ in range(self.views)])

    def autocast(self, device: Any) -> Any:
        """Return the autocast context of the pass."""
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.half)


#: Relative margin between the clipped norm and the bound, for the rounding of float norms and of the check.
_SLACK: Final = 2.0**-8
#: Bound on integers in float64, below which they and their sums in any order are exact.
_EXACT: Final = 2.0**52
#: Number of rows after which sums are moved to int64: each row adds at most 2²⁴.
_EXACT_ROWS: Final = 1 << 27
#: Largest count of numbers of a micro-batch, unless its size is given.
_ROOM: Final = 1 << 24
#: Largest count of numbers of a micro-batch where passes are replayed: it fits the caches, and more passes cost little.
_SMALL_ROOM: Final = 1 << 22
#: Largest count of numbers in layers with several positions, and number of rows below which a micro-batch is not
#: divided for it. Such layers compute long per call, so smaller batches take less memory and little more time.
_POSITIONS_ROOM: Final = 1 << 19
_ROWS_ENOUGH: Final = 160
#: Largest number of recordings of a pass, as settings change.
_MOST_RECORDINGS: Final = 4
#: 1/golden ratio: the fractional parts of its multiples are evenly distributed (a low-discrepancy sequence).
_GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True)
class GradientParts:
    """Per-example gradients of a micro-batch, by kind of layer; in floats, or in integers.

    Args:
        outers: factors of the outer products of layers whose gradients are not materialised.
        tables: words and output gradients of embeddings.
        flat: gradients of all remaining parameters, one line per example.
    """

    outers: list[tuple[LayerTap, Outer]]
    tables: list[tuple[LayerTap, Tensor, Tensor]]
    flat: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """Return all tensors, one line per example."""
        factors = (each for _, outer in self.outers for each in (outer.inputs, outer.returns))
        return (*factors, *(each for _, *pair in self.tables for each in pair), self.flat)


@dataclass(frozen=True)
class _Pairs:
    """Inner products of the integer inputs of layers.

    Args:
        lone: squared norm of the input, by layer with one position and example; None without such layers.
        several: products of all pairs of positions, by layer; None for a layer with one position.
    """

    lone: Tensor | None
    several: list[Tensor | None]


class ExampleGradients:
    """Per-example gradients of a loss with respect to a model's trained parameters.

    Args:
        parameters: trained parameters.
        loss: function of the model's output and the targets, for a batch of one.
        clip: norm that gradients are clipped to.
        micro_batch: number of examples per pass, which affects memory and speed only; None to choose it by the network.
        forward: settings of the forward pass.
    """

    def __init__(
        self,
        parameters: Parameters,
        loss: Callable[..., Any],
        clip: float,
        micro_batch: int | None,
        forward: ForwardPass | None = None,
    ) -> None:
        self._parameters, self._loss, self._clip, self._size = parameters, loss, clip, micro_batch
        self._pass = forward or ForwardPass()
        self._func = load("torch.func")
        self._taps: tuple[LayerTap, ...] = ()
        self._looking = True
        self._recorded: RecordedPass | None = None
        self._recordings = 0
        self._form: tuple[Form, ...] = ()
        self._spread: dict[int, Tensor] = {}
        self._columns: dict[Any, Tensor] = {}
        self._singles = False
        # Kept from batch to batch: allocating memory takes longer than most computations in it.
        self._rooms: dict[Any, Tensor] = {}
        self._grid = GradientGrid.of(parameters.dimension)
        self._sums = ExactSums(parameters.sizes, self._grid.inputs)
        self.layout = Layout(micro_batch or 1, tight=False)

    def prepare(self, examples: Examples, usual: int, *, recorded: bool = False) -> None:
        """Find layers to tap and choose micro-batches: rows are packed tightly if positions do not affect results.

        Args:
            examples: examples that determine the form of made-up rows.
            usual: expected number of rows of a sample.
            recorded: whether to record the operations of a pass and replay them, if possible.
        """
        self._looking, self._recorded, self._taps = True, None, self._survey(examples)
        self._form = examples.form or ()
        self._columns.clear()
        self._singles = products_are_single(self._parameters.device)
        kept = (self._parameters.model, self._loss)
        for room in (_SMALL_ROOM, _ROOM) if recorded else (_ROOM,):
            # Two standard deviations more than a sample, so that one pass is usually enough, if memory allows.
            wanted = usual + 2 * int(usual**0.5) + 1
            most = max(min(wanted, 1024, room // self._numbers()), 1)
            if recorded:
                most = min(most, max(_ROWS_ENOUGH, _POSITIONS_ROOM // max(self._numbers_at_positions(), 1)))
            # Batches of equal size, so that few places of the last one stay empty.
            size = self._size or -(-wanted // -(-wanted // most))
            self._looking = True
            self.layout = settle(self._looked, kept, examples, size, usual)
            # From now on passes get copies of buffers; until now a change of a buffer was to be detected.
            self._looking = False
            self._recorded = self._record() if recorded and self._form else None
            if self._recorded is not None:
                return

    def _looked(self, rows: tuple[Tensor, ...], keys: Tensor) -> tuple[Tensor, ...]:
        """Return tensors with one line per row, to test whether its position matters; integers as their sums."""
        parts = self.floats(rows, keys)
        # Rounding to the grid overwrites the flat gradients.
        found = (*parts.tensors()[:-1], parts.flat.clone())
        whole, short = self._integers(parts, keys)
        return (*found, *(each.flatten(1).sum(1) for each in whole.tensors()), short)

    def _record(self) -> RecordedPass | None:
        """Record the operations of a pass over made-up rows; return None if they cannot be recorded."""
        form, size, device = self._form, self.layout.size, self._parameters.device

        def rows() -> tuple[Tensor, ...]:
            return tuple(each.to(device) for each in made_up_rows(form, size))

        self._recordings += 1
        return RecordedPass.of(self._pass_over, self._values(copied=True), rows, self._program)

    def _program(self) -> tuple[Any, ...]:
        """Return the settings that determine the operations of a pass."""
        return program_settings(self._parameters.model, self._loss, self._pass.augment)

    def _check_recorded(self) -> None:
        """Record anew if a setting of the program changed; return to torch.func if it changes undetected, or often."""
        if self._recorded is None:
            return
        holds = self._recorded.holds(self._program(), lambda: self._values(copied=True))
        if not holds:
            again = holds is not None and self._recordings < _MOST_RECORDINGS
            self._recorded = self._record() if again else None

    def raw_sum(self, examples: Examples, chosen: NDArray[np.intp]) -> Integers:
        """Return the exact sum of the chosen examples' integer gradients; one example moves it by at most the clip.

        For each chosen row a key is drawn, which determines the random numbers of its layers.
        """
        self._check_recorded()
        self._singles = products_are_single(self._parameters.device)
        keys = torch.from_numpy(entropy.current().words(len(chosen)).view(np.int64))
        self._sums.begin(self._parameters.device)
        rows = 0
        for taken, batch, own in examples.batches(chosen, self.layout, keys):
            if rows + len(taken) > _EXACT_ROWS:
                self._sums.spill()
                rows = 0
            rows += len(taken)
            self._add(taken, batch, own)
        raw: Integers = self._sums.integers().cpu().numpy()
        return raw

    def _add(self, taken: Tensor, batch: tuple[Tensor, ...], keys: Tensor) -> None:
        """Add the sum of a batch; if the pass raises, add its rows individually, and nothing for rows that raise.

        A row with a class without an output, or with a word outside of the table, must neither be revealed by an error
        nor affect the remaining rows.
        """
        try:
            parts = self.floats(batch, keys)
        except (MemoryError, torch.OutOfMemoryError):
            # Memory depends on the shape of a batch alone, which is always the same.
            raise
        except Exception:
            if len(taken) > 1:
                for place in taken.split(1):
                    # The same shape and the same place as before, so the same bits.
                    self._add(place, tuple(_only(each, place) for each in batch), keys)
            return
        self.add(taken, parts, keys)

    def _room(self, name: Any, shape: Any, dtype: Any, device: Any) -> Tensor:
        """Return an uninitialised tensor, reused for the same name, shape, type and device."""
        room = self._rooms.get(name)
        if room is None or room.shape != shape or room.dtype != dtype or room.device != device:
            room = self._rooms[name] = torch.empty(shape, dtype=dtype, device=device)
        return room

    def summed(self, taken: Tensor, parts: GradientParts, keys: Tensor) -> Tensor:
        """Return the sum of the integer gradients at the places ``taken``, as int64."""
        self._sums.begin(self._parameters.device)
        self.add(taken, parts, keys)
        return self._sums.integers()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def add(self, taken: Tensor, parts: GradientParts, keys: Tensor) -> None:
        """Add the integer gradients at the places ``taken`` exactly to the sum of this step."""
        whole, short = self._integers(parts, keys)
        # Dropped gradients may be infinite, and infinity times 0 is NaN: so they are left out, not multiplied by 0.
        kept = _places(taken, short)
        for tap, outer in whole.outers:
            self._sums.add_outer(tap, Outer(outer.inputs[kept], outer.returns[kept]), single=self._singles)
        for tap, words, back in whole.tables:
            self._sums.add_rows(tap, words[kept], back[kept])
        if whole.flat.shape[1]:
            names, sizes = zip(*self._flat_parts, strict=True)
            for name, piece in zip(names, whole.flat[kept].sum(0).split(list(sizes)), strict=True):
                self._sums.add(name, piece)

    def _integers(self, parts: GradientParts, keys: Tensor) -> tuple[GradientParts, Tensor]:
        """Return each example's integer gradient, and whether its norm was verified to be at most the clip."""
        # A uniform number in [0, 1) for each row: the low 24 bits of its key.
        shifts = (keys.to(parts.flat.device) & ((1 << 24) - 1)).to(parts.flat.dtype).mul_(2.0**-24)
        # Inputs are rounded first, so that gradients are clipped by norms with the rounded inputs.
        inputs = [self._whole((0, tap.weight), outer.inputs, self._grid.inputs, shifts) for tap, outer in parts.outers]
        taps = [tap for tap, _ in parts.outers]
        pairs = self._pairs(taps, inputs, single=True)
        square = _squares(parts.flat)
        if pairs.lone is not None:
            found = [outer.returns for tap, outer in parts.outers if tap.lone]
            square += (_lengths(found).square_() * pairs.lone).sum(0) / self._grid.inputs**2
        for (_, outer), pair in zip(parts.outers, pairs.several, strict=True):
            if pair is not None:
                square += product_sum(inner_products(outer.returns), pair) / self._grid.inputs**2
        for _, words, back in parts.tables:
            square += pair_square(words, back)
        norms = square.sqrt_()
        aim = self._aim(taps, pairs, norms) / norms.clamp(min=self._clip)
        narrow = aim.to(parts.flat.dtype)
        small = narrow[:, None, None, None] / self._grid.inputs
        returns = [self._whole((1, tap.weight), outer.returns, small, shifts) for tap, outer in parts.outers]
        outers = [(tap, Outer(*pair)) for tap, *pair in zip(taps, inputs, returns, strict=True)]
        tables = [
            (tap, words, (back * narrow.to(back.dtype)[:, None, None]).round_()) for tap, words, back in parts.tables
        ]
        flat = parts.flat.mul_(narrow[:, None]).to(torch.int32)
        whole = GradientParts(outers, tables, flat)
        finite = torch.isfinite(norms)
        short = self._short(whole, pairs, single=True)
        if bool((finite & ~short).any()):
            # The check in float32 allows for more rounding, and may be too strict where positions nearly cancel.
            short |= self._short(whole, self._pairs(taps, inputs, single=False), single=False)
        return whole, finite & short

    def _pairs(self, taps: list[LayerTap], inputs: list[Tensor], *, single: bool) -> _Pairs:
        """Return inner products of the layers' integer inputs, including the constant input of a bias.

        Args:
            taps: tapped layers.
            inputs: integer inputs of each layer.
            single: whether to compute in float32 where a layer's shape allows it.
        """
        given = [
            each if single and self._single(tap) else each.double() for tap, each in zip(taps, inputs, strict=True)
        ]
        lone = None
        if any(tap.lone for tap in taps):
            lone = _lengths([each for tap, each in zip(taps, given, strict=True) if tap.lone]).square_()
            lone += self._numbers_of("constants", taps, lambda tap: _constant(tap, self._grid.inputs), lone)
        several = [
            None if tap.lone else inner_products(each, _constant(tap, self._grid.inputs))
            for tap, each in zip(taps, given, strict=True)
        ]
        return _Pairs(lone, several)

    def _numbers_of(self, name: Any, taps: list[LayerTap], number: Callable[[LayerTap], float], like: Tensor) -> Tensor:
        """Return a number for each layer with one position, as a float64 column, cached by ``name``."""
        found = self._columns.get(name)
        if found is None or found.device != like.device:
            column = [[number(tap)] for tap in taps if tap.lone]
            found = self._columns[name] = torch.tensor(column, dtype=torch.float64, device=like.device)
        return found

    def _single(self, tap: LayerTap) -> bool:
        """Return whether float32 is precise enough for the check of a layer, unless its positions nearly cancel."""
        return self._singles and tap.positions * _rounding(tap, torch.float32) <= _SLACK

    def _whole(self, name: Any, values: Tensor, scale: float | Tensor, shifts: Tensor) -> Tensor:
        """Return ``values`` times ``scale``, rounded to integers without bias: rounded down after adding an offset.

        Offsets in [0, 1) are evenly distributed over a row and shifted by a random number per row. If all values of a
        row are below one grid step, rounding to the nearest would make all of them zero.
        """
        count = values[0].numel()
        spread = self._spread.get(count)
        if spread is None or spread.dtype != values.dtype or spread.device != values.device:
            places = torch.arange(count, dtype=torch.float64, device=values.device).mul_(_GOLDEN).frac_()
            spread = self._spread[count] = places.to(values.dtype)
        shifted = shifts.to(values.dtype).view(-1, *(1,) * (values.dim() - 1))
        added = self._room(name, values.shape, values.dtype, values.device)
        torch.add(spread.view(1, *values.shape[1:]), shifted, out=added).frac_()
        added = added.addcmul_(values, scale) if isinstance(scale, torch.Tensor) else added.add_(values, alpha=scale)
        return added.floor_()

    def _aim(self, taps: list[LayerTap], pairs: _Pairs, norms: Tensor) -> Tensor:
        """Return the norm to clip to, in steps: the bound, reduced by what rounding may add to the norm."""
        across, along = torch.zeros((2, len(norms)), dtype=torch.float64, device=norms.device)
        if pairs.lone is not None:
            along += pairs.lone.sum(0)
            across += (self._numbers_of("outputs", taps, lambda tap: tap.outputs * 0.375, norms) * pairs.lone).sum(0)
        for tap, pair in zip(taps, pairs.several, strict=True):
            if pair is not None:
                length = pair.diagonal(dim1=2, dim2=3).double().sum((1, 2))
                along += length
                across += length * (tap.outputs * 0.375)
        bound = self._grid.steps * (1 - _SLACK)
        # Each rounding error is below 1, with a standard deviation of at most a half; four of these are allowed for.
        # A row whose inputs are too large for this margin is mostly dropped, which depends on that row alone.
        return ((bound**2 - across).clamp_(min=bound**2 / 4).sqrt_() - 2 * along.sqrt_()).clamp_(min=bound / 2)

    def _short(self, whole: GradientParts, pairs: _Pairs, *, single: bool) -> Tensor:
        """Return whether each example's norm is proven to be at most the clip, and its sums of products to be exact.

        Args:
            whole: integer gradients.
            pairs: inner products of the inputs of outer products, in the type to compute in.
            single: whether to compute in float32 where a layer's shape allows it.
        """
        square, most = _squares(whole.flat), _EXACT / self.layout.size
        fits = torch.ones_like(square, dtype=torch.bool)
        if pairs.lone is not None:
            taps, lone = [tap for tap, _ in whole.outers], [(tap, outer) for tap, outer in whole.outers if tap.lone]
            found = [outer.returns if single and self._single(tap) else outer.returns.double() for tap, outer in lone]
            # ‖input‖²·‖return‖² is the square of the norm, and no partial sum of products is larger than its root.
            squares = _lengths(found).square_().mul_(pairs.lone)
            fits &= (squares <= most**2).all(0)
            allowed = self._numbers_of(
                ("allowed", single, self._singles),
                taps,
                lambda tap: 1 + _rounding(tap, torch.float32 if single and self._single(tap) else torch.float64),
                square,
            )
            square += squares.mul_(allowed).sum(0)
        for (tap, outer), pair in zip(whole.outers, pairs.several, strict=True):
            if pair is None:
                continue
            back = inner_products(outer.returns.to(pair.dtype))
            # Σ ‖input‖·‖return‖ over positions: no partial sum of an example's products is larger.
            into, out = (each.diagonal(dim1=2, dim2=3).double() for each in (pair, back))
            lengths = (into * out).sqrt_().sum((1, 2))
            fits &= lengths <= most
            square += lengths.square_().mul_(_rounding(tap, pair.dtype))
            square += product_sum(back, pair)
        for tap, words, back in whole.tables:
            vectors = back if single and self._single(tap) else back.double()
            square += pair_square(words, vectors)
            lengths = torch.linalg.vector_norm(vectors, dim=2).double().sum(1)
            fits &= lengths <= most
            square += lengths.square_().mul_(_rounding(tap, vectors.dtype))
        return fits & (square <= self._grid.longest)

    def floats(self, batch: tuple[Tensor, ...], keys: Tensor) -> GradientParts:
        """Return the per-example gradients of a batch, as floats, before clipping."""
        moved, keys = tuple(each.to(self._parameters.device) for each in batch), keys.to(self._parameters.device)
        if self._recorded is not None:
            found = self._recorded.run(self._values(copied=self._recorded.writes), moved, keys)
        else:
            passed = self._pass_over(self._values(copied=True), moved, keys)
            # A network may hold tensors that require gradients and are not trained.
            found = [value.detach() for value in passed]
        names = ([tap.weight for tap in self._taps], self._loose, [tap.weight for tap in self._taps])
        every = iter(found)
        returns, direct, inputs = ({name: next(every) for name in part} for part in names)
        parts: GradientParts = self._parts(inputs, returns, direct, len(moved[0]))
        return parts

    def _values(self, *, copied: bool) -> dict[str, Tensor]:
        """Return the values of all parameters and buffers that a pass reads."""
        others = {} if self._looking else self._parameters.others(copied=copied)
        return self._parameters.detached(copied=copied) | others

    @property
    def _loose(self) -> list[str]:
        """Names of the parameters that belong to no tapped layer."""
        tapped = {name for tap in self._taps for name in tap.parameters}
        return [name for name in self._parameters.names if name not in tapped]

    def _pass_over(self, values: dict[str, Tensor], rows: tuple[Tensor, ...], keys: Tensor) -> list[Tensor]:
        """Return output gradients of tapped layers, gradients of the remaining parameters, inputs of tapped layers."""
        others = dict(values)
        loose = {name: others.pop(name) for name in self._loose}
        held = {name: others.pop(name) for name in self._parameters.names if name not in loose}
        nudges = {
            tap.weight: torch.zeros(tap.output, dtype=held[tap.weight].dtype, device=held[tap.weight].device)
            for tap in self._taps
        }
        one = self._func.grad(partial(self._one, held, others), argnums=(0, 1), has_aux=True)
        try:
            # Randomness that bypasses RowRandomness is refused by PyTorch itself.
            each = self._func.vmap(one, in_dims=(None, None, 0, 0), randomness="error")
            (returns, direct), inputs = each(nudges, loose, rows, keys)
        except RuntimeError as problem:
            if "randomness" in str(problem):
                raise InputError(
                    "model", "has a layer whose random numbers cannot be tied to one row; use torch.nn.Dropout"
                ) from problem
            if any(word in str(problem) for word in ("vmap", "torch.func", "functorch")):
                raise InputError(
                    "model", "has a layer that torch.func cannot differentiate example by example; replace that layer"
                ) from problem
            raise
        weights = [tap.weight for tap in self._taps]
        return [*(returns[name] for name in weights), *direct.values(), *(inputs[name] for name in weights)]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _parts(
        self, inputs: dict[str, Tensor], returns: dict[str, Tensor], direct: dict[str, Tensor], count: int
    ) -> GradientParts:
        outers, tables = [], []
        for tap in self._taps:
            into, back = tap.arrange(*(_widened(each[tap.weight]) for each in (inputs, returns)))
            if tap.words:
                tables.append((tap, into, back))
                continue
            outer = Outer(into, back)
            if tap.materialised:
                direct[tap.weight] = outer.each()
                if tap.bias is not None:
                    direct[tap.bias] = back.sum(1)
            else:
                outers.append((tap, outer))
        flat = [direct[name].reshape(count, -1) for name, _ in self._flat_parts]
        joined = torch.cat(flat, dim=1) if flat else torch.zeros(count, 0, device=self._parameters.device)
        return GradientParts(outers, tables, joined if joined.dtype == torch.float64 else joined.float())

    def _one(
        self,
        held: dict[str, Tensor],
        others: dict[str, Tensor],
        nudges: dict[str, Tensor],
        loose: dict[str, Tensor],
        example: tuple[Tensor, ...],
        key: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        taps = LayerTaps(held, nudges)
        return self._lost(held | loose | others, example, key, taps), taps.inputs

    def _lost(self, values: dict[str, Tensor], example: tuple[Tensor, ...], key: Tensor, taps: LayerTaps) -> Tensor:
        """Return the loss of one example, averaged over its views."""
        with RowRandomness(key, taps), self._pass.autocast(self._parameters.device):
            output = self._func.functional_call(self._parameters.model, values, (self._pass.features(example[0]),))
            targets = tuple(each.unsqueeze(0) for each in example[1:])
            # View by view, so that a loss with reduction="sum" and one with "mean" are both averaged here.
            views = output.split(1) if self._pass.views > 1 else (output,)
            lost: Tensor = sum(self._loss(view, *targets).sum() for view in views) / len(views)
        return lost

    def _survey(self, examples: Examples) -> tuple[LayerTap, ...]:
        """Return the layers to tap: those whose parameters are used in one call only, as observed on a made-up row."""
        for kind in range(KINDS):
            row = examples.made_up(1, kind)
            if row is None:
                return ()
            held = {name: value.requires_grad_() for name, value in self._parameters.detached().items()}
            taps = LayerTaps(held, None)
            moved = tuple(each[0].to(self._parameters.device) for each in row)
            try:
                with torch.enable_grad():
                    lost = self._lost(held, moved, made_up_keys(1)[0].to(self._parameters.device), taps)
                elsewhere = (
                    torch.autograd.grad(lost, list(held.values()), allow_unused=True)
                    if lost.requires_grad
                    else [None] * len(held)
                )
            except Exception:  # noqa: S112 - another kind may do; if none does, settle() says so
                continue
            used = [name for tap in taps.found for name in tap.parameters]
            used += [name for name, found in zip(held, elsewhere, strict=True) if found is not None]
            return tuple(tap for tap in taps.found if all(used.count(name) == 1 for name in tap.parameters))
        return ()

    @property
    def _flat_parts(self) -> list[tuple[str, int]]:
        """Names and sizes of the parameters whose gradients are materialised, in order."""
        hidden = {name for tap in self._taps if not tap.materialised for name in tap.parameters}
        return [(name, size) for name, size in self._parameters.sizes.items() if name not in hidden]

    def _numbers(self) -> int:
        """Return the count of numbers in memory per example."""
        return sum(tap.numbers for tap in self._taps) + sum(size for _, size in self._flat_parts)

    def _numbers_at_positions(self) -> int:
        """Return the count of numbers in memory per example, of layers with several positions."""
        return sum(tap.numbers for tap in self._taps if not tap.lone)


def _widened(values: Tensor) -> Tensor:
    """Return bfloat16 and float16 values as float32, before rounding to a grid; any other type unchanged."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def _places(taken: Tensor, short: Tensor) -> Any:
    """Return the places in ``taken`` whose gradients are ``short``, as a slice if they are the first ones (no copy)."""
    places = taken.cpu().numpy()
    kept = places[short.cpu().numpy()[places]]
    count = len(kept)
    # Increasing places are the first ones if the last of them is count - 1.
    if not count or (kept[-1] == count - 1 and bool((kept[1:] > kept[:-1]).all())):
        return slice(0, count)
    return torch.from_numpy(kept).to(short.device)


def _only(rows: Tensor, place: Tensor) -> Tensor:
    kept = torch.zeros_like(rows)
    kept[place.to(rows.device)] = rows[place.to(rows.device)]
    return kept


def _lengths(vectors: list[Tensor]) -> Tensor:
    """Return the norm of each example's vector, by layer, as float64: (layers, examples)."""
    return torch.stack([torch.linalg.vector_norm(each.flatten(1), dim=1) for each in vectors]).double()


def _constant(tap: LayerTap, inputs: int) -> float:
    """Return the contribution of a bias to an inner product of inputs, where ``inputs`` steps are 1."""
    return float(inputs**2) if tap.bias is not None else 0.0


def _rounding(tap: LayerTap, dtype: Any) -> float:
    """Return a bound on the rounding error of a squared norm, relative to (Σ ‖input‖·‖return‖)²; see the proof."""
    added = tap.groups * tap.positions * torch.finfo(torch.float64).eps
    return float((2 * tap.positions + tap.inputs + tap.outputs + 8) * torch.finfo(dtype).eps + added)


def _squares(flat: Tensor) -> Tensor:
    """Return the square of each row's norm, as float64; computed in pieces to save memory."""
    total = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
    for piece in flat.split(1 << 12, dim=1) if flat.shape[1] else ():
        total += piece.double().square_().sum(1)
    return total
