"""Per-example gradients as integers of bounded norm, and their exact sum.

The gradient of one example is computed in floats by ``torch.func`` (one example per lane of ``vmap``, so no layer can
see another), shortened to the clip, and put on a public grid. For linear layers, convolutions and embeddings it is not
materialised: what went in and what came back are put on grids by themselves (:mod:`.exact_sums`). The part that
counts for privacy happens afterwards, in integers: the norm of what is added is checked, and a gradient that is too
long, or not finite, is replaced by zero. So whatever the floats did, one example moves the sum by at most
the clip (:class:`~tacit.learn.torch.exact_sums.GradientGrid`). ``gradients.proof.md`` has the argument, and says what
is assumed of the linear algebra library.
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
    """Some parameters of a model, by name and in order.

    Args:
        model: the network.
        names: of the parameters that are trained.
    """

    def __init__(self, model: Any, names: list[str]) -> None:
        self.model, self.names = model, names

    def detached(self, *, copied: bool = True) -> dict[str, Tensor]:
        """Their values now, outside of any graph, as copies: what a pass over rows does to them is forgotten."""
        return {name: _value(parameter, copied) for name, parameter in self._trained.items()}

    def others(self, *, copied: bool = True) -> dict[str, Tensor]:
        """The parameters that are not trained, and the buffers; as copies likewise."""
        return {name: _value(each, copied) for name, each in (self._kept | dict(self.model.named_buffers())).items()}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Count of numbers of each."""
        return {name: parameter.numel() for name, parameter in self._trained.items()}

    @property
    def dimension(self) -> int:
        """Total number of parameters."""
        return sum(self.sizes.values())

    @property
    def device(self) -> Any:
        """Device of the parameters."""
        return next(iter(self._trained.values())).device

    def give(self, gradient: NDArray[np.float64], unit: float) -> None:
        """Give each its part of a noisy gradient, which is in steps of ``unit``."""
        flat, start = torch.from_numpy(gradient), 0
        # Converted at once for all parameters of a kind; a copy in any case, so that what was released stays unchanged.
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
    """Settings of the pass that computes the loss of one example.

    Args:
        augment: makes a view of the features of one row; None for the row unchanged.
        views: how many views are averaged.
        half: whether passes are in bfloat16 where autocast allows it. Whole numbers are made, and their norm checked,
            after the passes and as ever.
    """

    augment: Callable[[Tensor], Tensor] | None = None
    views: int = 1
    half: bool = False

    @classmethod
    def checked(cls, augment: Any, views: int, precision: str | None) -> ForwardPass:
        """The settings as a trainer takes them."""
        count = check_count(views, "views", maximum=1024)
        if augment is not None and not callable(augment):
            raise InputError("augment", "must be a function from the features of one row to another view of them")
        if augment is None and count > 1:
            raise InputError("views", "needs augment, a function that makes another view of a row; else all are equal")
        if precision not in (None, "float32", "bfloat16"):
            raise InputError("precision", 'must be "bfloat16", or left out; float16 would need scaling of losses')
        return cls(augment, count, precision == "bfloat16")

    def features(self, row: Tensor) -> Tensor:
        """Input of the network: all views of a row, as a batch."""
        if self.augment is None:
            return row.unsqueeze(0)
        return torch.stack([self.augment(row) for _ in range(self.views)])

    def autocast(self, device: Any) -> Any:
        """Context of the pass."""
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.half)


#: Gradients are shortened to this much below the bound, for the rounding of their float norms and that of the check.
_SLACK: Final = 2.0**-8
#: Whole numbers up to here are exact in a float64, and so are their sums in any order.
_EXACT: Final = 2.0**52
#: Rows whose sums stay below that beside those of a micro-batch: each adds at most 2²⁴.
_EXACT_ROWS: Final = 1 << 27
#: Numbers of a micro-batch together, unless another size is asked for.
_ROOM: Final = 1 << 24
#: The same where passes are replayed, which costs little for each of them: what is computed stays in the caches.
_SMALL_ROOM: Final = 1 << 22
#: The same for layers with several positions. Their work is long beside the calls for it, so smaller batches take less
#: memory and little more time; but batches of so many rows are never divided.
_POSITIONS_ROOM: Final = 1 << 19
_ROWS_ENOUGH: Final = 160
#: Most recordings of a pass, as settings change.
_MOST_RECORDINGS: Final = 4
#: Fractions of multiples of this number are spread evenly.
_GOLDEN: Final = 0.6180339887498949


@dataclass(frozen=True)
class GradientParts:
    """Gradients of a micro-batch in parts: as floats, or as whole numbers.

    Args:
        outers: outer products of layers that are not materialised.
        tables: words and what came back, of embeddings.
        flat: all other gradients, one row per example.
    """

    outers: list[tuple[LayerTap, Outer]]
    tables: list[tuple[LayerTap, Tensor, Tensor]]
    flat: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, one row per example."""
        factors = (each for _, outer in self.outers for each in (outer.inputs, outer.returns))
        return (*factors, *(each for _, *pair in self.tables for each in pair), self.flat)


@dataclass(frozen=True)
class _Pairs:
    """Inner products of the whole numbers that go into layers.

    Args:
        lone: the square of the norm for each layer with one position, and each example; None without such layers.
        several: products of all pairs of positions, for every other layer.
    """

    lone: Tensor | None
    several: list[Tensor | None]


class ExampleGradients:
    """The gradients of a loss with respect to some parameters of a model, example by example.

    Args:
        parameters: what is trained.
        loss: of the model's output and the targets, for a batch of one.
        clip: the norm that gradients are shortened to.
        micro_batch: how many examples are looked at together; this changes memory and speed and nothing else. None for
            as many as suits the network.
        forward: how the loss of an example is computed.
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
        # Kept from batch to batch: fresh memory takes longer to come by than most of what is computed in it.
        self._rooms: dict[Any, Tensor] = {}
        self._grid = GradientGrid.of(parameters.dimension)
        self._sums = ExactSums(parameters.sizes, self._grid.inputs)
        self.layout = Layout(micro_batch or 1, tight=False)

    def prepare(self, examples: Examples, usual: int, *, recorded: bool = False) -> None:
        """Before the first step: find layers to tap, and pack rows tightly if places are seen not to matter.

        Args:
            examples: whose form made-up rows have.
            usual: how many rows a sample has.
            recorded: whether to record the operations of a pass and replay them, if they can be.
        """
        self._looking, self._recorded, self._taps = True, None, self._survey(examples)
        self._form = examples.form or ()
        self._columns.clear()
        self._singles = products_are_single(self._parameters.device)
        kept = (self._parameters.model, self._loss)
        for room in (_SMALL_ROOM, _ROOM) if recorded else (_ROOM,):
            # Room for a sample and then some, so that one pass is usually enough, if there is so much memory.
            wanted = usual + 2 * int(usual**0.5) + 1
            most = max(min(wanted, 1024, room // self._numbers()), 1)
            if recorded:
                most = min(most, max(_ROWS_ENOUGH, _POSITIONS_ROOM // max(self._numbers_at_positions(), 1)))
            # Evenly, so that few places of the last batch stay empty.
            size = self._size or -(-wanted // -(-wanted // most))
            self._looking = True
            self.layout = settle(self._looked, kept, examples, size, usual)
            # From now on what a pass does to buffers and parameters is forgotten; until now it was looked at.
            self._looking = False
            self._recorded = self._record() if recorded and self._form else None
            if self._recorded is not None:
                return

    def _looked(self, rows: tuple[Tensor, ...], keys: Tensor) -> tuple[Tensor, ...]:
        """Tensors computed of each row, for looking whether its place matters; of whole numbers their exact sums."""
        parts = self.floats(rows, keys)
        # Putting them on a grid overwrites the flat ones.
        found = (*parts.tensors()[:-1], parts.flat.clone())
        whole, short = self._integers(parts, keys)
        return (*found, *(each.flatten(1).sum(1) for each in whole.tensors()), short)

    def _record(self) -> RecordedPass | None:
        """The operations of a pass over made-up rows, or None where they cannot be recorded."""
        form, size, device = self._form, self.layout.size, self._parameters.device

        def rows() -> tuple[Tensor, ...]:
            return tuple(each.to(device) for each in made_up_rows(form, size))

        self._recordings += 1
        return RecordedPass.of(self._pass_over, self._values(copied=True), rows, self._program)

    def _program(self) -> tuple[Any, ...]:
        """Settings that decide which operations a pass consists of."""
        return program_settings(self._parameters.model, self._loss, self._pass.augment)

    def _check_recorded(self) -> None:
        """Record anew if a setting of the program changed; run it by torch.func if it changes unseen, or often."""
        if self._recorded is None:
            return
        holds = self._recorded.holds(self._program(), lambda: self._values(copied=True))
        if not holds:
            again = holds is not None and self._recordings < _MOST_RECORDINGS
            self._recorded = self._record() if again else None

    def raw_sum(self, examples: Examples, chosen: NDArray[np.intp]) -> Integers:
        """The sum of the chosen examples' integer gradients, exactly; none moves it by more than the clip.

        Each chosen row draws a key, by which its random layers draw.
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
        """Add the sum of a batch; if it raises, of its rows one by one, and nothing for those that raise.

        A class that the network has no output for, a word outside of the table: which rows hold such values is not to
        be seen by an error, nor may it take the other rows with it.
        """
        try:
            parts = self.floats(batch, keys)
        except (MemoryError, torch.OutOfMemoryError):
            # That is up to the shape of a batch, which is always the same.
            raise
        except Exception:
            if len(taken) > 1:
                for place in taken.split(1):
                    # The same shape and the same place as before, so the same bits.
                    self._add(place, tuple(_only(each, place) for each in batch), keys)
            return
        self.add(taken, parts, keys)

    def _room(self, name: Any, shape: Any, dtype: Any, device: Any) -> Tensor:
        """A tensor to write to; the same one whenever it is asked for by this name and form."""
        room = self._rooms.get(name)
        if room is None or room.shape != shape or room.dtype != dtype or room.device != device:
            room = self._rooms[name] = torch.empty(shape, dtype=dtype, device=device)
        return room

    def summed(self, taken: Tensor, parts: GradientParts, keys: Tensor) -> Tensor:
        """The sum of the integer gradients at the places that are taken, as int64."""
        self._sums.begin(self._parameters.device)
        self.add(taken, parts, keys)
        return self._sums.integers()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def add(self, taken: Tensor, parts: GradientParts, keys: Tensor) -> None:
        """Add the integer gradients at the places that are taken to the sum of this step, exactly."""
        whole, short = self._integers(parts, keys)
        # What is dropped may be infinite, and an infinity times 0 is no number: it does not take part at all.
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
        """Whole numbers for each example, and whether they are checked to have a norm of at most the clip together."""
        # A uniform number in [0, 1) for each row: digits of its key.
        shifts = (keys.to(parts.flat.device) & ((1 << 24) - 1)).to(parts.flat.dtype).mul_(2.0**-24)
        # Inputs first: the norms that gradients are shortened by are those with the inputs that will be used.
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
        """Inner products of the whole numbers that go into layers, with the constant of a bias.

        Args:
            taps: the layers.
            inputs: of each.
            single: whether float32 will do, where it is enough by the shape of a layer.
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
        """A number for each layer with one position, as a column."""
        found = self._columns.get(name)
        if found is None or found.device != like.device:
            column = [[number(tap)] for tap in taps if tap.lone]
            found = self._columns[name] = torch.tensor(column, dtype=torch.float64, device=like.device)
        return found

    def _single(self, tap: LayerTap) -> bool:
        """Whether float32 is enough for the check of a layer, if what its positions add is not nearly cancelled."""
        return self._singles and tap.positions * _rounding(tap, torch.float32) <= _SLACK

    def _whole(self, name: Any, values: Tensor, scale: float | Tensor, shifts: Tensor) -> Tensor:
        """Whole numbers near values times a scale: rounded down after adding numbers in [0, 1).

        The numbers are spread evenly over a row and shifted for each row. All values of a row may be less than a step
        of the grid; rounded to the nearest, all of them would vanish, and so each of them is right on average.
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
        """The norm to shorten to, in steps: below the bound by what rounding of returns may add."""
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
        # Each number is off by less than 1, with a standard deviation of at most a half; four of them are allowed for.
        # A row of inputs so large that this is not enough is mostly dropped, by its own doing.
        return ((bound**2 - across).clamp_(min=bound**2 / 4).sqrt_() - 2 * along.sqrt_()).clamp_(min=bound / 2)

    def _short(self, whole: GradientParts, pairs: _Pairs, *, single: bool) -> Tensor:
        """Whether the norm is at most the clip, and every sum of products is exact: rounding is allowed for.

        Args:
            whole: the whole numbers.
            pairs: inner products of the inputs of outer products, in the type to compute in.
            single: whether float32 will do, where it is enough by the shape of a layer.
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
        """The gradients as they come."""
        moved, keys = tuple(each.to(self._parameters.device) for each in batch), keys.to(self._parameters.device)
        if self._recorded is not None:
            found = self._recorded.run(self._values(copied=self._recorded.writes), moved, keys)
        else:
            passed = self._pass_over(self._values(copied=True), moved, keys)
            # A network may hold tensors that want gradients and are not trained.
            found = [value.detach() for value in passed]
        names = ([tap.weight for tap in self._taps], self._loose, [tap.weight for tap in self._taps])
        every = iter(found)
        returns, direct, inputs = ({name: next(every) for name in part} for part in names)
        parts: GradientParts = self._parts(inputs, returns, direct, len(moved[0]))
        return parts

    def _values(self, *, copied: bool) -> dict[str, Tensor]:
        """Values of all parameters and buffers that a pass reads."""
        others = {} if self._looking else self._parameters.others(copied=copied)
        return self._parameters.detached(copied=copied) | others

    @property
    def _loose(self) -> list[str]:
        """Names of the parameters that belong to no tapped layer."""
        tapped = {name for tap in self._taps for name in tap.parameters}
        return [name for name in self._parameters.names if name not in tapped]

    def _pass_over(self, values: dict[str, Tensor], rows: tuple[Tensor, ...], keys: Tensor) -> list[Tensor]:
        """Returns of each tapped layer, gradients of all other parameters, inputs of each tapped layer."""
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
        """The loss of one example."""
        with RowRandomness(key, taps), self._pass.autocast(self._parameters.device):
            output = self._func.functional_call(self._parameters.model, values, (self._pass.features(example[0]),))
            targets = tuple(each.unsqueeze(0) for each in example[1:])
            # View by view, so that a loss that adds up and one that averages are both averaged here.
            views = output.split(1) if self._pass.views > 1 else (output,)
            lost: Tensor = sum(self._loss(view, *targets).sum() for view in views) / len(views)
        return lost

    def _survey(self, examples: Examples) -> tuple[LayerTap, ...]:
        """The layers to tap: each of their parameters is used in one call and nowhere else, seen on a made-up row."""
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
        """Count of numbers that one example needs at a time."""
        return sum(tap.numbers for tap in self._taps) + sum(size for _, size in self._flat_parts)

    def _numbers_at_positions(self) -> int:
        """Count of those of layers with several positions."""
        return sum(tap.numbers for tap in self._taps if not tap.lone)


def _widened(values: Tensor) -> Tensor:
    """Numbers of half a word as float32, before they are put on a grid; words and all others as they are."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def _places(taken: Tensor, short: Tensor) -> Any:
    """The places that are taken and short; as a slice where these are the first ones, so that nothing is copied."""
    places = taken.cpu().numpy()
    kept = places[short.cpu().numpy()[places]]
    count = len(kept)
    # Increasing places, so that the first ones are those whose last is the count.
    if not count or (kept[-1] == count - 1 and bool((kept[1:] > kept[:-1]).all())):
        return slice(0, count)
    return torch.from_numpy(kept).to(short.device)


def _only(rows: Tensor, place: Tensor) -> Tensor:
    kept = torch.zeros_like(rows)
    kept[place.to(rows.device)] = rows[place.to(rows.device)]
    return kept


def _lengths(vectors: list[Tensor]) -> Tensor:
    """Norms of one vector for each example, of several layers, as float64: (layers, examples)."""
    return torch.stack([torch.linalg.vector_norm(each.flatten(1), dim=1) for each in vectors]).double()


def _constant(tap: LayerTap, inputs: int) -> float:
    """Part of a bias in an inner product of inputs, of so many steps for 1."""
    return float(inputs**2) if tap.bias is not None else 0.0


def _rounding(tap: LayerTap, dtype: Any) -> float:
    """Bound on what rounding adds to the square of a norm, beside (Σ ‖input‖·‖return‖)²; see the proof."""
    added = tap.groups * tap.positions * torch.finfo(torch.float64).eps
    return float((2 * tap.positions + tap.inputs + tap.outputs + 8) * torch.finfo(dtype).eps + added)


def _squares(flat: Tensor) -> Tensor:
    """The square of each row's norm, as float64; in pieces, because float64 may take twice the memory of all rows."""
    total = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
    for piece in flat.split(1 << 12, dim=1) if flat.shape[1] else ():
        total += piece.double().square_().sum(1)
    return total
