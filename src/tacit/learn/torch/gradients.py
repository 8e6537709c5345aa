"""Per-example gradients as integers of bounded norm, and their exact sum: for any network.

The gradient of one example is computed in floats by ``torch.func`` (one example per lane of ``vmap``, so no layer can
see another), shortened to the clip, and cut down to a public grid. The part that counts for privacy happens
afterwards, in integers: the norm of what is added is checked exactly, and a gradient that is too long, or not finite,
is replaced by zero. So whatever the floats did, one example moves the sum by at most :data:`STEPS`.
``gradients.proof.md`` has the argument, and says what is assumed of the linear algebra library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.integer_rows import Integers
from tacit.learn.torch.batch_position_check import settle
from tacit.learn.torch.examples import Examples
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.parameters import Parameters
from tacit.learn.torch.randomness import RowRandomness
from tacit.learn.torch.torch_import import Tensor, load, torch
from tacit.noise import entropy

__all__ = ["LONGEST", "SLACK", "STEPS", "PerExample", "RowSums"]

#: The clip in steps of the grid: what one example adds is an integer vector of at most this norm.
STEPS: Final = 1 << 30
#: Gradients are shortened to this much below the bound, for the rounding of their float norms.
SLACK: Final = 2.0**-9
#: Bound on the square of a norm: far enough below STEPS² for the rounding of a float64 sum.
LONGEST: Final = float(STEPS) ** 2 * (1 - 2.0**-9)


class RowSums(ABC):
    """Sums of integers that each belong to one row, over micro-batches; what a row adds is its own affair."""

    layout: Layout
    _parameters: Parameters

    @abstractmethod
    def summed(self, taken: Tensor, batch: tuple[Tensor, ...], keys: Tensor) -> Tensor:
        """The sum over the places that are taken, as int64."""

    def raw_sum(self, examples: Examples, chosen: NDArray[np.intp]) -> Integers:
        """The sum of the chosen examples' integer gradients, exactly; none moves it by more than STEPS.

        Each chosen row draws a key, by which its random layers draw.
        """
        keys = torch.from_numpy(entropy.current().words(len(chosen)).view(np.int64))
        total = torch.zeros(self._parameters.dimension, dtype=torch.int64, device=self._parameters.device)
        for taken, batch, own in examples.batches(chosen, self.layout, keys):
            total += self._added(taken, batch, own)
        raw: Integers = total.cpu().numpy()
        return raw

    def _added(self, taken: Tensor, batch: tuple[Tensor, ...], keys: Tensor) -> Tensor:
        """Sum of a batch; if it raises, of its rows one by one, and nothing for those that raise.

        A class that the network has no output for, a word outside of the table: which rows hold such values is not to
        be seen by an error, nor may it take the other rows with it.
        """
        try:
            return self.summed(taken, batch, keys)
        except (MemoryError, torch.OutOfMemoryError):
            # That is up to the shape of a batch, which is always the same.
            raise
        except Exception:
            total = torch.zeros(self._parameters.dimension, dtype=torch.int64, device=self._parameters.device)
            if len(taken) == 1:
                return total
            for place in taken.split(1):
                # The same shape and the same place as before, so the same bits.
                alone = tuple(_only(each, place) for each in batch)
                total += self._added(place, alone, keys)
            return total


def _only(rows: Tensor, place: Tensor) -> Tensor:
    kept = torch.zeros_like(rows)
    kept[place.to(rows.device)] = rows[place.to(rows.device)]
    return kept


class PerExample(RowSums):
    """The gradients of a loss with respect to some parameters of a model, example by example.

    Args:
        parameters: what is trained.
        loss: of the model's output and the targets, for a batch of one.
        clip: the norm that gradients are shortened to.
        micro_batch: how many examples are looked at together; this changes memory and speed and nothing else.
    """

    def __init__(self, parameters: Parameters, loss: Callable[..., Any], clip: float, micro_batch: int) -> None:
        self._parameters, self._loss, self._clip = parameters, loss, clip
        self.layout = Layout(micro_batch, tight=False)
        func = load("torch.func")
        self._call = func.functional_call
        # Randomness that bypasses RowRandomness is refused by PyTorch itself.
        self._gradient = func.vmap(func.grad(self._one), in_dims=(None, None, 0, 0), randomness="error")
        self._looking = True

    def prepare(self, examples: Examples, usual: int) -> None:
        """Before the first step: pack rows tightly if places are seen not to matter, for samples of ``usual`` rows."""
        size = self.layout.size
        kept = (self._parameters.model, self._loss)
        self.layout = settle(lambda rows, keys: (self.floats(rows, keys),), kept, examples, size, usual)
        # From now on what a pass does to buffers and parameters is forgotten; until now it was looked at.
        self._looking = False

    def summed(self, taken: Tensor, batch: tuple[Tensor, ...], keys: Tensor) -> Tensor:
        """See the base class."""
        return self.integers(batch, keys)[taken].sum(0)

    def integers(self, batch: tuple[Tensor, ...], keys: Tensor) -> Tensor:
        """One integer vector per example, checked to have a norm of at most STEPS."""
        flat = self.floats(batch, keys)
        # In pieces, because a float32 stops growing after some millions of equal terms.
        pieces = [torch.linalg.vector_norm(piece, dim=1) for piece in flat.split(1 << 16, dim=1)]
        norms = torch.linalg.vector_norm(torch.stack(pieces), dim=0)
        whole = flat.mul_((STEPS * (1 - SLACK) / norms.clamp(min=self._clip))[:, None]).to(torch.int32)
        # Here pieces save memory: float64 takes twice that of all gradients.
        square = sum(piece.double().square_().sum(1) for piece in whole.split(1 << 12, dim=1))
        short = (square <= LONGEST) & torch.isfinite(norms)
        return whole if bool(short.all()) else whole.masked_fill_(~short[:, None], 0)

    def floats(self, batch: tuple[Tensor, ...], keys: Tensor) -> Tensor:
        """The gradients as they come, one row per example."""
        moved = tuple(each.to(self._parameters.device) for each in batch)
        try:
            others = {} if self._looking else self._parameters.others()
            found = self._gradient(self._parameters.detached(), others, moved, keys.to(self._parameters.device))
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
        joined = torch.cat([found[name].reshape(len(moved[0]), -1) for name in self._parameters.names], dim=1)
        return joined if joined.dtype == torch.float64 else joined.float()

    def _one(
        self, parameters: dict[str, Tensor], others: dict[str, Tensor], example: tuple[Tensor, ...], key: Tensor
    ) -> Tensor:
        with RowRandomness(key):
            output = self._call(self._parameters.model, parameters | others, (example[0].unsqueeze(0),))
            return self._loss(output, *(each.unsqueeze(0) for each in example[1:])).sum()
