"""Training rows in micro-batches of one fixed shape.

The shape is always the same, whatever the size of a sample, because linear algebra libraries round a row's result
differently in batches of different shapes: without this one person more or less would change the last bits of
every gradient (see ``gradients.proof.md``). Places that are left empty are filled with zeros.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.row_readers import RowReaders, read_row
from tacit.learn.torch.torch_import import Tensor, torch
from tacit.learn.torch.unsupported_layers import check_data

#: Shape and type of one part of a row.
Form = tuple[tuple[int, ...], Any]
#: Kinds of made-up numbers.
KINDS: Final = 3
#: Rows of a dataset whose form is looked at; most of them decide, so that one does not.
_LOOKED_AT: Final = 3


class Examples:
    """Tensors with one row per example, or a dataset with ``len()`` and an index.

    Args:
        data: the tensors (features and targets, as the loss takes them), or one dataset of such tuples.
        workers: processes that read the rows of a dataset, while the examples are entered.
    """

    def __init__(self, data: tuple[Any, ...], workers: int = 0) -> None:
        check_data(data)
        arrays = tuple(torch.from_numpy(np.asarray(each)) if isinstance(each, np.ndarray) else each for each in data)
        if len(arrays) == 1 and isinstance(arrays[0], torch.utils.data.TensorDataset):
            arrays = tuple(arrays[0].tensors)
        self._dataset = None if all(isinstance(each, torch.Tensor) for each in arrays) else _dataset(arrays)
        self._tensors = arrays if self._dataset is None else ()
        if self._tensors and len({len(each) for each in self._tensors}) > 1:
            # Two lengths that differ are a mistake of the program, whatever they are; neither is named.
            raise InputError("data", "must have one entry per row in every tensor; the numbers of rows differ")

        self._workers = workers if self._dataset is not None else 0
        self._readers: RowReaders | None = None

    def __enter__(self) -> Examples:
        if self._workers:
            self._readers = RowReaders(self._dataset, self._workers)
        return self

    def __exit__(self, *_: object) -> None:
        # Without a reference to them the worker processes end.
        self._readers = None

    def __len__(self) -> int:
        return len(self._tensors[0]) if self._dataset is None else len(self._dataset)

    def made_up(self, size: int, kind: int = 0) -> tuple[Tensor, ...] | None:
        """Public rows of the same shape and kind, for looking at a model before any data is seen.

        None for a dataset without rows, whose form is not known. A tensor's form is known without any. There are
        :data:`KINDS` kinds of made-up numbers, since not every loss takes all of them.
        """
        return None if self.form is None else made_up_rows(self.form, size, kind)

    def batches(
        self, chosen: NDArray[np.intp], layout: Layout, keys: Tensor
    ) -> Iterator[tuple[Any, tuple[Tensor, ...], Tensor]]:
        """The chosen rows in batches of one shape, which places of each are taken, and the keys at all places.

        A row of a dataset that cannot be read, or has another form than rows have, is left out: it counts for nothing.
        """
        planned = list(layout.batches(np.arange(len(chosen), dtype=np.intp)))
        if self._dataset is None:
            for members, places in planned:
                taken, own = torch.from_numpy(places), keys[torch.from_numpy(members)]
                index = torch.from_numpy(chosen[members])
                batch = tuple(_gathered(each, index, taken, layout.size) for each in self._tensors)
                yield taken, batch, _placed(own, taken, layout.size)
            return
        wanted = [chosen[members].tolist() for members, _ in planned]
        for (members, places), (read, good) in zip(planned, self._taken(wanted), strict=True):
            taken, own = torch.from_numpy(places[good]), keys[torch.from_numpy(members[good])]
            if len(taken):
                yield taken, tuple(_placed(each, taken, layout.size) for each in read), _placed(own, taken, layout.size)

    @cached_property
    def form(self) -> tuple[Form, ...] | None:
        """Shape and type of each part of a row, which are public; of a dataset what most of the first rows have."""
        if self._dataset is None:
            return tuple((tuple(each.shape[1:]), each.dtype) for each in self._tensors)
        forms = [_form_of(self._row(place)) for place in range(min(len(self._dataset), _LOOKED_AT))]
        known = Counter(form for form in forms if form is not None)
        return max(known, key=lambda form: known[form]) if known else None

    def _row(self, place: int) -> tuple[Tensor, ...] | None:
        return read_row(self._dataset, place)

    def _taken(self, wanted: list[list[int]]) -> Iterator[tuple[tuple[Tensor, ...], list[int]]]:
        """The rows of one batch after the other, and which of these could be read."""
        if self._readers is None:
            for places in wanted:
                yield self._joined([self._row(place) for place in places])
        else:
            yield from map(self._joined, self._readers.read(wanted))

    def _joined(self, rows: list[tuple[Tensor, ...] | None]) -> tuple[tuple[Tensor, ...], list[int]]:
        good = [i for i, row in enumerate(rows) if row is not None and _form_of(row) == self.form]
        read = [row for i in good if (row := rows[i]) is not None]
        return tuple(torch.stack(column) for column in zip(*read, strict=True)), good


def made_up_rows(form: tuple[Form, ...], size: int, kind: int = 0) -> tuple[Tensor, ...]:
    """Public rows of a form."""
    return tuple(_made_up(shape, dtype, size, kind) for shape, dtype in form)


def _form_of(row: tuple[Tensor, ...] | None) -> tuple[Form, ...] | None:
    return None if row is None else tuple((tuple(part.shape), part.dtype) for part in row)


def _dataset(data: tuple[Any, ...]) -> Any:
    if len(data) == 1 and hasattr(data[0], "__getitem__") and hasattr(data[0], "__len__"):
        return data[0]
    raise InputError("data", "must be tensors with one row per example, or one dataset with len() and an index")


def _gathered(rows: Tensor, index: Tensor, places: Tensor, size: int) -> Tensor:
    """The rows of an index at their places, and zeros at all others; written once."""
    gathered, count = rows.new_empty((size, *rows.shape[1:])), len(places)
    source, wanted = rows.detach(), index.to(rows.device)
    if count and int(places[-1]) == count - 1:
        # Increasing places whose last is the count are the first ones.
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
    """Numbers that depend on the shape alone; whole ones are 0 or 1, which every table of classes or words holds."""
    count = size * math.prod(shape)
    if dtype.is_floating_point:
        waves = torch.arange(count, dtype=torch.float32).mul_(1.7).sin_()
        made = waves if kind == 0 else waves.abs_() if kind == 1 else waves.gt_(0)
        return made.reshape((size, *shape)).to(dtype)
    return torch.arange(count).remainder_(3).eq_(1).reshape((size, *shape)).to(dtype)
