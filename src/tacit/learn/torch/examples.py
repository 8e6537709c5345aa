"""Training rows: checks of models and data, reading of rows, and micro-batches of one fixed shape.

The shape is the same for any size of a sample, because linear algebra libraries round a row's result differently in
batches of different shapes: otherwise adding one person would change the last bits of every gradient (see
``gradients.proof.md``). Empty places are filled with zeros, and rows are packed tightly only if a row's place in a
micro-batch was observed not to affect its result (``recorded_pass.py``). Otherwise the place of each row is drawn
independently, so that it stays the same if another row is added or removed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.torch.torch_import import Tensor, torch
from tacit.noise import entropy

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Layout:
    """Micro-batches of ``size`` places, filled from the first on if ``tight``, otherwise at random places."""

    size: int
    tight: bool

    def batches(self, chosen: Places) -> Iterator[tuple[Places, Places]]:
        """Yield the chosen rows of each batch, and their places in it."""
        return self._tight(chosen) if self.tight else self._scattered(chosen)

    def _tight(self, chosen: Places) -> Iterator[tuple[Places, Places]]:
        for start in range(0, len(chosen), self.size):
            rows = chosen[start : start + self.size]
            yield rows, np.arange(len(rows))

    def _scattered(self, chosen: Places) -> Iterator[tuple[Places, Places]]:
        """Draw a place for each row; rows with equal places go to consecutive batches.

        An additional row moves the following rows of its place to later batches, at the same place.
        """
        places = (entropy.current().words(len(chosen)) % np.uint64(self.size)).astype(np.intp)
        order = np.argsort(places, kind="stable")
        rows, places = chosen[order], places[order]
        turn = np.arange(len(rows)) - np.searchsorted(places, places)
        for batch in range(int(turn.max(initial=-1)) + 1):
            yield rows[turn == batch], places[turn == batch]


_BATCH_NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)
_REMEDY = "use torch.nn.GroupNorm(…) or torch.nn.LayerNorm(…) instead"


def check_model(model: Any, optimizer: Any) -> None:
    """Refuse models whose layers mix examples, unsuitable optimizers, and objects wrapped by Opacus."""
    if not isinstance(model, torch.nn.Module):
        raise InputError("model", f"must be a torch.nn.Module, not {type(model).__name__}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError("optimizer", f"must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
    for name, thing in (("model", model), ("optimizer", optimizer)):
        if type(thing).__module__.partition(".")[0] == "opacus":
            raise InputError(name, "is wrapped by Opacus already; give the plain one, which Tacit clips and noises")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InputError("optimizer", "LBFGS reads the loss several times per step; use SGD or Adam")
    for path, layer in model.named_modules():
        problem = _mixes(layer)
        if problem:
            raise InputError("model", f"layer {path or 'at the top'} ({type(layer).__name__}) {problem}; {_REMEDY}")
        if getattr(layer, "max_norm", None) is not None:
            raise InputError(
                "model",
                f"layer {path or 'at the top'} ({type(layer).__name__}) has max_norm: the words of a row shorten "
                "weights without noise; leave it out",
            )
        if isinstance(layer, torch.nn.RNNBase) and layer.dropout:
            raise InputError(
                "model",
                f"layer {path or 'at the top'} ({type(layer).__name__}) draws masks that follow a row's place in the "
                "batch; set its dropout to 0 and put torch.nn.Dropout(…) between layers",
            )


def _mixes(layer: Any) -> str:
    """Return the reason why this layer lets examples affect each other's gradients; empty if it does not."""
    if isinstance(layer, _BATCH_NORMS):
        return "normalises each example by the others in its batch"
    if getattr(layer, "track_running_stats", False):
        return "keeps statistics of the examples it saw"
    return ""


def trained_parameters(model: Any, optimizer: Any) -> dict[str, Any]:
    """Return the optimizer's parameters by name; refuse parameters that are not trainable ones of the model."""
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    known = {id(parameter) for parameter in named.values()}
    given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if not given <= known:
        raise InputError("optimizer", "holds parameters that are not trainable ones of the model")
    chosen = {name: parameter for name, parameter in named.items() if id(parameter) in given}
    if not chosen:
        raise InputError("optimizer", "holds no parameter of the model; write torch.optim.SGD(model.parameters(), …)")
    if not all(parameter.is_floating_point() for parameter in chosen.values()):
        raise InputError("model", "has trainable parameters that are not real numbers")
    return chosen


def check_data(data: tuple[Any, ...]) -> None:
    """Refuse loaders and samplers: the privacy accounting holds for the trainer's Poisson samples only."""
    if not data:
        raise InputError("data", "is missing; write fit(X, y) with tensors, or fit(dataset)")
    for each in data:
        if isinstance(each, np.ma.MaskedArray) or hasattr(each, "iloc"):
            raise InputError("data", f"is a {type(each).__name__}; give tensors or arrays without gaps")
        if isinstance(each, torch.utils.data.DataLoader):
            raise InputError(
                "data",
                "is a DataLoader, whose batches are not Poisson samples; give what it reads, "
                "fit(loader.dataset): the trainer draws the rows of every step itself",
            )
        if isinstance(each, torch.utils.data.Sampler):
            raise InputError("data", "is a sampler; the trainer draws its own samples, give the tensors or the dataset")
        if isinstance(each, torch.utils.data.IterableDataset):
            raise InputError("data", "can only be read in order; a sample needs a dataset with len() and an index")


#: Shape and type of one part of a row.
Form = tuple[tuple[int, ...], Any]
#: Number of kinds of made-up numbers.
KINDS: Final = 3
#: Number of rows of a dataset whose form is read; the majority decides, so that no single row does.
_LOOKED_AT: Final = 3


class Examples:
    """Training data: tensors with one row per example, or a dataset with ``len()`` and an index.

    Args:
        data: tensors (features and targets of the loss), or one dataset of tuples of these.
    """

    def __init__(self, data: tuple[Any, ...]) -> None:
        check_data(data)
        arrays = tuple(torch.from_numpy(np.asarray(each)) if isinstance(each, np.ndarray) else each for each in data)
        if len(arrays) == 1 and isinstance(arrays[0], torch.utils.data.TensorDataset):
            arrays = tuple(arrays[0].tensors)
        self._dataset = None if all(isinstance(each, torch.Tensor) for each in arrays) else _dataset(arrays)
        self._tensors = arrays if self._dataset is None else ()
        if self._tensors and len({len(each) for each in self._tensors}) > 1:
            # Different lengths are a mistake of the program; the message does not name them, because they are private.
            raise InputError("data", "must have one entry per row in every tensor; the numbers of rows differ")

    def __len__(self) -> int:
        return len(self._tensors[0]) if self._dataset is None else len(self._dataset)

    def made_up(self, size: int, kind: int = 0) -> tuple[Tensor, ...] | None:
        """Return made-up public rows of the same form, to test a model before any data is read.

        Return None for a dataset without readable rows, whose form is unknown. There are :data:`KINDS` kinds of made-up
        numbers, since not every loss accepts all of them.
        """
        return None if self.form is None else made_up_rows(self.form, size, kind)

    def batches(
        self, chosen: NDArray[np.intp], layout: Layout, keys: Tensor
    ) -> Iterator[tuple[Any, tuple[Tensor, ...], Tensor]]:
        """Yield, for each batch, the taken places, the chosen rows at their places, and the keys at all places.

        A row of a dataset that cannot be read, or that does not have the form of most rows, is left out.
        """
        planned = layout.batches(np.arange(len(chosen), dtype=np.intp))
        if self._dataset is None:
            for members, places in planned:
                taken, own = torch.from_numpy(places), keys[torch.from_numpy(members)]
                index = torch.from_numpy(chosen[members])
                batch = tuple(_gathered(each, index, taken, layout.size) for each in self._tensors)
                yield taken, batch, _placed(own, taken, layout.size)
            return
        for members, places in planned:
            read, good = self._joined([self._row(place) for place in chosen[members].tolist()])
            taken, own = torch.from_numpy(places[good]), keys[torch.from_numpy(members[good])]
            if len(taken):
                yield taken, tuple(_placed(each, taken, layout.size) for each in read), _placed(own, taken, layout.size)

    @cached_property
    def form(self) -> tuple[Form, ...] | None:
        """Public shape and type of each part of a row; for a dataset, those of the majority of the first rows."""
        if self._dataset is None:
            return tuple((tuple(each.shape[1:]), each.dtype) for each in self._tensors)
        forms = [_form_of(self._row(place)) for place in range(min(len(self._dataset), _LOOKED_AT))]
        known = Counter(form for form in forms if form is not None)
        return max(known, key=lambda form: known[form]) if known else None

    def _row(self, place: int) -> tuple[Tensor, ...] | None:
        """Return one row of the dataset as tensors; None if it cannot be read."""
        try:
            row: Any = self._dataset[place]  # type: ignore[index]
            return tuple(torch.as_tensor(part) for part in (row if isinstance(row, tuple | list) else (row,)))
        except Exception:
            return None

    def _joined(self, rows: list[tuple[Tensor, ...] | None]) -> tuple[tuple[Tensor, ...], list[int]]:
        good = [i for i, row in enumerate(rows) if row is not None and _form_of(row) == self.form]
        read = [row for i in good if (row := rows[i]) is not None]
        return tuple(torch.stack(column) for column in zip(*read, strict=True)), good


def made_up_rows(form: tuple[Form, ...], size: int, kind: int = 0) -> tuple[Tensor, ...]:
    """Return ``size`` made-up public rows of a form."""
    return tuple(_made_up(shape, dtype, size, kind) for shape, dtype in form)


def _form_of(row: tuple[Tensor, ...] | None) -> tuple[Form, ...] | None:
    return None if row is None else tuple((tuple(part.shape), part.dtype) for part in row)


def _dataset(data: tuple[Any, ...]) -> Any:
    if len(data) == 1 and hasattr(data[0], "__getitem__") and hasattr(data[0], "__len__"):
        return data[0]
    raise InputError("data", "must be tensors with one row per example, or one dataset with len() and an index")


def _gathered(rows: Tensor, index: Tensor, places: Tensor, size: int) -> Tensor:
    """Return a tensor of ``size`` places with the rows at ``index`` at their places, and zeros elsewhere."""
    gathered, count = rows.new_empty((size, *rows.shape[1:])), len(places)
    source, wanted = rows.detach(), index.to(rows.device)
    if count and int(places[-1]) == count - 1:
        # Increasing places are the first ones if the last of them is count - 1.
        torch.index_select(source, 0, wanted, out=gathered[:count])
        gathered[count:].zero_()
        return gathered
    gathered.zero_()
    gathered[places.to(rows.device)] = source.index_select(0, wanted)
    return gathered


def _placed(rows: Tensor, places: Tensor, size: int) -> Tensor:
    if len(rows) == size:
        return rows if bool((places[1:] > places[:-1]).all()) else rows[torch.argsort(places).to(rows.device)]
    filled = rows.new_zeros((size, *rows.shape[1:]))
    filled[places.to(rows.device)] = rows
    return filled


def _made_up(shape: tuple[int, ...], dtype: Any, size: int, kind: int) -> Tensor:
    """Return numbers that depend on the shape alone; integers are 0 or 1, which are valid classes and words."""
    count = size * math.prod(shape)
    if dtype.is_floating_point:
        waves = torch.arange(count, dtype=torch.float32).mul_(1.7).sin_()
        made = waves if kind == 0 else waves.abs_() if kind == 1 else waves.gt_(0)
        return made.reshape((size, *shape)).to(dtype)
    return torch.arange(count).remainder_(3).eq_(1).reshape((size, *shape)).to(dtype)
