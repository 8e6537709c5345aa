"""Exhibits: fits in which one row decides errors, label types or other rows' masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from audit.museum.exhibit import Piece
from tacit.audit.replay import ReplayReport
from tacit.audit.search import Neighbours, replay_neighbours
from tacit.core.errors import InternalError
from tacit.mechanisms.gaussian import Gaussian

#: As many rows as the solver was proven for.
_MOST = 6
_LABELS: tuple[Any, ...] = (0, 1, 1, 0, 1, 1)
#: Largest contribution of a row, in steps.
_UNIT = 64
_GRADIENTS = (40, -30, 64, -64, 20, 50)


def _noisy(total: int) -> int:
    return Gaussian.from_rho(rho="1/2", l2_sensitivity=_UNIT, whole=True).release(total)


def limited(labels: Sequence[Any]) -> int:
    """A fit that gives up where its proof of accuracy ends: at a number of rows."""
    if len(labels) > _MOST:
        raise InternalError("the minimiser was not found to the accuracy that the guarantee needs; nothing is released")
    return unlimited(labels)


def unlimited(labels: Sequence[Any]) -> int:
    """Corrected: an error bound that holds for any number of rows."""
    return _noisy(sum(_UNIT for label in labels if label == 1))


def typed_by_all(labels: Sequence[Any]) -> int:
    """A fit that has NumPy find one type for the labels of all rows."""
    return _noisy(sum(_UNIT for label in np.asarray(labels).tolist() if label == 1))


def typed_one_by_one(labels: Sequence[Any]) -> int:
    """Sum labels without unifying their types first."""
    return _noisy(sum(_UNIT for label in labels if label == 1))


def masked_by_place(gradients: Sequence[int]) -> int:
    """A step of training with dropout: one stream of coins for the batch, so that coins follow places."""
    coins = _stream(len(gradients))
    return _noisy(sum(gradient for gradient, coin in zip(gradients, coins, strict=True) if coin))


def masked_by_row(gradients: Sequence[int]) -> int:
    """Corrected: coins that belong to the row, independent of other rows."""
    return _noisy(sum(gradient for gradient in gradients if _stream(abs(gradient) + 1)[-1]))


def _stream(count: int) -> list[bool]:
    """A public stream of coins, as a generator with a seed gives them: what matters is whose coin is whose."""
    state, coins = 2463534242, []
    for _ in range(count):
        state ^= (state << 13) & 0xFFFFFFFF
        state ^= state >> 17
        state ^= (state << 5) & 0xFFFFFFFF
        coins.append(bool(state >> 16 & 1))
    return coins


def _pairs(rows: Sequence[Any], extra: Sequence[Any]) -> list[Neighbours]:
    """Each row taken away, and each of some strange rows added at the end."""
    listed = list(rows)
    less = [Neighbours(f"without row {i}", listed, listed[:i] + listed[i + 1 :]) for i in range(len(listed))]
    more = [Neighbours(f"with {row!r}", listed, [*listed, row]) for row in extra]
    return [*less, *more]


def _on_labels(function: Callable[[Sequence[Any]], int]) -> list[ReplayReport]:
    return replay_neighbours(function, list(_LABELS), neighbours=_pairs(_LABELS, ("unknown", None, 1)))


def _on_gradients(function: Callable[[Sequence[int]], int]) -> list[ReplayReport]:
    return replay_neighbours(function, list(_GRADIENTS), neighbours=_pairs(_GRADIENTS, (_UNIT,)))


PIECES = (
    Piece(
        name="error-at-a-count",
        title="an error as a threshold on a private count",
        story="A solver was proven for so many rows, and raised an error beyond them, at any epsilon and without a "
        "charge. Whether the error came told exactly whether there was one row more; rows made up by the one who "
        "asks move the threshold to wherever it is wanted.",
        seen_in="Tacit, output and objective perturbation before this exhibit",
        tool="replay",
        flawed=lambda: _on_labels(limited),
        mended=lambda: _on_labels(unlimited),
    ),
    Piece(
        name="type-by-one-row",
        title="one label decides the type of all",
        story="Labels came as a Python list and were made an array. NumPy finds one type for all values, so that one "
        "text among numbers turned every label into text, none of which was a class any more: one row took the "
        "gradients of all others with it.",
        seen_in="Tacit, classifiers before this exhibit",
        tool="replay",
        flawed=lambda: _on_labels(typed_by_all),
        mended=lambda: _on_labels(typed_one_by_one),
    ),
    Piece(
        name="masks-by-place",
        title="dropout masks that follow the place in the batch",
        story="Clipping bounds what a row adds for a fixed mask. But masks were drawn in one stream for the batch, in "
        "order of places: without one row, every row behind it was trained with its neighbour's mask, and the "
        "sum moved by all of them.",
        seen_in="Tacit, networks with dropout before this exhibit",
        tool="replay",
        flawed=lambda: _on_gradients(masked_by_place),
        mended=lambda: _on_gradients(masked_by_row),
    ),
)
