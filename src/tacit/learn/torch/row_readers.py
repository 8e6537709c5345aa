"""Rows of a dataset, read here or by worker processes.

Workers read the rows that they are told to, in that order; batches, samplers and seeds of a loader decide nothing about
which rows take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tacit.learn.torch.torch_import import Tensor, torch

#: One row as tensors; None if it cannot be read.
Row = tuple[Tensor, ...] | None


def read_row(dataset: Any, place: int) -> Row:
    """One row of a dataset as tensors; None if it cannot be read."""
    try:
        row = dataset[place]
        # Detached: a worker process cannot send what hangs on a graph.
        return tuple(torch.as_tensor(part).detach() for part in (row if isinstance(row, tuple | list) else (row,)))
    except Exception:
        return None


class RowReaders:
    """Worker processes that read rows of a dataset, started once and kept from step to step.

    Args:
        dataset: with ``len()`` and an index; sent to every worker.
        workers: how many, at least 1.
    """

    def __init__(self, dataset: Any, workers: int) -> None:
        self._wanted = _WantedRows()
        self._loader = torch.utils.data.DataLoader(
            _ReadableRows(dataset),
            batch_sampler=self._wanted,
            num_workers=workers,
            persistent_workers=True,
            collate_fn=_as_they_are,
        )

    def read(self, wanted: list[list[int]]) -> Iterator[list[Row]]:
        """The rows of each list of places, in order."""
        self._wanted.lists = wanted
        yield from self._loader


class _WantedRows:
    """The lists of places of the next step, as a sampler of batches."""

    def __init__(self) -> None:
        self.lists: list[list[int]] = []

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.lists)

    def __len__(self) -> int:
        return len(self.lists)


class _ReadableRows:
    """A dataset whose rows never raise."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, place: int) -> Row:
        return read_row(self._dataset, place)


def _as_they_are(rows: list[Row]) -> list[Row]:
    return rows
