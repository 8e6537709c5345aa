"""Looking, on made-up rows and before any data is read, whether an example's place in a micro-batch matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tacit.learn.torch.examples import Examples
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.library import Tensor, torch

__all__ = ["settle", "without_dropout"]

#: From a micro-batch of examples to what is computed of each: one tensor or several, one row per example.
Looked = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]


def settle(look: Looked, model: Any, examples: Examples, size: int, usual: int) -> Layout:
    """Tight batches of ``size`` if places do not matter in them, else scattered ones for samples of ``usual`` rows."""
    rows = examples.made_up(size)
    if size == 1 or rows is None or _same_everywhere(look, model, rows, size):
        return Layout(size, tight=True)
    # Four rows to a place on average: longer queues waste less room, wider batches save calls.
    return Layout(min(size, max(usual // 4, 1)), tight=False)


def _same_everywhere(look: Looked, model: Any, rows: tuple[Tensor, ...], size: int) -> bool:
    """Whether rows give the same results, bit for bit, wherever they stand."""
    with without_dropout(model):
        first = look(rows)
        for shift in {1, 3, size // 2, size - 1}:
            moved = look(tuple(each.roll(shift, 0) for each in rows))
            for one, other in zip(first, moved, strict=True):
                if not torch.equal(torch.nan_to_num(one), torch.nan_to_num(other).roll(-shift, 0)):
                    return False
    return True


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """The model in evaluation mode for a moment, each layer back to its own mode afterwards."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training
