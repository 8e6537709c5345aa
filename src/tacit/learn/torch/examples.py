"""Rows to train on, handed out in micro-batches of one fixed shape.

The shape is always the same, whatever the size of a sample, because linear algebra libraries round a row's result
differently in batches of different shapes: without this one person more or less would change the last bits of
everybody's gradient (see ``gradients.proof.md``). Places that are left empty are filled with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.library import Tensor, torch
from tacit.learn.torch.refusals import check_data

__all__ = ["Examples"]


class Examples:
    """Tensors with one row per example, or a dataset with ``len()`` and an index.

    Args:
        data: the tensors (features and targets, as the loss takes them), or one dataset of such tuples.
    """

    def __init__(self, data: tuple[Any, ...]) -> None:
        check_data(data)
        arrays = tuple(torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in data)
        if len(arrays) == 1 and isinstance(arrays[0], torch.utils.data.TensorDataset):
            arrays = tuple(arrays[0].tensors)
        self._dataset = None if all(isinstance(each, torch.Tensor) for each in arrays) else _dataset(arrays)
        self._tensors = arrays if self._dataset is None else ()
        if self._tensors and len({len(each) for each in self._tensors}) > 1:
            # Two lengths that differ are a mistake of the program, whatever they are; neither is named.
            raise InputError("data", "must have one entry per row in every tensor; the numbers of rows differ")

    def __len__(self) -> int:
        return len(self._tensors[0]) if self._dataset is None else len(self._dataset)

    def made_up(self, size: int) -> tuple[Tensor, ...] | None:
        """Public rows of the same shape and kind, for looking at a model before any data is seen; None without rows."""
        if not len(self):
            return None
        return tuple(_made_up(each[0], size) for each in self._take([0]))

    def batches(self, chosen: NDArray[np.intp], layout: Layout) -> Iterator[tuple[Any, tuple[Tensor, ...]]]:
        """The chosen rows in batches of one shape, and which places of each are taken."""
        for rows, places in layout.batches(chosen):
            taken = torch.from_numpy(places)
            yield taken, tuple(_placed(each, taken, layout.size) for each in self._take(rows.tolist()))

    def _take(self, places: list[int]) -> tuple[Tensor, ...]:
        if self._dataset is None:
            index = torch.tensor(places)
            return tuple(each[index.to(each.device)] for each in self._tensors)
        rows = [self._dataset[place] for place in places]
        rows = [row if isinstance(row, tuple | list) else (row,) for row in rows]
        return tuple(torch.stack([torch.as_tensor(part) for part in column]) for column in zip(*rows, strict=True))


def _dataset(data: tuple[Any, ...]) -> Any:
    if len(data) == 1 and hasattr(data[0], "__getitem__") and hasattr(data[0], "__len__"):
        return data[0]
    raise InputError("data", "must be tensors with one row per example, or one dataset with len() and an index")


def _placed(rows: Tensor, places: Tensor, size: int) -> Tensor:
    if len(rows) == size:
        return rows if bool((places[1:] > places[:-1]).all()) else rows[torch.argsort(places).to(rows.device)]
    filled = rows.new_zeros((size, *rows.shape[1:]))
    filled[places.to(rows.device)] = rows
    return filled


def _made_up(example: Tensor, size: int) -> Tensor:
    """Numbers that depend on the shape alone; whole ones are 0 or 1, which every table of classes or words holds."""
    places = torch.arange(size * example.numel(), device=example.device).reshape((size, *example.shape))
    if example.is_floating_point():
        return torch.sin(places * 1.7).to(example.dtype)
    return (places % 3 == 1).to(example.dtype)
