"""Check on synthetic rows whether an example's place in a micro-batch matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tacit.core.errors import InputError
from tacit.learn.torch.examples import KINDS, Examples
from tacit.learn.torch.layout import Layout
from tacit.learn.torch.randomness import made_up_keys
from tacit.learn.torch.torch_import import Tensor, torch

#: From a micro-batch of examples and their keys to what is computed of each: tensors, one row per example.
Looked = Callable[[tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]


def settle(look: Looked, kept: tuple[Any, ...], examples: Examples, size: int, usual: int) -> Layout:
    """Tight batches of ``size`` if places do not matter in them, else scattered ones for samples of ``usual`` rows.

    Args:
        look: computes what is looked at.
        kept: the network and the loss, whose buffers must stay as they are.
        examples: whose form made-up rows have.
        size: of a micro-batch.
        usual: how many rows a sample has.

    Raises:
        InputError: the network cannot be differentiated row by row, remembers earlier passes, or is random in a way
            that cannot be tied to a row. All of it shows on made-up rows, so the refusal says nothing about data.
    """
    rows = _rows_it_takes(look, examples, size)
    if rows is None or _same_everywhere(look, kept, rows, size):
        return Layout(size, tight=True)
    # Four rows to a place on average: longer queues waste less room, wider batches save calls.
    return Layout(min(size, max(usual // 4, 1)), tight=False)


def _rows_it_takes(look: Looked, examples: Examples, size: int) -> tuple[Tensor, ...] | None:
    """The first kind of made-up rows that network and loss can take."""
    for kind in range(KINDS):
        rows = examples.made_up(size, kind)
        if rows is None:
            return None
        try:
            look(rows, made_up_keys(size))
        except InputError:
            raise
        except Exception as problem:
            if kind == KINDS - 1:
                said = f"{type(problem).__name__}: {problem}"
                raise InputError("model", f"cannot take rows of this shape and type, made-up ones; {said}") from problem
        else:
            return rows
    return None


def _same_everywhere(look: Looked, kept: tuple[Any, ...], rows: tuple[Tensor, ...], size: int) -> bool:
    """Whether rows give the same results, bit for bit, wherever they stand."""
    keys, before = made_up_keys(size), {name: buffer.clone() for name, buffer in _buffers(kept).items()}
    first = look(rows, keys)
    for name, buffer in _buffers(kept).items():
        if name not in before or not torch.equal(buffer, before[name]):
            raise InputError("model", f"changes its buffer {name} in every pass, and so counts batches or keeps rows")
    if not _alike(first, look(rows, keys), 0):
        raise InputError(
            "model",
            "gives other gradients for the same rows at the second time: it remembers, or draws random numbers that "
            "PyTorch does not know of; use torch.nn.Dropout or torch.rand",
        )
    shifts = {1, 3, size // 2, size - 1} if size > 1 else ()
    return all(
        _alike(first, look(tuple(each.roll(shift, 0) for each in rows), keys.roll(shift, 0)), shift) for shift in shifts
    )


def _buffers(kept: tuple[Any, ...]) -> dict[str, Tensor]:
    """Buffers that a network, and a loss that is a module, carry from one pass to the next."""
    return {name: each for one in kept if isinstance(one, torch.nn.Module) for name, each in one.named_buffers()}


def _alike(first: tuple[Tensor, ...], moved: tuple[Tensor, ...], shift: int) -> bool:
    """Whether rows that were moved by so many places gave the same bits; compared in place, without copies."""
    return all(
        same_values(one[: len(one) - shift], other[shift:]) and same_values(one[len(one) - shift :], other[:shift])
        for one, other in zip(first, moved, strict=True)
    )


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, a NaN counting as equal to a NaN."""
    return bool(torch.equal(one, other) or torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))


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
