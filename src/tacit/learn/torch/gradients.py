"""Per-example gradients as integers of bounded norm, and their exact sum.

The gradient of one example is computed in floats by ``torch.func`` (one example per lane of ``vmap``, so no layer can
see another), shortened to the clip, and put on a public grid. For linear layers, convolutions and embeddings it is not
materialised: what went in and what came back are put on grids by themselves (:mod:`.layer_factors`). The part that
counts for privacy happens afterwards, in integers: the norm of what is added is checked, and a gradient that is too
long, or not finite, is replaced by zero. So whatever the floats did, one example moves the sum by at most
:data:`STEPS`. ``gradients.proof.md`` has the argument, and says what is assumed of the linear algebra library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import check_count
from tacit.learn.integer_rows import Integers
from tacit.learn.torch.batch_position_check import settle
from tacit.learn.torch.examples import KINDS, Examples
from tacit.learn.torch.layer_factors import (
    LayerTap,
    LayerTaps,
    Outer,
    inner_products,
    pair_square,
    product_sum,
    products_are_single,
)
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.parameters import Parameters
from tacit.learn.torch.randomness import RowRandomness, made_up_keys, mixed
from tacit.learn.torch.recorded_pass import RecordedPass, program_settings
from tacit.learn.torch.torch_import import Tensor, load, torch
from tacit.noise import entropy

__all__ = ["STEPS", "ExampleGradients", "ForwardPass", "GradientParts"]

#: The clip in steps of the grid: what one example adds is an integer vector of at most this norm. Noise in one number
#: is about as large, so that a finer grid would cost time and be no better.
STEPS: Final = 1 << 24
#: Steps of the grid of what goes into a layer, per unit; what comes back has STEPS / _INPUTS per unit of the clip.
_INPUTS: Final = 1 << 8
#: Gradients are shortened to this much below the bound, for the rounding of their float norms and that of the check.
_SLACK: Final = 2.0**-8
#: Bound on the square of a norm: far enough below STEPS² for the rounding of a float64 sum.
_LONGEST: Final = float(STEPS) ** 2 * (1 - 2.0**-9)
#: Whole numbers up to here are exact in a float64, and so are their sums in any order.
_EXACT: Final = 2.0**52
#: Rows whose sums stay below that beside those of a micro-batch: each adds at most STEPS.
_EXACT_ROWS: Final = 1 << 27
#: Numbers of a micro-batch together, unless another size is asked for.
_ROOM: Final = 1 << 24
#: The same where passes are replayed, which costs little for each of them: what is computed stays in the caches.
_SMALL_ROOM: Final = 1 << 22
#: Most recordings of a pass, as settings change.
_MOST_RECORDINGS: Final = 4
#: Numbers that are made float64 at a time, for their products: so many stay in the caches.
_DOUBLED: Final = 1 << 17
#: Fractions of multiples of this number are spread evenly.
_GOLDEN: Final = 0.6180339887498949


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
        self._spread: dict[int, Tensor] = {}
        self._singles = False
        # Kept from batch to batch: fresh memory takes longer to come by than most of what is computed in it.
        self._rooms: dict[Any, Tensor] = {}
        self.layout = Layout(micro_batch or 1, tight=False)

    def prepare(self, examples: Examples, usual: int, *, recorded: bool = False) -> None:
        """Before the first step: find layers to tap, and pack rows tightly if places are seen not to matter.

        Args:
            examples: whose form made-up rows have.
            usual: how many rows a sample has.
            recorded: whether to record the operations of a pass and replay them, if they can be.
        """
        self._looking, self._recorded, self._taps = True, None, self._survey(examples)
        self._singles = products_are_single(self._parameters.device)
        kept = (self._parameters.model, self._loss)
        for room in (_SMALL_ROOM, _ROOM) if recorded else (_ROOM,):
            # Room for a sample and then some, so that one pass is usually enough, if there is so much memory.
            wanted = usual + 2 * int(usual**0.5) + 1
            most = max(min(wanted, 1024, room // self._numbers()), 1)
            # Evenly, so that few places of the last batch stay empty.
            size = self._size or -(-wanted // -(-wanted // most))
            self._looking = True
            self.layout = settle(self._looked, kept, examples, size, usual)
            # From now on what a pass does to buffers and parameters is forgotten; until now it was looked at.
            self._looking = False
            rows = examples.made_up(self.layout.size) if recorded else None
            self._recorded = None if rows is None else self._record(rows)
            if self._recorded is not None:
                return

    def _looked(self, rows: tuple[Tensor, ...], keys: Tensor) -> tuple[Tensor, ...]:
        """Tensors computed of each row, for looking whether its place matters; of whole numbers their exact sums."""
        parts = self.floats(rows, keys)
        # Putting them on a grid overwrites the flat ones.
        found = (*parts.tensors()[:-1], parts.flat.clone())
        whole, short = self._integers(parts, keys)
        return (*found, *(each.flatten(1).sum(1) for each in whole.tensors()), short)

    def _record(self, rows: tuple[Tensor, ...]) -> RecordedPass | None:
        """The operations of a pass over made-up rows of this shape, or None where they cannot be recorded."""
        moved = tuple(each.to(self._parameters.device) for each in rows)
        self._recordings += 1
        return RecordedPass.of(self._pass_over, self._values(copied=True), moved, self._program)

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
            self._recorded = self._record(self._recorded.made_up) if again else None

    def raw_sum(self, examples: Examples, chosen: NDArray[np.intp]) -> Integers:
        """The sum of the chosen examples' integer gradients, exactly; none moves it by more than STEPS.

        Each chosen row draws a key, by which its random layers draw.
        """
        self._check_recorded()
        self._singles = products_are_single(self._parameters.device)
        keys = torch.from_numpy(entropy.current().words(len(chosen)).view(np.int64))
        total, rows, earlier = self._nothing(), 0, None
        for taken, batch, own in examples.batches(chosen, self.layout, keys):
            if rows + len(taken) > _EXACT_ROWS:
                earlier = total.to(torch.int64) if earlier is None else earlier.add_(total.to(torch.int64))
                total, rows = total.zero_(), 0
            rows += len(taken)
            self._add(total, taken, batch, own)
        whole = _as_integers(total)
        raw: Integers = (whole if earlier is None else earlier.add_(whole)).cpu().numpy()
        return raw

    def _add(self, total: Tensor, taken: Tensor, batch: tuple[Tensor, ...], keys: Tensor) -> None:
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
                    self._add(total, place, tuple(_only(each, place) for each in batch), keys)
            return
        self.add_to(total, taken, parts, keys)

    def _nothing(self) -> Tensor:
        return torch.zeros(self._parameters.dimension, dtype=torch.float64, device=self._parameters.device)

    def _room(self, name: Any, shape: Any, dtype: Any, device: Any) -> Tensor:
        """A tensor to write to; the same one whenever it is asked for by this name and form."""
        room = self._rooms.get(name)
        if room is None or room.shape != shape or room.dtype != dtype or room.device != device:
            room = self._rooms[name] = torch.empty(shape, dtype=dtype, device=device)
        return room

    def summed(self, taken: Tensor, parts: GradientParts, keys: Tensor) -> Tensor:
        """The sum of the integer gradients at the places that are taken, as int64."""
        total = self._nothing()
        self.add_to(total, taken, parts, keys)
        return total.to(torch.int64)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def add_to(self, total: Tensor, taken: Tensor, parts: GradientParts, keys: Tensor) -> None:
        """Add the integer gradients at the places that are taken to a sum: whole float64, exactly."""
        whole, short = self._integers(parts, keys)
        # What is dropped may be infinite, and an infinity times 0 is no number: it does not take part at all.
        kept = _places(taken.to(short.device), short)
        places = dict(zip(self._parameters.names, total.split(list(self._parameters.sizes.values())), strict=True))
        for tap, outer in whole.outers:
            self._add_products(places, tap, Outer(outer.inputs[kept], outer.returns[kept]))
        for tap, words, back in whole.tables:
            table = places[tap.weight].view(tap.words, tap.outputs)
            for which, vectors in zip(*(each[kept].split(_few(back)) for each in (words, back)), strict=True):
                table.index_add_(0, which.flatten(), self._doubled("returns", vectors).flatten(0, 1))
        flat, start = whole.flat[kept].sum(0), 0
        for name, count in self._flat_parts():
            places[name].add_(flat[start : start + count])
            start += count

    def _add_products(self, places: dict[str, Tensor], tap: LayerTap, chosen: Outer) -> None:
        """Add outer products and, for a bias, what came back; some examples at a time are made float64."""
        few = _few(max(chosen.inputs, chosen.returns, key=lambda each: each.numel()))
        for into, back in zip(chosen.inputs.split(few), chosen.returns.split(few), strict=True):
            some = Outer(self._doubled("inputs", into), self._doubled("returns", back))
            some.add_to(places[tap.weight])
            if tap.bias is not None:
                places[tap.bias].add_(some.returns.sum((0, 1)).flatten(), alpha=_INPUTS)

    def _doubled(self, name: str, values: Tensor) -> Tensor:
        """Values as float64, in memory that is the same for all layers."""
        if values.dtype == torch.float64:
            return values
        room = self._rooms.get(name)
        if room is None or room.numel() < values.numel() or room.device != values.device:
            room = self._rooms[name] = torch.empty(values.numel(), dtype=torch.float64, device=values.device)
        return room[: values.numel()].view(values.shape).copy_(values)

    def _integers(self, parts: GradientParts, keys: Tensor) -> tuple[GradientParts, Tensor]:
        """Whole numbers for each example, and whether they are checked to have a norm of at most STEPS together."""
        shifts = _shifts(keys.to(parts.flat.device))
        # Inputs first: the norms that gradients are shortened by are those with the inputs that will be used.
        inputs = [self._whole((0, tap.weight), outer.inputs, float(_INPUTS), shifts) for tap, outer in parts.outers]
        pairs = [_pairs(tap, each, self._single(tap)) for each, (tap, _) in zip(inputs, parts.outers, strict=True)]
        square = _squares(parts.flat)
        for (_, outer), pair in zip(parts.outers, pairs, strict=True):
            square += product_sum(inner_products(outer.returns), pair) / _INPUTS**2
        for _, words, back in parts.tables:
            square += pair_square(words, back)
        norms = square.sqrt_()
        aim = self._aim(pairs, parts) / norms.clamp(min=self._clip)
        small = (aim / _INPUTS).to(parts.flat.dtype)[:, None, None, None]
        returns = [self._whole((1, tap.weight), outer.returns, small, shifts) for tap, outer in parts.outers]
        outers = [(tap, Outer(*pair)) for (tap, _), *pair in zip(parts.outers, inputs, returns, strict=True)]
        tables = [
            (tap, words, (back * aim.to(back.dtype)[:, None, None]).round_()) for tap, words, back in parts.tables
        ]
        flat = parts.flat.mul_(aim.to(parts.flat.dtype)[:, None]).to(torch.int32)
        whole = GradientParts(outers, tables, flat)
        finite = torch.isfinite(norms)
        short = self._short(whole, pairs, single=True)
        if bool((finite & ~short).any()):
            # The check in float32 allows for more rounding, and may be too strict where positions nearly cancel.
            pairs = [_pairs(tap, outer.inputs, single=False) for tap, outer in whole.outers]
            short |= self._short(whole, pairs, single=False)
        return whole, finite & short

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
        shifted = shifts.to(values.dtype).reshape(-1, *(1,) * (values.dim() - 1))
        added = self._room(name, values.shape, values.dtype, values.device)
        torch.add(spread.reshape(1, *values.shape[1:]), shifted, out=added).frac_()
        added = added.add_(values, alpha=scale) if isinstance(scale, float) else added.addcmul_(values, scale)
        return added.floor_()

    def _aim(self, pairs: list[Tensor], parts: GradientParts) -> Tensor:
        """The norm to shorten to, in steps: below the bound by what rounding of returns may add."""
        across, along = torch.zeros(2, len(parts.flat), dtype=torch.float64, device=parts.flat.device)
        for (tap, _), pair in zip(parts.outers, pairs, strict=True):
            length = pair.diagonal(dim1=2, dim2=3).double().sum((1, 2))
            along += length
            across += length * (tap.outputs * 0.375)
        bound = float(STEPS) * (1 - _SLACK)
        # Each number is off by less than 1, with a standard deviation of at most a half; four of them are allowed for.
        # A row of inputs so large that this is not enough is mostly dropped, by its own doing.
        return ((bound**2 - across).clamp_(min=bound**2 / 4).sqrt_() - 2 * along.sqrt_()).clamp_(min=bound / 2)

    def _short(self, whole: GradientParts, pairs: list[Tensor], *, single: bool) -> Tensor:
        """Whether the norm is at most STEPS, and every sum of products is exact: rounding is allowed for.

        Args:
            whole: the whole numbers.
            pairs: inner products of the inputs of outer products, in the type to compute in.
            single: whether float32 will do for tables.
        """
        square, most = _squares(whole.flat), _EXACT / self.layout.size
        fits = torch.ones_like(square, dtype=torch.bool)
        for (tap, outer), pair in zip(whole.outers, pairs, strict=True):
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
        return fits & (square <= _LONGEST)

    def floats(self, batch: tuple[Tensor, ...], keys: Tensor) -> GradientParts:
        """The gradients as they come."""
        moved, keys = tuple(each.to(self._parameters.device) for each in batch), keys.to(self._parameters.device)
        if self._recorded is not None:
            found = self._recorded.run(self._values(copied=self._recorded.writes), moved, keys)
        else:
            found = _detached(self._pass_over(self._values(copied=True), moved, keys))
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
        nudges = {tap.weight: _zeros(tap, held[tap.weight]) for tap in self._taps}
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
        flat = [direct[name].reshape(count, -1) for name, _ in self._flat_parts()]
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

    def _flat_parts(self) -> list[tuple[str, int]]:
        """Names and sizes of the parameters whose gradients are materialised, in order."""
        hidden = {name for tap in self._taps if not tap.materialised for name in tap.parameters}
        return [(name, size) for name, size in self._parameters.sizes.items() if name not in hidden]

    def _numbers(self) -> int:
        """Count of numbers that one example needs at a time."""
        return sum(tap.numbers for tap in self._taps) + sum(size for _, size in self._flat_parts())


def _widened(values: Tensor) -> Tensor:
    """Numbers of half a word as float32, before they are put on a grid; words and all others as they are."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def _detached(values: list[Tensor]) -> list[Tensor]:
    # A network may hold tensors that want gradients and are not trained.
    return [value.detach() for value in values]


def _places(taken: Tensor, short: Tensor) -> Any:
    """The places that are taken and short; as a slice where these are the first ones, so that nothing is copied."""
    kept = taken[short[taken]]
    count = len(kept)
    first = bool((kept == torch.arange(count, device=kept.device)).all())
    return slice(0, count) if first else kept


def _only(rows: Tensor, place: Tensor) -> Tensor:
    kept = torch.zeros_like(rows)
    kept[place.to(rows.device)] = rows[place.to(rows.device)]
    return kept


def _few(values: Tensor) -> int:
    """Count of examples that are made float64 together; at least as many as keep a matrix product busy."""
    each = max(values[0].numel(), 1) if len(values) else 1
    positions = max(values.shape[1], 1)
    return int(max(_DOUBLED // each, -(-256 // positions), 1))


def _pairs(tap: LayerTap, inputs: Tensor, single: bool) -> Tensor:
    """Inner products of what goes into a layer, with the constant of its bias."""
    return inner_products(inputs if single else inputs.double(), _INPUTS**2 if tap.bias is not None else 0.0)


def _rounding(tap: LayerTap, dtype: Any) -> float:
    """Bound on what rounding adds to the square of a norm, beside (Σ ‖input‖·‖return‖)²; see the proof."""
    added = tap.groups * tap.positions * torch.finfo(torch.float64).eps
    return float((2 * tap.positions + tap.inputs + tap.outputs + 8) * torch.finfo(dtype).eps + added)


def _zeros(tap: LayerTap, like: Tensor) -> Tensor:
    return torch.zeros(tap.output, dtype=like.dtype, device=like.device)


def _as_integers(total: Tensor) -> Tensor:
    """Whole float64 as int64, written over them."""
    integers = total.view(torch.int64)
    for piece, whole in zip(total.split(_DOUBLED), integers.split(_DOUBLED), strict=True):
        whole.copy_(piece.to(torch.int64))
    return integers


def _squares(flat: Tensor) -> Tensor:
    """The square of each row's norm, as float64; in pieces, because float64 may take twice the memory of all rows."""
    total = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
    for piece in flat.split(1 << 12, dim=1):
        total += piece.double().square_().sum(1)
    return total


def _shifts(keys: Tensor) -> Tensor:
    """A uniform number in [0, 1) for each row."""
    return (mixed(keys) & ((1 << 52) - 1)).double() * 2.0**-52
